"""Practice of the chapter on paged attention, every answer derived a second time by counting."""

from __future__ import annotations

import math
import re

import pytest

from calc import practice
from calc.paging import BlockPool, BlockTable, block_keys
from calc.sources import load_json

BYTES = {"bf16": 2, "fp8": 1}


def config(slug):
    return load_json("models", f"{slug}.json")["config"]


def head(slug):
    c = config(slug)
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def position(n, element=None):
    """Bytes on one rank: every rank stores at least one head."""
    c = config(n.model)
    kept = max(1, c["num_key_value_heads"] // n.ranks)
    return c["num_hidden_layers"] * kept * 2 * head(n.model) * BYTES[element or n.element]


def held(positions, size):
    """Blocks of a sequence that is written position by position."""
    table = BlockTable(BlockPool(positions // size + 3, block_tokens=size))
    for _ in range(positions):
        table.write(1)
    return len(table.blocks)


def slot(n):
    physical = {n.position // n.block_tokens // 4 * 4 + i: n.first + step for i, step in enumerate((0, 41, 7, 90))}
    return physical[n.position // n.block_tokens] * n.block_tokens + n.position % n.block_tokens


def before(n, value):
    """Bytes before a vector: the vectors of keys, or of keys and values, that lie there."""
    kept = max(1, config(n.model)["num_key_value_heads"] // n.ranks)
    vectors = (n.block * n.block_tokens + n.offset) * kept
    if value:
        vectors += n.blocks * n.block_tokens * kept
    return vectors * head(n.model) * BYTES[n.element]


def fits(n, sequence):
    count = 0
    while (count + 1) * sequence <= n.gib * 2**30:
        count += 1
    return count


def forked(n):
    pool = BlockPool(n.samples * (n.prompt + n.each), block_tokens=n.block_tokens)
    first = BlockTable(pool)
    first.write(n.prompt)
    tables = [first, *(first.fork() for _ in range(n.samples - 1))]
    for _ in range(n.each):
        for table in tables:
            table.write(1)
    return len({block for table in tables for block in table.blocks})


def computed(prompts, size, dropped=0):
    """Tokens that a real pool has to compute for prompts that come one after another."""
    pool = BlockPool(sum(map(len, prompts)) // size + 10, block_tokens=size)
    tokens = 0
    for prompt in prompts:
        keys, table = block_keys(prompt, block_tokens=size), BlockTable(pool)
        table.adopt(pool.match(keys, positions=len(prompt), dropped_blocks=dropped))
        tokens += len(prompt) - table.positions
        table.write(len(prompt) - table.positions, keys)
        table.free()
    return tokens


def questions(n):
    return [[*range(n.system), *(10_000 * (i + 1) + j for j in range(n.question))] for i in range(n.requests)]


SECOND = {
    "paged_attention/slot": slot,
    "paged_attention/blocks-held": lambda n: held(n.prompt + n.generated - 1, n.block_tokens),
    "paged_attention/again": lambda n: 2 * n.prompt - computed([range(n.prompt)] * 2, n.block_tokens),
    "paged_attention/key-address": lambda n: before(n, value=False),
    "paged_attention/value-distance": lambda n: before(n, value=True) - before(n, value=False),
    "paged_attention/last-block": lambda n: (
        (held(n.positions, n.block_tokens) * n.block_tokens - n.positions) * position(n)
    ),
    "paged_attention/recovered": lambda n: (
        (n.reserved - held(n.positions, n.block_tokens) * n.block_tokens) * position(n, "bf16")
    ),
    "paged_attention/more-sequences": lambda n: (
        fits(n, held(n.positions, n.block_tokens) * n.block_tokens * position(n, "bf16"))
        - fits(n, n.reserved * position(n, "bf16"))
    ),
    "paged_attention/with-drafter": lambda n: computed([range(n.prompt)] * 2, n.block_tokens, 1) - n.prompt,
    "paged_attention/forked": forked,
    "paged_attention/system-prompt": lambda n: computed(questions(n), n.block_tokens),
}


@pytest.mark.parametrize("id", SECOND)
def test_printed_numbers_are_fair(id):
    problem = practice.problem(id).problem
    assert problem._fair(problem.draw(0))


def test_chapter_has_easy_hard_and_design_problems():
    levels = [p.level for p in practice.problems("paged_attention").values()]
    numbered = [level for level in levels if level != "design"]
    assert {1, 2, 3, "design"} <= set(levels)
    assert len(numbered) >= 8
    assert numbered == sorted(numbered)


def test_mistakes_are_named():
    assert "last token's block" in practice.problem("paged_attention/again").check("1024 tokens").message
    assert "right behind its key" in practice.problem("paged_attention/value-distance").check("256 B").message
    assert "partial block too" in practice.problem("paged_attention/forked").check("62 blocks").message


def test_the_open_question_counts_what_it_names():
    question = practice.problem("paged_attention/cache-plan")
    text = " ".join(question.checklist())
    assert "2,992" in text and "8,992" in text and "34.33 GiB" in text
    assert "checklist" in question.check("8 blocks").message


@pytest.mark.parametrize("seed", range(6))
def test_the_plan_says_what_a_hit_takes_off_the_ttft(seed):
    """Matrices once for each token and scores for each pair, at the peak of eight GPUs; weights read for the rest."""
    question = practice.problem("paged_attention/cache-plan", seed)
    assert all(text in question.text for text in ("80 layers", "8 KV heads of 128", "H100", "TTFT"))
    n, c = question.numbers, config("llama-3.1-70b")
    layers, wide, prompt = c["num_hidden_layers"], c["hidden_size"], n.system + n.history
    one = 2 * wide * 128 * (c["num_attention_heads"] + c["num_key_value_heads"]) + 3 * wide * c["intermediate_size"]
    vocabulary = c["vocab_size"] * wide

    def least(new):
        pairs = new * (prompt - new) + new * (new + 1) / 2
        flop = 2 * new * layers * one + 4 * layers * wide * pairs + 2 * vocabulary
        return max(flop / (8 * 989.5e12), 2 * (layers * one + vocabulary) / 8 / 3.35e12)

    rest = prompt - (prompt - 1) // n.block_tokens * n.block_tokens
    plan = str(question.solution())
    saved = re.search(r"The difference, ([0-9.]+) ms, comes off.* found, it is ([0-9.]+) ms", plan)
    assert math.isclose(float(saved[1]) / 1000, least(prompt) - least(rest), rel_tol=0.01)
    some = n.system // n.block_tokens * n.block_tokens
    assert math.isclose(float(saved[2]) / 1000, least(prompt) - least(prompt - some), rel_tol=0.01)
    assert "The order: " in plan and "The measures: " in plan and "historys" not in plan
