"""What a reader might sensibly assume instead, chapter by chapter, what is impossible, and what must stay true.

`calc` states a chapter's numbers; a file here, named like the chapter, states what its reader may do to them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from chapters import Run
from hypothesis import strategies as st


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

    sensible: st.SearchStrategy[dict[str, Any]]
    impossible: tuple[dict[str, Any], ...]
    claims: tuple[Callable[[Run], None], ...] = ()


@functools.cache
def altered(chapter: str) -> Altered:
    """The assumption sets of a chapter such as "memory/kv_cache"."""
    return import_module(f"{__name__}.{chapter.rpartition('/')[2]}").ALTERED


def declared() -> list[str]:
    """Names of the chapters that declare their assumption sets, without their part of the book."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
