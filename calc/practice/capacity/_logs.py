"""Problems about a start-up log: what its numbers say, and what they don't."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import capacity, kv_cache
from calc.practice._problem import Problem
from calc.practice.capacity._model import BLOCK, LOG, described, geometry, gib, token_bytes
from calc.units import counted, format_bytes, format_count
from calc.working import Working, working


def _residual(
    n: Numbers, *, fraction: float | None = None, weights: float | None = None, cache: float | None = None
) -> float:
    """What neither weights nor cache explain."""
    usable = gib(n.total) * (n.percent / 100 if fraction is None else fraction)
    held = gib(n.weights) if weights is None else weights
    return usable - held - (token_bytes(n) * n.tokens if cache is None else cache)


residual = Problem(
    id="capacity/log-residual",
    title="What the log doesn't say",
    level=3,
    step=LOG,
    printed={"model": "llama-3.1-8b", "total": 44.31, "percent": 90, "weights": 14.99, "tokens": 158_656},
    choices={
        "model": ("llama-3.1-8b", "mistral-nemo", "qwen3-8b"),
        "total": (44.31, 79.11, 93.1),
        "percent": (85, 90, 95),
        "weights": (14.99, 16.2, 22.84),
        "tokens": (90_112, 120_000, 158_656),
    },
    possible=lambda n: _residual(n) > gib(1),
    ask=lambda n: (
        f"{described(n)}. On one GPU of {n.total} GiB, with {n.percent}% for the engine, the log says: Model loading "
        "took "
        f"{n.weights} GiB; KV cache size: {n.tokens:,} tokens. The cache is bf16. How much went to activations, "
        "graphs and "
        "everything else?"
    ),
    answer=_residual,
    mistakes={
        "gives the engine the whole GPU": lambda n: _residual(n, fraction=1),
        "leaves the cache out": lambda n: _residual(n, cache=0),
        "leaves the weights out": lambda n: _residual(n, weights=0),
        "counts the key and forgets the value": lambda n: _residual(n, cache=token_bytes(n) * n.tokens / 2),
        "gives the cache": lambda n: token_bytes(n) * n.tokens,
    },
    hint="What the engine may use, less the two things you can work out.",
    solution=lambda n: [
        f"May use: {n.total} GiB · {n.percent / 100} = {format_bytes(gib(n.total) * n.percent / 100)}.",
        *_cache_working(n),
        f"Left over: {format_bytes(gib(n.total) * n.percent / 100)} − {n.weights} GiB − "
        f"{format_bytes(token_bytes(n) * n.tokens)} = {format_bytes(_residual(n))}.",
    ],
)


def _cache_working(n: Numbers) -> list[Working]:
    ((mixer, layers),) = geometry(n.model).kinds()
    function, arguments = kv_cache.formula_of(mixer, layers=layers, element="bf16")
    return [
        working(function, **arguments),
        working(kv_cache.sequence_bytes, bytes_per_position=token_bytes(n), positions=n.tokens),
    ]


def _needed(n: Numbers) -> int:
    return capacity.pool(geometry(n.model)).request_blocks(length=n.length, in_flight=n.step)


def _printed(n: Numbers, needed: int) -> int:
    return capacity.printed_tokens(blocks=n.blocks, request_blocks=needed, length=n.length)


def _groups(n: Numbers) -> tuple[int, int]:
    """Groups of window layers, and of the others."""
    windows = [g.window is not None for g in capacity.pool(geometry(n.model)).groups]
    return sum(windows), len(windows) - sum(windows)


def _whole(n: Numbers) -> int:
    return -(-n.length // BLOCK)


def _group_working(n: Numbers) -> list[str | Working]:
    windows, others = _groups(n)
    window = next(g.window for g in capacity.pool(geometry(n.model)).groups if g.window is not None)
    one = working(capacity.window_request_blocks, window=window, in_flight=n.step, length=n.length, block_tokens=BLOCK)
    return [
        one,
        f"Full layers: {n.length:,} / {BLOCK}, rounded up, are {_whole(n):,} blocks.",
        f"In all groups: {windows} · {format_count(one.value)} + {others} · {_whole(n):,} = {_needed(n):,} blocks.",
        working(capacity.printed_tokens, blocks=n.blocks, request_blocks=_needed(n), length=n.length),
        f"The log prints {counted(_printed(n, _needed(n)), 'token')}.",
    ]


windows = Problem(
    id="capacity/printed-windows",
    title="A size that windows make",
    level=3,
    step=LOG,
    printed={"model": "gpt-oss-20b", "blocks": 54_613, "length": 32_768, "step": 8192},
    choices={
        "model": ("gpt-oss-20b", "gpt-oss-120b"),
        "blocks": (20_480, 54_613, 131_072),
        "length": (16_384, 32_768, 65_536),
        "step": (2048, 8192, 16_384),
    },
    ask=lambda n: (
        f"{geometry(n.model).name} has window layers in {_groups(n)[0]} group and full layers in {_groups(n)[1]}, "
        "and every "
        f"group takes blocks of {BLOCK} positions from one pool of {n.blocks:,} of them. The window is "
        f"{next(m.window for m, _ in geometry(n.model).kinds() if m.kind == 'window'):,} positions, the longest "
        "sequence "
        f"{n.length:,} tokens, and {n.step:,} tokens are in flight. What does the log print as the size of the cache?"
    ),
    unit="tokens",
    exact=True,
    answer=lambda n: _printed(n, _needed(n)),
    mistakes={
        "multiplies blocks by their size": lambda n: n.blocks * BLOCK,
        "counts window layers like the others": lambda n: _printed(n, sum(_groups(n)) * _whole(n)),
        "leaves the window layers out": lambda n: _printed(n, _groups(n)[1] * _whole(n)),
        "forgets the tokens in flight": lambda n: _printed(
            n, capacity.pool(geometry(n.model)).request_blocks(length=n.length, in_flight=0)
        ),
    },
    hint="Blocks that one longest request holds, in both groups. Then the pool over that, times the length.",
    solution=_group_working,
)
