"""A model's cache on one rank, and a request in it: what it holds now and what it will still need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from calc.kv_cache._formulas import block_bytes, blocks, positions_written
from calc.kv_cache._kinds import KindBytes, caches_of
from calc.models import IndexedAttention, LatentAttention, LatentWindowAttention, ModelGeometry, RecurrentState
from calc.sources import load_json
from calc.units import CalcError, format_bytes, format_count, plain


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
    if kind.window is not None:
        return f"the last {format_count(kind.window)} positions"
    return "every position" if kind.ratio == 1 else f"one entry for every {format_count(kind.ratio)} positions"


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
    sums: Counter[KindBytes] = Counter()
    for mixer, count in mixers:
        for kind in caches_of(mixer, layers=1, element=element, ranks=ranks, own=model.element):
            sums[kind] += count
    kinds = (replace(kind, layers=count) for kind, count in sums.items())
    return CacheLayout(model.name, element, ranks, tuple(kinds))


def _obstacle(model: ModelGeometry, mixer: object, ranks: int) -> str:
    """Why engines refuse to load this kind of layer on so many ranks; empty if they don't."""
    if isinstance(mixer, RecurrentState):
        return next((f"its recurrent layers have {n} parts that don't divide" for n in mixer.divides if n % ranks), "")
    if mixer.query_heads % ranks:
        return f"its {mixer.query_heads} query heads don't divide"
    heads = 1 if isinstance(mixer, LatentAttention | LatentWindowAttention) else mixer.kv_heads
    if ranks > heads > 1 and (rule := load_json("engine_limits.json")["no_kv_replication"].get(model.architecture)):
        return f"it has {heads} KV heads. {rule['rule']} ({rule['source']})"
    if heads % ranks and ranks % heads:
        return f"its {heads} KV heads don't divide"
    if isinstance(mixer, IndexedAttention) and mixer.index_heads % ranks and ranks % mixer.index_heads:
        return f"its indexer's {mixer.index_heads} heads don't divide"
    return ""


def _check_ranks(model: ModelGeometry, ranks: int) -> None:
    """Refuse ranks that the layers can't be laid out on, and say which would do."""

    def obstacle(r: int) -> str:
        mixers = (mixer for mixer, _ in model.kinds() if mixer is not None)
        return next(filter(None, (_obstacle(model, mixer, r) for mixer in mixers)), "")

    if why := obstacle(ranks):
        good = [str(r) for r in range(1, 65) if not obstacle(r)]
        raise CalcError(f"{model.name} can't run on {ranks} ranks: {why}. Use {', '.join(good)}")


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
