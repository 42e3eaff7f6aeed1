"""The book's definitions and every tool's, on hand-made timelines and against the tools' own code."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc import latency
from calc.latency import Chunk, Objectives, Run, Timeline, dialect, dialects, measure
from calc.published import call
from calc.units import CalcError

FIXTURES = Path(__file__).parent / "fixtures"
NUMBERS = json.loads((FIXTURES / "latency" / "tool_numbers.json").read_text(encoding="utf-8"))
TOOLS = [key for key in dialects() if key != "book"]
LIMITS = Objectives(ttft_s=0.3, tpot_s=0.025, e2e_s=0.6)  # those of tool_numbers.json


def answer(*chunks, sent=0.0, end=None, **fields):
    """A timeline from (time, tokens, kind) chunks; the connection closes with the last one."""
    made = tuple(Chunk(*chunk) for chunk in chunks)
    return Timeline(sent_s=sent, chunks=made, end_s=made[-1].time_s if end is None else end, **fields)


def odd_requests() -> Run:
    """The hand-made run that the tools' own code measured."""
    requests = json.loads((FIXTURES / "latency" / "odd_requests.json").read_text(encoding="utf-8"))["requests"]
    return Run(
        timelines=tuple(
            Timeline(
                id=r["id"],
                due_s=None if r["due_ms"] is None else r["due_ms"] / 1000,
                sent_s=r["sent_ms"] / 1000,
                chunks=tuple(Chunk(t / 1000, tokens, kind) for t, tokens, kind in r["chunks"]),
                end_s=r["end_ms"] / 1000,
                status=r["status"],
                prompt_tokens=r["prompt_tokens"],
            )
            for r in requests
        )
    )


# --- the tools' own numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", NUMBERS["tools"])
def test_dialect_gives_the_numbers_of_the_tools_own_code(tool):
    own = NUMBERS["tools"][tool]
    seen = measure(odd_requests(), tool, objectives=LIMITS if dialect(tool).objectives else None)
    assert set(seen.statistics) == set(own["statistics"])
    for key, statistic in own["statistics"].items():
        mine = seen.statistics[key]
        assert mine.mean_s * 1000 == pytest.approx(statistic["mean_ms"], rel=1e-6)
        assert statistic["count"] in (None, pytest.approx(mine.count))
        for p, value in statistic["percentiles_ms"].items():
            assert mine.percentiles[int(p)] * 1000 == pytest.approx(value, rel=1e-6), (key, p)
    for name in ("completed", "failed", "requests_per_s", "output_tokens_per_s", "goodput_per_s", "attainment", "good"):
        if own.get(name) is not None:
            assert getattr(seen, name) == pytest.approx(own[name], rel=1e-6), name


def test_observations_are_the_values_behind_the_statistics():
    run = odd_requests()
    for tool in dialects():
        seen = measure(run, tool).statistics
        for key, values in latency.observations(run, tool).items():
            pairs = [value if isinstance(value, tuple) else (value, 1) for value in values]
            weight = sum(w for _, w in pairs)
            assert seen[key].count == weight
            assert seen[key].mean_s == pytest.approx(sum(v * w for v, w in pairs) / weight)


def test_every_tool_was_asked():
    assert {*NUMBERS["tools"], "mlperf-loadgen"} == set(TOOLS)
    assert len(TOOLS) >= 9


def test_loadgen_gives_the_numbers_of_its_own_summary():
    own = NUMBERS["mlperf-loadgen"]
    run = [
        Timeline(
            due_s=due / 1e9,
            sent_s=sent / 1e9,
            chunks=(Chunk(first / 1e9), Chunk(done / 1e9, tokens - 1)),
            end_s=done / 1e9,
        )
        for due, sent, first, done, tokens in own["queries"]
    ]
    seen = measure(run, "mlperf-loadgen", percentiles=(50, 90, 95, 97, 99))
    for key, statistic in own["statistics"].items():
        mine = seen.statistics[key]
        assert mine.mean_s * 1e9 == pytest.approx(statistic["mean_ns"], abs=1)  # LoadGen cuts the fraction off
        for p, value in statistic["percentiles_ns"].items():
            assert round(mine.percentiles[int(p)] * 1e9) == value, (key, p)
    assert round(seen.requests_per_s, 2) == own["requests_per_s"]
    assert round(seen.output_tokens_per_s, 2) == own["output_tokens_per_s"]


def test_loadgen_asks_for_as_many_queries_as_the_binomial_says():
    assert latency.requests_to_prove(99, over=0) == NUMBERS["mlperf-loadgen"]["queries_needed_in_all"]


# --- one oddity at a time, expected values by hand --------------------------------------------------------------------

BUNDLED = answer((1.0, 4), (1.5, 2), (2.0, 4))  # ten tokens in three messages
ONE_TOKEN = answer((1.0, 1), end=1.5)
STALL = answer((1.0, 1), (1.25, 1), (4.25, 1), (4.5, 1))
EMPTY_FIRST = answer((0.25, 0, "empty"), (1.0, 1), (1.25, 1), (1.5, 1), end=2.0)
THINKING = answer((1.0, 2, "reasoning"), (2.0, 2, "reasoning"), (3.0, 1), (4.0, 1))
FAILED = Timeline(sent_s=0, chunks=(Chunk(0.5),), end_s=9.0, status="failed")

# tool: TTFT, TPOT, all gaps, normalized latency, E2E; None where it reports none
BY_HAND = {
    "bundled": (
        BUNDLED,
        {
            "book": (1.0, 1 / 6, [0.5, 0.5], 0.2, 2.0),
            "vllm-bench": (1.0, 1 / 9, [0.5, 0.5], None, 2.0),
            "vllm-engine": (1.0, 1 / 9, [0.5, 0.5], None, 2.0),
            "sglang-bench": (1.0, 1 / 9, [0.125] * 4 + [0.25] * 2, None, 2.0),
            "genai-perf": (1.0, 0.111111111, None, None, 2.0),
            "aiperf": (1.0, 1 / 9, [0.5, 0.5], None, 2.0),
            "guidellm": (1.0, 1 / 9, None, 0.2, 2.0),
            "inference-perf": (1.0, 1 / 9, [0.0] * 7 + [0.5, 0.5], 0.2, 2.0),
            "mlperf-loadgen": (1.0, 0.111111111, None, None, 2.0),
            "llmperf": (1.0, None, None, 2 / 3, 2.0),
        },
    ),
    "one token": (
        ONE_TOKEN,
        {
            "book": (1.0, None, None, 1.0, 1.0),
            "vllm-bench": (1.0, None, None, None, 1.0),
            "vllm-engine": (1.0, 0.0, None, None, 1.0),
            "sglang-bench": (1.0, None, None, None, 1.5),
            "genai-perf": (1.0, None, None, None, 1.0),
            "aiperf": (1.0, None, None, None, 1.0),
            "guidellm": (1.0, None, None, 1.0, 1.5),
            "inference-perf": (None, None, None, 1.5, 1.5),
            "mlperf-loadgen": (1.0, -0.5, None, None, 1.5),
            "llmperf": (1.0, None, None, 1.0, 1.5),
        },
    ),
    "stall": (
        STALL,
        {
            "book": (1.0, 3.5 / 3, [0.25, 0.25, 3.0], 1.125, 4.5),
            "vllm-bench": (1.0, 3.5 / 3, [0.25, 0.25, 3.0], None, 4.5),
            "vllm-engine": (1.0, 3.5 / 3, [0.25, 0.25, 3.0], None, 4.5),
            "sglang-bench": (1.0, 3.5 / 3, [0.25, 0.25, 3.0], None, 4.5),
            "genai-perf": (1.0, 1.166666667, None, None, 4.5),
            "aiperf": (1.0, 3.5 / 3, [0.25, 0.25, 3.0], None, 4.5),
            "guidellm": (1.0, 3.5 / 3, None, 1.125, 4.5),
            "inference-perf": (1.0, 3.5 / 3, [0.25, 0.25, 3.0], 1.125, 4.5),
            "mlperf-loadgen": (1.0, 1.166666666, None, None, 4.5),
            "llmperf": (1.0, None, None, 1.125, 4.5),
        },
    ),
    "empty first message": (
        EMPTY_FIRST,
        {
            "book": (1.0, 0.25, [0.25, 0.25], 0.5, 1.5),
            "vllm-bench": (0.25, 0.625, [0.25, 0.25, 0.75], None, 1.5),
            "vllm-engine": (1.0, 0.25, [0.25, 0.25], None, 1.5),
            "sglang-bench": (1.0, 0.5, [0.25, 0.25], None, 2.0),
            "genai-perf": (1.0, 0.25, None, None, 1.5),
            "aiperf": (1.0, 0.25, [0.25, 0.25], None, 1.5),
            "guidellm": (1.0, 0.25, None, 0.5, 2.0),
            "inference-perf": (1.0, 0.25, [0.25, 0.25], 2 / 3, 2.0),
            "mlperf-loadgen": (1.0, 0.5, None, None, 2.0),
            "llmperf": (1.0, None, None, 0.375, 2.0),
        },
    ),
    "hidden reasoning": (
        THINKING,
        {
            "book": (1.0, 0.75, [1.0, 1.0, 1.0], 4 / 6, 4.0),
            "vllm-bench": (1.0, 0.6, [1.0, 1.0, 1.0], None, 4.0),
            "vllm-engine": (1.0, 0.6, [1.0, 1.0, 1.0], None, 4.0),
            "sglang-bench": (1.0, 0.6, [0.5, 0.5, 1.0, 1.0], None, 4.0),
            "genai-perf": (3.0, 1.0, None, None, 4.0),
            "aiperf": (1.0, 0.6, [1.0, 1.0, 1.0], None, 4.0),
            "guidellm": (1.0, 0.6, None, 4 / 6, 4.0),
            "inference-perf": (3.0, 1.0, [1.0], 2.0, 4.0),
            "mlperf-loadgen": (1.0, 0.6, None, None, 4.0),
            "llmperf": (3.0, None, None, 1.0, 4.0),
        },
    ),
}


@pytest.mark.parametrize("tool", dialects())
@pytest.mark.parametrize("oddity", BY_HAND)
def test_oddity_by_hand(oddity, tool):
    timeline, expected = BY_HAND[oddity]
    ttft, tpot, gaps, normalized, e2e = expected[tool]
    seen = measure(timeline, tool).statistics
    for key, value in (("ttft", ttft), ("tpot", tpot), ("normalized", normalized), ("e2e", e2e)):
        assert (seen[key].mean_s if key in seen else None) == (None if value is None else pytest.approx(value)), key
    if not gaps:
        assert "itl" not in seen
    else:
        itl = seen["itl"]
        assert (itl.count, itl.min_s, itl.max_s) == (len(gaps), pytest.approx(min(gaps)), pytest.approx(max(gaps)))
        assert itl.mean_s == pytest.approx(sum(gaps) / len(gaps))


@pytest.mark.parametrize("tool", dialects())
def test_failed_request_changes_no_latency_of_whole_answers(tool):
    alone, beside = measure(STALL, tool), measure([STALL, FAILED], tool)
    for key in ("tpot", "normalized", "e2e"):
        assert alone.statistics.get(key) == beside.statistics.get(key)
    # what an engine observes as it happens stays observed
    assert beside.statistics["ttft"].count == (2 if tool == "vllm-engine" else 1)
    assert beside.completed == 1


def test_reasoning_is_told_apart_from_the_answer_by_those_that_can():
    expected = {"book": 3.0, "aiperf": 3.0, "guidellm": 3.0}
    for tool in dialects():
        seen = measure(THINKING, tool).statistics
        assert ("first_answer" in seen) == (tool in expected)
        if tool in expected:
            assert seen["first_answer"].mean_s == expected[tool]


def test_means_are_weighted_as_each_tool_says():
    run = [answer((1.0, 1), (1.25, 1)), answer((1.0, 1), (4.0, 3))]  # TPOT 0.25 for 1 token, 1.0 for 3
    assert measure(run, "vllm-bench").statistics["tpot"].mean_s == 0.625
    assert measure(run, "guidellm").statistics["tpot"].mean_s == (0.25 + 3 * 1.0) / 4
    assert measure(run, "vllm-bench").statistics["itl"].mean_s == (0.25 + 3.0) / 2
    assert measure(run, "sglang-bench").statistics["itl"].mean_s == (0.25 + 3 * 1.0) / 4


def test_loadgen_counts_from_when_a_query_was_due():
    late = answer((2.0, 1), (3.0, 1), sent=1.5, due_s=0.5)
    assert measure(late, "mlperf-loadgen").statistics["ttft"].mean_s == 1.5
    assert measure(late, "vllm-bench").statistics["ttft"].mean_s == 0.5


# --- goodput: one-token answers, failures, requests cut off -----------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "good", "attainment"),
    [
        ("book", 1, 0.5),  # nothing to wait for; the failure misses
        ("vllm-bench", 1, None),
        ("sglang-bench", 1, 0.5),
        ("genai-perf", 0, None),
        ("aiperf", 0, 0.0),
        ("guidellm", 0, 0.0),  # undecided: the failure alone is judged
        ("inference-perf", 0, 0.0),
    ],
)
def test_goodput_of_a_one_token_answer_beside_a_failure(tool, good, attainment):
    seen = measure([ONE_TOKEN, FAILED], tool, objectives=Objectives(tpot_s=0.1))
    assert (seen.good, seen.attainment) == (good, attainment)


def test_genai_perf_pairs_latencies_by_position_and_so_judges_the_wrong_request():
    slow = answer((1.0, 1), (3.0, 1))  # TTFT 1, ITL 2
    fast = answer((0.1, 1), (0.2, 1))
    limits = Objectives(ttft_s=0.5, tpot_s=1.0)
    assert measure([fast, slow], "genai-perf", objectives=limits).good == 1
    # the one-token answer has no ITL: its TTFT is paired with the slow one's ITL, and so on down the lists
    assert measure([answer((0.1, 1)), slow, fast], "genai-perf", objectives=limits).good == 0
    assert measure([answer((0.1, 1)), slow, fast], "vllm-bench", objectives=limits).good == 2


def test_requests_that_the_run_cut_off_are_on_neither_side_of_attainment():
    running = Timeline(sent_s=0, chunks=(Chunk(0.5),), status="running")
    cancelled = Timeline(sent_s=0, end_s=2, status="cancelled")
    timed_out = Timeline(sent_s=0, end_s=2, status="timeout")
    seen = measure([STALL, running, cancelled, timed_out], objectives=Objectives(ttft_s=2))
    assert (seen.completed, seen.failed, seen.cut_off) == (1, 1, 2)
    assert seen.attainment == 0.5
    assert seen.goodput_per_s == 1 / 4.5


def test_objective_on_gaps_sees_the_stall_that_tpot_hides():
    smooth = answer(*((1 + i / 100, 1) for i in range(300)))
    stalled = answer(*((1 + i / 100, 1) for i in range(299)), (7.0, 1))
    for limits, good in ((Objectives(tpot_s=0.05), 2), (Objectives(gap_s=1.0), 1)):
        assert measure([smooth, stalled], objectives=limits).good == good


def test_mlperf_judges_percentiles():
    limits = latency.mlperf_limits("llama2-70b-interactive")
    assert (limits.ttft_s, limits.tpot_s) == (0.45, 0.04)
    quick = answer((0.4, 1), (0.43, 1))
    assert measure([quick] * 200, "mlperf-loadgen", objectives=limits).objectives_met is True
    slow = answer((0.5, 1), (0.53, 1))
    assert measure([quick] * 197 + [slow] * 3, "mlperf-loadgen", objectives=limits).objectives_met is False
    assert measure([quick] * 200, "mlperf-loadgen", objectives=limits, percentiles=(50,)).objectives_met is True
    # rank ⌊np⌋ + 1: already two of 200 are one too many
    assert measure([quick] * 198 + [slow] * 2, "mlperf-loadgen", objectives=limits).objectives_met is False


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if "gap_s" not in dialect(tool).objectives])
def test_objective_that_a_tool_cannot_judge_is_refused_with_those_it_can(tool):
    with pytest.raises(CalcError, match=r"can't judge gap_s; objectives that it knows"):
        measure(STALL, tool, objectives=Objectives(gap_s=1))


# --- windows, warm-up, edges ------------------------------------------------------------------------------------------


def test_windows_side_by_side_count_everything_once():
    run = odd_requests()
    whole = measure(run)
    start = min(t.sent_s for t in run.timelines)
    edges = [start, start + 0.3, start + 0.31, start + 0.5, start + whole.duration_s]
    parts = [measure(run, window=pair) for pair in pairwise(edges)]
    for name in ("completed", "failed", "cut_off"):
        assert sum(getattr(part, name) for part in parts) == getattr(whole, name)
    for name in ("requests_per_s", "output_tokens_per_s"):
        total = sum(getattr(part, name) * part.duration_s for part in parts)
        assert total == pytest.approx(getattr(whole, name) * whole.duration_s)


def test_window_takes_latency_by_sending_and_throughput_by_arrival():
    run = [answer((1.0, 1), (2.0, 1), sent=0.0), answer((2.5, 1), (4.0, 1), sent=1.0)]
    seen = measure(run, window=(0.5, 2.5))
    assert seen.completed == 1 and seen.statistics["ttft"].mean_s == 1.5  # the second was sent inside
    assert seen.requests_per_s == 0.5  # the first ended inside
    assert seen.output_tokens_per_s == 1.5  # three tokens arrived inside, the one at its end too


def test_warm_up_is_left_out_except_by_the_engine_that_cannot_tell():
    cold = answer((9.0, 1), (9.5, 1), warm_up=True)
    for tool in dialects():
        count = measure([cold, STALL], tool).statistics["ttft"].count
        assert count == (2 if tool == "vllm-engine" else 1), tool
    with pytest.raises(CalcError, match="beyond warm-up"):
        measure(cold)


def test_tokens_that_arrived_count_as_throughput_whatever_became_of_their_request():
    assert measure([STALL, FAILED]).output_tokens_per_s * 9.0 == pytest.approx(5)


def test_first_and_last_message_alone_give_everything_but_gaps():
    engine = answer((1.0, 1), (2.0, 4), boundary="engine", every_chunk=False)
    seen = measure(engine)
    assert seen.statistics["tpot"].mean_s == 0.25
    assert "itl" not in seen.statistics and "gaps are unknown" in seen.notes[0]
    with pytest.raises(CalcError, match="record every message"):
        latency.gaps(engine)
    with pytest.raises(CalcError, match="record every message"):
        latency.stalls(engine, longer_than_s=1)


def test_boundary_that_is_not_the_tools_is_noted():
    assert "measures at the engine" in measure(STALL, "vllm-engine").notes[0]
    assert measure(STALL, "vllm-bench").notes == ()


def test_stalls_are_the_gaps_above_the_limit_and_not_the_first_wait():
    assert [s.gap_s for s in latency.stalls(STALL, longer_than_s=0.25)] == [3.0]
    assert latency.stalls(STALL, longer_than_s=3.0) == ()
    assert [s.at_s for s in latency.stalls(EMPTY_FIRST, longer_than_s=0.0)] == [1.0, 1.25]


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(sent_s=0, end_s=1, status="done"), "status is 'done', wanted one of ok"),
        (dict(sent_s=0, end_s=1, status="failed", boundary="moon"), "boundary is 'moon'"),
        (dict(sent_s=0, end_s=1), "no message carries a token"),
        (dict(sent_s=0, end_s=1, chunks=(Chunk(0.5, 1, "noise"),)), "kind of a chunk is 'noise'"),
        (dict(sent_s=0, chunks=(Chunk(0.5),)), "only a running one has no end"),
        (dict(sent_s=0, end_s=1, status="running"), "only a running one has no end"),
        (dict(sent_s=2, end_s=3, chunks=(Chunk(1),)), "times must ascend"),
        (dict(sent_s=0, end_s=1, chunks=(Chunk(2),)), "times must ascend"),
        (dict(sent_s=0, end_s=1, chunks=(Chunk(0.5),), first_byte_s=0.6), "times must ascend"),
        (dict(sent_s=0, end_s=1, chunks=(Chunk(0.5),), started_s=-1), "times must ascend"),
        (dict(sent_s=0, end_s=math.nan, status="failed"), "not a finite number"),
    ],
)
def test_impossible_timeline_is_refused_with_the_reason(fields, message):
    with pytest.raises(CalcError, match=message):
        Timeline(**fields)


def test_other_bad_input_is_refused_with_the_remedy():
    for call_, message in (
        (lambda: measure([]), "nothing to measure"),
        (lambda: measure(STALL, "vllm"), "use book, vllm-bench"),
        (lambda: measure(STALL, "aiperf", window=(0, 1)), "cut the run to the window"),
        (lambda: measure(STALL, window=(2, 1)), "before it starts"),
        (lambda: Objectives(), "give at least one"),
        (lambda: Objectives(ttft_s=0), "wanted seconds above 0"),
        (lambda: latency.request_latency(FAILED), "only a whole answer has latencies"),
        (lambda: latency.mlperf_limits("gpt-5"), "use llama2-70b"),
        (lambda: latency.stalls(STALL, longer_than_s=-1), "of at least 0"),
        (lambda: latency.percentile([], 50), "sample is empty"),
        (lambda: latency.percentile([1], 101), "0 to 100"),
        (lambda: latency.percentile([1], 50, "median"), "use linear"),
        (lambda: latency.percentile_interval([1], 99, 1.0), "between 0 and 1"),
        (lambda: latency.weighted_percentile([(1, 0)], 50), "weight above 0"),
        (lambda: latency.time_per_output_token(last_token_s=2, first_token_s=1, output_tokens=1), "one-token answer"),
        (lambda: latency.tpot_left_by_end_to_end(e2e_s=2, ttft_s=1, output_tokens=1), "one-token answer"),
    ):
        with pytest.raises(CalcError, match=message):
            call_()


def test_part_of_an_answer_whose_messages_count_no_tokens_is_not_guessed():
    uncounted = answer((1.0, None), (2.0, None), usage_tokens=9)
    assert measure(uncounted).output_tokens_per_s == 4.5
    with pytest.raises(CalcError, match="measure the whole run"):
        measure(uncounted, window=(0, 1.5))
    assert "one is taken for each message" in measure(answer((1.0, None), (2.0, None))).notes[0]


# --- what every dialect says of itself --------------------------------------------------------------------------------


@pytest.mark.parametrize("key", dialects())
def test_dialect_says_what_it_includes_and_where_that_was_read(key):
    entry = dialect(key)
    assert entry.percentiles in latency.METHODS and entry.boundary in latency.BOUNDARIES
    assert set(entry.names) <= set(latency.QUANTITIES)
    topics = {"ttft", "tpot", "itl", "e2e", "empty messages", "reasoning", "one-token answers", "failures", "weighting"}
    assert topics <= set(entry.rules)
    for source in entry.sources:
        assert source["file"] and source["checked"] and source["what"]
        assert key == "book" or (source["url"].startswith("https://github.com/") and source["lines"])


def test_only_the_engine_keeps_buckets():
    for key in dialects():
        assert bool(dialect(key).buckets) == (dialect(key).percentiles == "histogram")
        for bounds in dialect(key).buckets.values():
            assert list(bounds) == sorted(set(bounds))


def test_measurement_shows_itself_as_a_table():
    page = measure(STALL, "aiperf")._repr_html_()
    assert "Inter Token Latency (ITL)" in page and "AIPerf 0.13.0" in page and "p99" in page


# --- percentiles ------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.floats(0, 100))
def test_percentile_methods_are_numpys(values, p):
    numpy = pytest.importorskip("numpy")
    for method, theirs in (("linear", "linear"), ("nearest", "nearest")):
        expected = numpy.percentile(values, p, method=theirs)
        assert latency.percentile(values, p, method) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    ordered = sorted(values)
    nearest = latency.percentile(values, p, "nearest-rank")
    assert sum(v <= nearest for v in ordered) >= len(ordered) * p / 100 - 1e-6
    assert ordered[0] <= nearest <= latency.percentile(values, p, "loadgen") <= ordered[-1]


def test_histogram_percentile_is_prometheus():
    # the example of its documentation's reading: 6, 5, 3 and 5 values up to 0, 0.5, 1 and beyond; the median is 0.35
    values = [0.0] * 6 + [0.3] * 5 + [0.7] * 3 + [2.0] * 5
    assert latency.histogram_percentile(values, 50, [0, 0.5, 1]) == pytest.approx(0.35)
    assert latency.histogram_percentile(values, 99, [0, 0.5, 1]) == 1


@pytest.mark.parametrize(("n", "p", "confidence"), [(100, 50, 0.95), (1000, 99, 0.95), (500, 90, 0.99), (64, 95, 0.9)])
def test_interval_covers_with_the_confidence_asked_and_no_rank_less_would(n, p, confidence):
    below = [math.comb(n, k) * (p / 100) ** k * (1 - p / 100) ** (n - k) for k in range(n + 1)]
    lower, upper = latency.interval_ranks(n, p, confidence)
    tail = (1 - confidence) / 2
    missed_low = sum(below[:lower])
    assert missed_low <= tail < missed_low + below[lower]
    if upper is None:
        assert below[n] > tail
    else:
        assert sum(below[upper:]) <= tail < sum(below[upper - 1 :])


def test_interval_has_no_upper_end_until_there_are_enough_requests():
    needed = latency.requests_for_percentile(99, confidence=0.975)
    assert latency.interval_ranks(needed - 1, 99, 0.95)[1] is None
    assert latency.interval_ranks(needed, 99, 0.95)[1] == needed


@given(st.integers(50, 99), st.integers(0, 20))
def test_requests_to_prove_is_the_smallest_that_does(p, over):
    def by_chance(n):
        return sum(math.comb(n, k) * (1 - p / 100) ** k * (p / 100) ** (n - k) for k in range(over + 1))

    n = latency.requests_to_prove(p, over)
    assert by_chance(n) <= 0.01 < by_chance(n - 1)


# --- properties -------------------------------------------------------------------------------------------------------

MOMENTS = st.lists(st.integers(0, 10_000), min_size=1, max_size=30).map(sorted)


@given(MOMENTS, st.lists(st.integers(1, 5), min_size=30, max_size=30))
def test_parts_of_an_answer_add_up(moments, tokens):
    chunks = tuple(Chunk(1 + ms / 1000, n) for ms, n in zip(moments, tokens, strict=False))
    seen = latency.request_latency(Timeline(sent_s=0.5, chunks=chunks, end_s=20))
    assert seen.ttft_s + sum(seen.gaps_s) == pytest.approx(seen.e2e_s)
    assert seen.output_tokens == sum(c.tokens for c in chunks)
    assert seen.worst_gap_s == max(seen.gaps_s, default=0)
    if seen.tpot_s is not None:
        later = seen.output_tokens - chunks[0].tokens
        assert seen.ttft_s + seen.tpot_s * later == pytest.approx(seen.e2e_s)
    if len(chunks) > 1:
        per_message = latency.tokens_per_message(gap_s=sum(seen.gaps_s) / len(seen.gaps_s), tpot_s=seen.tpot_s or 1)
        assert seen.tpot_s == 0 or per_message == pytest.approx(later / (len(chunks) - 1))


@given(MOMENTS, st.floats(0.01, 100))
def test_dialects_scale_with_the_clock(moments, factor):
    def made(scale):
        return Timeline(
            sent_s=0,
            chunks=tuple(Chunk((1 + ms / 1000) * scale) for ms in moments),
            end_s=(1 + moments[-1] / 1000) * scale,
        )

    for tool in dialects():
        if tool == "vllm-engine":
            continue  # its buckets don't scale
        for key, statistic in measure(made(1), tool).statistics.items():
            scaled = measure(made(factor), tool).statistics[key]
            assert scaled.mean_s == pytest.approx(statistic.mean_s * factor, rel=1e-6, abs=2e-9 * max(factor, 1))


# --- against the world ------------------------------------------------------------------------------------------------


def test_binding_limit_of_the_objectives_in_a_field_case():
    limits = Objectives(ttft_s=0.1, tpot_s=0.05, e2e_s=0.79)
    left = call("calc.latency.tpot_left_by_end_to_end", {"e2e_s": 0.79, "ttft_s": 0.1, "output_tokens": 128})
    assert limits.binding_tpot_s(output_tokens=128) == left < limits.tpot_s
    assert limits.binding_tpot_s(output_tokens=8) == 0.05  # short answers have room
    assert Objectives(ttft_s=1).binding_tpot_s(output_tokens=8) is None


# --- one pass over a run too long to hold -----------------------------------------------------------------------------


def as_batches(timelines, size):
    return [
        latency.Batch(
            sent_s=[t.sent_s for t in part],
            times_s=[c.time_s for t in part for c in t.chunks],
            messages=[len(t.chunks) for t in part],
            tokens=[c.tokens for t in part for c in t.chunks],
        )
        for part in (timelines[i : i + size] for i in range(0, len(timelines), size))
    ]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_stream_says_what_the_whole_run_says(size):
    pytest.importorskip("numpy")
    whole = [t for t in odd_requests().timelines if t.status == "ok"]
    whole = [replace(t, end_s=t.chunks[-1].time_s) for t in whole if all(c.tokens for c in t.chunks)]
    limits = Objectives(ttft_s=0.3, tpot_s=0.025, e2e_s=0.6, gap_s=0.1)
    streamed = latency.measure_stream(as_batches(whole, size), objectives=limits, failed=3)
    held = measure([*whole, *[Timeline(sent_s=1, end_s=1, status="failed")] * 3], objectives=limits)
    for key in ("ttft", "tpot", "normalized", "e2e", "itl"):
        one, other = streamed.statistics[key], held.statistics[key]
        assert (one.count, one.min_s, one.max_s) == (
            other.count,
            pytest.approx(other.min_s),
            pytest.approx(other.max_s),
        )
        assert one.mean_s == pytest.approx(other.mean_s)
        if key != "itl":
            assert dict(one.percentiles) == pytest.approx(dict(other.percentiles))
    pooled = [gap for t in whole for gap in latency.gaps(t)]
    for p, value in streamed.statistics["itl"].percentiles.items():
        assert value == pytest.approx(latency.percentile(pooled, p, "nearest-rank"), rel=1 / 2048)
    assert (streamed.completed, streamed.good, streamed.attainment) == (held.completed, held.good, held.attainment)
    assert streamed.output_tokens_per_s == pytest.approx(held.output_tokens_per_s)


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=50), st.sampled_from([1, 50, 90, 99, 100]))
def test_bucket_holds_the_nearest_rank_value(gaps, p):
    numpy = pytest.importorskip("numpy")
    times = numpy.cumsum([1.0, *gaps])
    seen = latency.measure_stream([latency.Batch([0.0], times, [len(times)])], percentiles=(p,)).statistics["itl"]
    kept = numpy.diff(times).tolist()
    assert seen.percentiles[p] == pytest.approx(latency.percentile(kept, p, "nearest-rank"), rel=1 / 2048, abs=1e-12)


def test_bad_batch_is_refused_with_its_number():
    pytest.importorskip("numpy")
    good = latency.Batch([0.0], [1.0, 2.0], [2])
    for bad, message in (
        (latency.Batch([0.0], [1.0, 2.0], [3]), "batch 1: 1 requests"),
        (latency.Batch([0.0], [2.0, 1.0], [2]), "batch 1: a time comes before"),
        (latency.Batch([3.0], [1.0, 2.0], [2]), "batch 1: a time comes before"),
        (latency.Batch([0.0], [1.0, math.inf], [2]), "batch 1: a time is not a finite"),
        (latency.Batch([0.0], [1.0, 2.0], [2], [1]), "batch 1: wanted one count of tokens"),
    ):
        with pytest.raises(CalcError, match=message):
            latency.measure_stream([good, bad])
    with pytest.raises(CalcError, match="no request in any batch"):
        latency.measure_stream([])


def test_benchmark_measures_what_it_made(capsys):
    pytest.importorskip("numpy")
    import bench_latency

    seen = bench_latency.bench(requests=300, tokens=5, sample=10)
    assert (seen.completed, seen.statistics["itl"].count) == (300, 300 * 4)
    printed = capsys.readouterr().out
    assert "peak memory" in printed and "× that time" in printed


# --- what is no number ------------------------------------------------------------------------------------------------

NAN = math.nan


@pytest.mark.parametrize(
    ("call_", "message"),
    [
        (lambda: latency.percentile([NAN, 1, 2, 3], 50), "holds what is no number"),
        (lambda: latency.percentile([1, 2, 3, NAN], 50), "holds what is no number"),
        (lambda: latency.percentile(["a", "b"], 50), "holds what is no number"),
        (lambda: latency.percentile([10**400, 1], 50), "holds what is no number"),
        (lambda: latency.percentile(5, 50), "holds what is no number"),
        (lambda: latency.percentile([1, 2], "99"), "p is '99', wanted a number"),
        (lambda: latency.percentile([1, 2], NAN), "p is nan, wanted a number"),
        (lambda: latency.weighted_percentile([(1, 1), (2, NAN)], 50), "holds what is no number"),
        (lambda: latency.weighted_percentile([(NAN, 1), (2, 1)], 50), "holds what is no number"),
        (lambda: latency.weighted_percentile([(1, "a")], 50), "holds what is no number"),
        (lambda: latency.weighted_percentile([(1, 1), (2, math.inf)], 50), "a weight is inf"),
        (lambda: latency.histogram_percentile([1, NAN], 50, [1, 2]), "holds what is no number"),
        (lambda: latency.percentile_interval([NAN] * 400, 50), "holds what is no number"),
        (lambda: latency.percentile_interval([1] * 400, "50"), "p is '50'"),
        (lambda: latency.requests_for_margin(99, margin=1e-320), "between 0 and 1|wanted 1e-8 or more"),
        (lambda: latency.requests_for_margin(99, margin=1e-9), "wanted 1e-8 or more"),
        (lambda: latency.requests_to_prove(99, "1"), "over is '1'"),
        (lambda: latency.requests_to_prove(99, 10**9), "wanted 100,000,000 at most"),
        (lambda: latency.interval_ranks(10**15, 50), "wanted 100,000,000 at most"),
        (lambda: latency.stalls(STALL, longer_than_s=NAN), "longer_than_s is nan"),
        (lambda: latency.attainment(good=0, completed=0, failed=0), "wanted some requests"),
        (lambda: latency.attainment(good=3, completed=2, failed=1), "as many good ones at most"),
    ],
)
def test_what_is_no_number_is_refused(call_, message):
    with pytest.raises(CalcError, match=message):
        call_()


def test_a_request_that_never_ended_has_its_place_in_a_percentile():
    assert latency.percentile([1, 2, math.inf], 50) == 2
    assert latency.percentile([1, 2, math.inf], 100) == math.inf
