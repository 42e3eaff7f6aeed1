"""Low-rank adapters on one base model: what they store, what an engine reserves, what a step and a miss cost.

`_formulas` holds the arithmetic, one function each. `_sites` knows a model's matrices, `_adapter` an
adapter by its settings, `_slots` what an engine sets aside, `_traffic` which adapters requests ask for.
`_files` reads a stored adapter. `_panel` is the live panel of the chapter.
"""

from calc.adapters._adapter import ELEMENTS, Adapter, adapter
from calc.adapters._files import AdapterError, AdapterFile, Header, Tensor, read_adapter, read_header
from calc.adapters._formulas import (
    file_bytes,
    grouped_bytes,
    move_seconds,
    pair_parameters,
    reserved_bytes,
    step_bytes,
    step_flop,
    stored_bytes,
)
from calc.adapters._panel import multi_lora_panel
from calc.adapters._sites import EMBEDDINGS, GROUPS, Site, sites, target_group, target_names, tensor_group
from calc.adapters._slots import Reservation, buffered, reserve, slot_rank, slot_ranks
from calc.adapters._traffic import (
    admitted,
    characteristic_time,
    exact_hit_ratio,
    expected_distinct,
    expected_running,
    expected_running_by_slots,
    hit_ratio,
    pinned_hit_ratio,
    simulated_hit_ratio,
    zipf,
)

__all__ = [
    "ELEMENTS",
    "EMBEDDINGS",
    "GROUPS",
    "Adapter",
    "AdapterError",
    "AdapterFile",
    "Header",
    "Reservation",
    "Site",
    "Tensor",
    "adapter",
    "admitted",
    "buffered",
    "characteristic_time",
    "exact_hit_ratio",
    "expected_distinct",
    "expected_running",
    "expected_running_by_slots",
    "file_bytes",
    "grouped_bytes",
    "hit_ratio",
    "move_seconds",
    "multi_lora_panel",
    "pair_parameters",
    "pinned_hit_ratio",
    "read_adapter",
    "read_header",
    "reserve",
    "reserved_bytes",
    "simulated_hit_ratio",
    "sites",
    "slot_rank",
    "slot_ranks",
    "step_bytes",
    "step_flop",
    "stored_bytes",
    "target_group",
    "target_names",
    "tensor_group",
    "zipf",
]
