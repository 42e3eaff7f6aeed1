"""Drawings of the cache-budget chapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calc.capacity import Plan, RankBudget, Served
from calc.figures import BLUE, GIB, GREY, INK, ORANGE, PURPLE, Picture, canvas, picture
from calc.units import counted, format_bytes, format_count, significant

LIGHT = "#c9c9c9"


def memory_map(*, rank: RankBudget, total_bytes: float) -> Picture:
    """One GPU's memory to scale, and what becomes of it.

    Parameters
    ----------
    rank : RankBudget
        The rank that limits.
    total_bytes : float
        Memory of its GPU as a program sees it.
    """
    workspace = rank.activation_bytes + rank.graph_bytes + rank.communication_bytes
    cache = rank.blocks * rank.block_bytes
    parts = (
        ("weights", rank.weight_bytes, GREY),
        ("activations, graphs,\ncommunication", workspace, PURPLE),
        ("cache", cache, BLUE),
        ("not the engine's", total_bytes - rank.usable_bytes, LIGHT),
    )
    figure, (axes,) = canvas(1.45)
    left, below = 0.0, 0.0
    for turn, (name, size, color) in enumerate(parts):
        axes.barh(0, size / GIB, left=left / GIB, height=0.5, color=color, edgecolor="none")
        middle, label = left + size / 2, f"{name}\n{format_bytes(size)}"
        if turn % 2 == 0:
            axes.text(middle / GIB, 0.34, label, ha="center", va="bottom")
        elif turn == 1:
            below = middle
            axes.text(middle / GIB, -0.34, label, ha="center", va="top")
        else:  # a large model leaves the two lower labels no room side by side
            beside = middle - below > 0.4 * total_bytes
            axes.text(total_bytes / GIB, -0.34 if beside else -1.55, label, ha="right", va="top")
        left += size
    axes.set(xlim=(0, total_bytes / GIB), ylim=(-2.5, 1.1))
    axes.set_axis_off()
    alt = f"A bar of {format_bytes(total_bytes)}: " + ", ".join(
        f"{name.replace(chr(10), ' ')} {format_bytes(size)}" for name, size, _ in parts
    )
    return picture(figure, alt=alt, caption="The memory of the GPU that limits, to scale.")


def limits(plans: Mapping[str, Plan]) -> Picture:
    """Blocks that each rank's own pool would hold, and the part that no sequence can use.

    Parameters
    ----------
    plans : mapping of str to Plan
        What was changed → the plan that follows, the unchanged one first.
    """
    bars = [(name, rank) for name, plan in plans.items() for rank in plan.ranks]
    figure, (axes,) = canvas(0.9 + 0.13 * len(bars) + 0.26 * len(plans))
    most = max(rank.own_blocks for _, rank in bars)
    y, ticks = 0.0, []
    for name, plan in plans.items():
        top = y
        for rank in plan.ranks:
            axes.barh(y, rank.blocks, height=0.8, color=BLUE, edgecolor="none")
            axes.barh(y, rank.own_blocks - rank.blocks, left=rank.blocks, height=0.8, color=ORANGE, edgecolor="none")
            y += 1
        axes.plot([plan.blocks, plan.blocks], [top - 0.6, y - 0.4], color=INK, lw=1)
        axes.text(plan.blocks, y - 0.2, f"{counted(plan.blocks, 'block')} for all", ha="right", va="top")
        ticks.append(((top + y - 1) / 2, name))
        y += 2
    axes.set_yticks([t for t, _ in ticks], [name for _, name in ticks])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set(xlim=(0, most * 1.02), xlabel="blocks in each rank's own pool, one bar a rank")
    axes.locator_params(axis="x", nbins=5, integer=True)
    axes.xaxis.set_major_formatter(lambda blocks, _: format_count(blocks))
    axes.invert_yaxis()
    alt = "Bars of the blocks that each rank's own pool holds, cut at the fewest. " + " ".join(
        f"{name}: {counted(plan.blocks, 'block')} for all, {format_bytes(plan.stranded_bytes)} stranded."
        for name, plan in ((name.replace("\n", " "), plan) for name, plan in plans.items())
    )
    caption = (
        "A sequence needs the same blocks on every rank. Blue is used; orange is stranded on ranks that have more."
    )
    return picture(figure, alt=alt, caption=caption)


def two_rules(*, served: Mapping[str, Served], blocks: int) -> Picture:
    """Blocks in use, step by step, under two admission rules.

    Parameters
    ----------
    served : mapping of str to Served
        Rule → what became of the same arrivals: first without room to finish, then with.
    blocks : int
        Blocks that requests can hold.
    """
    figure, (axes,) = canvas(2.7)
    longest = max(run.steps for run in served.values())
    axes.axhline(blocks, color=INK, lw=0.8, ls=(0, (4, 3)))
    axes.text(
        longest,
        blocks * 1.01,
        f"the pool, {counted(blocks, 'block')}",
        va="bottom",
        ha="right",
    )
    for turn, ((rule, run), color) in enumerate(zip(served.items(), (ORANGE, BLUE), strict=True)):
        axes.plot(range(run.steps), run.held, color=color, lw=1.3)
        hits = [step for step, count in enumerate(run.preempted) if count]
        axes.plot(hits, [blocks * 1.14] * len(hits), "|", color=color, ms=7, mew=1)
        axes.text(0.02 + 0.5 * turn, 1.04, rule, color=color, transform=axes.transAxes)
    axes.set(xlabel="engine step", ylabel="blocks in use", xlim=(0, longest), ylim=(0, blocks * 1.22))
    first, second = served.values()
    alt = (
        f"Blocks in use over {counted(longest, 'step')} against a pool of {format_count(blocks)}. Without room to "
        f"finish at most {format_count(first.peak)} are in use, with {counted(first.preemptions, 'preemption')}; "
        f"with room to finish at most {format_count(second.peak)}, with {counted(second.preemptions, 'preemption')}."
    )
    caption = "The same arrivals under two rules. Marks above the pool are preemptions. Simulated, in engine steps."
    return picture(figure, alt=alt, caption=caption)


def cliff(*, shares: Sequence[float], served: Sequence[Served]) -> Picture:
    """What a smaller pool costs the rule that looks at present use.

    Parameters
    ----------
    shares : sequence of float
        Pool over the most blocks that the arrivals would hold at once, 0 to 1 and above.
    served : sequence of Served
        What became of the arrivals in each of these pools.
    """
    figure, (work, wait) = canvas(2.3, 2)
    percent = [100 * s for s in shares]
    wasted = [100 * run.wasted for run in served]
    pauses = [max(run.stalls.values()) - 1 for run in served]  # 0 where no token comes late
    for axes, values, title in (
        (work, wasted, "tokens computed again, %"),
        (wait, pauses, "longest pause in a response, steps"),
    ):
        axes.plot(percent, values, "o-", color=ORANGE, ms=3.5)
        axes.axvline(100, color=INK, lw=0.8, ls=(0, (4, 3)))
        axes.set(xlabel="pool, % of the peak need", ylim=(0, max(1.0, *values) * 1.15))
        axes.set_title(title, fontsize=8.5, loc="left")
    alt = "As the pool shrinks below the peak need: " + "; ".join(
        f"at {significant(p, 3)}% {significant(w, 2)}% of the tokens are computed again and the longest pause is "
        f"{counted(s, 'step')}"
        for p, w, s in zip(percent, wasted, pauses, strict=True)
    )
    caption = (
        "Admission by present use, the same arrivals, smaller and smaller pools. With room to finish both stay flat."
    )
    return picture(figure, alt=alt, caption=caption)
