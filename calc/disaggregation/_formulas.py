"""The arithmetic of a handoff, of a ratio of workers and of what is counted: one function each."""

from calc.units import CalcError, dimensions


@dimensions("count", blocks="count>0", layers="count>0", tensors="count>0")
def descriptors(*, blocks, layers, tensors):
    """Pieces of memory that a rank hands to the wire for one prompt: one for each block, layer and tensor.

    Parameters
    ----------
    blocks : int
        Blocks of the prompt's cache.
    layers : int
        Layers that keep a cache.
    tensors : int
        Tensors that a layer keeps apart: 2 for keys and values, 1 for a latent.

    Returns
    -------
    int
        Descriptors, where no two blocks lie side by side and are joined.

    Raises
    ------
    CalcError
        If a count is 0, negative or not whole.

    Examples
    --------
    A transfer of Llama-70B in nixl 1514:

    >>> descriptors(blocks=118, layers=80, tensors=2)
    18880
    """
    descriptors = blocks * layers * tensors
    return descriptors


@dimensions("byte", cache_bytes="byte", descriptors="count>0")
def fragment_bytes(*, cache_bytes, descriptors):
    """Size of the piece that one descriptor names.

    Parameters
    ----------
    cache_bytes : float
        What is moved, bytes.
    descriptors : int
        Pieces that it is moved in.

    Returns
    -------
    float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or there is no descriptor.

    Examples
    --------
    >>> fragment_bytes(cache_bytes=4.9e9, descriptors=100_000)
    49000.0
    """
    fragment_bytes = cache_bytes / descriptors
    return fragment_bytes


@dimensions("second", cache_bytes="byte", wire_rate="byte/second>0", descriptors="count", descriptor_s="second")
def transfer_seconds(*, cache_bytes, wire_rate, descriptors, descriptor_s):
    """Time to move one rank's part of a prompt's cache: its bytes on the wire, and posting its pieces.

    Parameters
    ----------
    cache_bytes : float
        Of one rank, bytes.
    wire_rate : float
        What its link reaches with large pieces, B/s; not its nominal speed.
    descriptors : int
        Pieces that the bytes lie in.
    descriptor_s : float
        Time to post one, seconds.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or the rate is 0.

    Notes
    -----
    Posting and moving one after the other: nothing is on the wire while a thread posts. Where it is, as little as the
    longer of the two remains.
    Ranks move their parts side by side.

    Examples
    --------
    >>> transfer_seconds(cache_bytes=100e6, wire_rate=50e9, descriptors=10_000, descriptor_s=2e-6)
    0.022
    """
    transfer_seconds = cache_bytes / wire_rate + descriptors * descriptor_s
    return transfer_seconds


@dimensions("byte/second", cache_bytes="byte", transfer_s="second>0")
def effective_rate(*, cache_bytes, transfer_s):
    """Rate that a handoff reaches: what was moved over all the time that it took.

    Parameters
    ----------
    cache_bytes : float
        Bytes.
    transfer_s : float
        From the first descriptor to the last byte, seconds.

    Returns
    -------
    float
        B/s.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or the time is 0.

    Examples
    --------
    >>> effective_rate(cache_bytes=100e6, transfer_s=0.025)
    4000000000.0
    """
    effective_rate = cache_bytes / transfer_s
    return effective_rate


@dimensions("second", transfer_s="second", prompt_s="second", layers="count>0")
def exposed_seconds(*, transfer_s, prompt_s, layers):
    """What is left of a transfer after the prompt is computed, if every layer is sent as soon as it is done.

    Parameters
    ----------
    transfer_s : float
        Time to move all layers, seconds.
    prompt_s : float
        Time to compute all layers, seconds.
    layers : int
        Equal layers.

    Returns
    -------
    float
        Seconds after the last layer is computed: one layer's transfer where the wire keeps up, more where it doesn't.

    Raises
    ------
    CalcError
        If a time is negative or not finite, or there is no layer.

    Notes
    -----
    A pipeline of two stages with equal pieces. With one layer nothing overlaps. Chunked prompts, whose layers are
    computed several times, can overlap earlier chunks as well.

    Examples
    --------
    >>> exposed_seconds(transfer_s=0.040, prompt_s=0.100, layers=80)
    0.0005
    >>> exposed_seconds(transfer_s=0.040, prompt_s=0.100, layers=1)
    0.04
    """
    layer_s = transfer_s / layers
    behind_s = transfer_s - prompt_s * (layers - 1) / layers
    exposed_seconds = max(layer_s, behind_s)
    return exposed_seconds


@dimensions(
    "second",
    queued_s="second",
    prompt_s="second",
    exposed_s="second",
    decode_wait_s="second",
    step_s="second",
    out_s="second",
)
def handed_first_token(*, queued_s, prompt_s, exposed_s, decode_wait_s, step_s, out_s):
    """Time to first token of a request that changes workers between its phases.

    Parameters
    ----------
    queued_s : float
        Waiting for a prefill worker, seconds.
    prompt_s : float
        Computing the prompt.
    exposed_s : float
        From there until the cache is in place: what the prompt's computation does not hide, and control.
    decode_wait_s : float
        Waiting to be scheduled on the decode worker, the step in progress included.
    step_s : float
        The decode step that samples the token.
    out_s : float
        Turning the token into text and sending it, once.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If a part is negative or not finite.

    Notes
    -----
    For a deployment whose decode worker sends every token. Where the prefill worker sends the first one, the parts
    after `prompt_s` move into the gap before the second.

    Examples
    --------
    >>> parts = {"queued_s": 0.04, "prompt_s": 0.21, "exposed_s": 0.029, "decode_wait_s": 0.06}
    >>> round(handed_first_token(**parts, step_s=0.015, out_s=0.002), 6)
    0.356
    """
    handed_first_token = queued_s + prompt_s + exposed_s + decode_wait_s + step_s + out_s
    return handed_first_token


@dimensions("1/second", wire_rate="byte/second", cache_bytes="byte>0")
def link_requests(*, wire_rate, cache_bytes):
    """Requests per second that fill a link with their caches.

    Parameters
    ----------
    wire_rate : float
        B/s.
    cache_bytes : float
        Of one prompt, bytes.

    Returns
    -------
    float
        Per second.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or nothing is moved.

    Examples
    --------
    >>> round(link_requests(wire_rate=12.5e9, cache_bytes=57344 * 7500), 1)
    29.1
    """
    link_requests = wire_rate / cache_bytes
    return link_requests


@dimensions("byte/second", cache_bytes="byte", compute_rate="FLOP/second", prompt_flop="FLOP>0")
def break_even_rate(*, cache_bytes, compute_rate, prompt_flop):
    """Rate above which moving a cache is quicker than computing it again.

    Parameters
    ----------
    cache_bytes : float
        Bytes that would be moved.
    compute_rate : float
        FLOP/s that the receiver reaches.
    prompt_flop : float
        Arithmetic that the cache spares, FLOP.

    Returns
    -------
    float
        B/s.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or nothing is spared.

    References
    ----------
    Qin et al., "Mooncake", FAST 2025, equation 2, is this for one layer of a model with grouped queries.

    Examples
    --------
    >>> break_even_rate(cache_bytes=4096, compute_rate=8 * 312e12, prompt_flop=26 * 8192**2)
    5859375000.0
    """
    break_even_rate = cache_bytes * compute_rate / prompt_flop
    return break_even_rate


@dimensions("", prompt_s="second", decode_s="second>0")
def prefill_per_decode(*, prompt_s, decode_s):
    """Prefill workers for each decode worker at which both are equally busy.

    Parameters
    ----------
    prompt_s : float
        Time of a prefill worker that a request takes, seconds.
    decode_s : float
        Time of a decode worker that a request takes: its steps, shared with those who decode beside it.

    Returns
    -------
    float
        A ratio, not whole in general.

    Raises
    ------
    CalcError
        If a time is negative or not finite, or decoding takes none.

    Notes
    -----
    Equally busy is not equally far from the limits: the ratio that keeps most requests inside theirs is searched.

    Examples
    --------
    32 sequences of 512 tokens in steps of 19 ms, and 0.91 s for a prompt:

    >>> round(prefill_per_decode(prompt_s=0.91, decode_s=512 * 0.019 / 32), 2)
    2.99
    """
    prefill_per_decode = prompt_s / decode_s
    return prefill_per_decode


@dimensions("", prompt_s="second>0", step_s="second>0", mixed_s="second>0")
def overlap_share(*, prompt_s, step_s, mixed_s):
    """How much of the shorter of two jobs a step hides when it does both: 0 is their sum, 1 the longer of them.

    Parameters
    ----------
    prompt_s : float
        A step with the prompt's tokens alone, seconds.
    step_s : float
        A step with the decoding sequences alone.
    mixed_s : float
        A step with both.

    Returns
    -------
    float

    Raises
    ------
    CalcError
        If the step with both takes longer than both apart, or less than the longer one.

    Examples
    --------
    >>> round(overlap_share(prompt_s=0.100, step_s=0.020, mixed_s=0.105), 2)
    0.75
    """
    if not max(prompt_s, step_s) * (1 - 1e-9) <= mixed_s <= (prompt_s + step_s) * (1 + 1e-9):
        raise CalcError(
            "a step with both must take at least as long as the longer of the two and at most as long as both in turn"
        )
    hidden_s = prompt_s + step_s - mixed_s
    overlap_share = hidden_s / min(prompt_s, step_s)
    return overlap_share


@dimensions("second", prompt_s="second", step_s="second", overlap_share="")
def both_seconds(*, prompt_s, step_s, overlap_share):
    """Time of a step that does two jobs: both in turn, less what it hides of the shorter one.

    Parameters
    ----------
    prompt_s : float
        A step with the prompt's tokens alone, seconds.
    step_s : float
        A step with the decoding sequences alone.
    overlap_share : float
        Share of the shorter job that is hidden, 0 to 1: what the formula of this name gives.

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
    The share is measured at one pair of jobs and taken to hold at others.

    Examples
    --------
    >>> round(both_seconds(prompt_s=0.100, step_s=0.020, overlap_share=0.75), 6)
    0.105
    """
    if overlap_share > 1:
        raise CalcError(f"the overlap is {overlap_share}, wanted a share of at most 1")
    both_seconds = prompt_s + step_s - overlap_share * min(prompt_s, step_s)
    return both_seconds


@dimensions("", arrival_rate="1/second", qualified_share="", gpus="count>0", hour_s="second")
def qualified_per_gpu_hour(*, arrival_rate, qualified_share, gpus, hour_s):
    """Requests that keep every limit, for each GPU and hour.

    Parameters
    ----------
    arrival_rate : float
        Requests per second.
    qualified_share : float
        Share of them that finish inside every limit.
    gpus : int
        Of all workers, whatever they do.
    hour_s : float
        Seconds in the period: 3600.

    Returns
    -------
    float
        Requests.

    Raises
    ------
    CalcError
        If the share is above 1, or there is no GPU.

    Examples
    --------
    >>> qualified_per_gpu_hour(arrival_rate=16, qualified_share=0.95, gpus=16, hour_s=3600)
    3420.0
    """
    if qualified_share > 1:
        raise CalcError(f"the qualified share is {qualified_share}, wanted 0 to 1")
    qualified_per_gpu_hour = arrival_rate * qualified_share * hour_s / gpus
    return qualified_per_gpu_hour


@dimensions("", utilization=">0")
def apart_over_pooled(*, utilization):
    """How many times longer two equal M/M/1 queues wait than one M/M/2 queue with the same load.

    Parameters
    ----------
    utilization : float
        Share of the time that each server is busy, above 0 and below 1.

    Returns
    -------
    float
        At least 2.

    Raises
    ------
    CalcError
        If the share is not between 0 and 1.

    Notes
    -----
    For requests that are all of one kind. Short and long ones in the same line can turn it round.

    Examples
    --------
    >>> apart_over_pooled(utilization=0.8)
    2.25
    """
    if utilization >= 1:
        raise CalcError("the busy share must be below 1: at 1 the line grows without end")
    apart_over_pooled = (1 + utilization) / utilization
    return apart_over_pooled
