"""The vocabulary of a decoder: what mixes positions in a layer, what follows it, and the layer itself.

A model is a sequence of layers, each described by kind, so that a model may alternate kinds freely.
A kind that is new to the library becomes one more class here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class FullAttention:
    """Attention over all earlier positions, with grouped key-value heads.

    Attributes
    ----------
    query_heads, kv_heads : int
        Heads in the layer. Each KV head serves ``query_heads / kv_heads`` query heads.
    key_dim, value_dim : int
        Elements in one head's key (and query) and in its value.
    qkv_bias, output_bias : bool
        Whether the query, key and value projections, and the output projection, add a bias.
    qk_norm : str
        "none", "head" (one norm weight per element of a head, shared by the heads) or "full" (one per
        element of all heads).
    sinks : bool
        Whether each query head learns a sink logit.
    output_gate : bool
        Whether the query projection is twice as wide, its second half gating the heads' output.
    values_are_keys : bool
        Whether one projection gives keys and values. Both are cached all the same.
    """

    kind: ClassVar[str] = "full"

    query_heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: str = "none"
    sinks: bool = False
    output_gate: bool = False
    values_are_keys: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAttention(FullAttention):
    """Attention over the last `window` positions, the current one included.

    Attributes
    ----------
    window : int
        Positions that stay resident, as engines count them: ``sliding_window`` of the configuration.
    """

    kind: ClassVar[str] = "window"

    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkAttention(WindowAttention):
    """Attention within chunks: the sequence is cut every `window` positions, and no position sees across a cut.

    Between one position and a whole chunk stays resident; counted is what the longest needs.
    """

    kind: ClassVar[str] = "chunk"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedAttention(FullAttention):
    """Attention over the blocks of positions that an indexer picks, which keeps a cache of its own keys.

    Attributes
    ----------
    index_heads, index_dim : int
        Heads of the indexer, and elements of a query of each and of the one key that they share.
    index_block : int
        Positions in a block.
    picked : int
        Positions in the blocks that it picks for a token, its own among them; of a shorter sequence all are read.
    """

    kind: ClassVar[str] = "sparse"

    index_heads: int
    index_dim: int
    index_block: int
    picked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (MLA): the cache holds one latent vector and one rotary key for all heads.

    Attributes
    ----------
    query_heads : int
        Heads. Keys and values are expanded from the latent for each of them.
    query_rank : int or None
        Width the query is compressed to; None where it isn't compressed.
    latent_dim, rope_dim : int
        Cached elements per position: the latent vector and the shared rotary key.
    nope_dim, value_dim : int
        Elements of one head's key without position, and of its value.
    bias : bool
        Whether the projections into the latents and out of the heads add a bias.
    """

    kind: ClassVar[str] = "latent"

    query_heads: int
    query_rank: int | None
    latent_dim: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    bias: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedLatentAttention(LatentAttention):
    """Latent attention over the positions that an indexer picks, which keeps a cache of its own keys.

    Attributes
    ----------
    index_heads, index_dim : int
        Heads of the indexer, and elements of the one key that they share.
    picked : int
        Positions that it picks for a token; of a shorter sequence all are read.
    own_index : bool
        Whether this layer has the indexer; if not, it takes the positions that the layer before picked.
    """

    index_heads: int
    index_dim: int
    picked: int
    own_index: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentWindowAttention:
    """Attention over the last `window` latents, each of which is key and value for all heads at once.

    Attributes
    ----------
    query_heads : int
        Heads, all with a query as wide as the latent. Each learns a sink logit.
    query_rank : int
        Width the query is compressed to.
    latent_dim, rope_dim : int
        Elements of the latent, and those of them that carry the position.
    output_heads : int
        Heads whose outputs one group's projection takes together.
    output_dim : int
        Width of all groups' outputs, from which one more projection leads back to the hidden state.
    window : int
        Positions that stay resident, the current one included.
    """

    kind: ClassVar[str] = "latent window"

    query_heads: int
    query_rank: int
    latent_dim: int
    rope_dim: int
    output_heads: int
    output_dim: int
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedAttention(LatentWindowAttention):
    """The same, and beyond the window one latent for every `ratio` positions, made from them by a compressor.

    Attributes
    ----------
    ratio : int
        Positions for each compressed latent.
    overlap : int
        Runs of `ratio` positions that one compressed latent is made from: 1, or 2 where neighbors overlap.
    index_heads, index_dim : int
        Heads of an indexer and elements of its one key, compressed like the latent; 0 where there is no indexer.
    picked : int
        Compressed latents that the indexer picks for a token; without one all are read.
    """

    kind: ClassVar[str] = "compressed"

    ratio: int
    overlap: int = 1
    index_heads: int = 0
    index_dim: int = 0
    picked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePart:
    """One tensor of a fixed state: its elements for one sequence.

    Attributes
    ----------
    elements : int
        Elements for one sequence and layer.
    element_bytes : float or None
        Bytes of an element; None where it has the model's own type.
    """

    elements: int
    element_bytes: float | None = None


class RecurrentState:
    """What recurrent layers have in common: `parts`, a state of the same size however long the sequence is."""

    __slots__ = ()
    kind: ClassVar[str] = "state"

    @property
    def divides(self) -> tuple[int, ...]:
        """What tensor-parallel ranks must divide."""
        return tuple(part.elements for part in self.parts)

    def on_rank(self, ranks: int) -> tuple[StatePart, ...]:
        """The parts on one of so many tensor-parallel ranks."""
        return tuple(replace(part, elements=part.elements // ranks) for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedState(RecurrentState):
    """A recurrent layer of which only the state is known.

    Attributes
    ----------
    parts : tuple of StatePart
        The tensors of the state, for example the convolution's last inputs and the recurrent matrix.
    """

    parts: tuple[StatePart, ...]


FP32_BYTES = 4  # vLLM keeps the recurrent matrices in fp32 whatever the model's type


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDeltaNet(RecurrentState):
    """Linear attention by the gated delta rule: each value head keeps a matrix of key by value elements.

    Attributes
    ----------
    key_heads, value_heads : int
        Heads of queries and keys, and of values.
    key_dim, value_dim : int
        Elements of one head's key and value.
    conv_kernel : int
        Positions that the short convolution sees.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int

    @property
    def channels(self) -> int:
        """Channels of the convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def divides(self) -> tuple[int, ...]:
        """What tensor-parallel ranks must divide."""
        return (self.key_heads, self.value_heads)

    @property
    def parts(self) -> tuple[StatePart, ...]:
        """The convolution's last inputs, and the recurrent matrices."""
        matrices = self.value_heads * self.key_dim * self.value_dim
        return (
            StatePart(elements=(self.conv_kernel - 1) * self.channels),
            StatePart(elements=matrices, element_bytes=FP32_BYTES),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2(RecurrentState):
    """A state-space layer: each head keeps a matrix of head by state elements.

    Attributes
    ----------
    heads, head_dim : int
        Heads, and elements of each.
    groups : int
        Groups of heads that share input and output projections of the state.
    state_dim : int
        Elements of the state for each element of a head.
    conv_kernel : int
        Positions that the short convolution sees.
    conv_bias, bias : bool
        Whether the convolution, and the projections in and out, add a bias.
    """

    heads: int
    head_dim: int
    groups: int
    state_dim: int
    conv_kernel: int
    conv_bias: bool = True
    bias: bool = False

    @property
    def inner(self) -> int:
        """Elements of all heads."""
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        """Channels of the convolution."""
        return self.inner + 2 * self.groups * self.state_dim

    @property
    def divides(self) -> tuple[int, ...]:
        """What tensor-parallel ranks must divide; a single group is copied to all of them."""
        return (self.heads, self.groups) if self.groups > 1 else (self.heads,)

    def on_rank(self, ranks: int) -> tuple[StatePart, ...]:
        """The parts on one of so many tensor-parallel ranks."""
        groups = max(1, self.groups // ranks)
        share = replace(self, heads=self.heads // ranks, groups=groups)
        return share.parts

    @property
    def parts(self) -> tuple[StatePart, ...]:
        """The convolution's last inputs, and the recurrent matrices."""
        return (
            StatePart(elements=(self.conv_kernel - 1) * self.channels),
            StatePart(elements=self.inner * self.state_dim, element_bytes=FP32_BYTES),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseMLP:
    """A feed-forward network that every token goes through.

    Attributes
    ----------
    intermediate : int
        Width between its projections.
    gated : bool
        Three projections (gate, up, down) instead of two (up, down).
    bias : bool
        Whether its projections add a bias.
    """

    intermediate: int
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureOfExperts:
    """Feed-forward networks of which a router picks a few for each token.

    Attributes
    ----------
    experts, experts_per_token : int
        Routed experts in the layer, and those one token goes through.
    expert_intermediate : int
        Width between the projections of one routed expert.
    shared_intermediate : int
        Width of the shared expert, which every token goes through; 0 where there is none. Several shared
        experts count as one of their joint width.
    shared_gate : bool
        Whether a learned gate scales the shared expert's output.
    router_bias, expert_bias : bool
        Whether the router, and each routed expert's projections, add a bias.
    gated : bool
        Three projections per expert instead of two.
    dense_intermediate : int
        Width of a dense network beside the experts, which every token goes through; 0 where there is none.
    scaled_router : bool
        Whether the router has a scale for each input and each expert.
    latent_dim : int
        Width that the routed experts work at, between two projections that all of them share; 0 for the hidden size.
    """

    experts: int
    experts_per_token: int
    expert_intermediate: int
    shared_intermediate: int = 0
    shared_gate: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    gated: bool = True
    dense_intermediate: int = 0
    scaled_router: bool = False
    latent_dim: int = 0


Mixer = FullAttention | LatentAttention | LatentWindowAttention | RecurrentState | None
FeedForward = DenseMLP | MixtureOfExperts | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer of a decoder.

    Attributes
    ----------
    mixer : FullAttention, LatentAttention, LatentWindowAttention, a kind of these, a recurrent state or None
        What lets a position see earlier ones; None in a layer that has nothing of the kind.
    mlp : DenseMLP, MixtureOfExperts or None
        What follows it, position by position.
    norms : int
        Norm weights as wide as the hidden state, those inside the mixer not counted.
    """

    mixer: Mixer
    mlp: FeedForward
    norms: int
