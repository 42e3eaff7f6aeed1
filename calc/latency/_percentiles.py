"""Percentiles by name, their confidence intervals, and how many requests they need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, exp, floor, fsum, inf, isnan, lgamma, log, sqrt
from statistics import NormalDist

from calc.latency._counts import fewest_requests, requests_within
from calc.units import CalcError, plain

MOST_REQUESTS = 10**8  # whose binomial probabilities are summed
METHODS = {
    "linear": "between the two values around rank 1 + (n − 1)p, by distance; numpy's default",
    "nearest-rank": "the value of rank ⌈np⌉: the smallest one that at least p of the values don't exceed",
    "nearest": "the value whose rank is nearest to 1 + (n − 1)p, an even one in a tie",
    "loadgen": "the value of rank ⌊np⌋ + 1, as MLPerf LoadGen indexes its sorted list",
    "running-sum": "the first value at which the running sum of weights, in floating point, reaches p; GuideLLM's",
    "histogram": "linear inside the bucket that holds rank np, as Prometheus reads its histograms",
}


def percentile(values: Iterable[float], p: float, method: str = "linear") -> float:
    """One percentile of a sample.

    Parameters
    ----------
    values : iterable of float
        The sample, in any order.
    p : float
        Percent, 0 to 100.
    method : str
        A key of `METHODS`, except "histogram": that needs buckets and is `histogram_percentile`.

    Returns
    -------
    float
        In the unit of the values.

    Raises
    ------
    CalcError
        If the sample is empty or holds what is no number, `p` is out of range or the method is unknown.

    Examples
    --------
    >>> waits = [1, 2, 3, 4, 5, 6, 7, 8, 10, 100]
    >>> [round(percentile(waits, 90, method), 6) for method in ("linear", "nearest-rank", "nearest", "loadgen")]
    [19.0, 10, 10, 100]
    """
    return ordered_percentile(_ascending("percentile", values), p, method)


def ordered_percentile(ordered: Sequence[float], p: float, method: str = "linear") -> float:
    """`percentile` of a sample that is already in ascending order and not empty."""
    _check_percent(p)
    n, share = len(ordered), p / 100
    if method == "linear":
        rank = (n - 1) * share
        below = ordered[floor(rank)]
        above = ordered[ceil(rank)]
        return below if above == below else below + (above - below) * (rank - floor(rank))
    if method == "nearest":
        return ordered[round((n - 1) * share)]
    if method == "nearest-rank":
        return ordered[max(ceil(_exact(n, p)) - 1, 0)]
    if method == "loadgen":
        return ordered[min(floor(_exact(n, p)), n - 1)]
    if method == "running-sum":
        return weighted_percentile([(value, 1) for value in ordered], p)
    raise CalcError(f"percentile method {method!r} is unknown here: use linear, nearest-rank, nearest or loadgen")


def weighted_percentile(values: Iterable[tuple[float, float]], p: float) -> float:
    """Percentile of values that stand for several observations each, the way GuideLLM takes it.

    Parameters
    ----------
    values : iterable of (value, weight)
        A weight of 0 drops the value.
    p : float
        Percent, 0 to 100.

    Returns
    -------
    float
        The first value at which the running sum of normalized weights reaches p.

    Raises
    ------
    CalcError
        If no weight is above 0, one is below it, a value is no number, or `p` is out of range.

    Notes
    -----
    With equal weights this is nearest rank, but for rounding: nine tenths add up to 0.8999…9 in floating
    point, so p90 of ten values is the largest one.

    Examples
    --------
    >>> weighted_percentile([(10, 1), (20, 3)], 50)
    20
    >>> weighted_percentile([(value, 1) for value in range(1, 11)], 90)
    10
    """
    _check_percent(p)
    merged: dict[float, float] = {}
    pairs = list(values)
    _ascending("weighted_percentile", [number for pair in pairs for number in pair])
    for value, weight in pairs:
        if not 0 <= weight < inf:
            raise CalcError(f"weighted_percentile: a weight is {weight}, wanted at least 0")
        if weight:
            merged[value] = merged.get(value, 0) + weight
    if not merged:
        raise CalcError("weighted_percentile: wanted at least one value with a weight above 0")
    total, reached = sum(merged.values()), 0.0
    for value, weight in sorted(merged.items()):
        reached += weight / total
        if reached >= p / 100:
            return value
    return max(merged)


def histogram_percentile(values: Iterable[float], p: float, bounds: Sequence[float]) -> float:
    """What Prometheus answers for a percentile of values it kept in buckets only.

    Parameters
    ----------
    values : iterable of float
        The sample, not negative.
    p : float
        Percent, 0 to 100.
    bounds : sequence of float
        Upper bounds of the buckets, ascending; one without bound follows.

    Returns
    -------
    float
        Linear inside the bucket of rank np; the last bound where that rank lies beyond it.

    Raises
    ------
    CalcError
        If the sample is empty or holds what is no number, or `p` is out of range.

    References
    ----------
    Prometheus documentation, "Query functions", histogram_quantile: linear within a bucket, the lowest
    one from 0, and the second-highest bound where the rank lies in the last bucket.

    Examples
    --------
    >>> histogram_percentile([0.011, 0.012, 0.013, 0.014], 50, [0.01, 0.025, 0.05])
    0.0175
    """
    _check_percent(p)
    sample = _ascending("histogram_percentile", values)
    rank, lower, below = len(sample) * p / 100, 0.0, 0
    for bound in bounds:
        within = sum(value <= bound for value in sample)
        if within >= rank and within > below:
            return lower + (bound - lower) * (rank - below) / (within - below)
        lower, below = bound, within
    return bounds[-1]


def percentile_interval(
    values: Iterable[float], p: float, confidence: float = 0.95
) -> tuple[float | None, float | None]:
    """Two values of the sample that enclose the true percentile, whatever the distribution.

    Parameters
    ----------
    values : iterable of float
        Independent observations, in any order.
    p : float
        Percent, between 0 and 100.
    confidence : float
        At least this probability that the interval holds the percentile; half of the rest on each side.

    Returns
    -------
    (float or None, float or None)
        None where the sample is too small to bound that side.

    Raises
    ------
    CalcError
        If the sample is empty or holds what is no number, or a probability is out of range.

    Notes
    -----
    Observations below the percentile are binomial, so ranks bound it: no shape is assumed. Requests of
    one run share queues and batches. They are not independent, and the true interval is wider; repeated
    runs show by how much.

    References
    ----------
    David and Nagaraja, "Order Statistics", 3rd edition, 2003, section 7.1.

    Examples
    --------
    >>> percentile_interval(range(1, 1001), 99)
    (983, 997)
    >>> percentile_interval(range(1, 101), 99)
    (97, None)
    """
    ordered = _ascending("percentile_interval", values)
    lower, upper = interval_ranks(len(ordered), p, confidence)
    return (ordered[lower - 1] if lower else None, ordered[upper - 1] if upper else None)


def interval_ranks(requests: int, p: float, confidence: float = 0.95) -> tuple[int | None, int | None]:
    """Ranks, from 1, of the two values that `percentile_interval` returns."""
    _check_probability("confidence", confidence)
    _check_count("requests", requests)
    share, tail = _share("p", p), (1 - confidence) / 2
    lower = _binomial_quantile(requests, share, tail, above=True)
    upper = _binomial_quantile(requests, share, 1 - tail, above=False) + 1
    return lower or None, upper if upper <= requests else None


def requests_for_percentile(p: float, confidence: float = 0.95) -> int:
    """Fewest requests whose slowest one is, with this confidence, at or above the percentile.

    Below it no value of the sample bounds the percentile from above: a "p99" is a guess.

    Parameters
    ----------
    p : float
        Percent, between 0 and 100.
    confidence : float
        Between 0 and 1.

    Returns
    -------
    int
        Requests.

    Raises
    ------
    CalcError
        If a probability is out of range.

    Notes
    -----
    All n independent requests stay below the percentile with probability pⁿ; n makes it at most 1 − confidence.

    Examples
    --------
    >>> requests_for_percentile(99), requests_for_percentile(99, confidence=0.99), requests_for_percentile(99.9)
    (299, 459, 2995)
    """
    _check_probability("confidence", confidence)
    return fewest_requests(share=_share("p", p), confidence=confidence)


def requests_for_margin(p: float, margin: float, confidence: float = 0.95) -> int:
    """Requests that pin a percentile down to a margin in percentage points of rank.

    Parameters
    ----------
    p : float
        Percent, between 0 and 100.
    margin : float
        Percentage points on either side: 0.5 places a p99 between the true p98.5 and p99.5.
    confidence : float
        Between 0 and 1.

    Returns
    -------
    int
        Requests, by the normal approximation to the binomial.

    Raises
    ------
    CalcError
        If a probability or the margin is out of range.

    References
    ----------
    Reddi et al., "MLPerf Inference Benchmark", ISCA 2020, arXiv:1911.02549, section III-D, equation 2.

    Examples
    --------
    >>> requests_for_margin(99, margin=0.05, confidence=0.99)
    262742
    """
    _check_probability("confidence", confidence)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return requests_within(deviations=z, share=_share("p", p), margin=_share("margin", margin))


def requests_to_prove(p: float, over: int, confidence: float = 0.99) -> int:
    """Fewest requests that prove a limit on a percentile although some of them are over the limit.

    Parameters
    ----------
    p : float
        Percent, between 0 and 100.
    over : int
        Requests seen over the limit.
    confidence : float
        Between 0 and 1.

    Returns
    -------
    int
        Requests in all, those over the limit included.

    Raises
    ------
    CalcError
        If a probability is out of range or `over` is negative.

    Notes
    -----
    The smallest n for which at most `over` requests would be over the limit with probability of at most
    1 − confidence if the true percentile were at the limit. MLPerf LoadGen calls it early stopping.

    Examples
    --------
    >>> [requests_to_prove(99, over) for over in (0, 1, 10)]
    [459, 662, 2010]
    """
    _check_probability("confidence", confidence)
    _share("p", p)
    _check_count("over", over)
    low, high = over, over + 1
    while binomial_cdf(high, 1 - p / 100, over) > 1 - confidence:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if binomial_cdf(middle, 1 - p / 100, over) <= 1 - confidence else (middle, high)
    return high


def _exact(n: int, p: float) -> float:
    """n · p / 100 with the last bit rounded off: 100 · 0.29 is 29, not 28.999…996."""
    return round(n * p / 100, 9)


def binomial_cdf(n: int, p: float, k: int) -> float:
    """Probability of at most `k` events in `n` trials, each with the chance `p`.

    Counts more than twelve deviations below the mean are left out: their chance does not matter in double precision.

    Examples
    --------
    >>> round(binomial_cdf(4, 0.5, 1), 12)
    0.3125
    """
    return min(fsum(_binomial(n, p, i) for i in range(_start(n, p), k + 1)), 1.0) if k < n else 1.0


def _binomial_quantile(n: int, p: float, q: float, *, above: bool) -> int:
    """Smallest k whose distribution function is above q, or at least q."""
    total = 0.0
    for k in range(_start(n, p), n + 1):
        total += _binomial(n, p, k)
        if total > q if above else total >= q:
            return k
    return n


def _start(n: int, p: float) -> int:
    """Below this count the probabilities are too small to matter in double precision."""
    return max(0, floor(n * p - 12 * sqrt(n * p * (1 - p)) - 12))


def _binomial(n: int, p: float, k: int) -> float:
    return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(p) + (n - k) * log(1 - p))


def _ascending(function: str, values: Iterable[float]) -> list[float]:
    """The sample in order; infinite values are kept, for a request that never ended has a latency too."""
    try:
        ordered = sorted(values)
        numbers = not any(map(isnan, ordered))
    except (TypeError, ValueError, OverflowError):
        numbers = False
    if not numbers:
        raise CalcError(f"{function}: the sample holds what is no number: give a list of numbers, and leave NaN out")
    if not ordered:
        raise CalcError(f"{function}: the sample is empty, wanted at least one value")
    return ordered


def _check_percent(p: float) -> None:
    if plain("percentile", "p", p, "") > 100:
        raise CalcError(f"percentile {p} is out of range: wanted percent, 0 to 100")


def _check_count(name: str, value: int) -> None:
    if plain("percentile", name, value, "count") > MOST_REQUESTS:
        raise CalcError(f"{name} is {value:,}, wanted {MOST_REQUESTS:,} at most")


def _share(name: str, percent: float) -> float:
    share = plain("percentile", name, percent, "") / 100
    _check_probability(f"{name} / 100", share)
    return share


def _check_probability(name: str, value: float) -> None:
    if not 0 < plain("percentile", name, value, "") < 1:
        raise CalcError(f"{name} is {value}, wanted a number between 0 and 1")
