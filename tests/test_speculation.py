"""Speculation against sums written out, brute-force simulation, engines' own logs, and properties of exact "
"fractions."""

import gzip
import itertools
import json
import random
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc import latency, models, speculation
from calc.hardware import accelerator
from calc.sources import data_path, load_json
from calc.speculation import MEASURES, RULES, AcceptanceLog, speculation_panel
from calc.units import CalcError, registry

RECORDING = data_path() / "measured" / "speculation.jsonl.gz"
PROFILES = Path(__file__).parents[2] / "shared" / "profiles"
WEIGHTS = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any)
TABLES = st.lists(WEIGHTS, min_size=3, max_size=3).map(lambda rows: [speculation.chances(row) for row in rows])


# --- closed forms ---------------------------------------------------------------------------------


@given(alpha=st.floats(0, 0.99), k=st.integers(0, 12))
def test_expected_tokens_is_the_series_added_up(alpha, k):
    tokens = speculation.expected_tokens(acceptance=alpha, draft_tokens=k)
    assert tokens == pytest.approx(sum(alpha**i for i in range(k + 1)))
    accepted = speculation.expected_accepted(acceptance=alpha, draft_tokens=k)
    assert tokens == pytest.approx(1 + accepted)
    ends = [(m, alpha**m * (1 - alpha)) for m in range(k)] + [(k, alpha**k)]  # llama.cpp 3649
    assert accepted == pytest.approx(sum(m * chance for m, chance in ends))


def test_expected_tokens_is_exact_with_fractions():
    assert speculation.expected_tokens(acceptance=Fraction(1, 2), draft_tokens=3) == Fraction(15, 8)


@given(alpha=st.floats(0.01, 0.98), k=st.integers(1, 10))
def test_acceptance_for_turns_expected_tokens_around(alpha, k):
    tokens = speculation.expected_tokens(acceptance=alpha, draft_tokens=k)
    assert speculation.acceptance_for(tokens_per_round=tokens, draft_tokens=k) == pytest.approx(alpha, abs=1e-9)


@given(cost=st.floats(0.5, 9), k=st.integers(1, 8))
def test_at_the_break_even_a_round_emits_as_many_tokens_as_it_takes_steps(cost, k):
    least = speculation.break_even_acceptance(round_cost=cost, draft_tokens=k)
    if cost <= 1:
        assert least == 0
    elif cost >= k + 1:
        assert least is None
    else:
        tokens = speculation.expected_tokens(acceptance=least, draft_tokens=k)
        assert speculation.round_speedup(tokens_per_round=tokens, round_cost=cost) == pytest.approx(1)


@given(alpha=st.floats(0, 0.95), drafter=st.floats(0, 0.4), check=st.floats(0, 0.5))
def test_the_best_draft_length_is_the_best_of_all(alpha, drafter, check):
    tokens = {k: speculation.expected_tokens(acceptance=alpha, draft_tokens=k) for k in range(1, 9)}
    costs = {k: 1 + k * (drafter + check) for k in tokens}
    best = speculation.best_draft_length(tokens=tokens, costs=costs)
    gains = {0: 1.0} | {k: tokens[k] / costs[k] for k in tokens}
    assert gains[best] == pytest.approx(max(gains.values()))


def test_a_free_drafter_and_a_free_check_never_lose():
    for alpha, k in itertools.product((0, 0.3, 0.9), range(1, 6)):
        cost = speculation.round_cost(draft_tokens=k, draft_cost=0, verify_cost=1)
        tokens = speculation.expected_tokens(acceptance=alpha, draft_tokens=k)
        assert speculation.round_speedup(tokens_per_round=tokens, round_cost=cost) >= 1
        assert speculation.operations_factor(draft_tokens=k, draft_operations=0, tokens_per_round=tokens) >= 1


def test_quantities_are_checked_and_converted():
    Q = registry().Quantity
    time = speculation.round_seconds(draft_tokens=3, draft_s=Q(2, "ms"), verify_s=Q(10, "ms"))
    assert time.to("ms").magnitude == pytest.approx(16)
    with pytest.raises(CalcError, match="verify_s"):
        speculation.round_seconds(draft_tokens=3, draft_s=1, verify_s=Q(1, "byte"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: speculation.expected_tokens(acceptance=1, draft_tokens=3), "must be below 1"),
        (lambda: speculation.expected_accepted(acceptance=1.5, draft_tokens=3), "must be below 1"),
        (lambda: speculation.expected_tokens(acceptance=-0.1, draft_tokens=3), "acceptance is -0.1"),
        (lambda: speculation.expected_tokens(acceptance=0.5, draft_tokens=1.5), "draft_tokens is 1.5"),
        (lambda: speculation.acceptance_for(tokens_per_round=4, draft_tokens=3), "can't come of drafts of 3"),
        (lambda: speculation.acceptance_for(tokens_per_round=0.5, draft_tokens=3), "wanted from 1"),
        (lambda: speculation.expected_tokens_by_position([0.5, 0.6]), "don't rise"),
        (lambda: speculation.expected_tokens_by_position([1.2]), "shares from 0 to 1"),
        (lambda: speculation.by_position({1: 1.5, 3: 2}), "without gaps"),
        (lambda: speculation.by_position({1: 0.5}), "fewer than 1"),
        (lambda: speculation.best_draft_length(tokens={1: 2.0}, costs={2: 1.0}), "different draft lengths"),
        (lambda: speculation.accepted_when_tested(accepted=0, rejected=0), "no draft token was tested"),
        (lambda: speculation.chances([0, 0]), "not all of them 0"),
        (lambda: speculation.chances([0.5, 0.5]), "whole numbers"),
        (lambda: speculation.one_position(*[speculation.chances([1, 1])] * 2, "coin"), "wanted one of speculative"),
        (lambda: speculation.published_lengths("gpt-9"), "there is qwen3.5-mtp"),
    ],
)
def test_refusals_say_what_is_wrong(call, message):
    with pytest.raises(CalcError, match=message):
        call()


# --- exact enumeration ----------------------------------------------------------------------------


@given(p=WEIGHTS, q=WEIGHTS)
def test_one_position_emits_the_target_exactly_and_accepts_what_both_share(p, q):
    target, draft = speculation.chances(p), speculation.chances(q)
    for rule in ("speculative", "match"):
        assert speculation.one_position(target, draft, rule).chances == target
    found = speculation.one_position(target, draft)
    assert found.acceptance == speculation.overlap(target, draft) == 1 - speculation.distance(target, draft)
    assert speculation.one_position(target, draft, "match").acceptance <= found.acceptance
    assert sum(speculation.residual(target, draft)) == 1


@settings(max_examples=25, deadline=None)
@given(target=TABLES, draft=TABLES, k=st.integers(1, 3), last=st.integers(0, 2))
def test_whole_rounds_emit_the_targets_texts_exactly(target, draft, k, last):
    ends = speculation.round_outcomes(target, draft, last=last, draft_tokens=k)
    assert sum(end.chance for end in ends) == 1
    assert all(len(end.tokens) == end.accepted + 1 <= k + 1 for end in ends)
    texts = speculation.sequences(target, draft, last=last, draft_tokens=k, length=3)
    for text in itertools.product(range(3), repeat=3):  # the target's own chance, by the chain rule
        chance, newest = Fraction(1), last
        for token in text:
            chance, newest = chance * target[newest][token], token
        assert texts.get(text, 0) == chance
    match = speculation.sequences(target, draft, last=last, draft_tokens=k, length=3, rule="match")
    assert {t: c for t, c in match.items() if c} == {t: c for t, c in texts.items() if c}


@pytest.mark.parametrize("rule", ["threshold", "resample", "greedy"])
def test_a_naive_rule_is_exactly_wrong_by_hand(rule):
    target, draft = speculation.chances([1, 1]), speculation.chances([3, 1])
    by_hand = {
        "threshold": (Fraction(0), Fraction(1)),  # the first is never accepted, and the residual is the second alone
        "resample": (Fraction(5, 8), Fraction(3, 8)),  # 3/4 · 2/3 + 1/4 · 1/2
        "greedy": (Fraction(2, 3), Fraction(1, 3)),  # always drafts the first, keeps it with (1/2)/(3/4)
    }
    assert speculation.one_position(target, draft, rule).chances == by_hand[rule]


def test_rules_agree_where_the_drafter_is_the_target():
    target = speculation.chances([5, 3, 2])
    for key in RULES.keys() - {"greedy"}:
        assert speculation.one_position(target, target, key).chances == target


def test_a_trace_takes_the_branch_that_its_numbers_say():
    target = [speculation.chances([2, 3, 5])] * 3
    draft = [speculation.chances([5, 3, 2])] * 3
    coins = [Fraction(1, 2), Fraction(2, 5), Fraction(9, 10)]
    trace = speculation.trace_round(target, draft, last=0, drafted=[1, 0], coins=coins)
    first, second = trace.tests
    assert (first.keep, first.accepted, second.keep, second.accepted) == (1, True, Fraction(2, 5), False)
    assert trace.source == (0, 0, 1) and trace.tokens == (1, 2)
    passed = speculation.trace_round(target, draft, last=0, drafted=[1, 2], coins=coins)
    assert passed.accepted == 2 and passed.source == target[0]
    behind = speculation.trace_round(target, draft, last=0, drafted=[0, 1], coins=[Fraction(1, 2), *coins[1:]])
    assert [test.accepted for test in behind.tests] == [False, None]


def test_traces_by_chance_have_the_targets_frequencies():
    """The same code run with random numbers: 20,000 rounds, first token within five standard errors."""
    rng = random.Random(11)
    target = [speculation.chances(row) for row in ([0, 6, 3, 1], [1, 1, 6, 2], [3, 2, 1, 4], [6, 2, 1, 1])]
    draft = [speculation.chances(row) for row in ([1, 7, 1, 1], [2, 1, 5, 2], [6, 1, 2, 1], [5, 3, 1, 1])]
    counts, rounds = [0] * 4, 20_000
    for _ in range(rounds):
        drafted, newest = [], 0
        for _ in range(2):
            newest = speculation.pick(draft[newest], Fraction(rng.random()))
            drafted.append(newest)
        coins = [Fraction(rng.random()) for _ in range(3)]
        counts[speculation.trace_round(target, draft, last=0, drafted=drafted, coins=coins).tokens[0]] += 1
    for count, chance in zip(counts, map(float, target[0]), strict=True):
        assert abs(count / rounds - chance) <= 5 * (chance * (1 - chance) / rounds) ** 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"last": 9}, "the last token is 9"),
        ({"draft_tokens": 9}, "too much to enumerate"),
        ({"draft": [speculation.chances([1, 1])]}, "rows"),
        ({"target": [(Fraction(1, 2), Fraction(1, 4))] * 2}, "no distribution"),
        ({"rule": "coin"}, "rule is 'coin'"),
    ],
)
def test_enumeration_refuses_what_is_no_table(arguments, message):
    sound = {"target": [speculation.chances([1, 1])] * 2, "draft": [speculation.chances([3, 1])] * 2, "last": 0}
    both = sound | {"draft_tokens": 1} | arguments
    with pytest.raises(CalcError, match=message):
        speculation.round_outcomes(both.pop("target"), both.pop("draft"), **both)


@pytest.mark.parametrize(
    ("drafted", "coins", "message"),
    [
        ([0], [Fraction(1, 2)], "wanted one more"),
        ([0], [Fraction(1), Fraction(0)], "from 0 to below 1"),
        ([1], [Fraction(0)] * 2, "no chance"),
    ],
)
def test_a_trace_refuses_what_cannot_have_been_drawn(drafted, coins, message):
    target, draft = [speculation.chances([1, 1])] * 2, [speculation.chances([1, 0])] * 2
    with pytest.raises(CalcError, match=message):
        speculation.trace_round(target, draft, last=0, drafted=drafted, coins=coins)


# --- logs and conventions -------------------------------------------------------------------------

SMALL = AcceptanceLog.of([([3, 0, 2, 1], [3, 3, 3, 3], 11), ([1, 3], [3, 3], 6)])


def test_conventions_by_hand():
    """Six rounds, 18 drafted, 10 accepted; rounds with a rejection: 0, 2, 1 and 1."""
    assert (SMALL.rounds, SMALL.tokens_drafted, SMALL.tokens_accepted, SMALL.rejected) == (6, 18, 10, 4)
    assert SMALL.reached == (5 / 6, 3 / 6, 2 / 6) and SMALL.conditional == (5 / 6, 3 / 5, 2 / 3)
    by_hand = {
        "leviathan-alpha": 10 / 14,
        "vllm-rate": 10 / 18,
        "vllm-length": 16 / 6,
        "vllm-first": 5 / 6,
        "vllm-last": 2 / 6,
        "sglang-rate": 16 / 24,
        "sglang-length": 16 / 6,
        "sglang-request-rate": (6 / 12 + 4 / 6) / 2,
        "sglang-request-length": (11 / 4 + 6 / 2) / 2,
        "trtllm-rate": ((11 - 6) / 18 + (6 - 4) / 12) / 2,  # prefill is in its counter, and one is added
        "trtllm-length": 17 / 10,
        "llamacpp-rate": 10 / 18,
        "llamacpp-length": 16 / 6,
        "eagle-first": 5 / 6,
        "eagle-last": 2 / 3,
        "eagle-tau": 16 / 6,
        "medusa-acceleration": 16 / 6,
    }
    assert by_hand.keys() == MEASURES.keys() == {c.key for c in speculation.conventions()}
    for convention in speculation.conventions():
        assert convention.measure(SMALL) == pytest.approx(by_hand[convention.key]), convention.key
        assert convention.kind in {"share", "tokens"} and convention.sources


def test_lengths_and_rates_turn_into_each_other():
    assert speculation.expected_tokens_by_position(SMALL.reached) == pytest.approx(1 + 3 * 10 / 18)
    product = 1.0
    for reach, given_that in zip(SMALL.reached, SMALL.conditional, strict=True):
        product *= given_that
        assert reach == pytest.approx(product)


def test_every_source_of_a_convention_is_used_and_none_is_missing():
    facts = load_json("acceptance_conventions.json")
    used = {source for row in facts["conventions"].values() for source in row["sources"]}
    assert used == facts["sources"].keys()


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([([4], [3], 5)], "accepts more than it drafts"),
        ([([1, 1], [3], 5)], "accepts more than it drafts, or one of the two is missing"),
        ([([], [], 5)], "no round"),
        ([([0], [0], 2)], "nothing was drafted"),
        ([([1.5], [3], 2)], "a count is 1.5"),
    ],
)
def test_a_damaged_log_is_refused(requests, message):
    with pytest.raises(CalcError, match=message):
        AcceptanceLog.of(requests)


@pytest.mark.skipif(not RECORDING.exists(), reason="the recording is not made yet")
def test_the_recording_holds_every_setting_and_its_rounds_make_its_tokens():
    repeats = latency.read_shelf(RECORDING)
    seen = {(r.parameters["batch"], r.parameters["draft_tokens"], r.number) for r in repeats}
    assert seen == set(itertools.product((1, 4, 8), range(6), range(3)))
    for repeat in repeats:
        for rounds, timeline in zip(repeat.rounds, repeat.run.timelines, strict=True):
            assert bool(rounds) == bool(repeat.parameters["draft_tokens"])
            if rounds:
                made = 1 + sum(took + 1 for took, _ in rounds)
                cut = made - timeline.output_tokens  # what the last round made beyond the limit
                assert 0 <= cut <= rounds[-1][0]


@pytest.mark.skipif(not RECORDING.exists(), reason="the recording is not made yet")
def test_the_recordings_vllm_conventions_are_what_vllm_would_log():
    """Its log's formulas, on counters added up here from the file itself."""
    with gzip.open(RECORDING, "rt") as file:
        rows = [json.loads(line) for line in file]
    wanted = {r["run"] for r in rows if r["kind"] == "run" and r["setup"] == "draft-3" and r["accepted"]}
    requests = [r for r in rows if r["kind"] == "request" and r["run"] in wanted]
    log = AcceptanceLog.of((r["accepted"], r["drafted"], sum(r["chunk_tokens"])) for r in requests)
    accepted, drafted = (sum(sum(r[name]) for r in requests) for name in ("accepted", "drafted"))
    drafts = sum(len(r["accepted"]) for r in requests)
    assert MEASURES["vllm-rate"](log) == pytest.approx(accepted / drafted)
    assert MEASURES["vllm-length"](log) == pytest.approx(1 + accepted / drafts)


def test_a_tested_position_is_not_always_accepted_less_often_than_the_one_before():
    """The share of rounds falls along these drafts; the chance of a tested token jumps up and down."""
    given = [
        chance for _, chance in speculation.by_position(speculation.published_lengths("qwen3.5-mtp").lengths).values()
    ]
    assert given[3] > given[2] and given[5] > given[4] and given[7] > given[6]


@pytest.mark.skipif(not PROFILES.exists(), reason="the published profiles are not here")
def test_published_lengths_are_those_of_the_files():
    for slug, name, part in (
        ("qwen3.5-mtp", "qwen3.5_mtp.yaml", "thinking_on"),
        ("qwen3.5-mtp-off", "qwen3.5_mtp.yaml", "thinking_off"),
        ("kimi-k2.5-eagle3", "kimik2.5_eagle3.yaml", "thinking_on"),
        ("kimi-k2.5-eagle3-off", "kimik2.5_eagle3.yaml", "thinking_off"),
    ):
        block = (PROFILES / name).read_text().split(f"{part}:\n")[1].split("thinking")[0]
        printed = dict(line.split(":") for line in block.splitlines() if ":" in line)
        ours = speculation.published_lengths(slug).lengths
        assert {int(k): float(v) for k, v in printed.items()} == dict(ours)


# --- floors and panel -----------------------------------------------------------------------------


def test_checking_is_free_until_arithmetic_takes_over():
    model, chip = models.load("llama-3.1-70b"), accelerator("h100-sxm")
    costs = [
        speculation.verification_floor(model, chip, batch=b, cached=2048, draft_tokens=3, ranks=8).cost
        for b in (1, 8, 64, 256, 1024)
    ]
    assert costs[0] == pytest.approx(1, abs=0.01)
    assert costs == sorted(costs) and costs[-1] <= 4


def test_routed_experts_make_checking_dear_from_the_first_draft():
    sparse, dense, chip = models.load("qwen3-30b-a3b"), models.load("qwen3-32b"), accelerator("h100-sxm")
    cost = [
        speculation.verification_floor(model, chip, batch=1, cached=2048, draft_tokens=3).cost
        for model in (sparse, dense)
    ]
    assert cost[0] > 1.5 and cost[1] < 1.05


@pytest.mark.parametrize("name", ["batch", "cached", "draft_tokens"])
def test_a_floor_needs_counts(name):
    counts = {"batch": 1, "cached": 100, "draft_tokens": 3} | {name: 0}
    with pytest.raises(CalcError, match=name):
        speculation.verification_floor(models.load("llama-3.1-8b"), accelerator("h100-sxm"), **counts)


def panel(**changed):
    inputs = {"model": "llama-3.1-8b", "accelerator": "h100-sxm", "ranks": 1, "batch": 1, "cached": 1024}
    inputs |= {"draft_tokens": 3, "acceptance_percent": 70, "draft_percent": 5}
    return speculation_panel(**inputs | changed)


def text_of(found, label):
    return next(row.text for row in found.rows if row.label.startswith(label))


def test_the_panel_says_what_its_rows_say():
    found = panel()
    assert text_of(found, "Tokens of a round") == "2.53" and "shortens" in found.meaning
    late = panel(batch=1024, cached=128)
    assert "stretches" in late.meaning and "arithmetic" in late.meaning
    hopeless = panel(acceptance_percent=0)
    assert text_of(hopeless, "Best draft") == "none" and "No draft length" in hopeless.meaning
    dear = panel(draft_percent=60, batch=1024, cached=128, draft_tokens=16)
    assert text_of(dear, "Acceptance that breaks even") == "none"


@pytest.mark.parametrize(
    "wrong", [{"acceptance_percent": 100}, {"draft_tokens": 0}, {"batch": 0}, {"model": "llama-9"}]
)
def test_the_panel_refuses_the_impossible(wrong):
    with pytest.raises(CalcError):
        panel(**wrong)


# --- the recordings' reader -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "rounds"),
    [
        ({"accepted": [2, 0], "drafted": [2, 2]}, (((2, 2), (0, 2)),)),
        ({}, ((),)),
        ({"accepted": [2, 0], "drafted": [2]}, None),
    ],
)
def test_rounds_are_read_with_their_request(tmp_path, fields, rounds):
    request = {"kind": "request", "run": 0, "id": "0", "role": "load", "due_us": 0, "sent_us": 0, "prompt_tokens": 9}
    request |= {"chunk_us": [10, 10], "chunk_tokens": [1, 3], "end_us": 30} | fields
    lines = [
        {"kind": "header", "schema": 1, "title": "made by hand"},
        {"kind": "run", "run": 0, "setup": "s", "name": "n", "parameters": {}, "repeat": 0, "accepted": True}
        | {"duration_us": 40},
        request,
    ]
    path = tmp_path / "shelf.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    if rounds is None:
        with pytest.raises(CalcError, match="drafted"):
            latency.read_shelf(path)
    else:
        assert latency.read_shelf(path)[0].rounds == rounds


def test_the_chapter_tells_the_recorded_rounds_and_the_prefill_apart():
    """vLLM's record begins with the prefill, which accepts nothing: the rounds begin behind it."""
    tests = Path(__file__).parent
    record = json.loads((tests / "fixtures" / "vllm_0.32.0_spec_k3.json").read_text())
    first, *rounds = (step["sampled"]["S"] for step in record["steps"])
    accepted = [emitted - 1 for emitted in rounds]
    assert accepted[:4] == accepted[4:] == [0, 2, 1, 3]
    (path,) = (tests.parent / "book").glob("*/speculative_decoding.ipynb")
    (cell,) = (c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["id"] == "schedule")
    told = "".join(cell["outputs"][0]["data"]["text/plain"])
    assert "rounds accept 0, 2, 1 and 3 in turn." in told
    assert f"The prefill emits {first}, the rounds {', '.join(map(str, rounds))}." in told


def test_more_accepted_than_drafted_is_refused():
    assert speculation.accepted_share(accepted=5, drafted=5) == 1
    with pytest.raises(CalcError, match="5 accepted of 3 drafted"):
        speculation.accepted_share(accepted=5, drafted=3)
