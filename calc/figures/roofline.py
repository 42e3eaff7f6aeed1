"""Drawings of the roofline chapter."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

from matplotlib.ticker import NullLocator

from calc.figures import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, Picture, boxes, canvas, picture
from calc.roofline import StepFloor, attainable_rate, intensity, kernel_checks
from calc.sources import load_json
from calc.units import counted, format_count, format_decimal, format_percent, format_seconds, significant

NAMES = {"routed_experts": "experts", "shared_experts": "shared experts", "mlp": "MLP"}
HUES = {
    "projections": GREEN,
    "attention": ORANGE,
    "mlp": BLUE,
    "routed_experts": BLUE,
    "shared_experts": PURPLE,
    "head": PURPLE,
}
NAMED = {"attention": "attention", "head": "output layer"}  # groups that get a label where they stand apart
APART = 1.7  # times the intensity of the whole step
FEWEST = 1e-3  # of a bar: a part below this is not drawn


def rooflines(*, steps: Mapping[str, StepFloor], peak: float, bandwidth: float, chip: str) -> Picture:
    """The roof of a chip, and where the groups of each step stand under it.

    Parameters
    ----------
    steps : mapping of str to StepFloor
        What the step is → its floor.
    peak, bandwidth : float
        The roof.
    chip : str
        Its name.
    """
    figure, (axes,) = canvas(3.0)
    said, lows = [], []
    for (name, step), mark, color in zip(steps.items(), ("o", "s"), (ORANGE, BLUE), strict=False):
        points = []
        for group in step.work.groups:
            if group.flop and group.moved_bytes():
                at = intensity(flop=group.flop, moved_bytes=group.moved_bytes())
                rate = attainable_rate(intensity=at, peak=peak, bandwidth=bandwidth)
                points.append((at, rate, NAMES.get(group.name, group.name)))
        lows += [at for at, _, _ in points]
        axes.plot([p[0] for p in points], [p[1] for p in points], mark, color=color, ms=5, zorder=3)
        whole = step.work.intensity()
        for at, rate, part in points:
            if part in NAMED and not 1 / APART < at / whole < APART:
                axes.annotate(NAMED[part], (at, rate), (5, -5), textcoords="offset points", va="top", color=color)
        axes.plot([whole], [attainable_rate(intensity=whole, peak=peak, bandwidth=bandwidth)], mark, ms=9, mfc="none",
                  mec=color, zorder=4)  # fmt: skip
        said.append(
            f"{name}: {significant(whole, 3)} FLOP per byte in all, "
            + ", ".join(f"{part} {significant(at, 3)}" for at, _, part in points)
        )
    balance = peak / bandwidth
    least, most = min([*lows, 1]) / 2.5, max([*lows, balance]) * 4
    ends = [least, balance, most]
    axes.plot(ends, [attainable_rate(intensity=x, peak=peak, bandwidth=bandwidth) for x in ends], color=INK, lw=1.2)
    axes.axvline(balance, color=GREY, lw=0.8, ls=(0, (4, 3)))
    low_rate = least * bandwidth
    axes.text(balance * 1.15, low_rate * 1.1, f"ridge: {significant(balance, 3)}", color=GREY, ha="left", va="bottom")
    axes.text(0.03, 0.62, "waits for memory", ha="left", va="bottom", transform=axes.transAxes)
    axes.text(balance * 1.15, peak * 1.4, "waits for arithmetic", ha="left", va="bottom")
    for turn, (name, color) in enumerate(zip(steps, (ORANGE, BLUE), strict=False)):
        axes.text(0.985, 0.3 - 0.09 * turn, name, color=color, ha="right", va="top", transform=axes.transAxes)
    axes.set(xscale="log", yscale="log", xlim=(least, most), ylim=(low_rate, peak * 3.2))
    axes.set(xlabel="FLOP for each byte moved", ylabel="FLOP/s in reach")
    axes.xaxis.set_major_formatter(lambda value, _: significant(value, 3))
    axes.yaxis.set_major_formatter(lambda value, _: format_decimal(value, "").strip())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    return picture(
        figure,
        alt=f"Roofline of {chip}, its ridge at {significant(balance, 3)} FLOP per byte. " + "; ".join(said) + ".",
        caption="Small marks are tensor groups, the open ones whole steps. They stand on the roof by construction: it "
        "is a bound, not a measurement.",
    )


def two_times(*, steps: Mapping[str, StepFloor]) -> Picture:
    """For each step, how long its bytes and its arithmetic take at best, group by group.

    Parameters
    ----------
    steps : mapping of str to StepFloor
        What the step is → its floor.
    """
    figure, axes = canvas(1.5, len(steps))
    said = []
    for ax, (name, step) in zip(axes, steps.items(), strict=True):
        ticks = []
        for row, what in enumerate(("bytes", "FLOP")):
            left, parts = 0.0, [(g.name, g.move_s if what == "bytes" else g.multiply_s) for g in step.groups]
            ticks.append(f"{what}\n{format_seconds(sum(seconds for _, seconds in parts))}")
            for group, seconds in parts:
                width = seconds / step.seconds
                if width > FEWEST:
                    boxes(ax, [(left, -row - 0.36, width, 0.72)], fc=HUES.get(group, GREY), ec="none", alpha=0.85)
                left += width
        shortest = min((step.move_s, 0), (step.multiply_s, 1))[1]
        largest = sorted(step.groups, key=lambda g: -g.seconds)[:3]
        for turn, group in enumerate(largest):
            style = {"color": HUES.get(group.name, GREY), "fontsize": 7.5, "ha": "right", "va": "center"}
            ax.text(1, -shortest + 0.27 - 0.27 * turn, NAMES.get(group.name, group.name), **style)
        ax.set(xlim=(0, 1.02), ylim=(-1.45, 0.45), xticks=(), yticks=(0, -1))
        ax.set_yticklabels(ticks)
        ax.tick_params(axis="y", length=0)
        ax.spines["bottom"].set_visible(False)
        ax.set_title(name, fontsize=8.5, loc="left")
        said.append(
            f"{name}: its bytes take {format_seconds(step.move_s)}, its arithmetic {format_seconds(step.multiply_s)}"
        )
    return picture(
        figure,
        alt="Least times of bytes and of arithmetic. " + "; ".join(said) + ".",
        caption="Each bar at the full rate of the chip, cut by tensor group. The longer of the two is the floor.",
    )


def crossings(
    *, sequences: Sequence[int], ratio: Mapping[int, Sequence[float]], crossing: Mapping[int, int | None]
) -> Picture:
    """How many times as long a decode step's bytes take as its arithmetic, against the batch.

    Parameters
    ----------
    sequences : sequence of int
        The batch, one token each.
    ratio : mapping of int to sequence of float
        Cached positions of each sequence → time of the bytes over time of the arithmetic, for each batch.
    crossing : mapping of int to int or None
        Cached positions → the batch from which arithmetic takes longer.
    """
    figure, (axes,) = canvas(3.0)
    labels, said = [], []
    for (cached, values), color in zip(ratio.items(), (GREEN, BLUE, PURPLE, ORANGE), strict=False):
        axes.plot(sequences, values, color=color)
        labels.append([values[-1], f"{format_count(cached)} cached", color])
        found = crossing[cached]
        if found is not None and found <= sequences[-1]:
            axes.plot([found], [1], "o", color=color, ms=5, zorder=3)
        said.append(
            f"with {counted(cached, 'position')} in each cache "
            + ("no batch does" if found is None else f"from {counted(found, 'sequence')} on")
        )
    axes.axhline(1, color=INK, lw=1.0)
    top = max(values[0] for values in ratio.values())
    least = min(values[-1] for values in ratio.values())
    labels.sort()
    step = (top / least) ** 0.075
    for low, high in zip(labels, labels[1:], strict=False):
        high[0] = max(high[0], step * low[0])
    for y, name, color in labels:
        axes.text(sequences[-1] * 1.15, y, name, color=color, va="center")
    axes.text(sequences[0], 0.93, "waits for arithmetic", ha="left", va="top")
    axes.text(sequences[0], 1.08, "waits for memory", ha="left", va="bottom")
    axes.set(xscale="log", yscale="log", xlabel="sequences in the decode step", ylabel="time of bytes / of arithmetic")
    axes.set_xlim(sequences[0], sequences[-1] * 14)
    axes.set_ylim(min(least, 1) / 2, top * 1.5)
    axes.set_xticks([n for n in (1, 10, 100, 1000, 10_000) if n <= sequences[-1]])
    axes.xaxis.set_major_formatter(lambda value, _: format_count(value))
    axes.yaxis.set_major_formatter(lambda value, _: significant(value, 2))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    return picture(
        figure,
        alt="Time of a decode step's bytes over that of its arithmetic, against its sequences. Arithmetic takes longer "
        + "; ".join(said)
        + ".",
        caption="Dots: from here on a step waits for arithmetic. A line that levels off above 1 never gets there, "
        "whatever the batch.",
    )


@functools.cache
def measured_over_floor() -> Picture:
    """Measured time over floor, against the floor: every product and every decode attention, as shaded cells."""
    table, checks = load_json("roofline_check.json"), kernel_checks()
    per_decade, per_octave = table["per_decade"], table["per_octave"]
    panels = {
        "Matrix products": [check for name, check in checks.items() if name.startswith("product")],
        "Decode attention": [check for name, check in checks.items() if name.startswith("decode")],
    }
    figure, axes = canvas(2.9, len(panels), sharey=True)
    said = []
    for ax, (title, kinds) in zip(axes, panels.items(), strict=True):
        cells: dict[tuple[int, int], int] = {}
        for kind in kinds:
            for i, j, count in kind.cells:
                cells[i, j] = cells.get((i, j), 0) + count
        most = max(cells.values())
        levels = 4
        for level in range(levels):
            shade = {cell: math.ceil(levels * math.log1p(n) / math.log1p(most)) - 1 for cell, n in cells.items()}
            inside = [cell for cell, found in shade.items() if found == level]
            for color, chosen in ((BLUE, [c for c in inside if c[1] >= 0]), (ORANGE, [c for c in inside if c[1] < 0])):
                if chosen:
                    corners = [(1e6 * 10 ** (i / per_decade), 2 ** (j / per_octave)) for i, j in chosen]
                    boxes(
                        ax,
                        [(x, y, x * (10 ** (1 / per_decade) - 1), y * (2 ** (1 / per_octave) - 1)) for x, y in corners],
                        fc=color,
                        ec="none",
                        alpha=max(0.25 + 0.25 * level, 0.6 * (color == ORANGE)),
                    )
        ax.axhline(1, color=INK, lw=1.2)
        plain = [(band.from_s, band.median) for band in kinds[0].bands if band.from_s]
        ax.plot([1e6 * start * 10**0.5 for start, _ in plain], [median for _, median in plain], color=INK, lw=0.9)
        rows, under = sum(k.rows for k in kinds), sum(k.beat_the_floor for k in kinds)
        ax.set(xscale="log", yscale="log", xlabel="floor, µs", xlim=(0.01, max(1e5 * (ax is axes[0]), 1e4)))
        ax.set_xticks([0.01, 1, 100, 10_000])
        ax.set_title(f"{title}\n{format_count(rows)} rows, {format_count(under)} below 1", fontsize=8.5, loc="left")
        ax.set_yticks([1, 2, 5, 10, 100, 1000])
        ax.yaxis.set_major_formatter(lambda value, _: significant(value, 2))
        ax.xaxis.set_major_formatter(lambda value, _: significant(value, 2))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_minor_locator(NullLocator())
        said.append(
            f"{title}: {format_count(rows)} rows, {format_count(under)} below the floor; "
            f"median in bf16 {significant(kinds[0].bands[0].median, 3)} for the smallest, "
            f"{significant(plain[-1][1], 3)} for the largest"
        )
    axes[0].set(ylabel="measured / floor", ylim=(0.6, 1000))
    return picture(
        figure,
        alt="Measured time over the roofline's floor against the floor. " + ". ".join(said) + ".",
        caption="Measured rows, darker where there are more; the smallest kernels lie beyond the frame, higher still. "
        "Line: median in bf16. Orange: below 1, data that the cache on the chip holds. Data: aiconfigurator 0.12.0.",
    )


def touched(*, batch: Sequence[int], share: Mapping[str, Sequence[float]]) -> Picture:
    """Share of a mixture's experts whose weights a step reads, against the tokens in it.

    Parameters
    ----------
    batch : sequence of int
        Tokens in the step.
    share : mapping of str to sequence of float
        Model → expected share for each batch.
    """
    figure, (axes,) = canvas(2.4)
    said = []
    for (name, values), color in zip(share.items(), (BLUE, ORANGE, GREEN, PURPLE), strict=False):
        axes.plot(batch, [100 * v for v in values], "o-", color=color, ms=3)
        half = next((n for n, v in zip(batch, values, strict=True) if v >= 0.5), None)
        axes.text(0.98, 0.36 - 0.1 * len(said), name, color=color, ha="right", va="top", transform=axes.transAxes)
        said.append(f"{name} {format_percent(values[0], 2)} at one token" + (f", half at {half}" if half else ""))
    axes.set(xscale="log", xlabel="tokens in the step", ylabel="experts read, %", ylim=(0, 105))
    axes.set_xticks([n for n in batch if n in (1, 4, 16, 64, 256, 1024)])
    axes.xaxis.set_major_formatter(lambda value, _: format_count(value))
    axes.xaxis.set_minor_locator(NullLocator())
    return picture(
        figure,
        alt="Experts whose weights a step reads: " + "; ".join(said) + ".",
        caption="Expected values for tokens that choose independently. Real tokens are alike and read fewer.",
    )
