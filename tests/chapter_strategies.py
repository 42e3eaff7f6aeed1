"""What a reader might sensibly assume instead, chapter by chapter, what is impossible, and what must stay true."""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import adapters, hardware, kv_cache, models, parameters, quantization
from calc.notebook import times
from calc.units import UNITS, CalcError, format_bytes


@dataclass(frozen=True)
class Altered:
    """A chapter's other assumptions.

    Attributes
    ----------
    sensible : strategy of dict
        Values for the names of the chapter's `parameters` cell; every name is varied.
    impossible : tuple of dict
        Choices that the chapter must refuse.
    claims : tuple of callable
        Called with each finished `Run`; raise AssertionError where the prose no longer holds.
    """

    sensible: st.SearchStrategy[dict[str, Any]]
    impossible: tuple[dict[str, Any], ...]
    claims: tuple[Callable[[Run], None], ...] = ()


@st.composite
def kv_cache_requests(draw: st.DrawFn) -> dict[str, Any]:
    """A request part-way through its answer, on any model, element type and group of GPUs."""
    output = draw(st.integers(1, 32_768))
    return {
        "model_slug": draw(st.sampled_from(models.catalogue())),
        "element": draw(st.sampled_from(sorted(kv_cache.ELEMENTS))),
        "prompt_tokens": draw(st.integers(1, 131_072)),
        "generated_tokens": draw(st.integers(1, output)),
        "output_tokens": output,
        "tensor_parallel_ranks": draw(st.sampled_from([1, 2, 4, 8, 16])),
        "pool_gib_per_rank": draw(st.one_of(st.integers(1, 192), st.floats(0.5, 192))),
    }


def rules_of_admission(run: Run) -> None:
    """What is said of the two admission rules is what happens when the requests write on."""
    n = run.namespace
    layout = kv_cache.layout(n["model"], element=n["element"], ranks=n["tensor_parallel_ranks"])
    pool = n["pool_gib_per_rank"] * UNITS["GiB"].factor

    def held(requests: int, more: int) -> int:
        generated = n["generated_tokens"] + more
        return requests * kv_cache.present_bytes(layout, prompt=n["prompt_tokens"], generated=generated)

    left = n["output_tokens"] - n["generated_tokens"]
    if said := re.search(r"Admitting ([\d,]+) requests? fills the pool after ([\d,]+) more tokens?", run.prose):
        admitted, more = (int(number.replace(",", "")) for number in said.groups())
        assert held(admitted, more - 1) <= pool < held(admitted, more)
        safe = int(re.search(r"Admitting ([\d,]+) never does", run.prose)[1].replace(",", ""))
        assert held(safe, left) <= pool < held(safe + 1, left)
    else:
        fit = int(re.search(r"both rules admit what can finish: ([\d,]+) request", run.prose)[1].replace(",", ""))
        assert held(fit, left) <= pool < held(fit + 1, 0)


def counting_query_heads(run: Run) -> None:
    """It never gives less than the cache holds, and is off by the factor that the text names."""
    (text,) = [text for _, text in run.read if text.startswith("**Counting query heads**")]
    assert "too little" not in text
    if "query heads over KV heads" in text:
        mixers = [mixer for mixer, _ in run.namespace["model"].kinds()]
        assert all(mixer.kind in {"full", "window"} for mixer in mixers), "a latent has no KV heads"
        assert any(times(mixer.query_heads, mixer.kv_heads) in text for mixer in mixers), text


def the_other_road(run: Run) -> None:
    """Room to finish is the positions left times the bytes of one, or the text says that full windows need no more."""
    n = run.namespace
    layout = kv_cache.layout(n["model"], element=n["element"])
    progress = {"prompt": n["prompt_tokens"], "generated": n["generated_tokens"]}
    room = kv_cache.room_to_finish_bytes(layout, **progress, output=n["output_tokens"])
    straight = (n["output_tokens"] - n["generated_tokens"]) * layout.bytes_per_position
    assert f"each are {format_bytes(straight)}" in run.prose
    assert ("full windows need no more" in run.prose) == (room < straight)


@st.composite
def paged_sequences(draw: st.DrawFn) -> dict[str, Any]:
    """A sequence in pages, on any model whose layers are alike; now and then in a pool too small for it."""
    alike = [slug for slug in models.catalogue() if {mixer.kind for mixer, _ in models.load(slug).kinds()} == {"full"}]
    prompt, generated = draw(st.integers(1, 3000)), draw(st.integers(1, 1500))
    size = st.one_of(st.sampled_from([1, 8, 16, 32, 64, 128]), st.integers(1, 3000))
    written = prompt + generated - 1
    return {
        "model_slug": draw(st.sampled_from(alike)),
        "element": draw(st.sampled_from(["bf16", "fp16", "fp8", "int8", "fp32"])),
        "tensor_parallel_ranks": draw(st.sampled_from([1, 2, 4, 8])),
        "pool_gib_per_rank": draw(st.one_of(st.integers(4, 192), st.floats(4, 192))),
        "block_tokens": draw(size),
        "prompt_tokens": prompt,
        "generated_tokens": generated,
        "traced_position": draw(st.integers(0, written - 1)),
        "reserved_tokens": written + draw(st.sampled_from([0, 1, 100, 8192, 100_000])),
        "samples": draw(st.integers(1, 20)),
        "large_block_tokens": draw(size),
    }


def the_walk_through_the_table(run: Run) -> None:
    """The address that the text keeps is that of an array of blocks, places, heads and elements."""
    n = run.namespace
    said = re.search(r"starts \*\*([\d,]+) B\*\* behind .* value \*\*([\d,]+) B\*\*", run.prose)
    key, value = (int(number.replace(",", "")) for number in said.groups())
    row = n["heads"] * n["mixer"].key_dim * int(n["element_bytes"])
    block, place = n["ours"].blocks[n["traced_position"] // n["block_tokens"]], n["traced_position"] % n["block_tokens"]
    assert key == (block * n["block_tokens"] + place) * row
    assert value == key + n["pool_blocks"] * n["block_tokens"] * row


def sequences_in_pages(run: Run) -> None:
    """As many as the text says fit whole, and no more; in reservations likewise."""
    n = run.namespace
    said = re.search(
        r"The pool holds \*\*([\d,]+) sequences?\*\* of this length, where reservations hold ([\d,]+)", run.prose
    )
    in_blocks = -(-n["positions"] // n["block_tokens"]) * n["block_tokens"]
    for number, held in zip(said.groups(), (in_blocks, n["reserved_tokens"]), strict=True):
        fit = int(number.replace(",", ""))
        assert fit * held * n["per_position"] <= n["memory"] < (fit + 1) * held * n["per_position"]


def copies_before_writes(run: Run) -> None:
    """Every answer but the last copies a partial block, and none copies a full one."""
    n = run.namespace
    partial = n["prompt_tokens"] % n["block_tokens"] != 0
    assert sum(map(len, n["copies"])) == (n["samples"] - 1 if partial else 0)
    assert ("ends inside a block" in run.prose) == (partial and n["samples"] > 1)
    assert ("nothing is copied" in run.prose) == (not partial and n["samples"] > 1)


def what_is_found(run: Run) -> None:
    """Whole blocks before the last token, whatever way the text came to them."""
    n = run.namespace
    prompt, size = n["prompt_tokens"], n["block_tokens"]
    found = (prompt - 1) // size * size
    (said,) = re.findall(r"The same prompt finds \*\*([\d,]+)\*\* of", run.prose)
    assert int(said.replace(",", "")) == found == n["plain_hit"]
    assert ("finds a block more than the prompt itself" in run.prose) == (prompt % size == 0)


LOGS = (
    (
        "llama-3.1-8b",
        2,
        "bf16",
        "Model loading took 14.9889 GiB and 3.652170 seconds\nGPU KV cache size: 158,656 tokens\nMaximum concurrency "
        "for 32,768 tokens per request: 4.84x",
    ),
    ("qwen3-30b-a3b", 1, "fp8", "Available KV cache memory: 10.55 GiB\nGPU KV cache size: 230,528 tokens"),
    ("gpt-oss-20b", 1, "bf16", "Available KV cache memory: 10.00 GiB\nGPU KV cache size: 200,000 tokens"),
    ("llama-2-7b", 2, "fp16", "# GPU blocks: 7449, # CPU blocks: 512"),
)


@functools.cache
def ranks_of(slug: str) -> list[int]:
    """Tensor-parallel ranks that a model's heads can be laid out on."""
    model, possible = models.load(slug), []
    for ranks in (1, 2, 4, 8):
        with contextlib.suppress(CalcError):
            kv_cache.layout(model, ranks=ranks)
            possible.append(ranks)
    return possible


@st.composite
def cache_budgets(draw: st.DrawFn) -> dict[str, Any]:
    """Any model on GPUs that are large enough for it more often than not, any request, any small trial."""
    slug = draw(st.sampled_from(models.catalogue()))
    tensor, pipeline = draw(st.sampled_from(ranks_of(slug))), draw(st.sampled_from([1, 2, 4]))
    width = draw(st.sampled_from([0.5, 1, 2]))
    share = parameters.count(models.load(slug)).total * width / tensor / pipeline
    chips = [hardware.accelerator(name) for name in hardware.accelerators()]
    large = [chip.slug for chip in chips if 0.6 * chip.memory_bytes.value > share + 6 * UNITS["GiB"].factor]
    prompt, output = draw(st.integers(1, 16_384)), draw(st.integers(1, 4096))
    log = draw(st.sampled_from(LOGS))
    compared = st.dictionaries(
        st.sampled_from(models.catalogue()), st.sampled_from([0.5, 1, 2]), min_size=1, max_size=3
    )
    return {
        "model_slug": slug,
        "accelerator_slug": draw(st.sampled_from(large or ["b300-sxm"])),
        "tensor_parallel_ranks": tensor,
        "pipeline_stages": pipeline,
        "weight_bytes_per_parameter": width,
        "element": draw(st.sampled_from(sorted(kv_cache.ELEMENTS))),
        "block_tokens": draw(st.sampled_from([8, 16, 32, 64])),
        "memory_fraction": draw(st.floats(0.8, 1)),
        "activation_gib": draw(st.integers(8, 16)) / 8,
        "graph_gib": draw(st.integers(0, 8)) / 8,
        "communication_gib": draw(st.integers(0, 8)) / 8,
        "step_tokens": draw(st.integers(1, 8192)),
        "logit_rows": draw(st.integers(1, 1024)),
        "moved_layers": draw(st.integers(0, 3)),
        "taken_gib": draw(st.integers(0, 48)) / 8,
        "longest_tokens": prompt + output + draw(st.integers(0, 131_072)),
        "prompt_tokens": prompt,
        "output_tokens": output,
        "token_target_ms": draw(st.floats(1, 200)),
        "compared": draw(compared),
        "compared_accelerator_slug": draw(st.sampled_from(["h200-sxm", "b300-sxm", "mi300x"])),
        "compared_gpus": draw(st.sampled_from([2, 4, 8])),
        "trial_requests": draw(st.integers(5, 24)),
        "trial_gap_steps": draw(st.sampled_from([0, 0.5, 1, 2])),
        "trial_prompt_tokens": draw(st.integers(1, 100)),
        "trial_limit_tokens": draw(st.integers(1, 64)),
        "trial_seed": draw(st.integers(0, 99)),
        "trial_pool_percent": draw(st.integers(60, 130)),
        "log_model_slug": log[0],
        "log_weight_bytes_per_parameter": log[1],
        "log_element": log[2],
        "log_block_tokens": draw(st.sampled_from([8, 16, 32])),
        "log_text": log[3],
    }


def the_rank_that_limits(run: Run) -> None:
    """Every rank has the blocks that all are said to have, one of them no more, and the weights add up."""
    n = run.namespace
    budget, gib = n["budget"], UNITS["GiB"].factor
    usable = math.ceil(n["total"] * n["memory_fraction"])
    beside = sum(n[name] for name in ("activation_gib", "graph_gib", "communication_gib")) * gib
    logits = n["logit_rows"] * n["model"].vocab * 4
    held = []
    for rank in budget.ranks:
        last = rank.stage == n["pipeline_stages"] - 1
        weights = rank.parameters.total * n["weight_bytes_per_parameter"]
        held.append((usable - weights - beside - last * logits) / rank.block_bytes)
    assert int(min(held)) == budget.blocks, "not the fewest"
    whole = parameters.count(n["model"]).total
    assert sum(rank.parameters.total for rank in budget.ranks) >= whole
    assert ("no rank has fewer" in run.prose) == any(int(blocks) > budget.blocks for blocks in held)


def requests_that_finish(run: Run) -> None:
    """As many as are said to finish fit at their ends, and one more would not."""
    n = run.namespace
    (said,) = re.findall(r"\*\*([\d,]+) requests?\*\* can finish", run.prose)
    count, blocks = int(said.replace(",", "")), n["budget"].blocks
    end = n["prompt_tokens"] + n["output_tokens"] - 1
    if {mixer.kind for mixer, _ in n["model"].kinds()} <= {"full", "latent"}:
        assert count == blocks // -(-end // n["block_tokens"])
    assert count * n["needed"] <= blocks < (count + 1) * n["needed"]


def two_rules_on_one_trial(run: Run) -> None:
    """The promise never preempts, both write the same tokens, and the prose says what the other rule cost."""
    n = run.namespace
    greedy, promised = n["greedy"], n["promised"]
    assert promised.preemptions == promised.recomputed == 0 and promised.peak <= n["small_pool"]
    assert set(greedy.finished) == set(promised.finished) == set(range(n["trial_requests"]))
    assert greedy.computed - greedy.recomputed == promised.computed
    assert ("neither rule preempts" in run.prose) == (greedy.preemptions == 0)


def pools_of_six_engines(run: Run) -> None:
    """What is called the smallest and the largest pool is, of all that take a fraction."""
    n = run.namespace
    pools = {m.engine: n["pool_at"](m.slug, n["memory_fraction"]) for m in n["settings"] if m.slug != "llama.cpp"}
    assert pools["vLLM"] == n["rank"].pool_bytes
    assert n["sizes_by_engine"] == pools and pools[n["least"]] == min(pools.values())
    assert pools[n["most"]] == max(pools.values())


def a_neighbor_that_is_let_in(run: Run) -> None:
    """The lower fraction leaves the neighbor its memory, and costs what is drawn."""
    n = run.namespace
    if not n["beyond"]:
        return
    free = n["total"] - n["taken_gib"] * UNITS["GiB"].factor
    assert math.ceil(n["falls"] * n["total"]) <= free + 1
    lost = n["budget"].limiting.pool_bytes - n["beyond"]
    drawn = n["scenes"]["a GPU shared\nwith others"].blocks
    assert abs(drawn - lost // n["budget"].limiting.block_bytes) <= 1


@st.composite
def two_models(draw: st.DrawFn) -> dict[str, Any]:
    """A model with KV heads beside one with a latent, on any element type, GPU and group of GPUs."""
    latents = [slug for slug in models.catalogue() if models.load(slug).kinds()[0][0].kind == "latent"]
    return {
        "model_slug": draw(st.sampled_from([slug for slug in models.catalogue() if slug not in latents])),
        "latent_slug": draw(st.sampled_from(latents)),
        "element": draw(st.sampled_from(sorted(kv_cache.ELEMENTS))),
        "positions": draw(st.integers(1, 131_072)),
        "tensor_parallel_ranks": draw(st.sampled_from([1, 2, 4, 8, 16])),
        "accelerator_slug": draw(st.sampled_from(hardware.accelerators())),
    }


def shared_and_copied_heads_answer_alike(run: Run) -> None:
    """The chapter's two functions against attention written out, one query and one position at a time."""
    n = run.namespace
    for head in (0, n["own"].query_heads - 1):
        query, kept = n["queries"][head], head // n["group"]
        scores = [sum(a * b for a, b in zip(query, key, strict=True)) for key in n["keys"][kept]]
        exponents = [math.exp((score - max(scores)) / math.sqrt(len(query))) for score in scores]
        answer = sum(w * value for w, value in zip(exponents, n["values"][kept], strict=True)) / sum(exponents)
        for result in (n["from_shared"], n["from_copies"]):
            assert abs(result[head] - answer).max() < 1e-11
    assert n["keys"].size + n["values"].size < n["many_keys"].size + n["many_values"].size or n["group"] == 1


def latents_answer_alike(run: Run) -> None:
    """The absorbed and the expanded result against one head written out."""
    n = run.namespace
    keys = [[*(n["up_key"][0] @ c), *r] for c, r in zip(n["latents"], n["rotary"], strict=True)]
    query = [*n["query"][0], *n["turned"][0]]
    scores = [sum(a * b for a, b in zip(query, key, strict=True)) for key in keys]
    exponents = [math.exp((score - max(scores)) / math.sqrt(len(query))) for score in scores]
    values = [n["up_value"][0] @ c for c in n["latents"]]
    answer = sum(w * value for w, value in zip(exponents, values, strict=True)) / sum(exponents)
    for result in (n["absorbed"], n["expanded"]):
        assert abs(result[0] - answer).max() < 1e-11


def smaller_on_a_rank(run: Run) -> None:
    """Which of the two models keeps less of a position on a GPU, and whether the whole models say the same."""
    n = run.namespace
    ranks = n["tensor_parallel_ranks"]
    own, latent = (
        [kv_cache.layout(n[name], element=n["element"], ranks=r).bytes_per_position for r in (1, ranks)]
        for name in ("model", "latent_model")
    )
    assert latent[0] == latent[1], "a latent is whole on every rank"
    assert ("though the whole model keeps" in run.prose) == (own[1] < latent[1] and own[0] > latent[0] and ranks > 1)
    if "GQA costs no more than MQA" in run.prose:
        assert n["own"].kv_heads <= ranks


def cheaper_way_around_a_latent(run: Run) -> None:
    """Up to so many new tokens absorbing takes less arithmetic, from the next on expanding does."""
    n = run.namespace
    heads, layer, cached = n["as_heads"], n["latent"], n["positions"]
    once = 2 * layer.query_heads * layer.latent_dim * (layer.nope_dim + layer.value_dim)
    absorbed = 2 * layer.query_heads * (2 * layer.latent_dim + layer.rope_dim) * cached + once
    narrow = 2 * layer.query_heads * (heads.key_dim + heads.value_dim) * cached
    said = re.search(r"Up to ([\d,]+) new tokens? at once, absorbing is the cheaper", run.prose)
    tokens = int(said[1].replace(",", "")) if said else 0
    assert tokens * absorbed <= cached * once + tokens * narrow
    assert (tokens + 1) * absorbed > cached * once + (tokens + 1) * narrow


def what_readers_leave_idle(run: Run) -> None:
    """The share of the chip in reach, from times: reading one position against working on it."""
    n = run.namespace
    chip = hardware.accelerator(n["accelerator_slug"])
    flop = 2 * n["own"].query_heads * (n["own"].key_dim + n["own"].value_dim)
    size = kv_cache.formula_of(n["own"], layers=1, element=n["element"])
    seconds = size[0](**size[1]) / chip.bandwidth.value, flop / chip.peak("bf16").value
    (said,) = re.findall(rf"{re.escape(n['model'].name)} can use (all|at most [\d.]+%) while", run.prose)
    if said == "all":
        assert seconds[0] <= seconds[1]
    else:
        assert math.isclose(float(said.split()[-1].rstrip("%")), 100 * seconds[1] / seconds[0], rel_tol=6e-3)


@st.composite
def many_adapters(draw: st.DrawFn) -> dict[str, Any]:
    """Adapters of any shape on any model, with slots that admit them, under any popularity."""
    slug = draw(st.sampled_from(models.catalogue()))
    ranks, sharded = draw(st.sampled_from([1, 1, 2, 2, 4, 8])), draw(st.booleans())
    widest = draw(st.sampled_from([16, 32, 64, 128]))
    rank = ranks * draw(st.integers(1, widest // ranks)) if sharded else draw(st.integers(1, widest))
    names = adapters.buffered(models.load(slug))
    listed = st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True)
    targets = draw(st.one_of(st.sampled_from(adapters.GROUPS), listed))
    spare = [name for name in adapters.EMBEDDINGS if name not in targets]
    slots = draw(st.integers(1, 24))
    chips = [slug for slug in hardware.accelerators() if "pcie" in hardware.accelerator(slug).links]
    return {
        "model_slug": slug,
        "lora_rank": rank,
        "target_modules": targets,
        "adapter_element": draw(st.sampled_from(sorted(adapters.ELEMENTS))),
        "saved_modules": draw(st.lists(st.sampled_from(spare), unique=True)) if spare else [],
        "stored_adapters": draw(st.integers(1, 1200)),
        "host_adapters": draw(st.integers(slots, 400)),
        "slots": slots,
        "slot_rank": widest,
        "fully_sharded": sharded,
        "tensor_parallel_ranks": ranks,
        "memory_gib_per_rank": draw(st.one_of(st.integers(10, 180), st.floats(10, 180))),
        "waiting_requests": draw(st.integers(1, 200)),
        "positions_per_request": draw(st.integers(1, 8192)),
        "zipf_exponent": draw(st.floats(0, 2.5)),
        "accelerator_slug": draw(st.sampled_from(chips)),
        "disk_gb_per_s": draw(st.floats(0.1, 14)),
        "adapter_folder": "",
    }


def every_row_agrees(run: Run) -> None:
    """Served through its pair, a row gives what a merged model gives."""
    n = run.namespace
    assert n["agree"].all() and n["untouched"]
    assert f"{len(n['batch'])} of {len(n['batch'])} rows agree" in run.prose


def what_limits_the_batch(run: Run) -> None:
    """Slots, memory or neither, as the queues that were drawn say."""
    n = run.namespace
    popularity = adapters.zipf(adapters=n["stored_adapters"], exponent=n["zipf_exponent"])
    running = adapters.expected_running(popularity, requests=n["waiting_requests"], slots=n["slots"])
    left = n["memory_gib_per_rank"] * UNITS["GiB"].factor - n["held"].bytes_per_gpu
    fits = left // n["request_bytes"]
    if "Slots are the limit" in run.prose:
        assert running < fits and running < n["waiting_requests"] - 0.4
    elif "Memory is the limit" in run.prose:
        assert fits <= running
    else:
        assert "Neither slots nor memory" in run.prose
        assert fits >= n["waiting_requests"] and running > n["waiting_requests"] - 0.6


def sets_of_adapters(run: Run) -> None:
    """What a slot holds is never more than the slot, and padding is at least the ratio of ranks."""
    n = run.namespace
    assert n["filled"] <= n["everywhere"]
    assert n["everywhere"] / n["filled"] >= 0.999999 * n["slot_rank"] / n["lora_rank"]
    assert n["share"] * n["tensor_parallel_ranks"] >= 0.999999 * 2 * n["one"].low_rank_parameters
    assert ("Buffers for routed experts are not in" in run.prose) == any(
        "experts." in name for name in adapters.target_names(n["model"])
    )


def shares_of_requests(run: Run) -> None:
    """Hits on the GPU, loads from the host and loads from the disk are all requests."""
    n = run.namespace
    assert 0 < n["hits"] <= n["host_hits"] + 1e-9 <= 1 + 2e-9
    assert n["distinct"] <= min(n["waiting_requests"], n["stored_adapters"]) * (1 + 1e-9)
    assert n["hits"] <= adapters.pinned_hit_ratio(n["popularity"], slots=n["slots"]) + 0.02  # one is approximated


@st.composite
def quantized_models(draw: st.DrawFn) -> dict[str, Any]:
    """Some scheme for some model on some GPUs, mostly one that the engine supports there."""
    slug = draw(st.sampled_from([s for s in hardware.accelerators() if s != "tpu-v5e"]))
    engine = draw(st.sampled_from(["vllm", "vllm", "tensorrt-llm"]))
    chip = hardware.accelerator(slug)
    runs = [s for s in quantization.schemes() if quantization.support(s, chip, engine).runs]
    return {
        "model_slug": draw(st.sampled_from(models.catalogue())),
        "accelerator_slug": slug,
        "engine": engine,
        "tensor_parallel_ranks": draw(st.sampled_from([1, 1, 2, 4, 8])),
        "weight_scheme": draw(st.sampled_from(runs)),
        "cache_element": draw(st.sampled_from(sorted(kv_cache.ELEMENTS))),
        "decoding_sequences": draw(st.integers(1, 4096)),
        "positions_per_sequence": draw(st.integers(1, 131_072)),
        "usable_gib_per_gpu": draw(st.one_of(st.integers(2, 280), st.floats(2, 280))),
        "quality_benchmark": draw(st.sampled_from(quantization.benchmarks())),
        "quality_floor_percent": draw(st.sampled_from([90, 97, 98.5, 99, 99.9, 100, 101])),
        "gguf_model_slug": draw(st.sampled_from(["llama-3.1-8b", "llama-3.2-1b", "llama-2-70b", "mistral-nemo"])),
        "gguf_mix": draw(st.sampled_from(quantization.gguf_mixes())),
        "matrix_rows": draw(st.sampled_from([128, 256])),
        "matrix_columns": 1024 * draw(st.integers(1, 2)),
        "outlier_columns": draw(st.integers(1, 12)),
        "outlier_size": draw(st.sampled_from([2, 5, 20, 50])),
        "matrix_seed": draw(st.integers(0, 1000)),
    }


def where_fewer_bytes_stop_helping(run: Run) -> None:
    """A step waits for weights below the crossover, for arithmetic from it on; the gain is gone where the text says."""
    n = run.namespace
    prose = re.sub(r"</?strong>", "**", run.prose)
    chip, deal = n["gpu"], {"ranks": n["tensor_parallel_ranks"]}
    held, original = (quantization.stored(n["model"], s) for s in (n["weight_scheme"], "bf16"))
    multiplies = quantization.support(n["weight_scheme"], chip, n["engine"]).multiplies
    taken = re.search(r"From \*\*([\d,]+) tokens?\*\* in a step on, .* waits for arithmetic", prose)
    tokens = int(taken[1].replace(",", ""))
    at, below = (
        quantization.step(n["model"], held, chip, multiplies, **deal, step_tokens=t)
        for t in (tokens, max(tokens - 1, 1))
    )
    assert at.multiply_s >= at.read_s
    assert tokens == 1 or below.multiply_s < below.read_s
    if gone := re.search(r"is gone at \*\*([\d,]+)\*\*", prose):
        tokens = int(gone[1].replace(",", ""))
        floors = [
            quantization.step(n["model"], h, chip, "bf16", **deal, step_tokens=tokens).floor_s for h in (held, original)
        ]
        assert math.isclose(*floors, rel_tol=1e-9)


def a_choice_that_runs_fits_and_is_good_enough(run: Run) -> None:
    """What is chosen runs, fits, reaches the floor by a published figure, and nothing known like it is faster."""
    n = run.namespace
    good = [
        c
        for c in n["found"]
        if c.support.runs
        and c.rank_bytes + n["wanted"] <= n["usable"]
        and c.recovery
        and c.timing
        and c.recovery.percent >= n["quality_floor_percent"]
    ]
    if said := re.search(r"The choice is \*\*(.+?)\*\*", run.prose):
        best = max(c.timing.times_faster for c in good)
        assert any(c.name == said[1] and c.timing.times_faster == best for c in good)
    else:
        assert not good


CHAPTERS: dict[str, Altered] = {
    "memory/attention_variants": Altered(
        sensible=two_models(),
        impossible=(
            {"model_slug": "llama-9"},
            {"model_slug": "no/such/config.json"},
            {"model_slug": "deepseek-v3"},
            {"latent_slug": "llama-3.1-8b"},
            {"element": "bf15"},
            {"positions": 0},
            {"positions": 8192.5},
            {"positions": "8192"},
            {"tensor_parallel_ranks": 0},
            {"tensor_parallel_ranks": 3},
            {"tensor_parallel_ranks": -8},
            {"model_slug": "gpt-oss-20b", "tensor_parallel_ranks": 16},
            {"accelerator_slug": "z80"},
        ),
        claims=(
            shared_and_copied_heads_answer_alike,
            latents_answer_alike,
            smaller_on_a_rank,
            cheaper_way_around_a_latent,
            what_readers_leave_idle,
        ),
    ),
    "memory/capacity": Altered(
        sensible=cache_budgets(),
        impossible=(
            {"model_slug": "llama-9"},
            {"model_slug": "no/such/config.json"},
            {"accelerator_slug": "h100"},
            {"tensor_parallel_ranks": 3},
            {"pipeline_stages": 81},
            {"memory_fraction": 1.2},
            {"memory_fraction": 0.2},
            {"weight_bytes_per_parameter": 12},
            {"element": "bf15"},
            {"block_tokens": 0},
            {"activation_gib": -1},
            {"activation_gib": 0.1},
            {"graph_gib": float("nan")},
            {"logit_rows": -1},
            {"moved_layers": -1},
            {"taken_gib": 79},
            {"longest_tokens": 100},
            {"prompt_tokens": 0},
            {"output_tokens": 2.5},
            {"token_target_ms": 0},
            {"compared": {}},
            {"compared": {"deepseek-v3": 2}, "compared_gpus": 2},
            {"compared_accelerator_slug": "z80"},
            {"compared_gpus": 3},
            {"trial_requests": 0},
            {"trial_requests": 1_000_000},
            {"trial_limit_tokens": 1_000_000},
            {"trial_gap_steps": 1e9},
            {"trial_pool_percent": 1},
            {"log_text": ""},
            {"log_text": "<script>alert(1)</script>"},
            {"log_model_slug": "gpt-9"},
        ),
        claims=(
            the_rank_that_limits,
            requests_that_finish,
            two_rules_on_one_trial,
            pools_of_six_engines,
            a_neighbor_that_is_let_in,
        ),
    ),
    "memory/kv_cache": Altered(
        sensible=kv_cache_requests(),
        impossible=(
            {"model_slug": "llama-9"},
            {"model_slug": "no/such/config.json"},
            {"element": "bf15"},
            {"prompt_tokens": 0},
            {"prompt_tokens": 2048.5},
            {"prompt_tokens": "2048"},
            {"generated_tokens": 1025, "output_tokens": 1024},
            {"output_tokens": -1},
            {"tensor_parallel_ranks": 0},
            {"tensor_parallel_ranks": 3},
            {"pool_gib_per_rank": -1},
            {"pool_gib_per_rank": float("nan")},
        ),
        claims=(rules_of_admission, counting_query_heads, the_other_road),
    ),
    "memory/multi_lora": Altered(
        sensible=many_adapters(),
        impossible=(
            {"model_slug": "llama-9"},
            {"model_slug": "no/such/config.json"},
            {"lora_rank": 0},
            {"lora_rank": 128},
            {"lora_rank": 12, "fully_sharded": True},
            {"target_modules": "everything"},
            {"target_modules": ["wq"]},
            {"target_modules": []},
            {"adapter_element": "int4"},
            {"saved_modules": ["norm"]},
            {"stored_adapters": 0},
            {"host_adapters": 4},
            {"slots": 0},
            {"slot_rank": 0},
            {"tensor_parallel_ranks": 3},
            {"waiting_requests": 0},
            {"positions_per_request": -1},
            {"memory_gib_per_rank": 1},
            {"memory_gib_per_rank": float("nan")},
            {"zipf_exponent": -1},
            {"zipf_exponent": float("inf")},
            {"accelerator_slug": "h100"},
            {"disk_gb_per_s": 0},
            {"adapter_folder": "no/such/folder"},
            {"model_slug": "mixtral-8x7b", "target_modules": ["experts.down_proj"]},
        ),
        claims=(every_row_agrees, what_limits_the_batch, sets_of_adapters, shares_of_requests),
    ),
    "memory/quantization": Altered(
        sensible=quantized_models(),
        impossible=(
            {"model_slug": "llama-9"},
            {"accelerator_slug": "h100"},
            {"engine": "tgi"},
            {"weight_scheme": "int3"},
            {"weight_scheme": "int8-channel", "accelerator_slug": "b200-sxm"},
            {"weight_scheme": "mxfp4", "engine": "tensorrt-llm"},
            {"accelerator_slug": "tpu-v5e"},
            {"tensor_parallel_ranks": 3},
            {"cache_element": "fp4"},
            {"decoding_sequences": 0},
            {"positions_per_sequence": 1.5},
            {"usable_gib_per_gpu": 0},
            {"quality_benchmark": "MMLU"},
            {"quality_floor_percent": "99"},
            {"gguf_model_slug": "gpt-oss-20b"},
            {"gguf_mix": "Q9"},
            {"matrix_columns": 1000},
            {"outlier_columns": -1},
            {"matrix_seed": 1.5},
        ),
        claims=(where_fewer_bytes_stop_helping, a_choice_that_runs_fits_and_is_good_enough),
    ),
    "memory/paged_attention": Altered(
        sensible=paged_sequences(),
        impossible=(
            {"model_slug": "llama-9"},
            {"model_slug": "no/such/config.json"},
            {"model_slug": "deepseek-v3"},
            {"model_slug": "gpt-oss-20b"},
            {"element": "bf15"},
            {"element": "fp8 + head scales"},
            {"tensor_parallel_ranks": 0},
            {"tensor_parallel_ranks": 3},
            {"pool_gib_per_rank": 0.01},
            {"pool_gib_per_rank": -1},
            {"pool_gib_per_rank": float("nan")},
            {"block_tokens": 0},
            {"block_tokens": "16"},
            {"block_tokens": 10**9},
            {"prompt_tokens": 0},
            {"prompt_tokens": 12.5},
            {"generated_tokens": 0},
            {"traced_position": 1300},
            {"traced_position": -1},
            {"reserved_tokens": 1299},
            {"samples": 0},
            {"samples": 10**9},
            {"large_block_tokens": 0},
        ),
        claims=(the_walk_through_the_table, sequences_in_pages, copies_before_writes, what_is_found),
    ),
}
