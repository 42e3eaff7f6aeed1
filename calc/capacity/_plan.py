"""The budget of every rank, and the rank that limits them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calc.capacity._engines import engine_pool_bytes
from calc.capacity._formulas import pool_blocks, stranded_bytes
from calc.capacity._pool import Pool, pool
from calc.models import ModelGeometry
from calc.parallel import Parallel, weights_on_rank
from calc.parameters import ParameterCount
from calc.units import CalcError, format_bytes


class NoRoom(CalcError):
    """Weights and workspace leave no room for a single block of the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBudget:
    """One rank's memory and what becomes of it.

    Attributes
    ----------
    rank, stage : int
        Its number in the replica, and its pipeline stage, both from 0.
    layers : int
        Layers it runs.
    parameters : ParameterCount
        What it holds, by tensor group.
    usable_bytes : float
        Its share of the GPU, less what something else already takes.
    weight_bytes, activation_bytes, graph_bytes, communication_bytes : float
        What goes off; the activations include the logits on the last stage.
    pool_bytes : float
        What is left for the cache.
    block_bytes : float
        One block in all its layers.
    own_blocks : int
        Blocks that its pool would hold.
    blocks : int
        Blocks that it gets to use: the fewest of all ranks.
    """

    rank: int
    stage: int
    layers: int
    parameters: ParameterCount
    usable_bytes: float
    weight_bytes: float
    activation_bytes: float
    graph_bytes: float
    communication_bytes: float
    pool_bytes: float
    block_bytes: float
    own_blocks: int
    blocks: int

    @property
    def limits(self) -> bool:
        """Whether no rank has fewer blocks."""
        return self.own_blocks == self.blocks

    @property
    def stranded_bytes(self) -> float:
        """Memory of its pool that no block uses."""
        return stranded_bytes(pool_bytes=self.pool_bytes, blocks=self.blocks, block_bytes=self.block_bytes)


@dataclass(frozen=True, slots=True)
class Plan:
    """The ranks of one replica, and what they hold together.

    Attributes
    ----------
    parallel : Parallel
    ranks : tuple of RankBudget
        Stage by stage.
    pool : Pool
        How the cache is laid out in blocks.
    """

    parallel: Parallel
    ranks: tuple[RankBudget, ...]
    pool: Pool

    @property
    def blocks(self) -> int:
        """Blocks of the replica: the fewest that any rank has."""
        return self.ranks[0].blocks

    @property
    def limiting(self) -> RankBudget:
        """The first rank that has no block to spare."""
        return next(r for r in self.ranks if r.limits)

    @property
    def stranded_bytes(self) -> float:
        """Memory of all pools that no block uses."""
        return sum(r.stranded_bytes for r in self.ranks)

    def requests(self, *, length: int, in_flight: int = 0) -> int:
        """Whole requests of a length that one replica holds at once.

        Parameters
        ----------
        length : int
            Positions of each.
        in_flight : int
            Tokens scheduled and not yet settled; only models with windows need it.
        """
        return self.blocks // self.pool.request_blocks(length=length, in_flight=in_flight)

    def tokens(self, *, length: int, in_flight: int = 0) -> int:
        """Positions that all replicas hold at once in requests of a length."""
        needed = self.pool.request_blocks(length=length, in_flight=in_flight)
        return self.parallel.data * (self.blocks * length // needed)


def plan(
    model: ModelGeometry,
    parallel: Parallel,
    *,
    total_bytes: float,
    fraction: float | None,
    engine: str = "vllm",
    weight_element_bytes: float = 2,
    weight_bytes: Mapping[int, float] | None = None,
    element: str = "bf16",
    activation_bytes: float = 0,
    logits_bytes: float = 0,
    graph_bytes: float = 0,
    communication_bytes: float = 0,
    block_tokens: int = 16,
    prefix_caching: bool = True,
    taken_bytes: Mapping[int, float] | None = None,
) -> Plan:
    """Work out every rank's budget, and the blocks that all of them have.

    Parameters
    ----------
    model : ModelGeometry
    parallel : Parallel
    total_bytes : float
        Memory of each GPU as a program sees it.
    fraction : float or None
        The engine's memory setting, above 0 and at most 1; None takes its default.
    engine : str
        One of `engines`: what the fraction is a share of.
    weight_element_bytes : float
        Bytes per parameter, all groups alike: 2 for bf16, 1 for fp8.
    weight_bytes : mapping of int to float, optional
        Rank → bytes of its weights, for those stored in several types (`calc.quantization.rank_bytes`).
    element : str
        How a cache element is stored: a key of `calc.kv_cache.ELEMENTS`.
    activation_bytes : float
        Peak of activations and workspace on every rank.
    logits_bytes : float
        What sampling adds to it on the last stage.
    graph_bytes, communication_bytes : float
        Captured graphs; communication buffers and what else the framework doesn't allocate.
    block_tokens : int
        Positions in a block.
    prefix_caching : bool
        As for `pool`.
    taken_bytes : mapping of int to float, optional
        Rank → memory that something else holds on its GPU, taken off the rank's share. What the margin beside
        the share absorbs should not be in it.

    Returns
    -------
    Plan
        Of one replica; data-parallel replicas are alike.

    Raises
    ------
    NoRoom
        If a rank has no room for a block.
    CalcError
        If the model can't be cut this way, or an argument is out of range.

    Notes
    -----
    Without `weight_bytes`, weights of one width throughout: scales, and groups that stay unquantized, are then not
    counted. What an engine does about `taken_bytes` differs: vLLM 0.32 refuses to start when
    less is free than it may use, and leaves it to the operator to lower the fraction for all ranks.

    Examples
    --------
    >>> from calc.models import load
    >>> gib = 1024**3
    >>> eight = plan(load("llama-3.1-70b"), Parallel(tensor=8), total_bytes=80 * gib, fraction=0.9)
    >>> eight.blocks, eight.tokens(length=4096)
    (91047, 1456752)
    """
    if fraction is not None and not 0 < fraction <= 1:
        raise CalcError(f"fraction is {fraction!r:.40}, wanted above 0 and at most 1")
    layout = pool(
        model, element=element, ranks=parallel.tensor, block_tokens=block_tokens, prefix_caching=prefix_caching
    )
    taken = dict(taken_bytes or {})
    known = range(parallel.tensor * parallel.pipeline)
    if strange := set(taken) - set(known):
        raise CalcError(f"taken_bytes names rank {min(strange)}: the ranks are 0 to {known[-1]}")
    drafts, start = [], 0
    stages = parallel.stages(model)
    for stage, layers in enumerate(stages):
        block = layout.block_bytes(range(start, start + len(layers)))
        start += len(layers)
        for turn in range(parallel.tensor):
            rank = stage * parallel.tensor + turn
            held = weights_on_rank(model, parallel, stage=stage, expert_rank=turn)
            claims = {
                "weight_bytes": held.total * weight_element_bytes if weight_bytes is None else weight_bytes[rank],
                "activation_bytes": activation_bytes + (logits_bytes if stage == len(stages) - 1 else 0),
                "graph_bytes": graph_bytes,
                "communication_bytes": communication_bytes,
            }
            left = engine_pool_bytes(engine, total_bytes=total_bytes, fraction=fraction, **claims) - taken.get(rank, 0)
            usable = left + sum(claims.values())
            if left < block:
                raise NoRoom(_no_room(parallel, rank, stage, usable, sum(claims.values())))
            own = int(pool_blocks(pool_bytes=left, block_bytes=block))
            facts = {"rank": rank, "stage": stage, "layers": len(layers), "parameters": held, **claims}
            drafts.append(facts | {"usable_bytes": usable, "pool_bytes": left, "block_bytes": block, "own_blocks": own})
    fewest = min(d["own_blocks"] for d in drafts)
    return Plan(parallel, tuple(RankBudget(**d, blocks=fewest) for d in drafts), layout)


def _no_room(parallel: Parallel, rank: int, stage: int, usable: float, claimed: float) -> str:
    where = f"rank {rank}" + (f" of stage {stage + 1}" if parallel.pipeline > 1 else "")
    return (
        f"{parallel}: {where} may use {format_bytes(max(usable, 0))}, and weights and workspace take "
        f"{format_bytes(claimed)}, so no room is left for a cache: use more ranks, smaller weights or a larger fraction"
    )
