"""Find out which tool wrote a result file, and read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from calc.latency._read_aiperf import read_aiperf
from calc.latency._read_guidellm import read_guidellm
from calc.latency._read_llmservingsim import read_llmservingsim
from calc.latency._read_shelf import read_shelf
from calc.latency._read_vllm import read_vllm_bench, refuse_sglang
from calc.latency._timeline import Run
from calc.workload import Fields, ReadError, json_file, json_lines

KNOWN = (
    "result file: the JSON of vllm bench serve --save-result --save-detailed, GuideLLM's benchmarks.json, AIPerf's "
    "profile_export.jsonl, LLMServingSim's requests.jsonl or a recording of this book"
)
MOST_BYTES = 2**30  # of a file, as it lies on the disk


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """What a result file holds.

    Attributes
    ----------
    tool : str
        Who wrote it.
    dialect : str
        The way of counting that belongs to it: a key of `dialects`.
    runs : tuple of (str, Run)
        A name for each run of the file, and the run.
    """

    tool: str
    dialect: str
    runs: tuple[tuple[str, Run], ...]


def read_result(path: str | Path) -> ResultFile:
    """Read the result file of any known tool, told by its fields.

    Parameters
    ----------
    path : path
        Also gzipped.

    Returns
    -------
    ResultFile

    Raises
    ------
    ReadError
        If nobody known wrote such a file, or it is cut off, damaged or too large.

    Notes
    -----
    Names are not looked at: a file that was renamed is read all the same.
    """
    file = Path(path)
    if file.is_dir() or (file.exists() and not file.is_file()):
        raise ReadError(f"{file.name}: no regular file; give a {KNOWN}")
    if file.exists() and file.stat().st_size > MOST_BYTES:
        raise ReadError(f"{file.name}: larger than {MOST_BYTES // 2**30} GiB: measure it in parts with measure_stream")
    first = _first(path)
    refuse_sglang(first)  # many lines of it are no one JSON object
    for tool, dialect, fits, read in _TOOLS:
        if fits(first):
            return ResultFile(tool=tool, dialect=dialect, runs=read(path))
    raise ReadError(f"{file.name}: no result file of a known tool; give a {KNOWN}")


def _first(path: str | Path) -> Fields:
    """The first record: the line of a file with many, or the whole of a file with one."""
    try:
        return next(json_lines(path, "result file"))
    except ReadError as error:
        if "empty" in str(error) or "opened" in str(error):
            raise
    return json_file(path, KNOWN)


def _one(read: Callable[[str | Path], Run]) -> Callable[[str | Path], tuple[tuple[str, Run], ...]]:
    return lambda path: (("", read(path)),)


def _guidellm(path: str | Path) -> tuple[tuple[str, Run], ...]:
    return tuple((f"benchmark {number}", run) for number, run in enumerate(read_guidellm(path), 1))


def _shelf(path: str | Path) -> tuple[tuple[str, Run], ...]:
    return tuple((f"run {number}", repeat.run) for number, repeat in enumerate(read_shelf(path), 1))


_TOOLS: tuple[tuple[str, str, Callable[[Fields], bool], Callable], ...] = (
    ("GuideLLM", "guidellm", lambda f: f.has("benchmarks"), _guidellm),
    ("vLLM's benchmark", "vllm-bench", lambda f: f.has("total_output_tokens") or f.has("ttfts"), _one(read_vllm_bench)),
    ("AIPerf", "aiperf", lambda f: f.has("metadata") and f.has("metrics"), _one(read_aiperf)),
    ("LLMServingSim", "book", lambda f: f.has("queued_ts"), _one(read_llmservingsim)),
    ("this book", "book", lambda f: f.data.get("kind") == "header", _shelf),
)
