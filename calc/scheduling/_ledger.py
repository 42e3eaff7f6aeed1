"""What a scheduler did: rows, steps, and the ledger that keeps them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Row:
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
        Whether it had caught up: one token to compute, and a response already begun.
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

    def answered(self, sampled: int, appended: int) -> Row:
        """The same row after the model's answer."""
        return replace(self, sampled=sampled, appended=appended)


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
