"""Two clocks brought together: every message bounds them, and the bounds of many intersect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

from calc.units import CalcError


@dataclass(frozen=True, slots=True)
class Between:
    """A value that is known to lie between two others."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The value that is wrong by the least in the worst case."""
        return (self.low + self.high) / 2

    @property
    def slack(self) -> float:
        """How far the middle can be off, to either side."""
        return (self.high - self.low) / 2

    def holds(self, value: float) -> bool:
        """Whether a value lies between, rounding of floats left out."""
        return self.low - 1e-9 <= value <= self.high + 1e-9


@dataclass(frozen=True, slots=True)
class ClockFit:
    """All straight lines that another clock's offset can follow.

    Attributes
    ----------
    middle_s : float
        The reading of the other clock from which drift is counted.
    corners : tuple of (offset, drift)
        Corners of the region of lines that fit: offset at `middle_s` in seconds, drift in seconds a second. The
        offset of every line that fits lies between those of the corners, at every reading.
    """

    middle_s: float
    corners: tuple[tuple[float, float], ...]

    @property
    def drift(self) -> Between:
        """Seconds that the other clock gains in one of its seconds."""
        return Between(min(d for _, d in self.corners), max(d for _, d in self.corners))

    def offset(self, reading_s: float) -> Between:
        """How far the other clock is ahead when it shows this reading."""
        at = [offset + drift * (reading_s - self.middle_s) for offset, drift in self.corners]
        return Between(min(at), max(at))

    def own(self, reading_s: float) -> Between:
        """What the own clock shows when the other one shows this reading."""
        ahead = self.offset(reading_s)
        return Between(reading_s - ahead.high, reading_s - ahead.low)


def align(
    out: Iterable[tuple[float, float]], back: Iterable[tuple[float, float]], *, drift_limit: float = 1e-3
) -> ClockFit:
    """Bound another clock's offset and drift from messages in both directions.

    Parameters
    ----------
    out : iterable of (own, other)
        Messages to the other machine: when each left, by the own clock, and when it had arrived, by the other.
    back : iterable of (other, own)
        Messages from it: when each left, by the other clock, and when it had arrived, by the own.
    drift_limit : float
        Clocks that run apart faster than this, in seconds a second, are left out of account.

    Returns
    -------
    ClockFit

    Raises
    ------
    CalcError
        If there is no message in one of the directions, a stamp is not finite, or no clock fits all messages: a pair
        belongs to two requests, or the clock was set during the run.

    Notes
    -----
    A message can't arrive before it left. So the other clock's offset lies below ``other - own`` of every message out
    and above it for every message back: a line between two clouds of points. Nothing is assumed of the network, and
    the true clock is always among the lines, if it runs evenly. The middle is right if both directions have equally
    fast fastest messages; if not, it is off by half the difference, within the bounds.

    References
    ----------
    Marzullo and Owicki, "Maintaining the time in a distributed system", 1985: intersecting intervals that each hold
    the true time.

    Examples
    --------
    >>> fit = align(out=[(0.0, 0.031), (10.0, 10.032)], back=[(0.131, 0.102), (10.131, 10.103)])
    >>> round(fit.offset(5.0).low, 4), round(fit.offset(5.0).high, 4)
    (0.0285, 0.0315)
    """
    upper = [(other, other - own) for own, other in out]
    lower = [(other, other - own) for other, own in back]
    if not upper or not lower:
        raise CalcError("align: wanted messages in both directions; one direction bounds a clock from one side only")
    if not all(isfinite(value) for point in (*upper, *lower) for value in point):
        raise CalcError("align: a stamp is not a finite number of seconds")
    if not (isfinite(drift_limit) and drift_limit > 0):
        raise CalcError(f"align: the limit of the drift is {drift_limit}, wanted seconds a second above 0")
    readings = [reading for reading, _ in (*upper, *lower)]
    middle = (min(readings) + max(readings)) / 2
    reach = max(abs(offset) for _, offset in (*upper, *lower)) + 1 + drift_limit * (max(readings) - min(readings))
    corners = [(-reach, -drift_limit), (reach, -drift_limit), (reach, drift_limit), (-reach, drift_limit)]
    for sign, points in ((1, upper), (-1, lower)):
        for reading, bound in points:
            corners = _clipped(corners, sign, reading - middle, bound)
            if not corners:
                raise CalcError(
                    "align: no clock fits these messages, one arrives before it was sent; a pair of stamps belongs to "
                    "two requests, or the clock was set meanwhile"
                )
    return ClockFit(middle, tuple(corners))


def _clipped(corners: list[tuple[float, float]], sign: int, since: float, bound: float) -> list[tuple[float, float]]:
    """The part of a convex region in which offset + drift × since lies below the bound (above it for sign -1)."""
    over = [sign * (offset + drift * since - bound) for offset, drift in corners]
    if max(over) <= 0:
        return corners
    kept = []
    for i, (corner, here) in enumerate(zip(corners, over, strict=True)):
        before, there = corners[i - 1], over[i - 1]
        if (here > 0) != (there > 0):
            share = there / (there - here)
            kept.append(tuple(a + share * (b - a) for a, b in zip(before, corner, strict=True)))
        if here <= 0:
            kept.append(corner)
    return kept
