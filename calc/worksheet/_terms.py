"""The working of a line that no single formula gives: a sum, a share or a choice, in words and in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from calc.units import format_bytes, format_decimal, format_seconds, significant
from calc.working import exact
from calc.worksheet._lines import written

_ROUNDED = {"second", "FLOP", "1", "×", "1/second"}


def number(value: Any, unit: str = "") -> str:
    """A number as a working writes it: bytes and counts with all their digits.

    Examples
    --------
    >>> number(327680, "byte"), number(1.5), number(0.0125, "second")
    ('327,680 B', '1.5', '12.5 ms')
    """
    if unit == "second":
        return format_seconds(value)
    if unit == "FLOP":
        return format_decimal(value, "FLOP")
    digits = 16 if float(value).is_integer() else max(7, len(str(int(abs(value)))))
    return f"{significant(value, digits)} B" if unit == "byte" else significant(value, digits)


def spelled(name: str, words: str, numbers: str, value: Any, unit: str = "") -> str:
    """A working from its words, its numbers and its result.

    Parameters
    ----------
    name : str
        What it gives.
    words : str
        How, in words and signs.
    numbers : str
        The same with numbers.
    value, unit
        The result, as of a line.

    Examples
    --------
    >>> print(spelled("Sequences", "⌊blocks / blocks of one⌋", "⌊1,000 / 300⌋", 3))
    Sequences = ⌊blocks / blocks of one⌋ = ⌊1,000 / 300⌋ = 3
    """
    result = _result(value, unit)
    if result.startswith(f"{numbers} "):  # one part: its number is the sum
        result = result.removeprefix(f"{numbers} ").removeprefix("= ")
    return " = ".join(dict.fromkeys((name, words, numbers or words, result))).replace("= ≈", "≈")


def added(name: str, parts: Mapping[str, float], value: float, unit: str = "") -> str:
    """A working of a sum of named parts.

    Examples
    --------
    >>> print(added("All", {"first": 1024, "second": 2048}, 3072, "byte"))
    All = first + second = 1,024 B + 2,048 B = 3,072 B = 3 KiB
    """
    return spelled(name, " + ".join(parts), " + ".join(number(part, unit) for part in parts.values()), value, unit)


def times(sizes: Iterable[tuple[int, float]], unit: str = "") -> str:
    """A sum of equal parts in numbers, those of one size together.

    Examples
    --------
    >>> times([(18, 2048), (1, 100), (18, 2048)], "byte")
    '36 · 2,048 B + 100 B'
    """
    counts: Counter[float] = Counter()
    for count, size in sizes:
        counts[size] += count
    found = (f"{number(n)} · {number(size, unit)}" if n != 1 else number(size, unit) for size, n in counts.items())
    return " + ".join(found) or "0"


def _result(value: Any, unit: str) -> str:
    if unit == "byte" and value >= 1024:
        text, short = exact(value, unit), format_bytes(value)
        return f"{number(value, unit)} = {short}" if text == short else f"{number(value, unit)} ≈ {short}"
    text = written(value, unit)
    return f"≈ {text}" if unit in _ROUNDED and isinstance(value, float) else text
