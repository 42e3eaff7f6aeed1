"""Attention's arithmetic, for each byte too: one layer, one sequence. A multiply and an add are two FLOP."""

from calc.units import dimensions


@dimensions("count", new="count", cached="count")
def positions_read(*, new, cached):
    """Positions that new tokens read, summed over them: each reads the cache, the new ones before it, and itself.

    Parameters
    ----------
    new : int
        Tokens of the sequence in this step: 1 in decode, the chunk in prefill.
    cached : int
        Positions of the sequence that are in the cache already.

    Returns
    -------
    int
        Pairs of a new token and a position.

    Raises
    ------
    CalcError
        If an argument is negative or not whole.

    Notes
    -----
    Causal. A kernel that computes the masked half as well works on ``new · (cached + new)`` pairs, and that is
    what counters of matrix products report. Windows are not honored: `window_positions_read` does.

    Examples
    --------
    >>> positions_read(new=1, cached=4095), positions_read(new=4096, cached=0)
    (4096, 8390656)
    """
    positions_read = new * cached + new * (new + 1) / 2
    return positions_read


@dimensions("count", new="count", cached="count", window="count>0")
def window_positions_read(*, new, cached, window):
    """Positions that new tokens read in a layer with a window, summed over them.

    Parameters
    ----------
    new : int
        Tokens of the sequence in this step.
    cached : int
        Positions written before.
    window : int
        Positions that one token may read, itself included.

    Returns
    -------
    int
        Pairs of a new token and a position.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or `window` is 0.

    Notes
    -----
    `positions_read` until the window is full, then `window` for each token.

    Examples
    --------
    >>> window_positions_read(new=1, cached=4095, window=128), window_positions_read(new=4, cached=0, window=2)
    (128, 7)
    """
    growing = min(new, max(window - cached, 0))
    window_positions_read = growing * cached + growing * (growing + 1) / 2 + (new - growing) * window
    return window_positions_read


@dimensions("count", new="count", cached="count", window="count>0")
def chunk_positions_read(*, new, cached, window):
    """Positions that new tokens read in a layer that attends within chunks, summed over them.

    Each reads its chunk from the start up to itself.

    Parameters
    ----------
    new : int
        Tokens of the sequence in this step.
    cached : int
        Positions written before.
    window : int
        Positions in a chunk.

    Returns
    -------
    int
        Pairs of a new token and a position.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or `window` is 0.

    Notes
    -----
    `positions_read` in the first chunk; on average half a chunk for each token of a long sequence.

    References
    ----------
    Llama 4's configuration, ``attention_chunk_size``; transformers 5.24.0, ``chunked_overlay`` in
    ``masking_utils.py``.

    Examples
    --------
    >>> chunk_positions_read(new=1, cached=8191, window=8192), chunk_positions_read(new=1, cached=8192, window=8192)
    (8192, 1)
    """
    begun = cached - cached // window * window
    filled = (begun + new) // window
    last = begun + new - filled * window
    chunk_positions_read = (filled * window * (window + 1) + last * (last + 1) - begun * (begun + 1)) / 2
    return chunk_positions_read


@dimensions("count", new="count", cached="count", run="count>0", picked="count>0")
def compressed_positions_read(*, new, cached, run, picked):
    """Entries that new tokens read where a run of positions makes one entry, summed over them.

    Each reads those that are complete up to itself, or as many as are picked if there are more.

    Parameters
    ----------
    new : int
        Tokens of the sequence in this step.
    cached : int
        Positions written before.
    run : int
        Positions for each entry.
    picked : int
        Most entries that a token reads.

    Returns
    -------
    int
        Pairs of a new token and an entry.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or `run` or `picked` is 0.

    References
    ----------
    transformers 5.24.0, ``deepseek_v4``: ``DeepseekV4CSACompressor`` and ``DeepseekV4HCACompressor``.

    Examples
    --------
    >>> [compressed_positions_read(new=new, cached=cached, run=4, picked=512) for new, cached in ((1, 4094), (9, 0))]
    [512, 8]
    """
    reach = run * picked - 1
    from_position = min(cached, reach)
    to_position = min(cached + new, reach)
    before = from_position // run
    after = to_position // run
    rising = after * (to_position + 1) - before * (from_position + 1)
    rising_pairs = rising - run * (after * (after + 1) - before * (before + 1)) / 2
    compressed_positions_read = rising_pairs + (new - to_position + from_position) * picked
    return compressed_positions_read


@dimensions("FLOP", query_heads="count", key_dim="count", value_dim="count", positions="count")
def decode_flop(*, query_heads, key_dim, value_dim, positions):
    """Attention arithmetic of one new token over the positions it reads, one layer.

    Each query head multiplies its query with every key, and its weights with every value.

    Parameters
    ----------
    query_heads : int
        Query heads in the layer. KV heads don't appear: a shared key is used once for each query.
    key_dim, value_dim : int
        Elements in one head's key and in its value.
    positions : int
        Positions read.

    Returns
    -------
    int
        FLOP.

    Raises
    ------
    CalcError
        If an argument is negative or not whole.

    Notes
    -----
    The softmax between the two products is not counted: a handful of operations for each score against
    twice ``key_dim + value_dim``.

    Examples
    --------
    >>> decode_flop(query_heads=64, key_dim=128, value_dim=128, positions=8192)
    268435456
    """
    decode_flop = 2 * query_heads * (key_dim + value_dim) * positions
    return decode_flop


@dimensions("FLOP", query_heads="count", latent_dim="count", rope_dim="count", positions="count")
def latent_decode_flop(*, query_heads, latent_dim, rope_dim, positions):
    """Attention arithmetic of one new token against cached latents, one layer, projections absorbed.

    The latent is key and value at once: each head scores against the latent and the rotary key, and then
    sums latents.

    Parameters
    ----------
    query_heads : int
        Heads in the layer.
    latent_dim, rope_dim : int
        Elements of the latent and of the shared rotary key.
    positions : int
        Positions read.

    Returns
    -------
    int
        FLOP.

    Raises
    ------
    CalcError
        If an argument is negative or not whole.

    Notes
    -----
    The two projections that are absorbed are done once for each new token, not for each position:
    `expansion_flop` counts them. Softmax is not counted.

    References
    ----------
    DeepSeek-AI, FlashMLA, docs/20250422-new-kernel-deep-dive.md: keys of 576 and values of 512.

    Examples
    --------
    >>> latent_decode_flop(query_heads=128, latent_dim=512, rope_dim=64, positions=8192)
    2281701376
    """
    latent_decode_flop = 2 * query_heads * (2 * latent_dim + rope_dim) * positions
    return latent_decode_flop


@dimensions("FLOP", query_heads="count", latent_dim="count", nope_dim="count", value_dim="count")
def expansion_flop(*, query_heads, latent_dim, nope_dim, value_dim):
    """Arithmetic that rebuilds the keys and values of all heads from one latent, one layer.

    Absorbed, the same two projections are applied to one new token's queries and outputs instead, at the
    same cost.

    Parameters
    ----------
    query_heads : int
        Heads in the layer.
    latent_dim : int
        Elements of the latent.
    nope_dim, value_dim : int
        Elements of one head's key without position, and of its value.

    Returns
    -------
    int
        FLOP for each latent expanded, or for each new token absorbed.

    Raises
    ------
    CalcError
        If an argument is negative or not whole.

    Notes
    -----
    The rotary key is stored as it is and costs nothing here.

    Examples
    --------
    >>> expansion_flop(query_heads=128, latent_dim=512, nope_dim=128, value_dim=128)
    33554432
    """
    expansion_flop = 2 * query_heads * latent_dim * (nope_dim + value_dim)
    return expansion_flop


@dimensions("FLOP", query_heads="count", key_dim="count", value_dim="count", prompt="count")
def prefill_attention_flop(*, query_heads, key_dim, value_dim, prompt):
    """Attention arithmetic of a whole prompt, one layer: every token reads itself and those before it.

    `decode_flop` summed over 1, 2, … positions.

    Parameters
    ----------
    query_heads : int
        Query heads in the layer.
    key_dim, value_dim : int
        Elements in one head's key and in its value.
    prompt : int
        Prompt tokens.

    Returns
    -------
    int
        FLOP.

    Raises
    ------
    CalcError
        If an argument is negative or not whole.

    Notes
    -----
    Causal: kernels that don't skip the masked half do almost twice as much. Softmax and the projections
    are not counted.

    Examples
    --------
    >>> prefill_attention_flop(query_heads=64, key_dim=128, value_dim=128, prompt=8192)
    1099645845504
    """
    prefill_attention_flop = query_heads * (key_dim + value_dim) * prompt * (prompt + 1)
    return prefill_attention_flop


@dimensions("FLOP/byte", query_heads="count", kv_heads="count>0", element_bytes="byte>0")
def decode_intensity(*, query_heads, kv_heads, element_bytes):
    """Arithmetic that decode attention does for each byte of cache it reads.

    `decode_flop` over the bytes of the same positions. Positions, head sizes and layers cancel: what is
    left is how many queries share a key.

    Parameters
    ----------
    query_heads, kv_heads : int
        Heads in the layer, or heads on one rank.
    element_bytes : float
        Bytes per stored element.

    Returns
    -------
    float
        FLOP/B.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, a count is not whole, or a divisor is 0.

    Notes
    -----
    Each byte is taken to be read once for the whole group and kept on chip, as decode kernels do; the
    query and the output, which don't grow with the positions, are left out. A batch doesn't raise it: each
    sequence has a cache of its own.

    References
    ----------
    Zadouri, Strauss and Dao, "Hardware-Efficient Attention for Fast Decoding", 2025, arXiv:2505.21487.

    Examples
    --------
    >>> decode_intensity(query_heads=64, kv_heads=8, element_bytes=2)
    8.0
    """
    decode_intensity = 2 * query_heads / (kv_heads * element_bytes)
    return decode_intensity


@dimensions("FLOP/byte", query_heads="count", latent_dim="count>0", rope_dim="count", element_bytes="byte>0")
def latent_decode_intensity(*, query_heads, latent_dim, rope_dim, element_bytes):
    """Arithmetic that absorbed latent attention does for each byte of cache it reads.

    All heads share one latent, and the latent is read once as key and value.

    Parameters
    ----------
    query_heads : int
        Heads in the layer, or heads on one rank.
    latent_dim, rope_dim : int
        Elements of the latent and of the shared rotary key.
    element_bytes : float
        Bytes per stored element.

    Returns
    -------
    float
        FLOP/B.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, a count is not whole, or a divisor is 0.

    Notes
    -----
    As for `decode_intensity`. Close to twice the heads in 16 bits, less the share of the rotary key, which
    is read for the scores alone.

    References
    ----------
    DeepSeek-AI, FlashMLA, docs/20250422-new-kernel-deep-dive.md: ``h_q (d_k + d_v) / d_k ≈ 2 h_q``.

    Examples
    --------
    >>> round(latent_decode_intensity(query_heads=128, latent_dim=512, rope_dim=64, element_bytes=2), 1)
    241.8
    """
    latent_decode_intensity = 2 * query_heads * (2 * latent_dim + rope_dim) / ((latent_dim + rope_dim) * element_bytes)
    return latent_decode_intensity
