"""The sections on memory: parameters, weights, cache, and how many sequences fit."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from calc import capacity, kv_cache, parameters, quantization
from calc.adapters import EMBEDDINGS, buffered, reserve
from calc.capacity import NoRoom, Plan
from calc.kv_cache import CacheLayout, KindBytes
from calc.models import ModelGeometry, RecurrentState
from calc.models.layers import Mixer
from calc.parallel import Parallel, weights_on_rank
from calc.parameters import ParameterCount
from calc.quantization import Part, Scheme, Stored
from calc.units import CalcError, counted, format_bytes
from calc.worksheet._choices import Choices
from calc.worksheet._lines import Builder, Section
from calc.worksheet._terms import added, number, spelled, times

MOST_RANKS = 4  # whose working is shown: those of a kind are alike
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
    ranks: tuple[tuple[ParameterCount, Mapping[str, float]], ...]
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
    def rank_parameters(self) -> tuple[int, ...]:
        """Parameters on every rank."""
        return tuple(count.total for count, _ in self.ranks)

    @property
    def rank_bytes(self) -> tuple[float, ...]:
        """Bytes of the weights on every rank."""
        return tuple(sum(groups.values()) for _, groups in self.ranks)

    @property
    def position_bytes(self) -> float:
        """Bytes of one position on the rank that has most of them."""
        return max(stage.bytes_per_position for stage in self.stages)

    @property
    def block_bytes(self) -> float:
        """Bytes of one block on the rank where it is largest."""
        return max(self.stage_blocks)

    def page_tokens(self, block_tokens: int) -> int:
        """Positions in a page: those chosen, or more where the layers' kernels want larger ones."""
        return block_tokens if self.whole.has_windows else max(group.block_tokens for group in self.pool.groups)

    def uniform_page_bytes(self, positions: int, block_tokens: int) -> float:
        """Bytes of a sequence, all layers and each stored once, when every layer has a page for every position."""
        if not self.whole.fixed_bytes:
            pages = {"positions": positions, "block_tokens": self.page_tokens(block_tokens)}
            return kv_cache.uniform_page_bytes(self.whole, **pages)
        return self.whole_pool.held_blocks(length=positions, windows=False) * self.whole_pool.block_bytes()

    def uniform_page_bytes_per_rank(self, positions: int, block_tokens: int) -> float:
        """The same on the rank that holds most; a recurrent state takes a page as large as all others."""
        if not self.whole.fixed_bytes:
            pages = {"positions": positions, "block_tokens": self.page_tokens(block_tokens)}
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
            weight_bytes={i: sum(groups.values()) for i, (_, groups) in enumerate(held)},
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
        limiting = max(range(len(held)), key=lambda i: sum(held[i][1].values()) + taken.get(i, 0))
    return Memory(
        count=parameters.count(model),
        stored=_stored(c),
        ranks=tuple(held),
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
) -> list[tuple[ParameterCount, Mapping[str, float]]]:
    """Parameters, and stored bytes by tensor group, on every rank of a replica, stage by stage."""
    shares: dict[tuple[int, int], tuple[ParameterCount, Mapping[str, float]]] = {}
    ranks = [(stage, turn if parallel.experts else 0) for stage in range(parallel.pipeline)
             for turn in range(parallel.tensor)]  # fmt: skip
    for stage, turn in dict.fromkeys(ranks):
        where = {"stage": stage, "expert_rank": turn}
        held = quantization.rank_bytes(model, parallel, scheme, keeps=kept, **where)
        shares[stage, turn] = weights_on_rank(model, parallel, **where), held
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
    step, count = "capacity#step-2", m.count
    groups = {label_of(group): size for group, size in count.groups.items()}
    b.add("total", "All parameters", count.total, step=step, keep=True, by=added("All", groups, count.total))
    resting = count.resting_experts
    numbers = f"{number(count.total)} − {number(resting)}"
    by = spelled("Active", "all − experts that a token doesn't go through", numbers, count.active)
    b.add("active", "Active in one token", count.active, step=step, by=by)
    rows = count.active - count.active_excluding_embedding
    numbers = f"{number(count.active)} − {number(rows)}"
    words = "active − embedding, of which it only looks up a row" if rows else "active; the tied output layer stays in"
    by = spelled("Multiplied", words, numbers if rows else number(count.active), count.active_excluding_embedding)
    b.add(
        "active_excluding_embedding",
        "… that a token is multiplied with",
        count.active_excluding_embedding,
        step="roofline#step-2",
        by=by,
    )
    for group, size in count.groups.items():
        b.add(f"groups.{group}", label_of(group), size, step=step, by=_group(c.model, group, size))
    return b.section()


def _group(model: ModelGeometry, group: str, size: int) -> tuple | str:
    """A group's parameters: layers times those of one, and what stands outside of the layers."""
    if group in ("embedding", "lm_head"):
        return parameters.embedding_parameters, {"vocab": model.vocab, "hidden": model.hidden}
    layers = [(count, parts[group]) for count, parts in parameters.layer_counts(model) if parts.get(group)]
    beside = size - sum(count * each for count, each in layers)
    if not layers:
        return spelled(label_of(group), "blocks of the layers and what gathers their streams", number(beside), size)
    words, numbers = "layers · parameters of one", times(layers)
    if beside:
        words, numbers = f"{words}, and the last", f"{numbers} + {number(beside)}"
    return spelled(label_of(group), words, numbers, size)


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
    size, bits = m.stored.total_bytes, m.stored.bits_per_weight
    by = added("All weights", {label_of(part.group): part.stored_bytes for part in m.stored.parts}, size, "byte")
    b.add("total_bytes", "All weights", size, "byte", step=step, keep=True, by=by)
    numbers = f"8 · {number(size)} / {number(m.stored.parameters)}"
    by = spelled("Bits", "8 · bytes / parameters", numbers, bits)
    b.add("bits_per_weight", "Bits per parameter", bits, step=step, by=by)
    for part in m.stored.parts:
        b.add(f"groups.{part.group}", label_of(part.group), part.stored_bytes, "byte", step=step, by=_stored_part(part))
    b.add(
        "per_rank_bytes",
        "On each rank",
        list(m.rank_bytes),
        "byte",
        step="capacity#step-6",
        keep=True,
        by=_on_ranks(m, [groups for _, groups in m.ranks], "byte"),
    )
    by = _on_ranks(m, [count.groups for count, _ in m.ranks], "")
    b.add("per_rank_parameters", "Parameters on each rank", list(m.rank_parameters), step="capacity#step-7", by=by)
    return b.section()


def _stored_part(part: Part) -> str:
    """A group's bytes: those of its quantized matrices, scales included, and what stays as it was."""
    kept = part.parameters - part.quantized
    rest = kept * (part.stored_bytes / part.parameters if not part.quantized else quantization.scheme("bf16").bits / 8)
    words, numbers = [], []
    if part.quantized:
        words.append("quantized parameters · bits stored for each / 8")
        bits = 8 * (part.stored_bytes - rest) / part.quantized
        numbers.append(f"{number(part.quantized)} · {number(bits)} / 8 B")
    if kept:
        words.append("others · bytes of each" if part.quantized else "parameters · bytes of each")
        numbers.append(f"{number(kept)} · {number(rest / kept, 'byte')}")
    return spelled(label_of(part.group), " + ".join(words), " + ".join(numbers), part.stored_bytes, "byte")


def _on_ranks(m: Memory, ranks: list[Mapping[str, float]], unit: str) -> str:
    """The sum on the first rank of each kind, four kinds at most."""
    first: dict[tuple, int] = {}
    for rank, groups in enumerate(ranks):
        first.setdefault(tuple(groups.items()), rank)
    found = []
    for groups, rank in list(first.items())[:MOST_RANKS]:
        parts = {label_of(group): size for group, size in groups}
        found.append(added(f"Rank {rank}", parts, sum(parts.values()), unit))
    return "\n".join(found)


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
        by=by or _positions(whole_.kinds, "One position"),
        keep=True,
    )
    by = _positions(widest.kinds, "One position on a rank")
    size = widest.bytes_per_position
    b.add("bytes_per_token_per_rank", "… on one rank", size, "byte", step="kv_cache#step-5", by=by)
    if whole_.has_windows:
        b.add(
            "unbounded_bytes_per_token",
            "… once every window is full",
            whole_.unbounded_bytes_per_position,
            "byte",
            step="kv_cache#step-7",
            by=_positions([k for k in whole_.kinds if k.window is None], "One more position"),
        )
    if whole_.fixed_bytes:
        step, fixed = "attention_variants#step-2", whole_.fixed_bytes
        b.add("fixed_bytes", "Fixed state of a sequence", fixed, "byte", step=step, by=_states(whole_))
        most = max(m.stages, key=lambda s: s.fixed_bytes)
        step = "attention_variants#step-6"
        b.add("fixed_bytes_per_rank", "… on one rank", most.fixed_bytes, "byte", step=step, by=_states(most))
    for place, kind in enumerate(whole_.kinds):
        size = kind.bytes_per_position or kind.fixed_bytes
        what = "a sequence" if kind.kind == "state" else "a position"
        label = f"One of {counted(kind.layers, 'layer')} with {KINDS_IN_WORDS[kind.kind]}, {what}"
        by = _kind(c, kind, mixers)
        b.add(f"kinds.{kind.kind}_{place}", label, size, "byte", step="attention_variants#step-2", by=by)
    for name, positions, label in (
        ("sequence_bytes", c.positions, "A sequence at its end"),
        ("prompt_bytes", c.context, "… after its prompt"),
    ):
        if name == "sequence_bytes":
            by = kv_cache.positions_written, {"prompt": c.context, "generated": c.output}
            b.add(f"{name}.positions", "Positions of a sequence at its end", positions, step="kv_cache#step-4", by=by)
        resident, step = kv_cache.resident_bytes(whole_, positions=positions), "kv_cache#step-7"
        by = _resident(whole_, positions)
        b.add(f"{name}.resident", f"{label}, resident", resident, "byte", step=step, by=by, keep=True)
        uniform = m.uniform_page_bytes(positions, c.block_tokens)
        by = _uniform(whole_, m.whole_pool, m.whole_pool.block_bytes(), positions, m.page_tokens(c.block_tokens))
        b.add(f"{name}.uniform_pages", f"{label}, uniform pages", uniform, "byte", step=step, by=by)
    most = max(m.stages, key=lambda s: kv_cache.resident_bytes(s, positions=c.positions))
    b.add(
        "sequence_bytes_per_rank.resident",
        "A sequence at its end on one rank, resident",
        kv_cache.resident_bytes(most, positions=c.positions),
        "byte",
        step="kv_cache#step-5",
        by=_resident(most, c.positions),
    )
    pages = m.uniform_page_bytes_per_rank(c.positions, c.block_tokens)
    by = _uniform(widest, m.pool, m.block_bytes, c.positions, m.page_tokens(c.block_tokens))
    step = "kv_cache#step-7"
    b.add("sequence_bytes_per_rank.uniform_pages", "… uniform pages", pages, "byte", step=step, by=by)
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
            by=_in_blocks(blocks, m.block_bytes),
            note=f"{counted(blocks, 'block')} of {format_bytes(m.block_bytes)}.",
        )
    return b.section()


def _in_blocks(blocks: int, size: float) -> str:
    return spelled(
        "Sequence", "blocks · bytes of one", f"{number(blocks)} · {number(size, 'byte')}", blocks * size, "byte"
    )


def _positions(kinds: Iterable[KindBytes], name: str) -> str:
    """A position's bytes: layers times bytes of one, kind by kind."""
    parts = [(kind.layers, kind.bytes_per_position) for kind in kinds if kind.bytes_per_position]
    value = sum(layers * size for layers, size in parts)
    return spelled(name, "layers · bytes in one of them", times(parts, "byte"), value, "byte")


def _states(cache: CacheLayout) -> str:
    parts = [(kind.layers, kind.fixed_bytes) for kind in cache.kinds if kind.fixed_bytes]
    return spelled("States", "layers · state of one", times(parts, "byte"), cache.fixed_bytes, "byte")


def _kind(c: Choices, kind: KindBytes, mixers: list[tuple[Mixer, int]]) -> tuple | str:
    """One layer's bytes: by the formula of its kind, else from its entries or the parts of its state."""
    size = kind.bytes_per_position or kind.fixed_bytes
    for mixer, _ in mixers:
        caches = kv_cache.caches_of(mixer, layers=1, element=c.cache, own=c.model.element)
        if replace(kind, layers=1) not in caches:
            continue
        if isinstance(mixer, RecurrentState):
            own = kv_cache.ELEMENTS.get(c.model.element or "", kv_cache.ELEMENTS["bf16"]).element_bytes
            parts = [(part.elements, part.element_bytes or max(own, 2)) for part in mixer.on_rank(1)]
            numbers = " + ".join(f"{number(n)} · {number(each, 'byte')}" for n, each in parts)
            return spelled("State", "elements of each part · bytes of one", numbers, size, "byte")
        if kind.kind == caches[0].kind:
            return kv_cache.formula_of(mixer, layers=1, element=c.cache)
        if kind.kind == "compressed":
            return kv_cache.compressed_bytes_per_position, {
                "entry_bytes": caches[0].bytes_per_position,
                "run": kind.ratio,
            }
        break
    numbers = f"{number(size * kind.ratio, 'byte')} / {number(kind.ratio)}" if kind.ratio > 1 else number(size, "byte")
    words = "bytes of an entry / positions that make it" if kind.ratio > 1 else "bytes of its own format"
    return spelled("Position", words, numbers, size, "byte")


def _resident(cache: CacheLayout, positions: int) -> tuple | str:
    """A sequence's bytes, windows honored: layers times bytes times positions kept, and states."""
    if not cache.has_windows and not cache.fixed_bytes and all(kind.ratio == 1 for kind in cache.kinds):
        sizes = {"bytes_per_position": cache.bytes_per_position, "positions": positions}
        return kv_cache.sequence_bytes, sizes
    value, parts = kv_cache.resident_bytes(cache, positions=positions), []
    for kind in cache.kinds:
        if each := kind.bytes_per_position:
            kept = round((kind.resident_bytes(positions) / kind.layers - kind.fixed_bytes) / each)
            parts.append(f"{kind.layers} · {number(each, 'byte')} · {number(kept)}")
        if kind.fixed_bytes:
            parts.append(f"{kind.layers} · {number(kind.fixed_bytes, 'byte')}")
    words = "layers · bytes of a position · positions kept" + (", and states" if cache.fixed_bytes else "")
    return spelled("Sequence", words, " + ".join(parts), value, "byte")


def _uniform(cache: CacheLayout, pool: capacity.Pool, block: float, positions: int, tokens: int) -> str:
    """A sequence's bytes when every layer has a page for every position."""
    if cache.fixed_bytes:
        return _in_blocks(pool.held_blocks(length=positions, windows=False), block)
    size = kv_cache.uniform_page_bytes(cache, positions=positions, block_tokens=tokens)
    words = "⌈positions / those of a block⌉ · those of a block · bytes of a position"
    numbers = f"⌈{number(positions)} / {tokens}⌉ · {tokens} · {number(cache.bytes_per_position, 'byte')}"
    return spelled("Sequence", words, numbers, size, "byte")
