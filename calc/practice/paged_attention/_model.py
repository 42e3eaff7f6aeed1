"""What the problems share: steps of the chapter, models, and what one position leaves on a rank."""

from __future__ import annotations

import functools
from types import SimpleNamespace as Numbers

from calc import kv_cache
from calc.models import FullAttention, load
from calc.units import UNITS

# The chapter's steps that the problems return to.
BYTES, WASTE, SHARING, MATCHING, LAW = (f"paged_attention#step-{n}" for n in range(2, 7))

GIB = UNITS["GiB"].factor
SIZES = {"bf16": 2, "fp8": 1}
MODELS = (
    "llama-3.1-8b",
    "llama-3.1-70b",
    "llama-3.1-405b",
    "qwen2.5-72b",
    "qwen3-32b",
    "mistral-nemo",
    "mixtral-8x22b",
)


@functools.cache
def attention(slug: str) -> tuple[FullAttention, int]:
    """The attention of a model whose layers are all alike, and the number of layers."""
    ((found, layers),) = load(slug).kinds()
    return found, layers


def heads(slug: str, ranks: int) -> int:
    """KV heads that one rank stores in a layer."""
    return kv_cache.kv_heads_per_rank(kv_heads=attention(slug)[0].kv_heads, ranks=ranks)


def token(slug: str, ranks: int, element: str) -> float:
    """Bytes that one position leaves on a rank, all layers together."""
    found, layers = attention(slug)
    return kv_cache.bytes_per_position(
        layers=layers, kv_heads=heads(slug, ranks), head_dim=found.key_dim, element_bytes=SIZES[element]
    )


def name(slug: str) -> str:
    """A model's name."""
    return load(slug).name


def shared(n: Numbers) -> str:
    """Where the model runs, in words."""
    return f"{name(n.model)} runs on {n.ranks} tensor-parallel rank{'s' if n.ranks > 1 else ''}"


def described(n: Numbers) -> str:
    """The model's cache on one rank, in words."""
    found, layers = attention(n.model)
    kept = heads(n.model, n.ranks)
    return (
        f"{shared(n)}: {layers} layers, each with {kept} KV head{'s' if kept > 1 else ''} of {found.key_dim} elements "
        f"on a rank, stored as {n.element}"
    )
