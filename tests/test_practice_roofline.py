"""Practice of the roofline chapter: every answer a second time, from configuration fields and by counting."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest

from calc import practice, roofline
from calc.hardware import accelerator
from calc.models import load
from calc.sources import load_json
from calc.units import format_seconds

BYTES = {"bf16": 2, "fp8": 1}


def config(slug: str) -> dict:
    facts = load_json("models", f"{slug}.json")["config"]
    return facts.get("text_config", facts)


def shape(slug: str) -> tuple[int, int, int, int, int]:
    """Layers, hidden size, query heads, KV heads and head size."""
    c = config(slug)
    heads = c["num_attention_heads"]
    size = c.get("head_dim") or c["hidden_size"] // heads
    return c["num_hidden_layers"], c["hidden_size"], heads, c.get("num_key_value_heads") or heads, size


def exactly(slug: str) -> int:
    """Weights that a token meets, norms and biases included, counted matrix by matrix."""
    c = config(slug)
    layers, hidden, heads, kv, size = shape(slug)
    biases = (heads + 2 * kv) * size if c["model_type"] == "qwen2" else 0
    attention = 2 * hidden * heads * size + 2 * hidden * kv * size + biases
    each = attention + 3 * hidden * c["intermediate_size"] + 2 * hidden
    return layers * each + hidden + c["vocab_size"] * hidden


def in_layers(slug: str) -> int:
    """Weights in the layers' matrices, counted one by one, as the question prints them: to four digits."""
    c = config(slug)
    layers, hidden, heads, kv, size = shape(slug)
    each = 2 * hidden * heads * size + 2 * hidden * kv * size + 3 * hidden * c["intermediate_size"]
    unit = 10 ** (len(str(layers * each)) - 4)
    return (layers * each + unit // 2) // unit * unit


def weights(slug: str) -> int:
    """The same, as the questions print it: to a tenth of a billion."""
    return (exactly(slug) + 50_000_000) // 100_000_000 * 100_000_000


def rates(slug: str, element: str = "bf16") -> tuple[Fraction, Fraction]:
    chip = accelerator(slug)
    return Fraction(chip.peak(element).value), Fraction(chip.bandwidth.value)


def balance(n) -> Fraction:
    peak, bandwidth = rates(n.chip, n.element)
    return peak / bandwidth


def position(slug: str) -> int:
    layers, _, _, kv, size = shape(slug)
    return 4 * layers * kv * size  # a key and a value of two bytes an element


def decode(n) -> Fraction:
    read = weights(n.model) * BYTES[n.element]
    for _ in range(n.sequences):
        read += n.cached * position(n.model)
    return read / rates(n.chip)[1]


def prefill(n) -> Fraction:
    layers, _, heads, _, size = shape(n.model)
    inner = in_layers(n.model)
    first, last = n.cached + 1, n.cached + n.new
    pairs = (first + last) * n.new // 2  # what the new tokens read, from the first to the last
    return (2 * n.new * inner + layers * pairs * heads * size * 4) / rates(n.chip)[0]


def crossing(n) -> Fraction:
    peak, bandwidth = rates(n.chip)
    return (BYTES[n.element] / bandwidth) / (2 / peak)


def waits_for_arithmetic(n, cached: int, sequences: int) -> bool:
    """Whether a decode step does, with the token's own position counted as one that it reads."""
    peak, bandwidth = rates(n.chip)
    layers, _, heads, _, size = shape(n.model)
    chip = round(peak / bandwidth)  # as the question prints it
    moved = 2 * weights(n.model) + sequences * (cached + 1) * position(n.model)
    return sequences * (2 * weights(n.model) + (cached + 1) * 4 * layers * heads * size) > chip * moved


def long_context(n) -> int:
    """Walk up the cached positions until not even an endless batch waits for arithmetic."""
    cached = 0
    while waits_for_arithmetic(n, cached, 10**15):
        cached += 1
    return cached


def ring(n) -> Fraction:
    layers, hidden, *_ = shape(n.model)
    part = Fraction(2 * n.tokens * hidden, n.ranks)
    each = sum(part for _ in range(n.ranks - 1)) + sum(part for _ in range(n.ranks - 1))  # add up, hand round
    return 2 * layers * each


def pays(n) -> Fraction:
    read = 2 * weights(n.model) / rates(n.chip)[1]
    return (read - read / n.ranks) / (2 * shape(n.model)[0])


def experts(n) -> Fraction:
    c = config(n.model)
    every = c.get("num_local_experts") or c["num_experts"]
    picked = c.get("num_experts_per_tok") or c["experts_per_token"]
    passed_over = Fraction(math.comb(every - 1, picked), math.comb(every, picked))  # by one token
    return every * (1 - passed_over**n.tokens)


SECOND = {
    "roofline/balance": balance,
    "roofline/decode-floor": decode,
    "roofline/ring": ring,
    "roofline/prefill-floor": prefill,
    "roofline/crossing": crossing,
    "roofline/experts": experts,
    "roofline/prefill-ratio": lambda n: rates(n.faster)[0] / rates(n.chip)[0],
    "roofline/long-context": long_context,
    "roofline/split-pays": pays,
}
PROBLEMS = practice.problems("roofline")


def test_printed_answers_are_those_of_public_threads():
    """MInference 84: the 2.5 s claimed for 50,000 tokens are below the floor. B200 in fp8: half of its ridge."""
    prefilled = PROBLEMS["roofline/prefill-floor"]
    assert 4.2 < prefilled.answer(prefilled.draw(0)) < 4.4
    crossed = PROBLEMS["roofline/crossing"]
    assert crossed.answer(crossed.draw(0)) == pytest.approx(2250 / 7.7 / 2, rel=1e-3)


def test_a_question_prints_the_weights_that_the_layers_have():
    """Llama-3.1-8B: 32 layers of 218,103,808; the output layer taken off a rounded sum would leave 6.975 billion."""
    asked = PROBLEMS["roofline/prefill-floor"]
    assert "6.979 billion weights in its layers' matrices" in asked.ask(asked.draw(0))
    assert in_layers("llama-3.1-8b") == 6_979_000_000 and 32 * 218_103_808 == 6_979_321_856


@pytest.mark.parametrize("seed", range(30))
def test_no_batch_helps_from_the_answer_on_and_one_does_just_below(seed):
    """The formula counts positions read, the new token's own among them; the answer counts cached ones."""
    problem = PROBLEMS["roofline/long-context"]
    n = problem.draw(seed)
    answer = problem.answer(n)
    assert not any(waits_for_arithmetic(n, answer, 10**k) for k in range(16))
    assert any(waits_for_arithmetic(n, answer - 1, 10**k) for k in range(16))
    assert f"So from {answer:,} cached positions on no batch helps." in " ".join(map(str, problem.solution(n)))
    assert not seed or "its own among them" in problem.ask(n)


def test_the_printed_length_is_the_one_worked_out_by_hand():
    """At 951 positions read: 23.2e9 + 951 · 655,360 FLOP are fewer than 153 times 951 · 163,840 bytes."""
    problem = PROBLEMS["roofline/long-context"]
    assert 23_200_000_000 + 951 * 655_360 < 153 * 951 * 163_840
    assert 23_200_000_000 + 950 * 655_360 > 153 * 950 * 163_840
    assert problem.answer(problem.draw(0)) == 950


def test_the_next_batch_after_the_crossing_is_named():
    problem = PROBLEMS["roofline/crossing"]
    for seed in range(12):
        n = problem.draw(seed)
        assert f"; {int(crossing(n)) + 1:,} are the first batch beyond." in str(problem.solution(n)[-1])


def test_there_are_easy_hard_and_design_problems():
    levels = [problem.level for problem in PROBLEMS.values()]
    assert len(levels) >= 9 and {1, 2, 3, "design"} <= set(levels)
    assert [x for x in levels if x != "design"] == sorted(x for x in levels if x != "design")


def test_the_slow_step_counts_what_starts_its_all_reduces():
    """Two all-reduces in each layer, each with its start, on top of the longer of bytes and arithmetic."""
    slow = PROBLEMS["roofline/slow-step"]
    for seed in range(40):
        n = slow.draw(seed)
        step = roofline.decode_floor(load(n.model), accelerator(n.chip), **step_of(n))
        bare = roofline.decode_floor(load(n.model), accelerator(n.chip), **step_of(n), link="nvlink")
        starts = 2 * shape(n.model)[0] * n.start_us * 1e-6
        apart = step.apart_s + bare.links_s + starts
        listed = " ".join(practice.problem("roofline/slow-step", seed).checklist())
        assert f"One after another that makes {format_seconds(apart)}, and the step takes {n.slower:g}× that" in listed
        assert f"A step takes {format_seconds(n.slower * apart)}." in slow.ask(n)


def test_faster_chips_lower_the_floor_alone():
    """The printed step: its bytes over the H200's rate, and all that the H100 took above its floor."""
    slow = PROBLEMS["roofline/slow-step"]
    n = slow.draw(0)
    moved = roofline.step_work(load(n.model), sequences={(1, n.cached): n.sequences}, ranks=n.ranks).moved_bytes()
    taken = float(re.search(r"A step takes ([0-9.]+) ms", slow.ask(n))[1]) / 1000
    then = moved / 4.8e12
    told = " ".join(map(str, slow.solution(n)))
    assert f"to {format_seconds(then)}." in told
    assert f"a step takes {format_seconds(taken - moved / 3.35e12 + then)[:4]}" in told
    links = float(re.search(r"all-reduces alone ([0-9.]+) ms", told)[1]) / 1000
    best = (taken - links) * 3.35 / 4.8 + links  # what is no all-reduce shrinks with memory alone
    assert f"up to {taken / best:.3g}× as fast" in told


@pytest.mark.parametrize("seed", range(40))
def test_what_is_above_the_floor_is_taken_apart_and_added_up(seed):
    told = " ".join(map(str, PROBLEMS["roofline/slow-step"].solution(PROBLEMS["roofline/slow-step"].draw(seed))))
    above = re.search(r"Of the other (.*?), (.*?) are not explained", told)
    rest, *parts = (float(x) * {"ms": 1, "µs": 0.001}[unit] for x, unit in re.findall(r"([0-9.]+) (ms|µs)", above[0]))
    assert sum(parts) == pytest.approx(rest, rel=2e-3)
    assert "profile of the " in told and "What overturns this: " in told


def step_of(n) -> dict:
    return {"sequences": n.sequences, "cached": n.cached, "ranks": n.ranks}


def test_the_checklist_is_long_enough_and_gives_floors():
    for seed in range(20):
        listed = practice.problem("roofline/slow-step", seed).checklist()
        assert len(listed) >= 8
        assert any("FLOP/B" in line for line in listed)
