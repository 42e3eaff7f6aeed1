"""Arithmetic of layers that don't read every position: recurrent states, and the indexers of sparse attention."""

from __future__ import annotations

from collections.abc import Callable

from calc.models import (
    ChunkAttention,
    GatedDeltaNet,
    IndexedAttention,
    IndexedLatentAttention,
    Mamba2,
    WindowAttention,
)
from calc.roofline._attention import positions_read
from calc.units import CalcError, dimensions


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
    products within each chunk; only a prompt shorter than one could do with less. Projections and the short convolution
    are products of their own.

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
    The decay of the state, the step, gates and norms are not counted. Kernels that take a prompt in chunks do more,
    products within each chunk; only a prompt shorter than one could do with less. Projections and the short convolution
    are products of their own.

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


# --- a model's layers ---------------------------------------------------------------------------


def positions_kept(mixer: object, *, new: int, cached: int) -> tuple[int, int]:
    """Positions in the cache that a step surely reads in one layer, and new ones that it writes for later.

    The first new token reads itself and, in a window, one position less than the window of those before; in a chunk
    what has begun of it; after an indexer what that picks. Which positions other new tokens read beyond is left out.
    """
    if isinstance(mixer, ChunkAttention):
        return cached % mixer.window, min(new, mixer.window)
    if isinstance(mixer, WindowAttention):
        return min(cached, mixer.window - 1), min(new, mixer.window)
    if isinstance(mixer, IndexedLatentAttention):
        return min(cached, mixer.picked - 1), new
    if isinstance(mixer, IndexedAttention):
        block = mixer.index_block
        return min(cached // block * block, mixer.picked - block) + cached % block, new
    return cached, new


def recurrent_of(mixer: object, *, new: int) -> tuple[Callable, dict]:
    """The formula of one recurrent layer's work on its state for new tokens of a sequence, and its arguments.

    Parameters
    ----------
    mixer : GatedDeltaNet or Mamba2
        A layer kind of `ModelGeometry.kinds`, or a rank's share of it.
    new : int
        New tokens.

    Returns
    -------
    tuple of (callable, dict)
        Call as ``function(**arguments)``, or pass both to `calc.working.working`.

    Raises
    ------
    CalcError
        If this kind of layer is another.

    Examples
    --------
    >>> from calc.models import Mamba2
    >>> layer = Mamba2(heads=64, head_dim=64, groups=8, state_dim=128, conv_kernel=4)
    >>> recurrent_of(layer, new=1)[0].__name__
    'scan_flop'
    """
    if isinstance(mixer, GatedDeltaNet):
        sizes = {"value_heads": mixer.value_heads, "key_dim": mixer.key_dim, "value_dim": mixer.value_dim}
        return delta_flop, sizes | {"step_tokens": new}
    if isinstance(mixer, Mamba2):
        sizes = {"heads": mixer.heads, "head_dim": mixer.head_dim, "state_dim": mixer.state_dim}
        return scan_flop, sizes | {"step_tokens": new}
    raise CalcError(f"the work of a layer of type {type(mixer).__name__} is not counted")


def index_of(mixer: IndexedLatentAttention | IndexedAttention, *, new: int, cached: int) -> tuple[Callable, dict]:
    """The formula of an indexer's scores for new tokens of a sequence, and its arguments: it sees all positions."""
    sizes = {"index_heads": mixer.index_heads, "index_dim": mixer.index_dim}
    return index_flop, sizes | {"positions": positions_read(new=new, cached=cached)}
