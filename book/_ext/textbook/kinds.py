"""Roles for the four kinds of number: ``{derived}`320 KiB` `` and so on for each of `calc.sources.KINDS`."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx

from calc.notebook import Mark
from calc.sources import KINDS


def mark(kind: str, text: str) -> str:
    """HTML of a marked number: an icon drawn by the style sheet, and its name for a screen reader."""
    return Mark(kind, text).html()


def kind_role(name, rawtext, text, lineno, inliner, options=None, content=None):
    """One role for all four: the name it is called by is the kind."""
    return [nodes.raw(rawtext, mark(name, text), format="html")], []


def setup(app: Sphinx) -> None:
    for kind in KINDS:
        app.add_role(kind, kind_role)
