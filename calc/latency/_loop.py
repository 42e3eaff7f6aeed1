"""Clients that wait and clients that don't: what each of them would have recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import isfinite

from calc.latency._timeline import Chunk, Run, Timeline
from calc.units import CalcError, dimensions


def one_at_a_time(
    due_s: Iterable[float], *, served_s: float, frozen_at_s: float = 0.0, frozen_s: float = 0.0, waits: bool = True
) -> Run:
    """A server that takes one request at a time, as long for each, and stands still once; a client with a schedule.

    Parameters
    ----------
    due_s : iterable of float
        When the client means to send each request, ascending, seconds.
    served_s : float
        Seconds that the server takes for a request.
    frozen_at_s, frozen_s : float
        When it stands still, and how long. A request that it has begun takes that much longer.
    waits : bool
        Whether the client has one connection and sends a request only once the one before is answered.
        Otherwise it sends when due, and the queue is the server's.

    Returns
    -------
    Run
        Answers of one message. The server does the same either way; what differs is when requests were sent.

    Raises
    ------
    CalcError
        If a time is negative or not finite, or requests are not due in order.

    Examples
    --------
    >>> run = one_at_a_time([0, 1, 2], served_s=1.5)
    >>> [(t.due_s, t.sent_s, t.end_s) for t in run.timelines]
    [(0, 0, 1.5), (1, 1.5, 3.0), (2, 3.0, 4.5)]
    """
    due = list(due_s)
    for name, value in (("served_s", served_s), ("frozen_at_s", frozen_at_s), ("frozen_s", frozen_s)):
        if not (isfinite(value) and value >= 0):
            raise CalcError(f"one_at_a_time: {name} is {value}, wanted seconds of at least 0")
    if not due or not all(isfinite(at) and at >= 0 for at in due) or due != sorted(due):
        raise CalcError("one_at_a_time: wanted at least one request, due at ascending times of at least 0 s")
    timelines, free = [], 0.0
    for number, at in enumerate(due):
        start = max(at, free)
        if frozen_at_s <= start < frozen_at_s + frozen_s:
            end = frozen_at_s + frozen_s + served_s
        else:
            end = start + served_s + (frozen_s if start < frozen_at_s < start + served_s else 0.0)
        sent = start if waits else at
        free = end
        timelines.append(Timeline(id=str(number), due_s=at, sent_s=sent, chunks=(Chunk(end),), end_s=end))
    return Run(timelines=tuple(timelines))


def from_due(recorded: Run) -> Run:
    """The same run with every wait counted from when a request was due, not from when it was sent.

    Raises
    ------
    CalcError
        If the recording doesn't say when one was due.

    Examples
    --------
    >>> late = one_at_a_time([0, 1], served_s=1.5)
    >>> from_due(late).timelines[1].sent_s
    1
    """
    for timeline in recorded.timelines:
        if timeline.due_s is None:
            raise CalcError(f"request {timeline.id!r}: the recording doesn't say when it was due")
    return replace(recorded, timelines=tuple(replace(t, sent_s=t.due_s) for t in recorded.timelines))


@dimensions("second", requests="count>0", due_every_s="second", served_s="second")
def serial_latency(*, requests, due_every_s, served_s):
    """End-to-end latency of the last of some requests that one connection sends one by one, from when it was due.

    Parameters
    ----------
    requests : int
        How many were due so far, at equal intervals, the first one at once.
    due_every_s : float
        The interval, seconds; below the time that a request takes.
    served_s : float
        What a request takes once it is sent, seconds: what a clock that starts with sending reports.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or requests are due more slowly than they are answered.

    References
    ----------
    vllm-project/vllm#54101 prints both values for eight requests.

    Examples
    --------
    >>> serial_latency(requests=8, due_every_s=0.125, served_s=0.5)
    3.125
    """
    if due_every_s > served_s:
        raise CalcError("serial_latency: a request is answered before the next one is due: none waits")
    serial_latency = served_s + (requests - 1) * (served_s - due_every_s)
    return serial_latency


@dimensions("", arrival_rate="1/second", frozen_s="second", served_s="second")
def delayed_requests(*, arrival_rate, frozen_s, served_s):
    """Requests that wait because a server stood still: those due meanwhile, and those due until it has caught up.

    Parameters
    ----------
    arrival_rate : float
        Requests due per second, at equal intervals.
    frozen_s : float
        How long it stood still, seconds.
    served_s : float
        What it takes for a request otherwise, one at a time, seconds.

    Returns
    -------
    float
        Requests. A client that waits for each answer before it sends the next one records a single slow request.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or requests are due as fast as they are served.

    Examples
    --------
    >>> delayed_requests(arrival_rate=10, frozen_s=2, served_s=0.05)
    40.0
    """
    if arrival_rate * served_s >= 1:
        raise CalcError("delayed_requests: requests are due as fast as they are served: the backlog never clears")
    delayed_requests = arrival_rate * frozen_s / (1 - arrival_rate * served_s)
    return delayed_requests
