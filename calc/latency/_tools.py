"""Each tool's arithmetic, read from its source (data/dialects.json says where).

One function a tool. It takes the whole run and says which requests count, which of their messages
count, and what is computed from them; `measure` does the statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from calc.latency._objectives import Objectives
from calc.latency._request import request_latency
from calc.latency._timeline import Run, Timeline, last_event_s
from calc.units import CalcError


@dataclass(slots=True, kw_only=True)
class Seen:
    """What a tool takes from a run: values by quantity, (value, weight) where it weights; counts; its clock."""

    values: dict[str, list] = field(default_factory=lambda: {key: [] for key in _KEYS})
    completed: int = 0
    failed: int = 0
    cut_off: int = 0
    duration_s: float = 0.0
    requests: float = 0
    tokens: float = 0
    good: int | None = None
    judged: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, **values: float | tuple[float, float] | None) -> None:
        """Note one request's values; None adds nothing."""
        for key, value in values.items():
            if value is not None:
                self.values[key].append(value)


_KEYS = ("ttft", "first_answer", "tpot", "itl", "normalized", "e2e")


def book(run: Run, objectives: Objectives | None, window: tuple[float, float] | None = None) -> Seen:
    """The book's own rules: see `RequestLatency` and `measure`."""
    timelines = _counted(run)
    start, end = window or (min(t.sent_s for t in timelines), max(map(last_event_s, timelines)))
    if not end >= start:
        raise CalcError(f"window ends at {end} s, before it starts at {start} s")
    sent = [t for t in timelines if start <= t.sent_s < end or (window is None)]
    seen = Seen(duration_s=end - start)
    whole = [(t, request_latency(t)) for t in sent if t.status == "ok"]
    for _, request in whole:
        seen.add(
            ttft=request.ttft_s,
            first_answer=request.first_answer_s,
            tpot=request.tpot_s,
            normalized=request.normalized_s,
            e2e=request.e2e_s,
        )
        seen.values["itl"] += request.gaps_s or ()
    seen.completed = len(whole)
    seen.failed = sum(t.status in ("failed", "timeout") for t in sent)
    seen.cut_off = len(sent) - seen.completed - seen.failed
    seen.requests = sum(t.status == "ok" and start < t.end_s <= end for t in timelines)
    seen.tokens = sum(_tokens_between(seen, t, start, end) for t in timelines)
    if objectives:
        # a one-message answer has no time per token to complain about
        seen.good = sum(
            objectives.kept(ttft_s=r.ttft_s, tpot_s=r.tpot_s or 0.0, e2e_s=r.e2e_s, gap_s=r.worst_gap_s) is True
            for _, r in whole
        )
        seen.judged = seen.completed + seen.failed
    return seen


def vllm_bench(run: Run, objectives: Objectives | None) -> Seen:
    """Every message with a choice counts, an empty one too; the last of them ends the request."""
    seen, ok = _whole_run(run)
    seen.good = 0 if objectives else None
    for t in ok:
        times = [chunk.time_s for chunk in t.chunks]
        ttft, e2e, tokens = times[0] - t.sent_s, times[-1] - t.sent_s, _total(seen, t)
        tpot = (e2e - ttft) / (tokens - 1) if tokens > 1 else None
        seen.add(ttft=ttft, tpot=tpot, e2e=e2e)
        seen.values["itl"] += _gaps(t, times)
        seen.tokens += tokens
        if objectives:
            seen.good += objectives.kept(ttft_s=ttft, tpot_s=tpot or 0.0, e2e_s=e2e) is True
    return seen


def vllm_engine(run: Run, objectives: Objectives | None) -> Seen:
    """Steps that gave tokens; first token and gaps of all requests, the rest of finished ones only."""
    seen = Seen(duration_s=run.stop_s - run.start_s)
    for t in run.timelines:  # the engine can't tell a warm-up
        times = [chunk.time_s for chunk in t.token_chunks]
        if times:
            seen.add(ttft=times[0] - t.sent_s)
            seen.values["itl"] += _gaps(t, times)
        if t.status != "ok":
            continue
        tokens = _total(seen, t)
        seen.add(tpot=(times[-1] - times[0]) / (tokens - 1) if tokens > 1 else 0.0, e2e=times[-1] - t.sent_s)
        seen.tokens += tokens
        seen.completed += 1
    seen.requests, seen.failed = seen.completed, len(run.timelines) - seen.completed
    return seen


def sglang_bench(run: Run, objectives: Objectives | None) -> Seen:
    """The text is cumulative: from the first text on, every message with new tokens counts."""
    seen, ok = _whole_run(run)
    seen.good = 0 if objectives else None
    for t in ok:
        first = next((i for i, chunk in enumerate(t.chunks) if chunk.kind != "empty"), None)
        ttft = 0.0 if first is None else t.chunks[first].time_s - t.sent_s
        e2e, tokens = t.end_s - t.sent_s, _total(seen, t)
        tpot = (e2e - ttft) / (tokens - 1) if tokens > 1 else None
        seen.add(ttft=ttft, tpot=tpot, e2e=e2e)
        seen.tokens += tokens
        if first is not None and t.every_chunk and all(chunk.tokens is not None for chunk in t.chunks):
            counted = [t.chunks[first], *(chunk for chunk in t.chunks[first + 1 :] if chunk.tokens)]
            for before, chunk in pairwise(counted):
                seen.values["itl"] += [(chunk.time_s - before.time_s) / chunk.tokens] * chunk.tokens
        if objectives:
            seen.good += objectives.kept(ttft_s=ttft, tpot_s=tpot or 0.0, e2e_s=e2e) is True
    seen.judged = seen.completed + seen.failed
    return seen


def genai_perf(run: Run, objectives: Objectives | None) -> Seen:
    """Messages with text of the answer, to the nanosecond; hidden reasoning and empty ones are dropped."""
    seen, ok = _whole_run(run)
    judged: dict[str, list[float]] = {"ttft_s": [], "tpot_s": [], "e2e_s": []}
    with_text = [t for t in ok if _times(t, "text")]
    for t in with_text:
        times, tokens = _times(t, "text"), _tokens(seen, t, "text")
        ttft, e2e = times[0] - t.sent_s, times[-1] - t.sent_s
        tpot = round((e2e - ttft) / (tokens - 1), 9) if len(times) > 1 and tokens > 1 else None
        seen.add(ttft=ttft, tpot=tpot, e2e=e2e)
        seen.tokens += tokens
        for name, value in (("ttft_s", ttft), ("tpot_s", tpot), ("e2e_s", e2e)):
            judged[name] += [] if value is None else [value]
    seen.completed = len(with_text)
    seen.requests = len(ok)
    seen.duration_s = _span(with_text, lambda t: _times(t, "text")[-1])
    if objectives:
        # it zips the lists, so one answer without ITL shifts those after it: kept, since the tool does
        rows = zip(*(judged[name] for name in objectives.limits), strict=False)
        limits = objectives.limits.values()
        seen.good = sum(all(v <= limit for v, limit in zip(row, limits, strict=True)) for row in rows)
    return seen


def aiperf(run: Run, objectives: Objectives | None) -> Seen:
    """Messages with text or reasoning; a request without any is an error; the clock runs over valid ones."""
    seen, ok = _whole_run(run)
    valid = [t for t in ok if _times(t, "text", "reasoning")]
    seen.failed += len(ok) - len(valid)
    seen.completed = seen.requests = len(valid)
    seen.good = 0 if objectives else None
    for t in valid:
        times, tokens = _times(t, "text", "reasoning"), _tokens(seen, t, "text", "reasoning")
        answer = _times(t, "text")
        ttft, e2e = times[0] - t.sent_s, times[-1] - t.sent_s
        tpot = (e2e - ttft) / (tokens - 1) if tokens > 1 else None
        seen.add(ttft=ttft, first_answer=answer[0] - t.sent_s if answer else None, tpot=tpot, e2e=e2e)
        seen.values["itl"] += _gaps(t, times)
        seen.tokens += tokens
        if objectives:
            seen.good += objectives.kept(ttft_s=ttft, tpot_s=tpot, e2e_s=e2e) is True
    seen.duration_s = _span(valid, lambda t: _times(t, "text", "reasoning")[-1])
    seen.judged = seen.completed + seen.failed
    return seen


def guidellm(run: Run, objectives: Objectives | None) -> Seen:
    """Messages with text or reasoning; both per-token means are weighted by the tokens they stand for."""
    seen, ok = _whole_run(run)
    cut = [t for t in _counted(run) if t.status in ("cancelled", "running")]
    seen.failed, seen.cut_off = seen.failed - sum(t.status == "cancelled" for t in cut), len(cut)
    seen.good, seen.judged = (0, seen.failed) if objectives else (None, 0)
    for t in ok:
        times, answer, tokens = _times(t, "text", "reasoning"), _times(t, "text"), _total(seen, t)
        last = times[-1] if times else t.end_s
        ttft = times[0] - t.sent_s if times else None
        itl = (times[-1] - times[0]) / (tokens - 1) if times and tokens > 1 else None
        seen.add(
            ttft=ttft,
            first_answer=answer[0] - t.sent_s if answer else None,
            tpot=None if itl is None else (itl, tokens - 1),
            normalized=((last - t.sent_s) / tokens, tokens) if tokens else None,
            e2e=t.end_s - t.sent_s,
        )
        seen.tokens += tokens
        kept = objectives and objectives.kept(ttft_s=ttft, tpot_s=itl, e2e_s=t.end_s - t.sent_s)
        if kept is not None:
            seen.judged += 1
            seen.good += kept
    return seen


def inference_perf(run: Run, objectives: Objectives | None) -> Seen:
    """Messages with text; each token gets its message's time, so tokens of one message are 0 apart."""
    seen, ok = _whole_run(run)
    seen.good = 0 if objectives else None
    for t in ok:
        tokens, e2e = _tokens(seen, t, "text"), t.end_s - t.sent_s
        times = [chunk.time_s for chunk in t.chunks if chunk.kind == "text" for _ in range(chunk.tokens or 1)]
        ttft = tpot = None
        if len(times) > 1:
            ttft = times[0] - t.sent_s
            tpot = (times[-1] - times[0]) / (tokens - 1) if tokens > 1 else None
            seen.values["itl"] += _gaps(t, times)
        seen.add(ttft=ttft, tpot=tpot, normalized=e2e / tokens if tokens else 0.0, e2e=e2e)
        seen.tokens += tokens
        if objectives:
            seen.good += objectives.kept(ttft_s=ttft, tpot_s=tpot, e2e_s=e2e) is True
    seen.duration_s = _span(_counted(run), last_event_s)
    seen.judged = seen.completed
    return seen


def mlperf_loadgen(run: Run, objectives: Objectives | None) -> Seen:
    """From when the query was due, in whole nanoseconds; throughput up to the end of the query issued last."""
    seen, ok = _whole_run(run)
    for t in ok:
        due = t.sent_s if t.due_s is None else t.due_s
        ttft, latency = round((t.token_chunks[0].time_s - due) * 1e9), round((t.end_s - due) * 1e9)
        tokens = _total(seen, t)
        if tokens > 1:
            tpot = (latency - ttft) // (tokens - 1)
        else:  # it logs an error, counts no token, and divides by −1
            tpot, tokens = ttft - latency, 0
            seen.notes.append("A one-token answer: LoadGen calls the run invalid.")
        seen.add(ttft=ttft / 1e9, tpot=tpot / 1e9, e2e=latency / 1e9)
        seen.tokens += tokens
    if ok:
        seen.duration_s = max(ok, key=lambda t: t.sent_s).end_s - run.start_s
        seen.requests = len(ok) - 1
    if seen.failed:
        seen.notes.append("LoadGen has no failed query: it waits for every answer. Those that failed are left out.")
    return seen


def llmperf(run: Run, objectives: Objectives | None) -> Seen:
    """Text messages make the times; every message but the closing one counts as a token to divide by."""
    seen, ok = _whole_run(run)
    for t in ok:
        times = _times(t, "text")
        seen.add(
            ttft=times[0] - t.sent_s if times else 0.0,
            normalized=(times[-1] - t.sent_s) / len(t.chunks) if times else 0.0,
            e2e=t.end_s - t.sent_s,
        )
        seen.tokens += _tokens(seen, t, "text")
    return seen


TOOLS: dict[str, Callable[..., Seen]] = {
    "book": book,
    "vllm-bench": vllm_bench,
    "vllm-engine": vllm_engine,
    "sglang-bench": sglang_bench,
    "genai-perf": genai_perf,
    "aiperf": aiperf,
    "guidellm": guidellm,
    "inference-perf": inference_perf,
    "mlperf-loadgen": mlperf_loadgen,
    "llmperf": llmperf,
}


def _counted(run: Run) -> list[Timeline]:
    counted = [t for t in run.timelines if not t.warm_up]
    if not counted:
        raise CalcError("the run holds no request beyond warm-up: there is nothing to measure")
    return counted


def _whole_run(run: Run) -> tuple[Seen, list[Timeline]]:
    """What most tools share: whole answers complete, anything else that ended fails, the clock is the run's."""
    counted = _counted(run)
    ok = [t for t in counted if t.status == "ok"]
    running = sum(t.status == "running" for t in counted)
    seen = Seen(completed=len(ok), requests=len(ok), failed=len(counted) - len(ok) - running, cut_off=running)
    seen.duration_s = run.stop_s - run.start_s
    if running:
        seen.notes.append(f"{running} still running: the tool would have waited for them.")
    return seen, ok


def _times(timeline: Timeline, *kinds: str) -> list[float]:
    return [chunk.time_s for chunk in timeline.chunks if chunk.kind in kinds]


def _gaps(timeline: Timeline, times: list[float]) -> list[float]:
    if not timeline.every_chunk:
        return []
    return [later - earlier for earlier, later in pairwise(times)]


def _total(seen: Seen, timeline: Timeline) -> int:
    """All output tokens; where nobody counted them, one for each message, and a note."""
    total = timeline.output_tokens
    if total is None:
        _note(seen, "Output tokens were not counted: one is taken for each message.")
        return len(timeline.token_chunks)
    return total


def _tokens(seen: Seen, timeline: Timeline, *kinds: str) -> int:
    """Tokens of these kinds of message; where messages don't count theirs, all output tokens."""
    counts = [chunk.tokens for chunk in timeline.chunks if chunk.kind in kinds]
    if None in counts:
        return _total(seen, timeline)
    return sum(counts)


def _note(seen: Seen, text: str) -> None:
    if text not in seen.notes:
        seen.notes.append(text)


def _span(timelines: Iterable[Timeline], end: Callable[[Timeline], float]) -> float:
    """From the first sent to the last end."""
    timelines = list(timelines)
    return max(map(end, timelines)) - min(t.sent_s for t in timelines) if timelines else 0.0


def _tokens_between(seen: Seen, timeline: Timeline, start: float, end: float) -> int:
    """Output tokens that arrived after `start` and up to `end`."""
    inside = [chunk.tokens for chunk in timeline.token_chunks if start < chunk.time_s <= end]
    if len(inside) == len(timeline.token_chunks):
        return _total(seen, timeline)
    if None in inside:
        raise CalcError(
            f"request {timeline.id!r}: its messages don't say how many tokens they carry, so those inside a window "
            "can't be counted; measure the whole run"
        )
    return sum(inside)
