"""Later families against transformers' parameter counts and vLLM's cache, and what they refuse by name."""

import copy
import json
from collections import Counter
from pathlib import Path

import pytest

from calc import capacity, kv_cache
from calc.adapters import sites
from calc.models import ConfigError, ModelGeometry, RecurrentState, UnsupportedArchitecture
from calc.parallel import Parallel, weights_on_rank
from calc.parameters import count, indexer_parameters
from calc.quantization import matrices, rank_bytes
from calc.units import CalcError

FIXTURES = Path(__file__).parent / "fixtures"
FIXTURE = json.loads((FIXTURES / "later_families.json").read_text())
LENGTH = FIXTURE["max_model_len"]
MODELS = FIXTURE["models"] + json.loads((FIXTURES / "compressed_families.json").read_text())["models"]
BY_TYPE = {model["config"]["model_type"]: model["config"] for model in MODELS}
ROWS = [(model, row) for model in MODELS for row in model["cache"]]
HELD = [(model, row) for model, row in ROWS if "refused" not in row]


def changed(family, **fields):
    """A family's configuration with some fields of its text part replaced; None takes a field away."""
    config = copy.deepcopy(BY_TYPE[family])
    text = config.get("text_config", config)
    for name, value in fields.items():
        text.pop(name, None)
        if value is not None:
            text[name] = value
    return config


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m["name"])
def test_parameters_equal_transformers_to_the_last(model):
    ours, theirs = count(ModelGeometry.from_config(model["config"])), model["parameters"]
    assert ours.groups == theirs["groups"]
    assert ours.total == theirs["total"]
    assert ours.active == theirs["active"]
    assert ours.active_excluding_embedding == theirs["active_excluding_embedding"]


@pytest.mark.parametrize(
    ("model", "row"), ROWS, ids=[f"{m['name']}-{r['ranks']}-{r['element']}-{r['prefix_caching']}" for m, r in ROWS]
)
def test_cache_equals_what_vllm_allocates(model, row):
    geometry = ModelGeometry.from_config(model["config"])
    if "refused" in row:
        with pytest.raises(CalcError, match="can't run on"):
            kv_cache.layout(geometry, element=row["element"], ranks=row["ranks"])
        return
    cache = kv_cache.layout(geometry, element=row["element"], ranks=row["ranks"])
    assert cache.bytes_per_position == row["bytes_per_token_all_growing"]
    assert cache.unbounded_bytes_per_position == row["bytes_per_token_unbounded_kinds"]
    assert cache.fixed_bytes == row["state_bytes_per_seq"]
    for positions, resident in row["resident_bytes"].items():
        assert kv_cache.resident_bytes(cache, positions=int(positions)) == resident
    ours = sorted((kind.layers, kind.bytes_per_position or kind.fixed_bytes) for kind in cache.kinds)
    assert ours == sorted((layers, size) for _, layers, size in row["kinds"])


@pytest.mark.parametrize(
    ("model", "row"), HELD, ids=[f"{m['name']}-{r['ranks']}-{r['element']}-{r['prefix_caching']}" for m, r in HELD]
)
def test_pool_equals_what_vllm_prints(model, row):
    geometry = ModelGeometry.from_config(model["config"])
    layout = {"element": row["element"], "ranks": row["ranks"], "prefix_caching": row["prefix_caching"]}
    pool = capacity.pool(geometry, **layout)
    shown = capacity.printed(
        pool, memory_bytes=row["for_memory"], length=LENGTH, in_flight=2 * FIXTURE["max_num_batched_tokens"]
    )
    assert pool.block_bytes() == row["bytes_per_block"]
    assert (shown.blocks, shown.request_blocks) == (row["num_blocks"], row["request_blocks"])
    assert shown.tokens == row["log_tokens"]


def test_the_fixture_has_every_kind():
    kinds = {kind[0] for _, row in ROWS for kind in row.get("kinds", [])}
    assert kinds >= {"full", "sliding", "chunked_local", "mla", "indexer", "state:gdn_attn", "state:mamba2"}
    assert sum("refused" in row for _, row in ROWS) >= 4


def test_layers_that_take_their_neighbor_s_choice_have_no_indexer():
    every_fourth = ModelGeometry.from_config(changed("glm_moe_dsa", index_topk_freq=4))
    pattern = "FF" + "FSSS" * 19
    stated = ModelGeometry.from_config(changed("glm_moe_dsa", index_topk_pattern=pattern))
    types = [{"F": "full", "S": "shared"}[mark] for mark in pattern]
    listed = ModelGeometry.from_config(changed("glm_moe_dsa", indexer_types=types))
    assert stated.layers == listed.layers
    own = [layer.mixer.own_index for layer in every_fourth.layers]
    assert own[:8] == [True, True, False, False, False, True, False, False]
    all_of_them = count(ModelGeometry.from_config(BY_TYPE["glm_moe_dsa"]))
    one = indexer_parameters(hidden=6144, query_rank=2048, index_heads=32, index_dim=128)
    assert all_of_them.indexer - count(every_fourth).indexer == own.count(False) * one
    cache = {kind.kind: kind.layers for kind in kv_cache.layout(every_fourth).kinds}
    assert cache["indexer"] == own.count(True)
    fp8 = kv_cache.layout(every_fourth, element="fp8")
    assert fp8.bytes_per_position == 78 * 656 + own.count(True) * 132


def test_a_single_group_of_a_state_is_copied_to_every_rank():
    lone = ModelGeometry.from_config(changed("nemotron_h", n_groups=1))
    mamba = next(layer.mixer for layer in lone.layers if isinstance(layer.mixer, RecurrentState))
    convolution, matrices = mamba.on_rank(8)
    assert matrices.elements * 8 == mamba.parts[1].elements
    assert convolution.elements == (mamba.conv_kernel - 1) * (mamba.inner // 8 + 2 * mamba.state_dim)


def test_mimo_v2_flash_has_unequal_heads():
    config = {
        "model_type": "mimo_v2_flash",
        "architectures": ["MiMoV2FlashForCausalLM"],
        "hidden_size": 4096,
        "num_hidden_layers": 48,
        "vocab_size": 152576,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "head_dim": 192,
        "v_head_dim": 128,
        "swa_num_attention_heads": 64,
        "swa_num_key_value_heads": 8,
        "swa_head_dim": 192,
        "swa_v_head_dim": 128,
        "sliding_window": 128,
        "hybrid_layer_pattern": [0 if i == 0 or (i + 1) % 6 == 0 else 1 for i in range(48)],
        "moe_layer_freq": [0] + [1] * 47,
        "intermediate_size": 16384,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
        "n_shared_experts": None,
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
    }
    model = ModelGeometry.from_config(config)
    cache = {kind.kind: (kind.layers, kind.bytes_per_position) for kind in kv_cache.layout(model).kinds}
    assert cache == {"full": (9, 4 * 320 * 2), "window": (39, 8 * 320 * 2)}
    attention = 4096 * (64 * 192 + 64 * 128)  # queries and output
    by_hand = 9 * (attention + 4096 * 4 * 320) + 39 * (attention + 4096 * 8 * 320 + 64)
    assert count(model).attention == by_hand
    bare = {
        name: value for name, value in config.items() if not name.startswith(("swa_", "hybrid", "moe_layer", "add_"))
    }
    assert ModelGeometry.from_config(bare).layers == model.layers


@pytest.mark.parametrize(
    ("family", "fields", "message"),
    [
        ("gemma4", {"hidden_size_per_layer_input": 256}, "hidden_size_per_layer_input is 256"),
        ("gemma4", {"num_kv_shared_layers": 10}, "num_kv_shared_layers is 10"),
        ("gemma4", {"use_bidirectional_attention": "all"}, "must be null or vision"),
        ("minimax_m2", {"shared_intermediate_size": 1536}, "shared_intermediate_size is 1536"),
        ("minimax_m2", {"qk_norm_type": "per_head"}, "one norm per layer"),
        ("nemotron_h", {"hybrid_override_pattern": "MX"}, "layer 1 is 'X'"),
        ("nemotron_h", {"sliding_window": 4096}, "sliding_window is set"),
        ("deepseek_v4", {"compress_ratios": [0, 4, 8] * 15}, r"compress_ratios.2. is 8: supported are 0, 4, 128"),
        ("deepseek_v4", {"compress_rates": {"heavily_compressed_attention": 64}}, "compress_rates has 64"),
        ("deepseek_v4", {"n_shared_experts": 2}, "n_shared_experts is 2: supported is 1"),
        ("deepseek_v4", {"num_key_value_heads": 8}, "num_key_value_heads is 8: supported is 1"),
        ("deepseek_v4", {"attention_bias": True}, "attention_bias is True: supported is False"),
        ("llama4", {"hc_mult": 4}, "hc_mult is 4"),
        ("minimax_m3", {"attention_output_gate": True}, "attention_output_gate is True: supported is False"),
        ("minimax_m3", {"qk_norm_type": "per_layer"}, "qk_norm_type is 'per_layer': supported is 'per_head'"),
        ("minimax_m3", {"layer_types": ["sliding_attention"] * 60}, "layer_types.0. is 'sliding_attention'"),
        ("qwen3_5", {"layer_types": ["mamba"] * 64}, "layer_types.0. is 'mamba'"),
    ],
)
def test_what_is_not_known_is_refused_by_name(family, fields, message):
    with pytest.raises(UnsupportedArchitecture, match=message):
        ModelGeometry.from_config(changed(family, **fields))


@pytest.mark.parametrize(
    ("family", "fields", "message"),
    [
        ("deepseek_v32", {"q_lora_rank": None}, "q_lora_rank is missing"),
        ("deepseek_v32", {"index_topk_pattern": "FS"}, "one F or S for each of the 61 layers"),
        ("deepseek_v32", {"index_n_heads": None}, "index_n_heads is missing"),
        ("glm_moe_dsa", {"index_topk_freq": 0}, "index_topk_freq is 0"),
        ("llama4", {"no_rope_layers": [1, 2]}, "a list of 0 or 1 for each of the 48 layers"),
        ("llama4", {"intermediate_size_mlp": None}, "intermediate_size_mlp is missing"),
        ("qwen3_5", {"linear_num_value_heads": 47}, "must be a multiple of key heads"),
        ("qwen3_5", {"attn_output_gate": False}, "always has the gate"),
        ("mimo", {"attention_bias": False}, "always has these biases"),
        ("nemotron_h", {"num_hidden_layers": 3}, "they must agree"),
        ("nemotron_h", {"mamba_num_heads": 63}, "heads must be a multiple of groups"),
        ("nemotron-nas", {"block_configs": []}, "one entry for each of 80 layers"),
        ("nemotron-nas", {"num_attention_heads": 4}, "n_heads_in_group is 8: it must divide the 4 heads"),
        ("gemma4", {"num_global_key_value_heads": 3}, "must be a multiple of KV heads"),
        ("deepseek_v4", {"compress_ratios": None}, "compress_ratios is missing"),
        ("deepseek_v4", {"compress_ratios": [0] * 42}, "an entry for each of the 43 layers"),
        ("deepseek_v4", {"layer_types": ["sliding_attention"] * 43}, "they must agree"),
        ("deepseek_v4", {"o_groups": 7}, "heads must be a multiple of groups"),
        ("deepseek_v4", {"sliding_window": None}, "sliding_window is missing"),
        ("deepseek_v4", {"hc_mult": None}, "hc_mult is missing"),
        ("deepseek_v4", {"qk_rope_head_dim": 513}, "qk_rope_head_dim is 513"),
        ("minimax_m3", {"moe_layer_freq": None}, "moe_layer_freq is missing"),
        ("minimax_m3", {"moe_layer_freq": [1] * 60}, "first_k_dense_replace is 3, but moe_layer_freq routes"),
        ("minimax_m3", {"sparse_attention_config": None}, "sparse_attention_freq is missing"),
        ("minimax_m3", {"shared_intermediate_size": 1024}, "must be as wide as intermediate_size says"),
        ("minimax_m3", {"mlp_layer_types": ["sparse"] * 60}, "they must agree"),
        ("minimax_m3", {"sparse_attention_config": {"sparse_attention_freq": [2] * 60}}, "a list of 0 or 1"),
    ],
)
def test_a_contradiction_names_its_field(family, fields, message):
    with pytest.raises(ConfigError, match=message):
        ModelGeometry.from_config(changed(family, **fields))


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m["name"])
def test_every_large_matrix_is_known_by_its_place(model):
    """What adapters and quantization work on; left over are norms, decays, convolutions, biases, routers."""
    geometry = ModelGeometry.from_config(model["config"])
    inside = Counter()
    for matrix in matrices(geometry):
        inside[matrix.group] += matrix.parameters
    for group, total in count(geometry).groups.items():
        if group in ("router", "norms", "hyper_connections"):
            continue
        small = {"indexer": 0.04, "compressor": 0.01}.get(group, 0.001)  # weights for heads, and for places in a run
        assert (1 - small) * total <= inside[group] <= total, group


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m["name"])
def test_ranks_hold_all_of_a_later_family_and_stored_bytes_follow(model):
    geometry = ModelGeometry.from_config(model["config"])
    for ranks in (1, 2, 4, 8):
        try:
            held = weights_on_rank(geometry, Parallel(tensor=ranks)).groups
        except CalcError:
            continue
        whole = count(geometry).groups
        for group, total in whole.items():
            copied = group in (  # of the last what makes the latent
                *("norms", "router", "indexer", "compressor", "hyper_connections"),
                "attention",
            )
            assert held[group] * ranks >= total
            assert held[group] * ranks <= total * (ranks if copied else 1.25)
        bytes_there = rank_bytes(geometry, Parallel(tensor=ranks), "bf16")
        assert bytes_there == {group: 2 * size for group, size in held.items()}
        narrow = rank_bytes(geometry, Parallel(tensor=ranks), "fp8-channel")
        assert sum(narrow.values()) < sum(bytes_there.values())


@pytest.mark.parametrize(
    ("family", "path", "widths"),
    [
        ("qwen3_5_moe", "model.layers.0.linear_attn.in_proj_qkv", (2048, 8192)),
        ("qwen3_5_moe", "model.layers.0.linear_attn.in_proj_b", (2048, 32)),
        ("qwen3_5_moe", "model.layers.3.self_attn.q_proj", (2048, 8192)),
        ("qwen3_5_moe", "model.layers.0.mlp.shared_expert.down_proj", (512, 2048)),
        ("llama4", "model.layers.0.feed_forward.shared_expert.gate_proj", (5120, 8192)),
        ("gemma4", "model.layers.0.experts.gate_up_proj", (2816, 1408)),
        ("gemma4", "model.layers.0.mlp.down_proj", (2112, 2816)),
        ("deepseek_v32", "model.layers.0.self_attn.indexer.wq_b", (1536, 8192)),
        ("deepseek_v4", "model.layers.0.self_attn.o_a_proj", (4096, 8192)),
        ("deepseek_v4", "model.layers.2.self_attn.compressor.kv_proj", (4096, 1024)),
        ("deepseek_v4", "model.layers.3.self_attn.compressor.gate_proj", (4096, 512)),
        ("deepseek_v4", "model.layers.2.self_attn.compressor.indexer.q_b_proj", (1024, 8192)),
        ("deepseek_v4", "model.layers.2.self_attn.compressor.indexer.scorer.weights_proj", (4096, 64)),
        ("minimax_m3", "model.layers.0.mlp.gate_up_proj", (6144, 24576)),
        ("minimax_m3", "model.layers.3.mlp.shared_experts.gate_up_proj", (6144, 6144)),
        ("minimax_m3", "model.layers.3.self_attn.indexer.q_proj", (6144, 512)),
    ],
)
def test_names_and_shapes_are_those_of_transformers(family, path, widths):
    site = {s.path: s for s in sites(ModelGeometry.from_config(BY_TYPE[family]))}[path]
    assert (site.input_dim, site.output_dim) == widths


def test_keys_that_are_values_have_no_projection_of_their_own():
    paths = {s.path for s in sites(ModelGeometry.from_config(BY_TYPE["gemma4"]))}
    assert "model.layers.4.self_attn.v_proj" in paths
    assert "model.layers.5.self_attn.v_proj" not in paths


def test_state_blocks_follow_from_the_kind_of_layer():
    for family, cached in (("qwen3_5_moe", 2), ("nemotron_h", 3)):
        geometry = ModelGeometry.from_config(BY_TYPE[family])
        assert capacity.pool(geometry).state_blocks == cached
        assert capacity.pool(geometry, prefix_caching=False).state_blocks == 1
        assert capacity.pool(geometry, state_blocks=5).state_blocks == 5
