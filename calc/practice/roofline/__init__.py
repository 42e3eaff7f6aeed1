"""Practice problems of the roofline chapter."""

from calc.practice.roofline._design import explain_a_slow_step
from calc.practice.roofline._phases import balance, crossing, decode_floor, long_context, prefill_floor, prefill_ratio
from calc.practice.roofline._spread import experts, ring, split_pays

PROBLEMS = (  # easy to hard
    balance,
    decode_floor,
    ring,
    prefill_floor,
    crossing,
    experts,
    prefill_ratio,
    long_context,
    split_pays,
    explain_a_slow_step,
)
