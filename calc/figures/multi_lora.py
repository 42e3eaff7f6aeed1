"""Drawings of the chapter on many adapters."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from matplotlib.axes import Axes

from calc.figures import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, Picture, boxes, canvas, picture
from calc.units import counted, format_bytes, format_count, format_percent, significant

COLORS = (BLUE, ORANGE, GREEN, PURPLE)
DASHED = (0, (4, 3))
ARROW = {"arrowstyle": "->", "color": GREY, "lw": 0.8}


def _lines(axes: Axes, x: float, y: float, text: str, first: float = 0.0, **style: object) -> None:
    """Write lines one by one: the page's font is not the one their common width was measured in.

    `first` is the first line's distance above (x, y) in points; the others follow below it.
    """
    for place, line in enumerate(text.split("\n")):
        axes.annotate(line, (x, y), (0, first - 11 * place), textcoords="offset points", va="center", **style)


def rows_through_base(*, batch: list[int | None], input_dim: int, output_dim: int, rank: int, matrix: str) -> Picture:
    """A batch of token rows: all go through the shared matrix, each also through its own adapter's pair.

    Parameters
    ----------
    batch : list of int or None
        The adapter of each row, counted from 0, at most four different ones; None for a row without.
    input_dim, output_dim, rank : int
        Widths of the matrix and its pairs.
    matrix : str
        Its name.
    """
    figure, (axes,) = canvas(3.2)
    adapters = sorted({adapter for adapter in batch if adapter is not None})
    colors = dict(zip(adapters, COLORS, strict=False)) | {None: GREY}
    pitch = 6 / len(batch)
    rows = [(adapter, 6 - pitch * (place + 0.5)) for place, adapter in enumerate(batch)]
    for adapter, y in rows:
        for x in (0.0, 8.7):
            boxes(axes, [(x, y - 0.32 * pitch, 1.3, 0.64 * pitch)], fc=colors[adapter], ec="none")
    boxes(axes, [(2.9, 2.5, 3.6, 3.5)], fc="none", ec=INK, lw=1.0)
    size = f"{format_count(input_dim)} × {format_count(output_dim)}"
    _lines(axes, 4.7, 4.25, f"base {matrix}\n{size}\nread once for all rows", first=11, ha="center")
    for start, end in ((1.4, 2.85), (6.6, 8.6)):
        axes.annotate("", (end, 4.25), (start, 4.25), arrowprops=ARROW)
    step = 2.0 / max(len(adapters), 1)
    for place, adapter in enumerate(adapters):
        y, color = 1.95 - step * (place + 0.5), colors[adapter]
        boxes(axes, [(3.3, y - 0.18, 1.1, 0.36), (5.0, y - 0.18, 1.1, 0.36)], fc=color, ec="none")
        axes.plot([4.4, 5.0], [y, y], color=color, lw=1.4)
        axes.text(3.22, y, f"A{adapter + 1}", ha="right", va="center")
        axes.text(6.18, y, f"B{adapter + 1}", ha="left", va="center")
        for owner, row in rows:
            if owner == adapter:
                axes.plot([1.35, 1.9, 2.75], [row, row, y], color=color, lw=0.6)
                axes.plot([6.65, 7.7, 8.65], [y, row, row], color=color, lw=0.6)
    axes.text(4.7, -0.2, f"gather → shrink to {rank} → expand", ha="center", va="top")
    axes.text(0.65, 6.15, "token rows", ha="center")
    axes.text(9.35, 6.15, "sums", ha="center")
    axes.set(xlim=(-0.1, 10.1), ylim=(-0.8, 6.6))
    axes.set_axis_off()
    alone = batch.count(None)
    alt = (
        f"{counted(len(batch), 'token row')} {'goes' if len(batch) == 1 else 'go'} through one shared {matrix}. Rows "
        f"of {counted(len(adapters), 'adapter')} also go through their own A and B of rank {rank}, drawn in the rows' "
        f"color; {counted(alone, 'row')} {'has' if alone == 1 else 'have'} no adapter. The two results are added row "
        "by row."
    )
    caption = "One step. All rows share the base; a row's color says whose pair it also visits. Pairs not to scale."
    return picture(figure, alt=alt, caption=caption)


def sets_by_area(*, sets: list[tuple[str, float, float]]) -> Picture:
    """Sets of adapters as squares whose area is their bytes, what really holds an adapter filled in.

    Parameters
    ----------
    sets : list of (name, total_bytes, used_bytes)
        `name` may have two lines.
    """
    figure, (axes,) = canvas(2.2)
    largest = max(total for _, total, _ in sets)
    x, gap, widest = 0.0, 0.2, 2.4
    told = []
    for (name, total, used), color in zip(sets, COLORS, strict=False):
        side = max(widest * sqrt(total / largest), 0.02)
        column = max(side, 2.3)
        left, inner = x + (column - side) / 2, side * sqrt(min(used / total, 1.0))
        boxes(axes, [(left, 0, inner, inner)], fc=color, ec="none")
        boxes(axes, [(left, 0, side, side)], fc="none", ec=color, lw=1.2)
        _lines(axes, x + column / 2, -0.1, f"{name}\n{format_bytes(total)}", first=-8, ha="center")
        told.append(f"{name.replace(chr(10), ' ')}, {format_bytes(total)}, of which {format_bytes(used)} hold adapters")
        x += column + gap
    axes.set(xlim=(-0.05, x - gap + 0.05), ylim=(-1.2, widest + 0.1), aspect="equal")
    axes.set_axis_off()
    caption = "Area is bytes. What is not filled is reserved and holds no adapter's numbers."
    return picture(figure, alt=f"Squares whose area is bytes: {'; '.join(told)}.", caption=caption)


def slots_against_memory(
    *, slots: list[int], by_slots: Sequence[float], by_memory: Sequence[float], marked: list[int], waiting: int
) -> Picture:
    """Requests that can run, by the slots there are and by the memory that slots leave.

    Parameters
    ----------
    slots : list of int
        Slots on each GPU: every number, because memory may run out between two that are far apart.
    by_slots, by_memory : sequence of float
        Requests that run for each number of slots: as far as adapters go, and as far as the cache goes.
    marked : list of int
        Slots that get a point and a tick.
    waiting : int
        Requests that wait.
    """
    figure, (axes,) = canvas(2.6)
    both = [min(pair) for pair in zip(by_slots, by_memory, strict=True)]
    best = max(range(len(slots)), key=lambda i: (both[i], -i))
    top = 1.3 * max(*by_slots, waiting)
    at_marks = [slots.index(n) for n in marked]
    axes.plot(slots, by_slots, color=BLUE, marker="o", ms=3, markevery=at_marks)
    axes.plot(slots, by_memory, color=ORANGE, marker="o", ms=3, markevery=at_marks)
    axes.plot([slots[best]], [both[best]], "o", mfc="none", mec=INK, ms=10, mew=1.0)
    axes.axhline(waiting, color=INK, lw=0.8, ls=DASHED)
    axes.annotate(f"{format_count(waiting)} waiting", (slots[0], waiting), (0, 3), textcoords="offset points")
    axes.set_xscale("log", base=2)
    axes.set_xticks(marked, [format_count(n) for n in marked])
    axes.minorticks_off()
    axes.set(xlabel="slots on each GPU", ylabel="requests that run", ylim=(0, top))
    middle = at_marks[len(marked) // 2]
    axes.text(1.1 * slots[middle], by_slots[middle] - 0.04 * top, "a slot for their adapter", color=BLUE, va="top")
    above = [i for i in range(len(slots)) if by_memory[i] > top]
    at, height = (above[-1], 0.99 * top) if above else (0, by_memory[0])
    axes.text(slots[at], height, "memory for their cache", color=ORANGE, va="top", ha="right" if at else "left")
    alt = (
        f"With more slots more of {counted(waiting, 'waiting request')} find one for their adapter, from "
        f"{significant(by_slots[0], 3)} to {significant(by_slots[-1], 3)}; the memory that is left holds the cache of "
        f"{counted(by_memory[0], 'request')} at first and {format_count(by_memory[-1])} at last. Most run with "
        f"{counted(slots[best], 'slot')}: {significant(both[best], 3)}."
    )
    caption = (
        "What slots allow and what memory allows. The ring marks the fewest slots with which most run, "
        f"of every number up to {format_count(slots[-1])}."
    )
    return picture(figure, alt=alt, caption=caption)


def hits_by_slots(
    *,
    resident: list[int],
    approximate: list[float],
    pinned: list[float],
    simulated: dict[int, float],
    marks: dict[str, int],
    exponent: float,
) -> Picture:
    """Share of requests that find their adapter, against how many can be resident.

    Parameters
    ----------
    resident : list of int
        Adapters that can be resident.
    approximate, pinned : list of float
        Hit ratio by Che's approximation, and with the most popular pinned.
    simulated : dict
        Resident adapters → hit ratio of drawn requests.
    marks : dict
        Name → resident adapters, among those of `resident`: the slots, the host's limit.
    exponent : float
        Of the popularity.
    """
    figure, (axes,) = canvas(2.7)
    axes.plot(resident, [100 * hit for hit in pinned], color=GREY, lw=1.0, ls=DASHED)
    axes.plot(resident, [100 * hit for hit in approximate], color=BLUE)
    axes.plot(list(simulated), [100 * hit for hit in simulated.values()], "o", color=ORANGE, ms=4)
    above, previous = 104, None
    for name, place in sorted(marks.items(), key=lambda mark: mark[1]):
        above = 113 if previous and above == 104 and place < 4 * previous else 104  # names side by side need room
        axes.plot(
            [place] * 2, [100 * approximate[resident.index(place)], 102], color=INK, lw=0.7, ls=":", clip_on=False
        )
        axes.text(place, above, f"{name}: {format_count(place)}", ha="center")
        previous = place
    axes.set_xscale("log")
    ticks = [10**power for power in range(7) if 10**power <= resident[-1]]
    axes.set_xticks(ticks, [format_count(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set(xlabel="adapters that can be resident", ylabel="requests that hit, %", ylim=(0, 102))
    legend = "line: Che's approximation\ndots: simulated\ndashed: most popular pinned"
    _lines(axes, resident[-1], 0, legend, first=34, ha="right")
    first, last = format_percent(approximate[0], 2), format_percent(approximate[-1])
    where = "; ".join(f"{name}, {format_count(place)}" for name, place in marks.items())
    alt = (
        f"Hit ratio of a least-recently-used set under Zipf popularity with exponent {exponent:g}. It rises from "
        f"{first} with {format_count(resident[0])} resident to {last} with {format_count(resident[-1])}. "
        f"Marked: {where}."
    )
    caption = "Who finds the adapter already there. Independent requests, popularity fixed. Derived and simulated."
    return picture(figure, alt=alt, caption=caption)
