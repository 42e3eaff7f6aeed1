"""Starts that were recorded: the book's own in data/measured, and those that others printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from calc.models import load
from calc.parameters import count
from calc.sources import data_path, load_json
from calc.startup._formulas import average_rate
from calc.units import parse
from calc.workload import Fields, ReadError, Spread, read_recording

_MADE_BY = "recording of starts in data/measured, schema 1, made by `make measure`"

# The mark at which a phase of vLLM's start is over → the part of the start that it belongs to
PARTS = {
    "server imported": "imports",
    "configuration read": "model inspected",
    "engine core imported": "imports",
    "worker joined": "worker",
    "weights asked for": "worker",
    "weights loaded": "weights",
    "warm-up begun": "engine, server",
    "warm-up done": "compile, warm-up",
    "cache laid out": "engine, server",
    "engine ready": "engine, server",
    "server listening": "engine, server",
    "healthy": "engine, server",
    "first request sent": "engine, server",
    "first token": "engine, server",
}


@dataclass(frozen=True, slots=True)
class RecordedStart:
    """One recorded start of an engine.

    Attributes
    ----------
    state : str
        What was cached when it began.
    repeat : int
    cached_share : float
        Share of the engine's and the model's files that the page cache held at the beginning.
    marks_s : mapping of str to float
        Seconds after spawn at which each phase was over, in order, from "spawned" at 0.
    """

    state: str
    repeat: int
    cached_share: float
    marks_s: Mapping[str, float]

    @property
    def total_s(self) -> float:
        """Spawn to first token."""
        return next(reversed(self.marks_s.values()))

    @property
    def phases(self) -> dict[str, float]:
        """Seconds of each phase, by the mark at which it is over."""
        marks = list(self.marks_s.items())
        return {name: at - before for (_, before), (name, at) in zip(marks, marks[1:], strict=False)}

    @property
    def parts(self) -> dict[str, float]:
        """Seconds of each part of the start, a key of no `PARTS` under its own name."""
        found: dict[str, float] = {}
        for name, seconds in self.phases.items():
            part = PARTS.get(name, name)
            found[part] = found.get(part, 0.0) + seconds
        return found


def read_starts(path: str | Path) -> tuple[RecordedStart, ...]:
    """The accepted starts of a recording, in its order.

    Parameters
    ----------
    path : path
        A file of data/measured, gzipped or not.

    Returns
    -------
    tuple of RecordedStart

    Raises
    ------
    ReadError
        With the line, if the file is cut off, of another schema, holds no start, or a start contradicts itself.
    """
    recording = read_recording(path, _MADE_BY, "start")
    return tuple(_start(row, recording.runs) for row in recording.rows["start"])


def _start(row: Fields, runs: Mapping[int, Fields]) -> RecordedStart:
    number = row.count("run")
    if number not in runs:
        raise ReadError(f"{row.where}: run {number} is not among the accepted ones; the file is damaged")
    marks = row.fields("marks_us")
    times = {name: marks.count(name) / 1e6 for name in marks.data}
    ordered = list(times.values())
    if len(ordered) < 2 or ordered[0] != 0 or ordered != sorted(ordered):
        raise row.wrong("marks_us", "times in order from 0, two at least")
    share = row.number("cached_share")
    return RecordedStart(row.text("state"), runs[number].count("repeat"), share, MappingProxyType(times))


def by_state(starts: Iterable[RecordedStart]) -> dict[str, dict[str, Spread]]:
    """For each state, the spread of each part over its repeats, and of the "total".

    Parameters
    ----------
    starts : iterable of RecordedStart

    Returns
    -------
    dict of str to dict of str to Spread
        Seconds, states and parts in the order recorded; medians of parts need not add up to the median total.
    """
    states: dict[str, list[RecordedStart]] = {}
    for start in starts:
        states.setdefault(start.state, []).append(start)
    found = {}
    for state, repeats in states.items():
        parts = {part: Spread.of(start.parts.get(part, 0.0) for start in repeats) for part in repeats[0].parts}
        found[state] = parts | {"total": Spread.of(start.total_s for start in repeats)}
    return found


# --- printed by others -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PublishedStart:
    """A start that somebody else took apart.

    Attributes
    ----------
    name, source, url, checked, note : str
    total_s : float
        As printed, or the sum of the parts where no total is.
    parts : mapping of str to float
        Seconds by group: "set-up", "weights", "compile", "capture", "rest".
    """

    name: str
    source: str
    url: str
    checked: str
    note: str
    total_s: float
    parts: Mapping[str, float]

    @property
    def weights_share(self) -> float:
        """Share of the start that brought the weights."""
        return self.parts.get("weights", 0.0) / self.total_s


def published_starts() -> dict[str, PublishedStart]:
    """Starts printed by others, from data/startup.json.

    Examples
    --------
    >>> round(published_starts()["llama-70b-fp8-tp8"].weights_share, 3)
    0.047
    """
    table = load_json("startup.json")
    found = {}
    for slug, entry in table["starts"].items():
        parts: dict[str, float] = {}
        for phase in entry["phases"]:
            parts[phase["group"]] = parts.get(phase["group"], 0.0) + phase["seconds"]
        found[slug] = PublishedStart(
            **{name: entry[name] for name in ("name", "source", "url", "note")},
            checked=table["checked"],
            total_s=entry.get("total_seconds", sum(parts.values())),
            parts=MappingProxyType(parts),
        )
    return found


@dataclass(frozen=True, slots=True)
class PublishedLoad:
    """A checkpoint load that others timed, from storage into GPU memory.

    Attributes
    ----------
    model, loader, test : str
        Slug of the catalogue, what read it, and whether the file was cached.
    runs : int
    mean_s, least_s, most_s : float
        Seconds.
    checkpoint_bytes : float
        16-bit weights, counted from the model's configuration.
    storage_rate : float
        What the disks are said to deliver, B/s.
    """

    model: str
    loader: str
    test: str
    runs: int
    mean_s: float
    least_s: float
    most_s: float
    checkpoint_bytes: float
    storage_rate: float

    @property
    def rate(self) -> float:
        """Bytes per second, on average."""
        return average_rate(moved_bytes=self.checkpoint_bytes, elapsed=self.mean_s)

    @property
    def reached(self) -> float:
        """The rate over that of the disks: above 1 it was not the disks that delivered."""
        return self.rate / self.storage_rate


def published_loads() -> tuple[PublishedLoad, ...]:
    """Loads on eight H100 by two loaders, from data/startup.json.

    References
    ----------
    ServerlessLLM, benchmarks/results/h100_2025.

    Examples
    --------
    >>> [round(load.rate / 1e9, 1) for load in published_loads() if load.model == "llama-3.1-8b"]
    [3.6, 23.7]
    """
    table = load_json("startup.json")["loads"]
    rate = parse(table["storage_rate"]).value
    return tuple(
        PublishedLoad(
            **{name: row[name] for name in ("model", "loader", "test", "runs", "mean_s", "least_s", "most_s")},
            checkpoint_bytes=2.0 * count(load(row["model"])).total,
            storage_rate=rate,
        )
        for row in table["rows"]
    )


def recording() -> Path:
    """Where the book's own recording of starts is."""
    return data_path() / "measured" / "cold_start.jsonl.gz"
