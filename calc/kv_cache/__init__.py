"""Cache bytes: what one position leaves behind, per layer kind, per sequence and per rank.

`_formulas` holds the arithmetic, one function each. `_kinds` says what each kind of layer keeps on one rank.
`_layout` applies both to a model: a sequence in the two conventions engines use, and what a request holds now
against what it will still need. `_panel` is the live panel of the chapter.
"""

from calc.kv_cache._formulas import (
    block_bytes,
    blocks,
    bytes_per_position,
    compressed_bytes_per_position,
    compressor_bytes_per_position,
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
from calc.kv_cache._kinds import (
    ELEMENTS,
    ON_RANK,
    Element,
    KindBytes,
    caches_of,
    element_of,
    formula_of,
    has_index,
    in_words,
    index_bytes,
    rank_working,
    state_bytes,
)
from calc.kv_cache._layout import (
    CacheLayout,
    growth,
    layout,
    present_bytes,
    resident_bytes,
    room_to_finish_bytes,
    uniform_page_bytes,
)
from calc.kv_cache._panel import (
    cache_panel,
)

__all__ = [
    "ELEMENTS",
    "ON_RANK",
    "CacheLayout",
    "Element",
    "KindBytes",
    "block_bytes",
    "blocks",
    "bytes_per_position",
    "cache_panel",
    "caches_of",
    "compressed_bytes_per_position",
    "compressor_bytes_per_position",
    "element_of",
    "formula_of",
    "growth",
    "has_index",
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
    "rank_working",
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
