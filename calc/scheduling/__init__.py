"""Schedules as ledgers of steps: static batches, continuous batching, chunked prefill.

`_requests` holds what a scheduler is given, `_core` the scheduler, `_ledger` what it did. `_clock` says how
long a step takes, `_run` puts a workload in time step by step, `_leap` does the same without going through
the steps, and `_simulate` chooses between the two.
"""

from calc.scheduling._clock import Affine, Largest, StepTime, Table
from calc.scheduling._core import Scheduler
from calc.scheduling._ledger import Ledger, Row, Step, Times
from calc.scheduling._requests import Request, SchedulerConfig, SchedulingError
from calc.scheduling._run import run, run_static
from calc.scheduling._simulate import simulate

__all__ = [
    "Affine",
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
    "run",
    "run_static",
    "simulate",
]
