"""A GPU's cache budget: what is left on each rank, the rank that limits, and whom to admit.

`_formulas` holds the arithmetic, `_pool` how what the weights leave becomes blocks, `_plan` the budget of
every rank. `_engines` says what each engine means by its memory setting. `_log` reads a start-up log, `_reconcile`
holds it against all this, its cache with `_cache_check` and a failed start with `_failed_check`. `_admission`
compares admitting by what requests hold with admitting by what they may need. `_panel` is the live panel of the
chapter.
"""

from calc.capacity._admission import Arrival, Promises, Served, serve
from calc.capacity._engines import MemorySetting, engine_pool_bytes, engine_pool_formula, engines, memory_setting
from calc.capacity._formulas import (
    chunk_request_blocks,
    concurrency,
    hybrid_block_tokens,
    pool_blocks,
    pool_bytes,
    printed_tokens,
    remainder_pool_bytes,
    static_pool_bytes,
    stranded_bytes,
    tensor_bytes,
    usable_bytes,
    useful_rate,
    window_request_blocks,
)
from calc.capacity._log import Fact, StartupLog, read_log
from calc.capacity._panel import capacity_panel
from calc.capacity._plan import NoRoom, Plan, RankBudget, plan
from calc.capacity._pool import Group, Pool, Printed, pool, printed
from calc.capacity._reconcile import Check, Reconciliation, log_element, reconcile, stated_cut

__all__ = [
    "Arrival",
    "Check",
    "Fact",
    "Group",
    "MemorySetting",
    "NoRoom",
    "Plan",
    "Pool",
    "Printed",
    "Promises",
    "RankBudget",
    "Reconciliation",
    "Served",
    "StartupLog",
    "capacity_panel",
    "chunk_request_blocks",
    "concurrency",
    "engine_pool_bytes",
    "engine_pool_formula",
    "engines",
    "hybrid_block_tokens",
    "log_element",
    "memory_setting",
    "plan",
    "pool",
    "pool_blocks",
    "pool_bytes",
    "printed",
    "printed_tokens",
    "read_log",
    "reconcile",
    "remainder_pool_bytes",
    "serve",
    "stated_cut",
    "static_pool_bytes",
    "stranded_bytes",
    "tensor_bytes",
    "usable_bytes",
    "useful_rate",
    "window_request_blocks",
]
