"""The scheduler: one step at a time, on real blocks.

There is no prefill phase and no decode phase. Every sequence has tokens that are known and positions
that are computed, and each step lets the second catch up with the first: by a chunk while a prompt is
behind, by one token once it has caught up, by one and the drafts when it speculates. Sequences that run
come first, in order of admission; what is left of the budget admits sequences that wait. A sequence that
finds no block takes those of the last one admitted (or of the least urgent), which starts over later.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Sequence

from calc.paging import BlockPool, BlockTable, extend_keys
from calc.scheduling._ledger import Row, Step
from calc.scheduling._requests import Request, SchedulerConfig, SchedulingError, check

Sampler = Callable[[int, Request, int], Sequence[int]]


class _Live:
    """A request inside the scheduler."""

    __slots__ = (
        "computed",
        "drafts",
        "generated",
        "in_prefill",
        "keys",
        "known",
        "request",
        "resumed",
        "table",
        "tokens",
        "urgency",
    )

    def __init__(self, request: Request, rank: int, table: BlockTable) -> None:
        self.request = request
        self.urgency = (request.priority, request.arrival_s, rank)
        self.table = table
        self.known = request.prompt_tokens
        self.computed = self.generated = self.drafts = 0
        self.in_prefill, self.resumed = True, False
        self.tokens: list[int] = []  # their content, kept only where prefixes are cached
        self.keys: list[bytes] = []

    def __lt__(self, other: _Live) -> bool:
        return self.urgency < other.urgency


class Scheduler:
    """Continuous batching with paged memory, as in vLLM's V1 engine.

    Parameters
    ----------
    config : SchedulerConfig
        The limits it keeps.
    sampler : callable, optional
        ``sampler(step, request, drafts)`` returns the tokens a sequence samples after that step: the
        accepted drafts, then one more. `drafts` is 0 where none were verified. By default every draft is
        rejected and every token is unlike any other.

    Notes
    -----
    One engine, no pipeline, one step in flight, one kind of attention layer. Media, external caches and
    structured output are not modelled. The clock is the caller's: see `run`.

    References
    ----------
    Equal step by step to vLLM 0.32, ``vllm/v1/core/sched/scheduler.py``, on the recorded schedules in
    ``tests/fixtures``.

    Examples
    --------
    >>> scheduler = Scheduler(SchedulerConfig(blocks=100, token_budget=64))
    >>> scheduler.add(Request("a", prompt=100, output=2))
    >>> [[(row.name, row.tokens) for row in scheduler.step().rows] for _ in range(3)]
    [[('a', 64)], [('a', 36)], [('a', 1)]]
    """

    def __init__(self, config: SchedulerConfig, sampler: Sampler | None = None) -> None:
        self.config = config
        self.pool = BlockPool(config.blocks, block_tokens=config.block_tokens)
        self.running: list[_Live] = []
        self.steps = 0
        self._waiting: deque[_Live] | list[_Live] = deque() if config.policy == "fcfs" else []
        self._sampler = sampler or self._fresh_token
        self._names: set[Hashable] = set()
        self._unknown = 0  # tokens of unknown content get numbers below 0, each its own
        # of the step being scheduled: what is left of the budget, with and without a drafter's rows, and who got what
        self._budget = self._inputs = self._threshold = 0
        self._plan: dict[Hashable, tuple[_Live, Row]] = {}
        self._preempted: list[Hashable] = []

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    @property
    def known_tokens(self) -> int:
        """Tokens of those who run or wait: what they would compute if all of them started over."""
        return sum(live.known for live in (*self.running, *self._waiting))

    @property
    def idle(self) -> bool:
        """Whether nothing runs or waits."""
        return not (self.running or self._waiting)

    def add(self, request: Request) -> None:
        """Queue a request. One that never fits waits forever, as in the engine; `run` refuses it.

        Raises
        ------
        SchedulingError
            If a length is wrong, the prompt leaves no room for a response, or its name is taken.
        """
        check(request, self.config)
        if request.name in self._names:
            raise SchedulingError(f"request {request.name!r} exists: give each request its own name")
        live = _Live(request, len(self._names), BlockTable(self.pool))
        self._names.add(request.name)
        if self.config.prefix_caching:
            known = not isinstance(request.prompt, int)
            self._append(live, request.prompt if known else self._fresh(request.prompt))
        self._enqueue(live)

    def step(self) -> Step:
        """Schedule one step, let the model answer, and return what happened.

        Raises
        ------
        SchedulingError
            If the sampler returns no token, or more than the drafts and one.
        """
        self._budget = self._inputs = self.config.token_budget
        self._plan, self._preempted = {}, []
        self._set_threshold()
        self._continue()
        if not self._preempted:
            self._admit()
        running, free = tuple(s.request.name for s in self.running), self.pool.free_blocks
        waiting = len(self._waiting)
        finished = self._answer()
        self.steps += 1
        return Step(
            index=self.steps - 1,
            rows=tuple(row for _, row in self._plan.values()),
            preempted=tuple(self._preempted),
            finished=finished,
            running=running,
            waiting=waiting,
            free_blocks=free,
            free_after=self.pool.free_blocks,
        )

    def _set_threshold(self) -> None:
        """A long prompt is held back for others; alone it may have the whole budget."""
        present = len(self.running) + len(self._waiting)
        self._threshold = self.config.long_prefill_threshold if present > 1 else 0
        if self._threshold and self.config.adaptive_threshold:
            self._threshold = max(self._threshold, self._budget // present)

    # --- sequences that run ---

    def _continue(self) -> None:
        """Give running sequences their tokens, in order of admission, preempting where blocks run out."""
        config, turn = self.config, 0
        while turn < len(self.running) and self._budget > 0 and self._inputs > config.draft_rows:
            live = self.running[turn]
            tokens = self._cut(live.known + live.drafts - live.computed)
            tokens = min(tokens, self._budget, self._inputs - config.draft_rows)
            tokens = min(tokens, config.max_positions - 1 - live.computed)
            while not self._reserve(live, tokens):
                victim = self._victim()
                if self.running.index(victim) < turn:
                    turn -= 1
                self._preempt(victim)
                if victim is live:
                    return
            drafts = max(0, live.computed + tokens - live.known)
            live.drafts = 0
            self._schedule(live, tokens, drafts=drafts)
            turn += 1

    def _cut(self, tokens: int) -> int:
        return min(tokens, self._threshold) if self._threshold else tokens

    def _reserve(self, live: _Live, tokens: int) -> bool:
        end = live.computed + tokens
        slots = self._slots(end)
        if live.table.missing(slots):
            if live.table.missing(slots) > self.pool.free_blocks:
                return False
            live.table.reserve(slots)
        if live.keys:  # offered at once: the step that fills them runs before anyone could read them
            live.table.publish(live.keys, end)  # drafts have no keys: they may yet be rejected
        return True

    def _slots(self, positions: int) -> int:
        return min(positions + self.config.draft_slots, self.config.max_positions)

    def _victim(self) -> _Live:
        if self.config.policy == "fcfs":
            return self.running[-1]
        return max(self.running, key=lambda s: s.urgency[:2])

    def _preempt(self, victim: _Live) -> None:
        """Take a sequence's blocks away; its tokens stay known and are computed again later."""
        self.running.remove(victim)
        planned = self._plan.pop(victim.request.name, None)
        if planned:
            self._budget += planned[1].tokens
            self._inputs += planned[1].tokens + self.config.draft_rows
        victim.table.free()
        victim.computed = victim.drafts = 0
        victim.in_prefill = victim.resumed = True
        self._preempted.append(victim.request.name)
        self._enqueue(victim, front=True)

    # --- sequences that wait ---

    def _admit(self) -> None:
        """Admit waiting sequences while budget, places and blocks last; the first that doesn't fit ends it."""
        config = self.config
        adapters = {live.request.adapter for live, _ in self._plan.values()} - {None}
        in_prefill = any(live.in_prefill for live, _ in self._plan.values())
        continued = bool(self._plan)
        skipped: list[_Live] = []
        while self._waiting and self._budget > 0 and self._inputs > config.draft_rows:
            if len(self.running) >= config.sequences:
                break
            live, room = self._waiting[0], min(self._budget, self._inputs - config.draft_rows)
            adapter = live.request.adapter
            if adapter not in adapters | {None} and len(adapters) == config.adapters:
                skipped.append(self._dequeue())
                continue
            hit = self.pool.match(live.keys, positions=live.known, dropped_blocks=config.dropped_blocks)
            start = len(hit) * config.block_tokens
            tokens = live.known - start
            # a sequence with one token left would be a row among drafts: it is padded to their length
            padded = tokens == 1 and config.draft_tokens > 0 and not in_prefill and (continued or start > 0)
            padded = padded and start + config.draft_tokens + 2 <= config.max_positions
            if padded:
                tokens += config.draft_tokens
                if tokens > room:
                    break
            tokens = self._cut(tokens)
            if tokens > room and not config.chunked_prefill:
                break
            tokens = min(tokens, room)
            if not self._fits(live, hit, start + tokens):
                break
            self._dequeue()
            live.table.adopt(hit)
            live.computed = start
            self.running.append(live)
            self._reserve(live, tokens)
            self._schedule(live, tokens, drafts=config.draft_tokens if padded else 0, padded=padded, hit=start)
            if adapter is not None:
                adapters.add(adapter)
        for live in reversed(skipped):
            self._enqueue(live, front=True)

    def _fits(self, live: _Live, hit: list[int], end: int) -> bool:
        """Whether the blocks suffice: for the first chunk and, if promised, for all known tokens."""
        config = self.config
        if config.reserve_prompt:
            end = max(self._slots(end), min(live.known, config.max_positions))
        else:
            end = self._slots(end)
        needed = max(0, -(-end // config.block_tokens) - len(hit))
        revived = sum(self.pool.references[block] == 0 for block in hit)  # these leave the free queue too
        kept = config.watermark_blocks if self.running else 0
        return needed + revived + kept <= self.pool.free_blocks

    def _enqueue(self, live: _Live, front: bool = False) -> None:
        if isinstance(self._waiting, list):
            heapq.heappush(self._waiting, live)
        elif front:
            self._waiting.appendleft(live)
        else:
            self._waiting.append(live)

    def _dequeue(self) -> _Live:
        return heapq.heappop(self._waiting) if isinstance(self._waiting, list) else self._waiting.popleft()

    # --- the step itself ---

    def _schedule(self, live: _Live, tokens: int, *, drafts: int, padded: bool = False, hit: int | None = None) -> None:
        self._budget -= tokens
        self._inputs -= tokens + self.config.draft_rows
        self._plan[live.request.name] = (
            live,
            Row(
                name=live.request.name,
                tokens=tokens,
                computed=live.computed,
                blocks=len(live.table.blocks),
                drafts=drafts,
                padded=padded,
                hit=hit,
                resumed=hit is not None and live.resumed,
                decodes=not live.in_prefill,
            ),
        )

    def _answer(self) -> tuple[Hashable, ...]:
        """Advance every scheduled sequence; those that caught up sample, and may finish."""
        finished, sampled = [], []
        for name, (live, row) in self._plan.items():
            live.computed += row.tokens
            live.in_prefill = live.computed < live.known
            if live.computed - row.drafts < live.known:
                continue
            request = live.request
            tokens = self._sampler(self.steps, request, 0 if row.padded else row.drafts)
            if not 1 <= len(tokens) <= 1 + row.drafts:
                raise SchedulingError(f"the sampler gave {len(tokens)} tokens, wanted 1 to {1 + row.drafts}")
            live.computed -= row.drafts - (len(tokens) - 1)
            room = min(request.output - live.generated, self.config.max_positions - live.known)
            kept = tokens[:room]
            live.generated += len(kept)
            live.known += len(kept)
            self._plan[name] = live, row._replace(sampled=len(tokens), appended=len(kept))
            if len(kept) == room:
                live.table.free()
                finished.append(name)
            else:
                if self.config.prefix_caching:
                    self._append(live, kept)
                sampled.append(live)
        if finished:
            gone = set(finished)
            self.running = [s for s in self.running if s.request.name not in gone]
        for live in sampled:
            live.drafts = self.config.draft_tokens
        return tuple(finished)

    def _append(self, live: _Live, tokens: Sequence[int]) -> None:
        live.tokens += tokens
        request = live.request
        extend_keys(
            live.keys,
            live.tokens,
            block_tokens=self.config.block_tokens,
            adapter=request.adapter,
            salt=request.salt,
        )

    def _fresh(self, count: int) -> range:
        self._unknown -= count
        return range(self._unknown, self._unknown + count)

    def _fresh_token(self, step: int, request: Request, drafts: int) -> Sequence[int]:
        return self._fresh(1)
