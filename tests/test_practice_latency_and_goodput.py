"""Practice of the chapter on latency: every answer a second time, from lists of moments and by counting."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import count, pairwise
from math import comb

import pytest

from calc import practice


def first_wait(n) -> Fraction:
    sent = n.due + n.late
    messages = [(sent + n.opened, 0), *((sent + n.wait + i * n.gap, 1) for i in range(3))]
    return Fraction(next(at for at, tokens in messages if tokens) - sent, 1000)


def pace(n) -> Fraction:
    """The mean of gaps that lie evenly between the first and the last token."""
    step = Fraction(n.last - n.first, n.tokens - 1)
    moments = [n.first + i * step for i in range(n.tokens)]
    assert moments[-1] == n.last
    gaps = [b - a for a, b in pairwise(moments)]
    return sum(gaps) / len(gaps) / 1000


def hidden_pause(n) -> Fraction:
    """The gap that brings the mean to what it is."""
    short = [n.gap] * (n.tokens - 2)
    pause = Fraction(n.tpot) * (len(short) + 1) - sum(short)
    assert sum([*short, pause]) / (n.tokens - 1) == n.tpot
    return pause / 1000


def attained(n) -> Fraction:
    ends = ["good"] * n.good + ["missed"] * n.missed + ["failed"] * n.failed + ["cut"] * n.cut
    judged = [end for end in ends if end != "cut"]
    return Fraction(judged.count("good"), len(judged))


def good_ones(n) -> int:
    kept = 0
    for request in n.log:
        if len(request) == 3:  # it failed
            continue
        first, tokens_each = request
        kept += first <= n.limits[0] and (tokens_each is None or tokens_each <= n.limits[1])
    return kept


def few(n) -> int:
    """Try one number after the other, exactly."""
    below, missed = Fraction(str(n.p)) / 100, Fraction(100 - n.confidence, 100)
    return next(k for k in count(1) if below**k <= missed)


def due_clock(n) -> Fraction:
    free = 0
    for i in range(n.requests):
        free = max(free, i * n.every) + n.served
    return Fraction(free - (n.requests - 1) * n.every, 1000)


def frozen(n) -> Fraction:
    """As a fluid: the backlog grows while the server stands still, then falls by what it takes beyond the arrivals."""
    backlog = Fraction(n.rate * n.frozen)
    capacity = Fraction(1000, n.served)
    clears_after = backlog / (capacity - n.rate)
    return n.rate * (n.frozen + clears_after)


SECOND = {
    "latency_and_goodput/first-wait": first_wait,
    "latency_and_goodput/pace": pace,
    "latency_and_goodput/attained": attained,
    "latency_and_goodput/in-system": lambda n: Fraction(n.users) / Fraction(str(n.rate)),
    "latency_and_goodput/good-ones": good_ones,
    "latency_and_goodput/bundles": lambda n: Fraction(str(n.gap)) / (Fraction(1000) / n.rate),
    "latency_and_goodput/left-over": lambda n: Fraction(n.e2e * 1000 - n.ttft, n.tokens - 1) / 1000,
    "latency_and_goodput/few": few,
    "latency_and_goodput/hidden-pause": hidden_pause,
    "latency_and_goodput/in-decode": lambda n: n.in_flight - Fraction(n.token_rate * n.tpot, 1000),
    "latency_and_goodput/due-clock": due_clock,
    "latency_and_goodput/frozen": frozen,
}
PROBLEMS = practice.problems("latency_and_goodput")


def test_there_are_easy_hard_and_design_problems():
    levels = [problem.level for problem in PROBLEMS.values()]
    assert len(levels) >= 9 and {1, 2, 3, "design"} <= set(levels)
    assert [x for x in levels if x != "design"] == sorted(x for x in levels if x != "design")


def test_the_checklist_is_long_enough():
    assert len(practice.problem("latency_and_goodput/promise").checklist()) >= 6


@pytest.mark.parametrize("seed", range(60))
def test_a_limit_on_the_pace_never_decides_only_if_a_first_token_at_once_leaves_less(seed):
    """A first token at once leaves most for the others; only below that can a pace be too strict to matter."""
    question = practice.problem("latency_and_goodput/left-over", seed)
    n, text = question.numbers, str(question.solution())
    most = Fraction(n.e2e * 1000, n.tokens - 1)
    assert ("never decides" in text) == (most <= n.tpot) and ("it can" in text) == (most > n.tpot)


def test_six_seconds_and_a_late_first_token_leave_less_than_a_sooner_one():
    """End to end 6 s, first token within 5 s, 101 tokens at 40 ms: 10 ms are left at the limit, 50 ms after 1 s."""
    question = practice.problem("latency_and_goodput/left-over")
    n = type(question.numbers)(e2e=6, ttft=5000, tpot=40, tokens=101)
    told = str(practice.Solution(tuple(question.problem.solution(n))))
    assert "10 ms" in told and "never decides" not in told and "it can" in told


@pytest.mark.parametrize("seed", range(8))
def test_the_run_of_the_promise_is_long_enough_and_its_requests_are_the_fewest(seed):
    question = practice.problem("latency_and_goodput/promise", seed)
    n, text = question.numbers, str(question.solution())
    requests = int(re.search(r"must have ([\d,]+) requests", text)[1].replace(",", ""))
    late = 1 - n.share / 100

    def at_most_ten(of: int) -> float:
        return sum(comb(of, k) * late**k * (1 - late) ** (of - k) for k in range(11))

    assert at_most_ten(requests) <= 0.05 < at_most_ten(requests - 1)
    seconds = int(re.search(r"it is ([\d,]+) s of traffic", text)[1].replace(",", ""))
    assert requests <= seconds * n.rate < requests + n.rate


@pytest.mark.parametrize("seed", range(8))
def test_the_days_of_the_promise_are_counted_together_and_a_good_service_passes(seed):
    """Ten late ones allowed in each of four runs refuse two in three services that are twice as good as promised."""
    question = practice.problem("latency_and_goodput/promise", seed)
    n, text = question.numbers, str(question.solution()).replace(",", "")
    runs, each, requests = map(int, re.search(r"of (\d+) · (\d+) = (\d+) requests may", text).groups())
    allowed, of = map(int, re.search(r"at most (\d+) of the (\d+) requests miss", text).groups())
    assert runs * each == requests == of and "in each repeat" not in text

    def at_most(late: int, share: Fraction, tried: int) -> float:
        chance = (comb(tried, k) * share**k * (1 - share) ** (tried - k) for k in range(late + 1))
        return float(sum(chance))

    broken = Fraction(100 - n.share, 100)
    assert at_most(allowed, broken, requests) <= 0.05 < at_most(allowed + 1, broken, requests)
    once, every = map(float, re.search(r"a chance of ([\d.]+)% and all \d with ([\d.]+)%", text).groups())
    assert once == pytest.approx(100 * at_most(10, broken / 2, each), abs=0.6)
    assert every == pytest.approx(100 * at_most(10, broken / 2, each) ** runs, abs=0.6)
    fails = float(re.search(r"it fails with ([\d.]+)%", text)[1])
    assert fails == pytest.approx(100 * (1 - at_most(allowed, broken / 2, requests)), rel=0.06) and fails < 1


def test_no_symbol_of_a_solution_is_left_with_its_underscore_in_a_word_of_more_than_one_letter():
    """Lines of working set one letter and its subscript; "TPOT_left" would stay as it is typed."""
    for id in PROBLEMS:
        for seed in range(3):
            assert not re.search(r"(?<!\w)[^\W\d_]{2,}_\w", str(practice.problem(id, seed).solution())), id
