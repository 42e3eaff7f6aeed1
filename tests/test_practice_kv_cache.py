"""Practice on the cache in memory: what every instance of three chapters must state, whatever numbers are drawn.

The second derivations of the chapter on the cache itself are in `test_practice`.
"""

from __future__ import annotations

import re

import pytest

from calc import practice
from calc.sources import load_json

PROBLEMS = {id: p for c in ("kv_cache", "capacity", "paged_attention") for id, p in practice.problems(c).items()}
ON_RANKS = sorted(id for id, p in PROBLEMS.items() if {"model", "ranks"} <= p.choices.keys())
COUNTED = sorted(id for id, p in PROBLEMS.items() if p.exact and p.unit != "B")
MANY_SEEDS = range(300)


def config(slug):
    facts = load_json("models", f"{slug}.json")["config"]
    return facts.get("text_config", facts)


@pytest.mark.parametrize("id", ON_RANKS)
def test_heads_can_be_dealt_out_to_the_ranks(id):
    """Query heads divide by the ranks. KV heads divide too, or are copied to equally many ranks each."""
    for seed in MANY_SEEDS:
        n = PROBLEMS[id].draw(seed)
        c = config(n.model)
        assert c["num_attention_heads"] % n.ranks == 0, (seed, n)
        if "kv_lora_rank" not in c:
            few, many = sorted((c["num_key_value_heads"], n.ranks))
            assert many % few == 0, (seed, n)


@pytest.mark.parametrize("id", COUNTED)
def test_a_solution_ends_in_what_is_counted(id):
    problem = PROBLEMS[id]
    for seed in range(30):
        question = practice.problem(id, seed)
        value = f"{problem.answer(question.numbers):,.0f} "
        last = question.solution().text[-1]
        assert value in last and problem.unit.removesuffix("s") in last, (seed, last)


@pytest.mark.parametrize("id", ["kv_cache/per-rank", "capacity/blocks", "capacity/node", "paged_attention/cache-plan"])
@pytest.mark.parametrize("seed", range(6))
def test_one_symbol_has_one_value(id, seed):
    """What a rank keeps has its own names: the model's heads, and the bytes of all of them, are others."""
    values = {}
    for line in practice.problem(id, seed).solution().text:
        for symbols, numbers in re.findall(r"= (2 · L · \S+ · d_h · s|\S+ · [Tb]) = ([^=]+?) =", line):
            for symbol, number in zip(symbols.split(" · "), numbers.split(" · "), strict=True):
                assert values.setdefault(symbol, number) == number or symbol == "T", (symbol, line)
    assert values["n_rank"] and values["B_rank"] and not {"n_kv", "B_pos"} & values.keys()


@pytest.mark.parametrize("seed", range(40))
def test_a_chat_response_takes_its_tokens_time(seed):
    question = practice.problem("kv_cache/chat-service", seed)
    n, text = question.numbers, str(question.solution())
    assert "say each takes 7 ms" in question.text
    assert f"{config(n.model)['num_hidden_layers']} layers and 8 KV heads of 128 elements" in question.text
    seconds = n.output * 7 / 1000
    wanted = n.conversations * seconds / (60 + seconds)
    assert f"{n.output:,} · 7 ms = {seconds:g} s" in text and f"about {int(wanted):,} turns" in text
    assert not re.search(r"\b0 (stay|histories)|\b1 histories", text)
