"""What a reader of time/roofline might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

import math
import re
from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import hardware, kv_cache, models, roofline
from calc.units import CalcError

from . import Altered

MIXTURES = tuple(
    slug for slug in models.catalogue() if any(hasattr(layer.mlp, "experts") for layer in models.load(slug).layers)
)


def runs(slug: str, ranks: int) -> bool:
    try:
        roofline.step_work(models.load(slug), sequences=[(1, 0)], ranks=ranks)
    except CalcError:
        return False
    return True


PLACES = tuple((slug, ranks) for slug in models.catalogue() for ranks in (1, 2, 4, 8, 16) if runs(slug, ranks))


@st.composite
def steps(draw: st.DrawFn) -> dict[str, Any]:
    """Some model on some chip, in any types that the chip multiplies, with short and long caches."""
    slug, ranks = draw(st.sampled_from(PLACES))
    chip = draw(st.sampled_from(hardware.accelerators()))
    return {
        "model_slug": slug,
        "accelerator_slug": chip,
        "tensor_parallel_ranks": ranks,
        "weight_element": draw(st.sampled_from(["bf16", "fp16", "fp8", "int8", "fp32"])),
        "cache_element": draw(st.sampled_from(sorted(kv_cache.ELEMENTS))),
        "multiply_element": draw(st.sampled_from(sorted(hardware.accelerator(chip).peaks))),
        "decode_sequences": draw(st.integers(1, 1024)),
        "cached_tokens": draw(st.one_of(st.integers(0, 3000), st.integers(3000, 200_000))),
        "prompt_tokens": draw(st.integers(1, 131_072)),
        "all_reduce_start_us": draw(st.one_of(st.integers(1, 500), st.floats(0.5, 100))),
        "mixture_slug": draw(st.sampled_from(MIXTURES)),
    }


def rates(n: dict[str, Any]) -> tuple[float, float]:
    chip = hardware.accelerator(n["accelerator_slug"])
    return chip.peak(n["multiply_element"]).value, chip.bandwidth.value


def both_steps_wait_for_what_the_answer_says(run: Run) -> None:
    """The longer of arithmetic and bytes, worked out again from the counted work, is what the prose names."""
    n = run.namespace
    peak, bandwidth = rates(n)
    said = re.findall(r"(?:it )?waits for \*\*(memory|arithmetic)\*\* and takes at least", run.prose)
    assert len(said) >= 2
    for work, bound in zip((n["decode_work"], n["prefill_work"]), said, strict=False):
        reads, multiplies = work.moved_bytes() / bandwidth, work.flop / peak
        assert math.isclose(reads, multiplies, rel_tol=1e-9) or bound == (
            "memory" if reads > multiplies else "arithmetic"
        )


def no_batch_crosses_where_the_answer_says_so(run: Run) -> None:
    """From the length named on, one sequence's own bytes outlast its arithmetic, and just below they do not."""
    n = run.namespace
    peak, bandwidth = rates(n)
    named = re.search(r"from \*\*([\d,]+) cached positions?\*\* each, no batch ever does", run.prose)
    if n["never"] is None:
        assert named is None and "a large enough batch crosses at any length" in run.prose
        return
    length = int(named[1].replace(",", ""))

    def outlasts(cached: int) -> bool:
        work = roofline.step_work(n["model"], sequences=[(1, cached)], **n["deal"])
        return (work.moved_bytes() - work.weight_bytes) / bandwidth >= work.flop / peak

    assert outlasts(length)
    assert length == 0 or not outlasts(length - 1)


def splitting_pays_where_the_text_says_so(run: Run) -> None:
    """Reading alone against a share of it and the all-reduces."""
    n = run.namespace
    _, bandwidth = rates(n)
    said = re.search(
        r"At [\d.,]+ (?:ns|µs|ms|s) it \*\*(pays|does not pay)\*\*",
        run.prose.replace("</strong>", "**").replace("<strong>", "**"),
    )
    alone = n["whole"].weight_bytes / bandwidth
    each = n["all_reduce_start_us"] * 1e-6 + n["sent"] / n["linked"].bytes_per_second.value
    split = alone / n["group"] + n["shared"].all_reduces * each
    assert math.isclose(alone, split, rel_tol=1e-6) or said[1] == ("pays" if split < alone else "does not pay")


def each_convention_adds_its_own(run: Run) -> None:
    """The square alone, and the output layer alone, each counted in a step that changes nothing else."""
    n = run.namespace
    causal = n["prefill_work"].flop
    said = re.search(
        r"its half adds ([\d.]+)% to this prompt, the output layer on every token ([\d.]+)% more", run.prose
    )
    for text, changed in zip(said.groups(), ({"causal": False}, {"head": "every"}), strict=True):
        step = roofline.step_work(n["model"], sequences=[(n["prompt_tokens"], 0)], **n["deal"], **changed)
        assert math.isclose(float(text) / 100, step.flop / causal - 1, rel_tol=6e-3, abs_tol=1e-12)


def the_mixture_is_counted_on_one_gpu(run: Run) -> None:
    """The bytes of the step through the mixture are those of one GPU, and the prose says so beside shares of many."""
    n = run.namespace
    assert "One GPU that holds all of" in run.prose
    assert n["many"].ranks == n["once"].ranks == 1
    assert ("the tables above count one of" in run.prose) == (n["tensor_parallel_ranks"] > 1)


ALTERED = Altered(
    sensible=steps(),
    impossible=(
        {"model_slug": "llama-9"},
        {"accelerator_slug": "h100"},
        {"tensor_parallel_ranks": 3},
        {"tensor_parallel_ranks": 0},
        {"weight_element": "int3"},
        {"weight_element": "fp8 + head scales"},
        {"cache_element": "fp4"},
        {"multiply_element": "int4"},
        {"decode_sequences": 0},
        {"decode_sequences": 1.5},
        {"cached_tokens": -1},
        {"prompt_tokens": 0},
        {"all_reduce_start_us": -1},
        {"all_reduce_start_us": "30"},
        {"mixture_slug": "llama-3.1-70b"},
    ),
    claims=(
        both_steps_wait_for_what_the_answer_says,
        no_batch_crosses_where_the_answer_says_so,
        splitting_pays_where_the_text_says_so,
        each_convention_adds_its_own,
        the_mixture_is_counted_on_one_gpu,
    ),
)
