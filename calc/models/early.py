"""Families from before Llama: norms and projections with biases, plain networks, learned positions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from calc.models.fields import Fields, UnsupportedArchitecture, shown
from calc.models.layers import DenseMLP, FullAttention, Layer
from calc.models.parts import head_dim_of, layer_count, read_attention, read_window, stack, with_windows

_SCALE_AND_SHIFT = 2  # weights as wide as the hidden state in one of these norms
_OPT_OFFSET = 2  # rows before the first position


def gpt2(f: Fields) -> tuple[Layer, ...]:
    """GPT-2: biases everywhere; a network four times as wide unless the file says how wide."""
    return stack([_every_head(f, True)] * layer_count(f), _plain(f, True), norms=2 * _SCALE_AND_SHIFT)


def gpt_bigcode(f: Fields) -> tuple[Layer, ...]:
    """StarCoder: GPT-2's layers, with one KV head where the file doesn't switch that off."""
    attention = _every_head(f, True)
    if f.flag("multi_query"):
        attention = replace(attention, kv_heads=1)
    return stack([attention] * layer_count(f), _plain(f, True), norms=2 * _SCALE_AND_SHIFT)


def opt(f: Fields) -> tuple[Layer, ...]:
    """OPT: biases and norm weights by a switch each, on in all published files."""
    _only(f, "word_embed_proj_dim", f.count("hidden_size"), "an embedding as wide as the hidden state")
    bias = f.flag("enable_bias")
    norms = 2 * _SCALE_AND_SHIFT * f.flag("layer_norm_elementwise_affine")
    mlp = DenseMLP(intermediate=f.count("intermediate_size"), gated=False, bias=bias)
    return stack([_every_head(f, bias)] * layer_count(f), mlp, norms=norms)


def gpt_neox(f: Fields) -> tuple[Layer, ...]:
    """GPT-NeoX and Pythia: GPT-2's layers with rotary positions."""
    mlp = DenseMLP(intermediate=f.count("intermediate_size"), gated=False, bias=True)
    return stack([_every_head(f, f.flag("attention_bias"))] * layer_count(f), mlp, norms=2 * _SCALE_AND_SHIFT)


def phi(f: Fields) -> tuple[Layer, ...]:
    """Phi-1, 1.5 and 2: attention and network side by side behind one norm; a bias on the output layer too."""
    attention = read_attention(f, head_dim=head_dim_of(f), qkv_bias=True, output_bias=True)
    if f.flag("qk_layernorm"):
        raise UnsupportedArchitecture("phi configuration: qk_layernorm is True: supported is false")
    mlp = DenseMLP(intermediate=f.count("intermediate_size"), gated=False, bias=True)
    return stack([attention] * layer_count(f), mlp, norms=_SCALE_AND_SHIFT)


def starcoder2(f: Fields) -> tuple[Layer, ...]:
    """StarCoder2: grouped heads, one switch for all biases, a window in all layers where the file has one."""
    bias = f.flag("use_bias")
    _only(f, "norm_type", "layer_norm", "a layer norm")
    _only(f, "mlp_type", "default", "a network without a gate")
    attention = read_attention(f, head_dim=head_dim_of(f), qkv_bias=bias, output_bias=bias)
    mlp = DenseMLP(intermediate=f.count("intermediate_size"), gated=False, bias=bias)
    return stack(with_windows(f, attention, read_window(f)), mlp, norms=2 * _SCALE_AND_SHIFT)


def falcon(f: Fields) -> tuple[Layer, ...]:
    """Falcon 7B, 40B, 180B and RW: one KV head, groups of them, or one for each query head."""
    heads, head_dim, bias = f.count("num_attention_heads"), head_dim_of(f), f.flag("bias")
    grouped, parallel = f.flag("new_decoder_architecture"), f.flag("parallel_attn")
    stated = f.optional_count("num_kv_heads", "n_head_kv", required=False)
    kv_heads = stated or heads if grouped else 1 if f.flag("multi_query") else heads
    if heads % kv_heads:
        raise f.error(
            f"{f.called('num_attention_heads')} is {heads} and {f.called('num_kv_heads', 'n_head_kv')} is {kv_heads}: "
            "query heads must be a multiple of KV heads"
        )
    if grouped and not parallel:
        raise f.error("new_decoder_architecture is true, but parallel_attn is false: both halves must be side by side")
    attention = FullAttention(
        query_heads=heads, kv_heads=kv_heads, key_dim=head_dim, value_dim=head_dim, qkv_bias=bias, output_bias=bias
    )
    norms = 1 if parallel and not grouped else 2
    return stack([attention] * layer_count(f), _plain(f, bias), norms=norms * _SCALE_AND_SHIFT)


def frame(f: Fields) -> dict[str, Any]:
    """What one of these models has around its layers: positions, the last norm, a bias on the output layer."""
    found: dict[str, Any] = {"final_norms": _SCALE_AND_SHIFT}
    if f.family in ("gpt2", "gpt_bigcode"):
        found["positions"] = f.count("max_position_embeddings")
    elif f.family == "opt":
        found["positions"] = f.count("max_position_embeddings") + _OPT_OFFSET
        last = f.flag("do_layer_norm_before") and not f.flag("_remove_final_layer_norm")
        found["final_norms"] *= last and f.flag("layer_norm_elementwise_affine")
    elif f.family == "phi":
        if f.flag("tie_word_embeddings"):
            raise UnsupportedArchitecture("phi configuration: tie_word_embeddings is True: supported is false")
        found["head_bias"] = True
    return found


def _every_head(f: Fields, bias: bool) -> FullAttention:
    """Attention with as many KV heads as query heads."""
    heads, head_dim = f.count("num_attention_heads"), head_dim_of(f)
    return FullAttention(
        query_heads=heads, kv_heads=heads, key_dim=head_dim, value_dim=head_dim, qkv_bias=bias, output_bias=bias
    )


def _plain(f: Fields, bias: bool) -> DenseMLP:
    """Two projections, four times as wide as the hidden state where the file doesn't say."""
    width = f.optional_count("intermediate_size", required=False) or 4 * f.count("hidden_size")
    return DenseMLP(intermediate=width, gated=False, bias=bias)


def _only(f: Fields, name: str, known: Any, what: str) -> None:
    value = f.value(name)
    if value is not None and (type(value) is not type(known) or value != known):
        raise UnsupportedArchitecture(
            f"{f.family} configuration: {name} is {shown(value)}: supported is {shown(known)}, {what}"
        )
