"""Cache bytes: what one position leaves behind, per layer kind, per sequence and per rank.

The first half holds the formulas, one function each, on plain numbers. The second half applies them to
a model: `layout` says what each kind of layer keeps on one rank, and the functions after it count a
sequence in the two conventions engines use, and separate what a request holds now from what it will
still need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

from calc.models import FixedState, FullAttention, LatentAttention, ModelGeometry, WindowAttention, load
from calc.panel import Panel, Row
from calc.sources import load_json
from calc.units import UNITS, CalcError, dimensions, format_bytes, format_count, significant
from calc.working import working

# --- formulas ------------------------------------------------------------------------------------


@dimensions("byte", layers="count", kv_heads="count", head_dim="count", element_bytes="byte")
def bytes_per_position(*, layers, kv_heads, head_dim, element_bytes):
    """Cache bytes that one token leaves behind in all layers together.

    Two vectors, a key and a value, for every KV head of every layer. Query heads leave nothing.

    Parameters
    ----------
    layers : int
        Layers that keep a cache.
    kv_heads : int
        Key-value heads in each layer, not query heads.
    head_dim : int
        Elements in one head's key, equal to those in its value.
    element_bytes : float
        Bytes per stored element: 2 for bf16, 1 for fp8.

    Returns
    -------
    int or float
        Bytes per position.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or a count is not whole.

    Notes
    -----
    Valid where all layers are alike and keys are as wide as values. Models with window, latent or
    fixed-state layers go through `layout`. Stored quantization scales are not counted.

    References
    ----------
    Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention",
    SOSP 2023, section 3, counts the same two vectors for OPT-13B.

    Examples
    --------
    >>> bytes_per_position(layers=80, kv_heads=8, head_dim=128, element_bytes=2)
    327680
    """
    bytes_per_position = 2 * layers * kv_heads * head_dim * element_bytes
    return bytes_per_position


@dimensions("byte", layers="count", kv_heads="count", key_dim="count", value_dim="count", element_bytes="byte")
def unequal_bytes_per_position(*, layers, kv_heads, key_dim, value_dim, element_bytes):
    """Cache bytes that one token leaves behind where keys and values differ in width.

    Parameters
    ----------
    layers : int
        Layers that keep a cache.
    kv_heads : int
        Key-value heads in each layer.
    key_dim, value_dim : int
        Elements in one head's key and in its value.
    element_bytes : float
        Bytes per stored element.

    Returns
    -------
    int or float
        Bytes per position.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or a count is not whole.

    Notes
    -----
    Equals `bytes_per_position` where the widths are equal. It is also what an engine stores that
    expands a latent into ordinary heads.

    Examples
    --------
    >>> unequal_bytes_per_position(layers=61, kv_heads=128, key_dim=192, value_dim=128, element_bytes=2)
    4997120
    """
    unequal_bytes_per_position = layers * kv_heads * (key_dim + value_dim) * element_bytes
    return unequal_bytes_per_position


@dimensions("byte", layers="count", latent_dim="count", rope_dim="count", element_bytes="byte")
def latent_bytes_per_position(*, layers, latent_dim, rope_dim, element_bytes):
    """Cache bytes that one token leaves behind with multi-head latent attention (MLA).

    One latent vector serves the keys and the values of all heads, so there is no factor 2 and no
    head count. A small rotary key is stored beside it.

    Parameters
    ----------
    layers : int
        Latent-attention layers.
    latent_dim : int
        Elements of the shared latent (``kv_lora_rank``).
    rope_dim : int
        Elements of the shared rotary key (``qk_rope_head_dim``).
    element_bytes : float
        Bytes per stored element.

    Returns
    -------
    int or float
        Bytes per position.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or a count is not whole.

    Notes
    -----
    Valid for engines that cache the latent. One that expands it into ordinary heads stores the full
    keys and values instead. A sparse indexer's own cache is not counted.

    References
    ----------
    DeepSeek-AI, "DeepSeek-V2", 2024, arXiv:2405.04434, section 2.1.

    Examples
    --------
    >>> latent_bytes_per_position(layers=61, latent_dim=512, rope_dim=64, element_bytes=2)
    70272
    """
    latent_bytes_per_position = layers * (latent_dim + rope_dim) * element_bytes
    return latent_bytes_per_position


@dimensions("byte", element_bytes="byte", scale_bytes="byte", group="count>0")
def scaled_element_bytes(*, element_bytes, scale_bytes, group):
    """Bytes per element when each group of elements carries one stored scale.

    Parameters
    ----------
    element_bytes : float
        Bytes of the element itself.
    scale_bytes : float
        Bytes of one scale: 4 for fp32, 2 for fp16, 0 where one scale serves the whole tensor.
    group : int
        Elements that share a scale, for example the head size.

    Returns
    -------
    float
        Bytes per element, its share of the scale included.

    Raises
    ------
    CalcError
        If an argument is negative or `group` is 0.

    Notes
    -----
    Valid for symmetric quantization; a stored zero point counts as part of `scale_bytes`.

    Examples
    --------
    >>> scaled_element_bytes(element_bytes=1, scale_bytes=4, group=128)
    1.03125
    """
    scaled_element_bytes = element_bytes + scale_bytes / group
    return scaled_element_bytes


@dimensions("byte", bytes_per_position="byte", positions="count")
def sequence_bytes(*, bytes_per_position, positions):
    """Cache bytes of one sequence whose layers all keep every position.

    Parameters
    ----------
    bytes_per_position : float
        Bytes one position leaves in all layers.
    positions : int
        Positions held.

    Returns
    -------
    int or float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Notes
    -----
    Exact bytes without page rounding. Layers with windows stop growing: see `resident_bytes`.

    Examples
    --------
    >>> sequence_bytes(bytes_per_position=327680, positions=4096)
    1342177280
    """
    sequence_bytes = bytes_per_position * positions
    return sequence_bytes


@dimensions("count", positions="count", window="count>0")
def resident_positions(*, positions, window):
    """Positions that a sliding-window layer still holds.

    Parameters
    ----------
    positions : int
        Positions written so far.
    window : int
        Positions the layer attends to.

    Returns
    -------
    int
        The smaller of the two.

    Raises
    ------
    CalcError
        If an argument is negative or not whole.

    Notes
    -----
    A paged engine frees whole blocks, so it may hold up to one block more.

    Examples
    --------
    >>> resident_positions(positions=8192, window=1024)
    1024
    """
    resident_positions = min(positions, window)
    return resident_positions


@dimensions("count", kv_heads="count>0", ranks="count>0")
def kv_heads_per_rank(*, kv_heads, ranks):
    """Key-value heads that one tensor-parallel rank stores.

    Heads are divided among ranks. With more ranks than heads every rank still needs one, so heads
    are replicated and the cost per rank stops falling.

    Parameters
    ----------
    kv_heads : int
        Key-value heads of the layer.
    ranks : int
        Tensor-parallel ranks.

    Returns
    -------
    int
        Heads on one rank, at least 1.

    Raises
    ------
    CalcError
        If an argument is not a positive whole number.

    Notes
    -----
    Floors a remainder as engines do when they size the pool. They refuse to load such a model;
    `layout` refuses it too unless told otherwise.

    References
    ----------
    vLLM 0.32, ``ModelConfig.get_num_kv_heads``: ``max(1, total_num_kv_heads // tensor_parallel_size)``.

    Examples
    --------
    >>> kv_heads_per_rank(kv_heads=8, ranks=4), kv_heads_per_rank(kv_heads=8, ranks=16)
    (2, 1)
    """
    kv_heads_per_rank = max(1, kv_heads // ranks)
    return kv_heads_per_rank


@dimensions("count", prompt="count>0", generated="count>0")
def positions_written(*, prompt, generated):
    """Positions in the cache once `generated` tokens have been sampled.

    The prompt is written by prefill, which also samples the first token. Each decode step writes the
    token sampled before it and samples the next. So the newest token is never in the cache.

    Parameters
    ----------
    prompt : int
        Prompt tokens.
    generated : int
        Tokens sampled so far, at least 1: before that, prefill is not done.

    Returns
    -------
    int
        Positions held.

    Raises
    ------
    CalcError
        If an argument is not a positive whole number.

    Notes
    -----
    Without speculative decoding, which writes draft positions that may be thrown away.

    Examples
    --------
    >>> positions_written(prompt=1000, generated=1), positions_written(prompt=1000, generated=200)
    (1000, 1199)
    """
    positions_written = prompt + generated - 1
    return positions_written


@dimensions("count", memory_bytes="byte", bytes_per_position="byte>0")
def positions_that_fit(*, memory_bytes, bytes_per_position):
    """Whole positions that a memory budget holds.

    Parameters
    ----------
    memory_bytes : float
        Memory given to the cache.
    bytes_per_position : float
        Bytes one position leaves in all layers, on the rank whose memory it is.

    Returns
    -------
    int
        Positions, rounded down.

    Raises
    ------
    CalcError
        If an argument is negative, or `bytes_per_position` is 0.

    Notes
    -----
    Position by position. A paged engine rounds down to whole blocks.

    Examples
    --------
    >>> positions_that_fit(memory_bytes=40 * 1024**3, bytes_per_position=327680)
    131072
    """
    positions_that_fit = memory_bytes // bytes_per_position
    return positions_that_fit


@dimensions("count", memory_bytes="byte", sequence_bytes="byte>0")
def sequences_that_fit(*, memory_bytes, sequence_bytes):
    """Whole sequences of one size that a memory budget holds.

    Parameters
    ----------
    memory_bytes : float
        Memory given to the cache.
    sequence_bytes : float
        Bytes of one sequence, on the rank whose memory it is.

    Returns
    -------
    int
        Sequences, rounded down.

    Raises
    ------
    CalcError
        If an argument is negative, or `sequence_bytes` is 0.

    Notes
    -----
    All sequences alike. Count with the bytes at the end of the response, or some can't finish.

    Examples
    --------
    >>> sequences_that_fit(memory_bytes=40 * 1024**3, sequence_bytes=1342177280)
    32
    """
    sequences_that_fit = memory_bytes // sequence_bytes
    return sequences_that_fit


@dimensions("count", positions="count", block_tokens="count>0")
def blocks(*, positions, block_tokens):
    """Blocks that hold a number of positions: the last one may be partly empty.

    Parameters
    ----------
    positions : int
        Positions held.
    block_tokens : int
        Positions in a block.

    Returns
    -------
    int
        Blocks, rounded up.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or `block_tokens` is 0.

    Notes
    -----
    For one sequence; shared prefixes are not deducted.

    Examples
    --------
    >>> blocks(positions=17, block_tokens=16)
    2
    """
    blocks = ceil(positions / block_tokens)
    return blocks


@dimensions("byte", bytes_per_position="byte", block_tokens="count>0")
def block_bytes(*, bytes_per_position, block_tokens):
    """Bytes of one block in all layers together.

    Parameters
    ----------
    bytes_per_position : float
        Bytes one position leaves in all layers.
    block_tokens : int
        Positions in a block.

    Returns
    -------
    int or float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or `block_tokens` is 0.

    Notes
    -----
    Valid where all layers share one block table entry, as in models with layers of one kind.

    Examples
    --------
    >>> block_bytes(bytes_per_position=131072, block_tokens=16)
    2097152
    """
    block_bytes = bytes_per_position * block_tokens
    return block_bytes


# --- a model on one rank -------------------------------------------------------------------------


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
        "full", "window", "latent" or "state".
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
        """Bytes one new position adds once every window is full: the long-context slope."""
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
    if name not in ELEMENTS:
        raise CalcError(f"unknown cache element type {name!r}: use one of {', '.join(ELEMENTS)}")
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
    mixers = [(mixer, count) for mixer, count in model.kinds() if mixer is not None]
    refuse = remainder == "refuse"
    kinds = tuple(_kind_bytes(model, mixer, count, element, ranks, refuse) for mixer, count in mixers)
    return CacheLayout(model.name, element, ranks, kinds)


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
    stored = element_of(element)
    if isinstance(mixer, LatentAttention):
        widths = {"latent_dim": mixer.latent_dim, "rope_dim": mixer.rope_dim}
        function, group = latent_bytes_per_position, mixer.latent_dim + mixer.rope_dim
    elif isinstance(mixer, FullAttention):
        widths = {"kv_heads": kv_heads_per_rank(kv_heads=mixer.kv_heads, ranks=ranks)}
        if mixer.key_dim == mixer.value_dim:
            function, group = bytes_per_position, mixer.key_dim
            widths["head_dim"] = mixer.key_dim
        else:
            function, group = unequal_bytes_per_position, (mixer.key_dim + mixer.value_dim) // 2
            widths |= {"key_dim": mixer.key_dim, "value_dim": mixer.value_dim}
    else:
        raise CalcError(f"a layer of type {type(mixer).__name__} leaves nothing per position")
    size = stored.element_bytes
    if stored.scale_bytes:
        size = scaled_element_bytes(element_bytes=size, scale_bytes=stored.scale_bytes, group=group)
    return function, {"layers": layers, **widths, "element_bytes": size}


def _kind_bytes(model: ModelGeometry, mixer: object, layers: int, element: str, ranks: int, refuse: bool) -> KindBytes:
    if isinstance(mixer, FixedState):
        for part in mixer.parts:
            _divides("state elements", part.elements, ranks, refuse)
        default = element_of(element).element_bytes
        size = sum(p.elements // ranks * (p.element_bytes or default) for p in mixer.parts)
        return KindBytes("state", layers, 0, fixed_bytes=size)
    _check_heads(model, mixer, ranks, refuse)
    function, arguments = formula_of(mixer, layers=1, element=element, ranks=ranks)
    size = function(**arguments)
    window = mixer.window if isinstance(mixer, WindowAttention) else None
    return KindBytes(mixer.kind, layers, round(size, 6), window)  # a scale's share of an element may not be exact


def _check_heads(model: ModelGeometry, mixer: FullAttention | LatentAttention, ranks: int, refuse: bool) -> None:
    """Refuse a number of ranks that the heads can't be laid out on, as engines do at load."""
    _divides("query heads", mixer.query_heads, ranks, refuse)
    if isinstance(mixer, LatentAttention) or not refuse:
        return
    heads = mixer.kv_heads
    if ranks <= heads:
        _divides("KV heads", heads, ranks, refuse)
    elif exception := load_json("engine_limits.json")["no_kv_replication"].get(model.architecture):
        why = f"{exception['rule']} ({exception['source']})"
        raise CalcError(f"{model.name}: use at most {heads} ranks, not {ranks}. {why}")
    elif ranks % heads:
        raise CalcError(f"{ranks} ranks can't share {heads} KV heads evenly: use a multiple of {heads}")


def _divides(what: str, count: int, ranks: int, refuse: bool) -> None:
    if refuse and count % ranks:
        good = [r for r in range(1, 65) if count % r == 0]
        raise CalcError(f"{count} {what} don't divide among {ranks} ranks: use {', '.join(map(str, good))}")


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
    page = block_bytes(bytes_per_position=layout.bytes_per_position, block_tokens=block_tokens)
    return blocks(positions=positions, block_tokens=block_tokens) * page + layout.fixed_bytes


# --- a request, now and later --------------------------------------------------------------------


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
    if generated > output:
        raise CalcError(f"generated is {generated}, output only {output}: raise output or lower generated")
    return present_bytes(layout, prompt=prompt, generated=output, block_tokens=block_tokens) - now


def growth(layout: CacheLayout, *, prompt: int, output: int) -> Iterator[tuple[int, float]]:
    """Yield (tokens sampled, bytes held) for a request from prefill to its last token, for drawing."""
    for generated in range(1, output + 1):
        yield generated, present_bytes(layout, prompt=prompt, generated=generated)


# --- the chapter's panel -------------------------------------------------------------------------


def cache_panel(
    *, model: str, prompt: int, generated: int, output: int, element: str, ranks: int, pool_gib: float
) -> Panel:
    """Panel of the KV-cache chapter: one position, one request now and at its end, and how many fit.

    Parameters
    ----------
    model : str
        A slug of the catalogue.
    prompt, generated, output : int
        Prompt tokens, tokens sampled so far, tokens of the whole response.
    element : str
        A key of `ELEMENTS`.
    ranks : int
        Tensor-parallel ranks.
    pool_gib : float
        Memory given to the cache on each rank, GiB.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If the inputs are impossible together.
    """
    geometry = load(model)
    cache = layout(geometry, element=element, ranks=ranks)
    now = present_bytes(cache, prompt=prompt, generated=generated)
    room = room_to_finish_bytes(cache, prompt=prompt, generated=generated, output=output)
    pool = pool_gib * UNITS["GiB"].factor
    fit_now = sequences_that_fit(memory_bytes=pool, sequence_bytes=now)
    fit_end = sequences_that_fit(memory_bytes=pool, sequence_bytes=now + room)
    where = "" if ranks == 1 else f", each of {ranks} ranks"
    rows = [
        Row(f"One position, all layers{where}", format_bytes(cache.bytes_per_position), keep=True),
        Row("The request holds now", format_bytes(now)),
        Row("Room it still needs to finish", format_bytes(room)),
        Row("It will hold at its end", format_bytes(now + room)),
        Row("Such requests in the pool, counted by present use", format_count(fit_now)),
        Row("… counted with room to finish", format_count(fit_end), keep=True),
    ]
    if cache.has_windows:
        paged = present_bytes(cache, prompt=prompt, generated=output, block_tokens=16)
        rows.append(Row("At its end, if every layer paged every position", format_bytes(paged)))
    share = (now + room) / pool
    meaning = (
        f"Counting present use admits {format_count(fit_now)} such requests; {format_count(fit_end)} can finish. "
        if fit_now != fit_end
        else f"Both counts admit {format_count(fit_end)}: the response adds little to its prompt. "
    ) + f"One finished request fills {significant(100 * share, 3)}% of the pool."
    lines = [
        working(function, **arguments).text
        for mixer, layers in geometry.kinds()
        if not isinstance(mixer, FixedState | None)
        for function, arguments in [formula_of(mixer, layers=layers, element=element, ranks=ranks)]
    ]
    lines.append(working(positions_written, prompt=prompt, generated=generated).text)
    return Panel(tuple(rows), tuple(lines), meaning, _LEFT_OUT)


_LEFT_OUT = (
    "Page rounding, blocks shared between requests, draft tokens of speculative decoding, and everything else in the "
    "GPU's memory. All requests are taken to be alike and equally far along."
)
