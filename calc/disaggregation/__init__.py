"""A phase handoff, and the same GPUs as two pools or as one.

`_formulas` holds the arithmetic of the handoff, of the ratio and of what is counted. `_pooling` is the small case that
is solved exactly: two servers, two kinds of jobs. `_fleet` runs requests with real lengths through a combined pool and
through a split one. `_race` searches the budget of the first and the ratio of the second, and finds the load at which
they are level. `_panel` is the live panel of the chapter.
"""

from calc.disaggregation._fleet import (
    Handoff,
    Mixed,
    Outcome,
    Worker,
    simulate_pool,
    simulate_split,
    worker,
)
from calc.disaggregation._formulas import (
    apart_over_pooled,
    both_seconds,
    break_even_rate,
    descriptors,
    effective_rate,
    exposed_seconds,
    fragment_bytes,
    handed_first_token,
    link_requests,
    overlap_share,
    prefill_per_decode,
    qualified_per_gpu_hour,
    transfer_seconds,
)
from calc.disaggregation._panel import disaggregation_panel
from calc.disaggregation._pooling import TwoKinds, equally_loaded, two_server_wait
from calc.disaggregation._race import Comparison, at_rate, compare, level_at, level_between, verdict

__all__ = [
    "Comparison",
    "Handoff",
    "Mixed",
    "Outcome",
    "TwoKinds",
    "Worker",
    "apart_over_pooled",
    "at_rate",
    "both_seconds",
    "break_even_rate",
    "compare",
    "descriptors",
    "disaggregation_panel",
    "effective_rate",
    "equally_loaded",
    "exposed_seconds",
    "fragment_bytes",
    "handed_first_token",
    "level_at",
    "level_between",
    "link_requests",
    "overlap_share",
    "prefill_per_decode",
    "qualified_per_gpu_hour",
    "simulate_pool",
    "simulate_split",
    "transfer_seconds",
    "two_server_wait",
    "verdict",
    "worker",
]
