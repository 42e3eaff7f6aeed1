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
