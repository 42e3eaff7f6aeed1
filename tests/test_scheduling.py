"""Schedules: vLLM's own, step by step."""

import gzip
import json
from pathlib import Path

import pytest

from calc.scheduling import Request, Scheduler, SchedulerConfig

FIXTURES = Path(__file__).parent / "fixtures"
SCENARIOS = ("cont_batch_2slots", "chunked_2048", "chunked_512", "chunked_off", "prefix_cache", "preempt", "spec_k3")
RANDOM = json.loads(gzip.decompress((FIXTURES / "vllm_0.32.0_random_schedules.json.gz").read_bytes()))["scenarios"]


def recorded(name):
    return json.loads((FIXTURES / f"vllm_0.32.0_{name}.json").read_text())


# The seven scenarios tell their requests in words; here they are as lists of (first step, request).
PREFIX = list(range(1000))
DECODERS = [(0, Request(f"d{i}", 100, output)) for i, output in enumerate([60, 60, 60])]
WORKLOADS = {
    "cont_batch_2slots": [(0, Request("A", 10, 3)), (0, Request("B", 20, 6)), (0, Request("C", 30, 4))],
    "chunked_2048": [*DECODERS, (2, Request("long", 20_000, 3))],
    "chunked_512": [*DECODERS, (2, Request("long", 20_000, 3))],
    "chunked_off": [*((0, Request(f"d{i}", 100, 12)) for i in range(3)), (2, Request("long", 20_000, 3))],
    "prefix_cache": [
        (0, Request("p0", [*PREFIX, *range(2000, 2050)], 3)),
        (1, Request("p1", [*PREFIX, *range(3000, 3050)], 3)),
        (6, Request("p2", [*PREFIX, *range(2000, 2050)], 2)),
        (6, Request("p3", PREFIX, 2)),
        (9, Request("p4", PREFIX[:992], 2)),
    ],
    "preempt": [(0, Request("A", 100, 60)), (0, Request("B", 100, 60)), (0, Request("C", 90, 60))],
    "spec_k3": [(0, Request("S", 50, 21))],
}


def config_of(record, extra):
    given = record["config"]
    return SchedulerConfig(
        blocks=given["num_blocks"],
        block_tokens=given["block_size"],
        token_budget=given["max_num_batched_tokens"],
        sequences=given["max_num_seqs"],
        chunked_prefill=given["chunked_prefill"],
        policy=given["policy"],
        prefix_caching=given["prefix_caching"],
        **extra,
    )


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_recorded_field_equals_vllm(name):
    record = recorded(name)
    accepted = (3, 0, 2, 1)
    scheduler = Scheduler(
        config_of(record, {"draft_tokens": 3} if name == "spec_k3" else {}),
        lambda step, request, drafts: [9] * min(drafts, accepted[step % 4]) + [7],
    )
    arrivals = list(WORKLOADS[name])
    for expected in record["steps"]:
        while arrivals and arrivals[0][0] <= expected["step"]:
            scheduler.add(arrivals.pop(0)[1])
        step = scheduler.step()
        got = {
            "step": step.index,
            "total": step.tokens,
            "scheduled": {row.name: row.tokens for row in step.rows},
            "computed_before": {row.name: row.computed for row in step.rows},
            "cached_hit": {row.name: row.hit for row in step.rows if row.hit is not None and not row.resumed},
            "resumed": [row.name for row in step.rows if row.resumed],
            "preempted": list(step.preempted),
            "running": list(step.running),
            "waiting": step.waiting,
            "blocks": {row.name: row.blocks for row in step.rows},
            "free_blocks": step.free_blocks,
            "sampled": {row.name: row.sampled for row in step.rows},
            "finished": list(step.finished),
        }
        if "spec" in expected:
            got["spec"] = {row.name: row.drafts for row in step.rows if row.drafts}
        assert got == expected


def prompt_of(request, requests):
    """The recording's own rule for the content of prompts."""
    if request.get("same_as") is not None:
        return prompt_of(requests[request["same_as"]], requests)
    bases = [
        1000 + request["prefix_id"] if i < request["prefix_len"] else request["i"] for i in range(request["prompt"])
    ]
    return [100 + (base * 7919 + i) % 5000 for i, base in enumerate(bases)]


def replay(scenario):
    given, drafts_offered = scenario["cfg"], scenario["cfg"]["spec_k"]
    config = SchedulerConfig(
        blocks=given["num_blocks"],
        block_tokens=given["block_size"],
        token_budget=given["max_num_batched_tokens"],
        sequences=given["max_num_seqs"],
        chunked_prefill=given["enable_chunked_prefill"],
        long_prefill_threshold=given["long_prefill_token_threshold"],
        adaptive_threshold=given["long_prefill_token_threshold_adaptive"],
        policy=given["policy"],
        prefix_caching=given["prefix_caching"],
        reserve_prompt=given["scheduler_reserve_full_isl"],
        watermark=given["watermark"],
        max_positions=given["max_model_len"],
        draft_tokens=drafts_offered,
    )

    def sampler(step, request, drafts):
        return [9] * min(drafts, (3 * step + 5 * request.name) % (drafts_offered + 1)) + [7]

    scheduler = Scheduler(config, sampler)
    by_name = {r["i"]: r for r in scenario["requests"]}
    arrivals = sorted(scenario["requests"], key=lambda r: (r["step"], r["i"]))
    for number in range(len(scenario["steps"])):
        while arrivals and arrivals[0]["step"] <= number:
            r = arrivals.pop(0)
            scheduler.add(Request(r["i"], prompt_of(r, by_name), r["out"], arrival_s=r["step"], priority=r["priority"]))
        yield scheduler.step()


@pytest.mark.parametrize("scenario", RANDOM, ids=lambda s: f"random-{s['id']}")
def test_random_schedules_equal_vllm(scenario):
    for step, expected in zip(replay(scenario), scenario["steps"], strict=True):
        got = {
            "t": step.index,
            "tot": step.tokens,
            "s": [[row.name, row.tokens, row.computed, row.blocks] for row in step.rows],
            "new": [[row.name, row.hit] for row in step.rows if row.hit is not None and not row.resumed],
            "run": list(step.running),
            "wait": step.waiting,
            "free": step.free_blocks,
            "smp": [[row.name, row.sampled] for row in step.rows if row.sampled],
            "free_after": step.free_after,
        }
        optional = {
            "res": sorted(row.name for row in step.rows if row.resumed),
            "pre": sorted(step.preempted),
            "spec": [[row.name, row.drafts] for row in step.rows if row.drafts],
            "pad": [row.name for row in step.rows if row.padded],
            "fin": list(step.finished),
        }
        appended = [[row.name, row.appended] for row in step.rows if row.sampled]
        optional["app"] = appended if appended != got["smp"] else []
        assert got | {key: value for key, value in optional.items() if value} == expected
