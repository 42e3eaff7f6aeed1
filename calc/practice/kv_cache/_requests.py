"""Problems about a request: what it holds now, what it needs to finish, and whom to admit."""

from __future__ import annotations

from types import SimpleNamespace as Numbers
from typing import Any

from calc import kv_cache as kv
from calc import queueing
from calc.practice._problem import Problem
from calc.practice.kv_cache._model import (
    ALIKE,
    FINISH,
    FIT,
    GIB,
    POSITIONS,
    attention,
    described,
    geometry,
    layout,
    one_rank_of_eight,
    query_heads_for_kv,
    token,
    token_working,
    within_context,
)
from calc.units import counted, format_bytes, format_seconds
from calc.working import Working, working


def _end_working(n: Numbers) -> Working:
    return working(kv.positions_written, prompt=n.prompt, generated=n.output)


finish_positions = Problem(
    id="kv_cache/finish-positions",
    title="The last token",
    level=1,
    step=POSITIONS,
    printed={"prompt": 1000, "output": 200},
    choices={"prompt": (37, 512, 1000, 2048, 6000), "output": (20, 128, 200, 500, 1024)},
    ask=lambda n: (
        f"A request has a prompt of {n.prompt:,} tokens, and its response ends with its token number {n.output:,}. "
        "Tokens are decoded one at a time. How many positions does it hold in the cache at its end?"
    ),
    unit="positions",
    exact=True,
    answer=lambda n: kv.positions_written(prompt=n.prompt, generated=n.output),
    mistakes={
        "writes the last token too": lambda n: n.prompt + n.output,
        "counts the prompt alone": lambda n: n.prompt,
        "counts the response alone": lambda n: n.output,
        "leaves out the first sampled token as well": lambda n: n.prompt + n.output - 2,
    },
    hint="A token is written by the step that samples the next one. No step follows the last token.",
    solution=lambda n: [_end_working(n), f"It holds {counted(_end_working(n).value, 'position')}."],
)


def _present(n: Numbers, generated: int) -> float:
    return kv.present_bytes(layout(n), prompt=n.prompt, generated=generated)


def _room(n: Numbers) -> float:
    return kv.room_to_finish_bytes(layout(n), prompt=n.prompt, generated=n.generated, output=n.output)


def _still(n: Numbers, **changed: Any) -> float:
    """The room, counted in positions, with a change that a mistake makes."""
    return (n.output - n.generated) * token(n, **changed)


room_to_finish = Problem(
    id="kv_cache/room-to-finish",
    title="Room to finish",
    level=2,
    step=FINISH,
    printed={"model": "llama-3.1-405b", "element": "fp8", "prompt": 6000, "generated": 400, "output": 2048},
    choices={
        "model": ALIKE,
        "element": ("bf16", "fp8"),
        "prompt": (512, 1500, 2048, 6000),
        "generated": (50, 100, 200, 400),
        "output": (600, 1024, 2048),
    },
    possible=within_context,
    ask=lambda n: (
        f"{described(n)}; its cache is {n.element}. A request with a prompt of {n.prompt:,} tokens has sampled "
        f"{n.generated:,} of at most {n.output:,}. How much more memory must be free, on all GPUs together, for it to "
        "be sure to finish?"
    ),
    answer=_room,
    grain=token,
    mistakes={
        "gives what the request holds now": lambda n: _present(n, n.generated),
        "gives all it holds at the end, today's part included": lambda n: _present(n, n.output),
        "adds the whole response, the sampled part again": lambda n: n.output * token(n),
        "takes the newest token as written already": lambda n: _room(n) - token(n),
        "writes the last token too": lambda n: _room(n) + token(n),
        "counts query heads": lambda n: _still(n, **query_heads_for_kv(n)),
        "counts one KV head": lambda n: _still(n, kv_heads=1),
        "is the share of one of eight ranks": lambda n: _still(n, **one_rank_of_eight(n)),
        "keeps the key and forgets the value": lambda n: _room(n) / 2,
        "keeps two bytes per element": lambda n: _still(n, element_bytes=2),
        "keeps one byte per element": lambda n: _still(n, element_bytes=1),
    },
    hint="What it holds at the end, less what it holds now. The prompt is in both.",
    solution=lambda n: [
        "At the end:",
        _end_working(n),
        "Now:",
        working(kv.positions_written, prompt=n.prompt, generated=n.generated),
        f"Still to write: {n.output - n.generated:,} positions.",
        token_working(n),
        working(kv.sequence_bytes, bytes_per_position=token(n), positions=n.output - n.generated),
    ],
)


def _admitted(n: Numbers, generated: int, memory: float | None = None, **changed: Any) -> int:
    """Requests that fit, each sized with `generated` tokens sampled."""
    positions = kv.positions_written(prompt=n.prompt, generated=generated)
    size = kv.sequence_bytes(bytes_per_position=token(n, **changed), positions=positions)
    return int(kv.sequences_that_fit(memory_bytes=n.gib * GIB if memory is None else memory, sequence_bytes=size))


admission = Problem(
    id="kv_cache/admission",
    title="How many can finish",
    level=3,
    step=FIT,
    printed={"model": "llama-3.1-70b", "element": "bf16", "gib": 160, "prompt": 1024, "output": 1024},
    choices={
        "model": ALIKE,
        "element": ("bf16", "fp8"),
        "gib": (40, 160, 320),
        "prompt": (512, 1024, 3000),
        "output": (512, 1024, 4000),
    },
    possible=within_context,
    ask=lambda n: (
        f"{described(n)}. All GPUs together have {n.gib} GiB for its cache, in {n.element}. Every request has a "
        f"prompt of {n.prompt:,} tokens and a response of {n.output:,}, and all arrive at once. How many can be "
        "admitted so that each is sure to finish? Ignore page rounding."
    ),
    unit="requests",
    exact=True,
    answer=lambda n: _admitted(n, n.output),
    mistakes={
        "counts the prompt alone": lambda n: _admitted(n, 1),
        "reads GiB as GB": lambda n: _admitted(n, n.output, memory=n.gib * 1e9),
        "counts query heads": lambda n: _admitted(n, n.output, **query_heads_for_kv(n)),
        "sizes a request by what one of eight ranks keeps": lambda n: _admitted(n, n.output, **one_rank_of_eight(n)),
        "keeps two bytes per element": lambda n: _admitted(n, n.output, element_bytes=2),
        "keeps one byte per element": lambda n: _admitted(n, n.output, element_bytes=1),
        "rounds up": lambda n: _admitted(n, n.output) + 1,
    },
    hint="Size a request at its end, not at its start.",
    solution=lambda n: [
        f"Sized by the prompt alone, {_admitted(n, 1):,} would be admitted, and some could not finish.",
        token_working(n),
        _end_working(n),
        working(kv.sequence_bytes, bytes_per_position=token(n), positions=_end_working(n).value),
        working(kv.sequences_that_fit, memory_bytes=n.gib * GIB, sequence_bytes=_present(n, n.output)),
        f"So {counted(_admitted(n, n.output), 'request')} can be admitted.",
    ],
)

# --- an open question ----------------------------------------------------------------------------


READER_S = 60  # from a response to the next turn, as the question says
TOKEN_MS, SLOWER_MS = 7, 20  # from a token to the next: as the question says, and what would overturn the mix


def _history(n: Numbers) -> float:
    return kv.sequence_bytes(bytes_per_position=token(n), positions=n.history)


def _end_of_turn(n: Numbers) -> Working:
    return working(kv.positions_written, prompt=n.history, generated=n.output)


def _turn(n: Numbers) -> float:
    """Bytes that a running turn has at its end: the history and the whole response."""
    return kv.sequence_bytes(bytes_per_position=token(n), positions=_end_of_turn(n).value)


def _response_s(n: Numbers, token_ms: float) -> float:
    """A response that runs to its limit."""
    return n.output * token_ms / 1000


def _fit(n: Numbers, size: float, memory: float | None = None) -> Working:
    return working(kv.sequences_that_fit, memory_bytes=n.gib * GIB if memory is None else memory, sequence_bytes=size)


def _mix(n: Numbers, response_s: float) -> tuple[int, int, int]:
    """Turns that want to run on average, those that may, and the idle histories that stay beside them."""
    each = queueing.little_rate(number=n.conversations, time_s=READER_S + response_s)
    wanted = int(queueing.little(arrival_rate=each, time_s=response_s))
    running = min(wanted, _fit(n, _turn(n)).value)
    left = n.gib * GIB - running * _turn(n)
    return wanted, running, min(_fit(n, _history(n), left).value, n.conversations - running)


def _overturned(n: Numbers) -> str:
    """The mix of longer responses."""
    slower_s = _response_s(n, SLOWER_MS)
    (_, before, _), (wanted, running, kept) = _mix(n, _response_s(n, TOKEN_MS)), _mix(n, slower_s)
    if before == running:
        return (
            f"What overturns the mix: shorter responses. Longer ones don't, for no more than {running:,} turns are "
            "admitted; the others wait."
        )
    admitted = "run" if wanted == running else f"want to run, {running:,} are admitted"
    stay = f"{counted(kept, 'history') if kept else 'no history'} {'stays' if kept < 2 else 'stay'}"
    return (
        f"What overturns the mix: longer responses. At {SLOWER_MS} ms a token they take {format_seconds(slower_s)}, "
        f"{wanted:,} turns {admitted}, and {stay}."
    )


def _plan(n: Numbers) -> list[str | Working]:
    """The numbers of the design, and the rule that follows from them."""
    most = _fit(n, _turn(n)).value
    response_s = _response_s(n, TOKEN_MS)
    wanted, running, kept = _mix(n, response_s)
    left = n.gib * GIB - running * _turn(n)
    dropped = n.conversations - running - kept
    stay = {0: "no idle one stays", 1: "1 stays"}.get(kept, f"{kept:,} stay")
    fate = f"the other {dropped:,} are dropped or moved to host memory" if dropped else "none is dropped"
    fewer = f" Only {running:,} of them are admitted." if running < wanted else ""
    return [
        "Idle histories that fit if nobody is answered:",
        token_working(n),
        working(kv.sequence_bytes, bytes_per_position=token(n), positions=n.history),
        _fit(n, _history(n)),
        "Turns that can run at once, each with the room to finish:",
        _end_of_turn(n),
        working(kv.sequence_bytes, bytes_per_position=token(n), positions=_end_of_turn(n).value),
        _fit(n, _turn(n)),
        f"The mix: a response that runs to its limit takes {n.output:,} · {TOKEN_MS} ms = "
        f"{format_seconds(response_s)}, and its reader {READER_S} s. A turn then runs for that share of the time, and "
        f"{n.conversations:,} · {response_s:g} / ({READER_S} + {response_s:g}), about {wanted:,} turns, run at once "
        f"(Little's law).{fewer} They are promised {running:,} · {format_bytes(_turn(n))}. The "
        f"{format_bytes(left)} left hold idle histories:",
        _fit(n, _history(n), left),
        f"Of {n.conversations:,} open conversations {running:,} are being answered, {stay} in the cache, and {fate}.",
        "The rule: admit a turn if the running ones and it, each counted at its end (what it holds plus its room to "
        f"finish), stay within {n.gib} GiB: up to {most:,} of this size. Idle histories do not count. They make way, "
        "least recently used first. A turn that is not admitted waits.",
        f"Of the waiting, those whose history is still in the cache come first: the others cost a prefill of "
        f"{n.history:,} tokens each. A limit on the wait keeps these from starving.",
        _overturned(n),
    ]


def _checklist(n: Numbers) -> list[str]:
    everything = n.conversations * _history(n)
    fits = "fits" if everything <= n.gib * GIB else "does not fit"
    return [
        f"Sizes one conversation first: {format_bytes(token(n))} a token, {format_bytes(_history(n))} in all.",
        f"Compares the lot with the pool: {format_bytes(everything)} {fits} in {n.gib} GiB.",
        "Separates what open conversations hold now from the room that running responses still need.",
        "Admits a turn only if every running turn can finish: bytes held plus room to finish stay within the pool.",
        "Says that an output limit is an upper bound: reserving it all wastes memory, promising less needs a way back.",
        "Names that way back (preempt a request and compute it again, or move it to host memory) and who pays.",
        "Treats idle conversations as a cache of their own: kept while there is room, least recently used out first.",
        "Weighs keeping against dropping: what it costs to prefill a history again or to fetch it from host memory.",
        "Counts a shared system prompt once.",
        "Says what to watch: memory held, preemptions, prompt tokens found in the cache, time to first token.",
    ]


chat_service = Problem(
    id="kv_cache/chat-service",
    title="A chat service",
    level="design",
    step=FIT,
    printed={
        "model": "llama-3.1-70b",
        "element": "bf16",
        "conversations": 100,
        "history": 8000,
        "output": 1000,
        "gib": 160,
    },
    choices={
        "model": ("llama-3.1-70b", "qwen2.5-72b", "llama-3.1-8b"),
        "element": ("bf16", "fp8"),
        "conversations": (100, 250, 1000),
        "history": (4000, 8000, 20_000),
        "output": (500, 1000, 2000),
        "gib": (40, 160, 320),
    },
    possible=within_context,
    ask=lambda n: (
        f"A chat service on {geometry(n).name} keeps {n.conversations:,} conversations open, each about "
        f"{n.history:,} tokens long. The model has {attention(n)[1]} layers and {attention(n)[0].kv_heads} KV heads of "
        f"{attention(n)[0].key_dim} elements. A user answers after a minute or so; a response has at most "
        f"{n.output:,} tokens, and say each takes {TOKEN_MS} ms. The cache is {n.element}, and all GPUs together have "
        f"{n.gib} GiB for it. What do you keep in the cache, and what is your rule for admitting the next turn?"
    ),
    checklist=_checklist,
    hint="Start with one conversation in bytes. Then ask who is writing now and who is only waiting.",
    solution=_plan,
)
