"""Drawings of the chapter on continuous batching."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from matplotlib.axes import Axes

from calc.figures import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, Picture, boxes, canvas, picture
from calc.units import counted, format_count, format_seconds, significant

COLORS = (BLUE, ORANGE, GREEN, PURPLE)
NARROW = 0.045  # of the width: too narrow for a name
SHOWN_PLACES, SHOWN_WAITING = 8, 3


def two_timelines(
    *, schedules: dict[str, tuple[list[tuple[Hashable | None, ...]], list[list[Hashable]]]], names: Sequence[Hashable]
) -> Picture:
    """The same requests under some schedules, place by place and step by step.

    Parameters
    ----------
    schedules : dict
        Name → who has which place in each step, and who waits in each step.
    names : sequence
        The requests, in order; the order decides the color.
    """
    color = {name: COLORS[i % len(COLORS)] for i, name in enumerate(names)}
    longest = max(len(seats) for seats, _ in schedules.values())
    shown = [
        (title, [row[:SHOWN_PLACES] for row in seats], waiting, min(SHOWN_WAITING, max(map(len, waiting))))
        for title, (seats, waiting) in schedules.items()
    ]
    lines = sum(len(seats[0]) + queue + 1.9 for _, seats, _, queue in shown)
    figure, (axes,) = canvas(0.5 + 0.26 * lines)
    top, told = 0.0, []
    for title, seats, waiting, queue in shown:
        steps, places = len(seats), len(seats[0])
        idle = sum(name is None for row in schedules[title][0] for name in row)
        axes.text(0.06, top - 0.25, f"{title}: {counted(steps, 'step')}, {format_count(idle)} idle", va="center")
        bottom = top - 1.2
        for place in range(places):
            y = bottom - place
            holders = [row[place] for row in seats]
            _runs(axes, holders, y, color, longest)
            gaps = [(step + 0.06, y - 0.42, 0.88, 0.84) for step, name in enumerate(holders) if name is None]
            if gaps:
                boxes(axes, gaps, fc="none", ec=GREY, lw=0.7, ls=(0, (2, 2)))
        bottom -= places
        for line in range(queue):
            holders = [row[line] if line < len(row) else None for row in waiting]
            _runs(axes, holders, bottom - line, color, longest, waits=True)
        top = bottom - queue - 0.7
        told.append(
            f"{title}: {counted(steps, 'step')}, {counted(idle, 'idle place')} in all; "
            + "; ".join(f"{name} runs {_span(schedules[title][0], name)}" for name in list(names)[:6])
        )
    axes.set(xlim=(-0.05, longest + 0.05), ylim=(top + 0.2, 0.2))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    every = max(1, -(-longest // 12))
    axes.set_xticks(range(0, longest + 1, every))
    axes.set_xlabel("steps done")
    figures = {title: places for title, places, _, _ in shown}
    hidden = len(next(iter(schedules.values()))[0][0]) - len(next(iter(figures.values()))[0])
    more = f" {counted(hidden, 'more place')} not drawn." if hidden else ""
    return picture(
        figure,
        alt=f"Places over steps. {'. '.join(told)}.",
        caption="Filled: a request in its place, its prompt in the first box. Outlined: it waits. Dashed: an idle "
        f"place.{more} Both from the library's scheduler.",
    )


def _runs(
    axes: Axes, holders: list[Hashable | None], y: float, color: dict[Hashable, str], longest: int, waits: bool = False
) -> None:
    """One row of boxes, with a name over each run of the same request."""
    for name in dict.fromkeys(name for name in holders if name is not None):
        at = [step for step, holder in enumerate(holders) if holder == name]
        cells = [(step + 0.06, y - 0.42, 0.88, 0.84) for step in at]
        if waits:  # from its arrival on, in one piece
            boxes(axes, [(at[0] + 0.06, y - 0.42, len(at) - 0.12, 0.84)], fc="none", ec=color[name], lw=1.0)
        else:
            boxes(axes, cells[:1], fc=color[name], ec=INK, lw=1.0)
            if cells[1:]:
                boxes(axes, cells[1:], fc=color[name], ec="none", alpha=0.75)
        text = f"{name} waits" if waits else str(name)
        if len(at) >= NARROW * longest * (3 if waits else 1):
            middle = (at[0] + at[-1] + 1) / 2 if waits else at[len(at) // 2] + 0.5
            axes.text(middle, y, text, ha="center", va="center", color=INK if waits else "#ffffff", fontsize=7.5)


def _span(seats: list[tuple[Hashable | None, ...]], name: Hashable) -> str:
    at = [step for step, row in enumerate(seats) if name in row]
    return f"from step {at[0] + 1} to {at[-1] + 1}" if at else "never"


def gain_by_places(
    *,
    places: list[int],
    curves: dict[str, list[float]],
    drawn: list[tuple[int, float]],
    bound: list[float],
) -> Picture:
    """How many times the steps of continuous batching static batches take, by places.

    Parameters
    ----------
    places : list of int
        Places, rising.
    curves : dict
        Name → expected gain for each, at most three.
    drawn : list of (places, gain)
        Gains of random workloads.
    bound : list of float
        What none exceeds.
    """
    figure, (axes,) = canvas(2.9)
    axes.plot([p for p, _ in drawn], [gain for _, gain in drawn], "o", color=GREY, ms=2.2, alpha=0.55, mew=0)
    axes.plot(places, bound, color=INK, lw=1.0, ls=(0, (4, 3)))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for (name, gains), color, away in zip(curves.items(), COLORS, (6, -19, 5), strict=False):
        axes.plot(places, gains, color=color, marker="o", ms=3)
        axes.annotate(
            name, (places[-1], gains[-1]), (0, away), textcoords="offset points", color=color,
            ha="right", va="top" if away < 0 else "bottom",
        )  # fmt: skip
    middle = len(places) // 2
    axes.annotate(
        "no workload is above", (places[middle], bound[middle]), (-5, 2), textcoords="offset points", ha="right"
    )
    axes.set_xticks(places, [format_count(p) for p in places])
    top = max(bound)
    ticks = [2**power for power in range(12) if 2**power <= top]
    axes.set_yticks(ticks, [f"{tick}×" for tick in ticks])
    axes.minorticks_off()
    axes.set(xlabel="places in a batch", ylabel="static ÷ continuous, steps", ylim=(0.9, 1.15 * top))
    ends = "; ".join(f"{name}, {significant(gains[-1], 3)}" for name, gains in curves.items())
    most = max(gain for _, gain in drawn)
    return picture(
        figure,
        alt=f"Expected gain against places in a batch. With {counted(places[-1], 'place')}: {ends}. The bound is the "
        f"number of places. {format_count(len(drawn))} random workloads reach {significant(most, 3)} at most.",
        caption="Lines: expected for a long queue. Dots: random workloads, each scheduled both ways. Dashed: the "
        "number of places, which bounds all of them. Derived.",
    )


def wait_by_rate(
    *, rates: list[float], waits: dict[str, list[float]], capacities: dict[str, float], rate: float
) -> Picture:
    """Mean time to the first token against the rate of arrivals.

    Parameters
    ----------
    rates : list of float
        Requests per second, rising.
    waits : dict
        Name → seconds for each rate, two schedules.
    capacities : dict
        The same names → requests per second that each can serve.
    rate : float
        The chapter's own, marked.
    """
    figure, (axes,) = canvas(2.8)
    values = [value for column in waits.values() for value in column if value > 0]
    low, high, widest = min(values) / 2.5, max(values) * 2.5, 1.05 * max(*rates, *capacities.values())
    for (name, column), color, above in zip(waits.items(), (ORANGE, BLUE), (True, False), strict=True):
        axes.plot(rates, column, color=color, marker="o", ms=3)
        axes.annotate(
            name, (rates[0], column[0]), (-2, 11 if above else -5), textcoords="offset points", color=color,
            va="bottom" if above else "top",
        )  # fmt: skip
        axes.axvline(capacities[name], color=color, lw=0.9, ls=(0, (1, 2)))
        axes.text(
            capacities[name], 1.02 if above else 1.11, f"{name} serves {significant(capacities[name], 3)}/s",
            color=color, ha="right" if capacities[name] > 0.7 * widest else "center",
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    marked = "; triangle: this chapter's rate" if rate <= widest else ""
    if marked:
        axes.plot([rate], [low], "^", color=INK, ms=6, clip_on=False, zorder=5)
    axes.set_yscale("log")
    axes.set(
        xlabel="requests per second that arrive",
        ylabel="mean time to first token",
        ylim=(low, high),
        xlim=(0, widest),
    )
    ticks = [10.0**power for power in range(-3, 6) if low <= 10.0**power <= high]
    axes.set_yticks(ticks, [format_seconds(tick) for tick in ticks])
    axes.minorticks_off()
    told = "; ".join(
        f"{name}: {format_seconds(column[0])} at {significant(rates[0], 2)} per second, {format_seconds(column[-1])} "
        f"at {significant(rates[-1], 3)}, capacity {significant(capacities[name], 3)}"
        for name, column in waits.items()
    )
    return picture(
        figure,
        alt=f"Mean time to first token against arrivals per second. {told}. "
        f"This chapter's rate is {significant(rate, 3)}.",
        caption="Mean time to first token. Dotted: what each schedule can serve. Right of its line a schedule falls "
        "behind, and its mean depends on how long the run is. One draw of the "
        f"arrivals{marked}. Simulated by the library.",
    )


def stream_gaps(*, gaps: dict[str, list[float]], at: int, marked: str) -> Picture:
    """Gaps between the tokens of one stream under two schedules.

    Parameters
    ----------
    gaps : dict
        Name → seconds from each token to the next; the second one is marked.
    at : int
        The gap to mark, counted from 1.
    marked : str
        What happens there.
    """
    figure, (axes,) = canvas(2.2)
    shifts = (-0.2, 0.2)
    for (name, values), color, shift in zip(gaps.items(), (ORANGE, BLUE), shifts, strict=True):
        bars = [(i + 1 + shift - 0.18, 0, 0.36, 1000 * value) for i, value in enumerate(values)]
        boxes(axes, bars, fc=color, ec="none")
        axes.plot([], [], "s", color=color, label=name)
    highest = max(max(values) for values in gaps.values())
    *_, values = gaps.values()
    left = at > len(values) / 2
    axes.annotate(
        f"{marked}: {format_seconds(values[at - 1])}",
        (at + shifts[1] + (-0.18 if left else 0.18), 1000 * values[at - 1]),
        (-4 if left else 4, -1),
        textcoords="offset points",
        ha="right" if left else "left",
        va="top",
    )
    axes.legend(frameon=False, fontsize=7.5, loc="center left" if left else "center right", handletextpad=0.2)
    axes.set(xlabel="gap after token number", ylabel="gap, ms", xlim=(0.3, len(values) + 0.7), ylim=(0, 1080 * highest))
    every = max(1, -(-len(values) // 12))
    axes.set_xticks(range(1, len(values) + 1, every))
    told = "; ".join(f"{name} at most {format_seconds(max(values))}" for name, values in gaps.items())
    return picture(
        figure,
        alt=f"Gaps between tokens of one stream as bars. {told}. {marked} at the gap after token {at}.",
        caption="One stream's gaps between tokens. A prompt that joins the batch is computed in a step that the stream "
        "shares. From the library's scheduler, with this chapter's step times.",
    )
