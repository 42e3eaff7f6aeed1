"""A model's cache on one rank, and a request in it: what it holds now and what it will still need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from calc.kv_cache._formulas import (
    block_bytes,
    blocks,
    bytes_per_position,
    index_bytes_per_position,
    kv_heads_per_rank,
    latent_bytes_per_position,
    mixed_latent_bytes_per_position,
    positions_written,
    resident_positions,
    scaled_element_bytes,
    sequence_bytes,
    unequal_bytes_per_position,
)
from calc.models import (
    FullAttention,
    IndexedLatentAttention,
    LatentAttention,
    ModelGeometry,
    RecurrentState,
    WindowAttention,
)
from calc.sources import load_json
from calc.units import CalcError, format_bytes, format_count, plain


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
        "full", "window", "chunk", "latent", "indexer" or "state".
    layers : int
        Layers of this kind.
    bytes_per_position : float
        Bytes that one position leaves in one layer; 0 for fixed state.
    window : int or None
        Positions after which the layer stops growing.
    fixed_bytes : float
        Bytes of one layer that don't depend on the length of the sequence.
    """

    kind: str
    layers: int
    bytes_per_position: float
    window: int | None = None
    fixed_bytes: float = 0

    def resident_bytes(self, positions: int) -> float:
        """Bytes that these layers need for a sequence, windows honored."""
        held = positions if self.window is None else resident_positions(positions=positions, window=self.window)
        growing = sequence_bytes(bytes_per_position=self.bytes_per_position, positions=held)
        return self.layers * (growing + self.fixed_bytes)


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """A model's cache on one tensor-parallel rank, kind by kind.

    Attributes
    ----------
    model : str
        The model's name.
    element : str
        A key of `ELEMENTS`.
    ranks : int
        Tensor-parallel ranks; all byte counts are for one of them.
    kinds : tuple of KindBytes
        In order of first appearance in the model.
    """

    model: str
    element: str
    ranks: int
    kinds: tuple[KindBytes, ...]

    @property
    def bytes_per_position(self) -> float:
        """Bytes one new position adds while no window is full yet."""
        return sum(k.layers * k.bytes_per_position for k in self.kinds)

    @property
    def unbounded_bytes_per_position(self) -> float:
        """Bytes one new position adds once every window is full, the slope of a long context."""
        return sum(k.layers * k.bytes_per_position for k in self.kinds if k.window is None)

    @property
    def fixed_bytes(self) -> float:
        """Bytes a sequence holds whatever its length (recurrent and convolution state)."""
        return sum(k.layers * k.fixed_bytes for k in self.kinds)

    @property
    def has_windows(self) -> bool:
        """True where some layers stop growing."""
        return any(k.window is not None for k in self.kinds)

    def _repr_html_(self) -> str:
        head = "<tr><th>layers</th><th>kind</th><th>one position, one layer</th><th>keeps</th></tr>"
        cells = ((k.layers, k.kind, format_bytes(k.bytes_per_position or k.fixed_bytes), _keeps(k)) for k in self.kinds)
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in cells)
        return f'<table class="calc-table"><thead>{head}</thead><tbody>{body}</tbody></table>'


def _keeps(kind: KindBytes) -> str:
    if kind.kind == "state":
        return "a fixed state"
    return "every position" if kind.window is None else f"the last {format_count(kind.window)} positions"


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


def layout(model: ModelGeometry, *, element: str = "bf16", ranks: int = 1, remainder: str = "refuse") -> CacheLayout:
    """Say what each kind of layer keeps on one tensor-parallel rank.

    Parameters
    ----------
    model : ModelGeometry
        From `calc.models.load` or ``ModelGeometry.from_config``.
    element : str
        A key of `ELEMENTS`.
    ranks : int
        Tensor-parallel ranks.
    remainder : {"refuse", "floor"}
        What to do when heads don't divide evenly among ranks: refuse as engines do when they load the
        model, or floor as they do when they size the pool.

    Returns
    -------
    CacheLayout

    Raises
    ------
    CalcError
        If the element type is unknown, or the heads can't be laid out on so many ranks.

    Notes
    -----
    KV heads are shared out, and replicated when ranks exceed heads. A latent is replicated on every
    rank. Fixed state is shared out. Pipeline and context parallelism are not modeled here.

    Examples
    --------
    >>> from calc.models import load
    >>> layout(load("llama-3.1-70b"), ranks=8).bytes_per_position
    40960
    """
    if remainder not in {"refuse", "floor"}:
        raise CalcError(f'remainder is {remainder!r}, wanted "refuse" or "floor"')
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        raise CalcError(f"ranks is {ranks!r}, wanted a whole number of at least 1")
    if remainder == "refuse":
        _check_ranks(model, ranks)
    mixers = [(mixer, count) for mixer, count in model.kinds() if mixer is not None]
    kinds = [_kind_bytes(mixer, count, element, ranks, model.element) for mixer, count in mixers]
    kinds += [KindBytes("indexer", count, index_bytes(mixer)) for mixer, count in mixers if _has_index(mixer)]
    return CacheLayout(model.name, element, ranks, tuple(kinds))


def formula_of(mixer: object, *, layers: int, element: str, ranks: int = 1) -> tuple[Callable, dict]:
    """The formula that counts one kind of layer, and its arguments: what a chapter shows and `layout` calls.

    Parameters
    ----------
    mixer : FullAttention, WindowAttention or LatentAttention
        A layer kind of `ModelGeometry.kinds`.
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


def _sparse(part: str) -> dict:
    """How an engine stores a part of sparse latent attention's cache."""
    return load_json("sparse_cache.json")[part]


def _with_scales(rule: dict) -> float:
    return scaled_element_bytes(**{name: rule[name] for name in ("element_bytes", "scale_bytes", "group")})


def _has_index(mixer: object) -> bool:
    return isinstance(mixer, IndexedLatentAttention) and mixer.own_index


def index_bytes(mixer: object) -> float:
    """Bytes that one position leaves in a layer's indexer, in a format of its own whatever the cache's element type.

    Parameters
    ----------
    mixer : a layer kind of `ModelGeometry.kinds`

    Returns
    -------
    float
        0 where the layer has no indexer.
    """
    if not _has_index(mixer):
        return 0
    size = _with_scales(_sparse("indexer"))
    return round(index_bytes_per_position(layers=1, index_dim=mixer.index_dim, element_bytes=size), 6)


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


def _kind_bytes(mixer: object, layers: int, element: str, ranks: int, own: str | None) -> KindBytes:
    if isinstance(mixer, RecurrentState):
        return KindBytes("state", layers, 0, fixed_bytes=state_bytes(mixer, element=own, ranks=ranks))
    function, arguments = formula_of(mixer, layers=1, element=element, ranks=ranks)
    window = mixer.window if isinstance(mixer, WindowAttention) else None
    size = round(function(**arguments), 6)  # a scale's share of one element may not be exact
    return KindBytes(mixer.kind, layers, size, window)


def _obstacle(model: ModelGeometry, mixer: object, ranks: int) -> str:
    """Why engines refuse to load this kind of layer on so many ranks; empty if they don't."""
    if isinstance(mixer, RecurrentState):
        return next((f"its recurrent layers have {n} parts that don't divide" for n in mixer.divides if n % ranks), "")
    if mixer.query_heads % ranks:
        return f"its {mixer.query_heads} query heads don't divide"
    heads = 1 if isinstance(mixer, LatentAttention) else mixer.kv_heads
    if ranks > heads > 1 and (rule := load_json("engine_limits.json")["no_kv_replication"].get(model.architecture)):
        return f"it has {heads} KV heads. {rule['rule']} ({rule['source']})"
    if heads % ranks and ranks % heads:
        return f"its {heads} KV heads don't divide"
    return ""


def _check_ranks(model: ModelGeometry, ranks: int) -> None:
    """Refuse ranks that the layers can't be laid out on, and say which would do."""

    def obstacle(r: int) -> str:
        mixers = (mixer for mixer, _ in model.kinds() if mixer is not None)
        return next(filter(None, (_obstacle(model, mixer, r) for mixer in mixers)), "")

    if why := obstacle(ranks):
        good = [str(r) for r in range(1, 65) if not obstacle(r)]
        raise CalcError(f"{model.name} can't run on {ranks} ranks: {why}. Use {', '.join(good)}")


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
    if isinstance(mixer, LatentAttention):
        index = f", and an indexer's key of {mixer.index_dim}" if _has_index(mixer) else ""
        return f"one latent of {mixer.latent_dim} elements and one rotary key of {mixer.rope_dim}{index}"
    if mixer.key_dim == mixer.value_dim:
        widths = f"a key and a value of {mixer.key_dim} elements"
    else:
        widths = f"a key of {mixer.key_dim} elements and a value of {mixer.value_dim}"
    heads = "the one KV head" if mixer.kv_heads == 1 else f"each of {mixer.kv_heads} KV heads"
    window = f" (kept for {format_count(mixer.window)} positions)" if isinstance(mixer, WindowAttention) else ""
    return f"{widths} for {heads}{window}"


def resident_bytes(layout: CacheLayout, *, positions: int) -> float:
    """Bytes of a sequence when window layers give back what they no longer attend to.

    Parameters
    ----------
    layout : CacheLayout
        A model on one rank.
    positions : int
        Positions written.

    Returns
    -------
    float
        Bytes on that rank, fixed state included.

    Raises
    ------
    CalcError
        If `positions` is negative or not whole.

    Notes
    -----
    Exact bytes: no page rounding, no sharing between sequences.

    Examples
    --------
    >>> from calc.models import load
    >>> resident_bytes(layout(load("gpt-oss-20b")), positions=8192)
    204472320
    """
    positions = plain("resident_bytes", "positions", positions, "count")
    return sum(k.resident_bytes(positions) for k in layout.kinds)


def uniform_page_bytes(layout: CacheLayout, *, positions: int, block_tokens: int = 16) -> float:
    """Bytes of a sequence when every layer gets a page for every position, windows or not.

    Parameters
    ----------
    layout : CacheLayout
        A model on one rank.
    positions : int
        Positions written.
    block_tokens : int
        Positions in a page.

    Returns
    -------
    float
        Bytes on that rank, the last page counted whole, fixed state included.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or `block_tokens` is 0.

    Notes
    -----
    The convention of engines, or engine modes, with one page table for all layers.

    Examples
    --------
    >>> from calc.models import load
    >>> uniform_page_bytes(layout(load("gpt-oss-20b")), positions=8192)
    402653184
    """
    positions = plain("uniform_page_bytes", "positions", positions, "count")
    block_tokens = plain("uniform_page_bytes", "block_tokens", block_tokens, "count>0")
    page = block_bytes(bytes_per_position=layout.bytes_per_position, block_tokens=block_tokens)
    return blocks(positions=positions, block_tokens=block_tokens) * page + layout.fixed_bytes


def present_bytes(layout: CacheLayout, *, prompt: int, generated: int, block_tokens: int | None = None) -> float:
    """Bytes that a request holds now.

    Parameters
    ----------
    layout : CacheLayout
        A model on one rank.
    prompt, generated : int
        Prompt tokens, and tokens sampled so far (at least 1).
    block_tokens : int or None
        Page size for the uniform-page convention; None counts resident bytes.

    Returns
    -------
    float
        Bytes on that rank.

    Raises
    ------
    CalcError
        If an argument is not a positive whole number.

    Notes
    -----
    Says nothing about the rest of the response: see `room_to_finish_bytes`.

    Examples
    --------
    >>> from calc.models import load
    >>> present_bytes(layout(load("llama-3.1-70b")), prompt=2048, generated=1)
    671088640
    """
    prompt = plain("present_bytes", "prompt", prompt, "count>0")
    generated = plain("present_bytes", "generated", generated, "count>0")
    positions = positions_written(prompt=prompt, generated=generated)
    if block_tokens is None:
        return resident_bytes(layout, positions=positions)
    return uniform_page_bytes(layout, positions=positions, block_tokens=block_tokens)


def room_to_finish_bytes(
    layout: CacheLayout, *, prompt: int, generated: int, output: int, block_tokens: int | None = None
) -> float:
    """Bytes that a request will still claim before its response ends.

    Parameters
    ----------
    layout : CacheLayout
        A model on one rank.
    prompt, generated : int
        Prompt tokens, and tokens sampled so far (at least 1).
    output : int
        Tokens of the whole response: its limit, or a guess at its length.
    block_tokens : int or None
        Page size for the uniform-page convention; None counts resident bytes.

    Returns
    -------
    float
        Bytes on that rank, on top of `present_bytes`.

    Raises
    ------
    CalcError
        If an argument is not a positive whole number, or more is generated than the output allows.

    Notes
    -----
    An upper bound when `output` is a limit: a response may stop early. Window layers that are full
    need no more room.

    Examples
    --------
    >>> from calc.models import load
    >>> room_to_finish_bytes(layout(load("llama-3.1-70b")), prompt=2048, generated=1, output=513)
    167772160
    """
    now = present_bytes(layout, prompt=prompt, generated=generated, block_tokens=block_tokens)
    output = plain("room_to_finish_bytes", "output", output, "count>0")
    generated = plain("room_to_finish_bytes", "generated", generated, "count>0")
    if generated > output:
        raise CalcError(f"generated is {generated}, output only {output}: raise output or lower generated")
    return present_bytes(layout, prompt=prompt, generated=output, block_tokens=block_tokens) - now


def growth(layout: CacheLayout, *, prompt: int, output: int) -> Iterator[tuple[int, float]]:
    """Yield (tokens sampled, bytes held) for a request from prefill to its last token, for drawing."""
    for generated in range(1, output + 1):
        yield generated, present_bytes(layout, prompt=prompt, generated=generated)
