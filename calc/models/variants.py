"""Families that differ from Llama in a switch, a norm or a pattern of windows: OLMo, Cohere, GLM-4, EXAONE."""

from __future__ import annotations

from dataclasses import replace

from calc.models.fields import MOST_POSITIONS, Fields, UnsupportedArchitecture, shown
from calc.models.layers import FullAttention, Layer
from calc.models.parts import (
    head_dim_of,
    layer_count,
    read_attention,
    read_experts,
    read_mlp,
    read_window,
    route,
    stack,
    with_windows,
)


def olmo2(f: Fields) -> tuple[Layer, ...]:
    """OLMo 2: norms after each half, and one over all heads' queries and one over all keys."""
    return stack(with_windows(f, _olmo_attention(f), None), read_mlp(f))


def olmo3(f: Fields) -> tuple[Layer, ...]:
    """OLMo 3: OLMo 2's layers with windows, every fourth layer full."""
    mixers = with_windows(f, _olmo_attention(f), read_window(f), lambda i: (i + 1) % 4 != 0)
    return stack(mixers, read_mlp(f))


def olmoe(f: Fields) -> tuple[Layer, ...]:
    """OLMoE: OLMo 2's attention, and routed experts in every layer."""
    return stack(with_windows(f, _olmo_attention(f), None), read_experts(f, "intermediate_size"))


def _olmo_attention(f: Fields) -> FullAttention:
    bias = f.flag("attention_bias")
    return read_attention(f, head_dim=head_dim_of(f), qkv_bias=bias, output_bias=bias, qk_norm="full")


def cohere(f: Fields) -> tuple[Layer, ...]:
    """Command R and R+: attention and network side by side behind one norm; R+ has a norm for each head as well."""
    bias, norm = f.flag("attention_bias"), "full" if f.flag("use_qk_norm") else "none"
    attention = read_attention(f, head_dim=head_dim_of(f), qkv_bias=bias, output_bias=bias, qk_norm=norm)
    return stack(with_windows(f, attention, None), read_mlp(f), norms=1)


def cohere2(f: Fields) -> tuple[Layer, ...]:
    """Command R7B and A: Cohere's layers with windows, every fourth layer full, or every n-th by the file."""
    bias, every = f.flag("attention_bias"), f.count("sliding_window_pattern", "_sliding_window_pattern")
    if f.value("use_qk_norm"):
        raise UnsupportedArchitecture(
            f"cohere2 configuration: use_qk_norm is {shown(f.value('use_qk_norm'))}: supported is false"
        )
    attention = read_attention(f, head_dim=head_dim_of(f), qkv_bias=bias, output_bias=bias)
    mixers = with_windows(f, attention, read_window(f), lambda i: (i + 1) % every != 0)
    return stack(mixers, read_mlp(f), norms=1)


def smollm3(f: Fields) -> tuple[Layer, ...]:
    """SmolLM3: Llama's layers, some without rotary positions, which changes no size."""
    bias = f.flag("attention_bias")
    f.value("no_rope_layers")
    window = f.count("sliding_window", most=MOST_POSITIONS) if f.flag("use_sliding_window") else None
    f.value("sliding_window")
    if window and f.value("layer_types") is None:  # the class's own pattern follows the rotary positions
        raise f.error("use_sliding_window is true, but layer_types is missing: state which layers have the window")
    attention = read_attention(f, head_dim=head_dim_of(f), qkv_bias=bias, output_bias=bias)
    return stack(with_windows(f, attention, window), read_mlp(f, bias=f.flag("mlp_bias")))


def seed_oss(f: Fields) -> tuple[Layer, ...]:
    """Seed-OSS: Llama's layers, with a switch of its own for the output projection's bias."""
    attention = read_attention(
        f, head_dim=f.count("head_dim"), qkv_bias=f.flag("attention_bias"), output_bias=f.flag("attention_out_bias")
    )
    return stack(with_windows(f, attention, None), read_mlp(f, bias=f.flag("mlp_bias")))


def exaone4(f: Fields) -> tuple[Layer, ...]:
    """EXAONE 4: norms after each half, and for each head's query and key; every n-th layer full."""
    attention = read_attention(f, head_dim=head_dim_of(f), qk_norm="head")
    pattern, window, layers = f.value("sliding_window_pattern"), read_window(f), layer_count(f)
    every = pattern if type(pattern) is int and pattern > 0 else None
    if window is not None and f.value("layer_types") is None and (every is None or layers % every):
        raise f.error(
            f"sliding_window is set, and sliding_window_pattern is {shown(pattern)}: state layer_types, or a pattern "
            "that divides the layers"
        )
    return stack(with_windows(f, attention, window, lambda i: (i + 1) % every != 0), read_mlp(f))


def ministral3(f: Fields) -> tuple[Layer, ...]:
    """Ministral 3 and Devstral 2: Mistral's layers."""
    attention = read_attention(f, head_dim=f.count("head_dim"))
    return stack(with_windows(f, attention, read_window(f)), read_mlp(f))


def ernie4_5(f: Fields) -> tuple[Layer, ...]:
    """ERNIE 4.5, dense: Llama's layers with one switch for all biases."""
    bias = f.flag("use_bias")
    attention = read_attention(f, head_dim=f.count("head_dim"), qkv_bias=bias, output_bias=bias)
    return stack(with_windows(f, attention, None), read_mlp(f, bias=bias))


def glm(f: Fields) -> tuple[Layer, ...]:
    """GLM-4, in the files that transformers writes: Llama's layers; biases on queries, keys and values by a switch."""
    return stack(with_windows(f, _glm_attention(f), None), read_mlp(f))


def glm4(f: Fields) -> tuple[Layer, ...]:
    """GLM-4-0414: norms before and after each half; biases on queries, keys and values by a switch."""
    return stack(with_windows(f, _glm_attention(f), None), read_mlp(f), norms=4)


def glm4_moe(f: Fields) -> tuple[Layer, ...]:
    """GLM-4.5, 4.6 and 4.7: the first layers dense, then shared and routed experts."""
    attention = _glm_attention(f)
    if f.flag("use_qk_norm"):
        attention = replace(attention, qk_norm="head")
    layers = layer_count(f)
    shared = (f.optional_count("n_shared_experts", least=0) or 0) * f.count("moe_intermediate_size")
    first = f.count("first_k_dense_replace", least=0, most=layers)
    mixed = [i >= first for i in range(layers)]
    types = f.words("mlp_layer_types", ("dense", "sparse"), layers)
    if types is not None and [t == "sparse" for t in types] != mixed:
        raise f.error("mlp_layer_types and first_k_dense_replace describe different layers: they must agree")
    experts = read_experts(f, "moe_intermediate_size", shared=shared)
    return route(with_windows(f, attention, None), mixed, experts, read_mlp(f))


def _glm_attention(f: Fields) -> FullAttention:
    return read_attention(f, head_dim=f.count("head_dim"), qkv_bias=f.flag("attention_bias"))
