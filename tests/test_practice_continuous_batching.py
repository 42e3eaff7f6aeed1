"""Practice of the chapter on continuous batching: every answer a second time, by small simulations."""

from __future__ import annotations

import json
import math
import random
import re
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

from calc import practice


def static(n) -> int:
    """Step by step: a batch decodes until nobody in it is left."""
    queue, steps = list(n.lengths), 0
    while queue:
        batch, queue = queue[: n.places], queue[n.places :]
        while any(left > 0 for left in batch):
            batch = [left - 1 for left in batch]
            steps += 1
    return steps


def continuous(n) -> int:
    """Step by step: places are refilled before each step."""
    queue, running, steps = list(n.lengths), [], 0
    while queue or running:
        while queue and len(running) < n.places:
            running.append(queue.pop(0))
        running = [left - 1 for left in running if left > 1]
        steps += 1
    return steps


def most_gain(n) -> Fraction:
    """The worst static total over the best continuous one, batch by batch."""
    left, total, batches = n.requests, n.requests * n.mean, 0
    others = 0
    while left > 0:
        size = min(n.places, left)
        others += size - 1
        batches += 1
        left -= size
    return min(Fraction(total - others) / Fraction(total, n.places), Fraction(batches))


def burst(n) -> Fraction:
    free = [Fraction(0)] * n.places
    waits = []
    for _ in range(n.requests):
        start = min(free)
        free[free.index(start)] = start + Fraction(str(n.service))
        waits.append(start)
    return sum(waits) / n.requests


def overtime(n) -> Fraction:
    """Request k arrives at k/offered and starts at k/served; averaged over a steady stream by the middle one."""
    middle = Fraction(n.offered * n.longer, 2)
    return middle / n.served - middle / n.offered


def expected(n) -> Fraction:
    """Over all batches of long and short responses, if there are not too many of them."""
    p = Fraction(n.percent, 100)
    mean = p * n.long + (1 - p) * n.short
    if n.places <= 8:
        longest = Fraction(0)
        for batch in product((True, False), repeat=n.places):
            odds = math.prod((p if long else 1 - p) for long in batch)
            longest += odds * (n.long if any(batch) else n.short)
    else:  # by the number of long ones
        longest = sum(
            math.comb(n.places, k) * p**k * (1 - p) ** (n.places - k) * (n.long if k else n.short)
            for k in range(n.places + 1)
        )
    return longest / mean


def in_seconds(n) -> Fraction:
    us = Fraction(n.prompt * n.prefill_us + (n.mean - 1) * n.decode_us)
    step = Fraction(1000 * n.base_ms, n.places)
    return (us + step * n.longest) / (us + step * n.mean)


def pool(n) -> int:
    positions = n.prompt
    for _ in range(n.output - 1):  # the last token is never written
        positions += 1
    each = 0
    while each * n.block < positions:
        each += 1
    running, free = 0, n.blocks
    while running < n.places and free >= each:
        running, free = running + 1, free - each
    return running


SECOND = {
    "continuous_batching/static-steps": static,
    "continuous_batching/continuous-steps": continuous,
    "continuous_batching/idle-share": lambda n: 1 - Fraction(n.tokens, n.places * n.steps),
    "continuous_batching/full-step": lambda n: Fraction(1000 * n.base_ms + n.rows * n.decode_us, 10**6),
    "continuous_batching/join": lambda n: Fraction(
        1000 * n.base_ms + n.rows * n.decode_us + n.prompt * n.prefill_us, 10**6
    ),
    "continuous_batching/most-gain": most_gain,
    "continuous_batching/burst": burst,
    "continuous_batching/overtime": overtime,
    "continuous_batching/pool": pool,
    "continuous_batching/expected": expected,
    "continuous_batching/seconds": in_seconds,
}
PROBLEMS = practice.problems("continuous_batching")


def test_there_are_easy_hard_and_design_problems():
    levels = [problem.level for problem in PROBLEMS.values()]
    assert len(levels) >= 9 and {1, 2, 3, "design"} <= set(levels)
    assert [x for x in levels if x != "design"] == sorted(x for x in levels if x != "design")


def test_the_checklist_is_long_enough():
    assert len(practice.problem("continuous_batching/shared-server").checklist()) >= 6


@pytest.mark.parametrize("seed", range(20))
def test_the_most_it_can_gain_is_asked_for_as_a_bound_and_no_lengths_pass_it(seed):
    """With fewer batches than places it is not reached either, so nobody is asked for the most possible."""
    problem = PROBLEMS["continuous_batching/most-gain"]
    n, rng = problem.draw(seed), random.Random(seed)
    assert "What bound" in problem.ask(n) and "at most" not in problem.ask(n)
    for _ in range(60):
        lengths = [1] * n.requests
        favored = rng.sample(range(n.requests), rng.randint(1, n.requests))
        for _ in range(n.requests * (n.mean - 1)):
            lengths[rng.choice(favored)] += 1
        drawn = SimpleNamespace(lengths=lengths, places=n.places)
        assert Fraction(static(drawn), continuous(drawn)) <= most_gain(n)


@pytest.mark.parametrize("seed", range(12))
def test_the_share_of_the_steps_is_divided_before_the_eyes_of_the_reader(seed):
    problem = PROBLEMS["continuous_batching/seconds"]
    n = problem.draw(seed)
    first = str(problem.solution(n)[0])
    for tokens in (n.longest, n.mean):
        assert f"{tokens} / {n.places} = {float(Fraction(tokens, n.places)):g} in" in first


def test_the_step_that_the_pool_returns_to_has_its_formula():
    """Positions at the end and whole blocks stand in Step 7 itself."""
    (path,) = (Path(__file__).parent.parent / "book").glob("*/continuous_batching.ipynb")
    sources = ["".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    step = int(PROBLEMS["continuous_batching/pool"].step.rpartition("-")[2])
    starts = [i for i, source in enumerate(sources) if f"### Step {step} ·" in source]
    end = next(i for i, source in enumerate(sources) if i > starts[0] and source.startswith("## "))
    shown = "\n".join(source for source in sources[starts[0] : end] if "show(" in source)
    assert "kv_cache.positions_written," in shown and "kv_cache.blocks," in shown


@pytest.mark.parametrize("seed", range(20))
def test_the_shared_server_keeps_its_promise_without_prompts(seed):
    """The design question says that a full step has room left, and how many requests would use it up."""
    n = PROBLEMS["continuous_batching/shared-server"].draw(seed)
    full = n.base_ms + Fraction(n.places * n.decode_us, 1000)
    assert full < n.token_ms
    rows = (n.token_ms - n.base_ms) * 1000 // n.decode_us
    solution = str(practice.problem("continuous_batching/shared-server", seed).solution())
    assert f"leave room for {rows:,} decoding" in solution
    share = Fraction(n.token_ms - n.base_ms, n.token_ms) - Fraction(n.places * n.decode_us, 1000 * n.token_ms)
    assert math.isclose(float(re.search(r"of the time: ([0-9.]+)% with all", solution)[1]), 100 * share, abs_tol=0.51)
    spare = n.token_ms - full  # what the cut leaves prompts in every step, full or not
    none = 100 * spare / (n.base_ms + spare)
    assert none < Fraction(100 * (n.token_ms - n.base_ms), n.token_ms)  # with no cut at all
    assert math.isclose(float(re.search(r"([0-9.]+)% with none", solution)[1]), none, abs_tol=0.51)
