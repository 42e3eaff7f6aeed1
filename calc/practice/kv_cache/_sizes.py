"""Problems about bytes: of one token, of one sequence, and how many tokens fit."""

from __future__ import annotations

from types import SimpleNamespace as Numbers
from typing import Any

from calc import kv_cache as kv
from calc.practice._problem import Problem
from calc.practice.kv_cache._model import (
    ALIKE,
    FIT,
    GIB,
    OWN_HEAD_DIM,
    POSITIONS,
    TOKEN,
    attention,
    described,
    element_mistakes,
    geometry,
    on_gpus,
    query_heads_for_kv,
    sequence,
    sequence_working,
    shape_mistakes,
    token,
    token_working,
    within_context,
)
from calc.units import format_bytes
from calc.working import working

one_token = Problem(
    id="kv_cache/one-token",
    title="One token",
    level=1,
    step=TOKEN,
    printed={"model": "qwen2.5-72b", "element": "bf16"},
    choices={"model": ALIKE, "element": ("bf16", "fp8")},
    ask=lambda n: (
        f"{described(n)}. The cache is {n.element}. What does one token leave in it, all layers and GPUs together?"
    ),
    per=("token", "position"),
    answer=token,
    mistakes=shape_mistakes(token) | element_mistakes(token),
    hint="A key and a value, for every KV head, in every layer. Query heads leave nothing.",
    solution=lambda n: [token_working(n)],
)


def _config(n: Numbers) -> str:
    mixer, layers = attention(n)
    return (
        f"hidden_size {geometry(n).hidden}, num_hidden_layers {layers}, num_attention_heads {mixer.query_heads}, "
        f"num_key_value_heads {mixer.kv_heads}, head_dim {mixer.key_dim}"
    )


def _divided_head(n: Numbers) -> int:
    return geometry(n).hidden // attention(n)[0].query_heads


head_dim = Problem(
    id="kv_cache/head-dim",
    title="Read the config",
    level=2,
    step=TOKEN,
    printed={"model": "mistral-nemo", "element": "bf16"},
    choices={"model": OWN_HEAD_DIM, "element": ("bf16", "fp8", "fp32")},
    ask=lambda n: (
        f"The config.json of {geometry(n).name} says: {_config(n)}. The cache is {n.element}. "
        "What does one token leave in it?"
    ),
    per=("token", "position"),
    answer=token,
    mistakes={
        "computes the head size as hidden size / heads": lambda n: token(n, head_dim=_divided_head(n)),
        **shape_mistakes(token),
        **element_mistakes(token),
    },
    hint="Where a config states head_dim, that is the head size, whatever the hidden size is.",
    solution=lambda n: [
        f"The config states head_dim {attention(n)[0].key_dim}; hidden size / heads would be {_divided_head(n)}.",
        token_working(n),
    ],
)

scales = Problem(
    id="kv_cache/scales",
    title="Eight bits with scales",
    level=3,
    step=TOKEN,
    printed={"model": "llama-3.1-8b", "element": "int8 + head scales"},
    choices={"model": ALIKE + OWN_HEAD_DIM, "element": ("int8 + head scales", "fp8 + head scales")},
    ask=lambda n: (
        f"{described(n)}. The cache keeps {n.element.split()[0]} elements and, for every key and every value of a "
        f"head, one scale of {kv.element_of(n.element).scale_bytes} bytes. What does one token leave in it?"
    ),
    per=("token", "position"),
    answer=token,
    mistakes={
        "forgets the scales": lambda n: token(n, element_bytes=1),
        "stores a scale with every element": lambda n: token(n, element_bytes=1 + kv.element_of(n.element).scale_bytes),
        "keeps two bytes per element": lambda n: token(n, element_bytes=2),
        "keeps the key and forgets the value": lambda n: token(n) / 2,
        "counts query heads": lambda n: token(n, **query_heads_for_kv(n)),
    },
    hint="Spread each scale over the elements that share it, then count as always.",
    solution=lambda n: [
        working(
            kv.scaled_element_bytes,
            element_bytes=kv.element_of(n.element).element_bytes,
            scale_bytes=kv.element_of(n.element).scale_bytes,
            group=attention(n)[0].key_dim,
        ),
        token_working(n),
    ],
)

# --- one sequence --------------------------------------------------------------------------------

conversation = Problem(
    id="kv_cache/conversation",
    title="A long conversation",
    level=1,
    step=POSITIONS,
    printed={"model": "qwen2.5-72b", "element": "fp8", "positions": 32_768},
    choices={"model": ALIKE, "element": ("fp8", "bf16"), "positions": (2048, 4096, 8192, 12_000, 24_000, 32_768)},
    possible=within_context,
    ask=lambda n: (
        f"{described(n)}. It keeps its cache in {n.element}. "
        f"How much does a conversation with {n.positions:,} tokens in the cache hold, on all GPUs together?"
    ),
    answer=sequence,
    mistakes=shape_mistakes(sequence) | element_mistakes(sequence) | {"counts one token": token},
    hint="First the bytes of one token, then as many as the cache has.",
    solution=sequence_working,
)

quantized_weights = Problem(
    id="kv_cache/quantized-weights",
    title="Quantized weights",
    level=2,
    step=TOKEN,
    printed={"model": "qwen2.5-7b", "element": "bf16", "weights": "int8", "positions": 3072},
    choices={
        "model": ("qwen2.5-7b", *ALIKE),
        "element": ("bf16", "fp16"),
        "weights": ("int8", "fp8"),
        "positions": (1024, 2048, 3072, 6144),
    },
    possible=within_context,
    ask=lambda n: (
        f"{described(n)}. Its weights are quantized to {n.weights}; the cache was left at {n.element}. "
        f"What do {n.positions:,} tokens hold in the cache, on all GPUs together?"
    ),
    answer=sequence,
    mistakes={
        "gives the cache the type of the weights": lambda n: sequence(n, element_bytes=1),
        **shape_mistakes(sequence),
        "counts one token": token,
    },
    hint="The type of the weights says nothing about the type of the cache.",
    solution=lambda n: [f"The cache is {n.element}: {n.weights} weights do not change it.", *sequence_working(n)],
)


def _log(n: Numbers) -> str:
    return f'"Allocate {sequence(n)} bytes for k/v cache. Using {n.positions} tokens in paged KV cache."'


LOGS: dict[str, Any] = {
    # 69,524,783,104 bytes for 132,608 tokens, in blocks of 64: a start-up log in NVIDIA/TensorRT-LLM issue 1400
    "printed": {"model": "llama-2-7b", "element": "fp16", "positions": 64 * 2072},
    "choices": {
        "model": ("llama-2-7b", "llama-2-13b", "llama-3.1-8b", "mistral-small-24b", "qwen3-32b", "mixtral-8x7b"),
        "element": ("fp16", "fp8"),
        "positions": tuple(64 * blocks for blocks in (168, 631, 1241, 2072, 3602)),
    },
    "possible": lambda n: on_gpus(n, 1),
}

log_token = Problem(
    id="kv_cache/log-token",
    title="What the log implies",
    level=2,
    step=TOKEN,
    **LOGS,
    ask=lambda n: f"An engine on one GPU starts with {_log(n)} What does one token cost?",
    per=("token", "position"),
    answer=token,
    mistakes={
        "reads the bytes as keys alone and adds as much for values": lambda n: 2 * token(n),
        "splits keys from values and counts one of them": lambda n: token(n) / 2,
        "reads tokens as blocks of 16": lambda n: token(n) / 16,
        "reads tokens as blocks of 64": lambda n: token(n) / 64,
    },
    hint="The log gives a total and a count. The model need not be known.",
    solution=lambda n: [
        f"{sequence(n):,} B / {n.positions:,} tokens = {sequence(n) / n.positions:,.0f} B, or "
        f"{format_bytes(token(n))}.",
        f"The model that wrote the log is {geometry(n).name} with a cache in {n.element}, and its shape says the same:",
        token_working(n),
    ],
)

log_heads = Problem(
    id="kv_cache/log-heads",
    title="Heads from the log",
    level=3,
    step=TOKEN,
    **LOGS,
    ask=lambda n: (
        f"An engine on one GPU starts with {_log(n)} The model has {attention(n)[1]} layers and heads of "
        f"{attention(n)[0].key_dim} elements, and the cache is {n.element}. How many KV heads does a layer store?"
    ),
    unit="heads",
    exact=True,
    answer=lambda n: attention(n)[0].kv_heads,
    mistakes={
        "leaves out the factor 2 for key and value": lambda n: 2 * attention(n)[0].kv_heads,
        "divides by one byte per element": lambda n: token(n) // token(n, kv_heads=1, element_bytes=1),
        "divides by two bytes per element": lambda n: token(n) // token(n, kv_heads=1, element_bytes=2),
        "counts query heads": lambda n: attention(n)[0].query_heads,
        "counts the heads of all layers": lambda n: attention(n)[0].kv_heads * attention(n)[1],
    },
    hint="Bytes per token first. Then divide by what one KV head leaves in all layers.",
    solution=lambda n: [
        f"{sequence(n):,} B / {n.positions:,} tokens = {token(n):,} B for one token.",
        "One KV head in all layers:",
        token_working(n, kv_heads=1),
        f"{token(n):,} B / {token(n, kv_heads=1):,} B = {token(n) // token(n, kv_heads=1)} heads.",
    ],
)


def _fit(n: Numbers, memory: float | None = None, **changed: Any) -> int:
    given = n.gib * GIB if memory is None else memory
    return int(kv.positions_that_fit(memory_bytes=given, bytes_per_position=token(n, **changed)))


def _whole(n: Numbers, positions: float) -> int:
    """Tokens in whole pages."""
    return n.block * int(positions // n.block)


tokens_fit = Problem(
    id="kv_cache/tokens-fit",
    title="How many tokens fit",
    level=2,
    step=FIT,
    # 0.71 GiB in pages of 256 tokens: an error message in vllm-project/tpu-inference pull request 223
    printed={"model": "llama-3.1-8b", "element": "bf16", "gib": 0.71, "block": 256},
    choices={
        "model": ALIKE,
        "element": ("bf16", "fp8"),
        "gib": (0.71, 2.89, 5.59, 8.11, 10.55, 21.89),
        "block": (16, 64, 128, 256),
    },
    ask=lambda n: (
        f"{described(n)}. The cache is {n.element} and has {n.gib} GiB, in pages of {n.block} tokens. "
        "How many tokens fit?"
    ),
    unit="tokens",
    exact=True,
    answer=lambda n: _whole(n, _fit(n)),
    mistakes={
        "fills a page that is not whole": _fit,
        "rounds up to a page that does not fit": lambda n: _whole(n, _fit(n)) + n.block,
        "counts pages": lambda n: _fit(n) // n.block,
        "reads GiB as GB": lambda n: _whole(n, _fit(n, memory=n.gib * 1e9)),
        "reads GiB as GB and fills a page that is not whole": lambda n: _fit(n, memory=n.gib * 1e9),
        "counts query heads": lambda n: _whole(n, _fit(n, **query_heads_for_kv(n))),
        "keeps the key and forgets the value": lambda n: _whole(n, _fit(n, memory=2 * n.gib * GIB)),
    },
    hint="Bytes per token first. Then only whole pages count.",
    solution=lambda n: [
        token_working(n),
        working(kv.positions_that_fit, memory_bytes=n.gib * GIB, bytes_per_position=token(n)),
        f"⌊{_fit(n):,} / {n.block}⌋ = {_fit(n) // n.block:,} whole pages, "
        f"{n.block} · {_fit(n) // n.block:,} = {_whole(n, _fit(n)):,} tokens.",
    ],
)
