"""What a reader of service/first_token_budget might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

import re
from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import models, parameters
from calc.notebook import times

from . import Altered

LARGEST = 150e9  # parameters that eight large GPUs hold in 16 bits with room for a cache
ATTENTION = ("full", "window", "latent")


def _served() -> list[str]:
    """Models of attention layers alone that fit on a node."""
    loaded = {slug: models.load(slug) for slug in models.catalogue()}
    return [
        slug
        for slug, model in loaded.items()
        if parameters.count(model).total < LARGEST and all(mixer.kind in ATTENTION for mixer, _ in model.kinds())
    ]


@st.composite
def services(draw: st.DrawFn) -> dict[str, Any]:
    """A service with any model, traffic and limit that a node of eight GPUs can hope to meet."""
    return {
        "model_slug": draw(st.sampled_from(_served())),
        "accelerator_slug": draw(st.sampled_from(["h100-sxm", "h200-sxm", "b200-sxm", "mi300x"])),
        "gpus_per_replica": draw(st.sampled_from([[2, 4, 8], [4, 8], [8], [8, 4], [1, 2, 4, 8]])),
        "gpus_per_node": draw(st.sampled_from([8, 8, 4, 16])),
        "requests_per_s": draw(st.one_of(st.integers(1, 60), st.floats(0.5, 60))),
        "limit_ms": draw(st.one_of(st.integers(1000, 6000), st.floats(1000, 6000))),
        "target_percent": draw(st.sampled_from([80, 90, 95, 97.5, 98])),
        "warm_percent": draw(st.sampled_from([0, 20, 50, 80, 100])),
        "hit_percent": draw(st.sampled_from([0, 30, 70, 95, 100])),
        "outside_ms": draw(st.one_of(st.integers(0, 200), st.floats(0, 200))),
        "outside_jitter_ms": draw(st.sampled_from([0, 5, 10, 40])),
        "prefill_efficiency": draw(st.floats(0.2, 1)),
        "read_efficiency": draw(st.floats(0.3, 1)),
        "memory_fraction": draw(st.floats(0.7, 0.95)),
        "other_gib_per_gpu": draw(st.one_of(st.integers(0, 6), st.floats(0, 6))),
        "token_budget": draw(st.sampled_from([512, 1024, 2048, 8192])),
        "growth_percent": draw(st.sampled_from([5, 20, 50, 100])),
        "simulated_requests": draw(st.sampled_from([500, 800, 1200])),
    }


def every_request_adds_up(run: Run) -> None:
    """Recorded parts are not negative and sum to what the client saw."""
    for repeat, rows in zip(run.namespace["quiet"], run.namespace["repeats"], strict=True):
        for seen, row in zip(repeat.run.timelines, rows, strict=True):
            assert abs(sum(row.values()) - (seen.token_chunks[0].time_s - seen.sent_s)) < 1e-9
            assert min(row.values()) >= 0


def the_smallest_that_was_simulated(run: Run) -> None:
    """The design that is kept meets the target, and no smaller one that was simulated does."""
    n = run.namespace
    best, target = n["best"], n["target_percent"] / 100
    assert best.inside.low >= target
    assert all(r.inside.low < target for r in n["runs"] if r.gpus < best.gpus)
    assert sum(t <= n["limit_ms"] / 1000 for t in best.ttft) / len(best.ttft) >= target
    assert f"{best.gpus:,} GPU" in run.prose


def the_nodes_that_are_bought(run: Run) -> None:
    """Filled one replica after the other, they hold the design, and what is left of the last one is named."""
    n = run.namespace
    node, best = n["gpus_per_node"], n["best"]
    nodes, free = 0, 0
    for _ in range(best.replicas):
        needed = best.shape.ranks
        while free < needed and needed > node:  # a replica over whole nodes
            nodes, needed = nodes + 1, needed - node
        if free < needed:
            nodes, free = nodes + 1, node
        free -= needed
        free = 0 if best.shape.ranks > node else free
    room = free // best.shape.ranks
    said = re.search(r"in nodes of (\d+) that is (\d+)(?:, with room for (\d+) replicas? more)?\)", run.prose)
    assert (int(said[1]), int(said[2]), int(said[3] or 0)) == (node, nodes, room)


def spread_of_the_lengths(run: Run) -> None:
    """The wait with real lengths over that with equal ones is 1 plus the squared coefficient of variation."""
    n = run.namespace
    scv = n["chosen"].service.scv
    assert abs(n["varying"] / n["alike"] - 1 - scv) < 1e-3 * (1 + scv)


def the_mixture_lies_between(run: Run) -> None:
    """Late requests of all lie between those of cold and of warm ones, and cold ones are late more often."""
    late = run.namespace["late"]
    cold, warm, every = late["cold prompts"], late["warm prompts"], late["all requests"]
    assert warm - 1e-9 <= every <= cold + 1e-9


def what_breaks_first(run: Run) -> None:
    """No end comes before the one that is named, and the verdict on more load is that of the simulation."""
    n = run.namespace
    assert all(n["growths"][n["first_to_break"]] <= growth for growth in n["growths"].values())
    if "the limit" in n["growths"]:  # a replica is late before it can't keep up, and in time until then
        factor, served = n["growths"]["the limit"], n["served"]
        assert factor < n["growths"]["arithmetic"]
        at_end = served(n["chosen"], n["best"].replicas, rate=factor * n["requests_per_s"])
        assert at_end.inside.mean >= n["target_percent"] / 100
    assert ("the promise still holds" in run.prose) == (n["grown"].inside.low >= n["target_percent"] / 100)


def every_design_can_keep_up(run: Run) -> None:
    """No share of a queue without an end is shown: prompts and output tokens leave each replica time to spare."""
    n = run.namespace
    assert all(r.rate * r.shape.work_s < 1 for r in n["runs"])
    assert n["arithmetic"] > n["replica"].utilization


def requests_in_progress_hold_what_is_simulated(run: Run) -> None:
    """What one in progress holds, from the requests themselves: at each moment of its decoding, prompt and output."""
    n = run.namespace
    moments = sum(output for _, _, output, _ in n["drawn"])
    output_held = sum(output * (output + 1) / 2 for _, _, output, _ in n["drawn"]) / moments
    prompt_held = sum(prompt for prompt, *_ in n["drawn"]) / len(n["drawn"])
    assert abs(n["held_by_one"] - prompt_held - output_held) <= 1


def proof_of_a_percentile(run: Run) -> None:
    """With none late, 0.99 to the n is at most 5%."""
    fewest = next(n for n in range(1, 1000) if 0.99**n <= 0.05)
    assert f"with 95% confidence that 99% are in time\ntakes {fewest} independent requests" in run.prose


def backlog_doubles(run: Run) -> None:
    """Twice the run, twice the wait."""
    assert f"**{times(2, 1)}**" in run.prose


def a_test_past_the_end(run: Run) -> None:
    """At twice the rate that is served, half of a test's length in arrivals is what a request waits on average."""
    n = run.namespace
    assert abs(n["overrun"] / (1000 * n["chosen"].work_s / 4) - 1) < 2e-3  # four digits are shown


ALTERED = Altered(
    sensible=services(),
    impossible=(
        {"model_slug": "llama-9"},
        {"model_slug": "no/such/config.json"},
        {"accelerator_slug": "h101"},
        {"gpus_per_replica": []},
        {"gpus_per_replica": [0]},
        {"gpus_per_replica": [3]},
        {"gpus_per_node": 0},
        {"gpus_per_node": 7.5},
        {"gpus_per_replica": [1]},
        {"requests_per_s": 0},
        {"requests_per_s": "20"},
        {"limit_ms": 0},
        {"limit_ms": 25},
        {"limit_ms": float("nan")},
        {"target_percent": 100},
        {"warm_percent": 120},
        {"hit_percent": -1},
        {"outside_ms": -5},
        {"outside_ms": 2000},
        {"outside_jitter_ms": -1},
        {"prefill_efficiency": 0},
        {"prefill_efficiency": 1.5},
        {"read_efficiency": 0},
        {"memory_fraction": 1.5},
        {"other_gib_per_gpu": 500},
        {"token_budget": 0},
        {"growth_percent": 0},
        {"simulated_requests": 10},
    ),
    claims=(
        every_request_adds_up,
        the_smallest_that_was_simulated,
        the_nodes_that_are_bought,
        spread_of_the_lengths,
        the_mixture_lies_between,
        what_breaks_first,
        every_design_can_keep_up,
        requests_in_progress_hold_what_is_simulated,
        proof_of_a_percentile,
        backlog_doubles,
        a_test_past_the_end,
    ),
)
