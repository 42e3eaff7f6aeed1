"""What a scheduler did: rows, steps, and the ledger that keeps them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from calc.notebook import Table
from calc.scheduling._requests import Request
from calc.scheduling._ticks import seconds, ticks
from calc.units import format_count, format_seconds

SHOWN = 40  # steps that a notebook prints


class Row(NamedTuple):
    """One sequence in one step.

    Attributes
    ----------
    name : hashable
        Request.
    tokens : int
        Tokens it computes, drafts included.
    computed : int
        Positions it had before: what attention reads from the cache.
    blocks : int
        Blocks it holds once it is scheduled.
    drafts : int
        Draft tokens among `tokens`.
    padded : bool
        Whether these drafts are only padding, to keep all rows of a step equally long.
    hit : int or None
        Positions found in the prefix cache, if it was admitted in this step.
    resumed : bool
        Whether it was admitted again, after a preemption.
    decodes : bool
        Whether it had caught up with its last row, so that only the token sampled since is to compute.
    sampled, appended : int
        Tokens the model produced, and those kept (a response may end among them).
    """

    name: Hashable
    tokens: int
    computed: int
    blocks: int
    drafts: int = 0
    padded: bool = False
    hit: int | None = None
    resumed: bool = False
    decodes: bool = False
    sampled: int = 0
    appended: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the engine.

    Attributes
    ----------
    index : int
        Number of the step.
    rows : tuple of Row
        What was computed, in the order in which it was scheduled.
    preempted, finished : tuple
        Requests that lost their blocks before the step, and those that ended with it.
    running : tuple
        Requests admitted, in order of admission, whether or not they have a row.
    waiting : int
        Requests that still wait.
    free_blocks, free_after : int
        Blocks that nobody holds, before and after the step's finished requests let go of theirs.
    """

    index: int
    rows: tuple[Row, ...]
    preempted: tuple[Hashable, ...]
    finished: tuple[Hashable, ...]
    running: tuple[Hashable, ...]
    waiting: int
    free_blocks: int
    free_after: int

    @property
    def tokens(self) -> int:
        """Tokens computed."""
        return sum(row.tokens for row in self.rows)

    @property
    def decode_sequences(self) -> int:
        """Sequences that had caught up."""
        return sum(row.decodes for row in self.rows)

    @property
    def prefill_tokens(self) -> int:
        """Tokens beyond one for each decoding sequence: of prompts, of recomputation, and drafts."""
        return self.tokens - self.decode_sequences

    @property
    def cached_tokens(self) -> int:
        """Positions that the step's attention reads from the cache."""
        return sum(row.computed for row in self.rows)


@dataclass(frozen=True, slots=True)
class Times:
    """When things happened to each request, in the order in which requests were given.

    Attributes
    ----------
    arrival, admitted, first_token, finished : list of int
        Ticks: arrival, start of the first step with a row, end of the steps that sampled the first and
        the last token.
    preemptions : list of int
        How often it lost its blocks.
    tokens : list of int
        Tokens of its response.

    Notes
    -----
    Two runs that did the same have equal times, to the last tick.
    """

    arrival: list[int]
    admitted: list[int]
    first_token: list[int]
    finished: list[int]
    preemptions: list[int]
    tokens: list[int]

    def wait_s(self) -> list[float]:
        """Seconds from arrival to admission."""
        return _between(self.arrival, self.admitted)

    def ttft_s(self) -> list[float]:
        """Seconds from arrival to the first token."""
        return _between(self.arrival, self.first_token)

    def tpot_s(self) -> list[float]:
        """Mean seconds between the tokens of each response, 0 where it has only one."""
        spans = _between(self.first_token, self.finished)
        return [span / max(count - 1, 1) for span, count in zip(spans, self.tokens, strict=True)]

    def latency_s(self) -> list[float]:
        """Seconds from arrival to the last token."""
        return _between(self.arrival, self.finished)

    def makespan_s(self) -> float:
        """Seconds from the first arrival to the last token."""
        return seconds(max(self.finished) - min(self.arrival))


def _between(start: list[int], end: list[int]) -> list[float]:
    return [seconds(b - a) for a, b in zip(start, end, strict=True)]


@dataclass(frozen=True, slots=True)
class Ledger:
    """Every step of a schedule, with its start and end.

    Attributes
    ----------
    requests : tuple of Request
        What was asked, in the order given.
    steps : tuple of Step
        Steps that computed something or preempted somebody.
    starts, ends : tuple of int
        Ticks at which each step began and ended.
    """

    requests: tuple[Request, ...]
    steps: tuple[Step, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def times(self) -> Times:
        """When things happened to each request."""
        names = [request.name for request in self.requests]
        admitted, first, last = {}, {}, {}
        preemptions, tokens = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
        for step, start, end in zip(self.steps, self.starts, self.ends, strict=True):
            for row in step.rows:
                admitted.setdefault(row.name, start)
                if row.appended:
                    first.setdefault(row.name, end)
                    last[row.name] = end
                    tokens[row.name] += row.appended
            for name in step.preempted:
                preemptions[name] += 1
        arrival = [ticks(request.arrival_s) for request in self.requests]
        columns = [[column[name] for name in names] for column in (admitted, first, last, preemptions, tokens)]
        return Times(arrival, *columns)

    def token_times_s(self) -> dict[Hashable, list[float]]:
        """For each request, the time of every token of its response."""
        times: dict[Hashable, list[float]] = {request.name: [] for request in self.requests}
        for step, end in zip(self.steps, self.ends, strict=True):
            for row in step.rows:
                times[row.name] += [seconds(end)] * row.appended
        return times

    def idle_slots(self, slots: int) -> int:
        """Places times steps that held no row, out of that many places in each step."""
        return sum(slots - len(step.rows) for step in self.steps)

    def _repr_html_(self) -> str:
        columns = ("Step", "Start", "Takes", "Tokens of each request", "Wait", "Free blocks")
        rows = []
        for step, start, end in zip(self.steps[:SHOWN], self.starts, self.ends, strict=False):
            scheduled = ", ".join(f"{row.name}: {format_count(row.tokens)}" for row in step.rows)
            times = format_seconds(seconds(start)), format_seconds(seconds(end - start))
            counts = format_count(step.waiting), format_count(step.free_blocks)
            rows.append((str(step.index), *times, scheduled or "none, only preempts", *counts))
        more = f"; {len(self.steps) - SHOWN:,} more follow" if len(self.steps) > SHOWN else ""
        return Table(columns, rows, f"{len(self.steps):,} steps{more}")._repr_html_()
