"""The live panel of the chapter on paged attention."""

from __future__ import annotations

from calc.kv_cache import block_bytes, blocks, layout, sequences_that_fit
from calc.models import load
from calc.paging._formulas import (
    block_offset,
    hit_positions,
    logical_block,
    reservation_utilization,
    table_utilization,
    unused_positions,
)
from calc.panel import Panel, Row
from calc.units import UNITS, CalcError, counted, format_bytes, format_count, format_percent, plain, significant
from calc.working import working

DRAFTERS = {"none or n-gram": 0, "EAGLE or MTP": 1}  # blocks that a drafter gives up


def paging_panel(
    *,
    model: str,
    element: str,
    ranks: int,
    pool_gib: float,
    block_tokens: int,
    positions: int,
    reserved: int,
    drafter: str,
) -> Panel:
    """Panel of the chapter on paged attention: where a position lies, what fits, what is found again.

    Parameters
    ----------
    model : str
        A slug of the catalogue.
    element : str
        A key of `calc.kv_cache.ELEMENTS`.
    ranks : int
        Tensor-parallel ranks.
    pool_gib : float
        Memory given to the cache on each rank, in GiB.
    block_tokens : int
        Positions in a block.
    positions : int
        Positions that the sequence has written; also the length of a prompt that comes again.
    reserved : int
        Positions that a contiguous reservation sets aside for it.
    drafter : str
        A key of `DRAFTERS`.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If the inputs are impossible together.
    """
    positions = plain("paging_panel", "positions", positions, "count>0")
    reserved = plain("paging_panel", "reserved", reserved, "count>0")
    block_tokens = plain("paging_panel", "block_tokens", block_tokens, "count>0")
    if drafter not in DRAFTERS:
        raise CalcError(f"drafter is {drafter!r:.60}: use one of {', '.join(DRAFTERS)}")
    if reserved < positions:
        raise CalcError(f"{format_count(positions)} positions don't fit in a reservation of {reserved:,}: raise it")
    each = layout(load(model), element=element, ranks=ranks).bytes_per_position
    pool = plain("paging_panel", "pool_gib", pool_gib, ">0") * UNITS["GiB"].factor
    block = block_bytes(bytes_per_position=each, block_tokens=block_tokens)
    held = blocks(positions=positions, block_tokens=block_tokens)
    paged = sequences_that_fit(memory_bytes=pool, sequence_bytes=held * block)
    whole = sequences_that_fit(memory_bytes=pool, sequence_bytes=reserved * each)
    asked = {"prompt": positions, "block_tokens": block_tokens, "dropped_blocks": DRAFTERS[drafter]}
    found = hit_positions(**asked)
    newest = {"position": positions - 1, "block_tokens": block_tokens}
    entry = logical_block(**newest)
    place = block_offset(**newest, logical_block=entry)
    share = table_utilization(positions=positions, block_tokens=block_tokens)
    alone = reservation_utilization(positions=positions, reserved=reserved)
    rows = (
        Row("One block on a rank, all layers", format_bytes(block)),
        Row("The newest position", f"entry {format_count(entry)} of the table, place {format_count(place)}"),
        Row("Blocks held", format_count(held)),
        Row("Empty in the last block", counted(unused_positions(**_length(positions, block_tokens)), "position")),
        Row("Written share, blocks against reservation", f"{format_percent(share)} against {format_percent(alone)}"),
        Row(
            "Sequences that fit, blocks against reservations",
            f"{format_count(paged)} against {format_count(whole)}",
            keep=True,
        ),
        Row("Found if the same prompt comes again", counted(found, "position"), keep=True),
        Row("Computed again", counted(positions - found, "position")),
    )
    lines = (
        working(logical_block, **newest),
        working(block_offset, **newest, logical_block=entry),
        working(blocks, **_length(positions, block_tokens)),
        working(hit_positions, **asked),
    )
    return Panel(rows, tuple(line.text for line in lines), _meaning(paged, whole, found), _LEFT_OUT)


def _length(positions: int, block_tokens: int) -> dict[str, int]:
    return {"positions": positions, "block_tokens": block_tokens}


def _meaning(paged: int, whole: int, found: int) -> str:
    if not paged:
        fits = (
            "In blocks the pool holds not one such sequence: give it more memory, or share the layers among more ranks."
        )
    elif paged > whole:
        if not whole:
            more = "some where reservations hold none"
        elif paged < 1.1 * whole:
            more = f"{format_count(paged - whole)} more than reservations"
        else:
            more = f"{significant(paged / whole, 3)} times as many"
        fits = f"Blocks hold {more}: only the last block of a sequence can be partly empty."
    elif paged < whole:
        fits = "Blocks hold fewer than reservations this tight: the last block is rounded up."
    else:
        fits = "Blocks hold as many as reservations here: what they recover, if anything, is no room for one more."
    again = " The prompt is shorter than what a hit needs, so all of it is computed again." if not found else ""
    return fits + again


_LEFT_OUT = (
    "Sequences are equally long, share nothing and don't grow. Layers with windows are counted as if they kept all "
    "positions, where engines give them groups of their own. Not counted: the null block, watermarks, a reservation's "
    "external fragmentation. A hit is for a prompt seen whole, none of it evicted."
)
