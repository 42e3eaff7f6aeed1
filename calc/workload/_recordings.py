"""The book's own recordings, in data/measured: what every reader of one does before it takes out its own rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from calc.workload._files import Fields, ReadError, json_lines

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Recording:
    """The rows of a recording.

    Attributes
    ----------
    header : Fields
        What was recorded, where and how.
    runs : dict of int to Fields
        The accepted repeats, by number, in the order of the recording.
    rejected : dict of int to Fields
        The rejected ones; of these nothing else is kept.
    rows : dict of str to list of Fields
        The other rows that were asked for, by kind.
    """

    header: Fields
    runs: dict[int, Fields]
    rejected: dict[int, Fields]
    rows: dict[str, list[Fields]]


def read_recording(path: str | Path, made_by: str, *kinds: str) -> Recording:
    """Read a recording of data/measured.

    Parameters
    ----------
    path : path
        The file, gzipped or not.
    made_by : str
        What kind of recording is wanted, for a message.
    *kinds : str
        Rows to keep, such as "request"; there must be some of the first kind. None: the runs alone.

    Returns
    -------
    Recording

    Raises
    ------
    ReadError
        With the line, if the file is cut off, of another schema, or holds no row of the first kind.
    """
    lines = json_lines(path, made_by)
    header = next(lines)
    if header.data.get("kind") != "header" or header.data.get("schema") != SCHEMA:
        raise ReadError(f"{header.where}: no header of schema {SCHEMA}; wanted a {made_by}")
    runs: dict[int, Fields] = {}
    rejected: dict[int, Fields] = {}
    rows: dict[str, list[Fields]] = {kind: [] for kind in kinds}
    for row in lines:
        kind = row.text("kind")
        if kind == "run":
            (runs if row.data.get("accepted") is True else rejected)[row.count("run")] = row
        elif kind in rows:
            rows[kind].append(row)
    if kinds and not rows[kinds[0]]:
        raise ReadError(f"{header.where}: no {kinds[0]} in this recording; wanted a {made_by}")
    return Recording(header, runs, rejected, rows)
