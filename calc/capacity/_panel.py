"""The live panel of the cache-budget chapter."""

from __future__ import annotations

from calc import hardware, kv_cache
from calc.capacity._formulas import pool_blocks, pool_bytes, tensor_bytes
from calc.capacity._plan import plan
from calc.models import load
from calc.panel import Panel, Row
from calc.parallel import Parallel
from calc.units import UNITS, CalcError, counted, format_bytes, format_count, format_percent, plain
from calc.working import working

WEIGHTS = {"bf16": 2.0, "fp8": 1.0, "int4": 0.5}  # bytes per parameter, without scales


def capacity_panel(
    *,
    model: str,
    accelerator: str,
    tensor: int,
    pipeline: int,
    percent: float,
    weights: str,
    element: str,
    workspace_gib: float,
    sequences: int,
    prompt: int,
    output: int,
) -> Panel:
    """Panel of the chapter: the budget of the limiting rank, and the requests that follow from it.

    Parameters
    ----------
    model, accelerator : str
        Slugs of the catalogues.
    tensor, pipeline : int
        Tensor-parallel ranks and pipeline stages.
    percent : float
        Share of the GPU that the engine may use, in percent.
    weights : str
        A key of `WEIGHTS`.
    element : str
        How the cache is stored: a key of `calc.kv_cache.ELEMENTS`.
    workspace_gib : float
        Activations, graphs and communication buffers on each GPU, without logits, GiB.
    sequences : int
        Sequences whose next token is sampled in one step: their logits are on the last stage.
    prompt, output : int
        Prompt tokens, and tokens of the whole response.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If the inputs are impossible together.
    """
    if not 0 < percent <= 100:
        raise CalcError(f"percent is {percent:g}, wanted above 0 and at most 100")
    if weights not in WEIGHTS:
        raise CalcError(f"weights is {weights!r:.40}, wanted one of {', '.join(WEIGHTS)}")
    plain("capacity_panel", "sequences", sequences, "count")
    plain("capacity_panel", "workspace_gib", workspace_gib, "")
    for name, value in (("prompt", prompt), ("output", output)):
        plain("capacity_panel", name, value, "count>0")
    geometry, chip = load(model), hardware.accelerator(accelerator)
    total = chip.program_bytes.value
    parallel = Parallel(tensor=tensor, pipeline=pipeline)
    workspace = workspace_gib * UNITS["GiB"].factor
    budget = plan(
        geometry,
        parallel,
        total_bytes=total,
        fraction=percent / 100,
        weight_element_bytes=WEIGHTS[weights],
        element=element,
        activation_bytes=workspace,
        logits_bytes=tensor_bytes(rows=sequences, width=geometry.vocab, element_bytes=4),
    )
    rank = budget.limiting
    start = kv_cache.positions_written(prompt=prompt, generated=1)
    end = kv_cache.positions_written(prompt=prompt, generated=output)
    now, finish = (budget.requests(length=n, in_flight=1) for n in (start, end))
    where = f" (stage {rank.stage + 1} of {pipeline})" if pipeline > 1 else ""
    rows = (
        Row("Each GPU may use", format_bytes(rank.usable_bytes)),
        Row(f"Weights on the limiting rank{where}", format_bytes(rank.weight_bytes)),
        Row("What runs beside them, logits included", format_bytes(rank.activation_bytes)),
        Row("Its pool for the cache", format_bytes(rank.pool_bytes), keep=True),
        Row("Blocks that every rank has", format_count(budget.blocks)),
        Row("Stranded on the other ranks", format_bytes(sum(r.stranded_bytes for r in budget.ranks if not r.limits))),
        Row("Such requests, counted by their prompts", format_count(now)),
        Row("… counted with room to finish", format_count(finish), keep=True),
    )
    lines = (
        working(
            pool_bytes,
            total_bytes=total,
            fraction=percent / 100,
            weight_bytes=rank.weight_bytes,
            activation_bytes=rank.activation_bytes,
            graph_bytes=0,
            communication_bytes=0,
        ).text,
        working(pool_blocks, pool_bytes=rank.pool_bytes, block_bytes=rank.block_bytes).text,
        working(kv_cache.positions_written, prompt=prompt, generated=output).text,
    )
    many = parallel.gpus > 1
    share = format_percent(rank.pool_bytes / total, 2)
    meaning = (
        f"{f'Each of {parallel.gpus} GPUs' if many else 'The GPU'} keeps about {share} of its memory for the cache. "
    )
    meaning += (
        "Not one such request fits, not even by its prompt."
        if not now
        else f"Prompts alone would admit {counted(now, 'such request')}; {format_count(finish) if finish else 'none'} "
        f"{'is' if finish == 1 else 'are'} sure to finish."
        if now != finish
        else f"That is {counted(finish, 'such request')}, by prompts and to the end."
    )
    return Panel(rows, lines, meaning, _LEFT_OUT)


_LEFT_OUT = (
    "Quantization scales, and groups that stay unquantized; blocks shared between requests; a GPU that something else "
    "uses too. And time: whether so many requests are served fast enough is another question."
)
