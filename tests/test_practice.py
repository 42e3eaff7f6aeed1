"""Practice: every generated answer is derived a second time here, and the checker never praises a wrong one."""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
import subprocess
import sys
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from hypothesis import assume, example, given
from hypothesis import strategies as st

from calc import practice
from calc.models import load
from calc.parameters import count
from calc.practice import Problem, Question, check
from calc.practice._reading import read
from calc.sources import load_json
from calc.units import UNITS, UnitError, format_bytes

ROOT = Path(__file__).parents[1]
SEEDS = range(120)
MANY_SEEDS = range(200)
PROBLEMS = {id: p for chapter in practice.chapters() for id, p in practice.problems(chapter).items()}
NUMERIC = {id: p for id, p in PROBLEMS.items() if p.answer}
KINDS = {"right", "right-unit-note", "mistake", "factor", "wrong", "unit", "unreadable"}


# --- the second derivation: the published config fields and whole numbers, nothing of calc's formulas -----------

BINARY = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
DECIMAL = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
UNITS_OF_B = BINARY | DECIMAL
BITS = {"fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8}


def config(slug: str) -> dict:
    facts = load_json("models", f"{slug}.json")["config"]
    return facts.get("text_config", facts)


def heads(slug: str) -> tuple[int, int, int]:
    """Layers, KV heads, and elements of a head, the last as the family defines it."""
    c = config(slug)
    size = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    return c["num_hidden_layers"], c.get("num_key_value_heads") or c["num_attention_heads"], size


def token(n, kv_heads: int | None = None) -> int:
    layers, stored, size = heads(n.model)
    total = 0
    for _ in range(layers):
        for _ in ("key", "value"):
            total += (kv_heads or stored) * size * BITS[n.element]
    return total // 8


def on_rank(n) -> int:
    """The largest share any rank has when every rank serves its query heads with whole KV heads."""
    stored, query = heads(n.model)[1], config(n.model)["num_attention_heads"]
    group = query // stored
    share = query // n.ranks
    shares = [len({q // group for q in range(r * share, (r + 1) * share)}) for r in range(n.ranks)]
    return token(n, kv_heads=max(shares)) * n.positions


def with_scales(n) -> Fraction:
    layers, stored, size = heads(n.model)
    return Fraction(layers * stored * 2 * (size * 8 + 32), 8)


def windows(n) -> list[int | None]:
    """The window of each layer, None where it attends to everything."""
    c, layers = config(n.model), heads(n.model)[0]
    if "layer_types" in c:
        return [c["sliding_window"] if kind == "sliding_attention" else None for kind in c["layer_types"]]
    every = c.get("sliding_window_pattern") or {"gemma2": 2, "gpt_oss": 2, "gemma3_text": 6}[c["model_type"]]
    return [None if layer % every == every - 1 else c["sliding_window"] for layer in range(layers)]


def window_bytes(n, freed: bool) -> int:
    _, stored, size = heads(n.model)
    kept = [n.positions if w is None or not freed else min(w, n.positions) for w in windows(n)]
    return sum(kept) * stored * size * 2 * BITS[n.element] // 8


@functools.cache
def draws(id: str, seeds: range = MANY_SEEDS) -> dict:
    """Seed → numbers, for the different sets of numbers that many seeds give: most problems come round earlier."""
    different = {}
    for seed in seeds:
        numbers = PROBLEMS[id].draw(seed)
        different.setdefault(json.dumps(vars(numbers), sort_keys=True), (seed, numbers))
    return dict(different.values())


def simulated_positions(prompt: int, output: int) -> int:
    """Run the decoding loop: each step writes the newest token and samples the next."""
    cache, sampled = prompt, 1  # prefill writes the prompt and samples the first token
    while sampled < output:
        cache, sampled = cache + 1, sampled + 1
    return cache


def pages(n) -> int:
    memory = Fraction(str(n.gib)) * 2**30
    return math.floor(memory / (token(n) * n.block)) * n.block


def admitted(n) -> int:
    memory, one = n.gib * 2**30, token(n) * simulated_positions(n.prompt, n.output)
    count = 0
    while memory >= one:
        memory, count = memory - one, count + 1
    return count


SECOND = {
    "kv_cache/one-token": token,
    "kv_cache/head-dim": token,
    "kv_cache/conversation": lambda n: token(n) * n.positions,
    "kv_cache/quantized-weights": lambda n: token(n) * n.positions,
    "kv_cache/log-token": token,
    "kv_cache/log-heads": lambda n: heads(n.model)[1],
    "kv_cache/tokens-fit": pages,
    "kv_cache/per-rank": on_rank,
    "kv_cache/latent": lambda n: (
        n.positions
        * config(n.model)["num_hidden_layers"]
        * (config(n.model)["kv_lora_rank"] + config(n.model)["qk_rope_head_dim"])
        * 2
    ),
    "kv_cache/scales": with_scales,
    "kv_cache/window": lambda n: window_bytes(n, freed=True),
    "kv_cache/uniform-pages": lambda n: Fraction(window_bytes(n, freed=False), window_bytes(n, freed=True)),
    "kv_cache/finish-positions": lambda n: simulated_positions(n.prompt, n.output),
    "kv_cache/room-to-finish": lambda n: (
        token(n) * (simulated_positions(n.prompt, n.output) - simulated_positions(n.prompt, n.generated))
    ),
    "kv_cache/admission": admitted,
}
GRAIN = {"kv_cache/room-to-finish": token}  # bytes of one position: one more or less is wrong
for chapter in practice.chapters():  # the other chapters keep theirs beside their own tests
    if chapter != "kv_cache":
        SECOND |= import_module(f"test_practice_{chapter}").SECOND


def test_every_numeric_problem_has_a_second_derivation():
    assert set(SECOND) == set(NUMERIC)
    assert set(GRAIN) == {id for id, p in NUMERIC.items() if p.grain}


@pytest.mark.parametrize("id", NUMERIC)
def test_answer_equals_second_derivation(id):
    for seed, n in draws(id, SEEDS).items():
        assert math.isclose(PROBLEMS[id].answer(n), SECOND[id](n), rel_tol=1e-12), (seed, n)


# What others printed or measured for the numbers of seed 0.
PUBLISHED = {
    "kv_cache/one-token": 327_680,  # DeepSeek-V3 hardware paper, arXiv:2505.09343, table 1: 327.680 KB
    "kv_cache/quantized-weights": 57_344 * 3072,  # vllm-project/vllm#22291 measured 0.16 GB a request
    "kv_cache/log-token": 524_288,  # NVIDIA/TensorRT-LLM#1400
    "kv_cache/tokens-fit": 5632,  # vllm-project/tpu-inference#223: "estimated maximum model length is 5632"
    "kv_cache/latent": 70_272 * 8192,  # arXiv:2505.09343, table 1: 70.272 KB a token
}


@pytest.mark.parametrize("id", PUBLISHED)
def test_printed_answer_is_the_published_one(id):
    assert PROBLEMS[id].answer(PROBLEMS[id].draw(0)) == PUBLISHED[id]


def test_printed_log_is_the_published_one():
    """NVIDIA/TensorRT-LLM#1400."""
    for id in ("kv_cache/log-token", "kv_cache/log-heads"):
        text = practice.problem(id).text
        assert "Allocate 69524783104 bytes" in text and "Using 132608 tokens" in text


# --- the problems themselves --------------------------------------------------------------------------------


def test_chapter_has_easy_hard_and_design_problems():
    levels = [p.level for p in practice.problems("kv_cache").values()]
    assert len(levels) >= 9
    assert {1, 2, 3, "design"} <= set(levels)
    assert [x for x in levels if x != "design"] == sorted(x for x in levels if x != "design")


@pytest.mark.parametrize("id", PROBLEMS)
def test_draws_repeat_vary_and_leave_the_printed_numbers(id):
    problem = PROBLEMS[id]
    drawn = [vars(problem.draw(seed)) for seed in SEEDS]
    assert drawn == [vars(problem.draw(seed)) for seed in SEEDS]
    assert drawn[0] == dict(problem.printed)
    assert dict(problem.printed) not in drawn[1:]
    different = [json.dumps(d) for d in drawn[1:]]
    assert len(set(different)) >= 7
    assert different[: len(set(different))] == list(dict.fromkeys(different)), "one came again before all had come"
    assert all(problem.possible(problem.draw(seed)) for seed in SEEDS)


def test_fresh_numbers_use_up_all_that_are_possible_before_one_repeats():
    problem = PROBLEMS["kv_cache/head-dim"]  # whose every draw is possible
    fresh = set(itertools.product(*problem.choices.values())) - {tuple(problem.printed.values())}
    drawn = [tuple(vars(problem.draw(seed)).values()) for seed in range(1, 2 * len(fresh) + 1)]
    assert set(drawn[: len(fresh)]) == fresh
    assert drawn[len(fresh) :] == drawn[: len(fresh)]
    assert vars(problem.draw(2**53 - 1))


@pytest.mark.parametrize("id", PROBLEMS)
def test_no_sequence_is_longer_than_its_model_allows(id):
    if id in {"kv_cache/log-token", "kv_cache/log-heads"}:
        return  # those positions belong to many sequences
    for seed in SEEDS:
        n = vars(PROBLEMS[id].draw(seed))
        if "model" in n:
            longest = config(n["model"]).get("max_position_embeddings", math.inf)
            assert n.get("positions", 0) + n.get("prompt", n.get("history", 0)) + n.get("output", 0) <= longest


ON_GPUS = {"kv_cache/log-token", "kv_cache/log-heads", "kv_cache/per-rank", "kv_cache/latent"}
IN_FP8 = {"deepseek-v3", "kimi-k2"}  # the others are published in 16 bits


@pytest.mark.parametrize("id", sorted(ON_GPUS))
def test_weights_and_cache_fit_where_they_are_said_to_be(id):
    """On one GPU, or on as many as there are ranks, and none larger than an H200."""
    memory = load_json("hardware.json")["accelerators"]["h200-sxm"]["memory"]["total"]["amount"]
    room = int(memory.removesuffix(" MiB")) * 2**20
    for n in draws(id).values():
        weights = count(load(n.model)).total * (1 if n.model in IN_FP8 else 2) / getattr(n, "ranks", 1)
        cache = SECOND[id](n) if hasattr(n, "ranks") else token(n) * n.positions
        assert weights + cache < 0.95 * room, n


def test_a_window_problem_has_something_to_let_go():
    for n in draws("kv_cache/window").values():
        assert window_bytes(n, freed=True) < window_bytes(n, freed=False), n


def test_a_seed_gives_the_same_numbers_for_ever():
    """A link carries a seed: the draw must not depend on the version of Python."""
    assert vars(PROBLEMS["kv_cache/finish-positions"].draw(7)) == {"prompt": 512, "output": 200}


@pytest.mark.parametrize("id", PROBLEMS)
def test_text_is_complete(id):
    for seed in range(12):
        question = Question(PROBLEMS[id], seed)
        for text in (question.text, question.hint, *question.solution().text, *question.checklist()):
            assert text.strip() and "{" not in text and "nan" not in text.split()
        assert question.problem.step_label.startswith("Step ")


@pytest.mark.parametrize("id", PROBLEMS)
def test_the_chapter_has_the_step(id):
    chapter, _, step = PROBLEMS[id].step.partition("#step-")
    (notebook,) = (ROOT / "book").glob(f"*/{chapter}.ipynb")
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert any(f"### Step {step} ·" in "".join(cell["source"]) for cell in cells)


@pytest.mark.parametrize("id", NUMERIC)
def test_solution_ends_in_the_answer(id):
    for seed in range(30):
        question = Question(PROBLEMS[id], seed)
        shown = question.check(exact_text(question)).message.removeprefix("Right: ").rstrip(".")
        number = shown.split()[0].rstrip("×")
        assert any(number in line for line in question.solution().text[-2:]), (shown, question.solution().text)


def asked_in(question: Question) -> str:
    """The unit that the question names after "How many", or the problem's own."""
    words = re.search(r"[Hh]ow many ((?:\w+ ){0,3}?\w+s\b)(?: (a second)\b)?", question.text)
    noun = words[1].split()[-1] if words else ""
    if not words or noun not in UNITS or UNITS[noun].dimension:
        return question.problem.unit
    return f"{noun} {words[2]}" if words[2] else noun


@pytest.mark.parametrize("id", NUMERIC)
def test_the_value_that_the_solution_prints_is_right_with_its_unit_and_with_the_one_asked_for(id):
    known = "|".join(sorted(map(re.escape, filter(None, UNITS)), key=len, reverse=True))
    for seed in range(12):
        question = Question(PROBLEMS[id], seed)
        shown = question.check(exact_text(question)).message.removeprefix("Right: ").rstrip(".")
        number = shown.split()[0].rstrip("×")
        after = rf"(?<![\d.,]){re.escape(number)}(?:,\d\d\d)*((?:\s?(?:{known})(?![\w/]))?(?: (?:a|per) [\w-]+)?)"
        results = (re.split(r"[=≈] ", line)[-1] for line in reversed(question.solution().text))  # not what is put in
        units = set(next(filter(None, (re.findall(after, result) for result in results)), [])) - {""}
        bare = question.problem.unit not in {"B", "s", "B/s", "x"}  # a count needs no unit, and takes the one asked for
        for text in {shown, *(number + unit for unit in units), *([f"{number} {asked_in(question)}"] if bare else [])}:
            assert question.check(re.sub(r" \(.*", "", text)).right, (seed, text, question.check(text))


def test_a_rate_is_read_in_any_unit_of_a_rate():
    question = practice.problem("disaggregation/effective")
    for text in ("4.17 GB/s", "4,167 MB/s", "3.881 GiB/s", "33.33 Gbit/s", "4.167 GB per second", "4.167 GB a second"):
        assert question.check(text).right, (text, question.check(text))
    for text in ("25 GB/s", "200 Gbit/s"):
        assert question.check(text).mistake == "takes the wire alone"
    assert question.check("5 GB/s").mistake.startswith("takes posting alone")
    for text in ("4.167", "4.167 GB", "4.167 requests/s"):
        assert question.check(text).kind == "unit" and "GB/s" in question.check(text).message
    for id, text in {
        "disaggregation/full-link": "15.89/s",
        "engine_selection/worth-the-upkeep": "5,708 tokens per second",
        "engine_selection/requests-for-proof": "313 prompts",
        "disaggregation/counted": "585 requests per GPU-hour",
    }.items():
        assert practice.problem(id).check(text).right, (id, practice.problem(id).check(text))


@pytest.mark.parametrize("seed", range(6))
def test_the_plan_of_the_chat_service_fits_and_one_more_would_not(seed):
    question = practice.problem("kv_cache/chat-service", seed)
    n, text = question.numbers, str(question.solution()).replace(",", "")
    running, kept = map(int, re.search(r"conversations (\d+) are being answered (\d+) stay", text).groups())
    most = int(re.search(r"up to (\d+) of", text)[1])
    pool, history, turn = n.gib * 2**30, token(n) * n.history, token(n) * (n.history + n.output - 1)
    assert most * turn <= pool < (most + 1) * turn
    assert running * turn + kept * history <= pool
    assert running + kept == n.conversations or running * turn + (kept + 1) * history > pool
    assert f"other {n.conversations - running - kept} are dropped" in text or running + kept == n.conversations


def test_a_label_in_a_solution_leads_into_its_line_and_is_no_step():
    lines = practice.problem("kv_cache/room-to-finish").solution().text
    assert lines[0].startswith("At the end: T = ") and lines[1].startswith("Now: T = ")
    for id in PROBLEMS:
        assert not any(line.endswith(":") for line in practice.problem(id).solution().text), id


def test_design_question_has_a_checklist_and_no_number():
    question = practice.problem("kv_cache/chat-service")
    assert len(question.checklist()) >= 6
    assert "checklist" in question.check("250 GiB").message
    assert not question.check("250 GiB").right


# --- right answers ------------------------------------------------------------------------------------------


def rounds(text: str, target: float) -> bool:
    """Whether "412.5 MiB" is the target with as many decimals."""
    number, unit = text.split()
    decimals = len(number.partition(".")[2])
    return abs(Fraction(number) - Fraction(target) / UNITS_OF_B[unit]) <= Fraction(1, 2 * 10**decimals)


def exact_text(question: Question, value: float | None = None) -> str:
    target = question.problem.answer(question.numbers) if value is None else value
    return f"{target!r} {question.problem.unit}"


@pytest.mark.parametrize("id", NUMERIC)
def test_right_answer_is_right_however_written(id):
    for seed in draws(id, SEEDS):
        question = Question(PROBLEMS[id], seed)
        target = question.problem.answer(question.numbers)
        texts = [exact_text(question)]
        if question.problem.unit == "B":
            texts += [
                f"{target:,.0f} bytes",
                format_bytes(target),
                f"≈ {target / 2**20:.5g}MiB",
                f"{target / 1024} kib",
            ]
            decimal = question.check(f"{target / 1e6:.5g} MB")
            assert (decimal.right, decimal.kind) == (True, "right-unit-note")
            assert question.check(f"{target * 8} bit").kind == "right-unit-note"
        elif question.problem.unit == "s":
            texts += [f"{1000 * target:.6g} ms", f"{target:.6g} seconds", f"about {1000 * target:.4g}milliseconds."]
            assert question.check(f"{target:.6g}").kind == "unit"
        elif question.problem.unit == "x":
            texts += [f"{target:.3g}", f"{target:.3g}×", f"{100 * target:.4g}%", f"{target:.4g} times"]
        elif question.problem.unit == "B/s":
            texts += [f"{target / 1e9:.6g} GB/s", f"{8 * target / 1e9:.6g} Gbit per second"]
            assert question.check(f"{target:.6g}").kind == "unit"
        else:
            texts += [f"{target}", f"{target:,}", f"= {target} {question.problem.unit}."]
        for text in texts:
            verdict = question.check(text)
            assert (verdict.right, verdict.kind) == (True, "right"), (seed, text, verdict)


ONE = practice.problem("kv_cache/one-token")  # 320 KiB
LONG = practice.problem("kv_cache/conversation")  # 5 GiB
LAST = practice.problem("kv_cache/finish-positions")  # 1,199 positions
RATIO = practice.problem("kv_cache/uniform-pages")  # 5.333×
HEADS = practice.problem("kv_cache/log-heads")  # 32 heads
FIT = practice.problem("kv_cache/tokens-fit")  # 5,632 tokens, 22 pages
ROOM = practice.problem("kv_cache/room-to-finish")  # 1,648 positions of 252 KiB, 405.5625 MiB


@pytest.mark.parametrize(
    ("question", "text", "kind", "words"),
    [
        (ONE, "320 KiB", "right", "Right: 320 KiB."),
        (ONE, "327680 B", "right", "Right: 320 KiB."),
        (ONE, "327,680 bytes", "right", "Right"),
        (ONE, "327 680 B", "right", "Right"),
        (ONE, "0.3125 MiB", "right", "Right"),
        (ONE, "320 KiB/token", "right", "Right"),
        (ONE, "about 320 KiB per position.", "right", "Right"),
        (ONE, "3.2768e5 B", "right", "Right"),
        (ONE, "3.2768×10^5 B", "right", "Right"),
        (ONE, "328 kB", "right-unit-note", "Right, in decimal units; the book uses binary ones here: 320 KiB."),
        (ONE, "2,621,440 bit", "right-unit-note", "Right, in bits"),
        (ONE, "320 kB", "unit", "right for KiB, not kB: 2.3% low"),
        (ONE, "40 KiB", "mistake", "8× low: that counts one KV head, or is the share of one of eight ranks."),
        (ONE, "10,485,760 B", "mistake", "sizes a key by the hidden size and takes 8 bits for bytes"),
        (ONE, "2.5 MiB", "mistake", "8× high: that counts query heads"),
        (ONE, "2.5 MB", "mistake", "(and MB for MiB)"),
        (ONE, "160 KiB", "mistake", "2× low: that keeps the key and forgets the value, or keeps one byte per element."),
        (ONE, "4 KiB", "mistake", "80× low: that counts one layer. Back to Step"),
        (ONE, "320 MiB", "factor", "1,024× high: the number is right for KiB, not MiB."),
        (ONE, "320 B", "factor", "1,024× low"),
        (ONE, "3.125 MiB", "factor", "10× high: the digits are right. Check the decimal point."),
        (ONE, "3.3 MiB", "wrong", "10.6× high"),
        (ONE, "326 kB", "right-unit-note", "Right"),
        (ONE, "325 KiB", "wrong", "Close: 1.6% high. Check the rounding."),
        (ONE, "330 KiB", "wrong", "3.1% high. See the hint"),
        (ONE, "0.31 MiB", "right", "Right: 320 KiB."),
        (ONE, "320 kibibytes", "right", "Right: 320 KiB."),
        (ONE, "328 kilobytes", "right-unit-note", "Right, in decimal units"),
        (ONE, "0.3125 mebibyte per token", "right", "Right: 320 KiB."),
        (ONE, "2,621 kilobits", "right-unit-note", "Right, in bits"),
        (ONE, "ca. 320 KiB", "right", "Right: 320 KiB."),
        (ONE, "approx. 320 KiB", "right", "Right: 320 KiB."),
        (ONE, "700 KiB", "wrong", "2.19× high. See the hint, or go back to Step"),
        (ONE, "327680", "unit", "327,680 of what? Add a unit: B, KiB, MiB or GiB."),
        (ONE, "1e5", "unit", "100,000 of what?"),
        (ONE, "320 tokens", "unit", "asks for bytes"),
        (ONE, "12 ms", "unit", "asks for bytes"),
        (ONE, "0 B", "wrong", "zero"),
        (LONG, "5 GiB", "right", "Right: 5 GiB."),
        (LONG, "5.4 GB", "right-unit-note", "Right, in decimal units"),
        (LONG, "5.0 GB", "unit", "right for GiB, not GB: 6.9% low"),
        (LONG, "5.37 GiB", "unit", "right for GB, not GiB: 7.4% high"),
        (LONG, "40 GiB", "mistake", "8× high: that counts query heads"),
        (LONG, "10 GiB", "mistake", "2× high: that keeps two bytes per element"),
        (LONG, "5 GiB per token", "unreadable", "unit"),
        (LAST, "1199", "right", "Right: 1,199 positions."),
        (LAST, "1,199 tokens", "right", "Right"),
        (LAST, "1200 positions", "mistake", "1 position too many: that writes the last token too."),
        (LAST, "1190", "wrong", "9 positions too few"),
        (LAST, "11990", "factor", "10× high: the digits are right. Check the decimal point."),
        (LAST, "1199 blocks", "unit", "asks for a number of positions"),
        (LAST, "1199 B", "unit", "asks for a number of positions"),
        (ROOM, "405.6 MiB", "right", "Right: 405.6 MiB."),
        (ROOM, "405.56 MiB", "right", "Right"),
        (ROOM, "425,263,104 B", "right", "Right"),
        (ROOM, "425.3 MB", "right-unit-note", "Right, in decimal units"),
        (ROOM, "405.5 MiB", "wrong", "Close: 64 KiB too little. Check the rounding."),
        (ROOM, "406 MiB", "wrong", "Too coarse to tell from 252 KiB more or less: give another digit."),
        (ROOM, "405.3 MiB", "mistake", "252 KiB too little: that takes the newest token as written already."),
        (ROOM, "425,521,152 B", "mistake", "252 KiB too much: that writes the last token too. Back to Step 4."),
        (ROOM, "407 MiB", "wrong", "Close: 1.438 MiB too much."),
        (ROOM, "50.7 MiB", "mistake", "is the share of one of eight ranks"),
        (ROOM, "405.6 MB", "unit", "right for MiB, not MB"),
        (RATIO, "5.3x", "right", "Right: 5.333×."),
        (RATIO, "x5.3", "right", "Right: 5.333×."),
        (RATIO, "× 5.3", "right", "Right: 5.333×."),
        (RATIO, "5.3 times as much", "right", "Right: 5.333×."),
        (HEADS, "32 KV heads", "right", "Right: 32 heads."),
        (HEADS, "32 query heads", "right", "Right: 32 heads."),
        (FIT, "5632 tokens", "right", "Right: 5,632 tokens."),
        (FIT, "22 pages", "unit", "asks for a number of tokens"),
        (RATIO, "533%", "right", "Right"),
        (RATIO, "0.1875", "mistake", "turns the ratio around"),
        (RATIO, "5.3 tokens", "unit", "ratio"),
    ],
)
def test_verdict(question, text, kind, words):
    verdict = question.check(text)
    assert (verdict.kind, verdict.right) == (kind, kind.startswith("right")), verdict
    assert words in verdict.message


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("", "type a number and its unit"),
        ("   ", "type a number and its unit"),
        ("KiB", "type a number and its unit"),
        ("a lot", "type a number and its unit"),
        ("NaN KiB", "type a finite number"),
        ("inf", "type a finite number"),
        ("∞ B", "type a finite number"),
        ("-320 KiB", "negative"),
        ("−320 KiB", "negative"),
        ("5-6 GiB", "commit to one"),
        ("5–6 GiB", "commit to one"),
        ("5 to 6 GiB", "commit to one"),
        ("between 5 and 6 GiB", "commit to one"),
        ("5 ± 1 GiB", "commit to one"),
        ("5 GiB or 6 GiB", "commit to one"),
        ("5...6 GiB", "point for decimals"),
        ("2*80*8*128*2 B", "work it out"),
        ("2^18 B", "work it out"),
        ("1/2 GiB", "work it out"),
        ("5,4 GB", "point for decimals"),
        ("1.234,5 B", "point for decimals"),
        ("5.4.3 GB", "point for decimals"),
        ("5 Gb", "bits or bytes"),
        ("320 Kib", "bits or bytes"),
        ("5 florins", "Unknown unit"),
        ("5 <b>GiB</b>", "Unknown unit"),
        ("1e400 B", "too large"),
        ("9" * 61 + " B", "63 characters"),
        ("1" * 10_000, "10,000 characters"),
        (None, "as text"),
        (320, "as text"),
    ],
)
def test_unreadable_answers_say_what_to_type(text, remedy):
    verdict = ONE.check(text)
    assert (verdict.right, verdict.kind) == (False, "unreadable")
    assert remedy in verdict.message
    assert not verdict.message[0].islower() and verdict.message.endswith(".")
    assert "320" not in verdict.message.replace(repr(text), "") or "-320" in str(text)


# --- wrong answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", NUMERIC)
def test_each_mistake_is_recognized_and_named(id):
    problem, named = PROBLEMS[id], set()
    for seed in draws(id, SEEDS):
        question = Question(problem, seed)
        n, target = question.numbers, problem.answer(question.numbers)
        for name, mistake in problem.mistakes.items():
            value = mistake(n)
            if not value:
                continue
            verdict = question.check(f"{value} {problem.unit}" if problem.exact else f"{value:.9f} {problem.unit}")
            if value == target:
                assert verdict.right
                continue
            assert not verdict.right
            if verdict.kind != "unit":  # a value that is the answer in GB comes first
                assert verdict.kind == "mistake" and name in verdict.mistake, (seed, name, verdict)
                assert f"that {verdict.mistake}" in verdict.message
                assert "Back to Step" in verdict.message
                named.add(name)
    assert named == set(problem.mistakes), "a mistake that never shows is not worth its line"


def written(value: float, unit: str) -> set[str]:
    """A value with two to four digits, in the binary and the decimal unit that suit its size."""
    if unit != "B":
        return {f"{float(f'{value:.{digits - 1}e}'):.12g} {unit}" for digits in (2, 3, 4)}
    sizes = [max((f, u) for u, f in units.items() if f <= max(value, 1)) for units in (BINARY, DECIMAL)]
    return {f"{float(f'{value / f:.{digits - 1}e}'):.12g} {u}" for f, u in sizes for digits in (2, 3, 4)}


@pytest.mark.parametrize("id", NUMERIC)
def test_no_mistake_however_rounded_is_called_right(id):
    problem = PROBLEMS[id]
    for n in draws(id).values():
        target = problem.answer(n)
        values = {mistake(n) for mistake in problem.mistakes.values()} - {None}
        wrong = {v for v in values if v > 0 and not math.isclose(v, target, rel_tol=1e-12)}
        own = written(target, problem.unit) if problem.grain else set()  # one grain more may round to the answer
        for text in set().union(*(written(v, problem.unit) for v in wrong)) - own:
            assert abs(read(text).value - target) > problem.slack(n), (n, text, target)


@pytest.mark.parametrize("id", [i for i, p in NUMERIC.items() if p.unit == "B"])
def test_gb_written_for_gib_is_not_called_right(id):
    """Unless the answer rounds to the same: 288 KiB is 294.9 kB, and "290 KiB" is right."""
    for n in draws(id).values():
        target = PROBLEMS[id].answer(n)
        for binary, decimal in (("KiB", "kB"), ("MiB", "MB"), ("GiB", "GB")):
            for meant, said in ((binary, decimal), (decimal, binary)):
                for digits in (2, 3, 4):
                    swapped, own = (f"{target / UNITS_OF_B[u]:.{digits - 1}e} {said}" for u in (meant, said))
                    off = abs(read(swapped).value - target)
                    assert swapped == own or off > PROBLEMS[id].slack(n), (n, swapped)


def test_a_rounding_that_could_be_a_mistake_is_sent_back():
    """1.25 GiB is 1.34 GB: "1.3 GiB" may be either."""
    problem = Problem(
        id="kv_cache/x", title="x", level=1, step="kv_cache#step-2", printed={}, ask=lambda n: "x", hint="x",
        solution=lambda n: [], answer=lambda n: 1.25 * 2**30,
    )  # fmt: skip
    question = Question(problem)
    assert question.check("1.25 GiB").right and question.check("1.34 GB").right
    assert str(question.check("1.3 GiB")) == "Too coarse to tell: give three digits."
    assert question.check("1.34 GiB").kind == "unit"


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("250 ms", "right", "Right: 250 ms."),
        ("0.25 s", "right", "Right: 250 ms."),
        ("0.25 sec", "right", "Right"),
        ("250,000 microseconds", "right", "Right"),
        ("250", "unit", "250 of what? Add a unit: ms or s."),
        ("250 tokens", "unit", "The question asks for a time: ms or s."),
        ("250 s", "factor", "1,000× high: the digits are right. Check the decimal point."),
        ("0.5 s", "mistake", "2× high: that counts twice. Back to Step 2."),
    ],
)
def test_a_time_is_read_in_any_unit_of_time(text, kind, words):
    problem = Problem(
        id="kv_cache/x", title="x", level=1, step="kv_cache#step-2", printed={}, ask=lambda n: "x", hint="x", unit="s",
        solution=lambda n: [], answer=lambda n: 0.25, mistakes={"counts twice": lambda n: 0.5},
    )  # fmt: skip
    verdict = Question(problem).check(text)
    assert verdict.kind == kind and words in verdict.message, verdict


def test_mistakes_that_coincide_are_both_named():
    coinciding = ONE.check("160 KiB").message
    assert "forgets the value" in coinciding and "one byte per element" in coinciding


def test_gb_for_gib_is_said_before_a_mistake_of_the_same_size():
    problem = Problem(
        id="kv_cache/x", title="x", level=1, step="kv_cache#step-2", printed={}, ask=lambda n: "x", hint="x",
        solution=lambda n: [], answer=lambda n: 2**30, mistakes={"forgets 74 million bytes": lambda n: 10**9},
    )  # fmt: skip
    assert Question(problem).check("1.00 GB").kind == "unit"
    assert Question(problem).check("1,000,000 kB").kind == "mistake"


def test_a_mistake_that_changes_nothing_is_not_held_against_the_reader():
    """Multi-head attention: query heads are the KV heads."""
    mha = next(Question(ONE.problem, s) for s in SEEDS if ONE.problem.draw(s).model == "llama-2-13b")
    target = mha.problem.answer(mha.numbers)
    assert mha.problem.mistakes["counts query heads"](mha.numbers) == target
    assert mha.check(f"{target} B").right


@given(
    id=st.sampled_from(sorted(i for i, p in NUMERIC.items() if p.unit == "B" and not p.grain)),
    seed=st.integers(0, 40),
    off=st.one_of(st.floats(0.9, 1.1), st.floats(1e-4, 1e4), st.sampled_from([1.0, 0.5, 2.0, 8.0, 1.024, 1.0737])),
    digits=st.integers(1, 7),
    unit=st.sampled_from(sorted(UNITS_OF_B)),
)
def test_right_exactly_when_within_tolerance(id, seed, off, digits, unit):
    question = Question(PROBLEMS[id], seed)
    target = Fraction(SECOND[id](question.numbers)) / UNITS_OF_B[unit]
    text = f"{float(target) * off:.{digits - 1}e}"
    number = Fraction(text)
    error = abs(number - target) / target
    assume(abs(error - Fraction(1, 100)) > Fraction(1, 10**9))
    right = error < Fraction(1, 100)
    verdict = question.check(f"{text} {unit}")
    assert verdict.right == right, (text, unit, float(target), verdict)
    assert verdict.right == (verdict.kind in {"right", "right-unit-note"})


@given(
    id=st.sampled_from(sorted(i for i, p in NUMERIC.items() if p.grain)),
    seed=st.integers(0, 40),
    grains=st.fractions(-3, 3),
    digits=st.integers(1, 9),
    unit=st.sampled_from(sorted(UNITS_OF_B)),
)
def test_a_size_of_counted_things_allows_rounding_and_not_one_more(id, seed, grains, digits, unit):
    question = Question(PROBLEMS[id], seed)
    target, grain = Fraction(SECOND[id](question.numbers)), Fraction(GRAIN[id](question.numbers))
    text = f"{float((target + grains * grain) / UNITS_OF_B[unit]):.{digits}g} {unit}"
    assume("e" not in text)
    off = abs(Fraction(text.split()[0]) * UNITS_OF_B[unit] - target)
    assume(abs(off / grain - Fraction(1, 2)) > Fraction(1, 100))
    assert question.check(text).right == (off < grain / 2 and rounds(text, target)), text


@given(
    id=st.sampled_from(sorted(i for i, p in NUMERIC.items() if p.exact)),
    seed=st.integers(0, 40),
    off=st.integers(-50, 50),
)
def test_exact_counts_allow_no_slack(id, seed, off):
    question = Question(PROBLEMS[id], seed)
    target = SECOND[id](question.numbers)
    assume(target + off >= 0)
    assert question.check(f"{target + off}").right == (off == 0)


ANSWERS = st.one_of(
    st.text(max_size=80),
    st.from_regex(r"[≈~= ]{0,2}[+−-]?[0-9]{0,30}[.,]?[0-9]{0,10}(e[+-]?[0-9]{1,4})? ?[A-Za-z%×/]{0,8}", fullmatch=True),
    st.builds("{} {}".format, st.floats(), st.sampled_from(["B", "PiB", "bit", "x", "tokens", "%", "GB", "heads"])),
    st.integers(),
    st.none(),
)


@given(id=st.sampled_from(sorted(PROBLEMS)), seed=st.integers(0, 40), answer=ANSWERS)
@example(id="kv_cache/one-token", seed=0, answer="1.0e300 B")
@example(id="kv_cache/one-token", seed=0, answer="1e-320 B")
@example(id="kv_cache/finish-positions", seed=0, answer="9" * 58)
def test_any_answer_gets_a_verdict(id, seed, answer):
    verdict = check(PROBLEMS[id], answer, seed)
    assert verdict.kind in KINDS
    assert verdict.message.strip() and verdict.message.endswith(".")
    assert verdict.right == verdict.kind.startswith("right")
    assert bool(verdict.mistake) == (verdict.kind == "mistake")
    if verdict.right:
        target, value = PROBLEMS[id].answer(PROBLEMS[id].draw(seed)), read(answer, PROBLEMS[id].per).value
        assert abs(value - target) <= 0.0101 * target


@given(st.text(max_size=100))
def test_reader_reads_a_number_or_refuses(text):
    try:
        amount = read(text)
    except UnitError as error:
        assert str(error)
    else:
        assert math.isfinite(amount.value) and amount.value >= 0


# --- the page -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", PROBLEMS)
def test_json_poses_and_checks(id):
    asked = json.loads(practice.ask_json(id, 3))
    question = practice.problem(id, 3)
    assert asked["ok"] and asked["ask"] == question.text and asked["html"] == question._repr_html_()
    assert tuple(asked["solution"]) == question.solution().text
    assert (asked["id"], asked["seed"], asked["step"]) == (id, 3, question.problem.step)
    verdict = json.loads(practice.check_json(id, 3, "3 GiB"))
    assert verdict["ok"] and verdict["message"] == question.check("3 GiB").message


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=40), st.lists(st.integers(), max_size=2)
)


@given(id=st.one_of(ODD, st.sampled_from(sorted(PROBLEMS))), seed=ODD, answer=ODD)
def test_json_never_raises(id, seed, answer):
    for text in (practice.ask_json(id, seed), practice.check_json(id, seed, answer)):
        result = json.loads(text)
        assert isinstance(result["ok"], bool)
        assert result["ok"] or result["message"]


@pytest.mark.parametrize("seed", [-1, 1.5, True, "1", None, 2**60])
def test_impossible_seed_is_refused(seed):
    with pytest.raises(practice.PracticeError, match="wanted a whole number"):
        practice.problem("kv_cache/one-token", seed)
    assert not json.loads(practice.ask_json("kv_cache/one-token", seed))["ok"]


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("kv_cache/one-tokn", "did you mean kv_cache/one-token"),
        ("kvcache/one-token", "did you mean kv_cache/one-token"),
        ("one-token", "kv_cache/one-token"),
        ("../../etc", "no problem"),
        ("_check/x", "no problem"),
        (7, "named by text"),
    ],
)
def test_unknown_problem_names_the_closest(id, words):
    with pytest.raises(practice.PracticeError, match=words):
        practice.problem(id)


def test_unknown_chapter_is_refused():
    with pytest.raises(practice.PracticeError, match="kv_cache"):
        practice.problems("_check")


@pytest.mark.parametrize("id", PROBLEMS)
def test_html_reads_without_a_script(id):
    question = practice.problem(id)
    html = question._repr_html_()
    assert html == practice.problem(id)._repr_html_()
    assert "\n\n" not in html
    (box,) = BeautifulSoup(html, "html.parser").find_all("div")
    assert box["class"] == ["practice"]
    assert (box["data-problem"], box["data-seed"]) == (id, "0")
    assert box.find(id=box["aria-labelledby"]).get_text().startswith(question.problem.title)
    assert box.find(class_="practice-ask").get_text() == question.text
    summaries = [s.get_text() for s in box.select("details > summary")]
    assert summaries[0] == "Hint" and summaries[-1] == "Worked solution"
    assert ("What a strong answer contains" in summaries) == (question.problem.level == "design")
    assert [li.get_text() for li in box.select(".practice-solution li")] == list(question.solution().text)


def test_text_is_escaped():
    nasty = '<img src=x onerror="alert(1)">&'
    problem = Problem(
        id="kv_cache/x", title=nasty, level=1, step="kv_cache#step-1", printed={}, ask=lambda n: nasty, hint=nasty,
        solution=lambda n: [nasty], checklist=lambda n: [nasty],
    )  # fmt: skip
    soup = BeautifulSoup(Question(problem)._repr_html_(), "html.parser")
    assert not soup.find("img")
    assert soup.get_text().count(nasty) == 5
    assert not BeautifulSoup(ONE.check("5 <img>")._repr_html_(), "html.parser").find("img")


def test_notebook_reader_can_check_ask_again_and_see_the_working():
    assert str(ONE.check("320 KiB")) == "Right: 320 KiB."
    assert ONE.again().seed == 1 and ONE.again(9).seed == 9 and ONE.again(0) == ONE
    assert ONE.text in repr(ONE)
    assert "327,680 B = 320 KiB" in str(ONE.solution())
    assert ONE.solution()._repr_markdown_().startswith("$$")


def test_runs_on_the_standard_library_alone():
    """The page has no other: neither pint nor numpy is installed there."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from calc.practice import problem; " + (
        "print(problem('kv_cache/one-token').check('320 KiB'), sorted({'pint', 'numpy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "Right: 320 KiB. []"


DECIDED = (
    "cold_start/scale-up",
    "disaggregation/split-or-not",
    "engine_selection/service",
    "first_token_budget/smallest",
    "latency_and_goodput/promise",
    "tail_latency/plan",
)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("id", DECIDED)
def test_the_answer_to_a_design_question_decides_and_says_what_would_overturn_it(id, seed):
    lines = Question(PROBLEMS[id], seed).solution().text
    assert sum("Decision" in line for line in lines) == 1 and sum("overturn" in line for line in lines) >= 1
    assert any(re.search(r"\d", line) for line in lines if "Decision" in line or "overturn" in line)
