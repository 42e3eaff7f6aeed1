"""Model geometries: read from any supported Hugging Face ``config.json``, or taken from the catalogue."""

from calc.models.catalogue import catalogue, load
from calc.models.fields import ConfigError, UnsupportedArchitecture, parse
from calc.models.geometry import ModelGeometry
from calc.models.layers import (
    DenseMLP,
    FixedState,
    FullAttention,
    LatentAttention,
    Layer,
    MixtureOfExperts,
    StatePart,
    WindowAttention,
)

__all__ = [
    "ConfigError",
    "DenseMLP",
    "FixedState",
    "FullAttention",
    "LatentAttention",
    "Layer",
    "MixtureOfExperts",
    "ModelGeometry",
    "StatePart",
    "UnsupportedArchitecture",
    "WindowAttention",
    "catalogue",
    "load",
    "parse",
]
