"""The live panel of the quantization chapter."""

from __future__ import annotations

from calc.hardware import accelerator as chip_of
from calc.kv_cache import layout, positions_that_fit, resident_bytes
from calc.models import load
from calc.panel import Panel, Row
from calc.quantization._choice import ORIGINAL, support
from calc.quantization._formulas import effective_bits
from calc.quantization._schemes import scheme, stored
from calc.quantization._steps import crossover, step
from calc.roofline import read_seconds
from calc.units import UNITS, CalcError, format_bytes, format_count, format_seconds, plain, significant
from calc.working import working


def quantization_panel(
    *,
    model: str,
    weights: str,
    cache: str,
    accelerator: str,
    engine: str,
    ranks: int,
    sequences: int,
    positions: int,
    usable_gib: float,
) -> Panel:
    """Panel of the quantization chapter: bytes, arithmetic and cache of one scheme, beside bf16.

    Parameters
    ----------
    model : str
        A slug of the catalogue.
    weights : str
        One of `schemes`.
    cache : str
        A key of `calc.kv_cache.ELEMENTS`.
    accelerator : str
        A slug of `calc.hardware`.
    engine : str
        One of `engines`.
    ranks : int
        Tensor-parallel ranks.
    sequences, positions : int
        Sequences that decode together, and positions that each of them holds.
    usable_gib : float
        Memory for weights and cache on each GPU, GiB.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If the inputs are impossible together.
    """
    geometry, chip, how = load(model), chip_of(accelerator), scheme(weights)
    runs = support(weights, chip, engine)
    if runs.multiplies is None:
        raise CalcError(f"{how.name} on {chip.name}: {runs.why}. Choose another scheme, chip or engine")
    sequences = plain("quantization_panel", "sequences", sequences, "count>0")
    positions = plain("quantization_panel", "positions", positions, "count>0")
    usable = plain("quantization_panel", "usable_gib", usable_gib, ">0") * UNITS["GiB"].factor
    held, original = stored(geometry, weights), stored(geometry, ORIGINAL)
    cached = layout(geometry, element=cache, ranks=ranks)
    share = held.total_bytes / ranks
    left = max(usable - share, 0)
    wanted = sequences * resident_bytes(cached, positions=positions)
    now = step(geometry, held, chip, runs.multiplies, ranks=ranks, step_tokens=sequences)
    before = step(geometry, original, chip, ORIGINAL, ranks=ranks, step_tokens=sequences)
    cross = crossover(geometry, held, chip, runs.multiplies, ranks=ranks)
    level = crossover(geometry, original, chip, ORIGINAL, ranks=ranks)
    where = "" if ranks == 1 else f", each of {ranks} ranks"
    fit = positions_that_fit(memory_bytes=left, bytes_per_position=cached.bytes_per_position)
    rows = (
        Row(f"Weights{where}", format_bytes(share), keep=True),
        Row("… and in bf16", format_bytes(original.total_bytes / ranks)),
        Row("Stored bits per parameter of the whole model", significant(held.bits_per_weight, 4)),
        Row("Multiplied as", runs.multiplies),
        Row("Tokens in a step that wait for arithmetic, from", format_count(cross), keep=True),
        Row("… and bf16 from", format_count(level)),
        Row("Least time of a step, weights alone", format_seconds(now.floor_s)),
        Row("… times as fast as bf16, at best", f"{significant(before.floor_s / now.floor_s, 3)}×"),
        Row("Cache of these sequences", format_bytes(wanted)),
        Row("Positions that fit beside the weights", format_count(fit)),
    )
    lines = [working(read_seconds, weight_bytes=round(now.read_bytes), bandwidth=chip.bandwidth.value).text]
    if how.scale_bits and None not in how.block:
        group = how.block[0] * how.block[1]
        bits = {"element_bits": how.bits, "scale_bits": how.scale_bits, "zero_bits": how.zero_bits}
        lines.insert(0, working(effective_bits, **bits, group=group).text)
    return Panel(rows, tuple(lines), _meaning(sequences, cross, wanted <= left), _LEFT_OUT)


def _meaning(sequences: int, cross: int, fits: bool) -> str:
    tokens = f"{format_count(sequences)} token{'' if sequences == 1 else 's'}"
    if sequences < cross:
        side = "waits for the weights, so fewer bytes would shorten it"
    else:
        side = "waits for the arithmetic, so fewer bytes would not shorten it"
    room = "The cache fits beside the weights." if fits else "The cache does not fit beside the weights."
    return f"A step of {tokens} {side}. {room}"


_LEFT_OUT = (
    "Quality, which has to be measured; the work of unpacking weights and of quantizing activations; attention and its "
    "reads of the cache; workspace and graphs; what ranks copy. Tokens are taken to pick their experts evenly."
)
