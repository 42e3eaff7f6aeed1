"""What a reader of service/latency_and_goodput might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

import re
from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import latency

from . import Altered

KINDS = ("text", "reasoning", "empty")
ENDED = ("ok", "ok", "ok", "failed", "timeout")


@st.composite
def answers(draw: st.DrawFn, sent: int) -> dict[str, Any]:
    """A whole answer: a first wait, then gaps."""
    gaps = draw(st.lists(st.integers(5, 400), min_size=1, max_size=8))
    times = [sent + draw(st.integers(50, 900))]
    for gap in gaps:
        times.append(times[-1] + gap)
    given: dict[str, Any] = {"sent": sent, "arrivals": times}
    if draw(st.booleans()):
        given["tokens"] = draw(st.lists(st.integers(1, 5), min_size=len(times), max_size=len(times)))
    return given


@st.composite
def attempts(draw: st.DrawFn, sent: int, may_run: bool) -> dict[str, Any]:
    """Any attempt, whole or not."""
    given = draw(answers(sent))
    ended = draw(st.sampled_from((*ENDED, "cancelled", "running") if may_run else ENDED))
    if ended == "ok":
        return given | draw(st.sampled_from(({}, {"warm_up": True})))
    if ended == "running":
        return given | {"ended": ended}
    return given | {"ended": ended, "end": given["arrivals"][-1] + draw(st.integers(0, 500))}


@st.composite
def one_answer(draw: st.DrawFn) -> dict[str, Any]:
    """An answer of a few messages of any kind, at least two of them text."""
    sent = draw(st.integers(0, 2000))
    kinds = ["empty"] * draw(st.integers(0, 1)) + ["reasoning"] * draw(st.integers(0, 2))
    kinds += ["text"] * draw(st.integers(2, 4))
    messages, now = [], sent
    for kind in kinds:
        now += draw(st.integers(1, 700))
        messages.append([now, 0 if kind == "empty" else draw(st.integers(1, 4)), kind])
    late = draw(st.integers(0, sent))
    return {"due": sent - late, "sent": sent, "messages": messages, "end": now + draw(st.integers(0, 90))}


@st.composite
def load_tests(draw: st.DrawFn) -> dict[str, Any]:
    """A log, limits, a window, a server and clients of any sensible kind."""
    names = "ABCDEF"
    six = {name: draw(answers(draw(st.integers(900, 1900)))) for name in names[:2]}
    six |= {name: draw(attempts(draw(st.integers(900, 1900)), may_run=False)) for name in names[2:]}
    for given in six.values():
        given.pop("warm_up", None)
    others = {name: draw(attempts(draw(st.integers(0, 2500)), may_run=True)) for name in "GHI"}
    broken = [name for name in names if six[name].get("ended") == "failed"]
    if broken:
        again = draw(answers(six[broken[0]]["end"] + draw(st.integers(1, 300))))
        others["R"] = again | {"retry_of": broken[0]}
    start = draw(st.integers(0, min(six[name]["sent"] for name in names[:2])))
    rates = sorted({load.per_s for load in latency.loads()})
    served = draw(st.integers(5, 90))
    return {
        "six_requests": six,
        "other_attempts": others,
        "window_ms": [start, draw(st.integers(2000, 4000))],
        "ttft_limit_ms": draw(st.integers(20, 1500)),
        "tpot_limit_ms": draw(st.integers(5, 300)),
        "stall_ms": draw(st.integers(20, 500)),
        "odd_answer": draw(one_answer()),
        "recorded_ttft_limit_ms": draw(st.integers(20, 3000)),
        "recorded_tpot_limit_ms": draw(st.floats(2, 200)),
        "recorded_rate_per_s": draw(st.sampled_from(rates)),
        "percentile": draw(st.sampled_from([50, 75, 90, 95, 99, 99.9])),
        "confidence_percent": draw(st.sampled_from([80, 90, 95, 99])),
        "margin_points": draw(st.floats(0.05, 5)),
        "loop_base_ms": draw(st.integers(5, 60)),
        "loop_prefill_us": draw(st.integers(0, 300)),
        "loop_decode_us": draw(st.integers(0, 2000)),
        "loop_places": draw(st.integers(1, 16)),
        "loop_prompt_tokens": draw(st.integers(1, 2000)),
        "loop_output_tokens": draw(st.integers(1, 32)),
        "loop_requests": draw(st.integers(20, 150)),
        "loop_users": draw(st.integers(1, 24)),
        "overload_percent": draw(st.integers(30, 200)),
        "loop_seed": draw(st.integers(0, 1000)),
        "due_per_s": draw(st.integers(1, 1000 // served - 1)),
        "served_ms": served,
        "frozen_s": draw(st.floats(0.2, 8)),
        "watched_s": draw(st.integers(30, 90)),
    }


def verdicts_by_hand(run: Run) -> None:
    """Good requests, counted from the log's own numbers."""
    n = run.namespace
    good = []
    for name, given in n["six_requests"].items():
        times = given["arrivals"]
        tokens = given.get("tokens", [1] * len(times))
        if given.get("ended", "ok") != "ok":
            continue
        after = sum(tokens[1:])
        pace = (times[-1] - times[0]) / after if after else 0
        wait = times[0] - given["sent"]
        if wait == n["ttft_limit_ms"] or abs(pace - n["tpot_limit_ms"]) < 1e-9:
            return  # on the limit itself the last bit of a float decides
        if wait < n["ttft_limit_ms"] and pace < n["tpot_limit_ms"]:
            good.append(name)
    assert n["good"] == good
    assert f"**{len(good)} of {len(n['six_requests'])} requests** keep both limits" in run.prose


def rules_change_the_count(run: Run) -> None:
    """No rule counts more good requests than it judges, and the book's own row is the one that was worked out."""
    rules = run.namespace["rules"]
    assert all(0 <= kept <= of for kept, of, _ in rules.values())
    book = run.namespace["book"]
    assert rules["The book's rule"] == (book.good, book.completed + book.failed, book.duration_s)
    for name in ("Failures left out", "Timeouts left out"):
        assert rules[name][0] == book.good and rules[name][1] <= rules["The book's rule"][1]
    for name in ("What the run broke off counts as missed", "What was still running counts as missed"):
        assert rules[name][0] == book.good and rules[name][1] >= rules["The book's rule"][1]
    assert rules["A stall misses too"][0] <= book.good


def curve_holds(run: Run) -> None:
    """Goodput never exceeds throughput, and what is said of the peak is where it is."""
    points = run.namespace["points"]
    assert all(point.goodput.high <= point.throughput.high + 1e-12 for point in points)
    best = max(point.goodput.median for point in points)
    if said := re.search(r"Goodput is highest at \*\*([\d.]+)\*\*", run.prose):
        (there,) = [point for point in points if point.per_s == float(said[1])]
        assert there.goodput.median == best > 0


def who_waited(run: Run) -> None:
    """The formula and the simulation agree on how many waited, unless the test ends before the backlog clears."""
    n = run.namespace
    assert n["slow_sent"] <= 2
    if "as far as the test goes on" in run.prose:
        assert n["slow_due"] <= n["delayed"] + 2
    else:
        assert abs(n["slow_due"] - n["delayed"]) <= 0.1 * n["delayed"] + 2


def little_to_the_percent(run: Run) -> None:
    """The gauge over those that decoded, to the percent: two digits would make 110% of 107.5%."""
    n = run.namespace
    ratios = [gauge.median / decoding.median for _, _, decoding, gauge in n["little_rows"]]
    low, high = re.search(r"and ([\d.]+)% to ([\d.]+)% of those that decoded", run.prose).groups()
    assert abs(float(low) - 100 * min(ratios)) <= 0.5 and abs(float(high) - 100 * max(ratios)) <= 0.5


def both_clocks_repeat_by_repeat(run: Run) -> None:
    """In how many repeats the engine's clock finds more good requests than the client's, counted from the recording."""
    n = run.namespace
    said = re.search(r"At ([\d.]+) due the client's clock finds .*? is the higher in (\d) of (\d) repeats", run.prose)
    if said is None:
        return
    ttft, tpot = n["recorded_ttft_limit_ms"] / 1e3, n["recorded_tpot_limit_ms"] / 1e3
    higher = []
    for repeat in n["recorded_at"](float(said[1])):
        client = engine = 0
        for timeline, own in zip(repeat.run.timelines, repeat.engine, strict=True):
            times, rest = [chunk.time_s for chunk in timeline.chunks], timeline.output_tokens - 1
            client += times[0] - timeline.sent_s <= ttft and (times[-1] - times[0]) / max(1, rest) <= tpot
            engine += own["queue"] + own["prefill"] <= ttft and own["decode"] / max(1, rest) <= tpot
        higher.append(engine > client)
    assert (int(said[2]), int(said[3])) == (sum(higher), len(higher))


ALTERED = Altered(
    sensible=load_tests(),
    impossible=(
        {"six_requests": {}},
        {"six_requests": {"A": {"sent": 0, "arrivals": [5, 9], "tokens": [1]}}},
        {"six_requests": {"A": {"sent": 10, "arrivals": [5]}, "B": {"sent": 0, "arrivals": [5]}}},
        {"six_requests": {name: {"sent": 1000, "arrivals": [1100]} for name in "AB"}},
        {"other_attempts": {"G": {"sent": 0, "arrivals": [], "ended": "timeout"}}},
        {"other_attempts": {"R": {"sent": 1750, "arrivals": [1900], "retry_of": "Z"}}},
        {"other_attempts": {"G": {"sent": 0, "arrivals": [1], "ended": "gone"}}},
        {"window_ms": [2000, 1000]},
        {"window_ms": [5000, 6000]},
        {"ttft_limit_ms": 0},
        {"tpot_limit_ms": -50},
        {"stall_ms": -1},
        {"odd_answer": {"due": 0, "sent": 10, "messages": [[5, 1, "text"]], "end": 20}},
        {"odd_answer": {"due": 0, "sent": 0, "messages": [[5, 1, "noise"]], "end": 20}},
        {"recorded_ttft_limit_ms": float("nan")},
        {"recorded_rate_per_s": 5.0},
        {"percentile": 100},
        {"confidence_percent": 100},
        {"margin_points": 0},
        {"loop_base_ms": -1},
        {"loop_places": 0},
        {"loop_users": 0},
        {"loop_output_tokens": 0},
        {"overload_percent": 0},
        {"due_per_s": 20},
        {"served_ms": -1},
        {"frozen_s": float("nan")},
    ),
    claims=(
        verdicts_by_hand,
        rules_change_the_count,
        curve_holds,
        who_waited,
        little_to_the_percent,
        both_clocks_repeat_by_repeat,
    ),
)
