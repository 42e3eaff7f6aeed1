"""The book's own definitions, applied to one request. Every other dialect is told apart from these."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from calc.latency._formulas import normalized_latency, time_per_output_token, time_to_first_token
from calc.latency._timeline import Timeline
from calc.units import CalcError, plain


@dataclass(frozen=True, slots=True)
class RequestLatency:
    """What one whole answer felt like.

    Attributes
    ----------
    ttft_s : float
        From sending to the first message that carries a token, hidden reasoning included.
    first_byte_s : float or None
        From sending to the start of the response; None where it was not recorded.
    first_answer_s : float or None
        From sending to the first text of the answer; None without text.
    tpot_s : float or None
        Mean time of a token after the first message; None where all came in one message, or their
        number is unknown.
    e2e_s : float
        From sending to the last message that carries a token. What follows it, the reader doesn't wait for.
    gaps_s : tuple of float, or None
        Between consecutive messages that carry tokens: the pauses a reader sees, whatever the number of
        tokens that end them. Known as ITL. None where not every message was recorded.
    normalized_s : float or None
        End-to-end latency per output token.
    output_tokens : int or None
        All of them.
    """

    ttft_s: float
    first_byte_s: float | None
    first_answer_s: float | None
    tpot_s: float | None
    e2e_s: float
    gaps_s: tuple[float, ...] | None
    normalized_s: float | None
    output_tokens: int | None

    @property
    def worst_gap_s(self) -> float | None:
        """The longest pause; 0 where there was none, None where gaps are unknown."""
        return None if self.gaps_s is None else max(self.gaps_s, default=0.0)


@dataclass(frozen=True, slots=True)
class Stall:
    """A gap that is longer than a reader tolerates: when it began and how long it lasted, seconds."""

    at_s: float
    gap_s: float


def request_latency(timeline: Timeline) -> RequestLatency:
    """The book's metrics of one request.

    Parameters
    ----------
    timeline : Timeline
        A request whose whole answer arrived.

    Returns
    -------
    RequestLatency

    Raises
    ------
    CalcError
        If the answer is not whole: half an answer has no end-to-end latency.

    Notes
    -----
    Where the messages don't count their tokens, the first one is taken to hold one token, as every tool does.

    Examples
    --------
    >>> from calc.latency import Chunk, Timeline
    >>> answer = Timeline(sent_s=0, chunks=(Chunk(0.5), Chunk(0.6), Chunk(0.9, tokens=3)), end_s=1)
    >>> seen = request_latency(answer)
    >>> seen.ttft_s, seen.tpot_s, seen.e2e_s
    (0.5, 0.1, 0.9)
    >>> [round(gap, 3) for gap in seen.gaps_s]
    [0.1, 0.3]
    """
    if timeline.status != "ok":
        raise CalcError(f"request {timeline.id!r} is {timeline.status}: only a whole answer has latencies")
    chunks = timeline.token_chunks
    first, last = chunks[0], chunks[-1]
    total = timeline.output_tokens
    in_first = first.tokens or 1
    answer = next((c.time_s - timeline.sent_s for c in timeline.chunks if c.kind == "text"), None)
    several = total is not None and total > in_first and len(chunks) > 1
    e2e = last.time_s - timeline.sent_s
    return RequestLatency(
        ttft_s=time_to_first_token(first_token_s=first.time_s, sent_s=timeline.sent_s),
        first_byte_s=None if timeline.first_byte_s is None else timeline.first_byte_s - timeline.sent_s,
        first_answer_s=answer,
        tpot_s=time_per_output_token(
            last_token_s=last.time_s, first_token_s=first.time_s, output_tokens=total, first_tokens=in_first
        )
        if several
        else None,
        e2e_s=e2e,
        gaps_s=gaps(timeline) if timeline.every_chunk else None,
        normalized_s=normalized_latency(e2e_s=e2e, output_tokens=total) if total else None,
        output_tokens=total,
    )


def gaps(timeline: Timeline) -> tuple[float, ...]:
    """Seconds between consecutive messages that carry tokens.

    Raises
    ------
    CalcError
        If the recording holds the first and the last message only.
    """
    if not timeline.every_chunk:
        raise CalcError(
            f"request {timeline.id!r}: only its first and last message were recorded, so its gaps are unknown; "
            "record every message"
        )
    times = [chunk.time_s for chunk in timeline.token_chunks]
    return tuple(later - earlier for earlier, later in pairwise(times))


def stalls(timeline: Timeline, *, longer_than_s: float) -> tuple[Stall, ...]:
    """The pauses of an answer that are longer than a reader tolerates.

    Parameters
    ----------
    timeline : Timeline
        A request; it may have failed later.
    longer_than_s : float
        The longest pause that is no stall, seconds. There is no standard value: it belongs to the product.

    Returns
    -------
    tuple of Stall
        In order of time. The wait for the first token is TTFT, not a stall.

    Raises
    ------
    CalcError
        If the recording doesn't hold every message, or the limit is no time.

    Examples
    --------
    >>> from calc.latency import Chunk, Timeline
    >>> answer = Timeline(sent_s=0, chunks=(Chunk(1.0), Chunk(1.25), Chunk(3.25)), end_s=3.25)
    >>> stalls(answer, longer_than_s=0.5)
    (Stall(at_s=1.25, gap_s=2.0),)
    """
    plain("stalls", "longer_than_s", longer_than_s, "second")
    starts = [chunk.time_s for chunk in timeline.token_chunks]
    return tuple(Stall(at, gap) for at, gap in zip(starts, gaps(timeline), strict=False) if gap > longer_than_s)
