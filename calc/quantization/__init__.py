"""Quantization: stored bytes to the byte, the arithmetic that a chip and an engine have for it, and the choice.

`_formulas` holds the arithmetic, one function each. `_schemes` stores a model by a scheme, `_ranks` one rank of it,
`_gguf` as llama.cpp does, `_config` reads a checkpoint's own description. `_numerics` rounds real matrices. `_steps`
holds the floors of a step. `_choice` filters by hardware and engine and weighs what others measured. `_panel` is the
live panel of the chapter.
"""

from calc.quantization._choice import (
    ORIGINAL,
    Candidate,
    Recovery,
    Support,
    Timing,
    benchmarks,
    candidates,
    decide,
    engine_name,
    engines,
    front,
    measured_tokens,
    recovery,
    support,
    timing,
    timing_records,
)
from calc.quantization._config import Quantization, UnsupportedQuantization, read_quantization
from calc.quantization._formulas import (
    effective_bits,
    fixed_overhead,
    matrix_bytes,
    model_bytes,
    rounding_error,
)
from calc.quantization._gguf import gguf, gguf_bits, gguf_mixes, gguf_types
from calc.quantization._numerics import FLOATS, relative_error, representable, round_float, round_trip, sample
from calc.quantization._panel import quantization_panel
from calc.quantization._ranks import CutThrough, cut_through, rank_bytes
from calc.quantization._schemes import Matrix, Part, Scheme, Stored, matrices, scheme, schemes, stored
from calc.quantization._steps import Step, crossover, step

__all__ = [
    "FLOATS",
    "ORIGINAL",
    "Candidate",
    "CutThrough",
    "Matrix",
    "Part",
    "Quantization",
    "Recovery",
    "Scheme",
    "Step",
    "Stored",
    "Support",
    "Timing",
    "UnsupportedQuantization",
    "benchmarks",
    "candidates",
    "crossover",
    "cut_through",
    "decide",
    "effective_bits",
    "engine_name",
    "engines",
    "fixed_overhead",
    "front",
    "gguf",
    "gguf_bits",
    "gguf_mixes",
    "gguf_types",
    "matrices",
    "matrix_bytes",
    "measured_tokens",
    "model_bytes",
    "quantization_panel",
    "rank_bytes",
    "read_quantization",
    "recovery",
    "relative_error",
    "representable",
    "round_float",
    "round_trip",
    "rounding_error",
    "sample",
    "scheme",
    "schemes",
    "step",
    "stored",
    "support",
    "timing",
    "timing_records",
]
