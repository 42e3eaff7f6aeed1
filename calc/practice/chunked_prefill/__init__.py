"""Practice problems of the chapter on chunked prefill."""

from calc.practice.chunked_prefill._cuts import finish_on_the_way, last, room, steps
from calc.practice.chunked_prefill._reads import arithmetic, bytes_again, positions_again, weights_again
from calc.practice.chunked_prefill._times import balance, budget_for_gap, choose_budget, how_often, longer, seen

PROBLEMS = (  # easy to hard
    room,
    steps,
    last,
    longer,
    positions_again,
    bytes_again,
    arithmetic,
    balance,
    finish_on_the_way,
    weights_again,
    seen,
    how_often,
    budget_for_gap,
    choose_budget,
)
