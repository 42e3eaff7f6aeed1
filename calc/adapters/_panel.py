"""The live panel of the chapter on many adapters."""

from __future__ import annotations

from calc.adapters._adapter import ELEMENTS, adapter
from calc.adapters._formulas import move_seconds, reserved_bytes, stored_bytes
from calc.adapters._slots import reserve
from calc.adapters._traffic import expected_distinct, expected_running, hit_ratio, zipf
from calc.hardware import accelerator
from calc.kv_cache import layout, positions_that_fit
from calc.models import load
from calc.panel import Panel, Row, between
from calc.parameters import count
from calc.units import format_bytes, format_count, format_percent, format_seconds, plain, significant
from calc.working import working

MOST = 2**20  # slots, requests, or columns of an adapter


def multi_lora_panel(
    *,
    model: str,
    rank: int,
    targets: str,
    slots: int,
    slot_rank: int,
    ranks: int,
    adapters: int,
    exponent: float,
    waiting: int,
    accelerator_slug: str,
) -> Panel:
    """Panel of the chapter on many adapters: one adapter, the slots, who runs, who finds its adapter.

    Parameters
    ----------
    model : str
        A slug of the catalogue.
    rank : int
        Of one adapter.
    targets : str
        A group of `target_group`.
    slots, slot_rank : int
        Slots on each GPU, and the highest rank they admit.
    ranks : int
        Tensor-parallel ranks.
    adapters, exponent : int, float
        Adapters that requests ask for, and the exponent of their Zipf popularity.
    waiting : int
        Requests that wait.
    accelerator_slug : str
        A slug of `calc.hardware.accelerators`, for the link to the host.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If the inputs are impossible together.
    """
    for name, value in (("rank", rank), ("slots", slots), ("slot_rank", slot_rank), ("waiting", waiting)):
        plain("multi_lora_panel", name, value, "count>0")
        between(name, value, 1, MOST)
    geometry = load(model)
    one = adapter(geometry, rank=rank, targets=targets)
    slot = reserve(geometry, slots=slots, rank=slot_rank, ranks=ranks)
    if not slot.admits(one):
        text = f"Slots of rank {slot_rank} refuse an adapter of rank {rank}: raise the slots' rank."
        return Panel((Row("One adapter, stored", format_bytes(one.stored_bytes), keep=True),), (), text, _LEFT_OUT)
    popularity = zipf(adapters=adapters, exponent=exponent)
    distinct = expected_distinct(popularity, requests=waiting)
    running = expected_running(popularity, requests=waiting, slots=min(slots, adapters))
    hits = hit_ratio(popularity, slots=slots)
    link = accelerator(accelerator_slug).link("pcie")
    share = one.on_rank(ranks=ranks) * ELEMENTS[one.element]
    miss = move_seconds(moved_bytes=share, bytes_per_second=link.bytes_per_second.value)
    position = layout(geometry, ranks=ranks).bytes_per_position
    displaced = positions_that_fit(memory_bytes=slot.bytes_per_gpu, bytes_per_position=position)
    where = "" if ranks == 1 else ", each GPU"
    rows = (
        Row("One adapter, stored", format_bytes(one.stored_bytes), keep=True),
        Row(
            "… share of the model's parameters",
            format_percent(one.low_rank_parameters / count(geometry).total),
        ),
        Row(f"Slots reserved{where}", format_bytes(slot.bytes_per_gpu), keep=True),
        Row(f"Cache positions they displace{where}", format_count(displaced)),
        Row("Different adapters among the waiting, on average", significant(distinct, 3)),
        Row("Requests that start, on average", significant(running, 3), keep=True),
        Row("Requests that find their adapter on the GPU", format_percent(hits)),
        Row(f"A miss over {link.name}, at least", format_seconds(miss)),
    )
    if min(waiting, adapters) <= slots:
        meaning = "There are slots enough: nobody waits for one."
    else:
        meaning = (
            f"Slots hold back {significant(waiting - running, 2)} of {format_count(waiting)} waiting requests on "
            "average: their adapter has no slot, whatever memory is free."
        )
    size = ELEMENTS[one.element]
    pairs = {"low_rank_parameters": one.low_rank_parameters, "element_bytes": size}
    lines = (
        working(stored_bytes, **pairs, saved_parameters=0, saved_element_bytes=size),
        working(reserved_bytes, slots=slots, slot_parameters=slot.slot_parameters, element_bytes=size),
        working(move_seconds, moved_bytes=share, bytes_per_second=link.bytes_per_second.value),
    )
    return Panel(rows, tuple(line.text for line in lines), meaning, _LEFT_OUT)


_LEFT_OUT = (
    "Kernel launches and workspace, routed experts, saved embeddings, the disk behind the host's memory, and how long "
    "requests run. Popularity is fixed and requests are independent."
)
