"""What a reader of memory/capacity might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

import contextlib
import functools
import math
import re
from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import hardware, kv_cache, models, parameters
from calc.units import UNITS, CalcError

from . import Altered

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


def a_token_takes_every_stage(run: Run) -> None:
    """No less than one pass through a stage, no more than one batch through all, and in as many batches as stages."""
    n = run.namespace
    stages, requests, least = n["pipeline_stages"], n["fit_end"], n["least_seconds"](n["fit_end"])
    assert n["seconds"] <= least * (1 + 1e-9)
    assert least <= n["token_seconds"](requests, 1)
    if stages == 1:
        assert math.isclose(least, n["seconds"], rel_tol=1e-9)
    else:
        assert least <= n["token_seconds"](requests, min(stages, requests))
    fits = n["allowed"]
    assert not fits or n["least_seconds"](fits) <= n["token_target_ms"] / 1000
    assert fits == requests or n["least_seconds"](fits + 1) > n["token_target_ms"] / 1000


ALTERED = Altered(
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
        a_token_takes_every_stage,
    ),
)
