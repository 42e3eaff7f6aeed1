"""The book's Sphinx extension: pages, what they are made of, and what makes them readable offline."""

from __future__ import annotations

import gc
from importlib import import_module

from sphinx.application import Sphinx

PARTS = "pages highlight docstrings chart kinds symbols formulas panel worksheet drill ledger errata offline"


def setup(app: Sphinx) -> dict:
    gc.disable()  # looking for rings among millions of nodes takes a fifth of a build, and would free 0.4 GB
    for part in PARTS.split():
        import_module(f"textbook.{part}").setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
