"""The book's Sphinx extension: the page, the kinds of number, symbols, formulas, live panels, the evidence ledger."""

from __future__ import annotations

from sphinx.application import Sphinx

from textbook import errata, formulas, kinds, ledger, pages, panel, symbols


def setup(app: Sphinx) -> dict:
    for part in (pages, kinds, symbols, formulas, panel, ledger, errata):
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
