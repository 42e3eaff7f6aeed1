"""Problems about arithmetic: how idle a chip is, when to expand a latent, which weights sharing saves."""

from __future__ import annotations

from math import floor
from types import SimpleNamespace as Numbers

from calc import attention, kv_cache, roofline
from calc.practice._problem import Problem
from calc.practice.attention_variants._model import (
    ALONE,
    ARITHMETIC,
    CHIPS,
    GROUPED,
    LATENT,
    LATENTS,
    chip,
    described,
    geometry,
    mixer,
)
from calc.units import counted, format_bytes, format_count, format_decimal, significant
from calc.working import Working, working


def _balance(n: Numbers) -> Working:
    gpu = chip(n.chip)
    return working(roofline.machine_balance, peak=gpu.peak("bf16").value, bandwidth=gpu.bandwidth.value)


def _intensity(n: Numbers, ranks: int | None = None, **changed: int) -> float:
    function, arguments = roofline.intensity_of(
        mixer(n.model), element=n.element, ranks=n.ranks if ranks is None else ranks
    )
    return function(**arguments | changed)


def _idle(n: Numbers, intensity: float | None = None) -> float:
    return _balance(n).value / (_intensity(n) if intensity is None else intensity)


def _idle_working(n: Numbers) -> list[str | Working]:
    function, arguments = roofline.intensity_of(mixer(n.model), element=n.element, ranks=n.ranks)
    done = working(function, **arguments)
    parts = f"{significant(_balance(n).value)} / {significant(done.value)}"
    model, total = mixer(n.model), mixer(n.model).query_heads
    stored = (
        "the whole latent"
        if attention.sharing(model) == "MLA"
        else counted(kv_cache.kv_heads_per_rank(kv_heads=model.kv_heads, ranks=n.ranks), "KV head")
    )
    return [
        f"A rank has {total // n.ranks} of the {total} query heads, and {stored}:",
        done,
        _balance(n),
        f"{parts} = {significant(_idle(n))}×",
    ]


def _idle_ask(n: Numbers) -> str:
    gpu = chip(n.chip)
    absorbed = ", with the projections absorbed" if attention.sharing(mixer(n.model)) == "MLA" else ""
    return (
        f"{described(n.model)}. It decodes on {n.ranks} tensor-parallel {gpu.name} with a cache in "
        f"{n.element}{absorbed}. "
        f"A chip reads {format_decimal(gpu.bandwidth.value, 'B/s')} and does "
        f"{format_decimal(gpu.peak('bf16').value, 'FLOP/s')} in bf16. While it reads its share of the cache, how many "
        "times the arithmetic that attention needs could it do?"
    )


idle_factor = Problem(
    id="attention_variants/idle-factor",
    title="An idle chip",
    level=2,
    step=ARITHMETIC,
    printed={"model": "qwen3-235b-a22b", "element": "bf16", "ranks": 16, "chip": "h200-sxm"},
    choices={
        "model": (*GROUPED, *LATENTS),
        "element": ("bf16", "fp8"),
        "ranks": (1, 2, 4, 8, 16),
        "chip": CHIPS,
    },
    possible=lambda n: mixer(n.model).query_heads % n.ranks == 0,
    ask=_idle_ask,
    unit="x",
    answer=_idle,
    mistakes={
        "forgets that a copied head has fewer readers": lambda n: _idle(n, _intensity(n, ranks=1)),
        "gives every query head a read of its own": lambda n: _idle(n, _intensity(n, ranks=1) * _alone(n)),
        "counts a multiply and an add as one": lambda n: 2 * _idle(n),
        "keeps two bytes per element": lambda n: _idle(n, _intensity(n, element_bytes=2)),
        "keeps one byte per element": lambda n: _idle(n, _intensity(n, element_bytes=1)),
        "turns the ratio around": lambda n: 1 / _idle(n),
    },
    hint="Arithmetic for each byte, twice: what attention does and what the chip can do.",
    solution=_idle_working,
)


def _alone(n: Numbers) -> float:
    """By what the intensity shrinks if nothing is shared: one reader for each stored head."""
    return getattr(mixer(n.model), "kv_heads", 1) / mixer(n.model).query_heads


def _threshold(n: Numbers, **changed: int) -> float:
    found = mixer(n.model)
    sizes = {"latent_dim": found.latent_dim, "nope_dim": found.nope_dim, "value_dim": found.value_dim}
    return attention.break_even_tokens(**sizes | {"positions": n.positions} | changed)


def _fewest(n: Numbers, **changed: int) -> int:
    return floor(_threshold(n, **changed)) + 1


def _long_run(n: Numbers, keys: bool = True, values: bool = True) -> float:
    """The threshold without the cost of absorbing, some projections left out by a mistake."""
    found = mixer(n.model)
    made = keys * found.nope_dim + values * found.value_dim
    return found.latent_dim * made / (2 * found.latent_dim - found.nope_dim - found.value_dim)


def _narrow_sums(n: Numbers) -> float:
    """The threshold if absorbed values were as narrow as expanded ones."""
    found = mixer(n.model)
    expansion = found.latent_dim * (found.nope_dim + found.value_dim)
    return n.positions * expansion / (n.positions * (found.latent_dim - found.nope_dim) + expansion)


absorb_or_expand = Problem(
    id="attention_variants/absorb-or-expand",
    title="Absorb or expand",
    level=3,
    step=LATENT,
    printed={"model": "deepseek-v3", "positions": 2048},
    choices={"model": LATENTS, "positions": (512, 1000, 2048, 3000, 4096, 6000, 8192, 12_000)},
    ask=lambda n: (
        f"{described(n.model)}. A head's key has {mixer(n.model).nope_dim} elements besides the rotary ones, its value "
        f"{mixer(n.model).value_dim}. A chunk of a prompt reads {n.positions:,} positions; take it that "
        "each of its tokens reads all of them. From how many tokens in the chunk does expanding the latents take less "
        "arithmetic than "
        "absorbing the projections?"
    ),
    unit="tokens",
    exact=True,
    answer=_fewest,
    mistakes={
        "rounds down": lambda n: floor(_threshold(n)),
        "divides E by Δ, as if absorbing cost a new token no projections": lambda n: floor(_long_run(n)) + 1,
        "expands the keys and forgets the values": lambda n: floor(_long_run(n, values=False)) + 1,
        "absorbs the keys and forgets that summed latents are wide too": lambda n: floor(_narrow_sums(n)) + 1,
    },
    hint="For each head, expanding costs once for each position. Absorbing costs as much once for each new token, and "
    "for each pair of token and position works on vectors that are wider by Δ elements. Set the two equal.",
    solution=lambda n: [
        working(
            attention.break_even_tokens,
            latent_dim=mixer(n.model).latent_dim,
            nope_dim=mixer(n.model).nope_dim,
            value_dim=mixer(n.model).value_dim,
            positions=n.positions,
        ),
        f"The next whole number: {format_count(_fewest(n))} tokens.",
    ],
)


def _fewer(n: Numbers) -> int:
    return mixer(n.model).query_heads - mixer(n.model).kv_heads


def _weights(n: Numbers, heads: int | None = None, both: int = 2, layers: int | None = None) -> float:
    """Bytes that sharing takes off the key and value projections, in bf16."""
    model, found = geometry(n.model), mixer(n.model)
    fewer = _fewer(n) if heads is None else heads
    return 2 * (layers or len(model.layers)) * model.hidden * fewer * both * found.key_dim


kv_weights = Problem(
    id="attention_variants/kv-weights",
    title="Weights that sharing saves",
    level=2,
    step=ALONE,
    printed={"model": "qwen3-32b"},
    choices={"model": GROUPED},
    ask=lambda n: (
        f"{described(n.model)}, and a hidden size of {geometry(n.model).hidden:,}. Its weights are bf16. How much "
        "smaller "
        "are they, all layers together, than with a KV head for every query head?"
    ),
    answer=_weights,
    mistakes={
        "counts the projections that are left": lambda n: _weights(n, heads=mixer(n.model).kv_heads),
        "counts those of a multi-head model": lambda n: _weights(n, heads=mixer(n.model).query_heads),
        "saves keys and forgets values": lambda n: _weights(n, both=1),
        "shrinks the query and output projections too": lambda n: _weights(n, both=4),
        "counts one layer": lambda n: _weights(n, layers=1),
        "counts a weight as a byte": lambda n: _weights(n) / 2,
    },
    hint="Only the projections to keys and values know how many KV heads there are.",
    solution=lambda n: [
        f"{mixer(n.model).query_heads} − {mixer(n.model).kv_heads} = {_fewer(n)} KV heads "
        f"fewer, each with a key and a value of {mixer(n.model).key_dim} columns of {geometry(n.model).hidden:,}.",
        f"2 B · {len(geometry(n.model).layers)} · {geometry(n.model).hidden:,} · {_fewer(n)} · 2 · "
        f"{mixer(n.model).key_dim} = {format_count(_weights(n))} B = {format_bytes(_weights(n))}",
    ],
)
