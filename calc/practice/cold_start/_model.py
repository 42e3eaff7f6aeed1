"""What the problems share: the chapter's steps, models, and the bytes of their weights."""

from __future__ import annotations

import functools

from calc import models
from calc.models import ModelGeometry
from calc.parameters import count
from calc.units import UNITS

# The chapter's steps that the problems return to.
PHASES, HOPS, READERS, PIECES, PATH, MINUTE, LEVERS, QUEUE = (f"cold_start#step-{number}" for number in range(1, 9))

GB, GIB = UNITS["GB"].factor, UNITS["GiB"].factor
MODELS = ("llama-3.1-8b", "llama-3.1-405b", "qwen2.5-72b", "mistral-nemo", "qwen3-32b", "mixtral-8x7b")
BF16 = 2  # bytes of a weight


@functools.cache
def geometry(slug: str) -> ModelGeometry:
    """A model of the catalogue."""
    return models.load(slug)


@functools.cache
def weights(slug: str) -> int:
    """Bytes of its weights in bf16."""
    return BF16 * count(geometry(slug)).total


def described(slug: str) -> str:
    """The model and its parameters in words."""
    return f"{geometry(slug).name} has {count(geometry(slug)).total:,} parameters, stored in bf16"
