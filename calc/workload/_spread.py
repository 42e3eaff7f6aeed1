"""What a few repeats of a run say: their median, and how far they lie apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from calc.units import CalcError, significant


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and range of a measured value over repeats.

    Attributes
    ----------
    median, low, high : float
        In the unit of the values.
    repeats : int
        How many there were.
    """

    median: float
    low: float
    high: float
    repeats: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """From one value for each repeat.

        Raises
        ------
        CalcError
            If there is none.

        Examples
        --------
        >>> Spread.of([3, 1, 2])
        Spread(median=2, low=1, high=3, repeats=3)
        """
        seen = sorted(values)
        if not seen:
            raise CalcError("Spread: no repeat, wanted a value for each repeat of the run")
        return cls(median(seen), seen[0], seen[-1], len(seen))

    def text(self, write: Callable[[float], str]) -> str:
        """The median and, in brackets, the range; the value alone where all repeats agree.

        Examples
        --------
        >>> from calc.units import format_seconds
        >>> Spread.of([0.25, 0.5, 0.3]).text(format_seconds)
        '300 ms (250 ms to 500 ms)'
        """
        middle, low, high = write(self.median), write(self.low), write(self.high)
        return middle if low == high else f"{middle} ({low} to {high})"

    def seconds(self) -> str:
        """The same for a time in seconds, with three digits and one unit.

        Examples
        --------
        >>> Spread.of([0.25, 0.5, 0.3]).seconds(), Spread.of([2.0]).seconds()
        ('300 ms (250 to 500)', '2 s')
        """
        factor, unit = next((f, u) for f, u in ((1, "s"), (1e3, "ms"), (1e6, "µs")) if self.median * f >= 1 or f == 1e6)
        middle, low, high = (significant(factor * value, 3) for value in (self.median, self.low, self.high))
        return f"{middle} {unit}" if low == high else f"{middle} {unit} ({low} to {high})"
