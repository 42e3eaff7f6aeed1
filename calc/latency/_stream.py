"""The book's metrics of a run too long to hold in memory: one pass over batches of arrival times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import Any

from calc.latency._dialect import dialect
from calc.latency._formulas import per_second
from calc.latency._measure import Measurement, Statistic
from calc.latency._objectives import Objectives
from calc.units import CalcError

# A gap goes to the bucket of its sign, exponent and first 11 bits of mantissa: at most 1/2048 wide, relatively.
_SHIFT = 52 - 11
_OCTAVES = (-40, 20)  # 1 ps to 12 days; shorter gaps count as 0
_PER_OCTAVE = 1 << 11


@dataclass(frozen=True, slots=True)
class Batch:
    """Whole answers of a run, as numpy arrays or anything that turns into them.

    Attributes
    ----------
    sent_s : array of float, shape (requests,)
        When each request was sent.
    times_s : array of float, shape (messages,)
        Arrival of every message that carries tokens: those of the first request, then of the second …
    messages : array of int, shape (requests,)
        How many of them belong to each request, at least one.
    tokens : array of int, shape (messages,), optional
        Tokens of each message; one each if left out.
    """

    sent_s: Any
    times_s: Any
    messages: Any
    tokens: Any = None


def measure_stream(
    batches: Iterable[Batch],
    *,
    percentiles: Sequence[float] = (50, 90, 95, 99),
    objectives: Objectives | None = None,
    failed: int = 0,
) -> Measurement:
    """What `measure` says of the whole run, without ever holding it.

    Parameters
    ----------
    batches : iterable of Batch
        Any number of any size; a few thousand requests each are fast. All on one clock.
    percentiles : sequence of float
        Percent.
    objectives : Objectives, optional
        Limits, for goodput.
    failed : int
        Requests that failed, for attainment.

    Returns
    -------
    Measurement
        As `measure` in the book's dialect, from the first request sent to the last message. Percentiles of
        ITL come from buckets and are within 0.05% of the nearest-rank value; everything else is exact.

    Raises
    ------
    CalcError
        If there is no request, shapes don't fit, or times go back.

    Notes
    -----
    Needs numpy. Keeps three numbers a request and a fixed number of buckets.

    Examples
    --------
    >>> run = [Batch(sent_s=[0, 1], times_s=[0.5, 0.75, 1.25, 1.5, 2.5], messages=[2, 3])]
    >>> seen = measure_stream(run).statistics
    >>> seen["ttft"].mean_s, seen["tpot"].mean_s, round(seen["itl"].percentiles[99], 3)
    (0.375, 0.4375, 1.0)
    """
    import numpy as np

    kept: dict[str, list] = {"ttft": [], "tpot": [], "e2e": [], "normalized": []}
    pooled = _Gaps(np)
    start, end, tokens_total, requests, good = np.inf, -np.inf, 0, 0, 0
    for number, batch in enumerate(batches):
        sent, times, messages, tokens = _checked(np, batch, number)
        ends = np.cumsum(messages)
        begins = ends - messages
        first, last = times[begins], times[ends - 1]
        per_request = messages if tokens is None else np.add.reduceat(tokens, begins)
        in_first = 1 if tokens is None else tokens[begins]
        ttft, e2e = first - sent, last - sent
        several = (messages > 1) & (per_request > in_first)
        tpot = (last - first)[several] / (per_request - in_first)[several]
        gaps = np.diff(times, append=0)
        gaps[ends - 1] = 0  # from the end of one request to the start of the next is no gap
        if gaps.min() < 0 or ttft.min() < 0:
            raise CalcError(
                f"batch {number}: a time comes before the one it follows; times must ascend in each request"
            )
        pooled.add(np.delete(gaps, ends - 1))
        if objectives:
            slowest = np.zeros(len(sent))
            slowest[several] = tpot
            seen = {"ttft_s": ttft, "tpot_s": slowest, "e2e_s": e2e, "gap_s": np.maximum.reduceat(gaps, begins)}
            good += int(np.logical_and.reduce([seen[name] <= limit for name, limit in objectives.limits.items()]).sum())
        for name, values in (("ttft", ttft), ("tpot", tpot), ("e2e", e2e), ("normalized", e2e / per_request)):
            kept[name].append(values)
        start, end = min(start, float(sent.min())), max(end, float(last.max()))
        tokens_total, requests = tokens_total + int(per_request.sum()), requests + len(sent)
    if not requests:
        raise CalcError("measure_stream: no request in any batch: there is nothing to measure")
    rules = dialect("book")
    values = {name: np.concatenate(parts) for name, parts in kept.items()}
    statistics = {
        name: _statistic(np, rules.names[name], seen, percentiles) for name, seen in values.items() if len(seen)
    }
    if pooled.count:
        statistics["itl"] = pooled.statistic(rules.names["itl"], percentiles)
    window = end - start
    return Measurement(
        dialect=rules,
        statistics=MappingProxyType({name: statistics[name] for name in rules.names if name in statistics}),
        completed=requests,
        failed=failed,
        cut_off=0,
        duration_s=window,
        requests_per_s=per_second(events=requests, window_s=window),
        output_tokens_per_s=per_second(events=tokens_total, window_s=window),
        good=good if objectives else None,
        goodput_per_s=per_second(events=good, window_s=window) if objectives else None,
        attainment=good / (requests + failed) if objectives else None,
        objectives_met=None,
        notes=("Percentiles of ITL come from buckets 0.05% wide.",),
    )


class _Gaps:
    """Gaps counted by the leading bits of their floating-point form, which ascend as the numbers do."""

    def __init__(self, np: Any) -> None:
        self.np = np
        self.buckets = np.zeros((_OCTAVES[1] - _OCTAVES[0]) * _PER_OCTAVE + 1, dtype=np.int64)
        self.count, self.total, self.smallest, self.largest = 0, 0.0, float("inf"), 0.0

    def add(self, gaps: Any) -> None:
        if not len(gaps):
            return
        lowest = (1023 + _OCTAVES[0]) * _PER_OCTAVE  # 1023 is the bias of a double's exponent
        keys = (gaps.view(self.np.int64) >> _SHIFT) - lowest + 1
        self.buckets += self.np.bincount(keys.clip(0, len(self.buckets) - 1), minlength=len(self.buckets))
        self.count, self.total = self.count + len(gaps), self.total + float(gaps.sum())
        self.smallest, self.largest = min(self.smallest, float(gaps.min())), max(self.largest, float(gaps.max()))

    def statistic(self, name: str, percentiles: Sequence[float]) -> Statistic:
        read = MappingProxyType({p: self._percentile(p) for p in percentiles})
        return Statistic(name, self.count, self.total / self.count, self.smallest, self.largest, read)

    def _percentile(self, p: float) -> float:
        """Middle of the bucket that holds the nearest-rank value."""
        rank = max(ceil(round(self.count * p / 100, 9)), 1)
        key = int(self.np.searchsorted(self.np.cumsum(self.buckets), rank))
        octave, part = divmod(key - 1, _PER_OCTAVE)
        middle = 2.0 ** (octave + _OCTAVES[0]) * (1 + (part + 0.5) / _PER_OCTAVE) if key else 0.0
        return min(max(middle, self.smallest), self.largest)


def _statistic(np: Any, name: str, values: Any, percentiles: Sequence[float]) -> Statistic:
    read = MappingProxyType({p: float(np.percentile(values, p)) for p in percentiles})
    return Statistic(name, len(values), float(values.mean()), float(values.min()), float(values.max()), read)


def _checked(np: Any, batch: Batch, number: int) -> tuple[Any, Any, Any, Any]:
    sent, times = np.asarray(batch.sent_s, dtype=float), np.asarray(batch.times_s, dtype=float)
    messages = np.asarray(batch.messages, dtype=np.int64)
    tokens = None if batch.tokens is None else np.asarray(batch.tokens, dtype=np.int64)
    if not len(sent) or sent.shape != messages.shape or messages.min() < 1 or messages.sum() != len(times):
        raise CalcError(
            f"batch {number}: {len(sent)} requests, {len(messages)} counts that add up to {int(messages.sum())}, "
            f"{len(times)} times; wanted one count of at least 1 for each request, adding up to the times"
        )
    if tokens is not None and (tokens.shape != times.shape or tokens.min() < 1):
        raise CalcError(f"batch {number}: wanted one count of tokens, at least 1, for each of {len(times)} messages")
    if not (np.isfinite(sent).all() and np.isfinite(times).all()):
        raise CalcError(f"batch {number}: a time is not a finite number of seconds")
    return sent, times, messages, tokens
