"""Slow tails: clocks against the truth, sums of segments, findings against what was injected, readers that refuse."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
import summarize_tail
from hypothesis import given
from hypothesis import strategies as st

from calc import latency, scheduling, tail
from calc.sources import data_path
from calc.tail._summary import digest
from calc.units import CalcError
from calc.workload import ReadError

CASES = tail.cases()
CALM = "nothing injected"
SLOW_S = summarize_tail.SLOW_S
SPANS = data_path() / "sample_spans.jsonl"
METRICS = data_path() / "sample_metrics.txt"


def by_case_of(*names):
    chosen = [case for case in CASES if not names or case.name in names]
    return pytest.mark.parametrize("case", chosen, ids=[f"{case.name} {case.repeat}" for case in chosen])


by_case = by_case_of()


# --- clocks -------------------------------------------------------------------------------------------------------


@given(
    offset=st.floats(-5, 5),
    drift=st.floats(-5e-4, 5e-4),
    seed=st.integers(0, 2**32),
    requests=st.integers(1, 40),
)
def test_the_true_clock_is_always_within_the_bounds(offset, drift, seed, requests):
    rng = Random(seed)

    def shown(moment):
        return tail.reading(moment, offset, drift)

    out, back = [], []
    for _ in range(requests):
        sent = rng.uniform(0, 60)
        there = sent + rng.expovariate(1000)
        left = there + rng.uniform(0, 2)
        out.append((sent, shown(there)))
        back.append((shown(left), left + rng.expovariate(200)))
    fit = tail.align(out, back)
    for moment in (0.0, 30.0, 60.0):
        assert fit.own(shown(moment)).holds(moment)
    assert fit.drift.low <= 1 - 1 / (1 + drift) <= fit.drift.high + 1e-12


def test_the_bounds_are_those_of_a_linear_program():
    """Every corner lies on two of the constraints, and no feasible line of a fine grid goes beyond them."""
    rng = Random(7)
    out = [(t, t + 0.02 + rng.expovariate(300)) for t in (rng.uniform(0, 10) for _ in range(20))]
    back = [(t, t - 0.02 + rng.expovariate(300)) for t in (rng.uniform(0, 10) for _ in range(20))]
    fit = tail.align(out, back)
    upper = [(u, u - s) for s, u in out]
    lower = [(u, u - r) for u, r in back]

    def feasible(a, b, within=1e-9):
        at = {u: a + b * (u - fit.middle_s) for u, _ in (*upper, *lower)}
        return all(at[u] <= y + within for u, y in upper) and all(at[u] >= y - within for u, y in lower)

    assert all(feasible(a, b) for a, b in fit.corners)
    through = []  # lines through two of the points: an extreme line touches two of them
    for (u, y), (v, z) in combinations([*upper, *lower], 2):
        slope = (z - y) / (v - u)
        if abs(slope) <= 1e-3 and feasible(y + slope * (fit.middle_s - u), slope):
            through.append((y + slope * (fit.middle_s - u), slope))
    assert through
    for reading in (0.0, 5.0, 10.0):
        at = [a + b * (reading - fit.middle_s) for a, b in through]
        assert min(at) >= fit.offset(reading).low - 1e-9 and max(at) <= fit.offset(reading).high + 1e-9
    assert max(b for _, b in through) == pytest.approx(fit.drift.high, abs=1e-9)
    assert min(b for _, b in through) == pytest.approx(fit.drift.low, abs=1e-9)


def test_findings_stand_with_both_clocks_off_and_found_again():
    """In every run whose requests stay in order, alignment from its own messages changes no finding."""
    for case in CASES:
        if case.name == "hop without a clock":
            continue  # its requests overtake one another: the match is refused, see below
        shown = [tail.skewed(trace, offset_s=0.013, drift=6e-5) for trace in case.traces]
        steps = [replace(step, at_s=tail.reading(step.at_s, -0.031, -4.5e-5)) for step in case.steps]
        near = tail.align(*tail.client_pairs(shown))
        far = tail.align(*tail.engine_pairs(shown, steps))
        again = replace(
            case,
            traces=tuple(tail.moved(trace, near) for trace in shown),
            steps=tuple(replace(step, at_s=near.own(far.own(step.at_s).middle).middle) for step in steps),
        )
        assert [one.labels for one in tail.findings(again, slow_s=SLOW_S)] == [
            one.labels for one in tail.findings(case, slow_s=SLOW_S)
        ]


def test_one_exchange_gives_what_ntp_gives():
    stamps = {"sent_s": 10.0, "received_s": 10.031, "replied_s": 10.131, "returned_s": 10.102}
    fit = tail.align([(10.0, 10.031)], [(10.131, 10.102)], drift_limit=1e-12)
    here = fit.offset(fit.middle_s)
    assert here.middle == pytest.approx(tail.clock_offset(**stamps), abs=1e-9)
    assert here.slack == pytest.approx(tail.clock_slack(**stamps), abs=1e-9)


@by_case
@pytest.mark.parametrize(("ahead", "gains"), [(0.013, 6e-5), (-1.9, -4e-4), (0.0, 0.0)])
def test_a_made_up_gateway_clock_is_found_in_every_run(case, ahead, gains):
    stamped = [tail.skewed(trace, offset_s=ahead, drift=gains) for trace in case.traces]
    fit = tail.align(*tail.client_pairs(stamped))
    for shown, true in zip(stamped, case.traces, strict=True):
        assert fit.own(shown.received_s).holds(true.received_s)
    assert fit.offset(fit.middle_s).slack < 0.3e-3
    assert all(
        abs(tail.moved(shown, fit).received_s - true.received_s) < 0.5e-3
        for shown, true in zip(stamped, case.traces, strict=True)
    )


@pytest.mark.parametrize("case", tail.repeats_of("nothing injected"), ids=lambda case: str(case.repeat))
def test_the_engine_clock_is_found_from_its_step_log(case):
    steps = [replace(step, at_s=tail.reading(step.at_s, -0.031, -4.5e-5)) for step in case.steps]
    out, back = tail.engine_pairs(case.traces, steps)
    assert len(out) == len(back) == len(case.traces)
    fit = tail.align(out, back)
    for step in case.steps:
        assert fit.own(tail.reading(step.at_s, -0.031, -4.5e-5)).holds(step.at_s)


def test_a_wrong_match_of_requests_and_steps_is_refused():
    """Where a hop holds requests back, the order in which they were passed on is not that of the engine."""
    refused = 0
    for case in tail.repeats_of("hop without a clock"):
        with pytest.raises(CalcError, match=r"not those of the requests that come next|no clock fits"):
            tail.align(*tail.engine_pairs(case.traces, case.steps))
        refused += 1
    assert refused == 3


@pytest.mark.parametrize(
    ("out", "back", "words"),
    [
        ([], [(1.0, 1.1)], "both directions"),
        ([(1.0, 1.1)], [], "both directions"),
        ([(1.0, math.nan)], [(1.0, 1.1)], "finite"),
        ([(1.0, 0.9)], [(1.2, 1.0)], "no clock fits"),  # behind by 0.1 s at most, ahead by 0.2 s at least
    ],
)
def test_messages_that_bound_nothing_are_refused(out, back, words):
    with pytest.raises(CalcError, match=words):
        tail.align(out, back)


def test_a_drift_limit_must_be_above_zero():
    with pytest.raises(CalcError, match="limit of the drift"):
        tail.align([(0, 1)], [(2, 3)], drift_limit=0)


# --- segments and findings ----------------------------------------------------------------------------------------


@by_case
def test_segments_add_up_and_none_is_negative(case):
    for trace in case.traces:
        assert set(trace.segments) == set(tail.SEGMENTS)
        assert sum(trace.segments.values()) == pytest.approx(trace.ttft_s, abs=1e-9)
        assert min(trace.segments.values()) >= 0


@by_case
def test_the_ways_in_and_back_together_need_no_clock(case):
    for trace in case.traces:
        skewed = tail.skewed(trace, offset_s=0.5, drift=0.0)
        both = skewed.segments["send"] + skewed.segments["deliver"]
        assert both == pytest.approx(trace.segments["send"] + trace.segments["deliver"], abs=1e-9)


def held(case) -> set[str]:
    """The requests that the load held back at a fixed place among all of them, as the recorder chose them."""
    name, at_least = case.name, 0.5
    if name in {"slow gateway", "two causes"}:
        return {t.id for t in case.traces if t.segments["gateway"] > at_least}
    if name == "slow client":
        return {t.id for t in case.traces if t.segments["deliver"] > at_least}
    if name == "adapter loading":
        return {t.id for t in case.traces if t.output_tokens == 1}
    return {t.id for t in case.traces if t.segments["unclocked"] > at_least}


EXPECTED = {
    "slow gateway": "gateway",
    "slow client": "deliver",
    "adapter loading": "prefill",
    "two causes": "gateway",
    "hop without a clock": "unclocked",
}


@by_case_of(*EXPECTED)
def test_every_request_that_was_slowed_is_found_out(case):
    chosen = held(case)
    assert len(chosen) == 3  # 4% of 72
    found = {one.trace.id: one for one in tail.findings(case, slow_s=SLOW_S)}
    assert chosen <= set(found)
    assert all(EXPECTED[case.name] in found[id].labels for id in chosen)


@by_case_of("long prompt", "two causes")
def test_waits_behind_the_long_prompt_are_told_from_a_slow_hop(case):
    found = [one for one in tail.findings(case, slow_s=SLOW_S) if one.excess]
    late = [one for one in found if one.trace.ttft_s > 0.15 and "gateway" not in one.labels]
    assert late
    for one in late:
        assert {"blocked", "shared"} & set(one.labels)
        assert "unclocked" not in one.labels
        assert one.trace.queue_s < 1e-3  # the engine's own queue shows nothing


@by_case
def test_a_cohort_is_fast_alike_and_near(case):
    for trace in case.slow(SLOW_S):
        beside = tail.cohort(trace, case.traces, slow_s=SLOW_S)
        if trace.prompt_tokens == 1536:
            assert beside == ()
            continue
        assert 3 <= len(beside) <= 8
        assert all(other.ttft_s <= SLOW_S for other in beside)
        assert all(abs(o.prompt_tokens - trace.prompt_tokens) <= 0.3 * trace.prompt_tokens for o in beside)
        chosen = {other.id for other in beside}
        farthest = max(abs(other.sent_s - trace.sent_s) for other in beside)
        for other in case.traces:
            alike = abs(other.prompt_tokens - trace.prompt_tokens) <= 0.3 * trace.prompt_tokens
            if other.ttft_s <= SLOW_S and alike and other.id not in chosen:
                assert abs(other.sent_s - trace.sent_s) >= farthest


def test_cohorts_agree_with_the_same_request_undisturbed():
    """All cases of a repeat have the same load, so each slow request has itself to be compared with."""
    undisturbed = {case.repeat: {t.id.split("-")[1]: t for t in case.traces} for case in CASES if case.name == CALM}
    apart = []
    for case in CASES:
        for one in tail.findings(case, slow_s=SLOW_S):
            if case.name != CALM and one.excess:
                twin = undisturbed[case.repeat][one.trace.id.split("-")[1]]
                assert twin.prompt_tokens == one.trace.prompt_tokens
                if twin.ttft_s > SLOW_S:
                    continue  # slow by the machine's own noise
                apart.append(abs(one.total_s - (one.trace.ttft_s - twin.ttft_s)))
    assert len(apart) == 81
    assert sorted(apart)[len(apart) // 2] < 5e-3 and max(apart) < 0.04


def test_what_remains_without_one_of_two_causes_is_what_was_recorded_with_the_other():
    """Leaving out the requests that one cause held predicts the runs in which only the other was injected."""
    for repeat, both in enumerate(tail.repeats_of("two causes")):
        found = tail.findings(both, slow_s=SLOW_S)
        for left_out, other in (({"gateway"}, "long prompt"), ({"blocked", "shared", "unmatched"}, "slow gateway")):
            gone = {one.trace.id for one in found if left_out & set(one.labels)}
            remains = max(t.ttft_s for t in both.traces if t.id not in gone)
            recorded = max(t.ttft_s for t in tail.repeats_of(other)[repeat].traces)
            assert remains == pytest.approx(recorded, rel=0.1)


def test_the_hop_without_a_clock_is_slow_on_the_way_in_and_open_to_others():
    for case in tail.repeats_of("hop without a clock"):
        for id in held(case):
            trace = next(t for t in case.traces if t.id == id)
            step = [s for s in case.steps if s.prefill_requests and s.at_s <= trace.first_byte_s][-1]
            assert step.at_s - step.elapsed_s - trace.forwarded_s > 0.6
            assert trace.first_byte_s - step.at_s < 0.015
            assert any(t.forwarded_s > trace.forwarded_s and t.first_byte_s < trace.first_byte_s for t in case.traces)


def test_shares_sum_to_one_and_need_a_cohort():
    for case in CASES:
        found = tail.findings(case, slow_s=SLOW_S)
        if any(one.excess for one in found):
            assert sum(tail.shares(found).values()) == pytest.approx(1)
    with pytest.raises(CalcError, match="no slow request has a cohort"):
        tail.shares([])


def test_step_of_the_most_overlap():
    trace = replace(CASES[0].traces[0], forwarded_s=1.0, first_byte_s=2.0, queue_s=0.1, prefill_s=0.3)
    steps = [scheduling.Iteration(at, ran, 0, 0, 1, 1) for at, ran in ((1.2, 0.3), (1.5, 0.25), (2.2, 0.4))]
    assert trace.reached_s() == pytest.approx(1.6)
    step, filled = tail.longest_step(trace, steps)
    assert (step.at_s, round(filled, 9)) == (1.5, 0.25)
    assert tail.longest_step(trace, []) == (None, 0.0)


def test_what_lacks_stamps_or_steps_is_refused():
    repeat = latency.shelf("tail")[0]
    with pytest.raises(CalcError, match="no stamps"):
        tail.traces_of(replace(repeat, gateway=(None,) * len(repeat.gateway)))
    with pytest.raises(CalcError, match="no step log"):
        tail.join([repeat], [])
    with pytest.raises(CalcError, match="no case 'none'"):
        tail.repeats_of("none")


def test_chance_by_counting_all_ways():
    for slow, marked, both, requests in ((3, 4, 2, 9), (2, 5, 0, 8), (4, 4, 4, 10)):
        ways = list(combinations(range(requests), slow))
        expected = sum(sum(i < marked for i in way) >= both for way in ways) / len(ways)
        assert tail.chance_overlap(slow=slow, marked=marked, both=both, requests=requests) == pytest.approx(expected)
    for wrong in ({"slow": 10}, {"both": 4}, {"marked": -1}, {"requests": 2.5}):
        with pytest.raises(CalcError):
            tail.chance_overlap(**{"slow": 3, "marked": 3, "both": 1, "requests": 9} | wrong)


# --- the summary and the panel ------------------------------------------------------------------------------------


def test_the_summary_is_that_of_the_recording():
    assert summarize_tail.TARGET.read_text(encoding="utf-8") == summarize_tail.text(digest(CASES, SLOW_S))


def test_the_panel_hides_the_cause_until_it_is_asked():
    for number, case in enumerate(tail.summary(), start=1):
        open_one = tail.tail_panel(case=number, slow_ms=70, guess="not yet")
        told = " ".join([open_one.meaning, *open_one.working, *(row.label + row.text for row in open_one.rows)])
        assert all(name not in told for name in {one.name for one in tail.summary()})
        assert "Right" in tail.tail_panel(case=number, slow_ms=70, guess=case.name).meaning
        wrong = next(one.name for one in tail.summary() if one.name != case.name)
        assert f"this is “{case.name}”" in tail.tail_panel(case=number, slow_ms=70, guess=wrong).meaning


def test_the_panel_at_its_ends():
    for number in range(1, 8):
        few = tail.tail_panel(case=number, slow_ms=5000, guess="not yet")
        assert "nothing to explain" in few.meaning and few.rows[3].text == "0"
        for name in {one.name for one in tail.summary()}:  # no row can rule anything out
            assert "Which row" not in tail.tail_panel(case=number, slow_ms=5000, guess=name).meaning
    counts = [int(tail.tail_panel(case=3, slow_ms=ms, guess="not yet").rows[3].text) for ms in (70, 300, 640)]
    assert counts == sorted(counts, reverse=True)
    for wrong in ({"case": 0}, {"case": 8}, {"slow_ms": 0}, {"guess": "the moon"}):
        with pytest.raises(CalcError):
            tail.tail_panel(**{"case": 1, "slow_ms": 70, "guess": "not yet"} | wrong)


# --- spans --------------------------------------------------------------------------------------------------------


def test_spans_are_read_exactly():
    spans = tail.read_spans(SPANS)
    assert len(spans) == 12 and Counter(span.service for span in spans) == {"gateway": 6, "vllm-server": 6}
    assert min(span.start_s for span in spans) == 0.0
    engine = tail.engine_spans(spans)
    assert [round(1000 * one.before_queue_s, 6) for one in engine] == [0.9, 1.1, 0.8, 611.0, 495.0, 1.0]
    assert all(one.e2e_s == pytest.approx(one.ttft_s + one.decode_s, abs=2e-6) for one in engine)
    assert set(tail.outside_parent_s(spans)) == {one.span.id for one in engine}
    assert all(over == pytest.approx(0.0389) for over in tail.outside_parent_s(spans).values())


def spans_file(tmp_path, change):
    lines = SPANS.read_text(encoding="utf-8").splitlines()
    path = tmp_path / "spans.jsonl"
    path.write_text(change(lines), encoding="utf-8")
    return path


def changed(line, **fields):
    data = json.loads(line)
    data["resourceSpans"][0]["scopeSpans"][0]["spans"][0] |= fields
    return json.dumps(data)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: "", "empty"),
        (lambda lines: "\n".join(lines)[:-40], "line 12"),
        (lambda lines: "\n".join([*lines[:2], "{}"]), "line 3: no resourceSpans"),
        (lambda lines: '{"resourceMetrics": []}\n', "line 1: no resourceSpans"),
        (lambda lines: '{"resourceSpans": []}\n', "no span"),
        (lambda lines: '{"resourceSpans": 5}\n', "line 1"),
        (lambda lines: changed(lines[0], startTimeUnixNano="soon"), r"line 1.*startTimeUnixNano"),
        (lambda lines: changed(lines[0], startTimeUnixNano=1.5), r"line 1.*startTimeUnixNano"),
        (lambda lines: changed(lines[0], endTimeUnixNano="1"), r"line 1.*before it starts"),
        (lambda lines: changed(lines[0], name=None), r"line 1.*name"),
        (lambda lines: changed(lines[0], attributes=[{"key": "x"}]), r"line 1.*value"),
        (lambda lines: changed(lines[0], attributes=[{"key": "x", "value": {"intValue": "1.5"}}]), r"line 1.*intValue"),
        (lambda lines: changed(lines[0], attributes=[{"key": "x", "value": {"doubleValue": "a"}}]), r"line 1.*double"),
    ],
)
def test_spans_that_are_damaged_are_refused_by_line(tmp_path, change, words):
    with pytest.raises(ReadError, match=words):
        tail.read_spans(spans_file(tmp_path, change))


def test_every_cut_of_a_span_file_is_refused_or_shorter(tmp_path):
    text = SPANS.read_text(encoding="utf-8")
    whole = len(tail.read_spans(SPANS))
    for cut in range(1, len(text) - 1, 97):
        path = spans_file(tmp_path, lambda lines, cut=cut: text[:cut])
        try:
            assert len(tail.read_spans(path)) == text[: cut + 1].count("\n") < whole
        except ReadError as error:
            assert "line" in str(error)


def test_spans_of_something_else_hold_no_engine(tmp_path):
    gateway_only = tail.read_spans(spans_file(tmp_path, lambda lines: lines[0]))
    with pytest.raises(ReadError, match="no span named llm_request"):
        tail.engine_spans(gateway_only)
    bare = tail.read_spans(spans_file(tmp_path, lambda lines: changed(lines[1], attributes=[])))
    with pytest.raises(ReadError, match="time_to_first_token is None"):
        tail.engine_spans(bare)


# --- metrics ------------------------------------------------------------------------------------------------------


def test_the_page_is_read():
    page = tail.read_metrics(METRICS)
    assert page.value("vllm:num_requests_running") == 3
    first = page.histogram("vllm:time_to_first_token_seconds", engine="0")
    assert first.count == 1000 and len(first.bounds) == 23 and first.mean == pytest.approx(0.049182)
    assert first.percentile(99) == tail.Between(0.75, 1.0)
    with pytest.raises(ReadError, match="no nothing_bucket on this page"):
        page.histogram("nothing")
    with pytest.raises(ReadError, match="on this page"):
        page.histogram("vllm:time_to_first_token_seconds", engine="1")


@given(values=st.lists(st.floats(0, 20), min_size=1, max_size=60), p=st.floats(1, 100))
def test_percentiles_are_those_of_prometheus_and_hold_the_true_one(values, p):
    bounds = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0)
    counts = [sum(value <= bound for value in values) for bound in (*bounds, math.inf)]
    histogram = tail.Histogram((*bounds, math.inf), tuple(counts), sum(values))
    assert histogram.interpolated(p) == pytest.approx(latency.histogram_percentile(values, p, bounds))
    bucket = histogram.percentile(p)
    true = sorted(values)[max(math.ceil(len(values) * p / 100 - 1e-9) - 1, 0)]
    assert bucket.low <= true <= bucket.high
    assert bucket.low <= histogram.interpolated(p) <= bucket.high


def test_two_pages_give_what_lies_between():
    then = tail.Histogram((0.1, math.inf), (5, 8), 2.0)
    now = tail.Histogram((0.1, math.inf), (6, 12), 9.0)
    assert now.minus(then) == tail.Histogram((0.1, math.inf), (1, 4), 7.0)
    for other, words in (
        (tail.Histogram((0.2, math.inf), (5, 8), 2.0), "different buckets"),
        (tail.Histogram((0.1, math.inf), (7, 13), 9.5), "started again"),
    ):
        with pytest.raises(CalcError, match=words):
            now.minus(other)
    with pytest.raises(CalcError, match="empty"):
        now.minus(now).percentile(50)
    with pytest.raises(CalcError, match="between 0 and 100"):
        now.percentile(101)


def metrics_file(tmp_path, text):
    path = tmp_path / "metrics.txt"
    path.write_text(text, encoding="utf-8")
    return path


HISTOGRAM = """# TYPE h histogram
h_bucket{le="1.0"} 2
h_bucket{le="+Inf"} 3
h_count 3
h_sum 4.5
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no sample"),
        ("# HELP h\n", "no sample"),
        (HISTOGRAM[:-1], "line 5: no line feed"),
        (HISTOGRAM.replace("2\n", "two\n"), "line 2: the value is 'two'"),
        (HISTOGRAM.replace("2\n", "NaN\n"), "line 2: the value is NaN"),
        (HISTOGRAM.replace('{le="1.0"}', '{le="1.0}'), "line 2"),
        (HISTOGRAM.replace("h_bucket{", "h-bucket{"), "line 2"),
        (HISTOGRAM.replace("# TYPE h histogram", "# TYPE h"), "line 1: a TYPE line"),
        ("<html></html>\n", "line 1"),
    ],
)
def test_pages_that_are_damaged_are_refused_by_line(tmp_path, text, words):
    with pytest.raises(ReadError, match=words):
        tail.read_metrics(metrics_file(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HISTOGRAM.replace('h_bucket{le="+Inf"} 3\n', ""), r"line 2: h ends without its \+Inf bucket"),
        (HISTOGRAM.replace("h_sum 4.5\n", ""), "no _sum and _count"),
        (HISTOGRAM.replace("h_count 3", "h_count 4"), "h_count is 4"),
        (HISTOGRAM.replace("} 3\n", "} 1\n"), "line 3: buckets of h must ascend"),
        (HISTOGRAM.replace("+Inf", "0.5"), "line 3: buckets of h must ascend"),
        (HISTOGRAM.replace('le="1.0"', 'le="one"'), "line 2: the bucket's bound"),
        (HISTOGRAM.replace('{le="1.0"}', '{at="1.0"}'), "line 2: the bucket's bound"),
    ],
)
def test_histograms_that_contradict_themselves_are_refused_by_line(tmp_path, text, words):
    with pytest.raises(ReadError, match=words):
        tail.read_metrics(metrics_file(tmp_path, text)).histogram("h")


def test_a_page_that_is_cut_anywhere_gives_no_wrong_histogram(tmp_path):
    text = METRICS.read_text(encoding="utf-8")
    name = "vllm:time_to_first_token_seconds"
    whole = tail.read_metrics(METRICS).histogram(name)
    for cut in range(40, len(text), 53):
        for end in (cut, text.find("\n", cut) + 1 or len(text)):
            try:
                assert tail.read_metrics(metrics_file(tmp_path, text[:end])).histogram(name) == whole
            except ReadError:
                continue


def test_series_of_several_engines_add_up(tmp_path):
    one = HISTOGRAM.replace("{le", '{engine="0",le').replace("h_count", 'h_count{engine="0"}')
    one = one.replace("h_sum", 'h_sum{engine="0"}')
    two = "".join(line + "\n" for line in one.replace('"0"', '"1"').splitlines()[1:])
    page = tail.read_metrics(metrics_file(tmp_path, one + two))
    assert page.histogram("h").counts == (4, 6)
    assert page.histogram("h", engine="1").counts == (2, 3)
    uneven = one + two.replace('le="1.0"', 'le="2.0"')
    with pytest.raises(ReadError, match="different buckets"):
        tail.read_metrics(metrics_file(tmp_path, uneven)).histogram("h")


def test_labels_with_escapes_and_time_stamps(tmp_path):
    page = tail.read_metrics(metrics_file(tmp_path, 'up{a="x,\\"y\\"",b="}"} 1 1700000000000\nup 2\n'))
    assert [s.label("b") for s in page.samples] == ["}", None]
    assert page.value("up") == 3


def test_slow_is_a_time():
    case = tail.repeats_of("long prompt")[0]
    for bad in (float("nan"), -1, "1"):
        with pytest.raises(CalcError, match="slow_s is"):
            tail.cohort(case.traces[0], case.traces, slow_s=bad)
        with pytest.raises(CalcError, match="slow_s is"):
            case.slow(bad)
