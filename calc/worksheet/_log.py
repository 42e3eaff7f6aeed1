"""A vLLM start-up log explained: what each number is, and with a model what it should be."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from html import escape
from os import PathLike
from typing import Any

from calc import capacity, kv_cache
from calc.capacity import Fact
from calc.models import ModelGeometry
from calc.parallel import Parallel
from calc.units import counted, format_bytes, format_count, format_percent, plain, significant
from calc.worksheet._choices import AUTO, MOST_TOKENS, HowStored, how_stored, memory_share, read_model, whole_number
from calc.worksheet._lines import link_of
from calc.worksheet._memory import rank_shares

# What a log's numbers are: label, meaning, step. The names are those of `calc.capacity.read_log`.
MEANINGS = {
    "total": ("GPU memory", "What the driver shows a program: less than the label says.", "capacity#step-1"),
    "fraction": ("Share the engine may use", "gpu_memory_utilization, of the total.", "capacity#step-5"),
    "free": (
        "Free when it started",
        "Less than it may use, so it didn't start. Stop what else is on the GPU, or lower gpu_memory_utilization.",
        "capacity#step-1",
    ),
    "requested": ("What the engine may use", "Total times the share.", "capacity#step-1"),
    "weights": ("Weights on this rank", "Its part of the checkpoint, with tables and buffers.", "capacity#step-2"),
    "outside": (
        "Outside the framework",
        "Context, communication buffers: not allocated by PyTorch.",
        "capacity#step-3",
    ),
    "activation": ("Peak of activations", "In a trial step of the largest size.", "capacity#step-3"),
    "peak": ("Peak of the framework", "Weights and activations together, in the trial step.", "capacity#step-3"),
    "profiled": (
        "All but the cache",
        "Weights, peak of activations and what else the trial step took.",
        "capacity#step-3",
    ),
    "consumed": ("Consumed while starting", "All that the trial left in use.", "capacity#step-3"),
    "graphs": ("Graphs, estimated", "Captured execution graphs, set aside beforehand.", "capacity#step-3"),
    "captured": ("Graphs, captured", "What capturing them took.", "capacity#step-3"),
    "available": ("Left for the cache", "What the engine may use, less all of the above.", "capacity#step-4"),
    "blocks": ("Blocks of the cache", "The pool cut into pages of equal size.", "capacity#step-4"),
    "tokens": (
        "Cache size in tokens",
        "From vLLM 0.21 sequences of the longest length that fit, times that length, not blocks times their size. "
        "Before, blocks over groups of layers, times a block's positions.",
        "capacity#step-10",
    ),
    "length": ("Longest sequence", "max_model_len: what is said of sequences is of this length.", "capacity#step-10"),
    "concurrency": (
        "Maximum concurrency",
        "Sequences of the longest length that fit. Shorter ones are more: no limit on requests.",
        "capacity#step-10",
    ),
    "needed": (
        "Needed for one sequence",
        "The cache of one longest sequence, more than is left, so it didn't start. Shorten max_model_len, cut over "
        "more ranks, store the cache in fp8, or raise gpu_memory_utilization.",
        "capacity#step-10",
    ),
    "estimated": ("Longest that fits", "The max_model_len with which it would start.", "capacity#step-10"),
    "stored": (
        "Tokens that fit",
        "Blocks times their size, fewer than one longest sequence, so it didn't start. Shorten max_model_len to this, "
        "cut over more ranks, store the cache in fp8, or raise gpu_memory_utilization.",
        "capacity#step-10",
    ),
    "empty": (
        "No room for the cache",
        "Weights and the trial step take all that it may use, so it didn't start. Cut over more ranks, store the "
        "weights in fewer bits, take fewer tokens in a step, or raise gpu_memory_utilization.",
        "capacity#step-4",
    ),
    "block_tokens": ("Enlarged block", "Positions in a block that holds a recurrent state.", "paged_attention#step-6"),
    "padded": ("Padding of states", "How much larger a state's page is than the state.", "paged_attention#step-6"),
    "padding_layers": (
        "Padding layers",
        "Pages that no layer uses, so that groups are equal.",
        "paged_attention#step-6",
    ),
    "tensor": ("Tensor-parallel ranks", "GPUs that share every layer.", "capacity#step-7"),
    "pipeline": ("Pipeline stages", "Groups of layers, one after the other.", "capacity#step-7"),
    "batched": ("Most tokens in a step", "max_num_batched_tokens.", "capacity#step-3"),
    "asynchronous": (
        "Asynchronous scheduling",
        "A step is scheduled while another runs: windows keep the tokens of two.",
        "capacity#step-10",
    ),
    "prefix_caching": (
        "Prefix caching",
        "Blocks are kept for requests with the same beginning; recurrent layers hold more of them.",
        "paged_attention#step-6",
    ),
}
# The cache size of a log that shows the older rule: its concurrency is not this over the longest sequence.
OLDER = (
    "Blocks over groups of layers, times a block's positions, as vLLM before 0.21 prints it. Where layers have windows "
    "or states it is no capacity: concurrency times the longest sequence is."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One number of a log: its name, what it is, its value in base units and as text, where, and the step on it."""

    name: str
    label: str
    value: float
    text: str
    meaning: str
    line: int
    worker: str
    step: str

    @property
    def link(self) -> str:
        """Page and anchor of its step."""
        return link_of(self.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """A log explained. Made by `explain_log`.

    Attributes
    ----------
    lines : tuple of LogLine
        The numbers that were found, in the log's order.
    checks : tuple of calc.capacity.Check
        What each should be; empty where no model was given.
    bytes_per_token, residual_bytes : float or None
        As of `calc.capacity.Reconciliation`.
    """

    lines: tuple[LogLine, ...]
    checks: tuple[capacity.Check, ...] = ()
    bytes_per_token: float | None = None
    residual_bytes: float | None = None

    @property
    def values(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "schema": 1,
            "lines": [asdict(line) | {"link": line.link} for line in self.lines],
            "checks": [asdict(check) | {"lines": list(check.lines)} for check in self.checks],
            "bytes_per_token": self.bytes_per_token,
            "residual_bytes": self.residual_bytes,
        }

    def to_json(self, *, indent: int | None = 2) -> str:
        """`values` as JSON."""
        return json.dumps(self.values, indent=indent, ensure_ascii=True, allow_nan=False)

    def to_text(self) -> str:
        """A table for a terminal."""
        label = max(len(line.label) for line in self.lines)
        width = max(len(line.text) for line in self.lines)
        out = [
            f"  line {line.line:<5} {line.label:<{label}}  {line.text:<{width}}  {line.meaning}" for line in self.lines
        ]
        if self.checks:
            out += ["", "Held against the arithmetic"]
            out += [
                f"  {c.verdict:<9} {c.name}: {c.printed or '–'} printed, {c.computed or '–'} computed. {c.note}"
                for c in self.checks
            ]
        return "\n".join(out)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        rows = [(str(x.line), x.label, x.text, x.meaning) for x in self.lines]
        out = _table(("Line", "What", "The log says", "It is"), rows)
        if self.checks:
            rows = [(c.name, c.printed or "–", c.computed or "–", c.verdict, c.note) for c in self.checks]
            out += _table(("What", "The log says", "The arithmetic says", "Verdict", "Why"), rows)
        return out


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<table class="calc-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def explain_log(
    text: str,
    *,
    model: ModelGeometry | str | PathLike[str] | dict[str, Any] | bytes | None = None,
    tensor: int | None = None,
    pipeline: int | None = None,
    expert_parallel: bool = False,
    weights: str = AUTO,
    cache: str = AUTO,
    weight_element_bytes: float | None = None,
    quantization_file: str | PathLike[str] | dict[str, Any] | None = None,
    block_tokens: int = 16,
    batched_tokens: int | None = None,
    asynchronous: bool | None = None,
    prefix_caching: bool | None = None,
    total_bytes: float | None = None,
    memory_fraction: float | None = None,
) -> LogReport:
    """Say what the numbers of a vLLM start-up log are, and with a model whether they are right.

    Parameters
    ----------
    text : str
        The log, or its lines about memory.
    model : str, path, dict, bytes or ModelGeometry, optional
        The model that was started, as `size` takes it; without one the numbers are only named. A geometry alone says
        nothing of quantization: "auto" then means 16 bits.
    tensor, pipeline : int, optional
        How it was cut; None takes what the log says, or 1.
    expert_parallel : bool
        As for `size`.
    weights, cache : str
        As for `size`: "auto" is what the checkpoint's files say.
    weight_element_bytes : float, optional
        Bytes of every parameter alike, in place of `weights`.
    quantization_file : path, dict, str or None
        As for `size`.
    block_tokens : int
        Positions in a block.
    batched_tokens : int, optional
        Most tokens in a step, where the log doesn't print it: windows hold more with each.
    asynchronous, prefix_caching : bool, optional
        As for `calc.capacity.reconcile`: None takes what the log says.
    total_bytes : float, optional
        The GPU's memory in bytes, or a Quantity, where the log doesn't print it.
    memory_fraction : float, optional
        The engine's share of it, where the log doesn't print it.

    Returns
    -------
    LogReport

    Raises
    ------
    CalcError
        If no line is known, an argument is out of its range, or the model can't be cut this way.

    Examples
    --------
    >>> print(explain_log("GPU KV cache size: 158,656 tokens"))
      line 1     Cache size in tokens  158,656 tokens  From vLLM 0.21 sequences of the longest length that fit, times
      that length, not blocks times their size. Before, blocks over groups of layers, times a block's positions.
    """
    log = capacity.read_log(text)
    lines = tuple(_line(fact, log.older) for fact in log.facts)
    if cache != AUTO:
        kv_cache.element_of(cache)
    if memory_fraction is not None:
        memory_share(memory_fraction)
    if total_bytes is not None:
        total_bytes = plain("explain_log", "total_bytes", total_bytes, "byte>0")
    if weight_element_bytes is not None:
        weight_element_bytes = plain("explain_log", "weight_element_bytes", weight_element_bytes, ">0")
    for name, value in {"block_tokens": block_tokens, "batched_tokens": batched_tokens}.items():
        if value is not None:
            whole_number(name, value, MOST_TOKENS)
    if model is None:
        return LogReport(lines=lines)
    cut = capacity.stated_cut(log)
    if tensor is not None or pipeline is not None:
        cut = Parallel(tensor=tensor or 1, pipeline=pipeline or 1)
    cut = replace(cut, experts=expert_parallel)
    geometry, data, path = (model, {}, None) if isinstance(model, ModelGeometry) else read_model(model)
    stored = how_stored(geometry, data, path, weights, cache, quantization_file)
    found = capacity.reconcile(
        log,
        model=geometry,
        parallel=cut,
        element=stored.cache,
        weight_bytes=_weight_bytes(geometry, cut, stored, weight_element_bytes),
        block_tokens=block_tokens,
        batched_tokens=batched_tokens,
        asynchronous=asynchronous,
        prefix_caching=prefix_caching,
        total_bytes=total_bytes,
        fraction=memory_fraction,
    )
    return LogReport(
        lines=lines,
        checks=found.checks,
        bytes_per_token=found.bytes_per_token,
        residual_bytes=found.residual_bytes,
    )


def _weight_bytes(model: ModelGeometry, cut: Parallel, stored: HowStored, each: float | None) -> dict[int, float]:
    """Bytes of the weights on every rank, those that the worksheet shows."""
    shares = rank_shares(model, cut, stored.scheme, stored.kept)
    return {
        rank: sum(groups.values()) if each is None else count.total * each
        for rank, (count, groups) in enumerate(shares)
    }


def _line(fact: Fact, older: bool) -> LogLine:
    label, meaning, step = MEANINGS[fact.name]
    if fact.name == "tokens" and older:
        meaning = OLDER
    return LogLine(
        name=fact.name,
        label=label,
        value=fact.value,
        text=_text(fact),
        meaning=meaning,
        line=fact.line,
        worker=fact.worker,
        step=step,
    )


def _text(fact: Fact) -> str:
    if fact.name == "fraction":
        return format_percent(fact.value, 4)
    if fact.name == "padded":
        return f"{significant(fact.value)}%"
    if fact.name == "concurrency":
        return f"{significant(fact.value)}×"
    if fact.name in ("asynchronous", "prefix_caching"):
        return "on" if fact.value else "off"
    if fact.name in ("tokens", "length", "block_tokens", "batched", "estimated", "stored"):
        return counted(fact.value, "token")
    if fact.name in ("blocks", "padding_layers", "tensor", "pipeline"):
        return format_count(fact.value)
    if fact.name == "empty":
        return "nothing left"
    return format_bytes(fact.value).replace("-", "−")
