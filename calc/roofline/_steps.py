"""Least times of decode steps, and where more sequences stop being free."""

from calc.units import CalcError, dimensions


@dimensions("second", weight_bytes="byte", sequences="count", sequence_bytes="byte", bandwidth="byte/second>0")
def token_floor(*, weight_bytes, sequences, sequence_bytes, bandwidth):
    """Least time between two tokens of every sequence, from the bytes that one GPU must read.

    Parameters
    ----------
    weight_bytes : float
        Weights on the rank that every step reads.
    sequences : int
        Sequences in flight, each of which gets one token.
    sequence_bytes : float
        Cache of one of them on the rank.
    bandwidth : float
        Memory bandwidth, B/s.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or the bandwidth is 0.

    Notes
    -----
    A floor, never a forecast. With pipeline stages it holds too: however the sequences are grouped, a stage
    reads its weights at least once and the cache of all of them before each has a token more.

    Examples
    --------
    >>> round(token_floor(weight_bytes=16e9, sequences=100, sequence_bytes=4e8, bandwidth=3.35e12) * 1000, 1)
    16.7
    """
    token_floor = (weight_bytes + sequences * sequence_bytes) / bandwidth
    return token_floor


@dimensions(
    "second",
    sequences="",
    sequence_bytes="byte",
    weight_bytes="byte",
    weights="",
    peak="FLOP/second>0",
    bandwidth="byte/second>0",
)
def apart_floor(*, sequences, sequence_bytes, weight_bytes, weights, peak, bandwidth):
    """Least time of a decode step whose attention and matrix products run one after the other.

    Reading the caches can't overlap with multiplying if each kernel waits for the one before it.

    Parameters
    ----------
    sequences : float
        Sequences, one token each.
    sequence_bytes : float
        Cache that one of them reads.
    weight_bytes : float
        Weights that the step reads.
    weights : float
        Weights that each token is multiplied with.
    peak : float
        Dense peak, FLOP/s, of all chips that share the work.
    bandwidth : float
        Memory bandwidth of the same chips, B/s.

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
    Attention is taken to wait for its cache, which `decode_intensity` shows for all but latent layers. At least
    `floor_seconds` of the whole, at most twice as much.

    References
    ----------
    Austin et al., "How To Scale Your Model", 2025, chapter 7.

    Examples
    --------
    >>> round(apart_floor(sequences=256, sequence_bytes=819e6, weight_bytes=30e9, weights=30e9,
    ...     peak=16 * 1.97e14, bandwidth=16 * 8.1e11) * 1000, 1)
    21.1
    """
    multiply = 2 * sequences * weights / peak
    apart_floor = sequences * sequence_bytes / bandwidth + max(multiply, weight_bytes / bandwidth)
    return apart_floor


@dimensions("", peak="FLOP/second", bandwidth="byte/second>0", bytes_per_weight="byte")
def crossover_tokens(*, peak, bandwidth, bytes_per_weight):
    """Tokens in a step at which multiplying takes as long as reading the weights.

    Below it, a step waits for the weights, and fewer bytes per weight make it faster. Above it, the step
    waits for the arithmetic, and they don't.

    Parameters
    ----------
    peak : float
        Dense peak for the type that is multiplied, FLOP/s.
    bandwidth : float
        Memory bandwidth, B/s.
    bytes_per_weight : float
        Stored bytes per weight, with its share of scales.

    Returns
    -------
    float
        Tokens.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or `bandwidth` is 0.

    Notes
    -----
    Weights alone: the cache is read too and has no crossover. A mixture's experts see only the tokens
    that are routed to them.

    Examples
    --------
    An A100 at its printed 2,039 GB/s, in fp16 and with 4-bit weights:

    >>> round(crossover_tokens(peak=312e12, bandwidth=2.039e12, bytes_per_weight=2))
    153
    >>> round(crossover_tokens(peak=312e12, bandwidth=2.039e12, bytes_per_weight=0.5))
    38
    """
    crossover_tokens = peak / bandwidth * bytes_per_weight / 2
    return crossover_tokens


@dimensions("", weight_bytes="byte", weights="", attention_flop="FLOP", sequence_bytes="byte", balance="FLOP/byte>0")
def crossing_sequences(*, weight_bytes, weights, attention_flop, sequence_bytes, balance):
    """Decoding sequences at which a step's arithmetic takes as long as all that it reads, caches included.

    Each sequence brings arithmetic, which pays for a part of the weights, and a cache of its own, which costs.

    Parameters
    ----------
    weight_bytes : float
        Weights that the step reads.
    weights : float
        Weights that each token is multiplied with.
    attention_flop : float
        Attention arithmetic of one sequence's new token, all layers.
    sequence_bytes : float
        Cache that one sequence reads.
    balance : float
        FLOP for each byte of the chip, from `machine_balance`.

    Returns
    -------
    float
        Sequences, not whole in general.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, `balance` is 0, or no batch crosses.

    Notes
    -----
    Valid where a sequence's arithmetic, over the balance, exceeds its cache. Otherwise no batch crosses: see
    `longest_crossing`. Without a cache it is `crossover_tokens`. A mixture's weights grow with the batch, so
    `decode_crossover` searches instead.

    Examples
    --------
    >>> round(crossing_sequences(weight_bytes=16e9, weights=8e9, attention_flop=0, sequence_bytes=0, balance=295))
    295
    """
    if (2 * weights + attention_flop) / balance <= sequence_bytes:
        raise CalcError("crossing_sequences: no batch crosses: a sequence's arithmetic doesn't cover its own cache")
    crossing_sequences = weight_bytes / ((2 * weights + attention_flop) / balance - sequence_bytes)
    return crossing_sequences


@dimensions("", weights="", bytes_per_position="byte", position_flop="FLOP", balance="FLOP/byte>0")
def longest_crossing(*, weights, bytes_per_position, position_flop, balance):
    """Positions that each token reads, its own among them, from which no batch makes decode wait for arithmetic.

    Parameters
    ----------
    weights : float
        Weights that each token is multiplied with.
    bytes_per_position : float
        Cache bytes of one position, all layers.
    position_flop : float
        Attention arithmetic of one new token for each position it reads, all layers.
    balance : float
        FLOP for each byte of the chip, from `machine_balance`.

    Returns
    -------
    float
        Positions, not whole in general.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, `balance` is 0, or every length crosses.

    Notes
    -----
    Solves ``2·weights + position_flop·T = balance·bytes_per_position·T``. Valid where attention itself is limited by
    its reading, ``position_flop < balance·bytes_per_position``; otherwise every length crosses. Windows are not
    honored: `decode_crossover` does.

    Examples
    --------
    Llama-3.1-70B in bf16 on H100:

    >>> round(longest_crossing(weights=69.5e9, bytes_per_position=327680, position_flop=2621440, balance=295.4))
    1476
    """
    if balance * bytes_per_position <= position_flop:
        raise CalcError("longest_crossing: every length crosses: a position's arithmetic covers its own bytes")
    longest_crossing = 2 * weights / (balance * bytes_per_position - position_flop)
    return longest_crossing
