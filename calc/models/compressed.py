"""Families that attend to a choice of positions: DeepSeek V4's compressed latents, MiniMax M3's blocks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from calc.models.fields import MOST_POSITIONS, Fields, UnsupportedArchitecture, mapping, shown
from calc.models.layers import CompressedAttention, DenseMLP, IndexedAttention, LatentWindowAttention, Layer
from calc.models.parts import layer_count, read_attention, read_experts, read_window, route

# What a layer of DeepSeek V4 is called where a file states no ratio: the class knows these and no others.
_RATIOS = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
_INDEXED = 4  # the ratio whose layers have an indexer and overlap their runs


def deepseek_v4(f: Fields) -> tuple[Layer, ...]:
    """DeepSeek V4: latents in a window, beyond it one for every 4 positions, picked, or for every 128; experts."""
    _refuse_unlike(f, {"attention_bias": False, "mlp_bias": False, "num_key_value_heads": 1, "n_shared_experts": 1})
    heads, groups, latent = f.count("num_attention_heads"), f.count("o_groups"), f.count("head_dim")
    rope = f.count("qk_rope_head_dim", most=latent)
    if heads % groups:
        raise f.error(f"num_attention_heads is {heads} and o_groups is {groups}: heads must be a multiple of groups")
    window = read_window(f)
    if window is None:
        raise f.error("sliding_window is missing: it must be a whole number")
    f.count("hc_mult")
    near = LatentWindowAttention(
        query_heads=heads,
        query_rank=f.count("q_lora_rank"),
        latent_dim=latent,
        rope_dim=rope,
        output_heads=heads // groups,
        output_dim=groups * f.count("o_lora_rank"),
        window=window,
    )
    index = {
        "index_heads": f.count("index_n_heads"),
        "index_dim": f.count("index_head_dim"),
        "picked": f.count("index_topk", most=MOST_POSITIONS),
    }
    kinds: dict[int, LatentWindowAttention] = {0: near}
    for ratio in sorted(set(_RATIOS.values()) - {0}):
        indexed = ratio == _INDEXED
        kinds[ratio] = CompressedAttention(
            **asdict(near), ratio=ratio, overlap=1 + indexed, **(index if indexed else {})
        )
    f.words("mlp_layer_types", ("hash_moe", "moe"), layer_count(f))  # either way a router and all experts
    experts = read_experts(f, "moe_intermediate_size", shared=f.count("moe_intermediate_size"))
    return tuple(Layer(mixer=kinds[ratio], mlp=experts, norms=2) for ratio in _ratios(f))


def _refuse_unlike(f: Fields, only: dict[str, Any]) -> None:
    """Refuse a feature whose layers aren't known: each field has one value here, or is left out."""
    for name, known in only.items():
        value = f.value(name)
        if value is not None and (type(value) is not type(known) or value != known):
            raise UnsupportedArchitecture(
                f"{f.family} configuration: {name} is {shown(value)}: supported is {shown(known)}"
            )


def _ratios(f: Fields) -> list[int]:
    """Positions for each compressed latent, layer by layer; entries beyond the layers are for token prediction."""
    layers, rates = layer_count(f), f.value("compress_rates")
    for kind, rate in mapping({} if rates is None else rates, f"{f.family} configuration: compress_rates").items():
        if type(rate) is not int or rate != _RATIOS.get(kind):
            raise UnsupportedArchitecture(
                f"{f.family} configuration: compress_rates has {shown(rate)} for {shown(kind)}: supported are 4 for "
                "compressed_sparse_attention and 128 for heavily_compressed_attention"
            )
    types = f.words("layer_types", _RATIOS, layers)
    stated = f.value("compress_ratios")
    if stated is None:
        if types is None:
            raise f.error(f"compress_ratios is missing: it must be a list with 0, 4 or 128 for each of {layers} layers")
        return [_RATIOS[kind] for kind in types]
    if not isinstance(stated, list) or len(stated) < layers:
        given = f"a list of {len(stated)}" if isinstance(stated, list) else shown(stated)
        raise f.error(f"compress_ratios is {given}: it must be a list with an entry for each of the {layers} layers")
    for i, ratio in enumerate(stated):
        if type(ratio) is not int or ratio not in _RATIOS.values():
            raise UnsupportedArchitecture(
                f"{f.family} configuration: compress_ratios[{i}] is {shown(ratio)}: supported are "
                f"{', '.join(map(str, _RATIOS.values()))}"
            )
    if types is not None and [_RATIOS[kind] for kind in types] != stated[:layers]:
        raise f.error("layer_types and compress_ratios describe different layers: they must agree")
    return stated[:layers]


def minimax_m3(f: Fields) -> tuple[Layer, ...]:
    """MiniMax M3: ordinary attention, and later layers that pick blocks of it; dense layers, then experts."""
    _refuse_unlike(f, {"attention_output_gate": False, "use_qk_norm": True, "qk_norm_type": "per_head"})
    layers = layer_count(f)
    attention = read_attention(f, head_dim=f.count("head_dim"), qk_norm="head")
    width, shared = f.count("intermediate_size"), f.count("shared_intermediate_size")
    together = width * _or(f.optional_count("n_shared_experts", required=False), 1)
    if f.optional_count("moe_intermediate_size", required=False) not in (None, width) or shared != together:
        raise f.error(
            f"intermediate_size is {width}, shared_intermediate_size {shared} and moe_intermediate_size "
            f"{shown(f.value('moe_intermediate_size'))}: experts, and all shared ones together, must be as wide as "
            "intermediate_size says"
        )
    routed = _marked(f, f.value("moe_layer_freq"), "moe_layer_freq", "mlp_layer_types", ("dense", "sparse"), layers)
    dense = f.optional_count("first_k_dense_replace", least=0, required=False)
    if dense is not None and any(routed[:dense]):
        raise f.error(f"first_k_dense_replace is {dense}, but moe_layer_freq routes before that: they must agree")
    sparse = f.value("sparse_attention_config")
    sparse = {} if sparse is None else mapping(sparse, f"{f.family} configuration: sparse_attention_config")
    s = Fields(_flat(f, sparse), f"{f.family} configuration: sparse_attention_config", {})
    picks = _marked(
        f, s.value("sparse_attention_freq"), "sparse_attention_freq", "layer_types",
        ("full_attention", "minimax_m3_sparse"), layers,
    )  # fmt: skip
    mixers = [attention] * layers
    if any(picks):
        _refuse_values(s, picks)
        block, blocks = s.count("sparse_block_size"), s.count("sparse_topk_blocks")
        picking = IndexedAttention(
            **asdict(attention),
            index_heads=s.count("sparse_num_index_heads"),
            index_dim=s.count("sparse_index_dim"),
            index_block=block,
            picked=block * blocks,
        )
        mixers = [picking if pick else attention for pick in picks]
    experts = read_experts(f, "intermediate_size", shared=shared)
    return route(mixers, routed, experts, DenseMLP(intermediate=f.count("dense_intermediate_size")))


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _flat(f: Fields, sparse: dict[str, Any]) -> dict[str, Any]:
    """The indexer's fields under one set of names: transformers writes them beside the others, under its own."""
    names = {
        "index_n_heads": "sparse_num_index_heads",
        "index_head_dim": "sparse_index_dim",
        "index_block_size": "sparse_block_size",
        "index_topk_blocks": "sparse_topk_blocks",
    }
    beside = {nested: f.value(flat) for flat, nested in names.items() if f.value(flat) is not None}
    return beside | sparse


def _marked(f: Fields, marks: Any, name: str, words: str, kinds: tuple[str, str], layers: int) -> list[bool]:
    """For each layer whether it is of the second kind, from a list of 0 and 1 or from one of words."""
    types = f.words(words, kinds, layers)
    if marks is None:
        if types is None:
            raise f.error(f"{name} is missing: it must be a list of 0 or 1 for each of the {layers} layers")
        return [kind == kinds[1] for kind in types]
    if (
        not isinstance(marks, list)
        or len(marks) != layers
        or any(type(mark) is not int or mark not in (0, 1) for mark in marks)
    ):
        raise f.error(f"{name} is {shown(marks)}: it must be a list of 0 or 1 for each of the {layers} layers")
    found = [mark == 1 for mark in marks]
    if types is not None and found != [kind == kinds[1] for kind in types]:
        raise f.error(f"{name} and {words} describe different layers: they must agree")
    return found


def _refuse_values(s: Fields, picks: list[bool]) -> None:
    """Refuse an indexer that has values too, or one that is switched off where layers want it."""
    if s.value("use_sparse_attention") not in (None, True):
        raise s.error(f"use_sparse_attention is {shown(s.value('use_sparse_attention'))}, but layers pick blocks")
    without = s.value("sparse_disable_index_value")
    if without is None:
        return
    if (
        not isinstance(without, list)
        or len(without) != len(picks)
        or any(type(mark) is not int or mark < pick for mark, pick in zip(without, picks, strict=True))
    ):
        raise UnsupportedArchitecture(
            f"{s.family}: sparse_disable_index_value is {shown(without)}: supported is 1 in every layer that picks"
        )
