"""Admission: a rule that leaves every admitted request room to finish, and a run that shows what it is worth."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from calc import kv_cache
from calc.units import CalcError


class Engine(Protocol):
    """What `serve` needs of a scheduler; `calc.scheduling.Scheduler` is one."""

    pool: Any  # with `usable`, the blocks that requests can hold

    @property
    def idle(self) -> bool:
        """Whether nothing runs or waits."""

    def add(self, request: Any) -> None:
        """Queue a request."""

    def step(self) -> Any:
        """Schedule one step and say what happened."""


class Promises:
    """The admission rule: every admitted request is promised the blocks of its longest possible end.

    Parameters
    ----------
    blocks : int
        Blocks that requests can hold.
    block_tokens : int
        Positions in a block.

    Attributes
    ----------
    promised : int
        Blocks promised to the requests that are in.

    Notes
    -----
    As long as the promises fit, no request ever waits for a block, and none is preempted. The price is the
    part of the promises that isn't used yet, or never will be: a response may stop early. Blocks shared
    between requests are promised to each.

    References
    ----------
    TensorRT-LLM's ``GUARANTEED_NO_EVICT`` is this rule; Text Generation Inference allocates the blocks of
    prompt and ``max_new_tokens`` at once (``backends/v3/src/queue.rs``).

    Examples
    --------
    >>> rule = Promises(100, block_tokens=16)
    >>> rule.admit("a", prompt=1000, limit=200), rule.admit("b", prompt=1000, limit=200), rule.promised
    (True, False, 75)
    >>> rule.release("a")
    >>> rule.promised
    0
    """

    def __init__(self, blocks: int, *, block_tokens: int) -> None:
        for name, value in (("blocks", blocks), ("block_tokens", block_tokens)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise CalcError(f"Promises: {name} is {value!r:.40}, wanted a whole number of at least 1")
        self.blocks, self.block_tokens, self.promised = blocks, block_tokens, 0
        self._held: dict[Hashable, int] = {}

    def end_blocks(self, *, prompt: int, limit: int) -> int:
        """Blocks that a request holds at its longest possible end."""
        end = kv_cache.positions_written(prompt=prompt, generated=limit)
        return kv_cache.blocks(positions=end, block_tokens=self.block_tokens)

    def admit(self, name: Hashable, *, prompt: int, limit: int) -> bool:
        """Promise a request its blocks, if they are there.

        Raises
        ------
        CalcError
            If the request could never be admitted, or is in already.
        """
        needed = self.end_blocks(prompt=prompt, limit=limit)
        if needed > self.blocks:
            raise CalcError(f"request {name!r:.40} may need {needed} blocks, the pool has {self.blocks}: it never fits")
        if name in self._held:
            raise CalcError(f"request {name!r:.40} is in already")
        if self.promised + needed > self.blocks:
            return False
        self._held[name] = needed
        self.promised += needed
        return True

    def release(self, name: Hashable) -> None:
        """Take a finished request's promise back."""
        self.promised -= self._held.pop(name)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request on its way.

    Attributes
    ----------
    step : int
        When it arrives, counted in engine steps.
    request : object
        What the engine takes, with a `name` and `prompt_tokens`.
    limit : int
        Longest response that it may ask for: all that a rule can know.
    """

    step: int
    request: Any
    limit: int


@dataclass(slots=True)
class Served:
    """What became of the arrivals.

    Attributes
    ----------
    steps : int
        Engine steps until the last request finished.
    preemptions : int
        Times a request lost its blocks.
    computed, recomputed : int
        Tokens computed, and those of them that had been computed before.
    held : list of int
        Blocks in use, step by step.
    running, waiting : list of int
        Requests with blocks, and those that have arrived and have none, step by step.
    preempted : list of int
        Requests preempted, step by step.
    finished : dict
        Name of a request → step in which it finished.
    first : dict
        Name of a request → step that sampled its first token.
    stalls : dict
        Name of a request → most steps between two of its tokens; 1 where none came late.
    """

    steps: int = 0
    preemptions: int = 0
    computed: int = 0
    recomputed: int = 0
    held: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    preempted: list[int] = field(default_factory=list)
    finished: dict[Hashable, int] = field(default_factory=dict)
    first: dict[Hashable, int] = field(default_factory=dict)
    stalls: dict[Hashable, int] = field(default_factory=dict)

    @property
    def wasted(self) -> float:
        """Share of the computed tokens that had been computed before."""
        return self.recomputed / self.computed if self.computed else 0.0

    @property
    def peak(self) -> int:
        """Most blocks in use at once."""
        return max(self.held, default=0)


def serve(engine: Engine, arrivals: Iterable[Arrival], *, rule: Promises | None = None) -> Served:
    """Run arrivals through an engine, with or without an admission rule in front of it.

    Without a rule a request goes to the engine when it arrives. With one it waits outside until its promise
    fits, and nobody overtakes it.

    Parameters
    ----------
    engine : Engine
        A fresh scheduler.
    arrivals : iterable of Arrival
        In order of arrival.
    rule : Promises, optional
        For the blocks that the engine's requests can hold.

    Returns
    -------
    Served

    Raises
    ------
    CalcError
        If a request can never fit.

    Notes
    -----
    Deterministic, and without a clock: it counts steps, blocks and tokens. How long a step takes is another
    question.
    """
    queue, outside, run = list(arrivals), [], _Run(Served())
    turn = 0
    while turn < len(queue) or outside or not engine.idle:
        while turn < len(queue) and queue[turn].step <= run.served.steps:
            outside.append(queue[turn])
            turn += 1
        while outside and (
            rule is None
            or rule.admit(outside[0].request.name, prompt=outside[0].request.prompt_tokens, limit=outside[0].limit)
        ):
            engine.add(outside.pop(0).request)
        step = engine.step()
        run.record(step, held=engine.pool.usable - step.free_blocks, outside=len(outside))
        for name in step.finished if rule else ():
            rule.release(name)
    return run.served


class _Run:
    """What must be remembered while arrivals are served."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self._reached: dict[Hashable, int] = {}  # positions computed so far, by request
        self._sampled: dict[Hashable, int] = {}  # step of its last token

    def record(self, step: Any, *, held: int, outside: int) -> None:
        served, now = self.served, self.served.steps
        for row in step.rows:
            reached, end = self._reached.get(row.name, 0), row.computed + row.tokens
            served.recomputed += max(0, min(end, reached) - row.computed)
            served.computed += row.tokens
            self._reached[row.name] = max(end, reached)
            if row.appended:
                served.first.setdefault(row.name, now)
                gap = now - self._sampled.get(row.name, now - 1)
                served.stalls[row.name] = max(gap, served.stalls.get(row.name, 1))
                self._sampled[row.name] = now
        served.preemptions += len(step.preempted)
        served.preempted.append(len(step.preempted))
        served.held.append(held)
        served.running.append(len(step.running))
        served.waiting.append(step.waiting + outside)
        served.finished |= dict.fromkeys(step.finished, now)
        served.steps += 1
