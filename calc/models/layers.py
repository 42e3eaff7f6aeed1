"""The vocabulary of a decoder: what mixes positions in a layer, what follows it, and the layer itself.

A model is a sequence of layers, each described by kind, so that a model may alternate kinds freely.
A kind that is new to the library becomes one more class here.
"""

from __future__ import annotations

from dataclasses import dataclass
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
class StatePart:
    """One tensor of a fixed state: its elements for one sequence.

    Attributes
    ----------
    elements : int
        Elements for one sequence and layer.
    element_bytes : float or None
        Bytes of an element; None where it follows the cache's element type.
    """

    elements: int
    element_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedState:
    """A recurrent layer: its state has the same size however long the sequence is.

    Attributes
    ----------
    parts : tuple of StatePart
        The tensors of the state, for example the convolution's last inputs and the recurrent matrix.
    """

    kind: ClassVar[str] = "state"

    parts: tuple[StatePart, ...]


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
    """

    experts: int
    experts_per_token: int
    expert_intermediate: int
    shared_intermediate: int = 0
    shared_gate: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    gated: bool = True


Mixer = FullAttention | WindowAttention | LatentAttention | FixedState | None
FeedForward = DenseMLP | MixtureOfExperts | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer of a decoder.

    Attributes
    ----------
    mixer : FullAttention, WindowAttention, LatentAttention, FixedState or None
        What lets a position see earlier ones; None in a layer that has nothing of the kind.
    mlp : DenseMLP, MixtureOfExperts or None
        What follows it, position by position.
    norms : int
        Norm weights as wide as the hidden state, those inside the mixer not counted.
    """

    mixer: Mixer
    mlp: FeedForward
    norms: int
