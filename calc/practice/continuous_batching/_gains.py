"""Problems about what refilling places gains: the bound, the mean, and what is left of it in seconds."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import scheduling
from calc.practice._problem import Problem
from calc.practice.continuous_batching._model import BOUND, EXPECTED
from calc.units import counted, format_seconds, significant
from calc.working import working


def _batches(n: Numbers) -> int:
    return -(-n.requests // n.places)


def _most(n: Numbers) -> float:
    return scheduling.largest_gain(places=n.places, all_requests=n.requests, all_tokens=n.requests * n.mean)


most_gain = Problem(
    id="continuous_batching/most-gain",
    title="The most it can gain",
    level=2,
    step=BOUND,
    printed={"places": 8, "requests": 64, "mean": 3},
    choices={"places": (4, 6, 8, 16), "requests": (32, 48, 96, 240), "mean": (2, 3, 4, 5)},
    ask=lambda n: (
        f"{counted(n.requests, 'request')} wait at the start, {n.places} can run at once. Their responses have "
        f"{counted(n.requests * n.mean, 'token')} in all, at least one each; nothing else is known of them. Static "
        "batches last as long as the longest response in each. What bound do these numbers put on how many times the "
        "steps of continuous batching they take?"
    ),
    unit="x",
    answer=_most,
    mistakes={
        "stops at the number of places": lambda n: n.places,
        "stops at the number of batches": lambda n: _batches(n) if _batches(n) != n.places else None,
        "divides the tokens by the requests": lambda n: n.mean,
        "takes one token off each request": lambda n: n.places * (n.mean - 1) / n.mean,
    },
    hint="One response of a batch may be long. Every other one has at least one token, which costs the batch nothing.",
    solution=lambda n: [
        f"Static batches last at most as long as all tokens, less one for each of the {n.requests - _batches(n)} "
        "requests that are not the longest of their batch.",
        f"Continuous batching takes at least {significant(n.requests * n.mean / n.places)} steps.",
        working(scheduling.largest_gain, places=n.places, all_requests=n.requests, all_tokens=n.requests * n.mean),
        f"No lengths take static batches beyond {significant(_most(n))}× the steps. Whether any lengths come that far, "
        "the bound does not say.",
    ],
)


def _longest(n: Numbers) -> float:
    none = (1 - n.percent / 100) ** n.places
    return n.short * none + n.long * (1 - none)


def _mean(n: Numbers) -> float:
    return n.short + (n.long - n.short) * n.percent / 100


expected = Problem(
    id="continuous_batching/expected",
    title="A few long responses",
    level=3,
    step=EXPECTED,
    printed={"percent": 10, "long": 900, "short": 100, "places": 8},
    choices={"percent": (5, 10, 20), "long": (600, 1_000, 2_000), "short": (50, 100, 200), "places": (4, 8, 16)},
    ask=lambda n: (
        f"One response in {round(100 / n.percent)} has {counted(n.long, 'token')}, the others have "
        f"{counted(n.short, 'token')}, independently. A long queue waits for a server with "
        f"{counted(n.places, 'place')}. How many times the steps of continuous batching do static batches "
        "take, on average?"
    ),
    unit="x",
    answer=lambda n: scheduling.expected_gain(longest_output=_longest(n), mean_output=_mean(n)),
    mistakes={
        "takes every batch to have a long response": lambda n: n.long / _mean(n),
        "divides the long by the short": lambda n: n.long / n.short,
        "gives the number of places": lambda n: n.places,
        "adds the chances of a long one": lambda n: (
            (n.short + (n.long - n.short) * n.places * n.percent / 100) / _mean(n)
            if n.places * n.percent < 100
            else None
        ),
    },
    hint="How likely is a batch without any long response? Such a batch is short.",
    solution=lambda n: [
        f"A batch has no long response with {significant(1 - n.percent / 100)}^{n.places} = "
        f"{significant((1 - n.percent / 100) ** n.places)}, so it lasts {significant(_longest(n))} steps on average.",
        f"A response has {significant(_mean(n))} tokens on average.",
        working(scheduling.expected_gain, longest_output=round(_longest(n), 6), mean_output=round(_mean(n), 6)),
        f"That is {significant(_longest(n) / _mean(n))}×.",
    ],
)


def _seconds(n: Numbers, tokens: int) -> float:
    """Engine time of one request whose share of a batch is so many steps."""
    return scheduling.schedule_seconds(**_share(n, tokens))


def _share(n: Numbers, tokens: int) -> dict[str, float]:
    return {
        "steps": tokens / n.places,
        "base_s": n.base_ms / 1e3,
        "prefill_tokens": n.prompt,
        "prefill_token_s": n.prefill_us / 1e6,
        "decode_rows": n.mean - 1,
        "decode_row_s": n.decode_us / 1e6,
    }


seconds = Problem(
    id="continuous_batching/seconds",
    title="Steps are not seconds",
    level=3,
    step=EXPECTED,
    printed={
        "mean": 240, "longest": 600, "places": 12, "base_ms": 18, "prompt": 1_500, "prefill_us": 60, "decode_us": 200,
    },
    choices={
        "mean": (160, 240, 320),
        "longest": (480, 640, 800),
        "places": (8, 16, 32),
        "base_ms": (10, 20),
        "prompt": (500, 2_000, 4_000),
        "prefill_us": (40, 80),
        "decode_us": (100, 250),
    },
    ask=lambda n: (
        f"Responses have {n.mean} tokens on average, the longest of a static batch of {n.places} has {n.longest}. A "
        f"step takes {n.base_ms} ms, {n.prefill_us} µs more for each prompt token and {n.decode_us} µs more for each "
        f"request that decodes in it; prompts have {counted(n.prompt, 'token')}, and each response's first token comes "
        "with its prompt's step. A long queue keeps every place filled. How many times as long as continuous batching "
        "do static batches take, in time?"
    ),
    unit="x",
    answer=lambda n: _seconds(n, n.longest) / _seconds(n, n.mean),
    mistakes={
        "counts steps": lambda n: n.longest / n.mean,
        "forgets the prompts": lambda n: (
            (_seconds(n, n.longest) - n.prompt * n.prefill_us / 1e6)
            / (_seconds(n, n.mean) - n.prompt * n.prefill_us / 1e6)
        ),
        "lets static batches decode for the longest in every row": lambda n: (
            (_seconds(n, n.longest) + (n.longest - n.mean) * n.decode_us / 1e6) / _seconds(n, n.mean)
        ),
    },
    hint="Take one request's share: its part of the steps, its prompt, and its rows. Only the first differs.",
    solution=lambda n: [
        f"A step is shared by {n.places} requests, so one request's share of the steps is {n.longest} / {n.places} = "
        f"{significant(n.longest / n.places)} in static batches and {n.mean} / {n.places} = "
        f"{significant(n.mean / n.places)} in continuous ones.",
        "Static:",
        working(scheduling.schedule_seconds, **_share(n, n.longest)),
        "Continuous:",
        working(scheduling.schedule_seconds, **_share(n, n.mean)),
        f"{format_seconds(_seconds(n, n.longest))} over {format_seconds(_seconds(n, n.mean))} is "
        f"{significant(_seconds(n, n.longest) / _seconds(n, n.mean))}×.",
    ],
)  # fmt: skip
