"""Cache bytes: what one position leaves behind, per layer kind, per sequence and per rank.

`_formulas` holds the arithmetic, one function each. `_layout` applies it to a model: what each kind of
layer keeps on one rank, a sequence in the two conventions engines use, and what a request holds now
against what it will still need. `_panel` is the live panel of the chapter.
"""

from calc.kv_cache._formulas import (
    block_bytes,
    blocks,
    bytes_per_position,
    index_bytes_per_position,
    kv_heads_per_rank,
    latent_bytes_per_position,
    mixed_latent_bytes_per_position,
    positions_that_fit,
    positions_written,
    resident_positions,
    room_bytes,
    scaled_element_bytes,
    sequence_bytes,
    sequences_that_fit,
    unequal_bytes_per_position,
)
from calc.kv_cache._layout import (
    ELEMENTS,
    CacheLayout,
    Element,
    KindBytes,
    element_of,
    formula_of,
    growth,
    in_words,
    index_bytes,
    layout,
    present_bytes,
    resident_bytes,
    room_to_finish_bytes,
    state_bytes,
    uniform_page_bytes,
)
from calc.kv_cache._panel import (
    cache_panel,
)

__all__ = [
    "ELEMENTS",
    "CacheLayout",
    "Element",
    "KindBytes",
    "block_bytes",
    "blocks",
    "bytes_per_position",
    "cache_panel",
    "element_of",
    "formula_of",
    "growth",
    "in_words",
    "index_bytes",
    "index_bytes_per_position",
    "kv_heads_per_rank",
    "latent_bytes_per_position",
    "layout",
    "mixed_latent_bytes_per_position",
    "positions_that_fit",
    "positions_written",
    "present_bytes",
    "resident_bytes",
    "resident_positions",
    "room_bytes",
    "room_to_finish_bytes",
    "scaled_element_bytes",
    "sequence_bytes",
    "sequences_that_fit",
    "state_bytes",
    "unequal_bytes_per_position",
    "uniform_page_bytes",
]
