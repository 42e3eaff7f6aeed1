"""Problems about what an adapter stores."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import adapters
from calc.adapters import ELEMENTS
from calc.practice._problem import Problem
from calc.practice.multi_lora._model import (
    ALIKE,
    FILE,
    IN_WORDS,
    PAIRS,
    PROJECTIONS,
    described,
    geometry,
    made,
    pairs_working,
    site,
)
from calc.working import working


def _pair(n: Numbers) -> int:
    return adapters.pair_parameters(rank=n.rank, input_dim=site(n).input_dim, output_dim=site(n).output_dim)


pair = Problem(
    id="multi_lora/pair",
    title="One pair",
    level=1,
    step=PAIRS,
    printed={"model": "qwen2.5-7b", "matrix": "k_proj", "rank": 32, "element": "bf16"},
    choices={
        "model": ALIKE,
        "matrix": ("q_proj", "k_proj", "gate_proj", "down_proj"),
        "rank": (4, 8, 16, 32, 64),
        "element": ("bf16", "fp32"),
    },
    ask=lambda n: (
        f"The {n.matrix} of a layer of {geometry(n.model).name} takes {site(n).input_dim:,} elements to "
        f"{site(n).output_dim:,}. An adapter of rank {n.rank} gives it a pair A and B in {n.element}. "
        "How much does the pair store?"
    ),
    answer=lambda n: _pair(n) * ELEMENTS[n.element],
    mistakes={
        "stores the whole matrix": lambda n: site(n).input_dim * site(n).output_dim * ELEMENTS[n.element],
        "counts A alone": lambda n: n.rank * site(n).input_dim * ELEMENTS[n.element],
        "counts B alone": lambda n: n.rank * site(n).output_dim * ELEMENTS[n.element],
        "takes the matrix to be square": lambda n: 2 * n.rank * site(n).input_dim * ELEMENTS[n.element],
        "keeps one byte per element": _pair,
    },
    hint="A has a row for each unit of the rank, as wide as the input. B has a column for each, as tall as the output.",
    solution=lambda n: [
        working(adapters.pair_parameters, rank=n.rank, input_dim=site(n).input_dim, output_dim=site(n).output_dim),
        working(
            adapters.stored_bytes,
            low_rank_parameters=_pair(n),
            element_bytes=ELEMENTS[n.element],
            saved_parameters=0,
            saved_element_bytes=ELEMENTS[n.element],
        ),
    ],
)


def _stored(n: Numbers) -> int:
    return made(n.model, n.rank, n.targets).stored_bytes


def _wide_keys(n: Numbers) -> int:
    """The mistake of giving keys and values the width of the queries."""
    one, heads = made(n.model, n.rank, n.targets), geometry(n.model).layers[0].mixer
    missing = sum(
        n.rank * (heads.query_heads - heads.kv_heads) * heads.key_dim
        for s in one.sites
        if s.name in {"k_proj", "v_proj"}
    )
    return 2 * (one.low_rank_parameters + missing)


def _whole_matrices(n: Numbers) -> int:
    return 2 * sum(s.input_dim * s.output_dim for s in made(n.model, n.rank, n.targets).sites)


stored = Problem(
    id="multi_lora/stored",
    title="One adapter",
    level=1,
    step=PAIRS,
    printed={"model": "llama-3.1-8b", "rank": 32, "targets": "all-linear"},
    choices={"model": ALIKE, "rank": (8, 16, 32, 64, 128), "targets": ("all-linear", "attention")},
    ask=lambda n: (
        f"{described(n)}. An adapter of rank {n.rank} changes {IN_WORDS[n.targets]} and is stored in bf16. "
        "How much does it store?"
    ),
    answer=_stored,
    mistakes={
        "gives keys and values the width of the queries": _wide_keys,
        "stores the whole matrices": _whole_matrices,
        "counts A alone": lambda n: 2 * sum(n.rank * s.input_dim for s in made(n.model, n.rank, n.targets).sites),
        "counts one layer": lambda n: _stored(n) / len(geometry(n.model).layers),
        "keeps four bytes per element": lambda n: 2 * _stored(n),
    },
    hint="Add input and output widths of every adapted matrix of one layer. Keys and values are narrow.",
    solution=lambda n: [
        *pairs_working(n.model, n.rank, n.targets),
        working(
            adapters.stored_bytes,
            low_rank_parameters=made(n.model, n.rank, n.targets).low_rank_parameters,
            element_bytes=2,
            saved_parameters=0,
            saved_element_bytes=2,
        ),
    ],
)


def _saving(n: Numbers, element: str = "fp32", saved_element: str = "bf16", count: int | None = None) -> int:
    """An adapter that keeps embeddings and heads whole."""
    model = geometry(n.model)
    return adapters.stored_bytes(
        low_rank_parameters=made(n.model, n.rank, "all-linear").low_rank_parameters,
        element_bytes=ELEMENTS[element],
        saved_parameters=(len(n.saved) if count is None else count) * model.vocab * model.hidden,
        saved_element_bytes=ELEMENTS[saved_element],
    )


saved_embedding = Problem(
    id="multi_lora/saved-embedding",
    title="Larger than it looks",
    level=2,
    step=PAIRS,
    printed={"model": "gemma-2b", "rank": 64, "saved": ("embed_tokens", "lm_head")},
    choices={
        "model": ("gemma-2b", "gemma-2-9b", "gemma-3-1b", "llama-3.2-1b", "llama-3.1-8b", "qwen2.5-0.5b", "qwen2.5-7b"),
        "rank": (16, 32, 64, 128),
        "saved": (("embed_tokens",), ("lm_head",), ("embed_tokens", "lm_head")),
    },
    ask=lambda n: (
        f"An adapter of rank {n.rank} on all projections of {geometry(n.model).name} has "
        f"{made(n.model, n.rank, 'all-linear').low_rank_parameters:,} low-rank parameters, left in fp32. Tokens were "
        f"added in training, so modules_to_save names {' and '.join(n.saved)}; "
        f"{'each' if len(n.saved) > 1 else 'it'} has {geometry(n.model).vocab:,} rows of "
        f"{geometry(n.model).hidden:,} and is stored in bf16. How much does the adapter store?"
    ),
    answer=_saving,
    mistakes={
        "counts the pairs alone": lambda n: _saving(n, count=0),
        "counts the pairs alone, in bf16": lambda n: _saving(n, element="bf16", count=0),
        "stores everything in fp32": lambda n: _saving(n, saved_element="fp32"),
        "stores everything in bf16": lambda n: _saving(n, element="bf16"),
        "saves one matrix of the two": lambda n: _saving(n, count=1) if len(n.saved) == 2 else None,
    },
    hint="Two sums with two element types. A saved matrix has vocabulary times hidden size.",
    solution=lambda n: [
        working(
            adapters.stored_bytes,
            low_rank_parameters=made(n.model, n.rank, "all-linear").low_rank_parameters,
            element_bytes=4,
            saved_parameters=len(n.saved) * geometry(n.model).vocab * geometry(n.model).hidden,
            saved_element_bytes=2,
        ),
    ],
)

_TYPES = {"F32": 4, "F16": 2, "BF16": 2}


def _listed(n: Numbers) -> int:
    """Bytes of the listed pair in every layer."""
    return len(geometry(n.model).layers) * _pair(n) * _TYPES[n.dtype]


header = Problem(
    id="multi_lora/header",
    title="What the header says",
    level=2,
    step=FILE,
    printed={"model": "llama-3.1-70b", "matrix": "up_proj", "rank": 8, "dtype": "F32"},
    choices={"model": ALIKE, "matrix": PROJECTIONS, "rank": (4, 8, 16, 64), "dtype": ("F32", "BF16", "F16")},
    ask=lambda n: (
        f"The header of a stored adapter lists, in each of {len(geometry(n.model).layers)} layers, "
        f"{n.matrix}.lora_A.weight with dtype {n.dtype} and shape [{n.rank}, {site(n).input_dim}], and "
        f"{n.matrix}.lora_B.weight with dtype {n.dtype} and shape [{site(n).output_dim}, {n.rank}]. "
        "How many bytes of the file are these tensors?"
    ),
    answer=_listed,
    mistakes={
        "counts one layer": lambda n: _listed(n) / len(geometry(n.model).layers),
        "counts A alone": lambda n: _listed(n) * site(n).input_dim / (site(n).input_dim + site(n).output_dim),
        "counts B alone": lambda n: _listed(n) * site(n).output_dim / (site(n).input_dim + site(n).output_dim),
        "reads F32 as two bytes": lambda n: _listed(n) / 2 if n.dtype == "F32" else None,
        "reads sixteen bits as four bytes": lambda n: 2 * _listed(n) if n.dtype != "F32" else None,
    },
    hint="Elements of both shapes, times the bytes of the dtype, times the layers.",
    solution=lambda n: [
        working(adapters.pair_parameters, rank=n.rank, input_dim=site(n).input_dim, output_dim=site(n).output_dim),
        f"{len(geometry(n.model).layers)} such pairs, {_TYPES[n.dtype]} bytes an element:",
        working(
            adapters.stored_bytes,
            low_rank_parameters=len(geometry(n.model).layers) * _pair(n),
            element_bytes=_TYPES[n.dtype],
            saved_parameters=0,
            saved_element_bytes=_TYPES[n.dtype],
        ),
    ],
)
