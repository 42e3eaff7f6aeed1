"""What a layer of each kind keeps in the cache: its formula, its bytes, and words for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from calc.kv_cache._formulas import (
    bytes_per_position,
    compressed_bytes_per_position,
    compressor_bytes_per_position,
    index_bytes_per_position,
    kv_heads_per_rank,
    latent_bytes_per_position,
    mixed_latent_bytes_per_position,
    resident_positions,
    scaled_element_bytes,
    sequence_bytes,
    unequal_bytes_per_position,
)
from calc.models import (
    CompressedAttention,
    FullAttention,
    IndexedAttention,
    IndexedLatentAttention,
    LatentAttention,
    LatentWindowAttention,
    ModelGeometry,
    RecurrentState,
    UnsupportedArchitecture,
    WindowAttention,
)
from calc.sources import load_json
from calc.units import CalcError, format_count
from calc.working import Working, working

# what the symbols of a position's bytes stand for on one rank of several
ON_RANK = {"kv_heads": "kv_heads_per_rank"} | dict.fromkeys(
    (f"{kind}bytes_per_position" for kind in ("", "latent_", "unequal_", "mixed_latent_")), "rank_bytes"
)


@dataclass(frozen=True, slots=True)
class Element:
    """How one cache element is stored. `scale_bytes` is stored once for every key or value vector."""

    element_bytes: float
    scale_bytes: float = 0


ELEMENTS: dict[str, Element] = {
    "fp32": Element(4),
    "bf16": Element(2),
    "fp16": Element(2),
    "fp8": Element(1),  # one scale for the whole tensor: nothing stored per position
    "int8": Element(1),
    "fp8 + head scales": Element(1, scale_bytes=4),  # an fp32 scale for each token and head
    "int8 + head scales": Element(1, scale_bytes=4),
}


@dataclass(frozen=True, slots=True)
class KindBytes:
    """What the layers of one kind keep on one rank.

    Attributes
    ----------
    kind : str
        "full", "window", "chunk", "sparse", "latent", "latent window", "compressed", "compressor", "indexer" or
        "state".
    layers : int
        Layers of this kind.
    bytes_per_position : float
        Bytes that one position leaves in one layer, on average where many make one entry; 0 for fixed state.
    window : int or None
        Positions after which the layer stops growing.
    fixed_bytes : float
        Bytes of one layer that don't depend on the length of the sequence.
    ratio : int
        Positions that make one entry: there is none until so many are written.
    """

    kind: str
    layers: int
    bytes_per_position: float
    window: int | None = None
    fixed_bytes: float = 0
    ratio: int = 1

    def resident_bytes(self, positions: int) -> float:
        """Bytes that these layers need for a sequence, windows honored."""
        held = positions if self.window is None else resident_positions(positions=positions, window=self.window)
        complete = held - held % self.ratio
        growing = sequence_bytes(bytes_per_position=self.bytes_per_position, positions=complete)
        return self.layers * (growing + self.fixed_bytes)


def element_of(name: str) -> Element:
    """Look up a cache element type.

    Raises
    ------
    CalcError
        If the name is unknown; the message lists the known ones.
    """
    if not isinstance(name, str) or name not in ELEMENTS:
        raise CalcError(f"unknown cache element type {repr(name)[:40]}: use one of {', '.join(ELEMENTS)}")
    return ELEMENTS[name]


def formula_of(mixer: object, *, layers: int, element: str, ranks: int = 1) -> tuple[Callable, dict]:
    """The formula that counts one kind of layer, and its arguments: what a chapter shows and `layout` calls.

    Parameters
    ----------
    mixer : FullAttention, WindowAttention, LatentAttention or LatentWindowAttention
        A layer kind of `ModelGeometry.kinds`. What its compressor and its indexer keep comes on top (`caches_of`).
    layers : int
        Layers of this kind.
    element : str
        A key of `ELEMENTS`.
    ranks : int
        Tensor-parallel ranks; heads are divided and floored without a check, which `layout` makes.

    Returns
    -------
    tuple of (callable, dict)
        Call as ``function(**arguments)`` for bytes per position, or pass both to `calc.working.working`.

    Raises
    ------
    CalcError
        If this kind of layer doesn't grow with the sequence.

    Examples
    --------
    >>> from calc.models import load
    >>> (mixer, layers), = load("deepseek-v3").kinds()
    >>> function, arguments = formula_of(mixer, layers=layers, element="bf16")
    >>> function.__name__, function(**arguments)
    ('latent_bytes_per_position', 70272)
    """
    stored, scales = element_of(element), 1  # scales in a group of elements
    if isinstance(mixer, IndexedLatentAttention) and element in (rule := _sparse("latent"))["elements"]:
        widths = {"latent_dim": mixer.latent_dim, "rope_dim": mixer.rope_dim, "rope_bytes": rule["rope_bytes"]}
        return mixed_latent_bytes_per_position, {"layers": layers, **widths, "element_bytes": _with_scales(rule)}
    if isinstance(mixer, LatentWindowAttention):
        return _own_format(mixer, layers, element)
    if isinstance(mixer, LatentAttention):
        widths = {"latent_dim": mixer.latent_dim, "rope_dim": mixer.rope_dim}
        function, group = latent_bytes_per_position, mixer.latent_dim + mixer.rope_dim
    elif isinstance(mixer, FullAttention):
        widths = {"kv_heads": kv_heads_per_rank(kv_heads=mixer.kv_heads, ranks=ranks)}
        if mixer.key_dim == mixer.value_dim:
            function, group = bytes_per_position, mixer.key_dim
            widths["head_dim"] = mixer.key_dim
        else:
            function, group = unequal_bytes_per_position, mixer.key_dim + mixer.value_dim
            scales = 2
            widths |= {"key_dim": mixer.key_dim, "value_dim": mixer.value_dim}
    else:
        raise CalcError(f"a layer of type {type(mixer).__name__} leaves nothing per position")
    size = stored.element_bytes
    if stored.scale_bytes:
        size = scaled_element_bytes(element_bytes=size, scale_bytes=scales * stored.scale_bytes, group=group)
    return function, {"layers": layers, **widths, "element_bytes": size}


def rank_working(mixer: object, *, layers: int, element: str, ranks: int) -> list[Working]:
    """Show what one position leaves on one rank, from the KV heads that it stores of a layer, if there are heads.

    Parameters
    ----------
    mixer
        A layer kind of `ModelGeometry.kinds`.
    layers : int
        Layers of this kind.
    element : str
        A key of `ELEMENTS`.
    ranks : int
        Tensor-parallel ranks; heads are divided and floored without a check, which `layout` makes.

    Returns
    -------
    list of Working
        The heads of one rank, which latents don't have, then the bytes.

    Raises
    ------
    CalcError
        If this kind of layer doesn't grow with the sequence.

    Examples
    --------
    >>> from calc.models import load
    >>> (mixer, layers), = load("llama-3.1-70b").kinds()
    >>> for line in rank_working(mixer, layers=layers, element="bf16", ranks=4):
    ...     print(line.text)
    n_rank = max(1, ⌊n_kv / R⌋) = max(1, ⌊8 / 4⌋) = 2
    B_rank = 2 · L · n_rank · d_h · s = 2 · 80 · 2 · 128 · 2 B = 81,920 B = 80 KiB
    """
    function, arguments = formula_of(mixer, layers=layers, element=element, ranks=ranks)
    lines = [working(function, names=ON_RANK, **arguments)]
    if isinstance(mixer, FullAttention):
        lines.insert(0, working(kv_heads_per_rank, kv_heads=mixer.kv_heads, ranks=ranks))
    return lines


def _sparse(part: str) -> dict:
    """How an engine stores a part of sparse attention's cache."""
    return load_json("sparse_cache.json")[part]


def _with_scales(rule: dict) -> float:
    return scaled_element_bytes(**{name: rule[name] for name in ("element_bytes", "scale_bytes", "group")})


def _own_format(mixer: LatentWindowAttention, layers: int, element: str) -> tuple[Callable, dict]:
    """The one format that latents which are key and value are stored in; its widths are fixed."""
    rule = _sparse("shared_latent")
    if element not in rule["elements"]:
        raise CalcError(
            f"{element} is no cache for latents that are key and value at once: engines keep them in a format of "
            f"their own. Use {' or '.join(rule['elements'])}, which both mean it"
        )
    widths = {"head_dim": mixer.latent_dim, "qk_rope_head_dim": mixer.rope_dim}
    if isinstance(mixer, CompressedAttention) and mixer.index_heads:
        widths["index_head_dim"] = mixer.index_dim
    for name, width in widths.items():
        if width != rule[name]:
            raise UnsupportedArchitecture(
                f"{name} is {width}: the cache's layout is known for {rule[name]} alone ({rule['source']})"
            )
    widths = {"latent_dim": mixer.latent_dim - mixer.rope_dim, "rope_dim": mixer.rope_dim}
    sizes = {"element_bytes": _with_scales(rule), "rope_bytes": rule["rope_bytes"]}
    return mixed_latent_bytes_per_position, {"layers": layers, **widths, **sizes}


def has_index(mixer: object) -> bool:
    """Whether a layer has an indexer of its own, with a cache of its own."""
    if isinstance(mixer, CompressedAttention):
        return mixer.index_heads > 0
    return isinstance(mixer, IndexedAttention) or (isinstance(mixer, IndexedLatentAttention) and mixer.own_index)


def index_bytes(mixer: object) -> float:
    """Bytes that one position leaves in a layer's indexer, in a format of its own whatever the cache's element type.

    Parameters
    ----------
    mixer : a layer kind of `ModelGeometry.kinds`

    Returns
    -------
    float
        0 where the layer has no indexer. On average where many positions make one key.
    """
    if not has_index(mixer):
        return 0
    blocks = isinstance(mixer, IndexedAttention)
    size = _sparse("block_indexer")["element_bytes"] if blocks else _with_scales(_sparse("indexer"))
    key = index_bytes_per_position(layers=1, index_dim=mixer.index_dim, element_bytes=size)
    if isinstance(mixer, CompressedAttention):
        key = compressed_bytes_per_position(entry_bytes=key, run=mixer.ratio)
    return round(key, 6)


def caches_of(
    mixer: object, *, layers: int, element: str, ranks: int = 1, own: str | None = None
) -> tuple[KindBytes, ...]:
    """Everything that layers of one kind keep on one rank, what their attention reads first.

    Parameters
    ----------
    mixer : a layer kind of `ModelGeometry.kinds`
    layers : int
        Layers of this kind.
    element : str
        A key of `ELEMENTS`.
    ranks : int
        Tensor-parallel ranks.
    own : str or None
        The model's own element type, for recurrent states.

    Returns
    -------
    tuple of KindBytes

    Raises
    ------
    CalcError
        If this kind of layer can't be stored so.
    """
    if isinstance(mixer, RecurrentState):
        return (KindBytes("state", layers, 0, fixed_bytes=state_bytes(mixer, element=own, ranks=ranks)),)
    function, arguments = formula_of(mixer, layers=1, element=element, ranks=ranks)
    size = round(function(**arguments), 6)  # a scale's share of one element may not be exact
    if isinstance(mixer, LatentWindowAttention):
        return (KindBytes("latent window", layers, size, mixer.window), *_compressed(mixer, layers, size))
    window = mixer.window if isinstance(mixer, WindowAttention) else None
    index = (KindBytes("indexer", layers, index_bytes(mixer)),) if has_index(mixer) else ()
    return (KindBytes(mixer.kind, layers, size, window), *index)


def _compressed(mixer: object, layers: int, size: float) -> Iterator[KindBytes]:
    """What lies beyond the window: one latent and one key of the indexer for many positions, and their makings."""
    if not isinstance(mixer, CompressedAttention):
        return
    ratio, window = mixer.ratio, mixer.overlap * mixer.ratio
    share = compressed_bytes_per_position(entry_bytes=size, run=ratio)
    yield KindBytes("compressed", layers, share, ratio=ratio)
    yield KindBytes("compressor", layers, compressor_bytes(mixer.latent_dim, mixer.overlap), window)
    if mixer.index_heads:
        yield KindBytes("indexer", layers, index_bytes(mixer), ratio=ratio)
        yield KindBytes("compressor", layers, compressor_bytes(mixer.index_dim, mixer.overlap), window)


def compressor_bytes(width: int, overlap: int) -> float:
    """Bytes that one position leaves with a compressor until its entry is made."""
    element_bytes = _sparse("compressor")["element_bytes"]
    return compressor_bytes_per_position(entry_dim=width, overlap=overlap, element_bytes=element_bytes)


def state_bytes(mixer: RecurrentState, *, element: str | None, ranks: int = 1) -> float:
    """Bytes of one recurrent layer's state for one sequence.

    Parameters
    ----------
    mixer : RecurrentState
        A layer kind of `ModelGeometry.kinds`.
    element : str or None
        The model's own type, `ModelGeometry.element`; the cache's does not matter.
    ranks : int
        Tensor-parallel ranks.

    Returns
    -------
    float
        Bytes on one of them.
    """
    own = max(ELEMENTS.get(element or "", ELEMENTS["bf16"]).element_bytes, 2)
    return sum(part.elements * (part.element_bytes or own) for part in mixer.on_rank(ranks))


def in_words(model: ModelGeometry) -> str:
    """Say what one token leaves in each kind of layer, for a sentence.

    Examples
    --------
    >>> from calc.models import load
    >>> in_words(load("llama-3.1-70b"))
    'a key and a value of 128 elements for each of 8 KV heads in 80 layers'
    """
    return ", and ".join(f"{_kept(mixer)} in {layers} layers" for mixer, layers in model.kinds() if mixer is not None)


def _kept(mixer: object) -> str:
    if isinstance(mixer, RecurrentState):
        return "nothing (a fixed state)"
    if isinstance(mixer, LatentWindowAttention):
        window = f"one latent of {mixer.latent_dim} elements (kept for {format_count(mixer.window)} positions)"
        if not isinstance(mixer, CompressedAttention):
            return window
        index = f" and an indexer's key of {mixer.index_dim}" if has_index(mixer) else ""
        return f"{window}, one latent more{index} for every {format_count(mixer.ratio)} of them"
    if isinstance(mixer, LatentAttention):
        index = f", and an indexer's key of {mixer.index_dim}" if has_index(mixer) else ""
        return f"one latent of {mixer.latent_dim} elements and one rotary key of {mixer.rope_dim}{index}"
    if mixer.key_dim == mixer.value_dim:
        widths = f"a key and a value of {mixer.key_dim} elements"
    else:
        widths = f"a key of {mixer.key_dim} elements and a value of {mixer.value_dim}"
    heads = "the one KV head" if mixer.kv_heads == 1 else f"each of {mixer.kv_heads} KV heads"
    window = f" (kept for {format_count(mixer.window)} positions)" if isinstance(mixer, WindowAttention) else ""
    index = f", and an indexer's key of {mixer.index_dim}" if has_index(mixer) else ""
    return f"{widths} for {heads}{window}{index}"
