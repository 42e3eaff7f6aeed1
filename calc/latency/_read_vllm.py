"""Result files of vLLM's benchmark."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from types import MappingProxyType

from calc.latency._timeline import Chunk, Run, Timeline
from calc.units import CalcError
from calc.workload import ReadError, json_file

_MADE_BY = "result file of `vllm bench serve --save-result --save-detailed`"
_LISTS = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "errors")


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
        or its lists and counts contradict each other.

    Notes
    -----
    The file doesn't say how many tokens a message held. Where an answer has as many messages as tokens,
    each is taken to hold one; else they stay unknown. Nor does it say when a failed request ended: its
    last message, or its start, stands for it.
    """
    result = json_file(path, _MADE_BY)
    if not result.has("ttfts") and result.has("total_output_tokens"):
        raise ReadError(f"{result.where}: a summary without its requests; run again with --save-detailed")
    if not result.has("start_times"):
        raise ReadError(f"{result.where}: no start_times: an older vLLM wrote it; run again with a newer one")
    lists = {name: result.array(name) for name in _LISTS}
    requests = len(lists["ttfts"])
    for name, values in lists.items():
        if len(values) != requests:
            raise ReadError(
                f"{result.where}: {name} has {len(values)} entries, ttfts has {requests}; the file is damaged"
            )
    starts = result.numbers("start_times")
    queued = result.numbers("queue_times") if result.has("queue_times") else [0.0] * requests
    zero = min(map(float.__sub__, map(float, starts), map(float, queued)), default=0.0)
    timelines = []
    for i in range(requests):
        where = f"{result.where}, request {i}"
        try:
            gaps = [float(gap) for gap in lists["itls"][i]]
            timelines.append(_timeline(i, starts[i] - zero, queued[i], gaps, lists))
        except (CalcError, TypeError, ValueError) as error:
            raise ReadError(f"{where}: {error}; the file is damaged") from None
    whole = sum(t.status == "ok" for t in timelines)
    if result.count("completed") != whole:
        raise ReadError(
            f"{result.where}: completed is {result.count('completed')}, but {whole} requests have no error; "
            "the file is damaged or was edited"
        )
    reported = {k: v for k, v in result.data.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    return Run(
        timelines=tuple(timelines),
        started_s=0.0,
        ended_s=result.number("duration"),
        source="vLLM bench serve",
        reported=MappingProxyType(reported),
    )


def _timeline(i: int, sent: float, queued: float, gaps: list[float], lists: dict[str, list]) -> Timeline:
    failed = bool(lists["errors"][i])
    first = float(lists["ttfts"][i])
    times = list(accumulate([sent + first, *gaps])) if first or not failed else []
    tokens = int(lists["output_lens"][i])
    each = 1 if tokens == len(times) else None
    return Timeline(
        id=str(i),
        due_s=sent - queued,
        sent_s=sent,
        chunks=tuple(Chunk(time, each) for time in times),
        end_s=times[-1] if times else sent,
        status="failed" if failed else "ok",
        prompt_tokens=int(lists["input_lens"][i]),
        usage_tokens=None if failed else tokens or None,
    )
