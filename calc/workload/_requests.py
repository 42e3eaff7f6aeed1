"""Requests before anything served them: from public traces, or from an arrival process."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf, isfinite
from pathlib import Path

from calc.units import CalcError, plain
from calc.workload._files import ReadError, csv_rows, json_lines

MOST_ARRIVALS = 10_000_000
MOONCAKE_BLOCK_TOKENS = 512  # a fact of the format: every record has ⌈prompt / 512⌉ hashes


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of a workload.

    Attributes
    ----------
    arrival_s : float
        Seconds after the trace's own zero: its first request, or what its publisher chose.
    prompt_tokens, output_tokens : int
        Lengths. A request without output failed where the trace was recorded.
    blocks : tuple of int
        Hashes of the prompt's blocks, equal where prompts begin alike; empty where the trace has none.
    session : str
        Conversation it belongs to; empty where the trace does not say.

    Raises
    ------
    CalcError
        If the arrival is no time of at least 0, or a length no whole number of at least 0.
    """

    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    session: str = ""

    def __post_init__(self) -> None:
        plain("Request", "arrival_s", self.arrival_s, "second")
        plain("Request", "prompt_tokens", self.prompt_tokens, "count")
        plain("Request", "output_tokens", self.output_tokens, "count")


def read_azure(path: str | Path) -> Iterator[Request]:
    """The Azure LLM inference traces of 2023 (code and conversation).

    Parameters
    ----------
    path : path
        AzureLLMInferenceTrace_code.csv or AzureLLMInferenceTrace_conv.csv, also gzipped.

    Yields
    ------
    Request
        In order of time; the first one arrives at 0.

    Raises
    ------
    ReadError
        With the line, if the file is cut off, of another trace, or not in order of time.

    References
    ----------
    Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md; Patel et al., "Splitwise", ISCA 2024.
    """
    made_by = "CSV of the Azure LLM inference dataset 2023, with columns TIMESTAMP,ContextTokens,GeneratedTokens"
    start = before = None
    for row in csv_rows(path, ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), made_by):
        try:
            at = datetime.fromisoformat(row.text("TIMESTAMP"))
        except ValueError:
            raise row.wrong("TIMESTAMP", 'a time like "2023-11-16 18:15:46.6805900"') from None
        start, before = start or at, before or at
        if (at.tzinfo is None) != (before.tzinfo is None) or at < before:
            raise ReadError(f"{row.where}: TIMESTAMP is before that of the row above; sort the file by time")
        before = at
        yield Request(
            arrival_s=(at - start).total_seconds(),
            prompt_tokens=row.count("ContextTokens"),
            output_tokens=row.count("GeneratedTokens"),
        )


def read_mooncake(path: str | Path) -> Iterator[Request]:
    """The Mooncake traces: arrivals in milliseconds, and a hash for each 512-token block of the prompt.

    Parameters
    ----------
    path : path
        A trace of the FAST'25 release, for example conversation_trace.jsonl, also gzipped.

    Yields
    ------
    Request
        With `blocks`.

    Raises
    ------
    ReadError
        With the line, if a record is cut off or another trace's, its blocks don't fit its prompt, or it is not in
        order of time.

    References
    ----------
    kvcache-ai/Mooncake, FAST25-release; Qin et al., "Mooncake", FAST 2025.
    """
    made_by = "Mooncake trace, one JSON object a line with timestamp, input_length, output_length, hash_ids"
    before = 0.0
    for record in json_lines(path, made_by):
        prompt, at = record.count("input_length"), record.number("timestamp")
        blocks = record.numbers("hash_ids")
        if not prompt:
            raise record.wrong("input_length", "at least 1")
        if any(block % 1 for block in blocks):
            raise record.wrong("hash_ids", "whole numbers")
        if at < before:
            raise ReadError(f"{record.where}: timestamp is before that of the line above; sort the file by time")
        before = at
        wanted = -(-prompt // MOONCAKE_BLOCK_TOKENS)
        if len(blocks) != wanted:
            raise record.wrong("hash_ids", f"{wanted} hashes, one for each {MOONCAKE_BLOCK_TOKENS} of {prompt} tokens")
        yield Request(
            arrival_s=at / 1000,
            prompt_tokens=prompt,
            output_tokens=record.count("output_length"),
            blocks=tuple(blocks),
        )


def read_burstgpt(path: str | Path, *, failures: bool = False) -> Iterator[Request]:
    """The BurstGPT traces, versions with and without session and elapsed time.

    Parameters
    ----------
    path : path
        BurstGPT_1.csv or a later one, also gzipped.
    failures : bool
        Keep requests without response tokens. The publisher marks failures so.

    Yields
    ------
    Request
        `arrival_s` counts from midnight of the trace's first day.

    Raises
    ------
    ReadError
        With the line, if a row is cut off, another trace's, or its totals don't add up.

    References
    ----------
    HPMLL/BurstGPT, README; Wang et al., "BurstGPT", KDD 2025.
    """
    made_by = "CSV of BurstGPT, with columns Timestamp, Model, Request tokens, Response tokens, Total tokens, Log Type"
    columns = ("Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type")
    for row in csv_rows(path, columns, made_by):
        prompt, output = row.count("Request tokens"), row.count("Response tokens")
        if row.count("Total tokens") != prompt + output:
            raise row.wrong("Total tokens", f"{prompt + output}, the sum of request and response tokens")
        if output or failures:
            yield Request(
                arrival_s=row.number("Timestamp"),
                prompt_tokens=prompt,
                output_tokens=output,
                session=row.data.get("Session ID") or "",
            )


def arrivals(*, per_second: float, requests: int, burstiness: float = 1.0, seed: int = 0) -> tuple[float, ...]:
    """Arrival times of an open-loop load: nobody waits for an answer before the next request is sent.

    Parameters
    ----------
    per_second : float
        Mean rate.
    requests : int
        How many.
    burstiness : float
        Shape of the gamma distribution of intervals: 1 is a Poisson process, less comes in bursts, more
        is steadier; infinity is a metronome. The coefficient of variation is 1/√burstiness.
    seed : int
        The same seed gives the same times.

    Returns
    -------
    tuple of float
        Seconds, ascending; the first interval precedes the first request.

    Raises
    ------
    CalcError
        If the rate or burstiness is not above 0, there is no request, or there are more than ten million.

    Notes
    -----
    The times are not stretched to end at requests / rate, as vLLM's benchmark does: that makes runs
    steadier than the process they stand for.

    References
    ----------
    The parameter is that of ``vllm bench serve --burstiness``.

    Examples
    --------
    >>> arrivals(per_second=4, requests=3, burstiness=float("inf"))
    (0.25, 0.5, 0.75)
    >>> len(arrivals(per_second=4, requests=1000, seed=1))
    1000
    """
    plain("arrivals", "per_second", per_second, "1/second>0")
    if burstiness != inf:
        plain("arrivals", "burstiness", burstiness, ">0")
    if plain("arrivals", "requests", requests, "count>0") > MOST_ARRIVALS:
        raise CalcError(f"arrivals: requests is {requests:,}, wanted {MOST_ARRIVALS:,} at most")
    source = random.Random(seed)
    times, now = [], 0.0
    for _ in range(int(requests)):
        steady = burstiness == inf
        now += 1 / per_second if steady else source.gammavariate(burstiness, 1 / (per_second * burstiness))
        times.append(now)
    if not isfinite(now):
        raise CalcError(f"arrivals: at {per_second} a second the last request never comes: raise per_second")
    return tuple(times)


def at_rate(trace: tuple[Request, ...], *, per_second: float) -> tuple[Request, ...]:
    """A trace played faster or slower, so that its mean rate is this one; bursts keep their shape.

    Parameters
    ----------
    trace : tuple of Request
        In order of time, spanning some time.
    per_second : float
        Mean rate wanted.

    Returns
    -------
    tuple of Request
        The first one at 0.

    Raises
    ------
    CalcError
        If the trace spans no time, is not in order, or the rate is not above 0.

    Examples
    --------
    >>> trace = tuple(Request(arrival_s=t, prompt_tokens=9, output_tokens=9) for t in (10, 12, 16))
    >>> [request.arrival_s for request in at_rate(trace, per_second=1)]
    [0.0, 0.6666666666666666, 2.0]
    """
    times = [request.arrival_s for request in trace]
    if len(trace) < 2 or times != sorted(times) or times[-1] == times[0]:
        raise CalcError("at_rate: the trace must hold at least two requests, in order of time, at different times")
    plain("at_rate", "per_second", per_second, "1/second>0")
    factor = (len(trace) - 1) / per_second / (times[-1] - times[0])
    return tuple(replace(request, arrival_s=(request.arrival_s - times[0]) * factor) for request in trace)
