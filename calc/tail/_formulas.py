"""Arithmetic of a tail: two clocks, a wait that no clock shows, and what one slow request does to a mean."""

from __future__ import annotations

from math import comb

from calc.units import CalcError, dimensions, plain


@dimensions("second", sent_s="second", received_s="second", replied_s="second", returned_s="second")
def clock_offset(*, sent_s, received_s, replied_s, returned_s):
    """How far another machine's clock is ahead, from one request and its answer.

    Parameters
    ----------
    sent_s, returned_s : float
        When the request left and its answer came back, seconds on the own clock.
    received_s, replied_s : float
        When the other machine received it and replied, seconds on that machine's clock.

    Returns
    -------
    float
        Seconds; below 0 if the other clock is behind.

    Raises
    ------
    CalcError
        If a stamp is negative or not finite.

    Notes
    -----
    Right if both ways take equally long. If they don't, it is off by half their difference, and never by more than
    `clock_slack`.

    References
    ----------
    RFC 5905, "Network Time Protocol Version 4", section 8: the offset of the on-wire protocol.

    Examples
    --------
    >>> round(clock_offset(sent_s=10.0, received_s=10.031, replied_s=10.131, returned_s=10.102), 6)
    0.03
    """
    clock_offset = ((received_s - sent_s) + (replied_s - returned_s)) / 2
    return clock_offset


@dimensions("second", sent_s="second", received_s="second", replied_s="second", returned_s="second")
def clock_slack(*, sent_s, received_s, replied_s, returned_s):
    """How far `clock_offset` can be off at most: half the time that was spent on the way.

    Parameters
    ----------
    sent_s, returned_s : float
        When the request left and its answer came back, seconds on the own clock.
    received_s, replied_s : float
        When the other machine received it and replied, seconds on that machine's clock.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If a stamp is negative or not finite.

    Notes
    -----
    No message arrives before it was sent. That alone bounds the offset from both sides, whatever the network did.

    References
    ----------
    RFC 5905, "Network Time Protocol Version 4", section 8: half of the round-trip delay.

    Examples
    --------
    >>> round(clock_slack(sent_s=10.0, received_s=10.031, replied_s=10.131, returned_s=10.102), 6)
    0.001
    """
    clock_slack = ((returned_s - sent_s) - (replied_s - received_s)) / 2
    return clock_slack


@dimensions("", slack_s="second", apart_s="second>0")
def drift_slack(*, slack_s, apart_s):
    """How well two offsets that are each known to within a slack tell the rate of a clock.

    Parameters
    ----------
    slack_s : float
        Seconds that each offset may be off, to either side.
    apart_s : float
        Seconds between the two moments, above 0.

    Returns
    -------
    float
        Seconds a second, to either side; 1e-6 is a part per million.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or no time lies between the moments.

    Examples
    --------
    >>> round(1e6 * drift_slack(slack_s=0.0003, apart_s=12))
    50
    """
    drift_slack = 2 * slack_s / apart_s
    return drift_slack


@dimensions("second", forwarded_s="second", first_byte_s="second", queued_s="second", computed_s="second")
def unclocked_seconds(*, forwarded_s, first_byte_s, queued_s, computed_s):
    """Time between a gateway and an engine that neither of them accounts for, both ways together.

    Parameters
    ----------
    forwarded_s, first_byte_s : float
        When the gateway passed the request on and had the first byte of the answer, seconds on its clock.
    queued_s, computed_s : float
        The engine's own spans: from its queue to being scheduled, and from there to the first token.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Notes
    -----
    Three differences, each taken on one clock, so no alignment is needed. It holds network, HTTP, tokenizer, and the
    wait for an engine that is in the middle of a step: vLLM's queue span begins when its core takes the request in.

    Examples
    --------
    >>> round(unclocked_seconds(forwarded_s=5.0, first_byte_s=5.95, queued_s=0.0, computed_s=0.075), 6)
    0.875
    """
    unclocked_seconds = first_byte_s - forwarded_s - queued_s - computed_s
    return unclocked_seconds


@dimensions("second", outlier_s="second", all_requests="count>0")
def mean_shift(*, outlier_s, all_requests):
    """How far one slow request moves the mean of a window in which the others take almost no time.

    Parameters
    ----------
    outlier_s : float
        Its latency, seconds.
    all_requests : int
        Requests of the window, itself included.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or there is no request.

    Notes
    -----
    More requests in a window dilute it: a mean can fall while nothing gets faster.

    Examples
    --------
    >>> mean_shift(outlier_s=2480, all_requests=10)
    248.0
    """
    mean_shift = outlier_s / all_requests
    return mean_shift


@dimensions("second", late_s="second", early_s="second", turns="count>0")
def turn_seconds(*, late_s, early_s, turns):
    """Time of one request's turn, from how long the last of several waits more than the first.

    Parameters
    ----------
    late_s, early_s : float
        Latency of the one that waits for all others, and of one that waits for none, seconds.
    turns : int
        Requests whose turns lie between.

    Returns
    -------
    float
        Seconds a request.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or no turn lies between.

    Notes
    -----
    For a server whose places are all taken: each turn frees one.

    Examples
    --------
    >>> round(turn_seconds(late_s=40.113, early_s=4.607, turns=12), 3)
    2.959
    """
    turn_seconds = (late_s - early_s) / turns
    return turn_seconds


@dimensions("", token_rate="1/second", turn_s="second")
def turn_tokens(*, token_rate, turn_s):
    """Tokens that a saturated server makes in one turn: those of an answer.

    Parameters
    ----------
    token_rate : float
        Output tokens a second, of all requests.
    turn_s : float
        Seconds from one finished request to the next.

    Returns
    -------
    float

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Examples
    --------
    >>> round(turn_tokens(token_rate=83.1, turn_s=2.9588), 1)
    245.9
    """
    turn_tokens = token_rate * turn_s
    return turn_tokens


@dimensions("second", lost_tokens="", prefill_rate="1/second>0")
def recompute_seconds(*, lost_tokens, prefill_rate):
    """Stall of a request that was preempted and must be computed again.

    Parameters
    ----------
    lost_tokens : float
        Positions whose cache was given up.
    prefill_rate : float
        Tokens a second of prefill, above 0.

    Returns
    -------
    float
        Seconds, without the wait for a place.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or the rate is 0.

    Examples
    --------
    >>> round(recompute_seconds(lost_tokens=415, prefill_rate=15_000), 4)
    0.0277
    """
    recompute_seconds = lost_tokens / prefill_rate
    return recompute_seconds


@dimensions("second", lower_s="second", upper_s="second", ordinal="", below="", up_to=">0")
def bucket_point(*, lower_s, upper_s, ordinal, below, up_to):
    """The point that a straight line through a histogram's bucket puts at a rank.

    Parameters
    ----------
    lower_s, upper_s : float
        Bounds of the bucket that holds the rank, seconds.
    ordinal : float
        Observations up to the percentile: its share of all of them.
    below, up_to : float
        Observations up to the lower bound, and up to the upper one.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or the rank does not lie in the bucket.

    Notes
    -----
    What Prometheus' ``histogram_quantile`` answers. The true value can be anywhere in the bucket.

    References
    ----------
    Prometheus documentation, "Query functions", histogram_quantile.

    Examples
    --------
    >>> bucket_point(lower_s=0.5, upper_s=1.0, ordinal=99, below=98, up_to=100)
    0.75
    """
    if not below <= ordinal <= up_to or below == up_to:
        raise CalcError(f"bucket_point: no rank {ordinal:g} lies in a bucket that holds {below:g} to {up_to:g}")
    bucket_point = lower_s + (upper_s - lower_s) * (ordinal - below) / (up_to - below)
    return bucket_point


@dimensions("second", with_s="second", without_s="second")
def added_seconds(*, with_s, without_s):
    """What a part of the way adds to a percentile, from a run with it and one without.

    Parameters
    ----------
    with_s, without_s : float
        The same percentile of both runs, seconds.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Notes
    -----
    The difference of two percentiles, not a percentile of differences: no request needs to have waited just that long.

    Examples
    --------
    >>> round(added_seconds(with_s=2.907, without_s=1.918), 3)
    0.989
    """
    added_seconds = with_s - without_s
    return added_seconds


def chance_overlap(*, slow: int, marked: int, both: int, requests: int) -> float:
    """Probability that at least so many slow requests carry a mark if slowness has nothing to do with it.

    Parameters
    ----------
    slow, marked, both : int
        Requests that are slow, that carry the mark, and at least how many are both.
    requests : int
        All requests.

    Returns
    -------
    float
        Between 0 and 1: the upper tail of the hypergeometric distribution, which is Fisher's exact test on one side.

    Raises
    ------
    CalcError
        If a count is negative or not whole, or they contradict each other.

    Notes
    -----
    It takes requests as independent, and one mark that was chosen before looking. After trying twenty marks, one in
    twenty shows a chance of 5% by chance alone.

    Examples
    --------
    >>> round(chance_overlap(slow=3, marked=3, both=3, requests=72), 8)  # one way in 59,640
    1.677e-05
    """
    counts = {"slow": slow, "marked": marked, "both": both, "requests": requests}
    for name, count in counts.items():
        plain("chance_overlap", name, count, "count")
    if max(slow, marked) > requests or both > min(slow, marked):
        raise CalcError(
            f"chance_overlap: {slow} slow and {marked} marked ones of {requests} requests can't have {both} in common"
        )
    ways = sum(comb(marked, k) * comb(requests - marked, slow - k) for k in range(both, min(slow, marked) + 1))
    return ways / comb(requests, slow)
