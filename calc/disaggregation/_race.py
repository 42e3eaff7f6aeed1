"""One pool against a split: the budget of the first and the ratio of the second searched, and where they are level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calc import scheduling
from calc.disaggregation._fleet import Handoff, Outcome, Worker, simulate_pool, simulate_split
from calc.latency import Objectives
from calc.queueing import Interval, batch_means
from calc.scheduling import SchedulingError
from calc.units import CalcError, plain


@dataclass(frozen=True, slots=True)
class Comparison:
    """The best pool and the best split of the same workers at one load.

    Attributes
    ----------
    arrival_rate : float
        Requests per second.
    pools, splits : dict of int to Outcome
        By token budget, and by number of prefill workers.
    limits : Objectives
    """

    arrival_rate: float
    pools: dict[int, Outcome]
    splits: dict[int, Outcome]
    limits: Objectives

    @property
    def pool(self) -> Outcome:
        """The pool with the budget that keeps most requests inside their limits."""
        return max(self.pools.values(), key=lambda one: one.share(self.limits))

    @property
    def split(self) -> Outcome:
        """The split with the ratio that keeps most requests inside their limits."""
        return max(self.splits.values(), key=lambda one: one.share(self.limits))

    def ahead(self, pool: Outcome | None = None, split: Outcome | None = None) -> Interval:
        """Share of the requests that the split keeps more than the pool, with its 95% interval by batch means.

        Both served the same requests, so the difference is taken request by request. For the best of each unless
        others are named.
        """
        pairs = zip((split or self.split).kept(self.limits), (pool or self.pool).kept(self.limits), strict=True)
        return batch_means([a - b for a, b in pairs])

    @property
    def winner(self) -> str:
        """ "split", "pool", or "neither" where the interval holds 0."""
        return verdict(self.ahead())


def verdict(ahead: Interval) -> str:
    """Who is ahead by an interval of differences: "split", "pool", or "neither"."""
    return "split" if ahead.low > 0 else "pool" if ahead.high < 0 else "neither"


def compare(
    requests: Sequence[scheduling.Request],
    *,
    arrival_rate: float,
    workers: int,
    worker: Worker,
    handoff: Handoff,
    budgets: Sequence[int],
    limits: Objectives,
) -> Comparison:
    """Search the budget of one pool and the ratio of a split, on the same workers and the same requests.

    Parameters
    ----------
    requests : sequence of calc.scheduling.Request
        In order of arrival, at one request a second; they are moved to the rate.
    arrival_rate : float
        Requests per second, to all workers.
    workers : int
        At least 2.
    worker : Worker
    handoff : Handoff
    budgets : sequence of int
        To choose from.
    limits : Objectives
        On time to first token and time per output token.

    Returns
    -------
    Comparison

    Raises
    ------
    CalcError
        If there are fewer than two workers, no budget, or a request never fits.
    """
    if workers < 2:
        raise CalcError(f"{workers} worker can't be split: take at least 2")
    if not budgets:
        raise CalcError("no token budget to choose from: give at least one")
    plain("compare", "arrival_rate", arrival_rate, "1/second>0")
    moved = at_rate(requests, arrival_rate)
    try:
        pools = {b: simulate_pool(moved, workers=workers, worker=worker, budget=b) for b in sorted(set(budgets))}
    except SchedulingError as error:
        raise CalcError(f"the pool can't serve these requests: {error}") from error
    splits = {
        n: simulate_split(moved, prefill=n, decode=workers - n, worker=worker, handoff=handoff)
        for n in range(1, workers)
    }
    return Comparison(arrival_rate, pools, splits, limits)


def level_at(loads: Sequence[float], ahead: Sequence[Interval]) -> float | None:
    """The load from which on the split is ahead, on straight lines between the loads; None where it never is for sure.

    Parameters
    ----------
    loads : sequence of float
        Ascending.
    ahead : sequence of Interval
        What the split keeps more at each of them.

    Examples
    --------
    >>> spans = [Interval(mean, mean - 0.05, mean + 0.05, 0.95) for mean in (-0.3, -0.1, 0.1)]
    >>> level_at([10, 20, 30], spans)
    25.0
    """
    sure = next((place for place, one in enumerate(ahead) if verdict(one) == "split"), None)
    if sure is None:
        return None
    while sure and ahead[sure - 1].mean >= 0:
        sure -= 1
    if not sure:
        return float(loads[0])
    return _zero(loads, [one.mean for one in ahead], sure)


def level_between(loads: Sequence[float], ahead: Sequence[Interval]) -> tuple[float, float]:
    """The loads at which the two can't be told apart around where they are level, on straight lines between the loads.

    Parameters
    ----------
    loads : sequence of float
        Ascending.
    ahead : sequence of Interval
        What the split keeps more at each of them.

    Returns
    -------
    tuple of float
        The heaviest load up to which the pool is ahead for sure, and the one from which on the split is; the first or
        last load looked at where a side never is.

    Notes
    -----
    A load belongs to the range if its interval holds 0, so the range has the confidence of the intervals.

    Examples
    --------
    >>> spans = [Interval(mean, mean - 0.05, mean + 0.05, 0.95) for mean in (-0.3, -0.1, 0.1)]
    >>> level_between([10, 20, 30], spans)
    (22.5, 27.5)
    """
    upper, lower = [one.high for one in ahead], [one.low for one in ahead]
    start = next((place for place, value in enumerate(upper) if value >= 0), len(loads) - 1)
    end = next((place for place in reversed(range(len(loads))) if lower[place] <= 0), 0)
    least = _zero(loads, upper, start) if start and upper[start] >= 0 else float(loads[start])
    most = _zero(loads, lower, end + 1) if end + 1 < len(loads) and lower[end] <= 0 else float(loads[end])
    return least, most


def _zero(loads: Sequence[float], values: Sequence[float], place: int) -> float:
    """Where a straight line to a load from the one before it is 0."""
    low, high = values[place - 1], values[place]
    return loads[place - 1] + (loads[place] - loads[place - 1]) * -low / (high - low)


def at_rate(requests: Sequence[scheduling.Request], arrival_rate: float) -> list[scheduling.Request]:
    """Requests that came at one a second, moved to another rate.

    Examples
    --------
    >>> at_rate([scheduling.Request(0, 10, 5, arrival_s=3.0)], 2)[0].arrival_s
    1.5
    """
    return [scheduling.Request(r.name, r.prompt, r.output, r.arrival_s / arrival_rate) for r in requests]
