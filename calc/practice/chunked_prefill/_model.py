"""What the problems share: the chapter's steps, models, and how a prompt is cut."""

from __future__ import annotations

import functools
from types import SimpleNamespace as Numbers

from calc import kv_cache, models, scheduling
from calc.models import ModelGeometry
from calc.parameters import count
from calc.working import Working, working

# The chapter's steps that the problems return to.
ROOM, CUT, AGAIN, ONCE, ADDED, SEEN, CHOICE = (f"chunked_prefill#step-{number}" for number in (1, 2, 3, 4, 5, 7, 8))

ALIKE = ("llama-3.1-8b", "llama-3.1-405b", "qwen2.5-72b", "mistral-small-24b")


@functools.cache
def geometry(slug: str) -> ModelGeometry:
    """A model of the catalogue."""
    return models.load(slug)


@functools.cache
def position_bytes(slug: str, element: str) -> float:
    """Cache bytes of one position, all layers."""
    return kv_cache.layout(geometry(slug), element=element).bytes_per_position


@functools.cache
def weight_bytes(slug: str) -> float:
    """All parameters that a step reads, two bytes each: of the embedding it looks up rows."""
    return 2 * count(geometry(slug)).active_excluding_embedding


def described(n: Numbers) -> str:
    """The shape of the drawn model in words."""
    model = geometry(n.model)
    ((mixer, layers),) = model.kinds()
    return (
        f"{model.name} has {layers} layers, {mixer.query_heads} query heads and {mixer.kv_heads} KV heads of "
        f"{mixer.key_dim} elements; its cache is {n.element}"
    )


def chunk(n: Numbers) -> int:
    """Prompt tokens in a step."""
    return scheduling.chunk(token_budget=n.budget, decode_tokens=n.decoding)


def chunks(n: Numbers) -> int:
    """Steps of the prompt."""
    return scheduling.chunks(prompt=n.prompt, chunk=chunk(n))


def positions(n: Numbers) -> int:
    """Positions that its chunks read again."""
    return scheduling.reread_positions(chunk=chunk(n), chunks=chunks(n))


def whole(n: Numbers) -> Numbers:
    """The mistake of giving the prompt the whole budget, as if nobody decoded."""
    return Numbers(**vars(n) | {"decoding": 0})


def told_apart(n: Numbers) -> bool:
    """Whether that mistake cuts the prompt into another number of chunks."""
    return chunks(whole(n)) != chunks(n)


def cut_working(n: Numbers) -> list[str | Working]:
    """How the prompt is cut."""
    return [
        working(scheduling.chunk, token_budget=n.budget, decode_tokens=n.decoding),
        working(scheduling.chunks, prompt=n.prompt, chunk=chunk(n)),
    ]


def positions_working(n: Numbers) -> list[str | Working]:
    """How it is cut, and what is read again."""
    return [*cut_working(n), working(scheduling.reread_positions, chunk=chunk(n), chunks=chunks(n))]


def position_working(n: Numbers) -> Working:
    """Bytes of one position."""
    ((mixer, layers),) = geometry(n.model).kinds()
    formula, arguments = kv_cache.formula_of(mixer, layers=layers, element=n.element)
    return working(formula, **arguments)
