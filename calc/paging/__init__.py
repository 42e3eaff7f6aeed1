"""Paged cache: blocks of a fixed size, a table for each sequence, and a cache of shared prefixes.

`_formulas` holds the arithmetic: hits, waste and addresses. `_keys` names a block by everything before
it. `_pool` owns the physical blocks: who holds them, which are free, which still hold a known prefix.
`_table` maps one sequence's positions to blocks, shares them and copies before it writes. `_panel` is the
live panel of the chapter.
"""

from calc.paging._formulas import (
    LayerPages,
    block_offset,
    byte_address,
    fork_saving,
    hit_positions,
    logical_block,
    reservation_utilization,
    sharing_saving,
    slot,
    table_utilization,
    unused_positions,
)
from calc.paging._keys import Medium, block_keys, extend_keys
from calc.paging._panel import paging_panel
from calc.paging._pool import NULL_BLOCK, BlockPool, OutOfBlocks, PagingError
from calc.paging._table import BlockTable, Copy, Place

__all__ = [
    "NULL_BLOCK",
    "BlockPool",
    "BlockTable",
    "Copy",
    "LayerPages",
    "Medium",
    "OutOfBlocks",
    "PagingError",
    "Place",
    "block_keys",
    "block_offset",
    "byte_address",
    "extend_keys",
    "fork_saving",
    "hit_positions",
    "logical_block",
    "paging_panel",
    "reservation_utilization",
    "sharing_saving",
    "slot",
    "table_utilization",
    "unused_positions",
]
