"""The live panel of the chapter on latency and goodput."""

from __future__ import annotations

from calc.latency._formulas import attainment, per_second
from calc.latency._objectives import Objectives
from calc.latency._recorded import goodput_by_rate, loads
from calc.panel import Panel, Row
from calc.units import CalcError, counted, format_percent, plain, significant
from calc.working import working


def goodput_panel(*, per_s: float, ttft_ms: float, tpot_ms: float) -> Panel:
    """Panel of the chapter on latency: recorded requests counted against two limits.

    Parameters
    ----------
    per_s : float
        One of the recorded rates, requests a second.
    ttft_ms, tpot_ms : float
        Limits on time to first token and on time per output token, milliseconds.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If a limit is not above 0 or nothing was recorded at this rate.
    """
    limits = Objectives(
        ttft_s=plain("goodput_panel", "ttft_ms", ttft_ms, ">0") / 1000,
        tpot_s=plain("goodput_panel", "tpot_ms", tpot_ms, ">0") / 1000,
    )
    points = goodput_by_rate(limits)
    here = next((point for point in points if point.per_s == per_s), None)
    if here is None:
        known = ", ".join(significant(point.per_s) for point in points)
        raise CalcError(f"goodput_panel: per_s is {per_s!r}, recorded were {known} requests a second")
    group = [load for load in loads() if load.per_s == per_s]
    requests = sum(load.requests for load in group)
    late = sum(ttft > limits.ttft_s for load in group for ttft in load.ttft_s)
    slow = sum(tpot > limits.tpot_s for load in group for tpot in load.tpot_s)
    good = sum(load.good(limits) for load in group)
    best = max(points, key=lambda point: point.goodput.median)
    middle = sorted(group, key=lambda load: load.good(limits) / load.window_s)[len(group) // 2]
    repeats = counted(len(group), "repeat")
    rows = (
        Row(f"Requests a second, due, in {repeats}", significant(per_s), "assumed"),
        Row("Requests a second, answered", here.throughput.text(_rate), "measured"),
        Row(f"First token too late, of {counted(requests, 'request')}", str(late), "measured"),
        Row("Tokens too slow", str(slow), "measured"),
        Row("Both limits kept", str(good), "measured"),
        Row("Share of requests that keep both", here.attainment.text(format_percent), "measured"),
        Row("Goodput, requests a second", here.goodput.text(_rate), "measured", keep=True),
        Row("Most goodput of all rates, requests a second", best.goodput.text(_rate), "measured"),
    )
    kept = middle.good(limits)
    lines = (
        f"Repeat {middle.repeat + 1}, the one in the middle:",
        working(attainment, good=kept, completed=middle.requests, failed=0).text,
        working(per_second, events=kept, window_s=middle.window_s).text,
    )
    return Panel(rows, lines, _meaning(points, here, best, late, slow), _LEFT_OUT)


def _rate(value: float) -> str:
    return significant(value, 3)


def _meaning(points: tuple, here: object, best: object, late: int, slow: int) -> str:
    if not best.goodput.median:
        return "At no recorded rate does the median repeat hold a request that keeps both limits."
    if late == slow == 0:
        verdict = "Every request keeps both limits here."
    elif late == slow:
        verdict = "Both limits are missed equally often here."
    else:
        verdict = f"The limit on {'the first token' if late > slow else 'the pace'} is missed more often here."
    if best.per_s == here.per_s:
        return f"{verdict} No recorded rate gives more goodput."
    more = f"{significant(best.per_s)} requests a second give the most goodput"
    if here.per_s > best.per_s and here.throughput.median > best.throughput.median:
        return f"{verdict} {more}: beyond that, throughput still rises and goodput doesn't."
    return f"{verdict} {more}."


_LEFT_OUT = (
    "Rates between the recorded ones, other lengths and other arrivals. The engine ran on two CPU cores with a small "
    "model, and the client that took the times shared them. Each repeat is short: the range in brackets, that of three "
    "repeats, says how little one run is worth."
)
