"""What the problems share: steps of the chapter, models, and their bytes on one rank."""

from __future__ import annotations

import functools
from types import SimpleNamespace as Numbers
from typing import Any

from calc import attention, kv_cache
from calc.hardware import Accelerator, accelerator
from calc.models import ModelGeometry, load
from calc.units import UNITS
from calc.working import Working, working

# The chapter's steps that the problems return to.
STORED, LATENT, RANKS, ARITHMETIC, ALONE = (f"attention_variants#step-{n}" for n in (2, 4, 6, 7, 8))

GIB, GB = UNITS["GiB"].factor, UNITS["GB"].factor
GROUPED = (
    *("llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "qwen2.5-72b", "qwen3-32b", "qwen3-235b-a22b"),
    *("mistral-nemo", "mixtral-8x22b"),
)
LATENTS = ("deepseek-v3", "deepseek-v2", "deepseek-v2-lite", "kimi-k2")
CHIPS = ("h100-sxm", "h200-sxm", "b200-sxm", "a100-80gb-sxm", "l40s")


@functools.cache
def geometry(slug: str) -> ModelGeometry:
    """A model of the catalogue."""
    return load(slug)


@functools.cache
def chip(slug: str) -> Accelerator:
    """A GPU of the catalogue."""
    return accelerator(slug)


def mixer(slug: str) -> Any:
    """The attention of a model whose layers are all alike."""
    ((found, _),) = geometry(slug).kinds()
    return found


def token(slug: str, element: str, ranks: int = 1, **changed: Any) -> float:
    """Bytes of one token on one rank, all layers together, some of the numbers changed by a mistake."""
    ((found, layers),) = geometry(slug).kinds()
    function, arguments = kv_cache.formula_of(found, layers=layers, element=element, ranks=ranks)
    return function(**arguments | changed)


def token_working(slug: str, element: str, **changed: Any) -> Working:
    """The working of `token` for the whole model."""
    ((found, layers),) = geometry(slug).kinds()
    function, arguments = kv_cache.formula_of(found, layers=layers, element=element)
    return working(function, **arguments | changed)


def rank_workings(slug: str, element: str, ranks: int) -> list[Working]:
    """The heads that a rank keeps, if the cache has heads, and `token` on it, from those heads."""
    ((found, layers),) = geometry(slug).kinds()
    return kv_cache.rank_working(found, layers=layers, element=element, ranks=ranks)


def sequence(size: float, positions: int) -> float:
    """Bytes of so many positions."""
    return kv_cache.sequence_bytes(bytes_per_position=size, positions=positions)


def described(slug: str) -> str:
    """The shape of a model in words."""
    model, found = geometry(slug), mixer(slug)
    start = f"{model.name} has {len(model.layers)} layers"
    if attention.sharing(found) == "MLA":
        return (
            f"{start} of latent attention with {found.query_heads} query heads, a latent of {found.latent_dim} "
            f"elements and a rotary key of {found.rope_dim}"
        )
    return f"{start} with {found.query_heads} query heads and {found.kv_heads} KV heads of {found.key_dim} elements"


def within_context(n: Numbers) -> bool:
    """Whether the drawn model was made for the drawn number of positions."""
    longest = geometry(n.model).max_positions
    return longest is None or n.positions <= longest
