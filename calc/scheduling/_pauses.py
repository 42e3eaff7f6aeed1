"""What chunks do to step times and to the streams beside them."""

from calc.units import CalcError, dimensions


@dimensions("", stalls="count", interval_s="second>0", stall_s="second", other_gap_s="second>0")
def stalled_share(*, stalls, interval_s, stall_s, other_gap_s):
    """Share of a stream's gaps that a prefill lengthens, where a long prompt comes at regular intervals.

    Parameters
    ----------
    stalls : int
        Gaps that one prompt lengthens: 1 for a prompt in one step, else its chunks.
    interval_s : float
        Seconds from one long prompt to the next.
    stall_s : float
        A gap while the prompt is computed.
    other_gap_s : float
        Any other gap.

    Returns
    -------
    float
        0 to 1. A percentile above 1 less this share is a stalled gap.

    Raises
    ------
    CalcError
        If an argument is negative, or the interval or the gap is 0.

    Notes
    -----
    All stalls alike, and all other gaps alike. Where the prompts fill the interval, every gap is stalled.

    Examples
    --------
    The long gap of half a second, once a second and once in four:

    >>> round(stalled_share(stalls=1, interval_s=1, stall_s=0.5, other_gap_s=0.015), 3)
    0.029
    >>> round(stalled_share(stalls=1, interval_s=4, stall_s=0.5, other_gap_s=0.015), 4)
    0.0043
    """
    other_gaps = max(interval_s - stalls * stall_s, 0) / other_gap_s
    stalled_share = stalls / (stalls + other_gaps)
    return stalled_share


@dimensions("1/second", stalls="count>0", stall_s="second", other_gap_s="second>0", stalled_share=">0")
def stall_rate(*, stalls, stall_s, other_gap_s, stalled_share):
    """Long prompts a second at which stalled gaps make up a given share.

    `stalled_share` solved for the interval.

    Parameters
    ----------
    stalls : int
        Gaps that one prompt lengthens.
    stall_s, other_gap_s : float
        A stalled gap, and any other.
    stalled_share : float
        0 to 1: 0.01 is where the 99th percentile starts to see them.

    Returns
    -------
    float
        Prompts per second.

    Raises
    ------
    CalcError
        If an argument is negative, one but the stall is 0, or the share is above 1.

    Examples
    --------
    >>> round(stall_rate(stalls=1, stall_s=0.5, other_gap_s=0.015, stalled_share=0.01), 2)
    0.5
    """
    if stalled_share > 1 or (stalled_share == 1 and stall_s == 0):
        raise CalcError("stall_rate: stalled_share is 1 at most, and below that where a stall takes no time")
    interval_s = stalls * (stall_s + other_gap_s * (1 - stalled_share) / stalled_share)
    stall_rate = 1 / interval_s
    return stall_rate


# --- step times ------------------------------------------------------------------------------------


@dimensions("second", small_s="second", large_s="second", small_tokens="count", large_tokens="count>0")
def token_slope(*, small_s, large_s, small_tokens, large_tokens):
    """What one prompt token more adds to a step, from the times of two steps.

    Parameters
    ----------
    small_s, large_s : float
        Times of a smaller and of a larger step.
    small_tokens, large_tokens : int
        Their tokens.

    Returns
    -------
    float
        Seconds per token.

    Raises
    ------
    CalcError
        If an argument is negative, a count is not whole, or the larger step is not the larger and slower one.

    Notes
    -----
    A straight line through two points. Attention to a prefix is not in it.

    Examples
    --------
    >>> round(token_slope(small_s=0.011, large_s=0.043, small_tokens=256, large_tokens=2048) * 1e6, 1)
    17.9
    """
    if large_tokens <= small_tokens or large_s < small_s:
        raise CalcError("token_slope: the larger step must have more tokens, and may not be faster")
    token_slope = (large_s - small_s) / (large_tokens - small_tokens)
    return token_slope


@dimensions("second", small_s="second", small_tokens="count", token_slope="second")
def step_base(*, small_s, small_tokens, token_slope):
    """What a step costs before its first token.

    Parameters
    ----------
    small_s : float
        Time of a step.
    small_tokens : int
        Its tokens.
    token_slope : float
        Seconds for each of them.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or tokens are not whole.

    Examples
    --------
    >>> round(step_base(small_s=0.011, small_tokens=256, token_slope=17.86e-6) * 1e3, 2)
    6.43
    """
    step_base = small_s - small_tokens * token_slope
    return step_base


@dimensions("second", mixed_s="second", prefill_s="second", decode_tokens="count>0")
def added_token(*, mixed_s, prefill_s, decode_tokens):
    """What a decode token adds to a step that computes a chunk anyway.

    Parameters
    ----------
    mixed_s : float
        Time of the step with decode tokens.
    prefill_s : float
        Time of a step with the prompt's tokens alone.
    decode_tokens : int
        Decode tokens in the first.

    Returns
    -------
    float
        Seconds per decode token.

    Raises
    ------
    CalcError
        If an argument is negative, or there is no decode token.

    Examples
    --------
    >>> round(added_token(mixed_s=0.2384, prefill_s=0.2348, decode_tokens=3) * 1e3, 3)
    1.2
    """
    added_token = (mixed_s - prefill_s) / decode_tokens
    return added_token


@dimensions("second", step_s="second", step_tokens="count>0")
def token_share(*, step_s, step_tokens):
    """A step's time divided among its tokens.

    Parameters
    ----------
    step_s : float
        Time of the step.
    step_tokens : int
        Its tokens.

    Returns
    -------
    float
        Seconds per token.

    Raises
    ------
    CalcError
        If an argument is negative, or there is no token.

    Examples
    --------
    >>> token_share(step_s=0.04996, step_tokens=4)
    0.01249
    """
    token_share = step_s / step_tokens
    return token_share
