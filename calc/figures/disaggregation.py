"""Drawings of the chapter on split and combined pools."""

from __future__ import annotations

from collections.abc import Sequence

from calc.figures import BLUE, GREY, INK, ORANGE, Picture, boxes, canvas, picture
from calc.units import format_count, format_percent, format_seconds, significant

PALE = "#c9c9c9"
SPACE = 0.06  # of a picture's height: how far apart two labels must stand


def handoff_ways(*, ways: Sequence[tuple[str, float, float, float, float]], wire_s: float) -> Picture:
    """From the start of a prompt's computation until its cache is in place, one bar for each way of moving it.

    Parameters
    ----------
    ways : sequence of (str, float, float, float, float)
        Name, seconds of the prompt, of the part that is still moved after it, of the part that was moved beside it,
        and of control.
    wire_s : float
        What the bytes alone need on the wire, for the caption.
    """
    figure, (axes,) = canvas(0.7 + 0.5 * len(ways))
    far = max(prompt + after + control for _, prompt, after, _, control in ways)
    for row, (name, prompt, after, beside, control) in enumerate(ways):
        y = len(ways) - row - 1
        boxes(axes, [(0, y + 0.12, 1000 * prompt, 0.34)], fc=BLUE, ec="none")
        if beside > 0:
            start = 1000 * max(prompt - beside, 0)
            boxes(axes, [(start, y + 0.0, 1000 * prompt - start, 0.1)], fc=ORANGE, ec="none")
        boxes(axes, [(1000 * prompt, y + 0.12, 1000 * after, 0.34)], fc=ORANGE, ec="none")
        boxes(axes, [(1000 * (prompt + after), y + 0.12, 1000 * control, 0.34)], fc=GREY, ec="none")
        total = format_seconds(prompt + after + control, 3)
        axes.text(1000 * (prompt + after + control) + 12 * far, y + 0.29, total, va="center", weight="bold")
        axes.text(0, y + 0.5, name, va="bottom")
    for place, (name, color) in enumerate((("prompt", BLUE), ("transfer", ORANGE), ("control", GREY))):
        axes.text(0.18 * place, 1.02, name, color=color, transform=axes.transAxes, weight="bold", va="bottom")
    axes.set(xlim=(0, 1180 * far), ylim=(-0.05, len(ways) - 0.15), xlabel="from the start of the prompt, ms")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    told = "; ".join(f"{name}: {format_seconds(p + a + c, 3)}" for name, p, a, _, c in ways)
    return picture(
        figure,
        alt=f"Time until a prompt's cache is on the decode worker. {told}.",
        caption=f"The bytes alone need {format_seconds(wire_s, 3)} on the wire. Derived from the "
        "assumptions.",
    )


def two_servers(
    *, panels: Sequence[tuple[str, Sequence[float], Sequence[float], Sequence[float], float | None]]
) -> Picture:
    """Mean wait of two servers apart and with one line over how busy they are, for two mixes of jobs.

    Parameters
    ----------
    panels : sequence of (str, sequence, sequence, sequence, float or None)
        Title, busy shares, waits apart and waits pooled in multiples of a job's own time, and the crossing.
    """
    figure, axes = canvas(2.5, columns=len(panels), sharey=True)
    told = []
    for place, (axis, (title, loads, apart, pooled, crossing)) in enumerate(zip(axes, panels, strict=True)):
        percent = [100 * load for load in loads]
        axis.plot(percent, apart, color=ORANGE)
        axis.plot(percent, pooled, color=BLUE)
        if crossing is not None:
            axis.axvline(100 * crossing, ymax=0.78, color=GREY, lw=0.9, ls=(0, (4, 3)))
            left = crossing > 0.5
            axis.text(100 * crossing + (-2 if left else 2), 0.011, format_percent(crossing, 2), va="bottom",
                      ha="right" if left else "left")  # fmt: skip
        axis.set_title(title, fontsize=8.5, loc="left")
        axis.set(yscale="log", ylim=(0.01, 30), xlim=(0, 100), xlabel="busy, %")
        if not place:
            axis.set_ylabel("wait, in a job's own times")
        axis.minorticks_off()
        axis.text(0.04, 0.97, "a server for each kind", color=ORANGE, weight="bold", va="top", transform=axis.transAxes)
        axis.text(0.04, 0.88, "one line for both", color=BLUE, weight="bold", va="top", transform=axis.transAxes)
        less = "never waits less" if crossing is None else f"waits less from {format_percent(crossing, 2)} on"
        told.append(f"{title}: a server for each kind {less}")
    axes[0].set_yticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    axes[0].minorticks_off()
    return picture(
        figure,
        alt=f"Mean wait over load on a logarithmic scale. {'; '.join(told)}.",
        caption="Two servers and two kinds of jobs that bring the same work, solved exactly. Above each: a long job "
        "over a short one.",
    )


def qualified(
    *,
    loads: Sequence[float],
    lines: dict[str, Sequence[float]],
    bound: Sequence[float],
    crossing: float | None,
    between: tuple[float, float] | None = None,
) -> Picture:
    """Qualified requests per GPU-hour over the load.

    Parameters
    ----------
    loads : sequence of float
        Requests per second.
    lines : dict
        Tuned pool, split and pool with whole prompts, in this order: name to requests per GPU-hour.
    bound : sequence of float
        What it would be if every request qualified.
    crossing : float or None
        The load where split and tuned pool are level.
    between : tuple of float, optional
        The loads between which it lies with the stated confidence.
    """
    figure, (axes,) = canvas(2.9)
    axes.plot(loads, bound, color=PALE, lw=1, ls=(0, (2, 2)))
    styles = zip(lines.items(), (BLUE, ORANGE, GREY), ("o", "s", "^"), strict=False)
    for (name, values), color, marker in styles:
        axes.plot(loads, values, color=color, marker=marker, ms=3.5, label=name)
    top = 1.08 * max(bound)
    if crossing is not None:
        if between is not None:
            axes.axvspan(*between, ymax=0.58, color=PALE, alpha=0.35, lw=0)
        axes.axvline(crossing, ymax=0.58, color=GREY, lw=0.9, ls=(0, (4, 3)))
        left = crossing > (min(loads) + max(loads)) / 2  # where the text has room
        edge = crossing if between is None else between[0 if left else 1]
        place = edge + (-0.01 if left else 0.01) * max(loads)
        axes.text(
            place, 0.015 * top, f"level at {significant(crossing, 3)}/s", ha="right" if left else "left", color=INK
        )
    names = [*zip(lines, (BLUE, ORANGE, GREY), strict=False), ("if every request qualified", GREY)]
    for line, (name, color) in enumerate(names):
        weight = "bold" if line < len(lines) else "normal"
        axes.text(0.02, 0.97 - 0.085 * line, name, color=color, weight=weight, va="top", transform=axes.transAxes)
    axes.set(xlabel="requests per second", ylabel="qualified per GPU-hour", ylim=(0, top))
    axes.set_xlim(min(loads) - 0.04 * max(loads), 1.04 * max(loads))
    ends = "; ".join(
        f"{name}: {format_count(round(v[0]))} to {format_count(round(v[-1]))}" for name, v in lines.items()
    )
    level = (
        "They are never level" if crossing is None else f"Split and tuned pool are level at {significant(crossing, 3)}"
    )
    if crossing is not None and between is not None:
        level += f" ({significant(between[0], 3)} to {significant(between[1], 3)})"
    return picture(
        figure,
        alt=f"Qualified requests per GPU-hour at {significant(loads[0])} to {significant(loads[-1])} a second. "
        f"{ends}. {level}.",
        caption="Simulated with real lengths on the same GPUs, budget and ratio searched at each load. "
        + ("Shaded: where the two are level, with 95% confidence. " if crossing is not None and between else "")
        + "Derived from the assumptions.",
    )
