"""The pool of blocks: which layers share a block, what a request holds in it, and what vLLM prints about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from calc import kv_cache
from calc.capacity._formulas import (
    chunk_request_blocks,
    concurrency,
    hybrid_block_tokens,
    pool_blocks,
    printed_tokens,
    window_request_blocks,
)
from calc.capacity._packed import Cache, caches, tables
from calc.models import (
    FullAttention,
    GatedDeltaNet,
    IndexedAttention,
    IndexedLatentAttention,
    LatentAttention,
    LatentWindowAttention,
    Mamba2,
    ModelGeometry,
    RecurrentState,
    WindowAttention,
)
from calc.sources import load_json
from calc.units import CalcError

# Blocks that vLLM 0.32 charges a request in each group of recurrent layers while prefixes are cached; 1 otherwise
STATE_BLOCKS = {GatedDeltaNet: 2, Mamba2: 3}


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share one block table: a block holds a page of each.

    Attributes
    ----------
    kind : str
        That of `calc.kv_cache.KindBytes`, of the first layer.
    layers : tuple of int
        Their places in the model; one that keeps several caches of these blocks is named for each.
    page_bytes : tuple of float
        Bytes of one block in each of these layers on one rank, padding included.
    block_tokens : int
        Positions in a block.
    window : int or None
        Positions after which blocks are given back.
    """

    kind: str
    layers: tuple[int, ...]
    page_bytes: tuple[float, ...]
    block_tokens: int
    window: int | None = None

    def request_blocks(self, *, length: int, in_flight: int, state_blocks: int) -> int:
        """Most blocks that one request of a length holds in this group."""
        if self.kind == "state":
            return state_blocks
        if self.window is None:
            return kv_cache.blocks(positions=length, block_tokens=self.block_tokens)
        count = chunk_request_blocks if self.kind == "chunk" else window_request_blocks
        return count(window=self.window, in_flight=in_flight, length=length, block_tokens=self.block_tokens)

    def held_blocks(self, *, length: int, windows: bool = True) -> int:
        """Blocks that a sequence of a length holds in this group while it decodes, nothing in flight."""
        if self.kind == "state":
            return 1
        written = kv_cache.blocks(positions=length, block_tokens=self.block_tokens)
        if self.window is None or not windows or length == 0:
            return written
        chunks = (length - 1) // self.window * self.window
        gone = chunks if self.kind == "chunk" else max(0, length - self.window)
        return written - gone // self.block_tokens


@dataclass(frozen=True, slots=True)
class Pool:
    """How a model's cache is laid out in blocks on one rank.

    Attributes
    ----------
    groups : tuple of Group
        All take blocks from the same pool, and a block is as large as the largest of them needs it.
    state_blocks : int
        Blocks a request holds in each group of recurrent layers.
    """

    groups: tuple[Group, ...]
    state_blocks: int = 1

    def block_bytes(self, layers: Iterable[int] | None = None) -> float:
        """Bytes of one block on a rank that has some of the layers, or all."""
        kept = None if layers is None else set(layers)
        return max(
            sum(page for layer, page in zip(g.layers, g.page_bytes, strict=True) if kept is None or layer in kept)
            for g in self.groups
        )

    def request_blocks(self, *, length: int, in_flight: int = 0) -> int:
        """Most blocks that one request of a length holds, in all groups together.

        Parameters
        ----------
        length : int
            Positions.
        in_flight : int
            Tokens scheduled and not yet settled, which window layers keep for a while.
        """
        return sum(
            g.request_blocks(length=length, in_flight=in_flight, state_blocks=self.state_blocks) for g in self.groups
        )

    def held_blocks(self, *, length: int, windows: bool = True) -> int:
        """Blocks that a sequence of a length holds while it decodes, in all groups together.

        Fewer than `request_blocks`, which is what an engine charges when it sizes the pool: that counts blocks which a
        window gives back a step later, and every state that a request ever holds at once.

        Parameters
        ----------
        length : int
            Positions written.
        windows : bool
            Whether layers with a window give back what they no longer attend to; if not, every layer keeps a page for
            every position.

        Examples
        --------
        >>> from calc.models import load
        >>> oss = pool(load("gpt-oss-20b"))
        >>> oss.held_blocks(length=8192), oss.held_blocks(length=8192, windows=False), oss.request_blocks(length=8192)
        (520, 1024, 521)
        """
        return sum(g.held_blocks(length=length, windows=windows) for g in self.groups)

    @property
    def invertible(self) -> bool:
        """Whether the tokens vLLM prints can be turned back into blocks: all layers keep every position."""
        return all(g.kind in {"full", "sparse", "latent"} for g in self.groups) and len(self.groups) == 1


@dataclass(frozen=True, slots=True)
class Printed:
    """What vLLM prints about a pool at start-up.

    Attributes
    ----------
    blocks : int
        Blocks in the pool.
    request_blocks : int
        Blocks that one request of the longest length holds.
    tokens : int
        "KV cache size".
    concurrency : float
        "Maximum concurrency".
    """

    blocks: int
    request_blocks: int
    tokens: int
    concurrency: float


def pool(
    model: ModelGeometry,
    *,
    element: str = "bf16",
    ranks: int = 1,
    block_tokens: int = 16,
    kernel_multiple: int = 16,
    prefix_caching: bool = True,
    state_blocks: int | None = None,
) -> Pool:
    """Lay a model's cache out in blocks, as vLLM does.

    Layers of one kind form a group with a block table of its own. Groups get equally many layers, so that
    a block costs the same whoever takes it: the rarer kind's number, or the commoner kind's where the two
    are close.

    Parameters
    ----------
    model : ModelGeometry
    element : str
        A key of `calc.kv_cache.ELEMENTS`.
    ranks : int
        Tensor-parallel ranks.
    block_tokens : int
        Positions in a block, as configured.
    kernel_multiple : int
        For models with recurrent layers: what the attention kernel's block must be a multiple of.
    prefix_caching : bool
        Whether blocks are kept for requests with the same beginning: recurrent layers then hold more of them.
    state_blocks : int or None
        For models with recurrent layers: blocks a request holds in each of their groups. None is what vLLM 0.32
        charges: 1 without prefix caching; with it 2 for gated delta nets, 3 for Mamba-2.

    Returns
    -------
    Pool

    Raises
    ------
    CalcError
        If the heads can't be laid out on so many ranks, or latent and ordinary layers are mixed.

    References
    ----------
    vLLM 0.32, ``vllm/v1/core/kv_cache_utils.py``, ``get_kv_cache_groups``; blocks of recurrent layers from its own
    pools, built from real configurations with prefix caching on and off.

    Examples
    --------
    >>> from calc.models import load
    >>> [(g.kind, len(g.layers)) for g in pool(load("gpt-oss-20b")).groups]
    [('window', 12), ('full', 12)]
    >>> [len(g.layers) for g in pool(load("gemma-3-27b")).groups if g.kind == "window"]
    [9, 9, 9, 9, 8, 8]
    """
    kv_cache.layout(model, element=element, ranks=ranks)  # refuses what can't be laid out
    mixers = [mixer for mixer, _ in model.kinds() if mixer is not None]
    kept = {
        m: kv_cache.caches_of(m, layers=1, element=element, ranks=ranks, own=model.element) for m in mixers
    }  # what attention reads first, then an indexer's keys
    if any(isinstance(m, LatentWindowAttention) for m in mixers):
        places = [(i, layer.mixer, kept[layer.mixer]) for i, layer in enumerate(model.layers)]
        return Pool(tuple(map(_group, tables(caches(places, block_tokens=block_tokens)))))
    latent = [isinstance(m, LatentAttention) for m in mixers]
    if any(latent) and not all(latent):
        raise CalcError(f"{model.name}: latent layers beside others have no common block")
    states = [kept[m][0].fixed_bytes for m in mixers if isinstance(m, RecurrentState)]
    growing = [m for m in mixers if not isinstance(m, RecurrentState)]
    if states and growing:
        token_bytes = max(kept[m][0].bytes_per_position for m in growing)
        block_tokens = hybrid_block_tokens(state_bytes=max(states), token_bytes=token_bytes, multiple=kernel_multiple)
    rules = load_json("sparse_cache.json")
    if any(isinstance(m, IndexedLatentAttention) for m in mixers):
        block_tokens = max(block_tokens, rules["block_tokens"])
    if any(isinstance(m, IndexedAttention) for m in mixers):
        block_tokens = max(block_tokens, rules["block_indexer"]["block_tokens"])
    pages = {m: block_tokens * sum(kind.bytes_per_position for kind in kept[m]) for m in growing}
    together = all(type(m) in (FullAttention, IndexedAttention) for m in mixers)
    if not states and (len(pages) == 1 or all(latent) or together):
        return Pool((_one_group(model, pages, block_tokens),))
    if state_blocks is None:
        state_blocks = max([STATE_BLOCKS.get(type(m), 1) for m in mixers], default=1) if prefix_caching else 1
    return Pool(tuple(_equal_groups(model, mixers, pages, states, block_tokens)), state_blocks)


def _group(members: list[Cache]) -> Group:
    first = members[0]
    pages = tuple(cache.page_bytes for cache in members)
    return Group(first.kind, tuple(cache.layer for cache in members), pages, first.block_tokens, first.window)


def _one_group(model: ModelGeometry, pages: dict, block_tokens: int) -> Group:
    """All layers in one block table, though a page may be larger in some of them."""
    layers = [(i, layer.mixer) for i, layer in enumerate(model.layers) if layer.mixer is not None]
    mixer = layers[0][1]
    window = mixer.window if isinstance(mixer, WindowAttention) else None
    places, sizes = tuple(i for i, _ in layers), tuple(pages[m] for _, m in layers)
    return Group(mixer.kind, places, sizes, block_tokens, window)


def _equal_groups(
    model: ModelGeometry, mixers: list, pages: dict, states: list[float], block_tokens: int
) -> Iterable[Group]:
    page = max([*pages.values(), *states])
    places = {m: [i for i, layer in enumerate(model.layers) if layer.mixer == m] for m in mixers}
    counts = [len(p) for p in places.values()]
    size = max(counts) if max(counts) < 1.5 * min(counts) else min(counts)  # vLLM's heuristic against padding
    for mixer in mixers:
        groups = -(-len(places[mixer]) // size)
        grows = mixer in pages and page % pages[mixer] == 0  # else its page is padded
        tokens = block_tokens * int(page / pages[mixer]) if grows else block_tokens
        for turn in range(groups):
            members = tuple(places[mixer][turn::groups])
            window = mixer.window if isinstance(mixer, WindowAttention) else None
            yield Group(mixer.kind, members, (page,) * len(members), tokens, window)


def printed(pool: Pool, *, memory_bytes: float, length: int, in_flight: int = 0) -> Printed:
    """What vLLM prints about a pool of so much memory.

    Parameters
    ----------
    pool : Pool
    memory_bytes : float
        Memory left for the cache ("Available KV cache memory").
    length : int
        Longest sequence (``max_model_len``).
    in_flight : int
        ``max_num_batched_tokens`` times the steps in flight: 2 with asynchronous scheduling. Only models
        with windows need it.

    Returns
    -------
    Printed

    Raises
    ------
    CalcError
        If the memory holds no block, or an argument is not a whole number of the range wanted.

    Examples
    --------
    >>> from calc.models import load
    >>> printed(pool(load("llama-3.1-8b")), memory_bytes=200 * 1024**3, length=131_072)
    Printed(blocks=102400, request_blocks=8192, tokens=1638400, concurrency=12.5)
    """
    blocks = int(pool_blocks(pool_bytes=memory_bytes, block_bytes=pool.block_bytes()))
    needed = pool.request_blocks(length=length, in_flight=in_flight)
    return Printed(
        blocks,
        needed,
        printed_tokens(blocks=blocks, request_blocks=needed, length=length),
        concurrency(blocks=blocks, request_blocks=needed),
    )
