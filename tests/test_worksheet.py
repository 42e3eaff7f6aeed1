"""The worksheet against engines and transformers, against the modules it puts together, and against common sense."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc import capacity, kv_cache, parameters, quantization, roofline
from calc.adapters import adapter, reserve
from calc.hardware import accelerator, accelerators
from calc.kv_cache import ELEMENTS
from calc.models import ConfigError, ModelGeometry, UnsupportedArchitecture, catalogue, load
from calc.parallel import Parallel, weights_on_rank
from calc.sources import KINDS, load_json
from calc.units import CalcError
from calc.worksheet import MEANINGS, STEPS, explain_log, link_of, size, weight_types

ROOT = Path(__file__).parent.parent
CONFIGS = ROOT.parent / "shared" / "configs"
LATER = json.loads((ROOT / "tests" / "fixtures" / "later_families.json").read_text())
LATER["models"] += json.loads((ROOT / "tests" / "fixtures" / "compressed_families.json").read_text())["models"]
SPINE = json.loads((ROOT / "tests" / "fixtures" / "vllm_0.32.0_kv_specs.json").read_text())["rows"]
ROWS = [(model, row) for model in LATER["models"] for row in model["cache"]]
KEYS = (
    "parameters.total",
    "parameters.active",
    "weights.total_bytes",
    "weights.per_rank_bytes",
    "kv.bytes_per_token",
    "kv.bytes_per_token_per_rank",
    "kv.sequence_bytes.resident",
    "kv.sequence_bytes.uniform_pages",
    "capacity.limiting_rank",
    "capacity.max_sequences",
    "roofline.prefill_floor_s",
    "roofline.decode_floor_s",
    "lora.adapter_bytes",
    "assumptions",
)
GIB = 1024**3
BIG = {"accelerator": "mi300x", "tensor": 8}
LLAMA = load("llama-3.1-70b")


def at(values, key):
    for name in key.split("."):
        values = values[name]
    return values


def smallest_ranks(model):
    """The fewest ranks, of powers of two, on which a model can be laid out and fits."""
    for ranks in (1, 2, 4, 8, 16):
        try:
            if size(model, **BIG | {"tensor": ranks})["capacity.max_sequences"]:
                return ranks
        except CalcError:
            continue
    pytest.skip("does not fit any node")


# --- against others' software ----------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", LATER["models"], ids=lambda m: m["name"])
def test_parameters_are_those_of_transformers(entry):
    report, theirs = size(entry["config"], **BIG), entry["parameters"]
    assert report["parameters.total"] == theirs["total"]
    assert report["parameters.active"] == theirs["active"]
    assert {g: report[f"parameters.groups.{g}"] for g in theirs["groups"]} == theirs["groups"]


@pytest.mark.parametrize(
    ("entry", "row"), ROWS, ids=[f"{m['name']}-{r['ranks']}-{r['element']}-{r['prefix_caching']}" for m, r in ROWS]
)
def test_cache_is_that_of_vllm(entry, row):
    choices = BIG | {"tensor": row["ranks"], "cache": row["element"], "prefix_caching": row["prefix_caching"]}
    if "refused" in row:
        with pytest.raises(CalcError, match="can't run on"):
            size(entry["config"], **choices)
        return
    for positions, resident in row["resident_bytes"].items():
        report = size(entry["config"], **choices, context=int(positions), output=1)
        assert report["kv.bytes_per_token_per_rank"] == row["bytes_per_token_all_growing"]
        assert report["kv.sequence_bytes_per_rank.resident"] == resident
        if row["ranks"] == 1:
            assert report["kv.bytes_per_token"] == row["bytes_per_token_all_growing"]
            assert report["kv.sequence_bytes.resident"] == resident
        if row["state_bytes_per_seq"]:
            assert report["kv.fixed_bytes_per_rank"] == row["state_bytes_per_seq"]
    held = size(entry["config"], **choices, context=LATER["max_model_len"], output=1)
    if held["capacity.pool_bytes"]:
        assert held["capacity.block_bytes"] == row["bytes_per_block"]
        in_flight = 2 * LATER["max_num_batched_tokens"]
        blocks, needed = held["capacity.blocks"], row["request_blocks"]
        if held.assumptions["batched_tokens"] * 2 == in_flight:
            assert held["capacity.vllm_concurrency"] == pytest.approx(blocks / needed)


@pytest.mark.parametrize(
    ("config", "row"),
    [(m["config"], r) for m, r in ROWS if "held_bytes" in r] + [(r["model"], r) for r in SPINE if "held_bytes" in r],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_sequence_holds_the_blocks_that_vllm_s_manager_gives_it(config, row):
    """From a real KVCacheManager with a decoding request; what is charged for a request is another number."""
    choices = BIG | {"tensor": row["ranks"], "cache": row["element"], "output": 1}
    choices["prefix_caching"] = row.get("prefix_caching", True)
    for positions, held in row["held_bytes"].items():
        report = size(config, **choices, context=int(positions))
        assert report["kv.sequence_bytes_per_rank.engine_blocks"] == held
        assert report["kv.sequence_bytes_per_rank.engine_charge"] >= held
        if "kv.fixed_bytes" in {line.key for line in report.lines}:
            assert report["kv.sequence_bytes_per_rank.uniform_pages"] == held
            if row["ranks"] == 1:
                assert report["kv.sequence_bytes.uniform_pages"] == held


@pytest.mark.parametrize("kind", ["deepseek_v32", "glm_moe_dsa", "minimax_m3"])
def test_pages_are_as_large_as_the_layers_kernels_want_them(kind):
    config = next(m["config"] for m in LATER["models"] if m["config"]["model_type"] == kind)
    report = size(config, **BIG, weights="fp8", context=8130, output=1)
    assert report["capacity.block_tokens"] > 16
    assert report["kv.sequence_bytes_per_rank.uniform_pages"] == report["kv.sequence_bytes_per_rank.engine_blocks"]


def test_a_window_that_ends_at_a_block_holds_no_block_more():
    report = size("gpt-oss-20b", context=8192, output=1)
    block = report["capacity.block_bytes"]
    assert report["kv.sequence_bytes_per_rank.engine_blocks"] == 520 * block
    assert report["kv.sequence_bytes_per_rank.engine_charge"] == 521 * block
    cut = size("gpt-oss-20b", context=8192, output=1, pipeline=2)
    assert cut["kv.sequence_bytes_per_rank.engine_blocks"] == 520 * block / 2


def test_a_family_whose_layout_is_not_known_is_refused_by_name():
    with pytest.raises(UnsupportedArchitecture, match="model_type 'deepseek_v41' is not supported"):
        size(LATER["models"][-2]["config"] | {"model_type": "deepseek_v41"})


@pytest.mark.skipif(not CONFIGS.is_dir(), reason="the published configurations are not at hand")
def test_every_published_file_is_sized_in_full():
    files = [p for p in sorted(CONFIGS.glob("*.json")) if ".hf_quant_config" not in p.name]
    assert len(files) >= 25
    for path in files:
        report = size(path, **BIG)
        assert report.values["refused"] == {}, path.name
        assert all(at(report.values, key) is not None for key in KEYS), path.name


@pytest.mark.skipif(not CONFIGS.is_dir(), reason="the published configurations are not at hand")
@pytest.mark.parametrize(
    ("name", "scheme", "cache", "gigabytes"),
    [
        ("openai--gpt-oss-20b", "MXFP4", "bf16", 13.76),  # model.safetensors.index.json states 13,761,300,984 bytes
        ("nvidia--Llama-3.1-70B-Instruct-FP8", "FP8 W8A8, tensor scales", "fp8", 72.66),
        ("nvidia--Qwen3-235B-A22B-NVFP4", "NVFP4", "fp8", None),
        ("deepseek-ai--DeepSeek-V3", "FP8 W8A8, 128x128 blocks", "bf16", None),
        ("deepseek-ai--DeepSeek-V4-Flash", "FP8 W8A8, 128x128 blocks; experts MXFP4", "fp8", None),
        ("moonshotai--Kimi-K2.5", "int4 W4A16, group scales", "bf16", None),
    ],
)
def test_a_checkpoint_s_own_quantization_is_read(name, scheme, cache, gigabytes):
    report = size(CONFIGS / f"{name}.json", **BIG)
    assert report["weights.scheme"] == scheme
    assert report["kv.element"] == cache
    if gigabytes:
        assert report["weights.total_bytes"] / 1e9 == pytest.approx(gigabytes, abs=0.005)
    plain_ = size(CONFIGS / f"{name}.json", **BIG, weights="bf16", cache="bf16")
    assert report["weights.total_bytes"] < 0.75 * plain_["weights.total_bytes"]
    own = name == "deepseek-ai--DeepSeek-V4-Flash"  # its cache has one format, whatever it is called
    assert report["kv.bytes_per_token"] == plain_["kv.bytes_per_token"] / (2 if cache == "fp8" and not own else 1)


@pytest.mark.parametrize(("slug", "scheme"), [("deepseek-v3", "FP8 W8A8, 128x128 blocks"), ("gpt-oss-120b", "MXFP4")])
def test_a_slug_is_stored_as_its_checkpoint_is(slug, scheme):
    report = size(slug, **BIG)
    assert report["weights.scheme"] == scheme
    assert size(slug, **BIG, weights="bf16")["weights.total_bytes"] == 2 * report["parameters.total"]


# --- against the modules it puts together ----------------------------------------------------------------------


def test_every_number_is_what_its_chapter_computes():
    report = size("llama-3.1-70b", tensor=4, pipeline=2, context=4096, output=513, concurrency=24, lora_slots=4)
    cut, chip = Parallel(tensor=4, pipeline=2), accelerator("h100-sxm")
    assert report["parameters.total"] == parameters.count(LLAMA).total
    held = [weights_on_rank(LLAMA, cut, stage=s).total for s in (0, 1) for _ in range(4)]
    assert report["weights.per_rank_bytes"] == tuple(2 * n for n in held)
    whole = kv_cache.layout(LLAMA)
    assert report["kv.sequence_bytes.positions"] == 4096 + 513 - 1
    assert report["kv.sequence_bytes.resident"] == kv_cache.resident_bytes(whole, positions=4608)
    assert report["kv.sequence_bytes.uniform_pages"] == kv_cache.uniform_page_bytes(whole, positions=4608)
    whole_slots = reserve(LLAMA, slots=4, rank=16, ranks=4)
    table = 4 * 16 * (LLAMA.vocab + LLAMA.hidden) * 2  # the pair on the embedding, and that on the head
    slots = [(whole_slots.bytes_per_gpu - 2 * table) // 2 + table] * 8  # half of the layers, and one of the two
    plan = capacity.plan(
        LLAMA,
        cut,
        total_bytes=chip.visible_bytes.value,
        fraction=0.92,
        activation_bytes=1.5 * GIB,
        logits_bytes=24 * LLAMA.vocab * 4,
        graph_bytes=GIB,
        communication_bytes=GIB,
        taken_bytes=dict(enumerate(slots)),
    )
    assert report["capacity.blocks"] == plan.blocks
    assert report["capacity.limiting_rank"] == plan.limiting.rank == 4
    decode = roofline.decode_floor(LLAMA, chip, sequences=12, cached=4096, ranks=4)
    prefill = roofline.prefill_floor(LLAMA, chip, prompt=4096, ranks=4)
    assert report["roofline.decode_floor_s"] == decode.seconds
    assert report["roofline.prefill_floor_s"] == prefill.seconds
    assert report["lora.adapter_bytes"] == adapter(LLAMA, rank=16).stored_bytes


def test_a_plan_without_adapters_is_the_chapter_s_to_the_block():
    report = size("llama-3.1-70b", tensor=8, concurrency=32)
    plan = capacity.plan(
        LLAMA,
        Parallel(tensor=8),
        total_bytes=accelerator("h100-sxm").visible_bytes.value,
        fraction=0.92,
        activation_bytes=1.5 * GIB,
        logits_bytes=32 * LLAMA.vocab * 4,
        graph_bytes=GIB,
        communication_bytes=GIB,
    )
    assert report["capacity.blocks"] == plan.blocks
    assert report["capacity.max_sequences"] == plan.requests(length=8192 + 1024 - 1, in_flight=1)


@pytest.mark.parametrize("weights", [w for w in weight_types() if w not in ("auto", "fp8", "int8", "int4")])
def test_stored_weights_are_those_of_the_quantization_chapter(weights):
    report = size("llama-3.1-8b", weights=weights)
    assert report["weights.total_bytes"] == quantization.stored(load("llama-3.1-8b"), weights).total_bytes
    assert sum(report["weights.per_rank_bytes"]) == pytest.approx(report["weights.total_bytes"], rel=1e-12)


def test_weights_of_several_widths_are_read_group_by_group():
    """gpt-oss keeps its attention in 16 bits and its experts in 4: an average would misjudge both."""
    report = size("gpt-oss-20b", weights="mxfp4", concurrency=1)
    model = load("gpt-oss-20b")
    work = roofline.step_work(model, sequences=[(1, 8192)], bytes_per_weight={"routed_experts": 4.25 / 8})
    assert quantization.stored(model, "mxfp4").part("attention").quantized
    kept = quantization.stored(model, "mxfp4")
    read = sum(p.stored_bytes for p in kept.parts if p.group not in ("embedding", "routed_experts"))
    experts = kept.part("routed_experts").stored_bytes * 4 / 32
    assert report["roofline.decode.weight_bytes"] == pytest.approx(read + experts, rel=1e-12)
    assert work.group("routed_experts").weight_bytes == pytest.approx(experts, rel=0.01)


# --- what must always hold -------------------------------------------------------------------------------------

CHOICES = st.fixed_dictionaries(
    {
        "config": st.sampled_from(
            ["llama-3.1-8b", "gpt-oss-20b", "gemma-3-27b", "qwen3-30b-a3b", "deepseek-v3", "llama-3.1-405b"]
            + [m["config"] for m in LATER["models"]]
        ),
        "accelerator": st.sampled_from(accelerators()),
        "tensor": st.sampled_from([1, 2, 4, 8]),
        "pipeline": st.sampled_from([1, 2, 3]),
        "expert_parallel": st.booleans(),
        "weights": st.sampled_from(weight_types()),
        "cache": st.sampled_from(["auto", *ELEMENTS]),
        "context": st.integers(1, 200_000),
        "output": st.integers(1, 20_000),
        "concurrency": st.integers(1, 512),
        "engine": st.sampled_from(["vllm", "sglang", "tensorrt-llm"]),
        "memory_fraction": st.floats(0.3, 1),
        "prefix_caching": st.booleans(),
        "lora_slots": st.integers(0, 3),
        "ttft_s": st.none() | st.floats(1e-4, 10),
        "tpot_s": st.none() | st.floats(1e-4, 1),
    }
)


def sized(choices):
    choices = dict(choices)
    return size(choices.pop("config"), **choices)


@settings(max_examples=120, deadline=None)
@given(CHOICES)
def test_any_choice_gives_a_report_or_one_clear_refusal(choices):
    try:
        report = sized(choices)
    except CalcError as error:
        assert str(error) and "\n" not in str(error) and len(str(error)) < 700
        return
    values = json.loads(report.to_json(lines=True))
    assert all(at(values, key) is not None or key in values["refused"] for key in KEYS)
    total, ranks = report["weights.total_bytes"], report["weights.per_rank_bytes"]
    gpus = choices["tensor"] * choices["pipeline"]
    assert len(ranks) == gpus
    assert sum(ranks) >= total * (1 - 1e-9)
    assert max(ranks) >= total / gpus * (1 - 1e-9)
    assert report["kv.bytes_per_token_per_rank"] >= report["kv.bytes_per_token"] / gpus * (1 - 1e-9)
    assert report["kv.sequence_bytes.resident"] <= report["kv.sequence_bytes.uniform_pages"]
    assert 0 <= report["capacity.limiting_rank"] < gpus
    assert report["capacity.max_sequences"] >= 0
    for floor in ("prefill", "decode"):
        assert report[f"roofline.{floor}_floor_s"] > 0
        assert report[f"roofline.{floor}_bound"] in ("memory", "arithmetic")
    assert report["roofline.decode_floor_end_s"] >= report["roofline.decode_floor_s"]
    for line in report.lines:
        assert line.kind in KINDS and line.link and line.text
        assert "nan" not in line.text and "inf" not in line.text.split()
    text = " ".join(w.text for w in report.warnings)
    assert not re.search(r"(?<![\d,.])1 (tokens|sequences|blocks|positions|GPUs|replicas)\b", text)
    assert ".." not in text.replace("…", "")


@settings(max_examples=40, deadline=None)
@given(CHOICES, st.floats(0.05, 0.3))
def test_more_memory_never_holds_fewer_sequences(choices, more):
    choices = choices | {"memory_fraction": min(choices["memory_fraction"], 0.65)}
    try:
        less = sized(choices)
    except CalcError:
        return
    richer = sized(choices | {"memory_fraction": choices["memory_fraction"] + more})
    assert richer["capacity.max_sequences"] >= less["capacity.max_sequences"]


@settings(max_examples=40, deadline=None)
@given(CHOICES, st.integers(1, 50_000))
def test_longer_sequences_are_larger_and_fewer(choices, longer):
    try:
        short = sized(choices)
    except CalcError:
        return
    long = sized(choices | {"context": choices["context"] + longer})
    assert long["kv.sequence_bytes.resident"] >= short["kv.sequence_bytes.resident"]
    assert long["capacity.max_sequences"] <= short["capacity.max_sequences"]
    assert long["roofline.prefill_floor_s"] >= short["roofline.prefill_floor_s"]
    if choices["config"] not in [m["config"] for m in LATER["models"] if "llama4" in m["config"]["model_type"]]:
        assert long["roofline.decode_floor_s"] >= short["roofline.decode_floor_s"]  # a new chunk begins empty


@pytest.mark.parametrize("slug", catalogue(every=True))
def test_every_model_of_the_catalogue_is_sized(slug):
    report = size(slug, **BIG | {"tensor": smallest_ranks(slug)})
    assert report.values["refused"] == {}
    assert report["capacity.max_sequences"] > 0


@pytest.mark.parametrize("slug", accelerators())
def test_every_accelerator_is_sized_on(slug):
    report = size("qwen3-0.6b", accelerator=slug)
    assert report["capacity.max_sequences"] > 0
    assert set(report.values["refused"]) <= {"cold_start.copy_weights_s"}  # a chip whose host link nobody prints


# --- warnings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "there", "absent"),
    [
        ("sparse-peak", {"config": "llama-3.1-8b"}, {"config": "llama-3.1-8b", "accelerator": "tpu-v5e"}),
        ("kv-replication", {"config": "llama-3.1-8b", "tensor": 16}, {"config": "llama-3.1-8b", "tensor": 8}),
        ("kv-replication", {"config": "deepseek-v3", "tensor": 8}, {"config": "llama-3.1-8b", "tensor": 1}),
        ("window-convention", {"config": "gpt-oss-20b"}, {"config": "llama-3.1-8b"}),
        ("cache-not-quantized", {"config": "llama-3.1-8b", "weights": "fp8"}, {"config": "llama-3.1-8b"}),
        (
            "weights-only",
            {"config": "llama-3.1-8b", "weights": "int4"},
            {"config": "llama-3.1-8b", "weights": "fp8"},
        ),
        ("does-not-fit", {"config": "llama-3.1-405b"}, {"config": "llama-3.1-8b"}),
        ("too-many-sequences", {"config": "llama-3.1-8b", "concurrency": 5000}, {"config": "llama-3.1-8b"}),
        ("longer-than-the-model", {"config": "qwen3-8b", "context": 60_000}, {"config": "qwen3-8b"}),
        ("idle-gpus", {"config": "llama-3.1-8b", "tensor": 2, "count": 5}, {"config": "llama-3.1-8b", "count": 5}),
        ("fraction-too-high", {"config": "llama-3.1-8b", "memory_fraction": 0.99}, {"config": "llama-3.1-8b"}),
        ("lora-reserved", {"config": "llama-3.1-8b", "lora_slots": 8}, {"config": "llama-3.1-8b"}),
        ("limit-below-floor", {"config": "llama-3.1-8b", "tpot_s": 1e-3}, {"config": "llama-3.1-8b", "tpot_s": 1}),
        ("experts-all-resident", {"config": "mixtral-8x7b"}, {"config": "llama-3.1-8b"}),
        ("no-experts", {"config": "llama-3.1-8b", "expert_parallel": True}, {"config": "mixtral-8x7b"}),
        (
            "experts-uneven",
            {"config": "mixtral-8x7b", "tensor": 2, "expert_parallel": True},
            {"config": "llama-3.1-8b"},
        ),
        ("beyond-the-link", {"config": "llama-3.1-405b", "tensor": 16}, {"config": "llama-3.1-405b", "tensor": 8}),
        (
            "beyond-the-link",
            {"config": "llama-3.1-70b", "tensor": 8, "accelerator": "h100-nvl"},
            {"config": "llama-3.1-70b", "tensor": 2, "pipeline": 4, "accelerator": "h100-nvl"},
        ),
        (
            "beyond-the-link",
            {"config": "llama-3.1-70b", "tensor": 8, "accelerator": "a100-80gb-pcie"},
            {"config": "llama-3.1-70b", "tensor": 16, "accelerator": "gb200"},
        ),
        ("pipeline-latency", {"config": "llama-3.1-8b", "pipeline": 2}, {"config": "llama-3.1-8b"}),
    ],
)
def test_a_choice_that_misleads_is_named_and_others_are_not(code, there, absent):
    assert code in {w.code for w in sized(there).warnings}
    assert code not in {w.code for w in sized(absent).warnings}


VLLM_ONLY = {
    "kv.sequence_bytes_per_rank.engine_blocks",
    "kv.sequence_bytes_per_rank.engine_charge",
    "capacity.vllm_kv_cache_tokens",
    "capacity.vllm_concurrency",
}


@pytest.mark.parametrize("engine", capacity.engines())
def test_each_engine_has_its_own_rule_and_its_own_words(engine):
    setting, report = capacity.memory_setting(engine), size("llama-3.1-8b", engine=engine)
    warned = {w.code: w.text for w in report.warnings}
    assert {"gb-gib", "memory-fraction"} <= warned.keys()
    keys = {line.key for line in report.lines}
    assert (engine == "vllm") == (keys >= VLLM_ONLY) == (not keys.isdisjoint(VLLM_ONLY))
    assert engine == "vllm" or "vLLM" not in " ".join(line.label for line in report.lines)
    share = report.assumptions["memory_fraction"]
    held = {
        "weight_bytes": report["weights.per_rank_bytes"][0],
        "activation_bytes": 1.5 * GIB + 16 * 128256 * 4,
        "graph_bytes": GIB,
        "communication_bytes": GIB,
        "total_bytes": report["capacity.total_bytes"],
    }
    assert report["capacity.pool_bytes"] == capacity.engine_pool_bytes(engine, fraction=share, **held)
    if setting.rule == "none":
        assert share is None and "capacity.memory_fraction" not in keys
        assert report["capacity.margin_bytes"] == setting.margin_bytes == GIB
        assert "no share" in warned["memory-fraction"]
        with pytest.raises(CalcError, match="takes no share of the memory"):
            size("llama-3.1-8b", engine=engine, memory_fraction=0.5)
        return
    line = report.line("capacity.memory_fraction")
    assert line.kind == "assumed" and share == (setting.default or setting.assumed)
    assert bool(line.source) == (setting.default is not None)  # a guess has no source
    assert ("is assumed" in warned["memory-fraction"]) == (setting.default is None)
    other = size("llama-3.1-8b", engine=engine, memory_fraction=0.5).line("capacity.memory_fraction")
    assert (other.source, other.value) == ("", 0.5)


def test_a_floor_rules_out_what_it_counts_and_nothing_more():
    report = size("llama-3.1-70b", tensor=8, concurrency=150, tpot_s=0.01)
    (text,) = [w.text for w in report.warnings if w.code == "limit-below-floor"]
    assert f"Up to {report['limits.most_sequences_by_tpot']} sequences at once keep it" in text
    assert "150 sequences" in text and "cache in bf16, TP 8" in text and "tuning" not in text
    slow = size("llama-3.1-70b", tensor=8, ttft_s=0.1)
    (text,) = [w.text for w in slow.warnings if w.code == "limit-below-floor"]
    assert "multiplied as bf16" in text and "other types" in text
    assert size("llama-3.1-70b", tensor=8, ttft_s=0.1, weights="fp8")["limits.ttft_possible"]
    never = size("llama-3.1-70b", tensor=8, tpot_s=1e-3)
    assert "A single sequence does not keep it either" in " ".join(w.text for w in never.warnings)


MINIMAX = next(m["config"] for m in LATER["models"] if m["config"]["model_type"] == "minimax_m2")
BLOCKS = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}


@pytest.mark.parametrize(
    ("config", "choices", "says"),
    [
        (MINIMAX | {"quantization_config": BLOCKS}, {"tensor": 8}, "to 192 rows on a rank.*TP 1, 2, 4 leave.*experts"),
        (MINIMAX | {"quantization_config": BLOCKS}, {"tensor": 16}, "to 96 rows on a rank"),
        (MINIMAX | {"quantization_config": BLOCKS}, {"tensor": 4}, None),
        (MINIMAX | {"quantization_config": BLOCKS}, {"tensor": 8, "expert_parallel": True}, None),
        ("qwen3-235b-a22b", {"tensor": 8, "weights": "fp8-block"}, "to 192 rows"),
        ("qwen2.5-72b", {"tensor": 8, "weights": "awq-int4-g128"}, "to 3,696 columns.*28.88 blocks.*TP 1 leaves"),
        ("qwen2.5-72b", {"tensor": 8}, None),
        ("qwen2.5-72b", {"tensor": 1, "pipeline": 2, "weights": "awq-int4-g128"}, None),
        ("deepseek-v3", {"tensor": 16}, None),
        ("gpt-oss-120b", {"tensor": 8}, None),  # 360 of its columns are no whole groups of 32; engines pad them
    ],
)
def test_a_cut_through_a_block_is_called_out_first(config, choices, says):
    first = size(config, accelerator="h200-sxm", **choices).warnings[0]
    assert (first.code == "cut-through-blocks") == (says is not None)
    if says:
        assert re.search(says, first.text), first.text


def test_a_scheme_that_says_less_than_it_seems_is_named():
    narrow = size(TINY | {"torch_dtype": "float8_e4m3fn"})
    assert "narrow-type-without-scheme" in {w.code for w in narrow.warnings}
    assert narrow["weights.bits_per_weight"] == 16
    dense = size(TINY | {"quantization_config": {"quant_method": "mxfp4"}})
    codes = {w.code for w in dense.warnings}
    assert "nothing-quantized" in codes and not codes & {"weights-only", "cache-not-quantized"}
    assert dense["weights.bits_per_weight"] == 16
    fast = size(TINY | {"quantization_config": {"quant_method": "mxfp4"}}, accelerator="b200-sxm")
    assert fast["roofline.multiplies"] == "bf16"  # nothing is stored in fp4
    mixture = {w.code for w in size("gpt-oss-20b").warnings}
    assert "weights-only" in mixture and "nothing-quantized" not in mixture


def test_a_hybrid_s_enlarged_blocks_are_named():
    hybrid = next(m["config"] for m in LATER["models"] if m["config"]["model_type"] == "qwen3_5_moe")
    found = {w.code: w.text for w in size(hybrid).warnings}["hybrid-blocks"]
    assert "1,056 positions" in found and "2 blocks" in found
    off = {w.code: w.text for w in size(hybrid, prefix_caching=False).warnings}["hybrid-blocks"]
    assert "1 block in each group" in off


@pytest.mark.parametrize("slug", accelerators())
def test_a_vendor_that_prints_sparse_peaks_is_named_for_every_type(slug):
    chip = accelerator(slug)
    for element in chip.peaks:
        if element in ("bf16", "fp16", "fp8", "int8", "fp4"):
            codes = {w.code for w in size("qwen3-0.6b", accelerator=slug, arithmetic=element).warnings}
            assert ("sparse-peak" in codes) == ("tpu" not in slug)


@pytest.mark.parametrize(
    ("slug", "words", "kind"),
    [
        ("h100-sxm", "Memory that a program sees, sold as 80GB", "published"),
        ("h200-sxm", "Memory that a program sees, sold as 141GB", "published"),
        ("a100-40gb-sxm", "Memory that the driver reports, sold as 40GB", "published"),
        ("h100-pcie", "Memory, the label read in GiB, sold as 80GB", "assumed"),
        ("a10", "Memory, the label read in GiB, sold as 24GB", "assumed"),
    ],
)
def test_a_chip_s_memory_says_how_well_it_is_known(slug, words, kind):
    line = size("qwen3-0.6b", accelerator=slug).line("capacity.total_bytes")
    assert (line.label, line.kind) == (words, kind)
    assert (kind == "assumed") == ("Assumed to be what a program sees" in line.note)


def test_a_tpu_is_called_one():
    report = size("llama-3.1-8b", accelerator="tpu-v6e", tensor=4, count=5, lora_slots=2)
    assert "GPU" not in report.to_text() + report.to_markdown() + report.to_json(lines=True)
    assert "1 TPU of 5 stay" in {w.code: w.text for w in report.warnings}["idle-gpus"]


@pytest.mark.parametrize("slug", ["gb200", "tpu-v6e"])
def test_a_sum_of_hops_says_which_it_does_not_know(slug):
    report = size("llama-3.1-8b", accelerator=slug)
    assert report["cold_start.copy_weights_s"] is None
    for key in ("staged", "streamed"):
        line = report.line(f"cold_start.{key}_floor_s")
        assert line.label.startswith("The known hops") and "not known" in line.note
        assert "known" not in size("llama-3.1-8b", accelerator=slug, host_rate=1e11).line(line.key).label


# --- inputs and outputs ----------------------------------------------------------------------------------------

TINY = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "vocab_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 1 << 20,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def test_a_model_may_be_a_slug_a_file_its_text_or_its_content(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY))
    ways = (TINY, path, str(path), path.read_text(), "\ufeff" + path.read_text(), path.read_bytes())
    first, *others = (size(way).values for way in ways)
    assert all(other | {"model": 0} == first | {"model": 0} for other in others)


def test_a_model_s_name_and_origin_are_what_was_given(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY))
    assert {size(way).about["model"]["source"] for way in (path, path.read_text())} == {"a config.json"}
    assert size(TINY).about["model"]["source"] == "a configuration given as a dict"
    for model in ("llama-3.1-8b", TINY, path):
        report = size(model, name="Mine")
        assert report.about["model"]["name"] == "Mine" and report.title.startswith("Mine on")
    with pytest.raises(CalcError, match="name is"):
        size("llama-3.1-8b", name="<b>")
    with pytest.raises(ConfigError, match="give the path of an hf_quant_config.json"):
        size(TINY, quantization_file=tmp_path / "none.json")


def test_the_longest_context_is_still_counted():
    longest = size(TINY, context=2**26, output=2**26)
    assert longest["roofline.prefill_floor_s"] > 0 and longest["roofline.decode_floor_end_s"] > 0
    with pytest.raises(CalcError, match="context is 67108865, wanted a whole number from 1 to 67,108,864"):
        size(TINY, context=2**26 + 1)


def test_numbers_of_numpy_and_what_engines_call_a_cache_are_understood():
    given = {"tensor": 2, "context": 4096, "ttft_s": 2.0}
    plain = size("llama-3.1-70b", cache="fp8", **given)
    numpys = {name: numpy.asarray(value)[()] for name, value in given.items()}
    assert size("llama-3.1-70b", cache="fp8_e4m3", **numpys).to_json() == plain.to_json()


def test_ranks_that_are_alike_strand_nothing():
    assert size("llama-3.1-70b", tensor=8)["capacity.stranded_bytes"] == 0
    halves = size("llama-3.1-70b", tensor=4, pipeline=2)
    assert 0 < halves["capacity.stranded_bytes"] < 4 * halves["kv.sequence_bytes_per_rank.engine_blocks"]
    uneven = size("llama-3.1-70b", tensor=4, pipeline=3)
    assert uneven["capacity.stranded_bytes"] > uneven["kv.sequence_bytes_per_rank.engine_blocks"]
    codes = [{w.code for w in report.warnings} for report in (halves, uneven)]
    assert ["stranded" in found for found in codes] == [False, True]
    assert size("llama-3.1-8b").line("capacity.vllm_kv_cache_tokens").text.endswith(" tokens")


def test_a_quantization_file_beside_the_configuration_is_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    said = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(said))
    beside = size(tmp_path / "config.json")
    assert (beside["weights.scheme"], beside["kv.element"]) == ("FP8 W8A8, tensor scales", "fp8")
    assert beside.assumptions["weights_from"] == "hf_quant_config.json"
    for given_ in (said, json.dumps(said), tmp_path / "hf_quant_config.json"):
        assert size(TINY, quantization_file=given_)["weights.total_bytes"] == beside["weights.total_bytes"]
    with pytest.raises(ConfigError, match="says nothing of quantization"):
        size(TINY, quantization_file={})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"accelerator": "h100"}, "did you mean h100-sxm"),
        ({"tensor": 0}, "tensor is 0, wanted a whole number from 1"),
        ({"tensor": True}, "tensor is True"),
        ({"pipeline": 3}, "2 layers don't make 3 stages"),
        ({"context": 0}, "context is 0"),
        ({"context": 2.5}, "context is 2.5"),
        ({"output": -1}, "output is -1"),
        ({"concurrency": 10**9}, "concurrency is 1000000000"),
        ({"count": 1, "tensor": 2}, "count is 1, but TP 2 needs 2 GPUs"),
        ({"weights": "int3"}, "weights is 'int3', wanted one of auto, bf16"),
        ({"weights": None}, "weights is None"),
        ({"arithmetic": "fp4"}, "no peak for 'fp4'"),
        ({"arithmetic": "fp2"}, "arithmetic is 'fp2'"),
        ({"cache": "fp4"}, "unknown cache element type"),
        ({"engine": "vlm"}, "did you mean vllm"),
        ({"memory_fraction": 0}, "memory_fraction is 0"),
        ({"memory_fraction": 1.2}, "memory_fraction is 1.2"),
        ({"memory_fraction": math.nan}, "memory_fraction is nan"),
        ({"acceptance": 1}, "acceptance is 1"),
        ({"draft_tokens": 0}, "draft_tokens is 0"),
        ({"lora_rank": 0}, "lora_rank is 0"),
        ({"ttft_s": 0}, "ttft_s is 0"),
        ({"reached": 1.5}, "reached is 1.5"),
        ({"workspace_bytes": -1}, "workspace_bytes is -1"),
        ({"prefix_caching": 1}, "prefix_caching is 1"),
        ({"name": "<b>"}, "name is"),
    ],
)
def test_an_impossible_choice_is_refused_by_its_name(change, says):
    with pytest.raises(CalcError, match=re.escape(says)):
        size(TINY, **change)


@pytest.mark.parametrize("config", [None, 7, [], "", "lama-3.1-8b", "{", "[]", '{"model_type": "bert"}', b"\xff\xfe"])
def test_what_is_no_model_is_refused(config):
    with pytest.raises(CalcError):
        size(config)


def test_a_model_that_does_not_fit_is_no_error():
    report = size("llama-3.1-405b", accelerator="l4")
    assert report["capacity.max_sequences"] == 0
    assert report["capacity.limiting_rank"] == 0
    assert "no room is left" in report.line("capacity.pool_bytes").note


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def handle_starttag(self, tag, attrs):
        self.seen |= {tag} | {name for name, _ in attrs}


HOSTILE = "<img src=x onerror=alert(1)>"


def test_pasted_text_cannot_act_as_markup():
    for field, value in (("model_type", HOSTILE), ("hidden_size", HOSTILE), ("architectures", [HOSTILE])):
        with pytest.raises(CalcError) as refusal:
            size(TINY | {field: value})
        assert "<" not in str(refusal.value)
    report = size(TINY | {"_name_or_path": HOSTILE, "x" + HOSTILE: HOSTILE})
    parser = Tags()
    parser.feed(report._repr_html_())
    tags = "div p strong ul li table caption tbody tr th td details summary br"
    assert parser.seen <= {*tags.split(), "class"}
    for text in (report.to_json(lines=True), report.to_csv(), report.to_markdown(), report.to_text()):
        assert "<img" not in text


def test_json_has_the_documented_keys():
    values = json.loads(size("llama-3.1-8b").to_json())
    for key in KEYS:
        assert at(values, key) is not None
    assert isinstance(values["weights"]["per_rank_bytes"], list)
    page = (ROOT / "book" / "reference" / "api" / "worksheet.md").read_text(encoding="utf-8")
    assert [key for key in KEYS if f"`{key}`" not in page] == []
    listed = re.findall(r"^- (`.*?):", page, re.MULTILINE)
    documented = {key for line in listed for key in re.findall(r"`([\w.]+)`", line)}
    assert len(documented) > 60
    models = ["llama-3.1-8b", "gpt-oss-20b", *(m["config"] for m in LATER["models"])]
    known = {line.key for model in models for line in every(model).lines} | {"assumptions", "warnings", "refused"}
    assert documented - known == set()


def every(config):
    return size(config, tensor=2, lora_slots=1, ttft_s=1, tpot_s=1)


def test_assumptions_hold_every_choice_as_it_was_used():
    import inspect

    report = size("llama-3.1-8b")
    taken = set(inspect.signature(size).parameters) - {"config", "name", "quantization_file"}
    assert taken <= set(report.assumptions)
    assert report.assumptions["memory_fraction"] == 0.92
    assert report.assumptions["arithmetic"] == "bf16"
    again = size("llama-3.1-8b", **{k: v for k, v in report.assumptions.items() if k in taken} | {"weights": "auto"})
    assert again.values | {"assumptions": 0} == report.values | {"assumptions": 0}


def leading(text):
    """The number that a text begins with, as far as it is one."""
    found = re.match(r"[\d,.]+", text)
    return float(found[0].replace(",", "")) if found else math.nan


@pytest.mark.parametrize(
    ("config", "choices"),
    [
        ("llama-3.1-70b", {"tensor": 8, "lora_slots": 2, "ttft_s": 0.1, "tpot_s": 0.01}),
        ("gpt-oss-120b", {"tensor": 4, "pipeline": 2, "tpot_s": 1e-6}),
        ("deepseek-v3", {"tensor": 16, "accelerator": "h200-sxm", "expert_parallel": True}),
        ("gemma-3-27b", {"engine": "llama.cpp", "accelerator": "tpu-v6e", "tensor": 4}),
        ("llama-3.1-405b", {"weights": "int4"}),
        ("llama-3.1-8b", {"draft_cost": 1.0, "engine": "tgi", "lora_slots": 3}),
        *((m["config"], {"accelerator": "h200-sxm", "tensor": 8, "lora_slots": 1}) for m in LATER["models"]),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_every_derived_line_shows_its_working(config, choices):
    report = size(config, **choices)
    derived = [line for line in report.lines if line.kind == "derived" and line.value is not None]
    assert [line.key for line in derived if not line.working] == []
    for line in derived:
        name, *ways = line.working.replace(" ≈ ", " = ").split(" = ")
        assert name and ways, line.key
        if not isinstance(line.value, tuple):  # a formula may write a ratio with a digit more
            same = leading(ways[-1]) == pytest.approx(leading(line.text), rel=5e-3)
            assert same or line.working.endswith(line.text), (line.key, line.working, line.text)


SUM = re.compile(r"= ([\d,.]+(?: B)?(?: \+ [\d,.]+(?: B)?)+) (?:=|≈) ([\d,.]+)( B)?")


@pytest.mark.parametrize("config", ["llama-3.1-70b", "gpt-oss-120b", *(m["config"] for m in LATER["models"])])
def test_a_sum_in_a_working_adds_up(config):
    sums = [m for line in size(config, accelerator="h200-sxm", tensor=8).lines for m in SUM.finditer(line.working)]
    assert len(sums) >= 4
    for found in sums:
        parts = [float(part.removesuffix(" B").replace(",", "")) for part in found[1].split(" + ")]
        assert sum(parts) == pytest.approx(float(found[2].replace(",", "")), rel=1e-9, abs=2)


def test_csv_and_markdown_hold_every_line():
    report = every("gpt-oss-20b")
    rows = list(csv.DictReader(io.StringIO(report.to_csv())))
    assert [row["key"] for row in rows] == [line.key for line in report.lines]
    assert not any(cell[:1] in "=+-@" for row in rows for cell in row.values() if cell)
    markdown = report.to_markdown()
    assert markdown.count("\n| ") >= len(report.lines)
    assert all(section.title in markdown for section in report.sections)


def test_every_line_points_to_a_step_that_its_chapter_has():
    for step, (page, title) in STEPS.items():
        path = ROOT / "book" / f"{page}.ipynb"
        if not path.is_file():
            assert (ROOT / "book" / f"{page}.md").is_file()
            continue
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        number = step.partition("#step-")[2]
        assert f"### Step {number} · {title}" in text, step
    with pytest.raises(CalcError, match="no step"):
        link_of("nowhere#step-1")


def test_each_key_is_used_once_and_each_kind_is_honest():
    report = every("gpt-oss-20b")
    keys = [line.key for line in report.lines]
    assert len(keys) == len(set(keys))
    for line in report.lines:
        if line.kind == "published":
            assert line.source, line.key
    assert {line.kind for line in report.lines} == {"derived", "published", "assumed"}


# --- logs ------------------------------------------------------------------------------------------------------

LOG = """INFO 04-24 Model loading took 14.9889 GiB and 3.652170 seconds
INFO 04-24 GPU KV cache size: 158,656 tokens
INFO 04-24 Maximum concurrency for 32,768 tokens per request: 4.84x
Available KV cache memory: 19.37 GiB"""


def test_a_log_is_explained_line_by_line():
    report = explain_log(LOG)
    assert [(x.line, x.name) for x in report.lines] == [
        (1, "weights"),
        (2, "tokens"),
        (3, "length"),
        (3, "concurrency"),
        (4, "available"),
    ]
    assert report.checks == ()
    checked = explain_log(LOG, model=load("llama-3.1-8b"))
    assert {c.name: c.verdict for c in checked.checks}["weights"] == "agrees"
    assert checked.bytes_per_token == pytest.approx(131072, rel=0.001)
    assert json.loads(checked.to_json())["lines"][0]["name"] == "weights"
    assert "<script" not in explain_log(LOG + "\n<script>alert(1)</script>")._repr_html_()


# Two of the recorded starts: their block is enlarged to what the log says
HYBRIDS = {
    "nemotronh_default": {
        "architectures": ["NemotronHForCausalLM"],
        "model_type": "nemotron_h",
        "vocab_size": 1024,
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 8,
        "hybrid_override_pattern": "M-M*M-M*",
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "attention_head_dim": 64,
        "mamba_num_heads": 8,
        "mamba_head_dim": 64,
        "ssm_state_size": 64,
        "n_groups": 2,
        "conv_kernel": 4,
        "expand": 2,
        "chunk_size": 64,
        "max_position_embeddings": 32768,
        "mlp_hidden_act": "relu2",
        "tie_word_embeddings": False,
        "use_bias": False,
        "mlp_bias": False,
        "attention_bias": False,
        "use_conv_bias": True,
        "torch_dtype": "bfloat16",
    },
    "qwen35_default": {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "vocab_size": 1024,
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 64,
        "linear_value_head_dim": 64,
        "linear_conv_kernel_dim": 4,
        "full_attention_interval": 4,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
        "attn_output_gate": True,
        "torch_dtype": "bfloat16",
    },
}
STARTS = {s["id"]: s for s in load_json("measured", "vllm_0.32.0_startup.json")["starts"]}


def verdicts(report):
    return {c.name: c.verdict for c in report.checks}


@pytest.mark.parametrize("name", HYBRIDS)
def test_the_block_that_a_log_says_was_enlarged_is_the_one_that_counts(name):
    start = STARTS[name]
    memory = f"Available KV cache memory: {start['memory_bytes'] / GIB:.2f} GiB"
    report = explain_log("\n".join([memory, *start["log"]]), model=HYBRIDS[name])
    assert verdicts(report)["enlarged block"] == verdicts(report)["padding of states"] == "agrees"
    assert verdicts(report)["cache size, tokens"] == "agrees"
    assert "differs" not in verdicts(report).values()
    wrong = "\n".join([memory, *start["log"]]).replace(f"to {start['block_size']} tokens", "to 640 tokens")
    assert verdicts(explain_log(wrong, model=HYBRIDS[name]))["enlarged block"] == "differs"
    off = explain_log("\n".join([memory, "enable_prefix_caching=False", *start["log"]]), model=HYBRIDS[name])
    assert verdicts(off)["cache size, tokens"] == "differs"  # it was on


@pytest.mark.parametrize("name", ["gptoss_b32", "gptoss_b128"])
def test_a_log_says_or_shows_how_many_steps_are_in_flight(name):
    start, small = STARTS[name], {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64}
    config = small | {
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "vocab_size": 1024,
        "hidden_size": 128,
        "intermediate_size": 128,
        "num_hidden_layers": 6,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    blocks = f"CPU blocks: {start['num_blocks']}".replace("CPU", "GPU")
    text = "\n".join([blocks, f"max_num_batched_tokens={start['in_flight_tokens']}", *start["log"]])
    shown = explain_log(text, model=config, block_tokens=start["block_size"])
    check = next(c for c in shown.checks if c.name == "cache size, tokens")
    assert check.verdict == "agrees" and "scheduling is not asynchronous" in check.note
    for chosen, said, verdict in ((True, "", "differs"), (None, "enabled", "differs"), (None, "disabled", "agrees")):
        told = text + (f"\nAsynchronous scheduling is {said}." if said else "")
        report = explain_log(told, model=config, block_tokens=start["block_size"], asynchronous=chosen)
        assert verdicts(report)["cache size, tokens"] == verdict
    apart = "\n".join([blocks, *start["log"]])
    told = {"block_tokens": start["block_size"], "batched_tokens": start["in_flight_tokens"]}
    assert verdicts(explain_log(apart, model=config, **told))["cache size, tokens"] == "agrees"


@pytest.mark.parametrize(
    ("slug", "cut"),
    [
        ("gpt-oss-120b", {"pipeline": 4}),
        ("gpt-oss-20b", {"tensor": 2, "pipeline": 2, "expert_parallel": True}),
        ("deepseek-v3", {"tensor": 8}),
        ("mixtral-8x7b", {"tensor": 2, "weights": "int4"}),
    ],
)
def test_a_log_s_weights_are_held_against_those_of_the_worksheet(slug, cut):
    report = size(slug, accelerator="b300-sxm", **cut)
    for rank, held in enumerate(report["weights.per_rank_bytes"]):
        stage, turn = divmod(rank, cut.get("tensor", 1))
        took = f"(Worker_PP{stage}_TP{turn} pid=1) Model loading took {held / GIB:.2f} GiB memory and 1 seconds"
        found = explain_log(took + "\nGPU KV cache size: 1,000 tokens", model=slug, **cut)
        check = next(c for c in found.checks if c.name == "weights")
        assert check.verdict == "agrees", check
        assert abs(float(check.computed.split()[0]) - held / GIB) < 0.01


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"memory_fraction": 5}, "memory_fraction is 5"),
        ({"weight_element_bytes": -1}, "weight_element_bytes"),
        ({"weight_element_bytes": 0}, "weight_element_bytes"),
        ({"cache": "zzz"}, "unknown cache element type 'zzz'"),
        ({"block_tokens": 0}, "block_tokens is 0"),
        ({"batched_tokens": -1}, "batched_tokens is -1"),
    ],
)
@pytest.mark.parametrize("model", [None, "llama-3.1-8b"])
def test_what_cannot_be_is_refused_with_a_model_and_without(change, says, model):
    with pytest.raises(CalcError, match=re.escape(says)):
        explain_log(LOG, model=model, **change)


def test_every_number_that_the_reader_of_logs_knows_has_a_meaning():
    from calc.capacity._log import PATTERNS

    assert {name for name, _ in PATTERNS} == set(MEANINGS)
    for _, _, step in MEANINGS.values():
        link_of(step)


def test_geometry_and_text_give_one_report():
    text = json.dumps(TINY)
    assert size(text)["kv.bytes_per_token"] == kv_cache.layout(ModelGeometry.from_config(TINY)).bytes_per_position
