"""What a reader of time/continuous_batching might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

import math
import re
from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import kv_cache, scheduling
from calc.sources import load_json

from . import Altered


@st.composite
def servers(draw: st.DrawFn) -> dict[str, Any]:
    """Any walk that can be drawn, on any server, with a cache that holds each request of the burst."""
    count = draw(st.integers(1, 7))
    prompt, output = draw(st.integers(1, 800)), draw(st.integers(1, 120))
    return {
        "prompt_tokens": draw(st.lists(st.integers(1, 500), min_size=count, max_size=count)),
        "output_tokens": draw(st.lists(st.integers(1, 24), min_size=count, max_size=count)),
        "slots": draw(st.integers(1, 6)),
        "server_slots": draw(st.sampled_from([1, 2, 8, 16, 32, 64])),
        "base_ms": draw(st.one_of(st.integers(1, 60), st.floats(0.5, 60))),
        "prefill_us_per_token": draw(st.integers(0, 300)),
        "decode_us_per_sequence": draw(st.integers(0, 1000)),
        "arrivals_per_second": draw(st.floats(0.05, 20)),
        "long_prompt_tokens": draw(st.integers(1, 60_000)),
        "burst_requests": draw(st.integers(1, 30)),
        "burst_prompt_tokens": prompt,
        "burst_output_tokens": output,
        "pool_tokens": draw(st.integers(prompt + 6 * output + 32, 30_000)),
    }


def walked(run: Run) -> None:
    """Steps, idle places and who is later, from a walk done here by hand."""
    n = run.namespace
    free, ends = [0] * n["slots"], []
    for output in n["output_tokens"]:
        place = free.index(min(free))
        free[place] += output
        ends.append(free[place])
    batches = [n["output_tokens"][i : i + n["slots"]] for i in range(0, len(n["output_tokens"]), n["slots"])]
    static = sum(map(max, batches))
    assert (n["static_steps"], n["continuous_steps"]) == (static, max(ends))
    assert n["idle_static"] == n["slots"] * static - sum(n["output_tokens"])
    assert n["idle_continuous"] == n["slots"] * max(ends) - sum(n["output_tokens"])
    assert [round(end) for end in n["ends"]["continuous"]] == ends
    assert n["agrees"] and n["both"] and not n["later"]
    assert ("Nobody is done sooner" in run.prose) == (not n["sooner"])
    assert 1 <= n["gain"] <= n["bound"] * (1 + 1e-12)


def no_workload_is_above(run: Run) -> None:
    """None of the random workloads exceeds its bound, and the prose says so."""
    assert not run.namespace["above"] and not run.namespace["late"]
    assert "none is above its bound" in run.prose


def what_is_saved(run: Run) -> None:
    """The gain in time is at most that in steps, and the capacities are those of the shares of a request."""
    n = run.namespace
    assert 1 / (1 + 1e-9) <= n["time_gain"] <= n["table_gain"] * (1 + 1e-9)
    assert n["served"]["continuous"] >= n["served"]["static"] * (1 - 1e-9)


def who_is_held_up(run: Run) -> None:
    """The stream's long gap is the step that holds the prompt, and what is said of its end is so."""
    n = run.namespace
    if not n["disturbed"]:
        assert "so no stream waits for it" in run.prose
        return
    gap = n["spaces"]["continuous"][n["at_join"] - 1]
    prompts = sum(row.tokens for row in n["joins"].rows if not row.decodes)
    rows = n["joins"].decode_sequences
    wanted = n["base_ms"] / 1e3 + prompts * n["prefill_us_per_token"] / 1e6 + rows * n["decode_us_per_sequence"] / 1e6
    assert abs(gap - wanted) < 1e-9
    assert prompts >= n["long_prompt_tokens"]
    assert ("later, although it needs no more steps" in run.prose) == (n["done"]["continuous"] > n["done"]["static"])


def memory_balances(run: Run) -> None:
    """Tokens scheduled are tokens needed and tokens computed again; more only if somebody was preempted."""
    n = run.namespace
    assert n["tokens_again"] >= 0
    assert (n["tokens_again"] > 0) == (n["preempted"] > 0)
    assert n["most_running"] <= min(n["server_slots"], n["burst_requests"])
    at_end = [
        kv_cache.blocks(positions=n["burst_prompt_tokens"] + output - 1, block_tokens=16)
        for output in n["burst_outputs"]
    ]
    if sum(sorted(at_end)[-n["server_slots"] :]) <= n["pool_blocks"]:
        assert not n["preempted"]


def turns(run: Run) -> None:
    """A priority never makes the guest wait longer, and alone it never waits longer than in company."""
    n = run.namespace
    assert n["ahead"] <= n["in_line"] * (1 + 1e-9)
    assert ("A priority would change nothing" in run.prose) == (n["ahead"] >= n["in_line"] * (1 - 1e-9))
    assert scheduling.occupancy(places=n["slots"], steps=n["continuous_steps"], all_tokens=n["total"]) <= 1


def fixed_examples(run: Run) -> None:
    """The weights that a step reads, the embedding not among them; lengths that no cap cuts; an engine's load."""
    n = run.namespace
    facts = load_json("models", "llama-3.1-70b.json")["config"]
    hidden, layers, vocab = facts["hidden_size"], facts["num_hidden_layers"], facts["vocab_size"]
    kv = hidden * facts["num_key_value_heads"] // facts["num_attention_heads"]
    matrices = layers * (2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * facts["intermediate_size"])
    said = float(re.search(r"all but the embedding, in ([\d.]+) ms at the least", run.prose)[1])
    assert math.isclose(said / 1e3, 2 * (matrices + vocab * hidden) / 8 / n["gpu"].bandwidth.value, rel_tol=1e-3)
    assert math.isclose(n["by_cap"][-1][2], 25 / 12, rel_tol=1e-3)  # 1 + 1/2 + 1/3 + 1/4
    service, asked = re.search(r"prefills one in ([\d.]+) ms.*?asked for ([\d.]+)% of", run.prose).groups()
    assert math.isclose(8 * float(service) / 1e3, float(asked) / 100, rel_tol=5e-3)


def no_odd_units(run: Run) -> None:
    """A rate of one is one request a second."""
    assert not re.search(r"(?<![\d.,])1 (requests|tokens|steps|places) ", run.prose)


ALTERED = Altered(
    sensible=servers(),
    impossible=(
        {"output_tokens": [3, 6]},
        {"prompt_tokens": [], "output_tokens": []},
        {"output_tokens": [3, 6, 0]},
        {"output_tokens": [3, 6, 500]},
        {"prompt_tokens": [10, 0, 30]},
        {"slots": 0},
        {"slots": 2.5},
        {"server_slots": 0},
        {"server_slots": 5000},
        {"base_ms": 0},
        {"base_ms": float("nan")},
        {"prefill_us_per_token": -1},
        {"decode_us_per_sequence": "much"},
        {"arrivals_per_second": 0},
        {"long_prompt_tokens": 0},
        {"burst_requests": 0},
        {"burst_prompt_tokens": 0},
        {"burst_output_tokens": 0},
        {"pool_tokens": 100},
        {"pool_tokens": -1},
    ),
    claims=(
        walked,
        no_workload_is_above,
        what_is_saved,
        who_is_held_up,
        memory_balances,
        turns,
        fixed_examples,
        no_odd_units,
    ),
)
