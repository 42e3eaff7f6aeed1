"""What a reader might sensibly assume instead, chapter by chapter, what is impossible, and what must stay true."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import hardware, kv_cache, models
from calc.notebook import times
from calc.units import UNITS


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
        fit = int(re.search(r"both rules agree: ([\d,]+) request", run.prose)[1].replace(",", ""))
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
    assert ("by another road" in run.prose) == (room == straight)
    assert ("full windows need no more" in run.prose) == (room < straight)


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
}
