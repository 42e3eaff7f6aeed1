"""A mixed interview: problems drawn from all chapters, the same ones every time for the same seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

from calc.practice._chapters import PARTS, problems
from calc.practice._problem import PracticeError, Question, refuse_seed

SHORTEST, LONGEST = 2, 16  # problems: one with a number and one design question; two of most chapters
NUMBERED_PER_DESIGN = 5
FRESH = 20  # seeds that a problem is posed with: every one has fresh numbers, and none is slow to draw

T = TypeVar("T")


def interview(*, seed: int, count: int = 6, parts: Sequence[str] = tuple(PARTS)) -> tuple[Question, ...]:
    """Draw a mixed interview with fresh numbers.

    The problems with a number come first, easy to hard, a third of each level. Every sixth problem, and at least
    one, is a design question; those come last. The parts take turns, so that none has more than one problem more than
    another. No chapter comes twice before all of its part have come once, and no problem comes twice.

    Parameters
    ----------
    seed : int
        A whole number of at least 0: the same interview every time, whatever the version of Python.
    count : int
        Problems, from 2 to 16.
    parts : sequence of str
        Any of "memory", "time" and "service", in any order.

    Returns
    -------
    tuple of Question

    Raises
    ------
    PracticeError
        If the seed, the count or a part is impossible.

    Examples
    --------
    >>> [question.problem.level for question in interview(seed=1)]
    [1, 1, 2, 2, 3, 'design']
    >>> interview(seed=1, parts=["time"])[0].problem.id
    'chunked_prefill/longer'
    """
    refuse_seed(seed)
    if isinstance(count, bool) or not isinstance(count, int) or not SHORTEST <= count <= LONGEST:
        raise PracticeError(f"count is {repr(count)[:40]}, wanted a whole number from {SHORTEST} to {LONGEST}")
    if unknown := next((part for part in parts if part not in PARTS), None):
        raise PracticeError(f"no part {repr(unknown)[:40]}: choose from {', '.join(PARTS)}")
    if not parts:
        raise PracticeError(f"no part is chosen: choose at least one of {', '.join(PARTS)}")
    rng = random.Random(seed)
    turns = _shuffled(rng, (part for part in PARTS if part in parts))
    chapters = {part: itertools.cycle(_shuffled(rng, PARTS[part])) for part in turns}
    asked: dict[str, Question] = {}
    for level, part in zip(_levels(count), itertools.cycle(turns), strict=False):
        chapter = problems(next(chapters[part])).values()
        problem = _shuffled(rng, (p for p in chapter if p.level == level and p.id not in asked))[0]
        asked[problem.id] = Question(problem, 1 + int(FRESH * rng.random()))
    return tuple(asked.values())


def _levels(count: int) -> list[int | str]:
    """The levels of an interview's problems, in order."""
    designs = max(1, count // (1 + NUMBERED_PER_DESIGN))
    numbered = count - designs
    return [1 + 3 * i // numbered for i in range(numbered)] + ["design"] * designs


def _shuffled(rng: random.Random, items: Iterable[T]) -> list[T]:
    # only random() is promised to give the same sequence in every version of Python
    return sorted(items, key=lambda _: rng.random())
