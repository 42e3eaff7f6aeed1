"""The matrices of a model that an adapter can change, under the names that checkpoints and PEFT give them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from calc.kv_cache import kv_heads_per_rank
from calc.models import (
    DenseMLP,
    FullAttention,
    LatentAttention,
    Layer,
    MixtureOfExperts,
    ModelGeometry,
    UnsupportedArchitecture,
)
from calc.units import CalcError

EMBEDDINGS = ("embed_tokens", "lm_head")
GROUPS = ("all-linear", "attention")  # what a target list may say for short

_FUSED = {"phi3"}  # families whose checkpoints have qkv_proj and gate_up_proj
_SHARED = {"qwen2_moe": "shared_expert"}  # elsewhere shared_experts


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
    match layer.mixer:
        case LatentAttention():
            yield from _latent(model.hidden, layer.mixer, f"{place}.self_attn")
        case FullAttention():
            yield from _attention(model, layer.mixer, f"{place}.self_attn")
        case _:
            raise UnsupportedArchitecture(
                f"{model.name} has layers of type {type(layer.mixer).__name__}, whose matrices are not known here: "
                "use a model with attention in every layer"
            )
    match layer.mlp:
        case DenseMLP():
            yield from _mlp(model, layer.mlp.intermediate, f"{place}.mlp")
        case MixtureOfExperts():
            yield from _experts(model, layer.mlp, f"{place}.mlp")


def _site(place: str, name: str, dims: tuple[int, int], split: str, **more: int) -> Site:
    return Site(path=f"{place}.{name}", name=name, input_dim=dims[0], output_dim=dims[1], split=split, **more)


def _attention(model: ModelGeometry, a: FullAttention, place: str) -> Iterable[Site]:
    hidden, values = model.hidden, a.query_heads * a.value_dim
    queries, keys, kept = a.query_heads * a.key_dim, a.kv_heads * a.key_dim, a.kv_heads * a.value_dim
    if model.architecture in _FUSED:
        yield _site(place, "qkv_proj", (hidden, queries + keys + kept), "column")
    else:
        yield _site(place, "q_proj", (hidden, queries), "column")
        yield _site(place, "k_proj", (hidden, keys), "column", heads=a.kv_heads, head_dim=a.key_dim)
        yield _site(place, "v_proj", (hidden, kept), "column", heads=a.kv_heads, head_dim=a.value_dim)
    yield _site(place, "o_proj", (values, hidden), "row")


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


def _mlp(model: ModelGeometry, width: int, place: str) -> Iterable[Site]:
    if model.architecture in _FUSED:
        yield _site(place, "gate_up_proj", (model.hidden, 2 * width), "column")
    else:
        yield _site(place, "gate_proj", (model.hidden, width), "column")
        yield _site(place, "up_proj", (model.hidden, width), "column")
    yield _site(place, "down_proj", (width, model.hidden), "row")


def _experts(model: ModelGeometry, m: MixtureOfExperts, place: str) -> Iterable[Site]:
    hidden, width = model.hidden, m.expert_intermediate
    yield _site(place, "experts.gate_up_proj", (hidden, 2 * width), "column", copies=m.experts)
    yield _site(place, "experts.down_proj", (width, hidden), "row", copies=m.experts)
    if m.shared_intermediate:
        yield from _mlp(model, m.shared_intermediate, f"{place}.{_SHARED.get(model.architecture, 'shared_experts')}")


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
    part = ".self_attn." if group == "attention" else ".layers."
    picked = (site.name for site in sites(model) if part in site.path and not site.name.startswith("experts."))
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
