"""Practice of the chapter on choosing an engine: every answer a second time, counted out or in fractions."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import count

import pytest

from calc import practice


def exact(number: float) -> Fraction:
    return Fraction(str(number))


def apart(n) -> int:
    """Read the two answers off the question itself and walk along them."""
    text = practice.Question(PROBLEMS["engine_selection/divergence"], seed_of(n)).text
    one, other = (part.split() for part in re.findall(r"((?:\d+ )+\d+)", text)[:2])
    return next(i for i in count() if one[i] != other[i]) + 1


def seed_of(n) -> int:
    problem = PROBLEMS["engine_selection/divergence"]
    return next(seed for seed in count() if problem.draw(seed) == n)


def still_possible(n) -> float:
    """Bisect the share at which agreement in all prompts is as likely as the confidence leaves."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        likely = math.exp(n.samples * math.log1p(-middle))
        low, high = (middle, high) if likely > 1 - n.percent / 100 else (low, middle)
    return low


def sample(n) -> int:
    """Count up until so few different answers are unlikely enough, in whole numbers."""
    share, left = 1 - exact(n.percent) / 100, 1 - exact(n.confidence) / 100
    for size in count(n.different + 1):
        likely = sum(math.comb(size, k) * share**k * (1 - share) ** (size - k) for k in range(n.different + 1))
        if likely <= left:
            return size
    raise AssertionError


def bought(n) -> Fraction:
    made = Fraction(n.rate * 3600) * n.good / 100 * n.busy / 100
    return made / exact(n.price)


def busy(n) -> Fraction:
    """The share of an hour's good tokens that the other price would charge the hour for."""
    whole_hour = Fraction(n.rate * 3600) * n.good / 100
    return exact(n.price) / (whole_hour / 10**6 * exact(n.other))


def times_longer(n) -> Fraction:
    flop = 2 * n.billions * 10**9 * n.prompt * n.prompts
    return n.took * Fraction(n.tflops * 10**12 * n.gpus * n.percent, 100) / flop


def worth(n) -> Fraction:
    million = exact(n.dear) - exact(n.cheap)
    return n.upkeep / million * 10**6 / (730 * 3600)


SECOND = {
    "engine_selection/divergence": apart,
    "engine_selection/same-fact": lambda n: n.rate * exact(n.seconds) / n.requests,
    "engine_selection/tokens-bought": bought,
    "engine_selection/agreement-in-all": still_possible,
    "engine_selection/requests-for-proof": sample,
    "engine_selection/busy-enough": busy,
    "engine_selection/longer-answers": lambda n: math.exp(n.long / n.short * math.log(n.equal / 100)),
    "engine_selection/price-ratio": lambda n: Fraction(n.first * n.first_good, n.second * n.second_good),
    "engine_selection/broken-run": times_longer,
    "engine_selection/worth-the-upkeep": worth,
}
PROBLEMS = practice.problems("engine_selection")


def test_chapter_has_easy_hard_and_design_problems():
    levels = [problem.level for problem in PROBLEMS.values()]
    assert len(levels) >= 9 and {1, 2, 3, "design"} <= set(levels)
    assert [x for x in levels if x != "design"] == sorted(x for x in levels if x != "design")


def test_the_checklist_is_long_enough():
    assert len(practice.problem("engine_selection/service").checklist()) >= 6


def test_three_over_the_prompts_is_a_bound_for_95_percent_and_named_as_one():
    question = practice.problem("engine_selection/agreement-in-all")
    three_over = Fraction(3, question.numbers.samples)
    assert question.numbers.percent == 95 and three_over == Fraction(6, 100)
    assert question.check("6.00%").mistake == "stops at the rule of three"
    assert "%)" in question.check("5.816%").message and question.check("5.816%").right


@pytest.mark.parametrize("seed", range(8))
def test_the_decision_says_what_equal_answers_leave_open_and_what_a_month_is(seed):
    question = practice.problem("engine_selection/service", seed)
    n, text = question.numbers, str(question.solution())
    (left,) = re.findall(r"equal answers leave ([\d.]+)% open", text)
    assert float(left) == pytest.approx(100 * (1 - 0.05 ** (1 / n.prompts)), abs=0.06)
    months, hours, saved = re.search(r"8,000 / \((\d+) · (\d+)\) ≈ ([\d.]+) an hour", text).groups()
    assert hours == "730" and float(saved) == pytest.approx(8000 / (int(months) * int(hours)), rel=5e-3)


@pytest.mark.parametrize("seed", range(12))
def test_a_slow_run_is_told_with_its_tokens_and_its_rate_before_its_time(seed):
    """14 billion on 2 GPUs at half of 312 TFLOP/s come back to 312: both factors must be seen."""
    question = practice.problem("engine_selection/broken-run", seed)
    n, lines = question.numbers, str(question.solution()).split("\n")
    assert lines[0] == f"Tokens: {n.prompts} × {n.prompt:,} = {n.prompts * n.prompt:,}."
    gpus, peak, share = re.match(r"Rate: (\d) GPUs? × (\d+) TFLOP/s × ([\d.]+) = ", lines[1]).groups()
    assert (int(gpus), int(peak), float(share)) == (n.gpus, n.tflops, n.percent / 100)


@pytest.mark.parametrize("seed", range(12))
def test_what_money_buys_goes_from_good_tokens_to_the_hour_to_the_price(seed):
    question = practice.problem("engine_selection/tokens-bought", seed)
    n, text = question.numbers, str(question.solution()).replace(",", "")
    rate, share, hour = map(float, re.search(r"3600 × ([\d.]+) × ([\d.]+) = ([\d.]+) good", text).groups())
    assert (rate, share) == (pytest.approx(n.rate * n.good / 100), n.busy / 100)
    assert hour == pytest.approx(3600 * rate * share) and f"{rate:g}/s" in text.split("In an hour")[0]
    over = re.search(r"Over its price: ([\d.]+) / ([\d.]+) = ", text).groups()
    assert tuple(map(float, over)) == (hour, n.price)


def test_no_symbol_of_a_solution_is_left_with_its_underscore_in_a_word_of_more_than_one_letter():
    """Lines of working set one letter and its subscript; "Δc_tok" would stay as it is typed."""
    for id in PROBLEMS:
        for seed in range(3):
            assert not re.search(r"(?<!\w)[^\W\d_]{2,}_\w", str(practice.problem(id, seed).solution())), id
