"""Which adapters requests ask for: popularity, the resident set under it, and who may run at once."""

from __future__ import annotations

import random
from bisect import bisect
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import accumulate, combinations
from math import comb, expm1, fsum, isfinite

from calc.units import CalcError, format_count

MOST_ADAPTERS = 2**20
MOST_REQUESTS = 10_000_000  # drawn one by one
MOST_SETS = 2**18  # subsets that the exact hit ratio may walk through
MOST_STEPS = 1000
CLOSE = 1e-13


def zipf(*, adapters: int, exponent: float) -> tuple[float, ...]:
    """Share of requests that ask for each adapter, the most popular first.

    Parameters
    ----------
    adapters : int
        Adapters that requests ask for.
    exponent : float
        0: all equally popular. 1: the second is asked for half as often as the first.

    Returns
    -------
    tuple of float
        They sum to 1.

    Raises
    ------
    CalcError
        If `adapters` is not a whole number from 1 to a million, or `exponent` is negative or not finite.

    Notes
    -----
    A model of popularity, not a law: measure your own. Punica's evaluation calls a geometric popularity
    "Zipf"; this is Zipf's law.

    Examples
    --------
    >>> [round(share, 4) for share in zipf(adapters=3, exponent=1)]
    [0.5455, 0.2727, 0.1818]
    """
    _whole("adapters", adapters, 1, MOST_ADAPTERS)
    number = isinstance(exponent, (int, float)) and not isinstance(exponent, bool)
    if not number or not isfinite(exponent) or exponent < 0:
        raise CalcError(f"exponent is {exponent!r:.40}, wanted a number of at least 0")
    weights = [place ** -float(exponent) for place in range(1, adapters + 1)]
    total = fsum(weights)
    return tuple(weight / total for weight in weights)


def expected_distinct(popularity: Sequence[float], *, requests: int) -> float:
    """Different adapters that independent requests ask for, on average.

    Parameters
    ----------
    popularity : sequence of float
        Share of requests for each adapter.
    requests : int
        Requests at once.

    Returns
    -------
    float

    Raises
    ------
    CalcError
        If a share is negative, they don't sum to 1, or `requests` is not a whole number.

    Examples
    --------
    >>> expected_distinct([0.5, 0.5], requests=2)
    1.5
    """
    _check(popularity)
    _whole("requests", requests, 0)
    return fsum(1 - (1 - share) ** requests for share in popularity)


def characteristic_time(popularity: Sequence[float], *, slots: int) -> float:
    """Requests after which an LRU resident set has seen as many different adapters as it has slots.

    Solves ``sum(1 − exp(−p·T)) = slots`` for T: an adapter stays resident if it is asked for again within T
    requests.

    Parameters
    ----------
    popularity : sequence of float
        Share of requests for each adapter.
    slots : int
        Adapters that can be resident, fewer than those with any popularity.

    Returns
    -------
    float
        In requests; divide by the request rate for seconds.

    Raises
    ------
    CalcError
        If `slots` is not a whole number from 1 to one less than the adapters.

    Notes
    -----
    Che's approximation: one T serves all adapters, and requests are independent.

    References
    ----------
    Fricker, Robert and Roberts, "A versatile and accurate approximation for LRU cache performance", 2012,
    arXiv:1202.3974, explains why it holds.

    Examples
    --------
    >>> round(characteristic_time(zipf(adapters=100_000, exponent=1), slots=100) / 4, 4)
    31.6887
    """
    _check(popularity)
    wanted = [share for share in popularity if share > 0]
    _whole("slots", slots, 1, len(wanted) - 1)

    time = 0.0
    for _ in range(MOST_STEPS):  # Newton's steps from below never overshoot: what is seen grows ever more slowly
        unseen = [expm1(-share * time) for share in wanted]  # less one
        step = (slots + fsum(unseen)) / fsum(share + share * less for share, less in zip(wanted, unseen, strict=True))
        time += step
        if step <= CLOSE * time:
            break
    return time


def hit_ratio(popularity: Sequence[float], *, slots: int) -> float:
    """Share of requests whose adapter is resident, by Che's approximation for least recently used.

    Parameters
    ----------
    popularity : sequence of float
        Share of requests for each adapter.
    slots : int
        Adapters that can be resident.

    Returns
    -------
    float
        From 0 to 1; 1 where every adapter that is ever asked for has a slot.

    Raises
    ------
    CalcError
        If a share is negative, they don't sum to 1, or `slots` is no whole number of at least 1.

    Notes
    -----
    For independent requests that don't overlap. Running requests pin their adapters, which LRU would have
    kept anyway unless many more run than there are slots.

    Examples
    --------
    >>> round(hit_ratio(zipf(adapters=1000, exponent=1), slots=100), 3)
    0.577
    """
    _check(popularity)
    _whole("slots", slots, 1)
    if slots >= sum(share > 0 for share in popularity):
        return 1.0
    time = characteristic_time(popularity, slots=slots)
    return fsum(-share * expm1(-share * time) for share in popularity)


def exact_hit_ratio(popularity: Sequence[float], *, slots: int) -> float:
    """Share of requests whose adapter is resident under least recently used, with no approximation.

    The resident set is the last `slots` different adapters asked for. Looking back in time, each new one in
    it was drawn among those not seen yet, which gives the probability of every set.

    Parameters
    ----------
    popularity : sequence of float
        Share of requests for each adapter.
    slots : int
        Adapters that can be resident.

    Returns
    -------
    float

    Raises
    ------
    CalcError
        If there are too many possible sets, or as for `hit_ratio`.

    Notes
    -----
    Walks through every set of up to `slots` adapters: for twenty adapters or so.

    References
    ----------
    W. F. King, "Analysis of demand paging algorithms", IFIP Congress 1971, has the same sum over sequences.

    Examples
    --------
    Two adapters asked for 3 : 1, one slot: a hit is the same adapter twice in a row, 9/16 + 1/16.

    >>> exact_hit_ratio([0.75, 0.25], slots=1)
    0.625
    """
    _check(popularity)
    _whole("slots", slots, 1)
    wanted = [share for share in popularity if share > 0]
    if slots >= len(wanted):
        return 1.0
    sets = sum(comb(len(wanted), size) for size in range(slots + 1))
    if sets > MOST_SETS:
        raise CalcError(f"{format_count(sets)} possible resident sets are too many: use hit_ratio for so many adapters")
    chance = {frozenset(): 1.0}
    for size in range(1, slots + 1):
        larger = {}
        for group in combinations(range(len(wanted)), size):
            members = frozenset(group)
            larger[members] = fsum(
                chance[members - {last}] * wanted[last] / (1 - fsum(wanted[i] for i in members - {last}))
                for last in members
            )
        chance = larger
    return fsum(odds * fsum(wanted[i] for i in members) for members, odds in chance.items())


def pinned_hit_ratio(popularity: Sequence[float], *, slots: int) -> float:
    """Share of requests that hit when the most popular adapters stay resident for good: no rule does better.

    Raises
    ------
    CalcError
        As for `hit_ratio`.

    Notes
    -----
    The best of any rule while requests are independent and popularity doesn't change; with real traffic,
    which drifts, least recently used may win.

    Examples
    --------
    >>> round(pinned_hit_ratio(zipf(adapters=1000, exponent=1), slots=100), 3)
    0.693
    """
    _check(popularity)
    _whole("slots", slots, 1)
    return min(1.0, fsum(sorted(popularity, reverse=True)[:slots]))


def simulated_hit_ratio(popularity: Sequence[float], *, slots: int, requests: int, seed: int = 0) -> float:
    """Share of hits among `requests` drawn requests, counted once the resident set is full.

    Under a steep popularity it may take ages to fill; then counting starts after as many requests as are counted.

    Parameters
    ----------
    popularity : sequence of float
        Share of requests for each adapter.
    slots : int
        Adapters that can be resident.
    requests : int
        Requests that are counted.
    seed : int
        Of the draw: the same seed gives the same requests.

    Returns
    -------
    float

    Raises
    ------
    CalcError
        As for `hit_ratio`.

    Examples
    --------
    >>> 0.6 < simulated_hit_ratio([0.75, 0.25], slots=1, requests=2000) < 0.65
    True
    """
    _check(popularity)
    _whole("slots", slots, 1)
    _whole("requests", requests, 1, MOST_REQUESTS)
    if slots >= sum(share > 0 for share in popularity):
        return 1.0
    draw, sums = random.Random(seed), list(accumulate(popularity))
    resident: OrderedDict[int, None] = OrderedDict()
    hits = counted = drawn = 0
    while counted < requests:
        asked = draw.choices(range(len(sums)), cum_weights=sums, k=min(4096, requests))
        for adapter in asked:
            warm, hit = len(resident) == slots or drawn >= requests, adapter in resident
            drawn += 1
            if warm and counted < requests:
                counted += 1
                hits += hit
            resident[adapter] = None
            resident.move_to_end(adapter)
            if len(resident) > slots:
                resident.popitem(last=False)
    return hits / requests


def admitted(queue: Iterable[int | None], *, slots: int, seats: int) -> tuple[int, ...]:
    """Which waiting requests start at once, first come first served, when nothing runs yet.

    A request whose adapter would need one slot more than there are is skipped; later ones with an adapter
    that has a slot, or with none, overtake it.

    Parameters
    ----------
    queue : iterable of int or None
        The adapter that each waiting request asks for; None asks for the base model.
    slots : int
        Different adapters in one batch at most.
    seats : int
        Requests in one batch at most.

    Returns
    -------
    tuple of int
        Their places in the queue.

    Raises
    ------
    CalcError
        If `slots` or `seats` is not a whole number of at least 1.

    Notes
    -----
    The rule of vLLM 0.32.0's scheduler, cache and token budget not counted.

    Examples
    --------
    >>> admitted([7, 7, 3, 5, 7, None], slots=2, seats=5)
    (0, 1, 2, 4, 5)
    """
    _whole("slots", slots, 1)
    _whole("seats", seats, 1)
    chosen: list[int] = []
    loaded: set[int] = set()
    for place, adapter in enumerate(queue):
        if len(chosen) == seats:
            break
        if adapter is not None and adapter not in loaded:
            if len(loaded) == slots:
                continue
            loaded.add(adapter)
        chosen.append(place)
    return tuple(chosen)


def expected_running(
    popularity: Sequence[float], *, requests: int, slots: int, draws: int = 1000, seed: int = 0
) -> float:
    """Waiting requests that start at once by the rule of `admitted`, on average over queues.

    Parameters
    ----------
    popularity : sequence of float
        Share of requests for each adapter.
    requests : int
        Requests that wait, each with an adapter; there is a seat for each.
    slots : int
        Different adapters in one batch at most.
    draws, seed : int
        Queues to average over, and the seed they are drawn from.

    Returns
    -------
    float
        Good to about 1%.

    Raises
    ------
    CalcError
        If a share is negative, they don't sum to 1, or a count is no positive whole number.

    Examples
    --------
    >>> expected_running([1.0], requests=64, slots=1)
    64.0
    """
    return expected_running_by_slots(popularity, requests=requests, slots=slots, draws=draws, seed=seed)[-1]


def expected_running_by_slots(
    popularity: Sequence[float], *, requests: int, slots: int, draws: int = 1000, seed: int = 0
) -> tuple[float, ...]:
    """What `expected_running` gives for 1 slot, for 2, and so on.

    Parameters
    ----------
    popularity : sequence of float
        Share of requests for each adapter.
    requests : int
        Requests that wait, each with an adapter; there is a seat for each.
    slots : int
        The most slots.
    draws, seed : int
        Queues to average over, and the seed they are drawn from.

    Returns
    -------
    tuple of float
        One for each number of slots, each good to about 1%.

    Raises
    ------
    CalcError
        If a share is negative, they don't sum to 1, or a count is no positive whole number.

    Notes
    -----
    A queue is drawn until the most slots are taken. The request that takes slot n is where a batch with n slots leaves
    the queue: from there on a request starts with the joint popularity of the n adapters that have one.

    Examples
    --------
    >>> expected_running_by_slots([1.0], requests=64, slots=2)
    (64.0, 64.0)
    """
    _check(popularity)
    for name, value in (("requests", requests), ("slots", slots), ("draws", draws)):
        _whole(name, value, 1)
    dice, sums, last = random.Random(), list(accumulate(popularity)), len(popularity) - 1
    running = [0.0] * slots
    for stratum in range(draws):
        dice.seed(seed * draws + stratum)  # a queue of its own, whose start does not depend on the slots
        loaded: set[int] = set()
        covered, point = 0.0, (stratum + dice.random()) / draws  # first requests spread over all popularities
        for started in range(1, requests + 1):
            adapter = min(bisect(sums, point), last)
            if adapter not in loaded:
                loaded.add(adapter)
                covered += popularity[adapter]
                running[len(loaded) - 1] += started + (requests - started) * covered
                if len(loaded) == slots:
                    break
            point = dice.random()
        for spare in range(len(loaded), slots):
            running[spare] += requests
    return tuple(total / draws for total in running)


def _whole(name: str, value: int, least: int, most: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        limit = f"from {least} to {format_count(most)}" if most is not None else f"of at least {least}"
        raise CalcError(f"{name} is {value!r:.40}, wanted a whole number {limit}")


def _check(popularity: Sequence[float]) -> None:
    if not popularity or any(not share >= 0 for share in popularity) or abs(fsum(popularity) - 1) > 1e-9:
        raise CalcError("popularity must be shares of at least 0 that sum to 1: zipf() makes them")
