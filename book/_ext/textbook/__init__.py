"""The book's Sphinx extension: pages, what they are made of, and what makes them readable offline."""

from __future__ import annotations

import gc

from sphinx.application import Sphinx

from textbook import chart, drill, errata, formulas, highlight, kinds, ledger, offline, pages, panel, symbols, worksheet


def setup(app: Sphinx) -> dict:
    gc.disable()  # looking for rings among millions of nodes takes a fifth of a build, and would free 0.4 GB
    for part in (pages, highlight, chart, kinds, symbols, formulas, panel, worksheet, drill, ledger, errata, offline):
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
