"""Practice of the chapter on slow tails: every answer a second time, by trying, by counting and by playing it out."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import combinations

import pytest

from calc import practice


def offset(n) -> Fraction:
    """The middle of the offsets that let no message arrive before it left."""
    received, replied = n.sent + n.out + n.ahead, n.sent + n.out + n.ahead + n.work
    most = received - n.sent  # the request can't arrive before it was sent
    least = replied - (n.sent + n.out + n.work + n.back)  # nor the answer
    return Fraction(most + least, 2000)


def slack(n) -> Fraction:
    received, replied = n.sent + n.out + n.ahead, n.sent + n.out + n.ahead + n.work
    most, least = received - n.sent, replied - (n.sent + n.out + n.work + n.back)
    return Fraction(most - least, 2000)


def dark(n) -> Fraction:
    """Cut the gateway's wait into pieces and leave out those that the engine knows."""
    pieces = {"queue": n.queue, "prefill": n.prefill}
    return Fraction(n.span - sum(pieces.values()), 1000)


def run_length(n) -> Fraction:
    """Two offsets, each wrong by the slack to the opposite side, look like a drift of their difference."""
    apparent = Fraction(str(n.slack)) - -Fraction(str(n.slack))  # ms
    return apparent / 1000 / Fraction(n.ppm, 10**6)


def fan_out(n) -> Fraction:
    none = Fraction(1)
    for _ in range(n.calls):
        none *= Fraction(1000 - n.permille, 1000)
    return 1 - none


def allowed(n) -> float:
    """By halving: how often may a call be slow."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if 1 - math.prod([1 - middle] * n.calls) > n.limit / 100 else (middle, high)
    return low


def mean_falls(n) -> Fraction:
    before = [n.outlier] + [0] * (n.fewer - 1)
    after = [n.outlier] + [0] * (n.more - 1)
    return Fraction(sum(before), len(before)) - Fraction(sum(after), len(after))


def bucket(n) -> Fraction:
    """Spread the bucket's requests evenly and take the one of the rank."""
    lower, upper = map(Fraction, map(str, n.bounds))
    inside = n.before + n.after
    ends = [lower + (upper - lower) * i / inside for i in range(inside + 1)]
    return ends[n.before]


def behind_step(n) -> Fraction:
    """Millisecond by millisecond."""
    arrives = n.start + n.after
    now, left = arrives, n.own
    while left:
        if not n.start <= now < n.start + n.long:
            left -= 1
        now += 1
    return Fraction(now - arrives, 1000)


def turn(n) -> Fraction:
    waits = Fraction(str(n.late)) - Fraction(str(n.early))
    return Fraction(n.rate) * waits / (n.clients - n.places)


def elsewhere(n) -> int:
    """The fewest left over, whichever requests the long parts belong to."""
    slow = range(n.late)
    return min(len(set(slow) - set(range(n.queued)) - set(range(s, s + n.prefilled))) for s in range(n.late))


def chance(n) -> Fraction:
    ways = list(combinations(range(n.requests), n.slow)) if math.comb(n.requests, n.slow) < 40_000 else None
    if ways:
        return Fraction(sum(way[-1] < n.marked for way in ways), len(ways))
    one_after_the_other = Fraction(1)
    for i in range(n.slow):
        one_after_the_other *= Fraction(n.marked - i, n.requests - i)
    return one_after_the_other


SECOND = {
    "tail_latency/offset": offset,
    "tail_latency/slack": slack,
    "tail_latency/dark": dark,
    "tail_latency/fan-out": fan_out,
    "tail_latency/mean-falls": mean_falls,
    "tail_latency/bucket": bucket,
    "tail_latency/allowed": allowed,
    "tail_latency/run-length": run_length,
    "tail_latency/behind-step": behind_step,
    "tail_latency/elsewhere": elsewhere,
    "tail_latency/turn": turn,
    "tail_latency/chance": chance,
}
PROBLEMS = practice.problems("tail_latency")


def test_every_problem_with_a_number_has_a_second_derivation():
    assert set(SECOND) == {id for id, problem in PROBLEMS.items() if problem.answer}


def test_there_are_easy_hard_and_design_problems():
    levels = [problem.level for problem in PROBLEMS.values()]
    assert len(levels) >= 9 and {1, 2, 3, "design"} <= set(levels)
    assert [x for x in levels if x != "design"] == sorted(x for x in levels if x != "design")


def test_the_checklist_is_long_enough():
    assert len(practice.problem("tail_latency/plan").checklist()) >= 6


@pytest.mark.parametrize("seed", range(20))
def test_the_hour_is_sixty_minutes_and_its_relief_is_one_that_the_others_carry(seed):
    question = practice.problem("tail_latency/plan", seed)
    n, text = question.numbers, str(question.solution())
    spans = [tuple(map(int, span)) for span in re.findall(r"(\d+)–(\d+) min\.", text)]
    assert spans[0][0] == 0 and spans[-1][1] == 60
    assert all(a[1] == b[0] for a, b in zip(spans, spans[1:], strict=False))
    relief, traces = text.index("Relief"), text.index("Trace every request")
    assert relief < traces, "users wait for the diagnosis"
    load = float(re.search(r"≈ ([\d.]+)% of what they", text)[1])
    moved = 1 if "move all of its traffic" in text else 0.5
    total = n.replicas * n.busy  # percent of one replica; what is moved is carried by all but one
    assert load == pytest.approx((total - (1 - moved) * n.busy) / (n.replicas - 1), abs=0.6)
    assert load <= 85 and (moved == 1) == (total / (n.replicas - 1) <= 85)


def test_a_checklist_is_made_of_sentences():
    for line in practice.problem("tail_latency/plan").checklist():
        assert line[0].isupper() and line.endswith("."), line


def test_two_are_both_and_more_are_all():
    for seed in range(40):
        question = practice.problem("tail_latency/chance", seed)
        assert ("and both came" in question.text) == (question.numbers.slow == 2) and "all 2" not in question.text


def test_a_solution_says_nothing_of_an_offset_that_the_question_hides():
    text = str(practice.problem("tail_latency/offset").solution())
    assert "These stamps were made with 45 ms" in text and "truth" not in text
