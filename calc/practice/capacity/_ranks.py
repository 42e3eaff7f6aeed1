"""Problems about several GPUs: what each holds, and which of them sets the number for all."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import capacity, kv_cache, parameters
from calc.parallel import Parallel, weights_on_rank
from calc.practice._problem import Problem
from calc.practice.capacity._model import ALIKE, BLOCK, CUTS, LIMIT, WEIGHTS, described, geometry, gib, token_bytes
from calc.units import format_bytes, format_count
from calc.working import Working, working


def _attention(
    n: Numbers, *, heads: float | None = None, values: float | None = None, layers: int | None = None
) -> float:
    """Bytes of the attention weights on one rank, in bf16."""
    model = geometry(n.model)
    ((mixer, count),) = model.kinds()
    queries = mixer.query_heads // n.ranks
    kept = kv_cache.kv_heads_per_rank(kv_heads=mixer.kv_heads, ranks=n.ranks) if heads is None else heads
    outputs = queries if values is None else values
    columns = queries * mixer.key_dim + kept * (mixer.key_dim + mixer.value_dim) + outputs * mixer.value_dim
    return 2 * (layers or count) * model.hidden * columns


def _kv_heads(n: Numbers) -> int:
    return geometry(n.model).kinds()[0][0].kv_heads


def _attention_working(n: Numbers) -> list[str | Working]:
    model = geometry(n.model)
    ((mixer, layers),) = model.kinds()
    kept = working(kv_cache.kv_heads_per_rank, kv_heads=mixer.kv_heads, ranks=n.ranks)
    one = working(
        parameters.attention_parameters,
        hidden=model.hidden,
        query_heads=mixer.query_heads // n.ranks,
        kv_heads=kept.value,
        key_dim=mixer.key_dim,
        value_dim=mixer.value_dim,
    )
    return [
        kept,
        f"Query heads on a rank: {mixer.query_heads} / {n.ranks} = {mixer.query_heads // n.ranks}.",
        one,
        f"{layers} layers at 2 bytes a weight: {format_count(_attention(n))} B = {format_bytes(_attention(n))}.",
    ]


attention = Problem(
    id="capacity/attention-weights",
    title="Attention weights on a rank",
    level=2,
    step=WEIGHTS,
    printed={"model": "llama-3.1-70b", "ranks": 16},
    choices={"model": (*ALIKE[1:], "mixtral-8x22b", "mistral-nemo"), "ranks": (4, 8, 16, 32)},
    possible=lambda n: geometry(n.model).kinds()[0][0].query_heads % n.ranks == 0,
    ask=lambda n: (
        f"{described(n)}. Its weights are bf16, on {n.ranks} tensor-parallel ranks. How much do the query, key, "
        "value and "
        "output projections of all layers take on one rank?"
    ),
    per=("rank", "GPU"),
    answer=_attention,
    mistakes={
        "divides below one KV head": lambda n: _attention(n, heads=_kv_heads(n) / n.ranks),
        "copies every KV head to every rank": lambda n: _attention(n, heads=_kv_heads(n)),
        "forgets the output projection": lambda n: _attention(n, values=0),
        "counts one layer": lambda n: _attention(n, layers=1),
    },
    hint="Query heads are dealt out. KV heads too, as long as there are enough; then each rank keeps one.",
    solution=_attention_working,
)


def _spread(n: Numbers) -> float:
    return weights_on_rank(geometry(n.model), Parallel(data=n.gpus, experts=True)).total


def _parts(n: Numbers) -> tuple[int, int]:
    """All parameters but the routed experts, and those."""
    held = parameters.count(geometry(n.model))
    return held.total - held.routed_experts, held.routed_experts


experts = Problem(
    id="capacity/expert-parallel",
    title="Copied attention, dealt experts",
    level=3,
    step=CUTS,
    printed={"model": "kimi-k2", "gpus": 8},
    choices={
        "model": ("deepseek-v3", "kimi-k2", "qwen3-235b-a22b", "qwen3-30b-a3b", "mixtral-8x7b"),
        "gpus": (2, 4, 8),
    },
    ask=lambda n: (
        f"{geometry(n.model).name} has {sum(_parts(n)):,} parameters, {_parts(n)[1]:,} of them in routed experts. It "
        "runs "
        f"on {n.gpus} GPUs: the attention is data-parallel, and whole experts are dealt out evenly. The weights are "
        "fp8, a "
        "byte each. How much does one GPU hold?"
    ),
    per=("GPU", "rank"),
    answer=_spread,
    mistakes={
        "divides everything by the GPUs": lambda n: sum(_parts(n)) / n.gpus,
        "copies everything": lambda n: sum(_parts(n)),
        "deals out all but the experts": lambda n: _parts(n)[0] / n.gpus + _parts(n)[1],
        "counts the experts alone": lambda n: _parts(n)[1] / n.gpus,
    },
    hint="Two groups: what every replica needs for its own requests, and what they share.",
    solution=lambda n: [
        f"Copied: {sum(_parts(n)):,} − {_parts(n)[1]:,} = {_parts(n)[0]:,} parameters.",
        f"Dealt out: {_parts(n)[1]:,} / {n.gpus} = {_parts(n)[1] // n.gpus:,} parameters.",
        f"Together {_spread(n):,} B = {format_bytes(_spread(n))}.",
    ],
)


def _stage(n: Numbers, layers: int, pool: float) -> int:
    """Tokens that a stage of so many layers holds in whole blocks."""
    size = kv_cache.block_bytes(bytes_per_position=token_bytes(n, layers=layers), block_tokens=BLOCK)
    return BLOCK * int(capacity.pool_blocks(pool_bytes=gib(pool), block_bytes=size))


def _total(n: Numbers) -> int:
    return len(geometry(n.model).layers)


def _stages(n: Numbers) -> tuple[int, int]:
    return _stage(n, n.first, n.pool_1), _stage(n, _total(n) - n.first, n.pool_2)


def _stage_working(n: Numbers, number: int, layers: int, pool: float) -> list[str | Working]:
    size = token_bytes(n, layers=layers)
    block = working(kv_cache.block_bytes, bytes_per_position=size, block_tokens=BLOCK)
    return [
        f"Stage {number}, {layers} layers, {format_bytes(size)} a token:",
        block,
        working(capacity.pool_blocks, pool_bytes=gib(pool), block_bytes=block.value),
    ]


stages = Problem(
    id="capacity/stages",
    title="Two unequal stages",
    level=2,
    step=LIMIT,
    printed={"model": "llama-3.1-70b", "first": 44, "pool_1": 60, "pool_2": 54},
    choices={
        "model": ("llama-3.1-70b", "qwen2.5-72b"),
        "first": (28, 36, 44, 52),
        "pool_1": (24, 40.5, 60, 75),
        "pool_2": (22, 38, 54, 80.5),
    },
    possible=lambda n: _stages(n)[0] != _stages(n)[1],
    ask=lambda n: (
        f"{described(n)}. Two GPUs share it as pipeline stages: {n.first} layers on the first, {_total(n) - n.first} "
        "on the "
        f"second. They have {n.pool_1} GiB and {n.pool_2} GiB for a bf16 cache. How many tokens can it hold, in "
        "blocks of "
        f"{BLOCK}?"
    ),
    unit="tokens",
    exact=True,
    answer=lambda n: min(_stages(n)),
    mistakes={
        "takes the stage that holds more": lambda n: max(_stages(n)),
        "adds the pools up": lambda n: _stage(n, _total(n), n.pool_1 + n.pool_2),
        "holds all layers against the smaller pool": lambda n: _stage(n, _total(n), min(n.pool_1, n.pool_2)),
        "adds the tokens of the stages up": lambda n: sum(_stages(n)),
    },
    hint="Each stage keeps its own layers of every token. A token that finds no room on one is no use on the other.",
    solution=lambda n: [
        *_stage_working(n, 1, n.first, n.pool_1),
        *_stage_working(n, 2, _total(n) - n.first, n.pool_2),
        f"The fewer count for both: {min(_stages(n)) // BLOCK:,} blocks of {BLOCK} are {min(_stages(n)):,} tokens.",
    ],
)

shared = Problem(
    id="capacity/shared-gpu",
    title="A neighbor on one GPU",
    level=1,
    step=LIMIT,
    printed={"ranks": 8, "taken": 4.5},
    choices={"ranks": (2, 4, 8, 16), "taken": (1.5, 3, 4.5, 7)},
    ask=lambda n: (
        f"{n.ranks} tensor-parallel ranks have equal pools. Then another process takes {n.taken} GiB on one of the "
        "GPUs, and "
        "the engine is told to do with less there. How much memory is stranded on all ranks together?"
    ),
    answer=lambda n: (n.ranks - 1) * gib(n.taken),
    mistakes={
        "counts what the process takes": lambda n: gib(n.taken),
        "counts the shared GPU too": lambda n: n.ranks * gib(n.taken),
        "spreads the loss over the ranks": lambda n: gib(n.taken) / n.ranks,
    },
    hint="The smallest pool decides for all. On the shared GPU itself nothing is stranded.",
    solution=lambda n: [
        f"Every pool shrinks to the smallest: {n.taken} GiB less.",
        f"On {n.ranks - 1} rank{'s' if n.ranks > 2 else ''} that much is left unused: "
        f"{n.ranks - 1} · {n.taken} GiB = {format_bytes((n.ranks - 1) * gib(n.taken))}.",
    ],
)
