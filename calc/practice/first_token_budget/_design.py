"""The open question of the chapter."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import hardware, models
from calc import queueing as q
from calc.practice._problem import Problem
from calc.practice.first_token_budget._model import SMALLEST
from calc.sources import load_json
from calc.units import counted, format_percent, format_seconds, significant

EFFICIENCY = 0.5  # assumed
RANKS = 4
NODE = 8  # GPUs


def _times(n: Numbers, hit: float) -> tuple[float, ...]:
    table = load_json("length_tables.json")["azure_2023_conversation"]["prompt_tokens"]
    return q.prefill_times(
        models.load(n.model),
        hardware.accelerator(n.chip),
        ranks=RANKS,
        prompts=q.typical_lengths(table),
        hit_share=hit,
        efficiency=EFFICIENCY,
    )


def _solution(n: Numbers) -> list[str]:
    cold, warm, share = _times(n, 0.0), _times(n, n.hit / 100), n.warm / 100
    parts = {"cold_s": cold, "warm_s": warm, "warm_share": share, "fixed_s": 0.05, "jitter_s": 0.01}
    needed = q.fewest_replicas(arrival_rate=n.rate, limit_s=n.limit / 1000, target_share=0.95, **parts)
    mean = q.mixed_seconds(warm_share=share, cold_s=sum(cold) / len(cold), warm_s=sum(warm) / len(warm))
    chip = hardware.accelerator(n.chip).name
    if needed is None:
        enough = f"Even an idle replica of {RANKS} is late too often: take more GPUs for each."
    else:
        half = q.fewest_replicas(arrival_rate=n.rate / 2, limit_s=n.limit / 1000, target_share=0.95, **parts)
        busy = q.utilization(arrival_rate=n.rate, service_s=mean, servers=needed)
        enough = (
            f"By the formula {counted(needed, 'replica')} of {RANKS} × {chip} keep 95% inside the limit, busy "
            f"{format_percent(busy)} of the time with prompts. Hold that against a simulation with "
            "decoding beside it. One more stands in for a lost one: "
            f"{counted(-(-RANKS * (needed + 1) // NODE), 'node')} of {NODE} GPUs. Most of the day, at half "
            f"the rate, {counted(half, 'replica')} will do, so the rest can serve other work."
        )
    return [
        f"With lengths like a public trace's and {format_percent(EFFICIENCY, 4)} of the floor's rate, assumed, the "
        f"mean prefill on {RANKS} × {chip} is {format_seconds(mean)}: a load of {significant(n.rate * mean, 3)} "
        "replicas before anybody waits.",
        enough,
        "Then the cache: Little's law gives the requests in progress and the positions that they hold.",
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
