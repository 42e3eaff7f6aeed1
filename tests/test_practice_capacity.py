"""Practice of the cache-budget chapter, every answer derived a second time from configuration fields."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from types import SimpleNamespace

import pytest

from calc import practice
from calc.sources import load_json

GIB = 2**30


def config(slug: str) -> dict:
    facts = load_json("models", f"{slug}.json")["config"]
    return facts.get("text_config", facts)


def whole(gib) -> int:
    """Bytes of a drawn number of GiB, to the nearest one."""
    return math.floor(Fraction(str(gib)) * GIB + Fraction(1, 2))


def heads(slug: str) -> tuple[int, int, int, int]:
    """Layers, query heads, KV heads, and elements of a head."""
    c = config(slug)
    size = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    return c["num_hidden_layers"], c["num_attention_heads"], c.get("num_key_value_heads"), size


def token(slug: str, ranks: int = 1, layers: int | None = None) -> int:
    """Bytes of one position on a rank: a key and a value of two bytes an element for every KV head it serves."""
    count, query, stored, size = heads(slug)
    served = {head * stored // query for head in range(query // ranks)}
    return (layers or count) * len(served) * size * 2 * 2


def pool(n) -> int:
    usable = math.ceil(whole(n.total) * Fraction(n.percent, 100))
    return usable - sum(map(whole, (n.weights, n.activations, n.graphs, n.buffers)))


def engine(n) -> int:
    total, weights, peak, share = whole(n.total), whole(n.weights), whole(n.activations), Fraction(n.percent, 100)
    return {
        "vllm": math.ceil(total * share) - weights - peak,
        "sglang": math.floor(total * share) - weights,
        "tensorrt-llm": math.floor((total - weights - peak) * share),
        "lmdeploy": math.floor((total - weights) * share),
    }[n.engine]


def attention(n) -> int:
    """Columns of the four projections on rank 0, one by one."""
    layers, query, stored, size = heads(n.model)
    mine = range(query // n.ranks)
    columns = 0
    for _ in mine:
        columns += 2 * size  # a query, and a slice of the output
    for _ in {head * stored // query for head in mine}:
        columns += 2 * size  # a key and a value
    return layers * columns * config(n.model)["hidden_size"] * 2


def copied_and_dealt(n) -> int:
    """Every tensor of the model by name, copied or dealt out."""
    c = config(n.model)
    hidden, layers, vocab = c["hidden_size"], c["num_hidden_layers"], c["vocab_size"]
    experts = c.get("n_routed_experts") or c.get("num_experts") or c["num_local_experts"]
    width = c.get("moe_intermediate_size") or c["intermediate_size"]
    dense = c.get("first_k_dense_replace", 0)
    if "kv_lora_rank" in c:
        query, latent = c["q_lora_rank"], c["kv_lora_rank"]
        rope, nope, value, count = (
            c[name] for name in ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "num_attention_heads")
        )
        attended = hidden * query + query + query * count * (nope + rope)
        attended += hidden * (latent + rope) + latent + latent * count * (nope + value) + count * value * hidden
    else:
        _, count, stored, size = heads(n.model)
        attended = hidden * size * (2 * count + 2 * stored)
        attended += 2 * size if c["model_type"] == "qwen3_moe" else 0  # norms of queries and keys
    shared = (c.get("n_shared_experts") or 0) * width
    mixed = layers - dense
    copied = 2 * vocab * hidden + hidden + layers * (attended + 2 * hidden)
    copied += dense * 3 * hidden * c["intermediate_size"] + mixed * (experts * hidden + 3 * hidden * shared)
    return copied + mixed * 3 * hidden * width * experts // n.gpus


def stages(n) -> int:
    layers = heads(n.model)[0]
    fits = []
    for count, gib in ((n.first, n.pool_1), (layers - n.first, n.pool_2)):
        one, memory = 16 * token(n.model, layers=count), whole(gib)
        fits.append((memory - memory % one) // one)
    return 16 * min(fits)


def finish(n) -> int:
    """Fill blocks token by token until the response ends, then hand out the pool."""
    held, room = 0, 0
    for _ in range(n.prompt + n.output - 1):  # the last token is never written
        if room == 0:
            held, room = held + 1, 16
        room -= 1
    blocks, count = n.tokens // 16, 0
    while blocks >= held:
        blocks, count = blocks - held, count + 1
    return count


def windows(n) -> int:
    c = config(n.model)
    assert c["num_hidden_layers"] % 2 == 0  # window and full layers alternate: as many of each
    seen = min(c["sliding_window"] - 1 + n.step, n.length)
    needed = -(-seen // 16) + 1 + -(-n.length // 16)
    return int(n.blocks / needed * n.length)  # the engine's own floating-point order


SECOND = {
    "capacity/pool": pool,
    "capacity/blocks": lambda n: whole(n.pool) // (n.block * token(n.model, n.ranks)),
    "capacity/shared-gpu": lambda n: sum(whole(n.taken) for _ in range(1, n.ranks)),
    "capacity/preemption-tax": lambda n: n.rate * (1 - Fraction(str(n.wasted)) / 100),
    "capacity/logits": lambda n: n.rows * config(n.model)["vocab_size"] * n.bytes,
    "capacity/attention-weights": attention,
    "capacity/fraction": engine,
    "capacity/stages": stages,
    "capacity/finish": finish,
    "capacity/expert-parallel": copied_and_dealt,
    "capacity/log-residual": lambda n: (
        whole(n.total) * Fraction(n.percent, 100) - whole(n.weights) - token(n.model) * n.tokens
    ),
    "capacity/printed-windows": windows,
}


def test_levels_rise_to_an_open_question():
    levels = [p.level for p in practice.problems("capacity").values()]
    assert len(levels) >= 9 and levels[-1] == "design"
    assert levels[:-1] == sorted(levels[:-1]) and set(levels[:-1]) == {1, 2, 3}


@pytest.mark.parametrize(
    ("id", "answer", "kind", "words"),
    [
        ("capacity/pool", "47.49 GiB", "right", "Right"),
        ("capacity/pool", "53.59 GiB", "mistake", "takes weights off and nothing else"),
        ("capacity/stages", "357456", "right", "Right"),
        ("capacity/stages", "373,552 tokens", "mistake", "adds the pools up"),
        ("capacity/finish", "15", "mistake", "takes the maximum concurrency for it"),
        ("capacity/fraction", "20.08 GiB", "right", "Right"),
        ("capacity/printed-windows", "873808", "mistake", "multiplies blocks by their size"),
        ("capacity/preemption-tax", "1848 tokens/s", "right", "Right"),
    ],
)
def test_classic_answers_are_recognized(id, answer, kind, words):
    verdict = practice.problem(id).check(answer)
    assert (verdict.kind, words in verdict.message) == (kind, True), verdict


def test_the_open_question_has_numbers_in_its_checklist():
    checklist = practice.problem("capacity/node").checklist()
    assert len(checklist) >= 8
    assert any("163 of them" in line for line in checklist)


def test_weights_cache_and_activations_fit_at_the_peak():
    """The question asks for the size of a cache, so an engine that runs out of memory is no instance of it."""
    problem = practice.problems("capacity")["capacity/fraction"]
    for seed in range(300):
        n = problem.draw(seed)
        assert whole(n.weights) + whole(n.activations) + engine(n) <= whole(n.total), (seed, n)


@pytest.mark.parametrize("seed", range(4))
def test_the_node_s_pool_follows_from_what_the_question_states(seed):
    question = practice.problem("capacity/node", seed)
    assert all(text in question.text for text in ("79.11 GiB", "92%", "4 GiB", "bf16", "eight"))
    count, _, stored, size = heads(question.numbers.model)
    assert f"{count} layers" in question.text and f"{stored} KV heads of {size} elements" in question.text
    hidden, c = config(question.numbers.model)["hidden_size"], config(question.numbers.model)
    layers, query, kv, size = heads(question.numbers.model)
    one = 2 * hidden * size * (query + kv) + 3 * hidden * c["intermediate_size"]  # matrices of a layer
    rough = 2 * (layers * one + 2 * c["vocab_size"] * hidden) / 8  # bytes on a rank, norms and biases apart
    pool = 0.92 * 79.11 * GIB - rough - 4 * GIB
    (line,) = [line for line in question.checklist() if line.startswith("Gets to a pool")]
    assert float(line.split("pool, ")[1].split(" GiB")[0]) == pytest.approx(pool / GIB, abs=0.02)


def test_the_node_s_load_by_hand():
    """Little's law over the places, and twice the weights for each prompt token at the peak of eight GPUs."""
    question, busy = practice.problem("capacity/node"), practice.problems("capacity")["capacity/node"]
    told = str(question.solution())
    places = int(re.search(r"admits ([0-9,]+) requests", told)[1].replace(",", ""))
    stay = float(re.search(r"no longer than ([0-9.]+) s", told)[1])
    assert math.isclose(places / 2, stay, rel_tol=1e-3)
    matrices = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 29568)  # of Qwen2.5-72B
    pairs = 80 * 4 * 8192 * 8000 * 8001 / 2  # of a query and a key, causal
    prompt = (2 * matrices * 8000 + pairs) / (8 * 989.5e12)
    shown = float(re.search(r"takes at least ([0-9.]+) ms of arithmetic", told)[1])
    assert math.isclose(shown / 1000, prompt, rel_tol=2e-3) and "busy for 31% of the time" in told
    decode = 299 * 2 * (matrices + 152_064 * 8192) / 8 / 3.35e12  # the prompt's step has sampled the first token
    stays = float(re.search(r"stays at least ([0-9.]+) s", told)[1])
    assert math.isclose((prompt + decode) / (1 - 2 * prompt), stays, rel_tol=2e-3)
    load = 2 * (prompt + decode) / (1 - 2 * prompt)
    assert f"at least {math.floor(load)} are in at once" in told and "160 all-reduces" in told
    assert "Decision: admit 163" in told and "stay longer than 81.5 s" in told
    assert "it takes more nodes" in " ".join(
        map(str, busy.solution(SimpleNamespace(**vars(question.numbers) | {"rate": 15})))
    )
