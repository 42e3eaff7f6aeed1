"""Practice of the chapter on a first-token budget: every answer a second time, in fractions and sums over states."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import product

import pytest

from calc import practice

F = Fraction


def unattributed(n):
    known = 0
    for part in (n.reach, n.gateway, n.queue, n.prefill, n.deliver):
        known += part
    return F(n.ttft - known, 1000)


def keep_up(n):
    replicas = 1
    while F(n.rate * n.busy, 1000) / replicas >= 1:
        replicas += 1
    return replicas


def slow_part(n):
    """Hop by hop: those that have met no slow one may meet it now."""
    clean = F(1)
    for _ in range(n.parts):
        clean -= clean * F(n.percent, 100)
    return 1 - clean


def fits(n):
    computed = F(n.limit - n.fixed, 1000) * n.rate
    return computed / F(100 - n.hit, 100)


def warm(n):
    """Milliseconds of prefill that a hundred requests bring, over the milliseconds of the replicas."""
    work = (100 - n.warm) * n.cold + n.warm * F(n.cold * (100 - n.hit), 100)
    return work / 100 * n.rate / (1000 * n.replicas)


def single_server(rate, kinds):
    """Pollaczek and Khinchine from the work in the system: W = λ E[S²]/2 + ρ W."""
    mean = sum(share * time for share, time in kinds)
    square = sum(share * time * time for share, time in kinds)
    return rate * square / 2 / (1 - rate * mean)


def varying(n):
    share = F(n.long_percent, 100)
    return single_server(n.rate, [(1 - share, F(n.short, 1000)), (share, F(n.long, 1000))])


def backlog(n):
    """The middle of a fluid run: half of them have come, and what is served is behind."""
    half = F(n.requests, 2)
    return half / n.served - half / n.offered


def two_parts(n):
    a = ((F(1000 - n.rare_a, 1000), n.fast_a), (F(n.rare_a, 1000), n.slow_a))
    b = ((F(1000 - n.rare_b, 1000), n.fast_b), (F(n.rare_b, 1000), n.slow_b))
    cases = sorted((x + y, p * q) for (p, x), (q, y) in product(a, b))
    reached = F(0)
    for time, share in cases:
        reached += share
        if reached >= F(99, 100):
            return F(time, 1000)
    raise AssertionError


def queue_room(n):
    """Bisect the mean wait of equal services for the load that gives the wait allowed."""
    low, high = F(0), F(1)
    for _ in range(60):
        middle = (low + high) / 2
        wait = single_server(middle / F(n.busy, 1000), [(1, F(n.busy, 1000))])
        low, high = (middle, high) if wait <= F(n.left, 1000) else (low, middle)
    return low


def pooled(n):
    """Number waiting from the states of both queues: geometric from the first busy state on."""
    load = F(n.percent, 100)
    apart = load**2 / (1 - load)  # mean number waiting in M/M/1
    empty = (1 - load) / (1 + load)
    together = empty * 2 * load**3 / (1 - load) ** 2  # of the states 3, 4, …, those beyond two
    return (apart / load) / (together / (2 * load))


SECOND = {
    "first_token_budget/unattributed": unattributed,
    "first_token_budget/keep-up": keep_up,
    "first_token_budget/in-line": lambda n: F(n.waiting, n.rate),
    "first_token_budget/slow-part": slow_part,
    "first_token_budget/fits": fits,
    "first_token_budget/warm": warm,
    "first_token_budget/alike": lambda n: single_server(n.rate, [(1, F(n.busy, 1000))]),
    "first_token_budget/varying": varying,
    "first_token_budget/backlog": backlog,
    "first_token_budget/two-parts": two_parts,
    "first_token_budget/queue-room": queue_room,
    "first_token_budget/pooled": pooled,
}
PROBLEMS = practice.problems("first_token_budget")


def test_there_are_easy_hard_and_design_problems():
    levels = [problem.level for problem in PROBLEMS.values()]
    assert len(levels) >= 9 and {1, 2, 3, "design"} <= set(levels)
    assert [x for x in levels if x != "design"] == sorted(x for x in levels if x != "design")


def test_the_printed_p99_of_two_parts_is_not_the_sum_of_their_p99s():
    """Each part alone is fast for more than 99%, and both together are not."""
    problem = PROBLEMS["first_token_budget/two-parts"]
    n = problem.draw(0)
    assert problem.answer(n) > problem.mistakes["adds the p99s of the parts"](n)


def test_the_checklist_is_long_enough():
    assert len(practice.problem("first_token_budget/smallest").checklist()) >= 6


@pytest.mark.parametrize("seed", range(4))
def test_the_plan_of_the_design_question_says_what_it_counts(seed):
    text = str(practice.problem("first_token_budget/smallest", seed).solution())
    assert "replica" in text and "assumed" in text


@pytest.mark.parametrize("seed", range(12))
def test_the_fleet_that_is_bought_can_lose_a_replica(seed):
    text = str(practice.problem("first_token_budget/smallest", seed).solution())
    needed = int(re.search(r"By the formula (\d+) replica", text)[1])
    nodes, bought = map(int, re.search(r"buy (\d+) nodes? of 8 GPUs, (\d+) replica", text).groups())
    assert bought == 2 * nodes and bought > needed >= bought - 2


@pytest.mark.parametrize("seed", range(24))
def test_what_may_be_lost_of_the_fleet_is_what_it_has_to_spare(seed):
    """Two replicas to a node: with one node gone those that are left are enough, or they are not."""
    text = str(practice.problem("first_token_budget/smallest", seed).solution())
    if found := re.search(r"buy \d+ nodes? of 8 GPUs, (\d+) replicas, where (\d+) will do", text):
        bought, needed = map(int, found.groups())
        assert ("a whole node of 2 too" in text) == (bought - 2 >= needed)
        assert ("but not a whole node" in text) == (bought - 2 < needed <= bought - 1)
    assert "90% of each GPU's memory" in text and "3 GiB" in text
