"""Problems about a group of GPUs: how often the cache is stored, and what each GPU holds."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import attention, kv_cache
from calc.practice._problem import Problem
from calc.practice.attention_variants._model import (
    GB,
    GIB,
    GROUPED,
    LATENTS,
    RANKS,
    described,
    geometry,
    mixer,
    rank_workings,
    sequence,
    token,
    token_working,
    within_context,
)
from calc.units import format_bytes, format_count, relation, significant
from calc.working import Working, working


def _dealt(n: Numbers) -> bool:
    """Whether the query heads can be dealt out among the drawn ranks."""
    return mixer(n.model).query_heads % n.ranks == 0


def _copies_working(slug: str, ranks: int) -> Working:
    return working(
        attention.copies,
        ranks=ranks,
        rank_bytes=token(slug, "bf16", ranks),
        bytes_per_position=token(slug, "bf16"),
    )


copies = Problem(
    id="attention_variants/copies",
    title="How often is it stored?",
    level=1,
    step=RANKS,
    printed={"model": "qwen3-32b", "ranks": 32},
    choices={"model": (*GROUPED, *LATENTS), "ranks": (4, 8, 16, 32)},
    possible=_dealt,
    ask=lambda n: (
        f"{described(n.model)}. It runs on {n.ranks} tensor-parallel ranks. How many times do the ranks together store "
        "the cache of a position?"
    ),
    unit="x",
    answer=lambda n: _copies_working(n.model, n.ranks).value,
    mistakes={
        "stores it once": lambda n: 1,
        "copies it to every rank": lambda n: n.ranks,
        "turns the ratio around": lambda n: 1 / _copies_working(n.model, n.ranks).value,
        "counts query heads for each KV head": lambda n: (
            mixer(n.model).query_heads / getattr(mixer(n.model), "kv_heads", 1)
        ),
    },
    hint="A rank keeps whole KV heads, at least one. A latent is as good as one head.",
    solution=lambda n: [
        "On a rank, with a cache in bf16, say:",
        *rank_workings(n.model, "bf16", n.ranks),
        "In the whole model:",
        token_working(n.model, "bf16"),
        "What the ranks store over what there is to store:",
        _copies_working(n.model, n.ranks),
    ],
)


def _rank_ratio(n: Numbers, ranks: int | None = None, latent_ranks: int | None = None) -> float:
    one = token(n.latent, n.element, n.ranks if ranks is None else ranks)
    other = token(n.model, n.element, n.ranks if ranks is None else ranks)
    return one / (latent_ranks or 1) / other


rank_ratio = Problem(
    id="attention_variants/rank-ratio",
    title="Latent against heads, on one GPU",
    level=2,
    step=RANKS,
    printed={"latent": "kimi-k2", "model": "qwen3-32b", "element": "bf16", "ranks": 16},
    choices={"latent": LATENTS, "model": GROUPED, "element": ("bf16", "fp8"), "ranks": (2, 4, 8, 16)},
    possible=lambda n: _dealt(n) and mixer(n.latent).query_heads % n.ranks == 0,
    ask=lambda n: (
        f"{described(n.latent)}. {described(n.model)}. Both run on {n.ranks} tensor-parallel ranks with a cache in "
        f"{n.element}. For one position, how many times as much does a rank of {geometry(n.latent).name} hold as a "
        "rank "
        f"of {geometry(n.model).name}?"
    ),
    unit="x",
    answer=_rank_ratio,
    mistakes={
        "compares the whole models": lambda n: _rank_ratio(n, ranks=1),
        "divides the latent too": lambda n: _rank_ratio(n, latent_ranks=n.ranks),
        "turns the ratio around": lambda n: 1 / _rank_ratio(n),
        "doubles the latent for key and value": lambda n: (
            2 * token(n.latent, n.element, rope_dim=0) / token(n.model, n.element, n.ranks)
        ),
        "divides below one KV head": lambda n: token(n.latent, n.element) / (token(n.model, n.element) / n.ranks),
    },
    hint="The latent is whole on every rank; KV heads are dealt out until each rank has one.",
    solution=lambda n: [
        f"A rank of {geometry(n.latent).name}:",
        *rank_workings(n.latent, n.element, n.ranks),
        f"A rank of {geometry(n.model).name}:",
        *rank_workings(n.model, n.element, n.ranks),
        f"{format_count(token(n.latent, n.element, n.ranks))} B / "
        f"{format_count(token(n.model, n.element, n.ranks))} B {relation(significant(_rank_ratio(n)), _rank_ratio(n))} "
        f"{significant(_rank_ratio(n))}×",
    ],
)


def _group(n: Numbers) -> float:
    return n.ranks * sequence(token(n.model, "bf16", n.ranks), n.positions)


group_total = Problem(
    id="attention_variants/group-total",
    title="The whole group",
    level=2,
    step=RANKS,
    printed={"model": "qwen3-235b-a22b", "ranks": 8, "positions": 32_768},
    choices={
        "model": (*GROUPED, *LATENTS),
        "ranks": (4, 8, 16, 32),
        "positions": (2048, 4096, 8192, 20_000, 32_768, 65_536),
    },
    possible=lambda n: _dealt(n) and within_context(n),
    ask=lambda n: (
        f"{described(n.model)}. It runs on {n.ranks} tensor-parallel ranks with a cache in bf16. How much memory do "
        f"{n.positions:,} positions take on all {n.ranks} GPUs together?"
    ),
    answer=_group,
    mistakes={
        "counts each head or latent once": lambda n: sequence(token(n.model, "bf16"), n.positions),
        "copies everything to every rank": lambda n: n.ranks * sequence(token(n.model, "bf16"), n.positions),
        "counts one rank": lambda n: _group(n) / n.ranks,
        "counts one position": lambda n: _group(n) / n.positions,
    },
    hint="First what one rank keeps of a position. Then all positions and all ranks.",
    solution=lambda n: [
        f"Each of {n.ranks} ranks:",
        *rank_workings(n.model, "bf16", n.ranks),
        working(
            kv_cache.sequence_bytes,
            names={"bytes_per_position": "rank_bytes"},
            bytes_per_position=token(n.model, "bf16", n.ranks),
            positions=n.positions,
        ),
        f"{n.ranks} · {format_count(_group(n) / n.ranks)} B = {format_count(_group(n))} B "
        f"{relation(format_bytes(_group(n)), _group(n))} {format_bytes(_group(n))}",
    ],
)


def _pool(n: Numbers, gpus: int | None = None, unit: float = GIB, **changed: int) -> int:
    size = token(n.model, n.element, **changed)
    each = kv_cache.positions_that_fit(memory_bytes=n.gib * unit, bytes_per_position=size)
    return int((n.gpus if gpus is None else gpus) * each)


data_parallel = Problem(
    id="attention_variants/data-parallel",
    title="Attention in parallel by data",
    level=3,
    step=RANKS,
    printed={"model": "deepseek-v3", "element": "bf16", "gpus": 8, "gib": 24},
    choices={
        "model": ("deepseek-v3", "deepseek-v2", "kimi-k2"),
        "element": ("bf16", "fp8"),
        "gpus": (4, 8, 16, 32),
        "gib": (8, 12, 24, 40, 60),
    },
    ask=lambda n: (
        f"{described(n.model)}. {n.gpus} GPUs have {n.gib} GiB each for a cache in {n.element}. Attention runs "
        "data-parallel: every GPU keeps the whole cache of its own sequences. How many positions do the GPUs hold "
        "together?"
    ),
    unit="tokens",
    exact=True,
    answer=_pool,
    mistakes={
        "counts one GPU, as under tensor parallelism": lambda n: _pool(n, gpus=1),
        "deals the latent out on top": lambda n: n.gpus * _pool(n),
        "reads GiB as GB": lambda n: _pool(n, unit=GB),
        "doubles the latent for key and value": lambda n: (
            n.gpus * int(n.gib * GIB // (2 * token(n.model, n.element, rope_dim=0)))
        ),
        "forgets the rotary key": lambda n: _pool(n, rope_dim=0),
        "rounds down once for all GPUs": lambda n: int(n.gpus * n.gib * GIB // token(n.model, n.element)),
    },
    hint="One GPU first, in whole positions. No position is on two GPUs.",
    solution=lambda n: [
        token_working(n.model, n.element),
        working(kv_cache.positions_that_fit, memory_bytes=n.gib * GIB, bytes_per_position=token(n.model, n.element)),
        f"{n.gpus} · {format_count(_pool(n, gpus=1))} = {format_count(_pool(n))} positions. Under tensor parallelism "
        "every GPU would hold the same ones.",
    ],
)
