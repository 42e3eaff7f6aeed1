"""Practice problems of the chapter on slow tails."""

from calc.practice.tail_latency._clocks import dark, offset, run_length, slack
from calc.practice.tail_latency._counts import chance, elsewhere, plan
from calc.practice.tail_latency._tails import allowed, behind_step, bucket, fan_out, mean_falls, turn

PROBLEMS = (  # easy to hard
    offset,
    slack,
    dark,
    fan_out,
    mean_falls,
    bucket,
    allowed,
    run_length,
    behind_step,
    elsewhere,
    turn,
    chance,
    plan,
)
