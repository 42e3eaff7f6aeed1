"""The book's recordings of open-loop arrivals, one line of numbers a request: small enough for the reader's browser."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from calc.latency._formulas import attainment, per_second
from calc.latency._objectives import Objectives
from calc.sources import load_json
from calc.units import CalcError
from calc.workload import Spread

_FILE = "latency_recordings.json"


@dataclass(frozen=True, slots=True)
class Load:
    """One accepted repeat of the recorded arrivals at one rate.

    Attributes
    ----------
    per_s : float
        Mean rate at which requests were due.
    repeat : int
        Which repeat.
    window_s : float
        From the first request sent to the last token.
    ttft_s, tpot_s, gap_s, e2e_s : tuple of float
        Of each request: time to first token, mean time of a token after it, longest gap, end-to-end latency.
    """

    per_s: float
    repeat: int
    window_s: float
    ttft_s: tuple[float, ...]
    tpot_s: tuple[float, ...]
    gap_s: tuple[float, ...]
    e2e_s: tuple[float, ...]

    @property
    def requests(self) -> int:
        """Requests sent; every one was answered."""
        return len(self.ttft_s)

    def good(self, objectives: Objectives) -> int:
        """Requests that keep every limit."""
        columns = zip(self.ttft_s, self.tpot_s, self.gap_s, self.e2e_s, strict=True)
        return sum(
            objectives.kept(ttft_s=ttft, tpot_s=tpot, gap_s=gap, e2e_s=e2e) is True for ttft, tpot, gap, e2e in columns
        )


@dataclass(frozen=True, slots=True)
class RatePoint:
    """What the repeats at one rate say of throughput and goodput.

    Attributes
    ----------
    per_s : float
        Rate at which requests were due.
    throughput, goodput : Spread
        Requests, and requests that keep every limit, for each second of the run.
    attainment : Spread
        Share of requests that keep every limit.
    """

    per_s: float
    throughput: Spread
    goodput: Spread
    attainment: Spread


@dataclass(frozen=True, slots=True)
class Hop:
    """A wait of recorded requests as one clock saw it: the median request of each repeat, seconds."""

    name: str
    seconds: Spread


@functools.cache
def loads() -> tuple[Load, ...]:
    """The recorded arrivals, by rate and repeat.

    Returns
    -------
    tuple of Load
        From data/measured/arrivals.jsonl.gz, rounded to microseconds.
    """
    return tuple(
        Load(
            per_s=entry["per_s"],
            repeat=entry["repeat"],
            window_s=entry["window_us"] / 1e6,
            **{name: tuple(us / 1e6 for us in entry[f"{name[:-2]}_us"]) for name in _COLUMNS},
        )
        for entry in load_json(_FILE)["loads"]
    )


_COLUMNS = ("ttft_s", "tpot_s", "gap_s", "e2e_s")


def hops() -> tuple[Hop, ...]:
    """The first token of a lightly loaded engine behind a gateway, as client, gateway and engine timed it.

    Returns
    -------
    tuple of Hop
        From data/measured/tail.jsonl.gz, the runs with nothing injected: a median for each repeat.
    """
    entries = load_json(_FILE)["hops"]
    return tuple(Hop(entry["name"], Spread.of(us / 1e6 for us in entry["median_us"])) for entry in entries)


def goodput_by_rate(objectives: Objectives, recorded: Iterable[Load] | None = None) -> tuple[RatePoint, ...]:
    """Throughput and goodput at each recorded rate.

    Parameters
    ----------
    objectives : Objectives
        The limits.
    recorded : iterable of Load, optional
        The book's own recording if left out.

    Returns
    -------
    tuple of RatePoint
        By rising rate.

    Raises
    ------
    CalcError
        If there is no load.
    """
    by_rate: dict[float, list[Load]] = {}
    for load in loads() if recorded is None else recorded:
        by_rate.setdefault(load.per_s, []).append(load)
    if not by_rate:
        raise CalcError("goodput_by_rate: no load was recorded")
    return tuple(
        RatePoint(
            per_s,
            Spread.of(per_second(events=load.requests, window_s=load.window_s) for load in group),
            Spread.of(per_second(events=load.good(objectives), window_s=load.window_s) for load in group),
            Spread.of(attainment(good=load.good(objectives), completed=load.requests, failed=0) for load in group),
        )
        for per_s, group in sorted(by_rate.items())
    )
