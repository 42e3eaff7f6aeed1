"""The live panel of the roofline chapter."""

from __future__ import annotations

from calc.hardware import accelerator
from calc.models import load
from calc.panel import Panel, Row, between
from calc.roofline._floor import StepFloor, decode_crossover, step_floor
from calc.roofline._machine import floor_seconds
from calc.roofline._work import spoken, step_work
from calc.units import counted, format_bytes, format_decimal, format_seconds, plain, significant
from calc.working import working

MOST = 2**26  # sequences, tokens or positions


def roofline_panel(
    *,
    model: str,
    chip: str,
    ranks: int,
    weights: str,
    cache: str,
    sequences: int,
    new_tokens: int,
    cached_tokens: int,
) -> Panel:
    """Panel of the roofline chapter: a step's arithmetic and bytes, and the least time they take.

    Parameters
    ----------
    model, chip : str
        Slugs of the catalogues.
    ranks : int
        Tensor-parallel ranks.
    weights, cache : str
        How weights and cache are stored: "bf16", "fp8" or "int8". They are multiplied as bf16.
    sequences : int
        Sequences in the step.
    new_tokens, cached_tokens : int
        Of each sequence: 1 and its context in decode, its chunk and 0 in prefill.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If the inputs are impossible together.
    """
    for name, value, least in (
        ("sequences", sequences, 1),
        ("new_tokens", new_tokens, 1),
        ("cached_tokens", cached_tokens, 0),
    ):
        plain("roofline_panel", name, value, "count>0" if least else "count")
        between(name, value, least, MOST)
    geometry, gpu = load(model), accelerator(chip)
    stored = {"element": weights, "cache_element": cache, "ranks": ranks}
    work = step_work(geometry, sequences={(new_tokens, cached_tokens): sequences}, **stored)
    floor = step_floor(work, gpu)
    moved = work.moved_bytes()
    each = "" if ranks == 1 else f", each of {ranks} ranks"
    slowest = max(floor.groups, key=lambda group: group.seconds)
    rows = [
        Row(f"Arithmetic{each}", format_decimal(work.flop, "FLOP")),
        Row(f"Weights read{each}", format_bytes(work.weight_bytes)),
        Row(f"Cache read{each}", format_bytes(work.cache_bytes)),
        Row(f"Cache written{each}", format_bytes(work.written_bytes)),
        Row("Arithmetic intensity", format_decimal(work.intensity(), "FLOP/B"), keep=True),
        Row("What the chip does while it moves a byte", format_decimal(floor.balance, "FLOP/B")),
        Row("Least time of the step", format_seconds(floor.seconds), keep=True),
        Row("If its groups run one after another", format_seconds(floor.apart_s)),
        Row("Tokens a second at most", significant(work.tokens / floor.seconds)),
    ]
    if ranks > 1:
        rows.append(
            Row(f"Sent in {counted(work.all_reduces, 'all-reduce')}{each}", format_decimal(work.sent_bytes, "B"))
        )
    lines = working(
        floor_seconds,
        flop=round(work.flop),
        moved_bytes=round(moved),
        peak=gpu.peak("bf16").value,
        bandwidth=gpu.bandwidth.value,
    )
    return Panel(
        rows=tuple(rows),
        working=(lines.text,),
        meaning=_meaning(floor, slowest.name, decode_crossover(geometry, gpu, cached=cached_tokens, **stored)),
        leaves_out="All-reduces, activations, launches, the host, sampling, how far real kernels stay from peaks, and "
        "whether it all fits in memory. This is a floor, not a forecast.",
    )


def _meaning(floor: StepFloor, slowest: str, crossing: int | None) -> str:
    other = "memory" if floor.bound == "arithmetic" else "arithmetic"
    longest, shortest = max(floor.move_s, floor.multiply_s), min(floor.move_s, floor.multiply_s)
    meaning = (
        f"The step waits for {floor.bound}, which takes {significant(longest / shortest, 3)} times as long as {other}; "
        f"its longest part is the {spoken(slowest)}. "
    )
    if crossing is None:
        return meaning + (
            "With one new token each over the same cache, no number of sequences makes a step wait for arithmetic."
        )
    return meaning + (
        f"With one new token each over the same cache, a step waits for arithmetic from {counted(crossing, 'sequence')}"
        " on."
    )
