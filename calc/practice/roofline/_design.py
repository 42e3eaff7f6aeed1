"""The open question: a step that is slower than hoped."""

from __future__ import annotations

from types import SimpleNamespace as Numbers

from calc import roofline
from calc.hardware import Accelerator
from calc.practice._problem import Problem
from calc.practice.roofline._model import FLOORS, chip, geometry
from calc.units import format_count, format_decimal, format_seconds, significant

BOUGHT = ("h100-sxm", "h200-sxm", "b200-sxm")


def _decode(n: Numbers) -> roofline.StepFloor:
    work = roofline.step_work(geometry(n.model), sequences={(1, n.cached): n.sequences}, ranks=n.ranks)
    return roofline.step_floor(work, chip(n.chip), link="nvlink", start_s=_start_s(n))


def _start_s(n: Numbers) -> float:
    return n.start_us * 1e-6


def _floor(step: roofline.StepFloor) -> float:  # of the groups: nothing passes it, whatever overlaps
    return max(step.move_s, step.multiply_s)


def _measured(n: Numbers) -> float:
    return n.slower * _decode(n).apart_s


def _faster(n: Numbers) -> Accelerator | None:
    """The chip with the next larger bandwidth of those that the colleague might buy."""
    more = [c for slug in BOUGHT if (c := chip(slug)).bandwidth.value > chip(n.chip).bandwidth.value]
    return min(more, key=lambda c: c.bandwidth.value, default=None)


def _there(n: Numbers) -> roofline.StepFloor:
    """The same step on the faster chips."""
    return roofline.step_floor(_decode(n).work, _faster(n), link="nvlink", start_s=_start_s(n))


def _unexplained(n: Numbers) -> float:
    """What the step takes above its groups and its all-reduces, one after another."""
    return _measured(n) - _decode(n).apart_s


def _above(n: Numbers) -> str:
    """What of the step is not its floor."""
    step, rest = _decode(n), _measured(n) - _floor(_decode(n))
    between = step.apart_s - step.links_s - _floor(step)  # of groups that wait for different things
    waits = f"{format_seconds(between)} are groups that wait for something else, " if between > 1e-9 else ""
    return (
        f"Of the other {format_seconds(rest)}, {format_seconds(step.links_s)} are all-reduces, which no faster memory "
        f"shortens, {waits}and {format_seconds(_unexplained(n))} are not explained."
    )


def _bought(n: Numbers) -> str:
    """What faster chips would make of the step as long as only its floor shrinks."""
    new = _faster(n)
    if new is None:
        return f"No faster chip is in the book's list: judge the proposal by what of the step is not floor. {_above(n)}"
    then = _floor(_there(n))
    rest = _measured(n) - _floor(_decode(n))
    return (
        f"{new.name} would lower the floor from {format_seconds(_floor(_decode(n)))} to {format_seconds(then)}. "
        f"{_above(n)} If all that stays, a step takes {format_seconds(then + rest)}: "
        f"{significant(_measured(n) / (then + rest), 3)}× as fast."
    )


def _decided(n: Numbers) -> str:
    """Not to buy before the profile is read, and what in it would say otherwise."""
    unknown, links = format_seconds(_unexplained(n)), _decode(n).links_s
    if _faster(n) is None:
        return (
            f"So read a profile of the {unknown} first. What overturns this: it shows no gaps, and the kernels are as "
            "fast as they get on this chip. Then take more ranks or fewer bytes."
        )
    shrunk = (_measured(n) - links) * _floor(_there(n)) / _floor(_decode(n))
    best = shrunk + _there(n).links_s
    return (
        f"So buy nothing on this number: read a profile of the {unknown} first. What overturns this: matrix products "
        f"and attention take all the rest, {format_seconds(_measured(n) - links)}. That shrinks as the floor does, to "
        f"{format_seconds(shrunk)}, and with {format_seconds(_there(n).links_s)} of all-reduces the step becomes up to "
        f"{significant(_measured(n) / best, 3)}× as fast."
    )


def _checklist(n: Numbers) -> list[str]:
    step = _decode(n)
    work = step.work
    crossing = roofline.decode_crossover(geometry(n.model), chip(n.chip), cached=n.cached, ranks=n.ranks)
    return [
        f"Counts the step on one rank first: {format_decimal(work.flop, 'FLOP')} and "
        f"{format_decimal(work.moved_bytes(), 'B')}, {significant(work.intensity(), 3)} FLOP/B.",
        f"Compares with the dense balance of {significant(step.balance, 3)} FLOP/B: the step waits for "
        f"{'memory' if step.move_s >= step.multiply_s else 'arithmetic'}.",
        f"Gives a floor of {format_seconds(_floor(step))}, calls it a floor, and says how far above it the measured "
        f"{format_seconds(_measured(n))} are: {significant(_measured(n) / _floor(step), 2)}×.",
        "Asks what was measured: a step or a token's latency, with or without the host, warmed up, at which clock.",
        f"Adds the all-reduces, which wait for the groups and the groups for them: {work.all_reduces} at "
        f"{n.start_us:g} µs and their bytes take {format_seconds(step.links_s)}. One after another that makes "
        f"{format_seconds(step.apart_s)}, and the step takes {significant(_measured(n) / step.apart_s, 2)}× that.",
        "Knows what even that leaves out: launches, the host, sampling, small shapes.",
        "Reads a profile before proposing a cure: gaps between kernels point to the host, long kernels to shapes.",
        (
            f"Says that more sequences help until {format_count(crossing)} of them wait for arithmetic."
            if crossing
            else "Says that more sequences share the weights but never make this step wait for arithmetic: caches grow."
        ),
        "Names what would lower the floor itself: fewer bytes of weights or cache, more ranks, a shorter context.",
        f"Judges the proposal by the floor alone: {_bought(n)}",
        "Doesn't promise the vendor's peak: measured kernels stay above their floors, the small ones far above.",
    ]


explain_a_slow_step = Problem(
    id="roofline/slow-step",
    title="Explain a slow step",
    level="design",
    step=FLOORS,
    printed={
        "model": "llama-3.1-70b",
        "chip": "h100-sxm",
        "ranks": 4,
        "sequences": 48,
        "cached": 6000,
        "start_us": 30,
        "slower": 1.4,
    },
    choices={
        "model": ("llama-3.1-70b", "llama-3.1-8b", "qwen2.5-72b", "mixtral-8x7b"),
        "chip": ("a100-80gb-sxm", "h100-sxm", "h200-sxm"),
        "ranks": (2, 4, 8),
        "sequences": (8, 48, 128),
        "cached": (1000, 6000, 16_000),
        "start_us": (10, 30),
        "slower": (1.4, 1.8, 3.0),
    },
    ask=lambda n: (
        f"{geometry(n.model).name} in bf16 on {n.ranks} × {chip(n.chip).name} decodes {n.sequences} sequences of about "
        f"{format_count(n.cached)} cached tokens. An all-reduce takes {n.start_us:g} µs, however little it moves. A "
        f"step takes {format_seconds(_measured(n))}. A colleague calls that slow and wants to buy faster chips. What "
        "do you work out, what do you measure, and what do you propose?"
    ),
    checklist=_checklist,
    hint="What can't it be faster than, what does it wait for there, and what does that bound leave out?",
    solution=lambda n: [
        f"On one rank: {format_decimal(_decode(n).work.flop, 'FLOP')}, "
        f"{format_decimal(_decode(n).work.moved_bytes(), 'B')}.",
        f"Arithmetic alone {format_seconds(_decode(n).multiply_s)}, memory alone {format_seconds(_decode(n).move_s)}, "
        f"{_decode(n).work.all_reduces} all-reduces alone {format_seconds(_decode(n).links_s)}, of which "
        f"{format_seconds(_decode(n).work.all_reduces * _start_s(n))} to start them.",
        f"So at least {format_seconds(_floor(_decode(n)))}; one after another {format_seconds(_decode(n).apart_s)}.",
        _bought(n),
        _decided(n),
    ],
)
