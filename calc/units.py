"""Units: one table, a parser, three formatters, and the dimension check that guards every formula.

Counts (tokens, layers, heads, sequences) have no dimension, as in SI. Bytes, seconds and FLOP do.
Memory and cache are written in binary units (KiB, GiB). Wire volume, bandwidth and FLOP rates are
decimal (GB/s, TFLOP/s). The two differ by 7% at the giga step and 10% at the tera step, enough to
turn "fits" into "does not".
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class CalcError(ValueError):
    """Base of every error this library raises on purpose: it names the problem and the remedy."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message alone, since a reader's choice is no bug to trace."""
        return [f"{type(self).__name__}: {self}"]


class UnitError(CalcError):
    """A quantity has the wrong unit, an unknown unit, or none where one is needed."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One row of the unit table: the dimension in base units and the factor to reach them."""

    dimension: str
    factor: float


def _unit_table() -> dict[str, Unit]:
    table = {"": Unit("", 1)}
    for name in (
        "token",
        "position",
        "block",
        "layer",
        "head",
        "request",
        "prompt",
        "sequence",
        "step",
        "expert",
        "replica",
        "descriptor",
    ):
        table[name] = table[name + "s"] = Unit("", 1)
    table |= {"x": Unit("", 1), "×": Unit("", 1), "%": Unit("", 0.01)}
    table |= {"B": Unit("byte", 1), "byte": Unit("byte", 1), "bytes": Unit("byte", 1)}
    table |= {"bit": Unit("byte", 0.125), "bits": Unit("byte", 0.125)}
    for power, prefix in enumerate(("K", "M", "G", "T", "P", "E"), start=1):
        table[prefix + "iB"] = Unit("byte", 1024**power)
        table[prefix + "iB/s"] = Unit("byte/second", 1024**power)
    for power, prefix in enumerate(("k", "M", "G", "T", "P", "E"), start=1):
        table[prefix + "B"] = Unit("byte", 1000**power)
        table[prefix + "bit"] = Unit("byte", 1000**power / 8)
        table[prefix + "B/s"] = Unit("byte/second", 1000**power)
        table[prefix + "bit/s"] = Unit("byte/second", 1000**power / 8)
        table[prefix + "FLOP"] = Unit("FLOP", 1000**power)
        table[prefix + "FLOP/s"] = Unit("FLOP/second", 1000**power)
    table |= {"KB": table["kB"], "KB/s": table["kB/s"], "B/s": Unit("byte/second", 1)}
    table |= {"FLOP": Unit("FLOP", 1), "FLOP/s": Unit("FLOP/second", 1), "FLOP/B": Unit("FLOP/byte", 1)}
    table |= {"s": Unit("second", 1), "ms": Unit("second", 1e-3), "us": Unit("second", 1e-6)}
    table |= {"µs": Unit("second", 1e-6), "ns": Unit("second", 1e-9)}
    table |= {"min": Unit("second", 60), "h": Unit("second", 3600)}
    for symbol in ("/s", "1/s", "tokens/s", "requests/s", "token/s", "request/s", "tok/s", "req/s"):
        table[symbol] = Unit("1/second", 1)
    return table


UNITS: dict[str, Unit] = _unit_table()
_PLAIN = frozenset((int, float))
_LARGEST, _LARGEST_COUNT = 2**120, 2**53  # beyond any quantity meant; what floating point counts one by one
_FOLDED = {symbol.casefold(): symbol for symbol in reversed(UNITS)}
_AMBIGUOUS = re.compile(r"(?:[kKMGTP]|[KMGTP]i)?b(/s|ps)?")  # Gb, Kib: bits or bytes, nobody can tell
_PER_SECOND = re.compile(r"([kKMGTPE]?)(?:FLOPS|FLOPs)")  # as data sheets write a rate, and others a count
_NUMBER = re.compile(r"[+-]?(\d{1,3}(?:[,_ ]\d{3})+|\d+)?(\.\d*)?([eE][+-]?\d{1,3})?")


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity somebody wrote: the value in base units, and how it was written.

    Attributes
    ----------
    value : float
        In base units (bytes, seconds, FLOP, their rates; counts as they are).
    dimension : str
        "byte", "second", "FLOP", "byte/second", … or "" for a count or ratio.
    number, unit : float, str
        The number and the unit as written.
    digits : int
        Significant digits written, zeros at the end of a whole number included.
    """

    value: float
    dimension: str
    number: float
    unit: str
    digits: int


def parse(text: str) -> Amount:
    """Read a quantity with its unit.

    Parameters
    ----------
    text : str
        For example "320 KiB", "327,680 B", "5.4 GB", "12 tokens", "40%", "≈ 1e5".

    Returns
    -------
    Amount

    Raises
    ------
    UnitError
        If there is no finite number, the unit is unknown, or it is ambiguous ("Gb").

    Examples
    --------
    >>> parse("320 KiB").value
    327680
    >>> parse("40%").value
    0.4
    """
    if not isinstance(text, str) or not text.strip():
        raise UnitError('nothing to read: write a number and a unit, for example "12 MiB"')
    shown = repr(text[:40])
    clean = re.sub(r"\s", " ", text[:80]).replace("−", "-").strip().lstrip("≈~ ")
    match = _NUMBER.match(clean)
    digits = (match[1] or "") + (match[2] or "") if match else ""
    if len(text) > 80 or not re.search(r"\d", digits):
        raise UnitError(f'no number found in {shown}: write it like "12 MiB"')
    rest = clean[match.end() :].strip()
    if rest[:1].isdigit() or rest[:1] in {",", ".", "-", "–", "…"}:
        raise UnitError(f'cannot read {shown}: write one number, with a point for decimals, like "5.4 GiB"')
    written = re.sub(r"[,_ ]", "", match[0])
    exact = match[2] is None and match[3] is None
    number = int(written) if exact else float(written)
    unit = lookup(rest)
    value = number * unit.factor
    if not math.isfinite(value):
        raise UnitError(f"{shown} is too large to be meant")
    significant = len(re.sub(r"\D", "", digits).lstrip("0")) or 1
    return Amount(value, unit.dimension, number, rest, significant)


def lookup(symbol: str) -> Unit:
    """Find a unit by its symbol; letter case is forgiven where only one unit can be meant.

    Raises
    ------
    UnitError
        If the symbol is unknown or could mean bits as well as bytes.
    """
    if symbol in UNITS:
        return UNITS[symbol]
    if _AMBIGUOUS.fullmatch(symbol):
        prefix, rate = symbol.partition("b")[0], "/s" if symbol.endswith("s") else ""
        bits, whole = f"{prefix.removesuffix('i')}bit{rate}", f"{prefix}B{rate}"
        raise UnitError(f'"{symbol}" could be bits or bytes: write {bits} or {whole}')
    if count := _PER_SECOND.fullmatch(symbol):
        raise UnitError(f'"{symbol}" could be a number or a rate: write {count[1]}FLOP or {count[1]}FLOP/s')
    folded = _FOLDED.get(symbol.casefold())
    if folded is None:
        known = "B, KiB, MiB, GiB, kB, MB, GB, GB/s, Gbit/s, s, ms, tokens, tokens/s, FLOP, FLOP/s or %"
        raise UnitError(f"unknown unit {symbol[:40]!r}: use {known}")
    return UNITS[folded]


@functools.lru_cache(maxsize=4096)  # a page of results has most numbers of the page before
def significant(value: float, digits: int = 4) -> str:
    """Write a number with at most `digits` significant digits, grouped by thousands, no zeros trailing.

    Examples
    --------
    >>> significant(131.417), significant(320.0), significant(1234567), significant(0)
    ('131.4', '320', '1,235,000', '0')
    """
    if not math.isfinite(value):
        raise CalcError(f"cannot write {value} as a number")
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, decimals):,.{max(decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_count(value: float) -> str:
    """Write a count with every digit: 327680 → "327,680"; a count that is not whole keeps four digits."""
    whole = isinstance(value, int) or (math.isfinite(value) and value == int(value))
    return f"{int(value):,}" if whole else significant(value)


def counted(value: float, noun: str) -> str:
    """A count with its noun in the right number.

    Examples
    --------
    >>> counted(1, "token"), counted(2048, "token"), counted(2, "batch"), counted(2, "history"), counted(2, "day")
    ('1 token', '2,048 tokens', '2 batches', '2 histories', '2 days')
    """
    if value != 1:
        if noun.endswith("y") and noun[-2] not in "aeiou":
            noun = noun[:-1] + "ie"
        noun += "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{format_count(value)} {noun}"


def format_bytes(value: float) -> str:
    """Write a capacity or cache size in binary units.

    Examples
    --------
    >>> format_bytes(327680), format_bytes(141107412992), format_bytes(512)
    ('320 KiB', '131.4 GiB', '512 B')
    """
    return _prefixed(value, 1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi"), "B")


def format_decimal(value: float, unit: str) -> str:
    """Write a rate or a wire volume in decimal units.

    Examples
    --------
    >>> format_decimal(3.35e12, "B/s"), format_decimal(989.4e12, "FLOP/s")
    ('3.35 TB/s', '989.4 TFLOP/s')
    """
    return _prefixed(value, 1000, ("", "k", "M", "G", "T", "P", "E"), unit)


def _prefixed(value: float, base: int, prefixes: tuple[str, ...], unit: str, digits: int = 4) -> str:
    """Write a value with the largest prefix that leaves at least 1, after rounding."""
    power = next((p for p in range(len(prefixes) - 1, 0, -1) if abs(value) >= base**p), 0)
    text = significant(value / base**power, digits)
    if power + 1 < len(prefixes) and abs(float(text.replace(",", ""))) >= base:
        power, text = power + 1, "1" if value > 0 else "-1"
    return f"{text} {prefixes[power]}{unit}"


def format_seconds(value: float, digits: int = 4) -> str:
    """Write a time with at most `digits` significant digits: "8.2 ms", "1.4 s", "35 µs".

    Examples
    --------
    >>> format_seconds(0.0082), format_seconds(90), format_seconds(0.99996)
    ('8.2 ms', '90 s', '1 s')
    """
    rounded = float(f"{value:.{digits}g}")  # or 999.96 ms would be 1,000
    for factor, symbol in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(rounded) >= factor or value == 0:
            return f"{significant(value / factor, digits)} {symbol}"
    return f"{significant(value / 1e-9, digits)} ns"


def format_percent(share: float, digits: int = 3) -> str:
    """Write a share of 1 as a percentage, with at most `digits` significant digits, but every whole percent.

    Examples
    --------
    >>> format_percent(0.1234), format_percent(0.25, 2), format_percent(1.5), format_percent(0)
    ('12.3%', '25%', '150%', '0%')
    >>> format_percent(1.075, 2), format_percent(0.996, 2)
    ('108%', '100%')
    """
    percent = 100 * float(share)
    if 10**digits <= abs(percent) < math.inf:  # rounding 107.5 to two digits would give 110
        return f"{round(percent):,}%"
    return f"{significant(percent, digits)}%"


def format_as(value: float, dimension: str) -> str:
    """Write a value in base units the way the book writes that dimension."""
    if dimension == "byte":
        return format_bytes(value)
    if dimension == "second":
        return format_seconds(value)
    if dimension in {"", "count"}:
        return format_count(value)
    if dimension == "1/second":
        return f"{significant(value)}/s"
    return format_decimal(value, dimension.replace("byte", "B").replace("second", "s"))


def dimensions(result: str, /, **declared: str) -> Callable:
    """Guard a formula: check every argument's dimension, then run the body on plain numbers.

    Parameters
    ----------
    result : str
        Dimension of the result: "byte", "second", "FLOP", "byte/second", "FLOP/byte", "count" or "".
    **declared : str
        Dimension of each argument. "count" is a whole number. A trailing ">0" forbids zero.

    Notes
    -----
    Plain numbers are taken in base units, numpy arrays element by element. A pint Quantity is checked,
    converted, and the result is wrapped in the declared unit. Every argument must be finite and not
    negative: no quantity of this book is. Counts stay below 2^53, where floating point counts in ones.
    The bare formula stays at ``.formula``, the units at ``.units`` and ``.result_unit``.

    Examples
    --------
    >>> @dimensions("byte", tokens="count", size="byte")
    ... def total(*, tokens, size):
    ...     return tokens * size
    >>> total(tokens=3, size=2)
    6
    >>> total(tokens=-3, size=2)
    Traceback (most recent call last):
        ...
    calc.units.CalcError: total: tokens is -3, wanted a whole number of at least 0
    """

    def decorate(formula: Callable) -> Callable:
        parameters = inspect.signature(formula).parameters
        if set(parameters) != set(declared):
            raise TypeError(f"{formula.__name__}: declared {sorted(declared)}, takes {sorted(parameters)}")
        defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
        whole = result.partition(">")[0] == "count"

        @functools.wraps(formula)
        def guarded(**arguments: Any) -> Any:
            _check_names(formula.__name__, parameters, defaults, arguments)
            checked = {name: plain(formula.__name__, name, value, declared[name]) for name, value in arguments.items()}
            if _PLAIN.issuperset(map(type, arguments.values())):  # the usual case: neither arrays nor Quantities
                answer = formula(**checked)
                return int(answer) if whole else answer
            answer = _evaluate(formula, defaults | checked, whole)
            registry = next((value._REGISTRY for value in arguments.values() if hasattr(value, "_REGISTRY")), None)
            return answer if registry is None else registry.Quantity(answer, _pint_unit(registry, result))

        guarded.formula, guarded.units, guarded.result_unit = formula, declared, result
        return guarded

    return decorate


def _evaluate(formula: Callable, arguments: dict[str, Any], whole: bool) -> Any:
    """Run a formula on plain numbers; on arrays element by element, so that no fixed-width integer overflows."""
    if not any(getattr(value, "ndim", 0) for value in arguments.values()):
        answer = formula(**arguments)
        return int(answer) if whole else answer
    import numpy

    def one(*values: Any) -> float:
        return formula(**dict(zip(arguments, values, strict=True)))

    answer = numpy.vectorize(one, otypes=[object])(*arguments.values())
    return answer.astype(numpy.int64 if whole else float)


def _check_names(function: str, parameters: Any, defaults: dict, arguments: dict) -> None:
    if arguments.keys() == parameters.keys():
        return
    unknown = [name for name in arguments if name not in parameters]
    missing = [name for name in parameters if name not in arguments and name not in defaults]
    if unknown or missing:
        what = f"has no argument {unknown[0]!r}" if unknown else f"needs {missing[0]!r}"
        raise TypeError(f"{function} {what}; it takes {', '.join(parameters)}")


def plain(function: str, name: str, value: Any, declared: str) -> Any:
    """Check one argument and return it as a plain number (or array) in base units.

    Parameters
    ----------
    function, name : str
        Whose argument it is, for the message.
    value : number, numpy array or pint Quantity
        What was given.
    declared : str
        The dimension wanted, as for `dimensions`.

    Raises
    ------
    CalcError
        If it is not a finite number of at least 0 in that dimension, or beyond any quantity meant (`UnitError` for a
        wrong unit).

    Examples
    --------
    >>> plain("sequence_bytes", "positions", 4096, "count")
    4096
    """
    if type(value) is int and 0 < value < _LARGEST_COUNT:  # the usual case, whatever was declared
        return value
    if hasattr(value, "_REGISTRY"):
        value = _from_quantity(function, name, value, declared)
    value = of_python(value)  # a numpy scalar would overflow where an int does not
    dimension, _, positive = declared.partition(">")
    kind = "a whole number" if dimension == "count" else f"a number{' in ' + dimension if dimension else ''}"
    wanted = f"{kind} {'above 0' if positive else 'of at least 0'}"
    largest = _LARGEST_COUNT if dimension == "count" else _LARGEST
    try:
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        fits = (value < largest) & (value > 0 if positive else value >= 0)
        if dimension == "count":
            fits = fits & (value % 1 == 0)
        fits = bool(fits.all()) if hasattr(fits, "all") else bool(fits)
    except TypeError:
        fits = False
    if not fits:
        raise CalcError(f"{function}: {name} is {_shown(value)}, wanted {wanted}{_limit(value, largest)}")
    return value


def relation(text: str, value: float) -> str:
    """The sign before a number as it is written: = if that is all of it, ≈ if it is rounded.

    Examples
    --------
    >>> relation("320 KiB", 327680), relation("2.145", 2.144531)
    ('=', '≈')
    """
    return "=" if math.isclose(parse(text).value, value, rel_tol=1e-12) else "≈"


def of_python(value: Any) -> Any:
    """A single number of numpy's as one of Python's; anything else as it is.

    Examples
    --------
    >>> of_python(4096), of_python("auto")
    (4096, 'auto')
    """
    return value.item() if hasattr(value, "item") and not getattr(value, "ndim", 1) else value


def _limit(value: Any, largest: int) -> str:
    """What to say of a number that is refused because it is too large; nothing of any other."""
    try:
        over = value >= largest
    except TypeError:
        return ""
    return f" and below {largest:.3g}" if (over.any() if hasattr(over, "any") else over) else ""


def _shown(value: Any) -> str:
    """A value as an error message quotes it: short, whatever it is."""
    if isinstance(value, str):
        value = value[:40]
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a number of more than 40 digits"
    return repr(value)[:40]


def registry() -> Any:
    """The pint registry with the book's units (token, FLOP) added. Imports pint.

    Examples
    --------
    >>> Q = registry().Quantity
    >>> str(Q(2, "KiB").to("byte"))
    '2048 byte'
    """
    import pint

    ureg = pint.get_application_registry()
    _pint_unit(ureg, "FLOP")
    _pint_unit(ureg, "token")
    return ureg


def _pint_unit(ureg: Any, unit: str) -> Any:
    """Look up a unit in a pint registry, adding FLOP and token where they are missing."""
    unit = unit.partition(">")[0]
    if "FLOP" not in ureg:
        ureg.define("FLOP = [computation]")
    if "token" not in ureg:
        ureg.define("token = count")
    return ureg.Unit("" if unit == "count" else unit)


def _from_quantity(function: str, name: str, quantity: Any, declared: str) -> Any:
    """Convert a Quantity to the declared base unit.

    Root units are compared, not dimensions: pint calls a bit dimensionless, so a bare number
    would pass for bytes.
    """
    ureg = quantity._REGISTRY
    wanted = _pint_unit(ureg, declared)
    root = quantity.to_root_units()
    counts = {"", "count"}
    same = root.units == ureg.Quantity(1, wanted).to_root_units().units
    if not same and not (str(root.units).replace("dimensionless", "") in counts and str(wanted) == "dimensionless"):
        given = f"{quantity.units:~}" or "a plain number"
        raise UnitError(f"{function}: {name} is {given}, wanted {str(wanted).replace('dimensionless', 'a count')}")
    return root.magnitude if str(wanted) == "dimensionless" else quantity.to(wanted).magnitude
