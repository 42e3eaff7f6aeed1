"""Drawings of the speculation chapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from calc.figures import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, Picture, boxes, canvas, picture
from calc.units import counted, format_count, format_percent, significant

COLORS = (BLUE, ORANGE, GREEN, PURPLE)
DASHED = (0, (4, 3))


def _word(axes: Axes, x: float, y: float, text: str, color: str, filled: bool) -> None:
    boxes(axes, [(x + 0.06, y, 0.88, 0.62)], fc=color if filled else "none", ec=color, lw=1.1, alpha=0.9)
    axes.text(x + 0.5, y + 0.31, text, ha="center", va="center", color="white" if filled else INK)


def round_walk(
    *,
    before: str,
    words: Sequence[str],
    target: Sequence[float],
    draft: Sequence[float],
    accepted: int,
    last: str,
) -> Picture:
    """One round: drafted words with the chances both models give them, and what comes out.

    Parameters
    ----------
    before : str
        The newest word before the round.
    words : sequence of str
        Drafted words.
    target, draft : sequence of float
        Their chances by both models.
    accepted : int
        How many of them are accepted.
    last : str
        The word that the round ends with.
    """
    figure, (axes,) = canvas(2.9)
    count = len(words)
    _word(axes, -1, 2.5, before, GREY, False)
    for place, word in enumerate(words):
        passed, tested = place < accepted, place <= accepted
        _word(axes, place, 2.5, word, BLUE if passed else ORANGE if tested else GREY, False)
        if not tested:
            axes.text(place + 0.5, 1.75, "not\ntested", ha="center", va="center", color=GREY)
            continue
        for x, chance, color, name in ((0.2, draft[place], GREY, "q"), (0.55, target[place], INK, "p")):
            boxes(axes, [(place + x, 1.22, 0.25, 0.85 * chance)], fc=color, ec="none", alpha=0.75)
            axes.text(place + x + 0.125, 1.18, name, ha="center", va="top", fontsize=7.5)
        share = min(1.0, target[place] / draft[place])
        axes.text(place + 0.5, 0.94, f"keep {format_percent(share, 2)}", ha="center", va="top")
        mark, color = ("✓", BLUE) if passed else ("✗", ORANGE)
        axes.text(place + 0.5, 2.28, mark, ha="center", va="center", color=color)
        if passed:
            _word(axes, place, 0, word, BLUE, True)
    _word(axes, accepted, 0, last, GREEN, True)
    axes.text(accepted + 0.5, -0.12, "bonus" if accepted == count else "correction", ha="center", va="top", color=GREEN)
    for y, text in ((2.81, "draft"), (1.65, "test"), (0.31, "out")):
        axes.text(-1.1, y, text, ha="right", va="center")
    axes.set(xlim=(-1.6, count + 1.05), ylim=(-0.5, 3.25))
    axes.set_axis_off()
    out = " ".join((*words[:accepted], last))
    alt = (
        f"After “{before}” the drafter proposes {counted(count, 'word')}: {', '.join(words)}. The target accepts "
        f"{format_count(accepted)}"
        + (" and adds a bonus" if accepted == count else f", rejects “{words[accepted]}” and corrects it")
        + f": “{last}”. The round emits “{out}”."
    )
    caption = "One round. Bars: the word's chance by the drafter, q, and by the target, p."
    return picture(figure, alt=alt, caption=caption)


def shared_chance(*, words: Sequence[str], target: Sequence[float], draft: Sequence[float], before: str) -> Picture:
    """Two distributions over the words: what they share is accepted, what the target has more is the residual.

    Parameters
    ----------
    words : sequence of str
        The vocabulary.
    target, draft : sequence of float
        Chances of the next word.
    before : str
        The word that it follows.
    """
    figure, (axes,) = canvas(2.3)
    for place, (p, q) in enumerate(zip(target, draft, strict=True)):
        common = min(p, q)
        boxes(axes, [(place + 0.15, 0, 0.7, common)], fc=BLUE, ec="none", alpha=0.85)
        if p > q:
            boxes(axes, [(place + 0.15, q, 0.7, p - q)], fc=GREEN, ec="none", alpha=0.85)
        elif q > p:
            boxes(axes, [(place + 0.15, p, 0.7, q - p)], fc="none", ec=ORANGE, lw=1.1)
        axes.plot([place + 0.12, place + 0.88], [p, p], color=INK, lw=1.6)
    both = sum(map(min, target, draft))
    top = max(*target, *draft)
    axes.set_xticks([place + 0.5 for place in range(len(words))], list(words))
    axes.tick_params(axis="x", length=0)
    axes.set(ylabel="chance", ylim=(0, 1.5 * top), xlim=(0, len(words)))
    key = (
        (BLUE, "common: accepted"),
        (GREEN, "target has more: the replacement"),
        (ORANGE, "drafter has more: rejected"),
    )
    for row, (color, text) in enumerate(key):
        axes.text(0.02, 0.98 - 0.105 * row, text, transform=axes.transAxes, color=color, va="top")
    share = format_percent(both)
    alt = (
        f"Chances of the word after “{before}” by target and drafter. They have {share} in common, which is accepted; "
        "what the drafter has too much is rejected, and replaced by what the target has more. The sum is the target."
    )
    caption = f"The word after “{before}”. Lines: the target. Blue and green together fill it exactly. Derived."
    return picture(figure, alt=alt, caption=caption)


def reached_positions(*, runs: Mapping[str, Sequence[float]], steady: float, start: str) -> Picture:
    """Share of rounds that accept each position of the draft, of several drafters, against a steady acceptance.

    Parameters
    ----------
    runs : mapping of str to sequence of float
        Name → share of rounds that accept position 1, 2, …
    steady : float
        Acceptance of the geometric curve drawn beside them.
    start : str
        What that acceptance is, for its label.
    """
    figure, (axes,) = canvas(2.5)
    longest = max(map(len, runs.values()))
    places = range(1, longest + 1)
    axes.plot(places, [100 * steady**n for n in places], color=GREY, ls=DASHED)
    axes.text(0.99, 0.99, start, transform=axes.transAxes, ha="right", va="top", color=GREY)
    for place, ((name, shares), color) in enumerate(zip(runs.items(), COLORS, strict=False)):
        axes.plot(range(1, len(shares) + 1), [100 * share for share in shares], color=color, marker="o", ms=3)
        model = name.partition(",")[0]  # the whole name would run into the lines
        axes.text(0.03, 0.05 + 0.1 * place, model, transform=axes.transAxes, color=color)
    axes.set(xlabel="position in the draft", ylabel="rounds that accept it, %", ylim=(min([0.0, *_lows(runs)]), 104))
    axes.set_xticks(list(places))
    told = "; ".join(
        f"{name}: {format_percent(shares[0])} at the first position, {format_percent(shares[-1], 2)} at the last"
        for name, shares in runs.items()
    )
    alt = f"Share of rounds that accept each position of the draft. {told}. A steady acceptance falls more slowly."
    caption = (
        "The share falls along the draft, and faster than a steady acceptance would make it. From published lengths."
    )
    return picture(figure, alt=alt, caption=caption)


def _lows(runs: Mapping[str, Sequence[float]]) -> list[float]:
    return [100 * min(shares) - 2 for shares in runs.values() if min(shares) < 0]


def speedup_by_draft(*, batches: Mapping[int, Mapping[int, tuple[float, float, float]]]) -> Picture:
    """Measured speed-up by draft length, one line a batch size, with the range over repeats.

    Parameters
    ----------
    batches : mapping of int to mapping
        Batch size → draft length → (median, lowest, highest) speed-up.
    """
    figure, (axes,) = canvas(2.7)
    axes.axhline(1, color=INK, lw=0.8, ls=DASHED)
    lengths = sorted({k for points in batches.values() for k in points})
    shift = {batch: 0.07 * (place - (len(batches) - 1) / 2) for place, batch in enumerate(batches)}
    ends = []
    for (batch, points), color in zip(batches.items(), COLORS, strict=False):
        x = [k + shift[batch] for k in points]
        middle = [point[0] for point in points.values()]
        below = [point[0] - point[1] for point in points.values()]
        above = [point[2] - point[0] for point in points.values()]
        axes.errorbar(x, middle, yerr=[below, above], color=color, marker="o", ms=3, lw=1.4, elinewidth=0.8)
        ends.append((middle[-1], batch, color))
    low = min(point[1] for points in batches.values() for point in points.values())
    high = max(point[2] for points in batches.values() for point in points.values())
    room = max(high, 1) - min(low, 1)
    previous = None
    for value, batch, color in sorted(ends):
        at = value if previous is None else max(value, previous + 0.09 * room)
        axes.text(lengths[-1] + 0.25, at, f"batch {batch}", color=color, va="center")
        previous = at
    axes.text(lengths[0] - 0.95, 1 + 0.015 * room, "no draft", va="bottom")
    axes.set_xticks(lengths)
    axes.set(xlabel="draft tokens in a round", ylabel="speed-up between tokens", xlim=(lengths[0] - 1, lengths[-1] + 1))
    told = "; ".join(
        f"batch {batch}: " + ", ".join(f"{significant(point[0], 3)} with {k}" for k, point in points.items())
        for batch, points in batches.items()
    )
    caption = "Measured: median of the repeats; bars span the ratios of all pairs of repeats. A CPU and a small model."
    return picture(figure, alt=f"Speed-up between tokens by draft length. {told}.", caption=caption)


def check_cost(*, costs: Mapping[str, Mapping[int, float]], draft_tokens: int, tokens: float, chip: str) -> Picture:
    """Floor of the step that checks a draft over that of a plain step, by batch size.

    Parameters
    ----------
    costs : mapping of str to mapping
        Model → batch size → ratio of the floors.
    draft_tokens : int
        Draft tokens of each sequence.
    tokens : float
        Tokens of a round: where the ratio passes it, speculation can't win.
    chip : str
        Its name.
    """
    figure, (axes,) = canvas(2.6)
    top = 1.12 * max(tokens, *(cost for points in costs.values() for cost in points.values()))
    axes.axhline(tokens, color=INK, lw=0.8, ls=DASHED)
    first = min(min(points) for points in costs.values())
    said = f"a round emits {significant(tokens, 3)} token" + ("" if significant(tokens, 3) == "1" else "s")
    axes.text(first, tokens + 0.02 * top, said, va="bottom")
    for place, ((model, points), color) in enumerate(zip(costs.items(), COLORS, strict=False)):
        axes.plot(list(points), list(points.values()), color=color, marker="o", ms=3)
        axes.text(0.98, 0.06 + 0.1 * place, model, transform=axes.transAxes, color=color, ha="right")
    axes.set_xscale("log", base=2)
    ticks = sorted({batch for points in costs.values() for batch in points})
    axes.set_xticks(ticks[::2], [format_count(tick) for tick in ticks[::2]])
    axes.minorticks_off()
    axes.set(xlabel="sequences that decode together", ylabel="check ÷ plain step, floors", ylim=(0, top))
    told = "; ".join(
        f"{model}: {significant(points[min(points)], 3)} at {format_count(min(points))}, "
        f"{significant(points[max(points)], 3)} at {format_count(max(points))}"
        for model, points in costs.items()
    )
    alt = (
        f"Floor of a step that checks {counted(draft_tokens, 'draft token')} for each sequence over the floor of a "
        "plain "
        f"step, on {chip}, by batch size. {told}; {said}."
    )
    caption = (
        f"What checking costs at the floors, on {chip}, before the drafter is paid; for mixtures on average. Derived; "
        "floors, not times."
    )
    return picture(figure, alt=alt, caption=caption)
