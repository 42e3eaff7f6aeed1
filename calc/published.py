"""Numbers that others printed, each with the call that recomputes it.

``data/published.csv`` holds published values: those that hold, those whose unit is printed wrong, and
those that are wrong. ``data/field_cases.csv`` holds real questions from public trackers. Every row names
a function of `calc` and its arguments, so tests, the evidence ledger and the reader run the same thing.
"""

from __future__ import annotations

import csv
import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from typing import Any

from calc.models import ModelGeometry, load
from calc.sources import Figure, data_path
from calc.units import CalcError, dimensions, format_count, format_percent, lookup, parse, significant

ROLES = {
    "pin": "holds as printed",
    "label": "holds in another unit than the one printed",
    "erratum": "does not hold",
    "copy": "is where the book took its own figure from",
}
_UNSEEN = 5e-6  # of a value: what a difference must be to be shown
_CLOSE = {"": "", "%": "%", "x": "×"}  # units that follow a number without a space
_MANY = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "parameters": 1, "elements": 1}


@dimensions("", of="", to=">0")
def ratio(*, of, to):
    """How many times one quantity is another of the same kind.

    Parameters
    ----------
    of, to : float
        In the same unit; `to` is not 0.

    Returns
    -------
    float

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or `to` is 0.

    Examples
    --------
    >>> ratio(of=1979e12, to=989.5e12)
    2.0
    """
    ratio = of / to
    return ratio


@dataclass(frozen=True, slots=True)
class Row:
    """A published value.

    Attributes
    ----------
    id, topic, quantity : str
    function : str
        What computes it; see `call`.
    arguments : Mapping
        Its arguments; see `call`.
    printed : float
        The value as printed.
    unit : str
        Unit of `printed`, of `tolerance` and of `right`. For a "label" row the unit that was meant.
    tolerance : float
        How far the computed value may be off, for the reason given in `tolerance_reason`: half of the last digit
        printed, unless the inputs are rounded too. A value cut where it should be rounded does not hold.
    role : str
        A key of `ROLES`. A "copy" proves the copying and computes nothing.
    right : float or None
        Of an erratum, the value that should stand there.
    reason : str
        What to know about it. A "label" row starts with the printed unit: ``Printed "GB"``.
    source, url, checked : str
        Who printed it, where, and when it was looked up (empty: not found again).
    """

    id: str
    topic: str
    quantity: str
    function: str
    arguments: Mapping[str, Any]
    printed: float
    unit: str
    tolerance: float
    tolerance_reason: str
    role: str
    right: float | None
    reason: str
    source: str
    url: str
    checked: str

    @property
    def printed_unit(self) -> str:
        """The unit as printed, right or wrong."""
        match = re.match(r'Printed "(.+?)"', self.reason)
        return match[1] if self.role == "label" and match else self.unit

    @property
    def expected(self) -> float:
        """What the computation must give: the right value where the printed one is wrong."""
        return self.printed if self.right is None else self.right

    def holds(self, computed: float) -> bool:
        """Whether a computed value is the expected one, give or take the tolerance and the rounding of floats."""
        return _near(computed, self.expected, self.tolerance)


@dataclass(frozen=True, slots=True)
class FieldCase:
    """A real question from a public tracker, and the mistake in it.

    Attributes
    ----------
    id, topic, url, situation, quantity : str
        `url` may list several threads, separated by spaces.
    function : str
        What computes it; see `call`.
    arguments : Mapping
        Its arguments; see `call`.
    unit : str
        Unit of the values.
    value, tolerance : float
        The answer, and how far the computed value may be off, for the reason in `tolerance_reason`.
    wrong : float or None
        What it is by the mistake.
    wrong_from : str
        Who put that in a number: "thread", or "book" where the thread names the mistake and this book worked it out.
    factor : float or None
        Wrong value over right value.
    mistake : str
        How it came about.
    """

    id: str
    topic: str
    url: str
    situation: str
    quantity: str
    function: str
    arguments: Mapping[str, Any]
    unit: str
    value: float
    tolerance: float
    tolerance_reason: str
    wrong: float | None
    wrong_from: str
    factor: float | None
    mistake: str

    def holds(self, computed: float) -> bool:
        """Whether a computed value is the answer, give or take the tolerance and the rounding of floats."""
        return _near(computed, self.value, self.tolerance)


def _near(computed: float, expected: float, tolerance: float) -> bool:
    return abs(computed - expected) <= tolerance + 1e-12 * abs(expected)


@functools.cache
def rows() -> tuple[Row, ...]:
    """All published values, in file order.

    Examples
    --------
    >>> next(row for row in rows() if row.id == "KV-009").printed
    516.096
    """
    return tuple(
        Row(
            **{name: line[name] for name in ("id", "topic", "quantity", "function", "tolerance_reason", "role")},
            **{name: line[name] for name in ("reason", "source", "url", "checked")},
            arguments=json.loads(line["arguments"]),
            printed=float(line["published_value"]),
            unit=line["published_unit"],
            tolerance=float(line["tolerance"]),
            right=_number(line["right_value"]),
        )
        for line in _lines("published.csv")
    )


@functools.cache
def field_cases() -> tuple[FieldCase, ...]:
    """All field cases, in file order.

    Examples
    --------
    >>> next(case for case in field_cases() if case.id == "KV-02").value
    524288.0
    """
    return tuple(
        FieldCase(
            **{name: line[name] for name in ("id", "topic", "url", "situation", "quantity", "function", "unit")},
            **{name: line[name] for name in ("tolerance_reason", "wrong_from", "mistake")},
            arguments=json.loads(line["arguments"]),
            value=float(line["value"]),
            tolerance=float(line["tolerance"]),
            wrong=_number(line["wrong_value"]),
            factor=_number(line["factor"]),
        )
        for line in _lines("field_cases.csv")
    )


def _lines(name: str) -> list[dict[str, str]]:
    with data_path().joinpath(name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _number(text: str) -> float | None:
    return float(text) if text else None


def evaluate(entry: Row | FieldCase, unit: str | None = None) -> float:
    """Compute an entry's value.

    Parameters
    ----------
    entry : Row or FieldCase
    unit : str or None
        Unit of the result; None takes the entry's own.

    Returns
    -------
    float

    Raises
    ------
    CalcError
        If the function or its arguments make no sense, or the unit is unknown.

    Examples
    --------
    >>> row = next(row for row in rows() if row.id == "KV-009")
    >>> evaluate(row), evaluate(row, "KiB")
    (516.096, 504.0)
    """
    return call(entry.function, entry.arguments) / _factor(entry.unit if unit is None else unit)


def written(entry: Row | FieldCase, *, figures: int = 6) -> tuple[str, str, str, str]:
    """Write an entry out, for the row of a table.

    Parameters
    ----------
    entry : Row or FieldCase
    figures : int
        Most significant digits of a computed value that is not whole; what was printed keeps all of its own.

    Returns
    -------
    tuple of str
        The quantity; the value as printed, or a case's answer; the computed one; the computed one over the other, less
        one, with a word if the printed unit or value is wrong.

    Raises
    ------
    CalcError
        As `evaluate`.

    Examples
    --------
    >>> written(next(row for row in rows() if row.id == "KV-008"))
    ('Qwen2.5-72B, bf16, one token', '327.68 kB', '327.68 kB', 'none')
    >>> written(next(row for row in rows() if row.id == "KV-001"))[1:]
    ('800 KB', '800 KiB', 'none, but KB means KiB')
    """
    computed, role = evaluate(entry), entry.role if isinstance(entry, Row) else ""
    said, unit = (entry.printed, entry.printed_unit) if isinstance(entry, Row) else (entry.value, entry.unit)
    share = computed / said - 1 if computed != said else 0.0
    difference = "none" if abs(share) < _UNSEEN else format_percent(share, 2)
    if role == "label":
        difference += f", but {unit} means {entry.unit}"
    if role == "erratum":
        difference += "; the printed value is wrong"
    return entry.quantity, _with_unit(said, unit), _with_unit(computed, entry.unit, figures), difference


def _with_unit(value: float, unit: str, figures: int = 12) -> str:
    number = format_count(value) if value == int(value) else significant(value, figures)
    return f"{number}{_CLOSE.get(unit, f' {unit}')}"


def _factor(unit: str) -> float:
    """Base units in one of `unit`; "thousand tokens" and "billion parameters" are units too."""
    first = unit.partition(" ")[0]
    return _MANY[first] if first in _MANY else lookup(unit).factor


def call(function: str, arguments: Mapping[str, Any]) -> Any:
    """Call a function of `calc` by its dotted name.

    Parameters
    ----------
    function : str
        For example "calc.kv_cache.bytes_per_position". What follows ``()`` is looked up in the result:
        "calc.hardware.accelerator().peaks.bf16".
    arguments : Mapping
        Plain values; "12 GiB" stands for its bytes; ``{"calc.….name": {…}}`` is the result of another call.
        The argument ``model`` is a slug of the catalogue or the fields of a configuration file.

    Returns
    -------
    object
        The result in base units; of a `Figure`, its value.

    Raises
    ------
    CalcError
        If there is no such function or part of the result, or the function does not take these arguments.

    Examples
    --------
    >>> call("calc.hardware.accelerator().peaks.bf16", {"slug": "h100-sxm"})
    989500000000000.0
    """
    name, called, parts = function.partition("()")
    path = name.split(".")
    if path[0] != "calc" or len(path) < 3:
        raise CalcError(f"{function!r:.80} is no function of calc: write calc.module.function")
    if not path[1].isidentifier() or not find_spec(f"calc.{path[1]}"):
        raise CalcError(f"calc has no module {path[1]!r:.40}")
    formula = functools.reduce(_part, path[2:], import_module(f"calc.{path[1]}"))
    if not callable(formula):
        raise CalcError(f"{name:.80} is no function")
    given = {key: _value(key, value) for key, value in arguments.items()}
    try:
        signature(formula).bind(**given)
    except TypeError as error:
        raise CalcError(f"{name:.80}: {error}; it takes {', '.join(signature(formula).parameters)}") from None
    result = formula(**given)
    result = functools.reduce(_part, parts.strip(".").split("."), result) if called and parts else result
    return result.value if isinstance(result, Figure) else result


def _part(whole: Any, name: str) -> Any:
    found = whole.get(name) if isinstance(whole, Mapping) else getattr(whole, name, None)
    if found is None or name.startswith("_"):
        raise CalcError(f"{type(whole).__name__} has no {name!r:.40}")
    return found


def _value(key: str, value: Any) -> Any:
    if key == "model":
        return load(value) if isinstance(value, str) else ModelGeometry.from_config(value)
    if isinstance(value, Mapping):
        if len(value) != 1:
            raise CalcError(f"{key} names {len(value)} functions, wanted one with its arguments")
        [(function, arguments)] = value.items()
        return call(function, arguments)
    return parse(value).value if isinstance(value, str) and value[:1].isdigit() else value
