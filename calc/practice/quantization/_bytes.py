"""Problems about stored bytes: a matrix, a model, a mixture, a file of many types."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from types import SimpleNamespace as Numbers

from calc import quantization as qz
from calc.parameters import count
from calc.practice._problem import Problem
from calc.practice.quantization._model import DENSE, GGUF, GROUPS, IN_WORDS, MATRIX, MODEL, bits, geometry, tables
from calc.units import format_bytes, significant
from calc.working import Working, working

SIDES = (1024, 2048, 4096, 5120, 8192, 14_336, 28_672)


def _matrix(n: Numbers, **changed: float) -> float:
    element_bits, scale_bits, zero_bits, group = GROUPS[n.how]
    return qz.matrix_bytes(
        **{
            "output_dim": n.rows,
            "input_dim": n.columns,
            "block_out": 1,
            "block_in": group,
            "element_bits": element_bits,
            "scale_bits": scale_bits,
            "zero_bits": zero_bits,
        }
        | changed
    )


one_matrix = Problem(
    id="quantization/one-matrix",
    title="One matrix",
    level=1,
    step=MATRIX,
    printed={"rows": 28_672, "columns": 8192, "how": "gptq"},
    choices={"rows": SIDES, "columns": SIDES, "how": tuple(GROUPS)},
    ask=lambda n: (
        f"A matrix of {n.rows:,} rows and {n.columns:,} columns is stored as {IN_WORDS[n.how]}. "
        "How many bytes does it take?"
    ),
    answer=_matrix,
    mistakes={
        "forgets the scales": lambda n: _matrix(n, scale_bits=0, zero_bits=0),
        "gives every weight a scale": lambda n: _matrix(n, block_in=1),
        "takes bits for bytes": lambda n: 8 * _matrix(n),
        "keeps one byte per weight": lambda n: _matrix(n, element_bits=8),
    },
    hint="Spread what a group stores beside its weights over them, then count as always.",
    solution=lambda n: [
        working(qz.effective_bits, **bits(n)),
        working(
            qz.matrix_bytes,
            output_dim=n.rows,
            input_dim=n.columns,
            block_out=1,
            block_in=GROUPS[n.how][3],
            element_bits=GROUPS[n.how][0],
            scale_bits=GROUPS[n.how][1],
            zero_bits=GROUPS[n.how][2],
        ),
    ],
)


def _blocks(n: Numbers, rows: int | None = None, columns: int | None = None, scale: int = 4) -> float:
    """Bytes of the scales alone."""
    return scale * ceil(n.rows / (rows or n.block)) * ceil(n.columns / (columns or n.block))


block_scales = Problem(
    id="quantization/block-scales",
    title="Scales of blocks",
    level=1,
    step=MATRIX,
    printed={"rows": 2048, "columns": 7168, "block": 128},
    choices={"rows": (1536, 2048, 4096, 7168), "columns": (2048, 5120, 7168, 16_384), "block": (64, 128, 256)},
    ask=lambda n: (
        f"A matrix of {n.rows:,} rows and {n.columns:,} columns is kept in fp8 with one fp32 scale for every block of "
        f"{n.block} × {n.block} weights. How many bytes do its scales take?"
    ),
    answer=_blocks,
    mistakes={
        "keeps a scale for each group of one row": lambda n: _blocks(n, rows=1),
        "keeps two bytes for a scale": lambda n: _blocks(n, scale=2),
        "keeps one scale a row": lambda n: 4 * n.rows,
        "takes 32 bits for 32 bytes": lambda n: _blocks(n, scale=32),
    },
    hint="Count the blocks along each side.",
    solution=lambda n: [
        f"⌈{n.rows:,} / {n.block}⌉ · ⌈{n.columns:,} / {n.block}⌉ = {_blocks(n) / 4:,.0f} blocks of 4 bytes.",
        f"{_blocks(n) / 4:,.0f} · 4 B = {format_bytes(_blocks(n))}.",
    ],
)


def _model(n: Numbers, *, per_weight: float | None = None, kept: float | None = None) -> float:
    """The whole model with its embedding and output layer kept, norms not counted apart."""
    total = count(geometry(n.model)).total
    stay = tables(n) if kept is None else kept
    per = qz.effective_bits(**bits(n)) if per_weight is None else per_weight
    return qz.model_bytes(quantized_parameters=total - stay, stored_bits=per, kept_parameters=stay, element_bytes=2)


whole_model = Problem(
    id="quantization/whole-model",
    title="What the file weighs",
    level=2,
    step=MODEL,
    printed={"model": "llama-3.1-8b", "how": "gptq"},
    choices={"model": DENSE, "how": ("gptq", "g64", "g32", "mx")},
    ask=lambda n: (
        f"{geometry(n.model).name} has {count(geometry(n.model)).total / 1e9:.4g} billion parameters, "
        f"{tables(n) / 1e9:.4g} billion of them in the embedding and the output layer, which stay in bf16. All others "
        f"are stored as {IN_WORDS[n.how]}. How large are its tensors?"
    ),
    answer=lambda n: _told(n),
    mistakes={
        "takes half a byte for every parameter": lambda n: _told(n, per_weight=4, kept=0),
        "forgets the scales": lambda n: _told(n, per_weight=4),
        "quantizes the embedding and the output layer too": lambda n: _told(n, kept=0),
        "keeps everything in bf16": lambda n: _told(n, per_weight=16),
        "takes bits for bytes": lambda n: 8 * _told(n, kept=0),
    },
    hint="Two sums: what is quantized, with its scales, and what stays.",
    solution=lambda n: [
        working(qz.effective_bits, **bits(n)),
        _told_working(n),
    ],
)


def _rounded(parameters: int) -> int:
    """A count as the question prints it."""
    return round(float(f"{parameters / 1e9:.4g}") * 1e9)


def _told(n: Numbers, *, per_weight: float | None = None, kept: float | None = None) -> float:
    """The model's bytes from the numbers that the question prints."""
    stay = _rounded(tables(n)) if kept is None else kept
    per = qz.effective_bits(**bits(n)) if per_weight is None else per_weight
    return qz.model_bytes(
        quantized_parameters=_rounded(count(geometry(n.model)).total) - stay,
        stored_bits=per,
        kept_parameters=stay,
        element_bytes=2,
    )


def _told_working(n: Numbers) -> Working:
    """The working of `_told`, its result in whole bytes."""
    told = working(
        qz.model_bytes,
        quantized_parameters=_rounded(count(geometry(n.model)).total) - _rounded(tables(n)),
        stored_bits=qz.effective_bits(**bits(n)),
        kept_parameters=_rounded(tables(n)),
        element_bytes=2,
    )
    part, whole = f"{told.value:,}", f"{round(told.value):,}"  # groups of bits need not end with a byte
    if told.value == round(told.value):
        return told
    (step,) = told.steps
    latex = step.latex[-1].replace(part.replace(",", "{,}"), rf"\approx {whole.replace(',', '{,}')}")
    named = replace(step, result=f"≈ {step.result.replace(part, whole)}", latex=(*step.latex[:-1], latex))
    return replace(told, steps=(named,))


times_smaller = Problem(
    id="quantization/times-smaller",
    title="Four times smaller?",
    level=2,
    step=MODEL,
    printed={"model": "llama-3.1-8b", "how": "gptq"},
    choices={"model": DENSE, "how": ("gptq", "g64", "mx", "nv")},
    ask=lambda n: (
        f"{geometry(n.model).name}: {count(geometry(n.model)).total / 1e9:.4g} billion parameters, of which "
        f"{tables(n) / 1e9:.4g} billion (embedding and output layer) stay in bf16. The others become "
        f"{IN_WORDS[n.how]}. How many times smaller than bf16 is the file?"
    ),
    unit="x",
    answer=lambda n: _told(n, per_weight=16) / _told(n),
    mistakes={
        "divides 16 bits by 4": lambda n: 4.0,
        "divides 16 bits by those of a quantized weight": lambda n: 16 / qz.effective_bits(**bits(n)),
        "turns the ratio around": lambda n: _told(n) / _told(n, per_weight=16),
        "forgets the scales": lambda n: _told(n, per_weight=16) / _told(n, per_weight=4),
    },
    hint="The kept matrices weigh the same before and after.",
    solution=lambda n: [
        working(qz.effective_bits, **bits(n)),
        _told_working(n),
        f"In bf16: {_rounded(count(geometry(n.model)).total):,} · 2 B = {_told(n, per_weight=16):,.0f} B ≈ "
        f"{format_bytes(_told(n, per_weight=16))}.",
        f"{_told(n, per_weight=16):,.0f} B / {_told(n):,.0f} B ≈ {significant(_told(n, per_weight=16) / _told(n))}.",
    ],
)


def _mixture(n: Numbers, *, expert_bits: float = 4.25, rest_bits: float = 16) -> float:
    return (n.experts * expert_bits + n.rest * rest_bits) * 1e9 / 8


mixture = Problem(
    id="quantization/mixture",
    title="Experts in four bits",
    level=2,
    step=MODEL,
    printed={"experts": 114.71, "rest": 2.12},
    choices={"experts": (19.1, 57.3, 114.71, 230.4), "rest": (1.2, 1.8, 2.12, 5.4, 9.8)},
    ask=lambda n: (
        f"A mixture has {n.experts} billion parameters in its experts and {n.rest} billion elsewhere. The experts are "
        "stored in MXFP4: 4 bits each, and one 8-bit scale for 32 of them. The rest stays in bf16. "
        "How large is the checkpoint?"
    ),
    answer=_mixture,
    mistakes={
        "forgets the scales": lambda n: _mixture(n, expert_bits=4),
        "counts a 16-bit scale": lambda n: _mixture(n, expert_bits=4.5),
        "quantizes the rest too": lambda n: _mixture(n, rest_bits=4.25),
        "keeps everything in bf16": lambda n: _mixture(n, expert_bits=16),
        "keeps the rest at one byte": lambda n: _mixture(n, rest_bits=8),
    },
    hint="4 bits, and a 32nd part of 8 bits.",
    solution=lambda n: [
        working(qz.effective_bits, element_bits=4, scale_bits=8, zero_bits=0, group=32),
        working(
            qz.model_bytes,
            quantized_parameters=n.experts * 1e9,
            stored_bits=4.25,
            kept_parameters=n.rest * 1e9,
            element_bytes=2,
        ),
    ],
)

TYPES = {"Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210), "Q8_0": (32, 34), "Q4_0": (32, 18)}


def _gguf(n: Numbers, kinds: tuple[str, str] | None = None, counts: tuple[float, float] | None = None) -> float:
    total = 0.0
    for kind, many in zip(kinds or (n.most, n.few), counts or (n.billions, n.better), strict=True):
        weights, size = TYPES[kind]
        total += many * 1e9 / weights * size
    return total


def _nominal(n: Numbers) -> float:
    digits = (int(kind[1]) for kind in (n.most, n.few))
    return sum(bits * many * 1e9 / 8 for bits, many in zip(digits, (n.billions, n.better), strict=True))


gguf_file = Problem(
    id="quantization/gguf-file",
    title="A file of two types",
    level=2,
    step=GGUF,
    printed={"most": "Q4_K", "few": "Q6_K", "billions": 6.5, "better": 1.53},
    choices={
        "most": ("Q4_K", "Q5_K", "Q4_0"),
        "few": ("Q6_K", "Q8_0"),
        "billions": (2.6, 6.5, 11.1, 62.0),
        "better": (0.6, 1.53, 2.2, 8.5),
    },
    possible=lambda n: n.better < n.billions,
    ask=lambda n: (
        f"A GGUF file holds {n.billions} billion weights as {n.most} and {n.better} billion as {n.few}. A block of "
        f"{n.most} has {TYPES[n.most][0]} weights and takes {TYPES[n.most][1]} bytes; one of {n.few} has "
        f"{TYPES[n.few][0]} and takes {TYPES[n.few][1]}. How large are its tensors?"
    ),
    answer=_gguf,
    mistakes={
        "takes the digit in the name for the bits": _nominal,
        "stores every weight as the first type": lambda n: _gguf(n, kinds=(n.most, n.most)),
        "swaps the types": lambda n: _gguf(n, kinds=(n.few, n.most)),
        "leaves the second type out": lambda n: _gguf(n, counts=(n.billions, 0)),
    },
    hint="Bytes of a block over its weights, for each type.",
    solution=lambda n: [
        f"{n.most}: 8 · {TYPES[n.most][1]} / {TYPES[n.most][0]} = {qz.gguf_bits(n.most)} bits. "
        f"{n.few}: {qz.gguf_bits(n.few)} bits.",
        working(
            qz.model_bytes,
            quantized_parameters=n.billions * 1e9,
            stored_bits=qz.gguf_bits(n.most),
            kept_parameters=n.better * 1e9,
            element_bytes=qz.gguf_bits(n.few) / 8,
        ),
    ],
)
