"""What a reader of memory/attention_variants might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

import math
import re
from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import hardware, kv_cache, models

from . import Altered


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


def every_way_makes_the_new_token_s_own_keys_and_values(run: Run) -> None:
    """Stored heads spare the old positions' expansion; a token's own is paid once whichever way is taken."""
    n = run.namespace
    layer, heads, cached = n["latent"], n["as_heads"], n["positions"]
    once = 2 * layer.query_heads * layer.latent_dim * (layer.nope_dim + layer.value_dim)
    narrow = 2 * layer.query_heads * (heads.key_dim + heads.value_dim) * cached
    absorbed = 2 * layer.query_heads * (2 * layer.latent_dim + layer.rope_dim) * cached
    assert [way[-1] for way in n["ways"]] == [narrow + once, narrow + cached * once, absorbed + once]


def factors_of_unrounded_values(run: Run) -> None:
    """Falcon-7B by its hidden size, and Llama-7B with eight heads for 32: no rounded number goes into a factor."""
    falcon = 32 * 64 * 2 * 2, 32 * 4544 * 2
    assert f"{round(1e9 // falcon[0] / (1e9 // falcon[1]), 1)}× too few" in run.prose
    prose = re.sub(r"</?strong>", "**", run.prose)
    assert "16.78 MB for one layer of Llama-7B at 4,096 tokens: **4× too little**" in prose


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


ALTERED = Altered(
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
        every_way_makes_the_new_token_s_own_keys_and_values,
        factors_of_unrounded_values,
        what_readers_leave_idle,
    ),
)
