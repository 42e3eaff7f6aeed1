"""Problems about walking through a schedule, and about the time of a step."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import scheduling
from calc.practice._problem import Problem
from calc.practice.continuous_batching._model import LIMITS, QUEUES, WALK, listed, named
from calc.scheduling import Affine, Request
from calc.units import counted, format_count, format_percent, format_seconds, significant
from calc.working import working


def _batches(n: Numbers) -> list[tuple[int, ...]]:
    return [n.lengths[start : start + n.places] for start in range(0, len(n.lengths), n.places)]


def _static(n: Numbers) -> int:
    return scheduling.static_steps(n.lengths, n.places)


def _continuous(n: Numbers) -> int:
    return scheduling.continuous_steps(n.lengths, n.places)


def _sorted_static(n: Numbers) -> int:
    return scheduling.static_steps(sorted(n.lengths), n.places)


def _all_waiting(n: Numbers) -> str:
    return (
        f"Responses will have so many tokens: {named(n.lengths)}. All wait at the start, and "
        f"{counted(n.places, 'request')} can run at once. A prompt is computed in the step of its first token."
    )


static_steps = Problem(
    id="continuous_batching/static-steps",
    title="A batch waits for its longest",
    level=1,
    step=WALK,
    printed={"lengths": (5, 2, 8, 3, 6), "places": 2},
    choices={"lengths": QUEUES, "places": (2, 3)},
    ask=lambda n: f"{_all_waiting(n)} How many steps do static batches take, in this order?",
    unit="steps",
    exact=True,
    answer=_static,
    mistakes={
        "refills places as in continuous batching": _continuous,
        "runs one request at a time": lambda n: sum(n.lengths),
        "stops a batch with its shortest response": lambda n: sum(map(min, _batches(n))),
        "sorts the requests first": _sorted_static,
        "counts only the longest response of all": lambda n: max(n.lengths),
    },
    hint="Cut the queue into batches and write down the longest response of each.",
    solution=lambda n: [
        "The batches: "
        + "; ".join(f"{', '.join(map(str, batch))}: {counted(max(batch), 'step')}" for batch in _batches(n))
        + ".",
        f"{listed([max(batch) for batch in _batches(n)])} = {counted(_static(n), 'step')}.",
    ],
)


def _rows(n: Numbers) -> list[str]:
    """When each request starts and ends under continuous batching."""
    requests = [Request(i, 1, length) for i, length in enumerate(n.lengths)]
    times = scheduling.simulate(requests, scheduling.only_places(n.places), Affine(base_s=1.0))
    return [
        f"{chr(ord('A') + i)} waits {counted(round(start), 'step')} and ends after step {format_count(round(end))}."
        for i, (start, end) in enumerate(zip(times.wait_s(), times.latency_s(), strict=True))
    ]


continuous_steps = Problem(
    id="continuous_batching/continuous-steps",
    title="A place is refilled",
    level=1,
    step=WALK,
    printed={"lengths": (5, 2, 8, 3, 6), "places": 2},
    choices={"lengths": QUEUES, "places": (2, 3)},
    ask=lambda n: f"{_all_waiting(n)} After how many steps has continuous batching done all of them?",
    unit="steps",
    exact=True,
    answer=_continuous,
    mistakes={
        "waits for the longest of each batch": _static,
        "divides all tokens by the places": lambda n: -(-sum(n.lengths) // n.places),
        "runs one request at a time": lambda n: sum(n.lengths),
        "counts only the longest response of all": lambda n: max(n.lengths),
    },
    hint="Go step by step: who ends, and who takes the place that comes free?",
    solution=lambda n: [
        *_rows(n),
        f"The last one ends after {counted(_continuous(n), 'step')}; {format_count(sum(n.lengths))} tokens in "
        f"{counted(n.places, 'place')} could not be done in fewer than {format_count(-(-sum(n.lengths) // n.places))}.",
    ],
)


idle_share = Problem(
    id="continuous_batching/idle-share",
    title="How full the batch was",
    level=2,
    step=WALK,
    printed={"requests": 40, "tokens": 4_800, "places": 8, "steps": 1_150},
    choices={
        "requests": (24, 40, 64, 120),
        "tokens": (3_600, 5_200, 9_000, 16_000),
        "places": (4, 8, 16),
        "steps": (1_300, 2_400, 4_500, 6_000),
    },
    possible=lambda n: 1.15 * n.tokens < n.places * n.steps < 12 * n.tokens and n.tokens < 1_000 * n.requests,
    ask=lambda n: (
        f"A server with {counted(n.places, 'place')} ran {counted(n.requests, 'request')} in static batches. It took "
        f"{counted(n.steps, 'step')} and sampled {counted(n.tokens, 'token')}, one in each step for each request that "
        "was running. What share of its places was idle, over all steps?"
    ),
    unit="x",
    answer=lambda n: (n.places * n.steps - n.tokens) / (n.places * n.steps),
    mistakes={
        "gives the share that was filled": lambda n: n.tokens / (n.places * n.steps),
        "divides the idle places by the tokens": lambda n: (n.places * n.steps - n.tokens) / n.tokens,
        "takes requests for tokens": lambda n: 1 - n.requests / (n.places * n.steps),
        "forgets that there are several places": lambda n: abs(n.steps - n.tokens) / n.steps,
    },
    hint="There were places times steps boxes. A token fills one.",
    solution=lambda n: [
        working(scheduling.idle_slot_steps, places=n.places, steps=n.steps, all_tokens=n.tokens),
        f"Of {format_count(n.places * n.steps)} that is "
        f"{significant((n.places * n.steps - n.tokens) / (n.places * n.steps))}, or "
        f"{format_percent((n.places * n.steps - n.tokens) / (n.places * n.steps))}.",
    ],
)


def _cost(n: Numbers, prompt: int, rows: int) -> dict[str, float]:
    return {
        "steps": 1,
        "base_s": n.base_ms / 1e3,
        "prefill_tokens": prompt,
        "prefill_token_s": n.prefill_us / 1e6,
        "decode_rows": rows,
        "decode_row_s": n.decode_us / 1e6,
    }


def _step_s(n: Numbers, prompt: int, rows: int) -> float:
    return scheduling.schedule_seconds(**_cost(n, prompt, rows))


full_step = Problem(
    id="continuous_batching/full-step",
    title="A token in company",
    level=1,
    step=LIMITS,
    printed={"base_ms": 12, "prefill_us": 40, "decode_us": 150, "rows": 48},
    choices={
        "base_ms": (8, 11, 18, 25),
        "prefill_us": (25, 60),
        "decode_us": (80, 120, 250),
        "rows": (24, 40, 64, 96),
    },
    ask=lambda n: (
        f"A step takes {n.base_ms} ms whatever it holds, and {n.decode_us} µs more for each request that decodes in "
        f"it. {counted(n.rows, 'request')} decode and nobody joins. How long does each of them wait for its next token?"
    ),
    unit="s",
    answer=lambda n: _step_s(n, 0, n.rows),
    mistakes={
        "gives the time of a request alone": lambda n: _step_s(n, 0, 1),
        "forgets what the requests add": lambda n: n.base_ms / 1e3,
        "gives one request's share of the step": lambda n: _step_s(n, 0, n.rows) / n.rows,
        "pays for the whole step once for each request": lambda n: n.rows * _step_s(n, 0, 1),
    },
    hint="All of them get their token at the end of the same step.",
    solution=lambda n: [
        f"{n.base_ms} ms + {n.rows} · {n.decode_us} µs = {format_seconds(_step_s(n, 0, n.rows))}.",
        f"Each of them waits {format_seconds(_step_s(n, 0, n.rows))}.",
    ],
)


join = Problem(
    id="continuous_batching/join",
    title="A prompt joins",
    level=2,
    step=LIMITS,
    printed={"base_ms": 20, "prefill_us": 30, "decode_us": 200, "rows": 30, "prompt": 12_000},
    choices={
        "base_ms": (10, 14, 25),
        "prefill_us": (20, 40, 80),
        "decode_us": (100, 300),
        "rows": (16, 32, 60),
        "prompt": (3_000, 6_000, 20_000),
    },
    ask=lambda n: (
        f"A step takes {n.base_ms} ms, {n.prefill_us} µs more for each prompt token in it and {n.decode_us} µs more "
        f"for each request that decodes. While {counted(n.rows, 'request')} decode, another one joins with a prompt of "
        f"{counted(n.prompt, 'token')} that is computed in one step. How long is the gap between two tokens of each "
        "stream across that step?"
    ),
    unit="s",
    answer=lambda n: _step_s(n, n.prompt, n.rows),
    mistakes={
        "forgets the prompt": lambda n: _step_s(n, 0, n.rows),
        "counts the newcomer as one more decoding request": lambda n: _step_s(n, 0, n.rows + 1),
        "deals the prompt out to the streams": lambda n: _step_s(n, n.prompt / n.rows, n.rows),
        "adds a step of their own for the streams": lambda n: _step_s(n, n.prompt, 0) + _step_s(n, 0, n.rows),
    },
    hint="One step holds the prompt and all streams. What does it take?",
    solution=lambda n: [
        f"Before: {format_seconds(_step_s(n, 0, n.rows))}.",
        working(scheduling.schedule_seconds, **_cost(n, n.prompt, n.rows)),
        f"Across that step the gap is {format_seconds(_step_s(n, n.prompt, n.rows))}.",
    ],
)
