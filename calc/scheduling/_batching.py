"""The arithmetic of batches: idle places, what waiting for the longest can cost, waits, and lengths of responses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, exp, floor

from calc.units import CalcError, dimensions, plain

MOST_TOKENS = 2**20  # a longest response, or places, that a sum walks through


@dimensions("count", places="count>0", steps="count>0", all_tokens="count>0")
def idle_slot_steps(*, places, steps, all_tokens):
    """Places times steps in which nothing was computed.

    Parameters
    ----------
    places : int
        Sequences that can run at once.
    steps : int
        Steps of the schedule.
    all_tokens : int
        Output tokens of all requests: each takes one place for one step.

    Returns
    -------
    int

    Raises
    ------
    CalcError
        If an argument is not a whole number above 0, or there are more tokens than places times steps.

    Notes
    -----
    Holds where a prompt is computed in the step that samples its first token: no prompt is cut, nobody
    speculates or is preempted.

    Examples
    --------
    >>> idle_slot_steps(places=2, steps=10, all_tokens=13)
    7
    """
    if all_tokens > places * steps:
        raise CalcError(f"{all_tokens} tokens don't fit into {places} places times {steps} steps: one each at most")
    idle_slot_steps = places * steps - all_tokens
    return idle_slot_steps


@dimensions("", places="count>0", steps="count>0", all_tokens="count>0")
def occupancy(*, places, steps, all_tokens):
    """Share of the places that hold a sequence, over all steps.

    Parameters
    ----------
    places, steps, all_tokens : int
        As in `idle_slot_steps`.

    Returns
    -------
    float

    Raises
    ------
    CalcError
        As in `idle_slot_steps`.

    Examples
    --------
    >>> occupancy(places=2, steps=10, all_tokens=13)
    0.65
    """
    if all_tokens > places * steps:
        raise CalcError(f"{all_tokens} tokens don't fit into {places} places times {steps} steps: one each at most")
    occupancy = all_tokens / (places * steps)
    return occupancy


@dimensions("", places="count>0", all_requests="count>0", all_tokens="count>0")
def largest_gain(*, places, all_requests, all_tokens):
    """The most times as many steps that static batches can take, for requests that all wait at the start.

    Parameters
    ----------
    places : int
        Sequences that can run at once.
    all_requests : int
        Requests.
    all_tokens : int
        Output tokens of all of them, at least one each.

    Returns
    -------
    float
        At least 1, and below `places` unless there is one place.

    Raises
    ------
    CalcError
        If an argument is not a whole number above 0, or there are fewer tokens than requests.

    Notes
    -----
    A batch lasts as long as its longest response; each other one in it has at least one token. So all
    batches together last at most as long as all tokens, less one for each request that is not the longest
    of its batch. No schedule does more than one token per place and step, and none is shorter than the
    longest response, while each batch is at most that long. All this holds where places are the only limit,
    and without drafts. The first term is reached with any number of places: as many batches as places, in
    each one long response behind single tokens, and the long ones such that all end in the same step. Then
    no place idles.

    Examples
    --------
    >>> largest_gain(places=2, all_requests=4, all_tokens=202)
    1.9801980198019802
    >>> from calc.scheduling import continuous_steps, static_steps
    >>> outputs = [1, 1, 5, 1, 1, 3, 1, 1, 1]
    >>> static_steps(outputs, places=3) / continuous_steps(outputs, places=3)
    1.8
    >>> largest_gain(places=3, all_requests=9, all_tokens=15)
    1.8
    """
    if all_tokens < all_requests:
        raise CalcError(f"{all_tokens} tokens are too few for {all_requests} requests: each has at least one")
    batches = ceil(all_requests / places)
    largest_gain = min(places * (all_tokens - all_requests + batches) / all_tokens, batches)
    return largest_gain


@dimensions("", longest_output=">0", mean_output=">0")
def expected_gain(*, longest_output, mean_output):
    """Times as many steps that static batches take when a long queue keeps every place filled.

    Parameters
    ----------
    longest_output : float
        Tokens of the longest response of a batch, on average; see `expected_longest`.
    mean_output : float
        Tokens of a response, on average.

    Returns
    -------
    float

    Raises
    ------
    CalcError
        If an argument is not above 0.

    Notes
    -----
    In the limit of many requests whose lengths are independent of their order. The end of a finite queue,
    when places run empty under either schedule, makes it smaller.

    Examples
    --------
    >>> expected_gain(longest_output=400, mean_output=200)
    2.0
    """
    expected_gain = longest_output / mean_output
    return expected_gain


@dimensions(
    "second",
    steps=">0",
    base_s="second",
    prefill_tokens="",
    prefill_token_s="second",
    decode_rows="",
    decode_row_s="second",
)
def schedule_seconds(*, steps, base_s, prefill_tokens, prefill_token_s, decode_rows, decode_row_s):
    """Time of some steps, from what they hold together: `Affine` without the cached tokens.

    Parameters
    ----------
    steps : float
        Steps; 1 for the time of one.
    base_s : float
        Seconds of a step, whatever it holds.
    prefill_tokens, prefill_token_s : float
        Prompt tokens in these steps, and seconds for each.
    decode_rows, decode_row_s : float
        Decoding sequences in these steps, a sequence counted once for each step, and seconds for each.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or there is no step.

    Notes
    -----
    Prompts and responses are the same whatever the schedule, so two schedules of the same requests differ
    in the first term alone, as long as nothing is computed twice.

    Examples
    --------
    >>> schedule_seconds(
    ...     steps=1, base_s=0.015, prefill_tokens=0, prefill_token_s=5e-5, decode_rows=50, decode_row_s=1e-4
    ... )
    0.02
    """
    schedule_seconds = steps * base_s + prefill_tokens * prefill_token_s + decode_rows * decode_row_s
    return schedule_seconds


@dimensions("second", requests="count>0", places="count>0", service_s="second")
def burst_wait(*, requests, places, service_s):
    """Mean wait of equal requests that all arrive at once.

    Parameters
    ----------
    requests : int
        Requests in the burst.
    places : int
        Requests served at once.
    service_s : float
        Seconds that each one is served.

    Returns
    -------
    float
        Seconds from arrival to the start of service, averaged over the burst.

    Raises
    ------
    CalcError
        If an argument is out of range.

    Notes
    -----
    They go in waves of `places`, and wave k waits k service times. A step is taken to last as long
    whatever it holds.

    Examples
    --------
    >>> burst_wait(requests=8, places=4, service_s=7.8)
    3.9
    """
    waves = floor(requests / places)
    rest = requests - waves * places
    burst_wait = service_s * (places * waves * (waves - 1) / 2 + rest * waves) / requests
    return burst_wait


# --- lengths of responses ---


def length_at(quantiles: Sequence[float], share: float) -> float:
    """The length that a share of the requests does not exceed, with straight lines between the quantiles.

    Parameters
    ----------
    quantiles : sequence of float
        Equally spaced, from the least to the largest; two at least.
    share : float
        0 to 1.

    Examples
    --------
    >>> length_at((10, 20, 60), 0.75)
    40.0
    """
    place = min(int(share * (len(quantiles) - 1)), len(quantiles) - 2)
    low, high = quantiles[place], quantiles[place + 1]
    return low + (high - low) * (share * (len(quantiles) - 1) - place)


def expected_longest(quantiles: Sequence[float], places: int) -> float:
    """Mean of the longest of some independent lengths; for one, their mean.

    Parameters
    ----------
    quantiles : sequence of float
        As in `length_at`.
    places : int
        Lengths drawn.

    Returns
    -------
    float

    Raises
    ------
    CalcError
        If there are fewer than two quantiles, they fall, or no length is drawn.

    Notes
    -----
    The longest of n draws is below the u-quantile with probability uⁿ, so this is the integral of the
    quantile times n·uⁿ⁻¹, here in closed form for straight lines.

    Examples
    --------
    >>> expected_longest((0, 1), 1), expected_longest((0, 1), 3)
    (0.5, 0.75)
    """
    if len(quantiles) < 2 or list(quantiles) != sorted(quantiles) or places < 1:
        raise CalcError("expected_longest: wanted two quantiles at least, none below the one before, and a place")
    parts = len(quantiles) - 1
    above = [(i / parts) ** (places + 1) * parts / (places + 1) for i in range(parts + 1)]
    steps = zip(pairwise(quantiles), pairwise(above), strict=True)
    return quantiles[-1] - sum((high - low) * (b - a) for (low, high), (a, b) in steps)


def expected_longest_geometric(mean: float, places: int) -> float:
    """Mean of the longest of some lengths, if each token is the last with the same probability.

    Parameters
    ----------
    mean : float
        Mean length, at least 1.
    places : int
        Lengths drawn.

    Returns
    -------
    float

    Raises
    ------
    CalcError
        If the mean or the number of lengths is below 1 or above a million.

    Examples
    --------
    >>> expected_longest_geometric(200, 1)
    200.0
    >>> round(expected_longest_geometric(200, 8) / 200, 2)
    2.71
    """
    for name, value in (("mean", mean), ("places", places)):
        if not 1 <= plain("expected_longest_geometric", name, value, "") <= MOST_TOKENS:
            raise CalcError(f"expected_longest_geometric: {name} is {value}, wanted 1 to {MOST_TOKENS:,}")
    if places == 1:
        return float(mean)
    total, beyond = 0.0, 1.0  # the probability that one length is beyond so many tokens
    while places * beyond > 1e-12 * max(total, 1):
        total += 1 - (1 - beyond) ** places
        beyond *= 1 - 1 / mean
    return total


def expected_longest_exponential(mean: float, places: int, *, cap: int) -> float:
    """Mean of the longest of some exponential lengths, each rounded, and drawn again above a cap; for one, their mean.

    Parameters
    ----------
    mean : float
        Mean length before rounding and without the cap, above 0.
    places : int
        Lengths drawn.
    cap : int
        Longest length that is kept.

    Returns
    -------
    float

    Raises
    ------
    CalcError
        If the mean is not above 0, no length is drawn, the cap is below 1, or either is above a million.

    Notes
    -----
    How Anyscale's benchmark of static and continuous batches drew its responses. The longest of n draws is at most l
    with the n-th power of one draw's chance.

    Examples
    --------
    Far below the cap, rounding apart: 1 + 1/2 + 1/3 + 1/4 means.

    >>> round(expected_longest_exponential(128, 4, cap=1536) / expected_longest_exponential(128, 1, cap=1536), 3)
    2.083
    """
    plain("expected_longest_exponential", "mean", mean, ">0")
    for name, value in (("places", places), ("cap", cap)):
        if plain("expected_longest_exponential", name, value, "count>0") > MOST_TOKENS:
            raise CalcError(f"expected_longest_exponential: {name} is {value:,}, wanted {MOST_TOKENS:,} at most")

    def at_most(length: int) -> float:  # of one draw, before the cap
        return 1 - exp(-(length + 0.5) / mean)

    return sum(1 - (at_most(length) / at_most(cap)) ** places for length in range(cap))
