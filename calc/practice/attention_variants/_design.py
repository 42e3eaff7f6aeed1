"""The open question: choose the sharing of a new model."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import kv_cache, roofline
from calc.practice._problem import Problem
from calc.practice.attention_variants._model import GIB, RANKS, chip, geometry, mixer, sequence
from calc.units import counted, format_bytes, format_count, significant
from calc.working import working

LATENT = "deepseek-v3"  # whose latent the new model would borrow


def _heads(n: Numbers, kv_heads: int, ranks: int) -> float:
    """Bytes of a position on one rank with so many KV heads."""
    kept = kv_cache.kv_heads_per_rank(kv_heads=kv_heads, ranks=ranks)
    return kv_cache.bytes_per_position(layers=n.layers, kv_heads=kept, head_dim=n.head_dim, element_bytes=2)


def _latent(n: Numbers) -> float:
    found = mixer(LATENT)
    return kv_cache.latent_bytes_per_position(
        layers=n.layers, latent_dim=found.latent_dim, rope_dim=found.rope_dim, element_bytes=2
    )


def _fit(n: Numbers, size: float) -> int:
    return kv_cache.sequences_that_fit(memory_bytes=n.gib * GIB, sequence_bytes=sequence(size, n.positions))


def _verdict(n: Numbers) -> str:
    """KV heads, unless attention is laid out so that a latent is not copied and holds more."""
    heads, latent = _fit(n, _heads(n, n.ranks, n.ranks)), _fit(n, _latent(n))
    apart = n.ranks * latent
    size = sequence(_latent(n), n.positions)
    spare = n.gib * GIB - latent * size
    copied = f"beyond {format_bytes(spare)} it costs" if spare else "it costs"
    return (
        f"So {n.ranks} KV heads: under tensor parallelism the {n.ranks} GPUs together hold "
        f"{counted(heads, 'such sequence')} with them and {format_count(latent)} with the latent. "
        + (
            f"Data-parallel attention overturns this: with the latent each GPU then holds up to "
            f"{counted(latent, 'sequence')} of its own, {format_count(apart)} in all. The copy of the attention "
            f"weights comes out of the {n.gib} GiB: {copied} a sequence on each GPU, and another for every further "
            f"{format_bytes(size)}. If your engine runs it, more than {format_count(heads)} must be in at once, what "
            "is left holds them, and an ablation at this size finds no loss, take the latent."
            if apart > heads
            else f"Data-parallel attention doesn't overturn this: the latent would then hold {format_count(apart)}."
        )
    )


def _checklist(n: Numbers) -> list[str]:
    gpu = chip(n.chip)
    balance = roofline.machine_balance(peak=gpu.peak("bf16").value, bandwidth=gpu.bandwidth.value)
    grouped = roofline.decode_intensity(query_heads=n.query_heads, kv_heads=n.ranks, element_bytes=2)
    multi, own, latent = (_heads(n, n.query_heads, n.ranks), _heads(n, n.ranks, n.ranks), _latent(n))
    return [
        f"Sizes a position on one GPU, not in the model: {format_bytes(multi)} with a KV head for each query head, "
        f"{format_bytes(own)} with {n.ranks} KV heads, as much with fewer, {format_bytes(latent)} with the latent of "
        f"{geometry(LATENT).name}.",
        f"Counts sequences of {format_count(n.positions)} tokens that a GPU's {n.gib} GiB hold: "
        f"{format_count(_fit(n, multi))}, {format_count(_fit(n, own))} and {format_count(_fit(n, latent))}.",
        f"Sees that fewer KV heads than ranks save nothing on a GPU at {n.ranks} ranks, and cost quality.",
        f"Sees that the latent pays when attention runs data-parallel: {n.ranks} GPUs then hold up to {n.ranks} "
        "times as many sequences, less what a copy of all attention weights takes on each.",
        f"Gives the arithmetic for each byte: {significant(grouped)} FLOP/B with {n.ranks} KV heads against the chip's "
        f"{significant(balance)}.",
        "Says that sharing shrinks the weights of keys and values and no others, and leaves attention's arithmetic.",
        "Prices the latent's extra arithmetic: expanded for a prompt, absorbed in decode, two code paths to keep.",
        "Treats quality as measured, not derived: multi-query models lose some. It asks for an ablation at this size.",
        "Asks what the engines to be used support: latent caches, copied heads, fp8 caches.",
        "Asks which ranks the model will run on later; KV heads are fixed in training, the number of GPUs is not.",
    ]


new_model = Problem(
    id="attention_variants/new-model",
    title="Attention for a new model",
    level="design",
    step=RANKS,
    printed={
        "layers": 64,
        "query_heads": 64,
        "head_dim": 128,
        "ranks": 8,
        "positions": 131_072,
        "gib": 40,
        "chip": "h100-sxm",
    },
    choices={
        "layers": (48, 64, 80),
        "query_heads": (32, 64, 128),
        "head_dim": (64, 128),
        "ranks": (4, 8),
        "positions": (32_768, 65_536, 131_072),
        "gib": (20, 40, 80),
        "chip": ("h100-sxm", "h200-sxm", "b200-sxm"),
    },
    ask=lambda n: (
        f"You design a model of {n.layers} layers with {n.query_heads} query heads of {n.head_dim} elements. It will "
        f"serve contexts of {n.positions:,} tokens on {n.ranks} {chip(n.chip).name}, with {n.gib} GiB on each for a "
        "cache in "
        "bf16. How many KV heads do you give it, or do you give it a latent, and why?"
    ),
    checklist=_checklist,
    hint="Compare what one GPU holds. Then ask how the attention will be laid out among the GPUs.",
    solution=lambda n: [
        f"{n.ranks} KV heads on {n.ranks} ranks, one head each:",
        working(kv_cache.kv_heads_per_rank, kv_heads=n.ranks, ranks=n.ranks),
        working(
            kv_cache.bytes_per_position,
            names=kv_cache.ON_RANK,
            layers=n.layers,
            kv_heads=1,
            head_dim=n.head_dim,
            element_bytes=2,
        ),
        "A latent, whole on each rank:",
        working(
            kv_cache.latent_bytes_per_position,
            names=kv_cache.ON_RANK,
            layers=n.layers,
            latent_dim=mixer(LATENT).latent_dim,
            rope_dim=mixer(LATENT).rope_dim,
            element_bytes=2,
        ),
        "Sequences on one GPU with one head each:",
        working(
            kv_cache.sequences_that_fit,
            memory_bytes=n.gib * GIB,
            sequence_bytes=sequence(_heads(n, n.ranks, n.ranks), n.positions),
        ),
        f"With the latent: {format_count(_fit(n, _latent(n)))}.",
        _verdict(n),
    ],
)
