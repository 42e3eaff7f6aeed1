"""One request through client, gateway and engine, and the segments of its first token."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from calc.latency import Repeat, shelf
from calc.scheduling import Iteration, Log, read_iterations
from calc.sources import data_path
from calc.tail._clocks import ClockFit
from calc.tail._formulas import unclocked_seconds
from calc.units import CalcError, plain

SEGMENTS = {
    "send": "from the client to the gateway",
    "gateway": "in the gateway",
    "unclocked": "between gateway and engine, both ways",
    "queue": "in the engine's queue",
    "prefill": "from being scheduled to the first token",
    "deliver": "from the gateway back to the client",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One request as three clocks saw it.

    Attributes
    ----------
    id : str
        Its name.
    sent_s, first_token_s, end_s : float
        Sent, first message with a token, answer complete: the client's clock.
    received_s, forwarded_s, first_byte_s, last_byte_s : float
        The gateway's clock.
    queue_s, prefill_s, decode_s : float
        The engine's spans: durations, which need no clock to agree with another.
    prompt_tokens, output_tokens : int
        Of the prompt and of the answer.
    spread_s : float
        From the first message to the last one at the client.
    """

    id: str
    sent_s: float
    first_token_s: float
    end_s: float
    received_s: float
    forwarded_s: float
    first_byte_s: float
    last_byte_s: float
    queue_s: float
    prefill_s: float
    decode_s: float
    prompt_tokens: int
    output_tokens: int
    spread_s: float = 0.0

    @property
    def ttft_s(self) -> float:
        """Time to first token at the client: the sum of the segments."""
        return self.first_token_s - self.sent_s

    @property
    def segments(self) -> dict[str, float]:
        """Seconds by key of `SEGMENTS`, if the stamps are on one clock. `send` and `deliver` cross two."""
        return {
            "send": self.received_s - self.sent_s,
            "gateway": self.forwarded_s - self.received_s,
            "unclocked": unclocked_seconds.formula(
                forwarded_s=self.forwarded_s,
                first_byte_s=self.first_byte_s,
                queued_s=self.queue_s,
                computed_s=self.prefill_s,
            ),
            "queue": self.queue_s,
            "prefill": self.prefill_s,
            "deliver": self.first_token_s - self.first_byte_s,
        }

    def reached_s(self) -> float:
        """The latest moment, by the gateway's clock, at which the engine can have taken it in."""
        return self.first_byte_s - self.prefill_s - self.queue_s


_GATEWAY = ("received_s", "forwarded_s", "first_byte_s", "last_byte_s")


def moved(trace: Trace, fit: ClockFit) -> Trace:
    """The trace with its gateway stamps on the client's clock, each in the middle of where it can lie."""
    return replace(trace, **{name: fit.own(getattr(trace, name)).middle for name in _GATEWAY})


def skewed(trace: Trace, *, offset_s: float, drift: float) -> Trace:
    """The trace as a gateway would have stamped it whose clock is ahead and runs fast.

    Parameters
    ----------
    offset_s : float
        Seconds that it is ahead when the run starts; below 0 if it is behind.
    drift : float
        Seconds that it gains a second.
    """
    return replace(trace, **{name: reading(getattr(trace, name), offset_s, drift) for name in _GATEWAY})


def reading(moment_s: float, offset_s: float, drift: float) -> float:
    """What a clock shows at a moment of the run."""
    return moment_s + offset_s + drift * moment_s


def client_pairs(traces: Iterable[Trace]) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Messages between client and gateway, as `align` takes them: out, and back."""
    traces = list(traces)
    out = [(t.sent_s, t.received_s) for t in traces]
    back = [pair for t in traces for pair in ((t.first_byte_s, t.first_token_s), (t.last_byte_s, t.end_s))]
    return out, back


def engine_pairs(
    traces: Iterable[Trace], steps: Iterable[Iteration]
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Messages between gateway and engine: a request that is passed on, and the step that brings its first token.

    Parameters
    ----------
    traces : iterable of Trace
        With the gateway's stamps on the gateway's clock.
    steps : iterable of Iteration
        The engine's log on the engine's clock, of the same run and nothing else.

    Returns
    -------
    (list of (gateway, engine), list of (engine, gateway))
        Out: passed on, step begun. Back: step over, first byte at the gateway.

    Raises
    ------
    CalcError
        If a step's prompts are not those of the requests that come next.

    Notes
    -----
    A step log names no request. Prompts are taken in the order in which the gateway passed them on, checked by their
    tokens. Where a hop reorders them, pairs are wrong; then `align` finds no clock, or this function no prompts.
    """
    left = sorted(traces, key=lambda t: t.forwarded_s)
    out, back = [], []
    for step in steps:
        if not step.prefill_requests:
            continue
        chosen = _next_prompts(left, step)
        for trace in chosen:
            left.remove(trace)
            out.append((trace.forwarded_s, step.at_s - step.elapsed_s))
            back.append((step.at_s, trace.first_byte_s))
    return out, back


def _next_prompts(left: Sequence[Trace], step: Iteration) -> list[Trace]:
    chosen = list(left[: step.prefill_requests])
    if sum(t.prompt_tokens for t in chosen) != step.prefill_tokens:
        raise CalcError(
            f"engine_pairs: the step at {step.at_s:.6f} s has {step.prefill_tokens} prompt tokens, not those of the "
            "requests that come next; use a run in which nothing changes their order"
        )
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One repeat of one case: what was injected, its requests, and the engine's steps.

    Attributes
    ----------
    name : str
        What was injected.
    repeat : int
        Which repeat.
    traces : tuple of Trace
        In the order in which they were due.
    steps : tuple of Iteration
        The engine's log.
    """

    name: str
    repeat: int
    traces: tuple[Trace, ...]
    steps: tuple[Iteration, ...]

    def slow(self, slow_s: float) -> tuple[Trace, ...]:
        """Requests whose first token took longer than this, slowest first."""
        plain("slow", "slow_s", slow_s, "second")
        return tuple(sorted((t for t in self.traces if t.ttft_s > slow_s), key=lambda t: -t.ttft_s))


def traces_of(repeat: Repeat) -> tuple[Trace, ...]:
    """The requests of a repeat that was recorded behind a gateway.

    Raises
    ------
    CalcError
        If the gateway or the engine recorded nothing of a request.
    """
    found = []
    for timeline, engine, gateway in zip(repeat.run.timelines, repeat.engine, repeat.gateway, strict=True):
        if not engine or not gateway:
            raise CalcError(f"request {timeline.id!r} of {repeat.run.source}: no stamps of the gateway or the engine")
        first, last = timeline.token_chunks[0].time_s, timeline.token_chunks[-1].time_s
        found.append(
            Trace(
                id=timeline.id,
                sent_s=timeline.sent_s,
                first_token_s=first,
                end_s=timeline.end_s,
                **{name: gateway[name.removesuffix("_s")] for name in _GATEWAY},
                **{f"{name}_s": engine[name] for name in ("queue", "prefill", "decode")},
                prompt_tokens=timeline.prompt_tokens,
                output_tokens=timeline.output_tokens,
                spread_s=last - first,
            )
        )
    return tuple(found)


def join(repeats: Iterable[Repeat], logs: Iterable[Log]) -> tuple[Case, ...]:
    """Requests and steps of the same repeats.

    Raises
    ------
    CalcError
        If a repeat has no step log.
    """
    steps = {(log.setup, log.name, log.number): log.iterations for log in logs}
    cases = []
    for repeat in repeats:
        key = (repeat.setup, repeat.name, repeat.number)
        if key not in steps:
            raise CalcError(f"{repeat.run.source}: no step log of this repeat in the recording")
        cases.append(Case(name=repeat.name, repeat=repeat.number, traces=traces_of(repeat), steps=steps[key]))
    return tuple(cases)


@functools.cache
def cases() -> tuple[Case, ...]:
    """The book's own recording of slow tails, read once.

    Examples
    --------
    >>> len({case.name for case in cases()}), {case.repeat for case in cases()}
    (7, {0, 1, 2})
    """
    return join(shelf("tail"), read_iterations(data_path() / "measured" / "tail.jsonl.gz"))


def repeats_of(name: str) -> tuple[Case, ...]:
    """The repeats of one case.

    Raises
    ------
    CalcError
        If no case has this name.
    """
    found = tuple(case for case in cases() if case.name == name)
    if not found:
        known = ", ".join(dict.fromkeys(case.name for case in cases()))
        raise CalcError(f"no case {name!r} was recorded: use {known}")
    return found
