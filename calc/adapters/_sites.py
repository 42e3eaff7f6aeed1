"""The matrices of a model that an adapter can change, under the names that checkpoints and PEFT give them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache

from calc.kv_cache import kv_heads_per_rank
from calc.models import (
    CompressedAttention,
    DenseMLP,
    FullAttention,
    GatedDeltaNet,
    IndexedAttention,
    IndexedLatentAttention,
    LatentAttention,
    LatentWindowAttention,
    Layer,
    Mamba2,
    MixtureOfExperts,
    ModelGeometry,
    UnsupportedArchitecture,
)
from calc.units import CalcError

EMBEDDINGS = ("embed_tokens", "lm_head")
GROUPS = ("all-linear", "attention")  # what a target list may say for short

# families with one matrix for queries, keys and values, and its name
_FUSED = {"phi3": "qkv_proj"}
_FUSED |= dict.fromkeys(("falcon", "gpt_neox"), "query_key_value") | dict.fromkeys(("gpt2", "gpt_bigcode"), "c_attn")
_FUSED_MLP = {"phi3", "glm", "glm4"}  # with gate_up_proj
_FUSED_MLP |= {"minimax_m3", "minimax_m3_text", "minimax_m3_vl", "minimax_m3_vl_text"}
_OUT = {"opt": "out_proj", **dict.fromkeys(("falcon", "gpt_neox", "phi"), "dense")}  # elsewhere o_proj
_OUT |= dict.fromkeys(("gpt2", "gpt_bigcode"), "c_proj")
_UP_DOWN = dict.fromkeys(("opt", "phi"), ("fc1", "fc2"))  # elsewhere up_proj and down_proj
_UP_DOWN |= dict.fromkeys(("gpt2", "gpt_bigcode", "starcoder2"), ("c_fc", "c_proj"))
_UP_DOWN |= dict.fromkeys(("falcon", "gpt_neox"), ("dense_h_to_4h", "dense_4h_to_h"))
_FUSED_STATE = {"qwen3_next"}  # families whose recurrent layers have in_proj_qkvz and in_proj_ba
_ONE_BLOCK = {"nemotron_h"}  # families whose layers hold one block, called mixer
_FEED_FORWARD = {"llama4": "feed_forward", "llama4_text": "feed_forward"}  # elsewhere mlp
_SHARED = dict.fromkeys(
    ("qwen2_moe", "qwen3_next", "qwen3_5_moe", "qwen3_5_moe_text", "llama4", "llama4_text"), "shared_expert"
)  # elsewhere shared_experts
_HEADS = {"q_proj", "k_proj", "v_proj", "o_proj"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One matrix that can carry a low-rank pair. Sites that differ in their path alone are equal.

    Attributes
    ----------
    path : str
        Place in the model, for example "model.layers.0.self_attn.q_proj".
    name : str
        What a target list calls it: the end of the path.
    input_dim, output_dim : int
        Widths of the matrix.
    split : str
        How tensor parallelism deals it out: "column" (its outputs), "row" (its inputs) or "copied".
    heads, head_dim : int
        KV heads and their size where the outputs are KV heads, which are copied once ranks outnumber them.
    copies : int
        Pairs here: 1, or one for each routed expert.
    """

    path: str = field(compare=False)
    name: str
    input_dim: int
    output_dim: int
    split: str
    heads: int = 0
    head_dim: int = 0
    copies: int = 1

    def held(self, *, ranks: int, fully_sharded: bool) -> tuple[int, int]:
        """Widths of the pair's input and output that one rank holds.

        Parameters
        ----------
        ranks : int
            Tensor-parallel ranks.
        fully_sharded : bool
            Whether the matrix that the base layer's split leaves whole is divided as well.

        Raises
        ------
        CalcError
            If a width doesn't divide among the ranks.
        """
        if self.split == "copied":
            return self.input_dim, self.output_dim
        rest = ranks if fully_sharded else 1
        if self.split == "row":
            return self._share(self.input_dim, ranks), self._share(self.output_dim, rest)
        if self.heads:
            output = kv_heads_per_rank(kv_heads=self.heads, ranks=ranks) * self.head_dim
        else:
            output = self._share(self.output_dim, ranks)
        return self._share(self.input_dim, rest), output

    def _share(self, width: int, ranks: int) -> int:
        if width % ranks:
            raise CalcError(f"{self.name}: a width of {width:,} doesn't divide among {ranks} ranks: use fewer ranks")
        return width // ranks


@cache
def sites(model: ModelGeometry) -> tuple[Site, ...]:
    """Every matrix of a model that can carry a low-rank pair, from the embedding up.

    Parameters
    ----------
    model : ModelGeometry

    Returns
    -------
    tuple of Site

    Raises
    ------
    UnsupportedArchitecture
        If a layer is of a kind whose matrices the library doesn't know.

    Notes
    -----
    Names are those of transformers 5.24.0. Routers are left out: engines refuse adapters on them.

    Examples
    --------
    >>> from calc.models import load
    >>> site = sites(load("llama-3.1-70b"))[2]
    >>> site.path, site.input_dim, site.output_dim, site.split
    ('model.layers.0.self_attn.k_proj', 8192, 1024, 'column')
    """
    embedding, head = EMBEDDINGS
    size = {"split": "copied"}
    found = [Site(path=f"model.{embedding}", name=embedding, input_dim=model.vocab, output_dim=model.hidden, **size)]
    for index, layer in enumerate(model.layers):
        found += _layer_sites(model, layer, f"model.layers.{index}")
    found.append(Site(path=head, name=head, input_dim=model.hidden, output_dim=model.vocab, **size))
    return tuple(found)


def _layer_sites(model: ModelGeometry, layer: Layer, place: str) -> Iterable[Site]:
    one_block = model.architecture in _ONE_BLOCK
    attention = f"{place}.mixer" if one_block else f"{place}.self_attn"
    match layer.mixer:
        case None:
            pass
        case LatentAttention():
            yield from _latent(model.hidden, layer.mixer, attention)
        case LatentWindowAttention():
            yield from _latent_window(model.hidden, layer.mixer, attention)
        case FullAttention():
            yield from _attention(model, layer.mixer, attention)
        case GatedDeltaNet():
            yield from _delta(model, layer.mixer, f"{place}.linear_attn")
        case Mamba2():
            yield from _scan(model.hidden, layer.mixer, f"{place}.mixer")
        case _:
            raise UnsupportedArchitecture(
                f"{model.name} has layers of type {type(layer.mixer).__name__}, whose matrices are not known here: "
                "use a model with attention in every layer"
            )
    feed_forward = f"{place}.{'mixer' if one_block else _FEED_FORWARD.get(model.architecture, 'mlp')}"
    match layer.mlp:
        case DenseMLP():
            yield from _mlp(model, layer.mlp.intermediate, feed_forward, layer.mlp.gated)
        case MixtureOfExperts():
            yield from _experts(model, layer.mlp, place, feed_forward)


def _site(place: str, name: str, dims: tuple[int, int], split: str, **more: int) -> Site:
    return Site(path=f"{place}.{name}", name=name, input_dim=dims[0], output_dim=dims[1], split=split, **more)


def _attention(model: ModelGeometry, a: FullAttention, place: str) -> Iterable[Site]:
    hidden, values = model.hidden, a.query_heads * a.value_dim
    queries, keys, kept = a.query_heads * a.key_dim, a.kv_heads * a.key_dim, a.kv_heads * a.value_dim
    if model.architecture in _FUSED:
        yield _site(place, _FUSED[model.architecture], (hidden, queries + keys + kept), "column")
    else:
        yield _site(place, "q_proj", (hidden, (1 + a.output_gate) * queries), "column")
        yield _site(place, "k_proj", (hidden, keys), "column", heads=a.kv_heads, head_dim=a.key_dim)
        if not a.values_are_keys:
            yield _site(place, "v_proj", (hidden, kept), "column", heads=a.kv_heads, head_dim=a.value_dim)
    yield _site(place, _OUT.get(model.architecture, "o_proj"), (values, hidden), "row")
    if isinstance(a, IndexedAttention):
        split = {"heads": a.index_heads, "head_dim": a.index_dim}
        yield _site(f"{place}.indexer", "q_proj", (hidden, a.index_heads * a.index_dim), "column", **split)
        yield _site(f"{place}.indexer", "k_proj", (hidden, a.index_dim), "copied")


def _latent_window(hidden: int, a: LatentWindowAttention, place: str) -> Iterable[Site]:
    yield _site(place, "q_a_proj", (hidden, a.query_rank), "copied")
    yield _site(place, "q_b_proj", (a.query_rank, a.query_heads * a.latent_dim), "column")
    yield _site(place, "kv_proj", (hidden, a.latent_dim), "copied")
    yield _site(
        place, "o_a_proj", (a.output_heads * a.latent_dim, a.output_dim), "column"
    )  # all groups, one below another
    yield _site(place, "o_b_proj", (a.output_dim, hidden), "row")
    if isinstance(a, CompressedAttention):
        inside = f"{place}.compressor"
        for where, width in ((inside, a.latent_dim), (f"{inside}.indexer", a.index_dim)):
            if width:
                yield _site(where, "kv_proj", (hidden, a.overlap * width), "copied")
                yield _site(where, "gate_proj", (hidden, a.overlap * width), "copied")
        if a.index_heads:
            yield _site(f"{inside}.indexer", "q_b_proj", (a.query_rank, a.index_heads * a.index_dim), "copied")
            yield _site(f"{inside}.indexer.scorer", "weights_proj", (hidden, a.index_heads), "copied")


def _latent(hidden: int, a: LatentAttention, place: str) -> Iterable[Site]:
    queries = a.query_heads * (a.nope_dim + a.rope_dim)
    if a.query_rank is None:
        yield _site(place, "q_proj", (hidden, queries), "column")
    else:
        yield _site(place, "q_a_proj", (hidden, a.query_rank), "copied")
        yield _site(place, "q_b_proj", (a.query_rank, queries), "column")
    yield _site(place, "kv_a_proj_with_mqa", (hidden, a.latent_dim + a.rope_dim), "copied")
    yield _site(place, "kv_b_proj", (a.latent_dim, a.query_heads * (a.nope_dim + a.value_dim)), "column")
    yield _site(place, "o_proj", (a.query_heads * a.value_dim, hidden), "row")
    if isinstance(a, IndexedLatentAttention) and a.own_index:
        yield _site(f"{place}.indexer", "wq_b", (a.query_rank, a.index_heads * a.index_dim), "copied")
        yield _site(f"{place}.indexer", "wk", (hidden, a.index_dim), "copied")
        yield _site(f"{place}.indexer", "weights_proj", (hidden, a.index_heads), "copied")


def _delta(model: ModelGeometry, d: GatedDeltaNet, place: str) -> Iterable[Site]:
    values = d.value_heads * d.value_dim
    if model.architecture in _FUSED_STATE:
        made = {"in_proj_qkvz": d.channels + values, "in_proj_ba": 2 * d.value_heads}
    else:
        made = {"in_proj_qkv": d.channels, "in_proj_z": values, "in_proj_b": d.value_heads, "in_proj_a": d.value_heads}
    for name, width in made.items():
        yield _site(place, name, (model.hidden, width), "column")
    yield _site(place, "out_proj", (values, model.hidden), "row")


def _scan(hidden: int, m: Mamba2, place: str) -> Iterable[Site]:
    yield _site(place, "in_proj", (hidden, m.inner + m.channels + m.heads), "column")
    yield _site(place, "out_proj", (m.inner, hidden), "row")


def _mlp(model: ModelGeometry, width: int, place: str, gated: bool = True) -> Iterable[Site]:
    up, down = _UP_DOWN.get(model.architecture, ("up_proj", "down_proj"))
    if model.architecture in _FUSED_MLP:
        yield _site(place, "gate_up_proj", (model.hidden, 2 * width), "column")
    else:
        if gated:
            yield _site(place, "gate_proj", (model.hidden, width), "column")
        yield _site(place, up, (model.hidden, width), "column")
    yield _site(place, down, (width, model.hidden), "row")


def _experts(model: ModelGeometry, m: MixtureOfExperts, layer: str, place: str) -> Iterable[Site]:
    hidden, width = m.latent_dim or model.hidden, m.expert_intermediate
    into, outputs = ("experts.gate_up_proj", 2 * width) if m.gated else ("experts.up_proj", width)
    beside = layer if m.dense_intermediate else place  # experts beside a dense network are a block of their own
    yield _site(beside, into, (hidden, outputs), "column", copies=m.experts)
    yield _site(beside, "experts.down_proj", (width, hidden), "row", copies=m.experts)
    if m.dense_intermediate:
        yield from _mlp(model, m.dense_intermediate, place, m.gated)
    if m.latent_dim:
        yield _site(place, "fc1_latent_proj", (model.hidden, m.latent_dim), "copied")
        yield _site(place, "fc2_latent_proj", (m.latent_dim, model.hidden), "copied")
    if m.shared_intermediate:
        shared = f"{place}.{_SHARED.get(model.architecture, 'shared_experts')}"
        yield from _mlp(model, m.shared_intermediate, shared, m.gated)


def tensor_group(site: Site) -> str:
    """The group of `calc.parameters.ParameterCount` that a matrix belongs to."""
    place = site.path.removesuffix(f".{site.name}")
    if site.name in EMBEDDINGS:
        return "embedding" if site.name == EMBEDDINGS[0] else "lm_head"
    if place.endswith((".indexer", ".indexer.scorer")):
        return "indexer"
    if place.endswith(".compressor"):
        return "compressor"
    if place.endswith(".self_attn") or (place.endswith(".mixer") and site.name in _HEADS):
        return "attention"
    if place.endswith(".linear_attn") or site.name in ("in_proj", "out_proj"):
        return "recurrent"
    if site.copies > 1:
        return "routed_experts"
    return "shared_experts" if ".shared_expert" in place else "mlp"


def target_names(model: ModelGeometry) -> tuple[str, ...]:
    """The names that a target list can use for this model.

    Examples
    --------
    >>> from calc.models import load
    >>> target_names(load("llama-3.1-8b"))
    ('embed_tokens', 'q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj', 'lm_head')
    """
    return tuple(dict.fromkeys(site.name for site in sites(model)))


def target_group(model: ModelGeometry, group: str) -> tuple[str, ...]:
    """The names behind a short one.

    Parameters
    ----------
    model : ModelGeometry
    group : {"all-linear", "attention"}
        Every projection, or those of the attention. Neither has the embedding, the head, routers or routed
        experts.

    Raises
    ------
    CalcError
        If there is no such group.

    Examples
    --------
    >>> from calc.models import load
    >>> target_group(load("phi-3-mini"), "all-linear")
    ('qkv_proj', 'o_proj', 'gate_up_proj', 'down_proj')
    """
    if group not in GROUPS:
        raise CalcError(f"no group of modules {group!r:.40}: write {' or '.join(GROUPS)}, or name modules in a list")
    return _picked(model, group)


@lru_cache(maxsize=128)
def _picked(model: ModelGeometry, group: str) -> tuple[str, ...]:
    everything = {"attention", "indexer", "compressor", "recurrent", "mlp", "shared_experts"}
    wanted = {"attention"} if group == "attention" else everything
    picked = (site.name for site in sites(model) if tensor_group(site) in wanted and site.copies == 1)
    return tuple(dict.fromkeys(picked))


@cache
def targeted(model: ModelGeometry, targets: tuple[str, ...]) -> tuple[Site, ...]:
    """The sites that a list of names picks.

    Raises
    ------
    CalcError
        If a name picks nothing, or is given twice.
    """
    names = target_names(model)
    for name, times in Counter(targets).items():
        if name not in names:
            raise CalcError(f"{model.name} has no module {name!r:.40}: it has {', '.join(names)}")
        if times > 1:
            raise CalcError(f"module {name!r:.40} is named twice: name each once")
    return tuple(site for site in sites(model) if site.name in targets)
