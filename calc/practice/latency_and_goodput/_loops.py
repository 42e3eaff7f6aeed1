"""Problems about clients and queues: Little's law, clients that wait, a design."""

from __future__ import annotations

from math import ceil
from types import SimpleNamespace as Numbers

from calc import latency, queueing
from calc.practice._problem import Problem
from calc.practice.latency_and_goodput._model import COUNT, LITTLE, LOOPS, MS, ms, so
from calc.units import counted, format_percent, format_seconds, significant
from calc.working import working

in_system = Problem(
    id="latency_and_goodput/in-system",
    title="How long they stay",
    level=1,
    step=LITTLE,
    printed={"users": 48, "rate": 3.2, "tokens": 250},
    choices={"users": (16, 32, 48, 96), "rate": (1.6, 2.4, 3.2, 5.5), "tokens": (120, 250, 400)},
    ask=lambda n: (
        f"A benchmark keeps {n.users} requests in flight all the time and completes {n.rate:g} of them a second, with "
        f"{n.tokens} output tokens each. How long does a request stay, on average?"
    ),
    unit="s",
    answer=lambda n: n.users / n.rate,
    mistakes={
        "turns the ratio around": lambda n: n.rate / n.users,
        "takes the time between completions": lambda n: 1 / n.rate,
        "gives the time of a token": lambda n: n.users / n.rate / n.tokens,
    },
    hint="How many are there is how often one comes times how long it stays.",
    solution=lambda n: [
        working(queueing.little_time, number=n.users, arrival_rate=n.rate),
        so(n.users / n.rate),
    ],
)


def _decoding(n: Numbers) -> float:
    return latency.requests_decoding(token_rate=n.token_rate, tpot_s=n.tpot * MS)


in_decode = Problem(
    id="latency_and_goodput/in-decode",
    title="Who is not decoding",
    level=3,
    step=LITTLE,
    printed={"in_flight": 512, "token_rate": 9600, "tpot": 45},
    choices={"in_flight": (512, 640, 800), "token_rate": (6400, 9600, 12000), "tpot": (30, 45, 52)},
    possible=lambda n: _decoding(n) < 0.92 * n.in_flight,
    ask=lambda n: (
        f"Prefill and decode run on separate machines. {n.in_flight} requests are in flight; together they get "
        f"{n.token_rate:,} output tokens a second, at {ms(n.tpot)} per output token. How many of them wait for a first "
        "token, on average?"
    ),
    unit="requests",
    answer=lambda n: n.in_flight - _decoding(n),
    mistakes={
        "gives those that decode": _decoding,
        "takes everyone to decode": lambda n: float(n.in_flight),
        "turns the rate around": lambda n: n.in_flight * n.tpot * MS,
    },
    hint="Little's law on the tokens says how many decode. The others wait or prefill.",
    solution=lambda n: [
        working(latency.requests_decoding, token_rate=n.token_rate, tpot_s=n.tpot * MS),
        f"Of {n.in_flight} in flight, {counted(n.in_flight - _decoding(n), 'request')} wait or prefill.",
    ],
)


def _from_due(n: Numbers) -> float:
    return latency.serial_latency(requests=n.requests, due_every_s=n.every * MS, served_s=n.served * MS)


due_clock = Problem(
    id="latency_and_goodput/due-clock",
    title="The wait inside the client",
    level=3,
    step=LOOPS,
    printed={"served": 240, "every": 90, "requests": 41},
    choices={"served": (150, 240, 320), "every": (40, 60, 90), "requests": (11, 21, 41, 61)},
    ask=lambda n: (
        f"A request takes {ms(n.served)} once it is sent. One is due every {ms(n.every)}, the first at 0, but the "
        "client has one connection and sends the next when the one before is answered. Counted from when it was due, "
        f"how long does request number {n.requests} take?"
    ),
    unit="s",
    answer=_from_due,
    mistakes={
        "counts from when it was sent": lambda n: n.served * MS,
        "adds one wait too many": lambda n: _from_due(n) + (n.served - n.every) * MS,
        "forgets when it was due": lambda n: n.requests * n.served * MS,
        "leaves out its own time": lambda n: _from_due(n) - n.served * MS,
    },
    hint="Each request puts the next one back by what it takes beyond the interval.",
    solution=lambda n: [
        working(latency.serial_latency, requests=n.requests, due_every_s=n.every * MS, served_s=n.served * MS),
        so(_from_due(n)),
    ],
)


def _frozen(n: Numbers) -> float:
    return latency.delayed_requests(arrival_rate=n.rate, frozen_s=n.frozen, served_s=n.served * MS)


frozen = Problem(
    id="latency_and_goodput/frozen",
    title="A server stands still",
    level=3,
    step=LOOPS,
    printed={"rate": 20, "served": 20, "frozen": 3},
    choices={"rate": (5, 8, 20, 25), "served": (20, 25, 30), "frozen": (2, 3, 6, 9)},
    ask=lambda n: (
        f"Requests are due at {n.rate} a second, evenly. A server takes {ms(n.served)} for each, one at a time, and "
        f"once stands still for {n.frozen} s. How many requests are answered later than usual, if the client sends "
        "each when it is due?"
    ),
    possible=lambda n: abs(_frozen(n) - round(_frozen(n))) < 1e-6,  # requests come whole
    unit="requests",
    answer=_frozen,
    mistakes={
        "stops counting when the server goes on": lambda n: float(n.rate * n.frozen),
        "counts what it could have served": lambda n: n.frozen / (n.served * MS),
        "records one, as a client that waits would": lambda n: 1.0,
    },
    hint="Those due while it stands still, then those due while it works the backlog off.",
    solution=lambda n: [
        working(latency.delayed_requests, arrival_rate=n.rate, frozen_s=n.frozen, served_s=n.served * MS),
        f"{significant(_frozen(n))} requests, where a client that waits records one slow one.",
    ],
)


LATE, BURST, DAYS = 10, 1.5, 4


def _proof(n: Numbers) -> int:
    return latency.requests_to_prove(n.share, LATE, confidence=0.95)


def _allowed(n: Numbers) -> int:
    """Most late ones of all days together that still prove the share with 95% confidence."""
    requests, late = DAYS * _proof(n), 0
    while latency.binomial_cdf(requests, 1 - n.share / 100, late + 1) <= 0.05:
        late += 1
    return late


def _pooled(n: Numbers) -> str:
    half = (1 - n.share / 100) / 2
    once = latency.binomial_cdf(_proof(n), half, LATE)
    summed = latency.binomial_cdf(DAYS * _proof(n), half, _allowed(n))
    return (
        f"Count the days together. A service with {significant(100 * half)}% late, half of what is promised, passes "
        f"one run with a chance of {format_percent(once, 2)}, and all {DAYS} with {format_percent(once**DAYS, 2)}. "
        f"By the same rule {_allowed(n)} of {DAYS} · {_proof(n):,} = {DAYS * _proof(n):,} requests may be late, and "
        f"it fails with {format_percent(1 - summed, 2)}. A day that has most of the late ones is a reason to look."
    )


def _checklist(n: Numbers) -> list[str]:
    fewest = latency.fewest_requests(share=0.99, confidence=0.95)
    left = latency.tpot_left_by_end_to_end(e2e_s=n.e2e, ttft_s=n.ttft * MS, output_tokens=n.tokens)
    return [
        "Says which clock the promise is about: the user's, the gateway's or the engine's, and puts one clock at each.",
        f"Checks that the limits agree: after {ms(n.ttft)}, {n.e2e} s leave {format_seconds(left)} for each of "
        f"{n.tokens - 1} tokens.",
        "Adds a limit on pauses if users read along, because a mean of a long answer hides them.",
        "Defines good before measuring: failures and timeouts miss, a retry goes on waiting, what the run cuts off is "
        "left out, warm-up too, and a request belongs to the window in which it was sent.",
        f"Sends by a schedule, in an open loop, around {n.rate} requests a second and past it, and records when each "
        "request was due.",
        "Draws lengths and arrivals from the real traffic, bursts included, and keeps prefix hits as they are.",
        f"Runs long enough: at least {fewest} requests before it says p99 at all, on {DAYS} days, counted "
        "together, with their spread.",
        "Names tool, version and percentile method, and keeps the timestamps so that another tool can be asked.",
        "Checks requests in flight against rate times time, on the engine's own gauge.",
        "Reports goodput against rate with both neighbors of the chosen point, and keeps room for the burst.",
    ]


promise = Problem(
    id="latency_and_goodput/promise",
    title="A promise to keep",
    level="design",
    step=COUNT,
    printed={"rate": 12, "ttft": 700, "e2e": 15, "tokens": 401, "share": 99},
    choices={
        "rate": (5, 12, 40),
        "ttft": (300, 700, 1500),
        "e2e": (8, 15, 30),
        "tokens": (201, 401, 801),
        "share": (95, 99),
    },
    ask=lambda n: (
        f"A customer is promised that {n.share}% of requests get their first token within {ms(n.ttft)} and their "
        f"whole answer of about {n.tokens} tokens within {n.e2e} s, at {n.rate} requests a second. You have one "
        "replica and a week. What do you measure, how, and what would make you refuse to sign?"
    ),
    checklist=_checklist,
    hint="Whose clock, what counts as good, how requests arrive, and how many you need.",
    solution=lambda n: [
        working(latency.tpot_left_by_end_to_end, e2e_s=n.e2e, ttft_s=n.ttft * MS, output_tokens=n.tokens),
        f"Requests in flight if all of them take the whole time: {significant(n.rate * n.e2e)}. With so many beside "
        "it a token must still come at that pace.",
        f"With {LATE} late ones a run must have {_proof(n):,} requests to show {n.share}% with 95% confidence, were "
        f"they independent. That is the smallest n for which {LATE} or fewer late ones have a chance of at most 5% if "
        f"{100 - n.share}% are late. At {n.rate} a second it is {format_seconds(ceil(_proof(n) / n.rate))} of traffic, "
        f"rounded up. They are not independent, so run it on {DAYS} days of the week, at other hours.",
        _pooled(n),
        f"Decision, on this number: at most {_allowed(n)} of the {DAYS * _proof(n):,} requests miss, in an open loop "
        f"at {n.rate} a second, and again at {significant(BURST * n.rate)}, a burst of {BURST:g} times, assumed. Then "
        "sign; with more, refuse, and promise the rate at which it holds.",
        "What overturns it: lengths or bursts in the real traffic that the test did not have, or a month in which the "
        "users' own clock shows more.",
    ],
)
