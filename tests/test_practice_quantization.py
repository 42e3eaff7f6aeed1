"""Practice of the quantization chapter: every answer a second time, from configuration fields and whole numbers."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest

from calc import practice
from calc.hardware import accelerator
from calc.sources import load_json
from calc.units import parse, significant

# Bits of an element, of a scale, of a zero point; weights in a group: written down again from the texts
GROUP = {"gptq": (4, 16, 4, 128), "g128": (4, 16, 0, 128), "g64": (4, 16, 4, 64)}
GROUP |= {"g32": (4, 16, 0, 32), "mx": (4, 8, 0, 32), "nv": (4, 8, 0, 16)}
BLOCK = {"Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210), "Q8_0": (32, 34), "Q4_0": (32, 18)}
BYTES = {"bf16": Fraction(2), "8-bit": Fraction(1), "4-bit": Fraction(52, 100)}


def config(slug: str) -> dict:
    facts = load_json("models", f"{slug}.json")["config"]
    return facts.get("text_config", facts)


def shapes(slug: str) -> list[tuple[int, int]]:
    """Rows and columns of every projection of one layer."""
    c = config(slug)
    size = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    hidden, wide = c["hidden_size"], c["intermediate_size"]
    queries, keys = c["num_attention_heads"] * size, (c.get("num_key_value_heads") or c["num_attention_heads"]) * size
    return [
        (queries, hidden),
        (keys, hidden),
        (keys, hidden),
        (hidden, queries),
        (wide, hidden),
        (wide, hidden),
        (hidden, wide),
    ]


def total(slug: str) -> int:
    c = config(slug)
    layers, hidden = c["num_hidden_layers"], c["hidden_size"]
    return layers * (sum(a * b for a, b in shapes(slug)) + 2 * hidden) + 2 * c["vocab_size"] * hidden + hidden


def billions(number: int) -> Fraction:
    """A count as the question prints it, to four digits."""
    return Fraction(f"{number / 1e9:.4g}") * 10**9


def grouped(n) -> Fraction:
    element, scale, zero, group = GROUP[n.how]
    bits = n.rows * n.columns * element
    for _ in range(n.rows):
        bits += (n.columns // group + (n.columns % group > 0)) * (scale + zero)
    return Fraction(bits, 8)


def model(n) -> Fraction:
    element, scale, zero, group = GROUP[n.how]
    c = config(n.model)
    stay = billions(2 * c["vocab_size"] * c["hidden_size"])
    rest = billions(total(n.model)) - stay
    return rest * (element + Fraction(scale + zero, group)) / 8 + 2 * stay


def rates(n) -> tuple[Fraction, Fraction]:
    chip = accelerator(n.chip)
    return Fraction(chip.peak("bf16").value), Fraction(chip.bandwidth.value)


def crossover(n) -> Fraction:
    """Tokens for which 2 FLOP a weight and token take as long as the bytes of a weight."""
    peak, bandwidth = rates(n)
    return (BYTES[n.weights] / bandwidth) / (2 / peak)


def gain(n) -> Fraction:
    peak, bandwidth = rates(n)
    weights = n.billions * 10**9
    multiply = 2 * n.tokens * weights / peak
    return max(2 * weights / bandwidth, multiply) / max(BYTES[n.weights] * weights / bandwidth, multiply)


def stored(slug: str, how: str) -> Fraction:
    """Matrices of the layers quantized, everything else in two bytes."""
    c = config(slug)
    size = Fraction(0)
    for rows, columns in shapes(slug):
        if how == "int4-g128":
            size += Fraction(rows * columns, 2) + rows * columns // 128 * 2 + 16  # and the shape, two int64
        else:
            size += rows * columns + 4 + 4  # a scale for the weights, one for the inputs
    kept = c["num_hidden_layers"] * 2 * c["hidden_size"] + c["hidden_size"] + 2 * c["vocab_size"] * c["hidden_size"]
    return c["num_hidden_layers"] * size + 2 * kept


def room(n) -> int:
    c = config(n.model)
    size = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    heads = c.get("num_key_value_heads") or c["num_attention_heads"]
    token = 2 * c["num_hidden_layers"] * heads * size * {"bf16": 2, "fp8": 1}[n.cache]
    weights = float(f"{float(stored(n.model, n.weights) / 2**30):.4g}") * 2**30  # as the question prints them
    return int((n.gib * 2**30 - weights) // token)


def loop(n) -> Fraction:
    slow, fast, extra = (Fraction(str(v)) for v in (n.slow, n.fast, n.overhead))
    return (slow + extra) / (fast + extra)


def file(n) -> Fraction:
    parts = ((n.most, n.billions), (n.few, n.better))
    return sum(Fraction(str(many)) * 10**9 * BLOCK[kind][1] / BLOCK[kind][0] for kind, many in parts)


def mixture(n) -> Fraction:
    return Fraction(str(n.experts)) * 10**9 * 17 / 32 + Fraction(str(n.rest)) * 2 * 10**9  # 32 weights take 17 bytes


SECOND = {
    "quantization/one-matrix": grouped,
    "quantization/block-scales": lambda n: 4 * -(-n.rows // n.block) * -(-n.columns // n.block),
    "quantization/slow-loop": loop,
    "quantization/whole-model": model,
    "quantization/times-smaller": lambda n: 2 * billions(total(n.model)) / model(n),
    "quantization/mixture": mixture,
    "quantization/gguf-file": file,
    "quantization/crossover": crossover,
    "quantization/step-gain": gain,
    "quantization/room": room,
}
PROBLEMS = practice.problems("quantization")


def test_printed_answers_are_the_published_ones():
    """gpt-oss-120b's model card prints 60.8 GiB; QNT-04 was 30% faster; the A100's crossover is told as 38 to 40."""
    assert PROBLEMS["quantization/mixture"].answer(PROBLEMS["quantization/mixture"].draw(0)) / 2**30 == pytest.approx(
        60.7, abs=0.05
    )
    assert PROBLEMS["quantization/slow-loop"].answer(PROBLEMS["quantization/slow-loop"].draw(0)) == pytest.approx(
        1.3, abs=0.001
    )
    assert 38 < PROBLEMS["quantization/crossover"].answer(PROBLEMS["quantization/crossover"].draw(0)) < 41


def test_there_are_easy_hard_and_design_problems():
    levels = [problem.level for problem in PROBLEMS.values()]
    assert len(levels) >= 9 and {1, 2, 3, "design"} <= set(levels)
    assert [x for x in levels if x != "design"] == sorted(x for x in levels if x != "design")


def test_the_checklist_is_long_enough():
    assert len(practice.problem("quantization/service").checklist()) >= 6


def test_the_service_waits_for_arithmetic_where_the_chapter_says():
    """With the output layer in 16 bits, as in step 7; 0.52 bytes a weight would say 77."""
    question = practice.problem("quantization/service")
    hidden, rows = 8192, 128256  # of Llama-3.1-70B
    inner = 80 * sum(rows * columns for rows, columns in shapes("llama-3.1-70b"))
    each = (inner * (4 + 16 / 128) / 8 + 2 * rows * hidden) / (inner + rows * hidden)
    turn = math.ceil(989.5e12 / 3.35e12 * each / 2)
    assert any(f"from {turn} tokens here" in line for line in question.checklist()) and turn == 80


def test_the_service_says_what_fits():
    """Weights and caches from configuration fields; the fit decides what the solution says first."""
    question = practice.problem("quantization/service")
    cache = 64 * 4096 * 80 * (8 // 4) * 128 * 2 * 2  # sequences, positions, layers, heads on a GPU, size, K and V, bf16
    assert any(f"take {cache / 2**30:g} GiB on a GPU in bf16" in line for line in question.checklist())
    whole = 2 * 70_553_706_496 / 4
    assert whole + cache < 0.85 * 79.65 * 2**30
    family = practice.problems("quantization")["quantization/service"]
    verdicts = [str(family.solution(family.draw(seed))[-1]) for seed in range(40)]
    assert len({verdict.split(",")[0] for verdict in verdicts}) >= 2
    assert "Nothing has to be quantized to fit" in family.solution(family.draw(0))[-1]


@pytest.mark.parametrize("seed", range(40))
def test_the_service_decides_by_the_tokens_at_which_four_bits_and_eight_meet(seed):
    """Arithmetic of four bits at the 16-bit peak against the bytes of eight, from configuration fields."""
    problem = PROBLEMS["quantization/service"]
    n = problem.draw(seed)
    told = " ".join(map(str, problem.solution(n))).replace(",", "")
    assert "Decision: " in told and "What overturns it: " in told
    met = re.search(r"ahead up to ([0-9]+) tokens in a step (?:FP8|INT8) from ([0-9]+) on", told)
    if not met:
        assert "nothing else fits" in told
        return
    c = config(n.model)
    table = c["vocab_size"] * c["hidden_size"]
    read = stored(n.model, "fp8-channel") - 2 * table  # of the embedding a step looks up rows
    multiplied = sum(rows * columns for rows, columns in shapes(n.model)) * c["num_hidden_layers"] + table
    peak, bandwidth = rates(n)
    meet = (read / bandwidth) / (2 * multiplied / peak)
    assert math.isclose(int(met[1]) + 0.5, meet, abs_tol=0.75) and int(met[2]) == int(met[1]) + 1
    assert ("by themselves" in told) == (n.sequences > int(met[1]))


def floors(n, tokens: int, element: str) -> tuple[float, float]:
    """Seconds of a step in four bits and in eight, from configuration fields: the longer of reading and multiplying."""
    c = config(n.model)
    table = c["vocab_size"] * c["hidden_size"]
    multiplied = sum(rows * columns for rows, columns in shapes(n.model)) * c["num_hidden_layers"] + table
    chip, times = accelerator(n.chip), []
    for how, peak in (("int4-g128", "bf16"), ("fp8-channel", element)):
        read = (stored(n.model, how) - 2 * table) / n.gpus / Fraction(chip.bandwidth.value)
        times.append(float(max(read, 2 * tokens * multiplied / n.gpus / Fraction(chip.peak(peak).value))))
    return tuple(times)


@pytest.mark.parametrize("seed", range(60))
def test_what_overturns_the_service_is_a_matter_of_time(seed):
    """Steps alone and steps with a chunk, both ways: at the share that is told four bits take less time in all."""
    problem = PROBLEMS["quantization/service"]
    n = problem.draw(seed)
    told = str(problem.solution(n)[-1])
    assert "no faster" not in told and "most steps" not in told
    if "nothing else fits" in told:
        return
    element = re.search(r"so take (FP8|INT8)", told)[1].lower()
    alone, chunk = floors(n, n.sequences, element), floors(n, n.sequences + 2048, element)
    first, second = (parse(x).value for x in re.findall(r"(?:saves|loses) ([0-9.,]+ \S+s)\b", told))
    assert math.isclose(second, chunk[0] - chunk[1], rel_tol=0.01)
    assert math.isclose(first, abs(alone[1] - alone[0]), rel_tol=0.02)
    assert ("If at most times so few sequences run" in told) == (alone[0] >= alone[1])
    if alone[0] >= alone[1]:
        return
    others = float(re.search(r"as much as ([0-9.,]+) of the others", told)[1].replace(",", ""))
    share = int(re.search(r"fewer than one step in ([0-9,]+)", told)[1].replace(",", ""))
    assert math.isclose(others, second / first, rel_tol=0.01)
    four, eight = ((share - 1) * alone[k] + chunk[k] for k in (0, 1))
    assert four < 1.002 * eight
    four, eight = ((share - 3) * alone[k] + chunk[k] for k in (0, 1))
    assert four > eight


@pytest.mark.parametrize("seed", range(40))
def test_the_service_says_no_faster_where_nothing_is_gained_and_gives_the_model_in_its_question(seed):
    problem = PROBLEMS["quantization/service"]
    n = problem.draw(seed)
    assert not any(re.search(r"\b1× as fast", str(line)) for line in problem.solution(n))
    c = config(n.model)
    size = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    asked = problem.ask(n)
    assert f"{c['num_hidden_layers']} layers with {c['num_key_value_heads']} KV heads of {size} elements" in asked
    assert f"{2 * c['vocab_size'] * c['hidden_size'] / 1e9:.4g} billion of them in the embedding" in asked


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("name", ["whole-model", "times-smaller"])
def test_bytes_in_solutions_are_whole_and_follow_from_the_bits(name, seed):
    problem = PROBLEMS[f"quantization/{name}"]
    n = problem.draw(seed)
    lines = [line if isinstance(line, str) else line.text for line in problem.solution(n)]
    assert lines[0].startswith("b_eff = ") and lines[1].startswith("B_model = ")
    assert f" {round(model(n)):,} B" in lines[1] and not re.search(r",\d{3}\.\d+ B", "".join(lines))
    if name == "times-smaller":
        assert f" {2 * int(billions(total(n.model))):,} B" in lines[2]
        assert lines[3].endswith(f"≈ {significant(problem.answer(n))}.")
