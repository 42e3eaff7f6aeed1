"""What the problems share: the chapter's steps, models and chips."""

from __future__ import annotations

import functools

from calc import hardware, models, parameters
from calc.hardware import Accelerator
from calc.models import FullAttention, ModelGeometry
from calc.units import format_decimal, significant

# The chapter's steps that the problems return to.
RIDGE, DECODE, PREFILL, FLOORS, BATCH, ATTENTION, RANKS, EXPERTS = (f"roofline#step-{n}" for n in range(1, 9))

DENSE = ("llama-3.1-8b", "llama-3.1-70b", "llama-2-13b", "qwen2.5-72b", "mistral-nemo")
CHIPS = ("a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "l40s", "rtx-4090")
LINKED = ("a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200-sxm")


@functools.cache
def geometry(slug: str) -> ModelGeometry:
    """A model of the catalogue."""
    return models.load(slug)


@functools.cache
def chip(slug: str) -> Accelerator:
    """A chip of the catalogue."""
    return hardware.accelerator(slug)


def mixer(slug: str) -> FullAttention:
    """The attention of a dense model, one kind for all layers."""
    return geometry(slug).kinds()[0][0]


@functools.cache
def multiplied(slug: str) -> int:
    """Weights that each token is multiplied with, the output layer included, in millions times a million."""
    return round(parameters.count(geometry(slug)).active_excluding_embedding, -8)


@functools.cache
def in_layers(slug: str) -> int:
    """Weights in the matrices of a dense model's layers, as a question prints them: to four digits."""
    count = parameters.count(geometry(slug))
    return int(float(f"{count.attention + count.mlp:.4g}"))


def rates(slug: str) -> dict[str, float]:
    """A chip's dense bf16 peak and its bandwidth, as arguments."""
    return {"peak": chip(slug).peak("bf16").value, "bandwidth": chip(slug).bandwidth.value}


def told(slug: str) -> str:
    """A chip in words."""
    found = rates(slug)
    return (
        f"{chip(slug).name} multiplies bf16 at {format_decimal(found['peak'], 'FLOP/s')} (dense) and reads "
        f"{format_decimal(found['bandwidth'], 'B/s')}"
    )


def billions(count: float) -> str:
    """A count of weights in words."""
    return f"{significant(count / 1e9, 4)} billion weights"
