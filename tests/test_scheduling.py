"""Schedules: equal to vLLM's own, step by step."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from calc.scheduling import Affine, Request, Scheduler, SchedulerConfig, SchedulingError, run, run_closed, simulate

FIXTURES = Path(__file__).parent / "fixtures"
SCENARIOS = ("cont_batch_2slots", "chunked_2048", "chunked_512", "chunked_off", "prefix_cache", "preempt", "spec_k3")


def recorded(name):
    return json.loads((FIXTURES / f"vllm_0.32.0_{name}.json").read_text())


# The seven scenarios tell their requests in words; here they are as lists of (first step, request).
PREFIX = list(range(1000))
DECODERS = [(0, Request(f"d{i}", 100, 60)) for i in range(3)]
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


# --- random schedules, recorded with tools/record_schedules.py and a script like it ---

FILES = ("random_schedules", "more_schedules")
RANDOM = [
    pytest.param(scenario, id=f"{name}-{scenario['id']}")
    for name in FILES
    for scenario in json.loads(gzip.decompress((FIXTURES / f"vllm_0.32.0_{name}.json.gz").read_bytes()))["scenarios"]
]


def prompt_of(request, requests):
    """The content of a prompt, by the recording's own rule."""
    if request.get("same_as") is not None:
        return prompt_of(requests[request["same_as"]], requests)
    prefix, length = request["prefix_id"], request["prefix_len"]
    bases = (1000 + prefix if i < length else request["i"] for i in range(request["prompt"]))
    return [100 + (base * 7919 + i) % 5000 for i, base in enumerate(bases)]


def scheduler_of(given):
    k, drafter = given["spec_k"], given.get("drafter")
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
        draft_tokens=k,
        draft_slots=k if drafter in ("eagle", "draft_model") else 0,
        draft_rows=int(drafter == "draft_model"),
        dropped_blocks=int(drafter == "eagle"),
        adapters=given.get("max_loras"),
    )
    return Scheduler(config, lambda step, r, drafts: [9] * min(drafts, (3 * step + 5 * r.name) % (k + 1)) + [7])


def replay(scenario):
    """Each step and the blocks of those who still run after it."""
    scheduler = scheduler_of(scenario["cfg"])
    by_name = {r["i"]: r for r in scenario["requests"]}
    arrivals = sorted(scenario["requests"], key=lambda r: (r["step"], r["i"]))
    for number in range(len(scenario["steps"])):
        while arrivals and arrivals[0]["step"] <= number:
            r = arrivals.pop(0)
            scheduler.add(
                Request(
                    r["i"],
                    prompt_of(r, by_name),
                    r["out"],
                    arrival_s=r["step"] + r["i"] / 1e6,
                    priority=r["priority"],
                    adapter=r.get("adapter"),
                    salt=r.get("salt"),
                )
            )
        step = scheduler.step()
        yield step, {str(live.request.name): live.table.blocks for live in scheduler.running}


@pytest.mark.parametrize("scenario", RANDOM)
def test_random_schedules_equal_vllm(scenario):
    for (step, tables), expected in zip(replay(scenario), scenario["steps"], strict=True):
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
        appended = [[row.name, row.appended] for row in step.rows if row.sampled]
        optional = {
            "res": sorted(row.name for row in step.rows if row.resumed),
            "pre": sorted(step.preempted),
            "spec": [[row.name, row.drafts] for row in step.rows if row.drafts],
            "pad": [row.name for row in step.rows if row.padded],
            "app": appended if appended != got["smp"] else [],
            "fin": list(step.finished),
        }
        if "ids" in expected:  # the very blocks, not only how many
            text = json.dumps(tables, separators=(",", ":"))
            optional["ids"] = hashlib.sha1(text.encode()).hexdigest()[:12]
        assert got | {key: value for key, value in optional.items() if value} == expected


def test_the_recordings_hold_what_they_should():
    """A schedule without preemption, hits, drafts, padding and waiting would prove little."""
    steps = [step for scenario in RANDOM for step in scenario.values[0]["steps"]]
    assert sum(len(step.get("pre", ())) for step in steps) > 100
    assert sum(hit for step in steps for _, hit in step["new"]) > 10_000
    for key in ("spec", "pad", "app", "res"):
        assert any(key in step for step in steps)


# --- misuse ---


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"blocks": 1}, "blocks is 1"),
        ({"token_budget": 0}, "token_budget is 0"),
        ({"sequences": 2.5}, "sequences is 2.5"),
        ({"policy": "lifo"}, "fcfs or priority"),
        ({"watermark": 1.0}, "watermark is 1.0"),
        ({"draft_tokens": 4, "long_prefill_threshold": 4}, "raise it above 4"),
        ({"draft_rows": 16, "token_budget": 16}, "raise it"),
        ({"adapters": 0}, "adapters is 0"),
    ],
)
def test_a_wrong_limit_is_named(change, message):
    with pytest.raises(SchedulingError, match=message):
        SchedulerConfig(**{"blocks": 100} | change)


@pytest.mark.parametrize(
    ("request_", "change", "message"),
    [
        (Request("a", 0, 1), {}, "prompt is 0"),
        (Request("a", 1.5, 1), {}, "wanted an int or tokens"),
        (Request("a", 1, 0), {}, "output is 0"),
        (Request("a", 1, 1, arrival_s=-1), {}, "arrival_s is -1"),
        (Request("a", 1600, 1), {}, "needs 100 blocks at its end, the pool has 99"),
        (Request("a", 100, 1), {"max_positions": 100}, "leave no room"),
        (Request("a", 100, 1), {"token_budget": 64, "chunked_prefill": False}, "chunked_prefill is off"),
    ],
)
def test_a_request_that_could_never_finish_is_refused(request_, change, message):
    config = SchedulerConfig(**{"blocks": 100} | change)
    for way in (run, simulate):
        with pytest.raises(SchedulingError, match=message):
            way([request_], config, Affine(base_s=1))


def test_the_scheduler_itself_lets_it_wait_as_the_engine_does():
    scheduler = Scheduler(SchedulerConfig(blocks=100))
    scheduler.add(Request("large", 1600, 1))
    scheduler.add(Request("small", 16, 1))
    steps = [scheduler.step() for _ in range(3)]
    assert [(step.rows, step.waiting) for step in steps] == [((), 2)] * 3
    with pytest.raises(SchedulingError, match="prompt is 0"):
        scheduler.add(Request("empty", 0, 1))


def test_names_are_distinct_and_samplers_sample():
    scheduler = Scheduler(SchedulerConfig(blocks=100), lambda step, request, drafts: [1, 2])
    scheduler.add(Request("a", 10, 5))
    with pytest.raises(SchedulingError, match="exists"):
        scheduler.add(Request("a", 10, 5))
    with pytest.raises(SchedulingError, match="gave 2 tokens, wanted 1 to 1"):
        scheduler.step()


def test_limits_and_times_are_numbers():
    for bad in ("a", float("nan"), 10**400, True):
        with pytest.raises(SchedulingError, match="watermark is"):
            SchedulerConfig(blocks=100, watermark=bad)
    config = SchedulerConfig(blocks=100)
    for bad in ("1", float("nan"), 1e308, 10**400):
        for way in (run, simulate):
            with pytest.raises(SchedulingError, match="arrival_s is"):
                way([Request("a", 1, 1, arrival_s=bad)], config, Affine(base_s=1))
    for bad in ("1", 1e308):
        with pytest.raises(SchedulingError, match="think_s is"):
            run_closed([Request("a", 1, 1)], 1, config, Affine(base_s=1), think_s=bad)
