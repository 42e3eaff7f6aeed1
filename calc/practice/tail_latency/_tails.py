"""Problems about tails: fan-out, means that fall, buckets, turns, and a step of others."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import queueing, tail
from calc.practice._problem import Problem
from calc.practice.tail_latency._model import BLOCKED, EXPORTS, FEW, MS, ms, so
from calc.units import format_percent, format_seconds, significant
from calc.working import working


def _percent(share: float) -> str:
    return f"That is {significant(share)}, or {format_percent(share)}."


fan_out = Problem(
    id="tail_latency/fan-out",
    title="Many calls for one answer",
    level=1,
    step=FEW,
    printed={"permille": 30, "calls": 12},
    choices={"permille": (10, 20, 30, 50), "calls": (8, 12, 25, 40)},
    ask=lambda n: (
        f"{n.permille / 10:g}% of an engine's requests are slow. An agent needs {n.calls} of them for one answer, "
        "independent of each other. What share of its answers meets a slow one?"
    ),
    unit="x",
    answer=lambda n: queueing.fan_out_slow(slow_share=n.permille / 1000, parts=n.calls),
    mistakes={
        "adds the shares up": lambda n: n.permille / 1000 * n.calls,
        "gives the share that meets none": lambda n: (1 - n.permille / 1000) ** n.calls,
        "takes one call": lambda n: n.permille / 1000,
    },
    hint="The share that meets none is a product.",
    solution=lambda n: [
        working(queueing.fan_out_slow, slow_share=n.permille / 1000, parts=n.calls),
        _percent(queueing.fan_out_slow(slow_share=n.permille / 1000, parts=n.calls)),
    ],
)


def _fall(n: Numbers) -> float:
    return n.outlier / n.fewer - n.outlier / n.more


mean_falls = Problem(
    id="tail_latency/mean-falls",
    title="A mean that falls",
    level=2,
    step=FEW,
    printed={"outlier": 90, "fewer": 30, "more": 75},
    choices={"outlier": (60, 90, 240), "fewer": (20, 30, 48), "more": (75, 96, 120)},
    ask=lambda n: (
        f"In each window of a dashboard one cold request takes {n.outlier} s; the others take next to nothing. The "
        f"load rises from {n.fewer} to {n.more} requests a window. By how much does the mean latency fall?"
    ),
    unit="s",
    answer=_fall,
    mistakes={
        "gives the mean before": lambda n: n.outlier / n.fewer,
        "gives the mean after": lambda n: n.outlier / n.more,
        "divides by the requests that came on top": lambda n: n.outlier / (n.more - n.fewer),
    },
    hint="The slow request is as slow as before. It is shared among more.",
    solution=lambda n: [
        working(tail.mean_shift, outlier_s=n.outlier, all_requests=n.fewer),
        working(tail.mean_shift, outlier_s=n.outlier, all_requests=n.more),
        so(_fall(n)) + " No request got faster.",
    ],
)


def _bucket(n: Numbers) -> dict[str, float]:
    return {
        "lower_s": n.bounds[0],
        "upper_s": n.bounds[1],
        "ordinal": n.count * n.p / 100,
        "below": n.count * n.p / 100 - n.before,
        "up_to": n.count * n.p / 100 + n.after,
    }


bucket = Problem(
    id="tail_latency/bucket",
    title="A percentile from buckets",
    level=2,
    step=EXPORTS,
    printed={"bounds": (2.5, 5.0), "count": 2000, "p": 99, "before": 12, "after": 4},
    choices={
        "bounds": ((0.25, 0.5), (1.0, 2.5), (2.5, 5.0), (5.0, 7.5)),
        "count": (1000, 2000, 3000),
        "p": (95, 99),
        "before": (3, 8, 12),
        "after": (4, 9),
    },
    ask=lambda n: (
        f"A histogram holds {n.count:,} requests. Up to {n.bounds[0]:g} s there are "
        f"{n.count * n.p // 100 - n.before:,}, up to the next bound of {n.bounds[1]:g} s "
        f"{n.count * n.p // 100 + n.after:,}. What does Prometheus answer for the p{n.p}?"
    ),
    unit="s",
    answer=lambda n: tail.bucket_point(**_bucket(n)),
    mistakes={
        "gives the upper bound": lambda n: n.bounds[1],
        "gives the lower bound": lambda n: n.bounds[0],
        "gives the middle of the bucket": lambda n: sum(n.bounds) / 2,
        "counts back from the upper bound": lambda n: (
            n.bounds[1] - (n.bounds[1] - n.bounds[0]) * n.before / (n.before + n.after)
        ),
    },
    hint="Which number is the percentile, counted from the fastest? How far is it from one bound to the other?",
    solution=lambda n: [
        working(tail.bucket_point, **_bucket(n)),
        so(tail.bucket_point(**_bucket(n))) + f" All that is known: it is above {n.bounds[0]:g} s and at most "
        f"{n.bounds[1]:g} s.",
    ],
)

allowed = Problem(
    id="tail_latency/allowed",
    title="How rare is rare enough",
    level=2,
    step=FEW,
    printed={"limit": 20, "calls": 15},
    choices={"limit": (15, 20, 30, 40), "calls": (6, 15, 24, 50)},
    ask=lambda n: (
        f"An agent makes {n.calls} calls for an answer, and at most {n.limit}% of its answers may meet a slow one. How "
        "often may a call be slow?"
    ),
    unit="x",
    answer=lambda n: queueing.fan_out_allowed(slow_requests=n.limit / 100, parts=n.calls),
    mistakes={
        "divides by the calls": lambda n: n.limit / 100 / n.calls,
        "lets each call be slow that often": lambda n: n.limit / 100,
        "takes the root of the slow share": lambda n: (n.limit / 100) ** (1 / n.calls),
    },
    hint="Turn the product around: what share of calls must be fast?",
    solution=lambda n: [
        working(queueing.fan_out_allowed, slow_requests=n.limit / 100, parts=n.calls),
        _percent(queueing.fan_out_allowed(slow_requests=n.limit / 100, parts=n.calls)),
    ],
)

behind_step = Problem(
    id="tail_latency/behind-step",
    title="A queue that reads zero",
    level=3,
    step=BLOCKED,
    printed={"start": 4000, "long": 720, "after": 250, "own": 45},
    choices={
        "start": (2000, 4000),
        "long": (480, 720, 1100),
        "after": (130, 250, 330),
        "own": (28, 45, 90),
    },
    ask=lambda n: (
        f"An engine starts a step with another's long prompt at {ms(n.start)}; it takes {ms(n.long)}. A short request "
        f"comes to the engine's door at {ms(n.start + n.after)}, and its own prefill takes {ms(n.own)} in the "
        "next step. "
        "The engine reports 0 ms in the queue. How long does it take from the door to the first token?"
    ),
    unit="s",
    answer=lambda n: (n.long - n.after + n.own) * MS,
    mistakes={
        "believes the queue's zero": lambda n: n.own * MS,
        "waits for the whole step": lambda n: (n.long + n.own) * MS,
        "forgets its own prefill": lambda n: (n.long - n.after) * MS,
    },
    hint="The engine takes new requests in between two steps. When is the next gap?",
    solution=lambda n: [
        f"The step ends at {ms(n.start + n.long)}, so the request waits {ms(n.long - n.after)} before "
        "the engine sees it. No queue shows that.",
        f"With its own prefill, {ms(n.long - n.after)} + {ms(n.own)} = "
        f"{format_seconds((n.long - n.after + n.own) * MS)}.",
    ],
)


def _turn(n: Numbers) -> float:
    return tail.turn_seconds(late_s=n.late, early_s=n.early, turns=n.clients - n.places)


turn = Problem(
    id="tail_latency/turn",
    title="All places taken",
    level=3,
    step=BLOCKED,
    printed={"early": 3.5, "late": 47.5, "clients": 24, "places": 4, "rate": 96},
    choices={
        "early": (1.5, 3.5),
        "late": (29.5, 47.5, 63.5),
        "clients": (12, 16, 24),
        "places": (2, 4, 8),
        "rate": (60, 96, 150),
    },
    ask=lambda n: (
        f"A server makes {n.rate} output tokens a second, with {n.places} clients and with {n.clients}: its "
        f"{n.places} places are full. The p99 of the first token is {n.early:g} s in one test and {n.late:g} s in the "
        "other. If the slowest request waits one turn for each client without a place, and in a turn the places "
        "together make the tokens of one answer, how many tokens does an answer have?"
    ),
    unit="tokens",
    answer=lambda n: tail.turn_tokens(token_rate=n.rate, turn_s=_turn(n)),
    mistakes={
        "counts the clients that have a place": lambda n: n.rate * (n.late - n.early) / n.clients,
        "keeps the first wait in it": lambda n: n.rate * n.late / (n.clients - n.places),
        "divides the rate among the places": lambda n: n.rate / n.places * _turn(n),
    },
    hint="How long is one turn? All places together make the tokens of one answer in that time.",
    solution=lambda n: [
        working(tail.turn_seconds, late_s=n.late, early_s=n.early, turns=n.clients - n.places),
        working(tail.turn_tokens, token_rate=n.rate, turn_s=_turn(n)),
    ],
)
