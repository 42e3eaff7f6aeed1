"""Problems about what chunks read again, and what they don't repeat."""

from __future__ import annotations

from types import SimpleNamespace as Numbers
from typing import Any

from calc import kv_cache, scheduling
from calc.practice._problem import Problem
from calc.practice.chunked_prefill._cuts import BUDGETS, CUTS
from calc.practice.chunked_prefill._model import (
    ADDED,
    AGAIN,
    ALIKE,
    ONCE,
    chunk,
    chunks,
    described,
    geometry,
    position_bytes,
    position_working,
    positions,
    positions_working,
    told_apart,
    weight_bytes,
    whole,
)
from calc.roofline import positions_read
from calc.units import counted, format_bytes, format_count, significant
from calc.working import working

SHAPES = {"model": ALIKE, "element": ("bf16", "fp8"), "prompt": (9000, 14_200, 22_000, 30_000), "budget": BUDGETS}


positions_again = Problem(
    id="chunked_prefill/positions-again",
    title="Positions read again",
    level=2,
    step=AGAIN,
    printed={"prompt": 6000, "budget": 1024, "decoding": 40},
    choices=CUTS,
    possible=lambda n: chunks(n) > 2 and told_apart(n),
    ask=lambda n: (
        f"A prompt of {format_count(n.prompt)} tokens is computed with a token budget of {format_count(n.budget)} "
        f"beside {format_count(n.decoding)} decoding requests. Every chunk reads what the chunks before it left in the "
        "cache. How many positions is that, all chunks together?"
    ),
    unit="positions",
    exact=True,
    answer=positions,
    mistakes={
        "counts each chunk's own tokens as well": lambda n: chunk(n) * chunks(n) * (chunks(n) + 1) // 2,
        "lets every chunk read the whole prompt": lambda n: n.prompt * chunks(n),
        "counts the prompt once": lambda n: n.prompt,
        "reads one chunk back, not all": lambda n: chunk(n) * (chunks(n) - 1),
        "gives the prompt the whole budget": lambda n: positions(whole(n)),
    },
    hint="0, then one chunk, then two: what is the sum?",
    solution=lambda n: [
        *positions_working(n),
        f"All chunks together read {counted(positions(n), 'position')} again.",
    ],
)


def _bytes(n: Numbers, each: float | None = None, **changed: Any) -> float:
    """Bytes read again, with a change that a mistake makes."""
    ((mixer, layers),) = geometry(n.model).kinds()
    if changed:
        formula, arguments = kv_cache.formula_of(mixer, layers=layers, element=n.element)
        each = formula(**arguments | changed)
    each = position_bytes(n.model, n.element) if each is None else each
    return scheduling.reread_bytes(bytes_per_position=each, reread_positions=positions(n))


bytes_again = Problem(
    id="chunked_prefill/bytes-again",
    title="Bytes read again",
    level=2,
    step=AGAIN,
    printed={"model": "llama-3.1-8b", "element": "bf16", "prompt": 30_000, "budget": 1024, "decoding": 96},
    choices={**SHAPES, "decoding": (12, 64, 96)},
    possible=lambda n: chunks(n) > 2 and told_apart(n),
    ask=lambda n: (
        f"{described(n)}. A prompt of {format_count(n.prompt)} tokens is computed with a token budget of "
        f"{format_count(n.budget)} beside {format_count(n.decoding)} decoding requests. How many bytes of its own "
        "cache do its chunks read, all of them and all GPUs together?"
    ),
    answer=_bytes,
    mistakes={
        "counts query heads": lambda n: _bytes(n, kv_heads=geometry(n.model).kinds()[0][0].query_heads),
        "counts one layer": lambda n: _bytes(n, layers=1),
        "keeps the key and forgets the value": lambda n: _bytes(n) / 2,
        "counts each chunk's own tokens as well": lambda n: _bytes(n) * (chunks(n) + 1) / (chunks(n) - 1),
        "lets every chunk read the whole prompt": lambda n: n.prompt * chunks(n) * position_bytes(n.model, n.element),
        "counts the prompt once": lambda n: n.prompt * position_bytes(n.model, n.element),
        "gives the prompt the whole budget": lambda n: _bytes(whole(n)),
    },
    hint="Positions first, then bytes for each.",
    solution=lambda n: [
        *positions_working(n),
        position_working(n),
        working(
            scheduling.reread_bytes,
            bytes_per_position=position_bytes(n.model, n.element),
            reread_positions=positions(n),
        ),
    ],
)


def _alone(n: Numbers) -> int:
    """Pairs that an estimate finds which takes each chunk for a sequence of its own."""
    final = scheduling.last_chunk(prompt=n.prompt, chunk=n.chunk, chunks=_cuts(n))
    return (_cuts(n) - 1) * positions_read(new=n.chunk, cached=0) + positions_read(new=final, cached=0)


def _cuts(n: Numbers) -> int:
    return scheduling.chunks(prompt=n.prompt, chunk=n.chunk)


def _shorter(n: Numbers) -> str:
    rest = n.prompt % n.chunk
    return f", the last one with {format_count(rest)} tokens," if rest else ""


arithmetic = Problem(
    id="chunked_prefill/arithmetic",
    title="An estimate without the prefix",
    level=2,
    step=ONCE,
    printed={"prompt": 12_000, "chunk": 2000},
    choices={"prompt": (6000, 12_000, 24_000, 36_000), "chunk": (1000, 1500, 2000, 3000, 4000)},
    possible=lambda n: _cuts(n) > 2,
    ask=lambda n: (
        f"A monitor estimates the attention arithmetic of every prefill step from the tokens in the step alone, as if "
        f"they were a sequence of their own. A prompt of {format_count(n.prompt)} tokens comes in chunks of "
        f"{format_count(n.chunk)}. What share of its causal attention arithmetic does the monitor find?"
    ),
    unit="x",
    answer=lambda n: _alone(n) / positions_read(new=n.prompt, cached=0),
    mistakes={
        "gives the share that is missed": lambda n: 1 - _alone(n) / positions_read(new=n.prompt, cached=0),
        "gives how many times too little it is": lambda n: positions_read(new=n.prompt, cached=0) / _alone(n),
        "finds it all, as for matrix products": lambda n: 1.0,
        "squares the number of chunks": lambda n: 1 / _cuts(n) ** 2,
    },
    hint="Pairs of a query and a key: those inside the chunks, over those of the whole prompt.",
    solution=lambda n: [
        "The whole prompt:",
        working(positions_read, new=n.prompt, cached=0),
        "A chunk without its prefix:",
        working(positions_read, new=n.chunk, cached=0),
        f"{format_count(_cuts(n))} such chunks{_shorter(n)} have {format_count(_alone(n))} pairs: "
        f"{significant(_alone(n) / positions_read(new=n.prompt, cached=0))} of all.",
    ],
)


def _against(n: Numbers) -> float:
    return _bytes(n) / scheduling.reloaded_bytes(model_bytes=weight_bytes(n.model), chunks=chunks(n))


weights_again = Problem(
    id="chunked_prefill/weights-again",
    title="Cache against weights",
    level=3,
    step=ADDED,
    printed={"model": "llama-3.1-8b", "element": "bf16", "prompt": 9000, "budget": 1024, "decoding": 60},
    choices={**SHAPES, "decoding": (8, 24, 60)},
    possible=lambda n: chunks(n) > 2 and abs(_against(whole(n)) / _against(n) - 1) > 0.02,
    ask=lambda n: (
        f"{described(n)}. Every step reads {format_bytes(weight_bytes(n.model))} of weights, all but the embedding. "
        f"A prompt of {format_count(n.prompt)} tokens is computed with a token budget of {format_count(n.budget)} "
        f"beside {format_count(n.decoding)} decoding requests. Cutting the prompt makes its steps read weights "
        "and cache that one single step would not have read. How many bytes of such cache come to one byte of such "
        "weights?"
    ),
    unit="x",
    answer=_against,
    mistakes={
        "counts the weights of the first step too": lambda n: _against(n) * (chunks(n) - 1) / chunks(n),
        "counts each chunk's own tokens as well": lambda n: _against(n) * (chunks(n) + 1) / (chunks(n) - 1),
        "counts the weights once": lambda n: _bytes(n) / weight_bytes(n.model),
        "counts query heads": lambda n: (
            _against(n) * geometry(n.model).kinds()[0][0].query_heads / geometry(n.model).kinds()[0][0].kv_heads
        ),
        "gives weights over cache": lambda n: 1 / _against(n),
        "gives the prompt the whole budget": lambda n: _against(whole(n)),
    },
    hint="What would one single step read of the weights, and what of the prompt's own cache? Take that off both.",
    solution=lambda n: [
        *positions_working(n),
        position_working(n),
        working(
            scheduling.reread_bytes,
            bytes_per_position=position_bytes(n.model, n.element),
            reread_positions=positions(n),
        ),
        working(scheduling.reloaded_bytes, model_bytes=weight_bytes(n.model), chunks=chunks(n)),
        f"Cache over weights: {significant(_against(n))}.",
    ],
)
