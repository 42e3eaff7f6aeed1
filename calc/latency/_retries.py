"""From attempts, which a server sees, to requests, which users made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from calc.latency._timeline import Run, Timeline
from calc.units import CalcError


def fold_retries(recorded: Run | Timeline | Iterable[Timeline]) -> Run:
    """A run as its users saw it: a request for each first attempt, sent when that was sent, answered by the last one.

    Parameters
    ----------
    recorded : Run, Timeline or iterable of Timeline
        Attempts. Those that repeat another one name it in `retry_of`.

    Returns
    -------
    Run
        In the order of the first attempts, with their names. What earlier attempts delivered is dropped.

    Raises
    ------
    CalcError
        If an attempt repeats one that is not in the run, or two repeat the same one.

    Examples
    --------
    >>> from calc.latency import Chunk, Timeline
    >>> refused = Timeline(id="a", sent_s=0, end_s=1, status="failed")
    >>> again = Timeline(id="b", sent_s=1.5, chunks=(Chunk(1.75),), end_s=2, retry_of="a")
    >>> [request] = fold_retries([refused, again]).timelines
    >>> request.id, request.sent_s, request.status
    ('a', 0, 'ok')
    """
    run = Run.of(recorded)
    names = {timeline.id for timeline in run.timelines}
    follows: dict[str, Timeline] = {}
    for attempt in run.timelines:
        if not attempt.retry_of:
            continue
        if attempt.retry_of not in names or attempt.retry_of == attempt.id:
            raise CalcError(
                f"request {attempt.id!r} repeats {attempt.retry_of!r}, which is no other request of the run"
            )
        if attempt.retry_of in follows:
            raise CalcError(
                f"request {attempt.retry_of!r} is repeated twice: let each attempt repeat the one before it"
            )
        follows[attempt.retry_of] = attempt
    folded = []
    for first in run.timelines:
        if first.retry_of:
            continue
        last = first
        while last.id and last.id in follows:
            last = follows[last.id]
        folded.append(
            replace(last, id=first.id, sent_s=first.sent_s, due_s=first.due_s, warm_up=first.warm_up, retry_of="")
        )
    return replace(run, timelines=tuple(folded))
