"""Arithmetic of layers that don't read every position: recurrent states, and the indexers of sparse attention."""

from calc.units import dimensions


@dimensions("FLOP", value_heads="count", key_dim="count", value_dim="count", step_tokens="count")
def delta_flop(*, value_heads, key_dim, value_dim, step_tokens):
    """Arithmetic of the gated delta rule on its states, one layer.

    For each token and value head three products with the matrix of key by value elements: what the state says for
    this key, the correction written at it, and what the state says for this query.

    Parameters
    ----------
    value_heads : int
        Value heads in the layer, or on a rank.
    key_dim, value_dim : int
        Elements of one head's key and value.
    step_tokens : int
        New tokens.

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
    The decay of the state, gates, norms and the softplus are not counted. Kernels that take a prompt in chunks do more,
    products within each chunk: a floor all the same. Projections and the short convolution are products of their own.

    References
    ----------
    Yang, Kautz and Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with Delta Rule", 2024, arXiv:2412.06464.

    Examples
    --------
    One token through a layer of Qwen3.5-35B-A3B:

    >>> delta_flop(value_heads=32, key_dim=128, value_dim=128, step_tokens=1)
    3145728
    """
    delta_flop = 6 * value_heads * key_dim * value_dim * step_tokens
    return delta_flop


@dimensions("FLOP", heads="count", head_dim="count", state_dim="count", step_tokens="count")
def scan_flop(*, heads, head_dim, state_dim, step_tokens):
    """Arithmetic of a Mamba-2 layer on its states.

    For each token and head two products with the matrix of head by state elements: the input written into it, and the
    output read from it.

    Parameters
    ----------
    heads, head_dim : int
        Heads in the layer, or on a rank, and elements of each.
    state_dim : int
        Elements of the state for each element of a head.
    step_tokens : int
        New tokens.

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
    The decay of the state, the step, gates and norms are not counted. Kernels that take a prompt in chunks do more: a
    floor all the same. Projections and the short convolution are products of their own.

    References
    ----------
    Dao and Gu, "Transformers are SSMs", 2024, arXiv:2405.21060.

    Examples
    --------
    One token through a layer of Nemotron-H-56B:

    >>> scan_flop(heads=256, head_dim=64, state_dim=256, step_tokens=1)
    16777216
    """
    scan_flop = 4 * heads * head_dim * state_dim * step_tokens
    return scan_flop


@dimensions("FLOP", index_heads="count", index_dim="count", positions="count")
def index_flop(*, index_heads, index_dim, positions):
    """Arithmetic of an indexer: every head scores a token's query against the one key of every position.

    Parameters
    ----------
    index_heads, index_dim : int
        Heads of the indexer, and elements of a query and of the key.
    positions : int
        Pairs of a token and a position: all, for the choice is made among them.

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
    The weighted sum over the heads and the choice itself are not counted. Engines run it on every rank, undivided.

    References
    ----------
    DeepSeek-AI, "DeepSeek-V3.2", 2025, arXiv:2512.02556: lightning indexer.

    Examples
    --------
    >>> index_flop(index_heads=64, index_dim=128, positions=8192)
    134217728
    """
    index_flop = 2 * index_heads * index_dim * positions
    return index_flop
