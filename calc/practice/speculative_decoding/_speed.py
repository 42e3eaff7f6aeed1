"""Problems about progress, cost and speed, and the open question."""

from __future__ import annotations

import functools
from types import SimpleNamespace as Numbers

from calc import hardware, roofline, speculation
from calc.practice._problem import Problem
from calc.practice.speculative_decoding._model import BATCH, COST, GAIN, PROGRESS, geometry
from calc.units import counted, format_count, format_percent, significant
from calc.working import working


def _tokens(n: Numbers) -> float:
    return speculation.expected_tokens(acceptance=n.percent / 100, draft_tokens=n.draft_tokens)


tokens = Problem(
    id="speculative_decoding/tokens",
    title="Tokens of a round",
    level=1,
    step=PROGRESS,
    printed={"percent": 65, "draft_tokens": 4},
    choices={"percent": (50, 60, 65, 75, 80, 85, 90), "draft_tokens": (2, 3, 4, 5, 7)},
    ask=lambda n: (
        f"Every draft token that is tested is accepted with {n.percent}%. The drafter proposes {n.draft_tokens} in "
        "each "
        "round. How many tokens does a round emit on average?"
    ),
    unit="tokens",
    per=("round",),
    answer=_tokens,
    mistakes={
        "accepts tokens behind a rejection": lambda n: 1 + n.draft_tokens * n.percent / 100,
        "leaves out the correction or bonus": lambda n: _tokens(n) - 1,
        "never runs out of draft": lambda n: 1 / (1 - n.percent / 100),
        "gives the longest round": lambda n: n.draft_tokens + 1,
    },
    hint="The second token counts only if the first passed, and one token always comes.",
    solution=lambda n: [
        working(speculation.expected_tokens, acceptance=n.percent / 100, draft_tokens=n.draft_tokens),
        f"About {significant(_tokens(n))} tokens for one step of the target.",
    ],
)


def _cost(n: Numbers) -> float:
    return speculation.round_cost(
        draft_tokens=n.draft_tokens, draft_cost=n.draft_percent / 100, verify_cost=n.check_percent / 100
    )


def _gain(n: Numbers, tokens: float | None = None, cost: float | None = None) -> float:
    return speculation.round_speedup(tokens_per_round=tokens or _tokens(n), round_cost=cost or _cost(n))


speedup = Problem(
    id="speculative_decoding/speed-up",
    title="Faster or slower",
    level=2,
    step=GAIN,
    printed={"percent": 60, "draft_tokens": 5, "draft_percent": 8, "check_percent": 130},
    choices={
        "percent": (50, 60, 70, 80),
        "draft_tokens": (2, 3, 5, 7),
        "draft_percent": (4, 8, 12, 20),
        "check_percent": (115, 130, 160, 220),
    },
    ask=lambda n: (
        f"Drafts of {n.draft_tokens} tokens, each accepted with {n.percent}% if it is tested. A draft token takes "
        f"{n.draft_percent}% of the time of a plain step, the step that checks the draft {n.check_percent}%. How many "
        "times as fast do tokens come?"
    ),
    unit="x",
    answer=_gain,
    mistakes={
        "takes tokens for speed": lambda n: _tokens(n),
        "checks for free": lambda n: _gain(n, cost=1 + n.draft_tokens * n.draft_percent / 100),
        "drafts for free": lambda n: _gain(n, cost=n.check_percent / 100),
        "pays for one draft token": lambda n: _gain(n, cost=(n.draft_percent + n.check_percent) / 100),
        "leaves out the correction or bonus": lambda n: _gain(n, tokens=_tokens(n) - 1),
    },
    hint="Tokens of a round, over the plain steps that it takes as long as.",
    solution=lambda n: [
        working(speculation.expected_tokens, acceptance=n.percent / 100, draft_tokens=n.draft_tokens),
        working(
            speculation.round_cost,
            draft_tokens=n.draft_tokens,
            draft_cost=n.draft_percent / 100,
            verify_cost=n.check_percent / 100,
        ),
        working(speculation.round_speedup, tokens_per_round=_tokens(n), round_cost=_cost(n)),
        f"Tokens come {significant(_gain(n))}× as fast.",
    ],
)

from_a_benchmark = Problem(
    id="speculative_decoding/from-a-benchmark",
    title="Read a benchmark",
    level=2,
    step=COST,
    printed={"plain": 20, "itl": 52, "tpot": 26},
    choices={"plain": (12, 16, 20, 24), "itl": (33, 45, 52, 68), "tpot": (11, 14, 22, 26)},
    possible=lambda n: n.itl > n.plain and 1.2 < n.itl / n.tpot < 5,
    ask=lambda n: (
        f"Without speculation a benchmark prints a mean ITL and TPOT of {n.plain} ms. With it: ITL {n.itl} ms, TPOT "
        f"{n.tpot} ms. Its ITL is the gap between messages, and a message holds what one round emits. How many tokens "
        "would a round have to emit for speculation to break even?"
    ),
    unit="tokens",
    per=("round",),
    answer=lambda n: n.itl / n.plain,
    mistakes={
        "gives what it emits now": lambda n: n.itl / n.tpot,
        "compares what a token takes": lambda n: n.tpot / n.plain,
        "turns the ratio around": lambda n: n.plain / n.itl,
    },
    hint="A round takes as long as how many plain steps?",
    solution=lambda n: [
        f"A round takes {n.itl} ms and a plain step {n.plain} ms; it emits {significant(n.itl / n.tpot)} tokens.",
        f"In its time plain decoding emits {n.itl}/{n.plain} = {significant(n.itl / n.plain)} tokens.",
    ],
)


def _least(n: Numbers) -> float:
    return speculation.break_even_acceptance(round_cost=n.cost_percent / 100, draft_tokens=n.draft_tokens)


break_even = Problem(
    id="speculative_decoding/break-even",
    title="The acceptance that breaks even",
    level=3,
    step=GAIN,
    printed={"cost_percent": 165, "draft_tokens": 2},
    choices={"cost_percent": (120, 135, 150, 165, 180, 200, 220), "draft_tokens": (2, 3, 4)},
    ask=lambda n: (
        f"A round with drafts of {n.draft_tokens} tokens takes as long as {significant(n.cost_percent / 100)} plain "
        "steps. From what acceptance of a tested token on is it faster?"
    ),
    unit="x",
    answer=_least,
    mistakes={
        "accepts tokens behind a rejection": lambda n: (n.cost_percent / 100 - 1) / n.draft_tokens,
        "compares with the longest round": lambda n: n.cost_percent / 100 / (n.draft_tokens + 1),
        "never runs out of draft": lambda n: 1 - 100 / n.cost_percent,
        "leaves out the correction or bonus": lambda n: (
            speculation.acceptance_for(tokens_per_round=1 + n.cost_percent / 100, draft_tokens=n.draft_tokens)
            if n.cost_percent / 100 < n.draft_tokens
            else None
        ),
    },
    hint="Set 1 + α + α² + … equal to the cost. With two tokens it is a quadratic; with more, try values.",
    solution=lambda n: [
        " + ".join(("1", "α", "α²", "α³", "α⁴")[: n.draft_tokens + 1])
        + f" = {significant(n.cost_percent / 100)}, "
        + ("a quadratic." if n.draft_tokens == 2 else "solved by halving an interval."),
        f"α = {significant(_least(n))}, or {format_percent(_least(n), 4)}.",
    ],
)


@functools.cache
def _crossover(chip: str) -> float:
    found = hardware.accelerator(chip)
    return roofline.crossover_tokens(
        peak=found.peaks["bf16"].value, bandwidth=found.bandwidth.value, bytes_per_weight=2
    )


how_many = Problem(
    id="speculative_decoding/how-many",
    title="How many can speculate",
    level=3,
    step=BATCH,
    printed={"chip": "h200-sxm", "draft_tokens": 5},
    choices={
        "chip": ("a100-80gb-sxm", "h100-pcie", "h100-nvl", "h200-sxm", "b200-sxm", "l40s", "mi300x"),
        "draft_tokens": (2, 3, 4, 5, 7),
    },
    ask=lambda n: (
        f"On {hardware.accelerator(n.chip).name} a step over bf16 weights waits for memory as long as it has at most "
        f"{significant(_crossover(n.chip))} tokens, by its datasheet and leaving the cache out. Every sequence "
        f"drafts {n.draft_tokens} tokens. How many sequences can decode together before checking is no longer free?"
    ),
    unit="sequences",
    exact=True,
    answer=lambda n: int(_crossover(n.chip) // (n.draft_tokens + 1)),
    mistakes={
        "forgets the token of the target": lambda n: int(_crossover(n.chip) // n.draft_tokens),
        "counts plain sequences": lambda n: int(_crossover(n.chip)),
        "drafts for the whole batch at once": lambda n: int(_crossover(n.chip)) - n.draft_tokens,
        "rounds up": lambda n: int(_crossover(n.chip) // (n.draft_tokens + 1)) + 1,
    },
    hint="How many tokens does a speculating sequence bring into the step?",
    solution=lambda n: [
        f"Each brings {n.draft_tokens + 1} tokens: the newest one and its drafts.",
        f"{significant(_crossover(n.chip))} / {n.draft_tokens + 1}, rounded down: "
        f"{format_count(int(_crossover(n.chip) // (n.draft_tokens + 1)))} sequences.",
    ],
)

DRAFT_COST = 0.05  # of a plain step, for one draft token: assumed as in the chapter
CACHED = 1024  # positions in each cache


@functools.cache
def _gain_of(model: str, slug: str, gpus: int, batch: int, percent: int, draft_tokens: int) -> float:
    """How many times as fast tokens come, if both steps run at their floors."""
    check = speculation.verification_floor(
        geometry(model), hardware.accelerator(slug), batch=batch, cached=CACHED, draft_tokens=draft_tokens, ranks=gpus
    )
    return speculation.round_speedup(
        tokens_per_round=speculation.expected_tokens(acceptance=percent / 100, draft_tokens=draft_tokens),
        round_cost=speculation.round_cost(draft_tokens=draft_tokens, draft_cost=DRAFT_COST, verify_cost=check.cost),
    )


def _gain_at(n: Numbers, batch: int) -> float:
    return _gain_of(n.model, n.chip, n.gpus, batch, n.percent, n.draft_tokens)


def _turn(n: Numbers) -> int | None:
    """The first batch at which a round loses, by floors; None if none up to 1,024 does."""
    return next((batch for batch in range(1, 1025) if _gain_at(n, batch) < 1), None)


def _emits(n: Numbers) -> float:
    """Tokens of a round if the acceptance held along the draft."""
    return speculation.expected_tokens(acceptance=n.percent / 100, draft_tokens=n.draft_tokens)


def _start(n: Numbers) -> int | None:
    """Half of the batch that loses; None where none does, or the first one does."""
    turn = _turn(n)
    return turn // 2 if turn and turn > 1 else None


def _faster(gain: float) -> str:
    return f"{significant(gain, 3)}×"


def _limit(n: Numbers) -> str:
    """From where on a round loses, and where drafts start."""
    turn = _turn(n)
    if turn is None:
        return "By floors no batch up to 1,024 loses. Rounds that are measured decide."
    if turn == 1:
        return "By floors even one sequence loses: don't switch it on with this draft."
    return (
        f"By floors it loses from {counted(turn, 'sequence')} on. Start with drafts up to half of that, "
        f"{format_count(_start(n))}, because real checks cost more than their floors; then move the limit to where "
        "measured tokens of a round outrun its measured time."
    )


def _decided(n: Numbers) -> str:
    """On or off at night and at noon, and what of the two would be measured otherwise."""
    start, turn = _start(n), _turn(n)
    night, noon = (turn is None or bool(start and batch <= start) for batch in (n.night, n.day))
    told = {True: "on", False: "off"}
    text = f"Decision: {told[night]} at night ({n.night}), {told[noon]} at noon ({n.day}). "
    if start:
        text += f"The start at {format_count(start)} is a choice: floors still give {_faster(_gain_at(n, start))} there"
        text += "".join(
            f", {when} {_faster(_gain_at(n, batch))} is too little above 1 to trust"
            for on, when, batch in ((night, "night's", n.night), (noon, "noon's", n.day))
            if not on and _gain_at(n, batch) > 1
        )
        text += ". "
    tokens = significant(_emits(n), 3)
    fewer = f"takes fewer plain steps than the {tokens} tokens it emits"
    more = f"takes more plain steps than the {tokens} tokens it emits"
    if noon:
        text += f"What overturns it: a measured round at {n.day} that {more}. "
    else:
        text += f"What overturns it: a measured round at {n.day if night else n.night} that {fewer}. "
    return text + "Promise time between tokens at a stated load."


def _switch(n: Numbers) -> list[str]:
    return [
        f"At their floors, with {CACHED:,} cached positions each and {DRAFT_COST:.0%} of a plain step for a draft "
        f"token, both assumed, tokens come {_faster(_gain_at(n, n.night))} as fast at night and "
        f"{_faster(_gain_at(n, n.day))} at noon.",
        _limit(n),
    ]


policy = Problem(
    id="speculative_decoding/policy",
    title="When to speculate",
    level="design",
    step=BATCH,
    printed={
        "model": "llama-3.1-70b",
        "chip": "h100-sxm",
        "gpus": 8,
        "night": 4,
        "day": 220,
        "percent": 68,
        "draft_tokens": 3,
    },
    choices={
        "model": ("llama-3.1-70b", "llama-3.1-8b"),
        "chip": ("a100-80gb-sxm", "h100-sxm"),
        "gpus": (4, 8),
        "night": (2, 4, 8, 16),
        "day": (96, 220, 400),
        "percent": (45, 68, 80),
        "draft_tokens": (3, 5),
    },
    ask=lambda n: (
        f"A chat service runs {geometry(n.model).name} in bf16 on {n.gpus} × {hardware.accelerator(n.chip).name} and "
        f"decodes {n.night} sequences at night and {n.day} at noon. A drafter with an acceptance of "
        f"{n.percent}% at its first token is ready, and somebody wants it on with {n.draft_tokens} draft tokens. What "
        "do "
        "you measure, when do you switch it on, and what do you promise?"
    ),
    checklist=lambda n: [
        "Says that the output stays the target's, and under which conditions: the tested chances are those that were "
        "drawn from, and the residual replaces a rejected token.",
        "Asks what the acceptance is of: tested tokens, drafted tokens, or a length.",
        "Measures acceptance by position on its own traffic, not one number, and expects it to fall along the draft.",
        "Measures the round's time at night's and at noon's batch, with and without drafts, in repeats with their "
        "spread.",
        "Divides tokens of a round by plain steps of a round, for each batch, and finds the break-even.",
        f"Counts tokens in the step: {n.night * (n.draft_tokens + 1)} at night, "
        f"{format_count(n.day * (n.draft_tokens + 1))} at noon, against the chip's crossover.",
        *_switch(n)[1:],
        "Turns drafts off, or shortens them, by batch size, and knows whether the engine can do that at run time.",
        "Budgets the drafter's weights and cache, one block less of every prefix hit for some drafters, and draft "
        "tokens in the step's budget.",
        "Promises time between tokens at a stated load; first tokens and throughput at noon are not promised.",
        "Watches tokens of a round and time of a round as two graphs, not one acceptance rate.",
    ],
    hint="Two numbers decide, and only one of them depends on the load.",
    solution=lambda n: [
        f"If the acceptance held along the draft, a round would emit {significant(_emits(n), 3)} tokens.",
        f"The step checks {n.night * (n.draft_tokens + 1)} tokens at night and "
        f"{format_count(n.day * (n.draft_tokens + 1))} at noon.",
        *_switch(n),
        _decided(n),
    ],
)
