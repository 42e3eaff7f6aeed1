"""The open question of the chapter."""

from __future__ import annotations

from math import ceil
from types import SimpleNamespace as Numbers

from calc import disaggregation as d
from calc import hardware, models, queueing
from calc.practice._problem import Problem
from calc.practice.disaggregation._model import FLEET
from calc.sources import load_json
from calc.units import counted, format_percent, format_seconds, significant
from calc.working import Working, working

EFFICIENCY = {"prefill_efficiency": 0.5, "read_efficiency": 0.7, "overlap": 0.93}  # assumed, as in the chapter
MEMORY = {"memory_fraction": 0.9, "other_bytes": 3 * 1024**3}
RANKS = 4
NODE = 8  # GPUs
LARGEST = 512  # sequences in a step
WIRE = 0.8  # of a link's speed, with large pieces
DESCRIPTOR_US = 2.4
CONTROL_S = 0.05
BUSY = 0.8  # share of the time that a worker may be busy


def _solution(n: Numbers) -> list[str | Working]:
    prompts = queueing.typical_lengths(load_json("length_tables.json")["azure_2023_conversation"]["prompt_tokens"])
    model, chip = models.load(n.model), hardware.accelerator(n.chip)
    one = d.worker(model, chip, ranks=RANKS, prompts=prompts, **EFFICIENCY, **MEMORY)
    way = d.Handoff(wire_rate=WIRE * n.gbit * 1e9 / 8, descriptor_s=DESCRIPTOR_US / 1e6, control_s=CONTROL_S)
    prompt_s = one.prompt_s(n.prompt)
    held = n.prompt + n.output / 2  # positions of a sequence half way through
    room = 16 * (one.blocks - 1) // (n.prompt + n.output)
    sizes = range(1, min(LARGEST, room) + 1)
    batch = max((b for b in sizes if one.decode_s(b, b * held) <= n.pace / 1000), default=1)
    step_s = one.decode_s(batch, batch * held)
    decode_s = n.output * step_s / batch
    ratio = d.prefill_per_decode(prompt_s=prompt_s, decode_s=decode_s)
    moved = way.exposed_s(one, n.prompt)
    prefill, decode = (ceil(n.rate * seconds / BUSY) for seconds in (prompt_s, decode_s))
    workers = prefill + decode
    first_s = d.handed_first_token(
        queued_s=0, prompt_s=prompt_s, exposed_s=moved + CONTROL_S, decode_wait_s=step_s / 2, step_s=step_s, out_s=0
    )
    return [
        f"On {RANKS} × {chip.name} a prompt takes {_short(prompt_s)}. {counted(batch, 'sequence')} decode in a step of "
        f"{_short(step_s)}, as many as pace and cache allow.",
        f"Balanced are {significant(ratio, 2)} prefill workers for each that decodes. With each busy "
        f"{format_percent(BUSY)} of the time at most, assumed, {prefill} prefill and {decode} decode: "
        f"{counted(workers * RANKS, 'GPU')}. {_nodes(workers)}",
        f"A handoff moves the cache in {_short(moved)}, with {counted(way.pieces(one, n.prompt), 'descriptor')} to "
        f"post; its bytes are on the wire for {format_percent(n.prompt * one.rank_bytes / way.wire_rate / moved, 2)} "
        f"of that time. With control, and a step "
        f"and a half on the decode worker, a first token takes {_short(first_s)} before anybody waits; the limit is "
        f"{n.first:,} ms.",
        *_decision(n, one, prompt_s, prefill, workers, first_s),
        "Both designs then go through the simulator with real lengths: the pool with its best budget, the split with "
        "its best ratio, counted by requests inside both limits. A 95% interval of their difference on the other side "
        "of zero overturns this too.",
    ]


def _decision(
    n: Numbers, one: d.Worker, prompt_s: float, prefill: int, workers: int, first_s: float
) -> list[str | Working]:
    """The pool computes as many prompts beside its decode steps if a step hides enough."""
    pace = n.pace / 1000
    beside = n.rate * n.output * pace / workers  # Little's law
    step_s = one.decode_s(beside, beside * (n.prompt + n.output / 2))
    chunk_s = pace * prefill / workers
    told = (
        f"In one pool of these {workers}, {n.rate} · {n.output} · {n.pace} ms / {workers} = {significant(beside, 3)} "
        f"sequences decode on each, {_short(step_s)} a step alone. To compute as many prompts as the split could, "
        f"steps of {n.pace} ms must hold {n.pace} ms · {prefill} / {workers} = {_short(chunk_s)} of prompt each."
    )
    hides = format_percent(EFFICIENCY["overlap"])
    if first_s > n.first / 1000:
        return [
            told,
            "Decision: keep one pool. The split is late before anybody waits; a shorter handoff overturns it.",
        ]
    if chunk_s + step_s <= pace:
        return [told, "Decision: keep one pool. Its steps have time for both in turn, and need to hide nothing. Longer "
                "prompts or a shorter limit on the pace overturn it."]  # fmt: skip
    given = {"prompt_s": _digits(chunk_s), "step_s": _digits(step_s), "mixed_s": pace}
    least = format_percent(d.overlap_share(**given), 2)
    kept = d.overlap_share(**given) < EFFICIENCY["overlap"]
    return [
        told,
        working(d.overlap_share, **given),
        f"At {least} of the shorter job hidden the pool has as much room for prompts as the split. "
        f"{_keeps_up(n, prompt_s, workers, step_s)} By this guess it turns at {least}; the simulator decides.",
        f"Decision: {'keep one pool' if kept else 'split'}. The chapter assumes {hides}, from published steps. What "
        f"overturns it: steps of your engine that hide {'less' if kept else 'more'} than {least}.",
    ]


def _keeps_up(n: Numbers, prompt_s: float, workers: int, step_s: float) -> str:
    """What the load itself needs hidden, which is less than what the split has room for."""
    pace = n.pace / 1000
    busy = n.rate * prompt_s / workers
    hidden = "with nothing hidden"
    if busy * pace + step_s > pace:
        needs = d.overlap_share(prompt_s=busy * pace, step_s=step_s, mixed_s=pace)
        hidden = f"from {format_percent(needs, 2)} hidden on"
    return (
        f"The load itself takes {n.rate} · {_short(prompt_s)} / {workers} = {format_percent(busy, 2)} of the time, "
        f"{_short(busy * pace)} of a step, so the pool keeps up {hidden}."
    )


def _nodes(workers: int) -> str:
    """What is bought for them, for nobody sells half a node."""
    nodes = ceil(workers * RANKS / NODE)
    room = nodes * NODE // RANKS - workers
    return f"In nodes of eight that is {nodes}" + (f", with room for {counted(room, 'worker')} more." if room else ".")


def _digits(seconds: float) -> float:
    return float(f"{seconds:.3g}")


def _short(seconds: float) -> str:
    return format_seconds(_digits(seconds))


split_or_not = Problem(
    id="disaggregation/split-or-not",
    title="Split or not",
    level="design",
    step=FLEET,
    printed={
        "model": "qwen2.5-72b",
        "chip": "h200-sxm",
        "rate": 22,
        "prompt": 2500,
        "output": 250,
        "first": 800,
        "pace": 25,
        "gbit": 400,
    },
    choices={
        "model": ("qwen2.5-72b", "llama-3.1-70b"),
        "chip": ("h200-sxm", "h100-sxm"),
        "rate": (8, 22, 40),
        "prompt": (1200, 2500, 6000),
        "output": (150, 250, 600),
        "first": (800, 2000),
        "pace": (25, 50),
        "gbit": (100, 400),
    },
    ask=lambda n: (
        f"An assistant on {models.load(n.model).name} gets {n.rate} requests a second, {n.prompt:,} prompt tokens and "
        f"{n.output} output tokens on average. First tokens must come within {n.first:,} ms, the others at {n.pace} ms "
        f"each. You have nodes of eight {hardware.accelerator(n.chip).name} with {n.gbit} Gbit/s for each GPU, "
        f"{format_percent(WIRE)} of it reached with large pieces, and posting a descriptor takes {DESCRIPTOR_US} µs. "
        f"Take prefill at {format_percent(EFFICIENCY['prefill_efficiency'])} of its floor's rate, decode steps at "
        f"{format_percent(EFFICIENCY['read_efficiency'])} of the bandwidth, and {format_seconds(CONTROL_S)} for the "
        "messages of a handoff. A colleague wants to split prefill from decode. What do you measure, what do you "
        "compute, and what would make you say yes?"
    ),
    checklist=lambda n: [
        "States both limits and counts requests that keep both, for each GPU and hour.",
        "Compares with one pool whose token budget is tuned, on the same GPUs and the same requests.",
        "Measures a step with prompt and decode tokens against each alone: how much of the shorter one is hidden.",
        "Follows one handoff with clocks: prompt, pieces, wire, control, wait for a step, first step.",
        "Counts descriptors and asks how many blocks or layers can be joined, before buying a faster link.",
        "Asks whether layers are sent while later ones are computed, and whether the first token is computed twice.",
        "Searches the ratio for the traffic's prompts and outputs, and says what happens when their mix shifts.",
        "Sweeps the load: where the pool is ahead, where the split is, and how far the limits move the crossing.",
        "Checks the room for caches on both sides, and what waits when the decode side is full.",
        "Plans for a lost worker: in a split it may be the only one of its kind.",
        "Says what would change the decision: longer prompts, another limit, a model with a smaller cache.",
    ],
    hint="Worker time of a request on each side, the ratio, the handoff; then both pools through the simulator.",
    solution=_solution,
)
