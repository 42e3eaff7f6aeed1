"""The ``symbols`` directive: the table of the book's notation, from the library's own."""

from __future__ import annotations

from calc.working import SYMBOLS
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Symbols(SphinxDirective):
    """One row for each symbol: notation, meaning, and the names it has in code."""

    def run(self) -> list[nodes.Node]:
        by_symbol: dict[tuple[str, str], list[str]] = {}
        for name, symbol in SYMBOLS.items():
            by_symbol.setdefault((symbol.text, symbol.meaning), []).append(name)
        rows = ["| Symbol | Meaning | Unit | In code |", "|---|---|---|---|"]
        for (_, meaning), names in by_symbol.items():
            symbol = SYMBOLS[names[0]]
            code = ", ".join(f"`{name}`" for name in names)
            rows.append(f"| ${symbol.latex}$ | {meaning} | {symbol.unit or '—'} | {code} |")
        return self.parse_text_to_nodes("\n".join(rows))


def setup(app: Sphinx) -> None:
    app.add_directive("symbols", Symbols)
