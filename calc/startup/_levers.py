"""Levers: what each of them takes off its phase, what it takes off the start, and which few reach a goal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import combinations
from typing import Any

from calc.startup._graph import ROUNDING, allowance, longest_path, schedule
from calc.startup._start import FETCH, READ, STREAM, StartUp, phases
from calc.units import CalcError, plain

MOST_LEVERS = 12  # their combinations are tried one by one


@dataclass(frozen=True, slots=True)
class Lever:
    """One thing that may be changed about a start.

    Attributes
    ----------
    name : str
    changes : mapping
        Fields of `StartUp` and their new values.
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gain:
    """What a lever does.

    Attributes
    ----------
    lever : Lever
    phases_s : float
        Seconds that it takes off the phases, added up; negative where it makes them longer.
    start_s : float
        Seconds that it takes off the start.
    total_s : float
        The start with it.
    """

    lever: Lever
    phases_s: float
    start_s: float
    total_s: float


def apply(start: StartUp, levers: Sequence[Lever]) -> StartUp:
    """The start with levers pulled, in their order.

    Raises
    ------
    CalcError
        If a lever changes what a start does not have, or to something impossible.
    """
    known = {field.name for field in fields(start)}
    changes: dict[str, Any] = {}
    for lever in levers:
        if strange := lever.changes.keys() - known:
            raise CalcError(f"lever {lever.name!r:.60} changes {', '.join(sorted(strange))}, which no start has")
        changes |= lever.changes
    return replace(start, **changes)


def ranked(start: StartUp, levers: Sequence[Lever]) -> tuple[Gain, ...]:
    """Pull each lever alone; the one that takes most off the start comes first.

    Parameters
    ----------
    start : StartUp
    levers : sequence of Lever

    Returns
    -------
    tuple of Gain

    Raises
    ------
    CalcError
        As for `apply`.

    Notes
    -----
    Gains of levers do not add up: two may shorten the same phase, or make another path the longest.
    """
    before = phases(start)
    whole, work = schedule(before).total_s, sum(phase.seconds for phase in before)
    found = []
    for lever in levers:
        after = phases(apply(start, [lever]))
        total = schedule(after).total_s
        saved = [work - sum(phase.seconds for phase in after), whole - total]
        saved = [0.0 if abs(seconds) <= ROUNDING * work else seconds for seconds in saved]
        found.append(Gain(lever, *saved, total))
    return tuple(sorted(found, key=lambda gain: -gain.start_s))


def smallest_set(start: StartUp, levers: Sequence[Lever], *, goal_s: float) -> tuple[Lever, ...] | None:
    """The fewest levers with which a start is over in time; of those, the set that makes it shortest.

    Parameters
    ----------
    start : StartUp
    levers : sequence of Lever
        At most `MOST_LEVERS`. They are pulled in this order.
    goal_s : float
        Seconds.

    Returns
    -------
    tuple of Lever or None
        Empty if none is needed; None if all together are not enough, whichever are left out.

    Raises
    ------
    CalcError
        If there are too many levers, or as for `apply`.
    """
    best, shortest = None, goal_s * (1 + ROUNDING)
    for chosen, total in _sets(start, levers):
        if best is not None and len(chosen) > len(best):
            break
        if total <= shortest:
            best, shortest = chosen, total
    return best


def shortest_set(start: StartUp, levers: Sequence[Lever]) -> tuple[Lever, ...]:
    """The levers with which a start is shortest; of several such sets, one of the fewest.

    Parameters
    ----------
    start : StartUp
    levers : sequence of Lever
        At most `MOST_LEVERS`. They are pulled in this order.

    Returns
    -------
    tuple of Lever
        Not always all of them: a lever may make another path the longest.

    Raises
    ------
    CalcError
        If there are too many levers, or as for `apply`.

    Examples
    --------
    >>> start = StartUp(checkpoint_bytes=140e9, ranks=8, object_rate=5e9, disk_rate=7e9, link_rate=50e9, imports_s=60,
    ...     order="side by side")
    >>> levers = (Lever("stream", {"streamed": True}), Lever("light imports", {"imports_s": 30}))
    >>> [lever.name for lever in shortest_set(start, levers)]
    ['light imports']
    """
    best, shortest = (), float("inf")
    for chosen, total in _sets(start, levers):
        if total < shortest * (1 - ROUNDING):
            best, shortest = chosen, total
    return best


def _sets(start: StartUp, levers: Sequence[Lever]) -> Iterator[tuple[tuple[Lever, ...], float]]:
    """Every set of levers, the smaller ones first, and how long the start takes with it."""
    if len(levers) > MOST_LEVERS:
        raise CalcError(f"{len(levers)} levers have too many combinations, wanted at most {MOST_LEVERS}")
    for count in range(len(levers) + 1):
        for chosen in combinations(levers, count):
            yield chosen, longest_path(phases(apply(start, chosen)))


def usual_levers(
    start: StartUp, *, compile_kept_s: float, captures_kept: float, ranks_kept_s: float
) -> tuple[Lever, ...]:
    """What operators do about a slow start, without what this one already has.

    Parameters
    ----------
    start : StartUp
    compile_kept_s : float
        Tracing and compilation together when the compiled code was kept, seconds.
    captures_kept : float
        Share of the graphs that is still captured when fewer batch sizes are.
    ranks_kept_s : float
        Rank set-up when the result of its checks was kept, seconds.

    Returns
    -------
    tuple of Lever
        Only those that change something.

    Raises
    ------
    CalcError
        If an argument is impossible.
    """
    if not 0 <= captures_kept <= 1:
        raise CalcError(f"captures_kept is {captures_kept}, wanted a share from 0 to 1")
    plain("usual_levers", "compile_kept_s", compile_kept_s, "")
    faster = {"object_rate": 2 * start.object_rate, "disk_rate": 2 * start.disk_rate}
    kept = {"trace_s": 0.0, "compile_s": compile_kept_s}
    levers = (
        Lever("image kept on the node", {"image_bytes": 0.0}),
        Lever("rank checks kept", {"ranks_s": min(start.ranks_s, ranks_kept_s)}),
        Lever("storage twice as fast", {} if start.weights_from == "host memory" else faster),
        Lever("each rank reads its share", {"every_rank_reads_all": False}),
        Lever("weights streamed", {} if start.weights_from == "host memory" else {"streamed": True}),
        Lever("weights kept on the disk", {"weights_from": "disk"} if start.weights_from == "object storage" else {}),
        Lever("weights kept in host memory", {"weights_from": "host memory"}),
        Lever("compiled code kept", kept if compile_kept_s < start.trace_s + start.compile_s else {}),
        Lever("fewer graphs", {"capture_s": captures_kept * start.capture_s}),
        Lever("phases side by side", {"order": "side by side"}),
    )
    return tuple(lever for lever in levers if apply(start, [lever]) != start)


def storage_allowance(start: StartUp, *, goal_s: float) -> float | None:
    """The longest that storage may take to deliver the weights for the start to be over in time.

    Parameters
    ----------
    start : StartUp
    goal_s : float
        Seconds.

    Returns
    -------
    float or None
        Seconds for the download and the read together, or for the stream; None if all else takes longer than that.

    Raises
    ------
    CalcError
        If no storage is read, because the weights are in host memory.

    Examples
    --------
    >>> start = StartUp(checkpoint_bytes=140e9, ranks=8, object_rate=2e9, disk_rate=7e9, link_rate=50e9, compile_s=30)
    >>> round(storage_allowance(start, goal_s=60), 2), storage_allowance(start, goal_s=20)
    (29.65, None)
    """
    steps = phases(start)
    names = [phase.name for phase in steps if phase.name in (FETCH, READ, STREAM)]
    if not names:
        raise CalcError("the weights are in host memory: no storage is read")
    emptied = [replace(phase, seconds=0.0) if phase.name in names[:-1] else phase for phase in steps]
    return allowance(emptied, names[-1], goal_s)
