"""The open question of the chapter."""

from __future__ import annotations

from types import SimpleNamespace as Numbers
from typing import Any

from calc import hardware, models
from calc import queueing as q
from calc.capacity import plan
from calc.parallel import Parallel
from calc.practice._problem import Problem
from calc.practice.first_token_budget._model import SMALLEST
from calc.sources import load_json
from calc.units import UNITS, counted, format_bytes, format_percent, format_seconds, significant

EFFICIENCY, LESS = 0.5, 0.4  # share of the floor's rate: assumed, and what would overturn the answer
FIXED_S, JITTER_S = 0.05, 0.01  # outside of the engine, assumed
MEMORY = {"fraction": 0.9, "activation_bytes": 3 * UNITS["GiB"].factor}  # assumed, as in the chapter
HELD = 1200 + 300  # positions of a request in progress, about the trace's
RANKS = 4
NODE = 8  # GPUs


def _times(n: Numbers, hit: float, efficiency: float) -> tuple[float, ...]:
    table = load_json("length_tables.json")["azure_2023_conversation"]["prompt_tokens"]
    return q.prefill_times(
        models.load(n.model),
        hardware.accelerator(n.chip),
        ranks=RANKS,
        prompts=q.typical_lengths(table),
        hit_share=hit,
        efficiency=efficiency,
    )


def _parts(n: Numbers, efficiency: float = EFFICIENCY) -> dict[str, Any]:
    cold, warm = (_times(n, hit, efficiency) for hit in (0.0, n.hit / 100))
    return {"cold_s": cold, "warm_s": warm, "warm_share": n.warm / 100, "fixed_s": FIXED_S, "jitter_s": JITTER_S}


def _needed(n: Numbers, rate: float, efficiency: float = EFFICIENCY) -> int | None:
    given = {"limit_s": n.limit / 1000, "target_share": 0.95}
    return q.fewest_replicas(arrival_rate=rate, **given, **_parts(n, efficiency))


def _positions(n: Numbers) -> int:
    total = hardware.accelerator(n.chip).program_bytes.value
    return 16 * plan(models.load(n.model), Parallel(tensor=RANKS), total_bytes=total, **MEMORY).blocks


def _solution(n: Numbers) -> list[str]:
    parts, needed = _parts(n), _needed(n, n.rate)
    cold, warm = (sum(parts[kind]) / len(parts[kind]) for kind in ("cold_s", "warm_s"))
    mean = q.mixed_seconds(warm_share=n.warm / 100, cold_s=cold, warm_s=warm)
    chip = hardware.accelerator(n.chip).name
    lines = [
        f"With lengths like a public trace's, {format_percent(EFFICIENCY, 4)} of the floor's rate, and "
        f"{format_seconds(FIXED_S)} outside of the engine with {format_seconds(JITTER_S)} at random on top, all "
        f"assumed, the mean prefill on {RANKS} × {chip} is {format_seconds(mean)}: a load of "
        f"{significant(n.rate * mean, 3)} replicas before anybody waits."
    ]
    if needed is None:
        return [*lines, f"Even an idle replica of {RANKS} is late too often. Decision: more GPUs for each."]
    busy = q.utilization(arrival_rate=n.rate, service_s=mean, servers=needed)
    stay = q.little_time(number=_positions(n) / HELD, arrival_rate=n.rate / needed)
    nodes = -(-RANKS * (needed + 1) // NODE)
    bought, slower = NODE * nodes // RANKS, _needed(n, n.rate, LESS)
    more = "no number of replicas keeps the limit" if slower is None else f"it takes {counted(slower, 'replica')}"
    enough = slower is not None and slower < bought
    left = bought - NODE // RANKS
    whole = (
        f"and a whole node of {NODE // RANKS} too"
        if left >= needed
        else f"but not a whole node of {NODE // RANKS}: that takes one more node"
    )
    return [
        *lines,
        f"By the formula {counted(needed, 'replica')} of {RANKS} × {chip} {'keeps' if needed == 1 else 'keep'} 95% "
        f"inside the limit, busy {format_percent(busy)} of the time with prompts. At half the rate "
        f"{_needed(n, n.rate / 2)} will do.",
        f"With {format_percent(MEMORY['fraction'])} of each GPU's memory used and "
        f"{format_bytes(MEMORY['activation_bytes'])} of it left for activations, both assumed, a replica's cache has "
        f"room for {_positions(n):,} positions. With about {HELD:,} in each request, assumed, Little's law lets one "
        f"stay {format_seconds(float(f'{stay:.2g}'))}; "
        + ("so the cache does not decide." if stay > 30 else "hold that against the stay that the simulation gives."),
        f"Decision: buy {counted(nodes, 'node')} of {NODE} GPUs, {counted(bought, 'replica')}, where "
        f"{needed} will do. So one replica may be lost, {whole}. Off the peak the spare ones serve "
        "other work.",
        f"What overturns it: prefill that reaches {format_percent(LESS)} of its floor's rate. Then {more}, "
        + ("which these nodes still hold with one replica lost" if enough else "too many once a replica is lost")
        + ". And a simulation with decoding in the same steps, in which fewer than 95% are in time.",
    ]


smallest = Problem(
    id="first_token_budget/smallest",
    title="The smallest fleet",
    level="design",
    step=SMALLEST,
    printed={"model": "qwen2.5-72b", "chip": "h200-sxm", "rate": 35, "limit": 800, "warm": 60, "hit": 75},
    choices={
        "model": ("qwen2.5-72b", "llama-3.1-70b"),
        "chip": ("h200-sxm", "h100-sxm"),
        "rate": (10, 35, 80),
        "limit": (800, 1500),
        "warm": (30, 60),
        "hit": (50, 75),
    },
    ask=lambda n: (
        f"A support assistant on {models.load(n.model).name} gets {n.rate} requests a second at its peak, half of that "
        f"most of the day. {n.warm}% of the prompts begin with a cached prefix that covers {n.hit}% of them. 95% of "
        f"the first tokens must come within {n.limit} ms, measured in the client. You can have nodes of eight "
        f"{hardware.accelerator(n.chip).name}. What do you measure first, what do you buy, and what do you watch?"
    ),
    checklist=lambda n: [
        "Says where the clock starts and stops, and puts one at every hop before it blames any.",
        "Takes the parts apart request by request, shows what no clock covers, and adds no percentiles.",
        "Measures prefill over prompt length on one replica, instead of trusting a floor or a data sheet.",
        "Draws lengths, and cold and warm prompts, from real traffic, correlations included.",
        "Checks three capacities: computing prompts, the cache's room, and the limit on the wait.",
        "Simulates the shortlist with decoding in the same steps, long enough for the percentile, with an interval.",
        "Weighs GPUs per replica: fewer make prefill slow and the cache small, more leave GPUs idle in a small fleet.",
        "Routes by prefix or by queue, and says what random routing costs.",
        "Sizes for the peak and the loss of a replica, and says what breaks first when the load grows.",
        "Watches the share inside the limit for cold and warm prompts apart, the queue's time and the cache's room.",
    ],
    hint="Mean prefill, load, wait: then the share inside the limit, for both populations together.",
    solution=_solution,
)
