"""Problems about money: what a good token costs, and where a choice flips."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc.latency import requests_to_prove
from calc.practice._problem import Problem
from calc.practice.engine_selection._model import COST, DECISION, HOUR
from calc.selection import (
    MONTH_HOURS,
    agreement_bound,
    break_even_busy_share,
    break_even_demand,
    break_even_price_ratio,
    good_rate,
)
from calc.units import format_count, format_percent, significant
from calc.working import Working, working


def _bought(n: Numbers, busy: float | None = None, good: float | None = None) -> float:
    share = (n.good if good is None else good) / 100
    return HOUR * n.rate * share * (n.busy if busy is None else busy) / 100 / n.price


tokens_bought = Problem(
    id="engine_selection/tokens-bought",
    title="What one unit of money buys",
    level=1,
    step=COST,
    printed={"rate": 1800, "good": 80, "busy": 35, "price": 4.5},
    choices={"rate": (900, 1800, 2600), "good": (60, 80, 95), "busy": (20, 35, 60), "price": (2.0, 4.5, 12.0)},
    ask=lambda n: (
        f"A machine costs {n.price:g} an hour and makes {n.rate:,} output tokens/s at the load that was tested. "
        f"{n.good}% of them belong to requests that kept their limits. The load is there {n.busy}% of the time. How "
        "many good tokens does one unit of money buy?"
    ),
    unit="tokens",
    answer=_bought,
    mistakes={
        "takes a machine that is always busy": lambda n: _bought(n, busy=100),
        "counts late answers too": lambda n: _bought(n, good=100),
        "counts a minute for an hour": lambda n: _bought(n) / 60,
        "multiplies by the price": lambda n: _bought(n) * n.price**2,
    },
    hint="Good tokens of an hour that is paid for, over its price.",
    solution=lambda n: [
        working(good_rate, token_rate=n.rate, good_share=n.good / 100),
        f"In an hour that is paid for: {HOUR:,} × {format_count(n.rate * n.good / 100)} × {n.busy / 100:g} = "
        f"{format_count(_bought(n) * n.price)} good tokens.",
        f"Over its price: {format_count(_bought(n) * n.price)} / {n.price:g} = {format_count(_bought(n))} tokens.",
    ],
)


def _even(n: Numbers, **changed: float) -> float:
    numbers = {"price_hour": n.price, "good_rate": n.rate * n.good / 100, "target_cost": n.other}
    return break_even_busy_share(**numbers | changed)


busy_enough = Problem(
    id="engine_selection/busy-enough",
    title="Busy enough",
    level=2,
    step=COST,
    printed={"rate": 1500, "good": 90, "price": 4.0, "other": 1.5},
    choices={"rate": (900, 1500, 2400), "good": (70, 90, 98), "price": (2.5, 4.0, 9.0), "other": (1.5, 3.0, 6.0)},
    possible=lambda n: _even(n) < 1,
    ask=lambda n: (
        f"A machine costs {n.price:g} an hour and makes {n.rate:,} output tokens/s, {n.good}% of them in requests that "
        f"keep their limits. Somebody sells good tokens at {n.other:g} a million. From which utilization on is the "
        "machine cheaper?"
    ),
    unit="x",
    answer=_even,
    mistakes={
        "counts late answers too": lambda n: _even(n, good_rate=n.rate),
        "turns the ratio around": lambda n: 1 / _even(n),
        "divides by the good share twice": lambda n: _even(n) * 100 / n.good,
        "takes minutes for hours": lambda n: _even(n) * 60,
    },
    hint="At full load the machine has one price for a million. Half the load doubles it.",
    solution=lambda n: [
        working(good_rate, token_rate=n.rate, good_share=n.good / 100),
        working(break_even_busy_share, price_hour=n.price, good_rate=n.rate * n.good / 100, target_cost=n.other),
    ],
)


def _ratio(n: Numbers) -> float:
    return break_even_price_ratio(first_good_rate=n.first * n.first_good, second_good_rate=n.second * n.second_good)


price_ratio = Problem(
    id="engine_selection/price-ratio",
    title="Worth how much more",
    level=2,
    step=DECISION,
    printed={"first": 2400, "first_good": 75, "second": 1500, "second_good": 96},
    choices={
        "first": (2000, 2400, 3000),
        "first_good": (60, 75, 90),
        "second": (1200, 1500, 1800),
        "second_good": (80, 96, 99),
    },
    possible=lambda n: abs(_ratio(n) - 1) > 0.05,
    ask=lambda n: (
        f"On its machine engine A makes {n.first:,} output tokens/s, {n.first_good}% of them in time; engine B makes "
        f"{n.second:,} on another machine, {n.second_good}% in time. Utilization is the same. How many times the "
        "hourly price of B's machine may A's cost before the choice flips?"
    ),
    unit="x",
    answer=_ratio,
    mistakes={
        "compares all tokens": lambda n: n.first / n.second,
        "compares the shares alone": lambda n: n.first_good / n.second_good,
        "turns the ratio around": lambda n: 1 / _ratio(n),
        "multiplies by the other's share": lambda n: n.first * n.second_good / (n.second * n.first_good),
    },
    hint="At the tie a good token costs the same on both.",
    solution=lambda n: [
        working(good_rate, token_rate=n.first, good_share=n.first_good / 100),
        working(good_rate, token_rate=n.second, good_share=n.second_good / 100),
        working(
            break_even_price_ratio,
            first_good_rate=good_rate(token_rate=n.first, good_share=n.first_good / 100),
            second_good_rate=good_rate(token_rate=n.second, good_share=n.second_good / 100),
        ),
        f"A's machine may cost up to {significant(_ratio(n))} times as much.",
    ],
)


def _worth(n: Numbers, hours: float = MONTH_HOURS) -> float:
    return break_even_demand(upkeep_gap=n.upkeep, month_hours=hours, saved_token=(n.dear - n.cheap) / 1e6)


worth_the_upkeep = Problem(
    id="engine_selection/worth-the-upkeep",
    title="Worth the upkeep",
    level=3,
    step=DECISION,
    printed={"cheap": 1.2, "dear": 1.6, "upkeep": 6000},
    choices={"cheap": (0.6, 0.9, 1.2), "dear": (1.6, 2.0, 2.5), "upkeep": (2500, 6000, 15_000, 24_000)},
    ask=lambda n: (
        f"With engine A a million good tokens cost {n.cheap:g}, with engine B {n.dear:g}. A takes {n.upkeep:,} a month "
        f"more to keep running. From how many good tokens a second on, averaged over a month of {MONTH_HOURS} hours, "
        "is A worth it?"
    ),
    unit="tokens/s",
    answer=_worth,
    mistakes={
        "takes the cost instead of what is saved": lambda n: n.upkeep * 1e6 / (HOUR * MONTH_HOURS * n.cheap),
        "takes a day for a month": lambda n: _worth(n, hours=24),
        "takes the dear price instead of what is saved": lambda n: n.upkeep * 1e6 / (HOUR * MONTH_HOURS * n.dear),
        "leaves the seconds in an hour out": lambda n: _worth(n) * HOUR,
    },
    hint="Each good token saves the difference of the prices. The tokens of a month must save the upkeep.",
    solution=lambda n: [
        f"Saved with each token: ({n.dear:g} − {n.cheap:g}) / 1,000,000 = {significant((n.dear - n.cheap) / 1e6)}.",
        working(break_even_demand, upkeep_gap=n.upkeep, month_hours=MONTH_HOURS, saved_token=(n.dear - n.cheap) / 1e6),
        f"So from {significant(_worth(n))} tokens/s on.",
    ],
)

# --- an open question ----------------------------------------------------------------------------

SWITCH, UNTIL_NEXT = 8000, 6  # once, in any currency, as the chapter assumes; months until the next change


def _checklist(n: Numbers) -> list[str]:
    return [
        "Writes the requirements as exact names before looking at any engine: architecture, format, scheme, GPU.",
        f"Asks what must work together: {n.features}. Each alone is not enough.",
        "Takes every answer from a version, with a source and a date; keeps unknown apart from yes and from no.",
        "Says what would settle an unknown: a line of code, a maintainer, a test of an hour.",
        "Looks for open bugs of the features together, for both engines, and tries what has one.",
        "Compares answers before speed: same prompts, and says what counts as equal and at which tolerance.",
        f"Knows what {n.prompts} equal answers prove: with 95%, up to "
        f"{format_percent(agreement_bound(samples=n.prompts, confidence=0.95), 2)} may still differ.",
        "Measures on its own load and GPUs, each engine tuned, at rates up to the limit, several repeats with spread.",
        "Counts good tokens, and states limits, window and utilization beside every price.",
        "Adds what people cost: upgrades, incidents, the test of outputs at each upgrade.",
        "Names what would flip the decision: a price, a utilization, a share of good tokens, a filled cell.",
        "Keeps the way back: the same API, the same checkpoint, the old engine behind a switch for a while.",
    ]


def _service(n: Numbers) -> list[str | Working]:
    enough = requests_to_prove(99, 0, confidence=0.95)
    known = (
        "That is enough for a claim of 99%, on such prompts and with all features on."
        if n.prompts >= enough
        else f"A claim of 99% takes {enough} that all agree."
    )
    saved = SWITCH / (UNTIL_NEXT * MONTH_HOURS)
    still_open = format_percent(agreement_bound(samples=n.prompts, confidence=0.95), 2)
    return [
        f"Can it? Look up whether B does this together, in this version: {n.features}. One no ends it; an unknown is "
        "tested first. So is a yes with an open bug beside it, in A as in B.",
        f"Does it answer the same? What {n.prompts} equal answers leave open:",
        working(agreement_bound, samples=n.prompts, confidence=0.95),
        known,
        f"What does a good token cost? A change at {SWITCH:,} that holds for {UNTIL_NEXT} months of {MONTH_HOURS} "
        f"hours, the price and the months assumed, must save {SWITCH:,} / ({UNTIL_NEXT} · {MONTH_HOURS}) ≈ "
        f"{significant(saved, 3)} an hour, on your load, with upkeep in it.",
        f"Decision: stay with A. {n.prompts} equal answers leave {still_open} open, and no saving is measured: "
        f"that B is faster was only read. A change needs {significant(saved, 3)} an hour.",
        "What overturns it: every cell says yes, "
        + (f"{enough} prompts agree, " if n.prompts < enough else "")
        + f"and B saves more than {significant(saved, 3)} an hour in every repeat.",
    ]


service = Problem(
    id="engine_selection/service",
    title="Choose for a service",
    level="design",
    step=DECISION,
    printed={"features": "adapters mixed in a batch, JSON output and a draft model", "prompts": 50},
    choices={
        "features": (
            "adapters mixed in a batch, JSON output and a draft model",
            "fp8 weights, pipeline parallelism and speculation",
            "GGUF weights, grammars and many short requests",
        ),
        "prompts": (30, 50, 100, 300),
    },
    ask=lambda n: (
        f"A team serves one model with engine A. It needs {n.features}. A colleague read that engine B is faster, and "
        f"{n.prompts} test prompts gave the same answers. How do you decide whether to change?"
    ),
    checklist=_checklist,
    hint="Three questions in this order: can it, does it answer the same, what does a good token cost?",
    solution=_service,
)
