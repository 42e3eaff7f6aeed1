"""A first-token budget: what its parts add up to, what a prompt's prefill is taken to cost, what a limit leaves."""

from math import ceil

from calc.queueing._checks import below_one, probability
from calc.units import CalcError, dimensions, format_seconds


@dimensions(
    "second",
    reach_s="second",
    gateway_s="second",
    server_s="second",
    queued_s="second",
    computed_s="second",
    delivered_s="second",
)
def first_token_seconds(*, reach_s, gateway_s, server_s, queued_s, computed_s, delivered_s):
    """Time to first token of one request, as the sum of the parts of its way.

    Parameters
    ----------
    reach_s : float
        From the client to the gateway: connection and network, seconds.
    gateway_s : float
        In the gateway, from receiving the request to passing it on.
    server_s : float
        In the server beside the engine: parsing, tokenizing, handing over, detokenizing the first token.
    queued_s : float
        Waiting to be scheduled.
    computed_s : float
        From being scheduled to the first token: prefill, whose last step samples it.
    delivered_s : float
        From the first byte out of the server to the client.

    Returns
    -------
    float
        Seconds from sending to the first token.

    Raises
    ------
    CalcError
        If a part is negative: two clocks then disagree.

    Notes
    -----
    Holds request by request, whatever depends on what. Of means too; of medians and percentiles it does not.

    Examples
    --------
    >>> outside = {"reach_s": 0.002, "gateway_s": 0.001, "server_s": 0.01, "delivered_s": 0.003}
    >>> round(first_token_seconds(queued_s=0.1, computed_s=0.2, **outside), 6)
    0.316
    """
    first_token_seconds = reach_s + gateway_s + server_s + queued_s + computed_s + delivered_s
    return first_token_seconds


@dimensions("second", floor_s="second", efficiency=">0")
def assumed_seconds(*, floor_s, efficiency):
    """What work is taken to last: its floor, over the share of the floor's rate that is assumed to be reached.

    Parameters
    ----------
    floor_s : float
        Least time, from `calc.roofline`, seconds.
    efficiency : float
        Above 0 and at most 1. Assumed until it is measured.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If the efficiency is above 1: nothing goes below its floor.

    Examples
    --------
    >>> assumed_seconds(floor_s=0.04, efficiency=0.5)
    0.08
    """
    if efficiency > 1:
        raise CalcError(f"efficiency is {efficiency}, wanted above 0 and at most 1: nothing goes below its floor")
    assumed_seconds = floor_s / efficiency
    return assumed_seconds


@dimensions("second", warm_share="", cold_s="second", warm_s="second")
def mixed_seconds(*, warm_share, cold_s, warm_s):
    """Mean time of two populations: prompts whose prefix is cached, and prompts whose prefix is not.

    Parameters
    ----------
    warm_share : float
        Share of requests that are warm, 0 to 1.
    cold_s, warm_s : float
        Mean time of each, seconds.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If the share is above 1.

    Notes
    -----
    Means mix this way. Percentiles don't: see `mixed`.

    Examples
    --------
    >>> mixed_seconds(warm_share=0.75, cold_s=0.2, warm_s=0.04)
    0.08
    """
    probability("warm_share", warm_share)
    mixed_seconds = (1 - warm_share) * cold_s + warm_share * warm_s
    return mixed_seconds


@dimensions("second", limit_s="second", spent_s="second")
def remaining_seconds(*, limit_s, spent_s):
    """What a limit leaves for the queue once everything else is paid.

    Parameters
    ----------
    limit_s, spent_s : float
        Seconds.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If more is spent than the limit allows.

    Examples
    --------
    >>> round(remaining_seconds(limit_s=0.5, spent_s=0.115), 3)
    0.385
    """
    if spent_s > limit_s:
        raise CalcError(
            f"{format_seconds(spent_s)} are spent before anybody waits, more than the limit of "
            f"{format_seconds(limit_s)}: raise the limit, or shorten the prompt or its prefill"
        )
    remaining_seconds = limit_s - spent_s
    return remaining_seconds


@dimensions("", limit_s="second", fixed_s="second", prefill_rate="1/second", hit_share="")
def prompt_that_fits(*, limit_s, fixed_s, prefill_rate, hit_share):
    """Longest prompt whose first token comes within a limit when nobody waits.

    Parameters
    ----------
    limit_s, fixed_s : float
        The limit, and what is spent outside of prefill, seconds.
    prefill_rate : float
        Prompt tokens that prefill computes in a second.
    hit_share : float
        Share of the prompt found in the prefix cache, below 1.

    Returns
    -------
    float
        Tokens of the whole prompt.

    Raises
    ------
    CalcError
        If the fixed part is above the limit, or the share is not below 1.

    Notes
    -----
    Every token is taken to cost the same; attention makes late ones dearer.

    Examples
    --------
    >>> round(prompt_that_fits(limit_s=0.3, fixed_s=0.05, prefill_rate=15_000, hit_share=0.7))
    12500
    """
    remaining_seconds(limit_s=limit_s, spent_s=fixed_s)  # refuses what can't fit
    below_one("hit_share", hit_share)
    prompt_that_fits = (limit_s - fixed_s) * prefill_rate / (1 - hit_share)
    return prompt_that_fits


@dimensions("second", ttft_s="second", tpot_s="second", hidden_tokens="count")
def visible_token_seconds(*, ttft_s, tpot_s, hidden_tokens):
    """Time to the first token that a user sees, where hidden reasoning comes before it.

    Parameters
    ----------
    ttft_s, tpot_s : float
        Time to the first token of any kind, and time for each after it, seconds.
    hidden_tokens : int
        Tokens that are generated and not shown.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Examples
    --------
    >>> visible_token_seconds(ttft_s=0.3, tpot_s=0.015, hidden_tokens=800)
    12.3
    """
    visible_token_seconds = ttft_s + hidden_tokens * tpot_s
    return visible_token_seconds


@dimensions("second", ttft_s="second", gap_s="second", held_bytes="byte", message_size="byte>0")
def buffered_seconds(*, ttft_s, gap_s, held_bytes, message_size):
    """Time to first token behind a proxy that holds the answer back until a buffer is full.

    Parameters
    ----------
    ttft_s : float
        When the first message leaves the server, seconds.
    gap_s : float
        Seconds from one message to the next.
    held_bytes : float
        Size of the buffer.
    message_size : float
        Bytes of one message.

    Returns
    -------
    float
        Seconds until the message that fills the buffer.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or messages have no bytes.

    Notes
    -----
    For answers that fill the buffer; a shorter one arrives when it ends. The gaps then look shorter than they are.

    Examples
    --------
    >>> buffered_seconds(ttft_s=0.5, gap_s=0.25, held_bytes=16 * 1024, message_size=247)
    17.0
    """
    buffered_seconds = ttft_s + max(ceil(held_bytes / message_size) - 1, 0) * gap_s
    return buffered_seconds
