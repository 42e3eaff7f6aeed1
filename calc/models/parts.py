"""What families share: the pieces of a layer, read from checked fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from calc.models.fields import MOST_LAYERS, MOST_POSITIONS, Fields, shown
from calc.models.layers import DenseMLP, FullAttention, Layer, Mixer, MixtureOfExperts, WindowAttention


def layer_count(f: Fields) -> int:
    return f.count("num_hidden_layers", most=MOST_LAYERS)


def stack(mixers: Iterable[Mixer], mlp: DenseMLP | MixtureOfExperts, norms: int = 2) -> tuple[Layer, ...]:
    return tuple(Layer(mixer=mixer, mlp=mlp, norms=norms) for mixer in mixers)


def route(
    mixers: Iterable[Mixer], mixed: Iterable[bool], experts: MixtureOfExperts, dense: DenseMLP | None, norms: int = 2
) -> tuple[Layer, ...]:
    return tuple(
        Layer(mixer=mixer, mlp=experts if routes else dense, norms=norms)
        for mixer, routes in zip(mixers, mixed, strict=True)
    )


def read_mlp(f: Fields, bias: bool = False) -> DenseMLP:
    return DenseMLP(intermediate=f.count("intermediate_size"), bias=bias)


def read_attention(f: Fields, *, head_dim: int, **features: Any) -> FullAttention:
    """Attention with grouped heads; no number of KV heads (null) means one for every query head."""
    heads = f.count("num_attention_heads")
    kv_heads = f.optional_count("num_key_value_heads") or heads
    if heads % kv_heads:
        raise f.error(
            f"num_attention_heads is {heads} and num_key_value_heads is {kv_heads}: query heads must be a multiple "
            "of KV heads"
        )
    return FullAttention(query_heads=heads, kv_heads=kv_heads, key_dim=head_dim, value_dim=head_dim, **features)


def head_dim_of(f: Fields) -> int:
    """The head size, or the hidden size shared among the heads where the family's class says so."""
    head_dim, hidden, heads = f.optional_count("head_dim"), f.count("hidden_size"), f.count("num_attention_heads")
    if head_dim is None and hidden % heads:
        raise f.error(
            f"hidden_size is {hidden} and num_attention_heads is {heads}: without head_dim, the hidden size must be a "
            "multiple of the heads"
        )
    return head_dim or hidden // heads


def qwen3_attention(f: Fields) -> FullAttention:
    if f.value("use_qk_norm") not in (None, True):  # some files state what holds anyway
        raise f.error(f"use_qk_norm is {shown(f.value('use_qk_norm'))}: a Qwen3 model always has these norms")
    bias = f.flag("attention_bias")
    return read_attention(f, head_dim=f.count("head_dim"), qkv_bias=bias, output_bias=bias, qk_norm="head")


def gemma_attention(f: Fields, **features: Any) -> FullAttention:
    f.count("num_key_value_heads")  # Gemma's classes give null no meaning
    bias = f.flag("attention_bias")
    return read_attention(f, head_dim=f.count("head_dim"), qkv_bias=bias, output_bias=bias, **features)


def read_window(f: Fields) -> int | None:
    return f.optional_count("sliding_window", "sliding_window_size", most=MOST_POSITIONS)


def with_windows(
    f: Fields, attention: FullAttention, window: int | None, has_window: Callable[[int], bool] = lambda i: True
) -> list[FullAttention]:
    """One mixer per layer: `layer_types` decides, or the family's own pattern where the file has none."""
    layers = layer_count(f)
    types = f.words("layer_types", ("full_attention", "sliding_attention"), layers)
    if types is None:
        local = [window is not None and has_window(i) for i in range(layers)]
    else:
        local = [kind == "sliding_attention" for kind in types]
    if not any(local):
        return [attention] * layers
    if window is None:
        raise f.error("layer_types has sliding_attention layers, but no window is in force: state sliding_window too")
    windowed = WindowAttention(**asdict(attention), window=window)
    return [windowed if w else attention for w in local]


def qwen_window(f: Fields) -> int | None:
    """Qwen's files carry a window that `use_sliding_window` switches off."""
    if f.flag("use_sliding_window"):
        return f.count("sliding_window", most=MOST_POSITIONS)
    f.value("sliding_window")
    return None


def with_qwen_windows(f: Fields, attention: FullAttention) -> list[FullAttention]:
    """Dense Qwen: with windows on, the layers from `max_window_layers` upward have them."""
    window = qwen_window(f)
    start = f.count("max_window_layers", least=0) if window else 0
    return with_windows(f, attention, window, lambda i: i >= start)


def qwen_mixture(f: Fields, mixers: list[FullAttention], experts: MixtureOfExperts) -> tuple[Layer, ...]:
    """Every `decoder_sparse_step`-th layer routes, unless it's listed as dense."""
    step, listed = f.count("decoder_sparse_step"), f.indices("mlp_only_layers", len(mixers))
    routed = [i not in listed and (i + 1) % step == 0 for i in range(len(mixers))]
    dense = None if all(routed) else read_mlp(f)
    return tuple(Layer(mixer=m, mlp=experts if r else dense, norms=2) for m, r in zip(mixers, routed, strict=True))


def read_experts(f: Fields, width: str, *, shared: int = 0, **features: Any) -> MixtureOfExperts:
    experts = f.count("num_experts", "num_local_experts", "n_routed_experts")
    chosen = f.count("num_experts_per_tok", "experts_per_token", "top_k_experts")
    if chosen > experts:
        raise f.error(f"num_experts_per_tok is {chosen}, but there are {experts} experts: it must be at most {experts}")
    return MixtureOfExperts(
        experts=experts,
        experts_per_token=chosen,
        expert_intermediate=f.count(width),
        shared_intermediate=shared,
        **features,
    )
