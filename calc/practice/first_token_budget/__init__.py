"""Practice problems of the chapter on a first-token budget."""

from calc.practice.first_token_budget._design import smallest
from calc.practice.first_token_budget._parts import fits, slow_part, two_parts, unattributed, warm
from calc.practice.first_token_budget._queues import (
    alike,
    backlog,
    in_line,
    keep_up,
    pooled,
    queue_room,
    varying,
)

PROBLEMS = (  # easy to hard
    unattributed,
    keep_up,
    in_line,
    slow_part,
    fits,
    warm,
    alike,
    varying,
    backlog,
    two_parts,
    queue_room,
    pooled,
    smallest,
)
