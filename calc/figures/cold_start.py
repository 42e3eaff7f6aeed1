"""Drawings of the cold-start chapter."""

from __future__ import annotations

from collections.abc import Mapping

from calc.figures import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, Picture, boxes, canvas, picture
from calc.startup import Schedule
from calc.units import format_seconds, significant
from calc.workload import Spread

PALE = "#c9c9c9"
PART_COLORS = (GREY, PURPLE, GREEN, ORANGE, PALE, BLUE)
ROOM = 0.05  # of the width: the narrowest piece that its own label fits in
SEEN = 0.002  # of the width: the narrowest piece that is seen at all
TEXT = 0.015  # of the width: a letter, written small


def gantt(*, found: Schedule, order: str, limit_s: float | None = None) -> Picture:
    """A start in time: one bar for each phase, its slack behind it, the critical path in another color.

    Parameters
    ----------
    found : Schedule
    order : str
        What the phases wait for, in a few words, for the caption.
    limit_s : float or None
        A goal to mark.
    """
    shown = [timed for timed in found.phases if timed.seconds > 1e-6 * found.total_s]
    figure, (axes,) = canvas(0.75 + 0.26 * max(len(shown), 2))
    width = found.total_s * 1.16
    for row, timed in enumerate(shown):
        y = len(shown) - row - 0.8
        boxes(
            axes, [(timed.start_s, y, timed.seconds, 0.6)], fc=ORANGE if timed.name in found.path else BLUE, ec="none"
        )
        said = format_seconds(timed.seconds, 3)
        x, above = timed.end_s + 0.012 * width, 0.3
        if timed.slack_s > 0:
            boxes(axes, [(timed.end_s, y + 0.16, timed.slack_s, 0.16)], fc=PALE, ec="none")
            end = timed.end_s + timed.slack_s
            late = f"slack {format_seconds(timed.slack_s, 3)}"
            axes.text(end + 0.012 * width, y + 0.24, late, va="center", fontsize=7.5)
            above = 0.62
        if limit_s is not None and x - 0.012 * width < limit_s < x + TEXT * len(said) * width:
            x = limit_s + 0.012 * width  # clear of the line
        axes.text(x, y + above, said, va="center", fontsize=7.5)
    if limit_s is not None and limit_s < width:
        axes.plot([limit_s, limit_s], [0, len(shown)], color=INK, lw=0.8, ls=(0, (4, 3)))
        axes.text(limit_s, len(shown) + 0.06, format_seconds(limit_s), ha="center", va="bottom", fontsize=7.5)
    axes.set_yticks([len(shown) - row - 0.5 for row in range(len(shown))], [timed.name for timed in shown])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set(xlim=(0, width), ylim=(0, len(shown) + 0.6), xlabel="seconds from the start")
    slack = [f"{t.name} {format_seconds(t.slack_s)}" for t in shown if t.slack_s > 0]
    path = ", ".join(name for name in found.path if found[name].seconds > 0)
    alt = f"Phases of a start of {format_seconds(found.total_s)} as bars in time. The critical path is {path}. " + (
        f"Slack: {', '.join(slack)}." if slack else "No phase has slack."
    )
    return picture(
        figure,
        alt=alt,
        caption=f"The start with {order}. Orange: the critical path. Blue: other phases, with their slack in gray. "
        "Derived from the assumptions.",
    )


def stacked_parts(*, states: Mapping[str, Mapping[str, Spread]], source: str) -> Picture:
    """Recorded starts as bars of their parts, the median of each over the repeats, and the range of the whole.

    Parameters
    ----------
    states : mapping
        State → part → its spread over the repeats, with the "total".
    source : str
        Where they were recorded, for the caption.
    """
    parts = [part for part in next(iter(states.values())) if part != "total"]
    colors = {part: PART_COLORS[i % len(PART_COLORS)] for i, part in enumerate(parts)}
    figure, (axes,) = canvas(0.95 + 0.62 * len(states))
    width = 1.02 * max(spreads["total"].high for spreads in states.values())
    said = []
    for row, (state, spreads) in enumerate(states.items()):
        y, left = 1.5 * (len(states) - 1 - row), 0.0
        for part in parts:
            seconds = spreads[part].median
            boxes(axes, [(left, y, seconds, 0.62)], fc=colors[part], ec="none")
            if seconds > ROOM * width:
                inside = "#ffffff" if colors[part] not in (PALE, GREY) else "#000001"
                axes.text(left + seconds / 2, y + 0.3, significant(seconds, 2), ha="center", va="center", color=inside)
            elif seconds > SEEN * width:
                axes.text(left + seconds / 2, y + 0.66, significant(seconds, 2), ha="center", va="bottom", fontsize=7.5)
            left += seconds
        total = spreads["total"]
        axes.plot([total.low, total.high], [y + 0.75, y + 0.75], color=INK, lw=1, marker="|", ms=4)
        axes.text(0, y + 0.72, f"{state}: {significant(total.median, 3)} s", va="bottom", fontsize=8)
        inner = ", ".join(f"{part} {significant(spreads[part].median, 2)} s" for part in parts)
        said.append(f"{state}: {significant(total.median, 3)} s, of it {inner}")
    handles = [axes.barh(-9, 0, color=colors[part], label=part) for part in parts]
    axes.legend(
        handles=handles, frameon=False, fontsize=7.5, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.3),
        handlelength=1, columnspacing=1.2,
    )  # fmt: skip
    axes.set(
        xlim=(0, width), ylim=(-0.15, 1.5 * len(states) - 0.15), xlabel="seconds from spawn to first token, medians"
    )
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    repeats = min(spreads["total"].repeats for spreads in states.values())
    return picture(
        figure,
        alt="Recorded starts, part by part. " + ". ".join(said) + ".",
        caption=f"Where a recorded start went: medians of {repeats} repeats; the line above each bar is the range of "
        f"the whole. {source}",
    )
