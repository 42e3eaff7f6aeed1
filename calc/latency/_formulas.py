"""The formulas of latency, one function each, on plain numbers in seconds and tokens."""

from calc.units import CalcError, dimensions


@dimensions("second", first_token_s="second", sent_s="second")
def time_to_first_token(*, first_token_s, sent_s):
    """Time to first token (TTFT): from sending the request to the first message that carries a token.

    Parameters
    ----------
    first_token_s, sent_s : float
        Both on one clock, seconds.

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
    Holds everything before the token: network, gateway, queue, prefill. An empty first message is not
    a token; a token of hidden reasoning is one.

    Examples
    --------
    >>> time_to_first_token(first_token_s=1.75, sent_s=1.5)
    0.25
    """
    time_to_first_token = first_token_s - sent_s
    return time_to_first_token


@dimensions("second", last_token_s="second", first_token_s="second", output_tokens=">0", first_tokens=">0")
def time_per_output_token(*, last_token_s, first_token_s, output_tokens, first_tokens=1):
    """Time per output token (TPOT): the mean time of a token after the first.

    Parameters
    ----------
    last_token_s, first_token_s : float
        Arrival of the last and of the first message that carries a token, seconds.
    output_tokens : float
        Tokens of the answer, more than came first, hidden reasoning included.
    first_tokens : float
        Of them, those that came in the first message: their time is in TTFT.

    Returns
    -------
    float
        Seconds per token.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or there is no token after the first.

    Examples
    --------
    >>> time_per_output_token(last_token_s=3.0, first_token_s=1.0, output_tokens=101)
    0.02
    """
    if output_tokens <= 1:
        raise CalcError("time_per_output_token: output_tokens is 1: a one-token answer has no time per output token")
    if output_tokens <= first_tokens:
        raise CalcError(f"time_per_output_token: all {output_tokens} tokens came first: give an answer that goes on")
    time_per_output_token = (last_token_s - first_token_s) / (output_tokens - first_tokens)
    return time_per_output_token


@dimensions("second", ttft_s="second", tpot_s="second", output_tokens=">0")
def end_to_end(*, ttft_s, tpot_s, output_tokens):
    """End-to-end latency (E2E) from its parts: the first token, then the others at TPOT each.

    Parameters
    ----------
    ttft_s, tpot_s : float
        Seconds.
    output_tokens : float
        Tokens of the answer; a mean may have a fraction.

    Returns
    -------
    float
        Seconds to the last token.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or there is no token.

    Notes
    -----
    Exact for one request whose first message holds one token. For means it is exact only where TPOT
    and length are uncorrelated. Percentiles don't add up this way.

    Examples
    --------
    >>> end_to_end(ttft_s=0.5, tpot_s=0.02, output_tokens=101)
    2.5
    """
    end_to_end = ttft_s + tpot_s * (output_tokens - 1)
    return end_to_end


@dimensions("second", e2e_s="second", ttft_s="second", output_tokens=">0")
def tpot_left_by_end_to_end(*, e2e_s, ttft_s, output_tokens):
    """The TPOT that an end-to-end limit leaves after the first token: the check on a set of limits.

    Parameters
    ----------
    e2e_s, ttft_s : float
        Limits on end-to-end latency and on TTFT, seconds.
    output_tokens : float
        Tokens of the answer, more than one.

    Returns
    -------
    float
        Seconds per token. A sooner first token leaves more: a limit on TPOT never decides only where it is above what
        a first token at once leaves (``ttft_s=0``).

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or there is no token after the first.

    Examples
    --------
    >>> round(tpot_left_by_end_to_end(e2e_s=0.79, ttft_s=0.1, output_tokens=128), 5)
    0.00543
    """
    if output_tokens <= 1:
        raise CalcError("tpot_left_by_end_to_end: output_tokens is 1: a one-token answer has no time per output token")
    tpot_left_by_end_to_end = (e2e_s - ttft_s) / (output_tokens - 1)
    return tpot_left_by_end_to_end


@dimensions("second", e2e_s="second", output_tokens=">0")
def normalized_latency(*, e2e_s, output_tokens):
    """End-to-end latency shared among all output tokens, the first one and its queue included.

    Parameters
    ----------
    e2e_s : float
        Seconds.
    output_tokens : float
        Tokens of the answer.

    Returns
    -------
    float
        Seconds per token.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or there is no token.

    Notes
    -----
    Some tools call this TPOT or inter-token latency. It is always at least E2E's share of TTFT, so short
    answers look slow.

    References
    ----------
    Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention",
    SOSP 2023, section 6.1, measures normalized latency.

    Examples
    --------
    >>> normalized_latency(e2e_s=2.5, output_tokens=100)
    0.025
    """
    normalized_latency = e2e_s / output_tokens
    return normalized_latency


@dimensions("", gap_s="second", tpot_s="second>0")
def tokens_per_message(*, gap_s, tpot_s):
    """Tokens that arrive together: the mean gap between messages over the mean time per token.

    Parameters
    ----------
    gap_s : float
        Mean gap between messages (ITL), seconds.
    tpot_s : float
        Mean time per token, seconds.

    Returns
    -------
    float
        Tokens per message; with speculative decoding, the tokens accepted per step.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or the time per token is 0.

    Examples
    --------
    >>> tokens_per_message(gap_s=0.03, tpot_s=0.01)
    3.0
    """
    tokens_per_message = gap_s / tpot_s
    return tokens_per_message


@dimensions("", token_rate="1/second", tpot_s="second")
def requests_decoding(*, token_rate, tpot_s):
    """Requests that are decoding on average: Little's law on the output tokens.

    Parameters
    ----------
    token_rate : float
        Output tokens per second of all requests together.
    tpot_s : float
        Mean time per output token, seconds.

    Returns
    -------
    float
        Requests; those in flight beyond it wait or prefill.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Examples
    --------
    >>> requests_decoding(token_rate=16_000, tpot_s=0.05)
    800.0
    """
    requests_decoding = token_rate * tpot_s
    return requests_decoding


@dimensions("1/second", events="", window_s="second>0")
def per_second(*, events, window_s):
    """Throughput or goodput: what finished in a window, per second of the window.

    Parameters
    ----------
    events : float
        Requests, good requests or tokens counted in the window.
    window_s : float
        Its length, seconds.

    Returns
    -------
    float
        Per second.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or the window is empty.

    Examples
    --------
    >>> per_second(events=300, window_s=60)
    5.0
    """
    per_second = events / window_s
    return per_second


@dimensions("", good="count", completed="count", failed="count")
def attainment(*, good, completed, failed):
    """Share of requests that met every objective: failures miss, requests the run cut off don't count.

    Parameters
    ----------
    good, completed, failed : int
        Requests that met every objective, that got a whole answer, that got none from the server.

    Returns
    -------
    float
        0 to 1.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, more are good than completed, or none ended.

    References
    ----------
    The denominator that vllm-project/guidellm#1085 settled on.

    Examples
    --------
    >>> round(attainment(good=80, completed=90, failed=5), 4)
    0.8421
    """
    if good > completed or completed + failed == 0:
        raise CalcError("attainment: wanted some requests that completed or failed, and as many good ones at most")
    attainment = good / (completed + failed)
    return attainment
