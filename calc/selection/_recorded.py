"""The recording of one load on several engines: their answers, and what of them was good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path

from calc.latency import Objectives, Repeat, Run, per_second, read_shelf, request_latency
from calc.units import CalcError


@dataclass(frozen=True, slots=True)
class Load:
    """One accepted repeat of the load on one setup.

    Attributes
    ----------
    setup : str
        Engine and number type, as "vllm-bfloat16".
    repeat : Repeat
        Its requests.
    answers : tuple of tuple of int
        Token ids of each answer, in the order the requests were due.
    """

    setup: str
    repeat: Repeat
    answers: tuple[tuple[int, ...], ...]


def read_loads(path: str | Path) -> tuple[Load, ...]:
    """Read a recording of the same requests on several engines, with the answers.

    Parameters
    ----------
    path : path
        A recording of data/measured whose requests keep their output.

    Returns
    -------
    tuple of Load

    Raises
    ------
    CalcError
        If the file is no such recording, or a request has no output.
    """
    return tuple(Load(repeat.setup, repeat, _answers(repeat)) for repeat in read_shelf(path))


def _answers(repeat: Repeat) -> tuple[tuple[int, ...], ...]:
    if None in repeat.outputs:
        raise CalcError(f"{repeat.run.source}: a request without its output; wanted a recording that keeps the answers")
    due = sorted(zip(repeat.run.timelines, repeat.outputs, strict=True), key=lambda pair: pair[0].due_s)
    return tuple(output for _, output in due)


def answers_of(loads: tuple[Load, ...], setup: str) -> dict[tuple[int, int], tuple[int, ...]]:
    """All answers of one setup, by repeat and the request's place in it: the same key is the same prompt.

    Raises
    ------
    CalcError
        If the recording has no such setup.
    """
    return {(load.repeat.number, i): tokens for load in _of(loads, setup) for i, tokens in enumerate(load.answers)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a load delivered.

    Attributes
    ----------
    requests, good : int
        Requests, and those that kept every limit.
    tokens, good_tokens : int
        Output tokens of each.
    window_s : float
        From the first request sent to the last token.
    ttft_s, tpot_s : tuple of float
        Of each request.
    """

    requests: int
    good: int
    tokens: int
    good_tokens: int
    window_s: float
    ttft_s: tuple[float, ...]
    tpot_s: tuple[float, ...]

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second."""
        return per_second(events=self.tokens, window_s=self.window_s)

    @property
    def good_tokens_per_s(self) -> float:
        """Output tokens of good requests a second."""
        return per_second(events=self.good_tokens, window_s=self.window_s)

    @property
    def good_share(self) -> float:
        """Share of the output tokens that good requests got."""
        return self.good_tokens / self.tokens


def served(run: Run, objectives: Objectives) -> Served:
    """Count what a run delivered and what of it was good, in tokens.

    Parameters
    ----------
    run : Run
        Whole answers only; the window is from the first request sent to the last token.
    objectives : Objectives
        Limits on each request.

    Returns
    -------
    Served

    Raises
    ------
    CalcError
        If an answer isn't whole, or its tokens weren't counted.

    Examples
    --------
    >>> from calc.latency import Chunk, Timeline
    >>> pair = [Timeline(sent_s=0, chunks=(Chunk(t), Chunk(t + 1)), end_s=t + 1) for t in (0.5, 3)]
    >>> found = served(Run.of(pair), Objectives(ttft_s=1))
    >>> found.good, found.good_share, found.tokens_per_s
    (1, 0.5, 1.0)
    """
    seen = [request_latency(timeline) for timeline in run.timelines]
    if any(s.output_tokens is None or s.gaps_s is None for s in seen):
        raise CalcError("served: the tokens of an answer were not counted; record every message")
    limits = [
        {"ttft_s": s.ttft_s, "tpot_s": 0.0 if s.tpot_s is None else s.tpot_s, "e2e_s": s.e2e_s, "gap_s": s.worst_gap_s}
        for s in seen
    ]
    kept = [bool(objectives.kept(**{name: values[name] for name in objectives.limits})) for values in limits]
    ends = max(t.token_chunks[-1].time_s for t in run.timelines)
    return Served(
        requests=len(seen),
        good=sum(kept),
        tokens=sum(s.output_tokens for s in seen),
        good_tokens=sum(s.output_tokens for s, k in zip(seen, kept, strict=True) if k),
        window_s=ends - min(t.sent_s for t in run.timelines),
        ttft_s=tuple(s.ttft_s for s in seen),
        tpot_s=tuple(s.tpot_s for s in seen if s.tpot_s is not None),
    )


def together(repeats: Sequence[Served]) -> Served:
    """Several repeats as one, their windows end to end: the rates are those of all of them.

    Raises
    ------
    CalcError
        If there is none.

    Examples
    --------
    >>> short, long = (
    ...     Served(requests=1, good=g, tokens=10, good_tokens=10 * g, window_s=w, ttft_s=(0.1,), tpot_s=(0.01,))
    ...     for g, w in ((0, 2), (1, 8))
    ... )
    >>> both = together([short, long])
    >>> both.tokens_per_s, both.good_share
    (2.0, 0.5)
    """
    if not repeats:
        raise CalcError("together: no repeat to add up")
    return Served(
        requests=sum(r.requests for r in repeats),
        good=sum(r.good for r in repeats),
        tokens=sum(r.tokens for r in repeats),
        good_tokens=sum(r.good_tokens for r in repeats),
        window_s=fsum(r.window_s for r in repeats),
        ttft_s=tuple(t for r in repeats for t in r.ttft_s),
        tpot_s=tuple(t for r in repeats for t in r.tpot_s),
    )


def served_by(loads: tuple[Load, ...], setup: str, objectives: Objectives) -> tuple[Served, ...]:
    """`served` for every accepted repeat of one setup."""
    return tuple(served(load.repeat.run, objectives) for load in _of(loads, setup))


def _of(loads: tuple[Load, ...], setup: str) -> list[Load]:
    found = [load for load in loads if load.setup == setup]
    if not found:
        known = ", ".join(dict.fromkeys(load.setup for load in loads))
        raise CalcError(f"no setup {setup!r:.40} in this recording: use {known}")
    return found
