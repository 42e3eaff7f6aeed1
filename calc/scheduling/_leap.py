"""The scheduler of `_core` for long traces: what repeats is not repeated.

Between two events every step is like the one before: the same sequences, the same tokens each, so many
positions more in every cache. The clock, the cache and the blocks after many steps have closed forms, and
only events cost work: an arrival that can be admitted, a prompt that ends, a response that ends, blocks
that run out. Sequences that decode are one group. The length of each is the group's step count plus a
constant, so a step of the whole group changes one number.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from operator import mul

from calc.scheduling._clock import StepTime, advance
from calc.scheduling._ledger import Times
from calc.scheduling._requests import Request, SchedulerConfig, check_fits, stuck
from calc.scheduling._ticks import ticks

FOREVER = 1 << 60


class NeedsBlocks(Exception):
    """It begins to matter which block is whose: the step-by-step scheduler has to do it."""


def leap(requests: Sequence[Request], config: SchedulerConfig, step_time: StepTime) -> Times:
    """Times of each request, equal to ``run(requests, config, step_time).times()``.

    Requests share no prefix and nobody speculates; `simulate` sees to that.
    """
    for request in requests:
        check_fits(request, config)
    count = len(requests)
    order = sorted(range(count), key=[r.arrival_s for r in requests].__getitem__)
    ordered = [requests[i] for i in order]
    size, usable, budget, places = config.block_tokens, config.blocks - 1, config.token_budget, config.sequences
    limit, adaptive, chunked = config.long_prefill_threshold, config.adaptive_threshold, config.chunked_prefill
    whole, watermark, first_come = config.reserve_prompt, config.watermark_blocks, config.policy == "fcfs"
    counts_suffice = first_come and not config.prefix_caching  # even when somebody is preempted
    lines = step_time.lines

    arrival = [ticks(r.arrival_s) for r in ordered]
    known = [r.prompt_tokens for r in ordered]  # tokens to compute before it decodes
    tokens = [min(r.output, config.max_positions - p) for r, p in zip(ordered, known, strict=True)]
    left = list(tokens)  # to sample since it was last admitted
    admitted, first, finished = [-1] * count, [-1] * count, [-1] * count
    preemptions = [0] * count

    clock = seen = step = 0  # `step` counts the steps of the decoding group
    waiting: deque | list = deque() if first_come else []
    stack: list[int] = []  # who runs, in order of admission; the finished are dropped when they surface
    prefills: list[int] = []  # those of them that are behind
    computed = [0] * count  # their positions
    base = [0] * count  # who decodes has base + step positions
    ends = [-1] * count  # and samples its last token with this step
    heap: list[int] = []  # (end, sequence), as one number
    decoding = cached = 0  # sequences in the group, and their positions together
    phase = [0] * size  # how many of them need a block, by step modulo block size
    closed = False  # nobody is admitted in a step that preempts

    while True:
        while seen < count and arrival[seen] <= clock:
            if first_come:
                waiting.append(seen)
            else:
                heappush(waiting, (ordered[seen].priority, ordered[seen].arrival_s, seen))
            seen += 1

        # Those who run: decoding sequences take one token each, the others a chunk. Whoever was admitted found
        # budget left by everybody before, and nobody's demand grows past that. So only the last one is cut short,
        # and the order within the group does not matter.
        running = decoding + len(prefills)
        room, reads = budget - decoding, cached
        most = heap[0] // count - step if decoding else FOREVER  # steps until something ends
        threshold = 0
        if limit and running + len(waiting) > 1:
            threshold = max(limit, budget // (running + len(waiting))) if adaptive else limit
        parts = []
        for i in prefills:
            remaining = known[i] - computed[i]
            chunk = remaining if remaining < room else room
            if 0 < threshold < chunk:
                chunk = threshold
            parts.append((i, chunk))
            room -= chunk
            reads += computed[i]
            if remaining < most * chunk:
                most = remaining // chunk
        growth = budget - room
        state = step, size, phase, decoding, cached, computed, parts
        tight = reads + growth + running * (size - 1) > usable * size  # blocks may not suffice: count them
        if tight and _blocks(1, *state) > usable:
            if not counts_suffice:
                raise NeedsBlocks
            while True:  # the last admitted makes way
                i = stack.pop()
                if ends[i] >= 0:
                    positions = base[i] + step
                    known[i], left[i], ends[i] = positions + 1, ends[i] - step, -1
                    decoding -= 1
                    cached -= positions
                    phase[-base[i] % size] -= 1
                    break
                if prefills and prefills[-1] == i:
                    prefills.pop()
                    break
            preemptions[i] += 1
            waiting.appendleft(i)
            closed = True
            continue

        # those who wait
        while waiting and not closed and room > 0 and running < places:
            i = waiting[0] if first_come else waiting[0][2]
            chunk = known[i]
            if 0 < threshold < chunk:
                chunk = threshold
            if chunk > room:
                if not chunked:
                    break
                chunk = room
            if reads + growth + known[i] + (running + 1) * (size - 1) + watermark * size > usable * size:
                blocks = -(-(known[i] if whole else chunk) // size) + (watermark if running else 0)
                if blocks + _blocks(1, *state) > usable:
                    break
            waiting.popleft() if first_come else heappop(waiting)
            if admitted[i] < 0:
                admitted[i] = clock
            computed[i] = 0
            stack.append(i)
            prefills.append(i)
            parts.append((i, chunk))
            running += 1
            room -= chunk
            growth += chunk
            if known[i] < most * chunk:
                most = known[i] // chunk
        if not growth:
            if closed:
                closed = False
            elif seen < count:
                clock = arrival[seen]
            elif waiting:
                raise stuck(len(waiting))
            else:
                break
            continue

        # how often the step repeats
        if closed:
            closed, most = False, 1
        elif most > 1 and reads + growth * most + running * (size - 1) > usable * size:
            most = bisect_right(range(1, most + 1), usable, key=lambda steps: _blocks(steps, *state))
        gap = None
        if seen < count and (
            (room > 0 and running < places and not (waiting and first_come)) or (limit and (prefills or waiting))
        ):
            gap = arrival[seen] - clock
        steps, elapsed = advance(lines(growth - decoding, decoding), reads, growth, most, gap)
        clock += elapsed

        # who ends
        if decoding:
            step += steps
            cached += decoding * steps
            while heap and heap[0] < (step + 1) * count:
                end, i = divmod(heappop(heap), count)
                if ends[i] == end:
                    decoding -= 1
                    cached -= base[i] + step
                    phase[-base[i] % size] -= 1
                    ends[i] = -1
                    finished[i] = clock
        if parts:
            prefills = []
            for i, chunk in parts:
                positions = computed[i] = computed[i] + chunk * steps
                if positions < known[i]:
                    prefills.append(i)
                    continue
                if first[i] < 0:
                    first[i] = clock
                if left[i] == 1:
                    finished[i] = clock
                    continue
                base[i], end = positions - step, step + left[i] - 1
                ends[i] = end
                heappush(heap, end * count + i)
                decoding += 1
                cached += positions
                phase[-base[i] % size] += 1

    columns = []
    for column in (arrival, admitted, first, finished, preemptions, tokens):
        given = [0] * count
        for place, value in zip(order, column, strict=True):
            given[place] = value
        columns.append(given)
    return Times(*columns)


def _blocks(
    steps: int,
    step: int,
    size: int,
    phase: list[int],
    decoding: int,
    cached: int,
    computed: list[int],
    parts: list[tuple[int, int]],
) -> int:
    """Blocks that those who run hold after so many more steps."""
    turn = (step + steps) % size
    unused = sum(map(mul, phase[turn:], range(size))) + sum(map(mul, phase[:turn], range(size - turn, size)))
    blocks = (cached + decoding * steps + unused) // size
    for i, chunk in parts:
        blocks += -(-(computed[i] + chunk * steps) // size)
    return blocks
