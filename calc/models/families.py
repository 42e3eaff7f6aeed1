"""What each family's configuration means: one function per family, from checked fields to layers.

The reference is transformers 5.24.0, whose model classes hold the parameters and whose configuration
classes supply what a file leaves out. Fields that change nothing in a layer's geometry (rotary
frequencies, soft caps, scaling of the router) aren't read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from calc.models.fields import (
    MOST_LAYERS,
    MOST_POSITIONS,
    ConfigError,
    Fields,
    UnsupportedArchitecture,
    agree,
    mapping,
    shown,
)
from calc.models.layers import DenseMLP, FullAttention, LatentAttention, Layer, Mixer, MixtureOfExperts, WindowAttention
from calc.sources import load_json

# Multimodal configurations whose language part is a family below. The vision part is not modeled.
WRAPPERS = {"gemma3": "gemma3_text"}


def llama(f: Fields) -> tuple[Layer, ...]:
    """Llama 1, 2, 3: full attention; one switch for the four attention biases, one for the MLP's."""
    bias = f.flag("attention_bias")
    attention = _attention(f, head_dim=_stated_or_shared(f), qkv_bias=bias, output_bias=bias)
    return _stack(_windowed(f, attention, None), _mlp(f, bias=f.flag("mlp_bias")))


def mistral(f: Fields) -> tuple[Layer, ...]:
    """Mistral, and Phi-3 with its fused projections: a window in the file is active in all layers."""
    attention = _attention(f, head_dim=_stated_or_shared(f))
    return _stack(_windowed(f, attention, _window(f)), _mlp(f))


def mixtral(f: Fields) -> tuple[Layer, ...]:
    """Mixtral: Mistral's attention, and routed experts in every layer."""
    attention = _attention(f, head_dim=_stated_or_shared(f))
    return _stack(_windowed(f, attention, _window(f)), _experts(f, "intermediate_size"))


def qwen2(f: Fields) -> tuple[Layer, ...]:
    """Qwen 1.5, 2, 2.5: biases on queries, keys and values, which no field announces; windows usually off."""
    attention = _attention(f, head_dim=_stated_or_shared(f), qkv_bias=True)
    return _stack(_qwen_windowed(f, attention), _mlp(f))


def qwen3(f: Fields) -> tuple[Layer, ...]:
    """Qwen3: a norm for each head's query and key, and a head size of its own."""
    return _stack(_qwen_windowed(f, _qwen3_attention(f)), _mlp(f))


def qwen2_moe(f: Fields) -> tuple[Layer, ...]:
    """Qwen 1.5 and 2 mixtures: a gated shared expert. With windows on, even layers below the limit have them."""
    attention = _attention(f, head_dim=_stated_or_shared(f), qkv_bias=f.flag("qkv_bias"))
    shared = f.count("shared_expert_intermediate_size", least=0)
    window = _qwen_window(f)
    end = f.count("max_window_layers", least=0) if window else 0
    mixers = _windowed(f, attention, window, lambda i: i % 2 == 0 and i < end)
    return _qwen_mixture(f, mixers, _experts(f, "moe_intermediate_size", shared=shared, shared_gate=True))


def qwen3_moe(f: Fields) -> tuple[Layer, ...]:
    """Qwen3 mixtures: Qwen3's attention and no shared expert. With windows on, all layers have them."""
    mixers = _windowed(f, _qwen3_attention(f), _qwen_window(f))
    return _qwen_mixture(f, mixers, _experts(f, "moe_intermediate_size"))


def gemma(f: Fields) -> tuple[Layer, ...]:
    """Gemma 1: full attention with a head size of its own."""
    return _stack(_windowed(f, _gemma_attention(f), None), _mlp(f))


def gemma2(f: Fields) -> tuple[Layer, ...]:
    """Gemma 2: window and full layers alternate, a window first; norms before and after each half."""
    mixers = _windowed(f, _gemma_attention(f), _window(f), lambda i: i % 2 == 0)
    return _stack(mixers, _mlp(f), norms=4)


def gemma3_text(f: Fields) -> tuple[Layer, ...]:
    """Gemma 3: every sixth layer is full, or every n-th where the file says so; norms on queries and keys."""
    period = f.count("sliding_window_pattern", "_sliding_window_pattern")
    mixers = _windowed(f, _gemma_attention(f, qk_norm="head"), _window(f), lambda i: (i + 1) % period != 0)
    return _stack(mixers, _mlp(f), norms=4)


def gpt_oss(f: Fields) -> tuple[Layer, ...]:
    """gpt-oss: window and full layers alternate, a window first; sinks, and biases on router and experts too."""
    bias = f.flag("attention_bias")
    attention = _attention(f, head_dim=f.count("head_dim"), qkv_bias=bias, output_bias=bias, sinks=True)
    mixers = _windowed(f, attention, _window(f), lambda i: i % 2 == 0)
    return _stack(mixers, _experts(f, "intermediate_size", router_bias=True, expert_bias=True))


def deepseek(f: Fields) -> tuple[Layer, ...]:
    """DeepSeek V2, V3, R1 and Kimi K2: latent attention; the first layers dense, then shared and routed experts.

    ``moe_layer_freq`` is read as the checkpoints' own code reads it: transformers ignores it, and all
    published files say 1.
    """
    heads, layers = f.count("num_attention_heads"), _layer_count(f)
    if f.optional_count("num_key_value_heads", required=False) not in (None, heads):
        raise f.error(
            f"num_key_value_heads is {f.value('num_key_value_heads')}, but latent attention expands all {heads} heads "
            "from one latent: it must equal num_attention_heads"
        )
    f.value("head_dim")  # newer files repeat the rotary size here
    attention = LatentAttention(
        query_heads=heads,
        query_rank=f.optional_count("q_lora_rank"),
        latent_dim=f.count("kv_lora_rank"),
        rope_dim=f.count("qk_rope_head_dim"),
        nope_dim=f.count("qk_nope_head_dim"),
        value_dim=f.count("v_head_dim"),
        bias=f.flag("attention_bias"),
    )
    shared = (f.optional_count("n_shared_experts", least=0) or 0) * f.count("moe_intermediate_size")
    experts, dense = _experts(f, "moe_intermediate_size", shared=shared), _mlp(f)
    first, step = f.count("first_k_dense_replace", least=0, most=layers), f.count("moe_layer_freq")
    mixed = [i >= first and i % step == 0 for i in range(layers)]
    return tuple(Layer(mixer=attention, mlp=experts if m else dense, norms=2) for m in mixed)


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
    "deepseek_v2": deepseek,
    "deepseek_v3": deepseek,
    "kimi_k2": deepseek,
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
    known = ", ".join(sorted({*FAMILIES, *WRAPPERS}))
    if stated is None:
        raise ConfigError(f"model_type is missing: a config.json states it; supported are {known}")
    if not isinstance(stated, str) or stated not in {*FAMILIES, *WRAPPERS}:
        raise UnsupportedArchitecture(f"model_type {shown(stated)} is not supported; supported are {known}")
    family = WRAPPERS.get(stated, stated)
    facts = load_json("families.json")["families"]
    _check_architectures(data, facts[stated]["architectures"])
    if stated in WRAPPERS:
        data = _text_part(data, stated, family)
    return Fields(data, family, facts[family]["defaults"])


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


def _text_part(data: dict[str, Any], stated: str, family: str) -> dict[str, Any]:
    """The language model's fields in a multimodal configuration, with what the outer part says about them."""
    text = dict(mapping(data.get("text_config"), f"text_config of a {stated} configuration"))
    if text.setdefault("model_type", family) != family:
        raise UnsupportedArchitecture(
            f"text_config of a {stated} configuration has model_type {shown(text['model_type'])}: supported is {family}"
        )
    outer, inner = data.get("tie_word_embeddings"), text.get("tie_word_embeddings")
    if outer is not None and inner is not None and not agree(outer, inner):
        raise ConfigError(f"tie_word_embeddings is {shown(outer)}, but {shown(inner)} in text_config: they must agree")
    text["tie_word_embeddings"] = inner if outer is None else outer
    if "dtype" not in text and "torch_dtype" not in text:
        text |= {name: data[name] for name in ("dtype", "torch_dtype") if name in data}
    return text


# --- what families share -------------------------------------------------------------------------


def _layer_count(f: Fields) -> int:
    return f.count("num_hidden_layers", most=MOST_LAYERS)


def _stack(mixers: Iterable[Mixer], mlp: DenseMLP | MixtureOfExperts, norms: int = 2) -> tuple[Layer, ...]:
    return tuple(Layer(mixer=mixer, mlp=mlp, norms=norms) for mixer in mixers)


def _mlp(f: Fields, bias: bool = False) -> DenseMLP:
    return DenseMLP(intermediate=f.count("intermediate_size"), bias=bias)


def _attention(f: Fields, *, head_dim: int, **features: Any) -> FullAttention:
    """Attention with grouped heads; no number of KV heads (null) means one for every query head."""
    heads = f.count("num_attention_heads")
    kv_heads = f.optional_count("num_key_value_heads") or heads
    if heads % kv_heads:
        raise f.error(
            f"num_attention_heads is {heads} and num_key_value_heads is {kv_heads}: query heads must be a multiple "
            "of KV heads"
        )
    return FullAttention(query_heads=heads, kv_heads=kv_heads, key_dim=head_dim, value_dim=head_dim, **features)


def _stated_or_shared(f: Fields) -> int:
    """The head size, or the hidden size shared among the heads where the family's class says so."""
    head_dim, hidden, heads = f.optional_count("head_dim"), f.count("hidden_size"), f.count("num_attention_heads")
    if head_dim is None and hidden % heads:
        raise f.error(
            f"hidden_size is {hidden} and num_attention_heads is {heads}: without head_dim, the hidden size must be a "
            "multiple of the heads"
        )
    return head_dim or hidden // heads


def _qwen3_attention(f: Fields) -> FullAttention:
    if f.value("use_qk_norm") not in (None, True):  # some files state what holds anyway
        raise f.error(f"use_qk_norm is {shown(f.value('use_qk_norm'))}: a Qwen3 model always has these norms")
    bias = f.flag("attention_bias")
    return _attention(f, head_dim=f.count("head_dim"), qkv_bias=bias, output_bias=bias, qk_norm="head")


def _gemma_attention(f: Fields, **features: Any) -> FullAttention:
    f.count("num_key_value_heads")  # Gemma's classes give null no meaning
    bias = f.flag("attention_bias")
    return _attention(f, head_dim=f.count("head_dim"), qkv_bias=bias, output_bias=bias, **features)


def _window(f: Fields) -> int | None:
    return f.optional_count("sliding_window", "sliding_window_size", most=MOST_POSITIONS)


def _windowed(
    f: Fields, attention: FullAttention, window: int | None, has_window: Callable[[int], bool] = lambda i: True
) -> list[FullAttention]:
    """One mixer per layer: `layer_types` decides, or the family's own pattern where the file has none."""
    layers = _layer_count(f)
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


def _qwen_window(f: Fields) -> int | None:
    """Qwen's files carry a window that `use_sliding_window` switches off."""
    if f.flag("use_sliding_window"):
        return f.count("sliding_window", most=MOST_POSITIONS)
    f.value("sliding_window")
    return None


def _qwen_windowed(f: Fields, attention: FullAttention) -> list[FullAttention]:
    """Dense Qwen: with windows on, the layers from `max_window_layers` upward have them."""
    window = _qwen_window(f)
    start = f.count("max_window_layers", least=0) if window else 0
    return _windowed(f, attention, window, lambda i: i >= start)


def _qwen_mixture(f: Fields, mixers: list[FullAttention], experts: MixtureOfExperts) -> tuple[Layer, ...]:
    """Every `decoder_sparse_step`-th layer routes, unless it's listed as dense."""
    step, listed = f.count("decoder_sparse_step"), f.indices("mlp_only_layers", len(mixers))
    routed = [i not in listed and (i + 1) % step == 0 for i in range(len(mixers))]
    dense = None if all(routed) else _mlp(f)
    return tuple(Layer(mixer=m, mlp=experts if r else dense, norms=2) for m, r in zip(mixers, routed, strict=True))


def _experts(f: Fields, width: str, *, shared: int = 0, **features: bool) -> MixtureOfExperts:
    experts = f.count("num_experts", "num_local_experts", "n_routed_experts")
    chosen = f.count("num_experts_per_tok", "experts_per_token")
    if chosen > experts:
        raise f.error(f"num_experts_per_tok is {chosen}, but there are {experts} experts: it must be at most {experts}")
    return MixtureOfExperts(
        experts=experts,
        experts_per_token=chosen,
        expert_intermediate=f.count(width),
        shared_intermediate=shared,
        **features,
    )
