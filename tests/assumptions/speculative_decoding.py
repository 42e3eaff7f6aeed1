"""What a reader of time/speculative_decoding might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import hardware, speculation
from calc.sources import load_json

from . import Altered

WORDS = ("the", "cat", "sat", "down")
DENSE = ("llama-3.1-8b", "llama-3.1-70b", "llama-2-13b", "qwen2.5-72b", "gemma-2-9b", "deepseek-v3", "qwen3-32b")
SPARSE = ("qwen3-30b-a3b", "mixtral-8x7b", "gpt-oss-20b", "deepseek-v3", "llama-3.1-8b")


@st.composite
def speculations(draw: st.DrawFn) -> dict[str, Any]:
    """Two small models and a round of theirs, a drafter's chances and costs, a recording and a machine."""
    size = draw(st.integers(2, 4))
    row = st.lists(st.integers(0, 9), min_size=size, max_size=size).filter(any)
    target = draw(st.lists(row, min_size=size, max_size=size))
    drafts = draw(st.lists(st.lists(st.integers(1, 9), min_size=size, max_size=size), min_size=size, max_size=size))
    words = list(WORDS[:size])
    drawn = draw(st.lists(st.sampled_from(words), min_size=1, max_size=3))
    numbers = st.integers(0, 99).map(lambda n: n / 100)
    dense = draw(st.sampled_from(DENSE))
    return {
        "vocabulary": words,
        "target_weights": target,
        "draft_weights": draw(st.sampled_from([drafts, target])) if all(map(all, target)) else drafts,
        "last_word": draw(st.sampled_from(words)),
        "drawn_words": drawn,
        "drawn_numbers": draw(st.lists(numbers, min_size=len(drawn) + 1, max_size=len(drawn) + 1)),
        "acceptance_percent": draw(st.one_of(st.integers(0, 98), st.floats(0.5, 98))),
        "draft_tokens": draw(st.integers(1, 8)),
        "draft_percent": draw(st.one_of(st.integers(0, 60), st.floats(0, 60))),
        "check_percent": draw(st.one_of(st.integers(100, 400), st.floats(100, 400))),
        "acceptance_log": draw(st.sampled_from(sorted(load_json("acceptance_lengths.json")["runs"]))),
        "recorded_batch": draw(st.sampled_from([1, 4, 8])),
        "recorded_draft_tokens": draw(st.integers(1, 5)),
        "model_slug": dense,
        "sparse_model_slug": draw(st.sampled_from(SPARSE)),
        "accelerator_slug": draw(st.sampled_from(hardware.accelerators())),
        "tensor_parallel_ranks": draw(st.sampled_from([1, 2, 4])),
        "cached_positions": draw(st.integers(1, 65_536)),
    }


def the_round_is_the_trace(run: Run) -> None:
    """The round that the prose tells is the one that the numbers drawn give, tested here again."""
    n = run.namespace
    newest, out = n["last_word"], []
    for word, number in zip(n["drawn_words"], n["drawn_numbers"], strict=False):
        weights = {
            name: Fraction(
                rows[n["vocabulary"].index(newest)][n["vocabulary"].index(word)],
                sum(rows[n["vocabulary"].index(newest)]),
            )
            for name, rows in (("p", n["target_weights"]), ("q", n["draft_weights"]))
        }
        if Fraction(str(number)) >= min(Fraction(1), weights["p"] / weights["q"]):
            break
        out.append(word)
        newest = word
    said = re.search(r"The round emits “(.+?)”", run.prose)[1].split()
    assert said[:-1] == out


def naive_rules_miss_unless_the_drafter_is_the_target(run: Run) -> None:
    """The two exact rules are exact; what is said of the others is what their distance says."""
    n = run.namespace
    assert n["off"]["speculative"] == n["off"]["match"] == 0
    if "The others miss" in run.prose:
        assert any(n["off"].values())
    else:
        assert not any(n["off"].values()) and "other rules happen to agree" in run.prose


def tokens_and_break_even(run: Run) -> None:
    """Tokens of a round added up again; at the break-even they are the cost."""
    n = run.namespace
    alpha, k = n["acceptance_percent"] / 100, n["draft_tokens"]
    assert abs(n["tau"] - sum(alpha**i for i in range(k + 1))) < 1e-9
    assert abs(n["gain"] - n["tau"] / (k * n["draft_percent"] / 100 + n["check_percent"] / 100)) < 1e-9
    if n["least"]:
        tokens = speculation.expected_tokens(acceptance=n["least"], draft_tokens=k)
        assert abs(tokens - n["rho"]) < 1e-6
        assert (n["gain"] > 1) == (alpha > n["least"]) or abs(n["gain"] - 1) < 1e-6
    if "even a perfect draft would not pay" in run.prose:
        assert n["rho"] >= k + 1


def measured_verdicts(run: Run) -> None:
    """What is said of the recording is what its three repeats allow."""
    n = run.namespace
    for batch, best in re.findall(r"At batch (\d+) the best draft has (\d+) tokens?:", run.prose):
        points = n["gains"][int(batch)]
        assert points[int(best)].median == max(point.median for point in points.values())
    for spread in (point for points in n["gains"].values() for point in points.values()):
        assert spread.low <= spread.median <= spread.high


def checking_costs_at_least_a_plain_step(run: Run) -> None:
    """A floor's ratio lies between 1 and, attention among the drafts apart, the tokens that replace one."""
    n = run.namespace
    for points in n["pairs"].values():
        assert all(1 <= found.cost <= (n["draft_tokens"] + 1) * 1.05 for found in points.values())


def crossings_are_those_of_the_floors(run: Run) -> None:
    """At the batches that the prose names, and at no other, the check costs as much as a round emits.

    Between powers of two as well: by those alone Llama-3.1-70B crossed at 512, and it does at 330.
    """
    n = run.namespace
    sizes = {"cached": n["cached_positions"], "draft_tokens": n["draft_tokens"], "ranks": n["tensor_parallel_ranks"]}
    top = max(n["sizes"])
    for geometry in (n["model"], n["sparse"]):
        name = geometry.name
        places = re.search(rf"{re.escape(name)}, ([^;.]*)", run.prose.partition("sequences these are: ")[2])[1]
        said = set()
        for word, first, last in re.findall(r"(from|at) (\d+)(?: to (\d+))? sequence", places):
            said |= set(range(int(first), (top if word == "from" else int(last or first)) + 1))
        assert (places == "none") == (not said) and max(said, default=1) <= top
        edges = {batch + step for batch in said for step in (-1, 1) if batch + step not in said}
        for batch in {3, 5, 100, 330, *n["sizes"], *edges, *(batch + step for batch in edges for step in (-1, 1))}:
            if 1 <= batch <= top:
                cost = speculation.verification_floor(geometry, n["chip"], batch=batch, **sizes).cost
                assert (cost >= n["tau"]) == (batch in said), (name, batch)


def measured_break_even(run: Run) -> None:
    """The break-even of a measured round is told for every batch, and as none where no draft could pay."""
    n = run.namespace
    k = n["recorded_draft_tokens"]
    for batch in n["batches"]:
        cost = n["costs"][batch][k].median
        even = speculation.break_even_acceptance(round_cost=cost, draft_tokens=k)
        said = re.search(rf"([\d.]+%|more than any acceptance) at batch {batch}, where", run.prose)[1]
        assert (even is None) == (said == "more than any acceptance")


ALTERED = Altered(
    sensible=speculations(),
    impossible=(
        {"last_word": "dog"},
        {"drawn_words": ["dog"], "drawn_numbers": [0.1, 0.2]},
        {"drawn_words": ["cat"] * 4, "drawn_numbers": [0.1] * 5},
        {"drawn_words": [], "drawn_numbers": [0.1]},
        {"drawn_numbers": [0.1, 0.2]},
        {"drawn_numbers": [0.1, 0.2, 1.5, 0.2]},
        {"vocabulary": ["the", "the", "sat", "down"]},
        {"target_weights": [[0, 0, 0, 0]] * 4},
        {"target_weights": [[0.5, 0.5, 0, 0]] * 4},
        {"target_weights": [[1, 2]] * 4},
        {"draft_weights": [[1, -1, 1, 1]] * 4},
        {"draft_weights": [[1, 1, 1, 1]] * 3},
        {"draft_weights": [[1, 0, 1, 1]] * 4},
        {"acceptance_percent": 100},
        {"acceptance_percent": -1},
        {"acceptance_percent": float("nan")},
        {"draft_tokens": 0},
        {"draft_tokens": 2.5},
        {"draft_percent": -1},
        {"check_percent": 0},
        {"acceptance_log": "gpt-9"},
        {"recorded_batch": 2},
        {"recorded_draft_tokens": 9},
        {"model_slug": "llama-9"},
        {"sparse_model_slug": "mixtral-9"},
        {"accelerator_slug": "h101"},
        {"tensor_parallel_ranks": 3},
        {"cached_positions": 0},
        {"cached_positions": "2048"},
    ),
    claims=(
        the_round_is_the_trace,
        naive_rules_miss_unless_the_drafter_is_the_target,
        tokens_and_break_even,
        measured_verdicts,
        checking_costs_at_least_a_plain_step,
        crossings_are_those_of_the_floors,
        measured_break_even,
    ),
)
