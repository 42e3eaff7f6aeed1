"""Practice of the chapter on attention variants, every answer derived a second time from configuration fields."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from types import SimpleNamespace as Numbers

import pytest

from calc import practice
from calc.hardware import accelerator
from calc.sources import load_json

BYTES = {"bf16": 2, "fp8": 1}


def config(slug: str) -> dict:
    return load_json("models", f"{slug}.json")["config"]


def head(c: dict) -> int:
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def stored(slug: str, ranks: int, rank: int = 0) -> int:
    """Elements that one layer of a rank keeps of a position: whatever its query heads read."""
    c = config(slug)
    if "kv_lora_rank" in c:
        return c["kv_lora_rank"] + c["qk_rope_head_dim"]
    queries, heads = c["num_attention_heads"], c["num_key_value_heads"]
    share = queries // ranks
    read = {query // (queries // heads) for query in range(rank * share, (rank + 1) * share)}
    return sum(head(c) for _ in read for _ in ("key", "value"))


def position(slug: str, ranks: int, size: int = 2) -> int:
    """Bytes of a position on all ranks together, rank by rank."""
    return sum(config(slug)["num_hidden_layers"] * stored(slug, ranks, rank) * size for rank in range(ranks))


def multi_head(n) -> int:
    c = config(n.model)
    total = 0
    for _ in range(c["num_attention_heads"]):
        total += 2 * head(c)
    return total * c["num_hidden_layers"] * BYTES[n.element]


def expanded(n) -> int:
    c = config(n.model)
    key = c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
    one = sum(key + c["v_head_dim"] for _ in range(c["num_attention_heads"]))
    return n.positions * c["num_hidden_layers"] * one * 2


def saved(n) -> int:
    """Columns of the four projections, with and without sharing."""
    c = config(n.model)
    columns = [
        2 * head(c) * (c["num_attention_heads"] + k) for k in (c["num_attention_heads"], c["num_key_value_heads"])
    ]
    return (columns[0] - columns[1]) * c["hidden_size"] * c["num_hidden_layers"] * 2


def idle(n) -> Fraction:
    """Time of the reads over time of the arithmetic, for one position and layer on one rank."""
    chip, c = accelerator(n.chip), config(n.model)
    width = 2 * c["kv_lora_rank"] + c["qk_rope_head_dim"] if "kv_lora_rank" in c else 2 * head(c)
    flop = 0
    for _ in range(c["num_attention_heads"] // n.ranks):
        flop += 2 * width
    read = stored(n.model, n.ranks) * BYTES[n.element]
    return (read / Fraction(chip.bandwidth.value)) / (flop / Fraction(chip.peak("bf16").value))


def pool(n) -> int:
    c = config(n.model)
    one = c["num_hidden_layers"] * (c["kv_lora_rank"] + c["qk_rope_head_dim"]) * BYTES[n.element]
    total = 0
    for _ in range(n.gpus):
        total += n.gib * 2**30 // one
    return total


def cheaper_expanded(n) -> int:
    """Try chunks of one token, two, three … until expanding is the cheaper."""
    c = config(n.model)
    latent, rope, nope, value = (
        c[name] for name in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    )
    tokens = 1
    while True:
        absorbed = expand = 0
        absorbed += tokens * (nope * latent + latent * value)  # into the query, out of the sum
        absorbed += tokens * n.positions * (latent + rope + latent)
        expand += n.positions * (latent * nope + latent * value)
        expand += tokens * n.positions * (nope + rope + value)
        if expand < absorbed:
            return tokens
        tokens += 1


SECOND = {
    "attention_variants/as-multi-head": multi_head,
    "attention_variants/copies": lambda n: Fraction(position(n.model, n.ranks), position(n.model, 1)),
    "attention_variants/latent-in-heads": lambda n: Fraction(n.latent + n.rope, n.head_dim + n.head_dim),
    "attention_variants/rank-ratio": lambda n: Fraction(
        position(n.latent, n.ranks, BYTES[n.element]), position(n.model, n.ranks, BYTES[n.element])
    ),
    "attention_variants/group-total": lambda n: position(n.model, n.ranks) * n.positions,
    "attention_variants/expanded": expanded,
    "attention_variants/kv-weights": saved,
    "attention_variants/idle-factor": idle,
    "attention_variants/data-parallel": pool,
    "attention_variants/absorb-or-expand": cheaper_expanded,
}


def test_answers_are_the_published_ones():
    """DeepSeek-V2, table 1, and the keys and values that llama.cpp 11397 prints for a layer of DeepSeek-R1."""
    heads = practice.problem("attention_variants/latent-in-heads").problem
    assert heads.answer(Numbers(latent=512, rope=64, head_dim=128)) == 2.25
    wide = practice.problem("attention_variants/expanded").problem
    assert wide.answer(Numbers(model="deepseek-v3", positions=8192)) == 8192 * 61 * (24_576 + 16_384) * 2


def test_chapter_has_easy_hard_and_design_problems():
    levels = [p.level for p in practice.problems("attention_variants").values()]
    assert {1, 2, 3, "design"} <= set(levels)
    assert len([level for level in levels if level != "design"]) >= 8
    numbered = [level for level in levels if level != "design"]
    assert numbered == sorted(numbered)


def test_the_open_question_counts_what_it_names():
    question = practice.problem("attention_variants/new-model")
    first, second = question.checklist()[:2]
    assert "256 KiB" in first and "32 KiB" in first and "72 KiB" in first
    assert "1, 10 and 4" in second
    assert "checklist" in question.check("8 heads").message


def test_the_copy_of_the_attention_weights_costs_sequences():
    """Where the latent holds more: the memory that no whole sequence uses, and a sequence for each further one."""
    problem = practice.problems("attention_variants")["attention_variants/new-model"]
    seen = 0
    for seed in range(40):
        n = problem.draw(seed)
        told = str(problem.solution(n)[-1])
        size = Fraction(n.layers * (512 + 64) * 2 * n.positions, 2**30)
        fit = n.gib // size
        if "doesn't overturn" in told:
            continue
        seen += 1
        spare, further = (
            float(x) * {"GiB": 1, "MiB": 1 / 1024}[unit]
            for x, unit in re.findall(r"(?:beyond|further) ([0-9.]+) (\w+)", told)
        )
        assert math.isclose(spare, n.gib - fit * size, rel_tol=2e-3) and math.isclose(further, size, rel_tol=2e-3)
        assert f"up to {fit} sequence" in told and f"{n.ranks * fit} in all" in told
    assert seen


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("name", ["copies", "rank-ratio", "group-total", "new-model"])
def test_bytes_on_a_rank_are_named_so_and_counted_from_the_heads_on_it(name, seed):
    """B_rank from n_rank, which is worked out above it; B_pos is the whole model's, where there is one."""
    problem = practice.problems("attention_variants")[f"attention_variants/{name}"]
    n = problem.draw(seed)
    lines = [line if isinstance(line, str) else line.text for line in problem.solution(n)]
    ranks = [line for line in lines if line.startswith("B_rank = ")]
    assert ranks and all("n_kv" not in line for line in ranks)
    for line in ranks:
        before = lines[lines.index(line) - 1]
        assert before.startswith("n_rank = ") == ("n_rank" in line)
    whole = [line for line in lines if line.startswith("B_pos = ")]
    if name == "copies":
        assert f"{position(n.model, 1):,} B" in whole[0] and f"{position(n.model, n.ranks) // n.ranks:,} B" in ranks[0]
    else:
        assert not whole
    if name == "rank-ratio":
        assert lines[-1].split()[4] == "=" or float(lines[-1].split()[-1][:-1]) != problem.answer(n)
