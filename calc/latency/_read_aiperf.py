"""Per-request records of AIPerf."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

from calc.latency._timeline import Chunk, Run, Timeline
from calc.units import UNITS, CalcError
from calc.workload import Fields, ReadError, json_lines

_MADE_BY = "profile_export.jsonl of AIPerf, one object a line with metadata, metrics and error"


def read_aiperf(path: str | Path) -> Run:
    """A run of AIPerf.

    Parameters
    ----------
    path : path
        profile_export.jsonl, also gzipped.

    Returns
    -------
    Run
        Times count from the first request. Warm-up records are marked as such.

    Raises
    ------
    ReadError
        With the line, if a record is cut off, another file's, or contradicts itself.

    Notes
    -----
    Messages without content are not in the file, nor are the tokens of each message. Those before the
    time to first output token are taken as reasoning. Of a request that failed, only start and end are known.
    """
    records = list(json_lines(path, _MADE_BY))
    # nanoseconds since 1970 don't fit a float: shift them first
    zero = min(record.fields("metadata").count("request_start_ns") for record in records)
    timelines = []
    for record in records:
        try:
            timelines.append(_timeline(record, zero))
        except ReadError:
            raise
        except CalcError as error:
            raise ReadError(f"{record.where}: {error}; the record is damaged") from None
    return Run(timelines=tuple(timelines), source="AIPerf")


def _timeline(record: Fields, zero: int) -> Timeline:
    metadata, metrics = record.fields("metadata"), record.fields("metrics")
    sent = (metadata.count("request_start_ns") - zero) / 1e9
    chunks: tuple[Chunk, ...] = ()
    prompt = tokens = None
    status = _status(record, metadata)
    if status == "ok":
        latency = _time(metrics, "request_latency")
        first = _time(metrics, "time_to_first_token") if metrics.has("time_to_first_token") else latency
        gaps = _times(metrics, "inter_chunk_latency") if metrics.has("inter_chunk_latency") else []
        times = list(accumulate([sent + first, *gaps]))
        if abs(times[-1] - sent - latency) > 1e-6:
            raise ReadError(
                f"{record.where}: time to first token and inter-chunk latencies end at {times[-1] - sent:.6f} s, "
                f"request_latency is {latency:.6f} s; the record is damaged"
            )
        named = "time_to_first_output_token"
        answer = sent + _time(metrics, named) if metrics.has(named) else times[0]
        kinds = ["text" if time > answer - 1e-9 else "reasoning" for time in times]
        tokens = _count(metrics, "output_sequence_length")
        each = 1 if tokens == len(times) else None
        chunks = tuple(Chunk(time, each, kind) for time, kind in zip(times, kinds, strict=True))
    if metrics.has("input_sequence_length"):
        prompt = _count(metrics, "input_sequence_length")
    end = (metadata.count("request_end_ns") - zero) / 1e9
    return Timeline(
        id=str(metadata.data.get("x_request_id") or metadata.count("session_num")),
        due_s=(metadata.count("credit_issued_ns") - zero) / 1e9 if metadata.has("credit_issued_ns") else None,
        sent_s=sent,
        first_byte_s=(metadata.count("request_ack_ns") - zero) / 1e9 if metadata.has("request_ack_ns") else None,
        chunks=chunks,
        end_s=max(end, chunks[-1].time_s if chunks else sent),  # two clocks: they may differ in the last digits
        status=status,
        prompt_tokens=prompt,
        usage_tokens=tokens,
        warm_up=metadata.text("benchmark_phase") == "warmup",
    )


def _status(record: Fields, metadata: Fields) -> str:
    if metadata.data.get("was_cancelled"):
        return "cancelled"
    if not record.has("error"):
        return "ok"
    return "timeout" if "timeout" in str(record.fields("error").data.get("type", "")).lower() else "failed"


def _time(metrics: Fields, name: str) -> float:
    metric = metrics.fields(name)
    return metric.number("value") * _unit(metric)


def _times(metrics: Fields, name: str) -> list[float]:
    metric = metrics.fields(name)
    return [value * _unit(metric) for value in metric.numbers("value")]


def _unit(metric: Fields) -> float:
    unit = UNITS.get(metric.text("unit"))
    if unit is None or unit.dimension != "second":
        raise metric.wrong("unit", "a unit of time")
    return unit.factor


def _count(metrics: Fields, name: str) -> int:
    return metrics.fields(name).count("value")
