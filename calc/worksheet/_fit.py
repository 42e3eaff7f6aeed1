"""The section on capacity: the budget of the limiting rank, and how many sequences fit."""

from __future__ import annotations

import inspect

from calc import capacity, kv_cache
from calc.capacity import RankBudget
from calc.hardware import Accelerator
from calc.units import counted, format_count
from calc.working import working
from calc.worksheet._choices import Choices
from calc.worksheet._lines import Builder, Section
from calc.worksheet._memory import MOST_RANKS, Memory, label_of
from calc.worksheet._terms import added, number, spelled, times


def _memory_in_words(chip: Accelerator) -> str:
    """What the total is: how well a chip's memory is known."""
    if chip.visible_bytes is not None:
        return "Memory that a program sees"
    return "Memory, the label read in GiB" if chip.nominal else "Memory that the driver reports"


KERNEL_MULTIPLE = inspect.signature(capacity.pool).parameters["kernel_multiple"].default


def capacity_section(c: Choices, m: Memory) -> Section:
    """The budget of the limiting rank and the sequences that fit."""
    b = Builder(
        "capacity",
        "Capacity",
        "Blocks shared between sequences, responses that stop early, and time: "
        "whether so many are served fast enough is another question.",
    )
    setting = capacity.memory_setting(c.engine)
    where = {"source": setting.source, "url": setting.url, "checked": setting.checked}
    total = c.chip.program_bytes
    b.figure(
        "total_bytes",
        f"{_memory_in_words(c.chip)}, sold as {c.chip.memory_as_sold}",
        total,
        "byte",
        step="capacity#step-1",
    )
    if c.fraction is None:
        b.add(
            "margin_bytes",
            f"{setting.engine} leaves free",
            setting.margin_bytes,
            "byte",
            kind="published",
            step="capacity#step-5",
            note=f"Its cache, {setting.setting}, is cut to what fits; more is not asked for here.",
            **where,
        )
    else:
        b.add(
            "memory_fraction",
            f"{setting.engine}'s {setting.setting}",
            c.fraction,
            kind="assumed",
            step="capacity#step-5",
            note=f"A share of {setting.share_of}. {c.fraction_from[:1].upper()}{c.fraction_from[1:]}.",
            **(where if c.fraction == setting.default else {}),
        )
    b.add(
        "limiting_rank",
        "Limiting rank",
        m.limiting,
        step="capacity#step-6",
        text=_rank_text(c, m.limiting),
        by=_limiting(c, m),
    )
    parts = {label_of(group): size for group, size in m.ranks[m.limiting][1].items()}
    held = m.rank_bytes[m.limiting]
    by = added("Weights", parts, held, "byte")
    b.add("weight_bytes", "Weights there", held, "byte", step="capacity#step-2", by=by)
    logits = capacity.tensor_bytes(rows=c.concurrency, width=c.model.vocab, element_bytes=4)
    last = m.limiting >= c.parallel.tensor * (c.parallel.pipeline - 1)
    beside = c.workspace_bytes + c.graph_bytes + c.communication_bytes + (logits if last else 0)
    b.add(
        "workspace_bytes",
        "What runs beside them, logits included",
        beside,
        "byte",
        step="capacity#step-3",
        kind="assumed",
    )
    slots = m.lora[m.limiting // c.parallel.tensor] if m.lora else 0
    if m.lora:
        numbers = f"{number(c.lora_slots)} · {number(slots / c.lora_slots, 'byte')}"
        by = spelled("Slots", "slots · bytes of one", numbers, slots, "byte")
        b.add("lora_bytes", "Adapter slots there", slots, "byte", step="multi_lora#step-5", by=by)
    if m.plan is None:
        by = spelled("Room", "none", "", 0, "byte")
        b.add("pool_bytes", "Room for the cache", 0, "byte", step="capacity#step-4", note=m.why_not, by=by)
        by = spelled("Blocks", "none without room", "", 0)
        b.add("blocks", "Blocks that every rank has", 0, step="capacity#step-4", by=by)
        label = "Sequences that fit with room to finish"
        b.add("max_sequences", label, 0, step="capacity#step-8", keep=True, by=by)
        b.add("max_sequences_all_replicas", "… on all GPUs", 0, step="capacity#step-8", by=by)
        return b.section()
    rank, most = m.plan.limiting, m.max_sequences
    by = _room(c, m, rank, slots)
    b.add("pool_bytes", "Room for the cache", rank.pool_bytes, "byte", step="capacity#step-4", by=by, keep=True)
    tokens = max(g.block_tokens for g in m.pool.groups)
    more = {"kind": "assumed"} if tokens == c.block_tokens else {"by": _block_tokens(c, tokens)}
    b.add("block_tokens", "Positions in a block", tokens, step="capacity#step-4", **more)
    by = _block(c, m, rank)
    b.add("block_bytes", "One block there", rank.block_bytes, "byte", step="paged_attention#step-2", by=by)
    by = capacity.pool_blocks, {"pool_bytes": rank.pool_bytes, "block_bytes": rank.block_bytes}
    own = "" if setting.slug == "vllm" else f"In blocks as vLLM lays them out; {setting.engine}'s were not looked up."
    b.add("blocks", "Blocks that every rank has", m.plan.blocks, step="capacity#step-4", by=by, note=own)
    needed, prompt = (m.pool.request_blocks(length=n, in_flight=1) for n in (c.positions, c.context))
    step = "capacity#step-8"
    by = _charged(m, c.positions)
    b.add("request_blocks", "Blocks charged for a sequence at its end", needed, step=step, by=by)
    by = _whole(m.plan.blocks, needed, most)
    b.add("max_sequences", "Sequences that fit with room to finish", most, step=step, keep=True, by=by)
    everywhere = most * c.replicas
    by = spelled("Sequences", "replicas · sequences of one", f"{c.replicas} · {number(most)}", everywhere)
    label = f"… on {counted(c.replicas, 'replica')}"
    b.add("max_sequences_all_replicas", label, everywhere, step=step, by=by)
    prompts = m.plan.requests(length=c.context, in_flight=1)
    by = _whole(m.plan.blocks, prompt, prompts)
    b.add("sequences_by_prompt", "… counted by their prompts alone", prompts, step=step, by=by)
    stranded = stranded_bytes(m)
    b.add(
        "stranded_bytes",
        "Stranded on ranks that limit nobody",
        stranded,
        "byte",
        step="capacity#step-6",
        by=_stranded(m, stranded),
    )
    fits = most >= c.concurrency
    b.add(
        "fits",
        f"Whether {counted(c.concurrency, 'sequence')} fit{'s' if c.concurrency == 1 else ''}",
        fits,
        step=step,
        by=spelled("Fits", "sequences that fit ≥ those asked for", f"{number(most)} ≥ {number(c.concurrency)}", fits),
    )
    if setting.slug != "vllm":
        return b.section()
    in_flight = 2 * c.batched_tokens
    blocks = {"blocks": m.plan.blocks, "request_blocks": m.pool.request_blocks(length=c.positions, in_flight=in_flight)}
    note = (
        f"With max_model_len {format_count(c.positions)} and max_num_batched_tokens {format_count(c.batched_tokens)}, "
        "two steps of them in flight as asynchronous scheduling has."
    )
    b.add(
        "vllm_kv_cache_tokens",
        "What vLLM would print as its cache's size",
        capacity.printed_tokens(**blocks, length=c.positions),
        "token",
        step="capacity#step-10",
        note=note,
        by=(capacity.printed_tokens, {**blocks, "length": c.positions}),
    )
    b.add(
        "vllm_concurrency",
        "… and as maximum concurrency",
        capacity.concurrency(**blocks),
        step="capacity#step-10",
        by=(capacity.concurrency, blocks),
    )
    return b.section()


def _rank_text(c: Choices, rank: int) -> str:
    if c.parallel.pipeline > 1:
        return f"{rank} (stage {rank // c.parallel.tensor + 1} of {c.parallel.pipeline})"
    return str(rank)


def stranded_bytes(m: Memory) -> float:
    """Memory that no block uses, on the ranks that have blocks to spare."""
    return sum(rank.stranded_bytes for rank in m.plan.ranks if not rank.limits) if m.plan else 0


def _limiting(c: Choices, m: Memory) -> str:
    """The rank with the fewest blocks; without room, the one that holds most."""
    if m.plan is None:
        words = "the first rank with the most weights and slots"
        texts = [number(size, "byte") for size in dict.fromkeys(m.rank_bytes)]
    else:
        words = "the first rank with the fewest blocks"
        texts = [number(blocks) for blocks in dict.fromkeys(rank.own_blocks for rank in m.plan.ranks)]
    shown = texts if len(texts) <= MOST_RANKS else [*texts[:MOST_RANKS], "…"]
    way = "most" if m.plan is None else "fewest"
    return spelled("Rank", words, f"{way} of {', '.join(shown)}", _rank_text(c, m.limiting))


def _room(c: Choices, m: Memory, rank: RankBudget, slots: float) -> tuple | str:
    """The room for the cache, by the engine's own rule, less the slots for adapters."""
    names = ("weight_bytes", "activation_bytes", "graph_bytes", "communication_bytes")
    claims = {"total_bytes": m.total_bytes} | {name: getattr(rank, name) for name in names}
    found = capacity.engine_pool_formula(c.engine, fraction=c.fraction, **claims)
    if found is None:
        margin = capacity.memory_setting(c.engine).margin_bytes
        parts = (m.total_bytes, margin, rank.weight_bytes, rank.activation_bytes, rank.communication_bytes)
        words = "memory − margin − weights − activations − communication"
        numbers = " − ".join(number(part, "byte") for part in parts)
        first = spelled("Room", words, numbers, rank.pool_bytes + slots, "byte")
    elif not slots:
        return found
    else:
        first = working(found[0], **found[1]).text
    if not slots:
        return first
    numbers = f"{number(rank.pool_bytes + slots, 'byte')} − {number(slots, 'byte')}"
    return f"{first}\n{spelled('Room', 'that − adapter slots', numbers, rank.pool_bytes, 'byte')}"


def _block_tokens(c: Choices, tokens: int) -> tuple | str:
    """Why a block has more positions than were chosen: a state must fit it, or a kernel wants larger ones."""
    mixers = [mixer for mixer, _ in c.model.kinds() if mixer is not None]
    how = {"layers": 1, "element": c.cache, "ranks": c.parallel.tensor, "own": c.model.element}
    kinds = [kv_cache.caches_of(mixer, **how)[0] for mixer in mixers]
    states = [kind.fixed_bytes for kind in kinds if kind.fixed_bytes]
    if states:
        sizes = {"state_bytes": max(states), "token_bytes": max(kind.bytes_per_position for kind in kinds)}
        sizes["multiple"] = KERNEL_MULTIPLE
        if capacity.hybrid_block_tokens(**sizes) == tokens:
            return capacity.hybrid_block_tokens, sizes
    words = "as many as the layers' kernels need, those chosen at least"
    return spelled("Positions", words, f"max({number(c.block_tokens)}, {number(tokens)})", tokens)


def _block(c: Choices, m: Memory, rank: RankBudget) -> str:
    """A block's bytes: a page in each layer of the group that needs most of them on this stage."""
    stages = c.parallel.stages(c.model)
    first = sum(len(layers) for layers in stages[: rank.stage])
    here = range(first, first + len(stages[rank.stage]))
    pages = ([size for layer, size in zip(g.layers, g.page_bytes, strict=True) if layer in here] for g in m.pool.groups)
    largest = max(pages, key=sum)
    words = "layers of the largest group · bytes of a page"
    return spelled("Block", words, times(((1, size) for size in largest), "byte"), rank.block_bytes, "byte")


def _charged(m: Memory, length: int) -> str:
    """Blocks charged for a sequence, group by group."""
    groups = [g.request_blocks(length=length, in_flight=1, state_blocks=m.pool.state_blocks) for g in m.pool.groups]
    return spelled("Blocks", "blocks of each group of layers, added", times((1, n) for n in groups), sum(groups))


def _whole(blocks: int, needed: int, value: int) -> str:
    return spelled("Sequences", "⌊blocks / blocks of one⌋", f"⌊{number(blocks)} / {number(needed)}⌋", value)


def _stranded(m: Memory, value: float) -> str:
    found = [rank.stranded_bytes for rank in m.plan.ranks if not rank.limits]
    words = (
        "room − blocks · bytes of one, on the ranks with blocks to spare" if found else "every rank has as many blocks"
    )
    return spelled("Stranded", words, times(((1, size) for size in found), "byte") if found else "", value, "byte")
