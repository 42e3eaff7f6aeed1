"""What a reader of memory/quantization might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

import math
import re
from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import hardware, kv_cache, models, quantization

from . import Altered

RECORDED = [s for s in hardware.accelerators() if quantization.support("bf16", hardware.accelerator(s), "vllm").runs]


@st.composite
def quantized_models(draw: st.DrawFn) -> dict[str, Any]:
    """Some scheme for some model on some GPUs, mostly one that the engine supports there."""
    slug = draw(st.sampled_from(RECORDED))
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


def the_turn_of_the_matrices_that_were_measured(run: Run) -> None:
    """All of their weights are stored alike: 4 bits and a 16-bit scale for 128, or 16 bits."""
    chip = hardware.accelerator("a100-80gb-sxm")
    balance = chip.peak("bf16").value / chip.bandwidth.value
    for name, bits in (("int4-g128", 4 + 16 / 128), ("bf16", 16)):
        assert run.namespace["theirs"][name] == math.ceil(balance * bits / 16)


ALTERED = Altered(
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
    claims=(
        where_fewer_bytes_stop_helping,
        a_choice_that_runs_fits_and_is_good_enough,
        the_turn_of_the_matrices_that_were_measured,
    ),
)
