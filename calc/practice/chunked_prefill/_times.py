"""Problems about what streams and the long prompt see, and the choice of a setting."""

from __future__ import annotations

from math import ceil, floor, hypot
from types import SimpleNamespace as Numbers

from calc import queueing, scheduling
from calc.practice._problem import Problem
from calc.practice.chunked_prefill._model import ADDED, CHOICE, ROOM, SEEN
from calc.units import counted, format_count, format_percent, format_seconds, significant
from calc.working import working


def _longer(n: Numbers) -> float:
    return n.chunks * n.small_ms / n.large_ms


longer = Problem(
    id="chunked_prefill/longer",
    title="How much longer",
    level=1,
    step=ADDED,
    printed={"chunks": 12, "small_ms": 14, "large_ms": 96},
    choices={"chunks": (4, 6, 8, 12), "small_ms": (9, 14, 22), "large_ms": (40, 64, 96)},
    possible=lambda n: n.small_ms < n.large_ms < 0.97 * n.chunks * n.small_ms,
    ask=lambda n: (
        f"A prompt that took one step of {n.large_ms} ms now takes {n.chunks} steps of {n.small_ms} ms, one after the "
        "other. How many times as long does its prefill take?"
    ),
    unit="x",
    answer=_longer,
    mistakes={
        "compares one step with one step": lambda n: n.small_ms / n.large_ms,
        "turns the ratio over": lambda n: 1 / _longer(n),
        "gives what is added": lambda n: _longer(n) - 1,
    },
    hint="All of its steps against the one.",
    solution=lambda n: [
        f"{n.chunks} · {n.small_ms} ms = {format_count(n.chunks * n.small_ms)} ms.",
        f"{format_count(n.chunks * n.small_ms)} ms / {n.large_ms} ms = {significant(_longer(n))}×. What every step "
        f"costs, whatever it holds, is paid {n.chunks} times.",
    ],
)


balance = Problem(
    id="chunked_prefill/balance",
    title="Full chunks in every step",
    level=2,
    step=ROOM,
    printed={"chunk": 512, "members": 18},
    choices={"chunk": (128, 256, 512, 1024), "members": (6, 10, 18, 33, 48)},
    ask=lambda n: (
        f"Every step shall carry one chunk of {format_count(n.chunk)} prompt tokens and {n.members - 1} requests that "
        f"decode, {n.members} requests in all. How many prompt tokens must requests have for each output token, so "
        "that neither chunks nor decoding requests run out? Leave aside the token that a prompt's last chunk samples."
    ),
    unit="x",
    answer=lambda n: scheduling.prompt_per_output(chunk=n.chunk, members=n.members),
    mistakes={
        "divides by all requests of the step": lambda n: n.chunk / n.members,
        "turns the ratio over": lambda n: (n.members - 1) / n.chunk,
        "takes the decode tokens off the chunk": lambda n: (n.chunk - n.members + 1) / (n.members - 1),
    },
    hint="Count the prompt tokens that one step computes, and the output tokens that come out of it.",
    solution=lambda n: [
        f"A step of N_step = {n.members} requests computes a chunk of C = {format_count(n.chunk)} prompt tokens. All "
        f"but the one whose prompt it is decode: N_dec = {n.members - 1}, with one output token each. Wanted is the "
        "ratio r_PD of prompt to output.",
        working(scheduling.prompt_per_output, chunk=n.chunk, members=n.members),
    ],
)


def _gaps(n: Numbers) -> dict[str, float]:
    return {"stalls": n.chunks, "stall_s": n.stall_ms / 1000, "other_gap_s": n.gap_ms / 1000}


def _seen(n: Numbers) -> float:
    return scheduling.stalled_share(interval_s=n.every_s, **_gaps(n))


TRAFFIC = {
    "chunks": (4, 8, 12, 20),
    "stall_ms": (60, 90, 140),
    "gap_ms": (12, 18, 25),
}


seen = Problem(
    id="chunked_prefill/seen",
    title="Which gaps are stalled",
    level=3,
    step=SEEN,
    printed={"chunks": 8, "stall_ms": 140, "gap_ms": 18, "every_s": 6},
    choices={**TRAFFIC, "every_s": (4, 6, 9)},
    ask=lambda n: (
        f"A stream gets a token every {n.gap_ms} ms. Every {n.every_s} s a long prompt comes, which is computed in "
        f"{n.chunks} chunks; with a chunk in it a step takes {n.stall_ms} ms. What share of the stream's gaps is "
        "lengthened?"
    ),
    unit="x",
    answer=_seen,
    mistakes={
        "gives the share of the time": lambda n: n.chunks * n.stall_ms / 1000 / n.every_s,
        "lets short gaps fill the whole interval": lambda n: n.chunks / (n.chunks + n.every_s * 1000 / n.gap_ms),
        "counts one long gap for each prompt": lambda n: scheduling.stalled_share(
            interval_s=n.every_s, stalls=1, stall_s=n.chunks * n.stall_ms / 1000, other_gap_s=n.gap_ms / 1000
        ),
        "compares them with the other gaps": lambda n: _seen(n) / (1 - _seen(n)),
    },
    hint="Count gaps between two long prompts: the lengthened ones, and those that fill the rest of the time.",
    solution=lambda n: [
        working(scheduling.stalled_share, interval_s=n.every_s, **_gaps(n)),
        f"So {significant(_seen(n))}, or {format_percent(_seen(n))}, of the gaps are lengthened.",
    ],
)


def _interval(n: Numbers) -> float:
    return 1 / scheduling.stall_rate(stalled_share=1 - n.percentile / 100, **_gaps(n))


how_often = Problem(
    id="chunked_prefill/how-often",
    title="Out of sight of a percentile",
    level=3,
    step=SEEN,
    printed={"chunks": 4, "stall_ms": 90, "gap_ms": 18, "percentile": 99},
    choices={**TRAFFIC, "percentile": (95, 98, 99)},
    ask=lambda n: (
        f"A stream gets a token every {n.gap_ms} ms. A long prompt is computed in {n.chunks} chunks, and a step with a "
        f"chunk in it takes {n.stall_ms} ms. How far apart must long prompts be, start to start, for the stream's "
        f"{n.percentile}th percentile of gaps to be just about to show them?"
    ),
    unit="s",
    answer=_interval,
    mistakes={
        "takes percent of the time": lambda n: n.chunks * n.stall_ms / (1000 - 10 * n.percentile),
        "forgets the time of the stalled gaps": lambda n: _interval(n) - n.chunks * n.stall_ms / 1000,
        "counts one gap for each prompt": lambda n: _interval(n) / n.chunks,
    },
    hint="At the 99th percentile one gap in a hundred is stalled: 99 others for each of them.",
    solution=lambda n: [
        working(scheduling.stall_rate, stalled_share=1 - n.percentile / 100, **_gaps(n)),
        f"One in {format_seconds(_interval(n))}.",
    ],
)


def _budget(n: Numbers, limit_us: int | None = None) -> int:
    """The largest number of tokens whose step stays within the limit, by the line through both points."""
    limit = n.limit_ms * 1000 if limit_us is None else limit_us
    rise, run = (n.large_ms - n.small_ms) * 1000, n.large_tokens - n.small_tokens
    return n.small_tokens + (limit - n.small_ms * 1000) * run // rise


def _line(n: Numbers) -> dict[str, float]:
    return {
        "small_s": n.small_ms / 1000,
        "large_s": n.large_ms / 1000,
        "small_tokens": n.small_tokens,
        "large_tokens": n.large_tokens,
    }


def _base(n: Numbers) -> float:
    slope = scheduling.token_slope(**_line(n))
    return scheduling.step_base(small_s=n.small_ms / 1000, small_tokens=n.small_tokens, token_slope=slope)


budget_for_gap = Problem(
    id="chunked_prefill/budget-for-gap",
    title="A budget for a gap",
    level=3,
    step=CHOICE,
    printed={"small_ms": 15, "small_tokens": 300, "large_ms": 68, "large_tokens": 2300, "limit_ms": 40},
    choices={
        "small_ms": (11, 15, 18),
        "small_tokens": (200, 300),
        "large_ms": (51, 68, 83),
        "large_tokens": (1800, 2300, 3100),
        "limit_ms": (25, 40, 50),
    },
    possible=lambda n: n.small_ms * n.large_tokens > n.large_ms * n.small_tokens,  # a step costs something at rest
    ask=lambda n: (
        f"A step of {format_count(n.small_tokens)} tokens takes {n.small_ms} ms and one of "
        f"{format_count(n.large_tokens)} tokens {n.large_ms} ms. Assume a straight line. What is the largest token "
        f"budget with which no step takes longer than {n.limit_ms} ms?"
    ),
    unit="tokens",
    exact=True,
    answer=_budget,
    mistakes={
        "takes time to be in proportion to tokens": lambda n: n.limit_ms * n.large_tokens // n.large_ms,
        "forgets what a step costs at rest": lambda n: int(n.limit_ms / 1000 / scheduling.token_slope(**_line(n))),
        "rounds up": lambda n: _budget(n) + 1,
    },
    hint="Slope and base of the line first. The budget counts the decoding requests too.",
    solution=lambda n: [
        working(scheduling.token_slope, **_line(n)),
        working(
            scheduling.step_base,
            small_s=n.small_ms / 1000,
            small_tokens=n.small_tokens,
            token_slope=scheduling.token_slope(**_line(n)),
        ),
        f"({n.limit_ms} ms − {format_seconds(_base(n))}) / {format_seconds(scheduling.token_slope(**_line(n)))}, "
        f"rounded down: {counted(_budget(n), 'token')}.",
    ],
)


# --- an open question ----------------------------------------------------------------------------


def _behind(n: Numbers) -> float:
    """Mean wait behind other documents, if each takes all the time that is accepted."""
    return queueing.md1_wait(arrival_rate=1 / n.every_s, service_s=n.wait_s)


def _one(n: Numbers) -> float:
    """Time in which a document must be read for wait and reading to take what is accepted on average.

    S + S² / (2 · (every − S)) = accepted, solved for S.
    """
    return n.every_s + n.wait_s - hypot(n.every_s, n.wait_s)


def _shared(n: Numbers) -> int:
    """Tokens of a document in each step, for it to be read in that time."""
    return ceil(n.longest / floor(_one(n) * 1000 / n.gap_ms))


def _checklist(n: Numbers) -> list[str]:
    return [
        "States the objective before the sweep: which gap, which percentile or maximum, which limit, and what is made "
        "small under it.",
        "Measures first-token waits and gaps of the streams together, at several budgets and with chunking off.",
        f"Replays its own mix: prompts of up to {format_count(n.longest)} tokens beside {n.streams} streams, at the "
        "rate at which they really come.",
        f"Asks about two documents at once: one every {n.every_s} s that takes {n.wait_s} s keeps the prefill busy "
        f"{format_percent(n.wait_s / n.every_s)} of the time, and a document waits {format_seconds(_behind(n))} on "
        "average before its own begins.",
        "Repeats every setting, shows median and range, and does not rank settings whose ranges overlap.",
        "Looks at single long gaps and not at the mean, and says how many gaps the percentile must be made of.",
        "Knows that the last chunks are the slowest ones: they read the longest prefix.",
        "Knows what else the budget changes: activation memory, so the room for the cache.",
        "Limits how much of a step one prompt may take, so that short prompts get in beside a long one.",
        "Says what chunking costs where nobody decodes: more steps for nothing.",
        "Says when the choice has to be made again: another model, GPU, context length, or engine version.",
    ]


choose_budget = Problem(
    id="chunked_prefill/choose-budget",
    title="Choose a budget",
    level="design",
    step=CHOICE,
    printed={"streams": 60, "longest": 60_000, "every_s": 10, "gap_ms": 100, "wait_s": 6},
    choices={
        "streams": (20, 60, 150),
        "longest": (30_000, 60_000, 100_000),
        "every_s": (5, 10, 30),
        "gap_ms": (60, 100, 200),
        "wait_s": (4, 6, 10),
    },
    possible=lambda n: n.wait_s < n.every_s,  # more can't be read, however they come
    ask=lambda n: (
        f"About {n.streams} chats stream at a time. Every {n.every_s} s or so somebody pastes a document of up to "
        f"{format_count(n.longest)} tokens. Readers complain when a stream pauses for more than {n.gap_ms} ms, and the "
        f"one with the document accepts {n.wait_s} s. How do you choose the token budget, and how do you know that it "
        "is right?"
    ),
    checklist=_checklist,
    hint="Objective, measurement, repeats. Then ask what else the budget changes.",
    solution=lambda n: [
        f"A budget is out of the question if the document then can't be read in {n.wait_s} s: its last step must end "
        f"by then, so each of its n steps may take {n.wait_s} s / n on average.",
        f"If every step took the full {n.gap_ms} ms, there would be time for "
        f"{format_count(n.wait_s * 1000 // n.gap_ms)} of them, of "
        f"{format_count(-(-n.longest // (n.wait_s * 1000 // n.gap_ms)))} tokens of the longest document each, beside "
        f"{n.streams} that decode. A budget that computes so many and keeps every step to {n.gap_ms} ms is safe. "
        "Early chunks are quicker than the last, so a smaller budget can do as well: then the sum of all steps "
        f"decides, not {n.gap_ms} ms times their number.",
        f"If no budget measured keeps the last step within {n.gap_ms} ms and the sum of all within {n.wait_s} s, split "
        "the pools, cache the documents' prefixes, or move one of the limits.",
        f"That is for a document alone. Take every document to be as long as the longest. One every {n.every_s} s that "
        f"takes S = {n.wait_s} s keeps the prefill busy for ρ = {format_percent(n.wait_s / n.every_s)} of the time. If "
        "they come independently of each other, one waits W = ρ / (2 · (1 − ρ)) · S before its own begins: "
        f"{format_seconds(_behind(n))} on average, and {n.wait_s} s are not kept. The formula stands in Step 4 of the "
        f"chapter on the first-token budget. To take {n.wait_s} s on average, wait included, each must be read in "
        f"{format_seconds(_one(n))}: {format_count(_shared(n))} tokens a step are enough, if each step takes "
        f"{n.gap_ms} ms; fewer can do. For more than the average, less time.",
        f"Decision: begin with a budget of {format_count(_shared(n) + n.streams)}, the {n.streams} chats included, and "
        "sweep around it, with repeats. The chats' own prompts come out of the same budget, and "
        f"{format_count(_shared(n))} for the document alone leave them none: add what they bring in a step. Of the "
        "budgets that keep the gap find the one in which the document is read "
        "soonest; of all that the repeats don't tell from it, take the one with the shortest gap. What overturns "
        f"this: a last step of more than {n.gap_ms} ms at {format_count(_shared(n) + n.streams)}. Then take the "
        "largest budget that keeps the gap, and add up its steps. If they take more than "
        f"{format_seconds(_one(n))}, no budget keeps both.",
    ],
)
