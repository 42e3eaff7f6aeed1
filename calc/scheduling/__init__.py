"""Schedules as ledgers of steps: continuous batching as an engine does it.

`_requests` holds what a scheduler is given, `_core` the scheduler, `_ledger` what it did.
"""

from calc.scheduling._core import Scheduler
from calc.scheduling._ledger import Row, Step
from calc.scheduling._requests import Request, SchedulerConfig, SchedulingError

__all__ = ["Request", "Row", "Scheduler", "SchedulerConfig", "SchedulingError", "Step"]
