"""The live panel of the cold-start chapter."""

from __future__ import annotations

from dataclasses import replace

from calc.adapters import move_seconds
from calc.hardware import accelerator
from calc.models import load
from calc.panel import Panel, Row
from calc.quantization import stored
from calc.startup._formulas import average_rate
from calc.startup._graph import ROUNDING, Schedule, schedule
from calc.startup._levers import Lever, ranked, storage_allowance
from calc.startup._start import COPY, ORDERS, WEIGHT_PHASES, StartUp, hops, phases
from calc.units import (
    UNITS,
    CalcError,
    format_bytes,
    format_decimal,
    format_percent,
    format_seconds,
    plain,
)
from calc.working import working

GOAL_S = UNITS["min"].factor
LINKS_OF = "h100-sxm"  # whose host links the weights pass
PLACES = {
    "staged from object storage": ("object storage", False),
    "streamed from object storage": ("object storage", True),
    "local disk": ("disk", False),
    "host memory": ("host memory", False),
}
_OTHER_S = 15.0  # cache layout, warm-up and health check together
_SAID = {"rank set-up": "set-up", "cache layout": "the rest"}  # what the panel's inputs hold together


def startup_panel(
    *,
    model: str,
    stored_as: str,
    ranks: int,
    place: str,
    storage_gb: float,
    setup_s: float,
    compile_s: float,
    capture_s: float,
    order: str,
) -> Panel:
    """Panel of the cold-start chapter: the start, its critical path, and what a minute would take.

    Parameters
    ----------
    model : str
        A slug of the catalogue.
    stored_as : str
        One of `calc.quantization.schemes`.
    ranks : int
        Tensor-parallel ranks.
    place : str
        A key of `PLACES`.
    storage_gb : float
        What storage delivers to the node, GB/s: object storage and disk alike.
    setup_s, compile_s, capture_s : float
        Image, process, imports and ranks; tracing and compilation; graph capture, seconds.
    order : str
        A key of `ORDERS`.

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If the inputs are impossible.
    """
    rate = plain("startup_panel", "storage_gb", storage_gb, ">0") * UNITS["GB/s"].factor
    for name, seconds in {"setup_s": setup_s, "compile_s": compile_s, "capture_s": capture_s}.items():
        plain("startup_panel", name, seconds, "")
    plain("startup_panel", "ranks", ranks, "count>0")
    for name, given, choices in (("place", place, PLACES), ("order", order, ORDERS)):
        if given not in choices:
            raise CalcError(f"startup_panel: {name} is {given!r:.60}, wanted one of {', '.join(choices)}")
    weights_from, streamed = PLACES[place]
    start = StartUp(
        checkpoint_bytes=stored(load(model), stored_as).total_bytes,
        ranks=ranks,
        weights_from=weights_from,
        streamed=streamed,
        object_rate=rate,
        disk_rate=rate,
        link_rate=accelerator(LINKS_OF).link("pcie").bytes_per_second.value,
        ranks_s=setup_s,
        compile_s=compile_s,
        capture_s=capture_s,
        layout_s=_OTHER_S,
        order=order,
    )
    steps = phases(start)
    found = schedule(steps)
    moving = [timed for timed in found.phases if timed.name in WEIGHT_PHASES]
    weights_s = sum(timed.seconds for timed in moving)
    weights_gain = found.total_s - _without_weights(start)
    weights_gain = weights_gain if weights_gain > ROUNDING * found.total_s else 0.0
    best = ranked(start, _halves(start))[0]
    rows = [
        Row("Weights", format_bytes(start.checkpoint_bytes)),
        Row("From storage into the GPUs, floor", format_seconds(weights_s)),
        Row("The start", format_seconds(found.total_s), keep=True),
        Row("What the weights add to it", _added(weights_gain)),
        Row("The weights could come later by", format_seconds(max(timed.slack_s for timed in moving))),
        Row("Halve this first, and gain", f"{best.lever.name}, {format_seconds(best.start_s)}"),
        Row("Storage that a minute would take", _needed(start), keep=True),
    ]
    return Panel(tuple(rows), tuple(_lines(start, found)), _meaning(found, weights_gain, weights_s), _LEFT_OUT)


def _without_weights(start: StartUp) -> float:
    steps = phases(start)
    return schedule(replace(p, seconds=0.0) if p.name in WEIGHT_PHASES else p for p in steps).total_s


def _halves(start: StartUp) -> list[Lever]:
    """Each input of the panel as a lever: a time of half its length, storage of twice its rate."""
    return [
        Lever("the time of storage", {"object_rate": 2 * start.object_rate, "disk_rate": 2 * start.disk_rate}),
        Lever("set-up", {"ranks_s": start.ranks_s / 2}),
        Lever("compilation", {"compile_s": start.compile_s / 2}),
        Lever("graph capture", {"capture_s": start.capture_s / 2}),
        Lever("the rest", {"layout_s": start.layout_s / 2}),
    ]


def _added(seconds: float) -> str:
    return format_seconds(seconds) if seconds else "nothing"


def _needed(start: StartUp) -> str:
    """The rate of storage at which the start lasts a minute."""
    if start.weights_from == "host memory":
        return "none is read"
    left = storage_allowance(start, goal_s=GOAL_S)
    if not left:
        return "no rate is enough"
    moved = sum(hop.moved_bytes for hop in hops(start) if hop.name != COPY)
    return format_decimal(average_rate(moved_bytes=moved, elapsed=left), "B/s")


def _lines(start: StartUp, found: Schedule) -> list[str]:
    lines = [
        f"{hop.name}, {hop.way}: {working(move_seconds, moved_bytes=hop.moved_bytes, bytes_per_second=hop.rate).text}"
        for hop in hops(start)
    ]
    if start.streamed:
        lines.append("The hops work at the same time, so the slowest counts, and a first piece.")
    parts = [f"{_SAID.get(n, n)} {format_seconds(found[n].seconds)}" for n in found.path if found[n].seconds]
    lines.append(f"The longest path: {' + '.join(parts)} = {format_seconds(found.total_s)}")
    return lines


def _meaning(found: Schedule, weights_gain: float, weights_s: float) -> str:
    share = format_percent(weights_gain / found.total_s, 2)
    if not weights_gain:
        said = f"The weights take {format_seconds(weights_s)} and add nothing: the start is as long without them."
    else:
        said = f"Without moving weights at all the start would be {share} shorter. No faster disk gains more than that."
    minute = f"The start lasts {'no longer' if found.total_s <= GOAL_S else 'longer'} than a minute."
    return f"{said} {minute}"


_LEFT_OUT = (
    "Finding a machine, what phases take from each other when they share disks and CPUs, and requests that queue "
    "meanwhile. Cache layout, warm-up and health check are 15 s together; host links are those of an H100, at their "
    "printed rate. Storage is counted at what arrives, not at what is printed on it."
)
