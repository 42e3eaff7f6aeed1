"""Drawings of the chapter on latency and goodput."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from calc.figures import BLUE, GREEN, GREY, INK, ORANGE, Picture, boxes, canvas, dots, picture
from calc.latency import Objectives, RatePoint, Timeline, request_latency, stalls
from calc.units import counted, format_count, format_seconds, significant
from calc.workload import Spread

ARROW = {"arrowstyle": "->", "color": INK, "lw": 0.8, "shrinkA": 0, "shrinkB": 0}
SPAN = {"arrowstyle": "<->", "lw": 1.2, "shrinkA": 0, "shrinkB": 0}


def _lines(axes: Axes, x: float, y: float, text: str, first: float = 0.0, **style: object) -> None:
    """Write lines one by one: the page's font is not the one their common width was measured in."""
    for place, line in enumerate(text.split("\n")):
        axes.annotate(line, (x, y), (0, first - 11 * place), textcoords="offset points", va="center", **style)


def verdict(timeline: Timeline, limits: Objectives) -> str:
    """What a reader of the picture is told about one request."""
    if timeline.status != "ok":
        return timeline.status
    seen = request_latency(timeline)
    late = limits.ttft_s is not None and seen.ttft_s > limits.ttft_s
    slow = limits.tpot_s is not None and (seen.tpot_s or 0.0) > limits.tpot_s
    return "late and slow" if late and slow else "late" if late else "slow" if slow else "good"


def token_arrivals(*, timelines: Sequence[Timeline], limits: Objectives, stall_s: float) -> Picture:
    """Requests one below the other: sent, waiting, and each message that brought tokens.

    Parameters
    ----------
    timelines : sequence of Timeline
        With an end.
    limits : Objectives
        On the first token and the pace.
    stall_s : float
        Pauses longer than this are drawn thick.
    """
    figure, (axes,) = canvas(0.55 + 0.34 * len(timelines))
    start, end = min(t.sent_s for t in timelines), max(t.end_s for t in timelines)
    span = end - start
    told = []
    for row, timeline in enumerate(timelines):
        y, word = -row, verdict(timeline, limits)
        color = GREEN if word == "good" else ORANGE
        times = [chunk.time_s for chunk in timeline.token_chunks]
        axes.plot([timeline.sent_s] * 2, [y - 0.28, y + 0.28], color=INK, lw=1.2)
        first = times[0] if times else timeline.end_s
        axes.plot([timeline.sent_s, first], [y, y], color=GREY, lw=1.4)
        if times:
            axes.plot([times[0], times[-1]], [y, y], color=BLUE, lw=0.7)
            axes.plot(times, [y] * len(times), "o", color=BLUE, ms=3.4)
            for stall in stalls(timeline, longer_than_s=stall_s):
                axes.plot([stall.at_s, stall.at_s + stall.gap_s], [y, y], color=ORANGE, lw=3, solid_capstyle="butt")
        if timeline.status != "ok":
            axes.plot([timeline.end_s], [y], "x", color=ORANGE, ms=6, mew=1.6)
        axes.text(start - 0.03 * span, y, timeline.id, ha="right", va="center", weight="bold")
        axes.text(end + 0.03 * span, y, word, color=color, va="center")
        told.append(f"{timeline.id}: {counted(len(times), 'message')}, {word}")
    axes.set(xlim=(start - 0.1 * span, end + 0.25 * span), ylim=(-len(timelines) + 0.4, 0.6), yticks=[])
    axes.set_xticks([tick for tick in axes.get_xticks() if start <= tick <= end])
    axes.xaxis.set_major_formatter(lambda value, _: significant(1000 * value, 4))
    axes.set_xlabel("ms", loc="left")
    axes.spines["left"].set_visible(False)
    caption = (
        "A bar where a request was sent, gray while it waits, a dot for each message that brought tokens. Thick: a "
        f"pause of more than {format_seconds(stall_s)}. Assumed times."
    )
    return picture(figure, alt=f"Requests as the client saw them. {'; '.join(told)}.", caption=caption)


def _two_lines(spread: Spread) -> str:
    """A median, and the range below it."""
    return spread.seconds().replace(" (", "\n(")


def boundaries(*, client: Spread, gateway: Spread, engine: Spread, queue: Spread) -> Picture:
    """Where four clocks start and stop on the way to the first token; not to scale.

    Parameters
    ----------
    client, gateway, engine, queue : Spread
        What each clock showed, seconds.
    """
    figure, (axes,) = canvas(3.5)
    places = {"client": 0.0, "gateway": 1.15, "queue": 2.3, "engine": 3.65}
    for name, x in places.items():
        axes.plot([x, x], [0, 10], color=GREY, lw=0.8)
        axes.text(x, 10.35, name, ha="center", weight="bold")
    out = [(0.0, 9.4, 1.15, 9.0), (1.15, 8.6, 2.3, 8.2), (2.3, 6.4, 3.65, 6.4)]
    back = [(3.65, 2.4, 1.15, 1.6), (1.15, 1.2, 0.0, 0.8)]
    for x, y, to_x, to_y in (*out, *back):
        axes.annotate("", (to_x, to_y), (x, y), arrowprops=ARROW)
    boxes(axes, [(3.59, 2.4, 0.12, 4.0)], fc=BLUE, ec="none")
    boxes(axes, [(2.24, 6.4, 0.12, 1.8)], fc=ORANGE, ec="none")
    axes.text(3.77, 4.4, "prefill", color=BLUE, va="center", rotation=90)
    spans = [
        (0.1, 9.4, 0.8, f"client:\n{_two_lines(client)}", INK),
        (1.25, 8.6, 1.6, f"gateway:\n{_two_lines(gateway)}", INK),
        (2.45, 8.2, 2.4, f"engine:\n{_two_lines(engine)}", BLUE),
        (2.14, 8.2, 6.4, f"queue:\n{_two_lines(queue)}", ORANGE),
    ]
    for x, top, bottom, text, color in spans:
        axes.annotate("", (x, bottom), (x, top), arrowprops=SPAN | {"color": color})
        left = text.startswith("queue")
        y = (top + bottom) / 2 if left else 4.4
        _lines(axes, x + (-0.06 if left else 0.06), y, text, first=6, color=color, ha="right" if left else "left")
    axes.set(xlim=(-0.25, 4.05), ylim=(-0.1, 11.1))
    axes.set_axis_off()
    alt = (
        "A request goes from the client through a gateway and a queue into the engine, and its first token comes back. "
        f"The client's clock runs from sending to the first token: {client.text(format_seconds)}. The gateway's lies "
        f"inside it: {gateway.text(format_seconds)}. The engine's begins with the queue: "
        f"{engine.text(format_seconds)}; "
        f"the queue takes {queue.text(format_seconds)} of it."
    )
    caption = (
        "Four clocks, one first token. Median requests of recorded runs, range over repeats in brackets; the engine, a "
        "small model on two CPU cores, is nearly idle. Time runs down, not to scale."
    )
    return picture(figure, alt=alt, caption=caption)


def goodput_curve(*, points: Sequence[RatePoint], limits: str) -> Picture:
    """Throughput and goodput against the rate at which requests were due, with the range over repeats.

    Parameters
    ----------
    points : sequence of RatePoint
        By rising rate.
    limits : str
        The limits in words.
    """
    figure, (axes,) = canvas(2.7)
    rates = [point.per_s for point in points]
    for name, color, shift, marker in (("throughput", GREY, -0.03, "s"), ("goodput", BLUE, 0.03, "o")):
        seen = [getattr(point, name) for point in points]
        at = [rate + shift for rate in rates]
        axes.plot(at, [spread.median for spread in seen], color=color, marker=marker, ms=4)
        axes.vlines(at, [spread.low for spread in seen], [spread.high for spread in seen], color=color, lw=1.2)
    top = 1.18 * max(point.throughput.high for point in points)
    axes.set(xlabel="requests due each second", ylabel="requests a second", ylim=(0, top), xlim=(0, 1.05 * rates[-1]))
    axes.set_xticks(rates, [significant(rate) for rate in rates])
    last, best = points[-1], max(points, key=lambda point: point.goodput.median)
    axes.text(rates[-1] - 0.15, last.throughput.median + 0.02 * top, "answered", color=INK, ha="right", va="bottom")
    below = last.goodput.median < 0.5 * top
    place = (rates[-1] - 0.07 * rates[-1], last.goodput.median) if below else (rates[0], 0.88 * top)
    axes.text(*place, "both limits kept", color=BLUE, ha="right" if below else "left", va="center")
    told = "; ".join(
        f"{significant(point.per_s)} due, {significant(point.throughput.median, 3)} answered, "
        f"{significant(point.goodput.median, 3)} good"
        for point in points
    )
    alt = (
        f"Requests a second, medians of {format_count(last.goodput.repeats)} repeats: {told}. Goodput is highest with "
        f"{significant(best.per_s)} due each second."
    )
    caption = (
        f"Requests that were answered, and those that kept {limits}. Dots are medians, bars the range over repeats."
    )
    return picture(figure, alt=alt, caption=caption)


def two_starts(*, due_s: Sequence[float], from_sent_s: Sequence[float], from_due_s: Sequence[float]) -> Picture:
    """The latency of each request by two clocks: from when it was sent, and from when it was due.

    Parameters
    ----------
    due_s, from_sent_s, from_due_s : sequence of float
        When each request was due, and its latency by each clock, seconds.
    """
    figure, (axes,) = canvas(2.4)
    dots(axes, due_s, from_due_s, size=4, color=ORANGE)
    dots(axes, due_s, from_sent_s, size=3.4, color=BLUE)
    top = max(from_due_s)
    high = max(range(len(due_s)), key=lambda i: from_due_s[i])
    right = due_s[high] < 0.6 * due_s[-1]
    axes.annotate(
        "from when it was due", (due_s[high], top), (8 if right else -8, 0), textcoords="offset points", color=ORANGE,
        va="center", ha="left" if right else "right",
    )  # fmt: skip
    axes.annotate(
        "from when it was sent",
        (due_s[-1], from_sent_s[-1]),
        (0, 8),
        textcoords="offset points",
        color=BLUE,
        ha="right",
    )
    axes.set(xlabel="due at, s", ylabel="latency, s", ylim=(-0.04 * top, 1.12 * top))
    slow = sum(a > 2 * min(from_due_s) for a in from_due_s)
    seen = sum(a > 2 * min(from_due_s) for a in from_sent_s)
    alt = (
        f"The latency of {counted(len(due_s), 'request')}. Counted from when they were sent, {format_count(seen)} of "
        f"them {'takes' if seen == 1 else 'take'} more than twice as long as the fastest; counted from when they were "
        f"due, {format_count(slow)} {'does' if slow == 1 else 'do'}, up to {format_seconds(top)}."
    )
    caption = "One server that stands still once, one client that waits for each answer, two clocks. Simulated."
    return picture(figure, alt=alt, caption=caption)
