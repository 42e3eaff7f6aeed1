"""Choosing an engine: the table's cells, the filter, what agreement proves, good tokens, cost and the decision."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import re
from dataclasses import replace
from datetime import date
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc import hardware, models, quantization, selection
from calc.latency import Chunk, Objectives, Run, Timeline, requests_to_prove
from calc.sources import load_json
from calc.units import CalcError

TABLE = load_json("engines.json")
GPUS = list(load_json("quantization.json")["capability"])


# --- the table -----------------------------------------------------------------------------------------------


def every_cell():
    for engine, criterion in itertools.product(selection.engines(), selection.criteria()):
        if criterion in {"hardware", "quantization"}:
            continue
        for option in selection.options(criterion):
            yield selection.cell(engine, criterion, option)
    for engine, gpu in itertools.product(selection.engines(), GPUS):
        chip = hardware.accelerator(gpu)
        yield selection.hardware_cell(engine, chip)
        for weights in (*quantization.schemes(), *quantization.gguf_mixes()):
            yield selection.quantization_cell(engine, weights, chip)


def test_every_cell_has_a_version_a_source_and_a_date():
    cells = list(every_cell())
    assert len(cells) > 1500
    for cell in cells:
        assert cell.value in {"yes", "no", "unknown"}
        assert cell.version and cell.source and re.match(r"https://\S+$", cell.url), cell
        assert date.fromisoformat(cell.checked) <= date(2026, 12, 31)


def test_at_least_the_engines_that_were_asked_for():
    assert {"vllm", "sglang", "tensorrt-llm", "tgi", "llama.cpp", "lmdeploy"} <= set(selection.engines())


def test_every_source_is_used_and_every_name_in_the_table_is_one_of_the_options():
    text = json.dumps([TABLE["engines"], TABLE["criteria"]])
    assert [key for key in TABLE["sources"] if f'"{key}"' not in text] == []
    for engine in TABLE["engines"].values():
        for criterion, entry in engine["cells"].items():
            allowed = set(TABLE["criteria"][criterion]["options"])
            named = {*entry.get("yes", ()), *entry.get("no", ()), *entry.get("notes", {}), *entry.get("sources", {})}
            if criterion == "quantization":
                assert set(entry.get("schemes", {})) <= set(quantization.schemes())
            else:
                assert named <= allowed, (engine["name"], criterion, named - allowed)
            assert not set(entry.get("yes", ())) & set(entry.get("no", ()))


def test_the_architectures_are_those_of_the_catalogue():
    assert set(selection.options("architecture")) == {models.load(slug).architecture for slug in models.catalogue()}


@pytest.mark.parametrize("engine", quantization.engines())
def test_quantization_has_one_home(engine):
    """Where the library knows the support already, the table gives the same answer."""
    for scheme, gpu in itertools.product(quantization.schemes(), GPUS):
        chip = hardware.accelerator(gpu)
        runs = quantization.support(scheme, chip, engine).runs
        assert (selection.quantization_cell(engine, scheme, chip).value == "yes") == runs


def test_some_cells_are_what_their_source_says():
    value = lambda *names, **more: selection.cell(*names, **more).value  # noqa: E731
    assert value("vllm", "checkpoint", "gguf") == "no"  # moved to a plugin by vllm-project/vllm#39612
    assert value("tgi", "speculative", "eagle-3") == "no"
    assert value("llama.cpp", "adapters", "per request") == "yes"
    assert value("llama.cpp", "adapters", "mixed in a batch") == "no"  # ggml-org/llama.cpp#10994
    assert value("tensorrt-llm", "pairs", "adapters + speculative") == "unknown"  # "Untested" is not yes
    assert value("tensorrt-llm", "pairs", "pipeline + speculative") == "no"
    pair = "adapters + speculative"
    methods = ("n-gram", "eagle-3", "draft model")
    assert [value("sglang", "pairs", pair, method=m) for m in methods] == ["yes", "yes", "unknown"]  # sglang#34337
    assert value("transformers", "structured", "json schema") == "no"
    assert value("sglang", "api", "responses") == "yes"  # serving_responses.py
    assert value("llama.cpp", "api", "completions") == "yes"  # tools/server/README.md, POST /v1/completions
    both = "structured + speculative"  # the code of either masks every draft, as sglang#13425 does for EAGLE
    assert [value(e, "pairs", both, method="eagle-3") for e in ("vllm", "sglang")] == ["yes", "yes"]
    assert [value("sglang", "pairs", both, method=m) for m in ("mtp", "n-gram")] == ["yes", "unknown"]
    assert selection.status("tgi") and selection.status("vllm") is None
    on = hardware.accelerator
    assert selection.hardware_cell("tensorrt-llm", on("mi300x")).value == "no"
    assert selection.hardware_cell("lmdeploy", on("b200-sxm")).value == "unknown"
    assert selection.quantization_cell("sglang", "fp8-tensor", on("h100-sxm")).value == "yes"
    assert selection.quantization_cell("sglang", "nvfp4", on("h100-sxm")).value == "no"
    channel = [selection.quantization_cell("sglang", "fp8-channel", on(s)) for s in ("a100-80gb-sxm", "l4", "h100-sxm")]
    assert [c.value for c in channel] == ["unknown", "yes", "yes"] and "fp8_gemm_kernel" in channel[1].source
    blackwell = selection.hardware_cell("vllm", on("b200-sxm"))
    assert blackwell.value == "yes" and "12.0" in blackwell.source  # the matrix of features ends at Hopper
    assert selection.quantization_cell("sglang", "nvfp4", on("mi300x")).value == "yes"
    assert selection.quantization_cell("lmdeploy", "awq-int4-g128", on("h100-sxm")).value == "unknown"
    assert selection.quantization_cell("lmdeploy", "int4-g128", on("h100-sxm")).value == "yes"
    assert selection.quantization_cell("llama.cpp", "Q4_K_M", on("h100-sxm")).value == "yes"
    assert selection.quantization_cell("llama.cpp", "awq-int4-g128", on("h100-sxm")).value == "no"


@pytest.mark.parametrize("pair", selection.options("pairs"))
def test_open_bugs_are_looked_for_of_all_engines_or_of_none(pair):
    """One rule of evidence: where a yes is, its bugs were looked for, whoever makes the engine."""
    looked = selection.bugs_checked(pair)
    assert looked is None or date.fromisoformat(looked) <= date(2026, 12, 31)
    for engine in selection.engines():
        entry = TABLE["engines"][engine]["cells"]["pairs"]
        assert looked or pair not in entry.get("bugs", {}), engine
        values = {selection.cell(engine, "pairs", pair, method=m).value for m in selection.options("speculative")}
        if looked and "yes" in values:
            assert pair in entry["bugs"], engine
        for bug in entry.get("bugs", {}).get(pair, ()):
            number = bug["thread"].rpartition(" ")[2]
            assert bug["url"].endswith(f"/issues/{number}") and bug["opened"] < looked, bug


def test_a_bug_stands_beside_a_cell_and_changes_none(monkeypatch):
    asked = {"model": "llama-3.1-70b", "accelerator": "h100-sxm", "structured": "regex", "speculative": "eagle-3"}
    with_bugs = selection.screen(selection.Needs(**asked))
    assert {v.engine for v in with_bugs if v.reported} == {"vllm", "sglang", "tensorrt-llm"}
    without = json.loads(json.dumps(TABLE))
    for engine in without["engines"].values():
        engine["cells"]["pairs"].pop("bugs", None)
    monkeypatch.setattr("calc.selection._table._table", lambda: without)
    plain = selection.screen(selection.Needs(**asked))
    assert not any(v.reported for v in plain)
    for one, other in zip(with_bugs, plain, strict=True):
        assert [c.value for c in one.cells] == [c.value for c in other.cells] and one.result == other.result


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: selection.bugs_checked("paged + fast"), "structured"),
        (lambda: selection.cell("vlm", "api", "chat"), "vllm"),
        (lambda: selection.cell("vllm", "api", "chats"), "chat"),
        (lambda: selection.cell("vllm", "quantization", "fp8"), "another criterion"),
        (lambda: selection.options("color"), "architecture"),
        (lambda: selection.hardware_cell("vllm", hardware.accelerator("tpu-v5e")), "no GPU of the table"),
        (lambda: selection.quantization_cell("vllm", "int3", hardware.accelerator("h100-sxm")), "GGUF"),
        (lambda: selection.Needs(model="llama-3.1-8b", accelerator="h100-sxm", api="soap"), "completions"),
        (lambda: selection.Needs(model="llama-3.1-8b", accelerator="h100-sxm", parallel="tensor+pipeline"), "tensor"),
        (lambda: selection.Needs(model="llama-3.1-8b", accelerator="h100-sxm", weights="int3"), "fp8-channel"),
        (lambda: selection.Needs(model="llama-3.1-8b", accelerator="h100-sxm", adapters="some"), "per request"),
    ],
)
def test_what_is_not_in_the_table_is_refused_by_name(call, words):
    with pytest.raises(CalcError, match=words):
        call()


# --- the filter ----------------------------------------------------------------------------------------------

CHOICES = {
    "model": ("llama-3.1-70b", "kimi-k2", "qwen3-30b-a3b", "gpt-oss-20b", "qwen1.5-moe-a2.7b"),
    "accelerator": ("a100-80gb-sxm", "h100-sxm", "b200-sxm", "mi300x", "l4"),
    "weights": ("bf16", "fp8-channel", "awq-int4-g128", "nvfp4", "Q4_K_M"),
    "adapters": ("none", *selection.options("adapters")),
    "structured": ("none", *selection.options("structured")),
    "speculative": ("none", *selection.options("speculative")),
    "parallel": ("none", "tensor", "pipeline", "tensor + pipeline", "expert"),
    "api": selection.options("api"),
}
needs = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in CHOICES.items()})


@given(asked=needs)
def test_unknown_never_counts_as_yes_and_one_no_rejects(asked):
    for verdict in selection.screen(selection.Needs(**asked)):
        values = {c.value for c in verdict.cells}
        expected = "rejected" if "no" in values else "open" if "unknown" in values else "passes"
        assert verdict.result == expected
        assert verdict.passes == (values == {"yes"})
        assert len(verdict.rejecting) + len(verdict.open) <= len(verdict.cells)


@given(asked=needs, dropped=st.sampled_from(["adapters", "structured", "speculative", "parallel"]))
def test_asking_for_less_never_rejects_more(asked, dropped):
    rank = {"rejected": 0, "open": 1, "passes": 2}
    more = selection.screen(selection.Needs(**asked))
    less = selection.screen(selection.Needs(**asked | {dropped: "none"}))
    assert all(rank[a.result] <= rank[b.result] for a, b in zip(more, less, strict=True))


def test_features_that_pass_alone_may_fail_together():
    base = {"model": "llama-3.1-70b", "accelerator": "h100-sxm", "weights": "bf16"}
    both = {"adapters": "per request", "speculative": "eagle-3"}
    results = [
        {v.engine: v.result for v in selection.screen(selection.Needs(**base | asked))}
        for asked in ({"adapters": "per request"}, {"speculative": "eagle-3"}, both)
    ]
    assert [r["sglang"] for r in results] == ["passes", "passes", "passes"]
    assert [r["tensorrt-llm"] for r in results] == ["passes", "passes", "open"]


def test_a_method_that_the_model_lacks_is_no():
    """Multi-token prediction takes layers of the checkpoint: Llama has none, whatever the engine can do."""
    asked = {"accelerator": "h200-sxm", "weights": "fp8-block", "speculative": "mtp"}
    for model, values in (("llama-3.1-8b", {"no"}), ("kimi-k2", {"no", "unknown"}), ("deepseek-v3", {"no", "yes"})):
        screened = selection.screen(selection.Needs(model=model, **asked))
        assert {c.value for v in screened for c in v.cells if c.criterion == "speculative"} == values


def test_the_pairs_that_are_asked_for():
    asked = selection.Needs(
        model="llama-3.1-8b",
        accelerator="h100-sxm",
        structured="regex",
        speculative="n-gram",
        parallel="tensor + pipeline",
    )
    assert asked.pairs == ("structured + speculative", "pipeline + speculative")
    assert asked.checkpoint == "safetensors"


# --- agreement -----------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_first_divergence_by_hand(one, other):
    at = selection.first_divergence(one, other)
    if at is None:
        assert one == other
    else:
        assert one[:at] == other[:at] and one[at : at + 1] != other[at : at + 1]


def test_agreement_counts():
    one = {"a": [1, 2, 3], "b": [1, 2, 3], "c": [4, 5]}
    found = selection.agreement(one, {"a": [1, 2, 3], "b": [1, 9, 3], "c": [4, 5, 6]})
    assert (found.compared, found.equal, found.different) == (3, 1, 2)
    assert found.divergences == (None, 1, 2)
    assert found.tokens_compared == 3 + 2 + 3
    assert found.flip_rate == 2 / 8
    with pytest.raises(CalcError, match="same prompts"):
        selection.agreement(one, {"a": [1]})


@given(st.integers(1, 500), st.floats(0.5, 0.999))
def test_interval_of_none_and_all_in_closed_form(n, confidence):
    edge = ((1 - confidence) / 2) ** (1 / n)
    assert selection.share_interval(0, n, confidence) == pytest.approx((0, 1 - edge), abs=1e-9)
    assert selection.share_interval(n, n, confidence) == pytest.approx((edge, 1), abs=1e-9)


@given(st.integers(1, 400), st.floats(0.5, 0.99), st.data())
def test_interval_is_where_the_binomial_leaves_half_of_the_rest(n, confidence, data):
    k = data.draw(st.integers(0, n))
    lower, upper = selection.share_interval(k, n, confidence)
    assert 0 <= lower <= k / n <= upper <= 1
    tail = (1 - confidence) / 2
    if k:
        above = sum(math.comb(n, i) * Fraction(lower) ** i * (1 - Fraction(lower)) ** (n - i) for i in range(k, n + 1))
        assert float(above) == pytest.approx(tail, rel=1e-6)


@given(st.integers(1, 3000), st.floats(0.5, 0.999))
def test_bound_of_full_agreement(n, confidence):
    bound = selection.agreement_bound(samples=n, confidence=confidence)
    assert (1 - bound) ** n == pytest.approx(1 - confidence, rel=1e-6)
    if n > 20:
        assert selection.rule_of_three(samples=n) == pytest.approx(
            selection.agreement_bound(samples=n, confidence=0.95), rel=0.08
        )


@pytest.mark.parametrize("percent", [90, 95, 99, 99.9])
def test_two_roads_to_the_prompts_that_a_claim_needs(percent):
    needed = requests_to_prove(percent, 0, confidence=0.95)
    allowed = 1 - percent / 100
    assert selection.agreement_bound(samples=needed, confidence=0.95) <= allowed
    assert selection.agreement_bound(samples=needed - 1, confidence=0.95) > allowed


@given(st.floats(0, 0.5), st.integers(0, 40), st.integers(0, 40))
def test_equal_shares_multiply(flip, a, b):
    share = lambda tokens: selection.equal_share(flip_rate=flip, answer_tokens=tokens)  # noqa: E731
    assert share(a + b) == pytest.approx(share(a) * share(b))


@pytest.mark.parametrize(("happened", "samples"), [(3, 2), (-1, 5), (0, 0), (1.5, 3)])
def test_no_share(happened, samples):
    with pytest.raises(CalcError, match="no share"):
        selection.share_interval(happened, samples)
    with pytest.raises(CalcError, match="confidence"):
        selection.share_interval(1, 2, 1.0)


# --- good tokens ---------------------------------------------------------------------------------------------


def answer(sent, first, gap, tokens):
    chunks = tuple(Chunk(sent + first + i * gap) for i in range(tokens))
    return Timeline(sent_s=sent, chunks=chunks, end_s=chunks[-1].time_s)


def test_good_tokens_by_hand():
    run = Run.of([answer(0, 0.5, 0.1, 11), answer(1, 2.0, 0.1, 6), answer(2, 0.5, 0.3, 4), answer(2, 0.25, 0.1, 1)])
    found = selection.served(run, Objectives(ttft_s=1, tpot_s=0.2))
    assert (found.requests, found.good) == (4, 2)  # the second waits too long, the third is too slow
    assert found.good_share == pytest.approx(12 / 22)
    assert found.tokens_per_s == pytest.approx(22 / 3.5)
    assert found.good_tokens_per_s == pytest.approx(12 / 3.5)
    assert selection.good_rate(token_rate=found.tokens_per_s, good_share=found.good_share) == pytest.approx(
        found.good_tokens_per_s
    )
    twice = selection.together([found, found])
    assert (twice.tokens_per_s, twice.good_share) == pytest.approx((found.tokens_per_s, found.good_share))
    assert twice.requests == 2 * found.requests and twice.ttft_s == found.ttft_s * 2
    with pytest.raises(CalcError, match="no repeat"):
        selection.together([])
    strict = selection.served(run, Objectives(ttft_s=1, tpot_s=0.2, gap_s=0.05))
    assert strict.good == 1  # an answer of one token has no gap


def recording(path, *, setups=("a", "b"), output=(1, 2)):
    header = {"kind": "header", "schema": 1, "name": "engines", "title": "t"}
    rows = [header]
    for number, setup in enumerate(setups):
        rows.append(
            {"kind": "run", "run": number, "setup": setup, "name": "load", "repeat": 0, "accepted": True}
            | {"parameters": {}, "duration_us": 900_000}
        )
        row = {"kind": "request", "run": number, "id": f"{number}-0", "role": "load", "due_us": 0, "sent_us": 10}
        row |= {"prompt_tokens": 3, "max_tokens": 2, "chunk_us": [100, 50], "chunk_tokens": [1, 1], "end_us": 200}
        rows.append(row | ({"output": list(output)} if output else {}))
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    return path


def test_a_recording_keeps_its_answers(tmp_path):
    loads = selection.read_loads(recording(tmp_path / "engines.jsonl.gz"))
    assert [load.setup for load in loads] == ["a", "b"]
    assert selection.answers_of(loads, "a") == {(0, 0): (1, 2)}
    assert selection.agreement(selection.answers_of(loads, "a"), selection.answers_of(loads, "b")).equal == 1
    (found,) = selection.served_by(loads, "b", Objectives(ttft_s=1))
    assert found.good == 1 and found.tokens_per_s == pytest.approx(2 / 140e-6)
    with pytest.raises(CalcError, match="use a, b"):
        selection.answers_of(loads, "c")
    with pytest.raises(CalcError, match="output"):
        selection.read_loads(recording(tmp_path / "no.jsonl.gz", output=()))


# --- money ---------------------------------------------------------------------------------------------------

prices, rates, shares = st.floats(0.01, 100), st.floats(1, 1e5), st.floats(0.01, 1)


@given(prices, rates, shares, prices)
def test_cost_at_the_break_even_is_the_other_price(price, rate, busy, other):
    cost = selection.cost_per_million(price_hour=price, good_rate=rate, busy_share=busy)
    assert cost * rate * busy * 3600 / 1e6 == pytest.approx(price)
    even = selection.break_even_busy_share(price_hour=price, good_rate=rate, target_cost=other)
    assert selection.cost_per_million(price_hour=price, good_rate=rate, busy_share=even) == pytest.approx(other)


@given(rates, rates, prices, shares)
def test_at_the_price_ratio_a_good_token_costs_the_same(first, second, price, busy):
    ratio = selection.break_even_price_ratio(first_good_rate=first, second_good_rate=second)
    one = selection.cost_per_million(price_hour=price * ratio, good_rate=first, busy_share=busy)
    assert one == pytest.approx(selection.cost_per_million(price_hour=price, good_rate=second, busy_share=busy))


@given(st.floats(0.1, 1e6), rates, shares)
def test_machines_carry_the_demand_and_one_less_would_not(demand, rate, busy):
    count = selection.machines(demand=demand, good_rate=rate, busy_share=busy)
    assert count * rate * busy >= demand * (1 - 1e-9)
    assert (count - 1) * rate * busy < demand


@given(
    st.tuples(rates, prices, shares, st.floats(0, 5000)),
    st.tuples(rates, prices, shares, st.floats(0, 5000)),
    st.floats(1, 1e5),
)
def test_the_decision_takes_the_cheaper_and_its_ties_are_ties(one, two, demand):
    a, b = (
        selection.Candidate(name=n, good_rate=r, price_hour=p, busy_share=s, upkeep_month=u)
        for n, (r, p, s, u) in zip("ab", (one, two), strict=True)
    )
    found = selection.decide(a, b, demand=demand, switch_cost=100)
    assert found.chosen_hour <= found.other_hour
    assert found.chosen_hour == found.chosen.fleet(demand)[1]
    assert found.ratio == found.chosen.good_rate / found.other.good_rate
    tie = found.other_machines * found.price_to_tie + found.other.upkeep_month / 730
    assert tie == pytest.approx(found.chosen_hour, abs=1e-9)
    assert found.price_to_tie <= found.other.price_hour * (1 + 1e-9)
    faster = lambda by: replace(found.other, good_rate=found.rate_to_tie * by).fleet(demand)[1]  # noqa: E731
    if math.isfinite(found.rate_to_tie):  # whole machines: a little faster ties, a little slower doesn't
        assert faster(1 + 1e-6) <= found.chosen_hour * (1 + 1e-9)
        assert faster(1 - 1e-6) > found.chosen_hour * (1 - 1e-9)
    else:
        assert replace(found.other, good_rate=1e12).fleet(demand)[1] > found.chosen_hour * (1 - 1e-9)
    if found.demand_to_tie:
        hours = [
            found.demand_to_tie * 3600 / 1e6 * c.cost_per_million + c.upkeep_month / 730
            for c in (found.chosen, found.other)
        ]
        assert hours[0] == pytest.approx(hours[1])
    if found.payback_hours:
        assert found.payback_hours * (found.other_hour - found.chosen_hour) == pytest.approx(100)


def test_a_flip_counts_whole_machines():
    """34 machines against 42: at 35.3 tokens/s, where machines would tie if they were divisible, 29 still cost more."""
    fast = selection.Candidate(name="A", good_rate=29.79, price_hour=0.1, busy_share=0.4, upkeep_month=2500)
    plain = selection.Candidate(name="B", good_rate=24.097, price_hour=0.1, busy_share=0.4, upkeep_month=1500)
    found = selection.decide(fast, plain, demand=400)
    assert (found.chosen.name, found.chosen_machines, found.other_machines) == ("B", 42, 34)
    assert replace(fast, good_rate=35.34).fleet(400)[1] > found.chosen_hour
    assert found.rate_to_tie == pytest.approx(400 / (0.4 * 28))
    assert selection.affordable(fast, found.chosen_hour) == 28


@given(st.floats(0.1, 1e5), prices)
def test_bought_tokens_cost_their_price(demand, price):
    assert selection.bought_cost(demand=demand, target_cost=price) / (3600 * demand) * 1e6 == pytest.approx(price)


@given(rates, prices, shares, st.floats(0, 5000), st.floats(0.01, 1000))
def test_an_hour_pays_for_so_many_machines_and_not_one_more(rate, price, busy, upkeep, hour):
    machine = selection.Candidate(name="a", good_rate=rate, price_hour=price, busy_share=busy, upkeep_month=upkeep)
    count = selection.affordable(machine, hour)
    assert not count or count * price + upkeep / 730 <= hour * (1 + 1e-6)
    assert (count + 1) * price + upkeep / 730 > hour * (1 - 1e-6)


@pytest.mark.parametrize("wrong", [{"busy_share": 1.2}, {"busy_share": 0}, {"good_rate": 0}, {"price_hour": -1}])
def test_a_candidate_makes_sense(wrong):
    with pytest.raises(CalcError):
        selection.Candidate(**{"name": "a", "good_rate": 10, "price_hour": 1, "busy_share": 0.5} | wrong)


def test_quantities_are_checked():
    from calc.units import registry

    quantity = registry().Quantity
    rate = selection.good_rate(token_rate=quantity(1200, "1/minute"), good_share=0.5)
    assert rate.to("1/second").magnitude == pytest.approx(10)
    with pytest.raises(CalcError, match="token_rate"):
        selection.good_rate(token_rate=quantity(5, "byte"), good_share=0.5)


# --- the panel -----------------------------------------------------------------------------------------------


@given(asked=needs)
def test_the_panel_says_what_the_filter_says(asked):
    panel = selection.selection_panel(**asked)
    verdicts = selection.screen(selection.Needs(**asked))
    assert [row.label for row in panel.rows] == [v.name.partition(",")[0] for v in verdicts]
    for row, verdict in zip(panel.rows, verdicts, strict=True):
        assert row.keep == verdict.passes
        ends = {"passes": "passes", "rejected": f"{len(verdict.rejecting)} no", "open": f"{len(verdict.open)} unknown"}
        assert row.text == ends[verdict.result]
        reasons = [
            line
            for line in panel.working
            if line.startswith((f"{row.label} says no to ", f"{row.label} doesn't say: "))
        ]
        assert len(reasons) == (not verdict.passes)
        assert all(c.question in reasons[0] for c in verdict.rejecting)
    passing = [v.name.partition(",")[0] for v in verdicts if v.passes]
    assert all(name in panel.meaning for name in passing)
    threads = [bug.thread for v in verdicts if v.passes for c in v.cells for bug in c.bugs]
    assert ("An open bug" in panel.meaning) == bool(threads)
    assert all(any(thread in line for line in panel.working) for thread in threads)
    assert passing or panel.meaning.startswith("No engine passes")
