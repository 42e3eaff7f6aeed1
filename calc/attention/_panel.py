"""The live panel of the chapter on attention variants."""

from __future__ import annotations

from collections.abc import Callable

from calc.attention._formulas import copies
from calc.attention._variants import KINDS, main_mixer, multi_head, sharing, with_kv_heads
from calc.hardware import accelerator
from calc.kv_cache import ON_RANK, formula_of, layout, resident_bytes, resident_positions
from calc.models import LatentAttention, ModelGeometry, RecurrentState, load
from calc.panel import Panel, Row
from calc.roofline import compute_share, flop_of, intensity_of, machine_balance
from calc.units import (
    CalcError,
    counted,
    format_bytes,
    format_count,
    format_decimal,
    format_percent,
    plain,
    significant,
)
from calc.working import working

HEADS = ("as published", "one KV head for each query head", "one KV head for all")


def attention_panel(
    *, model: str, heads: str, element: str, positions: int, ranks: int, accelerator_slug: str
) -> Panel:
    """Panel of the chapter on attention variants: bytes and copies on a rank, arithmetic for each byte.

    Parameters
    ----------
    model : str
        A slug of the catalogue.
    heads : str
        One of "as published", "one KV head for each query head" (a latent is expanded), "one KV head for all".
    element : str
        A key of `calc.kv_cache.ELEMENTS`.
    positions : int
        Positions held, and read by the next token.
    ranks : int
        Tensor-parallel ranks.
    accelerator_slug : str
        A slug of `calc.hardware.accelerators`.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If the inputs are impossible together.
    """
    geometry = _with_heads(load(model), heads)
    positions = plain("attention_panel", "positions", positions, "count>0")
    whole, rank = (layout(geometry, element=element, ranks=n) for n in (1, ranks))
    kinds = [(mixer, layers) for mixer, layers in geometry.kinds() if not isinstance(mixer, RecurrentState | None)]
    mixer = main_mixer(geometry, latent=isinstance(kinds[0][0], LatentAttention))
    chip = accelerator(accelerator_slug)
    balance = machine_balance(peak=chip.peak("bf16").value, bandwidth=chip.bandwidth.value)
    intensity = _call(intensity_of(mixer, element=element, ranks=ranks))
    copied = copies(ranks=ranks, rank_bytes=rank.bytes_per_position, bytes_per_position=whole.bytes_per_position)
    flop = sum(layers * _call(flop_of(m, positions=_read(m, positions), ranks=ranks)) for m, layers in kinds)
    each = "" if ranks == 1 else f", each of {ranks} ranks"
    shared = [
        Row(f"One position{each}", format_bytes(rank.bytes_per_position), keep=True),
        Row("Times that the ranks together store the cache", f"{significant(copied)}×"),
    ] * (ranks > 1)
    rows = (
        Row("One position, all layers", format_bytes(whole.bytes_per_position), keep=ranks == 1),
        *shared,
        Row(f"The sequence{each}", format_bytes(resident_bytes(rank, positions=positions))),
        Row(f"Attention arithmetic of the next token{each}", format_decimal(flop, "FLOP")),
        Row(f"Arithmetic intensity of attention{each}", format_decimal(intensity, "FLOP/B"), keep=True),
        Row(f"What {chip.name} does while it reads a byte", format_decimal(balance, "FLOP/B")),
    )
    names = ON_RANK if ranks > 1 else None
    lines = [
        (counted(layers, f"{m.kind} layer"), formula_of(m, layers=layers, element=element, ranks=ranks))
        for m, layers in kinds
    ]
    lines.append(("Attention", intensity_of(mixer, element=element, ranks=ranks)))
    text = tuple(f"{what}{each}: {working(formula, names=names, **numbers).text}" for what, (formula, numbers) in lines)
    meaning = f"{_kind(mixer)} {_meaning(intensity, balance)}"
    if geometry.max_positions and positions > geometry.max_positions:
        meaning += f" {geometry.name} was made for {format_count(geometry.max_positions)} positions; this is more."
    return Panel(rows, text, meaning, _LEFT_OUT)


def _call(formula: tuple[Callable, dict]) -> float:
    function, arguments = formula
    return function(**arguments)


def _with_heads(model: ModelGeometry, heads: str) -> ModelGeometry:
    if heads not in HEADS:
        raise CalcError(f"heads is {heads!r:.60}: use one of {', '.join(HEADS)}")
    if heads == HEADS[0]:
        return model
    if heads == HEADS[1]:
        return multi_head(model)
    if any(isinstance(layer.mixer, LatentAttention) for layer in model.layers):
        raise CalcError(f"{model.name}'s latent already serves all heads: choose {HEADS[0]!r} or {HEADS[1]!r}")
    return with_kv_heads(model, 1)


def _read(mixer: object, positions: int) -> int:
    """Positions that the next token reads in a layer."""
    window = getattr(mixer, "window", None)
    return positions if window is None else resident_positions(positions=positions, window=window)


def _kind(mixer: object) -> str:
    kind = sharing(mixer)
    shared = "one latent" if kind == "MLA" else counted(mixer.kv_heads, "KV head")
    asked = counted(mixer.query_heads, "query head")
    return f"{KINDS[kind].capitalize()}: {asked} and {shared} in a layer."


def _meaning(intensity: float, balance: float) -> str:
    share = compute_share(intensity=intensity, balance=balance)
    if share == 1:
        return "Decode attention is limited by arithmetic here, not by reading the cache."
    return (
        "Decode attention waits for memory: while it reads its cache it can use at most "
        f"{format_percent(share)} of the chip's arithmetic."
    )


_LEFT_OUT = (
    "Projections and feed-forward layers, whose weights a batch shares; softmax; the query and the output; positions "
    "split among ranks; kernels that read a shared byte twice. Arithmetic is taken to run in bf16, whatever the cache "
    "stores. A latent is taken with its projections absorbed."
)
