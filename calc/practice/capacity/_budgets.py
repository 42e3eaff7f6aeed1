"""Problems about one GPU: what is left for the cache, in bytes and in blocks."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import capacity
from calc.practice._problem import Problem
from calc.practice.capacity._model import (
    ALIKE,
    ENGINES,
    POOL,
    WORKSPACE,
    budget,
    described,
    geometry,
    gib,
    rank_block_working,
    token_bytes,
)
from calc.units import counted, format_bytes
from calc.working import Working, working

pool = Problem(
    id="capacity/pool",
    title="What is left",
    level=1,
    step=POOL,
    printed={"total": 93.1, "percent": 90, "weights": 30.2, "activations": 3.6, "graphs": 0.6, "buffers": 1.9},
    choices={
        "total": (44.31, 79.11, 93.1, 178.35),
        "percent": (85, 90, 92, 95),
        "weights": (7.5, 16.43, 30.2),
        "activations": (1.3, 2.0, 3.6),
        "graphs": (0.6, 1.0, 2.2),
        "buffers": (0.8, 1.0, 1.9),
    },
    ask=lambda n: (
        f"A GPU shows {n.total} GiB, and the engine may use {n.percent}% of it for everything. Weights on this rank "
        "take "
        f"{n.weights} GiB, activations {n.activations} GiB at their peak, captured graphs {n.graphs} GiB, "
        "communication "
        f"buffers and the driver {n.buffers} GiB. How much is left for the cache?"
    ),
    per=("GPU", "rank"),
    answer=budget,
    mistakes={
        "gives the engine the whole GPU": lambda n: budget(n, fraction=1),
        "takes weights off and nothing else": lambda n: budget(
            n, activation_bytes=0, graph_bytes=0, communication_bytes=0
        ),
        "leaves graphs and communication out": lambda n: budget(n, graph_bytes=0, communication_bytes=0),
        "leaves the weights out": lambda n: budget(n, weight_bytes=0),
        "takes the fraction of what is left": lambda n: budget(n, fraction=1) * n.percent / 100,
    },
    hint="The fraction is of the whole GPU. Everything the engine holds comes off it.",
    solution=lambda n: [
        working(
            capacity.pool_bytes,
            total_bytes=gib(n.total),
            fraction=n.percent / 100,
            weight_bytes=gib(n.weights),
            activation_bytes=gib(n.activations),
            graph_bytes=gib(n.graphs),
            communication_bytes=gib(n.buffers),
        )
    ],
)


def _blocks(n: Numbers, size: float | None = None, memory: float | None = None) -> int:
    one = token_bytes(n) * n.block if size is None else size
    return int(capacity.pool_blocks(pool_bytes=gib(n.pool) if memory is None else memory, block_bytes=one))


def _query_heads(n: Numbers) -> int:
    return geometry(n.model).kinds()[0][0].query_heads // n.ranks


blocks = Problem(
    id="capacity/blocks",
    title="Blocks in the pool",
    level=1,
    step=POOL,
    printed={"model": "qwen3-32b", "ranks": 2, "pool": 37.5, "block": 32},
    choices={"model": ALIKE, "ranks": (2, 4, 8), "pool": (20, 37.5, 52, 110), "block": (16, 32, 64)},
    ask=lambda n: (
        f"{described(n)}. It runs on {n.ranks} tensor-parallel ranks with a bf16 cache, and each rank has {n.pool} "
        "GiB for "
        f"it. A block holds {n.block} positions. How many blocks does a rank have?"
    ),
    per=("rank", "GPU"),
    unit="blocks",
    exact=True,
    answer=_blocks,
    mistakes={
        "divides by the bytes of one token": lambda n: _blocks(n, size=token_bytes(n)),
        "counts the bytes of all ranks": lambda n: _blocks(n, size=token_bytes(n, ranks=1) * n.block),
        "counts query heads": lambda n: _blocks(n, size=token_bytes(n, kv_heads=_query_heads(n)) * n.block),
        "reads GiB as GB": lambda n: _blocks(n, memory=n.pool * 1e9),
        "counts one layer": lambda n: _blocks(n, size=token_bytes(n, layers=1) * n.block),
    },
    hint="A block costs its positions in every layer, with the KV heads that this rank keeps.",
    solution=lambda n: [
        *rank_block_working(n, n.ranks, n.block),
        working(capacity.pool_blocks, pool_bytes=gib(n.pool), block_bytes=token_bytes(n) * n.block),
        f"A rank has {counted(_blocks(n), 'block')}.",
    ],
)


def _logits(n: Numbers, **changed: float) -> float:
    width = {"rows": n.rows, "width": geometry(n.model).vocab, "element_bytes": n.bytes}
    return capacity.tensor_bytes(**width | changed)


logits = Problem(
    id="capacity/logits",
    title="Logits",
    level=2,
    step=WORKSPACE,
    printed={"model": "llama-3.1-8b", "rows": 8192, "bytes": 4},
    choices={
        "model": ("llama-3.1-8b", "qwen2.5-7b", "gemma-2-9b", "mistral-nemo"),
        "rows": (256, 1024, 2048, 8192),
        "bytes": (2, 4),
    },
    ask=lambda n: (
        f"{geometry(n.model).name} has a hidden size of {geometry(n.model).hidden:,} and a vocabulary of "
        f"{geometry(n.model).vocab:,}. A step computes logits for {n.rows:,} positions, {n.bytes} bytes each. How much "
        "memory do they take on the rank that holds them all?"
    ),
    answer=_logits,
    mistakes={
        "takes the hidden size for the vocabulary": lambda n: _logits(n, width=geometry(n.model).hidden),
        "keeps two bytes per element": lambda n: _logits(n, element_bytes=2),
        "keeps four bytes per element": lambda n: _logits(n, element_bytes=4),
        "counts one position": lambda n: _logits(n, rows=1),
    },
    hint="One row for every position whose next token is wanted, one element for every token of the vocabulary.",
    solution=lambda n: [
        working(capacity.tensor_bytes, rows=n.rows, width=geometry(n.model).vocab, element_bytes=n.bytes)
    ],
)

TOLD = ("vllm", "sglang", "tensorrt-llm", "lmdeploy")


def _engine(n: Numbers, engine: str) -> float:
    return capacity.engine_pool_bytes(
        engine,
        total_bytes=gib(n.total),
        fraction=n.percent / 100,
        weight_bytes=gib(n.weights),
        activation_bytes=gib(n.activations),
        graph_bytes=0,
        communication_bytes=0,
    )


def _engine_working(n: Numbers) -> Working:
    card = {"fraction": n.percent / 100, "weight_bytes": gib(n.weights)}
    if n.engine == "vllm":
        rest = {"activation_bytes": gib(n.activations), "graph_bytes": 0, "communication_bytes": 0}
        return working(capacity.pool_bytes, total_bytes=gib(n.total), **card, **rest)
    if n.engine == "sglang":
        return working(capacity.static_pool_bytes, free_bytes=gib(n.total), **card)
    workspace = gib(n.activations) if n.engine == "tensorrt-llm" else 0
    return working(capacity.remainder_pool_bytes, total_bytes=gib(n.total), workspace_bytes=workspace, **card)


def _peak(n: Numbers) -> float:
    """Bytes of weights, activations and cache together."""
    return gib(n.weights) + gib(n.activations) + _engine(n, n.engine)


def _peak_words(n: Numbers) -> str:
    """How full the GPU is then, and whether the setting saw to it."""
    held = f"At the peak weights, activations and cache take {format_bytes(_peak(n))} of the {n.total} GiB."
    if n.engine not in ("sglang", "lmdeploy"):
        return held
    beside = gib(n.total) - gib(n.weights) - _engine(n, n.engine)
    return (
        f"{held} The setting does not see to that: beside weights and cache it leaves {format_bytes(beside)}, whatever "
        "the activations need."
    )


fraction = Problem(
    id="capacity/fraction",
    title="A fraction of what",
    level=2,
    step=ENGINES,
    printed={"engine": "lmdeploy", "total": 79.1, "percent": 80, "weights": 54, "activations": 3},
    choices={
        "engine": TOLD,
        "total": (44.3, 79.1, 139.8),
        "percent": (80, 90, 93),
        "weights": (14.5, 27, 54),
        "activations": (2, 3, 5.5),
    },
    possible=lambda n: n.weights < 0.7 * n.total and _peak(n) <= gib(n.total),
    ask=lambda n: (
        f"A GPU shows {n.total} GiB and nothing else runs on it. Weights take {n.weights} GiB and activations "
        f"{n.activations} GiB at their peak; leave graphs and buffers aside. "
        f"{capacity.memory_setting(n.engine).engine} "
        f"gets {n.percent}% as its {capacity.memory_setting(n.engine).setting}. How large is the cache?"
    ),
    answer=lambda n: _engine(n, n.engine),
    mistakes={
        "takes it for a share of the GPU, for everything": lambda n: _engine(n, "vllm"),
        "takes it for a share of the GPU, for weights and cache": lambda n: _engine(n, "sglang"),
        "takes it for a share of what weights and activations leave": lambda n: _engine(n, "tensorrt-llm"),
        "takes it for a share of what the weights leave": lambda n: _engine(n, "lmdeploy"),
        "takes it for a share of the GPU, for the cache alone": lambda n: gib(n.total) * n.percent / 100,
    },
    hint="First ask what the share is of: the GPU, or what is left of it. Then ask what must fit inside it, and what "
    "beside it.",
    solution=lambda n: [
        f"It is a share of {capacity.memory_setting(n.engine).share_of.partition(';')[0]}.",
        _engine_working(n),
        _peak_words(n),
    ],
)
