"""What was recorded of one request, and of a run of them. Nothing here is a metric yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from types import MappingProxyType

from calc.units import CalcError

KINDS = {
    "text": "text of the answer",
    "reasoning": "hidden reasoning",
    "empty": "nothing to read: the role that opens a chat answer, a special token, half a character",
}
STATUSES = {
    "ok": "the whole answer arrived",
    "failed": "the server answered with an error, or broke off",
    "timeout": "the client gave up waiting, by its own limit",
    "cancelled": "the run or its user broke it off: no fault of the server",
    "running": "still open when the recording ended",
}
BOUNDARIES = {
    "client": "in the program that sent the request, network included",
    "gateway": "at the proxy before the engines",
    "engine": "inside the engine: neither network nor gateway",
}


@dataclass(frozen=True, slots=True)
class Chunk:
    """One message of a streamed answer.

    Attributes
    ----------
    time_s : float
        When it arrived, on the clock of the timeline.
    tokens : int or None
        Output tokens in it; None where the recording does not say.
    kind : str
        A key of `KINDS`.
    """

    time_s: float
    tokens: int | None = 1
    kind: str = "text"

    @property
    def carries_tokens(self) -> bool:
        """Whether it brings output. A recording that doesn't count tokens is taken to list such messages only."""
        return self.tokens is None or self.tokens > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One request as it was seen at one boundary, all times in seconds on one clock.

    Attributes
    ----------
    sent_s : float
        When the request passed the boundary.
    chunks : tuple of Chunk
        Every message of the answer in order, but not the closing ones that only report usage.
    end_s : float or None
        When the connection closed: the last byte, or the error. None while running.
    status : str
        A key of `STATUSES`.
    id : str
        Its name in the recording.
    due_s : float or None
        When the load generator meant to send it. Later sending is a wait that most tools don't see.
    first_byte_s : float or None
        When the response began: its headers, before any message.
    started_s : float or None
        When the engine first scheduled it, where an engine recorded it: the end of its queue.
    prompt_tokens, usage_tokens : int or None
        Tokens as the server reported them; `usage_tokens` are all output tokens.
    boundary : str
        A key of `BOUNDARIES`.
    warm_up : bool
        Left out of every metric.
    every_chunk : bool
        False where only the first and the last message were recorded: gaps are unknown then.
    retry_of : str
        Name of the attempt that this one repeats; empty for a first attempt. See `fold_retries`.
    """

    sent_s: float
    chunks: tuple[Chunk, ...] = ()
    end_s: float | None = None
    status: str = "ok"
    id: str = ""
    due_s: float | None = None
    first_byte_s: float | None = None
    started_s: float | None = None
    prompt_tokens: int | None = None
    usage_tokens: int | None = None
    boundary: str = "client"
    warm_up: bool = False
    every_chunk: bool = True
    retry_of: str = ""

    def __post_init__(self) -> None:
        name = f"request {self.id!r}" if self.id else f"request sent at {self.sent_s} s"
        for what, given, known in (
            ("status", self.status, STATUSES),
            ("boundary", self.boundary, BOUNDARIES),
            *(("kind of a chunk", chunk.kind, KINDS) for chunk in self.chunks),
        ):
            if given not in known:
                raise CalcError(f"{name}: {what} is {given!r}, wanted one of {', '.join(known)}")
        if self.status == "ok" and not any(chunk.carries_tokens for chunk in self.chunks):
            raise CalcError(f"{name}: status is ok, but no message carries a token: it failed, or a message is missing")
        if (self.status == "running") != (self.end_s is None):
            raise CalcError(f"{name}: end_s is {self.end_s}, status {self.status!r}: only a running one has no end")
        after = [*(chunk.time_s for chunk in self.chunks), *([] if self.end_s is None else [self.end_s])]
        for between in (None, self.started_s, self.first_byte_s):
            _check_order(name, [self.sent_s, *([] if between is None else [between]), *after])

    @property
    def output_tokens(self) -> int | None:
        """All output tokens: as the server reported them, else as the messages count them."""
        if self.usage_tokens is not None:
            return self.usage_tokens
        counts = [chunk.tokens for chunk in self.chunks]
        return None if None in counts else sum(counts)

    @property
    def token_chunks(self) -> tuple[Chunk, ...]:
        """The messages that carry tokens."""
        return tuple(chunk for chunk in self.chunks if chunk.carries_tokens)


def _check_order(name: str, times: list[float]) -> None:
    if not all(map(isfinite, times)):
        raise CalcError(f"{name}: a time is not a finite number of seconds")
    for earlier, later in pairwise(times):
        if later < earlier:
            raise CalcError(f"{name}: {later} s comes after {earlier} s: times must ascend, all on one clock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Requests of one recording, on one clock.

    Attributes
    ----------
    timelines : tuple of Timeline
        In the order in which they were recorded.
    started_s, ended_s : float or None
        When the tool started and stopped its clock, where the recording says so.
    source : str
        The tool and version that wrote it.
    reported : mapping
        The tool's own summary as it stands in the file, under the tool's own names.
    """

    timelines: tuple[Timeline, ...]
    started_s: float | None = None
    ended_s: float | None = None
    source: str = ""
    reported: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, recorded: Run | Timeline | Iterable[Timeline]) -> Run:
        """Take a run as it is; make one of a timeline or of several."""
        if isinstance(recorded, Run):
            return recorded
        return cls(timelines=(recorded,) if isinstance(recorded, Timeline) else tuple(recorded))

    @property
    def start_s(self) -> float:
        """When the tool's clock started: recorded, or when the first request was due or sent."""
        if self.started_s is not None:
            return self.started_s
        return min(t.sent_s if t.due_s is None else min(t.due_s, t.sent_s) for t in self._any())

    @property
    def stop_s(self) -> float:
        """When the tool's clock stopped: recorded, or the last thing that happened to any request."""
        if self.ended_s is not None:
            return self.ended_s
        return max(last_event_s(t) for t in self._any())

    def _any(self) -> tuple[Timeline, ...]:
        if not self.timelines:
            raise CalcError("the run holds no request: there is nothing to measure")
        return self.timelines


def last_event_s(timeline: Timeline) -> float:
    """The last time a request is known to have been alive."""
    if timeline.end_s is not None:
        return timeline.end_s
    return timeline.chunks[-1].time_s if timeline.chunks else timeline.sent_s
