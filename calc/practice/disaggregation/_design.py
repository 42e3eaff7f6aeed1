"""The open question of the chapter."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import disaggregation as d
from calc import hardware, models, queueing
from calc.practice._problem import Problem
from calc.practice.disaggregation._model import FLEET
from calc.sources import load_json
from calc.units import counted, format_percent, format_seconds, significant

EFFICIENCY = {"prefill_efficiency": 0.5, "read_efficiency": 0.7, "overlap": 0.93}  # assumed, as in the chapter
MEMORY = {"memory_fraction": 0.9, "other_bytes": 3 * 1024**3}
RANKS = 4
LARGEST = 512  # sequences in a step
WIRE = 0.8  # of a link's speed, with large pieces
DESCRIPTOR_US = 2.4


def _solution(n: Numbers) -> list[str]:
    prompts = queueing.typical_lengths(load_json("length_tables.json")["azure_2023_conversation"]["prompt_tokens"])
    model, chip = models.load(n.model), hardware.accelerator(n.chip)
    one = d.worker(model, chip, ranks=RANKS, prompts=prompts, **EFFICIENCY, **MEMORY)
    way = d.Handoff(wire_rate=WIRE * n.gbit * 1e9 / 8, descriptor_s=DESCRIPTOR_US / 1e6, control_s=0.05)
    prompt_s = one.prompt_s(n.prompt)
    held = n.prompt + n.output / 2  # positions of a sequence half way through
    sizes = range(1, LARGEST + 1)
    batch = max((b for b in sizes if one.decode_s(b, b * held) <= n.pace / 1000), default=1)
    step_s = one.decode_s(batch, batch * held)
    decode_s = n.output * step_s / batch
    ratio = d.prefill_per_decode(prompt_s=prompt_s, decode_s=decode_s)
    moved = way.exposed_s(one, n.prompt)
    load = queueing.offered_load(arrival_rate=n.rate, service_s=prompt_s + decode_s)
    return [
        f"On {RANKS} × {chip.name} at {format_percent(EFFICIENCY['prefill_efficiency'], 4)} of the floor's rate, "
        f"assumed, a prompt takes {format_seconds(float(f'{prompt_s:.3g}'))}. As many sequences as the pace allows are "
        f"{batch}, in a step of {format_seconds(float(f'{step_s:.3g}'))}, if the cache has room for them.",
        f"Balanced are {significant(ratio, 2)} prefill workers for each that decodes. Before anybody waits, the load "
        f"is {significant(load, 3)} workers.",
        f"A handoff moves the cache in {format_seconds(float(f'{moved:.3g}'))} in "
        f"{counted(way.pieces(one, n.prompt), 'descriptor')}, of which the wire is "
        f"{format_percent(n.prompt * one.rank_bytes / way.wire_rate / moved, 2)}.",
        "Both designs then go through the simulator with real lengths: the pool with its best budget, the split with "
        "its best ratio, counted by requests inside both limits.",
        "Say yes if the share that your engine's step hides is below the one where the two cross, and the 95% interval "
        "of the difference lies above zero at your load. Otherwise keep the pool.",
    ]


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
        f"{n.output} output tokens on average. First tokens must come within {n.first} ms, the others at {n.pace} ms "
        f"each. You have nodes of eight {hardware.accelerator(n.chip).name} with {n.gbit} Gbit/s for each GPU, "
        f"{format_percent(WIRE)} of it reached with large pieces, and posting a descriptor takes {DESCRIPTOR_US} µs. A "
        "colleague wants to split prefill from decode. What do you measure, what do you compute, and what "
        "would make you say yes?"
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
