"""Practice of the speculation chapter: every answer a second time, by fractions, sums and simulated loops."""

from __future__ import annotations

import re
from fractions import Fraction
from types import SimpleNamespace

import pytest

from calc import practice, roofline
from calc.hardware import accelerator
from calc.models import load


def shared(n) -> Fraction:
    """One less the half of all differences, in percent points."""
    return 1 - Fraction(sum(abs(p - q) for p, q in zip(n.target, n.draft, strict=True)), 200)


def correction(n) -> Fraction:
    """Bayes: what comes out less what was accepted, over all that was rejected."""
    accepted = [Fraction(min(p, q), 100) for p, q in zip(n.target, n.draft, strict=True)]
    left = [Fraction(p, 100) - kept for p, kept in zip(n.target, accepted, strict=True)]
    word = max(range(4), key=lambda i: n.target[i] - n.draft[i])
    return left[word] / (1 - sum(accepted))


def tokens(n) -> Fraction:
    """1 + α + α² + …, added up."""
    alpha = Fraction(n.percent, 100)
    return sum((alpha**i for i in range(n.draft_tokens + 1)), Fraction(0))


def accepted(n) -> Fraction:
    """Every way a round can end, weighed."""
    alpha, k = Fraction(n.percent, 100), n.draft_tokens
    ends = [(m, alpha**m * (1 - alpha)) for m in range(k)] + [(k, alpha**k)]
    assert sum(chance for _, chance in ends) == 1
    return sum(m * chance for m, chance in ends)


def counters(n) -> Fraction:
    rounds = n.hundreds * 100
    drafted = sum(n.draft_tokens for _ in range(rounds))
    emitted = drafted * n.percent // 100 + rounds
    return Fraction(emitted, rounds)


def third(n) -> float:
    """From the lengths as printed in the question."""
    printed = practice.problems("speculative_decoding")["speculative_decoding/conditional"].ask(n)
    one, two, three = (float(word.rstrip(",.")) for word in printed.split() if word[:2] in {"1.", "2.", "3."})
    return (three - two) / (two - one)


def break_even(n) -> float:
    """Newton's method instead of halving."""
    cost, x = n.cost_percent / 100, 0.5
    for _ in range(60):
        value = sum(x**i for i in range(n.draft_tokens + 1)) - cost
        slope = sum(i * x ** (i - 1) for i in range(1, n.draft_tokens + 1))
        x -= value / slope
    return x


def how_many(n) -> int:
    """Add sequences until the step has more tokens than FLOP and bytes of the datasheet balance."""
    chip = accelerator(n.chip)
    peak, bandwidth = Fraction(chip.peaks["bf16"].value), Fraction(chip.bandwidth.value)
    sequences = 0
    # a weight of two bytes: 2 FLOP a token against 2 bytes read
    while 2 * (sequences + 1) * (n.draft_tokens + 1) / peak <= 2 / bandwidth:
        sequences += 1
    return sequences


SECOND = {
    "speculative_decoding/keep": lambda n: Fraction(n.p, n.q),
    "speculative_decoding/tokens": tokens,
    "speculative_decoding/counters": counters,
    "speculative_decoding/shared": shared,
    "speculative_decoding/speed-up": lambda n: tokens(n) * 100 / (n.draft_tokens * n.draft_percent + n.check_percent),
    "speculative_decoding/printed-rate": lambda n: accepted(n) / n.draft_tokens,
    "speculative_decoding/from-a-benchmark": lambda n: Fraction(n.itl, n.plain),
    "speculative_decoding/correction": correction,
    "speculative_decoding/conditional": third,
    "speculative_decoding/break-even": break_even,
    "speculative_decoding/with-its-own-token": lambda n: Fraction(
        n.rate * (n.draft_tokens + 1) - 100, 100 * n.draft_tokens
    ),
    "speculative_decoding/how-many": how_many,
}
PROBLEMS = practice.problems("speculative_decoding")


def test_there_are_easy_hard_and_design_problems():
    levels = [problem.level for problem in PROBLEMS.values()]
    assert len(levels) >= 9 and {1, 2, 3, "design"} <= set(levels)
    assert [x for x in levels if x != "design"] == sorted(x for x in levels if x != "design")


def test_the_checklist_is_long_enough():
    assert len(practice.problem("speculative_decoding/policy").checklist()) >= 6


def test_the_policy_switches_off_below_the_batch_that_loses():
    """The floors of both steps, around the batch that is named; half of it is where drafts start."""
    problem = PROBLEMS["speculative_decoding/policy"]
    n = problem.draw(0)
    told = " ".join(map(str, problem.solution(n)))
    turn = int(re.search(r"loses from ([0-9]+) sequences", told)[1])
    emits = sum((n.percent / 100) ** i for i in range(n.draft_tokens + 1))

    def gain(batch):
        step = roofline.decode_floor(load(n.model), accelerator(n.chip), sequences=batch, cached=1024, ranks=n.gpus)
        plain = max(step.move_s, step.multiply_s)
        sizes = {(n.draft_tokens + 1, 1024): batch}
        work = roofline.step_work(load(n.model), sequences=sizes, ranks=n.gpus, head="every")
        check = max(work.flop / 989.5e12, work.moved_bytes() / 3.35e12)
        return emits / (n.draft_tokens * 0.05 + check / plain)

    assert gain(turn) < 1 <= gain(turn - 1) and f"{turn // 2}, because" in told


@pytest.mark.parametrize("seed", range(40))
def test_the_policy_decides_for_night_and_noon(seed):
    problem = PROBLEMS["speculative_decoding/policy"]
    n = problem.draw(seed)
    told = " ".join(map(str, problem.solution(n))).replace(",", "")
    start = re.search(r"up to half of that ([0-9]+) because", told)
    decided = re.search(r"Decision: (on|off) at night \(([0-9]+)\) (on|off) at noon \(([0-9]+)\)", told)
    for said, batch in (decided.group(1, 2), decided.group(3, 4)):
        assert (said == "on") == ("no batch up to" in told or bool(start and int(batch) <= int(start[1])))
    gains = [float(x) for x in re.search(r"tokens come ([0-9.]+)× as fast at night and ([0-9.]+)×", told).groups()]
    for said, gain in zip(decided.group(1, 3), gains, strict=True):
        assert said == "off" or gain > 1
    assert "What overturns it: a measured round at" in told


def test_a_benchmark_of_the_field_reads_as_in_the_chapter():
    """vllm-project/recipes 923: 97.7 ms between messages against 26.4 ms, where 3.7 tokens would break even."""
    problem = PROBLEMS["speculative_decoding/from-a-benchmark"]
    n = SimpleNamespace(plain=26.4, itl=97.7, tpot=47.8)
    assert round(problem.answer(n), 2) == 3.7
    assert round(problem.mistakes["gives what it emits now"](n), 2) == 2.04
