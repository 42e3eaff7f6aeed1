"""The live panel of the chapter on slow tails: a recorded case, its cause hidden until the reader names one."""

from __future__ import annotations

from collections import Counter

from calc.panel import Panel, Row
from calc.tail._diagnose import FINDINGS
from calc.tail._formulas import unclocked_seconds
from calc.tail._summary import CaseSummary, SlowRequest, summary
from calc.tail._traces import SEGMENTS
from calc.units import CalcError, counted, format_seconds, plain
from calc.working import working
from calc.workload import Spread

NOT_YET = "not yet"
_BRIEF = {
    "send": "way in",
    "gateway": "gateway",
    "unclocked": "gateway to engine",
    "queue": "engine's queue",
    "prefill": "prefill",
    "deliver": "way back",
}


def tail_panel(*, case: int, slow_ms: float, guess: str) -> Panel:
    """Panel of the chapter on slow tails: one recorded case beside its fast requests, and a mark for a diagnosis.

    Parameters
    ----------
    case : int
        Number of the case, from 1.
    slow_ms : float
        Requests whose first token took longer are slow, milliseconds.
    guess : str
        What the reader thinks was injected: the name of a case, or "not yet".

    Returns
    -------
    Panel

    Raises
    ------
    CalcError
        If there is no such case, no such cause, or the limit is not above 0.
    """
    known = summary()
    if case not in range(1, len(known) + 1):
        raise CalcError(f"tail_panel: case is {case!r}, recorded were 1 to {len(known)}")
    names = [one.name for one in known]
    if guess not in {NOT_YET, *names}:
        wanted = ", ".join([NOT_YET, *sorted(names)])
        raise CalcError(f"tail_panel: the diagnosis is {guess!r}, wanted one of {wanted}")
    here = known[int(case) - 1]
    limit = plain("tail_panel", "slow_ms", slow_ms, ">0") / 1000
    slow = [one for one in here.slow if one.ttft_s > limit]
    compared = [one for one in slow if one.excess_s]
    rows = (
        Row(f"Requests, in {counted(here.middle.repeats, 'repeat')}", str(here.requests), "measured"),
        Row("First token, median request", here.middle.seconds(), "measured"),
        Row("First token, slowest request", here.slowest.seconds(), "measured"),
        Row("Slow requests", str(len(slow)), "measured", keep=True),
        *(Row(f"Excess, {_BRIEF[name]}", _more(name, compared), "measured") for name in SEGMENTS),
        Row("Longest step on the way", _steps(slow), "measured"),
        Row("All messages at once", _at_once(slow), "measured"),
        Row("Answers of one token", str(sum(one.output_tokens == 1 for one in slow)), "measured"),
    )
    return Panel(rows, _working(slow), _meaning(here, slow, compared, guess), _LEFT_OUT)


def _more(name: str, compared: list[SlowRequest]) -> str:
    if not compared:
        return "none to compare"
    return _signed(Spread.of(one.excess_s[name] for one in compared))


def _signed(spread: Spread) -> str:
    middle, low, high = (f"{1000 * value:.1f}".replace("-0.0", "0.0") for value in _three(spread))
    return f"{middle} ms" if low == high else f"{middle} ms ({low} to {high})"


def _three(spread: Spread) -> tuple[float, float, float]:
    return spread.median, spread.low, spread.high


def _steps(slow: list[SlowRequest]) -> str:
    return Spread.of(one.step_s for one in slow).seconds() if slow else "none"


def _at_once(slow: list[SlowRequest]) -> str:
    several = [one for one in slow if one.output_tokens > 1]
    if not several:
        return "none"
    return f"{sum(one.spread_s < one.decode_s / 2 for one in several)} of {len(several)}"


def _working(slow: list[SlowRequest]) -> tuple[str, ...]:
    if not slow:
        return ("No request is slower than the limit.",)
    one = slow[0]
    unclocked = working(
        unclocked_seconds,
        forwarded_s=one.forwarded_s,
        first_byte_s=one.first_byte_s,
        queued_s=one.queue_s,
        computed_s=one.prefill_s,
    )
    return (f"The slowest request, {format_seconds(one.ttft_s)} to the first token:", unclocked.text)


def _meaning(here: CaseSummary, slow: list[SlowRequest], compared: list[SlowRequest], guess: str) -> str:
    """What is seen; what it comes from only after the reader has said what they think."""
    if not slow:
        seen = "No request is slow by this limit, so there is nothing to explain."
    elif not compared:
        seen = "No fast request is like the slow ones, so there is nothing to compare them with."
    elif guess == NOT_YET:
        seen = "Which excess is large, and what did the engine do meanwhile?"
    else:
        labels = Counter(one.labels[0] for one in compared)
        told = ", ".join(f"{FINDINGS[label]} ({count})" for label, count in labels.most_common())
        seen = f"Where most of the difference lies, by number of slow requests: {told}."
    if guess == NOT_YET:
        return f"{seen} Name a cause, and it is marked."
    if guess == here.name:
        return f"Right: this is “{here.name}”. {seen}"
    asked = "Which row rules your answer out? " if compared else ""
    return f"Not “{guess}”: this is “{here.name}”. {asked}{seen}"


_LEFT_OUT = (
    "Excess is time beyond fast requests of about the same length and time. Not shown are requests below 70 ms: they "
    "are the fast ones here, whatever the limit says. The long prompt itself has no fast request of its length to be "
    "compared with. Numbers in brackets are the range: over repeats for medians and slowest, over slow requests for "
    "the rest. One machine with two cores: times of some tens of milliseconds can be its own noise."
)
