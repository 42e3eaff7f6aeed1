"""Model geometries: read from any supported Hugging Face ``config.json``, or taken from the catalogue."""

from calc.models.catalogue import catalogue, load
from calc.models.fields import ConfigError, UnsupportedArchitecture, parse
from calc.models.geometry import ModelGeometry
from calc.models.layers import (
    ChunkAttention,
    DenseMLP,
    FixedState,
    FullAttention,
    GatedDeltaNet,
    IndexedLatentAttention,
    LatentAttention,
    Layer,
    Mamba2,
    MixtureOfExperts,
    RecurrentState,
    StatePart,
    WindowAttention,
)

__all__ = [
    "ChunkAttention",
    "ConfigError",
    "DenseMLP",
    "FixedState",
    "FullAttention",
    "GatedDeltaNet",
    "IndexedLatentAttention",
    "LatentAttention",
    "Layer",
    "Mamba2",
    "MixtureOfExperts",
    "ModelGeometry",
    "RecurrentState",
    "StatePart",
    "UnsupportedArchitecture",
    "WindowAttention",
    "catalogue",
    "load",
    "parse",
]
