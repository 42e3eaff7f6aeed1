"""Result files of vLLM's benchmark."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from types import MappingProxyType

from calc.latency._timeline import Chunk, Run, Timeline
from calc.units import CalcError, significant
from calc.workload import Fields, ReadError, json_file

_MADE_BY = "result file of `vllm bench serve --save-result --save-detailed`"
_ROUNDING = 0.01  # of the duration, and of a second: where a tool or a spreadsheet rounded it


def read_vllm_bench(path: str | Path) -> Run:
    """A run of ``vllm bench serve``.

    Parameters
    ----------
    path : path
        What ``--save-result --save-detailed`` wrote, also gzipped.

    Returns
    -------
    Run
        With the file's own summary in `reported`. Times count from the first request.

    Raises
    ------
    ReadError
        If the file is cut off, was saved without details or by a version that kept no start times,
        or its lists, counts, totals and duration contradict each other.

    Notes
    -----
    The file doesn't say how many tokens a message held. Where an answer has as many messages as tokens,
    each is taken to hold one; else they stay unknown. Nor does it say when a failed request ended: its
    last message, or its start, stands for it.
    """
    result = json_file(path, _MADE_BY)
    refuse_sglang(result)
    if not result.has("ttfts") and result.has("total_output_tokens"):
        raise ReadError(f"{result.where}: a summary without its requests; run again with --save-detailed")
    if not result.has("start_times"):
        raise ReadError(f"{result.where}: no start_times: an older vLLM wrote it; run again with a newer one")
    starts, firsts = result.numbers("start_times"), result.numbers("ttfts")
    queued = result.numbers("queue_times") if result.has("queue_times") else [0.0] * len(firsts)
    columns = {
        "start_times": starts,
        "queue_times": queued,
        "ttfts": firsts,
        **{name: result.array(name) for name in ("itls", "output_lens", "input_lens", "errors")},
    }
    for name, values in columns.items():
        if len(values) != len(firsts):
            raise ReadError(
                f"{result.where}: {name} has {len(values)} entries, ttfts has {len(firsts)}; the file is damaged"
            )
    zero = min((start - wait for start, wait in zip(starts, queued, strict=True)), default=0.0)
    timelines = []
    for i, values in enumerate(zip(*columns.values(), strict=True)):
        request = Fields(dict(zip(columns, values, strict=True)), f"{result.where}, request {i}", _MADE_BY)
        try:
            timelines.append(_timeline(request, str(i), zero))
        except ReadError:
            raise
        except CalcError as error:
            raise ReadError(f"{request.where}: {error}; the file is damaged") from None
    whole = sum(t.status == "ok" for t in timelines)
    if result.count("completed") != whole:
        raise ReadError(
            f"{result.where}: completed is {result.count('completed')}, but {whole} requests have no error; "
            "the file is damaged or was edited"
        )
    for name, lengths in (("total_input_tokens", "input_lens"), ("total_output_tokens", "output_lens")):
        counted = sum(tokens for tokens, t in zip(columns[lengths], timelines, strict=True) if t.status == "ok")
        if result.has(name) and result.count(name) != counted:
            raise ReadError(
                f"{result.where}: {name} is {result.count(name)}, but the requests without error hold {counted}; "
                "the file is damaged or was edited"
            )
    duration = result.number("duration")
    span = max((t.end_s for t in timelines), default=0.0) - min((t.sent_s for t in timelines), default=0.0)
    if duration * (1 + _ROUNDING) + _ROUNDING < span:
        raise ReadError(
            f"{result.where}: duration is {duration} s, but the last token came {significant(span)} s after the first "
            "request; the file is damaged or was edited"
        )
    reported = {k: v for k, v in result.data.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    return Run(
        timelines=tuple(timelines),
        started_s=0.0,
        ended_s=duration,
        source="vLLM bench serve",
        reported=MappingProxyType(reported),
    )


def refuse_sglang(result: Fields) -> None:
    """Refuse a result of SGLang's benchmark, which vLLM's resembles, with a remedy that fits it."""
    if result.has("total_output_tokens_retokenized") and not result.has("start_times"):
        raise ReadError(
            f"{result.where}: SGLang's bench_serving wrote it, and keeps no start times: nobody can tell when its "
            "requests ran; run `vllm bench serve --save-result --save-detailed` against the same server"
        )


def _timeline(request: Fields, name: str, zero: float) -> Timeline:
    failed = bool(request.text("errors"))
    sent, first = request.number("start_times") - zero, request.number("ttfts")
    times = list(accumulate([sent + first, *request.numbers("itls")])) if first or not failed else []
    tokens = request.count("output_lens")
    each = 1 if tokens == len(times) else None
    return Timeline(
        id=name,
        due_s=sent - request.number("queue_times"),
        sent_s=sent,
        chunks=tuple(Chunk(time, each) for time in times),
        end_s=times[-1] if times else sent,
        status="failed" if failed else "ok",
        prompt_tokens=request.count("input_lens"),
        usage_tokens=None if failed else tokens or None,
    )
