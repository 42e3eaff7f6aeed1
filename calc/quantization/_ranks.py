"""Stored bytes of the weights on one rank, tensor group by tensor group."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping

from calc.models import ModelGeometry
from calc.parallel import Parallel, model_on_rank, weights_on_rank
from calc.quantization._schemes import (
    HEAD_AND_EMBEDDING,
    KEPT_BYTES,
    Matrix,
    Scheme,
    kept_bytes,
    matches,
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
