"""Distributions on a grid of times: sums by convolution, mixtures, the slowest of many, exact M/G/1 waits.

Percentiles of parts don't add up, and neither do those of groups average. What can be combined is the
whole distribution. Rounding all parts up, or all down, bounds every result from one side.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, exp, floor, fsum, ldexp
from operator import mul

from calc.queueing._checks import stable
from calc.queueing._service import _shares, _some
from calc.units import CalcError, format_percent, format_seconds, plain, significant

MOST_CELLS = 20_000
ROUNDINGS = ("mean", "up", "down")
NEXT_TO_NOTHING = 1e-12  # of a probability: what rounding of floats may leave
BITS, PLACE = 72, 20  # a mass to 2^-72; a place's bytes hold a sum of products of two of them, for all sum to 1
NEGLIGIBLE = 1e-9  # beyond a grid: a sum need not end where so little is unknown


@dataclass(frozen=True, slots=True)
class Distribution:
    """Probabilities of 0, one step, two steps, … of a time.

    Attributes
    ----------
    step_s : float
        Seconds between neighbors.
    masses : tuple of float
        Probability of each multiple of the step, from 0 on.
    beyond : float
        Probability of more than the last one.
    """

    step_s: float
    masses: tuple[float, ...]
    beyond: float = 0.0

    def __post_init__(self) -> None:
        plain("Distribution", "step_s", self.step_s, "second>0")
        if not self.masses or len(self.masses) > MOST_CELLS:
            raise CalcError(
                f"a distribution of {len(self.masses):,} steps of {format_seconds(self.step_s)}: wanted 1 to "
                f"{MOST_CELLS:,}; choose a longer step"
            )

    @property
    def mean_s(self) -> float:
        """Mean, seconds.

        Raises
        ------
        CalcError
            If some of the probability lies beyond the grid.
        """
        if self.beyond > NEGLIGIBLE:
            raise CalcError(f"{format_percent(self.beyond)} of the distribution lies beyond its grid: no mean")
        return self.step_s * fsum(place * mass for place, mass in enumerate(self.masses))

    def within(self, limit_s: float) -> float:
        """Share that takes no longer than a limit."""
        plain("within", "limit_s", limit_s, "second")
        last = floor(limit_s / self.step_s * (1 + 1e-12))
        return 1 - self.beyond if last >= len(self.masses) else min(fsum(self.masses[: last + 1]), 1.0)

    def percentile(self, p: float) -> float:
        """Smallest time that at least p percent don't exceed, seconds.

        Parameters
        ----------
        p : float
            Percent, above 0 and below 100.

        Raises
        ------
        CalcError
            If it lies beyond the grid.
        """
        if not 0 < p < 100:
            raise CalcError(f"percentile {p} is out of range: wanted percent, above 0 and below 100")
        place = bisect_left(list(accumulate(self.masses)), p / 100 - NEXT_TO_NOTHING)
        if place == len(self.masses):
            raise CalcError(
                f"p{significant(p)} lies beyond {format_seconds(self.step_s * len(self.masses))}: lengthen the grid"
            )
        return place * self.step_s

    def __add__(self, other: Distribution) -> Distribution:
        """The sum of two independent times."""
        return in_sum([self, other])


def of_values(values: Iterable[float], *, step_s: float, rounding: str = "mean") -> Distribution:
    """The distribution of a sample, each value as likely as any other.

    Parameters
    ----------
    values : iterable of float
        Seconds.
    step_s : float
        Seconds between the times of the grid.
    rounding : str
        "up" or "down" to the next time of the grid, or "mean": shared between both so that the mean stays.

    Returns
    -------
    Distribution

    Raises
    ------
    CalcError
        If there is no value, or one is negative.

    Examples
    --------
    >>> of_values([0.1, 0.3], step_s=0.1).percentile(50)
    0.1
    """
    values = _some("of_values", values)
    return weighted([(1 / len(values), value) for value in values], step_s=step_s, rounding=rounding)


def weighted(pairs: Sequence[tuple[float, float]], *, step_s: float, rounding: str = "mean") -> Distribution:
    """The distribution of some times with a probability for each.

    Parameters
    ----------
    pairs : sequence of (float, float)
        Probability and seconds.
    step_s, rounding
        As in `of_values`.

    Returns
    -------
    Distribution

    Examples
    --------
    >>> weighted([(0.75, 0.02), (0.25, 0.05)], step_s=0.01).masses
    (0.0, 0.0, 0.75, 0.0, 0.0, 0.25)
    """
    shares = _shares("weighted", [share for share, _ in pairs])
    if rounding not in ROUNDINGS:
        raise CalcError(f"rounding is {rounding!r:.40}, wanted {', '.join(ROUNDINGS)}")
    places = []
    for _, value in pairs:
        place = plain("weighted", "a time", value, "second") / plain("weighted", "step_s", step_s, "second>0")
        whole = round(place)
        places.append(float(whole) if abs(place - whole) <= 1e-9 * max(1, whole) else place)
    longest = ceil(max(places))
    if longest >= MOST_CELLS:
        raise CalcError(f"{format_seconds(longest * step_s)} are {longest:,} steps, more than {MOST_CELLS:,}: lengthen")
    masses = [0.0] * (longest + 1)
    for share, place in zip(shares, places, strict=True):
        low, high = floor(place), ceil(place)
        above = {"mean": place - low, "up": 1.0, "down": 0.0}[rounding]
        masses[low] += share * (1 - above)
        masses[high] += share * above
    return Distribution(step_s, tuple(masses))


def exponential_times(*, mean_s: float, step_s: float, horizon_s: float, rounding: str = "mean") -> Distribution:
    """An exponential distribution on a grid, up to a horizon.

    Examples
    --------
    >>> d = exponential_times(mean_s=1, step_s=0.01, horizon_s=20, rounding="up")
    >>> round(d.percentile(99), 2)
    4.61
    """
    plain("exponential_times", "mean_s", mean_s, "second>0")
    cells = ceil(plain("exponential_times", "horizon_s", horizon_s, "second>0") / step_s)
    if cells >= MOST_CELLS:
        raise CalcError(f"a horizon of {cells:,} steps, wanted fewer than {MOST_CELLS:,}: lengthen the step")
    above = [exp(-k * step_s / mean_s) for k in range(cells + 1)]
    inside = [above[k] - above[k + 1] for k in range(cells)]
    up, down = [0.0, *inside], [*inside, 0.0]
    # where in its cell an exponential time lies, on average: the same in every cell
    shift = mean_s / step_s - 1 / (exp(step_s / mean_s) - 1)
    share = {"mean": shift, "up": 1.0, "down": 0.0}[rounding]
    masses = tuple(share * a + (1 - share) * b for a, b in zip(up, down, strict=True))
    return Distribution(step_s, masses, above[cells])


def in_sum(parts: Sequence[Distribution]) -> Distribution:
    """The sum of independent times, by convolution.

    Parameters
    ----------
    parts : sequence of Distribution
        On the same grid.

    Returns
    -------
    Distribution

    Raises
    ------
    CalcError
        If the grids differ.

    Notes
    -----
    Parts that rise and fall together, such as a queue and a prefill under the same load, are not
    independent: sum those request by request.

    Examples
    --------
    >>> coin = of_values([0, 1], step_s=1)
    >>> in_sum([coin, coin]).masses
    (0.25, 0.5, 0.25)
    """
    parts = _same_grid("in_sum", parts)
    total = parts[0]
    for part in parts[1:]:
        total = _convolved(total, part)
    return total


def mixed(shares: Sequence[tuple[float, Distribution]]) -> Distribution:
    """Several populations in one: a request belongs to each with the probability given.

    Parameters
    ----------
    shares : sequence of (float, Distribution)
        They sum to 1.

    Returns
    -------
    Distribution

    Examples
    --------
    >>> cold, warm = of_values([4], step_s=1), of_values([1], step_s=1)
    >>> both = mixed([(0.25, cold), (0.75, warm)])
    >>> both.percentile(75), both.percentile(76)
    (1, 4)
    """
    weights = _shares("mixed", [share for share, _ in shares])
    parts = _same_grid("mixed", [part for _, part in shares])
    length = min([len(p.masses) for p in parts if p.beyond > NEGLIGIBLE] or [max(len(p.masses) for p in parts)])
    rows = [_padded(part.masses, length) for part in parts]
    masses = tuple(fsum(map(mul, weights, column)) for column in zip(*rows, strict=True))
    return Distribution(parts[0].step_s, masses, _rest(masses))


def slowest(parts: Sequence[Distribution]) -> Distribution:
    """The longest of independent times: a request that waits for all of its parts.

    Examples
    --------
    >>> one = weighted([(0.99, 1), (0.01, 9)], step_s=1)
    >>> round(1 - slowest([one] * 100).within(1), 3)
    0.634
    """
    parts = _same_grid("slowest", parts)
    length = min([len(p.masses) for p in parts if p.beyond > NEGLIGIBLE] or [max(len(p.masses) for p in parts)])
    product = [1.0] * length
    for part in parts:
        product = list(map(mul, product, accumulate(_padded(part.masses, length))))
    masses = tuple(max(b - a, 0.0) for a, b in zip([0.0, *product], product, strict=False))
    return Distribution(parts[0].step_s, masses, max(1 - product[-1], 0.0))


def mg1_waits(*, arrival_rate: float, service: Distribution, horizon_s: float, rounding: str = "mean") -> Distribution:
    """The wait in an M/G/1 queue as a whole distribution, first come first served.

    A Poisson arrival finds work: a geometric number of pieces, each as long as what is left of a service
    when somebody looks at it. Their sum follows from a recursion in which every term is positive.

    Parameters
    ----------
    arrival_rate : float
        Requests per second.
    service : Distribution
        Service times, all of them on the grid.
    horizon_s : float
        How far to carry it.
    rounding : str
        "up" and "down" bound the wait from both sides; "mean" keeps the mean of Pollaczek and Khinchine.

    Returns
    -------
    Distribution

    Raises
    ------
    Unstable
        If requests arrive faster than they are served.
    CalcError
        If the service times run beyond their grid, or the horizon is too many steps away.

    References
    ----------
    Asmussen, "Applied Probability and Queues", 2nd edition, Springer 2003, for the geometric
    sum; the recursion is Panjer's, ASTIN Bulletin 12(1), 1981.

    Examples
    --------
    >>> service = of_values([0.1], step_s=0.001)
    >>> waits = mg1_waits(arrival_rate=6, service=service, horizon_s=1)
    >>> round(waits.percentile(99), 3)
    0.453
    """
    plain("mg1_waits", "arrival_rate", arrival_rate, "1/second")
    if service.beyond > NEGLIGIBLE:
        raise CalcError("mg1_waits: service times run beyond their grid: lengthen it")
    if rounding not in ROUNDINGS:
        raise CalcError(f"rounding is {rounding!r:.40}, wanted {', '.join(ROUNDINGS)}")
    mean, step = service.mean_s, service.step_s
    if not mean:
        raise CalcError("mg1_waits: all service times are 0, wanted one above 0")
    stable(arrival_rate, mean)
    load = arrival_rate * mean
    cells = ceil(plain("mg1_waits", "horizon_s", horizon_s, "second>0") / step)
    if cells >= MOST_CELLS:
        raise CalcError(f"a horizon of {cells:,} steps, wanted fewer than {MOST_CELLS:,}: lengthen the step")
    longer = [1.0]  # P(service > k steps)
    for mass in service.masses:
        longer.append(longer[-1] - mass)
    left = [max(share, 0.0) * step / mean for share in longer[1 : cells + 2]]  # residual time in cell k, k + 1
    share = {"mean": 0.5, "up": 1.0, "down": 0.0}[rounding]
    pieces = [share * a + (1 - share) * b for a, b in zip([0.0, *left], [*left, 0.0], strict=True)]
    divisor = 1 - load * pieces[0]
    masses = [(1 - load) / divisor]
    behind = [load / divisor * piece for piece in pieces[1:]][::-1]  # the nearest piece last
    total = masses[0]
    for k in range(1, cells + 1):
        if 1 - total < NEXT_TO_NOTHING:
            break
        reach = min(k, len(behind))
        masses.append(fsum(map(mul, behind[len(behind) - reach :], masses[k - reach :])) if reach else 0.0)
        total += masses[-1]
    return Distribution(step, tuple(masses), _rest(masses))


def _convolved(a: Distribution, b: Distribution) -> Distribution:
    length = len(a.masses) + len(b.masses) - 1
    for one in (a, b):  # nothing is known of sums that may hold what lies beyond a grid
        if one.beyond > NEGLIGIBLE:
            length = min(length, len(one.masses))
    if length > MOST_CELLS:
        raise CalcError(f"a sum of {length:,} steps, more than {MOST_CELLS:,}: lengthen the step")
    # the masses as places of two whole numbers, whose product Python finds many times faster than a loop over pairs
    product = _as_places(a.masses[:length]) * _as_places(b.masses[:length])
    places = product.to_bytes((len(a.masses) + len(b.masses)) * PLACE, "little")
    masses = [
        ldexp(int.from_bytes(places[at : at + PLACE], "little"), -2 * BITS) for at in range(0, length * PLACE, PLACE)
    ]
    return Distribution(a.step_s, tuple(masses), _rest(masses) if a.beyond or b.beyond else 0.0)


def _as_places(masses: Sequence[float]) -> int:
    return int.from_bytes(b"".join(round(ldexp(mass, BITS)).to_bytes(PLACE, "little") for mass in masses), "little")


def _padded(masses: Sequence[float], length: int) -> list[float]:
    return [*masses[:length], *[0.0] * (length - len(masses))]


def _rest(masses: Sequence[float]) -> float:
    rest = 1 - fsum(masses)
    return rest if rest > NEXT_TO_NOTHING else 0.0


def _same_grid(function: str, parts: Sequence[Distribution]) -> list[Distribution]:
    parts = _some(function, parts)
    steps = {part.step_s for part in parts}
    if len(steps) > 1:
        raise CalcError(
            f"{function}: grids of {', '.join(map(format_seconds, sorted(steps)))}; wanted one step for all"
        )
    return parts
