"""Problems about answers: where they part, and what it proves that they don't."""

from __future__ import annotations

import random
from types import SimpleNamespace as Numbers

from calc.latency import requests_to_prove
from calc.practice._problem import Problem
from calc.practice.engine_selection._model import ANSWERS, PROOF
from calc.selection import agreement_bound, equal_share, first_divergence, rule_of_three
from calc.units import significant
from calc.working import working


def _pair(n: Numbers) -> tuple[list[int], list[int]]:
    """Two answers that part at a drawn place and agree again here and there."""
    rng = random.Random(f"{n.apart}-{n.again}-{n.length}")
    one = [int(rng.random() * 90) + 10 for _ in range(n.length)]
    other = one[: n.apart] + [token + 1 for token in one[n.apart :]]
    for place in range(n.apart + 1, min(n.apart + 1 + n.again, n.length)):
        other[place] = one[place]
    return one, other


def _same_places(n: Numbers) -> int:
    one, other = _pair(n)
    return sum(a == b for a, b in zip(one, other, strict=True))


divergence = Problem(
    id="engine_selection/divergence",
    title="Where they part",
    level=1,
    step=ANSWERS,
    printed={"apart": 6, "again": 3, "length": 14},
    choices={"apart": (4, 5, 7, 8, 9), "again": (2, 3, 4), "length": (14, 15, 16)},
    ask=lambda n: (
        "Two engines answered one prompt, greedily. The first wrote the tokens "
        f"{' '.join(map(str, _pair(n)[0]))}, the second {' '.join(map(str, _pair(n)[1]))}. How many tokens can be "
        "compared as answers to the same text, the first different one included?"
    ),
    unit="tokens",
    exact=True,
    answer=lambda n: n.apart + 1,
    mistakes={
        "leaves the first different token out": lambda n: n.apart,
        "counts every place where the two agree": _same_places,
        "compares all tokens": lambda n: n.length,
    },
    hint="Each token is chosen from all before it. After the first difference the two texts are no longer the same.",
    solution=lambda n: [
        f"The first {n.apart} tokens agree; token number {(first_divergence(*_pair(n)) or 0) + 1} differs.",
        f"What follows answers two different texts. Comparable: {n.apart} + 1 = {n.apart + 1} tokens.",
    ],
)

agreement_in_all = Problem(
    id="engine_selection/agreement-in-all",
    title="All of them agreed",
    level=2,
    step=PROOF,
    printed={"samples": 50, "percent": 95},
    choices={"samples": (20, 25, 40, 60, 80, 120, 150, 200), "percent": (90, 95, 99)},
    possible=lambda n: not (n.percent == 95 and n.samples > 150),
    ask=lambda n: (
        f"Two engines gave equal answers to all of {n.samples} independent prompts. With a confidence of {n.percent}%, "
        "what is the largest share of prompts that may still get different answers?"
    ),
    unit="x",
    answer=lambda n: agreement_bound(samples=n.samples, confidence=n.percent / 100),
    mistakes={
        "takes one over the number of prompts": lambda n: 1 / n.samples,
        "takes what the confidence leaves": lambda n: 1 - n.percent / 100,
        "stops at the rule of three": lambda n: rule_of_three(samples=n.samples) if n.percent == 95 else None,
        "forgets the root": lambda n: 1 - (1 - n.percent / 100) / n.samples,
    },
    hint="If a share p differs, all prompts agree with a probability of 1 − p to the power of their number.",
    solution=lambda n: [
        f"In the head, for 95%: 3 / {n.samples} = {significant(rule_of_three(samples=n.samples))}, a little more.",
        working(agreement_bound, samples=n.samples, confidence=n.percent / 100),
    ],
)

requests_for_proof = Problem(
    id="engine_selection/requests-for-proof",
    title="How many prompts",
    level=2,
    step=PROOF,
    printed={"percent": 98, "different": 2, "confidence": 95},
    choices={"percent": (90, 95, 98, 99), "different": (0, 1, 2, 3), "confidence": (90, 95, 99)},
    ask=lambda n: (
        f"You want to claim that at least {n.percent}% of the prompts get equal answers, with a confidence of "
        f"{n.confidence}%. You expect to see {n.different} different in the sample. How many independent prompts must "
        "the sample have?"
    ),
    unit="prompts",
    exact=True,
    answer=lambda n: requests_to_prove(n.percent, n.different, confidence=n.confidence / 100),
    mistakes={
        "takes what makes the sample's own share right": lambda n: round(n.different / (1 - n.percent / 100)) or None,
        "counts as if none were different": lambda n: requests_to_prove(n.percent, 0, confidence=n.confidence / 100),
        "takes one over the share that may differ": lambda n: round(1 / (1 - n.percent / 100)),
    },
    hint="The sample must make so few differences unlikely if the true share were just below the claim.",
    solution=lambda n: [
        "The smallest sample in which so few differences, or fewer, have a probability of at most "
        f"{significant(1 - n.confidence / 100)} when {significant(100 - n.percent)}% of the prompts differ.",
        f"That is the smallest n for which Σ C(n, i) · {significant(1 - n.percent / 100)}^i · "
        f"{significant(n.percent / 100)}^(n − i), summed for i from 0 to {n.different}, is no more: "
        f"{requests_to_prove(n.percent, n.different, confidence=n.confidence / 100):,} prompts.",
    ],
)


def _longer(n: Numbers) -> float:
    return equal_share(flip_rate=_flip(n), answer_tokens=n.long)


def _flip(n: Numbers) -> float:
    return 1 - (n.equal / 100) ** (1 / n.short)


longer_answers = Problem(
    id="engine_selection/longer-answers",
    title="Longer answers",
    level=2,
    step=ANSWERS,
    printed={"equal": 92, "short": 64, "long": 256},
    choices={"equal": (80, 85, 92, 95, 98), "short": (32, 64, 128), "long": (256, 512, 1024)},
    possible=lambda n: (n.equal / 100) ** (n.long / n.short) > 0.02,
    ask=lambda n: (
        f"With answers of {n.short} tokens, {n.equal}% were equal on two engines. If every token has the same chance "
        f"to be the first different one, what share is equal with answers of {n.long:,} tokens?"
    ),
    unit="x",
    answer=_longer,
    mistakes={
        "takes the share of the short answers": lambda n: n.equal / 100,
        "lets the different ones grow in proportion": lambda n: (
            max(0, 1 - (1 - n.equal / 100) * n.long / n.short) or None
        ),
        "takes the share that differs": lambda n: 1 - _longer(n),
    },
    hint="Find the chance of one token first: the short answers are equal if none of their tokens flips.",
    solution=lambda n: [
        f"One token: 1 − {n.equal / 100:g}^(1/{n.short}) = {significant(_flip(n), 6)}.",
        working(equal_share, flip_rate=_flip(n), answer_tokens=n.long),
    ],
)
