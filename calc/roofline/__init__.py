"""Arithmetic, bytes and the least time they take: a floor under every step, never a forecast.

`_machine` holds a chip's balance and the floor of some work, `_steps` floors of decode steps and where they cross,
`_attention` attention's arithmetic, `_recurrent` that of states and indexers, `_spread` what ranks and experts add: one
function for each formula. `_layers` applies them to a model's layers, `_work` counts a step on one rank by tensor
group, `_floor` sets it against a chip.
`_check` says how floors fared against measured kernels. `_panel` is the live panel of the chapter.
"""

from calc.roofline._attention import (
    chunk_positions_read,
    compressed_positions_read,
    decode_flop,
    decode_intensity,
    expansion_flop,
    latent_decode_flop,
    latent_decode_intensity,
    positions_read,
    prefill_attention_flop,
    window_positions_read,
)
from calc.roofline._check import Band, KernelCheck, kernel_check, kernel_checks, last_level_cache_bytes
from calc.roofline._floor import (
    GroupFloor,
    StepFloor,
    decode_crossover,
    decode_floor,
    never_crosses,
    prefill_floor,
    step_floor,
)
from calc.roofline._layers import (
    attention_of,
    flop_of,
    intensity_of,
    pairs_of,
    prefill_flop,
    share_touched,
)
from calc.roofline._machine import (
    attainable_rate,
    compute_share,
    floor_seconds,
    intensity,
    machine_balance,
    matmul_flop,
    multiply_seconds,
    overlapped_seconds,
    read_seconds,
)
from calc.roofline._panel import roofline_panel
from calc.roofline._recurrent import delta_flop, index_flop, index_of, recurrent_of, scan_flop
from calc.roofline._spread import (
    all_reduce_seconds,
    break_even_all_reduce,
    experts_touched,
    message_bytes,
    ring_bytes,
)
from calc.roofline._steps import (
    apart_floor,
    crossing_sequences,
    crossover_tokens,
    longest_crossing,
    token_floor,
)
from calc.roofline._work import GroupWork, StepWork, step_work

__all__ = [
    "Band",
    "GroupFloor",
    "GroupWork",
    "KernelCheck",
    "StepFloor",
    "StepWork",
    "all_reduce_seconds",
    "apart_floor",
    "attainable_rate",
    "attention_of",
    "chunk_positions_read",
    "compressed_positions_read",
    "break_even_all_reduce",
    "compute_share",
    "crossing_sequences",
    "crossover_tokens",
    "decode_crossover",
    "decode_flop",
    "decode_floor",
    "decode_intensity",
    "delta_flop",
    "expansion_flop",
    "experts_touched",
    "floor_seconds",
    "flop_of",
    "index_flop",
    "index_of",
    "intensity",
    "intensity_of",
    "kernel_check",
    "kernel_checks",
    "last_level_cache_bytes",
    "latent_decode_flop",
    "latent_decode_intensity",
    "longest_crossing",
    "machine_balance",
    "matmul_flop",
    "message_bytes",
    "multiply_seconds",
    "never_crosses",
    "overlapped_seconds",
    "pairs_of",
    "positions_read",
    "prefill_attention_flop",
    "prefill_flop",
    "prefill_floor",
    "read_seconds",
    "recurrent_of",
    "ring_bytes",
    "roofline_panel",
    "scan_flop",
    "share_touched",
    "step_floor",
    "step_work",
    "token_floor",
    "window_positions_read",
]
