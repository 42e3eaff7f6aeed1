"""The book's Sphinx extension: pages, kinds of number, symbols, formulas, panels, the worksheet, the ledger, errata."""

from __future__ import annotations

from sphinx.application import Sphinx

from textbook import errata, formulas, kinds, ledger, pages, panel, symbols, worksheet


def setup(app: Sphinx) -> dict:
    for part in (pages, kinds, symbols, formulas, panel, worksheet, ledger, errata):
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
