"""What the problems share: the drawn model's numbers, and the mistakes people make about its shape."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace as Numbers
from typing import Any

from calc import kv_cache as kv
from calc.hardware import accelerator
from calc.models import ModelGeometry, load
from calc.parameters import count
from calc.working import Working, working

# The chapter's steps that the problems return to.
TOKEN, POSITIONS, FINISH, RANKS, FIT, WINDOW = (f"kv_cache#step-{number}" for number in range(2, 8))

GIB = 1024**3
ALIKE = ("llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "llama-2-13b", "qwen2.5-72b", "mixtral-8x7b")
OWN_HEAD_DIM = ("mistral-nemo", "mistral-small-24b", "qwen3-0.6b", "qwen3-30b-a3b", "qwen3-32b", "qwen3-235b-a22b")
WINDOWED = ("gemma-3-27b", "gemma-3-1b", "gemma-2-9b", "gemma-2-27b", "gpt-oss-20b", "gpt-oss-120b")

GPU = "h200-sxm"  # the largest that is common: what doesn't fit on so many of these is no deployment
USABLE = 0.9  # of its memory: activations and the driver need the rest
WEIGHT_BYTES = {"deepseek-v3": 1, "kimi-k2": 1}  # published in fp8; the others in 16 bits


@functools.cache
def _loaded(slug: str) -> ModelGeometry:
    return load(slug)


def geometry(n: Numbers) -> ModelGeometry:
    """The drawn model."""
    return _loaded(n.model)


def attention(n: Numbers) -> tuple[Any, int]:
    """The attention of a model whose layers are all alike, and how many there are."""
    ((mixer, layers),) = geometry(n).kinds()
    return mixer, layers


def _formula(n: Numbers, **changed: Any) -> tuple[Callable, dict[str, Any]]:
    """The formula of one token and its arguments, some of them changed by a mistake."""
    mixer, layers = attention(n)
    function, arguments = kv.formula_of(mixer, layers=layers, element=n.element, ranks=getattr(n, "ranks", 1))
    return function, arguments | changed


def token(n: Numbers, **changed: Any) -> float:
    """Bytes of one token on one rank, all layers together."""
    function, arguments = _formula(n, **changed)
    return function(**arguments)


def token_working(n: Numbers, **changed: Any) -> Working:
    """The working of `token`."""
    function, arguments = _formula(n, **changed)
    return working(function, **arguments)


def sequence(n: Numbers, **changed: Any) -> float:
    """Bytes of the drawn positions on one rank."""
    return kv.sequence_bytes(bytes_per_position=token(n, **changed), positions=n.positions)


def sequence_working(n: Numbers) -> list[str | Working]:
    """The working of `sequence`, that of one token first."""
    return [token_working(n), working(kv.sequence_bytes, bytes_per_position=token(n), positions=n.positions)]


def query_heads_for_kv(n: Numbers) -> dict[str, int]:
    """The mistake of counting query heads, as a change of arguments."""
    return {"kv_heads": attention(n)[0].query_heads}


def hidden_for_width(n: Numbers) -> dict[str, int]:
    """The mistake of sizing a key by the hidden size."""
    return {"kv_heads": 1, "head_dim": geometry(n).hidden}


def described(n: Numbers) -> str:
    """The shape of the drawn model in words, with what misleads beside what counts."""
    mixer, layers = attention(n)
    return (
        f"{geometry(n).name} has {layers} layers, a hidden size of {geometry(n).hidden:,}, "
        f"{mixer.query_heads} query heads and {mixer.kv_heads} KV heads of {mixer.key_dim} elements"
    )


def one_rank_of_eight(n: Numbers) -> dict[str, int]:
    """What one GPU of a node keeps, as a change of arguments: an answer for all GPUs together is more."""
    return {"kv_heads": kv.kv_heads_per_rank(kv_heads=attention(n)[0].kv_heads, ranks=8)}


def shape_mistakes(size: Callable[..., float]) -> dict[str, Callable[[Numbers], float]]:
    """The classic mistakes about a model's shape, for an answer computed by `size`."""
    return {
        "counts query heads": lambda n: size(n, **query_heads_for_kv(n)),
        "sizes a key by the hidden size": lambda n: size(n, **hidden_for_width(n)),
        "keeps the key and forgets the value": lambda n: size(n) / 2,
        "counts one layer": lambda n: size(n, layers=1),
        "counts one KV head": lambda n: size(n, kv_heads=1),
        "is the share of one of eight ranks": lambda n: size(n, **one_rank_of_eight(n)),
        "sizes a key by the hidden size and takes 8 bits for bytes": lambda n: size(
            n, **hidden_for_width(n), element_bytes=8
        ),
        "sizes a key by the hidden size and takes 16 bits for bytes": lambda n: size(
            n, **hidden_for_width(n), element_bytes=16
        ),
    }


def element_mistakes(size: Callable[..., float]) -> dict[str, Callable[[Numbers], float]]:
    """The mistakes about the size of an element; whichever is the truth changes nothing and is left out."""
    return {
        "keeps two bytes per element": lambda n: size(n, element_bytes=2),
        "keeps one byte per element": lambda n: size(n, element_bytes=1),
    }


def layout(n: Numbers) -> kv.CacheLayout:
    """What each kind of layer of the drawn model keeps."""
    return kv.layout(geometry(n), element=n.element)


def within_context(n: Numbers) -> bool:
    """Whether the drawn model can hold the drawn sequence at all."""
    longest = geometry(n).max_positions
    drawn = vars(n)
    length = sum(drawn.get(name, 0) for name in ("positions", "prompt", "history", "output"))
    return longest is None or length <= longest


@functools.cache
def _weights(slug: str) -> float:
    """Bytes of the weights as published."""
    return count(_loaded(slug)).total * WEIGHT_BYTES.get(slug, 2)


def on_gpus(n: Numbers, gpus: int) -> bool:
    """Whether the weights, split evenly, and the drawn cache fit on so many GPUs."""
    return _weights(n.model) / gpus + sequence(n) <= USABLE * accelerator(GPU).memory_bytes.value


def on_ranks(n: Numbers) -> bool:
    """Whether the drawn sequence makes sense, and its ranks can hold it and the weights."""
    return within_context(n) and on_gpus(n, n.ranks)
