"""Floors of one step: which weights it reads, which it multiplies, and where the two cross."""

from __future__ import annotations

from dataclasses import dataclass

from calc import parameters
from calc.hardware import Accelerator
from calc.models import ModelGeometry
from calc.quantization._schemes import Stored
from calc.roofline import multiply_seconds, overlapped_seconds, read_seconds, share_touched
from calc.units import CalcError, plain

_MOST_TOKENS = 2**24


@dataclass(frozen=True, slots=True)
class Step:
    """One step's weights on one rank, and the floors that follow; cache, activations and the host come on top.

    Attributes
    ----------
    read_bytes : float
        Stored bytes of the weights that the step reads.
    weights : float
        Weights that each token is multiplied with.
    read_s, multiply_s : float
        Least times for the two.
    """

    read_bytes: float
    weights: float
    read_s: float
    multiply_s: float

    @property
    def floor_s(self) -> float:
        """The longer of the two."""
        return overlapped_seconds(read=self.read_s, multiply=self.multiply_s)

    @property
    def bytes_per_weight(self) -> float:
        """Stored bytes read for each weight that a token is multiplied with."""
        return self.read_bytes / self.weights


def step(
    model: ModelGeometry, held: Stored, accelerator: Accelerator, multiplies: str, *, ranks: int, step_tokens: int
) -> Step:
    """Floors of a step of a stored model on one of equal ranks.

    Parameters
    ----------
    model : ModelGeometry
    held : Stored
        The model as it is stored.
    accelerator : Accelerator
    multiplies : str
        Type in which matrices are multiplied: see `support`.
    ranks : int
        Tensor-parallel ranks; each gets an equal share.
    step_tokens : int
        Tokens in the step.

    Returns
    -------
    Step

    Raises
    ------
    CalcError
        If a count is not a positive whole number, or the chip has no peak for `multiplies`.

    Notes
    -----
    A row of the embedding, or of learned positions, for each token is next to nothing and left out. Norms are read, not
    multiplied. Tokens pick their experts evenly and independently of each other; real routers don't quite, and read
    fewer. The output layer is taken to multiply like the rest.

    Examples
    --------
    >>> from calc.hardware import accelerator
    >>> from calc.models import load
    >>> from calc.quantization import stored
    >>> llama = load("llama-3.1-70b")
    >>> one = step(llama, stored(llama, "bf16"), accelerator("h100-sxm"), "bf16", ranks=8, step_tokens=1)
    >>> round(1000 * one.read_s, 2), round(one.bytes_per_weight, 2)
    (5.19, 2.0)
    """
    ranks = plain("step", "ranks", ranks, "count>0")
    step_tokens = plain("step", "step_tokens", step_tokens, "count>0")
    touched = share_touched(model, step_tokens)
    size = 0.0
    for part in held.parts:
        if part.group == "positions" or (part.group == "embedding" and not model.tied_embeddings):
            continue  # of which a row is looked up
        size += part.stored_bytes * (touched if part.group == "routed_experts" else 1)
    counts = parameters.count(model)
    used = (counts.active_excluding_embedding - counts.norms) / ranks  # norms are read, not multiplied
    return Step(
        read_bytes=size / ranks,
        weights=used,
        read_s=read_seconds(weight_bytes=size / ranks, bandwidth=accelerator.bandwidth.value),
        multiply_s=multiply_seconds(step_tokens=step_tokens, weights=used, peak=accelerator.peak(multiplies).value),
    )


def crossover(model: ModelGeometry, held: Stored, accelerator: Accelerator, multiplies: str, *, ranks: int = 1) -> int:
    """The fewest tokens in a step for which multiplying takes at least as long as reading the weights.

    Parameters
    ----------
    model, held, accelerator, multiplies, ranks
        As for `step`.

    Returns
    -------
    int
        Tokens: `crossover_tokens` rounded up for a dense model. A mixture's comes later, for its experts
        share the tokens of a step.

    Raises
    ------
    CalcError
        As `step`.

    Examples
    --------
    >>> from calc.hardware import accelerator
    >>> from calc.models import load
    >>> from calc.quantization import stored
    >>> llama = load("llama-3.1-70b")
    >>> [crossover(llama, stored(llama, s), accelerator("a100-80gb-sxm"), "bf16") for s in ("bf16", "int4-g128")]
    [154, 42]
    """

    def waits_for_arithmetic(tokens: int) -> bool:
        found = step(model, held, accelerator, multiplies, ranks=ranks, step_tokens=tokens)
        return found.multiply_s >= found.read_s

    low, high = 0, 1
    while not waits_for_arithmetic(high):
        low, high = high, 2 * high
        if high > _MOST_TOKENS:
            raise CalcError(f"{model.name}: no crossover below {_MOST_TOKENS:,} tokens on {accelerator.name}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if waits_for_arithmetic(middle) else (middle, high)
    return high
