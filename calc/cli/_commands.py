"""The commands: arguments in, text out."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from calc import hardware, worksheet
from calc.models import catalogue, load
from calc.units import (
    CalcError,
    format_bytes,
    format_count,
    format_decimal,
    format_percent,
    format_seconds,
    significant,
)
from calc.worksheet import Report

MOST_BYTES = 8_000_000  # of a log or of standard input


def _read(path: str, what: str) -> bytes:
    """A file's bytes, as far as they can be meant; "-" is standard input."""
    if path == "-":
        return sys.stdin.buffer.read(MOST_BYTES + 1)
    file = Path(path)
    try:
        if not file.is_file():
            raise CalcError(f"no file at {path[:200]!r}: give the path of {what}")
        with file.open("rb") as handle:
            return handle.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, CalcError):
            raise
        raise CalcError(f"cannot read {path[:200]!r}: give the path of {what}") from None


def _config(chosen: Namespace) -> Any:
    """A slug, the path of a file, or what came on standard input."""
    if chosen.model is not None:
        if chosen.model not in catalogue(every=True):
            load(chosen.model)  # refuses it, with the names that come close
        return chosen.model
    return _read("-", "a config.json") if chosen.config == "-" else Path(chosen.config)


def _size(chosen: Namespace) -> str:
    given = dict(vars(chosen))
    form = {name: given.pop(name) for name in ("json", "csv", "markdown", "working")}
    for name in ("command", "config", "model"):
        given.pop(name)
    given["expert_parallel"] = _experts(given["expert_parallel"], given["tensor"])
    if given["quantization_file"] is not None:
        given["quantization_file"] = Path(given["quantization_file"])
    report = worksheet.size(_config(chosen), **given)
    if form["json"]:
        return report.to_json()
    if form["csv"]:
        return report.to_csv().rstrip("\n")
    if form["markdown"]:
        return report.to_markdown().rstrip("\n")
    return report.to_text() + (_working(report) if form["working"] else "")


def _experts(ranks: int, tensor: int) -> bool:
    """Whether experts are dealt out whole: 0 stands for an option without a number."""
    if ranks not in (0, 1, tensor):
        raise CalcError(
            f"--ep {ranks}: experts are dealt out over the {tensor} tensor-parallel ranks: write --ep {tensor}"
        )
    return ranks != 1


def _working(report: Report) -> str:
    lines = [line for line in report.lines if line.working]
    parts = [f"  {line.label}\n    " + line.working.replace("\n", "\n    ") for line in lines]
    return "\n\nThe working\n" + "\n".join(parts)


def _explain(chosen: Namespace) -> str:
    text = _read(chosen.file, "a start-up log").decode("utf-8", errors="replace")
    total = None
    if chosen.accelerator is not None:
        chip = hardware.accelerator(chosen.accelerator)
        total = chip.program_bytes.value
    report = worksheet.explain_log(
        text,
        model=None if chosen.model is None and chosen.config is None else _config(chosen),
        tensor=chosen.tensor,
        pipeline=chosen.pipeline,
        expert_parallel=chosen.expert_parallel,
        weights=chosen.weights,
        cache=chosen.cache,
        weight_element_bytes=chosen.weight_bytes,
        quantization_file=None if chosen.quantization_file is None else Path(chosen.quantization_file),
        block_tokens=chosen.block_tokens,
        batched_tokens=chosen.batched_tokens,
        asynchronous=chosen.asynchronous,
        prefix_caching=chosen.prefix_caching,
        total_bytes=total,
        memory_fraction=chosen.memory_fraction,
    )
    return report.to_json() if chosen.json else report.to_text()


def _latency(chosen: Namespace) -> str:
    from calc.latency import Objectives, measure, read_result

    found = read_result(chosen.file)
    limits = {name: getattr(chosen, name) for name in ("ttft_s", "tpot_s", "e2e_s")}
    objectives = Objectives(**limits) if any(v is not None for v in limits.values()) else None
    ways = [chosen.dialect] if chosen.dialect else list(dict.fromkeys(("book", found.dialect)))
    measured = [
        (name, measure(run, way, objectives=_judged(way, objectives, chosen.dialect)))
        for name, run in found.runs
        for way in ways
    ]
    if chosen.json:
        out = {
            "schema": 1,
            "tool": found.tool,
            "dialect": found.dialect,
            "objectives": limits,
            "runs": [{"run": name, **_measured(m)} for name, m in measured],
        }
        return json.dumps(out, indent=2, allow_nan=False)
    return "\n\n".join([f"Written by {found.tool}", *(_table_of(name, m) for name, m in measured)])


def _judged(way: str, objectives: Any, stated: str | None) -> Any:
    """The limits that a tool's own counting knows; the reader's own choice of one is not second-guessed."""
    from calc.latency import Objectives, dialect

    if objectives is None or way == "book" or stated:
        return objectives
    known = {name: limit for name, limit in objectives.limits.items() if name in dialect(way).objectives}
    return Objectives(**known) if len(known) == len(objectives.limits) else None


def _measured(m: Any) -> dict[str, Any]:
    return {
        "dialect": m.dialect.key,
        "percentile_method": m.dialect.percentiles,
        "completed": m.completed,
        "failed": m.failed,
        "cut_off": m.cut_off,
        "duration_s": m.duration_s,
        "requests_per_s": m.requests_per_s,
        "output_tokens_per_s": m.output_tokens_per_s,
        "good": m.good,
        "goodput_per_s": m.goodput_per_s,
        "attainment": m.attainment,
        "latency": {
            key: {
                "name": s.name,
                "count": s.count,
                "mean_s": s.mean_s,
                "min_s": s.min_s,
                "max_s": s.max_s,
                "percentiles_s": {f"p{significant(p)}": value for p, value in s.percentiles.items()},
            }
            for key, s in m.statistics.items()
        },
        "notes": list(m.notes),
    }


def _table_of(name: str, m: Any) -> str:
    title = f"{name + ': ' if name else ''}counted as {m.dialect.name} {m.dialect.version} does".rstrip()
    first = next(iter(m.statistics.values()), None)
    heads = ("Latency", "Values", "Mean", *(f"p{significant(p)}" for p in (first.percentiles if first else ())))
    rows = [(f"{row[0]} ({row[1]})", *row[2:]) for row in m.rows()]
    facts = [
        f"{format_count(m.completed)} completed, {format_count(m.failed)} failed, {format_count(m.cut_off)} cut off "
        f"in {format_seconds(m.duration_s)}",
        f"{significant(m.requests_per_s)} requests/s, {significant(m.output_tokens_per_s)} output tokens/s",
    ]
    if m.good is not None:
        rate = "" if m.goodput_per_s is None else f", {significant(m.goodput_per_s)} a second"
        part = "" if m.attainment is None else f", {format_percent(m.attainment)} of those counted"
        facts.append(f"{format_count(m.good)} within the limits{rate}{part}")
    return "\n".join([title, *(f"  {fact}" for fact in facts), *_aligned(heads, rows), *(f"  {n}" for n in m.notes)])


def _models(chosen: Namespace) -> str:
    from calc import kv_cache, parameters

    found = []
    for slug in catalogue(every=True):
        model = load(slug)
        count, cache = parameters.count(model), kv_cache.layout(model)
        found.append(
            {
                "slug": slug,
                "name": model.name,
                "architecture": model.architecture,
                "layers": len(model.layers),
                "parameters": count.total,
                "active": count.active,
                "kv_bytes_per_token": cache.bytes_per_position,
                "kv_bytes_per_token_windows_full": cache.unbounded_bytes_per_position,
                "fixed_bytes": cache.fixed_bytes,
                "max_positions": model.max_positions,
                "source": model.source,
            }
        )
    if chosen.json:
        return json.dumps({"schema": 1, "models": found}, indent=2)
    heads = ("Slug", "Name", "Parameters", "Active", "Cache of a token", "Windows full", "Fixed state", "Longest")
    return "\n".join(
        _aligned(
            heads,
            [
                (
                    m["slug"],
                    m["name"],
                    format_count(m["parameters"]),
                    format_count(m["active"]),
                    format_bytes(m["kv_bytes_per_token"]),
                    format_bytes(m["kv_bytes_per_token_windows_full"]),
                    format_bytes(m["fixed_bytes"]),
                    format_count(m["max_positions"]) if m["max_positions"] else "not stated",
                )
                for m in found
            ],
        )
    )


def _accelerators(chosen: Namespace) -> str:
    found = [hardware.accelerator(slug) for slug in hardware.accelerators()]
    if chosen.json:
        out = [
            {
                "slug": chip.slug,
                "name": chip.name,
                "sold_as": chip.memory_as_sold,
                "memory_bytes": chip.memory_bytes.value,
                "memory_is_nominal": chip.nominal,
                "visible_bytes": chip.visible_bytes.value if chip.visible_bytes else None,
                "bandwidth_bytes_per_s": chip.bandwidth.value,
                "dense_peaks_flop_per_s": {element: peak.value for element, peak in chip.peaks.items()},
                "links_bytes_per_s_one_direction": {
                    family: link.bytes_per_second.value for family, link in chip.links.items()
                },
                "sources": sorted({f.url for f in (chip.bandwidth, chip.memory_bytes, *chip.peaks.values())}),
            }
            for chip in found
        ]
        return json.dumps({"schema": 1, "accelerators": out}, indent=2)
    rows = [
        (
            chip.slug,
            chip.name,
            format_bytes(chip.program_bytes.value) + (" (label)" if chip.program_bytes.kind == "assumed" else ""),
            format_decimal(chip.bandwidth.value, "B/s"),
            ", ".join(f"{element} {format_decimal(peak.value, 'FLOP/s')}" for element, peak in chip.peaks.items()),
        )
        for chip in found
    ]
    return "\n".join(_aligned(("Slug", "Name", "Memory", "Bandwidth", "Dense peaks"), rows))


def _aligned(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Columns for a terminal."""
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *rows)
    ]


COMMANDS: Mapping[str, Callable[[Namespace], str]] = {
    "size": _size,
    "explain-log": _explain,
    "latency": _latency,
    "models": _models,
    "accelerators": _accelerators,
}
