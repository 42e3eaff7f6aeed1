"""Spans of OpenTelemetry, as its file exporter writes them, and what vLLM says in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any

from calc.workload import Fields, ReadError, json_lines

_MADE_BY = "file of OTLP JSON lines with traces, as OpenTelemetry's file exporter writes them"
_NAME = "gen_ai.latency."
_SPANS = {  # vllm/tracing/utils.py of vLLM 0.32
    "ttft_s": f"{_NAME}time_to_first_token",
    "queue_s": f"{_NAME}time_in_queue",
    "prefill_s": f"{_NAME}time_in_model_prefill",
    "decode_s": f"{_NAME}time_in_model_decode",
    "e2e_s": f"{_NAME}e2e",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span.

    Attributes
    ----------
    trace, id, parent : str
        Identifiers; the parent's is empty for a root.
    name, service : str
        What was done, and by whom.
    start_s, end_s : float
        On the clock of the machine that wrote it, counted from the earliest stamp of the file.
    attributes : mapping
        By name, as numbers, truth values and text. Lists and records inside are left out.
    """

    trace: str
    id: str
    parent: str
    name: str
    service: str
    start_s: float
    end_s: float
    attributes: MappingProxyType[str, Any]

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpan:
    """What vLLM's span of a request says, in seconds.

    Attributes
    ----------
    span : Span
        The span itself.
    ttft_s : float
        From its arrival at the API server to the first token there.
    queue_s, prefill_s, decode_s : float
        By the engine core's clock: queued to scheduled, to the first token, to the last token.
    e2e_s : float
        From its arrival to the last token, at the API server.
    """

    span: Span
    ttft_s: float
    queue_s: float
    prefill_s: float
    decode_s: float
    e2e_s: float

    @property
    def before_queue_s(self) -> float:
        """Time before the first token that the core does not know of: between API server and core, both ways."""
        return self.ttft_s - self.queue_s - self.prefill_s


def read_spans(path: str | Path) -> tuple[Span, ...]:
    """The spans of a file of OTLP JSON lines.

    Parameters
    ----------
    path : path
        The file, also gzipped.

    Returns
    -------
    tuple of Span
        In the order of the file.

    Raises
    ------
    ReadError
        With the line, if the file is cut off, holds something else than traces, or a span lacks what it must have or
        ends before it starts.

    References
    ----------
    OpenTelemetry specification, "OpenTelemetry Protocol File Exporter": one JSON object a line, 64-bit integers as
    text.
    """
    found: list[tuple[Fields, str]] = []
    for line in json_lines(path, _MADE_BY):
        if not line.has("resourceSpans"):
            raise ReadError(f"{line.where}: no resourceSpans; wanted a {_MADE_BY}")
        for resource in _records(line, "resourceSpans"):
            service = _service(resource)
            for scope in _records(resource, "scopeSpans"):
                found += [(span, service) for span in _records(scope, "spans")]
    if not found:
        raise ReadError(f"{Path(path).name}: no span in it; wanted a {_MADE_BY}")
    zero = min(_nanoseconds(span, "startTimeUnixNano") for span, _ in found)
    return tuple(_span(span, service, zero) for span, service in found)


def engine_spans(spans: Iterable[Span]) -> tuple[EngineSpan, ...]:
    """vLLM's own spans among others, by their name ``llm_request``.

    Raises
    ------
    ReadError
        If there is none, or one lacks a latency.
    """
    found = []
    for span in spans:
        if span.name != "llm_request":
            continue
        values = {}
        for name, attribute in _SPANS.items():
            value = span.attributes.get(attribute)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
                raise ReadError(f"span {span.id}: {attribute} is {value!r}, wanted seconds, as vLLM writes them")
            values[name] = float(value)
        found.append(EngineSpan(span=span, **values))
    if not found:
        raise ReadError("no span named llm_request among them; wanted traces of a vLLM with --otlp-traces-endpoint")
    return tuple(found)


def outside_parent_s(spans: Iterable[Span]) -> dict[str, float]:
    """Of each span that sticks out of its parent, by how much: two clocks that disagree by at least that.

    Returns
    -------
    dict
        Seconds by identifier of the span; spans that lie inside, or whose parent is not there, are left out.
    """
    spans = list(spans)
    by_id = {(span.trace, span.id): span for span in spans}
    out = {}
    for span in spans:
        parent = by_id.get((span.trace, span.parent))
        if parent is not None:
            over = max(parent.start_s - span.start_s, span.end_s - parent.end_s)
            if over > 0:
                out[span.id] = over
    return out


def _records(row: Fields, name: str) -> list[Fields]:
    return [Fields(one, f"{row.where}, {name} {i}", row.made_by) for i, one in enumerate(row.array(name))]


def _service(resource: Fields) -> str:
    if not resource.has("resource"):
        return ""
    return str(_attributes(resource.fields("resource")).get("service.name", ""))


def _span(row: Fields, service: str, zero: int) -> Span:
    start, end = _nanoseconds(row, "startTimeUnixNano"), _nanoseconds(row, "endTimeUnixNano")
    if end < start:
        raise ReadError(f"{row.where}: it ends {(start - end) / 1e9:g} s before it starts; the file is damaged")
    return Span(
        trace=row.text("traceId"),
        id=row.text("spanId"),
        parent=row.text("parentSpanId") if row.has("parentSpanId") else "",
        name=row.text("name"),
        service=service,
        start_s=(start - zero) / 1e9,
        end_s=(end - zero) / 1e9,
        attributes=MappingProxyType(_attributes(row)),
    )


def _nanoseconds(row: Fields, name: str) -> int:
    """Exact: a float has no room for nanoseconds since 1970."""
    value = row.data.get(name)
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not text.isdecimal():
        raise row.wrong(name, "nanoseconds since 1970, as digits")
    return int(text)


def _attributes(row: Fields) -> dict[str, Any]:
    if not row.has("attributes"):
        return {}
    found = {}
    for one in _records(row, "attributes"):
        value = one.fields("value")
        for kind, given in value.data.items():
            if kind == "intValue":
                try:
                    found[one.text("key")] = int(given)
                except (TypeError, ValueError):
                    raise value.wrong(kind, "a whole number") from None
            elif kind == "doubleValue":
                if isinstance(given, bool) or not isinstance(given, (int, float)) or not isfinite(given):
                    raise value.wrong(kind, "a number")
                found[one.text("key")] = given
            elif kind in {"stringValue", "boolValue"}:
                found[one.text("key")] = given
    return found
