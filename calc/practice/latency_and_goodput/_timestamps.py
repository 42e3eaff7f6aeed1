"""Problems about one request: its first token, its pace, its pauses."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import latency
from calc.practice._problem import Problem
from calc.practice.latency_and_goodput._model import FIRST, MS, PACE, ms, so
from calc.units import significant
from calc.working import working

first_wait = Problem(
    id="latency_and_goodput/first-wait",
    title="The first token",
    level=1,
    step=FIRST,
    printed={"due": 2040, "late": 35, "opened": 120, "wait": 470, "gap": 40},
    choices={
        "due": (1200, 2040, 3500),
        "late": (15, 35, 60),
        "opened": (80, 120, 150),
        "wait": (310, 470, 640),
        "gap": (25, 40, 55),
    },
    ask=lambda n: (
        f"All on one clock: a load generator meant to send a request at {ms(n.due)} and sent it at "
        f"{ms(n.due + n.late)}. An empty message with the role came at {ms(n.due + n.late + n.opened)}, messages of "
        f"one token each at {ms(n.due + n.late + n.wait)}, {ms(n.due + n.late + n.wait + n.gap)} and "
        f"{ms(n.due + n.late + n.wait + 2 * n.gap)}. What is the time to first token, as the client saw it?"
    ),
    unit="s",
    answer=lambda n: n.wait * MS,
    mistakes={
        "takes the empty message for a token": lambda n: n.opened * MS,
        "counts from when it was due": lambda n: (n.late + n.wait) * MS,
        "waits for the second token": lambda n: (n.wait + n.gap) * MS,
    },
    hint="From sending to the first message that carries a token.",
    solution=lambda n: [
        working(
            latency.time_to_first_token,
            first_token_s=(n.due + n.late + n.wait) * MS,
            sent_s=(n.due + n.late) * MS,
        ),
        so(n.wait * MS),
    ],
)


def _pace(n: Numbers) -> float:
    return (n.last - n.first) * MS / (n.tokens - 1)


pace = Problem(
    id="latency_and_goodput/pace",
    title="The pace",
    level=1,
    step=PACE,
    printed={"first": 620, "last": 4120, "tokens": 71},
    choices={"first": (380, 620, 950), "last": (2120, 3380, 4120, 6200), "tokens": (21, 41, 71, 121)},
    ask=lambda n: (
        f"A request is sent at 0. Its answer has {n.tokens} tokens, one to a message; the first arrives at "
        f"{ms(n.first)}, the last at {ms(n.last)}. What is its time per output token?"
    ),
    unit="s",
    answer=_pace,
    mistakes={
        "divides by all tokens": lambda n: (n.last - n.first) * MS / n.tokens,
        "keeps the first wait in it": lambda n: n.last * MS / n.tokens,
        "keeps the first wait in it and leaves the first token out": lambda n: n.last * MS / (n.tokens - 1),
    },
    hint="The wait for the first token is another number. How many tokens came after it?",
    solution=lambda n: [
        working(
            latency.time_per_output_token,
            last_token_s=n.last * MS,
            first_token_s=n.first * MS,
            output_tokens=n.tokens,
        ),
        so(_pace(n)),
    ],
)


def _per_message(n: Numbers) -> float:
    return n.gap * MS * n.rate


bundles = Problem(
    id="latency_and_goodput/bundles",
    title="Tokens that come together",
    level=2,
    step=PACE,
    printed={"rate": 180, "gap": 16.0},
    choices={"rate": (90, 125, 180, 240, 310), "gap": (9.5, 12.5, 16.0, 21.0, 27.5)},
    possible=lambda n: 1.2 < _per_message(n) < 6,
    ask=lambda n: (
        f"One request at a time, long answers, speculative decoding. A benchmark prints {n.rate} output tokens a "
        f"second and a mean inter-token latency of {n.gap:g} ms, which it takes between messages. How many tokens come "
        "with a message, on average? Leave the first wait out."
    ),
    unit="tokens",
    answer=_per_message,
    mistakes={
        "turns the ratio around": lambda n: 1 / _per_message(n),
        "takes the gap for the time of a token": lambda n: 1000 / n.rate,
        "leaves the token that every step gives out of it": lambda n: _per_message(n) - 1,
    },
    hint="The time of a token is one over the rate. How many of them make a gap?",
    solution=lambda n: [
        f"A token takes 1 / {n.rate} s = {significant(1000 / n.rate)} ms.",
        working(latency.tokens_per_message, gap_s=n.gap * MS, tpot_s=1 / n.rate),
        f"So {significant(_per_message(n))} tokens come together.",
    ],
)


def _pause(n: Numbers) -> float:
    return ((n.tokens - 1) * n.tpot - (n.tokens - 2) * n.gap) * MS


hidden_pause = Problem(
    id="latency_and_goodput/hidden-pause",
    title="A pause that the mean hides",
    level=3,
    step=PACE,
    printed={"tokens": 21, "tpot": 44, "gap": 20},
    choices={"tokens": (16, 21, 26, 31), "tpot": (36, 40, 44, 48), "gap": (12, 16, 20, 24)},
    ask=lambda n: (
        f"An answer of {n.tokens} tokens, one to a message, has a time per output token of {ms(n.tpot)}; the limit is "
        f"50 ms. All its gaps but one are {ms(n.gap)}. How long is that one?"
    ),
    unit="s",
    answer=_pause,
    mistakes={
        "counts a gap for every token": lambda n: (n.tokens * n.tpot - (n.tokens - 1) * n.gap) * MS,
        "counts the long gap among the short ones": lambda n: (n.tokens - 1) * (n.tpot - n.gap) * MS,
        "gives the time of all gaps": lambda n: (n.tokens - 1) * n.tpot * MS,
        "takes the mean for it": lambda n: n.tpot * MS,
    },
    hint="The mean times the number of gaps is the time of all of them. Take off the short ones.",
    solution=lambda n: [
        f"{n.tokens - 1} gaps take {n.tokens - 1} · {n.tpot} ms = {(n.tokens - 1) * n.tpot:,} ms.",
        f"{n.tokens - 2} short ones take {(n.tokens - 2) * n.gap:,} ms; the rest is one pause.",
        so(_pause(n)),
    ],
)
