"""The ``symbols`` directive: the table of the book's notation, from the table that the formulas are printed with."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import calc
from calc.symbols import SYMBOLS
from textbook.ledger import part, titled

SHARED = 3  # modules: what so many use belongs to none of them


def users() -> dict[str, list[str]]:
    """The modules whose formulas use a name: as an argument, on the way, or as their result."""
    found: dict[str, list[str]] = {name: [] for name in SYMBOLS}
    for module in pkgutil.iter_modules(calc.__path__):
        here = vars(import_module(f"calc.{module.name}")).values()
        formulas = [f for f in here if hasattr(f, "formula") and f.formula.__module__.split(".")[1] == module.name]
        used = {name for f in formulas for name in (f.__name__, *f.formula.__code__.co_varnames)}
        for name in used & set(SYMBOLS):
            found[name].append(module.name)
    return found


def groups() -> dict[str, list[str]]:
    """The names by module, in the order of the table; first those that formulas of many modules share."""
    used = users()
    alone = [modules[0] for modules in used.values() if len(modules) == 1]
    order = list(dict.fromkeys(alone + [module for modules in used.values() for module in modules]))
    found: dict[str, list[str]] = {name: [] for name in ("shared", *order)}
    for name, modules in used.items():
        if modules:
            found["shared" if len(modules) >= SHARED else min(modules, key=order.index)].append(name)
    return found


class SymbolsDirective(SphinxDirective):
    """A table for each module; names that share a symbol and a meaning share a row."""

    def run(self) -> list[nodes.Node]:
        shown: list[nodes.Node] = []
        listed: set[str] = set()
        for module, names in groups().items():
            section = part(titled(module), f"symbols-{module}", self)
            found = (SYMBOLS[name] for name in names)
            rows = [f"| {s.meaning} | ${s.latex}$ | {s.unit} |" for s in found]
            rows = [row for row in dict.fromkeys(rows) if row not in listed]
            listed.update(rows)
            table = ["| Quantity | Symbol | Unit |", "|---|---|---|", *rows]
            self.state.nested_parse(StringList(table), self.content_offset, section)
            shown.append(section)
        return shown


def setup(app: Sphinx) -> None:
    app.add_directive("symbols", SymbolsDirective)
