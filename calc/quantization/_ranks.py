"""Stored bytes of the weights on one rank, tensor group by tensor group."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from calc.models import ModelGeometry
from calc.parallel import Parallel, model_on_rank, weights_on_rank
from calc.quantization._schemes import (
    HEAD_AND_EMBEDDING,
    KEPT_BYTES,
    Matrix,
    Scheme,
    kept_bytes,
    matches,
    matrices,
    scheme,
    stored_by,
)

_LAYER = re.compile(r"(?<=\.layers\.)\d+")


def rank_bytes(
    model: ModelGeometry,
    parallel: Parallel,
    how: Scheme | str,
    *,
    keeps: Iterable[str] = HEAD_AND_EMBEDDING,
    stage: int = 0,
    expert_rank: int = 0,
) -> Mapping[str, float]:
    """Bytes that one rank's weights take in a scheme, for each tensor group that it holds something of.

    Parameters
    ----------
    model : ModelGeometry
    parallel : Parallel
    how : Scheme or str
        A scheme, or its name.
    keeps : iterable of str
        Patterns of the matrices that stay in 16 bits, by their places in the whole model.
    stage, expert_rank : int
        As for `calc.parallel.weights_on_rank`.

    Returns
    -------
    dict of str to float
        The groups of `calc.parameters.ParameterCount`.

    Raises
    ------
    CalcError
        If the model can't be cut this way, or its matrices are not known.

    Notes
    -----
    A rank's slice of a matrix is stored by the scheme like a matrix of its own: blocks that a cut goes through
    count on both sides.

    Examples
    --------
    >>> from calc.models import load
    >>> one = rank_bytes(load("llama-3.1-70b"), Parallel(tensor=8), "bf16")
    >>> sum(one.values()) == 2 * 8820367360
    True
    >>> round(sum(rank_bytes(load("llama-3.1-70b"), Parallel(tensor=8), "int4-g128").values()) / 2**30, 2)
    4.6
    """
    rule = scheme(how) if isinstance(how, str) else how
    return dict(_rank_bytes(model, parallel, rule, tuple(keeps), stage, expert_rank))


@functools.lru_cache(maxsize=512)
def _rank_bytes(
    model: ModelGeometry, parallel: Parallel, rule: Scheme, patterns: tuple[str, ...], stage: int, expert_rank: int
) -> Mapping[str, float]:
    held = weights_on_rank(model, parallel, stage=stage, expert_rank=expert_rank).groups
    narrow = model_on_rank(model, parallel, stage=stage, expert_rank=expert_rank)
    if rule.element == "bf16":
        return {group: KEPT_BYTES * count for group, count in held.items()}
    first = sum(len(layers) for layers in parallel.stages(model)[:stage])

    def size(matrix: Matrix) -> Callable[[int, int], float] | None:
        path = _LAYER.sub(lambda number: str(int(number[0]) + first), matrix.path)
        return None if any(matches(p, path) for p in patterns) else rule.of(matrix).stored_bytes

    parts = {part.group: part for part in stored_by(narrow, rule.name, size).parts}
    found = {}
    for group, count in held.items():
        part = parts[group]
        found[group] = part.stored_bytes + kept_bytes(group) * (count - part.parameters)  # routers see every expert
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CutThrough:
    """A matrix whose slice on a rank ends inside a block that shares a scale.

    Attributes
    ----------
    path : str
        Its place in the model.
    side : str
        "rows" (outputs) or "columns" (inputs).
    size, block : int
        Rows or columns on a rank, and in a block.
    """

    path: str
    side: str
    size: int
    block: int


@functools.lru_cache(maxsize=512)
def cut_through(
    model: ModelGeometry, parallel: Parallel, how: Scheme, *, keeps: tuple[str, ...] = HEAD_AND_EMBEDDING
) -> CutThrough | None:
    """The first matrix that tensor parallelism cuts inside a scheme's block, which vLLM refuses to load.

    Parameters
    ----------
    model : ModelGeometry
    parallel : Parallel
    how : Scheme
    keeps : tuple of str
        Patterns of the matrices that stay in 16 bits.

    Returns
    -------
    CutThrough or None
        None where every slice is a whole number of blocks, or the engine pads it, as it does with MXFP4.

    Raises
    ------
    CalcError
        If the model can't be cut this way, or its matrices are not known.

    References
    ----------
    vllm-project/vllm issue 17569 (blocks of fp8), issue 21695 (groups of AWQ).

    Examples
    --------
    >>> from calc.models import load
    >>> found = cut_through(load("qwen3-235b-a22b"), Parallel(tensor=8), scheme("fp8-block"))
    >>> found.path, found.side, found.size, found.block
    ('model.layers.0.mlp.experts.gate_proj', 'rows', 192, 128)
    >>> cut_through(load("qwen3-235b-a22b"), Parallel(tensor=4), scheme("fp8-block")) is None
    True
    """
    if parallel.tensor == 1 or how.element == "bf16":
        return None
    whole = {matrix.path: matrix for matrix in matrices(model)}
    for slice_ in matrices(model_on_rank(model, replace(parallel, pipeline=1, layers=None))):
        matrix, rule = whole[slice_.path], how.of(slice_)
        if rule.element == "fp4" and not rule.tensor_bytes:  # MXFP4's experts are padded
            continue
        if any(matches(p, slice_.path) for p in keeps):
            continue
        for side, block in zip(("rows", "columns"), rule.block, strict=True):
            name = "output_dim" if side == "rows" else "input_dim"
            size = getattr(slice_, name)
            if block and size != getattr(matrix, name) and size % block:
                return CutThrough(path=slice_.path, side=side, size=size, block=block)
    return None
