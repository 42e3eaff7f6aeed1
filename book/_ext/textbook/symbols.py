"""The ``symbols`` directive: the table of the book's notation, from the table that the formulas are printed with."""

from __future__ import annotations

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from calc.symbols import SYMBOLS


class SymbolsDirective(SphinxDirective):
    """One row for each symbol of `calc.working.SYMBOLS`; names that share a symbol and a meaning share a row."""

    def run(self) -> list[nodes.Node]:
        rows = dict.fromkeys(f"| {s.meaning} | ${s.latex}$ | {s.unit} |" for s in SYMBOLS.values())
        table = ["| Quantity | Symbol | Unit |", "|---|---|---|", *rows]
        parent = nodes.container()
        self.state.nested_parse(StringList(table), self.content_offset, parent)
        return parent.children


def setup(app: Sphinx) -> None:
    app.add_directive("symbols", SymbolsDirective)
