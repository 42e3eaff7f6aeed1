"""What a reader of service/disaggregation might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import disaggregation, models, parameters

from . import Altered

LARGEST = 100e9  # parameters that four large GPUs hold in 16 bits with room for a cache
ATTENTION = ("full", "window", "latent")


def _served() -> list[str]:
    """Models of attention layers alone that fit on a worker."""
    loaded = {slug: models.load(slug) for slug in models.catalogue()}
    return [
        slug
        for slug, model in loaded.items()
        if parameters.count(model).total < LARGEST and all(mixer.kind in ATTENTION for mixer, _ in model.kinds())
    ]


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, Any]:
    """A fleet with any model, link and limits, at loads from light to more than it can carry."""
    lightest = draw(st.one_of(st.integers(1, 12), st.floats(0.5, 12)))
    return {
        "model_slug": draw(st.sampled_from(_served())),
        "accelerator_slug": draw(st.sampled_from(["h100-sxm", "h200-sxm", "b200-sxm", "mi300x"])),
        "gpus_per_worker": draw(st.sampled_from([2, 4, 8])),
        "workers": draw(st.sampled_from([2, 3, 3, 5])),
        "requests_per_s": [lightest * times for times in draw(st.sampled_from([[1], [1, 2], [1, 2], [3, 1, 2]]))],
        "first_limit_ms": draw(st.one_of(st.integers(200, 4000), st.floats(200, 4000))),
        "pace_limit_ms": draw(st.one_of(st.integers(8, 100), st.floats(8, 100))),
        "token_budgets": draw(st.sampled_from([[256, 1024], [128], [2048, 512], [8192]])),
        "nic_gbit_per_gpu": draw(st.sampled_from([10, 25, 100, 400, 800])),
        "wire_efficiency": draw(st.floats(0.3, 1)),
        "descriptor_us": draw(st.one_of(st.sampled_from([0, 1, 10]), st.floats(0.01, 10))),
        "block_tokens": draw(st.sampled_from([1, 16, 64, 256])),
        "control_ms": draw(st.sampled_from([0, 5, 50, 200])),
        "layer_by_layer": draw(st.booleans()),
        "prefill_efficiency": draw(st.floats(0.2, 1)),
        "read_efficiency": draw(st.floats(0.3, 1)),
        "overlap": draw(st.sampled_from([0, 0.25, 0.5, 0.9, 1])),
        "memory_fraction": draw(st.floats(0.7, 0.95)),
        "other_gib_per_gpu": draw(st.one_of(st.integers(0, 6), st.floats(0, 6))),
        "simulated_requests": draw(st.sampled_from([200, 250, 300])),
    }


def no_other_setting_is_better(run: Run) -> None:
    """The pool's budget and the split's ratio are the best of those that were simulated, counted anew."""
    n = run.namespace
    first, pace = n["first_limit_ms"] / 1000, n["pace_limit_ms"] / 1000

    def inside(outcome) -> float:
        seen = list(zip(outcome.ttft_s, outcome.tpot_s, strict=True))[len(outcome.ttft_s) // 10 :]
        return sum(a <= first and b <= pace for a, b in seen) / len(seen)

    for one in n["found"]:
        assert inside(one.pool) == max(map(inside, one.pools.values()))
        assert inside(one.split) == max(map(inside, one.splits.values()))
        assert set(one.splits) == set(range(1, n["workers"]))


def who_is_ahead_is_said(run: Run) -> None:
    """The verdict at each load is that of the interval, and the answer lists it."""
    n = run.namespace
    for one, gain in zip(n["found"], n["ahead"], strict=True):
        assert gain.low <= gain.mean <= gain.high
        wanted = "split" if gain.low > 0 else "pool" if gain.high < 0 else "neither"
        assert one.winner == wanted and one.arrival_rate in n["by"][wanted]
    assert ("the split keeps more" in run.prose) == bool(n["by"]["split"])
    assert ("the pool keeps more" in run.prose) == bool(n["by"]["pool"])


def the_parts_add_up(run: Run) -> None:
    """Line, prompt, handoff and the rest are not negative and sum to the first token of every load."""
    for mine in run.namespace["parts"].values():
        assert min(mine) >= -1e-9
        assert abs(sum(mine[:4]) - mine[4]) < 1e-9


def a_transfer_is_slower_than_its_wire(run: Run) -> None:
    n = run.namespace
    assert n["rate"] <= n["handoff"].wire_rate * 1.001 <= n["nominal"] * 1.001
    assert n["exposed"] <= n["transfer"] * (1 + 1e-3)
    assert n["idle_split"] > n["prompt_s"]


def alike_jobs_are_pooled(run: Run) -> None:
    """One line wins at every load where jobs are alike, and cutting prompts moves the turn up, exactly."""
    n = run.namespace
    assert n["turns"]["all alike"] is None
    far = float("inf")
    order = [n["turns"][name] or far for name in ("prompts whole", "prompts cut", "all alike")]
    assert all(a <= b for a, b in pairwise(order))
    kind = n["kinds"]["prompts whole"]
    for load in (0.1, 0.4, 0.8):
        apart, pooled = kind.apart(kind.rate(load)), kind.pooled(kind.rate(load))
        turn = n["turns"]["prompts whole"]
        assert (apart < pooled) == (turn is not None and load > turn)


def the_crossing_lies_between_loads(run: Run) -> None:
    n = run.namespace
    if n["level"] is not None:
        assert n["loads"][0] <= n["level"] <= n["loads"][-1]
        assert n["by"]["split"]
        least, most = n["around"]
        assert n["loads"][0] <= least <= n["level"] <= most <= n["loads"][-1]


def the_verdict_says_on_which_share_it_turns(run: Run) -> None:
    """The share hidden at which split and pool are level, between its bounds, and the verdicts on both sides of it."""
    n = run.namespace
    assert 0.9 < n["hides"] < 0.95
    assert n["turned_hidden"](-1) in run.prose
    for place in range(len(n["loads"])):
        turn = n["turning"](place)
        gains = {share: one[place] for share, one in n["ahead_hidden"].items()}
        if turn is None:
            assert all(gain.low <= 0 for gain in gains.values())
            continue
        level, least, most = turn
        assert 0 <= least <= level <= most <= 1
        assert any(gain.low > 0 for share, gain in gains.items() if share <= level)
        assert not any(gain.low > 0 for share, gain in gains.items() if share > most)


def a_step_with_both_hides_what_is_assumed(run: Run) -> None:
    """The page's formula, asked of the three steps that the page shows."""
    n = run.namespace
    alone = {"prompt_s": n["prompt_alone_s"], "step_s": n["decode_alone_s"]}
    both = disaggregation.both_seconds(**alone, overlap_share=n["overlap"])
    assert abs(disaggregation.overlap_share(**alone, mixed_s=both) - n["overlap"]) < 1e-9
    assert abs(n["mixed_now_s"] / both - 1) < 2e-3  # shown with four digits
    assert 0 <= n["once"] <= 1 + 1e-9


def computed_twice_is_held_against_the_page_s_idle_split(run: Run) -> None:
    """A failed connector: a prompt in place of the handed-over cache's transfer and first step, and nothing moved."""
    n = run.namespace
    more = n["again"] - n["idle_split"]
    transfer = n["after_s"] - n["handoff"].control_s
    assert abs(more - (n["prompt_s"] - n["step_s"] - transfer)) < 1e-9


def posting_twice_as_long_takes_at_least_its_time(run: Run) -> None:
    n = run.namespace
    assert n["longer_s"] >= n["posting_s"] * (1 - 1e-9)


def counted_by_hand(run: Run) -> None:
    """Qualified requests per GPU-hour of the load that decides."""
    n = run.namespace
    one = n["decisive"]
    made = disaggregation.qualified_per_gpu_hour(
        arrival_rate=one.arrival_rate, qualified_share=one.split.share(one.limits), gpus=n["gpus"], hour_s=3600
    )
    assert not run.drawn or f"{round(made):,}" in run.prose  # on a bar


ALTERED = Altered(
    sensible=fleets(),
    impossible=(
        {"model_slug": "llama-9"},
        {"model_slug": "no/such/config.json"},
        {"model_slug": "llama-3.1-405b"},
        {"accelerator_slug": "h101"},
        {"gpus_per_worker": 0},
        {"gpus_per_worker": 3},
        {"gpus_per_worker": 1},
        {"workers": 1},
        {"workers": 2.5},
        {"requests_per_s": []},
        {"requests_per_s": [0]},
        {"requests_per_s": 20},
        {"first_limit_ms": 0},
        {"first_limit_ms": float("nan")},
        {"pace_limit_ms": -5},
        {"token_budgets": []},
        {"token_budgets": [2]},
        {"token_budgets": [512.5]},
        {"nic_gbit_per_gpu": 0},
        {"wire_efficiency": 1.5},
        {"descriptor_us": -1},
        {"block_tokens": 0},
        {"control_ms": -1},
        {"prefill_efficiency": 0},
        {"prefill_efficiency": 1.5},
        {"read_efficiency": 0},
        {"overlap": 1.2},
        {"memory_fraction": 1.5},
        {"other_gib_per_gpu": 500},
        {"simulated_requests": 10},
    ),
    claims=(
        no_other_setting_is_better,
        who_is_ahead_is_said,
        the_parts_add_up,
        a_transfer_is_slower_than_its_wire,
        alike_jobs_are_pooled,
        the_crossing_lies_between_loads,
        the_verdict_says_on_which_share_it_turns,
        a_step_with_both_hides_what_is_assumed,
        computed_twice_is_held_against_the_page_s_idle_split,
        posting_twice_as_long_takes_at_least_its_time,
        counted_by_hand,
    ),
)
