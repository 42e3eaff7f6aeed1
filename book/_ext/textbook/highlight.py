"""Code in the few colors that the style sheet has. A mark for every name and comma is a third of a chapter's page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO

from pygments.formatters import HtmlFormatter
from pygments.token import Comment, Generic, Keyword, Number, Operator, String, Token
from sphinx.application import Sphinx
from sphinx.highlighting import PygmentsBridge

COLORS = {
    Comment: Comment,
    Keyword: Keyword,
    Operator.Word: Keyword,
    String: String,
    Number: Number,
    Generic.Prompt: Generic.Prompt,
    Generic: Generic.Output,
}


class FewMarks(HtmlFormatter):
    """Pygments' own formatter, told only what has a color; neighbors of one color then share a mark."""

    def format_unencoded(self, tokens: Iterable[tuple[Any, str]], out: TextIO) -> None:
        super().format_unencoded(((_color(kind), text) for kind, text in tokens), out)


def _color(kind: Any) -> Any:
    return next((color for of, color in COLORS.items() if kind in of), Token)


def setup(app: Sphinx) -> None:
    PygmentsBridge.html_formatter = FewMarks
