"""What the problems share: the chapter's steps, models and chips."""

from __future__ import annotations

import functools
from types import SimpleNamespace as Numbers

from calc import hardware, models, parameters
from calc.hardware import Accelerator
from calc.models import ModelGeometry
from calc.quantization import Stored, scheme, stored

# The chapter's steps that the problems return to.
MATRIX, MODEL, GGUF, ROUNDING, OUTLIERS, CROSSOVER, CACHE, CHOICE = (f"quantization#step-{n}" for n in range(2, 10))

DENSE = ("llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "mistral-nemo", "llama-2-13b", "llama-2-70b")
CHIPS = ("a100-80gb-sxm", "h100-sxm", "h200-sxm", "l40s", "b200-sxm", "a10")
IN_WORDS = {
    "gptq": "4-bit weights in groups of 128, each with a 16-bit scale and a 4-bit zero point",
    "g128": "4-bit weights in groups of 128, each with a 16-bit scale and no zero point",
    "g64": "4-bit weights in groups of 64, each with a 16-bit scale and a 4-bit zero point",
    "g32": "4-bit weights in groups of 32, each with a 16-bit scale and no zero point",
    "mx": "4-bit weights in groups of 32, each with an 8-bit scale",
    "nv": "4-bit weights in groups of 16, each with an 8-bit scale",
}
GROUPS = {  # element bits, scale bits, zero bits, weights in a group
    "gptq": (4, 16, 4, 128),
    "g128": (4, 16, 0, 128),
    "g64": (4, 16, 4, 64),
    "g32": (4, 16, 0, 32),
    "mx": (4, 8, 0, 32),
    "nv": (4, 8, 0, 16),
}


@functools.cache
def geometry(slug: str) -> ModelGeometry:
    """A model of the catalogue."""
    return models.load(slug)


@functools.cache
def chip(slug: str) -> Accelerator:
    """A chip of the catalogue."""
    return hardware.accelerator(slug)


@functools.cache
def held(slug: str, how: str) -> Stored:
    """A model as it is stored."""
    return stored(geometry(slug), how)


def tables(n: Numbers) -> int:
    """Parameters of the embedding and the output layer."""
    counts = parameters.count(geometry(n.model))
    return counts.embedding + counts.lm_head


def bits(n: Numbers) -> dict[str, int]:
    """The drawn group as arguments of `effective_bits`."""
    names = ("element_bits", "scale_bits", "zero_bits", "group")
    return dict(zip(names, GROUPS[n.how], strict=True))


def name(how: str) -> str:
    """A scheme of the catalogue, for display."""
    return scheme(how).name
