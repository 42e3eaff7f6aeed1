"""How long a step takes, one at a time or many at once."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from calc.scheduling._ledger import Step
from calc.scheduling._requests import SchedulingError
from calc.scheduling._ticks import ticks

Line = tuple[int, int]  # ticks without cached tokens, ticks per cached token


class StepTime(Protocol):
    """A step time that is the largest of some straight lines in the number of cached tokens.

    Such a model can be summed over many steps at once. Any other callable of a `Step` that returns
    seconds works too, one step at a time.
    """

    def lines(self, prefill_tokens: int, decode_sequences: int) -> Sequence[Line]:
        """The lines for a step's tokens."""
        ...


StepTimeLike = StepTime | Callable[[Step], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Affine:
    """A step time that grows by a fixed amount with each part of the load.

    Attributes
    ----------
    base_s : float
        Seconds of a step, whatever it holds: weights read once, launches, the scheduler itself.
    prefill_token_s : float
        Seconds for each prefill token, recomputed token or draft.
    decode_sequence_s : float
        Seconds for each decoding sequence.
    cached_token_s : float
        Seconds for each position that attention reads from the cache.

    Notes
    -----
    No saturation and no overlap: fit it to steps like those it is used for. A prompt's attention to
    itself, quadratic in a chunk, is not in it.

    Examples
    --------
    >>> from calc.scheduling._ticks import seconds
    >>> model = Affine(base_s=0.02, decode_sequence_s=0.0001)
    >>> [(seconds(fixed), slope) for fixed, slope in model.lines(0, 50)]
    [(0.025, 0)]
    """

    base_s: float
    prefill_token_s: float = 0.0
    decode_sequence_s: float = 0.0
    cached_token_s: float = 0.0
    _ticks: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = (self.base_s, self.prefill_token_s, self.decode_sequence_s, self.cached_token_s)
        for name, value in zip(self.__dataclass_fields__, parts, strict=False):
            _time(f"Affine: {name}", value)
        object.__setattr__(self, "_ticks", tuple(map(ticks, parts)))

    def lines(self, prefill_tokens: int, decode_sequences: int) -> tuple[Line]:
        """One line."""
        base, prefill, decode, cached = self._ticks
        return ((base + prefill_tokens * prefill + decode_sequences * decode, cached),)


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest of several step times: a roofline has one for compute and one for memory.

    Attributes
    ----------
    parts : tuple of StepTime
        Each with `lines`.

    Examples
    --------
    >>> memory = Affine(base_s=0.02, cached_token_s=1e-7)
    >>> compute = Affine(base_s=0, prefill_token_s=1e-4, decode_sequence_s=1e-4)
    >>> len(Largest((memory, compute)).lines(512, 30))
    2
    """

    parts: tuple[StepTime, ...]

    def lines(self, prefill_tokens: int, decode_sequences: int) -> tuple[Line, ...]:
        """The lines of every part."""
        return tuple(line for part in self.parts for line in part.lines(prefill_tokens, decode_sequences))


@dataclass(frozen=True, slots=True)
class Table:
    """A step time measured at some numbers of tokens, with straight lines between them.

    Attributes
    ----------
    points : tuple of (int, float)
        Tokens in the step and seconds, by rising tokens.
    cached_token_s : float
        Seconds for each position read from the cache, on top.

    Raises
    ------
    SchedulingError
        If a point is missing or out of order, or a step has more tokens than the last point: a table is
        not extrapolated.

    Examples
    --------
    >>> from calc.scheduling._ticks import seconds
    >>> fixed, slope = Table(((1, 0.010), (101, 0.020))).lines(0, 51)[0]
    >>> seconds(fixed)
    0.015
    """

    points: tuple[tuple[int, float], ...]
    cached_token_s: float = 0.0

    def __post_init__(self) -> None:
        tokens = [count for count, _ in self.points]
        if not tokens or tokens != sorted(set(tokens)) or tokens[0] < 1:
            raise SchedulingError("Table: wanted (tokens, seconds) by rising tokens, from 1 on")
        for count, time in self.points:
            _time(f"Table: the time at {count} tokens", time)
        _time("Table: cached_token_s", self.cached_token_s)

    def lines(self, prefill_tokens: int, decode_sequences: int) -> tuple[Line]:
        """One line, interpolated; below the first point, its time."""
        tokens = prefill_tokens + decode_sequences
        place = bisect_left(self.points, tokens, key=lambda point: point[0])
        if place == len(self.points):
            raise SchedulingError(
                f"Table: a step of {tokens} tokens, measured only up to {self.points[-1][0]}: add points"
            )
        high, end = self.points[place]
        fixed = ticks(end)
        if place:
            low, start = self.points[place - 1]
            fixed = ticks(start) + (ticks(end) - ticks(start)) * (tokens - low) // (high - low)
        return ((fixed, ticks(self.cached_token_s)),)


def duration(step_time: StepTimeLike, step: Step) -> int:
    """Ticks of one step."""
    if hasattr(step_time, "lines"):
        lines = step_time.lines(step.prefill_tokens, step.decode_sequences)
        return max(fixed + slope * step.cached_tokens for fixed, slope in lines)
    time = step_time(step)
    _time(f"step time of step {step.index}", time)
    return ticks(time)


def advance(lines: Sequence[Line], cached: int, growth: int, most: int, gap: int | None) -> tuple[int, int]:
    """Sum the times of equal steps whose cache grows, without going through them.

    Parameters
    ----------
    lines : sequence of Line
        The step time is the largest of them.
    cached : int
        Cached tokens of the first step.
    growth : int
        What each step adds to them.
    most : int
        Steps to take at most, at least 1.
    gap : int or None
        Ticks until something may interrupt; it is noticed after the step that reaches it.

    Returns
    -------
    tuple of int
        Steps taken, and ticks they took.

    Examples
    --------
    >>> advance([(10, 1)], cached=0, growth=2, most=4, gap=None)  # 10 + 12 + 14 + 16
    (4, 52)
    >>> advance([(10, 1)], cached=0, growth=2, most=4, gap=22)  # 10 + 12 reach it
    (2, 22)
    """
    if len(lines) == 1:  # nothing to compare: most models, most of the time
        (fixed, slope), *_ = lines
        return _along(fixed + slope * cached, slope * growth, most, gap)
    taken = elapsed = 0
    while True:
        now = cached + taken * growth
        first, slope = max((fixed + slope * now, slope) for fixed, slope in lines)
        rise, count = slope * growth, most - taken
        for fixed, other in lines:  # until a steeper line overtakes this one
            if other > slope and growth:
                count = min(count, (first - fixed - other * now) // ((other - slope) * growth) + 1)
        count, total = _along(first, rise, count, None if gap is None else gap - elapsed)
        taken, elapsed = taken + count, elapsed + total
        if taken == most or (gap is not None and elapsed >= gap):
            return taken, elapsed


def _along(first: int, rise: int, most: int, gap: int | None) -> tuple[int, int]:
    """`advance` along one line: steps of first, first + rise, …"""
    total = most * first + rise * (most * (most - 1) // 2)
    if gap is None or total < gap:
        return most, total
    count = _reach(first, rise, gap, most)
    return count, count * first + rise * (count * (count - 1) // 2)


def _reach(first: int, rise: int, gap: int, most: int) -> int:
    """The least number of steps, first, first + rise, …, whose sum is at least the gap; at least 1."""
    if rise == 0:
        return min(most, -(-gap // first))
    slope = first - rise / 2
    count = int(2 * gap / (slope + math.sqrt(slope * slope + 2.0 * rise * gap)))  # a guess: floats round
    count = min(max(count, 1), most)
    while count < most and count * first + rise * (count * (count - 1) // 2) < gap:
        count += 1
    while count > 1 and (count - 1) * first + rise * ((count - 1) * (count - 2) // 2) >= gap:
        count -= 1
    return count


def _time(what: str, value: float) -> None:
    if not (isinstance(value, (int, float)) and math.isfinite(value) and value >= 0):
        raise SchedulingError(f"{what} is {value!r}, wanted seconds of at least 0")
