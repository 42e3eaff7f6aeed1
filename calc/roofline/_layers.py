"""A model's layers as formulas see them: what a rank multiplies and stores, and what attention works on."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from calc import kv_cache, parameters
from calc.models import (
    ChunkAttention,
    CompressedAttention,
    DenseMLP,
    FullAttention,
    GatedDeltaNet,
    IndexedAttention,
    IndexedLatentAttention,
    LatentAttention,
    LatentWindowAttention,
    Mamba2,
    MixtureOfExperts,
    ModelGeometry,
    WindowAttention,
)
from calc.parallel import Parallel, model_on_rank, weights_on_rank
from calc.roofline._attention import (
    chunk_positions_read,
    compressed_positions_read,
    decode_flop,
    decode_intensity,
    expansion_flop,
    latent_decode_flop,
    latent_decode_intensity,
    positions_read,
    window_positions_read,
)
from calc.roofline._spread import experts_touched
from calc.units import CalcError, plain

# --- what a rank holds ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor group on a rank: what a token is multiplied with, what is stored, elements in and out per token."""

    weights: float = 0
    parameters: float = 0
    widths: float = 0


@dataclass(frozen=True, slots=True)
class Held:
    """A model as one rank has it: products by tensor group, and layers by kind with their numbers."""

    parts: dict[str, Part]
    mixers: tuple[tuple[object, int], ...]
    mixtures: tuple[tuple[MixtureOfExperts, int], ...]
    all_reduces: int


@functools.lru_cache(maxsize=256)
def held_on_rank(model: ModelGeometry, ranks: int) -> Held:
    """The model's products on one of some tensor-parallel ranks."""
    count = weights_on_rank(model, Parallel(tensor=ranks))
    held = model_on_rank(model, Parallel(tensor=ranks))
    sums: Counter = Counter()
    for layer, times in Counter(held.layers).items():
        for (name, what), size in _products(held.hidden, layer).items():
            sums[name, what] += times * size
    sums["head", "weights"] = parameters.embedding_parameters(vocab=held.vocab, hidden=held.hidden)
    sums["head", "widths"] = held.hidden + held.vocab
    stored = {name: getattr(count, name) for name in ("mlp", "router", "routed_experts", "shared_experts", "norms")}
    if held.streams:  # before and after each block, and once before the output layer
        sums["hyper_connections", "weights"] = count.hyper_connections
        blocks = sum((layer.mixer is not None) + (layer.mlp is not None) for layer in held.layers)
        made = blocks * held.streams * (2 + held.streams) + held.streams
        sums["hyper_connections", "widths"] = made + (blocks + 1) * held.streams * held.hidden
    stored |= {
        "hyper_connections": count.hyper_connections,
        "projections": count.attention + count.recurrent + count.indexer + count.compressor,
        "head": count.lm_head or count.embedding,
    }
    parts = {name: Part(sums[name, "weights"], size, sums[name, "widths"]) for name, size in stored.items() if size}
    mixers = tuple((mixer, layers) for mixer, layers in held.kinds() if mixer is not None)
    sums_over_ranks = sum((layer.mixer is not None) + (layer.mlp is not None) for layer in model.layers)
    return Held(parts, mixers, mixtures_of(model), sums_over_ranks if ranks > 1 else 0)


@functools.lru_cache(maxsize=256)
def mixtures_of(model: ModelGeometry) -> tuple[tuple[MixtureOfExperts, int], ...]:
    """The kinds of mixture in a model, with the number of layers of each."""
    found = Counter(layer.mlp for layer in model.layers)
    return tuple((mlp, layers) for mlp, layers in found.items() if isinstance(mlp, MixtureOfExperts))


def _products(hidden: int, layer: object) -> Counter:
    """One layer's matrix products on a rank: (group, "weights" or "widths") to elements."""
    found: Counter = Counter()

    def add(name: str, weights: int, widths: int) -> None:
        found[name, "weights"] += weights
        found[name, "widths"] += widths

    mlp = layer.mlp
    if layer.mixer is not None:
        add("projections", *_projections(hidden, layer.mixer))
    if isinstance(mlp, DenseMLP):
        add("mlp", *_mlp(hidden, mlp.intermediate, mlp.gated))
    if isinstance(mlp, MixtureOfExperts):
        weights, widths = _mlp(mlp.latent_dim or hidden, mlp.expert_intermediate, mlp.gated)
        add("routed_experts", mlp.experts_per_token * weights, mlp.experts_per_token * widths)
        add("router", mlp.experts * hidden, mlp.experts + hidden)
        if mlp.latent_dim:  # into the width that the experts work at, and back
            add("mlp", 2 * hidden * mlp.latent_dim, 2 * (hidden + mlp.latent_dim))
        if mlp.dense_intermediate:
            add("mlp", *_mlp(hidden, mlp.dense_intermediate, mlp.gated))
        if mlp.shared_intermediate:
            weights, widths = _mlp(hidden, mlp.shared_intermediate, mlp.gated)
            add("shared_experts", weights + mlp.shared_gate * hidden, widths)
    return found


def _mlp(hidden: int, width: int, gated: bool) -> tuple[int, int]:
    matrices = 3 if gated else 2
    weights = parameters.mlp_parameters(hidden=hidden, intermediate=width, matrices=matrices)
    return weights, 2 * hidden + matrices * width  # in and out, gate and up, and their product


def _projections(hidden: int, a: object) -> tuple[int, int]:
    if isinstance(a, LatentAttention):
        sizes = {"hidden": hidden, "query_heads": a.query_heads, "rope_dim": a.rope_dim, "nope_dim": a.nope_dim}
        wide = a.query_heads * (a.rope_dim + a.nope_dim)
        queries = hidden * wide
        if a.query_rank is not None:
            queries = parameters.latent_query_parameters(**sizes, query_rank=a.query_rank)
        rest = parameters.latent_attention_parameters(**sizes, latent_dim=a.latent_dim, value_dim=a.value_dim)
        narrow = 2 * (a.query_rank or 0) + a.latent_dim + a.rope_dim
        index, made = _indexer(hidden, a)
        return queries + rest + index, 2 * hidden + wide + narrow + a.query_heads * a.value_dim + made
    if isinstance(a, GatedDeltaNet):
        values = a.value_heads * a.value_dim
        into = a.channels + values + 2 * a.value_heads  # queries, keys and values; a gate; decay and step
        return hidden * (into + values) + a.conv_kernel * a.channels, 2 * hidden + into + 2 * a.channels + values
    if isinstance(a, Mamba2):
        into = a.inner + a.channels + a.heads  # a gate; what the convolution sees; the step
        return hidden * (into + a.inner) + a.conv_kernel * a.channels, 2 * hidden + into + 2 * a.channels + a.inner
    _heads(a)
    index, indexed = _indexer(hidden, a)
    if isinstance(a, LatentWindowAttention):
        return _shared_latent(hidden, a, index, indexed)
    heads = {"query_heads": a.query_heads, "kv_heads": a.kv_heads, "key_dim": a.key_dim, "value_dim": a.value_dim}
    made = a.kv_heads * (a.key_dim + a.value_dim * (not a.values_are_keys)) + a.output_gate * a.query_heads * a.key_dim
    weights = parameters.attention_parameters(hidden=hidden, **heads)
    weights += hidden * (a.output_gate * a.query_heads * a.key_dim - a.values_are_keys * a.kv_heads * a.value_dim)
    return weights + index, 2 * hidden + query_and_output(a) + made + indexed


def _shared_latent(hidden: int, a: LatentWindowAttention, index: int, indexed: int) -> tuple[int, int]:
    """Products around latents that are key and value, a compressor's included."""
    weights = a.query_rank * (hidden + a.query_heads * a.latent_dim) + hidden * a.latent_dim
    weights += a.output_dim * (a.output_heads * a.latent_dim + hidden)
    entries = 2 * a.overlap * a.latent_dim if isinstance(a, CompressedAttention) else 0
    made = 2 * a.query_rank + a.latent_dim + entries + 2 * a.output_dim
    return weights + hidden * entries + index, 2 * hidden + query_and_output(a) + made + indexed


def _indexer(hidden: int, a: object) -> tuple[int, int]:
    """Products of an indexer, which every rank has whole unless it picks blocks, and elements in and out of them."""
    if not kv_cache.has_index(a):
        return 0, 0
    if isinstance(a, IndexedAttention):
        made = (a.index_heads + 1) * a.index_dim
        return hidden * made, made
    if isinstance(a, CompressedAttention):
        made = 2 * a.overlap * a.index_dim + a.index_heads
        queries = a.index_heads * a.index_dim
        return hidden * made + a.query_rank * queries, made + a.query_rank + queries
    sizes = {"query_rank": a.query_rank, "index_heads": a.index_heads, "index_dim": a.index_dim}
    norm = 2 * a.index_dim
    widths = a.query_rank + 2 * hidden + a.index_heads * (a.index_dim + 1) + a.index_dim
    return parameters.indexer_parameters(hidden=hidden, **sizes) - norm, widths


def share_touched(model: ModelGeometry, tokens: int) -> float:
    """Share of all routed experts' weights that a step's tokens pick on average; 1 in a dense model.

    Examples
    --------
    >>> from calc.models import load
    >>> round(share_touched(load("mixtral-8x7b"), 4), 3), share_touched(load("llama-3.1-8b"), 4)
    (0.684, 1.0)
    """
    return touched(mixtures_of(model), tokens)


def touched(mixtures: tuple[tuple[MixtureOfExperts, int], ...], tokens: int) -> float:
    """The same from a model's mixtures."""
    read = every = 0.0
    for mlp, layers in mixtures:
        size = layers * mlp.expert_intermediate
        picks = {"experts": mlp.experts, "experts_per_token": mlp.experts_per_token}
        every += size * mlp.experts
        read += size * experts_touched(**picks, step_tokens=tokens)
    return read / every if every else 1.0


# --- attention -----------------------------------------------------------------------------------


_READ = {
    *(FullAttention, WindowAttention, ChunkAttention, IndexedAttention),
    *(LatentAttention, IndexedLatentAttention, LatentWindowAttention, CompressedAttention),
}


def _heads(mixer: object, ranks: int = 1) -> int:
    """Query heads on one rank of a layer whose work the library counts."""
    if type(mixer) not in _READ:  # a kind that is derived reads otherwise
        raise CalcError(f"the work of a layer of type {type(mixer).__name__} is not counted")
    return mixer.query_heads // plain("attention on a rank", "ranks", ranks, "count>0")


def query_and_output(mixer: object) -> int:
    """Elements of one token's queries and attention output in a layer."""
    sizes = _expanded(mixer)
    return sizes["query_heads"] * (sizes["key_dim"] + sizes["value_dim"])


def _expanded(mixer: object) -> dict[str, int]:
    """Heads of a layer and their widths; a latent's are those that it is expanded to."""
    key_dim = mixer.nope_dim + mixer.rope_dim if isinstance(mixer, LatentAttention) else None
    heads = _heads(mixer)
    if isinstance(mixer, LatentWindowAttention):
        return {"query_heads": heads, "key_dim": mixer.latent_dim, "value_dim": mixer.latent_dim}
    return {"query_heads": heads, "key_dim": key_dim or mixer.key_dim, "value_dim": mixer.value_dim}


def expansion_of(mixer: LatentAttention) -> int:
    """Arithmetic that expands one latent for all heads of a layer."""
    widths = {"latent_dim": mixer.latent_dim, "nope_dim": mixer.nope_dim, "value_dim": mixer.value_dim}
    return expansion_flop(query_heads=mixer.query_heads, **widths)


def pairs_of(mixer: object, *, new: int, cached: int) -> int:
    """Pairs of a new token and a position that one layer works on: window, chunks and indexer honored.

    Parameters
    ----------
    mixer : FullAttention, WindowAttention or LatentAttention
        A layer kind of `ModelGeometry.kinds`.
    new, cached : int
        New tokens of a sequence, and its positions in the cache.

    Returns
    -------
    int

    Raises
    ------
    CalcError
        If the layer has no heads, or a count is negative or not whole.

    Examples
    --------
    >>> from calc.models import load
    >>> [pairs_of(mixer, new=4096, cached=0) for mixer, _ in load("gpt-oss-20b").kinds()]
    [516160, 8390656]
    """
    _heads(mixer)
    if isinstance(mixer, ChunkAttention):
        return chunk_positions_read(new=new, cached=cached, window=mixer.window)
    if isinstance(mixer, IndexedLatentAttention):  # a token reads what is picked, or all if that is less
        return window_positions_read(new=new, cached=cached, window=mixer.picked)
    if isinstance(mixer, WindowAttention | LatentWindowAttention):
        near = window_positions_read(new=new, cached=cached, window=mixer.window)
        return near + (entries_of(mixer, new=new, cached=cached) if isinstance(mixer, CompressedAttention) else 0)
    if isinstance(mixer, IndexedAttention):  # of its own block what has begun, of those before as many as are picked
        block, before = mixer.index_block, mixer.picked // mixer.index_block - 1
        own = chunk_positions_read(new=new, cached=cached, window=block)
        seen = {"new": max(new - (not cached), 0), "cached": cached - bool(cached)}  # positions before each token
        return own + (block * compressed_positions_read(**seen, run=block, picked=before) if before else 0)
    return positions_read(new=new, cached=cached)


def entries_of(mixer: CompressedAttention, *, new: int, cached: int, index: bool = False) -> int:
    """Pairs of a new token and a compressed latent that it reads, or that the indexer scores for it."""
    most = cached + new if index or not mixer.picked else mixer.picked
    return compressed_positions_read(new=new, cached=cached, run=mixer.ratio, picked=max(most, 1))


def attention_of(mixer: object, *, cached: int, pairs: int) -> tuple[Callable, dict]:
    """The formula of one layer's scores and values for one sequence of a step, and its arguments.

    A latent layer takes the order with less arithmetic: absorbed into the new tokens (`latent_decode_flop`), or with
    the cached latents expanded (`decode_flop`; `expansion_flop` for each of them comes on top).

    Parameters
    ----------
    mixer : FullAttention, WindowAttention or LatentAttention
        A layer kind of `ModelGeometry.kinds`.
    cached : int
        Positions of the sequence in the cache.
    pairs : int
        Pairs of a new token and a position, from `pairs_of`.

    Returns
    -------
    tuple of (callable, dict)
        Call as ``function(**arguments)``, or pass both to `calc.working.working`.

    Raises
    ------
    CalcError
        If the layer's work is not counted: it has no heads, or reads in a way that its geometry does not say.

    Examples
    --------
    >>> from calc.models import load
    >>> latent = load("deepseek-v3").kinds()[0][0]
    >>> [attention_of(latent, cached=4095, pairs=n * 4096)[0].__name__ for n in (1, 4096)]
    ['latent_decode_flop', 'decode_flop']
    """
    whole = decode_flop, _expanded(mixer) | {"positions": pairs}
    if not isinstance(mixer, LatentAttention):
        return whole
    absorbed = flop_of(mixer, positions=pairs)
    dearer = _call(absorbed) > _call(whole) + cached * expansion_of(mixer)
    return whole if dearer else absorbed


def _call(formula: tuple[Callable, dict]) -> float:
    function, arguments = formula
    return function(**arguments)


def flop_of(mixer: object, *, positions: int, ranks: int = 1) -> tuple[Callable, dict]:
    """The formula of one layer's decode arithmetic on one rank, and its arguments.

    Parameters
    ----------
    mixer : FullAttention, WindowAttention or LatentAttention
        A layer kind of `ModelGeometry.kinds`. A latent is taken with its projections absorbed.
    positions : int
        Positions read.
    ranks : int
        Tensor-parallel ranks, among which the query heads are dealt out.

    Returns
    -------
    tuple of (callable, dict)
        Call as ``function(**arguments)``, or pass both to `calc.working.working`.

    Raises
    ------
    CalcError
        If the layer's work is not counted: it has no heads, or reads in a way that its geometry does not say.

    Examples
    --------
    >>> from calc.models import load
    >>> function, arguments = flop_of(load("llama-3.1-70b").kinds()[0][0], positions=8192, ranks=8)
    >>> function(**arguments)
    33554432
    """
    heads = {"query_heads": _heads(mixer, ranks)}
    if isinstance(mixer, LatentAttention):
        widths = {"latent_dim": mixer.latent_dim, "rope_dim": mixer.rope_dim}
        return latent_decode_flop, heads | widths | {"positions": positions}
    expanded = _expanded(mixer)
    widths = {"key_dim": expanded["key_dim"], "value_dim": expanded["value_dim"]}
    return decode_flop, heads | widths | {"positions": positions}


def intensity_of(mixer: object, *, element: str, ranks: int = 1) -> tuple[Callable, dict]:
    """The formula of one layer's decode intensity on one rank, and its arguments.

    Parameters
    ----------
    mixer : FullAttention, WindowAttention or LatentAttention
        A layer kind of `ModelGeometry.kinds`. A latent is taken with its projections absorbed.
    element : str
        A key of `calc.kv_cache.ELEMENTS`; a stored scale counts as bytes read.
    ranks : int
        Tensor-parallel ranks. Query heads are dealt out; a KV head is copied where there are too few, a
        latent always.

    Returns
    -------
    tuple of (callable, dict)
        Call as ``function(**arguments)``, or pass both to `calc.working.working`.

    Raises
    ------
    CalcError
        If the layer has no heads, or the element type is unknown.

    Examples
    --------
    >>> from calc.models import load
    >>> mixer = load("llama-3.1-70b").kinds()[0][0]
    >>> for ranks in (1, 8, 16):
    ...     function, arguments = intensity_of(mixer, element="bf16", ranks=ranks)
    ...     print(ranks, function(**arguments))
    1 8.0
    8 8.0
    16 4.0
    """
    heads = {"query_heads": _heads(mixer, ranks)}
    if isinstance(mixer, LatentWindowAttention):
        raise CalcError("latents that are key and value are stored in two types: their intensity is no one formula")
    size = kv_cache.formula_of(mixer, layers=1, element=element)[1]["element_bytes"]
    if isinstance(mixer, LatentAttention):
        widths = {"latent_dim": mixer.latent_dim, "rope_dim": mixer.rope_dim}
        return latent_decode_intensity, heads | widths | {"element_bytes": size}
    kept = kv_cache.kv_heads_per_rank(kv_heads=mixer.kv_heads, ranks=ranks)
    return decode_intensity, heads | {"kv_heads": kept, "element_bytes": size}


def prefill_flop(model: ModelGeometry, *, prompt: int) -> int:
    """Attention arithmetic of a whole prompt in all layers of a model.

    Parameters
    ----------
    model : ModelGeometry
    prompt : int
        Prompt tokens.

    Returns
    -------
    int
        FLOP.

    Raises
    ------
    CalcError
        If `prompt` is negative or not whole, or a layer has no heads.

    Notes
    -----
    A window layer reads no more than its window; a latent is expanded, as engines do for a prompt. The
    projections, softmax and everything outside the attention are not counted.

    Examples
    --------
    >>> from calc.models import load
    >>> prefill_flop(load("llama-3.1-70b"), prompt=8192)
    87971667640320
    """
    flop = 0
    for mixer, layers in model.kinds():
        if mixer is not None:
            pairs = pairs_of(mixer, new=prompt, cached=0)
            flop += layers * decode_flop(**_expanded(mixer), positions=pairs)
    return flop
