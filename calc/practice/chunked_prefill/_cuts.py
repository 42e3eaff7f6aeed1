"""Problems about how a prompt is cut."""

from __future__ import annotations

from math import ceil
from types import SimpleNamespace as Numbers

from calc import scheduling
from calc.practice._problem import Problem
from calc.practice.chunked_prefill._model import CUT, ROOM, chunk, chunks, cut_working, told_apart
from calc.units import counted, format_count
from calc.working import working

BUDGETS = (512, 1024, 4096, 8192)
PROMPTS = (6000, 9500, 14_200, 17_500, 26_000, 31_000)
DECODING = (7, 12, 40, 64, 96, 150)
CUTS = {"prompt": PROMPTS, "budget": BUDGETS, "decoding": DECODING}


room = Problem(
    id="chunked_prefill/room",
    title="Room in a step",
    level=1,
    step=ROOM,
    printed={"budget": 1024, "decoding": 40, "context": 700},
    choices={"budget": (256, *BUDGETS), "decoding": DECODING, "context": (300, 700, 1200)},
    ask=lambda n: (
        f"The token budget of a step is {format_count(n.budget)}. {format_count(n.decoding)} requests decode, each at "
        f"about {format_count(n.context)} tokens of context and without drafts. A long prompt waits. How many of its "
        "tokens does the next step compute?"
    ),
    unit="tokens",
    exact=True,
    answer=chunk,
    mistakes={
        "gives the prompt the whole budget": lambda n: n.budget,
        "counts the prompt as one that decodes": lambda n: chunk(n) - 1,
        "charges a decoding request for its context": lambda n: max(n.budget - n.decoding * n.context, 0),
        "gives what the others take": lambda n: n.decoding,
    },
    hint="A request that decodes computes one token, however long its context is.",
    solution=lambda n: [
        *cut_working(Numbers(**vars(n), prompt=1))[:1],
        f"The next step computes {counted(chunk(n), 'token')} of the prompt.",
    ],
)


steps = Problem(
    id="chunked_prefill/steps",
    title="How many steps",
    level=1,
    step=CUT,
    printed={"prompt": 14_200, "budget": 512, "decoding": 12},
    choices=CUTS,
    possible=lambda n: n.budget < n.prompt and told_apart(n),
    ask=lambda n: (
        f"A prompt of {format_count(n.prompt)} tokens is computed beside {format_count(n.decoding)} requests that "
        f"decode all the while, with a token budget of {format_count(n.budget)}. How many steps does it take until its "
        "first output token is sampled, that step included?"
    ),
    unit="steps",
    exact=True,
    answer=chunks,
    mistakes={
        "divides by the whole budget": lambda n: ceil(n.prompt / n.budget),
        "leaves out the last chunk, which is not full": lambda n: n.prompt // chunk(n),
        "adds a decode step for the first output token": lambda n: chunks(n) + 1,
    },
    hint="Take the decoding requests off the budget first. The last chunk samples the first token.",
    solution=lambda n: [*cut_working(n), f"The prompt takes {counted(chunks(n), 'step')}."],
)


def _last(n: Numbers) -> int:
    return scheduling.last_chunk(prompt=n.prompt, chunk=chunk(n), chunks=chunks(n))


last = Problem(
    id="chunked_prefill/last",
    title="The last chunk",
    level=1,
    step=CUT,
    printed={"prompt": 9500, "budget": 1024, "decoding": 64},
    choices=CUTS,
    possible=lambda n: n.budget < n.prompt,
    ask=lambda n: (
        f"A prompt of {format_count(n.prompt)} tokens, a token budget of {format_count(n.budget)}, and "
        f"{format_count(n.decoding)} requests that decode all the while. How many prompt tokens are in its last chunk?"
    ),
    unit="tokens",
    exact=True,
    answer=_last,
    mistakes={
        "divides by the whole budget": lambda n: n.prompt - (ceil(n.prompt / n.budget) - 1) * n.budget,
        "gives the room that stays empty": lambda n: chunk(n) - _last(n),
        "adds the decode tokens": lambda n: _last(n) + n.decoding,
        "takes it for a full one": chunk,
    },
    hint="All chunks but the last are full.",
    solution=lambda n: [
        *cut_working(n),
        working(scheduling.last_chunk, prompt=n.prompt, chunk=chunk(n), chunks=chunks(n)),
        f"The last chunk has {counted(_last(n), 'token')}.",
    ],
)


def _left(n: Numbers) -> int:
    """Prompt tokens that are left when the others have finished."""
    return max(n.prompt - n.beside * chunk(n), 0)


def _freed(n: Numbers) -> int:
    return n.beside + scheduling.chunks(prompt=_left(n), chunk=n.budget)


finish_on_the_way = Problem(
    id="chunked_prefill/finish-on-the-way",
    title="When the others finish",
    level=3,
    step=CUT,
    printed={"prompt": 17_500, "budget": 1024, "decoding": 300, "beside": 6},
    choices={
        "prompt": PROMPTS,
        "budget": (512, 1024, 2048),
        "decoding": (100, 200, 300, 400),
        "beside": (3, 6, 9),
    },
    possible=lambda n: _left(n) > 0 and _freed(n) < chunks(n),
    ask=lambda n: (
        f"A prompt of {format_count(n.prompt)} tokens starts beside {format_count(n.decoding)} requests that decode, "
        f"with a token budget of {format_count(n.budget)}. All of these requests sample their last token in step "
        f"number {format_count(n.beside)} of the prompt. How many steps does the prompt take in all?"
    ),
    unit="steps",
    exact=True,
    answer=_freed,
    mistakes={
        "keeps them in every step": chunks,
        "leaves them out of every step": lambda n: scheduling.chunks(prompt=n.prompt, chunk=n.budget),
        "frees their room a step too early": lambda n: (
            n.beside - 1 + scheduling.chunks(prompt=n.prompt - (n.beside - 1) * chunk(n), chunk=n.budget)
        ),
    },
    hint="Cut the prompt in two: what is computed beside them, and what is left once the budget is its own.",
    solution=lambda n: [
        *cut_working(n)[:1],
        f"{counted(n.beside, 'step')} beside them compute {format_count(n.beside * chunk(n))} tokens; "
        f"{format_count(_left(n))} are left, with the whole budget to themselves:",
        working(scheduling.chunks, prompt=_left(n), chunk=n.budget),
        f"Together {format_count(_freed(n))} steps.",
    ],
)
