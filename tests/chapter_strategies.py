"""What a reader might sensibly assume instead, chapter by chapter, what is impossible, and what must stay true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chapters import Run
from hypothesis.strategies import SearchStrategy


@dataclass(frozen=True)
class Altered:
    """A chapter's other assumptions.

    Attributes
    ----------
    sensible : strategy of dict
        Values for the names of the chapter's `parameters` cell; every name is varied.
    impossible : tuple of dict
        Choices that the chapter must refuse.
    claims : tuple of callable
        Called with each finished `Run`; raise AssertionError where the prose no longer holds.
    """

    sensible: SearchStrategy[dict[str, Any]]
    impossible: tuple[dict[str, Any], ...]
    claims: tuple[Callable[[Run], None], ...] = ()


CHAPTERS: dict[str, Altered] = {}
