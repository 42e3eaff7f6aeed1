"""Practice of the chapter on split and combined pools: every answer a second time, by counting and in fractions."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import nbformat
import pytest

from calc import practice
from calc.sources import load_json
from calc.units import parse

CHAPTER = Path(__file__).parent.parent / "book" / "service" / "disaggregation.ipynb"

F = Fraction
DECIMAL = 10**6


def config(slug: str) -> dict:
    return load_json("models", f"{slug}.json")["config"]


def exact(value) -> Fraction:
    return F(str(value))


def pieces(n):
    """Go through the tensors and count the blocks that hold the prompt."""
    count = 0
    for _ in range(config(n.model)["num_hidden_layers"]):
        for _ in ("keys", "values"):
            left = n.prompt
            while left > 0:
                left, count = left - n.block, count + 1
    return count


def effective(n):
    """Bits over the wire, then microseconds of posting."""
    wire = exact(n.mb) * DECIMAL * 8 / (n.gbit * 10**9)
    return n.mb * DECIMAL / (wire + n.pieces * exact(n.us) / DECIMAL)


def hidden(n):
    """Layer by layer: each transfer starts when its layer is computed and the wire is free."""
    free = F(0)
    for layer in range(1, n.layers + 1):
        free = max(free, F(n.prompt * layer, n.layers)) + F(n.move, n.layers)
    return (free - n.prompt) / 1000


def first_token(n):
    clock = 0
    for part in (n.queued, n.prompt, n.exposed, n.wait, n.step, n.out):
        clock += part
    return F(clock, 1000)


def full_link(n):
    c = config(n.model)
    size = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    bits = n.prompt * c["num_hidden_layers"] * 2 * c["num_key_value_heads"] * size * 16
    return F(n.gbit * 10**9, bits)


def balance(n):
    """Requests per second that either side finishes; their ratio."""
    decoded = F(n.batch * 1000, n.step * n.output)
    computed = F(1000, n.prompt)
    return decoded / computed


def one_line(n):
    """Mean number waiting from the states of two servers with one line, then Little's law."""
    load, service = F(n.percent, 100), F(n.service, 1000)
    empty = (1 - load) / (1 + load)
    waiting = empty * 2 * load**3 / (1 - load) ** 2
    return waiting / (2 * load / service)


def overlap(n):
    """What the longer job leaves of the shorter one."""
    short, long = sorted((n.prompt, n.step))
    return 1 - F(n.mixed - long, short)


def counted(n):
    return F(n.rate * 3600 * (n.split - n.pool), 100 * n.gpus)


def stranded(n):
    """Work of a hundred jobs in milliseconds: the long ones' part of what keeps two servers busy."""
    long, short = (100 - n.share) * n.long, n.share * n.short
    return F(2 * n.percent, 100) * F(long, long + short)


def break_even(n):
    seconds = exact(n.pflop) / (n.gpus * exact(n.peak) * F(n.percent, 100))
    return n.mb * DECIMAL / seconds


SECOND = {
    "disaggregation/pieces": pieces,
    "disaggregation/fragment": lambda n: exact(n.gb) * 10**6 / n.thousand,
    "disaggregation/effective": effective,
    "disaggregation/hidden": hidden,
    "disaggregation/first-token": first_token,
    "disaggregation/full-link": full_link,
    "disaggregation/balance": balance,
    "disaggregation/one-line": one_line,
    "disaggregation/overlap": overlap,
    "disaggregation/counted": counted,
    "disaggregation/stranded": stranded,
    "disaggregation/break-even": break_even,
}
PROBLEMS = practice.problems("disaggregation")


def test_every_problem_with_a_number_has_a_second_derivation():
    assert set(SECOND) == {id for id, problem in PROBLEMS.items() if problem.answer}


def test_there_are_easy_hard_and_design_problems():
    levels = [problem.level for problem in PROBLEMS.values()]
    assert len(levels) >= 9 and {1, 2, 3, "design"} <= set(levels)
    assert [x for x in levels if x != "design"] == sorted(x for x in levels if x != "design")


def test_the_checklist_is_long_enough():
    assert len(practice.problem("disaggregation/split-or-not").checklist()) >= 6


@pytest.mark.parametrize("seed", range(4))
def test_the_plan_of_the_design_question_says_what_it_assumes(seed):
    text = str(practice.problem("disaggregation/split-or-not", seed).solution())
    assert "assumed" in text and "descriptors" in text and "both limits" in text


@pytest.mark.parametrize("seed", range(6))
def test_the_handoff_of_the_design_question_follows_from_what_it_states(seed):
    """From the question's own words: prompt, link, its share and the time of a descriptor, which is the chapter's."""
    problem = practice.problem("disaggregation/split-or-not", seed)
    asked = problem.text
    prompt = int(re.search(r"([\d,]+) prompt tokens", asked)[1].replace(",", ""))
    gbit, percent = (int(x) for x in re.search(r"with (\d+) Gbit/s for each GPU, (\d+)% of it", asked).groups())
    each = exact(re.search(r"posting a descriptor takes ([\d.]+) µs", asked)[1])
    assumed = nbformat.read(CHAPTER, as_version=4).cells[1].source
    assert float(each) == float(re.search(r"descriptor_us = ([\d.]+)", assumed)[1])
    blocks = -(-prompt // 16)
    rank_bytes = prompt * 80 * 2 * (8 // 4) * 128 * 2  # both models: 80 layers, 8 heads of 128 on four GPUs, 16 bits
    wire = F(rank_bytes * 8, gbit * 10**9) / F(percent, 100)
    took = wire + blocks * 80 * 2 * each / DECIMAL
    told = str(problem.solution())
    assert parse(re.search(r"moves the cache in ([\d.]+ m?s), with", told)[1]).value == pytest.approx(
        float(took), rel=5e-3
    )
    assert f"{blocks * 160:,} descriptors" in told
    share = float(re.search(r"on the wire for ([\d.]+)% of that time", told)[1]) / 100
    assert share == pytest.approx(float(wire / took), rel=0.06)


@pytest.mark.parametrize("seed", range(12))
def test_the_pool_that_hides_as_much_as_said_computes_as_many_prompts(seed):
    """Workers that only prefill, and a pool whose every step holds a chunk beside its decode step."""
    question = practice.problem("disaggregation/split-or-not", seed)
    text, pace = str(question.solution()), question.numbers.pace
    prefill, decode = map(int, re.search(r"(\d+) prefill and (\d+) decode", text).groups())
    chunk = float(re.search(r"must hold [^=]* = ([\d.]+) ms of prompt", text)[1])
    alone = float(re.search(r"decode on each, ([\d.]+) ms a step", text)[1])
    assert chunk * (prefill + decode) == pytest.approx(prefill * pace, rel=5e-3)  # prompt time in one step of all
    if share := re.search(r"At ([\d.]+)% of the shorter", text):
        hidden = float(share[1]) / 100 * min(chunk, alone)
        assert chunk + alone - hidden == pytest.approx(pace, rel=0.01)
    elif "hide nothing" in text:
        assert chunk + alone <= pace * 1.005
    else:
        assert "late before anybody waits" in text


@pytest.mark.parametrize("seed", range(24))
def test_the_load_itself_needs_no_more_hidden_than_the_whole_room_of_the_split(seed):
    """The products are those of the printed numbers, and the load is less than the prefill workers have room for."""
    question = practice.problem("disaggregation/split-or-not", seed)
    n, text = question.numbers, str(question.solution())
    beside = re.search(r"([\d,.]+) · ([\d,.]+) · ([\d.]+) ms / (\d+) = ([\d,.]+) sequences", text)
    if beside is None:
        return
    assert float(beside[5].replace(",", "")) == pytest.approx(
        n.rate * n.output * n.pace / 1000 / int(beside[4]), rel=5e-3
    )
    chunk = re.search(r"must hold (\d+) ms · (\d+) / (\d+) = ([\d.]+) ms of prompt", text)
    assert float(chunk[4]) == pytest.approx(int(chunk[1]) * int(chunk[2]) / int(chunk[3]), rel=5e-3)
    load = re.search(r"takes (\d+) · ([\d.]+) ms / (\d+) = ([\d.]+)% of the time, ([\d.]+) ms of a step", text)
    if load is None:
        return
    busy = int(load[1]) * float(load[2]) / 1000 / int(load[3])
    assert float(load[4]) / 100 == pytest.approx(busy, abs=0.006) and float(load[5]) < float(chunk[4])
    alone = float(re.search(r"decode on each, ([\d.]+) ms a step", text)[1])
    missing = float(load[5]) + alone - n.pace
    if share := re.search(r"keeps up from ([\d.]+)% hidden", text):
        assert missing / min(float(load[5]), alone) == pytest.approx(float(share[1]) / 100, abs=0.02)
        assert float(share[1]) <= float(re.search(r"At ([\d.]+)% of the shorter", text)[1])
    else:
        assert "keeps up with nothing hidden" in text and missing <= 0.05


@pytest.mark.parametrize("seed", range(24))
def test_the_nodes_of_the_design_question_hold_its_workers(seed):
    """Two workers of four GPUs to a node of eight; of a last node half full, the other half is named."""
    text = str(practice.problem("disaggregation/split-or-not", seed).solution())
    gpus, nodes = map(int, re.search(r"decode: (\d+) GPUs\. In nodes of eight that is (\d+)", text).groups())
    assert 8 * (nodes - 1) < gpus <= 8 * nodes
    assert ("with room for 1 worker more" in text) == (gpus % 8 == 4) and gpus % 4 == 0


def draws(name):
    return [practice.problem(f"disaggregation/{name}", seed) for seed in range(100)]


def test_a_piece_is_of_whole_bytes():
    assert all(F(question.answer).denominator == 1 for question in draws("fragment"))


def test_no_time_is_negative_where_the_wire_keeps_up():
    """The formula's other case would give less than nothing, and the larger of both is all that counts."""
    for question in draws("hidden"):
        text = str(question.solution())
        assert "-" not in text and ("keeps up" in text) == (question.numbers.move < question.numbers.prompt)


def test_the_compute_rate_of_the_break_even_is_derived_and_in_one_unit():
    for question in draws("break-even"):
        text = str(question.solution())
        gpus, peak, share, reached = re.search(
            r"reach (\d+) · ([\d.]+) PFLOP/s · ([\d.]+) = ([\d.]+) PFLOP/s", text
        ).groups()
        assert int(gpus) * exact(peak) * exact(share) == exact(reached)
        assert f"· {reached} PFLOP/s / " in text and "TFLOP" not in question.text + text


def test_the_rates_of_the_busy_half_follow_from_what_is_said():
    for question in draws("stranded"):
        n, text = question.numbers, str(question.solution())
        long, rate, long_rate = re.search(r"Long ones are ([\d.]+) · ([\d.]+) = ([\d.]+) of them", text).groups()
        assert exact(long) * 100 == 100 - n.share
        mean = F(n.share * n.short + (100 - n.share) * n.long, 100)
        assert float(rate) == pytest.approx(float(F(2 * n.percent * 10, 1) / mean), rel=1e-4)
        assert float(long_rate) == pytest.approx(float(rate) * float(long), rel=1e-3)


def test_how_busy_a_line_is_given_and_not_computed_back():
    assert all("λ" not in str(question.solution()) for question in draws("one-line"))
