"""Practice of the chapter on chunked prefill: every answer a second time, token by token and in whole numbers."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from types import SimpleNamespace

from calc import practice
from calc.scheduling import Request, Scheduler, SchedulerConfig
from calc.sources import load_json

BITS = {"bf16": 16, "fp8": 8}


def config(slug: str) -> dict:
    facts = load_json("models", f"{slug}.json")["config"]
    return facts.get("text_config", facts)


def cuts(n) -> list[int]:
    """Chunks of the prompt, dealt out one after another."""
    left, found = n.prompt, []
    while left > 0:
        found.append(min(left, n.budget - n.decoding))
        left -= found[-1]
    return found


def read_again(n) -> int:
    """Positions before each chunk, added up."""
    done = total = 0
    for tokens in cuts(n):
        total += done
        done += tokens
    return total


def position(n) -> int:
    c = config(n.model)
    size = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    return c["num_hidden_layers"] * c["num_key_value_heads"] * size * 2 * BITS[n.element] // 8


def parameters(slug: str) -> int:
    """What a step reads: all matrices but an embedding of its own, biases of Qwen2's projections, and norms."""
    c = config(slug)
    hidden, layers, wide = c["hidden_size"], c["num_hidden_layers"], c["intermediate_size"]
    size = c.get("head_dim") or hidden // c["num_attention_heads"]
    queries, keys = c["num_attention_heads"] * size, c["num_key_value_heads"] * size
    one = 2 * hidden * queries + 2 * hidden * keys + 3 * hidden * wide + 2 * hidden
    if c["model_type"] == "qwen2":
        one += queries + 2 * keys
    return layers * one + c["vocab_size"] * hidden + hidden


def pairs(n) -> tuple[int, int]:
    """Pairs that an estimate without the prefix finds, and all of them, token by token."""
    return sum(i % n.chunk + 1 for i in range(n.prompt)), sum(i + 1 for i in range(n.prompt))


def scheduled(n) -> int:
    """Steps of the prompt in the library's scheduler, beside requests that end on the way."""
    scheduler = Scheduler(SchedulerConfig(blocks=4000, token_budget=n.budget, sequences=n.decoding + 1))
    for i in range(n.decoding):
        scheduler.add(Request(i, 1, n.beside + 1))  # the first token comes before the prompt does
    scheduler.step()
    scheduler.add(Request("long", n.prompt, 1))
    steps = 0
    while not scheduler.idle:
        steps += any(row.name == "long" for row in scheduler.step().rows)
    return steps


def gaps(n) -> Fraction:
    """Share of lengthened gaps, from a count of the others."""
    others = (Fraction(n.every_s) - n.chunks * Fraction(n.stall_ms, 1000)) / Fraction(n.gap_ms, 1000)
    return n.chunks / (n.chunks + others)


def apart(n) -> Fraction:
    """Stalled gaps and as many others as make them the rarest hundredths."""
    others = n.chunks * Fraction(n.percentile, 100 - n.percentile)
    return (n.chunks * n.stall_ms + others * n.gap_ms) / 1000


def largest(n) -> int:
    """Walk up the straight line, a token at a time."""
    slope = Fraction(n.large_ms - n.small_ms, n.large_tokens - n.small_tokens)
    tokens = 0
    while n.small_ms + (tokens + 1 - n.small_tokens) * slope <= n.limit_ms:
        tokens += 1
    return tokens


SECOND = {
    "chunked_prefill/room": lambda n: n.budget - sum(1 for _ in range(n.decoding)),
    "chunked_prefill/steps": lambda n: len(cuts(n)),
    "chunked_prefill/last": lambda n: cuts(n)[-1],
    "chunked_prefill/longer": lambda n: Fraction(sum(n.small_ms for _ in range(n.chunks)), n.large_ms),
    "chunked_prefill/positions-again": read_again,
    "chunked_prefill/bytes-again": lambda n: read_again(n) * position(n),
    "chunked_prefill/arithmetic": lambda n: Fraction(*pairs(n)),
    "chunked_prefill/balance": lambda n: Fraction(n.chunk, n.members - 1),
    "chunked_prefill/finish-on-the-way": scheduled,
    "chunked_prefill/weights-again": lambda n: Fraction(
        read_again(n) * position(n), (len(cuts(n)) - 1) * 2 * parameters(n.model)
    ),
    "chunked_prefill/seen": gaps,
    "chunked_prefill/how-often": apart,
    "chunked_prefill/budget-for-gap": largest,
}
PROBLEMS = practice.problems("chunked_prefill")


def test_giving_the_prompt_the_whole_budget_is_named_and_never_right():
    """The decoding requests are not taken off: cut again with none of them."""
    for name in ("positions-again", "bytes-again", "weights-again", "steps"):
        problem = PROBLEMS[f"chunked_prefill/{name}"]
        mistake = "divides by the whole budget" if name == "steps" else "gives the prompt the whole budget"
        for seed in range(40):
            n = problem.draw(seed)
            value = SECOND[f"chunked_prefill/{name}"](SimpleNamespace(**vars(n) | {"decoding": 0}))
            assert math.isclose(problem.mistakes[mistake](n), value, rel_tol=1e-9)
            written = f"{float(value)!r} {problem.unit}" if problem.unit != "x" else f"{float(value)!r}x"
            verdict = practice.check(problem, written, seed)
            assert not verdict.right and mistake in (verdict.mistake or ""), (name, n, verdict)


def test_a_count_is_given_with_its_unit_in_the_end():
    for name in ("room", "steps", "last", "positions-again"):
        problem = PROBLEMS[f"chunked_prefill/{name}"]
        for seed in range(12):
            n = problem.draw(seed)
            value = problem.answer(n)
            noun = problem.unit if value != 1 else problem.unit.removesuffix("s")
            assert f"{value:,} {noun}" in problem.solution(n)[-1]


def test_the_chats_own_prompts_are_left_room_in_the_budget():
    for seed in range(8):
        question = practice.problem("chunked_prefill/choose-budget", seed)
        told = str(question.solution()).replace(",", "")
        alone = re.search(r"(\d+) for the document alone leave them none", told)[1]
        assert f"{int(alone) + question.numbers.streams} the {question.numbers.streams} chats included" in told


def test_two_documents_wait_for_one_another():
    """The mean wait for a server with one service time, and the service time whose mean stay is what is accepted."""
    for seed in range(12):
        question = practice.problem("chunked_prefill/choose-budget", seed)
        n, told = question.numbers, " ".join(map(str, question.checklist()))
        waits = Fraction(n.wait_s * n.wait_s, 2 * (n.every_s - n.wait_s))
        shown = re.search(r"document waits ([0-9.]+) (m?s) on average", told)
        assert math.isclose(float(shown[1]), float(waits) * (1000 if shown[2] == "ms" else 1), rel_tol=1e-3)
        stay = float(re.search(r"must be read in ([0-9.]+) s", str(question.solution())).group(1))
        assert math.isclose(stay + stay**2 / (2 * (n.every_s - stay)), n.wait_s, rel_tol=1e-3)


def test_a_mistake_is_the_published_one():
    """sgl-project/sglang issue 34298: a chunk of 8,192 tokens is scored as a sequence of its own."""
    n = SimpleNamespace(prompt=32_768, chunk=8192)
    alone, whole = pairs(n)
    assert alone == 4 * 8192 * 8193 // 2 and whole == 32_768 * 32_769 // 2
    assert math.isclose(PROBLEMS["chunked_prefill/arithmetic"].answer(n), alone / whole)


def test_there_are_easy_hard_and_design_problems():
    levels = [problem.level for problem in PROBLEMS.values()]
    assert len(levels) >= 9 and {1, 2, 3, "design"} <= set(levels)
    assert [x for x in levels if x != "design"] == sorted(x for x in levels if x != "design")


def test_the_plan_of_the_design_problem_keeps_both_promises():
    for seed in range(8):
        question = practice.problem("chunked_prefill/choose-budget", seed)
        n, text = question.numbers, str(question.solution()).replace(",", "")
        steps = n.wait_s * 1000 // n.gap_ms
        assert f"for {steps} of them" in text
        assert steps * -(-n.longest // steps) >= n.longest
        assert "smaller budget can do as well" in text
        assert len(question.checklist()) >= 6


def test_smaller_budgets_than_the_one_named_can_keep_both_promises():
    """5 ms a step, 30 µs a token and 1.2 ns for each token and position before it: a smaller budget does."""
    n = PROBLEMS["chunked_prefill/choose-budget"].draw(0)

    def steps(chunk):
        return [0.005 + chunk * (30e-6 + 1.2e-9 * done) for done in range(0, n.longest, chunk)]

    named = n.longest * n.gap_ms // (n.wait_s * 1000)
    assert max(steps(named)) > n.gap_ms / 1000
    assert max(steps(800)) <= n.gap_ms / 1000 and sum(steps(800)) <= n.wait_s


def test_the_last_chunk_is_called_shorter_only_where_it_is():
    problem = practice.problems("chunked_prefill")["chunked_prefill/arithmetic"]
    for seed in range(40):
        n = problem.draw(seed)
        told = " ".join(line for line in problem.solution(n) if isinstance(line, str))
        rest = n.prompt % n.chunk
        assert ("the last one" in told) == bool(rest)
        assert not rest or f"the last one with {rest:,} tokens" in told
