"""A slow request beside fast ones like it: where the difference lies, and what else happened then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from calc.scheduling import Iteration
from calc.tail._traces import SEGMENTS, Case, Trace
from calc.units import CalcError, plain

FINDINGS = {
    "gateway": "the gateway held it",
    "blocked": "the engine was in a step of others",
    "shared": "its prompt shared a step with others' prompts",
    "prefill": "its own prefill took longer",
    "unclocked": "between gateway and engine, and no step covers it",
    "queue": "it waited in the engine's queue",
    "deliver": "the first byte had left the gateway",
    "send": "it had not reached the gateway",
    "unmatched": "no fast request is like it",
}
COHORT = 8  # fast requests to compare a slow one with, at most
FEWEST = 3  # with fewer there is nothing to compare with
LENGTH_TOLERANCE = 0.3  # how far their prompts may differ in length, as a share
MATTERS = 0.2  # share of the whole difference from which a segment is named
COVERED = 0.5  # share of a wait that one step must fill to be its cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is known of one slow request.

    Attributes
    ----------
    trace : Trace
        The request.
    cohort : tuple of Trace
        Fast requests of about its length, the nearest in time; empty where there are not enough.
    excess : dict
        By key of `SEGMENTS`: seconds more than the cohort's median. Empty without a cohort.
    labels : tuple of str
        Keys of `FINDINGS`, the largest difference first.
    step : Iteration or None
        The step of the engine that fills most of its wait before the engine took it in.
    """

    trace: Trace
    cohort: tuple[Trace, ...]
    excess: dict[str, float]
    labels: tuple[str, ...]
    step: Iteration | None

    @property
    def total_s(self) -> float:
        """All of the difference."""
        return sum(self.excess.values())


def cohort(
    trace: Trace,
    traces: Iterable[Trace],
    *,
    slow_s: float,
    size: int = COHORT,
    tolerance: float = LENGTH_TOLERANCE,
) -> tuple[Trace, ...]:
    """Fast requests to compare a slow one with: about the same length, about the same time.

    Parameters
    ----------
    trace : Trace
        The slow request.
    traces : iterable of Trace
        All requests of its run.
    slow_s : float
        From which time to the first token on a request is slow, seconds.
    size : int
        How many at most.
    tolerance : float
        How far prompts may differ in length, as a share.

    Returns
    -------
    tuple of Trace
        Nearest in time first; empty if there are fewer than three.

    Raises
    ------
    CalcError
        If `slow_s` is no time, or `tolerance` no share.

    Examples
    --------
    >>> from calc.tail import repeats_of
    >>> case = repeats_of("long prompt")[0]
    >>> slowest = case.slow(0.07)[0]
    >>> len(cohort(slowest, case.traces, slow_s=0.07))
    8
    """
    plain("cohort", "slow_s", slow_s, "second")
    plain("cohort", "tolerance", tolerance, "")
    near = [
        other
        for other in traces
        if other.ttft_s <= slow_s and abs(other.prompt_tokens - trace.prompt_tokens) <= tolerance * trace.prompt_tokens
    ]
    near.sort(key=lambda other: abs(other.sent_s - trace.sent_s))
    return tuple(near[:size]) if len(near) >= FEWEST else ()


def longest_step(trace: Trace, steps: Iterable[Iteration]) -> tuple[Iteration | None, float]:
    """The step that fills most of a request's way to the engine, and the seconds that it fills."""
    start, end = trace.forwarded_s, trace.reached_s()
    best, filled = None, 0.0
    for step in steps:
        overlap = min(step.at_s, end) - max(step.at_s - step.elapsed_s, start)
        if overlap > filled:
            best, filled = step, overlap
    return best, filled


def prompts_in_step(trace: Trace, steps: Iterable[Iteration]) -> int:
    """Prompt tokens in the step that brought a request's first token; 0 if the log has none."""
    within = [s for s in steps if s.prefill_requests and trace.forwarded_s < s.at_s <= trace.first_byte_s]
    return within[-1].prefill_tokens if within else 0


def find(trace: Trace, case: Case, *, slow_s: float, size: int = COHORT) -> Finding:
    """Compare one slow request with its cohort and name what differs.

    Parameters
    ----------
    trace : Trace
        The request.
    case : Case
        Its run: requests and steps on one clock.
    slow_s : float
        From which time to the first token on a request is slow, seconds.
    size : int
        Requests of the cohort, at most.

    Returns
    -------
    Finding

    Notes
    -----
    A segment is named if it has a fifth of the difference. A wait before the engine counts as blocked if one step of
    others fills half of it. These are rules to read data by, not proofs: `Finding.labels` say where the time went
    and what happened meanwhile. A cause needs an experiment.
    """
    beside = cohort(trace, case.traces, slow_s=slow_s, size=size)
    step, filled = longest_step(trace, case.steps)
    if not beside:
        return Finding(trace=trace, cohort=(), excess={}, labels=("unmatched",), step=step)
    usual = {name: median(other.segments[name] for other in beside) for name in SEGMENTS}
    excess = {name: seconds - usual[name] for name, seconds in trace.segments.items()}
    whole = trace.ttft_s - median(other.ttft_s for other in beside)
    largest = sorted(excess, key=lambda name: -excess[name])
    named = [name for name in largest if excess[name] >= MATTERS * whole and excess[name] > 0] or largest[:1]
    labels = []
    for name in named:
        if name == "unclocked" and filled >= COVERED * excess[name]:
            labels.append("blocked")
        elif name == "prefill" and prompts_in_step(trace, case.steps) >= 2 * trace.prompt_tokens:
            labels.append("shared")
        else:
            labels.append(name)
    return Finding(trace=trace, cohort=beside, excess=excess, labels=tuple(labels), step=step)


def findings(case: Case, *, slow_s: float, size: int = COHORT) -> tuple[Finding, ...]:
    """Every slow request of a repeat, slowest first."""
    return tuple(find(trace, case, slow_s=slow_s, size=size) for trace in case.slow(slow_s))


def shares(found: Sequence[Finding]) -> dict[str, float]:
    """Share of each finding in all that slow requests waited more than their cohorts; gains are left out.

    Raises
    ------
    CalcError
        If no request has a cohort.
    """
    total: Counter[str] = Counter()
    for one in found:
        relabeled = {"blocked": "unclocked", "shared": "prefill"}
        as_found = {relabeled.get(label, label): label for label in one.labels}
        for name, seconds in one.excess.items():
            if seconds > 0:
                total[as_found.get(name, name)] += seconds
    if not total:
        raise CalcError("no slow request has a cohort to be compared with: lower the limit, or record more requests")
    whole = sum(total.values())
    return {name: seconds / whole for name, seconds in total.most_common()}
