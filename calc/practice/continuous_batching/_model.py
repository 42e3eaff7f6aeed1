"""What the problems share: the chapter's steps, and small queues."""

from __future__ import annotations

from collections.abc import Sequence

# The chapter's steps that the problems return to.
WALK, LEDGER, WAITING, BOUND, EXPECTED, ARRIVALS, LIMITS = (f"continuous_batching#step-{n}" for n in range(1, 8))

QUEUES = (  # lengths of responses, in order of arrival
    (4, 9, 2, 7, 5),
    (8, 3, 3, 6),
    (2, 10, 4, 4, 3, 7),
    (12, 5, 1, 6, 9),
    (3, 3, 11, 2, 5, 8),
    (6, 1, 7, 9, 2),
    (5, 12, 3, 8, 4, 1),
)


def named(lengths: Sequence[int]) -> str:
    """Responses in words: "A 4, B 9 and C 2"."""
    *first, last = (f"{chr(ord('A') + i)} {length}" for i, length in enumerate(lengths))
    return f"{', '.join(first)} and {last}"


def listed(lengths: Sequence[int]) -> str:
    """A sum of lengths: "4 + 9 + 2"."""
    return " + ".join(map(str, lengths))
