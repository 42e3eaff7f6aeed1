"""The sections on memory: parameters, weights, cache, and how many sequences fit."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from calc import capacity, kv_cache, parameters, quantization
from calc.adapters import EMBEDDINGS, buffered, reserve
from calc.capacity import NoRoom, Plan
from calc.hardware import Accelerator
from calc.kv_cache import CacheLayout
from calc.models import ModelGeometry, RecurrentState
from calc.parallel import Parallel, weights_on_rank
from calc.parameters import ParameterCount
from calc.quantization import Scheme, Stored
from calc.units import CalcError, counted, format_bytes, format_count
from calc.worksheet._choices import Choices
from calc.worksheet._lines import Builder, Section

KINDS_IN_WORDS = {
    "full": "full attention",
    "window": "a window",
    "chunk": "chunks",
    "sparse": "attention to picked blocks",
    "latent": "a latent",
    "latent window": "a window of latents",
    "compressed": "compressed latents",
    "compressor": "a compressor",
    "indexer": "an indexer",
    "state": "a recurrent state",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the sections on memory found, for those that follow and for the warnings."""

    count: ParameterCount
    stored: Stored
    rank_parameters: tuple[int, ...]
    rank_bytes: tuple[float, ...]
    whole: CacheLayout
    stages: tuple[CacheLayout, ...]
    pool: capacity.Pool
    whole_pool: capacity.Pool
    stage_blocks: tuple[float, ...]
    plan: Plan | None
    why_not: str
    limiting: int
    max_sequences: int
    lora: tuple[float, ...] | None
    lora_why: str
    total_bytes: float

    @property
    def position_bytes(self) -> float:
        """Bytes of one position on the rank that has most of them."""
        return max(stage.bytes_per_position for stage in self.stages)

    @property
    def block_bytes(self) -> float:
        """Bytes of one block on the rank where it is largest."""
        return max(self.stage_blocks)

    def uniform_page_bytes(self, positions: int, block_tokens: int) -> float:
        """Bytes of a sequence, all layers and each stored once, when every layer has a page for every position."""
        if not self.whole.fixed_bytes:
            return kv_cache.uniform_page_bytes(self.whole, positions=positions, block_tokens=block_tokens)
        return self.whole_pool.held_blocks(length=positions, windows=False) * self.whole_pool.block_bytes()

    def uniform_page_bytes_per_rank(self, positions: int, block_tokens: int) -> float:
        """The same on the rank that holds most; a recurrent state takes a page as large as all others."""
        if not self.whole.fixed_bytes:
            pages = {"positions": positions, "block_tokens": block_tokens}
            return max(kv_cache.uniform_page_bytes(stage, **pages) for stage in self.stages)
        return self.pool.held_blocks(length=positions, windows=False) * self.block_bytes


def label_of(group: str) -> str:
    """A tensor group for a reader."""
    named = {"mlp": "MLP", "lm_head": "Output layer", "recurrent": "Recurrent layers"}
    return named.get(group, group.replace("_", " ").capitalize())


def work_out(c: Choices) -> Memory:
    """All numbers of memory, once."""
    model, parallel = c.model, c.parallel
    stages = [replace(model, layers=layers) for layers in parallel.stages(model)]
    held = rank_shares(model, parallel, c.scheme, c.kept)
    lora, lora_why = _reserved(c, stages)
    taken = {rank: lora[rank // parallel.tensor] for rank in range(len(held))} if lora else {}
    total = c.chip.program_bytes.value
    logits = capacity.tensor_bytes(rows=c.concurrency, width=model.vocab, element_bytes=4)
    layout = {"element": c.cache, "ranks": parallel.tensor}
    blocks = {"block_tokens": c.block_tokens, "prefix_caching": c.prefix_caching}
    pool = capacity.pool(model, **layout, **blocks)
    whole = kv_cache.layout(model, element=c.cache)
    alone = parallel.tensor == 1 or not whole.fixed_bytes
    places = [0, *itertools.accumulate(len(stage.layers) for stage in stages)]
    budget, why, limiting, most = None, "", 0, 0
    try:
        budget = capacity.plan(
            model,
            parallel,
            total_bytes=total,
            fraction=c.fraction,
            engine=c.engine,
            weight_bytes={i: size for i, (_, size) in enumerate(held)},
            element=c.cache,
            activation_bytes=c.workspace_bytes,
            logits_bytes=logits,
            graph_bytes=c.graph_bytes,
            communication_bytes=c.communication_bytes,
            **blocks,
            taken_bytes=taken,
        )
        limiting, most = budget.limiting.rank, budget.requests(length=c.positions, in_flight=1)
    except NoRoom as error:
        why = str(error)
        limiting = max(range(len(held)), key=lambda i: held[i][1] + taken.get(i, 0))
    return Memory(
        count=parameters.count(model),
        stored=_stored(c),
        rank_parameters=tuple(count for count, _ in held),
        rank_bytes=tuple(size for _, size in held),
        whole=whole,
        stages=tuple(kv_cache.layout(stage, **layout) for stage in stages),
        pool=pool,
        whole_pool=pool if alone else capacity.pool(model, element=c.cache, **blocks),
        stage_blocks=tuple(pool.block_bytes(range(*ends)) for ends in itertools.pairwise(places)),
        plan=budget,
        why_not=why,
        limiting=limiting,
        max_sequences=most,
        lora=lora,
        lora_why=lora_why,
        total_bytes=total,
    )


def rank_shares(
    model: ModelGeometry, parallel: Parallel, scheme: Scheme, kept: tuple[str, ...]
) -> list[tuple[int, float]]:
    """Parameters and stored bytes on every rank of a replica, stage by stage."""
    shares: dict[tuple[int, int], tuple[int, float]] = {}
    ranks = [(stage, turn if parallel.experts else 0) for stage in range(parallel.pipeline)
             for turn in range(parallel.tensor)]  # fmt: skip
    for stage, turn in dict.fromkeys(ranks):
        where = {"stage": stage, "expert_rank": turn}
        held = quantization.rank_bytes(model, parallel, scheme, keeps=kept, **where)
        shares[stage, turn] = weights_on_rank(model, parallel, **where).total, sum(held.values())
    return [shares[place] for place in ranks]


def _stored(c: Choices) -> Stored:
    """The whole model as it is stored; in 16 bits without a look at its matrices."""
    if c.quantized:
        return quantization.stored(c.model, c.scheme, keeps=c.kept)
    size = c.scheme.bits / 8
    groups = parameters.count(c.model).groups
    parts = tuple(quantization.Part(group, count, 0, size * count) for group, count in groups.items())
    return Stored(c.model.name, c.scheme.name, parts)


def _reserved(c: Choices, stages: list[ModelGeometry]) -> tuple[tuple[float, ...] | None, str]:
    """Adapter slots on a rank of each stage; None, and why, where the model's matrices are not known."""
    if not c.lora_slots:
        return None, ""
    sizes = {"slots": c.lora_slots, "rank": c.lora_rank, "ranks": c.parallel.tensor}
    embedding, head = EMBEDDINGS
    try:
        found = []
        for place, stage in enumerate(stages):
            elsewhere = {embedding if place else "", head if place < len(stages) - 1 else ""}
            found.append(reserve(stage, **sizes, targets=[t for t in buffered(stage) if t not in elsewhere]))
        return tuple(made.bytes_per_gpu for made in found), ""
    except CalcError as error:
        return None, str(error)


def parameter_section(c: Choices, m: Memory) -> Section:
    """Parameters by tensor group."""
    b = Builder("parameters", "Parameters", "Layers for multi-token prediction, vision parts and quantization scales.")
    step = "capacity#step-2"
    b.add("total", "All parameters", m.count.total, step=step, keep=True)
    b.add("active", "Active in one token", m.count.active, step=step)
    b.add(
        "active_excluding_embedding",
        "… that a token is multiplied with",
        m.count.active_excluding_embedding,
        step="roofline#step-2",
    )
    for group, count in m.count.groups.items():
        b.add(f"groups.{group}", label_of(group), count, step=step)
    return b.section()


def weight_section(c: Choices, m: Memory) -> Section:
    """Weight bytes, in all, by group and on every rank."""
    b = Builder("weights", "Weights", "What an engine keeps besides the checkpoint's tensors: repacked copies, tables.")
    step = "quantization#step-3" if c.quantized else "capacity#step-2"
    b.add(
        "scheme",
        "Stored as",
        c.scheme.name,
        step="quantization#step-1",
        kind="published" if c.found is not None and c.weights == "auto" else "assumed",
        **({"source": f"the checkpoint's {c.found_in}"} if c.found is not None and c.weights == "auto" else {}),
    )
    b.add("total_bytes", "All weights", m.stored.total_bytes, "byte", step=step, keep=True)
    b.add("bits_per_weight", "Bits per parameter", m.stored.bits_per_weight, step=step)
    for part in m.stored.parts:
        b.add(f"groups.{part.group}", label_of(part.group), part.stored_bytes, "byte", step=step)
    b.add("per_rank_bytes", "On each rank", list(m.rank_bytes), "byte", step="capacity#step-6", keep=True)
    b.add("per_rank_parameters", "Parameters on each rank", list(m.rank_parameters), step="capacity#step-7")
    return b.section()


def cache_section(c: Choices, m: Memory) -> Section:
    """What a position and a sequence leave in the cache, in all and on a rank, in both conventions."""
    b = Builder("kv", "Cache", "Sharing between sequences.")
    whole_, widest = m.whole, max(m.stages, key=lambda s: s.bytes_per_position)
    mixers = [(mixer, layers) for mixer, layers in c.model.kinds() if mixer is not None]
    growing = [(mixer, layers) for mixer, layers in mixers if not isinstance(mixer, RecurrentState)]
    one = len(growing) == 1 == len([k for k in whole_.kinds if k.bytes_per_position])
    by = kv_cache.formula_of(growing[0][0], layers=growing[0][1], element=c.cache) if one else None
    b.add("element", "Stored as", c.cache, step="quantization#step-8", kind="assumed", note=c.cache_why)
    b.add(
        "bytes_per_token",
        "One position, all layers",
        whole_.bytes_per_position,
        "byte",
        step="kv_cache#step-2",
        by=by,
        keep=True,
    )
    b.add("bytes_per_token_per_rank", "… on one rank", widest.bytes_per_position, "byte", step="kv_cache#step-5")
    if whole_.has_windows:
        b.add(
            "unbounded_bytes_per_token",
            "… once every window is full",
            whole_.unbounded_bytes_per_position,
            "byte",
            step="kv_cache#step-7",
        )
    if whole_.fixed_bytes:
        b.add("fixed_bytes", "Fixed state of a sequence", whole_.fixed_bytes, "byte", step="attention_variants#step-2")
        b.add(
            "fixed_bytes_per_rank",
            "… on one rank",
            max(s.fixed_bytes for s in m.stages),
            "byte",
            step="attention_variants#step-6",
        )
    for place, kind in enumerate(whole_.kinds):
        size = kind.bytes_per_position or kind.fixed_bytes
        what = "a sequence" if kind.kind == "state" else "a position"
        label = f"One of {counted(kind.layers, 'layer')} with {KINDS_IN_WORDS[kind.kind]}, {what}"
        b.add(f"kinds.{kind.kind}_{place}", label, size, "byte", step="attention_variants#step-2")
    for name, positions, label in (
        ("sequence_bytes", c.positions, "A sequence at its end"),
        ("prompt_bytes", c.context, "… after its prompt"),
    ):
        if name == "sequence_bytes":
            by = kv_cache.positions_written, {"prompt": c.context, "generated": c.output}
            b.add(f"{name}.positions", "Positions of a sequence at its end", positions, step="kv_cache#step-4", by=by)
        by = None
        if not whole_.has_windows and not whole_.fixed_bytes:
            by = kv_cache.sequence_bytes, {"bytes_per_position": whole_.bytes_per_position, "positions": positions}
        resident = kv_cache.resident_bytes(whole_, positions=positions)
        b.add(f"{name}.resident", f"{label}, resident", resident, "byte", step="kv_cache#step-7", by=by, keep=True)
        uniform = m.uniform_page_bytes(positions, c.block_tokens)
        b.add(f"{name}.uniform_pages", f"{label}, uniform pages", uniform, "byte", step="kv_cache#step-7")
    rank = max(kv_cache.resident_bytes(s, positions=c.positions) for s in m.stages)
    b.add(
        "sequence_bytes_per_rank.resident",
        "A sequence at its end on one rank, resident",
        rank,
        "byte",
        step="kv_cache#step-5",
    )
    pages = m.uniform_page_bytes_per_rank(c.positions, c.block_tokens)
    b.add("sequence_bytes_per_rank.uniform_pages", "… uniform pages", pages, "byte", step="kv_cache#step-7")
    if c.engine != "vllm":
        return b.section()
    held = m.pool.held_blocks(length=c.positions)
    charged = m.pool.request_blocks(length=c.positions, in_flight=1)
    for key, label, blocks in (
        ("engine_blocks", "… held in vLLM's blocks while it decodes", held),
        ("engine_charge", "… charged for it in vLLM's count of what fits", charged),
    ):
        b.add(
            f"sequence_bytes_per_rank.{key}",
            label,
            blocks * m.block_bytes,
            "byte",
            step="paged_attention#step-2",
            note=f"{counted(blocks, 'block')} of {format_bytes(m.block_bytes)}.",
        )
    return b.section()


def _memory_in_words(chip: Accelerator) -> str:
    """What the total is: how well a chip's memory is known."""
    if chip.visible_bytes is not None:
        return "Memory that a program sees"
    return "Memory, the label read in GiB" if chip.nominal else "Memory that the driver reports"


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
    b.add("limiting_rank", "Limiting rank", m.limiting, step="capacity#step-6", text=_rank_text(c, m.limiting))
    b.add("weight_bytes", "Weights there", m.rank_bytes[m.limiting], "byte", step="capacity#step-2")
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
    if m.lora:
        b.add(
            "lora_bytes",
            "Adapter slots there",
            m.lora[m.limiting // c.parallel.tensor],
            "byte",
            step="multi_lora#step-5",
        )
    if m.plan is None:
        b.add("pool_bytes", "Room for the cache", 0, "byte", step="capacity#step-4", note=m.why_not)
        b.add("blocks", "Blocks that every rank has", 0, step="capacity#step-4")
        b.add("max_sequences", "Sequences that fit with room to finish", 0, step="capacity#step-8", keep=True)
        b.add("max_sequences_all_replicas", "… on all GPUs", 0, step="capacity#step-8")
        return b.section()
    rank = m.plan.limiting
    by = None
    if setting.slug == "vllm" and not m.lora:
        claims = {
            name: getattr(rank, name)
            for name in ("weight_bytes", "activation_bytes", "graph_bytes", "communication_bytes")
        }
        by = capacity.pool_bytes, {"total_bytes": m.total_bytes, "fraction": c.fraction, **claims}
    b.add("pool_bytes", "Room for the cache", rank.pool_bytes, "byte", step="capacity#step-4", by=by, keep=True)
    b.add("block_tokens", "Positions in a block", max(g.block_tokens for g in m.pool.groups), step="capacity#step-4")
    b.add("block_bytes", "One block there", rank.block_bytes, "byte", step="paged_attention#step-2")
    by = capacity.pool_blocks, {"pool_bytes": rank.pool_bytes, "block_bytes": rank.block_bytes}
    own = "" if setting.slug == "vllm" else f"In blocks as vLLM lays them out; {setting.engine}'s were not looked up."
    b.add("blocks", "Blocks that every rank has", m.plan.blocks, step="capacity#step-4", by=by, note=own)
    needed = m.pool.request_blocks(length=c.positions, in_flight=1)
    b.add("request_blocks", "Blocks charged for a sequence at its end", needed, step="capacity#step-8")
    b.add("max_sequences", "Sequences that fit with room to finish", m.max_sequences, step="capacity#step-8", keep=True)
    b.add(
        "max_sequences_all_replicas",
        f"… on {counted(c.replicas, 'replica')}",
        m.max_sequences * c.replicas,
        step="capacity#step-8",
    )
    prompts = m.plan.requests(length=c.context, in_flight=1)
    b.add("sequences_by_prompt", "… counted by their prompts alone", prompts, step="capacity#step-8")
    b.add(
        "stranded_bytes", "Stranded on ranks that limit nobody", m.plan.stranded_bytes, "byte", step="capacity#step-6"
    )
    b.add(
        "fits",
        f"Whether {counted(c.concurrency, 'sequence')} fit{'s' if c.concurrency == 1 else ''}",
        m.max_sequences >= c.concurrency,
        step="capacity#step-8",
    )
    if setting.slug != "vllm":
        return b.section()
    in_flight = 2 * c.batched_tokens
    blocks = {"blocks": m.plan.blocks, "request_blocks": m.pool.request_blocks(length=c.positions, in_flight=in_flight)}
    note = (
        f"With max_model_len {format_count(c.positions)} and max_num_batched_tokens {format_count(c.batched_tokens)}."
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
