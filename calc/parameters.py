"""Parameter counts by tensor group: exact, total and active per token.

Each formula counts one matrix group of one layer; `count` adds them up over a model's layers, with the
small tensors (biases, norms, sinks) that a rule of thumb leaves out.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from calc.models import (
    CompressedAttention,
    DenseMLP,
    FullAttention,
    GatedDeltaNet,
    IndexedAttention,
    IndexedLatentAttention,
    LatentAttention,
    LatentWindowAttention,
    Mamba2,
    MixtureOfExperts,
    ModelGeometry,
)
from calc.units import CalcError, dimensions, format_count

# --- formulas ------------------------------------------------------------------------------------


@dimensions("count", vocab="count", hidden="count")
def embedding_parameters(*, vocab, hidden):
    """Parameters of the embedding: one row for every entry of the vocabulary.

    Parameters
    ----------
    vocab : int
        Rows, padding included.
    hidden : int
        Width of the hidden state.

    Returns
    -------
    int

    Notes
    -----
    The output layer has as many again, unless it reuses this matrix (tied embeddings).

    Examples
    --------
    >>> embedding_parameters(vocab=128256, hidden=8192)
    1050673152
    """
    embedding_parameters = vocab * hidden
    return embedding_parameters


@dimensions("count", hidden="count", query_heads="count", kv_heads="count", key_dim="count", value_dim="count")
def attention_parameters(*, hidden, query_heads, kv_heads, key_dim, value_dim):
    """Parameters of one layer's query, key, value and output projections.

    Each query head has a query as wide as a key, and a slice of the output projection as wide as a
    value; each KV head has a key and a value. So both kinds of head cost the same.

    Parameters
    ----------
    hidden : int
        Width of the hidden state.
    query_heads, kv_heads : int
        Heads in the layer.
    key_dim, value_dim : int
        Elements in one head's key and value.

    Returns
    -------
    int

    Notes
    -----
    Biases, norms on queries and keys, and sinks come on top; `count` adds them.

    Examples
    --------
    >>> attention_parameters(hidden=8192, query_heads=64, kv_heads=8, key_dim=128, value_dim=128)
    150994944
    """
    attention_parameters = hidden * (query_heads + kv_heads) * (key_dim + value_dim)
    return attention_parameters


@dimensions(
    "count",
    hidden="count",
    query_heads="count",
    latent_dim="count",
    rope_dim="count",
    nope_dim="count",
    value_dim="count",
)
def latent_attention_parameters(*, hidden, query_heads, latent_dim, rope_dim, nope_dim, value_dim):
    """Parameters of one latent-attention layer on the side of keys, values and output.

    The hidden state is compressed to the latent and a rotary key; every head expands the latent to its
    key and value; the values of all heads go back to the hidden state.

    Parameters
    ----------
    hidden : int
        Width of the hidden state.
    query_heads : int
        Heads in the layer.
    latent_dim, rope_dim : int
        Elements of the latent and of the shared rotary key.
    nope_dim, value_dim : int
        Elements of one head's key without position, and of its value.

    Returns
    -------
    int

    Notes
    -----
    Queries (`latent_query_parameters`), norms and biases come on top; `count` adds them.

    Examples
    --------
    DeepSeek-V3's layer:

    >>> latent_attention_parameters(
    ...     hidden=7168, query_heads=128, latent_dim=512, rope_dim=64, nope_dim=128, value_dim=128)
    138346496
    """
    down = hidden * (latent_dim + rope_dim)
    up = latent_dim * query_heads * (nope_dim + value_dim)
    latent_attention_parameters = down + up + query_heads * value_dim * hidden
    return latent_attention_parameters


@dimensions("count", hidden="count", query_heads="count", query_rank="count", rope_dim="count", nope_dim="count")
def latent_query_parameters(*, hidden, query_heads, query_rank, rope_dim, nope_dim):
    """Parameters of one latent-attention layer's queries, compressed and expanded again.

    Parameters
    ----------
    hidden : int
        Width of the hidden state.
    query_heads : int
        Heads in the layer.
    query_rank : int
        Width the query is compressed to.
    rope_dim, nope_dim : int
        Elements of one head's query with and without position.

    Returns
    -------
    int

    Notes
    -----
    Without compression the expansion alone remains, straight from the hidden state; `count` knows.

    Examples
    --------
    >>> latent_query_parameters(hidden=7168, query_heads=128, query_rank=1536, rope_dim=64, nope_dim=128)
    48758784
    """
    latent_query_parameters = query_rank * (hidden + query_heads * (rope_dim + nope_dim))
    return latent_query_parameters


@dimensions("count", hidden="count", query_rank="count", index_heads="count", index_dim="count")
def indexer_parameters(*, hidden, query_rank, index_heads, index_dim):
    """Parameters of one layer's indexer, which picks the positions that a sparse attention looks at.

    Its heads' queries come from the compressed query; they share one key, with a norm of scale and shift; and the
    hidden state gives each head a weight.

    Parameters
    ----------
    hidden : int
        Width of the hidden state.
    query_rank : int
        Width the query is compressed to.
    index_heads, index_dim : int
        Heads of the indexer, and elements of a query and of the key.

    Returns
    -------
    int

    Examples
    --------
    DeepSeek-V3.2's layer:

    >>> indexer_parameters(hidden=7168, query_rank=1536, index_heads=64, index_dim=128)
    13959424
    """
    queries = query_rank * index_heads * index_dim
    key = hidden * index_dim + 2 * index_dim
    indexer_parameters = queries + key + hidden * index_heads
    return indexer_parameters


@dimensions("count", hidden="count", entry_dim="count", overlap="count", run="count")
def compressor_parameters(*, hidden, entry_dim, overlap, run):
    """Parameters of one compressor, which makes one entry of the cache out of a run of positions.

    Every position has an entry of its own and a weight for each of its elements; a bias says how much each place in
    the run counts; the weighted sum goes through a norm.

    Parameters
    ----------
    hidden : int
        Width of the hidden state.
    entry_dim : int
        Elements of an entry.
    overlap : int
        Runs that an entry is made from: 1, or 2 where neighbors overlap.
    run : int
        Positions in a run.

    Returns
    -------
    int

    References
    ----------
    transformers 5.24.0, ``deepseek_v4``: ``DeepseekV4HCACompressor``, ``DeepseekV4CSACompressor``.

    Examples
    --------
    DeepSeek-V4-Flash, one entry for every 4 positions:

    >>> compressor_parameters(hidden=4096, entry_dim=512, overlap=2, run=4)
    8393216
    """
    compressor_parameters = overlap * entry_dim * (2 * hidden + run) + entry_dim
    return compressor_parameters


@dimensions("count", hidden="count", streams="count")
def hyper_connection_parameters(*, hidden, streams):
    """Parameters of the hyper-connection around one block.

    All streams together decide how they are gathered for the block, how its output is spread over them again, and
    how they mix: with a bias for each of these weights and a scale for each of the three kinds.

    Parameters
    ----------
    hidden : int
        Width of one stream.
    streams : int
        Residual streams.

    Returns
    -------
    int

    Notes
    -----
    A layer has two of them. Before the output layer the streams are gathered once more, without spreading or mixing:
    `count` adds it.

    References
    ----------
    transformers 5.24.0, ``deepseek_v4``: ``DeepseekV4HyperConnection``.

    Examples
    --------
    >>> hyper_connection_parameters(hidden=4096, streams=4)
    393243
    """
    mixes = streams * (2 + streams)
    hyper_connection_parameters = mixes * (streams * hidden + 1) + 3
    return hyper_connection_parameters


@dimensions("count", hidden="count", intermediate="count", matrices="count")
def mlp_parameters(*, hidden, intermediate, matrices=3):
    """Parameters of one feed-forward network, or of one expert.

    Parameters
    ----------
    hidden : int
        Width of the hidden state.
    intermediate : int
        Width between the projections.
    matrices : int
        3 for a gated network (gate, up, down), 2 for a plain one.

    Returns
    -------
    int

    Examples
    --------
    >>> mlp_parameters(hidden=8192, intermediate=28672)
    704643072
    """
    mlp_parameters = matrices * hidden * intermediate
    return mlp_parameters


# --- a model -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterCount:
    """A model's parameters by tensor group.

    Attributes
    ----------
    embedding : int
        The input embedding; the output layer too where it is tied.
    positions : int
        Learned positions.
    attention : int
        Everything inside the attention: projections, their biases, norms on queries, keys and latents,
        sinks.
    indexer : int
        What picks the positions that a sparse attention looks at, a compressor of its own included.
    compressor : int
        What makes one latent out of many positions.
    recurrent : int
        Recurrent layers: projections, convolution, gates and inner norm.
    mlp : int
        Feed-forward networks that every token goes through, shared experts not included.
    routed_experts : int
        All routed experts.
    shared_experts : int
        Experts every token goes through, with their gate.
    router : int
        What picks the experts. Buffers that only steer the choice (``e_score_correction_bias``) aren't
        parameters.
    norms : int
        Norm weights outside the attention, the last norm included.
    hyper_connections : int
        What gathers, spreads and mixes the residual streams.
    lm_head : int
        The output layer, its bias included; 0 where it is tied to the embedding.
    resting_experts : int
        Parameters of the routed experts that one token doesn't go through.
    """

    embedding: int = 0
    positions: int = 0
    attention: int = 0
    indexer: int = 0
    compressor: int = 0
    recurrent: int = 0
    mlp: int = 0
    routed_experts: int = 0
    shared_experts: int = 0
    router: int = 0
    norms: int = 0
    hyper_connections: int = 0
    lm_head: int = 0
    resting_experts: int = 0

    @property
    def groups(self) -> dict[str, int]:
        """The groups that aren't empty, by name; they sum to `total`."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "resting_experts"}
        return {name: size for name, size in named.items() if size}

    @property
    def total(self) -> int:
        """All parameters."""
        return sum(self.groups.values())

    @property
    def active(self) -> int:
        """Parameters that take part in one token, the embedding included, as in the name Qwen1.5-MoE-A2.7B."""
        return self.total - self.resting_experts

    @property
    def active_excluding_embedding(self) -> int:
        """Parameters that one token is multiplied with, as in gpt-oss-120b's 5.1 billion.

        Looking up a row of the embedding, or of the positions, multiplies nothing. Where the embedding is
        tied, the output layer multiplies the whole matrix, and it stays in.
        """
        return self.active - self.positions - (self.embedding if self.lm_head else 0)

    def _repr_html_(self) -> str:
        rows = [(name.replace("_", " "), size) for name, size in self.groups.items()]
        rows += [("total", self.total)] + [("active per token", self.active)] * bool(self.resting_experts)
        body = "".join(f"<tr><th>{name}</th><td>{format_count(size)}</td></tr>" for name, size in rows)
        return f'<table class="calc-table"><tbody>{body}</tbody></table>'


@functools.lru_cache(maxsize=512)
def count(model: ModelGeometry) -> ParameterCount:
    """Count a model's parameters, to the last one.

    Parameters
    ----------
    model : ModelGeometry
        From `calc.models.load` or ``ModelGeometry.from_config``.

    Returns
    -------
    ParameterCount

    Raises
    ------
    CalcError
        If a layer is of a kind whose parameters the library doesn't count.

    Notes
    -----
    Counts the language model as transformers builds it. Layers for multi-token prediction, vision parts
    and quantization scales, which a checkpoint may hold besides, aren't counted: DeepSeek-V3's files hold
    685 billion, 14 of them for prediction.

    Examples
    --------
    >>> from calc.models import load
    >>> count(load("llama-3.1-70b")).total
    70553706496
    >>> mixture = count(load("qwen3-30b-a3b"))
    >>> mixture.total, mixture.active
    (30532122624, 3353032704)
    """
    table = embedding_parameters(vocab=model.vocab, hidden=model.hidden)
    head = model.head_bias * model.vocab + (0 if model.tied_embeddings else table)
    sums = Counter(embedding=table, lm_head=head, norms=model.final_norms * model.hidden)
    sums["positions"] = model.positions * model.hidden
    for times, parts in layer_counts(model):
        sums.update({group: times * size for group, size in parts.items()})
    if model.streams:
        blocks = sum((layer.mixer is not None) + (layer.mlp is not None) for layer in model.layers)
        around = hyper_connection_parameters(hidden=model.hidden, streams=model.streams)
        sums["hyper_connections"] = blocks * around + gathering_parameters(model)
    return ParameterCount(**sums)


@functools.lru_cache(maxsize=512)
def layer_counts(model: ModelGeometry) -> tuple[tuple[int, Mapping[str, int]], ...]:
    """How many layers of each kind a model has, and the parameters of one of them by tensor group.

    Parameters
    ----------
    model : ModelGeometry

    Returns
    -------
    tuple of (int, Mapping)
        The groups are the fields of `ParameterCount`.

    Raises
    ------
    CalcError
        As `count`.

    Examples
    --------
    >>> from calc.models import load
    >>> layer_counts(load("llama-3.1-70b"))
    ((80, mappingproxy({'norms': 16384, 'attention': 150994944, 'mlp': 704643072})),)
    """
    found = []
    for layer, times in Counter(model.layers).items():
        parts = Counter(norms=layer.norms * model.hidden)
        parts.update(_mixer(model, layer.mixer))
        parts.update(_feed_forward(model.hidden, layer.mlp))
        found.append((times, MappingProxyType(dict(parts))))
    return tuple(found)


def gathering_parameters(model: ModelGeometry) -> int:
    """Parameters of what gathers the residual streams before the output layer; 0 where there are none."""
    return model.streams * (model.streams * model.hidden + 1) + 1 if model.streams else 0


def _mixer(model: ModelGeometry, mixer: object) -> dict[str, int]:
    match mixer:
        case None:
            return {}
        case IndexedAttention():  # queries and a key, and a norm for each
            index = (mixer.index_heads + 1) * mixer.index_dim * model.hidden + 2 * mixer.index_dim
            return {"attention": _attention(model.hidden, mixer), "indexer": index}
        case FullAttention():
            return {"attention": _attention(model.hidden, mixer)}
        case LatentWindowAttention():
            return {"attention": _latent_window(model.hidden, mixer), **_compressed(model.hidden, mixer)}
        case IndexedLatentAttention():
            own = indexer_parameters(
                hidden=model.hidden,
                query_rank=mixer.query_rank,
                index_heads=mixer.index_heads,
                index_dim=mixer.index_dim,
            )
            return {"attention": _latent_attention(model.hidden, mixer), "indexer": mixer.own_index * own}
        case LatentAttention():
            return {"attention": _latent_attention(model.hidden, mixer)}
        case GatedDeltaNet():
            return {"recurrent": _delta_net(model.hidden, mixer)}
        case Mamba2():
            return {"recurrent": _mamba2(model.hidden, mixer)}
    raise CalcError(f"{model.name}: the parameters of a layer of type {type(mixer).__name__} are not counted")


def _attention(hidden: int, a: FullAttention) -> int:
    queries, keys, values = a.query_heads * a.key_dim, a.kv_heads * a.key_dim, a.kv_heads * a.value_dim
    projections = attention_parameters(
        hidden=hidden, query_heads=a.query_heads, kv_heads=a.kv_heads, key_dim=a.key_dim, value_dim=a.value_dim
    )
    projections += a.output_gate * hidden * queries - a.values_are_keys * hidden * values
    biases = a.qkv_bias * ((1 + a.output_gate) * queries + keys + values) + a.output_bias * hidden
    norms = {"none": 0, "head": 2 * a.key_dim, "full": queries + keys}[a.qk_norm]
    return projections + biases + norms + a.sinks * a.query_heads


def _latent_attention(hidden: int, a: LatentAttention) -> int:
    sizes = {"hidden": hidden, "query_heads": a.query_heads, "rope_dim": a.rope_dim, "nope_dim": a.nope_dim}
    if a.query_rank is None:
        queries = hidden * a.query_heads * (a.rope_dim + a.nope_dim)
    else:
        queries = latent_query_parameters(**sizes, query_rank=a.query_rank) + a.query_rank  # and its norm
    latents = latent_attention_parameters(**sizes, latent_dim=a.latent_dim, value_dim=a.value_dim) + a.latent_dim
    return queries + latents + a.bias * ((a.query_rank or 0) + a.latent_dim + a.rope_dim + hidden)


def _latent_window(hidden: int, a: LatentWindowAttention) -> int:
    queries = a.query_rank * (hidden + a.query_heads * a.latent_dim) + a.query_rank  # and its norm
    latent = hidden * a.latent_dim + a.latent_dim
    output = a.output_heads * a.latent_dim * a.output_dim + a.output_dim * hidden
    return queries + latent + output + a.query_heads  # and sinks


def _compressed(hidden: int, a: LatentWindowAttention) -> dict[str, int]:
    if not isinstance(a, CompressedAttention):
        return {}
    runs = {"hidden": hidden, "overlap": a.overlap, "run": a.ratio}
    index = 0
    if a.index_heads:
        index = compressor_parameters(**runs, entry_dim=a.index_dim)
        index += a.index_heads * (a.query_rank * a.index_dim + hidden)  # queries, and a weight for each head
    return {"compressor": compressor_parameters(**runs, entry_dim=a.latent_dim), "indexer": index}


def _delta_net(hidden: int, d: GatedDeltaNet) -> int:
    values = d.value_heads * d.value_dim
    into = hidden * (d.channels + values + 2 * d.value_heads)  # queries, keys, values; a gate; decay and step
    return into + d.conv_kernel * d.channels + 2 * d.value_heads + d.value_dim + values * hidden


def _mamba2(hidden: int, m: Mamba2) -> int:
    into, out = m.inner + m.channels + m.heads, m.inner * hidden  # a gate; the convolution's input; the step
    convolution = (m.conv_kernel + m.conv_bias) * m.channels
    return hidden * into + convolution + 3 * m.heads + m.inner + out + m.bias * (into + hidden)


def _feed_forward(hidden: int, mlp: DenseMLP | MixtureOfExperts | None) -> dict[str, int]:
    if mlp is None:
        return {}
    matrices = 3 if mlp.gated else 2
    if isinstance(mlp, DenseMLP):
        biases = mlp.bias * ((matrices - 1) * mlp.intermediate + hidden)
        return {"mlp": mlp_parameters(hidden=hidden, intermediate=mlp.intermediate, matrices=matrices) + biases}
    width = mlp.latent_dim or hidden
    expert = mlp_parameters(hidden=width, intermediate=mlp.expert_intermediate, matrices=matrices)
    expert += mlp.expert_bias * ((matrices - 1) * mlp.expert_intermediate + hidden)
    shared = mlp_parameters(hidden=hidden, intermediate=mlp.shared_intermediate, matrices=matrices)
    beside = mlp_parameters(hidden=hidden, intermediate=mlp.dense_intermediate, matrices=matrices)
    return {
        "mlp": beside + 2 * hidden * mlp.latent_dim,
        "routed_experts": mlp.experts * expert,
        "resting_experts": (mlp.experts - mlp.experts_per_token) * expert,
        "shared_experts": shared + mlp.shared_gate * hidden,
        "router": mlp.experts * (hidden + mlp.router_bias) + mlp.scaled_router * (hidden + mlp.experts),
    }
