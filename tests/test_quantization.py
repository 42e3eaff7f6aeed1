"""Quantization: bytes by hand, readers and refusals, rounding against ml_dtypes, floors, support, the choice."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc import parameters, quantization
from calc.figures.quantization import trade
from calc.hardware import accelerator
from calc.hardware import accelerators as chips
from calc.models import ConfigError, catalogue, load
from calc.panel import render
from calc.quantization import (
    Candidate,
    Recovery,
    Scheme,
    Support,
    Timing,
    UnsupportedQuantization,
    candidates,
    crossover,
    decide,
    engines,
    front,
    gguf,
    gguf_mixes,
    matrices,
    read_quantization,
    recovery,
    relative_error,
    representable,
    round_float,
    round_trip,
    sample,
    scheme,
    schemes,
    step,
    stored,
    support,
    timing,
)
from calc.roofline import crossover_tokens
from calc.units import CalcError

ML_DTYPES = json.loads((Path(__file__).parent / "fixtures" / "ml_dtypes_0.6.0_rounding.json").read_text())["types"]
H100, A100, B200 = (accelerator(slug) for slug in ("h100-sxm", "a100-80gb-sxm", "b200-sxm"))

# --- stored bytes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rows", "columns", "by_hand"),
    [
        ("bf16", 10, 256, 10 * 256 * 2),
        ("gptq-int4-g128", 8, 256, 8 * 256 // 2 + 8 * 2 * 2 + 8 * 2 // 2 + 256 * 4),  # weights, scales, zeros, order
        ("awq-int4-g128", 8, 256, 8 * 256 // 2 + 8 * 2 * 2 + 8 * 2 // 2),
        ("int4-g128", 8, 256, 8 * 256 // 2 + 8 * 2 * 2 + 2 * 8),  # a shape of two int64
        ("int8-channel", 8, 256, 8 * 256 + 8 * 2),
        ("fp8-channel", 8, 256, 8 * 256 + 8 * 2),
        ("fp8-block", 256, 384, 256 * 384 + 2 * 3 * 4),
        ("fp8-block", 129, 1, 129 + 2 * 4),  # a block at the edge counts whole
        ("mxfp4", 8, 256, 8 * 256 // 2 + 8 * 8),
        ("nvfp4", 8, 256, 8 * 256 // 2 + 8 * 16 + 8),
    ],
)
def test_one_matrix_by_hand(name, rows, columns, by_hand):
    assert scheme(name).stored_bytes(rows, columns) == by_hand


@pytest.mark.parametrize("slug", catalogue())
def test_matrices_and_the_rest_are_the_model(slug):
    model = load(slug)
    groups = parameters.count(model).groups
    inside = dict.fromkeys(groups, 0)
    for matrix in matrices(model):
        inside[matrix.group] += matrix.parameters
    assert all(inside[group] <= total for group, total in groups.items())
    small = sum(groups.values()) - sum(inside.values())  # norms, biases, routers, convolutions
    assert 0 < small < 0.02 * sum(groups.values())
    assert stored(model, "bf16").total_bytes == 2 * parameters.count(model).total


@pytest.mark.parametrize("slug", ["llama-3.1-8b", "llama-3.2-1b", "deepseek-v3", "gpt-oss-20b", "qwen3-30b-a3b"])
@pytest.mark.parametrize("name", schemes())
def test_what_stays_stays(slug, name):
    model = load(slug)
    held, plain = stored(model, name), stored(model, "bf16")
    assert held.parameters == plain.parameters
    for group in ("embedding", "norms"):
        assert held.part(group) == plain.part(group)
    assert "routers" not in {p.group for p in held.parts if p.quantized}
    if name != "bf16":
        assert held.total_bytes < plain.total_bytes
        everything = stored(model, name, keeps=())
        assert everything.total_bytes < held.total_bytes
        assert everything.quantized - held.quantized == sum(
            m.parameters for m in matrices(model) if m.group in ("embedding", "lm_head")
        )


@pytest.mark.parametrize(
    ("slug", "layers", "total"), [("gpt-oss-20b", 24, 13_761_264_768), ("gpt-oss-120b", 36, 65_248_815_744)]
)
def test_gpt_oss_to_the_byte_from_its_fields(slug, layers, total):
    """Experts by hand from the configuration: blocks of 32 elements in 17 bytes, everything else in two."""
    hidden, intermediate = 2880, 2880
    experts = {24: 32, 36: 128}[layers]
    expert = layers * experts * (2 * intermediate * hidden + hidden * intermediate)
    others = parameters.count(load(slug)).total - expert
    assert expert // 32 * 17 + 2 * others == total
    kept = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    config = {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": kept}}
    assert read_quantization(config).stored(load(slug)).total_bytes == total


@settings(max_examples=60)
@given(
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
    tall=st.integers(1, 9),
    wide=st.integers(1, 9),
    bits=st.sampled_from([3, 4, 8]),
    scale=st.sampled_from([0, 8, 16, 32]),
    zero=st.sampled_from([0, 4]),
)
def test_matrix_bytes_block_by_block(rows, columns, tall, wide, bits, scale, zero):
    total = Fraction(0)
    for top in range(0, rows, tall):
        for left in range(0, columns, wide):
            total += (min(tall, rows - top) * min(wide, columns - left) * bits + scale + zero) / Fraction(8)
    sides = {"output_dim": rows, "input_dim": columns, "block_out": tall, "block_in": wide}
    ours = quantization.matrix_bytes(**sides, element_bits=bits, scale_bits=scale, zero_bits=zero)
    assert ours == float(total)


def test_unknown_names_are_refused_with_a_remedy():
    with pytest.raises(CalcError, match="no scheme 'int4-g64': use .*int4-g128"):
        scheme("int4-g64")
    with pytest.raises(CalcError, match="has no group 'experts': it has embedding"):
        stored(load("llama-3.1-8b"), "bf16").part("experts")


# --- GGUF -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mix", "printed"),
    [
        ("Q3_K_S", 3.6429),
        ("Q3_K_L", 4.2979),
        ("Q4_K_S", 4.6672),
        ("Q4_K_M", 4.8944),
        ("Q5_K_S", 5.5704),
        ("Q5_K_M", 5.7036),
        ("Q6_K", 6.5633),
        ("Q8_0", 8.5008),
        ("F16", 16.0005),
    ],
)
def test_llama_cpp_prints_the_same_bits(mix, printed):
    assert round(gguf(load("llama-3.1-8b"), mix).bits_per_weight, 4) == printed


def test_a_tied_embedding_gets_the_output_type_and_norms_fp32():
    small = gguf(load("llama-3.2-1b"), "Q4_K_M")
    embedding, norms = small.part("embedding"), small.part("norms")
    assert 8 * embedding.stored_bytes / embedding.parameters == 6.5625
    assert norms.stored_bytes == 4 * norms.parameters


@pytest.mark.parametrize("mix", gguf_mixes())
@pytest.mark.parametrize("slug", ["llama-3.1-8b", "llama-3.1-70b", "mistral-nemo"])
def test_a_file_lies_between_its_least_and_its_largest_type(slug, mix):
    held = gguf(load(slug), mix)
    least = quantization.gguf_bits(mix if mix in quantization.gguf_types() else mix.rpartition("_")[0])
    assert least <= held.bits_per_weight < max(6.6, least + 0.01)


def test_gguf_refuses_what_it_does_not_know():
    with pytest.raises(CalcError, match="no GGUF file type 'Q9_K'"):
        gguf(load("llama-3.1-8b"), "Q9_K")
    with pytest.raises(CalcError, match=r"gpt_oss model.*llama and mistral"):
        gguf(load("gpt-oss-20b"), "Q4_K_M")
    with pytest.raises(CalcError, match="no GGUF tensor type 'Q4_K_M'"):
        quantization.gguf_bits("Q4_K_M")


# --- reading a checkpoint's own description ---------------------------------------------------------------------


def quantized(**fields) -> dict:
    return {"quantization_config": fields}


def compressed(weights, acts=None, form="pack-quantized", **more) -> dict:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": acts}
    return quantized(
        quant_method="compressed-tensors", format=form, config_groups={"group_0": group}, ignore=["lm_head"], **more
    )


INT8 = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}
FP8 = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "token", "dynamic": True}
READS = {
    "gptq-int4-g128": quantized(quant_method="gptq", bits=4, group_size=128, desc_act=True, sym=True, lm_head=False),
    "awq-int4-g128": quantized(quant_method="awq", bits=4, group_size=128, zero_point=True, version="gemm"),
    "fp8-tensor": {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}},
    "fp8-block": quantized(
        quant_method="fp8", activation_scheme="dynamic", fmt="e4m3", scale_fmt="ue8m0", weight_block_size=[128, 128]
    ),
    "int4-g128": compressed(
        {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128, "actorder": None}
    ),
    "int8-channel": compressed(
        {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"}, INT8, "int-quantized"
    ),
    "fp8-channel": compressed(
        {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "channel"}, FP8, "float-quantized"
    ),
    "nvfp4": compressed(
        {"num_bits": 4, "type": "float", "symmetric": True, "strategy": "tensor_group", "group_size": 16},
        {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "dynamic": "local"},
        "nvfp4-pack-quantized",
    ),
    "mxfp4": compressed(
        {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}, {"num_bits": 4, "type": "float"},
        "mxfp4-pack-quantized",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
def test_a_checkpoint_s_description_gives_the_catalogue_s_bytes(name):
    found, model = read_quantization(READS[name]), load("llama-3.1-8b")
    assert found.stored(model).total_bytes == stored(model, name).total_bytes
    assert found.scheme.multiplies == scheme(name).multiplies


def test_nvidia_s_two_files_are_read():
    nvfp4 = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16}}
    nvfp4["quantization"]["exclude_modules"] = ["lm_head", "model.layers.0.mlp.gate"]
    found = read_quantization({"producer": {"name": "modelopt", "version": "0.33.1"}, **nvfp4})
    assert (found.method, found.scheme.bits_per_weight, found.cache) == ("modelopt", 4.5, "fp8")
    assert found.stored(load("qwen3-30b-a3b")).total_bytes == stored(load("qwen3-30b-a3b"), "nvfp4").total_bytes


FLAT = {"quant_method": "modelopt", "ignore": ["lm_head"], "kv_cache_scheme": FP8}


def test_modelopt_may_state_everything_in_config_json():
    """As vLLM and SGLang read it: the cache and the group in the words of compressed-tensors."""
    fp8 = read_quantization(quantized(**FLAT, quant_algo="FP8"))
    assert (fp8.scheme.element, fp8.cache, fp8.kept) == ("fp8", "fp8", ("embed_tokens", "lm_head"))
    assert read_quantization(quantized(**FLAT | {"kv_cache_scheme": None}, quant_algo="fp8")).cache is None
    grouped = {"group_0": {"weights": {"group_size": 32, "num_bits": 4, "type": "float"}, "targets": ["Linear"]}}
    for more, group in (({}, 16), ({"config_groups": grouped}, 32), ({"group_size": 64, "config_groups": grouped}, 64)):
        found = read_quantization(quantized(**FLAT, quant_algo="NVFP4", **more))
        assert (found.scheme.block, found.cache) == ((1, group), "fp8")
    with pytest.raises(UnsupportedQuantization, match="config_groups has 2 groups"):
        read_quantization(
            quantized(**FLAT, quant_algo="NVFP4", config_groups=grouped | {"group_1": grouped["group_0"]})
        )
    for cache, says in (({"num_bits": 8, "type": "int"}, "type is 'int'"), ({"num_bits": 4, "type": "float"}, "is 4")):
        with pytest.raises(UnsupportedQuantization, match=says):
            read_quantization(quantized(**FLAT | {"kv_cache_scheme": cache}, quant_algo="FP8"))


def test_a_scheme_is_found_wherever_engines_look():
    """Under its early name, and below an entry at the top that holds nothing."""
    inner = quantized(**FLAT, quant_algo="FP8")
    (said,) = inner.values()
    for config in (
        {"compression_config": said},
        {"quantization_config": None, "text_config": inner},
        {"quantization_config": None, "text_config": {"quantization_config": None}, "compression_config": said},
    ):
        assert read_quantization(config) == read_quantization(inner)
    assert read_quantization({"quantization_config": None, "text_config": {}}) is None


def test_the_cache_is_read_apart_from_the_weights():
    weights = {"num_bits": 8, "type": "float", "strategy": "tensor"}
    for scheme_of_cache, element in ((None, None), (FP8, "fp8"), (INT8, "int8")):
        found = read_quantization(compressed(weights, FP8, "float-quantized", kv_cache_scheme=scheme_of_cache))
        assert found.cache == element


def test_the_lists_of_modules_are_followed():
    model = load("llama-3.1-8b")
    fields = {"quant_method": "fp8", "activation_scheme": "dynamic"}
    ignored = ["model.layers.0", "re:.*down_proj$", "lm_head"]
    found = read_quantization(quantized(**fields, modules_to_not_convert=ignored))
    kept = [m for m in matrices(model) if m.path.startswith("model.layers.0.") or m.path.endswith("down_proj")]
    ends = [m for m in matrices(model) if m.group in ("embedding", "lm_head")]
    total = sum(m.parameters for m in matrices(model))
    assert found.stored(model).quantized == total - sum(m.parameters for m in kept + ends)
    assert read_quantization({"text_config": quantized(**fields)}).scheme.bits == 8


def test_nothing_said_is_nothing_read(tmp_path):
    assert read_quantization({"model_type": "llama"}) is None
    assert read_quantization({"quantization_config": None}) is None
    path = tmp_path / "config.json"
    path.write_text(json.dumps(READS["awq-int4-g128"]))
    assert read_quantization(path) == read_quantization(READS["awq-int4-g128"])


LLAMA_8B = [(4096, 4096), (1024, 4096), (1024, 4096), (4096, 4096), (14336, 4096), (14336, 4096), (4096, 14336)]
NF4 = {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_type": "nf4"}


def quantized_bytes(found, model="llama-3.1-8b") -> float:
    """Bytes of the quantized matrices of Llama-3.1-8B, whose 32 layers have those of `LLAMA_8B`."""
    held = found.stored(load(model))
    assert held.quantized == 32 * sum(rows * columns for rows, columns in LLAMA_8B)
    return sum(part.stored_bytes for part in held.parts if part.quantized)


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("nested", [False, True])
def test_bitsandbytes_has_a_scale_for_64_weights_which_may_be_quantized_by_256(kind, nested):
    """Dettmers et al., QLoRA, arXiv:2305.14314, section 3: 0.5 bits a weight for scales, 0.127 where quantized."""
    fields = NF4 | {"bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": nested}
    found = read_quantization(quantized(**fields, bnb_4bit_quant_storage="uint8", llm_int8_skip_modules=None))
    assert found.scheme.bits_per_weight == pytest.approx(4 + (0.127 if nested else 0.5), abs=1e-4)
    expected = 0
    for rows, columns in LLAMA_8B:
        blocks = rows * columns // 64
        tables = 16 * 4 + (256 * 4 if nested else 0)
        expected += rows * columns // 2 + (blocks + 4 * blocks // 256 if nested else 4 * blocks) + tables
    assert quantized_bytes(found) == 32 * expected


def test_bitsandbytes_in_8_bits_has_a_scale_for_each_row():
    found = read_quantization(quantized(quant_method="bitsandbytes", _load_in_8bit=True, load_in_8bit=True))
    assert (found.method, found.scheme.multiplies) == ("bitsandbytes", "int8")
    assert quantized_bytes(found) == 32 * sum(rows * columns + 4 * rows + 1 for rows, columns in LLAMA_8B)


def test_modules_that_bitsandbytes_skips_are_those_listed():
    assert read_quantization(quantized(**NF4)).kept == ("embed_tokens", "lm_head")
    skipped = ["lm_head", "model.layers.1.mlp"]
    assert read_quantization(quantized(**NF4, llm_int8_skip_modules=skipped)).kept == ("embed_tokens", *skipped)
    for both in ({"load_in_8bit": True}, {"load_in_4bit": False}):
        with pytest.raises(ConfigError, match="load_in_4bit is .* one of them must be true"):
            read_quantization(quantized(**NF4 | both))


def test_fbgemm_has_an_fp32_scale_for_each_row_and_keeps_what_it_lists():
    """As transformers builds it (integrations/fbgemm_fp8.py): weight_scale is fp32, one for each output."""
    found = read_quantization(quantized(quant_method="fbgemm_fp8", activation_scale_ub=1200.0))
    assert quantized_bytes(found) == 32 * sum(rows * columns + 4 * rows for rows, columns in LLAMA_8B)
    listed = [f"model.layers.{i}.self_attn" for i in range(32)] + ["model.layers.0.mlp.down_proj"]
    found = read_quantization(quantized(quant_method="fbgemm_fp8", modules_to_not_convert=listed))
    down = 4096 * 14336
    assert found.stored(load("llama-3.1-8b")).quantized == 32 * 3 * down - down


def test_gemv_fills_groups_up_to_whole_words():
    """As AutoAWQ lays it out: scales and zero points of a row in words of eight groups, twice that for groups of 64."""
    fields = {"quant_method": "awq", "bits": 4, "zero_point": True}
    gemm, gemv = (read_quantization(quantized(**fields, group_size=128, version=v)) for v in ("gemm", "gemv"))
    assert gemv.scheme.stored_bytes(64, 4096) == gemm.scheme.stored_bytes(64, 4096)
    words = 11  # of 86 groups
    assert gemv.scheme.stored_bytes(64, 11008) == 64 * (11008 // 2 + words * 4 + words * 8 * 2)
    small = read_quantization(quantized(**fields, group_size=64, version="GEMV"))
    assert small.scheme.stored_bytes(64, 11008) == 64 * (11008 // 2 + 22 * 4 + 22 * 8 * 2)
    assert small.scheme.bits_per_weight == 4.3125


def test_sparsity_that_leaves_nothing_out_is_none():
    dense = {"format": "dense", "global_sparsity": 0.1, "sparsity_structure": "unstructured", "targets": []}
    plain = read_quantization(compressed(GROUP))
    assert read_quantization(compressed(GROUP, sparsity_config=dense)) == plain
    assert read_quantization(compressed(GROUP, sparsity_config={})) == plain


GROUP = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
TWO = quantized(quant_method="compressed-tensors", format="pack-quantized", config_groups={"a": {}, "b": {}})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (quantized(quant_method="hqq"), "method 'hqq' is not known here; known are awq, bitsandbytes, compressed-tens"),
        (quantized(quant_method="auto-round"), "'auto-round' is not known.* give calc.quantization.stored the model"),
        (quantized(quant_method="torchao"), "'torchao' is not known .* a Scheme of your own"),
        (quantized(quant_method="bitsandbytes", load_in_4bit=True, bnb_4bit_quant_type="af4"), "type is 'af4'"),
        (quantized(quant_method="bitsandbytes", load_in_4bit=1), "load_in_4bit is 1: known here are True, False"),
        (
            quantized(quant_method="bitsandbytes", load_in_8bit=True, llm_int8_has_fp16_weight=True),
            "llm_int8_has_fp16_weight is True",
        ),
        (
            quantized(quant_method="bitsandbytes", load_in_4bit=True) | {"num_local_experts": 8},
            "num_local_experts is 8: how it stores experts is not known",
        ),
        (
            quantized(quant_method="fbgemm_fp8") | {"text_config": {"num_local_experts": 16}},
            "num_local_experts is 16: how it stores experts",
        ),
        (
            quantized(quant_method="awq", bits=4, group_size=48, version="gemv"),
            "group_size is 48 in version gemv: known here are 32, 64",
        ),
        (compressed(GROUP, sparsity_config={"format": "sparse-24-bitmask"}), "sparsity_config has format 'sparse-24"),
        (quantized(bits=4), "method None is not known"),
        (quantized(quant_method=["gptq"]), "is not known here"),
        (quantized(quant_method="gptq", bits=5, group_size=128), "bits is 5: known here are 2, 3, 4, 8"),
        (quantized(quant_method="gptq", bits=4, group_size=128, dynamic={"+:a": {}}), "dynamic is .*not supported"),
        (quantized(quant_method="awq", bits=4, group_size=128, version="marlin"), "version is 'marlin'"),
        (quantized(quant_method="fp8", activation_scheme="none"), "activation_scheme is 'none'"),
        (quantized(quant_method="fp8", activation_scheme="static", fmt="e5m2"), "fmt is 'e5m2'"),
        (compressed(GROUP, transform_config={"a": 1}), "transform_config is .*not supported"),
        (compressed(GROUP, form="marlin-24"), "format is 'marlin-24'"),
        (compressed(GROUP | {"strategy": "channel_group"}), "strategy is 'channel_group'"),
        (TWO, "config_groups has 2 groups"),
        ({"quantization": {"quant_algo": "MIXED_PRECISION"}}, "quant_algo is 'MIXED_PRECISION'"),
        ({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "NVFP4"}}, "kv_cache_quant_algo is 'NVFP4'"),
    ],
)
def test_what_is_not_known_is_refused_by_name(config, message):
    with pytest.raises(UnsupportedQuantization, match=message):
        read_quantization(config)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quantization_config": "fp8"}, "quantization_config"),
        (quantized(quant_method="gptq", bits=4), "group_size"),
        (quantized(quant_method="gptq", bits=4, group_size=0), "group_size"),
        (quantized(quant_method="gptq", bits=4, group_size=10**9), "group_size"),
        (quantized(quant_method="fp8", activation_scheme="dynamic", weight_block_size=[128]), "two positive whole"),
        (quantized(quant_method="fp8", activation_scheme="dynamic", weight_block_size=[128, True]), "two positive"),
        (quantized(quant_method="fp8", activation_scheme="dynamic", ignored_layers="lm_head"), "list of module names"),
        (quantized(quant_method="mxfp4", modules_to_not_convert=["re:(a+)+b"]), "has the expression"),
        (quantized(quant_method="mxfp4", modules_to_not_convert=["re:.*.*.*.*x"]), "at most 3"),
        (quantized(quant_method="mxfp4", modules_to_not_convert=["re:(?=a)b"]), "has the expression"),
        (quantized(quant_method="mxfp4", modules_to_not_convert=["re:(a"]), "has the expression"),
        (quantized(quant_method="mxfp4", modules_to_not_convert=["re:a"] * 101), "more than 100 expressions"),
        (quantized(quant_method="compressed-tensors", config_groups=[]), "config_groups"),
        (compressed(GROUP, form="nvfp4-pack-quantized"), "strategy"),
        (compressed({"num_bits": 8, "type": "float", "strategy": "channel"}, form="int-quantized"), "must go together"),
    ],
)
def test_bad_fields_are_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        read_quantization(config)


# --- real rounding ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", ["fp8", "fp4"])
def test_small_floats_equal_ml_dtypes(element):
    assert representable(element) == ML_DTYPES[element]["values"]
    numbers, cast = np.array(ML_DTYPES[element]["cast"]).T
    assert len(numbers) > 150
    np.testing.assert_array_equal(round_float(numbers, element), cast)


@pytest.mark.parametrize("element", ["fp8", "fp4"])
def test_small_floats_cut_off_and_go_to_the_nearest(element):
    values = np.array(representable(element))
    numbers = np.random.RandomState(3).uniform(1.5 * values[0], 1.5 * values[-1], 2000)
    rounded = round_float(numbers, element)
    assert set(rounded.tolist()) <= set(values.tolist())
    nearest = np.abs(numbers[:, None] - values).min(axis=1)
    np.testing.assert_allclose(np.abs(rounded - numbers), nearest, rtol=1e-12, atol=0)
    with pytest.raises(CalcError, match="no float type 'fp6'"):
        round_float(values, "fp6")


@pytest.mark.parametrize("name", [s for s in schemes() if s != "bf16"])
def test_what_was_stored_is_stored_again_unchanged(name):
    weights = sample(128, 256, seed=4, outliers=3, outlier_size=10)
    once = round_trip(weights, scheme(name))
    np.testing.assert_allclose(round_trip(once, scheme(name)), once, rtol=1e-9, atol=1e-12)
    assert 0 < relative_error(once, weights) < 0.4


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 999), group=st.sampled_from([16, 32, 64]), bits=st.sampled_from([4, 8]), zero=st.booleans())
def test_integers_err_by_half_a_step_at_most(seed, group, bits, zero):
    weights = sample(4, 64, seed=seed, outliers=2, outlier_size=8)
    how = Scheme(name="x", element=f"int{bits}", bits=bits, block=(1, group), zero_bits=bits if zero else 0)
    off = np.abs(round_trip(weights, how) - weights).reshape(4, -1, group).max(axis=2)
    groups = weights.reshape(4, -1, group)
    span = np.maximum(groups.max(axis=2), 0) - np.minimum(groups.min(axis=2), 0)
    spacing = span / (2**bits - 1) if zero else np.abs(groups).max(axis=2) / (2 ** (bits - 1) - 1)
    # a zero point is rounded too, so the ends of a group can be cut off by half a step more
    assert (off <= spacing * (1 if zero else 0.5) * (1 + 1e-9)).all()


def test_scales_of_mxfp4_are_powers_of_two_and_of_nvfp4_small_floats():
    weights = sample(8, 64, seed=5)
    on_mx, on_nv = (round_trip(weights, scheme(s)) for s in ("mxfp4", "nvfp4"))
    grid = {abs(v) for v in representable("fp4")}
    for group in on_mx.reshape(-1, 32):
        powers = [2.0**e for e in range(-20, 8)]
        assert any(all(abs(v) / p in grid for v in group) for p in powers)
    whole = np.abs(weights).max() / (6 * 448)
    scales = [v * whole for v in representable("fp8") if v > 0]
    for group in on_nv.reshape(-1, 16):
        assert any(all(min(abs(abs(v) / s - g) for g in grid) < 1e-9 for v in group) for s in scales)


def test_smaller_groups_err_less_and_outliers_err_more():
    plain = sample(64, 1024, seed=6)
    struck = sample(64, 1024, seed=6, outliers=4, outlier_size=20)
    same = (plain == struck).all(axis=0)
    assert same.sum() == 1020

    def error(values, block, element="int4"):
        how = Scheme(name="x", element=element, bits=4, block=block)
        return relative_error(round_trip(values, how)[:, same], values[:, same])

    errors = [error(plain, (1, g)) for g in (16, 32, 64, 128, 256, 512, 1024)]
    assert errors == sorted(errors)
    for group in (16, 128, 1024):
        assert error(struck, (1, group)) > 1.2 * error(plain, (1, group))
    assert error(struck, (1, 1024), "fp8") < 1.1 * error(plain, (1, 1024), "fp8")


def test_a_block_of_zeros_and_sides_that_do_not_divide():
    for name in ("int8-channel", "mxfp4", "nvfp4", "fp8-tensor", "gptq-int4-g128"):
        assert not round_trip(np.zeros((128, 128)), scheme(name)).any()
    with pytest.raises(CalcError, match="8 x 100 is no multiple of blocks of 1 x 128"):
        round_trip(np.ones((8, 100)), scheme("int4-g128"))
    with pytest.raises(CalcError, match="no rounding for elements of type 'fp6'"):
        round_trip(np.ones((8, 8)), Scheme(name="x", element="fp6", bits=6))
    with pytest.raises(CalcError, match="nothing but zeros"):
        relative_error(np.ones(3), np.zeros(3))


def test_a_seed_is_one_matrix_forever():
    first = [1.764052345967664, 0.4001572083672233, 0.9787379841057392]  # of numpy's legacy stream
    assert sample(2, 3, seed=0)[0].tolist() == pytest.approx(first)
    for bad in ({"seed": -1}, {"seed": 1.0}, {"outliers": 4}, {"outlier_size": 0}, {"rows": 0}):
        with pytest.raises(CalcError, match="sample"):
            sample(**{"rows": 2, "columns": 3, "seed": 0} | bad)


# --- floors and crossovers --------------------------------------------------------------------------------------


def test_a_step_by_hand():
    """Llama-3.1-70B on one of eight H100: all but the embedding is read, two FLOP a weight and token."""
    llama = load("llama-3.1-70b")
    one = step(llama, stored(llama, "bf16"), H100, "bf16", ranks=8, step_tokens=100)
    weights = 70_553_706_496 - 128_256 * 8192
    assert one.read_s == pytest.approx(2 * weights / 8 / 3.35e12)
    multiplied = weights - (2 * 80 + 1) * 8192  # norms are read, not multiplied
    assert one.multiply_s == pytest.approx(2 * 100 * multiplied / 8 / 989.5e12)
    assert one.floor_s == one.read_s


@pytest.mark.parametrize("slug", ["llama-3.1-8b", "llama-3.2-1b", "qwen2.5-72b"])
@pytest.mark.parametrize("name", ["bf16", "int4-g128", "fp8-channel"])
def test_a_dense_model_crosses_where_the_formula_says(slug, name):
    model = load(slug)
    held = stored(model, name)
    multiplies = support(name, H100, "vllm").multiplies
    per_weight = step(model, held, H100, multiplies, ranks=1, step_tokens=1).bytes_per_weight
    bandwidth = H100.bandwidth.value
    exact = crossover_tokens(peak=H100.peak(multiplies).value, bandwidth=bandwidth, bytes_per_weight=per_weight)
    assert crossover(model, held, H100, multiplies) == math.ceil(exact)
    assert crossover(model, held, H100, multiplies, ranks=4) == math.ceil(exact)


@pytest.mark.parametrize("slug", ["gpt-oss-20b", "qwen3-30b-a3b", "deepseek-v3", "mixtral-8x7b"])
def test_a_mixture_crosses_later(slug):
    model = load(slug)
    held = stored(model, "fp8-block")
    one = step(model, held, H100, "fp8", ranks=1, step_tokens=1)
    formula = crossover_tokens(
        peak=H100.peak("fp8").value, bandwidth=H100.bandwidth.value, bytes_per_weight=one.bytes_per_weight
    )
    assert crossover(model, held, H100, "fp8") > 1.5 * formula
    reads = [step(model, held, H100, "fp8", ranks=1, step_tokens=t).read_bytes for t in (1, 2, 8, 64, 4096)]
    assert reads == sorted(reads)
    untouched = sum(p.stored_bytes for p in held.parts if p.group != "embedding")
    assert reads[-1] == pytest.approx(untouched, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    slug=st.sampled_from(["llama-3.1-8b", "llama-3.1-70b", "gpt-oss-20b"]),
    chip=st.sampled_from([H100, A100, B200]),
    tokens=st.integers(1, 5000),
)
def test_fewer_bytes_never_slow_a_floor_and_stop_helping_where_bf16_crosses(slug, chip, tokens):
    model = load(slug)
    names = ("bf16", "fp8-channel", "int4-g128")
    bf16, eight, four = (
        step(model, stored(model, s), chip, "bf16", ranks=2, step_tokens=tokens).floor_s for s in names
    )
    assert four <= eight <= bf16
    assert (four < bf16) == (tokens < crossover(model, stored(model, "bf16"), chip, "bf16", ranks=2))


def test_a_loop_that_adds_the_same_to_both():
    slow, fast, seen = 0.0134, 0.0037, 1.3
    host = quantization.fixed_overhead(slow=slow, fast=fast, speedup=seen)
    assert (slow + host) / (fast + host) == pytest.approx(seen)


# --- what runs where --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "slug", "engine", "multiplies"),
    [
        ("int8-channel", "a100-80gb-sxm", "vllm", "int8"),
        ("int8-channel", "h100-sxm", "vllm", "int8"),
        ("int8-channel", "b200-sxm", "vllm", None),  # its INT8 kernels end before compute capability 10
        ("int8-channel", "h100-sxm", "tensorrt-llm", None),
        ("fp8-channel", "a100-80gb-sxm", "vllm", "bf16"),  # widened on the way
        ("fp8-channel", "l40s", "vllm", "fp8"),
        ("fp8-channel", "mi300x", "vllm", "fp8"),
        ("fp8-tensor", "a100-80gb-sxm", "tensorrt-llm", None),
        ("fp8-block", "l40s", "tensorrt-llm", None),
        ("fp8-block", "h100-sxm", "tensorrt-llm", "fp8"),
        ("int4-g128", "h100-sxm", "vllm", "bf16"),
        ("int4-g128", "mi300x", "vllm", None),
        ("awq-int4-g128", "b200-sxm", "tensorrt-llm", None),
        ("nvfp4", "b200-sxm", "vllm", "fp4"),
        ("nvfp4", "h100-sxm", "vllm", "bf16"),
        ("nvfp4", "h100-sxm", "tensorrt-llm", None),
        ("bf16", "a100-80gb-sxm", "tensorrt-llm", "bf16"),
        ("bf16", "tpu-v5e", "vllm", None),  # no support recorded
    ],
)
def test_support(name, slug, engine, multiplies):
    assert support(name, accelerator(slug), engine).multiplies == multiplies


@pytest.mark.parametrize("engine", engines())
def test_nothing_is_multiplied_in_what_the_chip_lacks(engine):
    for slug in chips():
        for name in schemes():
            how = support(name, accelerator(slug), engine)
            assert how.why
            if how.runs:
                assert how.multiplies in accelerator(slug).peaks
                assert how.multiplies in ("bf16", scheme(name).multiplies)


def test_an_unknown_engine_is_refused():
    with pytest.raises(CalcError, match="no engine 'tgi' here: support is recorded for vllm, tensorrt-llm"):
        support("bf16", H100, "tgi")


# --- the choice -------------------------------------------------------------------------------------------------


def test_unknown_stays_unknown():
    llama, small = load("llama-3.1-70b"), load("llama-3.1-8b")
    common = {"tokens": 64, "engine": "vllm"}
    assert recovery("llama-3.1-70b", "mxfp4", "OpenLLM v1") is None
    assert recovery("mixtral-8x7b", "int4-g128", "OpenLLM v1") is None
    assert timing("int4-g128", "bf16", "h100-sxm", model=llama, ranks=8, **common) is None
    assert timing("fp8-channel", "fp8", "h100-sxm", model=llama, ranks=4, **common) is None
    assert timing("fp8-channel", "fp8", "h100-sxm", model=small, ranks=8, **common) is None
    assert timing("fp8-channel", "fp8", "h100-sxm", model=llama, ranks=8, **common).engine == "vLLM 0.24.0"
    with pytest.raises(CalcError, match="no benchmark 'MMLU' here: use OpenLLM v1"):
        recovery("llama-3.1-70b", "bf16", "MMLU")


def test_a_bound_is_shown_as_one():
    assert str(recovery("llama-3.1-70b", "int8-channel", "OpenLLM v1")) == "at least 98.8%"


def made(size, percent, faster, *, runs=True, fits=True) -> Candidate:
    return Candidate(
        scheme="bf16",
        support=Support("bf16" if runs else None, ""),
        rank_bytes=size,
        fits=fits,
        recovery=None if percent is None else Recovery(percent, False, "", ""),
        timing=None if faster is None else Timing(faster, "", 64, 1.0),
    )


scores = st.builds(
    made,
    st.integers(1, 4),
    st.sampled_from([None, 97, 99, 100]),
    st.sampled_from([None, 0.9, 1.0, 1.5]),
    runs=st.booleans(),
    fits=st.booleans(),
)


@settings(max_examples=200)
@given(found=st.lists(scores, max_size=7), floor=st.sampled_from([90, 98, 99.5, 101]))
def test_the_front_and_the_choice(found, floor):
    known = [c for c in found if c.support.runs and c.fits and c.recovery and c.timing]
    best = front(found)

    def beats(a, b):
        better = (a.rank_bytes < b.rank_bytes, a.recovery.percent > b.recovery.percent)
        worse = (a.rank_bytes > b.rank_bytes, a.recovery.percent < b.recovery.percent)
        faster, slower = a.timing.times_faster > b.timing.times_faster, a.timing.times_faster < b.timing.times_faster
        return any((*better, faster)) and not any((*worse, slower))

    for c in known:
        assert (c in best) != any(beats(other, c) for other in known)
    chosen = decide(found, floor_percent=floor)
    good = [c for c in known if c.recovery.percent >= floor]
    if chosen is None:
        assert not good
    else:
        assert chosen in good and chosen.timing.times_faster == max(c.timing.times_faster for c in good)
        rivals = [c for c in good if c.timing.times_faster == chosen.timing.times_faster]
        assert chosen.rank_bytes == min(c.rank_bytes for c in rivals)


def choose(slug="llama-3.1-70b", chip=H100, floor=99, **changed):
    asked = {"engine": "vllm", "ranks": 8, "step_tokens": 64, "benchmark": "OpenLLM v2"}
    asked |= {"usable_bytes": 70 * 2**30, "cache_bytes": 5 * 2**30} | changed
    return decide(candidates(load(slug), slug, chip, **asked), floor_percent=floor)


def test_the_decision_and_what_turns_it():
    assert choose().scheme == "fp8-channel"
    assert choose(chip=A100).scheme == "bf16"
    assert choose(chip=A100, benchmark="OpenLLM v1", floor=98.5).scheme == "int8-channel"
    assert choose(chip=A100, benchmark="OpenLLM v1", step_tokens=1).scheme == "gptq-int4-g128"
    assert choose(usable_bytes=2**30) is None
    assert choose(slug="llama-3.1-8b") is None  # no measured kernels of its shape


# --- the panel --------------------------------------------------------------------------------------------------

ASKED = {"model": "llama-3.1-70b", "weights": "int4-g128", "cache": "fp8", "accelerator": "h100-sxm", "engine": "vllm"}
ASKED |= {"ranks": 8, "sequences": 64, "positions": 4096, "usable_gib": 70}


def shown(**changed) -> dict:
    return json.loads(render("calc.quantization:quantization_panel", json.dumps(ASKED | changed)))


def test_the_panel_says_what_the_library_says():
    llama = load("llama-3.1-70b")
    found = shown()
    assert found["ok"]
    texts = {row["label"]: row["text"] for row in found["rows"]}
    assert texts["Weights, each of 8 ranks"] == "4.598 GiB"
    assert texts["… and in bf16"] == "16.43 GiB"
    cross = crossover(llama, stored(llama, "int4-g128"), H100, "bf16", ranks=8)
    assert texts["Tokens in a step that wait for arithmetic, from"] == str(cross)
    assert "waits for the weights" in found["meaning"]
    assert "waits for the arithmetic" in shown(sequences=cross)["meaning"]
    assert "does not fit" in shown(usable_gib=5)["meaning"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"weights": "int8-channel", "accelerator": "b200-sxm"}, "no support.*Choose another scheme, chip or engine"),
        ({"ranks": 3}, "3"),
        ({"sequences": 0}, "sequences"),
        ({"usable_gib": 0}, "usable_gib"),
        ({"weights": "int3"}, "no scheme 'int3'"),
    ],
)
def test_the_panel_refuses_the_impossible(changed, message):
    found = shown(**changed)
    assert not found["ok"]
    assert re.search(message, found["error"])


@pytest.mark.parametrize(("engine", "apart"), [("vllm", True), ("sglang", False)])
def test_another_engine_s_speed_is_drawn_apart(engine, apart):
    """On an H100 the block-scaled fp8 was measured in SGLang alone, the rest in vLLM."""
    sizes = {"usable_bytes": 70 * 2**30, "cache_bytes": 0, "benchmark": "OpenLLM v2", "step_tokens": 64, "ranks": 8}
    found = quantization.candidates(
        load("llama-3.1-70b"), "llama-3.1-70b", accelerator("h100-sxm"), engine="vllm", **sizes
    )
    if not apart:
        found = [c for c in found if c.timing and c.timing.engine.startswith("SGLang")]
    name = {"vllm": "vLLM 0.32", "sglang": "SGLang 0.5"}[engine]
    html = trade(found=found, chosen=None, engine=name)._repr_html_()
    assert ("Squares: speed measured in SGLang, over its own bf16" in html) == apart


@pytest.mark.parametrize("tokens", [0, -1, float("nan")])
def test_a_timing_is_of_some_tokens(tokens):
    with pytest.raises(CalcError, match="timing: tokens is"):
        quantization.timing(
            "int8-channel", "int8", "a100-80gb-sxm", model=load("llama-3.1-70b"), ranks=8, tokens=tokens, engine="vllm"
        )


def test_a_fixed_overhead_needs_a_faster_step():
    with pytest.raises(CalcError, match="speedup above 1"):
        quantization.fixed_overhead(slow=2, fast=1, speedup=1)
