"""What a chapter's cells call to speak: prose with computed numbers, formulas shown, mistakes measured.

A chapter types no result by hand. Its sentences are f-strings given to `say`, its formulas are library
functions given to `show`, and its classic wrong answers go through `mistake`, which computes the factor.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import Any

from calc.sources import KINDS, Figure
from calc.units import CalcError, format_percent, significant
from calc.working import symbols_of, working


class Mark(str):
    """One of the four kinds of number, drawn with the kind's icon wherever it appears."""

    def __new__(cls, kind: str, text: str = "") -> Mark:
        """Mark `text` (the kind's own name if empty) as a number of that kind."""
        if kind not in KINDS:
            raise CalcError(f"kind is {kind!r}, wanted one of {', '.join(KINDS)}")
        mark = super().__new__(cls, text or kind)
        mark.kind = kind
        return mark

    def html(self) -> str:
        """The mark as HTML: the style sheet draws the icon, a screen reader hears the kind."""
        unseen = "" if self.lower() == self.kind else f'<span class="unseen">{self.kind}: </span>'
        return f'<span class="kind kind-{self.kind}" title="{KINDS[self.kind]}">{unseen}{escape(self)}</span>'


def quoted(text: str) -> str:
    """Mark a published number inside a sentence.

    Examples
    --------
    >>> 'kind-published' in quoted("8.72 ms")
    True
    """
    return Mark("published", text).html()


def measured(text: str) -> str:
    """Mark a measured number inside a sentence.

    Examples
    --------
    >>> 'kind-measured' in measured("8.72 ms")
    True
    """
    return Mark("measured", text).html()


class Prose:
    """Markdown that renders as the book's own text in a page and in a notebook."""

    def __init__(self, markdown: str) -> None:
        self.markdown = markdown

    def _repr_markdown_(self) -> str:
        return self.markdown

    def __repr__(self) -> str:
        return self.markdown


class Kept(Prose):
    """The one result of a section to keep: set apart on the page."""

    def _repr_html_(self) -> str:
        text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escape(self.markdown))
        return f'<p class="keep">{text}</p>'


class Table:
    """A small table of text, the same in every chapter.

    Parameters
    ----------
    columns : tuple of str
        Headings.
    rows : list of tuple
        Text cells. The first one heads its row; a cell may be a `Mark`.
    caption : str
        What the table shows, and where its numbers come from.
    """

    def __init__(self, columns: tuple[str, ...], rows: list[tuple[str, ...]], caption: str) -> None:
        self.columns, self.rows, self.caption = columns, rows, caption

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{escape(c)}</th>' for c in self.columns)
        body = "".join(f"<tr>{_cells(row)}</tr>" for row in self.rows)
        caption = f"<caption>{escape(self.caption)}</caption>"
        return f'<table class="calc-table">{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'

    def __repr__(self) -> str:
        return "\n".join(" | ".join(row) for row in (self.columns, *self.rows))


def _cells(row: tuple[str, ...]) -> str:
    first, *rest = (cell.html() if isinstance(cell, Mark) else escape(str(cell)) for cell in row)
    return f'<th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in rest)


def keep(text: str) -> Kept:
    """The result of a section that the reader should take away; ``**bold**`` is the only markup."""
    return Kept(text)


def say(markdown: str) -> Prose:
    """Text whose numbers were computed: put it last in a cell tagged ``remove-input``."""
    return Prose(markdown)


def where(*functions: Callable, names: dict[str, str] | None = None) -> Prose:
    """Say what the symbols of formulas, with `names` as `show` takes them, stand for: put it last in a cell."""
    symbols = {symbol.text: symbol for function in functions for symbol in symbols_of(function, names=names)}
    return Prose("Symbols: " + "; ".join(f"${s.latex}$ {s.meaning}" for s in symbols.values()) + ".")


def show(function: Callable, *, names: dict[str, str] | None = None, **arguments: Any) -> Any:
    """Display a formula as symbols, numbers and result, and return the result.

    Parameters
    ----------
    function : callable
        A library formula.
    names : dict or None
        Argument or result → the name whose symbol stands for it here.
    **arguments
        Plain numbers in base units.

    Returns
    -------
    number
        The value, in base units.
    """
    from IPython.display import display

    shown = working(function, names=names, **arguments)
    display(shown)
    return shown.value


def assumption_table(rows: list[tuple[str, str, str, str]]) -> Table:
    """Table of a chapter's assumptions.

    Parameters
    ----------
    rows : list of (name, value, kind, source)
        `kind` is a key of `calc.sources.KINDS`.

    Raises
    ------
    CalcError
        If a kind is unknown.
    """
    marked = [(name, value, Mark(kind), source) for name, value, kind, source in rows]
    return Table(("Quantity", "Value", "Kind", "Source"), marked, "What this chapter assumes")


def figure_row(name: str, figure: Figure, text: str) -> tuple[str, str, str, str]:
    """One row of `assumption_table` from a sourced figure."""
    dated = f", checked {figure.checked}" if figure.checked else ""
    return name, text, figure.kind, figure.source + dated


def times(wrong: float, right: float, *, counted: bool = False) -> str:
    """Say how far off a wrong value is: too much, or too many where things are `counted`.

    Examples
    --------
    >>> times(8, 1), times(1, 2), times(3, 3), times(107, 100)
    ('8× too much', '2× too little', 'no difference here', '7% too much')
    """
    if wrong <= 0 or right <= 0:
        raise CalcError(f"cannot compare {wrong} with {right}: both must be above 0")
    ratio = max(wrong / right, right / wrong)
    if ratio < 1.0005:
        return "no difference here"
    size = f"{significant(ratio, 3)}×" if ratio >= 1.5 else format_percent(abs(wrong / right - 1), 2)
    more, less = ("many", "few") if counted else ("much", "little")
    return f"{size} too {more if wrong > right else less}"


def mistake(
    name: str, *, wrong: float, right: float, shown: str, text: str, threads: dict[str, str], counted: bool = False
) -> Prose:
    """A classic wrong answer with the factor it is off by.

    Parameters
    ----------
    name : str
        What people do, as a short clause.
    wrong, right : float
        Both results, in the same unit.
    shown : str
        The wrong result as text with its unit.
    text : str
        Why it is wrong, and when the mistake hides.
    threads : dict
        Title → address of public threads where it happened.
    counted : bool
        Whether the results count things: "too many" instead of "too much".
    """
    links = ", ".join(f"[{title}]({url})" for title, url in threads.items())
    return Prose(f"**{name}** gives {shown}: **{times(wrong, right, counted=counted)}**. {text} Seen at {links}.")
