"""What each family's configuration means: one function per family, from checked fields to layers.

The reference is transformers 5.24.0, whose model classes hold the parameters and whose configuration
classes supply what a file leaves out. Fields that change nothing in a layer's geometry (rotary
frequencies, soft caps, scaling of the router) aren't read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calc.models import compressed, early, hybrids, mixtures, variants
from calc.models.fields import ConfigError, Fields, UnsupportedArchitecture, agree, mapping, shown
from calc.models.layers import Layer
from calc.models.parts import (
    gemma_attention,
    head_dim_of,
    qwen3_attention,
    qwen_mixture,
    qwen_window,
    read_attention,
    read_experts,
    read_mlp,
    read_window,
    stack,
    with_qwen_windows,
    with_windows,
)
from calc.sources import load_json

# Multimodal configurations and the families that their language part may have, first the one that their class assumes.
# The vision part is not modeled.
WRAPPERS: dict[str, tuple[str, ...]] = {
    "gemma3": ("gemma3_text",),
    "gemma4": ("gemma4_text",),
    "internvl": ("qwen2", "qwen3", "qwen3_moe", "llama"),
    "internvl_chat": ("qwen2", "qwen3", "qwen3_moe", "llama"),
    "kimi_k25": ("kimi_k2",),
    "llama4": ("llama4_text",),
    "llava": ("llama", "mistral", "qwen2"),
    "llava_next": ("llama", "mistral", "qwen2"),
    "llava_onevision": ("qwen2",),
    "minimax_m3_vl": ("minimax_m3",),
    "mistral3": ("mistral", "ministral3"),
    "qwen2_5_vl": ("qwen2",),
    "qwen2_vl": ("qwen2",),
    "qwen3_5": ("qwen3_5_text",),
    "qwen3_5_moe": ("qwen3_5_moe_text",),
    "qwen3_vl": ("qwen3_vl_text",),
    "qwen3_vl_moe": ("qwen3_vl_moe_text",),
}

# Where the language part is, if not in text_config; and whose early files have its fields beside the others.
TEXT_PART = {"internvl_chat": "llm_config"}
FLAT = ("qwen2_vl", "qwen2_5_vl")

# What else a text part may call itself: the names that transformers and vLLM give to one family.
ALIASES = {
    "minimax_m3": ("minimax_m3_text", "minimax_m3_vl_text"),
    "qwen2": ("qwen2_vl_text", "qwen2_5_vl_text"),
}

REMEDY = "or describe the model yourself: calc.models.ModelGeometry takes its layers"


def llama(f: Fields) -> tuple[Layer, ...]:
    """Llama 1, 2, 3: full attention; one switch for the four attention biases, one for the MLP's."""
    bias = f.flag("attention_bias")
    attention = read_attention(f, head_dim=head_dim_of(f), qkv_bias=bias, output_bias=bias)
    return stack(with_windows(f, attention, None), read_mlp(f, bias=f.flag("mlp_bias")))


def mistral(f: Fields) -> tuple[Layer, ...]:
    """Mistral, and Phi-3 with its fused projections: a window in the file is active in all layers."""
    attention = read_attention(f, head_dim=head_dim_of(f))
    return stack(with_windows(f, attention, read_window(f)), read_mlp(f))


def mixtral(f: Fields) -> tuple[Layer, ...]:
    """Mixtral: Mistral's attention, and routed experts in every layer."""
    attention = read_attention(f, head_dim=head_dim_of(f))
    return stack(with_windows(f, attention, read_window(f)), read_experts(f, "intermediate_size"))


def qwen2(f: Fields) -> tuple[Layer, ...]:
    """Qwen 1.5, 2, 2.5: biases on queries, keys and values, which no field announces; windows usually off."""
    attention = read_attention(f, head_dim=head_dim_of(f), qkv_bias=True)
    return stack(with_qwen_windows(f, attention), read_mlp(f))


def mimo(f: Fields) -> tuple[Layer, ...]:
    """MiMo-7B: Qwen2's layers; its files state the biases."""
    if f.value("attention_bias") not in (None, True):
        raise f.error(f"attention_bias is {shown(f.value('attention_bias'))}: a MiMo model always has these biases")
    return qwen2(f)


def qwen3(f: Fields) -> tuple[Layer, ...]:
    """Qwen3: a norm for each head's query and key, and a head size of its own."""
    return stack(with_qwen_windows(f, qwen3_attention(f)), read_mlp(f))


def qwen2_moe(f: Fields) -> tuple[Layer, ...]:
    """Qwen 1.5 and 2 mixtures: a gated shared expert. With windows on, even layers below the limit have them."""
    attention = read_attention(f, head_dim=head_dim_of(f), qkv_bias=f.flag("qkv_bias"))
    shared = f.count("shared_expert_intermediate_size", least=0)
    window = qwen_window(f)
    end = f.count("max_window_layers", least=0) if window else 0
    mixers = with_windows(f, attention, window, lambda i: i % 2 == 0 and i < end)
    return qwen_mixture(f, mixers, read_experts(f, "moe_intermediate_size", shared=shared, shared_gate=True))


def qwen3_moe(f: Fields) -> tuple[Layer, ...]:
    """Qwen3 mixtures: Qwen3's attention and no shared expert. With windows on, all layers have them."""
    mixers = with_windows(f, qwen3_attention(f), qwen_window(f))
    return qwen_mixture(f, mixers, read_experts(f, "moe_intermediate_size"))


def gemma(f: Fields) -> tuple[Layer, ...]:
    """Gemma 1: full attention with a head size of its own."""
    return stack(with_windows(f, gemma_attention(f), None), read_mlp(f))


def gemma2(f: Fields) -> tuple[Layer, ...]:
    """Gemma 2: window and full layers alternate, a window first; norms before and after each half."""
    mixers = with_windows(f, gemma_attention(f), read_window(f), lambda i: i % 2 == 0)
    return stack(mixers, read_mlp(f), norms=4)


def gemma3_text(f: Fields) -> tuple[Layer, ...]:
    """Gemma 3: every sixth layer is full, or every n-th where the file says so; norms on queries and keys."""
    period = f.count("sliding_window_pattern", "_sliding_window_pattern")
    mixers = with_windows(f, gemma_attention(f, qk_norm="head"), read_window(f), lambda i: (i + 1) % period != 0)
    return stack(mixers, read_mlp(f), norms=4)


def gpt_oss(f: Fields) -> tuple[Layer, ...]:
    """gpt-oss: window and full layers alternate, a window first; sinks, and biases on router and experts too."""
    bias = f.flag("attention_bias")
    attention = read_attention(f, head_dim=f.count("head_dim"), qkv_bias=bias, output_bias=bias, sinks=True)
    mixers = with_windows(f, attention, read_window(f), lambda i: i % 2 == 0)
    return stack(mixers, read_experts(f, "intermediate_size", router_bias=True, expert_bias=True))


# Families that have more around their layers than an embedding, a scale and an output layer
EARLY: dict[str, Callable[[Fields], tuple[Layer, ...]]] = {
    "falcon": early.falcon,
    "gpt2": early.gpt2,
    "gpt_bigcode": early.gpt_bigcode,
    "gpt_neox": early.gpt_neox,
    "opt": early.opt,
    "phi": early.phi,
    "starcoder2": early.starcoder2,
}

FAMILIES: dict[str, Callable[[Fields], tuple[Layer, ...]]] = {
    "llama": llama,
    "mistral": mistral,
    "mixtral": mixtral,
    "qwen2": qwen2,
    "qwen2_moe": qwen2_moe,
    "qwen3": qwen3,
    "qwen3_moe": qwen3_moe,
    "gemma": gemma,
    "gemma2": gemma2,
    "gemma3_text": gemma3_text,
    "phi3": mistral,
    "gpt_oss": gpt_oss,
    "mimo": mimo,
    "qwen3_vl_text": qwen3,
    "qwen3_vl_moe_text": qwen3_moe,
    "deepseek_v2": mixtures.deepseek,
    "deepseek_v3": mixtures.deepseek,
    "kimi_k2": mixtures.deepseek,
    "deepseek_v32": mixtures.deepseek_indexed,
    "glm_moe_dsa": mixtures.deepseek_indexed,
    "llama4_text": mixtures.llama4,
    "minimax_m2": mixtures.minimax_m2,
    "mimo_v2_flash": mixtures.mimo_v2_flash,
    "deepseek_v4": compressed.deepseek_v4,
    **dict.fromkeys(("minimax_m3", *ALIASES["minimax_m3"]), compressed.minimax_m3),
    "gemma4_text": mixtures.gemma4,
    "qwen3_next": hybrids.qwen3_next,
    "qwen3_5_text": hybrids.qwen3_5,
    "qwen3_5_moe_text": hybrids.qwen3_5_moe,
    "nemotron_h": hybrids.nemotron_h,
    "nemotron-nas": hybrids.nemotron_nas,
    "cohere": variants.cohere,
    "cohere2": variants.cohere2,
    "ernie4_5": variants.ernie4_5,
    "exaone4": variants.exaone4,
    "glm": variants.glm,
    "glm4": variants.glm4,
    "glm4_moe": variants.glm4_moe,
    "granite": llama,
    "ministral3": variants.ministral3,
    "olmo2": variants.olmo2,
    "olmo3": variants.olmo3,
    "olmoe": variants.olmoe,
    "seed_oss": variants.seed_oss,
    "smollm3": variants.smollm3,
    **EARLY,
}


def open_config(data: dict[str, Any]) -> Fields:
    """Find out what family a configuration belongs to, and put the family's defaults behind its fields.

    Raises
    ------
    UnsupportedArchitecture
        If the model type or the architecture isn't a known one.
    ConfigError
        If the model type or the text part is missing.
    """
    stated = data.get("model_type")
    known = sorted({*FAMILIES, *WRAPPERS})
    if stated is None:
        raise ConfigError(f"model_type is missing: a config.json states it; supported are {', '.join(_short(known))}")
    if not isinstance(stated, str) or stated not in known:
        raise UnsupportedArchitecture(
            f"model_type {shown(stated)} is not supported: take a model of a type that is, {REMEDY}; supported are "
            f"{', '.join(_short(known))}"
        )
    facts = load_json("families.json")["families"]
    _check_architectures(data, facts[stated]["architectures"])
    family, more = stated, {}
    if stated in WRAPPERS:
        data, family = _text_part(data, stated)
        more = facts[stated].get("text_defaults", {}).get(family, {})
    return Fields(data, family, facts[family]["defaults"] | more, facts[family].get("names"))


def _short(known: list[str]) -> list[str]:
    """Names without those of the text parts of others."""
    return [name for name in known if name.removesuffix("_text") not in WRAPPERS or name in WRAPPERS]


def read_frame(f: Fields) -> dict[str, Any]:
    """What a model has around its layers that others haven't, as fields of `ModelGeometry`."""
    return early.frame(f) if f.family in EARLY else {}


def read_layers(f: Fields) -> tuple[Layer, ...]:
    """Read the layers, and refuse a file with a structural field that its family's function didn't read."""
    layers = FAMILIES[f.family](f)
    for name in f.unread(load_json("families.json")["structural"]):
        raise UnsupportedArchitecture(
            f"{f.family} configuration: {name} is {shown(f.data[name])}, which a {f.family} model doesn't have: "
            "use the model_type of the model it comes from, or leave the field out if it does nothing"
        )
    return layers


def _check_architectures(data: dict[str, Any], known: list[str]) -> None:
    """Refuse a checkpoint with another head (a classifier, a drafter), whose parameters would differ."""
    stated = data.get("architectures")
    if stated and not (isinstance(stated, list) and any(name in known for name in stated)):
        raise UnsupportedArchitecture(
            f"architectures is {shown(stated)}, but a model of type {data['model_type']} that generates text is "
            f"{' or '.join(known)}"
        )


def _text_part(data: dict[str, Any], stated: str) -> tuple[dict[str, Any], str]:
    """The language model's fields in a multimodal configuration, with what the outer part says about them."""
    place, families = TEXT_PART.get(stated, "text_config"), WRAPPERS[stated]
    if stated in FLAT and data.get(place) is None:
        return data, families[0]
    text = dict(mapping(data.get(place), f"{place} of a {stated} configuration"))
    named = text.setdefault("model_type", families[0])
    family = next((family for family in families if named in (family, *ALIASES.get(family, ()))), None)
    if family is None:
        raise UnsupportedArchitecture(
            f"{place} of a {stated} configuration has model_type {shown(named)}: supported is {' or '.join(families)}; "
            f"take a model with such a part, {REMEDY}"
        )
    outer, inner = data.get("tie_word_embeddings"), text.get("tie_word_embeddings")
    if outer is not None and inner is not None and not agree(outer, inner):
        raise ConfigError(f"tie_word_embeddings is {shown(outer)}, but {shown(inner)} in {place}: they must agree")
    text["tie_word_embeddings"] = inner if outer is None else outer
    if "dtype" not in text and "torch_dtype" not in text:
        text |= {name: data[name] for name in ("dtype", "torch_dtype") if name in data}
    return text, family
