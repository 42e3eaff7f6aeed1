"""One run in the words and by the rules of one tool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from calc.latency._dialect import QUANTITIES, Dialect, dialect
from calc.latency._formulas import per_second
from calc.latency._objectives import Objectives
from calc.latency._percentiles import histogram_percentile, ordered_percentile, weighted_percentile
from calc.latency._timeline import Run, Timeline
from calc.latency._tools import TOOLS, Seen
from calc.units import CalcError, format_seconds, significant


@dataclass(frozen=True, slots=True)
class Statistic:
    """One latency as a tool reports it, seconds.

    Attributes
    ----------
    name : str
        What the tool calls it.
    count : float
        Values, or the sum of their weights.
    mean_s, min_s, max_s : float
        Of the values, weighted as the tool does.
    percentiles : mapping
        Percent → seconds, by the tool's method.
    """

    name: str
    count: float
    mean_s: float
    min_s: float
    max_s: float
    percentiles: MappingProxyType[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A run as one tool would report it.

    Attributes
    ----------
    dialect : Dialect
        The tool, its version, its rules.
    statistics : mapping
        A key of `QUANTITIES` → `Statistic`, for what the tool reports and the recording can give.
    completed, failed, cut_off : int
        Requests by the tool's own count; those cut off by the run's own end are in neither of the others.
    duration_s : float
        What the tool divides by.
    requests_per_s, output_tokens_per_s : float
        Its throughput.
    good : int or None
        Requests that it finds good; None where it has no goodput or no objective was given.
    goodput_per_s, attainment : float or None
        Good requests per second, and their share by the tool's own denominator, where it has one.
    objectives_met : bool or None
        The verdict of a tool that judges a percentile, not each request.
    notes : tuple of str
        Where the recording can't give what the tool would have seen.
    """

    dialect: Dialect
    statistics: MappingProxyType[str, Statistic]
    completed: int
    failed: int
    cut_off: int
    duration_s: float
    requests_per_s: float
    output_tokens_per_s: float
    good: int | None
    goodput_per_s: float | None
    attainment: float | None
    objectives_met: bool | None
    notes: tuple[str, ...]

    def rows(self) -> list[tuple[str, ...]]:
        """Text cells: the tool's name of each latency, what it is, how many values, mean and percentiles."""
        return [
            (
                statistic.name,
                QUANTITIES[key],
                significant(statistic.count),
                format_seconds(statistic.mean_s),
                *map(format_seconds, statistic.percentiles.values()),
            )
            for key, statistic in self.statistics.items()
        ]

    def _repr_html_(self) -> str:
        from calc.notebook import Table

        first = next(iter(self.statistics.values()), None)
        heads = [f"p{significant(p)}" for p in first.percentiles] if first else []
        caption = (
            f"{self.dialect.name} {self.dialect.version}, measured at the {self.dialect.boundary}; "
            f"percentiles: {self.dialect.percentiles}"
        )
        return Table(("Its name", "What it is", "Values", "Mean", *heads), self.rows(), caption)._repr_html_()


def measure(
    recorded: Run | Timeline | Iterable[Timeline],
    dialect: str = "book",
    *,
    percentiles: Sequence[float] = (50, 90, 95, 99),
    objectives: Objectives | None = None,
    window: tuple[float, float] | None = None,
) -> Measurement:
    """Measure a run as a tool would.

    Parameters
    ----------
    recorded : Run, Timeline or iterable of Timeline
        What was recorded.
    dialect : str
        A key of `dialects()`; "book" for the book's own definitions.
    percentiles : sequence of float
        Percent.
    objectives : Objectives, optional
        Limits, for goodput.
    window : (float, float), optional
        Start and end of the part to measure, seconds on the run's clock, for the book's dialect only.
        Latency and goodput are those of requests sent from its start on and before its end; throughput
        is what arrived after its start and up to its end. The whole run if left out.

    Returns
    -------
    Measurement

    Raises
    ------
    CalcError
        If the run is empty, the dialect unknown, or it can't judge an objective.

    Notes
    -----
    A dialect reproduces what its tool computes from the messages it received. It can't reproduce the
    tool's own delays, nor its tokenizer where that differs from the model's.

    Examples
    --------
    >>> from calc.latency import Chunk, Timeline
    >>> chat = Timeline(sent_s=0, chunks=(Chunk(0.2, 0, "empty"), Chunk(0.5), Chunk(0.75, 2)), end_s=1)
    >>> for tool in ("book", "vllm-bench", "sglang-bench"):
    ...     seen = measure(chat, tool).statistics
    ...     print(tool, seen["ttft"].mean_s, round(seen["tpot"].mean_s, 3))
    book 0.5 0.125
    vllm-bench 0.2 0.275
    sglang-bench 0.5 0.25
    """
    rules, run = _dialect(dialect), Run.of(recorded)
    seen = _seen(run, rules, objectives, window)
    statistics = {}
    for key, name in rules.names.items():
        method = rules.buckets.get(key, rules.percentiles)
        summary = _summary(name, seen.values.get(key, ()), percentiles, method)
        if summary:
            statistics[key] = summary
    clock = {"window_s": seen.duration_s} if seen.duration_s > 0 else None
    return Measurement(
        dialect=rules,
        statistics=MappingProxyType(statistics),
        completed=seen.completed,
        failed=seen.failed,
        cut_off=seen.cut_off,
        duration_s=seen.duration_s,
        requests_per_s=per_second(events=seen.requests, **clock) if clock else 0.0,
        output_tokens_per_s=per_second(events=seen.tokens, **clock) if clock else 0.0,
        good=seen.good,
        goodput_per_s=None if seen.good is None or not clock else per_second(events=seen.good, **clock),
        attainment=seen.good / seen.judged if seen.good is not None and seen.judged else None,
        objectives_met=_verdict(seen, rules, objectives) if dialect == "mlperf-loadgen" and objectives else None,
        notes=(*_notes(run, rules), *seen.notes),
    )


def observations(
    recorded: Run | Timeline | Iterable[Timeline],
    dialect: str = "book",
    *,
    window: tuple[float, float] | None = None,
) -> dict[str, tuple]:
    """The values behind `measure`: for a distribution, a plot or a confidence interval.

    Parameters
    ----------
    recorded, dialect, window
        As in `measure`.

    Returns
    -------
    dict
        A key of `QUANTITIES` → seconds, in the order of the run; (seconds, weight) where the tool weights.

    Raises
    ------
    CalcError
        As in `measure`.

    Examples
    --------
    >>> from calc.latency import Chunk, Timeline
    >>> run = [Timeline(sent_s=0, chunks=(Chunk(t), Chunk(t + 0.25)), end_s=t + 1) for t in (0.5, 0.75)]
    >>> observations(run)["ttft"]
    (0.5, 0.75)
    """
    seen = _seen(Run.of(recorded), _dialect(dialect), None, window)
    return {key: tuple(values) for key, values in seen.values.items() if values}


_dialect = dialect


def _seen(run: Run, rules: Dialect, objectives: Objectives | None, window: tuple[float, float] | None) -> Seen:
    for name in objectives.limits if objectives else ():
        if name not in rules.objectives:
            known = ", ".join(rules.objectives) or "none"
            raise CalcError(f"{rules.name} can't judge {name}; objectives that it knows: {known}")
    if rules.key == "book":
        return TOOLS["book"](run, objectives, window)
    if window is not None:
        raise CalcError(f"{rules.name} measures its whole run: cut the run to the window, or use dialect 'book'")
    return TOOLS[rules.key](run, objectives)


def _summary(name: str, values: Sequence, percents: Sequence[float], method: str | Sequence[float]) -> Statistic | None:
    """Summarize values, or (value, weight) pairs, the way a tool does. None without a value that has weight."""
    pairs = sorted(pair for pair in (v if isinstance(v, tuple) else (v, 1) for v in values) if pair[1])
    if not pairs:
        return None
    plain = [value for value, _ in pairs]
    count = sum(weight for _, weight in pairs)

    def read(p: float) -> float:
        if method == "running-sum":
            return weighted_percentile(pairs, p)
        if isinstance(method, str):
            return ordered_percentile(plain, p, method)
        return histogram_percentile(plain, p, method)

    mean = sum(value * weight for value, weight in pairs) / count
    return Statistic(name, count, mean, plain[0], plain[-1], MappingProxyType({p: read(p) for p in percents}))


def _verdict(seen: Seen, rules: Dialect, objectives: Objectives) -> bool:
    """MLPerf's: p99 of TTFT and p99 of TPOT keep their limits."""
    limited = [(seen.values["ttft"], objectives.ttft_s), (seen.values["tpot"], objectives.tpot_s)]
    return bool(seen.completed) and all(
        ordered_percentile(sorted(values), 99, rules.percentiles) <= limit
        for values, limit in limited
        if limit is not None
    )


def _notes(run: Run, rules: Dialect) -> list[str]:
    notes = []
    recorded_at = sorted({t.boundary for t in run.timelines} - {rules.boundary})
    if recorded_at and rules.key != "book":
        notes.append(
            f"Recorded at the {' and '.join(recorded_at)}, where {rules.name} measures at the {rules.boundary}."
        )
    if not all(t.every_chunk for t in run.timelines):
        notes.append("Only the first and the last message were recorded: gaps are unknown.")
    return notes
