"""Drawings of the chapter on slow tails."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from calc.figures import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, Picture, boxes, canvas, picture
from calc.tail import SEGMENTS, Case, ClockFit, Trace
from calc.units import counted, format_seconds

COLORS = {
    "send": GREY,
    "gateway": ORANGE,
    "unclocked": PURPLE,
    "queue": INK,
    "prefill": BLUE,
    "deliver": GREEN,
}
SHORT = {
    "send": "way in",
    "gateway": "gateway",
    "unclocked": "no clock",
    "queue": "queue",
    "prefill": "prefill",
    "deliver": "way back",
}


def clock_bounds(
    *,
    out: Sequence[tuple[float, float]],
    back: Sequence[tuple[float, float]],
    fit: ClockFit,
    true: tuple[float, float],
) -> Picture:
    """The lines between two clouds: messages out bound an offset from above, messages back from below.

    Parameters
    ----------
    out, back : sequence of (float, float)
        As `calc.tail.align` takes them.
    fit : ClockFit
        What it found.
    true : (float, float)
        Offset at the reading 0 and drift of the true clock.
    """
    figure, (axes,) = canvas(2.9)
    above = [(other, 1000 * (other - own)) for own, other in out]
    below = [(other, 1000 * (other - own)) for other, own in back]
    start, end = min(x for x, _ in (*above, *below)), max(x for x, _ in (*above, *below))
    grid = [start + (end - start) * i / 60 for i in range(61)]
    lows, highs = ([1000 * getattr(fit.offset(x), side) for x in grid] for side in ("low", "high"))
    room = max(1.2, 2.0 * (max(highs) - min(lows)))
    bottom, top = min(lows) - room, max(highs) + room
    axes.plot(*zip(*[p for p in above if bottom < p[1] < top], strict=True), "v", color=BLUE, ms=2.8)
    axes.plot(*zip(*[p for p in below if bottom < p[1] < top], strict=True), "^", color=ORANGE, ms=2.8)
    axes.fill_between(grid, lows, highs, color=GREY, alpha=0.35, lw=0)
    axes.plot(grid, [1000 * (true[0] + true[1] * x) for x in grid], color=INK, lw=1.1, ls=(0, (4, 2)))
    axes.set(xlim=(start, end), ylim=(bottom, top))
    axes.set(xlabel="s, on the gateway's clock", ylabel="gateway ahead, ms")
    style = {"transform": axes.transAxes, "weight": "bold"}
    axes.text(0.99, 0.985, "messages out: at most this far ahead", color=BLUE, ha="right", va="top", **style)
    axes.text(0.99, 0.015, "messages back: at least this far", color=ORANGE, ha="right", va="bottom", **style)
    middle = fit.offset(fit.middle_s)
    least, most = (format_seconds(round(value, 6)) for value in (middle.low, middle.high))
    alt = (
        f"Two clouds of points over {format_seconds(end - start)}, one above the other. Straight lines that pass "
        f"between them give offsets from {least} to {most} in the middle of the run. The true line is among them."
    )
    caption = (
        "Every message bounds the other clock. Gray: all offsets that straight lines between the clouds can have; "
        "dashed: the true one. Slower messages lie outside of the drawing. Measured stamps, an assumed clock error."
    )
    return picture(figure, alt=alt, caption=caption)


def where_time_went(*, rows: Sequence[tuple[str, dict[str, float]]], caption: str) -> Picture:
    """One bar for each row, its segments side by side.

    Parameters
    ----------
    rows : sequence of (str, dict)
        Name, and seconds by key of `calc.tail.SEGMENTS`.
    caption : str
        What was recorded.
    """
    figure, (axes,) = canvas(0.75 + 0.33 * len(rows))
    longest = max(sum(segments.values()) for _, segments in rows)
    told = []
    for row, (name, segments) in enumerate(rows):
        left = 0.0
        for key in SEGMENTS:
            boxes(axes, [(1000 * left, -row - 0.3, 1000 * segments[key], 0.6)], fc=COLORS[key], ec="none")
            left += segments[key]
        axes.text(-0.012 * 1000 * longest, -row, name, ha="right", va="center")
        axes.text(1000 * left + 8e-3 * 1000 * longest, -row, format_seconds(round(left, 3)), va="center")
        most = max(segments, key=segments.__getitem__)
        told.append(f"{name}: {format_seconds(round(left, 3))}, most of it {SEGMENTS[most]}")
    shown = [key for key in SEGMENTS if any(segments[key] > 0.02 * longest for _, segments in rows)]
    for place, key in enumerate(shown):
        axes.text(place / max(len(shown), 1), 1.0, SHORT[key], color=COLORS[key], weight="bold", **_top(axes))
    axes.set(xlim=(0, 1190 * longest), ylim=(-len(rows) + 0.45, 0.55), yticks=[], xlabel="time to first token, ms")
    axes.spines["left"].set_visible(False)
    return picture(figure, alt="Mean segments of the time to first token. " + "; ".join(told) + ".", caption=caption)


def _top(axes: Axes) -> dict[str, object]:
    return {"transform": axes.transAxes, "ha": "left", "va": "bottom"}


def waits_and_steps(*, shown: Sequence[tuple[str, Case, Sequence[Trace]]], caption: str) -> Picture:
    """Slow requests on their way to the engine, and below them what the engine was doing.

    Parameters
    ----------
    shown : sequence of (str, Case, sequence of Trace)
        For each drawing a title, the run, and some of its slow requests; at most two.
    caption : str
        What was recorded.
    """
    figure, all_axes = canvas(2.6, columns=len(shown))
    told = []
    for axes, (title, case, slow) in zip(all_axes, shown, strict=True):
        waiting = sorted(slow, key=lambda t: t.forwarded_s)
        start = min(t.forwarded_s for t in waiting) - 0.08
        end = max(t.first_byte_s for t in waiting) + 0.08
        for row, trace in enumerate(waiting):
            y = len(waiting) - row
            axes.plot([trace.forwarded_s - start, trace.reached_s() - start], [y, y], color=PURPLE, lw=2.2)
            axes.plot([trace.reached_s() - start, trace.first_byte_s - start], [y, y], color=BLUE, lw=2.2)
        near = [s for s in case.steps if s.at_s > start and s.at_s - s.elapsed_s < end]
        corners = [(s.at_s - s.elapsed_s - start, -0.35, s.elapsed_s, 0.7) for s in near]
        boxes(axes, corners, fc=GREY, ec=INK, lw=0.5)
        axes.set(xlim=(0, end - start), ylim=(-1.5, len(waiting) + 1.0), yticks=[], xlabel="s")
        axes.set_title(title, loc="left", fontsize=8.5, weight="bold")
        axes.text(0, -1.2, "engine's steps", va="center")
        axes.spines["left"].set_visible(False)
        longest = max((s.elapsed_s for s in near), default=0.0)
        told.append(
            f"{title}: {counted(len(waiting), 'slow request')} {'waits' if len(waiting) == 1 else 'wait'}; the longest "
            f"step meanwhile takes {format_seconds(round(longest, 4))}"
        )
    all_axes[0].text(0.0, len(shown[0][2]) + 0.72, "no clock", color=PURPLE, va="center", weight="bold")
    right = all_axes[0].get_xlim()[1]
    all_axes[0].text(right, len(shown[0][2]) + 0.72, "prefill", color=BLUE, ha="right", va="center", weight="bold")
    return picture(figure, alt="; ".join(told) + ".", caption=caption)
