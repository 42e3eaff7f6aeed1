"""Phases that wait for one another: earliest and latest times, slack, the critical path, and what a change gains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from math import isfinite

from calc.notebook import Table
from calc.units import CalcError, format_seconds, plain

MOST_PIECES = 2**20
ROUNDING = 1e-9  # of the whole: what adding floats in another order can change


@dataclass(frozen=True, slots=True)
class Phase:
    """One piece of work of a start.

    Attributes
    ----------
    name : str
    seconds : float
        How long it takes once it may begin.
    after : tuple of str
        Phases that must be over before.
    """

    name: str
    seconds: float
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timed:
    """A phase in time, in seconds from the start.

    Attributes
    ----------
    name : str
    seconds, start_s, end_s : float
        How long it takes, and when it begins and ends if nothing waits longer than it must.
    slack_s : float
        How much later it may end without delaying the whole; 0 on a critical path.
    """

    name: str
    seconds: float
    start_s: float
    end_s: float
    slack_s: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """All phases in time.

    Attributes
    ----------
    phases : tuple of Timed
        In the order given.
    total_s : float
        The longest path: when the last phase is over.
    path : tuple of str
        One critical path, from the first phase to the last. There may be others of the same length.
    """

    phases: tuple[Timed, ...]
    total_s: float
    path: tuple[str, ...]

    def __getitem__(self, name: str) -> Timed:
        found = next((timed for timed in self.phases if timed.name == name), None)
        if found is None:
            raise CalcError(f"no phase {name!r:.60}: there is {', '.join(timed.name for timed in self.phases)}")
        return found

    def _repr_html_(self) -> str:
        rows = [
            (t.name, format_seconds(t.seconds), format_seconds(t.start_s), format_seconds(t.end_s), _slack(t, self))
            for t in self.phases
        ]
        columns = ("Phase", "Takes", "Begins", "Ends", "Slack")
        return Table(columns, rows, f"A start of {format_seconds(self.total_s)}, phase by phase")._repr_html_()


def _slack(timed: Timed, whole: Schedule) -> str:
    return "critical" if timed.name in whole.path else format_seconds(timed.slack_s)


def schedule(phases: Iterable[Phase]) -> Schedule:
    """Put phases in time: each begins as soon as all that it waits for is over.

    Parameters
    ----------
    phases : iterable of Phase

    Returns
    -------
    Schedule

    Raises
    ------
    CalcError
        If there is no phase, a name occurs twice or is waited for and not there, a time is negative or not
        finite, or phases wait for one another in a circle.

    Notes
    -----
    Any number of phases may run at once. Two that share a disk or a CPU slow each other down: that is not
    modeled, so the result is a floor.

    References
    ----------
    Kelley and Walker, "Critical-path planning and scheduling", 1959.

    Examples
    --------
    >>> start = [Phase("load", 80), Phase("compile", 30), Phase("warm up", 5, ("load", "compile"))]
    >>> found = schedule(start)
    >>> found.total_s, found.path, found["compile"].slack_s
    (85.0, ('load', 'warm up'), 50.0)
    """
    named = _named(phases)
    order = _order(named)
    ends = _ends(named[name] for name in order)
    total = max(ends.values())
    latest = dict.fromkeys(named, total)  # when each may end at the latest
    for name in reversed(order):
        for before in named[name].after:
            latest[before] = min(latest[before], latest[name] - named[name].seconds)
    timed = []
    for name, phase in named.items():
        slack = latest[name] - ends[name]
        slack = 0.0 if slack <= ROUNDING * total else slack
        timed.append(Timed(name, phase.seconds, ends[name] - phase.seconds, ends[name], slack))
    return Schedule(tuple(timed), total, _path(named, ends))


def _ends(ordered: Iterable[Phase]) -> dict[str, float]:
    """When each phase is over, for phases of which none comes before one that it waits for."""
    ends: dict[str, float] = {}
    for phase in ordered:
        ends[phase.name] = max((ends[before] for before in phase.after), default=0.0) + phase.seconds
    return ends


def longest_path(ordered: Iterable[Phase]) -> float:
    """How long the whole takes: `schedule` without slack and checks, for when many are compared.

    Parameters
    ----------
    ordered : iterable of Phase
        Each after all that it waits for, as `phases` gives them.

    Examples
    --------
    >>> longest_path([Phase("load", 80), Phase("compile", 30), Phase("warm up", 5, ("load", "compile"))])
    85.0
    """
    return max(_ends(ordered).values())


def _path(named: Mapping[str, Phase], ends: Mapping[str, float]) -> tuple[str, ...]:
    """Walk back from the phase that ends last, always to the one that was waited for longest."""
    path = [max(named, key=ends.__getitem__)]
    while named[path[0]].after:
        path.insert(0, max(named[path[0]].after, key=ends.__getitem__))
    return tuple(path)


def _named(phases: Iterable[Phase]) -> dict[str, Phase]:
    named: dict[str, Phase] = {}
    for phase in phases:
        if phase.name in named:
            raise CalcError(f"two phases are called {phase.name!r:.60}: give each its own name")
        seconds = phase.seconds
        fits = not isinstance(seconds, bool | str) and isfinite(seconds) and seconds >= 0
        if not fits:
            raise CalcError(f"phase {phase.name!r:.60} takes {seconds!r:.40} s, wanted a number of at least 0")
        named[phase.name] = phase
    if not named:
        raise CalcError("no phase: give at least one")
    for phase in named.values():
        for before in phase.after:
            if before not in named:
                known = ", ".join(named)
                raise CalcError(f"{phase.name!r:.60} waits for {before!r:.60}, which is no phase: there is {known}")
    return named


def _order(named: Mapping[str, Phase]) -> list[str]:
    try:
        return list(TopologicalSorter({name: phase.after for name, phase in named.items()}).static_order())
    except CycleError as error:
        circle = " → ".join(error.args[1])
        raise CalcError(f"these phases wait for one another in a circle: {circle}; one must begin first") from None


def lasting(phases: Iterable[Phase], name: str, seconds: float) -> tuple[Phase, ...]:
    """The same phases, one of them with another time.

    Raises
    ------
    CalcError
        If there is no phase of that name.

    Examples
    --------
    >>> lasting([Phase("load", 80), Phase("compile", 30)], "load", 40)[0].seconds
    40
    """
    phases = tuple(phases)
    if name not in {phase.name for phase in phases}:
        raise CalcError(f"no phase {name!r:.60}: there is {', '.join(phase.name for phase in phases)}")
    return tuple(replace(phase, seconds=seconds) if phase.name == name else phase for phase in phases)


def allowance(phases: Iterable[Phase], name: str, goal_s: float) -> float | None:
    """The longest that one phase may take for the whole to be over in time, all others unchanged.

    Parameters
    ----------
    phases : iterable of Phase
    name : str
    goal_s : float
        When the whole is to be over, seconds.

    Returns
    -------
    float or None
        Seconds; None if the others alone take longer than that.

    Raises
    ------
    CalcError
        As for `schedule`, or if there is no phase of that name, or the goal is no time.

    Examples
    --------
    >>> start = [Phase("load", 80), Phase("compile", 30), Phase("warm up", 5, ("load", "compile"))]
    >>> allowance(start, "load", 60), allowance(start, "load", 30), allowance(start, "compile", 60)
    (55.0, None, None)
    """
    plain("allowance", "goal_s", goal_s, "second")
    without = schedule(lasting(phases, name, 0.0))
    if without.total_s > goal_s * (1 + ROUNDING):
        return None
    return goal_s - without.total_s + without[name].slack_s


@dataclass(frozen=True, slots=True)
class Cut:
    """What shortening one phase takes off the whole.

    Attributes
    ----------
    name : str
    seconds, slack_s : float
        How long the phase takes, and its slack.
    halved_s, removed_s : float
        Seconds that the whole becomes shorter if the phase takes half its time, and if it takes none.
    """

    name: str
    seconds: float
    slack_s: float
    halved_s: float
    removed_s: float


def cuts(phases: Iterable[Phase]) -> tuple[Cut, ...]:
    """Halve and remove each phase in turn; the one that gains most comes first.

    Raises
    ------
    CalcError
        As for `schedule`.

    Examples
    --------
    >>> start = [Phase("load", 80), Phase("compile", 30), Phase("warm up", 5, ("load", "compile"))]
    >>> [(cut.name, cut.halved_s, cut.removed_s) for cut in cuts(start)]
    [('load', 40.0, 50.0), ('warm up', 2.5, 5.0), ('compile', 0.0, 0.0)]
    """
    phases = tuple(phases)
    whole = schedule(phases)

    def gain(timed: Timed, share: float) -> float:
        saved = whole.total_s - schedule(lasting(phases, timed.name, share * timed.seconds)).total_s
        return saved if saved > ROUNDING * whole.total_s else 0.0

    found = [Cut(t.name, t.seconds, t.slack_s, gain(t, 0.5), gain(t, 0.0)) for t in whole.phases]
    return tuple(sorted(found, key=lambda cut: -cut.removed_s))


def walk_chain(hop_seconds: Sequence[float], pieces: int) -> float:
    """Play a chain of hops through, piece by piece: a piece waits until its hop is free.

    Parameters
    ----------
    hop_seconds : sequence of float
        Seconds of one piece on each hop, in order.
    pieces : int
        Equal pieces.

    Returns
    -------
    float
        Seconds until the last piece has left the last hop.

    Raises
    ------
    CalcError
        If there is no hop or no piece, more than a million pieces, or a hop's time is none.

    Examples
    --------
    >>> walk_chain([1.0, 2.0, 0.5], pieces=10)
    21.5
    """
    if not hop_seconds or plain("walk_chain", "pieces", pieces, "count") < 1:
        raise CalcError("a chain needs at least one hop and one piece")
    if pieces > MOST_PIECES:
        raise CalcError(f"walk_chain: pieces is {pieces:,}, wanted {MOST_PIECES:,} at most: see pipelined_seconds")
    for seconds in hop_seconds:
        plain("walk_chain", "hop_seconds", seconds, "second")
    free = [0.0] * len(hop_seconds)
    for _ in range(pieces):
        done = 0.0
        for hop, seconds in enumerate(hop_seconds):
            done = free[hop] = max(done, free[hop]) + seconds
    return free[-1]
