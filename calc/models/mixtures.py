"""Families with latent attention, sparse indexers, chunks, or layers of unequal heads."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from calc.models.fields import MOST_POSITIONS, Fields, UnsupportedArchitecture, shown
from calc.models.layers import (
    ChunkAttention,
    DenseMLP,
    IndexedLatentAttention,
    LatentAttention,
    Layer,
    WindowAttention,
)
from calc.models.parts import (
    gemma_attention,
    head_dim_of,
    layer_count,
    read_attention,
    read_experts,
    read_mlp,
    read_window,
    route,
)


def deepseek(f: Fields) -> tuple[Layer, ...]:
    """DeepSeek V2, V3, R1 and Kimi K2: latent attention; the first layers dense, then shared and routed experts."""
    attention = LatentAttention(**_latent(f))
    return _deepseek_layers(f, [attention] * layer_count(f))


def deepseek_indexed(f: Fields) -> tuple[Layer, ...]:
    """DeepSeek V3.2 and GLM-5: latent attention over the positions that an indexer picks.

    Later GLM files let a layer reuse the choice of the layer before: it then has no indexer.
    """
    attention = IndexedLatentAttention(
        **_latent(f),
        index_heads=f.count("index_n_heads"),
        index_dim=f.count("index_head_dim"),
        picked=f.count("index_topk", most=MOST_POSITIONS),
    )
    if attention.query_rank is None:
        raise f.error("q_lora_rank is null, but the indexer reads the compressed query: it must be a whole number")
    follower = replace(attention, own_index=False)
    return _deepseek_layers(f, [attention if own else follower for own in _own_index(f)])


def _latent(f: Fields) -> dict[str, Any]:
    heads = f.count("num_attention_heads")
    if f.optional_count("num_key_value_heads", required=False) not in (None, heads):
        raise f.error(
            f"num_key_value_heads is {f.value('num_key_value_heads')}, but latent attention expands all {heads} heads "
            "from one latent: it must equal num_attention_heads"
        )
    f.value("head_dim")  # newer files repeat the rotary size here
    return {
        "query_heads": heads,
        "query_rank": f.optional_count("q_lora_rank"),
        "latent_dim": f.count("kv_lora_rank"),
        "rope_dim": f.count("qk_rope_head_dim"),
        "nope_dim": f.count("qk_nope_head_dim"),
        "value_dim": f.count("v_head_dim"),
        "bias": f.flag("attention_bias"),
    }


def _own_index(f: Fields) -> list[bool]:
    """For each layer, whether it has an indexer, in any of the three ways that files say so."""
    layers = layer_count(f)
    if (types := f.words("indexer_types", ("full", "shared"), layers)) is not None:
        return [kind == "full" for kind in types]
    pattern = f.value("index_topk_pattern")
    if pattern is None:
        every, offset = f.count("index_topk_freq"), f.count("index_skip_topk_offset", least=0)
        return [max(i - offset + 1, 0) % every == 0 for i in range(layers)]
    if (
        not isinstance(pattern, (str, list))
        or len(pattern) != layers
        or any(mark not in ("F", "S") for mark in pattern)
    ):
        raise f.error(f"index_topk_pattern is {shown(pattern)}: it must be one F or S for each of the {layers} layers")
    return [mark == "F" for mark in pattern]


def _deepseek_layers(f: Fields, mixers: list[LatentAttention]) -> tuple[Layer, ...]:
    """Put experts into the layers that have them.

    ``moe_layer_freq`` is read as the checkpoints' own code reads it: transformers ignores it, and all
    published files say 1.
    """
    layers = len(mixers)
    shared = (f.optional_count("n_shared_experts", least=0) or 0) * f.count("moe_intermediate_size")
    experts, dense = read_experts(f, "moe_intermediate_size", shared=shared), read_mlp(f)
    first, step = f.count("first_k_dense_replace", least=0, most=layers), f.count("moe_layer_freq")
    types = f.words("mlp_layer_types", ("dense", "sparse"), layers)
    mixed = [i >= first and i % step == 0 for i in range(layers)] if types is None else [t == "sparse" for t in types]
    return route(mixers, mixed, experts, dense)


def llama4(f: Fields) -> tuple[Layer, ...]:
    """Llama 4: attention within chunks, every fourth layer full; a shared expert beside the routed ones."""
    layers, bias = layer_count(f), f.flag("attention_bias")
    f.flag("use_qk_norm")  # its norm has no weights
    full = read_attention(f, head_dim=head_dim_of(f), qkv_bias=bias, output_bias=bias)
    chunk = f.optional_count("attention_chunk_size", most=MOST_POSITIONS)
    types = f.words("layer_types", ("full_attention", "chunked_attention"), layers)
    chunked = _rotary(f, layers) if types is None else [kind == "chunked_attention" for kind in types]
    cut = full if chunk is None else ChunkAttention(**asdict(full), window=chunk)
    width = f.count("intermediate_size")
    experts, dense = read_experts(f, "intermediate_size", shared=width), _wide(f)
    listed, step = f.value("moe_layers"), f.count("interleave_moe_layer_step")
    routed = range(step - 1, layers, step) if listed is None else f.indices("moe_layers", layers)
    return route([cut if c else full for c in chunked], [i in routed for i in range(layers)], experts, dense)


def _wide(f: Fields) -> DenseMLP:
    return DenseMLP(intermediate=f.count("intermediate_size_mlp"))


def _rotary(f: Fields, layers: int) -> list[bool]:
    """For each layer, whether it has rotary positions, and so attends within chunks; the name says the opposite."""
    stated, every = f.value("no_rope_layers"), f.count("no_rope_layer_interval")
    if not stated:
        return [(i + 1) % every != 0 for i in range(layers)]
    if not isinstance(stated, list) or len(stated) != layers or any(flag not in (0, 1) for flag in stated):
        raise f.error(f"no_rope_layers is {shown(stated)}: it must be a list of 0 or 1 for each of the {layers} layers")
    return [flag == 1 for flag in stated]


def minimax_m2(f: Fields) -> tuple[Layer, ...]:
    """MiniMax M2: norms over all heads' queries and keys together; experts in every layer."""
    if f.value("use_qk_norm") not in (None, True) or f.value("qk_norm_type") not in (None, "per_layer"):
        raise UnsupportedArchitecture(
            f"minimax_m2 configuration: use_qk_norm is {shown(f.value('use_qk_norm'))} and qk_norm_type "
            f"{shown(f.value('qk_norm_type'))}: supported is one norm per layer"
        )
    attention = read_attention(f, head_dim=f.count("head_dim"), qk_norm="full")
    layers = layer_count(f)
    return route([attention] * layers, [True] * layers, read_experts(f, "intermediate_size"), None)


def mimo_v2_flash(f: Fields) -> tuple[Layer, ...]:
    """MiMo-V2-Flash: window layers with more KV heads and sinks; values narrower than keys; the first layer dense."""
    layers, bias = layer_count(f), f.flag("attention_bias")
    full = read_attention(f, head_dim=f.count("head_dim"), qkv_bias=bias, sinks=f.flag("add_full_attention_sink_bias"))
    full = replace(full, value_dim=f.count("v_head_dim"))
    window = read_window(f)
    if window is None:
        raise f.error("sliding_window is missing: it must be a whole number")
    local = WindowAttention(
        query_heads=f.optional_count("swa_num_attention_heads", required=False) or full.query_heads,
        kv_heads=f.optional_count("swa_num_key_value_heads", required=False) or 2 * full.kv_heads,
        key_dim=f.optional_count("swa_head_dim", required=False) or full.key_dim,
        value_dim=f.optional_count("swa_v_head_dim", required=False) or full.value_dim,
        qkv_bias=bias,
        sinks=f.flag("add_swa_attention_sink_bias"),
        window=window,
    )
    if local.query_heads % local.kv_heads:
        raise f.error(
            f"window layers have {local.query_heads} query heads and {local.kv_heads} KV heads: query heads must be a "
            "multiple of KV heads"
        )
    types = f.words("layer_types", ("full_attention", "sliding_attention"), layers)
    if types is not None:
        near = [kind == "sliding_attention" for kind in types]
    elif (near := _marks(f, "hybrid_layer_pattern", layers)) is None:
        near = [i > 0 and (i + 1) % 6 != 0 for i in range(layers)]
    kinds = f.words("mlp_layer_types", ("dense", "sparse"), layers)
    if kinds is not None:
        mixed = [kind == "sparse" for kind in kinds]
    elif (mixed := _marks(f, "moe_layer_freq", layers)) is None:
        mixed = [i > 0 for i in range(layers)]
    if f.optional_count("n_shared_experts", least=0, required=False):
        raise UnsupportedArchitecture("mimo_v2_flash configuration: shared experts are not known in this family")
    experts = read_experts(f, "moe_intermediate_size")
    return route([local if n else full for n in near], mixed, experts, read_mlp(f))


def _marks(f: Fields, name: str, length: int) -> list[bool] | None:
    """A list with 0 or 1 for each layer, or None where the file has none."""
    value = f.value(name)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != length or any(type(v) is not int or v not in (0, 1) for v in value):
        raise f.error(f"{name} is {shown(value)}: it must be a list of 0 or 1 for each of the {length} layers")
    return [mark == 1 for mark in value]


def gemma4(f: Fields) -> tuple[Layer, ...]:
    """Gemma 4: full layers have their own head size and KV heads, and may take values from the keys' projection.

    Mixtures have a dense network beside the experts. Files with embeddings for each layer, or with layers
    that read another layer's cache (the E models), are refused.
    """
    for name in ("hidden_size_per_layer_input", "num_kv_shared_layers"):
        if f.count(name, least=0):
            raise UnsupportedArchitecture(
                f"gemma4_text configuration: {name} is {f.value(name)}: only models without per-layer embeddings and "
                "without shared caches are supported"
            )
    if f.value("use_bidirectional_attention") not in (None, "vision"):
        raise UnsupportedArchitecture("gemma4_text configuration: use_bidirectional_attention must be null or vision")
    layers = layer_count(f)
    types = f.words("layer_types", ("full_attention", "sliding_attention"), layers)
    near = [(i + 1) % 6 != 0 for i in range(layers)] if types is None else [t == "sliding_attention" for t in types]
    near[-1] = False  # as the class does, with a warning
    base = gemma_attention(f, qk_norm="head")
    window = read_window(f)
    if window is None:
        raise f.error("sliding_window is missing: it must be a whole number")
    local = WindowAttention(**asdict(base), window=window)
    width, same = f.count("global_head_dim"), f.flag("attention_k_eq_v")
    heads = f.optional_count("num_global_key_value_heads", required=False) if same else None
    far = replace(base, key_dim=width, value_dim=width, kv_heads=heads or base.kv_heads, values_are_keys=same)
    if far.query_heads % far.kv_heads:
        raise f.error(
            f"num_attention_heads is {far.query_heads} and num_global_key_value_heads is {far.kv_heads}: query heads "
            "must be a multiple of KV heads"
        )
    if f.flag("enable_moe_block"):
        experts = read_experts(f, "moe_intermediate_size", dense_intermediate=f.count("intermediate_size"))
        return route(
            [local if n else far for n in near], [True] * layers, replace(experts, scaled_router=True), None, 7
        )
    return tuple(Layer(mixer=local if n else far, mlp=read_mlp(f), norms=4) for n in near)
