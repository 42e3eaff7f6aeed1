"""The formulas of decode attention, one function each, on plain numbers in base units.

Each counts one layer and one sequence. A multiply and an add are two FLOP.
"""

from calc.units import dimensions


@dimensions("count", query_head="count", query_heads="count>0", kv_heads="count>0")
def kv_head_of(*, query_head, query_heads, kv_heads):
    """The KV head that a query head reads.

    Parameters
    ----------
    query_head : int
        Number of the query head, from 0.
    query_heads, kv_heads : int
        Heads in the layer.

    Returns
    -------
    int
        Number of the KV head, from 0.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or a number of heads is 0.

    Notes
    -----
    Valid where KV heads divide query heads: groups are of one size and lie side by side.

    References
    ----------
    transformers 5.24, ``repeat_kv``: each KV head is repeated in place, as ``torch.repeat_interleave`` does.

    Examples
    --------
    >>> [kv_head_of(query_head=head, query_heads=8, kv_heads=2) for head in range(8)]
    [0, 0, 0, 0, 1, 1, 1, 1]
    """
    kv_head_of = query_head * kv_heads // query_heads
    return kv_head_of


@dimensions("", latent_dim="count", rope_dim="count", head_dim="count>0")
def equivalent_kv_heads(*, latent_dim, rope_dim, head_dim):
    """KV heads whose keys and values are as large as what a latent layer keeps.

    Parameters
    ----------
    latent_dim, rope_dim : int
        Elements of the latent and of the shared rotary key.
    head_dim : int
        Elements in the key of one ordinary head, equal to those in its value.

    Returns
    -------
    float
        KV heads, not whole in general.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or `head_dim` is 0.

    Notes
    -----
    Compares sizes, not what a model can do with them.

    References
    ----------
    DeepSeek-AI, "DeepSeek-V2", 2024, arXiv:2405.04434, table 1: "GQA with only 2.25 groups".

    Examples
    --------
    >>> equivalent_kv_heads(latent_dim=512, rope_dim=64, head_dim=128)
    2.25
    """
    equivalent_kv_heads = (latent_dim + rope_dim) / (2 * head_dim)
    return equivalent_kv_heads


@dimensions("", ranks="count", rank_bytes="byte", bytes_per_position="byte>0")
def copies(*, ranks, rank_bytes, bytes_per_position):
    """How often a group of ranks stores the cache: 1 where it is dealt out, more where it is copied.

    Parameters
    ----------
    ranks : int
        Tensor-parallel ranks.
    rank_bytes : float
        Cache bytes of one position on one rank.
    bytes_per_position : float
        Cache bytes of one position in the whole model.

    Returns
    -------
    float

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or `bytes_per_position` is 0.

    Notes
    -----
    Valid where every rank holds as much as the others.

    Examples
    --------
    Llama-3.1-70B, 8 KV heads on 16 ranks:

    >>> copies(ranks=16, rank_bytes=40960, bytes_per_position=327680)
    2.0
    """
    copies = ranks * rank_bytes / bytes_per_position
    return copies


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


@dimensions("", latent_dim="count", nope_dim="count", value_dim="count", positions="count>0")
def break_even_tokens(*, latent_dim, nope_dim, value_dim, positions):
    """New tokens at which expanding the cached latents takes as much arithmetic as absorbing the projections.

    Expanding works once for each cached position; absorbing works on wider vectors for each pair of new
    token and position. Fewer new tokens than this favor absorbing.

    Parameters
    ----------
    latent_dim : int
        Elements of the latent.
    nope_dim, value_dim : int
        Elements of one head's key without position, and of its value.
    positions : int
        Positions read by every new token.

    Returns
    -------
    float
        Tokens, not whole in general.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or `positions` is 0.

    Notes
    -----
    From ``q·T·A + q·E = T·E + q·T·X`` for one head, without the common factor 2: A is the absorbed width
    ``2·latent_dim + rope_dim``, X the expanded one ``nope_dim + rope_dim + value_dim``, E the expansion.
    The number of heads and the rotary key cancel. Valid where twice the latent is wider than a head's key
    and value together; otherwise absorbing is always the cheaper. Bytes are not counted.

    References
    ----------
    vLLM, vllm/v1/attention/backends/mla/common.py: a "compute friendly" way for prefill and a
    "data-movement friendly" one for decode.

    Examples
    --------
    >>> round(break_even_tokens(latent_dim=512, nope_dim=128, value_dim=128, positions=8192), 1)
    167.2
    """
    expansion = latent_dim * (nope_dim + value_dim)
    extra_width = 2 * latent_dim - nope_dim - value_dim
    break_even_tokens = positions * expansion / (positions * extra_width + expansion)
    return break_even_tokens


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
