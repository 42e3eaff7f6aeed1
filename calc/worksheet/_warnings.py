"""Choices that are known to mislead, each with the numbers of the worksheet at hand."""

from __future__ import annotations

from collections.abc import Iterator

from calc import capacity, kv_cache
from calc.models import FullAttention, LatentAttention, LatentWindowAttention, MixtureOfExperts, RecurrentState
from calc.models.families import WRAPPERS
from calc.parallel import Parallel
from calc.quantization import cut_through
from calc.roofline import share_touched
from calc.units import (
    UNITS,
    CalcError,
    counted,
    format_bytes,
    format_count,
    format_decimal,
    format_percent,
    format_seconds,
    significant,
)
from calc.worksheet._choices import AUTO, Choices
from calc.worksheet._fit import stranded_bytes
from calc.worksheet._lines import Warned
from calc.worksheet._memory import Memory
from calc.worksheet._time import Times, group_sequences, peer

GB = UNITS["GB"].factor
TIGHT = 0.97  # of a GPU's memory; above it nothing is left for what the engine did not measure


def warnings(c: Choices, m: Memory, t: Times) -> tuple[Warned, ...]:
    """What to know about these choices, the gravest first."""
    found = (*_refused(c), *_impossible(c, m, t), *_memory(c, m), *_cache(c, m), *_weights(c, m, t), *_units(c))
    return tuple(Warned(code=code, text=text, step=step) for code, text, step in found)


Found = Iterator[tuple[str, str, str]]


def _refused(c: Choices) -> Found:
    """A cut through a scheme's blocks: the weights add up, but an engine doesn't load them."""
    try:
        found = cut_through(c.model, c.parallel, c.scheme, keeps=c.kept)
    except CalcError:
        return  # matrices that are not known
    if found is None:
        return
    experts = ".experts." in found.path
    name = found.path.rpartition(".")[2].removesuffix("_proj").replace("_", " and ")
    text = (
        f"{c.parallel} cuts the {'experts’ ' if experts else ''}{name} projection to {format_count(found.size)} "
        f"{found.side} on a rank, and {found.block} of them share a scale: {significant(found.size / found.block)} "
        "blocks. vLLM refuses to load it (its issues 17569 and 21695). "
    )
    good = [str(ranks) for ranks in (2**n for n in range(7)) if _whole_blocks(c, ranks)]
    text += f"Of the powers of two, TP {', '.join(good)} leave{'s' if len(good) == 1 else ''} blocks whole"
    if experts and not c.parallel.experts and _whole_blocks(c, c.parallel.tensor, experts=True):
        text += ", and so do whole experts on each rank (expert parallelism)"
    yield "cut-through-blocks", f"{text}; pipeline stages cut no matrix.", "quantization#step-3"


def _whole_blocks(c: Choices, ranks: int, *, experts: bool | None = None) -> bool:
    """Whether a number of ranks leaves every block of the scheme whole."""
    cut = Parallel(tensor=ranks, experts=c.parallel.experts if experts is None else experts)
    try:
        return cut_through(c.model, cut, c.scheme, keeps=c.kept) is None
    except CalcError:
        return False


def _impossible(c: Choices, m: Memory, t: Times) -> Found:
    if m.plan is None:
        yield "does-not-fit", f"{m.why_not}.", "capacity#step-6"
    elif m.max_sequences == 0:
        text = (
            f"Not one sequence of {counted(c.positions, 'position')} fits: the pool has "
            f"{counted(m.plan.blocks, 'block')}, a sequence needs "
            f"{format_count(m.pool.request_blocks(length=c.positions, in_flight=1))}."
        )
        yield "no-sequence-fits", text, "capacity#step-8"
    elif m.max_sequences < c.concurrency:
        text = (
            f"{counted(c.concurrency, 'sequence')} at once are asked for; {format_count(m.max_sequences)} "
            f"{'is' if m.max_sequences == 1 else 'are'} sure to finish. The others wait, or are admitted and preempted."
        )
        yield "too-many-sequences", text, "capacity#step-8"
    longest = c.model.max_positions
    if longest is not None and c.positions > longest:
        text = (
            f"A sequence ends at {counted(c.positions, 'position')}, and the configuration states "
            f"{format_count(longest)} as the longest: engines refuse it unless told to scale positions."
        )
        yield "longer-than-the-model", text, "kv_cache#step-4"
    yield from _limits(c, m, t)
    yield from _beyond(c)
    if idle := c.count - c.replicas * c.parallel.gpus:
        text = f"{counted(idle, 'GPU')} of {c.count} stay idle: a replica takes {c.parallel.gpus}."
        yield "idle-gpus", text, "capacity#step-7"


def _beyond(c: Choices) -> Found:
    """Ranks that share every layer, on more chips than their link joins."""
    link = c.chip.links.get(peer(c) or "")
    if link is None or link.joins is None or c.parallel.tensor <= link.joins:
        return
    host = next((other.name for other in c.chip.links.values() if other.role == "host"), "")
    way = f"over {host} or the network" if host else "over the network"
    text = (
        f"TP {c.parallel.tensor} goes beyond {link.name}, which joins {link.joins}: some all-reduces run {way}, slower "
        f"than counted here. Tensor parallelism inside {link.joins}, and pipeline stages between them, avoid that."
    )
    yield "beyond-the-link", text, "roofline#step-7"


def _limits(c: Choices, m: Memory, t: Times) -> Found:
    """Limits below a floor, and what exactly a floor rules out: these sequences, types and cut, not every tuning."""
    types = f"weights stored as {c.scheme.name}, multiplied as {c.multiplies}, cache in {c.cache}, {c.parallel}"
    other = "other types, another cut or another chip have other floors"
    if c.ttft_s is not None and t.prefill is not None and t.prefill.seconds > c.ttft_s:
        text = (
            f"A prompt of {counted(c.context, 'token')} takes {format_seconds(t.prefill.seconds)} at its floor, more "
            f"than the limit of {format_seconds(c.ttft_s)}: whatever the engine does, with {types}. A shorter prompt, "
            f"one that is partly cached, {other}."
        )
        yield "limit-below-floor", text, "roofline#step-4"
    if c.tpot_s is not None and t.last is not None and t.last.seconds > c.tpot_s:
        most = t.most_by_tpot
        fewer = f"Up to {counted(most, 'sequence')} at once keep{'s' if most == 1 else ''} it" if most else (
            "A single sequence does not keep it either"
        )  # fmt: skip
        text = (
            f"The last decode step of {counted(c.concurrency, 'sequence')} at once takes "
            f"{format_seconds(t.last.seconds)} at its floor, more than the limit of {format_seconds(c.tpot_s)}: "
            f"whatever the engine does, with {types} and one token a step. {fewer}; {other}, and speculation gives "
            "more tokens a step."
        )
        yield "limit-below-floor", text, "roofline#step-4"


def _memory(c: Choices, m: Memory) -> Found:
    setting = capacity.memory_setting(c.engine)
    if c.fraction is None:
        text = (
            f"{setting.engine} takes no share of the memory. Its cache has the size that {setting.setting} asks for; "
            f"the room here is the largest that leaves {format_bytes(setting.margin_bytes)} of a GPU free."
        )
    else:
        text = (
            f"{setting.engine}'s {setting.setting} is a share of {setting.share_of}. The same number means something "
            f"else in another engine; outside it: {setting.outside}."
        )
        if c.fraction_from.startswith("assumed"):
            text += f" {significant(c.fraction)} is assumed here; the engine's own is {setting.default_text}."
    yield "memory-fraction", text, "capacity#step-5"
    if setting.rule in ("all", "static") and c.fraction > TIGHT:  # a share of the total, or of nearly all of it
        text = (
            f"{format_percent(c.fraction)} leaves {format_bytes((1 - c.fraction) * m.total_bytes)} of a GPU for "
            "the driver, other programs and all that the engine did not measure: starts that fail, or die under load."
        )
        yield "fraction-too-high", text, "capacity#step-1"
    beside = c.workspace_bytes + c.graph_bytes + c.communication_bytes
    text = (
        f"{format_bytes(beside)} beside the weights on every GPU is assumed, not known: it grows with the largest step "
        "and the batch sizes captured. A start-up log says what it is."
    )
    yield "workspace-assumed", text, "capacity#step-3"
    if c.lora_slots and m.lora:
        text = (
            f"Slots for {counted(c.lora_slots, 'adapter')} take {format_bytes(max(m.lora))} on a GPU at rank "
            f"{c.lora_rank} from the start, whether or not an adapter is ever loaded."
        )
        yield "lora-reserved", text, "multi_lora#step-5"
    if c.lora_slots and m.lora is None:
        yield "lora-refused", f"No room is set aside for adapters: {m.lora_why}.", "multi_lora#step-5"
    stranded = stranded_bytes(m)
    if m.plan is not None and stranded >= m.pool.held_blocks(length=c.positions) * m.block_bytes:  # a sequence's worth
        text = (
            f"The ranks differ, and rank {m.limiting} has the fewest blocks: {format_bytes(stranded)} on the others "
            "stay unused."
        )
        yield "stranded", text, "capacity#step-6"


def _cache(c: Choices, m: Memory) -> Found:
    mixers = [mixer for mixer, _ in c.model.kinds() if mixer is not None]
    tensor = c.parallel.tensor
    if tensor > 1 and any(isinstance(mixer, LatentAttention | LatentWindowAttention) for mixer in mixers):
        text = (
            f"The latent is copied to each of {tensor} ranks: together they hold {tensor} times one sequence's cache, "
            "and more ranks don't hold more sequences for it."
        )
        yield "kv-replication", text, "attention_variants#step-6"
    copied = [m for m in mixers if isinstance(m, FullAttention) and tensor > m.kv_heads]
    if copied:
        fewest = min(mixer.kv_heads for mixer in copied)
        text = (
            f"{tensor} ranks share {counted(fewest, 'KV head')}: each keeps a whole one, and the cache is held "
            f"{significant(tensor / fewest, 3)} times over."
        )
        yield "kv-replication", text, "kv_cache#step-5"
    if m.whole.has_windows:
        resident = kv_cache.resident_bytes(m.whole, positions=c.positions)
        uniform = m.uniform_page_bytes(c.positions, c.block_tokens)
        text = (
            f"Some layers keep a window. Resident, a sequence holds {format_bytes(resident)}; with a page in every "
            f"layer for every position {format_bytes(uniform)}. Which of the two holds is the engine's choice."
        )
        yield "window-convention", text, "kv_cache#step-7"
    states = [mixer for mixer in mixers if isinstance(mixer, RecurrentState)]
    if states:
        block = max(g.block_tokens for g in m.pool.groups)
        state = m.pool.state_blocks
        text = (
            f"Recurrent layers enlarge a block to {counted(block, 'position')}, or "
            f"{format_bytes(m.pool.block_bytes())}, so that a state fits it. A request is charged "
            f"{counted(state, 'block')} in each group of them, however short it is"
            f"{' (prefix caching on)' if c.prefix_caching else ''}."
        )
        yield "hybrid-blocks", text, "paged_attention#step-6"
    if m.stored.quantized and not c.cache.startswith(("fp8", "int8")):
        text = (
            f"Weights are stored in {significant(m.stored.bits_per_weight, 3)} bits; the cache stays {c.cache}, and a "
            "sequence takes as much as before."
        )
        yield "cache-not-quantized", text, "quantization#step-8"
    if c.cache.startswith(("fp8", "int8")) and c.cache_why == "chosen":
        text = (
            f"A cache in {c.cache} halves a sequence and changes what attention reads: measure what it does to answers."
        )
        yield "cache-quantized", text, "quantization#step-8"


def _weights(c: Choices, m: Memory, t: Times) -> Found:
    quantized = m.stored.quantized > 0
    if c.quantized and not quantized:
        text = f"{c.scheme.name} covers none of this model's matrices: all stay in 16 bits, as engines load them."
        yield "nothing-quantized", text, "quantization#step-3"
    if quantized and c.multiplies == "bf16":
        text = (
            f"Weights in {c.scheme.element} are multiplied as bf16 here: decode reads fewer bytes, a long prompt is "
            "not a bit faster."
        )
        yield "weights-only", text, "quantization#step-7"
    elif not quantized and c.multiplies not in ("bf16", "fp16"):
        text = (
            f"The weights stay in 16 bits, and {c.multiplies} arithmetic needs them in {c.multiplies}: such a step "
            "has to convert them first, which is not counted."
        )
        yield "arithmetic-of-other-weights", text, "quantization#step-1"
    if c.model.element == "fp32" and not c.quantized:
        yield (
            "fp32-checkpoint",
            "The checkpoint is in fp32; engines load it in 16 bits, as counted here.",
            "quantization#step-1",
        )
    if c.model.element not in (None, "fp32", "bf16", "fp16") and c.weights == AUTO and c.found is None:
        text = (
            f"The file states {c.model.element} as its type and names no quantization: counted in 16 bits. If the "
            "checkpoint is smaller, give its hf_quant_config.json, or choose the type of the weights."
        )
        yield "narrow-type-without-scheme", text, "quantization#step-1"
    mixture = any(isinstance(layer.mlp, MixtureOfExperts) for layer in c.model.layers)
    if mixture:
        share = share_touched(c.model, group_sequences(c))
        text = (
            f"A token goes through {significant(m.count.active / 1e9, 3)} billion of "
            f"{significant(m.count.total / 1e9, 3)} billion parameters, but all must be in memory, and a step of "
            f"{counted(group_sequences(c), 'token')} reads about {format_percent(share)} of the experts if "
            "routers choose evenly; they don't quite."
        )
        yield "experts-all-resident", text, "roofline#step-8"
    if c.parallel.experts and not mixture:
        text = (
            f"{c.model.name} has no experts: expert parallelism changes nothing here, and vLLM refuses to start with "
            "it."
        )
        yield "no-experts", text, "capacity#step-7"
    elif c.parallel.experts:
        yield (
            "experts-uneven",
            "Whole experts on each rank: the rank that more tokens pick makes the others wait.",
            "capacity#step-7",
        )
    extra = next((n for n in ("num_nextn_predict_layers", "mtp_num_hidden_layers") if c.config.get(n)), None)
    if extra:
        text = (
            f"The file names layers for multi-token prediction ({extra}); they are not counted. An engine that drafts "
            "with them loads them too."
        )
        yield "prediction-layers", text, "capacity#step-2"
    if c.config.get("model_type") in WRAPPERS and ("vision_config" in c.config or "audio_config" in c.config):
        yield (
            "vision-part",
            "The vision part is not counted: its weights, and what it computes for an image, come on top.",
            "capacity#step-2",
        )
    if t.prefill is None:
        yield "work-not-counted", f"No floors: {t.why_not}.", "roofline#step-4"
    if c.parallel.pipeline > 1:
        text = (
            "Stages work on a prompt one after another, so a prompt is no faster for having them; several prompts at "
            "once are. The decode floor keeps every stage busy."
        )
        yield "pipeline-latency", text, "capacity#step-7"


def _units(c: Choices) -> Found:
    peak = c.chip.peak(c.multiplies)
    if c.chip.sparse_printed:
        text = (
            f"The peak of {c.chip.name} in {c.multiplies} is counted dense, {format_decimal(peak.value, 'FLOP/s')}. "
            "Vendors print more, with 2:4 sparsity: it counts products with zeros that no model here has."
        )
        yield "sparse-peak", text, "roofline#step-1"
    total = c.chip.program_bytes.value
    known = c.chip.visible_bytes is not None or not c.chip.nominal
    text = (
        f"Sold as {c.chip.memory_as_sold}, the GPU {'has' if known else 'is taken to have'} {format_bytes(total)}, "
        f"which is {significant(total / GB)} GB. Memory here is in GiB, rates in GB/s; reading one as the other is 7% "
        "off."
    )
    yield "gb-gib", text, "conventions"
