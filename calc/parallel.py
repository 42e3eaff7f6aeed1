"""How a model is cut among GPUs, and which of its tensors one rank then holds."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil

from calc import kv_cache, parameters
from calc.models import (
    DenseMLP,
    GatedDeltaNet,
    IndexedAttention,
    LatentAttention,
    LatentWindowAttention,
    Layer,
    Mamba2,
    MixtureOfExperts,
    ModelGeometry,
    RecurrentState,
)
from calc.models.fields import whole
from calc.parameters import ParameterCount
from calc.units import CalcError, dimensions, format_count

VOCAB_MULTIPLE = 64  # rows; vLLM 0.32, DEFAULT_VOCAB_PADDING_SIZE


@dimensions("count", vocab="count", multiple="count>0", ranks="count>0")
def vocab_rows(*, vocab, multiple, ranks):
    """Rows of the embedding, or of the output layer, on one tensor-parallel rank.

    Parameters
    ----------
    vocab : int
        Rows in the checkpoint.
    multiple : int
        The vocabulary is padded to a multiple of this.
    ranks : int
        Tensor-parallel ranks.

    Returns
    -------
    float
        Rows, whole where `ranks` divides the padded vocabulary.

    Raises
    ------
    CalcError
        If an argument is not a whole number, or `multiple` or `ranks` is 0.

    Notes
    -----
    Rows are dealt out, each rank holding all columns of its share.

    References
    ----------
    vLLM 0.32, ``vllm/model_executor/layers/vocab_parallel_embedding.py``, pads to 64.

    Examples
    --------
    >>> vocab_rows(vocab=128256, multiple=64, ranks=8)
    16032
    """
    vocab_rows = multiple * ceil(vocab / multiple) / ranks
    return vocab_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """How a model is cut.

    Attributes
    ----------
    tensor : int
        Ranks that share every layer of a stage.
    pipeline : int
        Stages, each with layers of its own.
    data : int
        Replicas of the attention, each with requests and a cache of its own.
    experts : bool
        Deal whole experts out over the tensor and data ranks, instead of a slice of every expert to each.
    layers : tuple of int or None
        Layers of each stage; None splits them as vLLM does (`split_layers`).
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    experts: bool = False
    layers: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("tensor", "pipeline", "data"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        if self.layers is None:
            return
        if len(self.layers) != self.pipeline:
            raise CalcError(f"Parallel: layers has {len(self.layers)} entries, wanted one for each of {self.pipeline}")
        object.__setattr__(self, "layers", tuple(_whole("layers", size, least=0) for size in self.layers))

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.tensor * self.pipeline * self.data

    @property
    def expert_ranks(self) -> int:
        """Ranks that the experts of a layer are spread over, whole or in slices."""
        return self.tensor * self.data

    def __str__(self) -> str:
        sizes = (("DP", self.data), ("TP", self.tensor), ("PP", self.pipeline))
        named = [f"{name} {size}" for name, size in sizes if size > 1]
        return (" × ".join(named) or "one GPU") + (" + EP" if self.experts else "")

    def stages(self, model: ModelGeometry) -> tuple[tuple[Layer, ...], ...]:
        """The layers of each stage, from the bottom up.

        Raises
        ------
        CalcError
            If the stages don't add up to the model's layers, or one would be empty.
        """
        total = len(model.layers)
        sizes = split_layers(total, self.pipeline) if self.layers is None else self.layers
        if sum(sizes) != total or min(sizes) < 1:
            raise CalcError(f"stages of {', '.join(map(str, sizes))} layers: wanted {total} in all and none empty")
        ends = list(accumulate(sizes))
        return tuple(model.layers[end - size : end] for end, size in zip(ends, sizes, strict=True))


def _whole(name: str, value: object, least: int = 1) -> int:
    number = whole(value)
    if number is None or number < least:
        raise CalcError(f"Parallel: {name} is {value!r:.40}, wanted a whole number of at least {least}")
    return number


def split_layers(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each pipeline stage as vLLM splits them.

    The last stage gets no layer of the remainder, and the first one only if there is no other way: they
    hold the output layer and the embedding.

    Parameters
    ----------
    layers, stages : int

    Returns
    -------
    tuple of int

    Raises
    ------
    CalcError
        If there are more stages than layers.

    References
    ----------
    vLLM 0.32, ``vllm/distributed/utils.py``, ``get_pp_indices``.

    Examples
    --------
    >>> split_layers(126, 4), split_layers(80, 3)
    ((31, 32, 32, 31), (27, 27, 26))
    """
    if stages > layers:
        raise CalcError(f"{layers} layers don't make {stages} stages: use at most {layers}")
    sizes = [layers // stages] * stages
    for place in range(layers % stages):
        sizes[-2 - place] += 1
    return tuple(sizes)


@functools.lru_cache(maxsize=512)
def weights_on_rank(
    model: ModelGeometry, parallel: Parallel, *, stage: int = 0, expert_rank: int = 0
) -> ParameterCount:
    """Parameters that one rank holds, by tensor group.

    Split among tensor ranks: query heads, KV heads as long as there is more than one, heads of recurrent layers,
    the MLP's width, the vocabulary. Copied to each: norms, learned positions, routers, indexers (one that picks
    blocks is split like KV heads), hyper-connections, what makes a latent, a KV head when ranks exceed heads. The
    embedding and learned positions are on the first stage, the output layer, the last norm and the last gathering of
    streams on the last; tied, the matrix is on both.

    Parameters
    ----------
    model : ModelGeometry
    parallel : Parallel
    stage : int
        Pipeline stage, from 0.
    expert_rank : int
        Place among the ranks that share the experts: where they don't divide, the first ranks have one more.

    Returns
    -------
    ParameterCount
        Of this rank; `resting_experts` is 0.

    Raises
    ------
    CalcError
        If the model can't be cut this way; the message names what doesn't divide.

    Notes
    -----
    As vLLM 0.32 builds its models, before quantization. An engine may keep more: a second, absorbed copy of
    the latent's expansions, redundant experts, a drafter.

    Examples
    --------
    >>> from calc.models import load
    >>> llama = load("llama-3.1-70b")
    >>> weights_on_rank(llama, Parallel(tensor=8)).total
    8820367360
    >>> weights_on_rank(llama, Parallel(tensor=16)).total * 16 - parameters.count(llama).total
    1361960960
    """
    stages = parallel.stages(model)
    own = parameters.count(model_on_rank(model, parallel, stage=stage, expert_rank=expert_rank))
    whole = replace(model, layers=stages[stage])  # routers see every expert
    first, last = stage == 0, stage == len(stages) - 1
    return replace(
        own,
        embedding=own.embedding if first or (last and model.tied_embeddings) else 0,
        lm_head=own.lm_head if last else 0,
        positions=own.positions if first else 0,
        norms=own.norms - (0 if last else model.final_norms * model.hidden),
        hyper_connections=own.hyper_connections - (0 if last else parameters.gathering_parameters(model)),
        router=parameters.count(whole).router,
        resting_experts=0,
    )


@functools.lru_cache(maxsize=512)
def model_on_rank(model: ModelGeometry, parallel: Parallel, *, stage: int = 0, expert_rank: int = 0) -> ModelGeometry:
    """A model as one rank has it: a narrower model of the same kind.

    Parameters
    ----------
    model, parallel, stage, expert_rank
        As for `weights_on_rank`.

    Returns
    -------
    ModelGeometry
        The stage's layers with this rank's heads, widths and experts, and its rows of the vocabulary.

    Raises
    ------
    CalcError
        If the model can't be cut this way; the message names what doesn't divide.

    Examples
    --------
    >>> from calc.models import load
    >>> held = model_on_rank(load("llama-3.1-70b"), Parallel(tensor=16))
    >>> held.layers[0].mixer.query_heads, held.layers[0].mixer.kv_heads, held.layers[0].mlp.intermediate
    (4, 1, 1792)
    """
    stages = parallel.stages(model)
    if not 0 <= stage < len(stages) or not 0 <= expert_rank < parallel.expert_ranks:
        raise CalcError(f"no stage {stage} with expert rank {expert_rank} in {parallel}")
    kv_cache.layout(model, ranks=parallel.tensor)  # refuses heads that can't be laid out
    rows = int(_share("rows of the padded vocabulary", _padded(model.vocab), parallel.tensor))
    return replace(model, vocab=rows, layers=tuple(_on_rank(layer, parallel, expert_rank) for layer in stages[stage]))


def _padded(vocab: int) -> int:
    return int(vocab_rows(vocab=vocab, multiple=VOCAB_MULTIPLE, ranks=1))


def _on_rank(layer: Layer, parallel: Parallel, expert_rank: int) -> Layer:
    """A layer as one rank holds it: a narrower layer of the same kind."""
    return replace(layer, mixer=_mixer(layer.mixer, parallel.tensor), mlp=_mlp(layer.mlp, parallel, expert_rank))


def _mixer(mixer: object, ranks: int) -> object:
    if mixer is None:
        return None
    if isinstance(mixer, GatedDeltaNet):
        return replace(mixer, key_heads=mixer.key_heads // ranks, value_heads=mixer.value_heads // ranks)
    if isinstance(mixer, Mamba2):  # a single group is copied to every rank
        return replace(mixer, heads=mixer.heads // ranks, groups=max(1, mixer.groups // ranks))
    if isinstance(mixer, RecurrentState):
        return mixer
    heads = mixer.query_heads // ranks
    if isinstance(mixer, LatentAttention):
        return replace(mixer, query_heads=heads)
    if isinstance(mixer, LatentWindowAttention):  # a group's projection may be cut, its inputs stay whole
        return replace(mixer, query_heads=heads, output_dim=_share("outputs of the groups", mixer.output_dim, ranks))
    shared = {"kv_heads": kv_cache.kv_heads_per_rank(kv_heads=mixer.kv_heads, ranks=ranks)}
    if isinstance(mixer, IndexedAttention):
        shared["index_heads"] = kv_cache.kv_heads_per_rank(kv_heads=mixer.index_heads, ranks=ranks)
    return replace(mixer, query_heads=heads, **shared)


def _mlp(mlp: object, parallel: Parallel, expert_rank: int) -> object:
    if mlp is None:
        return None
    if isinstance(mlp, DenseMLP):
        return replace(mlp, intermediate=_share("MLP elements", mlp.intermediate, parallel.tensor))
    beside = {
        "shared_intermediate": _share("elements of the shared expert", mlp.shared_intermediate, parallel.tensor),
        "dense_intermediate": _share("MLP elements beside the experts", mlp.dense_intermediate, parallel.tensor),
    }
    if parallel.experts:
        return replace(mlp, experts=local_experts(mlp.experts, parallel.expert_ranks, expert_rank), **beside)
    width = _share("elements of an expert", mlp.expert_intermediate, parallel.expert_ranks)
    return replace(mlp, expert_intermediate=width, **beside)


def local_experts(experts: int, ranks: int, rank: int) -> int:
    """Whole experts of a layer on one rank.

    Raises
    ------
    CalcError
        If there are more ranks than experts.

    Examples
    --------
    >>> [local_experts(10, 4, rank) for rank in range(4)]
    [3, 3, 2, 2]
    """
    if ranks > experts:
        raise CalcError(f"{ranks} ranks can't share {experts} experts: use at most {experts}")
    return experts // ranks + (rank < experts % ranks)


def _share(what: str, count: int, ranks: int) -> int:
    if count % ranks:
        good = [r for r in range(1, 65) if count % r == 0]
        raise CalcError(
            f"{format_count(count)} {what} don't divide among {ranks} ranks: use {', '.join(map(str, good))}"
        )
    return count // ranks


def experts_in(model: ModelGeometry) -> int:
    """Routed experts in the widest layer; 0 for a dense model.

    Examples
    --------
    >>> from calc.models import load
    >>> experts_in(load("qwen3-235b-a22b")), experts_in(load("llama-3.1-70b"))
    (128, 0)
    """
    return max((layer.mlp.experts for layer in model.layers if isinstance(layer.mlp, MixtureOfExperts)), default=0)
