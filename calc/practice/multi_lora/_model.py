"""What the problems share: the chapter's steps, models, and a model's matrices."""

from __future__ import annotations

import functools
from types import SimpleNamespace as Numbers

from calc import adapters, models
from calc.adapters import Adapter, Site
from calc.models import ModelGeometry
from calc.units import UNITS
from calc.working import Working, working

# The chapter's steps that the problems return to.
PAIRS, FILE, SHARE, SLOTS, STEP, WAIT, TRAFFIC = (f"multi_lora#step-{number}" for number in range(2, 9))

MIB = UNITS["MiB"].factor
ALIKE = ("llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "qwen2.5-7b", "qwen2.5-72b", "mistral-nemo")
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
IN_WORDS = {"all-linear": "all seven projections of every layer", "attention": "the four attention projections"}


@functools.cache
def geometry(slug: str) -> ModelGeometry:
    """A model of the catalogue."""
    return models.load(slug)


def site(n: Numbers) -> Site:
    """The drawn matrix, in the first layer."""
    return next(site for site in adapters.sites(geometry(n.model)) if site.name == n.matrix)


@functools.cache
def made(model: str, rank: int, targets: str) -> Adapter:
    """An adapter in bf16."""
    return adapters.adapter(geometry(model), rank=rank, targets=targets)


def described(n: Numbers) -> str:
    """The shape of the drawn model in words."""
    model = geometry(n.model)
    ((mixer, layers),) = model.kinds()
    width = model.layers[0].mlp.intermediate
    return (
        f"{model.name} has {layers} layers, a hidden size of {model.hidden:,}, {mixer.query_heads} query heads and "
        f"{mixer.kv_heads} KV heads of {mixer.key_dim} elements, and a gated network {width:,} wide"
    )


def pairs_working(model: str, rank: int, targets: str) -> list[str | Working]:
    """The pairs of one layer, matrix by matrix, and their sum over the layers."""
    one = made(model, rank, targets)
    layers = len(geometry(model).layers)
    first = [s for s in one.sites if s.path.startswith("model.layers.0.")]
    lines: list[str | Working] = []
    for s in first:
        lines += [
            f"{s.name}:",
            working(adapters.pair_parameters, rank=rank, input_dim=s.input_dim, output_dim=s.output_dim),
        ]
    total = one.low_rank_parameters
    return [*lines, f"{total // layers:,} in a layer, times {layers} layers: {total:,} parameters."]
