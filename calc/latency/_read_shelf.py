"""The book's own recordings of request traffic, in data/measured."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any

from calc.latency._timeline import Chunk, Run, Timeline
from calc.sources import data_path
from calc.units import CalcError
from calc.workload import Fields, ReadError, read_recording

_MADE_BY = "recording of data/measured with request traffic, schema 1, made by `make measure`"


@dataclass(frozen=True, slots=True)
class Gauge:
    """What the engine counted at one moment: seconds from the start of the repeat, requests running and waiting."""

    at_s: float
    running: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """One accepted repeat of one load on one engine.

    Attributes
    ----------
    setup, name : str
        The engine's setting and the load.
    number : int
        Which repeat.
    parameters : mapping
        What distinguishes the load from the others of its recording.
    run : Run
        Its requests as the client saw them, times from the start of the repeat.
    roles : tuple of str
        What part each request of the run plays, in the same order.
    engine, gateway : tuple of mapping or None
        For each request what the engine and the gateway recorded of it, where they did: the fields of the
        recording without their "_us", in seconds. The engine's are spans, the gateway's moments of the run.
    gauges : tuple of Gauge
        What the engine counted, in order of time; empty where it counted nothing.
    rounds : tuple of tuple
        For each request its rounds of speculation, as (draft tokens accepted, draft tokens proposed); empty where
        it had none.
    outputs : tuple of tuple of int or None
        For each request the token ids of its answer; None where they were not kept.
    """

    setup: str
    name: str
    number: int
    parameters: MappingProxyType[str, Any]
    run: Run
    roles: tuple[str, ...]
    engine: tuple[Mapping[str, float] | None, ...] = ()
    gateway: tuple[Mapping[str, float] | None, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    rounds: tuple[tuple[tuple[int, int], ...], ...] = ()
    outputs: tuple[tuple[int, ...] | None, ...] = ()

    def playing(self, role: str) -> Run:
        """The requests of one role.

        Raises
        ------
        CalcError
            If none plays it.
        """
        chosen = tuple(t for t, plays in zip(self.run.timelines, self.roles, strict=True) if plays == role)
        if not chosen:
            raise CalcError(f"no request plays {role!r} in {self.run.source}: use {', '.join(sorted(set(self.roles)))}")
        return Run(timelines=chosen, started_s=self.run.started_s, ended_s=self.run.ended_s, source=self.run.source)


def read_shelf(path: str | Path) -> tuple[Repeat, ...]:
    """The accepted repeats of a recording, in its order.

    Parameters
    ----------
    path : path
        A file of data/measured, gzipped or not.

    Returns
    -------
    tuple of Repeat

    Raises
    ------
    ReadError
        With the line, if the file is cut off, of another schema, holds no request traffic, or a request
        contradicts itself.
    """
    recording = read_recording(path, _MADE_BY, "request", "gauge")
    requests: dict[int, list[Fields]] = {}
    for row in recording.rows["request"]:
        requests.setdefault(row.count("run"), []).append(row)
    gauges = {row.count("run"): row for row in recording.rows["gauge"]}
    if stray := requests.keys() - recording.runs.keys():
        where = requests[min(stray)][0].where
        raise ReadError(f"{where}: run {min(stray)} is not among the accepted ones; the file is damaged")
    title = recording.header.text("title")
    return tuple(
        _repeat(run, requests[number], gauges.get(number), title)
        for number, run in recording.runs.items()
        if number in requests
    )


@functools.cache
def shelf(name: str) -> tuple[Repeat, ...]:
    """One of the book's own recordings, read once.

    Parameters
    ----------
    name : str
        Its file in data/measured without ".jsonl.gz", for example "arrivals".

    Returns
    -------
    tuple of Repeat

    Raises
    ------
    CalcError
        If there is no such recording.

    Examples
    --------
    >>> {repeat.number for repeat in shelf("arrivals")}
    {0, 1, 2}
    """
    ending = ".jsonl.gz"
    known = sorted(path.name.removesuffix(ending) for path in (data_path() / "measured").glob(f"*{ending}"))
    if name not in known:
        raise CalcError(f"no recording {name!r}: use {', '.join(known)}")
    return read_shelf(data_path() / "measured" / f"{name}{ending}")


def _repeat(run: Fields, rows: list[Fields], gauge: Fields | None, title: str) -> Repeat:
    setup, name, number = run.text("setup"), run.text("name"), run.count("repeat")
    return Repeat(
        setup=setup,
        name=name,
        number=number,
        parameters=MappingProxyType(dict(run.fields("parameters").data)),
        run=Run(
            timelines=tuple(map(_timeline, rows)),
            started_s=0.0,
            ended_s=run.count("duration_us") / 1e6,
            source=f"{title}: {setup}, {name}, repeat {number}",
        ),
        roles=tuple(row.text("role") for row in rows),
        engine=tuple(_seconds(row, "engine") for row in rows),
        gateway=tuple(_seconds(row, "gateway") for row in rows),
        gauges=_gauges(gauge) if gauge else (),
        rounds=tuple(map(_rounds, rows)),
        outputs=tuple(tuple(map(int, row.numbers("output"))) if row.has("output") else None for row in rows),
    )


def _seconds(row: Fields, name: str) -> Mapping[str, float] | None:
    """A record of microseconds inside a request."""
    if not row.has(name):
        return None
    inside = row.fields(name)
    return MappingProxyType({key.removesuffix("_us"): inside.number(key) / 1e6 for key in inside.data})


def _rounds(row: Fields) -> tuple[tuple[int, int], ...]:
    """Draft tokens accepted and proposed, round by round."""
    if not row.has("accepted"):
        return ()
    accepted, drafted = row.numbers("accepted"), row.numbers("drafted")
    if len(accepted) != len(drafted):
        raise row.wrong("drafted", f"{len(accepted)} counts, one for each of accepted")
    return tuple((int(took), int(proposed)) for took, proposed in zip(accepted, drafted, strict=True))


def _gauges(row: Fields) -> tuple[Gauge, ...]:
    columns = [row.numbers(name) for name in ("at_us", "running", "waiting")]
    if len({len(column) for column in columns}) > 1:
        raise row.wrong("at_us", "as many moments as counts")
    at, running, waiting = columns
    return tuple(Gauge(us / 1e6, int(r), int(w)) for us, r, w in zip(accumulate(at), running, waiting, strict=True))


def _timeline(row: Fields) -> Timeline:
    times = [us / 1e6 for us in accumulate(row.numbers("chunk_us"))]  # the first time, then differences
    tokens = row.numbers("chunk_tokens")
    if len(times) != len(tokens):
        raise row.wrong("chunk_tokens", f"{len(times)} counts, one for each time of chunk_us")
    try:
        return Timeline(
            id=row.text("id"),
            due_s=row.count("due_us") / 1e6,
            sent_s=row.count("sent_us") / 1e6,
            chunks=tuple(Chunk(time, int(count)) for time, count in zip(times, tokens, strict=True)),
            end_s=row.count("end_us") / 1e6,
            prompt_tokens=row.count("prompt_tokens"),
        )
    except ReadError:
        raise
    except CalcError as error:
        raise ReadError(f"{row.where}: {error}; the recording is damaged") from None
