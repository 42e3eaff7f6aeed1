"""Problems about what engines print: counters, rates and lengths."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import speculation
from calc.practice._problem import Problem
from calc.practice.speculative_decoding._model import BY_POSITION, PROGRESS, WORDS
from calc.units import format_count, format_percent, significant
from calc.working import working


def _rounds(n: Numbers) -> int:
    return n.hundreds * 100


def _drafted(n: Numbers) -> int:
    return _rounds(n) * n.draft_tokens


def _accepted(n: Numbers) -> int:
    return _drafted(n) * n.percent // 100


counters = Problem(
    id="speculative_decoding/counters",
    title="Two counters",
    level=1,
    step=WORDS,
    printed={"hundreds": 14, "draft_tokens": 5, "percent": 34},
    choices={"hundreds": (3, 7, 14, 26, 41), "draft_tokens": (2, 3, 4, 5, 7), "percent": (18, 34, 46, 57, 72, 85)},
    ask=lambda n: (
        f"An engine that drafts {n.draft_tokens} tokens in every round has counted {format_count(_drafted(n))} drafted "
        f"and {format_count(_accepted(n))} accepted tokens. How many tokens did a round emit on average?"
    ),
    unit="tokens",
    per=("round",),
    answer=lambda n: speculation.acceptance_length(accepted=_accepted(n), rounds=_rounds(n)),
    mistakes={
        "leaves out the correction or bonus": lambda n: _accepted(n) / _rounds(n),
        "takes the rate for a chance": lambda n: speculation.expected_tokens(
            acceptance=n.percent / 100, draft_tokens=n.draft_tokens
        ),
        "adds one to the rate": lambda n: 1 + n.percent / 100,
        "waits for the first failure": lambda n: 1 / (1 - n.percent / 100),
    },
    hint="How many rounds were there?",
    solution=lambda n: [
        f"{format_count(_drafted(n))} drafted over {n.draft_tokens} are {format_count(_rounds(n))} rounds.",
        working(speculation.acceptance_length, accepted=_accepted(n), rounds=_rounds(n)),
    ],
)


def _printed(n: Numbers) -> float:
    emitted = speculation.expected_accepted(acceptance=n.percent / 100, draft_tokens=n.draft_tokens)
    return emitted / n.draft_tokens


printed_rate = Problem(
    id="speculative_decoding/printed-rate",
    title="The rate that is printed",
    level=2,
    step=PROGRESS,
    printed={"percent": 75, "draft_tokens": 6},
    choices={"percent": (55, 60, 65, 75, 85, 90), "draft_tokens": (2, 3, 4, 6, 7)},
    ask=lambda n: (
        f"Every draft token that is tested is accepted with {n.percent}%, and drafts have {n.draft_tokens} tokens. "
        "What "
        "draft acceptance rate does an engine print that divides accepted by drafted tokens?"
    ),
    unit="x",
    answer=_printed,
    mistakes={
        "prints the chance itself": lambda n: n.percent / 100,
        "counts the correction or bonus as a draft": lambda n: (
            speculation.expected_tokens(acceptance=n.percent / 100, draft_tokens=n.draft_tokens) / n.draft_tokens
        ),
        "asks for the whole draft": lambda n: (n.percent / 100) ** n.draft_tokens,
        "divides by one token more": lambda n: _printed(n) * n.draft_tokens / (n.draft_tokens + 1),
    },
    hint="Tokens behind a rejection are drafted too.",
    solution=lambda n: [
        working(speculation.expected_accepted, acceptance=n.percent / 100, draft_tokens=n.draft_tokens),
        f"Over {n.draft_tokens} drafted: {significant(_printed(n))}, or {format_percent(_printed(n), 4)}.",
    ],
)


def _lengths(n: Numbers) -> dict[int, float]:
    """Lengths at one, two and three draft tokens, printed to 0.01."""
    first, second, third = n.first / 100, n.second / 100, n.third / 100
    return {
        1: round(1 + first, 2),
        2: round(1 + first + first * second, 2),
        3: round(1 + first + first * second * (1 + third), 2),
    }


def _third(n: Numbers) -> float:
    return speculation.by_position(_lengths(n))[3][1]


conditional = Problem(
    id="speculative_decoding/conditional",
    title="The third token",
    level=3,
    step=BY_POSITION,
    printed={"first": 80, "second": 70, "third": 62},
    choices={"first": (70, 80, 85, 90), "second": (55, 60, 70, 75), "third": (40, 50, 62, 66)},
    ask=lambda n: (
        "A drafter was measured three times. With one draft token a round emits "
        f"{_lengths(n)[1]:.2f} tokens, with two {_lengths(n)[2]:.2f}, with three {_lengths(n)[3]:.2f}. How likely is "
        "the "
        "third draft token to be accepted, given that the first two were?"
    ),
    unit="x",
    answer=_third,
    mistakes={
        "gives the share of rounds that accept it": lambda n: _lengths(n)[3] - _lengths(n)[2],
        "compares lengths": lambda n: _lengths(n)[2] / _lengths(n)[3],
        "fits one chance to all three": lambda n: speculation.acceptance_for(
            tokens_per_round=_lengths(n)[3], draft_tokens=3
        ),
        "stops at the second token": lambda n: speculation.by_position(_lengths(n))[2][1],
    },
    hint="A longer draft adds the rounds that accept its last token. How many of those reach it?",
    solution=lambda n: [
        f"The second token is accepted in {_lengths(n)[2]:.2f} − {_lengths(n)[1]:.2f} = "
        f"{significant(_lengths(n)[2] - _lengths(n)[1])} of the rounds, the third in {_lengths(n)[3]:.2f} − "
        f"{_lengths(n)[2]:.2f} = {significant(_lengths(n)[3] - _lengths(n)[2])}.",
        f"Third over second: {significant(_third(n))}, or {format_percent(_third(n), 4)}.",
    ],
)


def _drafts_alone(n: Numbers) -> float:
    return (n.rate / 100 * (n.draft_tokens + 1) - 1) / n.draft_tokens


with_its_own_token = Problem(
    id="speculative_decoding/with-its-own-token",
    title="Another engine's rate",
    level=3,
    step=WORDS,
    printed={"rate": 58, "draft_tokens": 4},
    choices={"rate": (46, 52, 58, 67, 74, 83), "draft_tokens": (3, 4, 5, 7)},
    ask=lambda n: (
        f"One engine prints an accept rate of {n.rate}% with drafts of {n.draft_tokens} tokens. It counts the target's "
        "own token of every round among the accepted and among the drafted. What rate would an engine print that "
        "counts "
        "drafts alone?"
    ),
    unit="x",
    answer=_drafts_alone,
    mistakes={
        "takes the same number": lambda n: n.rate / 100,
        "takes it out of the accepted alone": lambda n: (
            (n.rate / 100 * (n.draft_tokens + 1) - 1) / (n.draft_tokens + 1)
        ),
        "takes it out of the drafted alone": lambda n: n.rate / 100 * (n.draft_tokens + 1) / n.draft_tokens,
    },
    hint="Go back to tokens of a round first.",
    solution=lambda n: [
        f"{n.rate}% of {n.draft_tokens + 1} are {significant(n.rate / 100 * (n.draft_tokens + 1))} tokens of a round; "
        "without the target's own that is one less.",
        f"Over {n.draft_tokens} drafted: {significant(_drafts_alone(n))}, or {format_percent(_drafts_alone(n), 4)}.",
    ],
)
