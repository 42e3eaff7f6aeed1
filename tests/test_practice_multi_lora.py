"""Practice of the chapter on many adapters: every answer a second time, from configuration fields and whole numbers."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import permutations
from types import SimpleNamespace

import pytest

from calc import adapters, practice
from calc.models import load
from calc.sources import load_json
from calc.units import format_bytes

BITS = {"fp32": 32, "bf16": 16, "fp16": 16, "F32": 32, "F16": 16, "BF16": 16}
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")


def config(slug: str) -> dict:
    facts = load_json("models", f"{slug}.json")["config"]
    return facts.get("text_config", facts)


def shapes(slug: str) -> dict[str, tuple[int, int]]:
    """Input and output of every projection of one layer, from the configuration's fields."""
    c = config(slug)
    size = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    hidden, wide = c["hidden_size"], c["intermediate_size"]
    queries = c["num_attention_heads"] * size
    keys = (c.get("num_key_value_heads") or c["num_attention_heads"]) * size
    return {
        **{
            "q_proj": (hidden, queries),
            "k_proj": (hidden, keys),
            "v_proj": (hidden, keys),
            "o_proj": (queries, hidden),
        },
        **{"gate_proj": (hidden, wide), "up_proj": (hidden, wide), "down_proj": (wide, hidden)},
    }


def elements(slug: str, rank: int, names=None) -> int:
    """Elements of A and B of every adapted matrix, row by row."""
    total = 0
    for name, (width, height) in shapes(slug).items():
        if names is None or name in names:
            total += sum(width for _ in range(rank)) + sum(rank for _ in range(height))
    return total * config(slug)["num_hidden_layers"]


def targets(n):
    return ATTENTION if n.targets == "attention" else None


def pair(n) -> int:
    width, height = shapes(n.model)[n.matrix]
    return n.rank * width + height * n.rank


def on_gpu(n) -> int:
    total = 0
    for name, (width, height) in shapes(n.model).items():
        if targets(n) is None or name in targets(n):
            by_inputs = name in {"o_proj", "down_proj"}
            a = n.rank * (width // n.ranks if by_inputs else width)
            b = n.rank * (height if by_inputs else height // n.ranks)
            total += a + b
    return total * config(n.model)["num_hidden_layers"] * 2


def pairs_on_gpu(n, rank: int) -> int:
    """Bytes of the seven projections' pairs on one of n.gpus, one half of each pair copied."""
    return on_gpu(SimpleNamespace(model=n.model, rank=rank, ranks=n.gpus, targets="all-linear"))


def saved(n) -> int:
    c = config(n.model)
    return elements(n.model, n.rank) * 4 + sum(c["vocab_size"] * c["hidden_size"] * 2 for _ in n.saved)


def displaced(n) -> int:
    c = config(n.model)
    size = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    token = c["num_hidden_layers"] * (c["num_key_value_heads"] // n.ranks) * size * 2 * 2
    return n.slots * n.slot_mib * 2**20 // token


def base_parameters(slug: str) -> int:
    """Matrices of the configuration, biases of Qwen2's queries, keys and values, and norms."""
    c = config(slug)
    hidden, layers = c["hidden_size"], c["num_hidden_layers"]
    one = sum(a * b for a, b in shapes(slug).values()) + 2 * hidden
    if c["model_type"] == "qwen2":
        one += sum(shapes(slug)[name][1] for name in ("q_proj", "k_proj", "v_proj"))
    tables = 1 if c["tie_word_embeddings"] else 2
    return layers * one + tables * c["vocab_size"] * hidden + hidden


def read_parameters(slug: str) -> int:
    """All but the rows of an embedding of its own."""
    c = config(slug)
    return base_parameters(slug) - (0 if c["tie_word_embeddings"] else c["vocab_size"] * c["hidden_size"])


def started(n) -> int:
    """Simulate the first step with sets and lists."""
    slots: list[str] = []
    running = 0
    for word in n.queue.split():
        if word != "-" and word not in slots and len(slots) < n.slots:
            slots.append(word)
        running += word == "-" or word in slots
    return running


def touched(n) -> Fraction:
    """Mean number of different adapters, request by request: the k-th is new if it repeats none of those before."""
    distinct = Fraction(0)
    for _ in range(n.requests):
        distinct += 1 - distinct / n.adapters
    return distinct / n.adapters


def three(n) -> Fraction:
    """Hits in the stationary order of the two most recent adapters."""
    total = sum(n.weights)
    p = [Fraction(w, total) for w in n.weights]
    return sum(p[i] * p[j] / (1 - p[i]) * (p[i] + p[j]) for i, j in permutations(range(3), 2))


SECOND = {
    "multi_lora/pair": lambda n: pair(n) * BITS[n.element] // 8,
    "multi_lora/stored": lambda n: elements(n.model, n.rank, targets(n)) * 2,
    "multi_lora/starts": started,
    "multi_lora/saved-embedding": saved,
    "multi_lora/header": lambda n: config(n.model)["num_hidden_layers"] * pair(n) * BITS[n.dtype] // 8,
    "multi_lora/reserved": lambda n: n.slots * elements(n.model, n.slot_rank) * 2,
    "multi_lora/displaced": displaced,
    "multi_lora/step-share": lambda n: Fraction(n.active * elements(n.model, n.rank), read_parameters(n.model)),
    "multi_lora/levels": lambda n: Fraction(n.host, 100) - Fraction(n.gpu, 100),
    "multi_lora/on-gpu": on_gpu,
    "multi_lora/touched": touched,
    "multi_lora/three": three,
}
PROBLEMS = practice.problems("multi_lora")


def test_an_answer_and_a_mistake_are_the_published_ones():
    """vllm-project/vllm pull request 15422: twelve requests start, where seven did before."""
    problem = PROBLEMS["multi_lora/starts"]
    n = SimpleNamespace(queue="- - - 1 3 2 4 5 5 5 5 - - 1 2 3", slots=4)
    assert problem.answer(n) == 12
    assert problem.mistakes["stops at the first request that has to wait"](n) == 7


def test_reading_the_whole_embedding_is_named():
    """16 adapters over all parameters, where the embedding is not among what a step reads."""
    problem = PROBLEMS["multi_lora/step-share"]
    for seed in range(20):
        n = problem.draw(seed)
        wrong = Fraction(n.active * elements(n.model, n.rank), base_parameters(n.model))
        assert math.isclose(problem.mistakes["reads the whole embedding too"](n), wrong, rel_tol=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_the_tenants_get_as_many_slots_as_the_peak_can_ask_for_if_memory_has_them(seed):
    """In whole bytes beside the requests; what overturns it can happen, and is where memory ends."""
    n = PROBLEMS["multi_lora/tenants"].draw(seed)
    told = " ".join(map(str, PROBLEMS["multi_lora/tenants"].solution(n))).replace(",", "")
    c = config(n.model)
    request = c["num_hidden_layers"] * c["num_key_value_heads"] // n.gpus * 128 * 2 * 2 * n.positions
    slot = adapters.reserve(load(n.model), slots=1, rank=n.rank, ranks=n.gpus).bytes_per_gpu
    assert pairs_on_gpu(n, n.rank) <= slot <= 1.3 * pairs_on_gpu(n, n.rank)  # buffers beside the seven projections'
    pool, asked = n.gib * 2**30, min(n.concurrent, n.tenants)
    slots = int(re.search(r"Decision: ([0-9]+) slots? of rank", told)[1])
    seats = int(re.search(r"on each GPU and leaves? room for ([0-9]+) requests", told)[1])
    assert slots * slot + seats * request <= pool < slots * slot + (seats + 1) * request
    assert slots == asked or (slots < asked and (slots + 1) * slot + n.concurrent * request > pool)
    assert "once a day" in told and "spread the customers" in told
    assert ("none of them waits" in told) == (slots == asked)
    last = re.search(r"What overturns it: more than ([0-9]+) requests at once", told)
    assert bool(last) == (slots == asked)
    if last:
        apart = int(last[1])
        assert apart >= n.concurrent
        assert min(apart, n.tenants) * slot + apart * request <= pool
        assert min(apart + 1, n.tenants) * slot + (apart + 1) * request > pool


@pytest.mark.parametrize("seed", range(40))
def test_the_tenants_are_told_both_terms_of_a_slot_and_what_the_host_keeps(seed):
    """A slot's pairs in the layers, and whole buffers on embedding and head in Llama's family; a copy per process."""
    problem = PROBLEMS["multi_lora/tenants"]
    n = problem.draw(seed)
    told, c = " ".join(map(str, problem.solution(n))), config(n.model)
    for rank in (n.rank, n.highest):
        layers = pairs_on_gpu(n, rank)
        outer = 2 * rank * (c["vocab_size"] + c["hidden_size"]) * 2 if c["model_type"] == "llama" else 0
        text = f"slot of rank {rank} takes {format_bytes(layers)} on each GPU"
        text += f" for pairs in the layers and {format_bytes(outer)} for the buffers" if outer else ", all for pairs"
        assert text in told
        assert not outer or f"{format_bytes(layers + outer)} together" in told
    one, asked = elements(n.model, n.rank) * 2, min(n.concurrent, n.tenants)
    assert f"kept takes {n.gpus} · {format_bytes(one)}" in told and f" {format_bytes(n.gpus * one)}. " in told
    assert f"ll {n.tenants:,} take {format_bytes(n.gpus * n.tenants * one)}." in told
    assert (f"100 take {format_bytes(n.gpus * 100 * one)}" in told) == (n.tenants > 100)
    all_highest = asked * (pairs_on_gpu(n, n.highest) + outer)  # the loop ends with the highest rank
    assert ("more than the" in told) == (all_highest > n.gib * 2**30)
    assert "room for 0 request" not in told
    ask = problem.ask(n)
    for name in ("num_hidden_layers", "hidden_size", "num_key_value_heads", "intermediate_size", "vocab_size"):
        assert f"{c[name]:,}" in ask


@pytest.mark.parametrize("seed", range(30))
def test_one_saved_matrix_is_not_told_as_several(seed):
    problem = PROBLEMS["multi_lora/saved-embedding"]
    n = problem.draw(seed)
    assert ("; each has" in problem.ask(n)) == (len(n.saved) == 2) != ("; it has" in problem.ask(n))


def test_there_are_easy_hard_and_design_problems():
    levels = [problem.level for problem in PROBLEMS.values()]
    assert len(levels) >= 9 and {1, 2, 3, "design"} <= set(levels)
    assert [x for x in levels if x != "design"] == sorted(x for x in levels if x != "design")


def test_the_checklist_is_long_enough():
    assert len(practice.problem("multi_lora/tenants").checklist()) >= 6
