"""How the floor fared against measured kernels: the figures that ``tools/roofline_check.py`` took from every row."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calc.sources import load_json
from calc.units import CalcError, parse


@dataclass(frozen=True, slots=True)
class Band:
    """Measured over floor among the kernels whose floor lies in a range.

    Attributes
    ----------
    from_s, to_s : float, float or None
        The range of floors, seconds; None where it is open.
    rows : int
        Measured rows in it.
    p5, median, p95 : float
        Of the ratio.
    """

    from_s: float
    to_s: float | None
    rows: int
    p5: float
    median: float
    p95: float


@dataclass(frozen=True, slots=True)
class KernelCheck:
    """One kind of kernel against the floor.

    Attributes
    ----------
    kind : str
        For example "product, bfloat16".
    file : str
        The public file that the rows are from.
    rows : int
        Measured rows.
    ratio : Mapping of str to float
        Quantiles of measured over floor: "p0", "p1", "p5", "p25", "p50", "p75", "p95", "p99", "p100".
    beat_the_floor : int
        Rows faster than the floor.
    of_them_in_cache, in_cache : int
        Those of them, and of all rows, that touch no more than the last-level cache holds.
    of_them_hold_with_input_at_hand : int
        Those of them that are no faster than a floor without the product's input, which a repetition finds in the
        cache.
    bands : tuple of Band
        By the size of the floor.
    cells : tuple of (int, int, int)
        Histogram: cell of the floor, cell of the ratio, rows.
    least_beyond_cache : float or None
        The smallest ratio among rows that touch more than the last-level cache holds; None without any.
    largest_that_beat_bytes, fastest_read, most_arithmetic, least_input_share : float or None
        Of the rows that beat the floor: the most bytes of one, the fastest bytes per second, the largest share of its
        floor that a row's arithmetic takes, and the smallest share of a row's bytes that are its input; None without
        any.
    """

    kind: str
    file: str
    rows: int
    ratio: Mapping[str, float]
    beat_the_floor: int
    of_them_in_cache: int
    of_them_hold_with_input_at_hand: int
    in_cache: int
    bands: tuple[Band, ...]
    cells: tuple[tuple[int, int, int], ...]
    least_beyond_cache: float | None = None
    largest_that_beat_bytes: float | None = None
    fastest_read: float | None = None
    most_arithmetic: float | None = None
    least_input_share: float | None = None


@functools.cache
def kernel_checks() -> Mapping[str, KernelCheck]:
    """All kinds of kernels that the floor was held against, by name.

    Examples
    --------
    >>> checks = kernel_checks()
    >>> sum(check.rows for name, check in checks.items() if name.startswith("product"))
    107188
    """
    return {kind: _kind(kind, entry) for kind, entry in load_json("roofline_check.json")["kinds"].items()}


def _kind(kind: str, entry: dict[str, Any]) -> KernelCheck:
    bands = tuple(Band(b["from_s"], b["to_s"], b["rows"], b["p5"], b["p50"], b["p95"]) for b in entry["by_floor"])
    known = {"bands": bands, "cells": tuple(map(tuple, entry["cells"]))}
    return KernelCheck(kind=kind, **{k: v for k, v in entry.items() if k not in {"by_floor", "cells"}}, **known)


def kernel_check(kind: str) -> KernelCheck:
    """One kind of kernel against the floor.

    Raises
    ------
    CalcError
        If there is no such kind; the message lists them.
    """
    known = kernel_checks()
    if kind not in known:
        raise CalcError(f"no measured kernels of kind {kind!r:.60}: there is {', '.join(known)}")
    return known[kind]


def last_level_cache_bytes() -> float:
    """Bytes of the cache on the chip that the kernels were measured on."""
    return parse(load_json("roofline_check.json")["last_level_cache"]["amount"]).value
