"""What the scheduler's quick way costs: a public trace on one core, and the growth to a million requests.

    python tools/bench_scheduling.py [trace.csv]

The trace is AzureLLMInferenceTrace_conv.csv of the Azure LLM inference dataset 2023. Without it, as many requests
are drawn from the quantiles of its lengths in data/length_tables.json.
"""

from __future__ import annotations

import math
import random
import resource
import sys
import time
from collections.abc import Sequence

from calc.scheduling import Affine, Request, SchedulerConfig, from_trace, run, simulate
from calc.sources import load_json
from calc.units import format_bytes
from calc.workload import read_azure

REFERENCE = 860  # requests per CPU-second of the iteration-level simulator that the target was set against
SIZES = (20_000, 100_000, 1_000_000)
SAMPLE = 500
# assumed: eight accelerators' worth of a 70B model, loaded so that requests queue at times
CONFIG = SchedulerConfig(blocks=6_000, token_budget=2_048, sequences=256)
MODEL = Affine(base_s=0.008, prefill_token_s=6e-5, decode_sequence_s=5e-5, cached_token_s=2e-8)


def drawn(requests: Sequence[Request], count: int, seed: int = 1) -> list[Request]:
    """So many requests with the lengths of these, arriving at their mean rate as a Poisson process."""
    rng, now, drawn = random.Random(seed), 0.0, []
    rate = len(requests) / max(request.arrival_s for request in requests)
    for i in range(count):
        now += rng.expovariate(rate)
        like = rng.choice(requests)
        drawn.append(Request(i, like.prompt, like.output, now))
    return drawn


def from_table(seed: int = 1) -> list[Request]:
    """A workload as long as the trace, from the quantiles of its lengths."""
    table, rng = load_json("length_tables.json")["azure_2023_conversation"], random.Random(seed)
    prompts, outputs, count = table["prompt_tokens"], table["output_tokens"], table["requests"]
    times = sorted(rng.uniform(0, table["span_s"]) for _ in range(count))
    return [Request(i, rng.choice(prompts), rng.choice(outputs), at) for i, at in enumerate(times)]


def cpu_s(requests: Sequence[Request], repeats: int = 1) -> float:
    """CPU time of one simulation, the least of some."""
    spent = []
    for _ in range(repeats):
        began = time.process_time()
        simulate(requests, CONFIG, MODEL)
        spent.append(time.process_time() - began)
    return min(spent)


def bench(trace: str | None = None) -> None:
    """Print requests per CPU-second, peak memory and the growth exponent."""
    requests = from_trace(read_azure(trace)) if trace else from_table()
    name = "the Azure 2023 conversation trace" if trace else "lengths like those of the Azure 2023 conversation trace"
    spent = cpu_s(requests, repeats=5)
    rate = len(requests) / spent
    print(f"{len(requests):,} requests, {name}: {spent:.2f} s of CPU, {rate:,.0f} requests per CPU-second")
    print(f"  {rate / REFERENCE:.0f} × the {REFERENCE} of the simulator it is compared with")
    began = time.process_time()
    run(requests[:SAMPLE], CONFIG, MODEL)
    print(f"  {rate * (time.process_time() - began) / SAMPLE:.0f} × step by step, from the first {SAMPLE}")
    times = {}
    for count in SIZES:
        many = drawn(requests, count)
        times[count] = cpu_s(many)
        print(f"{count:,} requests: {times[count]:.2f} s of CPU, {count / times[count]:,.0f} per CPU-second")
    exponent = math.log(times[SIZES[-1]] / times[SIZES[0]]) / math.log(SIZES[-1] / SIZES[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"growth exponent {exponent:.2f}; peak memory of the process {format_bytes(peak)}")


if __name__ == "__main__":
    bench(*sys.argv[1:2])
