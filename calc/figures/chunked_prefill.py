"""Drawings of the chapter on chunked prefill."""

from __future__ import annotations

from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from calc.figures import BLUE, GREY, INK, ORANGE, Picture, boxes, canvas, picture
from calc.scheduling import Setting, Step
from calc.units import counted, format_count, format_seconds
from calc.workload import Spread

SHOWN_SEATS, SHOWN_LABELS = 8, 12


def prompt_walk(*, steps: list[Step], long: str, prompt: int) -> Picture:
    """A long prompt through the steps: what each computes, what it reads again, and who decodes beside it.

    Parameters
    ----------
    steps : list of Step
        Consecutive steps, from the last one before the prompt to the first one after its first token.
    long : str
        Name of the request with the long prompt.
    prompt : int
        Its prompt tokens.
    """
    figure, (axes,) = canvas(min(max(1.5, 0.6 + 0.17 * len(steps)), 3.8))
    read, computed, others, own = [], [], [], []
    wide = prompt / 40
    for place, step in enumerate(steps):
        y, seats = -place, 0
        for row in sorted(step.rows, key=lambda row: row.name == long):
            if row.name == long and not row.decodes:
                read.append((0, y - 0.4, row.computed, 0.8))
                computed.append((row.computed, y - 0.4, row.tokens, 0.8))
            elif row.name == long or seats < SHOWN_SEATS:
                seat = (prompt * 1.04 + seats * wide, y - 0.36, 0.75 * wide, 0.72)
                (own if row.name == long else others).append(seat)
                seats += 1
    read = [box for box in read if box[2]]
    for corners, style in (
        (read, {"fc": BLUE, "alpha": 0.25, "ec": "none"}),
        (computed, {"fc": BLUE, "ec": "none"}),
        (others, {"fc": ORANGE, "ec": "none"}),
        (own, {"fc": BLUE, "ec": "none"}),
    ):
        if corners:
            boxes(axes, corners, **style)
    axes.text(0, 0.9, "the prompt, by position", va="bottom")
    axes.text(prompt * 1.04, 0.9, "decoding", va="bottom")
    every = -(-len(steps) // SHOWN_LABELS)
    labeled = [i for i in range(len(steps)) if i % every == 0]
    axes.set(xlim=(0, prompt * 1.04 + (SHOWN_SEATS + 2) * wide), ylim=(0.7 - len(steps), 0.9))
    axes.yaxis.set_major_locator(FixedLocator([-i for i in labeled]))
    axes.set_yticklabels([f"step {steps[i].index}" for i in labeled])
    axes.xaxis.set_major_locator(FixedLocator([0, prompt / 2, prompt]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_count(int(value))))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_bounds(0, prompt)
    cut = [row.tokens for step in steps for row in step.rows if row.name == long and not row.decodes]
    decoding = max(sum(row.name != long for row in step.rows) for step in steps)
    more = f" Of them {SHOWN_SEATS} are drawn." if decoding > SHOWN_SEATS else ""
    sizes = format_count(cut[0]) + (f" each, the last of {format_count(cut[-1])}" if len(cut) > 1 else "")
    return picture(
        figure,
        alt=f"A prompt of {counted(prompt, 'token')} is computed in {counted(len(cut), 'step')} of {sizes}. Each "
        "step reads everything before its chunk again, so the faint part grows like a staircase. "
        f"Decoding beside it in every step: {counted(decoding, 'request')}.",
        caption="Blue: what the step computes of the prompt. Faint: what it reads again from the cache. Orange: "
        f"one token of each request that decodes; the blue one among them is the prompt's own answer.{more} "
        "From the library's scheduler.",
    )


def floors(*, budgets: list[int], whole_s: list[float], longest_s: list[float], marks: dict[str, int]) -> Picture:
    """Least time of the whole prompt and of its longest step, by budget.

    Parameters
    ----------
    budgets : list of int
        Token budgets, ascending.
    whole_s, longest_s : list of float
        Least time of all its steps without the requests that decode, and of the longest one with them.
    marks : dict
        What to mark → the budget at which it stands.
    """
    figure, panels = canvas(2.6, 2)
    for axes, values, title in zip(
        panels, (whole_s, longest_s), ("whole prompt, least time", "longest step, least time"), strict=True
    ):
        axes.plot(budgets, values, color=BLUE, marker="o", ms=2.5)
        axes.set_xscale("log", base=2)
        axes.set_xlim(budgets[0] / 1.25, budgets[-1] * 1.25)
        for color, (name, at) in zip((ORANGE, INK), marks.items(), strict=False):
            if not budgets[0] / 1.25 < at < budgets[-1] * 1.25:
                continue
            axes.axvline(at, color=color, lw=0.8, ls=(0, (3, 2)))
            if axes is panels[0]:
                axes.text(at * 1.1, 0.96, name, color=color, transform=axes.get_xaxis_transform(), va="top", fontsize=8)
        ticks = budgets[:: -(-len(budgets) // 4)]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_count(int(value))))
        axes.tick_params(axis="x", labelsize=8)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value) if value else "0"))
        axes.set(ylim=(0, 1.12 * max(values)), xlabel="token budget", title=title)
        axes.title.set(fontsize=8.5)
    first, last = format_count(budgets[0]), format_count(budgets[-1])
    return picture(
        figure,
        alt=f"From a budget of {first} to one of {last} tokens the least time of the whole prompt goes from "
        f"{format_seconds(whole_s[0])} to {format_seconds(whole_s[-1])}, and that of the longest step from "
        f"{format_seconds(longest_s[0])} to {format_seconds(longest_s[-1])}.",
        caption="Floors: all steps of the prompt together, without the requests that decode (left), and the longest of "
        "them, with these (right). Real steps take longer; none takes less. Derived.",
    )


def front(*, settings: list[Setting], best: list[Setting], chosen: Setting | None, gap_limit_s: float) -> Picture:
    """Measured waits and gaps of each budget, with the Pareto front and the limit.

    Parameters
    ----------
    settings : list of Setting
        What was measured, in the order of budgets.
    best : list of Setting
        The Pareto front, by rising wait.
    chosen : Setting or None
        The setting that the objective picks.
    gap_limit_s : float
        The limit.
    """
    figure, (axes,) = canvas(3.1)
    axes.plot([s.wait_s for s in best], [s.gap_s for s in best], color=GREY, lw=1, zorder=1)
    for s in settings:
        color = ORANGE if s is chosen else BLUE
        axes.plot(s.waits_s, s.gaps_s, "o", color=color, ms=3, alpha=0.6, mec="none", zorder=2)
        axes.plot([s.wait_s], [s.gap_s], "o", mfc="none", mec=color, ms=8, mew=1.3, zorder=3)
        note = f"{s.name}, chosen" if s is chosen else s.name
        off = (8, -11) if 0.8 < s.gap_s / gap_limit_s < 1.05 else (8, 3)  # not across the limit's line
        axes.annotate(note, (s.wait_s, s.gap_s), off, textcoords="offset points", fontsize=8, color=INK)
    axes.axhline(gap_limit_s, color=INK, lw=0.8, ls=(0, (4, 3)))
    axes.set_yscale("log")
    waits = [w for s in settings for w in s.waits_s]
    gaps = [g for s in settings for g in s.gaps_s]
    room = max(max(waits) - min(waits), 0.05 * max(waits))
    axes.set(xlim=(min(waits) - 0.1 * room, max(waits) + 0.3 * room))
    low, high = min(*gaps, gap_limit_s), max(*gaps, gap_limit_s)
    axes.set_ylim(low / 1.5, high * 1.6)
    right = axes.get_xlim()[1]
    axes.text(right, gap_limit_s * 1.04, f"limit, {format_seconds(gap_limit_s)}", ha="right", va="bottom", fontsize=8)
    ticks = [t for power in range(-4, 4) for t in (10.0**power, 2 * 10.0**power, 5 * 10.0**power)]
    axes.yaxis.set_major_locator(FixedLocator([t for t in ticks if low / 1.5 <= t <= high * 1.6]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value)))
    axes.set(xlabel="wait for the long prompt's first token, s", ylabel="longest gap of the streams")
    each = "; ".join(
        f"{s.name}: {Spread.of((s.wait_s,)).seconds()}, {Spread.of((s.gap_s,)).seconds()}" for s in settings
    )
    return picture(
        figure,
        alt=f"Median wait for the first token and longest gap, by token budget. {each}.",
        caption="Each dot is one repeat, each ring a budget's medians; the gray line joins the budgets that by these "
        "no other beats in both. Measured, recording chunked_prefill.",
    )
