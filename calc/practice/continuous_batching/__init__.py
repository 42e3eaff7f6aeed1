"""Practice problems of the chapter on continuous batching."""

from calc.practice.continuous_batching._gains import expected, most_gain, seconds
from calc.practice.continuous_batching._load import burst, overtime, pool, shared_server
from calc.practice.continuous_batching._walk import continuous_steps, full_step, idle_share, join, static_steps

PROBLEMS = (  # easy to hard
    static_steps,
    continuous_steps,
    full_step,
    idle_share,
    most_gain,
    burst,
    join,
    pool,
    overtime,
    expected,
    seconds,
    shared_server,
)
