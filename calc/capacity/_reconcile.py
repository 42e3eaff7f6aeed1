"""Hold a start-up log against the arithmetic, line by line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from calc import kv_cache
from calc.capacity._formulas import concurrency, hybrid_block_tokens, pool_blocks, printed_tokens
from calc.capacity._log import Fact, StartupLog
from calc.capacity._pool import Pool, pool
from calc.models import ModelGeometry
from calc.notebook import Table
from calc.parallel import Parallel, weights_on_rank
from calc.units import UNITS, CalcError, format_bytes, format_count, format_percent, significant

AGREES, DIFFERS, RESIDUAL, DERIVED = "agrees", "differs", "residual", "derived"
_PLACE = re.compile(r"(PP|TP)_?(\d{1,4})")
CLOSE = 0.01  # loading takes a little more than the parameters: tables, buffers


@dataclass(frozen=True, slots=True)
class Check:
    """One line of a log against what it should say.

    Attributes
    ----------
    name : str
    printed, computed : str
        As text with units; empty where there is none.
    verdict : str
        "agrees" (as far as the printed digits go), "differs", "residual" (what remains unexplained, in
        bytes) or "derived" (follows from other lines, and holds no news).
    note : str
    lines : tuple of int
        The log's lines it rests on.
    """

    name: str
    printed: str
    computed: str
    verdict: str
    note: str
    lines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """A log, held against the arithmetic.

    Attributes
    ----------
    checks : tuple of Check
    bytes_per_token : float or None
        What the log implies, where its numbers allow that.
    residual_bytes : float or None
        Memory that neither weights nor cache explain: activations, graphs, communication.
    """

    checks: tuple[Check, ...]
    bytes_per_token: float | None
    residual_bytes: float | None

    def verdict(self, name: str) -> str | None:
        """The verdict of a check, None where the log didn't allow it."""
        return next((c.verdict for c in self.checks if c.name == name), None)

    def _repr_html_(self) -> str:
        rows = [(c.name, c.printed or "–", c.computed or "–", c.verdict, c.note + _where(c.lines)) for c in self.checks]
        columns = ("What", "The log says", "The arithmetic says", "Verdict", "Why")
        return Table(columns, rows, "A start-up log, line by line")._repr_html_()

    def __repr__(self) -> str:
        return "\n".join(f"{c.name}: {c.printed} | {c.computed} | {c.verdict} | {c.note}" for c in self.checks)


def _where(lines: tuple[int, ...]) -> str:
    if not lines:
        return ""
    return f" (line{'s' if len(lines) > 1 else ''} {', '.join(map(str, sorted(lines)))})"


def reconcile(
    log: StartupLog,
    *,
    model: ModelGeometry,
    parallel: Parallel | None = None,
    element: str = "bf16",
    weight_element_bytes: float = 2,
    weight_bytes: Mapping[int, float] | None = None,
    block_tokens: int = 16,
    in_flight: int | None = None,
    batched_tokens: int | None = None,
    asynchronous: bool | None = None,
    prefix_caching: bool | None = None,
    total_bytes: float | None = None,
    fraction: float | None = None,
) -> Reconciliation:
    """Recompute what a vLLM start-up log prints, and name what is left over.

    Parameters
    ----------
    log : StartupLog
        From `read_log`.
    model : ModelGeometry
        The model that was started.
    parallel : Parallel, optional
        How it was cut; None takes what the log says, or one GPU.
    element : str
        How the cache is stored: a key of `calc.kv_cache.ELEMENTS`.
    weight_element_bytes : float
        Bytes per parameter.
    weight_bytes : mapping of int to float, optional
        Rank → bytes of its weights, for those stored in several types (`calc.quantization.rank_bytes`).
    block_tokens : int
        Positions in a block; where the log says that recurrent layers enlarged it, the log's number counts.
    in_flight : int, optional
        Tokens scheduled and not yet settled, for models with windows; None takes `batched_tokens` as many times as
        `asynchronous` says.
    batched_tokens : int, optional
        ``max_num_batched_tokens``, where the log doesn't print it; without either, nothing is in flight.
    asynchronous : bool, optional
        Whether the engine schedules a step while another runs, so that twice as many tokens are in flight; None takes
        what the log says, else what its cache size agrees with.
    prefix_caching : bool, optional
        As for `pool`; None takes what the log says, else that it is on.
    total_bytes, fraction : float, optional
        The GPU's memory and the engine's share, where the log doesn't print them.

    Returns
    -------
    Reconciliation

    Raises
    ------
    CalcError
        If the model can't be cut as the log or the caller says.

    Notes
    -----
    Numbers are compared as far as their printed digits go. The log of one rank is enough: with several, the
    one with the least cache counts, as it does for the engine.

    Examples
    --------
    >>> from calc.capacity import read_log
    >>> from calc.models import load
    >>> text = '''Model loading took 14.9889 GiB and 3.652170 seconds
    ... GPU KV cache size: 158,656 tokens
    ... Maximum concurrency for 32,768 tokens per request: 4.84x'''
    >>> found = reconcile(read_log(text), model=load("llama-3.1-8b"))
    >>> found.verdict("weights"), found.verdict("maximum concurrency")
    ('agrees', 'derived')
    """
    if parallel is None:
        parallel = stated_cut(log)
    flights = _flights(log, batched_tokens, asynchronous) if in_flight is None else (in_flight,)
    if prefix_caching is None:
        said = log.get("prefix_caching")
        prefix_caching = said is None or said.value == 1
    enlarged = log.get("block_tokens")
    layout = pool(
        model,
        element=element,
        ranks=parallel.tensor,
        block_tokens=block_tokens,
        prefix_caching=prefix_caching,
        **({"kernel_multiple": int(enlarged.value)} if enlarged and enlarged.value else {}),
    )
    if layout.invertible:  # a kind of layer may want larger blocks than are configured
        block_tokens = layout.groups[0].block_tokens
    stages, start, block = parallel.stages(model), 0, 0.0
    for layers in stages:  # the stage with the largest block has the fewest of them, other things equal
        block = max(block, layout.block_bytes(range(start, start + len(layers))))
        start += len(layers)
    checks: list[Check] = []
    usable = _usable(log, total_bytes, fraction, checks)
    checks += _enlarged(log, model, element, parallel, layout)
    if weight_bytes is None:
        ranks = range(len(stages) * parallel.tensor)
        weight_bytes = {
            rank: weight_element_bytes * weights_on_rank(model, parallel, stage=stage, expert_rank=turn).total
            for rank in ranks
            for stage, turn in [divmod(rank, parallel.tensor)]
        }
    checks += _weights(log, weight_bytes, parallel)
    available = log.get("available")
    memory = available.value if available else _implied(log, layout, block, block_tokens)
    residual = _remainder(log, usable, available, memory, checks)
    per_token = _cache(log, layout, block, block_tokens, flights, checks)
    return Reconciliation(tuple(checks), per_token, residual)


def stated_cut(log: StartupLog) -> Parallel:
    """How a log says that its model was cut; one GPU where it says nothing."""
    return Parallel(tensor=_size(log, "tensor"), pipeline=_size(log, "pipeline"))


def _flights(log: StartupLog, batched: int | None, asynchronous: bool | None) -> tuple[int, ...]:
    """Tokens that may be in flight: two steps of them where scheduling is asynchronous, which not every log says."""
    printed, said = log.get("batched"), log.get("asynchronous")
    most = int(printed.value) if printed else batched
    if not most:
        return (0,)
    if asynchronous is None and said is not None:
        asynchronous = said.value == 1
    steps = (2, 1) if asynchronous is None else (2,) if asynchronous else (1,)
    return tuple(n * most for n in steps)


def _size(log: StartupLog, name: str) -> int:
    fact = log.get(name)
    return int(fact.value) if fact else 1


def _close(printed: Fact, value: float, slack: float = 0.0) -> str:
    return AGREES if abs(printed.value - value) <= printed.half_step + slack + 1e-9 * abs(value) else DIFFERS


def _usable(log: StartupLog, total: float | None, fraction: float | None, checks: list[Check]) -> float | None:
    """What the engine may use, printed or worked out."""
    whole, share, printed = log.get("total"), log.get("fraction"), log.get("requested")
    size = whole.value if whole else total
    part = share.value if share else fraction
    if size is None or part is None:
        return printed.value if printed else None
    value = size * part
    if printed is None:
        text = f"{format_bytes(size)} · {significant(part)} = {format_bytes(value)}"
        checks.append(Check("may use", "", text, DERIVED, "not printed: the GPU's total times the fraction"))
        return value
    slack = (whole.half_step if whole else 0) * part + size * (share.half_step if share else 0)
    lines = tuple(f.line for f in (whole, share, printed) if f)
    verdict = _close(printed, value, slack)
    note = "the GPU's total times the fraction"
    checks.append(Check("may use", format_bytes(printed.value), format_bytes(value), verdict, note, lines))
    return printed.value


def _weights(log: StartupLog, ranks: Mapping[int, float], parallel: Parallel) -> Iterator[Check]:
    """The weights that a rank loaded: those of the rank that the line names, else of one that comes close."""
    printed = log.get("weights")
    if printed is None:
        return
    place = {name: int(number) for name, number in _PLACE.findall(printed.worker)}
    rank = place.get("PP", 0) * parallel.tensor + place.get("TP", 0) if place else None
    value = ranks.get(rank) or min(ranks.values(), key=lambda size: abs(printed.value - size))
    near = abs(printed.value / value - 1) <= CLOSE if value else False
    note = "what is stored on the rank"
    if not near:
        note += ": other weights, another cut, or quantization"
    elif printed.value - printed.half_step > value:
        note += f"; {format_bytes(printed.value - value)} more are loaded, for tables and buffers"
    texts = format_bytes(printed.value), format_bytes(value)
    yield Check("weights", *texts, AGREES if near else DIFFERS, note, (printed.line,))


def _enlarged(log: StartupLog, model: ModelGeometry, element: str, parallel: Parallel, layout: Pool) -> Iterator[Check]:
    """The block that recurrent layers enlarge, the least multiple of the kernel's that a state fits; its padding."""
    printed, padded = log.get("block_tokens"), log.get("padded")
    kinds = kv_cache.layout(model, element=element, ranks=parallel.tensor).kinds
    state = max((k.fixed_bytes for k in kinds if k.kind == "state"), default=0)
    growing = max((k.bytes_per_position for k in kinds), default=0)
    if printed is None or not state or not growing:
        return
    tokens, sizes = int(printed.value), {"state_bytes": state, "token_bytes": growing}
    multiples = [m for m in (2**n for n in range(4, 14)) if tokens % m == 0]  # kernels know powers of two
    fits = [m for m in multiples if hybrid_block_tokens(**sizes, multiple=m) == tokens]
    value = tokens if fits else hybrid_block_tokens(**sizes, multiple=16)
    note = f"the least multiple of {format_count(fits[0] if fits else 16)} positions in which a state of "
    note += f"{format_bytes(state)} fits"
    verdict = AGREES if fits else DIFFERS
    texts = f"{format_count(tokens)} tokens", f"{format_count(value)} tokens"
    yield Check("enlarged block", *texts, verdict, note, (printed.line,))
    if padded is not None:
        more = 100 * (layout.groups[0].page_bytes[0] / state - 1)
        texts = f"{significant(padded.value)}%", f"{significant(more)}%"
        note = "a page of the enlarged block over a state"
        yield Check("padding of states", *texts, _close(padded, more), note, (padded.line,))


def _implied(log: StartupLog, layout: Pool, block: float, block_tokens: int) -> float | None:
    """Memory of the cache, from the blocks or tokens printed, where they can be turned back."""
    blocks, tokens = log.get("blocks"), log.get("tokens")
    if blocks:
        return blocks.value * block
    if tokens and layout.invertible:
        return tokens.value / block_tokens * block
    return None


def _remainder(
    log: StartupLog, usable: float | None, available: Fact | None, memory: float | None, checks: list[Check]
) -> float | None:
    """What is left for the cache: recomputed where all parts are printed, else the residual is named."""
    parts = [log.get(name) for name in ("weights", "outside", "activation")]
    peak = [log.get(name) for name in ("peak", "outside")]
    consumed = [log.get(name) for name in ("consumed", "activation")]
    weights = log.get("weights")
    if log.get("peak") and weights and log.get("peak").value > weights.value:
        taken = f"{format_bytes(log.get('peak').value)} − {format_bytes(weights.value)} = "
        taken += format_bytes(log.get("peak").value - weights.value)
        lines = (log.get("peak").line, weights.line)
        checks.append(
            Check("activations, workspace", "", taken, DERIVED, "the peak of the profile, less weights", lines)
        )
    for known in (consumed, peak, parts):
        if usable is not None and available is not None and all(known):
            value = usable - sum(f.value for f in known)
            slack = sum(f.half_step for f in known) + 0.005 * UNITS["GiB"].factor
            lines = (*(f.line for f in known), available.line)
            note = "what it may use, less what the profile found"
            texts = format_bytes(available.value), format_bytes(value)
            verdict = _close(available, value, slack)
            checks.append(Check("left for the cache", *texts, verdict, note, tuple(dict.fromkeys(lines))))
            return value - available.value
    if usable is None or weights is None or memory is None:
        return None
    residual = usable - weights.value - memory
    note = "may use, less weights, less cache: activations, graphs, communication"
    if residual < 0:
        note = "more than the engine may use: the log is of another GPU, model or fraction"
    size = f"{'−' if residual < 0 else ''}{format_bytes(residual).lstrip('-')}"
    checks.append(Check("unexplained", "", size, RESIDUAL, note))
    return residual


def _cache(
    log: StartupLog, layout: Pool, block: float, block_tokens: int, flights: Iterable[int], checks: list[Check]
) -> float | None:
    """Blocks, tokens, bytes per token and concurrency."""
    available, blocks, tokens = log.get("available"), log.get("blocks"), log.get("tokens")
    length, times = log.get("length"), log.get("concurrency")
    flights = tuple(flights)
    charged = {f: layout.request_blocks(length=int(length.value), in_flight=f) for f in flights} if length else {}
    least = most = None
    if available:
        ends = (available.value - available.half_step, available.value + available.half_step)
        least, most = (int(pool_blocks(pool_bytes=max(0, m), block_bytes=block)) for m in ends)
        checks.append(_blocks(least, most, blocks, layout, block))
    elif blocks:
        least = most = int(blocks.value)
    if tokens and least is not None and (length or layout.invertible):
        tries = {f: _tokens(least, most, charged.get(f), tokens, length, block_tokens, layout, f) for f in flights}
        flight = next((f for f, check in tries.items() if check.verdict == AGREES), flights[0])
        note = tries[flight].note
        if len(set(charged.values())) > 1 and tries[flight].verdict == AGREES:
            steps = "two steps, so scheduling is" if flight == flights[0] else "one step, so scheduling is not"
            note += f"; it agrees with the tokens of {steps} asynchronous"
        checks.append(replace(tries[flight], note=note))
    else:
        flight = flights[0]
    needed, per_token = charged.get(flight), None
    source = tokens or blocks
    if available and source and source.value:
        per_token = available.value / (source.value if tokens else source.value * block_tokens)
        stretch = needed * block_tokens / length.value if tokens and length and layout.invertible else 1.0
        lines = tuple(dict.fromkeys((available.line, source.line)))
        checks.append(_per_token(per_token, layout, block / block_tokens, stretch, lines))
    if length and times and (tokens or least is not None):
        ends = [tokens.value / length.value] if tokens else []
        counted = [blocks.value] if blocks else [least, most]  # what the memory allows only where no count is printed
        ends = ends or [concurrency(blocks=int(count), request_blocks=needed) for count in counted]
        slack = 1 / length.value
        near = _close(times, min(max(times.value, ends[0]), ends[-1]), slack) == AGREES
        note = "the cache size over the longest sequence" if tokens else "blocks over those of the longest sequence"
        texts = f"{significant(times.value)}×", " to ".join(dict.fromkeys(f"{significant(end)}×" for end in ends))
        checks.append(Check("maximum concurrency", *texts, DERIVED if near else DIFFERS, note, (times.line,)))
    if tokens and not layout.invertible:
        note = "window or recurrent layers: it depends on the longest sequence and can't be turned into bytes per token"
        checks.append(Check("the printed size", f"{format_count(tokens.value)} tokens", "", DERIVED, note))
    return per_token if layout.invertible else None


def _span(least: float, most: float) -> str:
    few, many = format_count(least), format_count(most)
    return few if few == many else f"{few} to {many}"


def _blocks(least: int, most: int, printed: Fact | None, layout: Pool, block: float) -> Check:
    note = f"memory over {format_bytes(block)} a block"
    if printed is None:
        return Check("blocks", "", _span(least, most), DERIVED, note + ", as far as the memory is printed")
    verdict = AGREES if least <= printed.value <= most else DIFFERS
    return Check("blocks", format_count(printed.value), _span(least, most), verdict, note, (printed.line,))


def _tokens(
    least: int,
    most: int,
    needed: int | None,
    printed: Fact,
    length: Fact | None,
    block_tokens: int,
    layout: Pool,
    in_flight: int,
) -> Check:
    """The printed size is concurrency times length; older versions print blocks times their size."""
    plain = [b * block_tokens for b in (least, most)]
    shown, note = plain, "blocks times their size"
    agrees = layout.invertible and plain[0] <= printed.value <= plain[1]
    if length and not agrees:
        shown = [printed_tokens(blocks=b, request_blocks=needed, length=int(length.value)) for b in (least, most)]
        note = "blocks over those of one longest sequence, times its length"
        agrees = shown[0] <= printed.value <= shown[1]
    unsaid = not agrees and not in_flight and any(g.window for g in layout.groups)
    if unsaid:
        note += (
            ", if no token is in flight: windows hold more with each, and the log doesn't print max_num_batched_tokens"
        )
    elif not agrees:
        off = printed.value / ((shown[0] + shown[1]) / 2) if shown[1] else 0
        change = f"{format_percent(abs(off - 1), 2)} {'more' if off > 1 else 'fewer'} than that"
        note += f": the log has {change}" if 0.5 < off < 1.9 else ": another cache type or another cut"
        note += ", as where another rank has less memory" if 0.5 < off < 1 else ""
    verdict = AGREES if agrees else DERIVED if unsaid else DIFFERS
    return Check("cache size, tokens", format_count(printed.value), _span(*shown), verdict, note, (printed.line,))


def _per_token(value: float, layout: Pool, ours: float, stretch: float, lines: tuple[int, ...]) -> Check:
    """`stretch` is above 1 where the longest sequence is no whole number of blocks."""
    if not layout.invertible:
        text = "the quotient of two numbers of the log, and no property of the model"
        return Check("bytes per token", format_bytes(value), "", DERIVED, text, lines)
    note = "memory over tokens, against the cache of one position on the rank"
    agrees = abs(value / ours - 1) <= CLOSE
    if not agrees and abs(value / (ours * stretch) - 1) <= CLOSE:
        agrees, note = True, note + f", {significant(stretch)}× for a longest sequence that ends inside a block"
    if not agrees:
        note += f": {significant(max(value / ours, ours / value), 3)}× apart"
    return Check("bytes per token", format_bytes(value), format_bytes(ours), AGREES if agrees else DIFFERS, note, lines)


def log_element(log: StartupLog, model: ModelGeometry, *, parallel: Parallel | None = None) -> str:
    """The cache element that a log's memory and tokens imply.

    Raises
    ------
    CalcError
        If the log prints too little, the model has windows or states, or no known element comes within 2%.

    Examples
    --------
    >>> from calc.capacity import read_log
    >>> from calc.models import load
    >>> text = "Available KV cache memory: 10.55 GiB\\nGPU KV cache size: 230,528 tokens"
    >>> log_element(read_log(text), load("qwen3-30b-a3b"))
    'fp8'
    """
    available, tokens = log.get("available"), log.get("tokens")
    if available is None or tokens is None:
        raise CalcError("the log must print the available memory and the cache size in tokens")
    cut = parallel or stated_cut(log)
    for element in ("bf16", "fp8", "fp32"):
        layout = pool(model, element=element, ranks=cut.tensor, block_tokens=1)
        if not layout.invertible:
            raise CalcError(f"{model.name} has layers that don't keep every position: the quotient says nothing")
        size = kv_cache.layout(model, element=element, ranks=cut.tensor).bytes_per_position / cut.pipeline
        if abs(available.value / tokens.value / size - 1) <= 2 * CLOSE:
            return element
    raise CalcError(f"{format_bytes(available.value / tokens.value)} a token fits no known element of {model.name}")
