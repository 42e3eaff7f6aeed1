"""The sections on adapters and on the start of a replica."""

from __future__ import annotations

from calc.adapters import ELEMENTS, adapter, move_seconds, reserved_bytes, stored_bytes
from calc.startup import COPY, StartUp, hops
from calc.units import CalcError, counted
from calc.worksheet._choices import Choices
from calc.worksheet._lines import Builder, Section
from calc.worksheet._memory import Memory
from calc.worksheet._terms import added, number, spelled


def lora_section(c: Choices, m: Memory) -> Section:
    """One adapter's bytes, and what slots for several would reserve."""
    b = Builder("lora", "LoRA adapters", "Routed experts, saved embeddings, the kernels' workspace.")
    b.add("rank", "Rank", c.lora_rank, kind="assumed", step="multi_lora#step-2")
    b.add("slots", "Slots on each GPU", c.lora_slots, kind="assumed", step="multi_lora#step-5")
    try:
        one = adapter(c.model, rank=c.lora_rank, targets="all-linear")
    except CalcError as error:
        b.add("adapter_bytes", "One adapter, stored", None, "byte", step="multi_lora#step-2", note=str(error))
        b.add("slot_bytes", "One slot on one GPU", None, "byte", step="multi_lora#step-5", note=str(error))
        b.add("reserved_bytes", "All slots on one GPU", None, "byte", step="multi_lora#step-5", note=str(error))
        return b.section()
    size = ELEMENTS[one.element]
    pairs = {
        "low_rank_parameters": one.low_rank_parameters,
        "element_bytes": size,
        "saved_parameters": 0,
        "saved_element_bytes": size,
    }
    b.add(
        "parameters",
        "Parameters of one adapter",
        one.low_rank_parameters,
        step="multi_lora#step-2",
        note=f"On {', '.join(one.targets)}.",
        by=spelled(
            "Parameters",
            "rank · (inputs + outputs of the adapted matrices)",
            f"{c.lora_rank} · {number(one.low_rank_parameters / c.lora_rank)}",
            one.low_rank_parameters,
        ),
    )
    b.add(
        "adapter_bytes",
        "One adapter, stored",
        one.stored_bytes,
        "byte",
        step="multi_lora#step-2",
        by=(stored_bytes, pairs),
        keep=True,
    )
    try:
        share = one.on_rank(ranks=c.parallel.tensor) * size
    except CalcError as error:
        b.add("adapter_bytes_per_rank", "… on one rank", None, "byte", step="multi_lora#step-4", note=str(error))
    else:
        numbers = f"{number(share / size)} · {number(size, 'byte')}"
        by = spelled("Share", "parameters on the rank · bytes of each", numbers, share, "byte")
        b.add("adapter_bytes_per_rank", "… on one rank, all layers", share, "byte", step="multi_lora#step-4", by=by)
    if not c.lora_slots:
        by = spelled("Reserved", "slots · bytes of one", "0 slots", 0, "byte")
        b.add("reserved_bytes", "All slots on one GPU", 0, "byte", step="multi_lora#step-5", by=by)
    elif m.lora is None:
        b.add("reserved_bytes", "All slots on one GPU", None, "byte", step="multi_lora#step-5", note=m.lora_why)
    else:
        most = max(m.lora)
        by = {"slots": c.lora_slots, "slot_parameters": most // (c.lora_slots * size), "element_bytes": size}
        one_slot = most // c.lora_slots
        numbers = f"{number(by['slot_parameters'])} · {number(size, 'byte')}"
        slot = spelled("Slot", "parameters of a slot on the GPU · bytes of each", numbers, one_slot, "byte")
        b.add("slot_bytes", "One slot on one GPU", one_slot, "byte", step="multi_lora#step-5", by=slot)
        b.add(
            "reserved_bytes",
            "All slots on one GPU",
            most,
            "byte",
            step="multi_lora#step-5",
            keep=True,
            by=(reserved_bytes, by),
            note="Taken off the room for the cache.",
        )
    return b.section()


def cold_start_section(c: Choices, m: Memory) -> Section:
    """Least times of the weights on their way to one replica's GPUs."""
    b = Builder(
        "cold_start",
        "Cold start",
        "Finding a machine, the image, imports, rank set-up, compilation, graph "
        "capture and warm-up: often longer than the weights. Storage counts at what arrives.",
    )
    host = next((link for link in c.chip.links.values() if link.role == "host"), None)
    rate = c.host_rate or (host.bytes_per_second.value if host else None)
    start = StartUp(
        checkpoint_bytes=m.stored.total_bytes,
        ranks=c.parallel.gpus,
        object_rate=c.object_rate,
        disk_rate=c.disk_rate,
        link_rate=rate or c.disk_rate,
        reached=c.reached,
    )
    found = [hop for hop in hops(start) if rate is not None or hop.name != COPY]
    for hop in found:
        key = hop.name.replace(" ", "_")
        moved = {"moved_bytes": hop.moved_bytes, "bytes_per_second": hop.rate}
        b.add(
            f"{key}_s",
            f"{hop.name.capitalize()}, {hop.way}",
            hop.seconds,
            "second",
            step="cold_start#step-2",
            by=(move_seconds, moved),
        )
    if rate is None:
        b.add(
            "copy_weights_s",
            "Copy weights, host to GPU",
            None,
            "second",
            step="cold_start#step-2",
            note=f"No host link is listed for {c.chip.name}: state its rate.",
        )
    b.add(
        "staged_floor_s",
        "One hop after another, least time" if rate is not None else "The known hops one after another, least time",
        sum(hop.seconds for hop in found),
        "second",
        step="cold_start#step-5",
        keep=True,
        by=added("Start", {hop.name: hop.seconds for hop in found}, sum(hop.seconds for hop in found), "second"),
        note="" if rate is not None else "Without the copy to the GPU, whose link's rate is not known.",
    )
    slowest = max(found, key=lambda hop: hop.seconds)
    b.add(
        "streamed_floor_s",
        "Hops at the same time, least time" if rate is not None else "The known hops at the same time, least time",
        slowest.seconds,
        "second",
        step="cold_start#step-5",
        by=spelled(
            "Start",
            "the slowest hop",
            f"max({', '.join(number(hop.seconds, 'second') for hop in found)})",
            slowest.seconds,
            "second",
        ),
        note=f"The slowest counts: {slowest.name}."
        + ("" if rate is not None else " The copy to the GPU may be slower: its link's rate is not known."),
    )
    b.add(
        "per_replica_bytes",
        f"Bytes for {counted(c.replicas, 'replica')}",
        c.replicas * m.stored.total_bytes,
        "byte",
        step="cold_start#step-2",
        by=spelled(
            "Bytes",
            "replicas · bytes of the weights",
            f"{c.replicas} · {number(m.stored.total_bytes, 'byte')}",
            c.replicas * m.stored.total_bytes,
            "byte",
        ),
    )
    return b.section()
