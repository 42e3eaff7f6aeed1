"""What the problems share: steps of the chapter, models, and amounts in bytes."""

from __future__ import annotations

import functools
from types import SimpleNamespace as Numbers

from calc import capacity, kv_cache, models
from calc.models import ModelGeometry
from calc.units import UNITS
from calc.working import Working, working

# The chapter's steps that the problems return to.
WEIGHTS, WORKSPACE, POOL, ENGINES, LIMIT, CUTS, ROOM, RULES, LOG = (f"capacity#step-{n}" for n in range(2, 11))

GIB = UNITS["GiB"].factor
BLOCK = 16  # positions in a block, wherever a problem doesn't say otherwise
ALIKE = ("llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "qwen2.5-72b", "qwen3-32b")


@functools.cache
def geometry(slug: str) -> ModelGeometry:
    """A model of the catalogue."""
    return models.load(slug)


def gib(amount: float) -> int:
    """Whole bytes of so many GiB."""
    return round(amount * GIB)


def token_bytes(
    n: Numbers, *, ranks: int | None = None, kv_heads: int | None = None, layers: int | None = None
) -> float:
    """Cache bytes of one token on one rank of a model whose layers are all alike, some of it changed by a mistake."""
    ((mixer, count),) = geometry(n.model).kinds()
    shared = getattr(n, "ranks", 1) if ranks is None else ranks
    function, arguments = kv_cache.formula_of(mixer, layers=layers or count, element="bf16", ranks=shared)
    return function(**arguments | ({} if kv_heads is None else {"kv_heads": kv_heads}))


def rank_block_working(n: Numbers, ranks: int, block_tokens: int) -> list[str | Working]:
    """What a block of a bf16 cache takes on one rank, one position first."""
    ((mixer, layers),) = geometry(n.model).kinds()
    heads, one = kv_cache.rank_working(mixer, layers=layers, element="bf16", ranks=ranks)
    names = {"bytes_per_position": "rank_bytes"}
    block = working(kv_cache.block_bytes, names=names, bytes_per_position=one.value, block_tokens=block_tokens)
    return [heads, "One position on a rank:", one, block]


def shape(n: Numbers) -> str:
    """The shape of the drawn model in words."""
    model = geometry(n.model)
    ((mixer, layers),) = model.kinds()
    return (
        f"{layers} layers, a hidden size of {model.hidden:,}, {mixer.query_heads} query heads and {mixer.kv_heads} KV "
        f"heads of {mixer.key_dim} elements"
    )


def described(n: Numbers) -> str:
    """The drawn model with its shape in words."""
    return f"{geometry(n.model).name} has {shape(n)}"


def budget(n: Numbers, **changed: float) -> float:
    """The pool of a GPU whose parts are drawn in GiB, some of them changed by a mistake."""
    parts = {
        "total_bytes": gib(n.total),
        "fraction": n.percent / 100,
        "weight_bytes": gib(n.weights),
        "activation_bytes": gib(n.activations),
        "graph_bytes": gib(n.graphs),
        "communication_bytes": gib(n.buffers),
    }
    return capacity.pool_bytes(**parts | changed)
