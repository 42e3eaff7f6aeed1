"""Schedules as ledgers of steps: static batches, continuous batching, chunked prefill.

`_requests` holds what a scheduler is given, `_core` the scheduler, `_ledger` what it did. `_clock` says how
long a step takes, `_run` puts a workload in time step by step, `_leap` does the same without going through
the steps, and `_simulate` chooses between the two. `_trace` takes requests from `calc.workload`. `_batching`
and `_compare` hold static batches beside continuous ones.
"""

from calc.scheduling._batching import (
    burst_wait,
    expected_gain,
    expected_longest,
    expected_longest_exponential,
    expected_longest_geometric,
    idle_slot_steps,
    largest_gain,
    length_at,
    occupancy,
    schedule_seconds,
)
from calc.scheduling._batching_panel import LENGTHS, batching_panel, output_lengths
from calc.scheduling._choice import Choice, Setting, choose, undominated
from calc.scheduling._chunk_panel import chunk_panel, prompt_floors
from calc.scheduling._chunks import (
    chunk,
    chunks,
    last_chunk,
    prompt_per_output,
    reloaded_bytes,
    reread_bytes,
    reread_positions,
)
from calc.scheduling._clock import Affine, Largest, StepTime, Table
from calc.scheduling._compare import continuous_steps, only_places, seats, simulate_static, static_steps
from calc.scheduling._core import Scheduler
from calc.scheduling._iterations import (
    Iteration,
    Log,
    Quadratic,
    Sample,
    fit_affine,
    fit_quadratic,
    read_iterations,
    step_samples,
)
from calc.scheduling._ledger import Ledger, Row, Step, Times
from calc.scheduling._pauses import added_token, stall_rate, stalled_share, step_base, token_share, token_slope
from calc.scheduling._requests import Request, SchedulerConfig, SchedulingError
from calc.scheduling._run import run, run_closed, run_static
from calc.scheduling._simulate import simulate
from calc.scheduling._trace import HashedPrompt, from_trace

__all__ = [
    "Affine",
    "Choice",
    "HashedPrompt",
    "Iteration",
    "LENGTHS",
    "Largest",
    "Ledger",
    "Log",
    "Quadratic",
    "Request",
    "Row",
    "Sample",
    "Scheduler",
    "SchedulerConfig",
    "SchedulingError",
    "Setting",
    "Step",
    "StepTime",
    "Table",
    "Times",
    "added_token",
    "batching_panel",
    "burst_wait",
    "choose",
    "chunk",
    "chunk_panel",
    "chunks",
    "continuous_steps",
    "expected_gain",
    "expected_longest",
    "expected_longest_exponential",
    "expected_longest_geometric",
    "fit_affine",
    "fit_quadratic",
    "from_trace",
    "idle_slot_steps",
    "largest_gain",
    "last_chunk",
    "length_at",
    "occupancy",
    "only_places",
    "output_lengths",
    "prompt_floors",
    "prompt_per_output",
    "read_iterations",
    "reloaded_bytes",
    "reread_bytes",
    "reread_positions",
    "run",
    "run_closed",
    "run_static",
    "schedule_seconds",
    "seats",
    "simulate",
    "simulate_static",
    "stall_rate",
    "stalled_share",
    "static_steps",
    "step_base",
    "step_samples",
    "token_share",
    "token_slope",
    "undominated",
]
