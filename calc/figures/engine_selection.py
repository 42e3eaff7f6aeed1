"""Drawings of the chapter on choosing an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from calc.figures import BLUE, GREY, INK, ORANGE, Picture, canvas, picture
from calc.selection import NO, YES, Agreement, Candidate, Verdict, equal_share
from calc.units import counted, format_percent, significant

MARKS = {YES: ("o", BLUE, BLUE, 6), NO: ("x", ORANGE, ORANGE, 6.5)}
SHORT = {"tgi": "TGI", "transformers": "transformers"}
WORDS = {"passes": "passes", "open": "open", "rejected": "rejected"}


def compatibility(*, verdicts: Sequence[Verdict]) -> Picture:
    """Every engine against everything that is asked: yes, no and unknown.

    Parameters
    ----------
    verdicts : sequence of Verdict
        All of one deployment.
    """
    asked = [c.question for c in verdicts[0].cells]
    figure, (axes,) = canvas(1.7 + 0.25 * len(verdicts))
    for row, verdict in enumerate(verdicts):
        y = -row
        strong = INK if verdict.passes else GREY
        axes.text(-0.7, y, SHORT.get(verdict.engine, verdict.name), ha="right", va="center", color=strong)
        for column, found in enumerate(verdict.cells):
            marker, edge, face, size = MARKS.get(found.value, ("o", GREY, "none", 6))
            axes.plot(column, y, marker, mec=edge, mfc=face, ms=size, mew=1.3)
        axes.text(len(asked) - 0.3, y, WORDS[verdict.result], ha="left", va="center", color=strong)
    for column, question in enumerate(asked):
        axes.text(column - 0.1, 0.7, _short(question), rotation=55, ha="left", va="bottom", fontsize=8.5)
    axes.set(xlim=(-0.8, len(asked) + 1.2), ylim=(-len(verdicts) + 0.4, 0.6))
    axes.set_axis_off()
    told = "; ".join(
        f"{v.name}: {WORDS[v.result]}"
        + (f" ({', '.join(c.question for c in v.rejecting or v.open)})" if not v.passes else "")
        for v in verdicts
    )
    return picture(
        figure,
        alt=f"{len(verdicts)} engines against {counted(len(asked), 'question')}: {told}.",
        caption="Dot: yes. Cross: no. Ring: unknown, which is not yes. Each mark has a version, a source and a date.",
    )


def _short(question: str) -> str:
    label, _, option = question.partition(": ")
    shown = {"GPU": "GPU", "architecture": option, "checkpoint format": option, "license": "license"}
    return shown.get(label, option if label != "quantization on this GPU" else f"{option} on it")


def still_equal(*, pairs: Mapping[str, Agreement]) -> Picture:
    """Share of answers that are still equal after each token, counted and by a constant chance to flip.

    Parameters
    ----------
    pairs : mapping of str to Agreement
        What was compared → the result; at most three.
    """
    figure, (axes,) = canvas(2.7)
    ends = []
    longest = max(max(found.lengths) for found in pairs.values())
    for (name, found), color in zip(pairs.items(), (BLUE, ORANGE, GREY), strict=False):
        tokens = np.arange(0, longest + 1)
        counted_share = [_equal_after(found, int(t)) for t in tokens]
        axes.step(tokens, [100 * s for s in counted_share], where="post", color=color)
        model = [100 * equal_share(flip_rate=found.flip_rate, answer_tokens=int(t)) for t in tokens]
        axes.plot(tokens, model, color=color, lw=0.8, ls=(0, (4, 3)))
        ends.append([100 * counted_share[-1], name, color])
    ends.sort()
    for low, high in zip(ends, ends[1:], strict=False):  # labels keep their distance
        high[0] = max(high[0], low[0] + 9)
    for y, name, color in ends:
        axes.text(longest + 0.6, y, name, color=color, va="center")
    axes.set(xlim=(0, 1.5 * longest), ylim=(0, 105), xlabel="tokens of the answer", ylabel="answers still equal, %")
    axes.set_xticks([t for t in range(0, longest + 1, 8)])
    alt = "Share of answers still equal after each token. " + "; ".join(
        f"{name}: {found.equal} of {found.compared} equal to the end" for name, found in pairs.items()
    )
    return picture(
        figure,
        alt=alt + ".",
        caption="Greedy answers to the same prompts. Steps: counted. Dashed: the same chance to flip at every token.",
    )


def _equal_after(found: Agreement, tokens: int) -> float:
    return sum(d is None or d >= tokens for d in found.divergences) / found.compared


def cost_by_utilization(*, candidates: Sequence[Candidate], other_price: float, now: float, currency: str) -> Picture:
    """Price of a million good tokens against utilization, and where it meets another price.

    Parameters
    ----------
    candidates : sequence of Candidate
    other_price : float
        Another price of a million tokens.
    now : float
        Utilization that the chapter assumes.
    currency : str
        Sign to write before a price.
    """
    figure, (axes,) = canvas(2.8)
    shares = np.linspace(0.05, 1, 96)
    words, ends = [], []
    for candidate, color in zip(candidates, (BLUE, ORANGE), strict=False):
        full = candidate.cost_per_million * candidate.busy_share
        axes.plot(100 * shares, full / shares, color=color)
        ends.append([full, candidate.name, color])
        meets = full / other_price
        if 0.05 <= meets <= 1:
            axes.plot(100 * meets, other_price, "o", color=color, ms=5)
        words.append(
            f"{candidate.name} costs {currency}{significant(full, 3)} for a million good tokens at full load and meets "
            f"the other price at {format_percent(meets, 2)}"
        )
    top = 1.15 * max(full / now for full, _, _ in ends)
    top = max(top, 1.3 * other_price)
    ends.sort()
    for low, high in zip(ends, ends[1:], strict=False):
        high[0] = max(high[0], low[0] + 0.09 * top)
    for y, name, color in ends:
        axes.text(101, y, f" {name}", color=color, va="center")
    axes.axhline(other_price, color=GREY, lw=0.9)
    axes.text(101, other_price + 0.015 * top, " other price", color=GREY, va="bottom", fontsize=8)
    axes.axvline(100 * now, color=INK, lw=0.8, ls=(0, (4, 3)))
    axes.set(xlim=(0, 132), ylim=(0, top), xlabel="utilization, %", ylabel=f"{currency} for a million good tokens")
    axes.set_xticks([0, 20, 40, 60, 80, 100])
    return picture(
        figure,
        alt="Price of a million good tokens against utilization. " + "; ".join(words) + ".",
        caption="Good tokens measured, prices assumed. Dashed: assumed utilization. Dots: as dear as the other price.",
    )
