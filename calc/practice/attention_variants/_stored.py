"""Problems about what a layer stores: as multi-head attention, as a latent, as a latent expanded."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import attention, kv_cache
from calc.practice._problem import Problem
from calc.practice.attention_variants._model import (
    GROUPED,
    LATENT,
    LATENTS,
    STORED,
    described,
    geometry,
    mixer,
    sequence,
    token,
    token_working,
    within_context,
)
from calc.working import Working, working


def _multi_head(n: Numbers, **changed: float) -> float:
    return token(n.model, n.element, **{"kv_heads": mixer(n.model).query_heads} | changed)


as_multi_head = Problem(
    id="attention_variants/as-multi-head",
    title="Without sharing",
    level=1,
    step=STORED,
    printed={"model": "mixtral-8x22b", "element": "bf16"},
    choices={"model": GROUPED, "element": ("bf16", "fp8")},
    ask=lambda n: (
        f"{described(n.model)}. The cache is {n.element}. What would one token leave in it, all layers together, if "
        "every "
        "query head had a KV head of its own?"
    ),
    per=("token", "position"),
    answer=_multi_head,
    mistakes={
        "keeps the heads shared": lambda n: token(n.model, n.element),
        "keeps the key and forgets the value": lambda n: _multi_head(n) / 2,
        "counts one layer": lambda n: _multi_head(n, layers=1),
        "multiplies the shared cache by the query heads": lambda n: (
            token(n.model, n.element) * mixer(n.model).query_heads
        ),
        "keeps two bytes per element": lambda n: _multi_head(n, element_bytes=2),
        "keeps one byte per element": lambda n: _multi_head(n, element_bytes=1),
    },
    hint="Multi-head attention stores a key and a value for each query head.",
    solution=lambda n: [token_working(n.model, n.element, kv_heads=mixer(n.model).query_heads)],
)

latent_in_heads = Problem(
    id="attention_variants/latent-in-heads",
    title="A latent in heads",
    level=1,
    step=STORED,
    printed={"latent": 384, "rope": 32, "head_dim": 80},
    choices={
        "latent": (128, 256, 384, 512, 768, 1024),
        "rope": (16, 32, 64, 128),
        "head_dim": (64, 80, 96, 128, 192, 256),
    },
    ask=lambda n: (
        f"A latent layer keeps a latent of {n.latent} elements and a rotary key of {n.rope} for each position. An "
        "ordinary "
        f"KV head has a key and a value of {n.head_dim} elements each. How many such KV heads would be as large?"
    ),
    unit="heads",
    answer=lambda n: attention.equivalent_kv_heads(latent_dim=n.latent, rope_dim=n.rope, head_dim=n.head_dim),
    mistakes={
        "counts a head's key and forgets its value": lambda n: (n.latent + n.rope) / n.head_dim,
        "forgets the rotary key": lambda n: n.latent / (2 * n.head_dim),
        "doubles the latent for key and value": lambda n: (2 * n.latent + n.rope) / (2 * n.head_dim),
        "turns the ratio around": lambda n: 2 * n.head_dim / (n.latent + n.rope),
    },
    hint="Elements over elements: one vector and a small one against two vectors.",
    solution=lambda n: [
        working(attention.equivalent_kv_heads, latent_dim=n.latent, rope_dim=n.rope, head_dim=n.head_dim)
    ],
)


def _expanded(n: Numbers, **changed: int) -> float:
    heads = attention.as_multi_head(mixer(n.model))
    sizes = {"kv_heads": heads.kv_heads, "key_dim": heads.key_dim, "value_dim": heads.value_dim}
    size = kv_cache.unequal_bytes_per_position(
        **{"layers": len(geometry(n.model).layers), "element_bytes": 2} | sizes | changed
    )
    return sequence(size, n.positions)


def _key_dim(n: Numbers) -> int:
    return attention.as_multi_head(mixer(n.model)).key_dim


def _expanded_working(n: Numbers) -> list[str | Working]:
    heads, found = attention.as_multi_head(mixer(n.model)), mixer(n.model)
    one = working(
        kv_cache.unequal_bytes_per_position,
        layers=len(geometry(n.model).layers),
        kv_heads=heads.kv_heads,
        key_dim=heads.key_dim,
        value_dim=heads.value_dim,
        element_bytes=2,
    )
    return [
        f"A head's key has {found.nope_dim} + {found.rope_dim} = {heads.key_dim} elements, its value "
        f"{heads.value_dim}.",
        one,
        working(kv_cache.sequence_bytes, bytes_per_position=one.value, positions=n.positions),
    ]


expanded = Problem(
    id="attention_variants/expanded",
    title="An engine without latents",
    level=2,
    step=LATENT,
    printed={"model": "kimi-k2", "positions": 32_768},
    choices={"model": LATENTS, "positions": (2048, 4096, 8192, 10_000, 32_768, 65_536, 131_072)},
    possible=within_context,
    ask=lambda n: (
        f"{described(n.model)}. A head's key has {mixer(n.model).nope_dim} elements besides the rotary ones, its value "
        f"{mixer(n.model).value_dim}. An engine caches the expanded keys and values of all heads, in bf16. What do "
        f"{n.positions:,} tokens hold?"
    ),
    answer=_expanded,
    mistakes={
        "keeps the latent": lambda n: sequence(token(n.model, "bf16"), n.positions),
        "leaves the rotary key out of the heads": lambda n: _expanded(n, key_dim=mixer(n.model).nope_dim),
        "takes values as wide as keys": lambda n: _expanded(n, value_dim=_key_dim(n)),
        "keeps the key and forgets the value": lambda n: _expanded(n, value_dim=0),
        "counts one head": lambda n: _expanded(n, kv_heads=1),
        "counts one layer": lambda n: _expanded(n, layers=1),
    },
    hint="Every head then has a key, its rotary part included, and a value of its own.",
    solution=_expanded_working,
)
