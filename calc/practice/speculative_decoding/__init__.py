"""Practice problems of the chapter on speculative decoding."""

from calc.practice.speculative_decoding._logs import conditional, counters, printed_rate, with_its_own_token
from calc.practice.speculative_decoding._position import correction, keep, shared
from calc.practice.speculative_decoding._speed import break_even, from_a_benchmark, how_many, policy, speedup, tokens

PROBLEMS = (  # easy to hard
    keep,
    tokens,
    counters,
    shared,
    speedup,
    printed_rate,
    from_a_benchmark,
    correction,
    conditional,
    break_even,
    with_its_own_token,
    how_many,
    policy,
)
