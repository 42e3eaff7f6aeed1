"""Reports of GuideLLM."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from calc.latency._timeline import Chunk, Run, Timeline
from calc.units import CalcError
from calc.workload import Fields, ReadError, json_file

_MADE_BY = "JSON report of GuideLLM with metadata.version 2 and benchmarks"
_STATUS = {"successful": "ok", "incomplete": "cancelled", "errored": "failed"}
_REPORTED = (
    "request_latency",
    "time_to_first_token_ms",
    "time_to_first_output_token_ms",
    "inter_token_latency_ms",
    "time_per_output_token_ms",
)


def read_guidellm(path: str | Path) -> tuple[Run, ...]:
    """The runs of a GuideLLM report, one for each load it tried.

    Parameters
    ----------
    path : path
        benchmarks.json, also gzipped.

    Returns
    -------
    tuple of Run
        Times count from each run's measured start; `reported` holds the means of successful requests.

    Raises
    ------
    ReadError
        If the file is cut off, has another schema, or a request contradicts itself.

    Notes
    -----
    The report keeps the first and the last message of an answer, so gaps and stalls are unknown.
    """
    report = json_file(path, _MADE_BY)
    metadata = report.fields("metadata")
    if metadata.data.get("version") != 2:
        writer = metadata.data.get("guidellm_version", "an unknown version")
        raise ReadError(
            f"{report.where}: report schema {metadata.data.get('version')!r}, written by GuideLLM {writer}; "
            "schema 2 is read: run again with GuideLLM 0.8"
        )
    runs = []
    for i, entry in enumerate(report.array("benchmarks")):
        benchmark = Fields(entry, f"{report.where}, benchmarks[{i}]", _MADE_BY)
        runs.append(_run(benchmark, str(metadata.data.get("guidellm_version", ""))))
    if not runs:
        raise ReadError(f"{report.where}: no benchmark in it: the run was stopped before one ended; run it again")
    return tuple(runs)


def _run(benchmark: Fields, version: str) -> Run:
    zero = benchmark.number("start_time")
    groups = benchmark.fields("requests")
    timelines = []
    for group, status in _STATUS.items():
        for i, entry in enumerate(groups.array(group) if groups.has(group) else ()):
            request = Fields(entry, f"{groups.where}.{group}[{i}]", _MADE_BY)
            try:
                timelines.append(_timeline(request, status, zero))
            except ReadError:
                raise
            except CalcError as error:
                raise ReadError(f"{request.where}: {error}; the report is damaged") from None
    metrics = benchmark.fields("metrics")
    reported = {
        name: metrics.fields(name).fields("successful").number("mean")
        for name in _REPORTED
        if metrics.has(name) and metrics.fields(name).has("successful")
    }
    return Run(
        timelines=tuple(timelines),
        started_s=0.0,
        ended_s=benchmark.number("end_time") - zero,
        source=f"GuideLLM {version}",
        reported=MappingProxyType(reported),
    )


def _timeline(request: Fields, status: str, zero: float) -> Timeline:
    timings = request.fields("info").fields("timings")
    at = {name: timings.number(name) - zero for name in timings.data if timings.has(name) and name in _TIMES}
    sent = at.get("request_start", at.get("resolve_start"))
    end = at.get("request_end", at.get("resolve_end"))
    if sent is None or end is None:
        raise ReadError(f"{timings.where}: neither start nor end of the request; wanted a {_MADE_BY}")
    marks = {at[name]: kind for name, kind in _TIMES.items() if kind and name in at}
    first_text = at.get("first_output_token_iteration")
    chunks = [
        Chunk(time, None, "reasoning" if first_text is None or time < first_text else "text") for time in sorted(marks)
    ]
    output = request.fields("output_metrics")
    prompt = request.fields("input_metrics")
    return Timeline(
        id=request.text("request_id"),
        due_s=at.get("targeted_start"),
        sent_s=sent,
        chunks=tuple(chunks),
        end_s=end,
        status=status,
        prompt_tokens=prompt.count("total_tokens") if prompt.has("total_tokens") else None,
        usage_tokens=output.count("total_tokens") if output.has("total_tokens") else None,
        every_chunk=False,
    )


# the times that are taken, and whether they mark a message of the answer
_TIMES = {
    "targeted_start": False,
    "resolve_start": False,
    "request_start": False,
    "first_token_iteration": True,
    "first_output_token_iteration": True,
    "last_token_iteration": True,
    "request_end": False,
    "resolve_end": False,
}
