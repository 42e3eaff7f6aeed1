"""Reading other people's files: every complaint names the file, the place and what would be right."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calc.units import CalcError

MOST = 2**120  # of a number in a file: beyond any quantity meant


class ReadError(CalcError):
    """A file is not what it should be: the message names the place and the remedy."""


class Fields:
    """A record of a file, whose fields are checked as they are taken.

    Parameters
    ----------
    data : mapping
        The record.
    where : str
        Its place, for messages: "requests.jsonl, line 7".
    made_by : str
        What writes such files, for the remedy.
    """

    def __init__(self, data: Any, where: str, made_by: str) -> None:
        if not isinstance(data, Mapping):
            raise ReadError(f"{where}: {_short(data)} where an object with named fields belongs; wanted a {made_by}")
        self.data, self.where, self.made_by = data, where, made_by

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.data.get(name) is not None

    def number(self, name: str, *, at_least: float | None = 0) -> float:
        """A finite number. Text that reads as one is taken, for CSV."""
        value = self._take(name)
        if isinstance(value, str):
            value = _parsed(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < MOST:
            raise self.wrong(name, "a number")
        if at_least is not None and value < at_least:
            raise self.wrong(name, f"at least {at_least}")
        return value

    def count(self, name: str) -> int:
        """A whole number of at least 0."""
        value = self.number(name)
        if value != int(value):
            raise self.wrong(name, "a whole number")
        return int(value)

    def text(self, name: str) -> str:
        """A string."""
        if not isinstance(self._take(name), str):
            raise self.wrong(name, "text")
        return self.data[name]

    def array(self, name: str) -> list:
        """A list."""
        if not isinstance(self._take(name), list):
            raise self.wrong(name, "a list")
        return self.data[name]

    def numbers(self, name: str) -> list[float]:
        """A list of finite numbers of at least 0."""
        values = self.array(name)
        if not all(isinstance(v, (int, float)) and not isinstance(v, bool) and 0 <= v < MOST for v in values):
            raise self.wrong(name, "a list of numbers of at least 0")
        return values

    def fields(self, name: str) -> Fields:
        """A record inside this one."""
        return Fields(self._take(name), f"{self.where}, {name}", self.made_by)

    def wrong(self, name: str, wanted: str) -> ReadError:
        """The error for a field that is there, but wrong."""
        return ReadError(f"{self.where}: {name} is {_short(self.data.get(name))}, wanted {wanted}")

    def _take(self, name: str) -> Any:
        if not self.has(name):
            raise ReadError(f"{self.where}: no field {name!r}; wanted a {self.made_by}")
        return self.data[name]


def json_file(path: str | Path, made_by: str) -> Fields:
    """A file that is one JSON object.

    Raises
    ------
    ReadError
        With the line, if it is cut off or no JSON.
    """
    text = _text(path)
    return Fields(_decode(text, Path(path).name, 1, made_by), Path(path).name, made_by)


def json_lines(path: str | Path, made_by: str) -> Iterator[Fields]:
    """The records of a file that is one JSON object a line; empty lines are skipped.

    Raises
    ------
    ReadError
        With the line, if it is cut off or no JSON.
    """
    name, empty = Path(path).name, True
    with _open(path) as lines:
        for number, line in _safely(lines, name):
            if line.strip():
                empty = False
                yield Fields(_decode(line, name, number, made_by), f"{name}, line {number}", made_by)
    if empty:
        raise ReadError(f"{name}: the file is empty; wanted a {made_by}")


def csv_rows(path: str | Path, columns: tuple[str, ...], made_by: str) -> Iterator[Fields]:
    """The rows of a CSV file with a header, which has at least these columns.

    Raises
    ------
    ReadError
        With the line, if a column is missing or a row has more or fewer cells than the header.
    """
    name = Path(path).name
    with _open(path) as lines:
        rows = csv.reader(line for _, line in _safely(lines, name))
        header = next(rows, None)
        if header is None:
            raise ReadError(f"{name}: the file is empty; wanted a {made_by}")
        header = [cell.strip().removeprefix("\ufeff") for cell in header]
        missing = [column for column in columns if column not in header]
        if missing:
            raise ReadError(
                f"{name}, line 1: no column {missing[0]!r} among {_short(','.join(header))}; wanted a {made_by}"
            )
        for cells in rows:
            if not cells:
                continue
            where = f"{name}, line {rows.line_num}"
            if len(cells) != len(header):
                raise ReadError(
                    f"{where}: {len(cells)} cells under {len(header)} columns; the row is cut off or broken, "
                    "so fetch the file again"
                )
            yield Fields(dict(zip(header, cells, strict=True)), where, made_by)


def _open(path: str | Path):  # noqa: ANN202
    try:
        if str(path).endswith(".gz"):
            return gzip.open(path, "rt", encoding="utf-8", newline="")
        return open(path, encoding="utf-8", newline="")
    except OSError as error:
        raise ReadError(f"{path}: cannot be opened ({error.strerror}); give the path of an existing file") from None


def _safely(lines: Any, name: str) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        for number, line in enumerate(lines, start=1):
            yield number, line
    except UnicodeDecodeError:
        raise ReadError(f"{name}, after line {number}: not UTF-8 text; unpack it first if it is an archive") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ReadError(f"{name}, after line {number}: no gzip file, or one cut off; fetch it again") from None


def _text(path: str | Path) -> str:
    with _open(path) as lines:
        return "".join(line for _, line in _safely(lines, Path(path).name))


def _decode(text: str, name: str, first_line: int, made_by: str) -> Any:
    try:
        return _JSON.decode(text)
    except _Twice as key:
        raise ReadError(
            f"{name}, in the object of line {first_line}: {key} is stated twice, differently; keep the right one"
        ) from None
    except json.JSONDecodeError as error:
        end = len(text.rstrip())
        line = first_line + text.count("\n", 0, min(error.pos, end))
        if error.pos >= end or "Unterminated" in error.msg:
            raise ReadError(f"{name}, line {line}: the JSON is cut off here; fetch or write the file again") from None
        raise ReadError(
            f"{name}, line {line}, column {error.colno}: no JSON ({error.msg}); wanted a {made_by}"
        ) from None
    except (ValueError, RecursionError):  # Python refuses numbers of thousands of digits, and so deep a nesting
        raise ReadError(
            f"{name}, line {first_line}: a number of thousands of digits, or hundreds of levels; wanted a {made_by}"
        ) from None


class _Twice(Exception):
    """A key that an object states twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of its pairs; Python alone would take the last of two that contradict each other."""
    found = dict(pairs)
    if len(found) < len(pairs):
        for key, value in pairs:
            if value != found[key]:
                raise _Twice(_short(key))
    return found


_JSON = json.JSONDecoder(object_pairs_hook=_once)


def _parsed(text: str) -> float | None:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return None


def _short(value: Any) -> str:
    try:
        shown = repr(value)
    except ValueError:  # Python writes no number of thousands of digits
        return "a number of thousands of digits"
    return shown if len(shown) <= 60 else shown[:57] + "..."
