"""Practice problems of the chapter on latency and goodput."""

from calc.practice.latency_and_goodput._counts import attained, few, good_ones, left_over
from calc.practice.latency_and_goodput._loops import due_clock, frozen, in_decode, in_system, promise
from calc.practice.latency_and_goodput._timestamps import bundles, first_wait, hidden_pause, pace

PROBLEMS = (  # easy to hard
    first_wait,
    pace,
    attained,
    in_system,
    good_ones,
    bundles,
    left_over,
    few,
    hidden_pause,
    in_decode,
    due_clock,
    frozen,
    promise,
)
