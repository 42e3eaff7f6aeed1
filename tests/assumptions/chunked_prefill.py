"""What a reader of time/chunked_prefill might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

import math
import re
from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import hardware, models
from calc.units import format_count

from . import Altered

BUDGETS = (128, 256, 512, 1024, 2048, 4096, 8192, 16_384)
MODELS = ("llama-3.1-70b", "llama-3.1-8b", "qwen2.5-72b", "gemma-3-27b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-20b")
CHIPS = ("h100-sxm", "h200-sxm", "a100-80gb-sxm", "b200-sxm", "mi300x")


@st.composite
def long_prompts(draw: st.DrawFn) -> dict[str, Any]:
    """A prompt beside some streams, on any chip; few enough steps to walk through."""
    budget = draw(st.one_of(st.sampled_from(BUDGETS), st.integers(128, 20_000)))
    compared = draw(st.lists(st.sampled_from(BUDGETS), min_size=1, max_size=5, unique=True))
    decoding = draw(st.integers(0, 100))
    smallest = min(budget, *compared) - decoding
    return {
        "model_slug": draw(st.sampled_from(MODELS)),
        "accelerator_slug": draw(st.sampled_from(CHIPS)),
        "tensor_parallel_ranks": draw(st.sampled_from([1, 2, 4, 8])),
        "element": draw(st.sampled_from(["bf16", "fp8"])),
        "prompt_tokens": draw(st.integers(1, min(40_000, 60 * smallest))),
        "token_budget": budget,
        "decoding_requests": decoding,
        "decode_prompt_tokens": draw(st.integers(1, 3000)),
        "compared_budgets": tuple(compared),
        "seconds_between_prompts": draw(st.one_of(st.integers(5, 600), st.floats(1, 1000))),
        "tail_percentile": draw(st.sampled_from([50, 90, 95, 99, 99.9])),
        "gap_limit_ms": draw(st.one_of(st.integers(1, 30_000), st.floats(0.5, 20_000))),
    }


def cut_by_hand(run: Run) -> list[int]:
    n = run.namespace
    left, chunks = n["prompt_tokens"], []
    while left:
        chunks.append(min(left, n["token_budget"] - n["decoding_requests"]))
        left -= chunks[-1]
    return chunks


def the_steps(run: Run) -> None:
    """The answer's steps, its last chunk and its re-read positions are those of a prompt cut by hand."""
    chunks = cut_by_hand(run)
    n = run.namespace
    assert [row.tokens for step in n["own"] for row in step.rows if row.name == "long"] == chunks
    said = re.search(r"take \*\*([\d,]+) steps?\*\*", run.prose)[1]
    assert said == format_count(len(chunks))
    again = sum(sum(chunks[:i]) for i in range(len(chunks)))
    if len(chunks) > 1:
        assert re.search(r"chunks read \*\*([\d,]+) cached positions?\*\*", run.prose)[1] == format_count(again)
        assert f"the last of them with {format_count(chunks[-1])}" in run.prose
    else:
        assert "nothing is read again" in run.prose


def equal_arithmetic(run: Run) -> None:
    assert "They are equal" in run.prose and "They differ" not in run.prose


def floors_hold(run: Run) -> None:
    """Cut or not, no floor is below the arithmetic of the prompt, and the longest is one of the steps'."""
    n = run.namespace
    assert n["total_s"] >= n["uncut"].multiply_s * (1 - 1e-9) - 1e-12 or n["steps"] == 1
    assert n["longest_s"] == max(f.seconds for f in n["floors"]) <= n["total_s"] * (1 + 1e-12)
    assert len(n["floors"]) == len(cut_by_hand(run))


def the_choice(run: Run) -> None:
    """What is chosen keeps the limit in every repeat, and nothing allowed is clearly quicker."""
    n = run.namespace
    limit = n["gap_limit_ms"] / 1000
    allowed = [s for s in n["settings"].values() if max(s.gaps_s) <= limit]
    chosen = n["choice"].chosen
    if not allowed:
        assert chosen is None and "No budget keeps every gap" in run.prose and "finds no budget" in run.prose
        return
    assert chosen in allowed
    quickest = min(allowed, key=lambda s: s.wait_s)
    assert min(chosen.waits_s) <= max(quickest.waits_s)
    assert f"**{chosen.name}**" in run.prose


def the_percentile(run: Run) -> None:
    """Which settings the percentile is said to show follows from the counted gaps."""
    n = run.namespace
    edge = 1 - n["tail_percentile"] / 100
    shown = {n["named"](b) for b, part in n["parts"].items() if part > edge}
    verdict = re.search(r"At this rate p[\d.]+ (.+?)\. ", run.prose)[1]
    if len(shown) == len(n["parts"]):
        assert "with every setting" in verdict
    elif not shown:
        assert "with no setting" in verdict
    else:
        assert set(re.search(r"gap with (.+?), and", verdict)[1].split(", ")) == shown


def the_lengthened_gaps(run: Run) -> None:
    """The gaps that a prompt lengthens make up its wait: prompts come no faster than they are computed."""
    n = run.namespace
    for budget, (stalls, stall_s, _) in n["seen"].items():
        wait = n["settings"][budget].wait_s
        assert abs(stalls * stall_s / wait - 1) < 0.02, budget


def the_cost_of_cuts(run: Run) -> None:
    """The cost of cutting is the prompt's own: no stream is in it."""
    n = run.namespace
    assert n["bare_uncut_s"] <= n["uncut"].seconds * (1 + 1e-12)
    for budget in n["budgets"]:
        assert n["bare"][budget] <= sum(n["curves"][budget]) * (1 + 1e-12), budget


def luck_of_all_pairs(run: Run) -> None:
    """Three repeats of one setting below three of another: 2 of the 20 orders; and every two settings are a pair."""
    n = run.namespace
    settings, repeats = len(n["order"]), len(n["order"][0].waits_s)
    pair, pairs, apart = re.search(
        r"by luck in one case of ([\d.]+)\. \d+ settings make ([\d,]+) pairs: .*? ([\d.]+) of these", run.prose
    ).groups()
    assert float(pair) == math.comb(2 * repeats, repeats) / 2
    assert int(pairs) == settings * (settings - 1) / 2
    assert math.isclose(float(apart), int(pairs) / float(pair), rel_tol=0.05)


ALTERED = Altered(
    sensible=long_prompts(),
    impossible=(
        {"model_slug": "llama-9"},
        {"accelerator_slug": "h900"},
        {"element": "bf15"},
        {"tensor_parallel_ranks": 0},
        {"tensor_parallel_ranks": 3},
        {"prompt_tokens": 0},
        {"prompt_tokens": 2048.5},
        {"prompt_tokens": "20000"},
        {"token_budget": 0},
        {"token_budget": 3},
        {"decoding_requests": -1},
        {"decoding_requests": 256},
        {"decode_prompt_tokens": 0},
        {"compared_budgets": (2,)},
        {"compared_budgets": (512.5,)},
        {"seconds_between_prompts": 0},
        {"tail_percentile": 100},
        {"tail_percentile": 20},
        {"gap_limit_ms": 0},
        {"gap_limit_ms": float("nan")},
    ),
    claims=(
        the_steps,
        equal_arithmetic,
        floors_hold,
        the_choice,
        the_percentile,
        the_lengthened_gaps,
        the_cost_of_cuts,
        luck_of_all_pairs,
    ),
)
assert set(MODELS) <= set(models.catalogue()) and set(CHIPS) <= set(hardware.accelerators())
