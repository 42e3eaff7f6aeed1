"""Families against the totals that others print for their checkpoints, to the last parameter."""

import pytest

from calc import adapters, quantization
from calc.hardware import accelerator
from calc.models import ConfigError, ModelGeometry, UnsupportedArchitecture
from calc.parallel import Parallel, weights_on_rank
from calc.parameters import count


def fields(model_type, hidden, width, layers, heads, kv_heads, vocab, **more):
    return {
        "model_type": model_type,
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        **more,
    }


def gpt2(hidden, layers, heads):
    """As openai-community's files state it."""
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_ctx": 1024,
        "n_embd": hidden,
        "n_head": heads,
        "n_layer": layers,
        "n_positions": 1024,
        "vocab_size": 50257,
    }


def opt(hidden, layers, heads, **more):
    """As facebook's files state it."""
    return {
        "model_type": "opt",
        "architectures": ["OPTForCausalLM"],
        "do_layer_norm_before": True,
        "ffn_dim": 4 * hidden,
        "hidden_size": hidden,
        "max_position_embeddings": 2048,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "vocab_size": 50272,
        "word_embed_proj_dim": hidden,
        **more,
    }


def neox(hidden, width, layers, heads, vocab):
    config = fields("gpt_neox", hidden, width, layers, heads, 0, vocab, tie_word_embeddings=False)
    return {name: value for name, value in config.items() if name != "num_key_value_heads"}


def falcon(hidden, layers, heads, vocab=65024, **more):
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "vocab_size": vocab}
    return {"model_type": "falcon", "alibi": False, **sizes, **more}


def windows(layers, every):
    return ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(layers)]


GROUPED = {"new_decoder_architecture": True, "num_kv_heads": 8}
WIDE = {"head_dim": 128}
PHI = {"tie_word_embeddings": False, "partial_rotary_factor": 0.4, "qk_layernorm": False}
GLM = {"head_dim": 128, "tie_word_embeddings": False}
WINDOW = {"sliding_window": 4096}
EXPERTS = {
    **GLM,
    "attention_bias": True,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 1408,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
    "use_qk_norm": False,
}

LARGE = {"n_routed_experts": 160, "moe_intermediate_size": 1536, "first_k_dense_replace": 3, "use_qk_norm": True}

# The total of the checkpoint's tensors that its page on huggingface.co prints (safetensors), unless a source is given
PUBLISHED = {
    "openai-community/gpt2": (gpt2(768, 12, 12), 124_439_808),
    "openai-community/gpt2-medium": (gpt2(1024, 24, 16), 354_823_168),
    "openai-community/gpt2-large": (gpt2(1280, 36, 20), 774_030_080),
    "openai-community/gpt2-xl": (gpt2(1600, 48, 25), 1_557_611_200),
    "bigcode/starcoder": (
        {**gpt2(6144, 40, 48), "model_type": "gpt_bigcode", "architectures": ["GPTBigCodeForCausalLM"]}
        | {"n_inner": 24576, "n_positions": 8192, "vocab_size": 49152, "multi_query": True},
        15_517_456_384,
    ),
    "facebook/opt-125m": (opt(768, 12, 12), 125_239_296),
    "facebook/opt-1.3b": (opt(2048, 24, 32), 1_315_758_080),
    # Black et al., GPT-NeoX-20B, arXiv:2204.06745, section 2
    "EleutherAI/gpt-neox-20b": (neox(6144, 24576, 44, 64, 50432), 20_554_567_680),
    # Biderman et al., Pythia, arXiv:2304.01373, table 1: all parameters
    "EleutherAI/pythia-6.9b": (neox(4096, 16384, 32, 32, 50432), 6_857_302_016),
    "EleutherAI/pythia-160m": (neox(768, 3072, 12, 12, 50304), 162_322_944),
    "EleutherAI/pythia-12b": (neox(5120, 20480, 36, 40, 50688), 11_846_072_320),
    "tiiuae/falcon-rw-1b": (
        falcon(2048, 24, 32, 50304, alibi=True, bias=True, multi_query=False, parallel_attn=False),
        1_311_625_216,
    ),
    "microsoft/phi-2": (fields("phi", 2560, 10240, 32, 32, 32, 51200, **PHI), 2_779_683_840),
    "microsoft/phi-1_5": (fields("phi", 2048, 8192, 24, 32, None, 51200, **PHI), 1_418_270_720),
    "bigcode/starcoder2-15b": (
        fields("starcoder2", 6144, 24576, 40, 48, 4, 49152, **WINDOW, use_bias=True, tie_word_embeddings=False),
        15_957_889_024,
    ),
    "allenai/OLMo-2-1124-7B": (fields("olmo2", 4096, 11008, 32, 32, 32, 100352), 7_298_617_344),
    "allenai/OLMo-2-1124-13B": (fields("olmo2", 5120, 13824, 40, 40, 40, 100352), 13_716_198_400),
    "allenai/OLMo-2-0425-1B": (fields("olmo2", 2048, 8192, 16, 16, 16, 100352), 1_484_916_736),
    "allenai/Olmo-3-1025-7B": (
        fields("olmo3", 4096, 11008, 32, 32, 32, 100278, **WINDOW, layer_types=windows(32, 4)),
        7_298_011_136,
    ),
    "allenai/Olmo-3-1125-32B": (
        fields("olmo3", 5120, 27648, 64, 40, 8, 100278, **WINDOW, layer_types=windows(64, 4)),
        32_233_522_176,
    ),
    "allenai/OLMoE-1B-7B-0924": (
        fields("olmoe", 2048, 1024, 16, 16, 16, 50304, num_experts=64, num_experts_per_tok=8),
        6_919_161_856,
    ),
    "CohereForAI/aya-expanse-8b": (fields("cohere", 4096, 14336, 32, 32, 8, 256000), 8_028_033_024),
    "ibm-granite/granite-3.3-8b-instruct": (
        fields("granite", 4096, 12800, 40, 32, 8, 49159, tie_word_embeddings=True),
        8_170_864_640,
    ),
    "ibm-granite/granite-3.3-2b-instruct": (
        fields("granite", 2048, 8192, 40, 32, 8, 49159, tie_word_embeddings=True),
        2_533_539_840,
    ),
    "HuggingFaceTB/SmolLM3-3B": (
        fields("smollm3", 2048, 11008, 36, 16, 4, 128256, no_rope_layers=[1, 1, 1, 0] * 9, sliding_window=None),
        3_075_098_624,
    ),
    "ByteDance-Seed/Seed-OSS-36B-Instruct": (
        fields("seed_oss", 5120, 27648, 64, 80, 8, 155136, **WIDE, attention_bias=True, attention_out_bias=False),
        36_151_104_512,
    ),
    "LGAI-EXAONE/EXAONE-4.0-32B": (
        fields("exaone4", 5120, 27392, 64, 40, 8, 102400, **WIDE, **WINDOW, layer_types=windows(64, 4)),
        32_003_216_384,
    ),
    "google/gemma-3-270m": (
        fields("gemma3_text", 640, 2048, 18, 4, 1, 262144, head_dim=256, sliding_window=512),
        268_098_176,
    ),
    "baidu/ERNIE-4.5-0.3B-PT": (
        fields("ernie4_5", 1024, 3072, 18, 16, 2, 103424, **WIDE, use_bias=False),
        360_748_032,
    ),
    "zai-org/glm-4-9b-chat-hf": (
        fields("glm", 4096, 13696, 40, 32, 2, 151552, **GLM, attention_bias=True),
        9_399_951_360,
    ),
    "zai-org/GLM-4-9B-0414": (
        fields("glm4", 4096, 13696, 40, 32, 2, 151552, **GLM, attention_bias=True),
        9_400_279_040,
    ),
    "CohereLabs/tiny-aya-base": (
        fields("cohere2", 2048, 11008, 36, 16, 4, 262144, **WIDE, **WINDOW, layer_types=windows(36, 4)),
        3_349_227_520,
    ),
}

# The same families: held against no page, only kept from changing unnoticed
SIBLINGS = {
    "facebook/opt-6.7b": (opt(4096, 32, 32), 6_658_473_984),
    "facebook/opt-13b": (opt(5120, 40, 40), 12_853_473_280),
    "bigcode/starcoder2-3b": (
        fields("starcoder2", 3072, 12288, 30, 24, 2, 49152, **WINDOW, use_bias=True),
        3_030_371_328,
    ),
    "CohereForAI/c4ai-command-r-v01": (fields("cohere", 8192, 22528, 40, 64, 64, 256000), 34_980_831_232),
    "CohereForAI/c4ai-command-r-plus": (
        fields("cohere", 12288, 33792, 64, 96, 8, 256000, use_qk_norm=True),
        103_810_674_688,
    ),
    "CohereForAI/c4ai-command-r7b-12-2024": (
        fields("cohere2", 4096, 14336, 32, 32, 8, 256000, **WIDE, **WINDOW, sliding_window_pattern=4),
        8_028_033_024,
    ),
    "CohereForAI/c4ai-command-a-03-2025": (
        fields("cohere2", 12288, 36864, 64, 96, 8, 256000, **WIDE, **WINDOW, sliding_window_pattern=4),
        111_057_580_032,
    ),
    "LGAI-EXAONE/EXAONE-4.0-1.2B": (
        fields("exaone4", 2048, 4096, 30, 32, 8, 102400, head_dim=64, sliding_window=None, tie_word_embeddings=True),
        1_279_391_488,
    ),
    "zai-org/GLM-4-32B-0414": (fields("glm4", 6144, 23040, 61, 48, 2, 151552, **GLM), 32_566_081_536),
}


KNOWN = PUBLISHED | SIBLINGS


@pytest.mark.parametrize("name", PUBLISHED)
def test_total_is_the_published_one(name):
    config, total = PUBLISHED[name]
    assert count(ModelGeometry.from_config(config)).total == total


@pytest.mark.parametrize("name", SIBLINGS)
def test_total_of_a_sibling_stays(name):
    config, total = SIBLINGS[name]
    assert count(ModelGeometry.from_config(config)).total == total


@pytest.mark.parametrize("name", KNOWN)
def test_matrices_that_an_adapter_can_change_are_those_of_the_count(name):
    """What the count has beside them are biases and norms, a hundredth at most."""
    model = ModelGeometry.from_config(KNOWN[name][0])
    counted = count(model)
    for group in ("attention", "mlp"):
        matrices = sum(s.input_dim * s.output_dim for s in adapters.sites(model) if adapters.tensor_group(s) == group)
        assert 0.99 * getattr(counted, group) <= matrices <= getattr(counted, group), group


@pytest.mark.parametrize(
    ("name", "linear"),
    [
        ("openai-community/gpt2", "c_attn c_proj c_fc"),
        ("facebook/opt-1.3b", "q_proj k_proj v_proj out_proj fc1 fc2"),
        ("microsoft/phi-2", "q_proj k_proj v_proj dense fc1 fc2"),
        ("EleutherAI/pythia-160m", "query_key_value dense dense_h_to_4h dense_4h_to_h"),
        ("tiiuae/falcon-rw-1b", "query_key_value dense dense_h_to_4h dense_4h_to_h"),
        ("bigcode/starcoder2-15b", "q_proj k_proj v_proj o_proj c_fc c_proj"),
        ("zai-org/GLM-4-9B-0414", "q_proj k_proj v_proj o_proj gate_up_proj down_proj"),
    ],
)
def test_matrices_have_the_names_of_their_family(name, linear):
    model = ModelGeometry.from_config(KNOWN[name][0])
    assert adapters.target_group(model, "all-linear") == tuple(linear.split())


# --- checkpoints that hold more than the language model --------------------------------------------------------------

VISION = {"vision_config": {"hidden_size": 1024}}
SMALL = fields("mistral", 5120, 32768, 40, 32, 8, 131072, **WIDE, sliding_window=None)
QWEN_7B = fields("qwen2_vl", 3584, 18944, 28, 28, 4, 152064, tie_word_embeddings=False, use_sliding_window=False)
QWEN_3B = {"tie_word_embeddings": True, "use_sliding_window": False}
QWEN_1B = fields("qwen2", 896, 4864, 24, 14, 2, 151674, tie_word_embeddings=False, use_sliding_window=False)
GEMMA_12B = {
    "model_type": "gemma3_text",
    "hidden_size": 3840,
    "intermediate_size": 15360,
    "num_attention_heads": 16,
    "num_hidden_layers": 48,
    "num_key_value_heads": 8,
    "sliding_window": 1024,
}


def inside(model_type, text, place="text_config", **more):
    return {"model_type": model_type, place: text, **VISION, **more}


def flat(model_type, text, **more):
    return {**text, "model_type": model_type, **VISION, **more}


def for_prediction(hidden, width, experts, routed, norms):
    """GLM-4.5's layer for multi-token prediction, with an embedding and a head of its own, and all routers' buffers."""
    attention = hidden * 128 * (96 + 8) * 2 + 128 * (96 + 2 * 8) + norms
    layer = attention + 3 * hidden * width * (experts + 1) + hidden * experts + 2 * hidden
    return layer + 2 * hidden * hidden + 3 * hidden + 2 * 151552 * hidden + routed * experts


FALCON_7B = falcon(4544, 32, 71, multi_query=True, parallel_attn=True, bias=False)
FALCON_40B = falcon(8192, 60, 128, **GROUPED)


# The published total, and what of it is no part of the language model
BESIDE = {
    # A second copy of the embedding, as the output layer: the model ties them
    "tiiuae/falcon-7b": (FALCON_7B, 7_217_189_760, 65024 * 4544),
    "tiiuae/falcon-40b": (FALCON_40B, 41_835_970_560, 65024 * 8192),
    # Pixtral's 24 layers, and a projector that merges four patches
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": (inside("mistral3", SMALL), 24_011_361_280, 438_958_080),
    "mistralai/Ministral-3-3B-Instruct-2512": (
        inside("mistral3", fields("ministral3", 3072, 9216, 26, 32, 8, 131072, **WIDE, sliding_window=None))
        | {"tie_word_embeddings": True},
        3_849_090_048,
        403_305_472 + 1024 + 1024 * (4 * 1024 + 3072) + 3072 * 3072,
    ),
    "Qwen/Qwen2-VL-7B-Instruct": (flat("qwen2_vl", QWEN_7B), 8_291_375_616, 675_759_104),
    "Qwen/Qwen2.5-VL-7B-Instruct": (flat("qwen2_5_vl", QWEN_7B), 8_292_166_656, 676_550_144),
    "Qwen/Qwen2.5-VL-3B-Instruct": (
        inside("qwen2_5_vl", fields("qwen2_5_vl_text", 2048, 11008, 36, 16, 2, 151936, **QWEN_3B)),
        3_754_622_976,
        668_684_288,
    ),
    # CLIP-L at 336 pixels, and two matrices with biases; the text part as published, with all sizes left out
    "llava-hf/llava-1.5-7b-hf": (
        inside("llava", {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096}),
        7_063_427_072,
        303_507_456 + 20_979_712,
    ),
    "OpenGVLab/InternVL2_5-1B": (
        inside("internvl_chat", QWEN_1B, "llm_config", tie_word_embeddings=False),
        938_193_024,
        304_012_288 + 4_482_816,
    ),
    # SigLIP, and one matrix with a norm
    "google/gemma-3-12b-it": (inside("gemma3", GEMMA_12B), 12_187_325_040, 416_866_032 + 1152 * (3840 + 1)),
    "zai-org/GLM-4.5-Air": (
        fields("glm4_moe", 4096, 10944, 46, 96, 8, 151552, **EXPERTS),
        110_468_824_832,
        for_prediction(hidden=4096, width=1408, experts=128, routed=46, norms=0),
    ),
    "zai-org/GLM-4.5": (
        fields("glm4_moe", 5120, 12288, 92, 96, 8, 151552, **EXPERTS | LARGE),
        358_337_791_296,
        for_prediction(hidden=5120, width=1536, experts=160, routed=90, norms=2 * 128),
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_total_is_the_published_one_without_what_is_not_the_language_model(name):
    config, total, beside = BESIDE[name]
    assert count(ModelGeometry.from_config(config)).total == total - beside


def test_flat_and_nested_forms_of_one_file_are_one_model():
    nested = {**QWEN_7B, "model_type": "qwen2_vl_text"}
    both = flat("qwen2_vl", QWEN_7B, text_config=nested, tie_word_embeddings=False)
    layers = ModelGeometry.from_config(flat("qwen2_vl", QWEN_7B)).layers
    assert ModelGeometry.from_config(inside("qwen2_vl", nested)).layers == layers
    assert ModelGeometry.from_config(both).layers == layers


def test_text_part_of_another_family_is_refused_with_what_would_do():
    with pytest.raises(UnsupportedArchitecture, match="llm_config .*'internlm2': supported is qwen2 or"):
        ModelGeometry.from_config(inside("internvl_chat", {"model_type": "internlm2"}, "llm_config"))
    with pytest.raises(ConfigError, match="text_config of a mistral3 configuration is None"):
        ModelGeometry.from_config(flat("mistral3", SMALL))
    for wrapper in ("internvl", "llava_onevision"):
        with pytest.raises(ConfigError, match="tie_word_embeddings is missing: it must be true or false"):
            ModelGeometry.from_config(inside(wrapper, {**QWEN_1B, "tie_word_embeddings": None}))
        assert not ModelGeometry.from_config(inside(wrapper, QWEN_1B)).tied_embeddings
    with pytest.raises(ConfigError, match="sliding_window is missing"):  # the class would assume 4096
        ModelGeometry.from_config(inside("llava_next", {"model_type": "mistral", "vocab_size": 32064}))


# --- caches, and what changes in a file ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "heads", "head_dim", "layers"),
    [
        ("openai-community/gpt2-xl", 25, 64, 48),
        ("facebook/opt-13b", 40, 128, 40),
        ("EleutherAI/gpt-neox-20b", 64, 96, 44),
        ("tiiuae/falcon-7b", 1, 64, 32),
        ("tiiuae/falcon-40b", 8, 64, 60),
        ("tiiuae/falcon-rw-1b", 32, 64, 24),
        ("microsoft/phi-2", 32, 80, 32),
        ("CohereForAI/c4ai-command-r-v01", 64, 128, 40),
        ("zai-org/GLM-4-32B-0414", 2, 128, 61),
    ],
)
def test_one_position_in_the_cache(name, heads, head_dim, layers):
    ((mixer, times),) = ModelGeometry.from_config((KNOWN | BESIDE)[name][0]).kinds()
    assert (mixer.kind, mixer.kv_heads, mixer.key_dim, mixer.value_dim, times) == (
        "full", heads, head_dim, head_dim, layers,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "window", "near"),
    [
        ("allenai/Olmo-3-1025-7B", 4096, 24),
        ("CohereForAI/c4ai-command-r7b-12-2024", 4096, 24),
        ("LGAI-EXAONE/EXAONE-4.0-32B", 4096, 48),
        ("bigcode/starcoder2-3b", 4096, 30),
    ],
)
def test_layers_with_a_window(name, window, near):
    config = KNOWN[name][0]
    layers = ModelGeometry.from_config(config).layers
    assert [getattr(layer.mixer, "window", None) for layer in layers].count(window) == near
    if "layer_types" in config:
        pattern = {"sliding_window_pattern": 4} if config["model_type"] == "exaone4" else {}
        assert ModelGeometry.from_config({**config, "layer_types": None, **pattern}).layers == layers


def changed(name, **changes):
    merged = {**(KNOWN | BESIDE)[name][0], **changes}
    return ModelGeometry.from_config({field: value for field, value in merged.items() if value is not ...})


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("openai-community/gpt2", {"n_embd": ...}, "n_embd is missing"),
        ("openai-community/gpt2", {"n_layer": None}, "n_layer is None"),
        ("openai-community/gpt2", {"hidden_size": 1024}, "n_embd is 768 but hidden_size is 1024"),
        ("openai-community/gpt2", {"add_cross_attention": True}, "add_cross_attention is True"),
        ("facebook/opt-125m", {"word_embed_proj_dim": 512}, "word_embed_proj_dim is 512: supported is 768"),
        ("facebook/opt-125m", {"ffn_dim": "wide"}, "ffn_dim is 'wide'"),
        ("facebook/opt-125m", {"max_position_embeddings": ...}, "max_position_embeddings is missing"),
        ("tiiuae/falcon-40b", {"num_kv_heads": 7}, "num_kv_heads is 7: query heads must be a multiple"),
        ("tiiuae/falcon-40b", {"parallel_attn": False}, "must be side by side"),
        ("tiiuae/falcon-40b", {"num_ln_in_parallel_attn": 1}, "num_ln_in_parallel_attn is 1"),
        ("microsoft/phi-2", {"qk_layernorm": True}, "qk_layernorm is True"),
        ("microsoft/phi-2", {"tie_word_embeddings": True}, "tie_word_embeddings is True"),
        ("bigcode/starcoder2-15b", {"mlp_type": "gated"}, "mlp_type is 'gated': supported is 'default'"),
        ("CohereForAI/c4ai-command-a-03-2025", {"use_qk_norm": True}, "use_qk_norm is True"),
        ("CohereForAI/c4ai-command-a-03-2025", {"layer_types": ["chunked_attention"] * 64}, "layer_types.0. is"),
        ("HuggingFaceTB/SmolLM3-3B", {"use_sliding_window": True, "sliding_window": 64}, "layer_types is missing"),
        ("LGAI-EXAONE/EXAONE-4.0-32B", {"layer_types": None}, "sliding_window_pattern is None: state layer_types"),
        ("zai-org/GLM-4-9B-0414", {"head_dim": ...}, "head_dim is missing"),
        ("allenai/OLMo-2-1124-7B", {"sliding_window": 4096}, "sliding_window is 4096, which a olmo2 model"),
    ],
)
def test_what_is_not_known_is_refused_by_the_name_in_the_file(name, changes, message):
    with pytest.raises(ConfigError, match=message):
        changed(name, **changes)


def test_switches_change_what_they_say():
    total = KNOWN["facebook/opt-125m"][1]
    bare = count(changed("facebook/opt-125m", layer_norm_elementwise_affine=False)).total
    assert total - bare == (12 * 4 + 2) * 768
    last = count(changed("facebook/opt-125m", do_layer_norm_before=False)).total
    assert total - last == 2 * 768
    assert total - count(changed("facebook/opt-125m", enable_bias=False)).total == 12 * (5 * 768 + 3072)
    untied = count(changed("openai-community/gpt2", tie_word_embeddings=False)).total
    assert untied - KNOWN["openai-community/gpt2"][1] == 50257 * 768


def test_learned_positions_are_on_the_first_stage_and_multiply_nothing():
    model = ModelGeometry.from_config(KNOWN["openai-community/gpt2"][0])
    whole = count(model)
    assert whole.groups["positions"] == 1024 * 768
    assert whole.active_excluding_embedding == whole.total - 1024 * 768  # tied: the output layer multiplies
    ranks = [weights_on_rank(model, Parallel(pipeline=2), stage=stage) for stage in (0, 1)]
    padded = 50304 * 768
    assert [rank.positions for rank in ranks] == [1024 * 768, 0]
    assert sum(rank.total for rank in ranks) == whole.total - 50257 * 768 + 2 * padded


def test_bias_of_the_output_layer_is_counted_with_it():
    assert count(ModelGeometry.from_config(KNOWN["microsoft/phi-2"][0])).lm_head == 51200 * 2560 + 51200


def test_a_step_reads_no_matrix_of_learned_positions():
    model = ModelGeometry.from_config(PUBLISHED["openai-community/gpt2-xl"][0])
    counted, chip = count(model), accelerator("h100-sxm")
    step = quantization.step(model, quantization.stored(model, "bf16"), chip, "bf16", ranks=1, step_tokens=1)
    assert counted.positions == 1024 * 1600
    assert step.read_bytes == 2 * (counted.total - counted.positions)
