"""What each tool measures, in words: its version, its names, its rules, and where they were read."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from calc.latency._objectives import Objectives
from calc.sources import load_json
from calc.units import CalcError

QUANTITIES = {
    "ttft": "time to first token",
    "first_answer": "time to the first text of the answer",
    "tpot": "mean time of a token after the first",
    "itl": "gaps, pooled over all requests",
    "normalized": "end-to-end latency per output token",
    "e2e": "end-to-end latency",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A tool's way of counting, and where it was read.

    Attributes
    ----------
    key, name, version : str
        Its key here, the tool, the version whose definitions these are.
    boundary : str
        Where it measures: a key of `BOUNDARIES`.
    percentiles : str
        Its method: a key of `METHODS`.
    names : mapping
        A key of `QUANTITIES` → what the tool calls it.
    objectives : tuple of str
        Fields of `Objectives` that it can judge.
    buckets : mapping
        For a tool that keeps histograms: a key of `QUANTITIES` → upper bounds, seconds.
    rules : mapping
        In words, what counts and what does not.
    sources : tuple of mapping
        Where each definition was read: file, lines, address, date.
    """

    key: str
    name: str
    version: str
    boundary: str
    percentiles: str
    names: MappingProxyType[str, str]
    objectives: tuple[str, ...]
    buckets: MappingProxyType[str, list[float]]
    rules: MappingProxyType[str, str]
    sources: tuple[MappingProxyType[str, str], ...]


def dialects() -> tuple[str, ...]:
    """The keys of all dialects, the book's own first."""
    return tuple(load_json("dialects.json")["dialects"])


def dialect(key: str) -> Dialect:
    """What a tool measures, in words.

    Raises
    ------
    CalcError
        If there is no such dialect.

    Examples
    --------
    >>> dialect("aiperf").names["tpot"]
    'Inter Token Latency (ITL)'
    """
    entry = load_json("dialects.json")["dialects"].get(key)
    if entry is None:
        raise CalcError(f"no dialect {key!r}: use {', '.join(dialects())}")
    return Dialect(
        key=key,
        name=entry["name"],
        version=entry["version"],
        boundary=entry["boundary"],
        percentiles=entry["percentiles"],
        names=MappingProxyType(entry["names"]),
        objectives=tuple(entry["objectives"]),
        buckets=MappingProxyType(entry.get("buckets", {})),
        rules=MappingProxyType(entry["rules"]),
        sources=tuple(MappingProxyType(source) for source in entry["sources"]),
    )


def mlperf_limits(benchmark: str) -> Objectives:
    """The p99 limits of an MLPerf Inference server benchmark.

    Parameters
    ----------
    benchmark : str
        Its name in LoadGen's configuration, for example "llama2-70b" or "llama3_1-405b-interactive".

    Returns
    -------
    Objectives

    Raises
    ------
    CalcError
        If the benchmark is not in the table.

    Examples
    --------
    >>> mlperf_limits("llama2-70b")
    Objectives(ttft_s=2.0, tpot_s=0.2, e2e_s=None, gap_s=None)
    """
    table = load_json("dialects.json")["mlperf_server_limits_ms"]["limits"]
    if benchmark not in table:
        raise CalcError(f"no MLPerf server benchmark {benchmark!r}: use {', '.join(table)}")
    ttft, tpot = table[benchmark]
    return Objectives(ttft_s=ttft / 1000, tpot_s=tpot / 1000)
