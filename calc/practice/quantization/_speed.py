"""Problems about what fewer bytes buy: crossovers, floors, loops that hide them, room for a cache, a choice."""

from __future__ import annotations

from math import ceil
from types import SimpleNamespace as Numbers

from calc import kv_cache as kv
from calc import quantization as qz
from calc import roofline
from calc.parameters import count
from calc.practice._problem import Problem
from calc.practice.quantization._model import CACHE, CHIPS, CHOICE, CROSSOVER, chip, geometry, held, tables
from calc.units import (
    UNITS,
    counted,
    format_bytes,
    format_count,
    format_decimal,
    format_percent,
    format_seconds,
    parse,
    significant,
)
from calc.working import working

GIB = UNITS["GiB"].factor
ENGINE = "vllm"
WEIGHED = ("bf16", "fp8-channel", "int8-channel", "int4-g128")  # what a service may choose from
SHARE = 0.85  # of a GPU's memory for weights and cache, assumed
CHUNK = 2048  # prompt tokens in a chunk, assumed
STORED = {"bf16": 2.0, "8-bit": 1.0, "4-bit": 0.52}


def _told(n: Numbers) -> str:
    return (
        f"{chip(n.chip).name} multiplies bf16 at {format_decimal(chip(n.chip).peak('bf16').value, 'FLOP/s')} and reads "
        f"{format_decimal(chip(n.chip).bandwidth.value, 'B/s')}"
    )


def _cross(n: Numbers, **changed: float) -> float:
    numbers = {"peak": chip(n.chip).peak("bf16").value, "bandwidth": chip(n.chip).bandwidth.value}
    return roofline.crossover_tokens(**numbers | {"bytes_per_weight": STORED[n.weights]} | changed)


crossover = Problem(
    id="quantization/crossover",
    title="Where it stops",
    level=2,
    step=CROSSOVER,
    printed={"chip": "a100-80gb-sxm", "weights": "4-bit"},
    choices={"chip": CHIPS, "weights": tuple(STORED)},
    ask=lambda n: (
        f"{_told(n)}. A dense model's weights take {counted(STORED[n.weights], 'byte')} each, scales included, and are "
        "multiplied as bf16. At how many tokens in a step does the arithmetic take as long as reading the weights?"
    ),
    unit="tokens",
    answer=_cross,
    mistakes={
        "counts a multiply-add as one FLOP": lambda n: 2 * _cross(n),
        "takes the bytes of bf16": lambda n: _cross(n, bytes_per_weight=2),
        "takes the peak with sparsity": lambda n: 2 * _cross(n),
        "divides by the bytes": lambda n: _cross(n, bytes_per_weight=1) / STORED[n.weights],
    },
    hint="Reading a weight takes its bytes over the bandwidth; multiplying it takes two FLOP a token over the peak.",
    solution=lambda n: [
        working(
            roofline.crossover_tokens,
            peak=chip(n.chip).peak("bf16").value,
            bandwidth=chip(n.chip).bandwidth.value,
            bytes_per_weight=STORED[n.weights],
        )
    ],
)


def _floor(n: Numbers, per_weight: float) -> float:
    billion = 1e9 * n.billions
    return roofline.overlapped_seconds(
        read=roofline.read_seconds(weight_bytes=billion * per_weight, bandwidth=chip(n.chip).bandwidth.value),
        multiply=roofline.multiply_seconds(step_tokens=n.tokens, weights=billion, peak=chip(n.chip).peak("bf16").value),
    )


def _gain(n: Numbers) -> float:
    return _floor(n, 2) / _floor(n, STORED[n.weights])


def _bytes_alone(n: Numbers) -> float:
    return 2 / STORED[n.weights]


step_gain = Problem(
    id="quantization/step-gain",
    title="How much faster at best",
    level=3,
    step=CROSSOVER,
    printed={"chip": "a100-80gb-sxm", "weights": "4-bit", "tokens": 64, "billions": 8},
    choices={
        "chip": CHIPS,
        "weights": ("4-bit", "8-bit"),
        "tokens": (1, 16, 48, 64, 96, 128, 256, 1024),
        "billions": (8, 13, 70),
    },
    ask=lambda n: (
        f"{_told(n)}. A GPU holds {n.billions} billion dense weights, all of them used by every token. They are stored "
        f"at {counted(STORED[n.weights], 'byte')} each instead of 2, and multiplied as bf16 either way. A step has "
        f"{counted(n.tokens, 'token')}. By the floors of the weights, how many times as fast can it become?"
    ),
    unit="x",
    answer=_gain,
    mistakes={
        "divides the bytes, whatever the tokens": lambda n: (
            _bytes_alone(n) if _bytes_alone(n) > 1.001 * _gain(n) else None
        ),
        "turns the ratio around": lambda n: 1 / _gain(n),
        "adds reading and multiplying": lambda n: _added(n, 2) / _added(n, STORED[n.weights]),
    },
    hint="Each floor is the longer of reading and multiplying. Only one of the two changed.",
    solution=lambda n: (
        [
            line
            for each in (2, STORED[n.weights])
            for line in (
                f"At {each:g} byte{'s' * (each != 1)}:",
                working(
                    roofline.read_seconds,
                    weight_bytes=1e9 * n.billions * each,
                    bandwidth=chip(n.chip).bandwidth.value,
                ),
                working(
                    roofline.multiply_seconds,
                    step_tokens=n.tokens,
                    weights=1e9 * n.billions,
                    peak=chip(n.chip).peak("bf16").value,
                ),
            )
        ]
        + [f"Longest of each: {_floor(n, 2):.4g} s / {_floor(n, STORED[n.weights]):.4g} s = {significant(_gain(n))}."]
    ),
)


def _added(n: Numbers, per_weight: float) -> float:
    billion = 1e9 * n.billions
    return roofline.read_seconds(weight_bytes=billion * per_weight, bandwidth=chip(n.chip).bandwidth.value) + (
        roofline.multiply_seconds(step_tokens=n.tokens, weights=billion, peak=chip(n.chip).peak("bf16").value)
    )


def _loop(n: Numbers) -> float:
    return (n.slow + n.overhead) / (n.fast + n.overhead)


slow_loop = Problem(
    id="quantization/slow-loop",
    title="A slow loop",
    level=1,
    step=CROSSOVER,
    printed={"slow": 13.4, "fast": 3.7, "overhead": 28.6},
    choices={"slow": (9.6, 13.4, 41.8), "fast": (2.6, 3.7, 10.9), "overhead": (4.0, 12.5, 28.6, 40.0)},
    possible=lambda n: n.slow > 1.5 * n.fast,
    ask=lambda n: (
        f"Reading a model's weights takes {n.slow} ms a token in fp16 and {n.fast} ms in 4 bits. A loop in Python adds "
        f"{n.overhead} ms a token to both. How many times as fast are 4 bits in this loop?"
    ),
    unit="x",
    answer=_loop,
    mistakes={
        "leaves the loop out": lambda n: n.slow / n.fast,
        "adds the loop to fp16 alone": lambda n: (n.slow + n.overhead) / n.fast,
        "turns the ratio around": lambda n: 1 / _loop(n),
    },
    hint="Both times have the loop in them.",
    solution=lambda n: [
        f"({n.slow} + {n.overhead}) ms / ({n.fast} + {n.overhead}) ms = {n.slow + n.overhead:.1f} ms / "
        f"{n.fast + n.overhead:.1f} ms ≈ {significant(_loop(n))}.",
    ],
)


def _printed(n: Numbers, weights: str) -> float:
    """Bytes of the weights as the question prints them."""
    return parse(format_bytes(held(n.model, weights).total_bytes)).value


def _room(n: Numbers, weights: str | None = None, cache: str | None = None) -> float:
    left = n.gib * GIB - _printed(n, weights or n.weights)
    token = kv.layout(geometry(n.model), element=cache or n.cache).bytes_per_position
    return max(0, left // token)


room = Problem(
    id="quantization/room",
    title="Room for the cache",
    level=3,
    step=CACHE,
    printed={"model": "llama-3.1-8b", "weights": "int4-g128", "cache": "fp8", "gib": 20},
    choices={
        "model": ("llama-3.1-8b", "mistral-nemo", "llama-2-13b"),
        "weights": ("int4-g128", "fp8-tensor"),
        "cache": ("bf16", "fp8"),
        "gib": (16, 20, 36, 70),
    },
    possible=lambda n: n.gib * GIB > 1.1 * held(n.model, "bf16").total_bytes or n.weights != "bf16",
    ask=lambda n: (
        f"One GPU gives {n.gib} GiB to weights and cache. {geometry(n.model).name}'s weights take "
        f"{format_bytes(held(n.model, n.weights).total_bytes)} as {qz.scheme(n.weights).name}, and "
        f"{format_bytes(held(n.model, 'bf16').total_bytes)} in bf16. One position leaves "
        f"{format_bytes(kv.layout(geometry(n.model)).bytes_per_position)} in a bf16 cache. How many positions fit with "
        f"the {qz.scheme(n.weights).name} weights and a cache in {n.cache}?"
    ),
    unit="positions",
    answer=_room,
    mistakes={
        "keeps the weights in bf16": lambda n: _room(n, weights="bf16"),
        "halves the cache as well": lambda n: _room(n, cache="fp8") if n.cache == "bf16" else None,
        "leaves the cache in bf16": lambda n: _room(n, cache="bf16") if n.cache == "fp8" else None,
        "gives the cache all the memory": lambda n: (
            n.gib * GIB // kv.layout(geometry(n.model), element=n.cache).bytes_per_position
        ),
    },
    hint="Weights first, then what is left over the bytes of one position. Each has a type of its own.",
    solution=lambda n: [
        f"Left: {n.gib} GiB − {format_bytes(_printed(n, n.weights))} = "
        f"{significant((n.gib * GIB - _printed(n, n.weights)) / GIB, 5)} GiB.",
        working(
            kv.positions_that_fit,
            memory_bytes=n.gib * GIB - _printed(n, n.weights),
            bytes_per_position=kv.layout(geometry(n.model), element=n.cache).bytes_per_position,
        ),
        f"So {counted(_room(n), 'position')} fit{'s' * (_room(n) == 1)}.",
    ],
)

# --- an open question ----------------------------------------------------------------------------


def _four_bits(n: Numbers) -> dict[str, float]:
    """Chip and bytes of a weight that a step of one token reads: the output layer in 16 bits, no embedding."""
    four = qz.step(geometry(n.model), held(n.model, "int4-g128"), chip(n.chip), "bf16", ranks=n.gpus, step_tokens=1)
    rates = {"peak": chip(n.chip).peak("bf16").value, "bandwidth": chip(n.chip).bandwidth.value}
    return rates | {"bytes_per_weight": four.bytes_per_weight}


def _cached(n: Numbers, element: str) -> int:
    """Bytes that the cache of all sequences takes on one GPU."""
    layout = kv.layout(geometry(n.model), ranks=n.gpus, element=element)
    return n.sequences * kv.resident_bytes(layout, positions=n.positions)


def _candidates(n: Numbers) -> list[tuple[str, str]]:
    """The original, eight bits and four bits on this chip, each with the arithmetic that its engine gives it."""
    return [(name, how) for name in WEIGHED if (how := qz.support(name, chip(n.chip), ENGINE).multiplies)]


def _fits(n: Numbers, name: str, element: str) -> bool:
    return held(n.model, name).total_bytes / n.gpus + _cached(n, element) <= _usable(n)


def _usable(n: Numbers) -> float:
    return SHARE * chip(n.chip).program_bytes.value


def _judged(n: Numbers) -> list[str]:
    """Weights of each candidate on a GPU, whether caches fit beside them, and the floor of a step against bf16's."""
    lines = []
    steps = {
        name: qz.step(geometry(n.model), held(n.model, name), chip(n.chip), how, ranks=n.gpus, step_tokens=n.sequences)
        for name, how in _candidates(n)
    }
    for name, step in steps.items():
        room = [e for e in ("bf16", "fp8") if _fits(n, name, e)]
        caches = f"caches in {' or '.join(room)} fit" if room else "the caches don't fit"
        lines.append(
            f"{qz.scheme(name).name}: {format_bytes(held(n.model, name).total_bytes / n.gpus)} on a GPU; "
            f"{caches} beside it."
            + (
                f" By the floors of its weights a step of {n.sequences} tokens is "
                f"{_as_fast(steps['bf16'].floor_s / step.floor_s)} in bf16."
                if name != "bf16"
                else ""
            )
        )
    return lines


def _as_fast(ratio: float) -> str:
    text = significant(ratio, 3)
    return "no faster than" if text == "1" else f"{text}× as fast as"


def _floors(n: Numbers, name: str, tokens: int = 1) -> qz.Step:
    """Floors of a step of so many tokens, with the arithmetic that the engine gives the scheme."""
    how = dict(_candidates(n))[name]
    return qz.step(geometry(n.model), held(n.model, name), chip(n.chip), how, ranks=n.gpus, step_tokens=tokens)


def _cache_of(n: Numbers, name: str) -> str | None:
    """The widest cache that fits beside the weights."""
    return next((element for element in ("bf16", "fp8") if _fits(n, name, element)), None)


def _beside(n: Numbers, name: str) -> str:
    return "" if _cache_of(n, name) == "bf16" else " with its cache in fp8"


def _decision(n: Numbers) -> list[str]:
    """Eight bits or four by the number of tokens at which they meet, if eight fit; four otherwise."""
    eight = next((name for name, how in _candidates(n) if how != "bf16" and _cache_of(n, name)), None)
    first = (
        "Nothing has to be quantized to fit. What quantizing can bring is speed."
        if _cache_of(n, "bf16") == "bf16"
        else "The weights may stay in bf16, but only beside a cache in fp8."
        if _cache_of(n, "bf16")
        else "The weights must shrink: in bf16 they leave too little for the caches."
    )
    if eight is None:
        return [
            f"{first} No scheme that multiplies in eight bits fits. Decision: int4{_beside(n, 'int4-g128')}, for "
            "nothing else fits, if it keeps the floor on your own tasks. What overturns it: it doesn't. Then take more "
            "GPUs, or fewer sequences on these.",
        ]
    called = qz.scheme(eight).name
    short = called.split()[0]
    read, slope = _floors(n, eight).read_s, _floors(n, "int4-g128").multiply_s
    meet = read / slope
    below, above = ceil(meet) - 1, ceil(meet)
    spare = below - n.sequences
    decode = (
        f"{n.sequences} sequences that decode leave room for {counted(spare, 'prompt token')} below that. Chunks of "
        "prompts are larger"
        if spare >= 0
        else f"{n.sequences} sequences that decode are past that by themselves"
    )
    fallback = (
        f"stay with bf16{_beside(n, 'bf16')}, which fits"
        if _cache_of(n, "bf16")
        else f"take int4{_beside(n, 'int4-g128')}, if it does, or more GPUs"
    )
    return [
        f"In int4 a token takes {format_seconds(slope)} of arithmetic. {called} reads its weights in "
        f"{format_seconds(read)}. The two are as long at {format_seconds(read)} / {format_seconds(slope)} ≈ "
        f"{significant(meet)} tokens.",
        f"{first} Decision: by their floors int4 is ahead up to {format_count(below)} tokens in a step, {short} from "
        f"{format_count(above)} on. {decode}, so take {called}{_beside(n, eight)}, if it keeps the floor on your own "
        f"tasks; else {fallback}. {_overturned(n, eight, above)}",
    ]


def _saved(n: Numbers, eight: str, tokens: int) -> float:
    """Seconds that a step of so many tokens saves in int4 against eight bits, by their floors; it may lose some."""
    return _floors(n, eight, tokens).floor_s - _floors(n, "int4-g128", tokens).floor_s


def _overturned(n: Numbers, eight: str, above: int) -> str:
    """When int4 takes less time in all: what small steps save against what steps with a chunk lose."""
    saves, loses = _saved(n, eight, n.sequences), -_saved(n, eight, n.sequences + CHUNK)
    chunk = f"a chunk of {CHUNK:,}, assumed,"
    if saves <= 0:
        return (
            f"What overturns it: time, not the number of steps. By these floors a step of {n.sequences} tokens loses "
            f"{format_seconds(-saves)} with int4, and one with {chunk} loses {format_seconds(loses)}. If at most times "
            f"so few sequences run that steps of fewer than {format_count(above)} tokens save more than the others "
            "lose, and int4 keeps your floor of quality, take int4."
        )
    others = loses / saves
    return (
        f"What overturns it: time, not the number of steps. By these floors a step of {n.sequences} tokens saves "
        f"{format_seconds(saves)} with int4. One with {chunk} loses {format_seconds(loses)}, as much as "
        f"{significant(others, 3)} of the others save. If fewer than one step in {format_count(ceil(1 + others))} "
        "carries such a chunk, and int4 keeps your floor of quality, take int4."
    )


def _shape(n: Numbers) -> str:
    """The model with what its bytes and those of its cache follow from."""
    model = geometry(n.model)
    ((mixer, layers),) = model.kinds()
    return (
        f"{model.name} ({count(model).total / 1e9:.4g} billion parameters, {tables(n) / 1e9:.4g} billion of them in "
        f"the embedding and the output layer; {layers} layers with {mixer.kv_heads} KV heads of {mixer.key_dim} "
        "elements)"
    )


def _checklist(n: Numbers) -> list[str]:
    whole, four = held(n.model, "bf16").total_bytes, held(n.model, "int4-g128").total_bytes
    cross = roofline.crossover_tokens(**_four_bits(n))
    return [
        f"Sizes the weights first: {format_bytes(whole)} in bf16, {format_bytes(four)} in int4 with groups of 128.",
        "Asks what the chip multiplies in and what the engine supports on it, before asking what is small.",
        f"Says where a step with 4-bit weights waits for arithmetic: from {ceil(cross)} tokens here.",
        f"Counts the tokens in a step: {n.sequences} sequences, one token each, plus the chunks of prompts; and weighs "
        "steps by their time.",
        f"Checks what fits beside the caches: {n.sequences} sequences of {n.positions:,} positions take "
        f"{format_bytes(_cached(n, 'bf16'))} on a GPU in bf16, of {format_bytes(_usable(n))} it may use.",
        "Treats the cache as a choice of its own, with its own bytes, its own speed and its own risk.",
        "Takes quality from tasks like the service's own, at the output lengths it has; perplexity is not enough.",
        "Compares on the same engine and version, with the same load, and names both.",
        "Keeps what can't be compared apart from what is worse: unknown is not bad, and not good.",
        "States the rule before the numbers: a floor for quality, then the best of service, then the fewest bytes.",
        "Says what would change the answer: the load, the chip, the benchmark, the floor.",
    ]


service = Problem(
    id="quantization/service",
    title="Choose for a service",
    level="design",
    step=CHOICE,
    printed={"model": "llama-3.1-70b", "chip": "h100-sxm", "gpus": 4, "sequences": 64, "positions": 4096},
    choices={
        "model": ("llama-3.1-70b", "llama-3.1-8b", "qwen2.5-72b"),
        "chip": ("a100-80gb-sxm", "h100-sxm", "b200-sxm"),
        "gpus": (1, 2, 4, 8),
        "sequences": (8, 64, 256),
        "positions": (2048, 4096, 8192),
    },
    possible=lambda n: _fits(n, "int4-g128", "fp8"),
    ask=lambda n: (
        f"You serve {_shape(n)} on {n.gpus} × {chip(n.chip).name}, about {n.sequences} sequences at a "
        f"time, up to {n.positions:,} positions each. An engine may use {format_percent(SHARE)} of a GPU's "
        f"{format_bytes(chip(n.chip).program_bytes.value)} for weights and cache. Somebody proposes 4-bit weights "
        "because they are four times smaller. How do you decide how to quantize, "
        "if at all?"
    ),
    checklist=_checklist,
    hint="Three questions: what must fit, what does a step wait for, and what may quality cost?",
    solution=lambda n: [
        f"{count(geometry(n.model)).total / 1e9:.4g} billion parameters.",
        f"In bf16 {format_bytes(held(n.model, 'bf16').total_bytes)}.",
        f"In int4 {format_bytes(held(n.model, 'int4-g128').total_bytes)}.",
        f"A weight that a step reads then takes {significant(_four_bits(n)['bytes_per_weight'], 4)} B: the output "
        "layer stays in 16 bits, and the embedding isn't read.",
        working(roofline.crossover_tokens, **_four_bits(n)),
        f"An engine may use {format_percent(SHARE)} of {format_bytes(chip(n.chip).program_bytes.value)}: "
        f"{format_bytes(_usable(n))} of a GPU.",
        f"The caches of {n.sequences} sequences take {format_bytes(_cached(n, 'bf16'))} on a GPU in bf16 and "
        f"{format_bytes(_cached(n, 'fp8'))} in fp8.",
        *_judged(n),
        *_decision(n),
    ],
)
