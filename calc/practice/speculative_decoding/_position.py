"""Problems about one position of a draft: the test, what two models share, and the correction."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import speculation
from calc.practice._problem import Problem
from calc.practice.speculative_decoding._model import DRAFTS, POSITION, ROUND, TARGETS, WORDS_OF, listed, rows
from calc.units import format_percent, significant

keep = Problem(
    id="speculative_decoding/keep",
    title="Keep this token",
    level=1,
    step=ROUND,
    printed={"p": 12, "q": 32},
    choices={"p": (6, 12, 15, 21, 28, 35), "q": (20, 32, 40, 55, 64, 80)},
    possible=lambda n: n.p < n.q,
    ask=lambda n: (
        f"The drafter drew a token to which it gives {n.q}%. The target gives it {n.p}%. With what chance does "
        "speculative sampling accept it?"
    ),
    unit="x",
    answer=lambda n: n.p / n.q,
    mistakes={
        "turns the ratio around": lambda n: n.q / n.p,
        "takes the target's chance": lambda n: n.p / 100,
        "takes what the drafter has too much": lambda n: (n.q - n.p) / 100,
        "gives the chance of a rejection": lambda n: 1 - n.p / n.q,
    },
    hint="The drafter proposes it too often. By what factor?",
    solution=lambda n: [
        f"The drafter proposes it {n.q} times in 100, the target wants it {n.p} times.",
        f"Accept {n.p}/{n.q} = {significant(n.p / n.q)}, or {format_percent(n.p / n.q, 4)}, of the proposals.",
    ],
)


def _shared(n: Numbers) -> float:
    return float(speculation.overlap(*rows(n)))


shared = Problem(
    id="speculative_decoding/shared",
    title="What two models share",
    level=2,
    step=POSITION,
    printed={"target": (45, 5, 35, 15), "draft": (20, 50, 20, 10)},
    choices={"target": TARGETS, "draft": DRAFTS},
    ask=lambda n: (
        f"The target's next word: {listed(n.target)}. The drafter's: {listed(n.draft)}. How likely is it that "
        "speculative sampling accepts the drafter's word?"
    ),
    unit="x",
    answer=_shared,
    mistakes={
        "waits until both draw the same word": lambda n: float(sum(p * q for p, q in zip(*rows(n), strict=True))),
        "counts every difference twice": lambda n: max(0.0, float(1 - 2 * speculation.distance(*rows(n)))) or None,
        "gives the chance of a rejection": lambda n: 1 - _shared(n),
        "averages over the words": lambda n: float(
            sum(min(1, p / q) for p, q in zip(*rows(n), strict=True)) / len(n.target)
        ),
    },
    hint="For each word, the smaller of the two chances.",
    solution=lambda n: [
        "Smaller chance of each word: "
        + " + ".join(f"{min(p, q)}%" for p, q in zip(n.target, n.draft, strict=True))
        + f" = {format_percent(_shared(n), 4)}.",
        f"So it accepts with {significant(_shared(n))}.",
    ],
)


def _word(n: Numbers) -> int:
    """The word that the target has most of beyond the drafter."""
    return max(range(len(WORDS_OF)), key=lambda i: n.target[i] - n.draft[i])


def _corrected(n: Numbers) -> float:
    return float(speculation.residual(*rows(n))[_word(n)])


def _missing(n: Numbers) -> int:
    return sum(max(p - q, 0) for p, q in zip(n.target, n.draft, strict=True))


correction = Problem(
    id="speculative_decoding/correction",
    title="The correction",
    level=3,
    step=POSITION,
    printed={"target": (10, 20, 30, 40), "draft": (40, 10, 40, 10)},
    choices={"target": TARGETS, "draft": DRAFTS},
    possible=lambda n: _corrected(n) < 1,
    ask=lambda n: (
        f"The target's next word: {listed(n.target)}. The drafter's: {listed(n.draft)}. The drafter's word was "
        f"rejected. How likely is {WORDS_OF[_word(n)]} in its place?"
    ),
    unit="x",
    answer=_corrected,
    mistakes={
        "draws from the target again": lambda n: n.target[_word(n)] / 100,
        "forgets to scale the rest to 1": lambda n: (n.target[_word(n)] - n.draft[_word(n)]) / 100,
        "counts the way there": lambda n: (1 - _shared(n)) * n.target[_word(n)] / 100,
        "picks among the words that the target wants more": lambda n: (
            1 / sum(p > q for p, q in zip(n.target, n.draft, strict=True))
        ),
    },
    hint="What does the target have of each word that the drafter does not already bring?",
    solution=lambda n: [
        "The target has more of "
        + ", ".join(f"{word} ({p - q} points)" for word, p, q in zip(WORDS_OF, n.target, n.draft, strict=True) if p > q)
        + f": {_missing(n)} points in all.",
        f"{WORDS_OF[_word(n)]} is {n.target[_word(n)] - n.draft[_word(n)]}/{_missing(n)} = "
        f"{significant(_corrected(n))} of them, or {format_percent(_corrected(n), 4)}.",
    ],
)
