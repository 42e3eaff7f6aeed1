"""Reading configurations: what each family means, what is refused, and what no file can do."""

import json
import subprocess
import sys
from copy import deepcopy
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calc import selection
from calc.models import (
    ConfigError,
    FullAttention,
    LatentAttention,
    ModelGeometry,
    UnsupportedArchitecture,
    WindowAttention,
    catalogue,
    load,
    parse,
)
from calc.models.families import FAMILIES, WRAPPERS
from calc.parallel import Parallel
from calc.parameters import count
from calc.sources import load_json
from calc.units import CalcError

FIXTURES = Path(__file__).parent / "fixtures"
TRANSFORMERS = json.loads((FIXTURES / "transformers_5.24.0_more.json").read_text())
LATER = [
    model
    for name in ("later_families.json", "compressed_families.json")
    for model in json.loads((FIXTURES / name).read_text())["models"]
]

# What published files hold besides geometry; all of it must be ignored.
NOISE = {
    "_name_or_path": "<img src=x onerror=alert(1)>",
    "auto_map": {"AutoConfig": "configuration.Config"},
    "attention_dropout": 0.0,
    "eos_token_id": [1, 106],
    "initializer_range": 0.02,
    "is_encoder_decoder": False,
    "num_nextn_predict_layers": 1,
    "pruned_heads": {},
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 8.0, "rope_type": "llama3"},
    "time_step_limit": [0.0, float("inf")],
    "transformers_version": "4.51.0",
    "use_cache": True,
}

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 512,
    "intermediate_size": 1376,
    "num_attention_heads": 8,
    "num_hidden_layers": 6,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
}


def facts(slug):
    return deepcopy(load_json("models", f"{slug}.json")["config"])


def read(config, **changes):
    """The geometry of a configuration with some fields changed; `...` leaves a field out."""
    merged = {**config, **changes}
    return ModelGeometry.from_config({name: value for name, value in merged.items() if value is not ...})


def refusal(config, **changes):
    with pytest.raises(ConfigError) as caught:
        read(config, **changes)
    return str(caught.value)


def windows(model):
    """The window of each layer, run-length coded; None where a layer sees everything."""
    per_layer = (getattr(layer.mixer, "window", None) for layer in model.layers)
    return [[window, len(list(run))] for window, run in groupby(per_layer)]


def cached_elements(model):
    """Elements that one position leaves in all layers."""

    def width(mixer):
        if mixer.kind == "latent":
            return mixer.latent_dim + mixer.rope_dim
        return mixer.kv_heads * (mixer.key_dim + mixer.value_dim)

    return sum(width(layer.mixer) for layer in model.layers)


# --- the catalogue -------------------------------------------------------------------------------


def test_catalogue_holds_the_models_the_book_needs():
    needed = """llama-3.1-8b llama-3.1-70b llama-3.1-405b llama-2-7b llama-2-13b llama-2-70b qwen2.5-7b qwen2.5-72b
        mixtral-8x7b gemma-2-9b gemma-3-27b mistral-nemo deepseek-v3 deepseek-v2-lite qwen3-8b qwen3-30b-a3b
        qwen3-235b-a22b phi-3-mini gpt-oss-20b gpt-oss-120b kimi-k2"""
    assert set(needed.split()) <= set(catalogue())


def test_the_chapters_have_the_models_that_every_one_of_them_works_with():
    drawn = {FullAttention, WindowAttention, LatentAttention}  # the panels have one formula for each
    for slug in catalogue(every=True):
        model = load(slug)
        known = {type(mixer) for mixer, _ in model.kinds()} <= drawn
        assert (slug in catalogue()) == (known and model.architecture in selection.options("architecture")), slug


def test_later_models_have_the_layers_and_parameters_of_the_files_they_come_from():
    by_address = {f"https://huggingface.co/{model['name']}/blob/main/config.json": model for model in LATER}
    later = set(catalogue(every=True)) - set(catalogue())
    assert {load_json("models", f"{slug}.json")["url"] for slug in later} == set(by_address)
    for slug in later:
        model, theirs = load(slug), by_address[load_json("models", f"{slug}.json")["url"]]
        assert model.layers == ModelGeometry.from_config(theirs["config"]).layers, slug
        assert count(model).groups == theirs["parameters"]["groups"], slug
        assert count(model).total == theirs["parameters"]["total"], slug
        assert count(model).active == theirs["parameters"]["active"], slug


@pytest.mark.parametrize("slug", catalogue(every=True))
def test_catalogue_entry_says_where_its_facts_come_from(slug):
    entry = load_json("models", f"{slug}.json")
    assert entry["slug"] == slug
    assert entry["source"].startswith("config.json of ")
    assert entry["url"].startswith("https://huggingface.co/") and entry["url"].endswith("/config.json")
    assert entry["checked"] >= "2026-11-30"
    model = load(slug)
    assert (model.name, model.source) == (entry["name"], f"{entry['source']}, checked {entry['checked']}")
    assert model.element in {"bf16", "fp16"} or "the file doesn't state the type" in entry["source"]
    assert model.max_positions >= 4096


@pytest.mark.parametrize("slug", catalogue())
def test_catalogue_agrees_with_transformers_on_cache_width_and_windows(slug):
    model, theirs = load(slug), TRANSFORMERS["catalogue"][slug]
    assert cached_elements(model) == theirs["cached_elements"]
    assert windows(model) == theirs["windows"]


def test_unknown_name_gets_suggestions_and_stays_in_the_directory():
    with pytest.raises(CalcError, match="did you mean llama-3.1-70b"):
        load("llama-3.1-70B")
    with pytest.raises(CalcError, match="the catalogue has .*qwen3-8b"):
        load("<b>zzz</b>")
    with pytest.raises(CalcError, match="no model"):
        load("../families")


def test_import_reads_no_file_and_needs_the_standard_library_alone():
    code = """
import sys
import calc.models, calc.parameters
from calc.sources import load_json
assert load_json.cache_info().currsize == 0
foreign = {"numpy", "pint", "pandas", "matplotlib", "transformers"} & set(sys.modules)
assert not foreign, foreign
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# --- what a family's file means ------------------------------------------------------------------


@pytest.mark.parametrize("case", TRANSFORMERS["geometries"], ids=lambda case: case["config"]["model_type"])
def test_random_geometry_agrees_with_transformers_on_cache_width_and_windows(case):
    model = ModelGeometry.from_config(case["config"])
    assert cached_elements(model) == case["cached_elements"]
    assert windows(model) == case["windows"]


@pytest.mark.parametrize("family", TRANSFORMERS["defaults"])
def test_default_is_the_one_of_the_configuration_class(family):
    ours, theirs = load_json("families.json")["families"][family]["defaults"], TRANSFORMERS["defaults"][family]
    only_in_model_code = {"head_dim": None, "moe_layer_freq": 1}
    assert ours == {name: theirs.get(name, only_in_model_code.get(name)) for name in ours}


def test_every_family_has_its_defaults_and_architectures():
    assert set(load_json("families.json")["families"]) == {*FAMILIES, *WRAPPERS}


@pytest.mark.parametrize("slug", catalogue(every=True))
def test_fields_that_change_no_layer_are_ignored(slug):
    config = {**NOISE, **facts(slug)}
    assert read(config).layers == load(slug).layers


def test_head_size_is_read_where_the_family_has_its_own():
    for slug in ("mistral-nemo", "qwen3-0.6b", "gemma-2b", "gpt-oss-20b"):
        model = load(slug)
        mixer = model.layers[0].mixer
        assert mixer.key_dim != model.hidden / mixer.query_heads or slug == "gemma-2b"
    for slug in ("qwen3-8b", "qwen3-30b-a3b", "gemma-2b", "gemma-2-9b", "gpt-oss-20b"):
        assert "head_dim is missing" in refusal(facts(slug), head_dim=...)
        assert "head_dim is None" in refusal(facts(slug), head_dim=None)


@pytest.mark.parametrize("slug", ["llama-2-7b", "qwen2.5-7b", "mistral-nemo", "mixtral-8x7b", "phi-3-mini"])
def test_head_size_is_the_share_of_the_hidden_size_where_the_class_says_so(slug):
    config = facts(slug)
    share = config["hidden_size"] // config["num_attention_heads"]
    for left_out in (None, ...):
        assert read(config, head_dim=left_out).layers[0].mixer.key_dim == share
    assert "multiple of the heads" in refusal(config, head_dim=None, hidden_size=config["hidden_size"] + 1)


def test_first_llama_files_have_a_key_value_head_for_every_query_head():
    assert read(LLAMA, num_key_value_heads=...).layers[0].mixer.kv_heads == 8
    assert "num_key_value_heads is missing" in refusal(facts("mistral-7b-v0.1"), num_key_value_heads=...)


def test_mistral_window_is_active_in_all_layers_or_absent():
    config = facts("mistral-7b-v0.1")
    assert windows(read(config)) == [[4096, 32]]
    assert windows(read(config, sliding_window=None)) == [[None, 32]]
    alternating = ["sliding_attention", "full_attention"] * 16
    assert windows(read(config, layer_types=alternating)) == [[4096, 1], [None, 1]] * 16
    assert "sliding_window is missing" in refusal(config, sliding_window=...)  # the class would assume 4096


def test_qwen_window_is_off_unless_switched_on():
    config = {**facts("qwen2.5-7b"), "max_window_layers": 20}
    assert config["sliding_window"] == 131072
    assert windows(read(config)) == [[None, 28]]
    assert windows(read(config, use_sliding_window=True)) == [[None, 20], [131072, 8]]
    assert windows(read(config, use_sliding_window=True, max_window_layers=28)) == [[None, 28]]
    assert "max_window_layers is missing" in refusal(config, use_sliding_window=True, max_window_layers=...)
    assert "no window is in force" in refusal(config, layer_types=["sliding_attention"] * 28)


def test_gemma_alternates_by_itself_and_obeys_the_file():
    config = facts("gemma-2-9b")
    assert windows(read(config)) == [[4096, 1], [None, 1]] * 21
    assert windows(read(config, sliding_window=None)) == [[None, 42]]
    config = facts("gemma-3-1b")
    assert windows(read(config)) == [[512, 5], [None, 1]] * 4 + [[512, 2]]
    for name in ("sliding_window_pattern", "_sliding_window_pattern"):
        changed = {"sliding_window_pattern": ..., name: 2}
        assert windows(read(config, **changed)) == [[512, 1], [None, 1]] * 13
    assert "must agree" in refusal(config, _sliding_window_pattern=3)
    types = ["full_attention"] * 25 + ["sliding_attention"]
    assert windows(read(config, layer_types=types)) == [[None, 25], [512, 1]]


def test_nested_configuration_is_read_with_its_class_defaults():
    small, large = load("gemma-3-4b"), load("gemma-3-27b")
    mixer = small.layers[0].mixer
    assert (mixer.query_heads, mixer.kv_heads, mixer.key_dim, small.vocab) == (8, 4, 256, 262208)
    assert (large.layers[0].mixer.kv_heads, large.layers[0].mixer.key_dim) == (16, 128)
    assert small.tied_embeddings and large.tied_embeddings and small.element == "bf16"
    assert not read({**facts("gemma-3-4b"), "tie_word_embeddings": False}).tied_embeddings
    config = facts("gemma-3-4b")
    config["text_config"]["tie_word_embeddings"] = True
    assert "they must agree" in refusal(config, tie_word_embeddings=False)
    assert "text_config" in refusal(config, text_config=...)
    assert "text_config" in refusal(config, text_config=[1])
    config["text_config"]["model_type"] = "llama"
    assert "supported is gemma3_text" in refusal(config)


def test_embeddings_are_tied_where_the_file_or_the_class_says_so():
    assert load("gemma-2b").tied_embeddings and load("llama-3.2-1b").tied_embeddings
    assert not load("gpt-oss-20b").tied_embeddings and not read(LLAMA).tied_embeddings
    assert not read(facts("gemma-2b"), tie_word_embeddings=False).tied_embeddings
    assert read(facts("gemma-2b"), tie_word_embeddings=None).tied_embeddings


def test_first_layers_are_dense_and_experts_follow():
    kinds = [type(layer.mlp).__name__ for layer in load("deepseek-v3").layers]
    assert kinds == ["DenseMLP"] * 3 + ["MixtureOfExperts"] * 58
    assert load("deepseek-v3").layers[60].mlp.shared_intermediate == 2048
    assert load("deepseek-v2-lite").layers[26].mlp.shared_intermediate == 2 * 1408
    every_second = read(facts("deepseek-v2-lite"), moe_layer_freq=2)
    assert [i for i, layer in enumerate(every_second.layers) if hasattr(layer.mlp, "experts")] == list(range(2, 27, 2))
    sparse = read(facts("qwen3-30b-a3b"), decoder_sparse_step=2, mlp_only_layers=[3])
    assert [i for i, layer in enumerate(sparse.layers) if hasattr(layer.mlp, "experts")] == [1, *range(5, 48, 2)]


def test_qwen3_norms_are_there_whether_or_not_the_file_says_so():
    config = facts("qwen3-30b-a3b")
    assert read(config, use_qk_norm=True).layers == load("qwen3-30b-a3b").layers
    assert "use_qk_norm is False" in refusal(config, use_qk_norm=False)


def test_lite_deepseek_does_not_compress_queries_and_its_file_must_say_so():
    assert load("deepseek-v2-lite").layers[0].mixer.query_rank is None
    assert load("deepseek-v3").layers[0].mixer.query_rank == 1536
    assert "q_lora_rank is missing" in refusal(facts("deepseek-v2-lite"), q_lora_rank=...)


def test_names_that_writers_give_to_one_field_are_the_same_field():
    config = facts("qwen3-30b-a3b")
    assert read(config, num_experts=..., num_local_experts=128).layers == load("qwen3-30b-a3b").layers
    assert "must agree" in refusal(config, num_local_experts=64)
    assert "must agree" in refusal(facts("gpt-oss-20b"), experts_per_token=2)
    assert read(LLAMA, torch_dtype="torch.float16").element == "fp16"
    assert read(LLAMA, dtype="bfloat16").element == "bf16"
    assert read(LLAMA).element is None


def test_whole_number_of_any_type_is_one():
    class Whole:
        def __init__(self, value):
            self.value = value

        def __index__(self):
            return self.value

    for one in (Whole, pytest.importorskip("numpy").int64):
        assert read(LLAMA, hidden_size=one(512), num_key_value_heads=one(2)).layers == read(LLAMA).layers
        cut = Parallel(tensor=one(2), pipeline=one(2), layers=(one(3), one(3)))
        assert cut == Parallel(tensor=2, pipeline=2, layers=(3, 3)) and type(cut.tensor) is type(cut.layers[0]) is int
    for other in (True, 2.0, "2", None):
        with pytest.raises(CalcError, match="Parallel: tensor is .*, wanted a whole number of at least 1"):
            Parallel(tensor=other)


def test_kinds_counts_layers_in_order_of_appearance():
    (first, windowed), (second, full) = load("gpt-oss-20b").kinds()
    assert (first.kind, first.window, windowed) == ("window", 128, 12)
    assert (second.kind, full) == ("full", 12)


# --- what is refused by name ---------------------------------------------------------------------

UNKNOWN = ["deepseek_v41", "minimax_m1", "kimi_linear", "phi3small", "gpt_j", "mamba2"]


@pytest.mark.parametrize("model_type", [*UNKNOWN, "<script>alert(1)</script>", 7, ["llama"], {}, ""])
def test_unknown_model_type_is_refused_with_what_is_supported(model_type):
    remedy = "or describe the model yourself: .*; supported are .*llama"
    with pytest.raises(UnsupportedArchitecture, match=remedy) as caught:
        read(LLAMA, model_type=model_type)
    assert "<" not in str(caught.value)


@pytest.mark.parametrize(
    "architectures", [["LlamaForSequenceClassification"], ["LlamaForCausalLMEagle3"], "LlamaModel"]
)
def test_other_heads_are_refused(architectures):
    with pytest.raises(UnsupportedArchitecture, match="that generates text is LlamaForCausalLM"):
        read(LLAMA, architectures=architectures)


@pytest.mark.parametrize(
    ("slug", "field", "value"),
    [
        ("llama-3.1-8b", "block_configs", [{"attention": {"n_heads_in_group": 8}}]),
        ("llama-3.1-8b", "sliding_window", 4096),
        ("llama-3.1-8b", "num_experts", 8),
        ("llama-3.1-8b", "text_config", {"hidden_size": 1}),
        ("mistral-nemo", "attention_bias", True),
        ("qwen3-8b", "attn_output_gate", True),
        ("gemma-3-1b", "use_bidirectional_attention", True),
        ("deepseek-v3", "index_topk", 2048),
        ("deepseek-v3", "mlp_bias", True),
        ("mixtral-8x7b", "n_shared_experts", 1),
        ("gpt-oss-20b", "attention_chunk_size", 8192),
    ],
)
def test_structural_field_the_family_does_not_have_is_refused(slug, field, value):
    with pytest.raises(UnsupportedArchitecture, match=f"{field} is"):
        read(facts(slug), **{field: value})
    assert read(facts(slug), **{field: None}).layers == load(slug).layers or field == "sliding_window"


# --- what is wrong with a file -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slug", "changes", "message"),
    [
        ("llama-3.1-8b", {"model_type": ...}, "model_type is missing"),
        ("llama-3.1-8b", {"hidden_size": ...}, "hidden_size is missing: it must be a whole number from 1"),
        ("llama-3.1-8b", {"hidden_size": "4096"}, "hidden_size is '4096'"),
        ("llama-3.1-8b", {"hidden_size": 4096.0}, "hidden_size is 4096.0"),
        ("llama-3.1-8b", {"hidden_size": True}, "hidden_size is True"),
        ("llama-3.1-8b", {"hidden_size": None}, "hidden_size is None"),
        ("llama-3.1-8b", {"hidden_size": [4096]}, r"hidden_size is \[4096\]"),
        ("llama-3.1-8b", {"vocab_size": 0}, "vocab_size is 0"),
        ("llama-3.1-8b", {"vocab_size": -1}, "vocab_size is -1"),
        ("llama-3.1-8b", {"vocab_size": float("nan")}, "vocab_size is nan"),
        ("llama-3.1-8b", {"intermediate_size": float("inf")}, "intermediate_size is inf"),
        ("llama-3.1-8b", {"intermediate_size": 10**400}, "intermediate_size is a number of 1329 bits"),
        ("llama-3.1-8b", {"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000: .* to 4,096"),
        ("llama-3.1-8b", {"num_attention_heads": 30, "head_dim": 128}, "multiple of KV heads"),
        ("llama-3.1-8b", {"num_key_value_heads": 64}, "multiple of KV heads"),
        ("llama-3.1-8b", {"tie_word_embeddings": "false"}, "tie_word_embeddings is 'false': it must be true or false"),
        ("llama-3.1-8b", {"tie_word_embeddings": 0}, "tie_word_embeddings is 0"),
        ("llama-3.1-8b", {"max_position_embeddings": "128k"}, "max_position_embeddings is '128k'"),
        ("llama-3.1-8b", {"torch_dtype": "int4"}, "dtype is 'int4': it must be one of bfloat16"),
        ("llama-3.1-8b", {"dtype": "float16"}, "dtype is 'float16' but torch_dtype is 'bfloat16'"),
        ("gemma-2-9b", {"layer_types": ["full_attention"] * 41}, "layer_types is a list of 41: .* each of the 42"),
        ("gemma-2-9b", {"layer_types": ["chunked_attention"] * 42}, r"layer_types\[0\] is 'chunked_attention': supp"),
        ("gemma-2-9b", {"layer_types": "full_attention"}, "layer_types is 'full_attention'"),
        ("gemma-2-9b", {"num_key_value_heads": None}, "num_key_value_heads is None"),
        ("gemma-2-9b", {"sliding_window": 0}, "sliding_window is 0"),
        ("gemma-2-9b", {"sliding_window_size": 1024}, "sliding_window is 4096 but sliding_window_size is 1024"),
        ("mixtral-8x7b", {"num_experts_per_tok": 9}, "num_experts_per_tok is 9, but there are 8 experts"),
        ("mixtral-8x7b", {"num_local_experts": ...}, "num_experts is missing"),
        ("qwen3-30b-a3b", {"mlp_only_layers": [48]}, "mlp_only_layers names layer 48: the layers are 0 to 47"),
        ("qwen3-30b-a3b", {"mlp_only_layers": 3}, "mlp_only_layers is 3"),
        ("qwen3-30b-a3b", {"decoder_sparse_step": 0}, "decoder_sparse_step is 0"),
        ("deepseek-v3", {"first_k_dense_replace": 62}, "first_k_dense_replace is 62: .* from 0 to 61"),
        ("deepseek-v3", {"num_key_value_heads": 8}, "must equal num_attention_heads"),
        ("deepseek-v3", {"kv_lora_rank": ...}, "kv_lora_rank is missing"),
        ("deepseek-v3", {"moe_layer_freq": [0, 1]}, "moe_layer_freq is"),
        ("deepseek-v3", {"n_routed_experts": None}, "n_routed_experts is None"),
        ("mixtral-8x7b", {"num_local_experts": "8"}, "num_local_experts is '8'"),
    ],
)
def test_wrong_field_is_named_with_what_was_given_and_what_would_be_right(slug, changes, message):
    with pytest.raises(ConfigError, match=message):
        read(facts(slug), **changes)


@pytest.mark.parametrize("given", [None, 5, [], [LLAMA], b"{}", object()])
def test_only_a_path_or_an_object_is_read(given):
    with pytest.raises(ConfigError, match="must be a JSON object"):
        ModelGeometry.from_config(given)


@pytest.mark.parametrize("name", ["<b>x</b>", "a\nb", "x" * 81, "☃", 7, ["x"]])
def test_name_is_restricted(name):
    with pytest.raises(ConfigError, match="name is"):
        ModelGeometry.from_config(LLAMA, name=name)


def test_table_shows_name_and_kinds():
    html = ModelGeometry.from_config(LLAMA, name="My model (v1.0)")._repr_html_()
    assert "My model (v1.0) (llama)" in html and "6: 6 full" in html


# --- hostile files -------------------------------------------------------------------------------


def test_file_is_read_with_or_without_a_byte_order_mark(tmp_path):
    file = tmp_path / "config.json"
    for encoding in ("utf-8", "utf-8-sig"):
        file.write_text(json.dumps({**NOISE, **LLAMA}), encoding=encoding)
        assert ModelGeometry.from_config(file) == ModelGeometry.from_config(str(file))
        assert ModelGeometry.from_config(file).layers == read(LLAMA).layers


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not valid JSON at line 1, column 1"),
        (json.dumps(LLAMA).encode()[:-20], "not valid JSON .* give the complete config.json"),
        (b"[]", "must be a JSON object"),
        (b'"llama"', "must be a JSON object"),
        (json.dumps(LLAMA).encode("utf-16"), "not UTF-8"),
        (b"\x00\xff\xfe", "not UTF-8"),
        (b"[" * 5_000_000, "nested deeper than 100"),
        (b'{"a":' * 1_000_000, "nested deeper than 100"),
        (b'{"a":"' + rb"\"" * 2_400_000, "not valid JSON"),
        (b'{"a":[' + b"[]," * 1_600_000, "not valid JSON"),
        (b'{"a":1}' + b" " * 5_000_001, "larger than 5 MB"),
        (b'{"hidden_size": 1' + b"0" * 5000 + b"}", "thousands of digits"),
        (b'{"hidden_size": 1, "hidden_size": 2}', "'hidden_size' is stated twice, as 1 and as 2"),
        (b'{"a<b>": 1, "a<b>": true}', r"'a\\x3cb\\x3e' is stated twice, as 1 and as True"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value[:30],
)
def test_hostile_file_gets_a_plain_answer(tmp_path, content, message):
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        ModelGeometry.from_config(file)
    assert "<" not in str(caught.value)


def test_repeated_field_with_one_value_is_harmless():
    assert parse('{"hidden_size": 1, "hidden_size": 1}') == {"hidden_size": 1}


def test_brackets_in_strings_are_not_nesting():
    assert parse(json.dumps({"a": "[" * 1000, "b": '\\"[' * 200}))["a"] == "[" * 1000


@pytest.mark.parametrize("path", ["no/such/config.json", "", ".", "/dev/null", "x" * 5000, "a\0b", "<b>.json"])
def test_path_that_is_no_file_is_refused(path):
    with pytest.raises(ConfigError, match="give the path of a") as caught:
        ModelGeometry.from_config(path)
    assert "<" not in str(caught.value)


def test_deeply_nested_object_does_not_recurse():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    assert "hidden_size is [[...]]" in refusal(LLAMA, hidden_size=nested)
    assert read(LLAMA, rope_scaling=nested).layers == read(LLAMA).layers
    assert "must agree" in refusal(LLAMA, dtype=nested, torch_dtype=nested)
    assert "layer_types[0] is [[...]]" in refusal(LLAMA, layer_types=[nested] * 6)
    assert "architectures is [[...]]" in refusal(LLAMA, architectures=nested)


# --- thousands of mutations ----------------------------------------------------------------------


def independently(config):
    """Parameters, cached elements and windows, counted straight from the fields of an accepted configuration."""
    c = dict(config)
    if c["model_type"] == "gemma3":
        c = {"model_type": "gemma3_text", **c["text_config"]}
        if config.get("tie_word_embeddings") is not None:
            c["tie_word_embeddings"] = config["tie_word_embeddings"]
    family = c["model_type"]
    latent = family in {"deepseek_v2", "deepseek_v3", "kimi_k2"}
    gemma = family.startswith("gemma")
    d = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208}
    c = {**(d if family == "gemma3_text" else {}), **c}

    def flag(name, default=False):
        return default if c.get(name) is None else c[name]

    def first(*names):
        return next(c[name] for name in names if name in c)

    hidden, layers, heads = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"]
    total = hidden * c["vocab_size"] * (1 if flag("tie_word_embeddings", gemma) else 2) + hidden
    if latent:
        rank, dc, dr, dn, dv = (
            c[n] for n in ("q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
        )
        query = hidden * heads * (dn + dr) if rank is None else hidden * rank + rank + rank * heads * (dn + dr)
        attention = query + hidden * (dc + dr) + dc + dc * heads * (dn + dv) + heads * dv * hidden
        attention += ((rank or 0) + dc + dr + hidden) * flag("attention_bias")
        cached = dc + dr
    else:
        kv, size = c.get("num_key_value_heads") or heads, c.get("head_dim") or hidden // heads
        attention = 2 * hidden * size * (heads + kv)
        everywhere = family not in {"mistral", "mixtral", "phi3", "qwen2", "qwen2_moe"}
        if everywhere and flag("attention_bias", family == "gpt_oss"):
            attention += size * (heads + 2 * kv) + hidden
        if family == "qwen2" or (family == "qwen2_moe" and flag("qkv_bias", True)):
            attention += size * (heads + 2 * kv)
        attention += 2 * size * (family in {"qwen3", "qwen3_moe", "gemma3_text"}) + heads * (family == "gpt_oss")
        cached = 2 * kv * size
    total += layers * (attention + hidden * (4 if family in {"gemma2", "gemma3_text"} else 2))

    for i in range(layers):
        routed = family in {"mixtral", "gpt_oss"}
        if latent:
            routed = i >= c["first_k_dense_replace"] and i % c.get("moe_layer_freq", 1) == 0
        if family in {"qwen2_moe", "qwen3_moe"}:
            routed = i not in (c.get("mlp_only_layers") or []) and (i + 1) % c.get("decoder_sparse_step", 1) == 0
        if not routed:
            bias = family == "llama" and flag("mlp_bias")
            total += 3 * hidden * c["intermediate_size"] + (2 * c["intermediate_size"] + hidden) * bias
            continue
        experts = first("num_experts", "num_local_experts", "n_routed_experts")
        width = c["intermediate_size" if family in {"mixtral", "gpt_oss"} else "moe_intermediate_size"]
        total += experts * (hidden + 3 * hidden * width)
        if family == "gpt_oss":
            total += experts * (1 + 2 * width + hidden)
        if family == "qwen2_moe":
            total += 3 * hidden * c["shared_expert_intermediate_size"] + hidden
        if latent:
            total += 3 * hidden * width * (c["n_shared_experts"] or 0)

    window = None if latent or family in {"llama", "gemma"} else c.get("sliding_window", c.get("sliding_window_size"))
    if family.startswith("qwen") and not flag("use_sliding_window"):
        window = None
    if family == "qwen2_moe" and window:
        pattern = [i % 2 == 0 and i < c["max_window_layers"] for i in range(layers)]
    elif family in {"qwen2", "qwen3"} and window:
        pattern = [i >= c["max_window_layers"] for i in range(layers)]
    elif family in {"gemma2", "gpt_oss"}:
        pattern = [i % 2 == 0 for i in range(layers)]
    elif family == "gemma3_text":
        period = c.get("sliding_window_pattern", c.get("_sliding_window_pattern", 6))
        pattern = [(i + 1) % period > 0 for i in range(layers)]
    else:
        pattern = [True] * layers
    if c.get("layer_types") is not None and not latent:
        pattern = [kind == "sliding_attention" for kind in c["layer_types"]]
    return total, layers * cached, [window if windowed else None for windowed in pattern]


FIELDS = sorted(
    {name for slug in catalogue() for name in ({**facts(slug), **facts(slug).get("text_config", {})})}
    | {"layer_types", "qkv_bias", "max_window_layers", "_sliding_window_pattern", "sliding_window_size"}
    | {"block_configs", "index_topk", "use_qk_norm", "architectures", "dtype", "experts_per_token", "text_config"}
)
LAYER_KINDS = st.sampled_from(["full_attention", "sliding_attention", "linear_attention", None])
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(["", "4096", "<script>", "bfloat16", "full_attention", "é" * 100]),
    st.lists(st.integers(-1, 50), max_size=4),
    st.lists(LAYER_KINDS, min_size=0, max_size=70),
    st.dictionaries(st.sampled_from(["hidden_size", "<b>", "x"]), st.integers(), max_size=2),
)
PLAUSIBLE = st.integers(1, 130)


@st.composite
def mutated(draw):
    config = facts(draw(st.sampled_from(catalogue())))
    for _ in range(draw(st.integers(1, 4))):
        inner = config.get("text_config")
        part = inner if isinstance(inner, dict) and draw(st.booleans()) else config
        name = draw(st.sampled_from(FIELDS if draw(st.booleans()) else sorted(part) or FIELDS))
        action = draw(st.sampled_from(["drop", "junk", "number", "number", "scale", "kinds"]))
        if action == "drop":
            part.pop(name, None)
        elif action == "junk":
            part[name] = draw(JUNK)
        elif action == "number":
            part[name] = draw(PLAUSIBLE)
        elif action == "scale" and type(part.get(name)) is int:
            part[name] *= draw(st.sampled_from([2, 3, 1.0, -1, 10**6]))
        elif action == "kinds" and type(part.get("num_hidden_layers")) is int:
            kinds = st.sampled_from(["full_attention", "sliding_attention"])
            length = min(abs(part["num_hidden_layers"]), 130)
            part["layer_types"] = draw(st.lists(kinds, min_size=length, max_size=length))
    return config


@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated(), st.booleans())
def test_mutated_configuration_is_refused_or_counted_right(config, as_text):
    try:
        model = ModelGeometry.from_config(parse(json.dumps(config)) if as_text else config)
    except ConfigError as error:
        message = str(error)
        assert message.isascii() and len(message) < 1000 and not set("<>") & set(message)
        return
    total, cached, per_layer = independently(config)
    assert count(model).total == total
    assert cached_elements(model) == cached
    assert [getattr(layer.mixer, "window", None) for layer in model.layers] == per_layer
