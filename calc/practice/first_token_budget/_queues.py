"""Problems about the wait: who keeps up, how long the line is, what spread does to it."""

from __future__ import annotations

from math import ceil, floor
from types import SimpleNamespace as Numbers

from calc import queueing as q
from calc.practice._problem import Problem
from calc.practice.first_token_budget._model import GROWTH, SMALLEST, WAIT
from calc.units import counted, format_percent, format_seconds, significant
from calc.working import working


def _load(n: Numbers) -> float:
    return n.rate * n.busy / 1000


keep_up = Problem(
    id="first_token_budget/keep-up",
    title="Enough to keep up",
    level=1,
    step=WAIT,
    printed={"rate": 32, "busy": 125},
    choices={"rate": (8, 16, 24, 32, 50), "busy": (60, 90, 125, 240, 310)},
    ask=lambda n: (
        f"{n.rate} requests arrive a second, at random. Each keeps a replica busy for {n.busy} ms, and a replica works "
        "on one at a time. What is the smallest number of replicas for which the queue doesn't grow without end?"
    ),
    unit="replicas",
    exact=True,
    answer=lambda n: n.rate * n.busy // 1000 + 1,
    mistakes={
        "stops where the replicas are busy all the time": lambda n: ceil(n.rate * n.busy / 1000),
        "rounds down": lambda n: floor(n.rate * n.busy / 1000),
        "gives what one replica serves in a second": lambda n: floor(1000 / n.busy),
    },
    hint="The load is how many replicas would be busy on average. At exactly that many the line still grows.",
    solution=lambda n: [
        working(q.offered_load, arrival_rate=n.rate, service_s=n.busy / 1000),
        f"More than {significant(_load(n))} are needed: {counted(n.rate * n.busy // 1000 + 1, 'replica')}.",
    ],
)


in_line = Problem(
    id="first_token_budget/in-line",
    title="How long is the line?",
    level=1,
    step=SMALLEST,
    printed={"waiting": 14, "rate": 35},
    choices={"waiting": (3, 6, 9, 14, 20), "rate": (5, 12, 25, 35, 60)},
    ask=lambda n: (
        f"A gauge shows {n.waiting} requests waiting on average, while {n.rate} a second arrive and nothing is lost. "
        "How long does a request wait on average?"
    ),
    unit="s",
    answer=lambda n: q.little_time(number=n.waiting, arrival_rate=n.rate),
    mistakes={
        "turns the ratio around": lambda n: n.rate / n.waiting,
        "multiplies": lambda n: n.rate * n.waiting,
        "gives the time between arrivals": lambda n: 1 / n.rate,
    },
    hint="Those in line when a request's turn comes are the ones that arrived while it waited.",
    solution=lambda n: [working(q.little_time, number=n.waiting, arrival_rate=n.rate)],
)


def _one(n: Numbers) -> dict[str, float]:
    return {"arrival_rate": n.rate, "service_s": n.busy / 1000}


alike = Problem(
    id="first_token_budget/alike",
    title="All prompts alike",
    level=2,
    step=WAIT,
    printed={"rate": 7, "busy": 110},
    choices={"rate": (3, 4, 5, 7, 8), "busy": (60, 80, 110, 120, 150)},
    possible=lambda n: _load(n) < 0.95,
    ask=lambda n: (
        f"Requests reach a replica at random, {n.rate} a second. Every prefill takes {n.busy} ms, one at a time, first "
        "come first served. How long does a request wait on average before its prefill starts?"
    ),
    unit="s",
    answer=lambda n: q.md1_wait(**_one(n)),
    mistakes={
        "takes the prefills to vary like an exponential": lambda n: q.mm1_wait(**_one(n)),
        "adds the prefill itself": lambda n: q.md1_wait(**_one(n)) + n.busy / 1000,
        "forgets that the rest of the line is ahead too": lambda n: _load(n) * n.busy / 2000,
        "gives half a prefill": lambda n: n.busy / 2000,
    },
    hint="How busy is the replica? The wait grows with that over what is idle, and half of a prefill is left.",
    solution=lambda n: [working(q.md1_wait, **_one(n))],
)


def _kinds(n: Numbers) -> q.Service:
    share = n.long_percent / 100
    return q.mixture([(1 - share, q.deterministic(n.short / 1000)), (share, q.deterministic(n.long / 1000))])


def _weighted(n: Numbers, power: str = "") -> str:
    share = n.long_percent / 100
    return f"{1 - share:g} · {n.short}{power} + {share:g} · {n.long}{power}"


def _square(n: Numbers) -> float:
    share = n.long_percent / 100
    return (1 - share) * n.short**2 + share * n.long**2


def _varying(n: Numbers, **changed: float) -> float:
    service = _kinds(n)
    given = {"arrival_rate": n.rate, "service_s": service.mean_s, "service_scv": service.scv}
    return q.mg1_wait(**given | changed)


varying = Problem(
    id="first_token_budget/varying",
    title="A few long prompts",
    level=2,
    step=WAIT,
    printed={"rate": 5, "short": 60, "long": 700, "long_percent": 8},
    choices={
        "rate": (3, 4, 5, 6),
        "short": (40, 60, 80),
        "long": (400, 700, 900),
        "long_percent": (4, 8, 12),
    },
    possible=lambda n: n.rate * _kinds(n).mean_s < 0.9,
    ask=lambda n: (
        f"Requests reach a replica at random, {n.rate} a second. {n.long_percent}% of the prefills take {n.long} ms, "
        f"the others {n.short} ms. How long does a request wait on average before its prefill starts?"
    ),
    unit="s",
    answer=_varying,
    mistakes={
        "takes all prefills to be as long as their mean": lambda n: _varying(n, service_scv=0),
        "takes the prefills to vary like an exponential": lambda n: _varying(n, service_scv=1),
        "takes every prefill to be a short one": lambda n: _varying(n, service_s=n.short / 1000, service_scv=0),
        "adds the mean prefill": lambda n: _varying(n) + _kinds(n).mean_s,
    },
    hint="Mean and mean square of the prefills. Their spread counts as much as their mean.",
    solution=lambda n: [
        f"The mean prefill is {_weighted(n)} = {format_seconds(_kinds(n).mean_s)}. Its mean square is "
        f"{_weighted(n, '²')} = {_square(n):,.0f} ms². Over the mean squared, less 1, that is "
        f"{significant(_kinds(n).scv)}: the variance over the mean squared.",
        working(q.mg1_wait, arrival_rate=n.rate, service_s=_kinds(n).mean_s, service_scv=_kinds(n).scv),
    ],
)


backlog = Problem(
    id="first_token_budget/backlog",
    title="A run past saturation",
    level=2,
    step=GROWTH,
    printed={"requests": 600, "offered": 40, "served": 12},
    choices={"requests": (300, 500, 600, 2000), "offered": (25, 40, 80), "served": (6, 12, 20)},
    ask=lambda n: (
        f"A benchmark sends {n.requests:,} requests at {n.offered} a second to a server that finishes {n.served} a "
        "second. How long does a request wait on average, if arrivals and service are steady?"
    ),
    unit="s",
    answer=lambda n: q.backlog_wait(requests=n.requests, arrival_rate=n.offered, served_rate=n.served),
    mistakes={
        "gives the wait of the last one": lambda n: n.requests * (1 / n.served - 1 / n.offered),
        "lets all arrive at once": lambda n: n.requests / 2 / n.served,
        "gives how long the run takes": lambda n: n.requests / n.served,
    },
    hint="The first one waits for nothing. How late is the last one?",
    solution=lambda n: [
        f"The last arrives after {format_seconds(n.requests / n.offered)} and is done after "
        f"{format_seconds(n.requests / n.served)}; on average they wait half of the difference.",
        working(q.backlog_wait, requests=n.requests, arrival_rate=n.offered, served_rate=n.served),
    ],
)


queue_room = Problem(
    id="first_token_budget/queue-room",
    title="Backwards from the limit",
    level=3,
    step=WAIT,
    printed={"busy": 90, "left": 150},
    choices={"busy": (40, 60, 90, 120), "left": (20, 50, 100, 150, 250)},
    ask=lambda n: (
        f"Every prefill takes {n.busy} ms. The budget leaves {n.left} ms for the mean wait in the queue. Up to what "
        "share of the time may a replica be busy, with arrivals at random?"
    ),
    unit="x",
    answer=lambda n: 2 * n.left / (n.busy + 2 * n.left),
    mistakes={
        "takes the prefills to vary like an exponential": lambda n: n.left / (n.busy + n.left),
        "sets the wait over the prefill": lambda n: n.left / n.busy,
        "sets the wait over wait and prefill twice": lambda n: n.left / (n.busy + 2 * n.left),
        "gives the share that must be idle": lambda n: n.busy / (n.busy + 2 * n.left),
    },
    hint="Write the mean wait with all prefills alike, and solve it for the busy share.",
    solution=lambda n: [
        f"W = ρ · S / (2 · (1 − ρ)), so ρ = 2 · W / (S + 2 · W) = {2 * n.left} ms / {n.busy + 2 * n.left} ms = "
        f"{significant(2 * n.left / (n.busy + 2 * n.left))}.",
        f"Check: at {significant(2 * n.left / (n.busy + 2 * n.left))} the mean wait is "
        + format_seconds(
            q.md1_wait(arrival_rate=2 * n.left / (n.busy + 2 * n.left) / (n.busy / 1000), service_s=n.busy / 1000)
        )
        + ".",
    ],
)


def _apart_and_pooled(n: Numbers) -> tuple[q.MMc, q.MMc]:
    one = {"service_s": n.busy / 1000}
    rate = n.percent / 100 / one["service_s"]
    return q.mmc(arrival_rate=rate, servers=1, **one), q.mmc(arrival_rate=2 * rate, servers=2, **one)


pooled = Problem(
    id="first_token_budget/pooled",
    title="One line or two",
    level=3,
    step=WAIT,
    printed={"percent": 65, "busy": 80},
    choices={"percent": (40, 50, 65, 70, 80, 85, 90), "busy": (80, 200)},
    ask=lambda n: (
        f"Two replicas serve requests of {n.busy} ms on average, exponentially distributed, and are busy "
        f"{n.percent}% of the time. A router that deals out requests at random gives each its own line. How many times "
        "as long do requests wait on average as with one line for both?"
    ),
    unit="x",
    answer=lambda n: _apart_and_pooled(n)[0].wait_s / _apart_and_pooled(n)[1].wait_s,
    mistakes={
        "says twice, for there are two": lambda n: 2.0,
        "turns the ratio around": lambda n: _apart_and_pooled(n)[1].wait_s / _apart_and_pooled(n)[0].wait_s,
        "compares the time in line and in service": lambda n: (
            _apart_and_pooled(n)[0].sojourn_s / _apart_and_pooled(n)[1].sojourn_s
        ),
        "compares who has to wait at all": lambda n: _apart_and_pooled(n)[0].waiting / _apart_and_pooled(n)[1].waiting,
    },
    hint="M/M/1 at this load against M/M/2 at the same load. Erlang C says who has to wait.",
    solution=lambda n: [
        f"Apart, ρ · S / (1 − ρ) = {format_seconds(_apart_and_pooled(n)[0].wait_s)}. With one line "
        f"2 · ρ² / (1 + ρ) = {format_percent(_apart_and_pooled(n)[1].waiting, 4)} have to wait:",
        working(
            q.mmc_wait,
            waiting=_apart_and_pooled(n)[1].waiting,
            service_s=n.busy / 1000,
            offered=2 * n.percent / 100,
            servers=2,
        ),
        f"The ratio is {significant(_apart_and_pooled(n)[0].wait_s / _apart_and_pooled(n)[1].wait_s)}×.",
    ],
)
