"""What a reader of service/tail_latency might assume instead, what is impossible, and what must stay true."""

from __future__ import annotations

import re

from chapters import Run
from hypothesis import strategies as st

from calc import tail

from . import Altered

NAMES = sorted({case.name for case in tail.cases()})
SLOWED = [name for name in NAMES if name not in {"nothing injected", "adapter loading"}]


@st.composite
def investigations(draw: st.DrawFn) -> dict[str, object]:
    """Any limit that leaves slow requests in the case that is worked by hand, and clocks that somebody set."""
    slow_ms = draw(st.one_of(st.integers(45, 550), st.floats(45, 550)))
    offsets = st.one_of(st.integers(-2000, 2000), st.floats(-2000, 2000), st.just(0))
    drifts = st.one_of(st.integers(-400, 400), st.floats(-400, 400), st.just(0))
    return {
        "slow_ms": slow_ms,
        "percentile": draw(st.sampled_from([50, 75, 90, 95, 99, 99.9])),
        "confidence_percent": draw(st.sampled_from([80, 90, 95, 99])),
        "fan_out_calls": draw(st.integers(1, 200)),
        "cohort_size": draw(st.integers(3, 40)),
        "worked_case": draw(st.sampled_from(SLOWED if slow_ms > 80 else [*SLOWED, "adapter loading"])),
        "clock_repeat": draw(st.integers(0, 2)),
        "gateway_offset_ms": draw(offsets),
        "gateway_drift_ppm": draw(drifts),
        "engine_offset_ms": draw(offsets),
        "engine_drift_ppm": draw(drifts),
        "drift_wanted_ppm": draw(st.one_of(st.integers(1, 50), st.floats(0.1, 50))),
    }


def slow_ones_by_hand(run: Run) -> None:
    """Counted from the stamps: the share that is slow, and how many of the agent's answers meet one."""
    n = run.namespace
    waits = [t.first_token_s - t.sent_s for case in tail.repeats_of(n["worked_case"]) for t in case.traces]
    share = sum(wait > n["slow_ms"] / 1000 for wait in waits) / len(waits)
    met = 1 - (1 - round(share, 4)) ** n["fan_out_calls"]
    assert abs(n["met"] - met) < 1e-9
    said = re.search(r"([\d.]+)% of the requests are slow, and ([\d.]+)% of the answers", run.prose)
    assert abs(float(said[1]) - 100 * share) <= 0.06 * 100 * share
    assert abs(float(said[2]) - 100 * met) <= 0.01 * 100 * met


def the_clock_is_found(run: Run) -> None:
    """The made-up errors lie within the bounds, in every repeat, and the text says so."""
    n = run.namespace
    ahead, gains = n["gateway_offset_ms"] / 1e3, n["gateway_drift_ppm"] / 1e6
    for trace in n["case"].traces:
        assert n["fit"].own(trace.received_s * (1 + gains) + ahead).holds(trace.received_s)
    assert run.prose.count("3 of 3") >= 2


def segments_add_up(run: Run) -> None:
    """The worked request's segments are its time to first token, and what it has more is the sum of the rest."""
    n = run.namespace
    slow, traced = n["slow"], n["traced"]
    assert abs(sum(slow.segments.values()) - (slow.first_token_s - slow.sent_s)) < 1e-9
    assert abs(traced.total_s - sum(traced.excess.values())) < 1e-12
    assert slow.ttft_s > n["slow_ms"] / 1000
    assert n["dark"] >= 0


def marks_of_the_reader(run: Run) -> None:
    """With limits between the noise and the injected delays the most frequent finding is what was injected."""
    n = run.namespace
    if 130 < n["slow_ms"] < 550:
        assert n["named"] == n["right"] == 5  # adapters load faster than that
        assert "No request of these runs is slower" in run.prose or "so there is nothing to mark" in run.prose


def a_drift_takes_its_time(run: Run) -> None:
    """Ends that far apart, each known as well as here, tell the drift as well as wanted."""
    n = run.namespace
    assert abs(2 * n["ends"] / n["long_enough"] - n["drift_wanted_ppm"] * 1e-6) < 1e-15
    assert abs(n["drift"] * n["run_s"] - 2 * n["ends"]) < 0.01 * n["ends"]


ALTERED = Altered(
    sensible=investigations(),
    impossible=(
        {"slow_ms": 0},
        {"slow_ms": -70},
        {"slow_ms": float("nan")},
        {"slow_ms": 5000},
        {"slow_ms": 1},
        {"worked_case": "adapter loading", "slow_ms": 300},
        {"worked_case": "a full moon"},
        {"percentile": 0},
        {"percentile": 100},
        {"confidence_percent": 0},
        {"confidence_percent": 100},
        {"fan_out_calls": 0},
        {"fan_out_calls": 2.5},
        {"cohort_size": 0},
        {"cohort_size": 2},
        {"cohort_size": 4.5},
        {"clock_repeat": 3},
        {"clock_repeat": -1},
        {"gateway_offset_ms": 5000},
        {"engine_offset_ms": float("inf")},
        {"gateway_drift_ppm": 100_000},
        {"engine_drift_ppm": float("nan")},
        {"drift_wanted_ppm": 0},
    ),
    claims=(slow_ones_by_hand, the_clock_is_found, a_drift_takes_its_time, segments_add_up, marks_of_the_reader),
)
