"""The live panel of the KV-cache chapter."""

from __future__ import annotations

from calc.kv_cache._formulas import positions_written, resident_positions, sequences_that_fit
from calc.kv_cache._kinds import ON_RANK, formula_of
from calc.kv_cache._layout import layout, present_bytes, room_to_finish_bytes
from calc.models import RecurrentState, WindowAttention, load
from calc.panel import Panel, Row
from calc.units import UNITS, format_bytes, format_count, format_percent, plain, significant
from calc.working import exact, working


def cache_panel(
    *, model: str, prompt: int, generated: int, output: int, element: str, ranks: int, pool_gib: float
) -> Panel:
    """Panel of the KV-cache chapter: one position, one request now and at its end, and how many fit.

    Parameters
    ----------
    model : str
        A slug of the catalogue.
    prompt, generated, output : int
        Prompt tokens, tokens sampled so far, tokens of the whole response.
    element : str
        A key of `ELEMENTS`.
    ranks : int
        Tensor-parallel ranks.
    pool_gib : float
        Memory given to the cache on each rank, GiB.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If the inputs are impossible together.
    """
    geometry = load(model)
    cache = layout(geometry, element=element, ranks=ranks)
    now = present_bytes(cache, prompt=prompt, generated=generated)
    room = room_to_finish_bytes(cache, prompt=prompt, generated=generated, output=output)
    pool = plain("cache_panel", "pool_gib", pool_gib, ">0") * UNITS["GiB"].factor
    fit_now = sequences_that_fit(memory_bytes=pool, sequence_bytes=now)
    fit_end = sequences_that_fit(memory_bytes=pool, sequence_bytes=now + room)
    where = "" if ranks == 1 else f", each of {ranks} ranks"
    rows = [
        Row(f"One position, all layers{where}", format_bytes(cache.bytes_per_position), keep=True),
        Row("The request holds now", format_bytes(now)),
        Row("Room it still needs to finish", format_bytes(room)),
        Row("It will hold at its end", format_bytes(now + room)),
        Row("Such requests in the pool, counted by present use", format_count(fit_now)),
        Row("Such requests with room to finish", format_count(fit_end), keep=True),
    ]
    if cache.has_windows:
        paged = present_bytes(cache, prompt=prompt, generated=output, block_tokens=16)
        rows.append(Row("At its end, if every layer paged every position", format_bytes(paged)))
    share = (now + room) / pool
    fills = f"fills {format_percent(share)}" if share < 1 else f"takes {significant(share, 3)} times the whole"
    meaning = f"{_meaning(fit_now, fit_end, room)} One request at its end {fills} of one GPU's pool."
    if geometry.max_positions and prompt + output > geometry.max_positions:
        meaning += f" {geometry.name} was made for {format_count(geometry.max_positions)} positions; this is more."
    lines = [working(positions_written, prompt=prompt, generated=generated).text]
    for mixer, layers in geometry.kinds():
        if not isinstance(mixer, RecurrentState | None):
            lines += _kind_working(mixer, layers, element, ranks, positions_written(prompt=prompt, generated=generated))
    lines.append(f"The request holds {exact(now, 'byte')} now and {exact(now + room, 'byte')} at its end{where}.")
    return Panel(tuple(rows), tuple(lines), meaning, _LEFT_OUT)


def _kind_working(mixer: object, layers: int, element: str, ranks: int, positions: int) -> list[str]:
    """The formulas of one kind of layer: a position, and the positions it keeps if it has a window."""
    function, arguments = formula_of(mixer, layers=layers, element=element, ranks=ranks)
    names = ON_RANK if ranks > 1 else None
    lines = [f"{layers} {mixer.kind} layers: {working(function, names=names, **arguments).text}"]
    if isinstance(mixer, WindowAttention):
        lines.append(working(resident_positions, positions=positions, window=mixer.window).text)
    return lines


def _meaning(fit_now: int, fit_end: int, room: float) -> str:
    if not fit_end:
        return "Not one such request is sure to finish in this pool."
    if not room:
        return f"The request needs no more room: {format_count(fit_end)} such fit, now and to their end."
    if fit_now == fit_end:
        return f"Both ways of counting admit {format_count(fit_end)}."
    sure = format_count(fit_end)
    return f"Counting present use admits {format_count(fit_now)} such requests; {sure} are sure to finish."


_LEFT_OUT = (
    "Page rounding, blocks shared between requests, draft tokens of speculative decoding, and everything else in the "
    "GPU's memory. All requests are taken to be alike and equally far along."
)
