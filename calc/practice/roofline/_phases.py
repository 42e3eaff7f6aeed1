"""Problems about the two phases: what a chip can do, floors of both, where decode turns, what length does to it."""

from __future__ import annotations

from math import ceil, floor
from types import SimpleNamespace as Numbers

from calc import kv_cache, roofline
from calc.practice._problem import Problem
from calc.practice.roofline._model import (
    ATTENTION,
    BATCH,
    CHIPS,
    DECODE,
    DENSE,
    PREFILL,
    RIDGE,
    billions,
    chip,
    geometry,
    in_layers,
    mixer,
    multiplied,
    rates,
    told,
)
from calc.units import counted, format_bytes, format_count, format_decimal, format_seconds, significant
from calc.working import working

ELEMENTS = {"bf16": 2, "fp8": 1}


def _balance(n: Numbers) -> float:
    return roofline.machine_balance(peak=chip(n.chip).peak(n.element).value, bandwidth=chip(n.chip).bandwidth.value)


def _with_sparsity(n: Numbers) -> str:
    return format_decimal(2 * chip(n.chip).peak(n.element).value, "FLOP/s")


balance = Problem(
    id="roofline/balance",
    title="A data sheet",
    level=1,
    step=RIDGE,
    printed={"chip": "h200-sxm", "element": "fp8"},
    choices={"chip": ("h100-sxm", "h200-sxm", "b200-sxm", "l40s"), "element": ("bf16", "fp8")},
    ask=lambda n: (
        f"The data sheet of {chip(n.chip).name} prints {_with_sparsity(n)} for {n.element}, with sparsity, and "
        f"{format_decimal(chip(n.chip).bandwidth.value, 'B/s')}. The weights are dense. How many FLOP can the chip do "
        "for each byte that it reads?"
    ),
    unit="FLOP/B",
    answer=_balance,
    mistakes={
        "takes the peak with sparsity": lambda n: 2 * _balance(n),
        "counts a multiply-add as one FLOP": lambda n: _balance(n) / 2,
        "turns the ratio around": lambda n: 1 / _balance(n),
    },
    hint="Dense weights get half of what is printed with sparsity.",
    solution=lambda n: [
        working(
            roofline.machine_balance,
            peak=chip(n.chip).peak(n.element).value,
            bandwidth=chip(n.chip).bandwidth.value,
        )
    ],
)


def _weights(n: Numbers) -> float:
    return multiplied(n.model) * ELEMENTS[n.element]


def _sequence(n: Numbers) -> float:
    return n.cached * kv_cache.layout(geometry(n.model)).bytes_per_position


def _token(n: Numbers, **changed: float) -> float:
    numbers = {"weight_bytes": _weights(n), "sequences": n.sequences, "sequence_bytes": _sequence(n)}
    return roofline.token_floor(**numbers | {"bandwidth": chip(n.chip).bandwidth.value} | changed)


decode_floor = Problem(
    id="roofline/decode-floor",
    title="Between two tokens",
    level=1,
    step=DECODE,
    printed={"model": "llama-3.1-8b", "chip": "h100-sxm", "element": "fp8", "sequences": 24, "cached": 3000},
    choices={
        "model": DENSE,
        "chip": CHIPS,
        "element": tuple(ELEMENTS),
        "sequences": (1, 8, 24, 48),
        "cached": (1000, 3000, 6000),
    },
    possible=lambda n: _weights(n) + n.sequences * _sequence(n) < 0.9 * chip(n.chip).memory_bytes.value,
    ask=lambda n: (
        f"{geometry(n.model).name} multiplies each token with {billions(multiplied(n.model))}, stored in {n.element}. "
        f"One position leaves {format_bytes(kv_cache.layout(geometry(n.model)).bytes_per_position)} in a bf16 cache. "
        f"{chip(n.chip).name} reads {format_decimal(chip(n.chip).bandwidth.value, 'B/s')}. It decodes "
        f"{format_count(n.sequences)} sequence{'s' * (n.sequences > 1)} with {format_count(n.cached)} cached positions "
        "each, and its memory alone decides. What is the least time between two tokens of a sequence?"
    ),
    unit="s",
    answer=_token,
    mistakes={
        "leaves the caches out": lambda n: _token(n, sequence_bytes=0),
        "reads one cache for all": lambda n: _token(n, sequences=1),
        "reads the weights once for each sequence": lambda n: n.sequences * _token(n, sequences=1),
        "stores the weights in bf16": lambda n: _token(n, weight_bytes=2 * multiplied(n.model)),
    },
    hint="A step reads all weights once, and the cache of every sequence.",
    solution=lambda n: [
        working(
            roofline.token_floor,
            weight_bytes=_weights(n),
            sequences=n.sequences,
            sequence_bytes=_sequence(n),
            bandwidth=chip(n.chip).bandwidth.value,
        ),
        f"No sequence gets its next token sooner than after {format_seconds(_token(n))}.",
    ],
)


def _pairs(n: Numbers) -> int:
    return roofline.positions_read(new=n.new, cached=n.cached)


def _attention(n: Numbers, pairs: float | None = None) -> float:
    heads = mixer(n.model)
    sizes = {"query_heads": heads.query_heads, "key_dim": heads.key_dim, "value_dim": heads.value_dim}
    return len(geometry(n.model).layers) * roofline.decode_flop(
        **sizes, positions=_pairs(n) if pairs is None else pairs
    )


def _prefill(n: Numbers, pairs: float | None = None) -> float:
    products = roofline.matmul_flop(step_tokens=n.new, weights=in_layers(n.model))
    return (products + _attention(n, pairs)) / rates(n.chip)["peak"]


prefill_floor = Problem(
    id="roofline/prefill-floor",
    title="A long prompt",
    level=2,
    step=PREFILL,
    printed={"model": "llama-3.1-8b", "chip": "a100-80gb-sxm", "new": 50_000, "cached": 0},
    choices={
        "model": ("llama-3.1-8b", "mistral-nemo", "qwen2.5-72b", "llama-3.1-70b"),
        "chip": CHIPS,
        "new": (8000, 20_000, 50_000, 100_000),
        "cached": (0, 20_000),
    },
    ask=lambda n: (
        f"{geometry(n.model).name} has {len(geometry(n.model).layers)} layers with {mixer(n.model).query_heads} query "
        f"heads of {mixer(n.model).key_dim} elements, and {billions(in_layers(n.model))} in its layers' matrices. "
        f"{chip(n.chip).name} multiplies bf16 at {format_decimal(rates(n.chip)['peak'], 'FLOP/s')}. A prompt of "
        f"{format_count(n.new + n.cached)} tokens arrives"
        + (f", of which {format_count(n.cached)} are in the prefix cache" if n.cached else "")
        + ". Attention is causal; leave the output layer out. What is the least time of its prefill on one chip, by "
        "arithmetic?"
    ),
    unit="s",
    answer=_prefill,
    mistakes={
        "counts the masked half": lambda n: _prefill(n, pairs=n.new * (n.new + n.cached)),
        "leaves attention out": lambda n: _prefill(n, pairs=0),
        "counts a multiply-add as one FLOP": lambda n: _prefill(n) / 2,
        "computes the cached tokens again": lambda n: _again(n) if n.cached else None,
    },
    hint="Two FLOP for each token and weight. Each token reads the cache, the tokens before it, and itself.",
    solution=lambda n: [
        working(roofline.matmul_flop, step_tokens=n.new, weights=in_layers(n.model)),
        working(roofline.positions_read, new=n.new, cached=n.cached),
        "In each layer:",
        working(
            roofline.decode_flop,
            query_heads=mixer(n.model).query_heads,
            key_dim=mixer(n.model).key_dim,
            value_dim=mixer(n.model).value_dim,
            positions=_pairs(n),
        ),
        f"All layers: {format_decimal(_attention(n), 'FLOP')}. Together over the peak: {format_seconds(_prefill(n))}.",
    ],
)


def _again(n: Numbers) -> float:
    return _prefill(Numbers(**{**vars(n), "new": n.new + n.cached, "cached": 0}))


def _cross(n: Numbers, **changed: float) -> float:
    return roofline.crossover_tokens(**rates(n.chip) | {"bytes_per_weight": ELEMENTS[n.element]} | changed)


crossing = Problem(
    id="roofline/crossing",
    title="When weights stop mattering",
    level=2,
    step=BATCH,
    printed={"chip": "b200-sxm", "element": "fp8"},
    choices={"chip": CHIPS, "element": tuple(ELEMENTS)},
    ask=lambda n: (
        f"{told(n.chip)}. A dense model's weights are stored in {n.element} and multiplied as bf16. Caches are empty. "
        "How many sequences must decode together before multiplying takes as long as reading the weights?"
    ),
    unit="sequences",
    answer=_cross,
    mistakes={
        "counts a multiply-add as one FLOP": lambda n: 2 * _cross(n),
        "takes the peak with sparsity": lambda n: _cross(n, peak=2 * rates(n.chip)["peak"]),
        "stores the weights in bf16": lambda n: _cross(n, bytes_per_weight=2),
    },
    hint="A weight takes its bytes to read once, and two FLOP for each sequence.",
    solution=lambda n: [
        "Reading takes as long as multiplying at:",
        working(roofline.crossover_tokens, **rates(n.chip), bytes_per_weight=ELEMENTS[n.element]),
        f"That is {counted(_cross(n), 'sequence')}; {format_count(floor(_cross(n)) + 1)} are the first batch beyond.",
    ],
)


def _ratio(n: Numbers, field: str = "peak") -> float:
    return rates(n.faster)[field] / rates(n.chip)[field]


prefill_ratio = Problem(
    id="roofline/prefill-ratio",
    title="Which chip for which phase",
    level=2,
    step=PREFILL,
    printed={"chip": "l40s", "faster": "h100-sxm"},
    choices={"chip": CHIPS, "faster": CHIPS},
    possible=lambda n: _ratio(n) > 1.1 and abs(_ratio(n) / _ratio(n, "bandwidth") - 1) > 0.05,
    ask=lambda n: (
        f"{told(n.chip)}. {told(n.faster)}. A long prompt is prefilled on both, and both come equally close to their "
        "floors. How many times as fast is the second?"
    ),
    unit="x",
    answer=_ratio,
    mistakes={
        "compares the bandwidths": lambda n: _ratio(n, "bandwidth"),
        "turns the ratio around": lambda n: 1 / _ratio(n),
    },
    hint="What does a long prefill wait for?",
    solution=lambda n: [
        "A long prefill waits for arithmetic, so its floor goes with the peak: "
        f"{format_decimal(rates(n.faster)['peak'], 'FLOP/s')} / {format_decimal(rates(n.chip)['peak'], 'FLOP/s')} = "
        f"{significant(_ratio(n))}×.",
        f"Decode goes with the bandwidth: {significant(_ratio(n, 'bandwidth'))} times.",
    ],
)


def _longest(n: Numbers, **changed: float) -> int:
    """Cached positions, whole: the formula counts positions read, the new token's own among them."""
    return ceil(roofline.longest_crossing(**_length(n) | changed)) - 1


def _length(n: Numbers) -> dict[str, float]:
    return {
        "weights": multiplied(n.model),
        "bytes_per_position": kv_cache.layout(geometry(n.model)).bytes_per_position,
        "position_flop": _attention(n, 1),
        "balance": round(roofline.machine_balance(**rates(n.chip))),
    }


long_context = Problem(
    id="roofline/long-context",
    title="No batch helps",
    level=3,
    step=ATTENTION,
    printed={"model": "mistral-nemo", "chip": "a100-80gb-sxm"},
    choices={"model": DENSE, "chip": CHIPS},
    ask=lambda n: (
        f"{geometry(n.model).name} multiplies each token with {billions(multiplied(n.model))}. Each position that a "
        f"token reads, its own among them, costs {format_bytes(_length(n)['bytes_per_position'])} of a bf16 cache and "
        f"{format_decimal(_length(n)['position_flop'], 'FLOP')} of attention. {chip(n.chip).name} does "
        f"{format_count(_length(n)['balance'])} FLOP in bf16 while it reads a byte. From how many cached positions in "
        "each sequence does decode wait for memory, however large the batch?"
    ),
    unit="positions",
    answer=_longest,
    mistakes={
        "leaves attention's arithmetic out": lambda n: _longest(n, position_flop=0),
        "counts a multiply-add as one FLOP": lambda n: _longest(n, weights=_length(n)["weights"] / 2),
        "takes twice the balance, with sparsity": lambda n: _longest(n, balance=2 * _length(n)["balance"]),
    },
    hint="In an endless batch the weights cost nothing. What is left is one sequence's arithmetic and its own cache, "
    "in which the new token has a position too.",
    solution=lambda n: [
        "One sequence's arithmetic takes as long as its cache at:",
        working(roofline.longest_crossing, **_length(n)),
        f"That is positions read, its own among them. So from {counted(_longest(n), 'cached position')} on no batch "
        "helps.",
    ],
)
