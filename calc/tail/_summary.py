"""The recorded cases in brief: slow requests only, in a fixed order that gives nothing away."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from statistics import median
from typing import Any

from calc.sources import load_json
from calc.tail._diagnose import Finding, findings
from calc.tail._traces import SEGMENTS, Case
from calc.workload import Spread

_FILE = "tail_cases.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowRequest:
    """One slow request of the summary.

    Attributes
    ----------
    repeat : int
        Which repeat it belongs to.
    ttft_s : float
        Time to first token.
    excess_s : dict
        By key of `SEGMENTS`: seconds more than fast requests like it. Empty where there are none.
    labels : tuple of str
        Keys of `FINDINGS`.
    prompt_tokens, output_tokens : int
    step_s : float
        The engine's step that fills most of its way to the engine; 0 if there was none.
    forwarded_s, first_byte_s, queue_s, prefill_s : float
        For its unclocked time.
    spread_s, decode_s : float
        From first to last message at the client, and first to last token in the engine.
    """

    repeat: int
    ttft_s: float
    excess_s: dict[str, float]
    labels: tuple[str, ...]
    prompt_tokens: int
    output_tokens: int
    step_s: float
    forwarded_s: float
    first_byte_s: float
    queue_s: float
    prefill_s: float
    spread_s: float
    decode_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSummary:
    """All repeats of one case.

    Attributes
    ----------
    name : str
        What was injected.
    requests : int
        In all repeats.
    middle, slowest : Spread
        Median and longest time to first token of each repeat, seconds.
    slow : tuple of SlowRequest
        Slowest first.
    """

    name: str
    requests: int
    middle: Spread
    slowest: Spread
    slow: tuple[SlowRequest, ...]


_TIMES = ("ttft", "step", "forwarded", "first_byte", "queue", "prefill", "spread", "decode")


def digest(recorded: Iterable[Case], slow_s: float) -> dict[str, Any]:
    """What data/tail_cases.json holds, made from the recording."""
    by_name: dict[str, list[Case]] = {}
    for case in recorded:
        by_name.setdefault(case.name, []).append(case)
    return {
        "source": "data/measured/tail.jsonl.gz, summarized by tools/summarize_tail.py",
        "slow_us": _us(slow_s),
        "segments": list(SEGMENTS),
        "times": list(_TIMES),
        "cases": [
            {
                "name": name,
                "requests": sum(len(case.traces) for case in group),
                "median_us": [_us(median(t.ttft_s for t in case.traces)) for case in group],
                "slowest_us": [_us(max(t.ttft_s for t in case.traces)) for case in group],
                "slow": [_entry(case, one) for case in group for one in findings(case, slow_s=slow_s)],
            }
            for name, group in sorted(by_name.items(), key=lambda item: sha256(item[0].encode()).hexdigest())
        ],
    }


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _entry(case: Case, one: Finding) -> dict[str, Any]:
    trace = one.trace
    times = {name: getattr(trace, f"{name}_s") for name in _TIMES if name != "step"}
    times["step"] = one.step.elapsed_s if one.step else 0.0
    return {
        "repeat": case.repeat,
        "tokens": [trace.prompt_tokens, trace.output_tokens],
        "us": [_us(times[name]) for name in _TIMES],
        "excess_us": [_us(one.excess[name]) for name in SEGMENTS] if one.excess else [],
        "labels": list(one.labels),
    }


@functools.cache
def summary() -> tuple[CaseSummary, ...]:
    """The recorded cases in the order of their numbers on the page.

    Examples
    --------
    >>> len(summary()), summary()[0].requests % 3
    (7, 0)
    """
    return tuple(
        CaseSummary(
            name=entry["name"],
            requests=entry["requests"],
            middle=Spread.of(us / 1e6 for us in entry["median_us"]),
            slowest=Spread.of(us / 1e6 for us in entry["slowest_us"]),
            slow=tuple(sorted(map(_slow, entry["slow"]), key=lambda one: -one.ttft_s)),
        )
        for entry in load_json(_FILE)["cases"]
    )


def _slow(entry: dict[str, Any]) -> SlowRequest:
    return SlowRequest(
        repeat=entry["repeat"],
        labels=tuple(entry["labels"]),
        prompt_tokens=entry["tokens"][0],
        output_tokens=entry["tokens"][1],
        excess_s={name: us / 1e6 for name, us in zip(SEGMENTS, entry["excess_us"], strict=False)},
        **{f"{name}_s": us / 1e6 for name, us in zip(_TIMES, entry["us"], strict=True)},
    )
