"""Drawings of the quantization chapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from calc.figures import BLUE, GIB, GREEN, GREY, INK, ORANGE, PURPLE, Picture, canvas, picture
from calc.quantization import Candidate, Step, representable
from calc.units import format_bytes, format_count, format_percent, format_seconds, significant

COLORS = (GREY, BLUE, ORANGE, GREEN, PURPLE)


def rulers(*, groups: Mapping[str, Sequence[float]], elements: Mapping[str, str]) -> Picture:
    """Weights of a group above the values that each 4-bit type has for them.

    Parameters
    ----------
    groups : mapping of str to sequence of float
        What is special about a group → its weights, one panel each.
    elements : mapping of str to str
        Element type → the name to write beside its ruler.
    """
    figure, axes = canvas(0.75 + 0.42 * len(elements) + 0.35, len(groups))
    words = []
    for turn, (ax, (title, weights)) in enumerate(zip(axes, groups.items(), strict=True)):
        values = np.asarray(weights, dtype=float)
        reach = float(np.abs(values).max())
        ax.plot(values, np.zeros_like(values), "|", color=INK, ms=9, mew=0.5)
        used = {}
        for row, (element, color) in enumerate(zip(elements, (BLUE, ORANGE), strict=False), start=1):
            ruler = np.array(representable(element))
            ruler = ruler[np.abs(ruler) <= ruler.max()] * reach / ruler.max()
            ax.plot(ruler, np.full_like(ruler, -row), "|", color=color, ms=11, mew=1.4)
            ax.plot([-reach, reach], [-row, -row], color=color, lw=0.6)
            nearest = np.abs(values[:, None] - ruler[None, :]).argmin(axis=1)
            used[elements[element]] = len(set(nearest.tolist()))
        if not turn:
            for row, name in enumerate(("weights", *elements.values())):
                ax.text(-1.12 * reach, -row, name, ha="right", va="center")
        ax.set(ylim=(-len(elements) - 0.6, 0.7), xlim=(-1.05 * reach, 1.05 * reach))
        ax.set_title(f"{title}\nlargest {significant(reach, 2)}", fontsize=8.5)
        ax.set_axis_off()
        words.append(
            f"{title}, the largest is {significant(reach, 2)} and the weights fall on "
            + " and ".join(f"{count} values of {name}" for name, count in used.items())
        )
    return picture(
        figure,
        alt="Weights of one group above the values that a 4-bit type can give them. " + "; ".join(words) + ".",
        caption="Every group's ruler is stretched to its largest weight. One outlier stretches it for all the others.",
    )


def error_by_group(*, groups: Sequence[int], errors: Mapping[str, Sequence[float]]) -> Picture:
    """Relative error of the weights against the size of the group that shares a scale.

    Parameters
    ----------
    groups : sequence of int
        Weights in a group.
    errors : mapping of str to sequence of float
        Line → error for each group size, as a fraction.
    """
    figure, (axes,) = canvas(2.6)
    for (name, values), color in zip(errors.items(), (BLUE, ORANGE, GREY, GREEN), strict=False):
        percent = [100 * v for v in values]
        axes.plot(groups, percent, "o-", color=color, ms=3.5)
        axes.text(groups[-1] * 1.08, percent[-1], name, color=color, va="center")
    axes.set_xscale("log", base=2)
    axes.set_xticks(groups, [format_count(g) for g in groups])
    axes.set_xlim(groups[0] / 1.2, groups[-1] * 3.2)
    axes.set(xlabel="weights that share a scale", ylabel="error of the weights, %", yscale="log")
    axes.set_yticks([t for t in (0.5, 1, 2, 5, 10, 20, 50, 100) if _near(t, errors)])
    axes.yaxis.set_major_formatter(lambda value, _: significant(value, 2))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(_none())
    ends = "; ".join(
        f"{name} {format_percent(v[0], 2)} in groups of {format_count(groups[0])}, {format_percent(v[-1], 2)} "
        f"in groups of {format_count(groups[-1])}"
        for name, v in errors.items()
    )
    return picture(
        figure,
        alt=f"Error of rounded weights against the size of a group: {ends}.",
        caption="Round-to-nearest on a seeded matrix, root mean square of the error over that of the weights.",
    )


def step_floors(*, tokens: Sequence[int], steps: Mapping[str, Sequence[Step]], now: int) -> Picture:
    """Least time of a step's weights against the tokens in it, one line for each way to store them.

    Parameters
    ----------
    tokens : sequence of int
    steps : mapping of str to sequence of Step
        Scheme → its step for each number of tokens.
    now : int
        Tokens in the chapter's step.
    """
    figure, (axes,) = canvas(2.8)
    ends = []
    for (name, found), color in zip(steps.items(), COLORS, strict=False):
        floor = [1000 * s.floor_s for s in found]
        axes.plot(tokens, floor, color=color)
        ends.append([floor[0], name, color])
        turn = next((i for i, s in enumerate(found) if s.multiply_s >= s.read_s), None)
        if turn is not None:
            axes.plot([tokens[turn]], [floor[turn]], "o", color=color, ms=4)
    ends.sort()
    for low, high in zip(ends, ends[1:], strict=False):  # labels keep their distance
        high[0] = max(high[0], 1.22 * low[0])
    for y, name, color in ends:
        axes.text(tokens[0] / 1.15, y, name, color=color, ha="right", va="center")
    axes.axvline(now, color=INK, lw=0.8, ls=(0, (4, 3)))
    axes.set(xscale="log", yscale="log", xlabel="tokens in a step", ylabel="least time of its weights, ms")
    axes.set_xlim(tokens[0] / 60, tokens[-1])
    axes.set_xticks([t for t in (1, 10, 100, 1000, 10_000) if tokens[0] <= t <= tokens[-1]])
    axes.xaxis.set_major_formatter(lambda value, _: format_count(value))
    axes.xaxis.set_minor_locator(_none())
    axes.yaxis.set_major_formatter(lambda value, _: significant(value, 2))
    alt = (
        "Least time of a step's weights against its tokens: flat while it reads, then rising with the arithmetic. "
        + (
            "; ".join(
                f"{name} starts at {format_seconds(found[0].floor_s)} and ends at {format_seconds(found[-1].floor_s)}"
                for name, found in steps.items()
            )
        )
    )
    return picture(
        figure,
        alt=alt + ".",
        caption="Floors of one GPU's weights. Dots: from here the arithmetic decides. Dashed: this chapter's step.",
    )


def measured(*, tokens: Sequence[int], panels: Mapping[str, Mapping[str, Sequence[float]]]) -> Picture:
    """Measured multiplications: how many times faster than bf16, against the tokens in a step.

    Parameters
    ----------
    tokens : sequence of int
    panels : mapping
        Chip and engine → kind of multiplication → times faster, for each number of tokens.
    """
    figure, axes = canvas(2.7, len(panels), sharey=True)
    kinds = dict.fromkeys(name for lines in panels.values() for name in lines)
    colors = dict(zip(kinds, (ORANGE, BLUE, GREEN, PURPLE, INK), strict=False))  # a kind keeps its color
    words = []
    for ax, (title, lines) in zip(axes, panels.items(), strict=True):
        ax.axhline(1, color=INK, lw=0.8, ls=(0, (4, 3)))
        for name, values in lines.items():
            ax.plot(tokens, values, "o-", color=colors[name], ms=3, label=name)
            words.append(
                f"{title}, {name}: {significant(values[0], 2)}× at first, {significant(values[-1], 2)}× at last"
            )
        ax.set(xscale="log", xlabel="tokens in a step")
        ax.set_title(title, fontsize=8.5, loc="left")
        ax.legend(frameon=False, fontsize=7.5, loc="best", handlelength=1.2)
        ax.set_xticks([1, 16, 256, 4096], ["1", "16", "256", "4,096"])
        ax.xaxis.set_minor_locator(_none())
    axes[0].set(ylabel="times as fast as bf16", ylim=(0, None))
    return picture(
        figure,
        alt="Measured speed of quantized multiplications over bf16 with the same engine. " + "; ".join(words) + ".",
        caption="Three matrices of one layer on one of eight ranks. Measured by NVIDIA (aiconfigurator 0.12.0).",
    )


def trade(*, found: Sequence[Candidate], chosen: str | None, engine: str) -> Picture:
    """Candidates by the bytes they hold and the speed that was measured; quality beside each.

    Parameters
    ----------
    found : sequence of Candidate
        Those that run and fit.
    chosen : str or None
        The one that the rule picks.
    engine : str
        The engine that would run them, with its version. What was measured in another one is drawn as a square.
    """
    figure, (axes,) = canvas(3.1)
    known = sorted((c for c in found if c.timing), key=lambda c: (c.timing.times_faster if c.timing else 0, c.scheme))
    top = max((c.timing.times_faster for c in known if c.timing), default=1)
    widest = max(c.rank_bytes for c in found) / GIB
    for c in found:
        if c.timing is None:
            axes.plot(c.rank_bytes / GIB, 0, "|", color=GREY, ms=9, mew=1.4)
    axes.axhline(1, color=INK, lw=0.8, ls=(0, (4, 3)))
    above: list[tuple[float, float]] = []  # where labels are already
    for c in known:
        assert c.timing
        x, y = c.rank_bytes / GIB, c.timing.times_faster
        color = ORANGE if c.scheme == chosen else BLUE
        left = x > 0.6 * widest  # on which side there is room for words
        level = max([y + 0.06 * top, *(low + 0.1 * top for at, low in above if abs(at - x) < 0.5 * widest)])
        above.append((x, level))
        reach = x + (-1 if left else 1) * 0.05 * widest
        axes.plot([x, reach], [y, level], color=color, lw=0.6)
        shape = "o" if _own(c, engine) else "s"
        axes.plot(x, y, shape, ms=6, mfc=color if c.recovery else "none", mec=color, zorder=4 if c.recovery else 3)
        quality = str(c.recovery or "unknown").replace("at least", "≥")
        where = {"ha": "right" if left else "left", "va": "center", "fontsize": 8, "in_layout": False}
        axes.text(reach, level, f" {c.name}: {quality} ", color=color, **where)
    if len(known) < len(found):
        axes.text(
            0.01, 0.03, "ticks: speed not published", transform=axes.transAxes, color=GREY, fontsize=7.5, va="bottom"
        )
    axes.set(xlim=(0, 1.1 * widest), ylim=(0, 1.12 * max(top, *(level for _, level in above or [(0, 1)]))))
    axes.set(xlabel="weights on one GPU, GiB", ylabel="times as fast as bf16, measured")
    alt = "Candidates by weight bytes on a GPU and measured speed. " + "; ".join(
        f"{c.name} {format_bytes(c.rank_bytes)}, "
        + (f"{significant(c.timing.times_faster, 2)}× in {c.timing.engine}" if c.timing else "speed unknown")
        + (f", recovery {c.recovery}" if c.recovery else ", quality unknown")
        for c in found
    )
    others = sorted({c.timing.engine.split()[0] for c in known if c.timing and not _own(c, engine)})
    return picture(
        figure,
        alt=alt + ".",
        caption=f"What runs with {engine} and fits, with its quality; filled where that is known. Orange: the choice."
        + (f" Squares: speed measured in {' or '.join(others)}, over its own bf16." if others else ""),
    )


def _own(c: Candidate, engine: str) -> bool:
    """Whether a speed was measured in the engine itself, whatever the version."""
    return c.timing is not None and c.timing.engine.split()[0] == engine.split()[0]


def _near(tick: float, errors: Mapping[str, Sequence[float]]) -> bool:
    """Whether a tick in percent lies within the lines, or just outside."""
    values = [100 * v for line in errors.values() for v in line]
    return min(values) / 1.5 <= tick <= 1.5 * max(values)


def _none() -> object:
    from matplotlib.ticker import NullLocator

    return NullLocator()
