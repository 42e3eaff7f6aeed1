"""A scheduler in time: requests arrive, steps take as long as a model of them says."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import itemgetter

from calc.scheduling._clock import StepTimeLike, duration
from calc.scheduling._core import Sampler, Scheduler
from calc.scheduling._ledger import Ledger, Row, Step
from calc.scheduling._requests import (
    FOREVER_S,
    Request,
    SchedulerConfig,
    SchedulingError,
    check,
    check_fits,
    stuck,
    within,
)
from calc.scheduling._ticks import seconds, ticks


def run(
    requests: Iterable[Request], config: SchedulerConfig, step_time: StepTimeLike, sampler: Sampler | None = None
) -> Ledger:
    """Run a workload step by step.

    Parameters
    ----------
    requests : iterable of Request
        In any order; those that arrive together are queued in the order given.
    config : SchedulerConfig
        The scheduler's limits.
    step_time : StepTime or callable
        `Affine`, `Largest`, `Table`, or any callable that takes a `Step` and returns seconds.
    sampler : callable, optional
        See `Scheduler`.

    Returns
    -------
    Ledger

    Raises
    ------
    SchedulingError
        If a request could never finish, or the scheduler comes to a stand.

    Notes
    -----
    A request is seen by the first step that starts at or after its arrival. Tokens appear at the end of
    their step. A step that only preempts takes no time. Nothing happens between steps.

    Examples
    --------
    >>> from calc.scheduling import Affine
    >>> requests = [Request("a", 100, 3), Request("b", 50, 2, arrival_s=0.015)]
    >>> ledger = run(requests, SchedulerConfig(blocks=100), Affine(base_s=0.01))
    >>> [[row.name for row in step.rows] for step in ledger.steps]
    [['a'], ['a'], ['a', 'b'], ['b']]
    >>> ledger.times().latency_s()
    [0.03, 0.025]
    """
    requests = tuple(requests)
    for request in requests:
        check_fits(request, config)
    return Ledger(requests, *_drive(requests, config, step_time, sampler))


def run_closed(
    requests: Iterable[Request],
    users: int,
    config: SchedulerConfig,
    step_time: StepTimeLike,
    *,
    think_s: float = 0.0,
    sampler: Sampler | None = None,
) -> Ledger:
    """Run a workload with users who wait: each sends a request, reads the answer, thinks, and sends the next.

    Parameters
    ----------
    requests : iterable of Request
        In the order in which they are sent; their arrivals are replaced.
    users : int
        How many requests are under way or being thought about.
    config, step_time, sampler
        As in `run`.
    think_s : float
        Seconds from the end of an answer to its user's next request.

    Returns
    -------
    Ledger
        Its requests arrive when they were sent.

    Raises
    ------
    SchedulingError
        As in `run`; also if there is no user or the thinking is no time.

    Notes
    -----
    A closed loop: a slow server is sent less. What an open loop of the same mean rate would wait for, this
    one never sends.

    Examples
    --------
    >>> from calc.scheduling import Affine
    >>> requests = [Request(i, prompt=10, output=2) for i in range(4)]
    >>> ledger = run_closed(requests, 2, SchedulerConfig(blocks=100), Affine(base_s=0.01), think_s=0.005)
    >>> [request.arrival_s for request in ledger.requests]
    [0.0, 0.0, 0.025, 0.025]
    """
    waiting = iter(requests)
    if isinstance(users, bool) or not isinstance(users, int) or users < 1:
        raise SchedulingError(f"run_closed: users is {users!r}, wanted a whole number of at least 1")
    if not within(think_s, FOREVER_S):
        raise SchedulingError(f"run_closed: think_s is {think_s!r}, wanted seconds from 0 to below {FOREVER_S:g}")
    sent: list[Request] = []

    def follow(clock: int) -> tuple[int, Request] | None:
        request = next(waiting, None)
        if request is None:
            return None
        at = clock + ticks(think_s)
        check_fits(request, config)
        sent.append(replace(request, arrival_s=seconds(at)))
        return at, sent[-1]

    first = [request for _, request in islice(iter(partial(follow, -ticks(think_s)), None), users)]
    done = _drive(first, config, step_time, sampler, follow)
    return Ledger(tuple(sent), *done)


def _drive(
    requests: Iterable[Request],
    config: SchedulerConfig,
    step_time: StepTimeLike,
    sampler: Sampler | None,
    follow: Callable[[int], tuple[int, Request] | None] | None = None,
) -> tuple[tuple[Step, ...], tuple[int, ...], tuple[int, ...]]:
    """Steps, starts and ends; `follow` is asked for another arrival whenever a response ends."""
    scheduler = Scheduler(config, sampler)
    arrivals = sorted(((ticks(request.arrival_s), request) for request in requests), key=itemgetter(0))
    clock = position = barren = 0
    steps, starts, ends = [], [], []
    while True:
        while position < len(arrivals) and arrivals[position][0] <= clock:
            scheduler.add(arrivals[position][1])
            position += 1
        step = None if scheduler.idle else scheduler.step()
        if step and (step.rows or step.preempted):
            steps.append(step)
            starts.append(clock)
            clock += duration(step_time, step) if step.rows else 0
            ends.append(clock)
            for _ in step.finished if follow else ():
                if (after := follow(clock)) is not None:
                    insort(arrivals, after, key=itemgetter(0))
            barren = 0 if any(row.appended for row in step.rows) else barren + 1
            if barren % 1024 == 1023 and barren > scheduler.known_tokens * len(arrivals):
                raise SchedulingError("requests of equal urgency take each other's blocks forever: set reserve_prompt")
        elif position < len(arrivals):
            clock = arrivals[position][0]
        elif step:
            raise stuck(scheduler.waiting)
        else:
            return tuple(steps), tuple(starts), tuple(ends)


def run_static(requests: Iterable[Request], sequences: int, step_time: StepTimeLike) -> Ledger:
    """Run a workload in static batches, for comparison.

    Parameters
    ----------
    requests : iterable of Request
        As in `run`.
    sequences : int
        Places in a batch.
    step_time : StepTime or callable
        As in `run`.

    Returns
    -------
    Ledger
        Its rows hold no blocks.

    Raises
    ------
    SchedulingError
        If a length or `sequences` is not a positive whole number.

    Notes
    -----
    A batch takes those who wait when the last batch has ended, and starts at once even if places stay
    empty. Its prompts are computed in one step, then it decodes until its longest response ends.
    Nobody joins meanwhile: the place of a finished sequence stays empty. No memory limit, and rows of
    padding, which some engines compute, cost nothing.

    Examples
    --------
    >>> from calc.scheduling import Affine
    >>> requests = [Request("a", 10, 1), Request("b", 10, 3), Request("c", 10, 1)]
    >>> ledger = run_static(requests, 2, Affine(base_s=0.01))
    >>> [[row.name for row in step.rows] for step in ledger.steps]
    [['a', 'b'], ['b'], ['b'], ['c']]
    >>> ledger.idle_slots(2)
    3
    """
    requests = tuple(requests)
    limits = SchedulerConfig(blocks=1 << 40, token_budget=1 << 40, sequences=sequences)
    for request in requests:
        check(request, limits)
    arrivals = sorted(requests, key=lambda request: request.arrival_s)
    at = [ticks(request.arrival_s) for request in arrivals]
    clock = position = 0
    steps, starts, ends = [], [], []
    while position < len(arrivals):
        clock = max(clock, at[position])
        last = position
        while last < len(arrivals) and last < position + sequences and at[last] <= clock:
            last += 1
        batch, sampled = arrivals[position:last], 0
        position = last
        while batch:
            waiting = bisect_right(at, clock) - position
            step = _static_step(len(steps), batch, sampled, waiting)
            steps.append(step)
            starts.append(clock)
            clock += duration(step_time, step)
            ends.append(clock)
            sampled += 1
            batch = [request for request in batch if request.output > sampled]
    return Ledger(requests, tuple(steps), tuple(starts), tuple(ends))


def _static_step(index: int, batch: list[Request], sampled: int, waiting: int) -> Step:
    rows = tuple(
        Row(
            name=request.name,
            tokens=1 if sampled else request.prompt_tokens,
            computed=request.prompt_tokens + sampled - 1 if sampled else 0,
            blocks=0,
            decodes=sampled > 0,
            hit=None if sampled else 0,
            sampled=1,
            appended=1,
        )
        for request in batch
    )
    return Step(
        index=index,
        rows=rows,
        preempted=(),
        finished=tuple(request.name for request in batch if request.output == sampled + 1),
        running=tuple(request.name for request in batch),
        waiting=waiting,
        free_blocks=0,
        free_after=0,
    )
