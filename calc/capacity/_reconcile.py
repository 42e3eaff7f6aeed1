"""Hold a start-up log against the arithmetic, line by line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from calc import kv_cache
from calc.capacity._cache_check import Reading, cache_checks, without_windows
from calc.capacity._check import AGREES, CLOSE, DERIVED, DIFFERS, RESIDUAL, Check, close, signed_bytes
from calc.capacity._failed_check import failed_checks
from calc.capacity._formulas import hybrid_block_tokens
from calc.capacity._log import Fact, StartupLog
from calc.capacity._pool import Pool, pool
from calc.models import ModelGeometry
from calc.notebook import Table
from calc.parallel import Parallel, weights_on_rank
from calc.units import UNITS, CalcError, format_bytes, format_count, significant

_PLACE = re.compile(r"(PP|TP)_?(\d{1,4})")


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
        As for `pool`; None takes what the log says, else what agrees: on, or off.
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
    one with the least cache counts, as it does for the engine. What the log doesn't say is tried either way.

    Two rules make the cache size. From vLLM 0.21 on it is concurrency times the longest sequence. Before, it is blocks
    over groups of layers, times the positions of the smallest block, which is no capacity of a model with windows or
    states; concurrency is the same in both. A log whose concurrency isn't its cache size over its longest sequence is
    read by the older rule. Of a start that failed, what it needed and the longest sequence that fits are checked.

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
    stages = parallel.stages(model)
    readings = _readings(
        log,
        stages,
        flights=_flights(log, batched_tokens, asynchronous) if in_flight is None else (in_flight,),
        caching=prefix_caching,
        lay=lambda **kept: pool(model, element=element, ranks=parallel.tensor, block_tokens=block_tokens, **kept),
    )
    layout, block = readings[0].layout, readings[0].block
    if layout.invertible:  # a kind of layer may want larger blocks than are configured
        block_tokens = layout.groups[0].block_tokens
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
    of_cache, per_token = cache_checks(log, readings, parallel.gpus)
    checks += of_cache
    whole, share = log.get("total"), log.get("fraction")
    checks += failed_checks(
        log,
        readings,
        stages=len(stages),
        bits16=kv_cache.element_of(element).element_bytes == 2,
        total=whole.value if whole else total_bytes,
        fraction=share.value if share else fraction,
    )
    return Reconciliation(tuple(checks), per_token, residual)


def _readings(
    log: StartupLog,
    stages: Sequence[Sequence[int]],
    *,
    flights: tuple[int, ...],
    caching: bool | None,
    lay: Callable[..., Pool],
) -> tuple[Reading, ...]:
    """The ways to understand a log, likeliest first: what it doesn't say may be either way."""
    said, enlarged = log.get("prefix_caching"), log.get("block_tokens")
    if caching is None and said is not None:
        caching = said.value == 1
    kernel = {"kernel_multiple": int(enlarged.value)} if enlarged and enlarged.value else {}
    layouts = {kept: lay(prefix_caching=kept, **kernel) for kept in ((True, False) if caching is None else (caching,))}
    found = []
    for kept, layout in layouts.items():
        kinds = {g.kind for g in layout.groups}
        if not kept and caching is None and "state" not in kinds:
            continue  # prefix caching changes nothing
        for flight in flights:
            means = []
            if len(flights) > 1 and any(g.window for g in layout.groups):
                steps = "two steps, so scheduling is" if flight == flights[0] else "one step, so scheduling is not"
                means.append(f"it agrees with the tokens of {steps} asynchronous")
            if caching is None and "state" in kinds:
                means.append(f"it agrees with prefix caching {'on' if kept else 'off'}")
            found.append(Reading(layout, _largest_block(layout, stages), flight, "; ".join(means)))
    layout = found[0].layout
    if any(g.window for g in layout.groups) and not any(g.kind == "state" for g in layout.groups):
        every = without_windows(layout)
        means = "it agrees with windows that keep every position, as before vLLM 0.10 or without its hybrid manager"
        found.append(Reading(every, _largest_block(every, stages), 0, means))
    return tuple(found)


def _largest_block(layout: Pool, stages: Sequence[Sequence[int]]) -> float:
    """Bytes of a block on the stage where it is largest, which has the fewest of them, other things equal."""
    start, block = 0, 0.0
    for layers in stages:
        block = max(block, layout.block_bytes(range(start, start + len(layers))))
        start += len(layers)
    return block


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
    verdict = close(printed, value, slack)
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
        yield Check("padding of states", *texts, close(padded, more), note, (padded.line,))


def _implied(log: StartupLog, layout: Pool, block: float, block_tokens: int) -> float | None:
    """Memory of the cache, from the blocks or tokens printed, where they can be turned back."""
    blocks, tokens = log.get("blocks"), log.get("tokens") or log.get("stored")
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
    profiled = [log.get("profiled")]
    weights = log.get("weights")
    if log.get("peak") and weights and log.get("peak").value > weights.value:
        taken = f"{format_bytes(log.get('peak').value)} − {format_bytes(weights.value)} = "
        taken += format_bytes(log.get("peak").value - weights.value)
        lines = (log.get("peak").line, weights.line)
        checks.append(
            Check("activations, workspace", "", taken, DERIVED, "the peak of the profile, less weights", lines)
        )
    for known in (profiled, consumed, peak, parts):
        if usable is not None and available is not None and all(known):
            value, note = usable - sum(f.value for f in known), "what it may use, less what the profile found"
            slack = sum(f.half_step for f in known) + 0.005 * UNITS["GiB"].factor
            graphs = log.get("graphs")  # deducted from vLLM 0.21 on, unless it is told not to
            if graphs and close(available, value - graphs.value, slack + graphs.half_step) == AGREES:
                known, note = [*known, graphs], note + " and what graphs are estimated to take"
                value, slack = value - graphs.value, slack + graphs.half_step
            lines = tuple(dict.fromkeys((*(f.line for f in known), available.line)))
            texts = signed_bytes(available.value), signed_bytes(value)
            checks.append(Check("left for the cache", *texts, close(available, value, slack), note, lines))
            return value - available.value
    if usable is None or weights is None or memory is None:
        return None
    residual = usable - weights.value - memory
    note = "may use, less weights, less cache: activations, graphs, communication"
    if residual < 0:
        note = "more than the engine may use: the log is of another GPU, model or fraction"
    checks.append(Check("unexplained", "", signed_bytes(residual), RESIDUAL, note))
    return residual


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
