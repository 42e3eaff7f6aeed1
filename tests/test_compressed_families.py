"""DeepSeek V4 and MiniMax M3: any geometry of theirs against transformers and vLLM, and thousands of broken files."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calc import capacity, kv_cache
from calc.attention import multi_head, sharing
from calc.disaggregation import worker
from calc.hardware import accelerator
from calc.models import (
    CompressedAttention,
    ConfigError,
    IndexedAttention,
    LatentWindowAttention,
    ModelGeometry,
    UnsupportedArchitecture,
)
from calc.parallel import Parallel, weights_on_rank
from calc.parameters import count
from calc.quantization import UnsupportedQuantization, read_quantization
from calc.roofline import intensity_of, pairs_of, step_work
from calc.units import CalcError
from calc.worksheet import size

FIXTURE = json.loads((Path(__file__).parent / "fixtures" / "compressed_families.json").read_text())
GEOMETRIES = FIXTURE["geometries"]
V4, M3 = (model["config"] for model in FIXTURE["models"])
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "scale_fmt": "ue8m0", "weight_block_size": [128, 128]}


def read(base, **fields):
    """A geometry from a configuration with some fields replaced; None takes a field away."""
    merged = {name: value for name, value in {**base, **fields}.items() if value is not None}
    return ModelGeometry.from_config(merged)


# --- any geometry of the families ----------------------------------------------------------------


@pytest.mark.parametrize("case", GEOMETRIES, ids=lambda case: case["name"])
def test_parameters_of_any_geometry_equal_transformers(case):
    model = ModelGeometry.from_config(case["config"])
    assert count(model).groups == case["groups"]


@pytest.mark.parametrize(
    ("case", "row"),
    [(case, row) for case in GEOMETRIES for row in case["cache"]],
    ids=lambda value: value["name"] if "name" in value else f"{value['ranks']}-{value['element']}",
)
def test_cache_and_pool_of_any_geometry_equal_vllm(case, row):
    model = ModelGeometry.from_config(case["config"])
    cache = kv_cache.layout(model, element=row["element"], ranks=row["ranks"])
    assert cache.bytes_per_position == row["bytes_per_token_all_growing"]
    assert cache.unbounded_bytes_per_position == row["bytes_per_token_unbounded_kinds"]
    for positions, resident in row["resident_bytes"].items():
        assert kv_cache.resident_bytes(cache, positions=int(positions)) == resident
    pool = capacity.pool(model, element=row["element"], ranks=row["ranks"])
    assert pool.block_bytes() == row["bytes_per_block"]
    in_flight = 2 * FIXTURE["max_num_batched_tokens"]
    length = FIXTURE["max_model_len"]
    shown = capacity.printed(pool, memory_bytes=FIXTURE["for_memory"], length=length, in_flight=in_flight)
    assert (shown.blocks, shown.request_blocks, shown.tokens) == (
        row["num_blocks"],
        row["request_blocks"],
        row["log_tokens"],
    )


def test_the_fixture_has_every_kind_of_layer():
    kinds = {type(mixer) for case in GEOMETRIES for mixer, _ in ModelGeometry.from_config(case["config"]).kinds()}
    assert kinds >= {LatentWindowAttention, CompressedAttention, IndexedAttention}
    ratios = {tuple(sorted({*case["config"].get("compress_ratios", [])})) for case in GEOMETRIES}
    assert len(ratios - {()}) > 4


@pytest.mark.parametrize("row", FIXTURE["models"][0]["cache"], ids=lambda row: str(row["ranks"]))
def test_a_rank_holds_what_vllm_builds_but_for_tables_and_padded_sinks(row):
    held = weights_on_rank(ModelGeometry.from_config(V4), Parallel(tensor=row["ranks"])).total
    tables = 3 * 129280 * 6 + 40 * 256  # which experts a token goes to in the first layers; a bias for the choice after
    sinks = 43 * (64 - 64 // row["ranks"])  # padded to 64 heads on every rank
    assert held + tables + sinks == row["vllm_parameters"]


def test_stages_share_the_hyper_connections_and_the_last_gathers_the_streams():
    model = ModelGeometry.from_config(V4)
    cut = Parallel(pipeline=4)
    stages = [weights_on_rank(model, cut, stage=stage).hyper_connections for stage in range(4)]
    assert sum(stages) == count(model).hyper_connections
    layers = [len(layers) for layers in cut.stages(model)]
    assert stages[-1] - stages[1] * layers[-1] // layers[1] == 4 * (4 * 4096 + 1) + 1


def test_entries_for_token_prediction_change_nothing():
    bare = read(V4, compress_ratios=V4["compress_ratios"][:43])
    assert bare.layers == read(V4, compress_ratios=[*V4["compress_ratios"], 4, 128]).layers


def test_layers_named_by_kind_are_those_of_the_ratios():
    names = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
    types = [names[ratio] for ratio in V4["compress_ratios"][:43]]
    rates = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    named = read(V4, compress_ratios=None, layer_types=types, compress_rates=rates)
    assert named.layers == read(V4).layers


def test_minimax_m3_is_read_alike_in_all_its_wrappings():
    plain = ModelGeometry.from_config(M3)
    for inner in ({}, {"model_type": "minimax_m3_text"}, {"model_type": "minimax_m3_vl_text"}):
        text = {name: value for name, value in M3.items() if name not in ("architectures", "model_type")} | inner
        wrapped = ModelGeometry.from_config(
            {
                "model_type": "minimax_m3_vl",
                "architectures": ["MiniMaxM3SparseForConditionalGeneration"],
                "text_config": text,
                "vision_config": {"hidden_size": 1280},
            }
        )
        assert (wrapped.layers, count(wrapped)) == (plain.layers, count(plain))
    sparse = M3["sparse_attention_config"]
    flat = {
        "sparse_attention_config": None,
        "moe_layer_freq": None,
        "first_k_dense_replace": None,
        "n_shared_experts": None,
        "moe_intermediate_size": None,
        "architectures": ["MiniMaxM3VLForCausalLM"],
        "model_type": "minimax_m3_vl_text",
        "mlp_layer_types": ["sparse" if mark else "dense" for mark in M3["moe_layer_freq"]],
        "layer_types": ["minimax_m3_sparse" if f else "full_attention" for f in sparse["sparse_attention_freq"]],
        "index_n_heads": 4,
        "index_head_dim": 128,
        "index_block_size": 128,
        "index_topk_blocks": 16,
    }
    assert read(M3, **flat).layers == plain.layers


def test_another_model_s_text_part_is_refused():
    with pytest.raises(UnsupportedArchitecture, match="has model_type 'llama': supported is minimax_m3"):
        ModelGeometry.from_config({"model_type": "minimax_m3_vl", "text_config": {**M3, "model_type": "llama"}})


# --- what is known of a layout and what isn't ----------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"head_dim": 256}, "head_dim is 256: the cache's layout is known for 512 alone"),
        ({"qk_rope_head_dim": 32}, "qk_rope_head_dim is 32: the cache's layout is known for 64 alone"),
        ({"index_head_dim": 64}, "index_head_dim is 64: the cache's layout is known for 128 alone"),
    ],
)
def test_widths_without_a_known_format_are_counted_but_have_no_cache(fields, message):
    model = read(V4, **fields)
    assert count(model).total != count(read(V4)).total or "qk_rope_head_dim" in fields
    for use in (kv_cache.layout, capacity.pool):
        with pytest.raises(UnsupportedArchitecture, match=message):
            use(model)


def test_an_indexer_that_no_layer_has_needs_no_format():
    assert kv_cache.layout(read(V4, index_head_dim=64, compress_ratios=[0, 128] * 22)).bytes_per_position


@pytest.mark.parametrize("element", ["fp32", "int8", "fp8 + head scales"])
def test_latents_in_a_format_of_their_own_refuse_others(element):
    with pytest.raises(CalcError, match="a format of their own. Use bf16 or fp8"):
        kv_cache.layout(ModelGeometry.from_config(V4), element=element)


def test_an_indexer_s_heads_divide_among_ranks_or_ranks_among_them():
    odd = read(M3, sparse_attention_config={**M3["sparse_attention_config"], "sparse_num_index_heads": 6})
    assert kv_cache.layout(odd, ranks=2)
    with pytest.raises(CalcError, match="its indexer's 6 heads don't divide"):
        kv_cache.layout(odd, ranks=4)


def test_consumers_that_can_t_say_refuse_in_one_line():
    model = ModelGeometry.from_config(V4)
    mixer = model.kinds()[0][0]
    numbers = {"prompts": [1000], "prefill_efficiency": 0.5, "read_efficiency": 0.7, "overlap": 0.7}
    for refused in (
        lambda: sharing(mixer),
        lambda: multi_head(model),
        lambda: intensity_of(mixer, element="bf16"),
        lambda: worker(model, accelerator("h100-sxm"), ranks=8, memory_fraction=0.9, other_bytes=0, **numbers),
    ):
        with pytest.raises(CalcError) as caught:
            refused()
        assert len(str(caught.value).splitlines()) == 1
    assert sharing(read(M3).layers[-1].mixer) == "GQA"


# --- start-up logs -------------------------------------------------------------------------------


def started(row, batched):
    """The lines that vLLM prints about a pool of the fixture's memory."""
    length = FIXTURE["max_model_len"]
    lines = [
        f"Available KV cache memory: {row['for_memory'] / 2**30:.2f} GiB",
        f"GPU KV cache size: {row['log_tokens']:,} tokens",
        f"Maximum concurrency for {length:,} tokens per request: {row['num_blocks'] / row['request_blocks']:.2f}x",
    ]
    return capacity.read_log("\n".join([*lines, *[f"max_num_batched_tokens={batched}"] * bool(batched)]))


@pytest.mark.parametrize(
    ("model", "row"),
    [(model, row) for model in FIXTURE["models"] for row in model["cache"]],
    ids=lambda value: value["name"] if "name" in value else f"{value['ranks']}-{value['element']}",
)
def test_start_up_lines_agree(model, row):
    log = started(row, FIXTURE["max_num_batched_tokens"])
    cut = {"parallel": Parallel(tensor=row["ranks"]), "element": row["element"]}
    found = capacity.reconcile(log, model=ModelGeometry.from_config(model["config"]), **cut)
    assert found.verdict("cache size, tokens") == "agrees"
    assert found.verdict("maximum concurrency") == "derived"
    if model["config"]["model_type"] == "minimax_m3":
        assert found.verdict("bytes per token") == "agrees"


def test_a_log_that_keeps_silent_about_tokens_in_flight_is_not_called_different():
    row = FIXTURE["models"][0]["cache"][0]
    found = capacity.reconcile(started(row, None), model=ModelGeometry.from_config(V4))
    check = next(c for c in found.checks if c.name == "cache size, tokens")
    assert check.verdict == "derived"
    assert "doesn't print max_num_batched_tokens" in check.note


# --- weights -------------------------------------------------------------------------------------


def test_experts_in_fp4_beside_fp8_count_as_the_checkpoint_stores_them():
    config = {**V4, "expert_dtype": "fp4", "quantization_config": FP8}
    found = read_quantization(config)
    held = {part.group: part for part in found.stored(ModelGeometry.from_config(config)).parts}
    experts = held["routed_experts"]
    assert experts.stored_bytes == experts.parameters * (4 + 8 / 32) / 8
    shared = held["shared_experts"]
    assert shared.stored_bytes == shared.parameters * (1 + 1 / 128**2)
    for group in ("compressor", "router", "norms", "embedding", "lm_head"):
        assert held[group].stored_bytes == 2 * held[group].parameters
    assert held["hyper_connections"].stored_bytes == 4 * held["hyper_connections"].parameters
    # its heads' weights and its compressor stay: 21 layers, 64 heads, and 2 times 2 runs of 128 elements
    assert held["indexer"].quantized == held["indexer"].parameters - 21 * (
        4096 * 64 + 2 * 2 * 128 * 4096 + 4 * 2 * 128 + 128
    )


def test_stored_bytes_and_what_is_not_counted_make_the_published_size():
    """model.safetensors.index.json of deepseek-ai/DeepSeek-V4-Flash states a total_size of 159,609,485,896 bytes."""
    config = {**V4, "expert_dtype": "fp4", "quantization_config": FP8}
    how = read_quantization(config)
    counted = how.stored(ModelGeometry.from_config(config)).total_bytes
    single = {**config, "num_hidden_layers": 1, "compress_ratios": [0]}
    ends = ("embedding", "lm_head")
    parts = how.stored(ModelGeometry.from_config(single)).parts
    prediction = sum(part.stored_bytes for part in parts if part.group not in ends)  # a layer, a norm, a gathering
    prediction += 2 * (4096 * 4096 + 32 * 32) + 2 * 2 * 4096  # two matrices in fp8 blocks, two norms
    places = 2 * (21 * 4 * 2 * (512 + 128) + 20 * 128 * 512)  # the compressors' biases and all sinks are in 32 bits too
    sinks = 2 * 44 * 64
    tables = 3 * 129280 * 6 * 8 + 41 * 256 * 4  # experts of the first layers by token; a bias for the choice elsewhere
    assert counted + prediction + places + sinks + tables == 159_609_485_896


def test_other_ways_to_store_experts():
    def experts(**fields):
        config = {**V4, "quantization_config": FP8, **fields}
        stored = read_quantization(config).stored(ModelGeometry.from_config(config))
        return 8 * stored.part("routed_experts").stored_bytes / stored.part("routed_experts").parameters

    assert experts() == experts(expert_dtype="fp4") == 4.25
    assert experts(expert_dtype="fp8") == 8 * (1 + 4 / 128**2)
    nvfp4 = {**FP8, "moe_quant_algo": "NVFP4", "expert_dtype": "fp4"}
    assert experts(quantization_config=nvfp4) == pytest.approx(4.5, abs=1e-4)


def test_modules_are_left_out_under_the_names_that_checkpoints_use():
    text = {name: value for name, value in M3.items() if name not in ("architectures", "model_type")}
    ignored = [
        "lm_head",
        "language_model.model.layers.3.block_sparse_moe.shared_experts*",
        "language_model.model.layers.0.mlp.up_proj",
        "language_model.model.layers.4.self_attn.index_q_proj",
    ]
    nvfp4 = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "ignore": ignored}
    config = {"model_type": "minimax_m3_vl", "text_config": text, "quantization_config": nvfp4}
    held = {p.group: p for p in read_quantization(config).stored(ModelGeometry.from_config(config)).parts}
    assert held["shared_experts"].parameters - held["shared_experts"].quantized == 3 * 6144 * 3072
    assert held["mlp"].parameters - held["mlp"].quantized == 6144 * 12288
    norms = 57 * 2 * 128
    assert held["indexer"].parameters - held["indexer"].quantized - norms == 6144 * 512
    assert held["lm_head"].quantized == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"expert_dtype": "fp3"}, "expert_dtype is 'fp3': known here are 'fp4', 'fp8'"),
        ({"quantization_config": {**FP8, "moe_quant_algo": "W4A8"}}, "moe_quant_algo is 'W4A8'"),
        ({"model_type": "deepseek_v3", "expert_dtype": "fp4"}, "known for deepseek_v4 alone"),
    ],
)
def test_experts_stored_in_an_unknown_way_are_refused_by_name(fields, message):
    with pytest.raises(UnsupportedQuantization, match=message):
        read_quantization({**V4, "quantization_config": FP8, **fields})


# --- work ----------------------------------------------------------------------------------------


@given(st.integers(0, 60), st.integers(0, 200), st.integers(1, 9), st.integers(0, 12), st.integers(1, 20))
def test_pairs_are_what_each_token_reads(new, cached, ratio, picked, window):
    layer = CompressedAttention(
        query_heads=8, query_rank=4, latent_dim=8, rope_dim=2, output_heads=2, output_dim=8,
        window=window, ratio=ratio, picked=picked,
    )  # fmt: skip
    seen = range(cached + 1, cached + new + 1)
    entries = [min(n // ratio, picked) if picked else n // ratio for n in seen]
    assert pairs_of(layer, new=new, cached=cached) == sum(entries) + sum(min(n, window) for n in seen)
    blocks = IndexedAttention(
        query_heads=4, kv_heads=1, key_dim=8, value_dim=8, index_heads=1, index_dim=4,
        index_block=ratio, picked=ratio * (picked + 1),
    )  # fmt: skip
    read_there = [(n - 1) % ratio + 1 + ratio * min((n - 1) // ratio, picked) for n in seen]
    assert pairs_of(blocks, new=new, cached=cached) == sum(read_there)


def test_a_step_reads_and_writes_what_the_layers_keep():
    model = ModelGeometry.from_config(V4)
    cached = 100_000
    decode = step_work(model, sequences=[(1, cached)], cache_element="fp8").group("attention")
    window = 43 * 127 * 584
    picked = 21 * 512 * 584 + 20 * (cached // 128) * 584
    keys = 21 * (cached // 4) * 132
    assert decode.cache_bytes == window + picked + keys
    states = 21 * (8192 + 2048) + 20 * 4096
    assert decode.written_bytes == 43 * 584 + states  # 100,001 completes no entry
    completing = step_work(model, sequences=[(1, 127)], cache_element="fp8").group("attention")
    assert completing.written_bytes == 43 * 584 + states + 21 * (584 + 132) + 20 * 584
    prompt = step_work(model, sequences=[(8192, 0)], cache_element="fp8").group("attention")
    assert prompt.written_bytes == kv_cache.resident_bytes(kv_cache.layout(model), positions=8192)


def test_a_token_s_products_are_the_parameters_it_goes_through():
    for config in (V4, M3):
        model = ModelGeometry.from_config(config)
        held = count(model)
        work = step_work(model, sequences=[(1, 0)])
        weights = sum(group.flop for group in work.groups if group.name != "attention") / 2
        assert weights == pytest.approx(held.active_excluding_embedding, rel=2e-4)  # norms, biases, places in a run


@pytest.mark.parametrize("config", [{**V4, "expert_dtype": "fp4", "quantization_config": FP8}, M3])
@pytest.mark.parametrize(
    "cut", [{"tensor": 8}, {"tensor": 4, "pipeline": 2}, {"tensor": 16}, {"expert_parallel": True}]
)
def test_the_worksheet_is_complete(config, cut):
    report = size(config, accelerator="b200-sxm", lora_slots=1, **cut)
    assert not {warned.code for warned in report.warnings} & {"work-not-counted", "lora-refused"}
    assert report["roofline.prefill_floor_s"] > 0
    assert report["roofline.decode_floor_s"] > 0
    assert not [line.key for line in report.lines if line.value is None]


def test_a_cache_of_one_format_is_not_said_to_be_halved():
    for cache in ("auto", "bf16", "fp8"):
        report = size(V4, tensor=8, cache=cache)
        assert report["kv.bytes_per_token"] == 325_922.25
        assert "cache-quantized" not in {warned.code for warned in report.warnings}
        assert "kv-replication" in {warned.code for warned in report.warnings}


# --- thousands of broken files -------------------------------------------------------------------


def independently(c):
    """Parameters of an accepted configuration, counted straight from its fields."""
    hidden, layers, heads = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"]
    total = hidden * c["vocab_size"] * (1 if c.get("tie_word_embeddings") else 2) + hidden
    if c["model_type"] == "deepseek_v4":
        dim, rank, width, mult = c["head_dim"], c["q_lora_rank"], c["moe_intermediate_size"], c["hc_mult"]
        out = c["o_groups"] * c["o_lora_rank"]
        attention = hidden * (rank + dim + out) + rank + rank * heads * dim + dim + heads
        attention += heads * dim // c["o_groups"] * out
        experts = c["n_routed_experts"] * (hidden + 3 * hidden * width) + 3 * hidden * width
        around = 2 * ((2 + mult) * mult * (mult * hidden + 1) + 3)
        total += layers * (attention + experts + 2 * hidden + around) + mult * (mult * hidden + 1) + 1
        for ratio in c["compress_ratios"][:layers]:
            index, runs = c["index_head_dim"], 2 if ratio == 4 else 1
            total += bool(ratio) * (2 * hidden * runs * dim + ratio * runs * dim + dim)
            if ratio == 4:
                total += 2 * hidden * 2 * index + 4 * 2 * index + index + c["index_n_heads"] * (rank * index + hidden)
        return total
    kv, dim, sparse = c.get("num_key_value_heads") or heads, c["head_dim"], c["sparse_attention_config"]
    for picks, routes in zip(sparse["sparse_attention_freq"], c["moe_layer_freq"], strict=True):
        total += 2 * hidden * dim * (heads + kv) + 2 * dim + 2 * hidden
        index = sparse.get("sparse_index_dim", 0)
        total += picks and hidden * index * (sparse["sparse_num_index_heads"] + 1) + 2 * index
        width = c["intermediate_size"]
        routed = c["num_local_experts"] * (hidden + 3 * hidden * width) + 3 * hidden * c["shared_intermediate_size"]
        total += routed if routes else 3 * hidden * c["dense_intermediate_size"]
    return total


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(["", "4096", "<script>", "fp4", "full_attention", "é" * 100, 0, 1, 2**24, 2**24 + 1]),
    st.lists(st.sampled_from([0, 1, 4, 128, 8, -1, None, "0", True, 4.0]), max_size=70),
    st.dictionaries(st.sampled_from(["sparse_index_dim", "<b>", "x"]), st.integers(), max_size=2),
)
EXTRA = [
    "layer_types",
    "mlp_layer_types",
    "compress_rates",
    "index_block_size",
    "attention_bias",
    "text_config",
    "dtype",
]


@st.composite
def broken(draw):
    config = copy.deepcopy(draw(st.sampled_from([V4, M3])))
    for _ in range(draw(st.integers(1, 3))):
        inner = config.get("sparse_attention_config")
        part = inner if isinstance(inner, dict) and draw(st.integers(0, 2)) == 0 else config
        name = draw(st.sampled_from([*sorted(part), *EXTRA]))
        action = draw(st.sampled_from(["drop", "junk", "number", "scale", "entry", "shorter"]))
        if action == "drop":
            part.pop(name, None)
        elif action == "junk":
            part[name] = draw(JUNK)
        elif action == "number":
            part[name] = draw(st.integers(1, 130))
        elif action == "scale" and type(part.get(name)) is int:
            part[name] *= draw(st.sampled_from([2, 3, 1.0, -1, 10**6]))
        elif action == "entry" and isinstance(part.get(name), list) and part[name]:
            part[name][draw(st.integers(0, len(part[name]) - 1))] = draw(st.sampled_from([0, 1, 4, 128, 5, None, "4"]))
        elif action == "shorter" and type(part.get("num_hidden_layers")) is int:
            part["num_hidden_layers"] = draw(st.integers(0, 70))
            for value in [*part.values(), *(inner or {}).values()] if isinstance(inner, dict | None) else []:
                if isinstance(value, list):
                    del value[max(part["num_hidden_layers"], 1) :]
    return config


@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(broken())
def test_a_broken_file_is_refused_or_counted_right(config):
    try:
        model = ModelGeometry.from_config(config)
    except ConfigError as error:
        message = str(error)
        assert message.isascii() and len(message) < 900 and not set("<>") & set(message)
        return
    held = count(model)
    assert held.total == sum(held.groups.values())
    stated = isinstance(config.get("sparse_attention_config", {}).get("sparse_attention_freq", []), list)
    if "layer_types" not in config and "mlp_layer_types" not in config and stated:
        assert held.total == independently(config)
    for ranks in (1, 8):
        try:
            pool = capacity.pool(model, ranks=ranks)
            weights = weights_on_rank(model, Parallel(tensor=ranks))
        except CalcError:
            continue
        assert pool.block_bytes() > 0 and weights.total * ranks >= held.total
        assert step_work(model, sequences=[(1, 1000), (300, 0)], ranks=ranks).flop > 0


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(broken(), st.sampled_from([1, 8]))
def test_a_broken_file_gets_a_whole_worksheet_or_a_plain_answer(config, tensor):
    try:
        report = size({**config, "quantization_config": FP8} if "hc_mult" in config else config, tensor=tensor)
    except CalcError:
        return
    assert report["parameters.total"] == sum(count(ModelGeometry.from_config(config)).groups.values())
