"""What the problems share: the chapter's steps, and times as text."""

from __future__ import annotations

from calc.units import format_seconds

# The chapter's steps that the problems return to.
FEW, CLOCKS, SEGMENTS, COHORT, BLOCKED, CHANCE, EXPORTS = (f"tail_latency#step-{n}" for n in range(2, 9))
MS = 1e-3


def ms(value: float) -> str:
    """Milliseconds as text."""
    return f"{value:,g} ms"


def so(seconds: float) -> str:
    """The last line of a solution: the answer as the book writes it."""
    return f"That is {format_seconds(seconds)}."
