"""What a reader of service/engine_selection might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

import math
import re

from chapters import Run
from hypothesis import strategies as st

from calc import models, quantization, selection
from calc.sources import load_json

from . import Altered

ANSWERS = st.sampled_from([1, 8, 32, 100, 500, 2000, 10_000])
LIMITS = [  # number type of the runs, and limits that both engines keep with some requests
    {"number_type": kind, "ttft_limit_s": first, "tpot_limit_s": each}
    for kind, first, each in (
        ("bfloat16", 0.1, 0.016),
        ("bfloat16", 0.06, 0.02),
        ("bfloat16", 0.5, 0.05),
        ("float32", 0.1, 0.04),
        ("float32", 0.3, 0.05),
        ("float32", 30, 5),
    )
]
MONEY = st.sampled_from([0, 1, 250, 1500, 2500, 20_000])


def deployments() -> st.SearchStrategy[dict]:
    """Any question to the table, with limits that leave some good tokens on the recorded machine."""
    asked = st.fixed_dictionaries(
        {
            "model_slug": st.sampled_from(models.catalogue()),
            "accelerator_slug": st.sampled_from(list(load_json("quantization.json")["capability"])),
            "weights": st.sampled_from([*quantization.schemes(), *quantization.gguf_mixes()]),
            "adapters": st.sampled_from(["none", *selection.options("adapters")]),
            "structured_output": st.sampled_from(["none", *selection.options("structured")]),
            "speculation": st.sampled_from(["none", *selection.options("speculative")]),
            "parallelism": st.sampled_from(["none", "tensor", "pipeline", "tensor + pipeline", "expert", "data"]),
            "api": st.sampled_from(selection.options("api")),
            "confidence_percent": st.sampled_from([50, 80, 90, 95, 99, 99.9]),
            "answer_tokens": ANSWERS,
            "task_questions": st.sampled_from([100, 1319]),
            "task_right_first": st.integers(0, 100),
            "task_right_second": st.integers(0, 100),
            "machine_price_per_hour": st.sampled_from([0.01, 0.1, 1, 4.5]),
            "utilization_percent": st.one_of(st.integers(1, 100), st.sampled_from([0.5, 33.3])),
            "first_upkeep_per_month": MONEY,
            "second_upkeep_per_month": MONEY,
            "demand_good_tokens_per_s": st.sampled_from([0.5, 10, 400, 25_000]),
            "switch_cost": MONEY,
            "other_price_per_million": st.sampled_from([0.05, 0.5, 4, 60]),
        }
    )
    return st.tuples(asked, st.sampled_from(LIMITS)).map(lambda parts: parts[0] | parts[1])


def unknown_is_not_yes(run: Run) -> None:
    """The answer names the engines whose every cell says yes, and no other."""
    n = run.namespace
    verdicts = n["verdicts"]
    yes = [v.name for v in verdicts if {c.value for c in v.cells} == {"yes"}]
    assert [v.name for v in n["passing"]] == yes
    first = run.outputs[0]["text/markdown"]
    if yes:
        assert all(name.partition(",")[0] in first for name in yes)
    else:
        assert "**none** passes" in first
    assert len(n["passing"]) + len(n["still_open"]) + len(n["rejected"]) == len(verdicts)


def a_bug_beside_a_yes_is_told(run: Run) -> None:
    """Whoever passes with an open bug is told to be tried, at the head and by the name of the report."""
    passing = [v for v in run.namespace["verdicts"] if v.passes]
    threads = [bug.thread for v in passing for c in v.cells for bug in c.bugs]
    assert ("An open bug" in run.outputs[0]["text/markdown"]) == bool(threads)
    assert all(thread in run.prose for thread in threads)


def the_interval_holds_what_was_seen(run: Run) -> None:
    n = run.namespace
    seen = n["found"].different / n["found"].compared
    assert n["low"] <= seen <= n["high"]


def the_cheaper_one_is_chosen_and_the_ties_tie(run: Run) -> None:
    """Costs are worked out again from the rates, and each flip value put in."""
    n = run.namespace
    decision = n["decision"]
    hours = {}
    for engine, rate in n["good_rates"].items():
        count = math.ceil(n["demand_good_tokens_per_s"] / (rate * n["utilization_percent"] / 100))
        hours[n["shown"][engine]] = count * n["machine_price_per_hour"] + n["upkeep"][engine] / 730
    assert math.isclose(decision.chosen_hour, min(hours.values()), rel_tol=1e-9)
    assert math.isclose(hours[decision.chosen.name], decision.chosen_hour, rel_tol=1e-9)
    even = n["even"] * 100
    assert ("at no utilization" in run.prose) == (even > 100)
    if decision.payback_hours:
        tie = re.search(r"would tie at (\S+) good|at no speed", run.prose)
        assert tie and bool(tie[1]) == math.isfinite(decision.rate_to_tie)
    bought = n["demand_good_tokens_per_s"] * 3600 * n["other_price_per_million"] / 1e6
    assert math.isclose(n["bought_hour"], bought)
    own = lambda share: (  # noqa: E731
        math.ceil(n["demand_good_tokens_per_s"] / (decision.chosen.good_rate * share) - 1e-9)
        * n["machine_price_per_hour"]
        + decision.chosen.upkeep_month / 730
    )
    if n["busy_to_tie"] <= 1:  # from this utilization on, the chosen engine costs no more than buying
        assert own(n["busy_to_tie"]) <= bought * (1 + 1e-9)
        assert own(n["busy_to_tie"] * 0.999) > bought * (1 - 1e-9)
    else:
        assert own(1) > bought * (1 - 1e-9)


ALTERED = Altered(
    sensible=deployments(),
    impossible=(
        {"model_slug": "llama-9"},
        {"accelerator_slug": "tpu-v5e"},
        {"accelerator_slug": "h100"},
        {"weights": "int3"},
        {"adapters": "some"},
        {"structured_output": "xml"},
        {"speculation": "medusa"},
        {"parallelism": "tensor+pipeline"},
        {"api": "soap"},
        {"number_type": "float16"},
        {"ttft_limit_s": 0},
        {"ttft_limit_s": 1e-6},
        {"tpot_limit_s": -1},
        {"confidence_percent": 100},
        {"confidence_percent": 0},
        {"answer_tokens": 1.5},
        {"task_right_first": 1400},
        {"task_questions": 0},
        {"machine_price_per_hour": 0},
        {"utilization_percent": 0},
        {"utilization_percent": 140},
        {"first_upkeep_per_month": -1},
        {"demand_good_tokens_per_s": 0},
        {"switch_cost": -5},
        {"other_price_per_million": 0},
    ),
    claims=(
        unknown_is_not_yes,
        a_bug_beside_a_yes_is_told,
        the_interval_holds_what_was_seen,
        the_cheaper_one_is_chosen_and_the_ties_tie,
    ),
)
