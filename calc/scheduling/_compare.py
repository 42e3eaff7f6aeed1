"""Static batches beside continuous ones: steps, places over time, and a quick way to the times of static batches."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import groupby

from calc.scheduling._clock import Affine, StepTime, advance
from calc.scheduling._ledger import Ledger, Times
from calc.scheduling._requests import Request, SchedulerConfig, SchedulingError, check
from calc.scheduling._simulate import simulate
from calc.scheduling._ticks import ticks

ROOM = 1 << 40  # blocks and tokens of a scheduler that only its places hold back


def static_steps(outputs: Sequence[int], places: int) -> int:
    """Steps of static batches, in the order given: the sum of the longest of each.

    Examples
    --------
    >>> static_steps([3, 6, 4], places=2)
    10
    """
    return sum(max(outputs[start : start + places]) for start in range(0, len(outputs), places))


def continuous_steps(outputs: Sequence[int], places: int) -> int:
    """Steps of continuous batching, by the scheduler, for requests that all wait at the start.

    Examples
    --------
    >>> continuous_steps([3, 6, 4], places=2)
    7
    """
    requests = [Request(place, 1, output) for place, output in enumerate(outputs)]
    return round(simulate(requests, only_places(places), Affine(base_s=1.0)).makespan_s())


def only_places(places: int, **limits: object) -> SchedulerConfig:
    """A scheduler with so many places and room for everything else, unless further limits say otherwise.

    Not for `run`, which builds the pool: give that one its blocks.
    """
    return SchedulerConfig(**{"blocks": ROOM, "token_budget": ROOM, "sequences": places} | limits)


def seats(ledger: Ledger, places: int) -> list[tuple[Hashable | None, ...]]:
    """Who has which place in each step: a sequence keeps its own until it ends, the next one takes the first free.

    Parameters
    ----------
    ledger : Ledger
    places : int
        Sequences that can run at once.

    Returns
    -------
    list of tuple
        For each step the request in each place, None where it is idle.

    Raises
    ------
    SchedulingError
        If more sequences ran than there are places.

    Examples
    --------
    >>> from calc.scheduling import run_static
    >>> requests = [Request("a", 10, 1), Request("b", 10, 2), Request("c", 10, 1)]
    >>> seats(run_static(requests, 2, Affine(base_s=1)), 2)
    [('a', 'b'), (None, 'b'), ('c', None)]
    """
    held: list[Hashable | None] = [None] * places
    rows = []
    for step in ledger.steps:
        if len(step.running) > places:
            raise SchedulingError(f"step {step.index} runs {len(step.running)} sequences: give at least as many places")
        held = [name if name in step.running else None for name in held]
        for name in step.running:
            if name not in held:
                held[held.index(None)] = name
        rows.append(tuple(held))
    return rows


def simulate_static(requests: Iterable[Request], places: int, step_time: StepTime) -> Times:
    """Times of each request in static batches, without going through the steps.

    Parameters
    ----------
    requests, places, step_time
        As in `run_static`; the step time must have ``lines``.

    Returns
    -------
    Times
        Those of ``run_static(...).times()``, to the last tick.

    Raises
    ------
    SchedulingError
        As in `run_static`.

    Examples
    --------
    >>> from calc.scheduling import run_static
    >>> requests = [Request(i, prompt=100, output=50 + 7 * i, arrival_s=i / 4) for i in range(10)]
    >>> model = Affine(base_s=0.02, prefill_token_s=5e-5, decode_sequence_s=1e-4, cached_token_s=1e-8)
    >>> simulate_static(requests, 4, model) == run_static(requests, 4, model).times()
    True
    """
    requests = list(requests)
    limits = only_places(places)
    for request in requests:
        check(request, limits)
    count = len(requests)
    order = sorted(range(count), key=lambda i: requests[i].arrival_s)
    arrival = [ticks(request.arrival_s) for request in requests]
    admitted, first, finished = [0] * count, [0] * count, [0] * count
    clock = position = 0
    while position < count:
        clock = max(clock, arrival[order[position]])
        batch = [i for i in order[position : position + places] if arrival[i] <= clock]
        position += len(batch)
        start = clock
        clock += max(fixed for fixed, _ in step_time.lines(sum(requests[i].prompt_tokens for i in batch), 0))
        for i in batch:
            admitted[i], first[i], finished[i] = start, clock, clock
        batch.sort(key=lambda i: requests[i].output)
        done, running = 1, len(batch)
        cached = sum(requests[i].prompt_tokens for i in batch)  # positions of those who still run
        for output, ended in groupby(batch, key=lambda i: requests[i].output):
            if output > done:
                lines = step_time.lines(0, running)
                clock += advance(lines, cached=cached, growth=running, most=output - done, gap=None)[1]
                cached += running * (output - done)
                done = output
            for i in ended:
                finished[i] = clock
                running -= 1
                cached -= requests[i].prompt_tokens + output - 1
    tokens = [request.output for request in requests]
    return Times(arrival, admitted, first, finished, [0] * count, tokens)
