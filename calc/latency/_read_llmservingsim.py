"""Logs of real vLLM runs that the LLMServingSim project recorded and published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from calc.latency._timeline import Chunk, Run, Timeline
from calc.units import CalcError
from calc.workload import Fields, ReadError, csv_rows, json_file, json_lines

_MADE_BY = "requests.jsonl of an LLMServingSim bench run, one object a line with vLLM's request times"
_META = "meta.json of an LLMServingSim bench run, schema version 1"
_TICKS = "timeseries.csv of an LLMServingSim bench run"
_SAME_CLOCK_S = 100_000  # no run lasts a day: times further apart than that come from two clocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What the engine did in one interval of a run.

    Attributes
    ----------
    until_s : float
        End of the interval, seconds after the engine's start.
    prompt_tokens_per_s, output_tokens_per_s : float
        Prefilled and decoded.
    running, waiting : int
        Requests at the end of the interval.
    cache_share : float
        Share of the cache in use, 0 to 1.
    """

    until_s: float
    prompt_tokens_per_s: float
    output_tokens_per_s: float
    running: int
    waiting: int
    cache_share: float


def read_llmservingsim(requests: str | Path, meta: str | Path | None = None) -> Run:
    """A recorded run of vLLM, seen from inside the engine.

    Parameters
    ----------
    requests : path
        requests.jsonl, also gzipped.
    meta : path, optional
        Its meta.json: checked against the requests, and its model, engine and hardware go into `source`.

    Returns
    -------
    Run
        Boundary "engine", `sent_s` is when a request entered the engine's queue; times count from the first.

    Raises
    ------
    ReadError
        With the line, if a record is cut off, another file's or out of order, or the number of requests
        isn't the one that meta.json states.

    Notes
    -----
    Arrival is on the wall clock, everything else on the engine's. The clocks are lined up at the request
    with the shortest way between the two, so the waits from `due_s` to `sent_s` are lower bounds. Only the
    first and the last token of an answer have a time.

    References
    ----------
    casys-kaist/LLMServingSim, bench/core/recorder.py and bench/core/validate.py.
    """
    records = list(json_lines(requests, _MADE_BY))
    zero = min(record.number("queued_ts") for record in records)
    between = min(record.number("queued_ts") - record.number("arrival_time") for record in records)
    one_clock = abs(between) < _SAME_CLOCK_S
    timelines = []
    for record in records:
        due = record.number("arrival_time") + (0 if one_clock else between)
        try:
            timelines.append(_timeline(record, due, zero))
        except ReadError:
            raise
        except CalcError as error:
            raise ReadError(f"{record.where}: {error}; the record is damaged") from None
    source = "vLLM, recorded by LLMServingSim"
    if meta is not None:
        source = _described(json_file(meta, _META), len(records))
    return Run(timelines=tuple(timelines), source=source)


def read_ticks(path: str | Path) -> Iterator[Tick]:
    """The time series of such a run.

    Parameters
    ----------
    path : path
        timeseries.csv, also gzipped.

    Yields
    ------
    Tick

    Raises
    ------
    ReadError
        With the line, if a row is cut off or another file's.
    """
    columns = ("t", "prompt_throughput", "gen_throughput", "running", "waiting", "kv_cache_pct")
    for row in csv_rows(path, columns, _TICKS):
        share = row.number("kv_cache_pct") / 100
        if share > 1:
            raise row.wrong("kv_cache_pct", "percent, 0 to 100")
        yield Tick(
            until_s=row.number("t"),
            prompt_tokens_per_s=row.number("prompt_throughput"),
            output_tokens_per_s=row.number("gen_throughput"),
            running=row.count("running"),
            waiting=row.count("waiting"),
            cache_share=share,
        )


def _timeline(record: Fields, due: float, zero: float) -> Timeline:
    tokens = record.count("output_toks")
    first, last = record.number("first_token_ts") - zero, record.number("last_token_ts") - zero
    chunks = [Chunk(first, 1)] + ([Chunk(last, tokens - 1)] if tokens > 1 else [])
    return Timeline(
        id=record.text("request_id"),
        due_s=due - zero,
        sent_s=record.number("queued_ts") - zero,
        started_s=record.number("scheduled_ts") - zero,
        chunks=tuple(chunks),
        end_s=last,
        prompt_tokens=record.count("input_toks"),
        usage_tokens=tokens,
        boundary="engine",
        every_chunk=tokens <= 2,
    )


def _described(meta: Fields, requests: int) -> str:
    if meta.count("schema_version") != 1:
        raise meta.wrong("schema_version", "1, the only one read here: export the run again")
    if meta.count("num_requests") != requests:
        raise meta.wrong("num_requests", f"{requests}, as requests.jsonl has: one of the two is cut off")
    parts = [f"vLLM {meta.text('vllm_version')}", meta.text("model")]
    if meta.has("hardware"):
        parts.append(meta.fields("hardware").text("device_name"))
    return ", ".join(parts) + ", recorded by LLMServingSim"
