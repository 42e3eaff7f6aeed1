"""Problems about what changes the sum: tensor-parallel ranks, latent layers, window layers."""

from __future__ import annotations

from types import SimpleNamespace as Numbers
from typing import Any

from calc import kv_cache as kv
from calc.practice._problem import Problem
from calc.practice.kv_cache._model import (
    RANKS,
    WINDOW,
    WINDOWED,
    attention,
    described,
    geometry,
    layout,
    on_ranks,
    sequence,
    sequence_working,
    token,
    within_context,
)
from calc.units import format_bytes, significant
from calc.working import Working, legend, working

per_rank = Problem(
    id="kv_cache/per-rank",
    title="On each rank",
    level=2,
    step=RANKS,
    printed={"model": "llama-3.1-70b", "element": "bf16", "ranks": 16, "positions": 8192},
    choices={
        "model": ("llama-3.1-70b", "llama-3.1-405b", "qwen2.5-72b", "qwen3-30b-a3b", "qwen3-235b-a22b"),
        "element": ("bf16", "fp8"),
        "ranks": (4, 8, 16),
        "positions": (4096, 8192, 10_000, 32_768),
    },
    possible=on_ranks,
    ask=lambda n: (
        f"{described(n)}. It runs on {n.ranks} tensor-parallel ranks with a cache in {n.element}. "
        f"How much does a conversation with {n.positions:,} tokens in the cache hold on each rank?"
    ),
    per=("rank", "GPU"),
    answer=sequence,
    mistakes={
        "divides below one KV head": lambda n: sequence(n, kv_heads=attention(n)[0].kv_heads) / n.ranks,
        "keeps all KV heads on every rank": lambda n: sequence(n, kv_heads=attention(n)[0].kv_heads),
        "adds up all ranks": lambda n: n.ranks * sequence(n),
        "counts query heads": lambda n: sequence(n, kv_heads=attention(n)[0].query_heads // n.ranks),
        "keeps the key and forgets the value": lambda n: sequence(n) / 2,
        "counts one token": token,
    },
    hint="Every rank needs at least one whole KV head. With more ranks than heads, heads are copied.",
    solution=lambda n: _rank_working(n),
)


def _rank_working(n: Numbers) -> list[str | Working]:
    mixer, layers = attention(n)
    heads, one = kv.rank_working(mixer, layers=layers, element=n.element, ranks=n.ranks)
    names = {"bytes_per_position": "rank_bytes"}
    return [
        heads,
        "One position on a rank:",
        one,
        working(kv.sequence_bytes, names=names, bytes_per_position=one.value, positions=n.positions),
    ]


def _expanded(n: Numbers) -> float:
    """The ordinary keys and values that a latent stands for."""
    mixer, layers = attention(n)
    return n.positions * kv.unequal_bytes_per_position(
        layers=layers,
        kv_heads=mixer.query_heads,
        key_dim=mixer.nope_dim + mixer.rope_dim,
        value_dim=mixer.value_dim,
        element_bytes=kv.element_of(n.element).element_bytes,
    )


def _latent_ask(n: Numbers) -> str:
    mixer, layers = attention(n)
    return (
        f"{geometry(n).name} uses latent attention in {layers} layers: a latent of {mixer.latent_dim} elements "
        f"and a shared rotary key of {mixer.rope_dim}, for {mixer.query_heads} heads. It runs on {n.ranks} "
        f"tensor-parallel ranks with a cache in {n.element}. How much does a conversation with {n.positions:,} tokens "
        "in the cache hold on each rank?"
    )


latent = Problem(
    id="kv_cache/latent",
    title="A latent on every rank",
    level=2,
    step=RANKS,
    printed={"model": "deepseek-v3", "element": "bf16", "ranks": 8, "positions": 8192},
    choices={
        "model": ("deepseek-v3", "deepseek-v2", "deepseek-v2-lite", "kimi-k2"),
        "element": ("bf16",),
        "ranks": (8, 16),
        "positions": (4096, 8050, 8192, 32_768, 100_000),
    },
    possible=on_ranks,
    ask=_latent_ask,
    per=("rank", "GPU"),
    answer=sequence,
    mistakes={
        "divides the latent among the ranks": lambda n: sequence(n) / n.ranks,
        "adds up all ranks": lambda n: n.ranks * sequence(n),
        "doubles the latent for key and value": lambda n: 2 * sequence(n),
        "forgets the rotary key": lambda n: sequence(n, rope_dim=0),
        "doubles the latent and forgets the rotary key": lambda n: 2 * sequence(n, rope_dim=0),
        "expands the latent into a key and a value for every head": _expanded,
        "expands the latent and divides the heads among the ranks": lambda n: _expanded(n) / n.ranks,
        "counts one layer": lambda n: sequence(n, layers=1),
        "counts one token": token,
    },
    hint="All heads read one latent, so there is nothing to split by head: every rank keeps all of it.",
    solution=lambda n: [
        f"The latent is the same on each of the {n.ranks} ranks.",
        legend(kv.latent_bytes_per_position, kv.sequence_bytes),
        *sequence_working(n),
    ],
)


def _resident(n: Numbers, windowed: bool | None = None) -> float:
    """Bytes held when windows let go: of all layers, of the window layers, or of the others."""
    kinds = (k for k in layout(n).kinds if windowed is None or (k.window is not None) == windowed)
    return sum(k.resident_bytes(n.positions) for k in kinds)


def _paged(n: Numbers) -> float:
    return kv.uniform_page_bytes(layout(n), positions=n.positions)


def _window(n: Numbers) -> int:
    return next(k.window for k in layout(n).kinds if k.window is not None)


def _all_windows(n: Numbers) -> float:
    """The mistake of giving every layer the window."""
    return layout(n).bytes_per_position * kv.resident_positions(positions=n.positions, window=_window(n))


def _by_kind(n: Numbers) -> dict[str, tuple[Any, int]]:
    return {mixer.kind: (mixer, layers) for mixer, layers in geometry(n).kinds()}


def _window_ask(n: Numbers) -> str:
    (window, windows), (full, fulls) = _by_kind(n)["window"], _by_kind(n)["full"]
    return (
        f"{geometry(n).name} has {fulls} full-attention layers and {windows} layers with a window of "
        f"{window.window:,} tokens, all with {full.query_heads} query heads and {full.kv_heads} KV "
        f"{'head' if full.kv_heads == 1 else 'heads'} of {full.key_dim} elements. "
        f"The cache is {n.element} and a conversation has written {n.positions:,} tokens to it."
    )


def _windows_working(n: Numbers) -> list[str | Working]:
    """What each kind of layer holds when windows let go."""
    lines: list[str | Working] = []
    for kind, (mixer, layers) in _by_kind(n).items():
        function, arguments = kv.formula_of(mixer, layers=layers, element=n.element)
        lines += [f"{layers} {kind} layers:", working(function, **arguments)]
        held = n.positions
        if kind == "window":
            lines.append(working(kv.resident_positions, positions=held, window=mixer.window))
            held = lines[-1].value
        lines.append(working(kv.sequence_bytes, bytes_per_position=function(**arguments), positions=held))
    return lines


def _sum_of_kinds(n: Numbers) -> str:
    parts = [format_bytes(_resident(n, windowed=windowed)) for windowed in (False, True)]
    return f"{' + '.join(parts)} = {format_bytes(_resident(n))}"


WINDOWS: dict[str, Any] = {
    "printed": {"model": "gemma-3-27b", "element": "bf16", "positions": 32_768},
    "choices": {
        "model": WINDOWED,
        "element": ("bf16", "fp8"),
        "positions": (2000, 4096, 6000, 8192, 16_384, 20_000, 32_768, 65_536, 131_072),
    },
    "possible": lambda n: within_context(n) and n.positions > _window(n),
}

window = Problem(
    id="kv_cache/window",
    title="Windows that let go",
    level=3,
    step=WINDOW,
    **WINDOWS,
    ask=lambda n: f"{_window_ask(n)} The engine frees what has left a window. How much stays in the cache?",
    answer=_resident,
    mistakes={
        "counts window layers as full": _paged,
        "leaves the window layers out": lambda n: _resident(n, windowed=False),
        "counts the window layers alone": lambda n: _resident(n, windowed=True),
        "gives every layer a window": _all_windows,
        "keeps the key and forgets the value": lambda n: _resident(n) / 2,
        "counts query heads": lambda n: (
            _resident(n) * _by_kind(n)["full"][0].query_heads / _by_kind(n)["full"][0].kv_heads
        ),
        "keeps two bytes per element": lambda n: 2 * _resident(n) if n.element == "fp8" else None,
        "keeps one byte per element": lambda n: _resident(n) / 2 if n.element == "bf16" else None,
    },
    hint="Two sums: full layers keep every token, window layers only the last ones.",
    solution=lambda n: [
        legend(kv.resident_positions, kv.sequence_bytes),
        *_windows_working(n),
        f"{_sum_of_kinds(n)}.",
    ],
)

uniform_pages = Problem(
    id="kv_cache/uniform-pages",
    title="Pages that ignore windows",
    level=3,
    step=WINDOW,
    **WINDOWS,
    ask=lambda n: (
        f"{_window_ask(n)} One engine frees what has left a window; another keeps a page of every layer for every "
        "token. How many times as much does the second hold?"
    ),
    unit="x",
    answer=lambda n: _paged(n) / _resident(n),
    mistakes={
        "leaves the window layers of the first engine out": lambda n: _paged(n) / _resident(n, windowed=False),
        "gives every layer of the first engine a window": lambda n: _paged(n) / _all_windows(n),
        "turns the ratio around": lambda n: _resident(n) / _paged(n),
        "gives the difference, not the ratio": lambda n: _paged(n) / _resident(n) - 1,
    },
    hint="The bytes of one token and layer cancel. Count layers times tokens kept, for both.",
    solution=lambda n: [
        *_windows_working(n),
        f"First engine: {_sum_of_kinds(n)}. Second: {format_bytes(_paged(n))}.",
        f"{format_bytes(_paged(n))} / {format_bytes(_resident(n))} = {significant(_paged(n) / _resident(n))}×.",
    ],
)
