"""Retries, clients that wait, numbers of requests, and the summary of recorded arrivals."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
import summarize_recordings
from hypothesis import given
from hypothesis import strategies as st

from calc import latency
from calc.latency import Chunk, Objectives, Timeline, fold_retries, measure
from calc.units import CalcError
from calc.workload import Spread

LIMITS = Objectives(ttft_s=0.3, tpot_s=0.025)

# --- retries


def attempt(name: str, sent: float, *, ok: bool = False, after: float = 0.25, retry_of: str = "") -> Timeline:
    chunks = (Chunk(sent + after), Chunk(sent + after + 0.1)) if ok else ()
    return Timeline(
        id=name,
        sent_s=sent,
        chunks=chunks,
        end_s=sent + after + 0.2,
        status="ok" if ok else "failed",
        retry_of=retry_of,
    )


def test_a_user_waits_from_the_first_attempt_to_the_last_answer():
    log = [
        attempt("a", 1.0),
        attempt("x", 1.25, ok=True),
        attempt("b", 2.0, retry_of="a"),
        attempt("c", 3.0, ok=True, retry_of="b"),
    ]
    first, other = fold_retries(log).timelines
    assert (first.id, first.sent_s, first.status, first.chunks[0].time_s) == ("a", 1.0, "ok", 3.25)
    assert other == log[1]
    seen = measure(log, objectives=Objectives(ttft_s=0.5))
    assert (seen.completed, seen.failed, seen.good) == (2, 2, 2)  # attempts
    seen = measure(fold_retries(log), objectives=Objectives(ttft_s=0.5))
    assert (seen.completed, seen.failed, seen.good) == (2, 0, 1)  # requests


def test_a_retry_that_fails_too_is_one_failure():
    (request,) = fold_retries([attempt("a", 0.0), attempt("b", 1.0, retry_of="a")]).timelines
    assert (request.status, request.sent_s, request.end_s) == ("failed", 0.0, 1.45)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ([attempt("b", 1.0, retry_of="a")], "repeats 'a', which is no other request"),
        ([attempt("a", 1.0, retry_of="a")], "repeats 'a', which is no other request"),
        ([attempt("a", 0.0), attempt("b", 1.0, retry_of="a"), attempt("c", 1.0, retry_of="a")], "is repeated twice"),
    ],
)
def test_retries_of_nothing_are_refused(log, message):
    with pytest.raises(CalcError, match=message):
        fold_retries(log)


# --- clients that wait


def by_hand(due, served, frozen_at, frozen):
    """When each request ends: the server's work as a list of free intervals of its time."""
    ends, now = [], 0.0
    for at in due:
        now = max(now, at)
        if frozen_at <= now < frozen_at + frozen:
            now = frozen_at + frozen
        left = served
        if now < frozen_at < now + served:
            left += frozen
        now += left
        ends.append(now)
    return ends


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=40).map(sorted),
    st.integers(1, 30),
    st.integers(0, 300),
    st.integers(0, 200),
)
def test_the_server_does_the_same_and_only_the_sending_differs(due_cs, served_cs, at_cs, frozen_cs):
    due, served, at, frozen = [d / 100 for d in due_cs], served_cs / 100, at_cs / 100, frozen_cs / 100
    made = {"served_s": served, "frozen_at_s": at, "frozen_s": frozen}
    waits, sends = (latency.one_at_a_time(due, waits=w, **made).timelines for w in (True, False))
    assert [t.end_s for t in waits] == [t.end_s for t in sends] == pytest.approx(by_hand(due, served, at, frozen))
    assert [t.sent_s for t in sends] == due
    for before, later in pairwise(waits):
        assert later.sent_s == max(later.due_s, before.end_s)
    again = latency.from_due(latency.one_at_a_time(due, **made)).timelines
    assert [t.sent_s for t in again] == due


def test_the_formulas_are_what_the_simulation_counts():
    for requests in (1, 2, 8, 30):
        run = latency.from_due(latency.one_at_a_time([0.125 * i for i in range(requests)], served_s=0.5))
        last = measure(run.timelines[-1]).statistics["e2e"].mean_s
        assert latency.serial_latency(requests=requests, due_every_s=0.125, served_s=0.5) == pytest.approx(last)
    due = [i / 16 for i in range(2000)]
    run = latency.one_at_a_time(due, served_s=1 / 32, frozen_at_s=20 - 1 / 64, frozen_s=4.0)
    late = sum(t.end_s - t.due_s > 1.001 / 32 for t in run.timelines)
    assert abs(late - latency.delayed_requests(arrival_rate=16, frozen_s=4, served_s=1 / 32)) <= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: latency.one_at_a_time([], served_s=1), "at least one request"),
        (lambda: latency.one_at_a_time([2, 1], served_s=1), "ascending times"),
        (lambda: latency.one_at_a_time([1], served_s=-1), "served_s is -1"),
        (lambda: latency.one_at_a_time([1], served_s=1, frozen_s=math.inf), "frozen_s is inf"),
        (lambda: latency.from_due(latency.Run.of(attempt("a", 0.0, ok=True))), "doesn't say when it was due"),
        (lambda: latency.serial_latency(requests=3, due_every_s=2, served_s=1), "none waits"),
        (lambda: latency.delayed_requests(arrival_rate=10, frozen_s=1, served_s=0.1), "never clears"),
        (lambda: latency.fewest_requests(share=1, confidence=0.9), "no number of requests"),
        (lambda: latency.requests_within(deviations=2, share=1.5, margin=0.1), "1 at most"),
        (lambda: Spread.of([]), "no repeat"),
        (lambda: latency.shelf("nothing"), "no recording 'nothing': use .*arrivals"),
    ],
)
def test_bad_input_is_refused_with_the_remedy(call, message):
    with pytest.raises(CalcError, match=message):
        call()


# --- how many requests


@given(st.floats(0.01, 0.999), st.floats(0.01, 0.999))
def test_the_fewest_requests_are_enough_and_one_less_is_not(share, confidence):
    n = latency.fewest_requests(share=share, confidence=confidence)
    assert share**n <= (1 - confidence) * (1 + 1e-9)
    assert share ** (n - 1) >= (1 - confidence) * (1 - 1e-9)


def test_a_spread_is_written_with_its_range_unless_there_is_none():
    assert Spread.of([4, 2, 9]).text(str) == "4 (2 to 9)"
    assert Spread.of([2.0, 2.0]).text(str) == "2.0"


# --- the summary of recorded arrivals


def recorded():
    return sorted(latency.shelf("arrivals"), key=lambda repeat: (repeat.parameters["per_s"], repeat.number))


def summarized():
    return sorted(latency.loads(), key=lambda load: (load.per_s, load.repeat))


def test_the_summary_is_what_the_recordings_give():
    assert summarize_recordings.TARGET.read_text(encoding="utf-8") == summarize_recordings.text(
        summarize_recordings.summary()
    )


@pytest.mark.parametrize(
    "limits", [LIMITS, Objectives(ttft_s=0.5, tpot_s=0.03), Objectives(e2e_s=1.0), Objectives(gap_s=0.2)]
)
def test_counting_the_summary_is_counting_the_recording(limits):
    for repeat, load in zip(recorded(), summarized(), strict=True):
        seen = measure(repeat.run, objectives=limits)
        assert (load.per_s, load.repeat) == (repeat.parameters["per_s"], repeat.number)
        assert (load.requests, load.good(limits)) == (seen.completed, seen.good)
        assert load.window_s == pytest.approx(seen.duration_s, abs=1e-6)
    for point in latency.goodput_by_rate(limits):
        group = [measure(r.run, objectives=limits) for r in recorded() if r.parameters["per_s"] == point.per_s]
        assert point.goodput.repeats == len(group) >= 3
        assert point.goodput.low == pytest.approx(min(m.goodput_per_s for m in group), rel=1e-5)
        assert point.throughput.high == pytest.approx(max(m.requests_per_s for m in group), rel=1e-5)


@given(st.floats(0.02, 2), st.floats(0.002, 0.2), st.floats(1, 2))
def test_wider_limits_never_lose_a_request(ttft, tpot, factor):
    tight = latency.goodput_by_rate(Objectives(ttft_s=ttft, tpot_s=tpot))
    wide = latency.goodput_by_rate(Objectives(ttft_s=ttft * factor, tpot_s=tpot * factor))
    for one, other in zip(tight, wide, strict=True):
        assert one.goodput.median <= other.goodput.median <= one.throughput.median + 1e-12
        assert 0 <= one.attainment.low <= one.attainment.high <= 1


def test_clocks_inside_each_other_are_ordered():
    seen = {hop.name: hop.seconds for hop in latency.hops()}
    for inner, outer in pairwise(("queue", "engine", "gateway", "client")):
        assert seen[inner].high <= seen[outer].high and seen[inner].low <= seen[outer].low


def test_client_and_engine_leave_the_time_outside():
    """Each repeat's median of the difference lies near the difference of its medians."""
    seen = {hop.name: hop.seconds for hop in latency.hops()}
    assert seen["outside the engine"].median == pytest.approx(seen["client"].median - seen["engine"].median, rel=0.1)


def test_other_clocks_are_read_with_the_requests():
    for repeat in latency.shelf("tail"):
        for seen, engine, gateway in zip(repeat.run.timelines, repeat.engine, repeat.gateway, strict=True):
            way = (gateway["received"], gateway["forwarded"], gateway["first_byte"])
            stamps = [seen.sent_s, *way, seen.chunks[0].time_s]
            assert stamps == sorted(stamps)
            assert engine["queue"] + engine["prefill"] <= seen.chunks[0].time_s - seen.sent_s
        times = [gauge.at_s for gauge in repeat.gauges]
        assert times == sorted(times) and len(times) > 10


def test_a_gauge_whose_columns_differ_is_refused(tmp_path):
    fixture = (Path(__file__).parent / "fixtures" / "latency" / "shelf.jsonl").read_text(encoding="utf-8")
    gauge = {"kind": "gauge", "run": 0, "at_us": [500000, 500000], "running": [1, 2], "waiting": [0, 1]}
    path = tmp_path / "shelf.jsonl"
    path.write_text(fixture + json.dumps(gauge) + "\n", encoding="utf-8")
    (repeat,) = latency.read_shelf(path)
    assert [(g.at_s, g.running, g.waiting) for g in repeat.gauges] == [(0.5, 1, 0), (1.0, 2, 1)]
    path.write_text(fixture + json.dumps(gauge | {"running": [1]}) + "\n", encoding="utf-8")
    with pytest.raises(CalcError, match="as many moments as counts"):
        latency.read_shelf(path)


def test_goodput_without_a_recording_is_refused():
    with pytest.raises(CalcError, match="no load was recorded"):
        latency.goodput_by_rate(LIMITS, [])


# --- the panel


@given(st.sampled_from(sorted({load.per_s for load in latency.loads()})), st.integers(25, 1600), st.integers(5, 80))
def test_the_panel_says_what_is_so(per_s, ttft_ms, tpot_ms):
    panel = latency.goodput_panel(per_s=per_s, ttft_ms=ttft_ms, tpot_ms=tpot_ms)
    limits = Objectives(ttft_s=ttft_ms / 1000, tpot_s=tpot_ms / 1000)
    points = latency.goodput_by_rate(limits)
    here = next(point for point in points if point.per_s == per_s)
    rows = {row.label: row.text for row in panel.rows}
    group = [load for load in latency.loads() if load.per_s == per_s]
    kept = sum(load.good(limits) for load in group)
    assert rows["Both limits kept"] == str(kept)
    late, slow = int(rows[next(k for k in rows if k.startswith("First token"))]), int(rows["Tokens too slow"])
    total = sum(load.requests for load in group)
    assert total - late - slow <= kept <= total - max(late, slow)
    if "No recorded rate gives more goodput" in panel.meaning:
        assert here.goodput.median == max(point.goodput.median for point in points) > 0
    if "Every request keeps both limits" in panel.meaning:
        assert kept == total
    if "At no recorded rate" in panel.meaning:
        assert all(point.goodput.median == 0 for point in points)
    if "throughput still rises" in panel.meaning:
        best = max(points, key=lambda point: point.goodput.median)
        assert here.per_s > best.per_s and here.throughput.median > best.throughput.median


@pytest.mark.parametrize(
    ("change", "message"),
    [({"per_s": 5}, "recorded were 1.25, 1.75"), ({"ttft_ms": 0}, "ttft_ms is 0"), ({"tpot_ms": -1}, "tpot_ms is -1")],
)
def test_the_panel_refuses_what_was_not_recorded(change, message):
    with pytest.raises(CalcError, match=message):
        latency.goodput_panel(**{"per_s": 4, "ttft_ms": 300, "tpot_ms": 25} | change)
