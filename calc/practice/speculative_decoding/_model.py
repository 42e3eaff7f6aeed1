"""What the problems share: the chapter's steps, and small distributions in percent."""

from __future__ import annotations

import functools
from fractions import Fraction
from types import SimpleNamespace as Numbers

from calc import models, speculation
from calc.models import ModelGeometry

# The chapter's steps that the problems return to.
ROUND, POSITION, PROGRESS, BY_POSITION, COST, GAIN, BATCH, WORDS = (
    f"speculative_decoding#step-{number}" for number in (1, 2, 4, 5, 6, 7, 8, 9)
)

WORDS_OF = ("red", "green", "blue", "grey")
TARGETS = ((40, 30, 20, 10), (55, 25, 15, 5), (25, 35, 30, 10), (70, 5, 15, 10), (10, 20, 30, 40), (45, 5, 35, 15))
DRAFTS = ((60, 20, 10, 10), (20, 50, 20, 10), (40, 10, 40, 10), (15, 15, 65, 5), (30, 40, 5, 25), (50, 30, 15, 5))


@functools.cache
def geometry(slug: str) -> ModelGeometry:
    """A model of the catalogue."""
    return models.load(slug)


def rows(n: Numbers) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """Target and drafter of a draw as exact chances."""
    return speculation.chances(n.target), speculation.chances(n.draft)


def listed(percents: tuple[int, ...]) -> str:
    """A distribution in words."""
    return ", ".join(f"{word} {percent}%" for word, percent in zip(WORDS_OF, percents, strict=True))
