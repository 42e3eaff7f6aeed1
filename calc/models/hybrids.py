"""Families whose layers differ in kind: recurrent layers among attention, or blocks that a search left out."""

from __future__ import annotations

from typing import Any

from calc.models.fields import Fields, UnsupportedArchitecture, mapping, shown
from calc.models.layers import DenseMLP, FullAttention, GatedDeltaNet, Layer, Mamba2, Mixer, MixtureOfExperts
from calc.models.parts import head_dim_of, layer_count, qwen_mixture, read_attention, read_experts, read_mlp

PATTERN = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
BLOCKS = PATTERN | {"linear_attention": "mamba", "full_attention": "attention"} | {v: v for v in PATTERN.values()}

# fields that files state for kinds of block they don't have
ELSEWHERE = (
    *("num_attention_heads", "num_key_value_heads", "head_dim", "attention_bias", "mamba_num_heads", "ssm_state_size"),
    *("n_routed_experts", "num_experts_per_tok", "n_shared_experts", "moe_intermediate_size", "mlp_bias"),
    *("moe_latent_size", "moe_shared_expert_intermediate_size"),
)


def qwen3_next(f: Fields) -> tuple[Layer, ...]:
    """Qwen3-Next: gated delta nets, every fourth layer gated attention, and experts with a gated shared one."""
    shared = f.count("shared_expert_intermediate_size", least=0)
    experts = read_experts(f, "moe_intermediate_size", shared=shared, shared_gate=True)
    return qwen_mixture(f, _delta_and_attention(f), experts)


def qwen3_5(f: Fields) -> tuple[Layer, ...]:
    """Qwen 3.5, dense: Qwen3-Next's layers with one network for all tokens."""
    if f.value("mlp_only_layers"):
        raise f.error("mlp_only_layers lists layers, but this family has no experts: leave it out")
    return tuple(Layer(mixer=mixer, mlp=read_mlp(f), norms=2) for mixer in _delta_and_attention(f))


def qwen3_5_moe(f: Fields) -> tuple[Layer, ...]:
    """Qwen 3.5 mixtures: experts in every layer."""
    return qwen3_next(f)


def _delta_and_attention(f: Fields) -> list[Mixer]:
    if f.value("attn_output_gate") not in (None, True):
        raise f.error(f"attn_output_gate is {shown(f.value('attn_output_gate'))}: this family always has the gate")
    layers, bias, every = layer_count(f), f.flag("attention_bias"), f.count("full_attention_interval")
    head_dim = f.count("head_dim")
    attention = read_attention(f, head_dim=head_dim, qkv_bias=bias, output_bias=bias, qk_norm="head", output_gate=True)
    delta = GatedDeltaNet(
        key_heads=f.count("linear_num_key_heads"),
        value_heads=f.count("linear_num_value_heads"),
        key_dim=f.count("linear_key_head_dim"),
        value_dim=f.count("linear_value_head_dim"),
        conv_kernel=f.count("linear_conv_kernel_dim", most=1024),
    )
    if delta.value_heads % delta.key_heads:
        raise f.error(
            f"linear_num_value_heads is {delta.value_heads} and linear_num_key_heads is {delta.key_heads}: value heads "
            "must be a multiple of key heads"
        )
    types = f.words("layer_types", ("full_attention", "linear_attention"), layers)
    recurrent = [(i + 1) % every != 0 for i in range(layers)] if types is None else [t[0] == "l" for t in types]
    return [delta if r else attention for r in recurrent]


def nemotron_h(f: Fields) -> tuple[Layer, ...]:
    """Nemotron-H and Nemotron 3: each layer is one block of Mamba 2, attention, a network or experts."""
    blocks = _blocks(f)
    stated = f.optional_count("num_hidden_layers", required=False)
    if stated not in (None, len(blocks)):
        raise f.error(f"num_hidden_layers is {stated}, but the pattern has {len(blocks)} layers: they must agree")
    if f.value("sliding_window") is not None:
        raise UnsupportedArchitecture("nemotron_h configuration: sliding_window is set: supported are full layers")
    readers = {"mamba": _mamba, "attention": _nemotron_attention, "mlp": _nemotron_mlp, "moe": _nemotron_experts}
    known = {name: readers[name](f) for name in dict.fromkeys(blocks)}
    for name in ELSEWHERE:
        f.value(name)
    return tuple(
        Layer(mixer=known[name], mlp=None, norms=1)
        if name in ("mamba", "attention")
        else Layer(mixer=None, mlp=known[name], norms=1)
        for name in blocks
    )


def _blocks(f: Fields) -> list[str]:
    value, pattern = f.value("layers_block_type", "layer_types"), f.value("hybrid_override_pattern")
    if value is None:
        value = list(pattern) if isinstance(pattern, str) else pattern
    if not isinstance(value, list) or not 1 <= len(value) <= 4096:
        raise f.error(
            f"hybrid_override_pattern is {shown(pattern)}: it must have one of {' '.join(PATTERN)} for each layer"
        )
    for i, word in enumerate(value):
        if not isinstance(word, str) or word not in BLOCKS:
            raise UnsupportedArchitecture(
                f"nemotron_h configuration: layer {i} is {shown(word)}: supported are {', '.join(PATTERN)}"
            )
    return [BLOCKS[word] for word in value]


def _mamba(f: Fields) -> Mamba2:
    mamba = Mamba2(
        heads=f.count("mamba_num_heads"),
        head_dim=f.count("mamba_head_dim"),
        groups=f.count("n_groups"),
        state_dim=f.count("ssm_state_size"),
        conv_kernel=f.count("conv_kernel", most=1024),
        conv_bias=f.flag("use_conv_bias"),
        bias=f.flag("use_bias"),
    )
    if mamba.heads % mamba.groups:
        raise f.error(
            f"mamba_num_heads is {mamba.heads} and n_groups is {mamba.groups}: heads must be a multiple of groups"
        )
    return mamba


def _nemotron_attention(f: Fields) -> FullAttention:
    if f.flag("attention_bias"):
        raise UnsupportedArchitecture("nemotron_h configuration: attention_bias is true: its class has no such bias")
    return read_attention(f, head_dim=f.count("head_dim", "attention_head_dim"))


def _nemotron_mlp(f: Fields) -> DenseMLP:
    return DenseMLP(intermediate=f.count("intermediate_size"), gated=False, bias=f.flag("mlp_bias"))


def _nemotron_experts(f: Fields) -> MixtureOfExperts:
    if f.flag("mlp_bias"):
        raise UnsupportedArchitecture("nemotron_h configuration: mlp_bias is true: experts with a bias are not known")
    shared = f.count("moe_shared_expert_intermediate_size", least=0)
    if f.count("n_shared_experts", least=0) != 1:
        raise UnsupportedArchitecture(
            f"nemotron_h configuration: n_shared_experts is {f.value('n_shared_experts')}: supported is 1"
        )
    latent = f.optional_count("moe_latent_size", required=False) or 0
    return read_experts(f, "moe_intermediate_size", shared=shared, gated=False, latent_dim=latent)


def nemotron_nas(f: Fields) -> tuple[Layer, ...]:
    """Llama-Nemotron: Llama's layers after a search, each with its own width, some without attention or network."""
    blocks, layers = f.value("block_configs"), layer_count(f)
    if not isinstance(blocks, list) or len(blocks) != layers:
        raise f.error(f"block_configs is {shown(blocks)}: it must be a list with one entry for each of {layers} layers")
    hidden, bias = f.count("hidden_size"), f.flag("attention_bias")
    shape = {"head_dim": head_dim_of(f), "qkv_bias": bias, "output_bias": bias}
    f.value("num_key_value_heads"), f.value("intermediate_size")  # null: each block has its own
    return tuple(_searched(f, i, block, hidden, shape) for i, block in enumerate(blocks))


def _searched(f: Fields, i: int, block: Any, hidden: int, shape: dict[str, Any]) -> Layer:
    where = f"block_configs[{i}]"
    block = mapping(block, where)
    parts = {name: mapping(block.get(name), f"{where}.{name}") for name in ("attention", "ffn")}
    for name, part in parts.items():
        for feature in ("replace_with_linear", "sparsify", "window_length", "num_sink_tokens", "mamba", "moe"):
            if part.get(feature):
                raise UnsupportedArchitecture(
                    f"nemotron-nas configuration: {where}.{name} has {feature}: not supported"
                )
        if part.get("no_op") not in (None, False, True):
            raise f.error(f"{where}.{name}.no_op is {shown(part['no_op'])}: it must be true or false")
    attention, ffn = parts["attention"], parts["ffn"]
    mixer = None if attention.get("no_op") else _searched_attention(f, where, attention, shape)
    mlp = (
        None
        if ffn.get("no_op")
        else DenseMLP(intermediate=_searched_width(f, where, ffn, hidden), bias=f.flag("mlp_bias"))
    )
    return Layer(mixer=mixer, mlp=mlp, norms=(mixer is not None) + (mlp is not None))


def _searched_attention(f: Fields, where: str, attention: dict[str, Any], shape: dict[str, Any]) -> FullAttention:
    heads, group = f.count("num_attention_heads"), attention.get("n_heads_in_group")
    if type(group) is not int or group < 1 or heads % group:
        raise f.error(f"{where}.attention.n_heads_in_group is {shown(group)}: it must divide the {heads} heads")
    size, qkv, out = shape["head_dim"], shape["qkv_bias"], shape["output_bias"]
    sizes = {"query_heads": heads, "kv_heads": heads // group, "key_dim": size, "value_dim": size}
    return FullAttention(**sizes, qkv_bias=qkv, output_bias=out)


def _searched_width(f: Fields, where: str, ffn: dict[str, Any], hidden: int) -> int:
    """Width of a network: stated, or as the checkpoint's code derives it from a multiple of the hidden size."""
    stated, multiple = ffn.get("intermediate_size"), ffn.get("ffn_mult")
    if type(stated) is int and 1 <= stated <= 2**24:
        return stated
    if type(multiple) not in (int, float) or not 0 < multiple <= 1024:
        raise f.error(f"{where}.ffn.ffn_mult is {shown(multiple)}: it must be a number above 0")
    return -(-int(2 * multiple * hidden / 3) // 256) * 256
