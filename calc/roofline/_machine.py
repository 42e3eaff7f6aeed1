"""What a chip sets against work: its balance, the rate in reach, and the least time of reading and multiplying."""

from calc.units import dimensions


@dimensions("FLOP/byte", peak="FLOP/second", bandwidth="byte/second>0")
def machine_balance(*, peak, bandwidth):
    """Arithmetic that a chip can do while it reads one byte.

    Parameters
    ----------
    peak : float
        Dense peak, FLOP/s.
    bandwidth : float
        Memory bandwidth, B/s.

    Returns
    -------
    float
        FLOP/B.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or `bandwidth` is 0.

    Notes
    -----
    From the vendor's peaks; a clock that falls under load lowers it.

    Examples
    --------
    H100 SXM in bf16:

    >>> round(machine_balance(peak=989.5e12, bandwidth=3.35e12), 1)
    295.4
    """
    machine_balance = peak / bandwidth
    return machine_balance


@dimensions("FLOP/byte", flop="FLOP", moved_bytes="byte>0")
def intensity(*, flop, moved_bytes):
    """Arithmetic that some work does for each byte it moves.

    Parameters
    ----------
    flop : float
        Arithmetic, FLOP.
    moved_bytes : float
        Bytes read from memory and written to it.

    Returns
    -------
    float
        FLOP/B.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or nothing is moved.

    Notes
    -----
    Which bytes count is the caller's choice, and has to be said: weights, cache, activations.

    References
    ----------
    Williams, Waterman and Patterson, "Roofline", Communications of the ACM 52(4), 2009.

    Examples
    --------
    One token through 70 billion weights in bf16:

    >>> intensity(flop=140e9, moved_bytes=140e9)
    1.0
    """
    intensity = flop / moved_bytes
    return intensity


@dimensions("FLOP/second", intensity="FLOP/byte", peak="FLOP/second", bandwidth="byte/second")
def attainable_rate(*, intensity, peak, bandwidth):
    """Largest rate of arithmetic in reach of work of some intensity: the roofline.

    Parameters
    ----------
    intensity : float
        FLOP for each byte moved.
    peak : float
        Dense peak, FLOP/s.
    bandwidth : float
        Memory bandwidth, B/s.

    Returns
    -------
    float
        FLOP/s.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Notes
    -----
    A ceiling: bandwidth and peak both fully used, nothing else in the way. It holds for bytes from memory;
    work whose data already lies in a cache on the chip can pass it.

    References
    ----------
    Williams, Waterman and Patterson, "Roofline", Communications of the ACM 52(4), 2009.

    Examples
    --------
    >>> attainable_rate(intensity=8, peak=989.5e12, bandwidth=3.35e12)
    26800000000000.0
    """
    attainable_rate = min(peak, intensity * bandwidth)
    return attainable_rate


@dimensions("", intensity="FLOP/byte", balance="FLOP/byte>0")
def compute_share(*, intensity, balance):
    """Largest share of a chip's arithmetic peak that work of some intensity can reach.

    Parameters
    ----------
    intensity : float
        FLOP for each byte that the work reads.
    balance : float
        FLOP for each byte of the chip, from `machine_balance`.

    Returns
    -------
    float
        At most 1.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or `balance` is 0.

    Notes
    -----
    A ceiling: bandwidth and peak both fully used, nothing else in the way.

    Examples
    --------
    >>> compute_share(intensity=8, balance=256)
    0.03125
    """
    compute_share = min(1, intensity / balance)
    return compute_share


@dimensions("FLOP", step_tokens="", weights="")
def matmul_flop(*, step_tokens, weights):
    """Arithmetic of multiplying tokens with weights: a multiply and an add for each pair.

    Parameters
    ----------
    step_tokens : float
        Tokens.
    weights : float
        Weights that each token is multiplied with.

    Returns
    -------
    float
        FLOP.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Notes
    -----
    Biases, norms, activation functions and the softmax are not counted, nor are they by the usual counters.

    Examples
    --------
    >>> matmul_flop(step_tokens=2048, weights=8_000_000_000)
    32768000000000
    """
    matmul_flop = 2 * step_tokens * weights
    return matmul_flop


@dimensions("second", weight_bytes="byte", bandwidth="byte/second>0")
def read_seconds(*, weight_bytes, bandwidth):
    """Least time to read weights once from memory.

    Parameters
    ----------
    weight_bytes : float
        Bytes of weights that a step reads on one chip.
    bandwidth : float
        Memory bandwidth of the chip, B/s.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or `bandwidth` is 0.

    Notes
    -----
    A floor, never a forecast: cache, activations and everything else that a step reads come on top.

    Examples
    --------
    >>> round(read_seconds(weight_bytes=26e9, bandwidth=1.935e12) * 1000, 1)
    13.4
    """
    read_seconds = weight_bytes / bandwidth
    return read_seconds


@dimensions("second", step_tokens="", weights="", peak="FLOP/second>0")
def multiply_seconds(*, step_tokens, weights, peak):
    """Least time to multiply a step's tokens with the weights: two FLOP for each weight and token.

    Parameters
    ----------
    step_tokens : float
        Tokens in the step: one for each decoding sequence, the whole chunk in a prefill.
    weights : float
        Weights that each token is multiplied with on one chip.
    peak : float
        Dense peak for the type that is multiplied, FLOP/s: bf16 where weights are only stored in fewer bits.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or `peak` is 0.

    Notes
    -----
    A floor. Attention, and the work of unpacking weights, come on top.

    Examples
    --------
    >>> round(multiply_seconds(step_tokens=64, weights=8.8e9, peak=989.5e12) * 1000, 2)
    1.14
    """
    multiply_seconds = 2 * step_tokens * weights / peak
    return multiply_seconds


@dimensions("second", read="second", multiply="second")
def overlapped_seconds(*, read, multiply):
    """Least time of a step whose reading and multiplying overlap perfectly: the longer of the two.

    Parameters
    ----------
    read, multiply : float
        Floors of the two, seconds.

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
    A floor, never a forecast.

    Examples
    --------
    >>> overlapped_seconds(read=0.0052, multiply=0.0011)
    0.0052
    """
    overlapped_seconds = max(read, multiply)
    return overlapped_seconds


@dimensions("second", flop="FLOP", moved_bytes="byte", peak="FLOP/second>0", bandwidth="byte/second>0")
def floor_seconds(*, flop, moved_bytes, peak, bandwidth):
    """Least time of some work: as long as its arithmetic at the peak, or its bytes at full bandwidth, takes.

    Parameters
    ----------
    flop : float
        Arithmetic, FLOP.
    moved_bytes : float
        Bytes read from memory and written to it.
    peak : float
        Dense peak for the type that is multiplied, FLOP/s.
    bandwidth : float
        Memory bandwidth, B/s.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or a rate is 0.

    Notes
    -----
    A floor, never a forecast: `flop` over `attainable_rate` at this intensity. Launches, synchronization, shapes that
    don't fill the chip and a clock that falls under load come on top.

    Examples
    --------
    One token through 70 billion weights in bf16 on one H100, if they fitted:

    >>> round(floor_seconds(flop=140e9, moved_bytes=140e9, peak=989.5e12, bandwidth=3.35e12) * 1000, 1)
    41.8
    """
    floor_seconds = max(flop / peak, moved_bytes / bandwidth)
    return floor_seconds
