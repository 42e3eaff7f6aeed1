"""Model geometries: read from any supported Hugging Face ``config.json``, or taken from the catalogue."""

from calc.models.catalogue import catalogue, load
from calc.models.fields import ConfigError, UnsupportedArchitecture, parse
from calc.models.geometry import ModelGeometry
from calc.models.layers import (
    ChunkAttention,
    CompressedAttention,
    DenseMLP,
    FixedState,
    FullAttention,
    GatedDeltaNet,
    IndexedAttention,
    IndexedLatentAttention,
    LatentAttention,
    LatentWindowAttention,
    Layer,
    Mamba2,
    MixtureOfExperts,
    RecurrentState,
    StatePart,
    WindowAttention,
)

__all__ = [
    "ChunkAttention",
    "CompressedAttention",
    "ConfigError",
    "DenseMLP",
    "FixedState",
    "FullAttention",
    "GatedDeltaNet",
    "IndexedAttention",
    "IndexedLatentAttention",
    "LatentAttention",
    "LatentWindowAttention",
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
