"""Problems about load: bursts, overload, a full cache, and a server that two kinds of traffic share."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import kv_cache, queueing, scheduling
from calc.practice._problem import Problem
from calc.practice.continuous_batching._model import ARRIVALS, LIMITS
from calc.units import counted, format_count, format_percent, format_seconds, significant
from calc.working import legend, working


def _wait(n: Numbers) -> float:
    return scheduling.burst_wait(requests=n.requests, places=n.places, service_s=n.service)


burst = Problem(
    id="continuous_batching/burst",
    title="Waves",
    level=2,
    step=ARRIVALS,
    printed={"requests": 24, "places": 8, "service": 5.0},
    choices={"requests": (12, 24, 32, 48), "places": (4, 6, 8, 12), "service": (2.5, 4.0, 6.0, 9.0)},
    possible=lambda n: n.requests > n.places,
    ask=lambda n: (
        f"{n.requests} equal requests arrive at once at an idle server with {counted(n.places, 'place')}. Each runs "
        f"for {significant(n.service)} s, whoever runs beside it. How long does a request wait for a "
        "place, on average?"
    ),
    unit="s",
    answer=_wait,
    mistakes={
        "gives the wait of the last one": lambda n: (n.requests - 1) // n.places * n.service,
        "averages over those who wait": lambda n: _wait(n) * n.requests / (n.requests - n.places),
        "adds the request's own time": lambda n: _wait(n) + n.service,
        "lets them run one by one": lambda n: n.service * (n.requests - 1) / 2,
    },
    hint="They go in waves. The first wave does not wait, the second waits one service time.",
    solution=lambda n: [
        f"{legend(scheduling.burst_wait)} A server works on {n.places} at once here, so S is the time that a request "
        "holds its place.",
        working(scheduling.burst_wait, requests=n.requests, places=n.places, service_s=n.service),
        f"On average they wait {format_seconds(_wait(n))}.",
    ],
)


def _backlog(n: Numbers, seconds: float | None = None) -> float:
    length = n.seconds if seconds is None else seconds
    return queueing.backlog_wait(requests=n.offered * length, arrival_rate=n.offered, served_rate=n.served)


overtime = Problem(
    id="continuous_batching/overtime",
    title="A mean that grows",
    level=2,
    step=ARRIVALS,
    printed={"offered": 9, "served": 6, "seconds": 60, "longer": 600},
    choices={"offered": (8, 10, 12, 15), "served": (5, 6, 7), "seconds": (30, 60, 120), "longer": (300, 900, 1_800)},
    ask=lambda n: (
        f"A load test sends {n.offered} requests a second for {n.seconds} s to a server that can finish {n.served} a "
        f"second, and reports a mean wait of {format_seconds(_backlog(n))} in the queue. What would it report if it "
        f"sent the same load for {counted(n.longer, 'second')}? Leave random fluctuation out."
    ),
    unit="s",
    answer=lambda n: _backlog(n, n.longer),
    mistakes={
        "takes the mean for a property of the server": _backlog,
        "gives the wait of the last request": lambda n: 2 * _backlog(n, n.longer),
        "gives the length of the backlog in requests": lambda n: (n.offered - n.served) * n.longer,
    },
    hint="How many requests are in the queue when the test ends, and who waits how long?",
    solution=lambda n: [
        f"The queue grows by {n.offered - n.served} a second as long as the test runs, and the wait grows with it.",
        f"{legend(queueing.backlog_wait)} The burst is the whole test.",
        working(
            queueing.backlog_wait,
            requests=n.offered * n.longer,
            arrival_rate=n.offered,
            served_rate=n.served,
        ),
        f"It would report {format_seconds(_backlog(n, n.longer))}.",
    ],
)


def _blocks(n: Numbers, positions: int) -> int:
    return kv_cache.blocks(positions=positions, block_tokens=n.block)


def _at_end(n: Numbers) -> int:
    return _blocks(n, kv_cache.positions_written(prompt=n.prompt, generated=n.output))


pool = Problem(
    id="continuous_batching/pool",
    title="Places without room",
    level=2,
    step=LIMITS,
    printed={"places": 64, "blocks": 2_400, "block": 16, "prompt": 700, "output": 500},
    choices={
        "places": (128, 256),
        "blocks": (1_200, 2_000, 3_000),
        "block": (16, 32),
        "prompt": (300, 600, 1_000),
        "output": (200, 400, 800),
    },
    ask=lambda n: (
        f"A server has {n.places} places. Its cache has {counted(n.blocks, 'block')} of {n.block} positions free. All "
        f"requests have prompts of {counted(n.prompt, 'token')} and responses of {counted(n.output, 'token')}. How "
        "many can run together to their end with nobody preempted?"
    ),
    unit="requests",
    exact=True,
    answer=lambda n: min(n.places, n.blocks // _at_end(n)),
    mistakes={
        "counts the places": lambda n: n.places,
        "admits by the prompt alone": lambda n: min(n.places, n.blocks // _blocks(n, n.prompt)),
        "takes a block for a position": lambda n: n.blocks // (n.prompt + n.output - 1) or None,
        "forgets the prompt": lambda n: min(n.places, n.blocks // _blocks(n, n.output)),
    },
    hint="How many blocks does one of them hold with its last token?",
    solution=lambda n: [
        working(kv_cache.positions_written, prompt=n.prompt, generated=n.output),
        working(
            kv_cache.blocks,
            positions=kv_cache.positions_written(prompt=n.prompt, generated=n.output),
            block_tokens=n.block,
        ),
        f"{format_count(n.blocks)} blocks hold {format_count(n.blocks // _at_end(n))} of them, so "
        f"{counted(min(n.places, n.blocks // _at_end(n)), 'request')} run to their end.",
    ],
)


def _token_ms(n: Numbers) -> float:
    return n.base_ms + n.places * n.decode_us / 1e3


def _spare_ms(n: Numbers) -> float:
    """What a full step leaves of the promise for prompts."""
    return n.token_ms - _token_ms(n)


def _cut_ms(n: Numbers) -> float:
    """A step in which prompts take what a full one leaves them, with nobody decoding."""
    return n.base_ms + _spare_ms(n)


shared_server = Problem(
    id="continuous_batching/shared-server",
    title="Chat and batch on one server",
    level="design",
    step=LIMITS,
    printed={"places": 48, "base_ms": 15, "decode_us": 150, "token_ms": 30, "job_prompt": 6_000},
    choices={
        "places": (32, 64, 96),
        "base_ms": (12, 20),
        "decode_us": (100, 200),
        "token_ms": (40, 60),
        "job_prompt": (4_000, 12_000, 30_000),
    },
    ask=lambda n: (
        f"One engine with {n.places} places serves a chat, which promises a token every {n.token_ms} ms, and a nightly "
        f"job that sends thousands of prompts of {counted(n.job_prompt, 'token')} at once. A step takes {n.base_ms} ms "
        f"and {n.decode_us} µs more for each request that decodes. How do you set the engine up, what do you measure, "
        "and what do you tell the chat's owner?"
    ),
    hint="Go through what continuous batching does not promise: step time, prompts, memory, fairness.",
    checklist=lambda n: [
        f"Computes the time of a full step first: {significant(_token_ms(n))} ms with all places decoding, against the "
        f"promise of {n.token_ms} ms, and lowers the number of places if it has to.",
        "Says that a prompt of the job stalls every chat while it is computed, and cuts it with a token budget.",
        "Gives the chat priority or places of its own, because first come, first served puts the job's burst ahead.",
        "Sizes the cache by prompts and responses at their end, and says what preemption would cost.",
        "Keeps the job's requests outside the engine and feeds them by a rate or by the length of the queue.",
        "Measures time to first token and gaps of the chat alone, at a high percentile, with the job running.",
        "Tests with arrivals over time and with lengths as they are, not with one length and one burst.",
        "Separates throughput from the promise: the job wants full places, the chat wants short steps.",
        "Says when two engines are cheaper than one that serves both.",
    ],
    solution=lambda n: [
        f"With all places decoding a token takes {significant(_token_ms(n))} ms; {n.token_ms} ms leave room for "
        f"{format_count((n.token_ms - n.base_ms) * 1000 // n.decode_us)} decoding requests and no prompt.",
        f"Within the promise a step that holds every place has {significant(_spare_ms(n))} ms left for prompts. A "
        f"prompt of {counted(n.job_prompt, 'token')} fits in them whole only if a token takes less than "
        f"{significant(1000 * _spare_ms(n) / n.job_prompt, 2)} µs. Measure what yours takes.",
        f"So keep the {n.places} places, cut prompts to the tokens that take {significant(_spare_ms(n))} ms, give "
        "chats the first place that comes free, and let the job wait outside the engine. Promise the chat "
        f"{n.token_ms} ms a token.",
        f"Two numbers overturn this. With that cut and d requests decoding, prompts get {significant(_spare_ms(n))} / "
        f"({significant(_cut_ms(n))} + {significant(n.decode_us / 1000)} · d) of the time: "
        f"{format_percent(_spare_ms(n) / n.token_ms, 2)} with all {n.places}, "
        f"{format_percent(_spare_ms(n) / _cut_ms(n), 2)} with none. If the job's prompts alone take more than the "
        "first of the night, it may not be done by morning; above the second it won't be with this cut. Raise the cut "
        "while no chat streams, or give the job an engine of its own. Its answers need places too, for as long as they "
        "decode. And if the cache can't carry all places to their end, it sets their number.",
    ],
)
