"""Problems about counting: good requests, shares, limits that decide, and percentiles."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import latency
from calc.practice._problem import Problem
from calc.practice.latency_and_goodput._model import COUNT, MS, PACE, PERCENTILES, ms, so
from calc.units import counted, format_percent, format_seconds, significant
from calc.working import working


def _attained(n: Numbers) -> float:
    return latency.attainment(good=n.good, completed=n.good + n.missed, failed=n.failed)


attained = Problem(
    id="latency_and_goodput/attained",
    title="Of how many",
    level=1,
    step=COUNT,
    printed={"good": 150, "missed": 30, "failed": 20, "cut": 12},
    choices={"good": (60, 110, 150, 190), "missed": (14, 30, 45), "failed": (8, 20, 33), "cut": (6, 12, 25)},
    ask=lambda n: (
        f"At the end of a benchmark {n.good} requests kept both limits, {n.missed} were answered but missed one, "
        f"{n.failed} failed or timed out, and {n.cut} were still running when the run's own time limit ended it. What "
        "share of the requests was good?"
    ),
    unit="x",
    answer=_attained,
    mistakes={
        "leaves out failures": lambda n: n.good / (n.good + n.missed),
        "counts what the run cut off as missed": lambda n: n.good / (n.good + n.missed + n.failed + n.cut),
        "counts what the run cut off, but not failures": lambda n: n.good / (n.good + n.missed + n.cut),
        "gives the share that was answered": lambda n: (n.good + n.missed) / (n.good + n.missed + n.failed),
    },
    hint="A failure is the server's answer. The run's own end is not.",
    solution=lambda n: [
        working(latency.attainment, good=n.good, completed=n.good + n.missed, failed=n.failed),
        f"That is {significant(_attained(n))}, or {format_percent(_attained(n))}.",
    ],
)

# TTFT in ms, TPOT in ms or None for a one-token answer, and whether it failed
_LOGS = (
    ((310, 41), (520, 28), (280, 63), (190, None), (240, 35, "failed"), (260, 74), (390, 72), (610, 44)),
    ((220, 38), (390, 47), (405, 30), (150, 55), (330, None), (180, 20, "failed"), (290, 33)),
    ((700, 25), (120, 90), (140, 45, "failed"), (380, 49), (480, None), (310, 12), (360, 58)),
    ((90, 22), (95, 24, "failed"), (450, 31), (470, 80), (210, 51), (240, None), (330, 48)),
)
_LIMITS = ((400, 50), (350, 45), (300, 60), (500, 40))


def _kept(n: Numbers, *, ttft: bool = True, tpot: bool = True, one: bool = True, failed: bool = False) -> int:
    return sum(
        (not broken or failed)
        and (first <= n.limits[0] or not ttft)
        and (one if pace is None else pace <= n.limits[1] or not tpot)
        for first, pace, *broken in n.log
    )


def _judged(first: int, pace: int | None, *broken: str, limits: tuple[int, int]) -> str:
    late, slow = first > limits[0], pace is not None and pace > limits[1]
    return "broke off" if broken else "late" if late else "slow" if slow else "good"


def _told(log: tuple) -> str:
    return "; ".join(
        f"{first} ms, {'a single token' if pace is None else f'{pace} ms'}{', broke off' if broken else ''}"
        for first, pace, *broken in log
    )


good_ones = Problem(
    id="latency_and_goodput/good-ones",
    title="Who keeps both",
    level=2,
    step=COUNT,
    printed={"log": _LOGS[0], "limits": (400, 50)},
    choices={"log": _LOGS, "limits": _LIMITS},
    possible=lambda n: _kept(n) > 1,
    ask=lambda n: (
        f"Limits: {n.limits[0]} ms to the first token, {n.limits[1]} ms per output token. TTFT and TPOT "
        f"of {len(n.log)} requests: {_told(n.log)}. How many are good?"
    ),
    unit="requests",
    exact=True,
    answer=_kept,
    mistakes={
        "checks the first token alone": lambda n: _kept(n, tpot=False),
        "checks the pace alone": lambda n: _kept(n, ttft=False),
        "counts what broke off": lambda n: _kept(n, failed=True),
        "leaves out the answer of one token": lambda n: _kept(n, one=False),
    },
    hint="Both limits, in one request. An answer that broke off is none, and one token has no pace to complain about.",
    solution=lambda n: [
        "; ".join(f"{row[0]} ms: {_judged(*row, limits=n.limits)}" for row in n.log) + ".",
        f"{counted(_kept(n), 'request')} of {len(n.log)}.",
    ],
)


def _left(n: Numbers) -> float:
    return latency.tpot_left_by_end_to_end(e2e_s=n.e2e, ttft_s=n.ttft * MS, output_tokens=n.tokens)


def _at_once(n: Numbers) -> str:
    """Whether the limit on the pace can decide: a sooner first token leaves more for the others."""
    most = n.e2e / (n.tokens - 1)
    if most <= n.tpot * MS:
        return (
            f"Even a first token at once would leave {n.e2e} s / {n.tokens - 1} = {format_seconds(most)}, so the limit "
            f"of {ms(n.tpot)} never decides."
        )
    return (
        f"The limit of {ms(n.tpot)} does not decide here. A first token at once would leave {n.e2e} s / {n.tokens - 1} "
        f"= {format_seconds(most)}, so with a sooner one it can."
    )


left_over = Problem(
    id="latency_and_goodput/left-over",
    title="Which limit decides",
    level=2,
    step=PACE,
    printed={"e2e": 6, "ttft": 800, "tpot": 40, "tokens": 301},
    choices={"e2e": (3, 4, 6, 8), "ttft": (250, 500, 800), "tpot": (40, 50), "tokens": (151, 201, 301, 401)},
    possible=lambda n: _left(n) < 0.8 * n.tpot * MS,
    ask=lambda n: (
        f"A contract allows {ms(n.ttft)} to the first token, {ms(n.tpot)} per output token and {n.e2e} s end to end. "
        f"Answers have {n.tokens} tokens. If the first token just keeps its limit, what may a token after it take on "
        "average?"
    ),
    unit="s",
    answer=_left,
    mistakes={
        "trusts the limit on the pace": lambda n: n.tpot * MS,
        "forgets the first wait": lambda n: n.e2e / (n.tokens - 1),
        "shares it among the tokens of the whole contract": lambda n: n.e2e / n.tokens,
    },
    hint="What is left of the whole after the first token, for the tokens after it?",
    solution=lambda n: [
        working(latency.tpot_left_by_end_to_end, e2e_s=n.e2e, ttft_s=n.ttft * MS, output_tokens=n.tokens),
        f"{so(_left(n))} {_at_once(n)}",
    ],
)


def _few(n: Numbers) -> int:
    return latency.fewest_requests(share=n.p / 100, confidence=n.confidence / 100)


few = Problem(
    id="latency_and_goodput/few",
    title="Enough for a percentile",
    level=2,
    step=PERCENTILES,
    printed={"p": 98, "confidence": 90},
    choices={"p": (90, 95, 97, 98, 99.5, 99.9), "confidence": (80, 90, 99)},
    ask=lambda n: (
        f"You want the slowest request of a run to be, with {n.confidence}% confidence, at least as slow as the true "
        f"p{n.p:g}. Requests are independent. What is the smallest number of them?"
    ),
    unit="requests",
    exact=True,
    answer=_few,
    mistakes={
        "waits for one on average": lambda n: round(100 / (100 - n.p)),
        "rounds down": lambda n: _few(n) - 1,
        "swaps confidence and percentile": lambda n: latency.fewest_requests(
            share=n.confidence / 100, confidence=n.p / 100
        ),
    },
    hint="All of n requests stay below it with probability pⁿ. When is that unlikely enough?",
    solution=lambda n: [
        working(latency.fewest_requests, share=n.p / 100, confidence=n.confidence / 100),
        f"{_few(n):,} requests, and then the slowest one bounds p{n.p:g}, no more than that.",
    ],
)
