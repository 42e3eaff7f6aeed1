"""The nine recordings: what is started, what is sent, and why. In the order in which the book needs them.

A workload is drawn from SEED and the repeat alone: all setups of a recording, all runs that draw alike and all attempts
of a repeat get the same requests. So the prefix cache is off, or else keyed by the run, unless a recording needs it.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from . import engines
from .artifacts import ADAPTER_RANK, ADAPTERS, DRAFT, FOLDER, TARGET
from .client import Request, poisson, words

SEED = 20261130
BUDGET = 2048
WARM_UP = tuple(Request(id=f"warm-{n}", prompt=words(random.Random(n), n), max_tokens=4) for n in (40, 300))
NO_PREFIXES = "--no-enable-prefix-caching"
Draw = Callable[[random.Random], list[Request]]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One workload. `serial`: each request waits for the one before, instead of being sent when due.

    `salted`: nothing that another run left in the prefix cache is found.
    """

    name: str
    draw: Draw
    parameters: dict
    serial: bool = False
    salted: bool = False


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One started engine and what runs on it. `prime` is sent once before the first run and not recorded."""

    name: str
    start: Callable[[], engines.Process]
    runs: tuple[Run, ...]
    prime: tuple[Request, ...] = ()
    gateway: bool = False


@dataclass(frozen=True, kw_only=True)
class Recording:
    """`setups(quick)` lists what to start; the cold starts have none, for there the start itself is recorded."""

    name: str
    title: str
    minutes: float
    setups: Callable[[bool], list[Setup]] | None


def _vllm(name: str, *options: str) -> Callable[[], engines.Process]:
    return functools.partial(engines.vllm, name, *options)


def _budget(tokens: int) -> tuple[str, ...]:
    return ("--max-num-batched-tokens", str(tokens))


# --- a long prompt among streams, at several token budgets


def _long_prompt_among_streams(rng: random.Random, *, long_prompt: int, streams: int, output: int) -> list[Request]:
    neighbors = [Request(id=str(i), role="stream", prompt=words(rng, 64), max_tokens=output) for i in range(streams)]
    late = Request(id="long", role="long", prompt=words(rng, long_prompt), max_tokens=8, due_us=1_000_000)
    return [*neighbors, late]


def _chunked_prefill(quick: bool) -> list[Setup]:
    long_prompt, streams, output = (1024, 3, 64) if quick else (8192, 3, 160)
    parameters = {"long_prompt_tokens": long_prompt, "streams": streams, "stream_output_tokens": output}
    draw = functools.partial(_long_prompt_among_streams, long_prompt=long_prompt, streams=streams, output=output)
    setups = []
    for budget in (256, None) if quick else (256, 512, 1024, 2048, 4096, None):
        name = f"budget-{budget or 'off'}"
        # off: a prompt is never cut, so the budget must hold the longest one
        options = _budget(budget) if budget else ("--no-enable-chunked-prefill", *_budget(engines.MAX_POSITIONS))
        run = Run(name="long-prompt", draw=draw, parameters=parameters | {"budget_tokens": budget})
        setups.append(Setup(name=name, start=_vllm(name, NO_PREFIXES, *options), runs=(run,)))
    return setups


# --- open-loop arrivals up to and past saturation


def _load(
    rng: random.Random, *, count: int, per_s: float, prompt: tuple[int, int], output: tuple[int, int]
) -> list[Request]:
    return [
        Request(id=str(i), prompt=words(rng, rng.randint(*prompt)), max_tokens=rng.randint(*output), due_us=due_us)
        for i, due_us in enumerate(poisson(rng, count, per_s))
    ]


def _arrivals(quick: bool) -> list[Setup]:
    count = 8 if quick else 36
    runs = []
    for per_s in (4.0,) if quick else (1.25, 1.75, 2.25, 3.0, 4.0, 6.0):
        parameters = {"count": count, "per_s": per_s, "prompt": [128, 384], "output": [32, 96]}
        draw = functools.partial(_load, count=count, per_s=per_s, prompt=(128, 384), output=(32, 96))
        runs.append(Run(name=f"rate-{per_s:g}", draw=draw, parameters=parameters))
    return [Setup(name="open-loop", start=_vllm("open-loop", NO_PREFIXES, *_budget(BUDGET)), runs=tuple(runs))]


# --- step times over a grid


def _steps(quick: bool) -> list[Setup]:
    sizes = (16, 64, 256) if quick else (16, 32, 64, 128, 256, 512, 1024, 2048)
    contexts, batches, output = ((128,), (1, 2), 8) if quick else ((128, 512, 2048), (1, 2, 4, 8, 16), 24)

    def prefills(rng: random.Random) -> list[Request]:
        return [Request(id=str(n), role="prefill", prompt=words(rng, n), max_tokens=1) for n in sizes]

    # whole cached blocks and one token more: of a prompt that has been seen, one token is left to compute
    held = {n: [words(random.Random(f"{SEED} {n} {i}"), n + 1) for i in range(max(batches))] for n in contexts}
    runs = [Run(name="prefill", draw=prefills, parameters={"prompt_tokens": list(sizes)}, serial=True, salted=True)]
    for context in contexts:
        for batch in batches:
            cell = [Request(id=str(i), role="decode", prompt=held[context][i], max_tokens=output) for i in range(batch)]
            parameters = {"context_tokens": context, "batch": batch}
            runs.append(Run(name=f"decode-{context}-{batch}", draw=lambda _rng, cell=cell: cell, parameters=parameters))
    prime = tuple(
        Request(id=f"prime-{n}-{i}", prompt=prompt, max_tokens=1) for n in contexts for i, prompt in enumerate(held[n])
    )
    start = _vllm("steps", "--enable-prefix-caching", *_budget(BUDGET))
    return [Setup(name="grid", start=start, runs=tuple(runs), prime=prime)]


# --- speculation with a draft that is really accepted


def _speculation(quick: bool) -> list[Setup]:
    output = 32 if quick else 96

    def burst(rng: random.Random, batch: int) -> list[Request]:
        return [Request(id=str(i), prompt=words(rng, 64), max_tokens=output) for i in range(batch)]

    setups = []
    for k in (0, 2) if quick else range(6):
        draft = f'{{"method":"draft_model","model":"{DRAFT}","num_speculative_tokens":{k}}}'
        speculative = ("--speculative-config", draft, "--per-request-spec-decode-metrics", "detailed") if k else ()
        runs = []
        for batch in (1, 2) if quick else (1, 4, 8):
            parameters = {"draft_tokens": k, "batch": batch}
            runs.append(Run(name=f"batch-{batch}", draw=functools.partial(burst, batch=batch), parameters=parameters))
        name = f"draft-{k}"
        start = _vllm(name, NO_PREFIXES, *_budget(BUDGET), *speculative)
        setups.append(Setup(name=name, start=start, runs=tuple(runs)))
    return setups


# --- one cause at a time behind a slow tail

SLOW_SHARE = 0.04  # of the requests: more than the last hundredth, far fewer than half
HOLD_MS = 600
BIG_PROMPT = 1536


def _adapters(slots: int, on_host: int) -> tuple[str, ...]:
    modules = [f"adapter-{i}={FOLDER}/adapter-{i}" for i in range(ADAPTERS)]
    sizes = ("--max-loras", str(slots), "--max-cpu-loras", str(on_host), "--max-lora-rank", str(ADAPTER_RANK))
    return ("--enable-lora", *sizes, "--lora-modules", *modules)


def _tail_load(rng: random.Random, *, count: int, causes: tuple[str, ...]) -> list[Request]:
    """The same load whatever the causes, so that a run with one differs from the run with none in that alone."""
    load = _load(rng, count=count, per_s=6.0, prompt=(24, 40), output=(12, 12))
    chosen = sorted(rng.sample(range(count), max(1, round(SLOW_SHARE * count))))
    for turn, i in enumerate(chosen):
        if "slow gateway" in causes:
            load[i] = replace(load[i], held_ms=HOLD_MS, held_where="gateway")
        if "hop without a clock" in causes:
            load[i] = replace(load[i], held_ms=HOLD_MS, held_where="unstamped")
        if "slow client" in causes:
            load[i] = replace(load[i], read_after_ms=HOLD_MS)
        if "adapter loading" in causes:
            # one token only: here the loading is the cause, not the slower steps of a batch with an adapter in it
            load[i] = replace(load[i], model=f"adapter-{turn % ADAPTERS}", max_tokens=1)
    if "long prompt" in causes:
        middle = load[count // 2].due_us
        load.append(Request(id="long", role="long", prompt=words(rng, BIG_PROMPT), max_tokens=1, due_us=middle))
    return load


def _tail(quick: bool) -> list[Setup]:
    count = 24 if quick else 72
    cases = {
        "nothing injected": (),
        "long prompt": ("long prompt",),
        "slow gateway": ("slow gateway",),
        "slow client": ("slow client",),
        "adapter loading": ("adapter loading",),
        "two causes": ("long prompt", "slow gateway"),
        "hop without a clock": ("hop without a clock",),
    }
    parameters = {"count": count, "per_s": 6.0, "slow_share": SLOW_SHARE, "hold_ms": HOLD_MS}
    runs = tuple(
        Run(
            name=name,
            draw=functools.partial(_tail_load, count=count, causes=causes),
            parameters=parameters | {"injected": list(causes)},
        )
        for name, causes in cases.items()
    )
    start = _vllm("tail", NO_PREFIXES, *_budget(BUDGET), *_adapters(slots=1, on_host=1))
    return [Setup(name="behind a gateway", start=start, runs=runs, gateway=True)]


# --- a prefix seen before


def _shared_prefix(rng: random.Random, *, prefix: int) -> list[Request]:
    tail, output = 32, 8
    first = words(rng, prefix)
    half = " ".join(first.split()[: prefix // 2])
    prompts = {
        "cold": f"{first} {words(rng, tail)}",
        "warm": f"{first} {words(rng, tail)}",
        "half": f"{half} {words(rng, prefix - prefix // 2 + tail)}",
    }
    return [Request(id=role, role=role, prompt=prompt, max_tokens=output) for role, prompt in prompts.items()]


def _prefix(quick: bool) -> list[Setup]:
    runs = tuple(
        Run(
            name=f"prefix-{prefix}",
            draw=functools.partial(_shared_prefix, prefix=prefix),
            parameters={"prefix_tokens": prefix, "block_tokens": engines.BLOCK_TOKENS},
            serial=True,
            salted=True,
        )
        for prefix in ((512,) if quick else (256, 1024, 2048, 4096))
    )
    start = _vllm("prefix", "--enable-prefix-caching", *_budget(BUDGET))
    return [Setup(name="prefix-cache", start=start, runs=runs)]


# --- more adapters than slots


def _adapter_burst(rng: random.Random, *, in_use: int, count: int) -> list[Request]:
    names = [f"adapter-{i % in_use}" if in_use else "" for i in range(count)]
    return [
        Request(id=str(i), prompt=words(rng, 64), max_tokens=32, model=name or TARGET, parameters={"adapter": name})
        for i, name in enumerate(names)
    ]


def _multi_lora(quick: bool) -> list[Setup]:
    slots, count = 2, 4 if quick else 8
    runs = tuple(
        Run(
            name=f"adapters-{in_use}",
            draw=functools.partial(_adapter_burst, in_use=in_use, count=count),
            parameters={"adapters_in_use": in_use, "slots": slots, "count": count, "rank": ADAPTER_RANK},
        )
        for in_use in ((1, 3) if quick else (0, 1, 2, 3, 4, 8))
    )
    start = _vllm("adapters", NO_PREFIXES, *_budget(BUDGET), *_adapters(slots=slots, on_host=ADAPTERS))
    return [Setup(name="two-slots", start=start, runs=runs)]


# --- the same work through two engines


def _engines(quick: bool) -> list[Setup]:
    count, per_s, prompt, output = (4, 2.0, (32, 64), (16, 16)) if quick else (12, 1.0, (32, 96), (24, 32))
    parameters = {"count": count, "per_s": per_s, "prompt": list(prompt), "output": list(output)}
    draw = functools.partial(_load, count=count, per_s=per_s, prompt=prompt, output=output)
    setups = []
    for dtype in ("bfloat16", "float32"):
        for engine in ("vllm", "transformers"):
            name = f"{engine}-{dtype}"
            starts = {
                "vllm": _vllm(name, NO_PREFIXES, *_budget(BUDGET), "--dtype", dtype),
                "transformers": functools.partial(engines.transformers, name, dtype, BUDGET),
            }
            run = Run(name="load", draw=draw, parameters=parameters | {"engine": engine, "dtype": dtype})
            setups.append(Setup(name=name, start=starts[engine], runs=(run,)))
    return setups


RECORDINGS = (
    Recording(
        name="chunked_prefill",
        title="A long prompt among streaming requests, at five token budgets and without chunking",
        minutes=11,
        setups=_chunked_prefill,
    ),
    Recording(
        name="arrivals", title="Open-loop Poisson arrivals up to and past saturation", minutes=6, setups=_arrivals
    ),
    Recording(name="steps", title="Prefill and decode step times over a grid", minutes=2.5, setups=_steps),
    Recording(name="speculation", title="Speculative decoding with a real draft", minutes=5.5, setups=_speculation),
    Recording(name="tail", title="One injected cause at a time behind a slow tail", minutes=5.5, setups=_tail),
    Recording(name="cold_start", title="Every phase of a cold start, cold and warm", minutes=7, setups=None),
    Recording(name="prefix", title="Prefix caching, cold, warm and half warm", minutes=1.5, setups=_prefix),
    Recording(name="adapters", title="More adapters than slots", minutes=1.5, setups=_multi_lora),
    Recording(name="engines", title="The same work through two engines", minutes=4.5, setups=_engines),
)
