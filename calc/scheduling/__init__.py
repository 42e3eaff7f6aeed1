"""Schedules as ledgers of steps: static batches, continuous batching, chunked prefill.

`_requests` holds what a scheduler is given, `_core` the scheduler, `_ledger` what it did. `_clock` says how
long a step takes, `_run` puts a workload in time step by step, `_leap` does the same without going through
the steps, and `_simulate` chooses between the two. `_trace` takes requests from `calc.workload`.
"""

from calc.scheduling._clock import Affine, Largest, StepTime, Table
from calc.scheduling._core import Scheduler
from calc.scheduling._ledger import Ledger, Row, Step, Times
from calc.scheduling._requests import Request, SchedulerConfig, SchedulingError
from calc.scheduling._run import run, run_closed, run_static
from calc.scheduling._simulate import simulate
from calc.scheduling._trace import HashedPrompt, from_trace

__all__ = [
    "Affine",
    "HashedPrompt",
    "Largest",
    "Ledger",
    "Request",
    "Row",
    "Scheduler",
    "SchedulerConfig",
    "SchedulingError",
    "Step",
    "StepTime",
    "Table",
    "Times",
    "from_trace",
    "run",
    "run_closed",
    "run_static",
    "simulate",
]
