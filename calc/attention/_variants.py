"""Formulas applied to a model's layers, and a model as it would be with other heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from calc.models import FullAttention, LatentAttention, LatentWindowAttention, ModelGeometry
from calc.parameters import attention_parameters
from calc.units import CalcError

KINDS = {
    "MHA": "multi-head attention",
    "GQA": "grouped-query attention",
    "MQA": "multi-query attention",
    "MLA": "multi-head latent attention",
}


def sharing(mixer: object) -> str:
    """How a layer's query heads share keys and values.

    Parameters
    ----------
    mixer : FullAttention, WindowAttention or LatentAttention
        A layer kind of `ModelGeometry.kinds`.

    Returns
    -------
    str
        "MHA" (a KV head for each query head), "MQA" (one for all), "GQA" (in between) or "MLA" (a latent).

    Raises
    ------
    CalcError
        If the layer has no heads, or shares in another way.

    Examples
    --------
    >>> from calc.models import load
    >>> [sharing(load(slug).kinds()[0][0]) for slug in ("llama-2-7b", "llama-3.1-8b", "gemma-2b", "deepseek-v3")]
    ['MHA', 'GQA', 'MQA', 'MLA']
    """
    if isinstance(mixer, LatentAttention):
        return "MLA"
    if isinstance(mixer, LatentWindowAttention):
        raise CalcError("heads that share latents which are key and value at once follow none of the four rules")
    if not isinstance(mixer, FullAttention):
        raise CalcError(f"a layer of type {type(mixer).__name__} has no query heads to share anything")
    if mixer.kv_heads == mixer.query_heads:
        return "MHA"
    return "MQA" if mixer.kv_heads == 1 else "GQA"


def main_mixer(model: ModelGeometry, *, latent: bool) -> FullAttention | LatentAttention:
    """The attention of most of a model's layers, of one sort.

    Parameters
    ----------
    model : ModelGeometry
        From `calc.models.load` or ``ModelGeometry.from_config``.
    latent : bool
        Whether latent attention is wanted, or attention with KV heads.

    Returns
    -------
    FullAttention, WindowAttention or LatentAttention

    Raises
    ------
    CalcError
        If the model has no layer of that sort.

    Examples
    --------
    >>> from calc.models import load
    >>> main_mixer(load("gemma-3-27b"), latent=False).kind
    'window'
    """
    sort, what, example = (
        (LatentAttention, "latent attention", "deepseek-v3") if latent else (FullAttention, "KV heads", "llama-3.1-70b")
    )
    found = [(count, -place, mixer) for place, (mixer, count) in enumerate(model.kinds()) if isinstance(mixer, sort)]
    if not found:
        raise CalcError(f"{model.name} has no layer with {what}: choose a model that has, such as {example}")
    return max(found, key=lambda kind: kind[:2])[2]


def as_multi_head(mixer: FullAttention | LatentAttention) -> FullAttention:
    """The layer with a key and a value of its own for every query head; a latent is expanded.

    Examples
    --------
    >>> from calc.models import load
    >>> heads = as_multi_head(load("deepseek-v3").kinds()[0][0])
    >>> heads.kv_heads, heads.key_dim, heads.value_dim
    (128, 192, 128)
    """
    if isinstance(mixer, FullAttention):
        return replace(mixer, kv_heads=mixer.query_heads)
    return FullAttention(
        query_heads=mixer.query_heads,
        kv_heads=mixer.query_heads,
        key_dim=mixer.nope_dim + mixer.rope_dim,
        value_dim=mixer.value_dim,
    )


def with_kv_heads(model: ModelGeometry, kv_heads: int) -> ModelGeometry:
    """The same model with another number of KV heads in every layer that has some.

    Parameters
    ----------
    model : ModelGeometry
    kv_heads : int
        KV heads; must divide the query heads.

    Returns
    -------
    ModelGeometry

    Raises
    ------
    CalcError
        If a layer's query heads can't be shared out evenly.

    Examples
    --------
    >>> from calc.kv_cache import layout
    >>> from calc.models import load
    >>> layout(with_kv_heads(load("llama-3.1-70b"), 64)).bytes_per_position
    2621440
    """

    def changed(mixer: FullAttention) -> FullAttention:
        if kv_heads < 1 or mixer.query_heads % kv_heads:
            good = ", ".join(str(n) for n in range(1, mixer.query_heads + 1) if mixer.query_heads % n == 0)
            raise CalcError(f"{model.name}: {mixer.query_heads} query heads can't share {kv_heads!r} heads: use {good}")
        return replace(mixer, kv_heads=kv_heads)

    return _remade(model, FullAttention, changed)


def multi_head(model: ModelGeometry) -> ModelGeometry:
    """The same model with a KV head for every query head; latents are expanded.

    Parameters
    ----------
    model : ModelGeometry

    Returns
    -------
    ModelGeometry

    Raises
    ------
    CalcError
        If the model's latents are key and value at once: nothing says what to expand them to.

    Examples
    --------
    >>> from calc.kv_cache import layout
    >>> from calc.models import load
    >>> layout(multi_head(load("deepseek-v3"))).bytes_per_position
    4997120
    """
    if any(isinstance(layer.mixer, LatentWindowAttention) for layer in model.layers):
        raise CalcError(f"{model.name}'s latents are key and value at once: there are no heads to expand them to")
    return _remade(model, FullAttention | LatentAttention, as_multi_head)


def _remade(model: ModelGeometry, sort: type, change: Callable) -> ModelGeometry:
    """A model whose attention layers of one sort are changed."""
    layers = (
        replace(layer, mixer=change(layer.mixer)) if isinstance(layer.mixer, sort) else layer for layer in model.layers
    )
    return replace(model, layers=tuple(layers))


def variants(model: ModelGeometry, latent: LatentAttention) -> dict[str, ModelGeometry]:
    """A model under each rule of sharing, everything else as it is.

    Parameters
    ----------
    model : ModelGeometry
        A model with KV heads.
    latent : LatentAttention
        Whose latent and head widths the last variant takes; its heads are the model's query heads.

    Returns
    -------
    dict of str to ModelGeometry
        "MHA", "GQA" (the model's own KV heads, where it has neither one nor all), "MQA", "MLA" (without
        windows, which no published latent layer has).

    Raises
    ------
    CalcError
        If the model has no KV heads.

    Examples
    --------
    >>> from calc.kv_cache import layout
    >>> from calc.models import load
    >>> latent = main_mixer(load("deepseek-v3"), latent=True)
    >>> {name: layout(m).bytes_per_position for name, m in variants(load("llama-3.1-70b"), latent).items()}
    {'MHA': 2621440, 'GQA': 327680, 'MQA': 40960, 'MLA': 92160}
    """
    own = main_mixer(model, latent=False)
    found = {"MHA": multi_head(model)}
    if sharing(own) == "GQA":
        found["GQA"] = model
    if own.query_heads > 1:
        found["MQA"] = with_kv_heads(model, 1)
    return found | {"MLA": _remade(model, FullAttention, lambda mixer: replace(latent, query_heads=mixer.query_heads))}


def kv_parameters(model: ModelGeometry) -> int:
    """Parameters that make keys and values, in all layers that have KV heads.

    Parameters
    ----------
    model : ModelGeometry

    Returns
    -------
    int
        Projections, their biases, and norms with a weight for each element of all keys.

    Examples
    --------
    >>> from calc.models import load
    >>> kv_parameters(load("llama-3.1-70b"))
    1342177280
    """
    return sum(layers * _kv(model.hidden, m) for m, layers in model.kinds() if isinstance(m, FullAttention))


def _kv(hidden: int, a: FullAttention) -> int:
    weights = attention_parameters(
        hidden=hidden, query_heads=0, kv_heads=a.kv_heads, key_dim=a.key_dim, value_dim=a.value_dim
    )
    bias = a.qkv_bias * a.kv_heads * (a.key_dim + a.value_dim)
    norm = a.kv_heads * a.key_dim if a.qk_norm == "full" else 0
    return weights + bias + norm
