"""The handoff by hand, two servers exactly and against the queue itself, and both pools against the scheduler."""

from __future__ import annotations

import random
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc import disaggregation as d
from calc import queueing as q
from calc.hardware import accelerator
from calc.latency import Objectives
from calc.models import load
from calc.queueing import Interval, Unstable
from calc.roofline import prefill_floor
from calc.scheduling import Request, SchedulerConfig, run
from calc.sources import load_json
from calc.units import CalcError, parse

ONE = d.Worker(
    gpus=4, blocks=20_000, read_s=0.015, position_s=3e-8, token_s=9e-5, overlap=0.9, layers=80, tensors=2,
    rank_bytes=81_920,
)  # fmt: skip
WAY = d.Handoff(wire_rate=40e9, descriptor_s=2.4e-6, control_s=0.05)
LIMITS = Objectives(ttft_s=0.5, tpot_s=0.03)


def drawn(count: int, seed: int = 1) -> list[Request]:
    """Requests at one a second, on average."""
    rng, now, made = random.Random(seed), 0.0, []
    for number in range(count):
        now += rng.expovariate(1)
        made.append(Request(number, rng.randint(20, 4000), rng.randint(1, 400), now))
    return made


# --- the handoff ----------------------------------------------------------------------------------


def test_a_transfer_by_hand():
    """118 blocks of Llama-70B: 18,880 descriptors, 46 ms to post them, and a nominal link that hardly matters."""
    posting = load_json("disaggregation.json")["posting"]
    each = parse(posting["time"]).value / posting["descriptors"]
    pieces = d.descriptors(blocks=118, layers=80, tensors=2)
    assert pieces == posting["descriptors"]
    given = {"cache_bytes": 118 * 16 * 40_960, "descriptors": pieces, "descriptor_s": each}
    slow, fast = (d.transfer_seconds(**given, wire_rate=rate) for rate in (50e9, 400e9))
    assert slow == pytest.approx(0.046 + 0.00155, abs=1e-5) and fast > 0.96 * slow
    assert d.effective_rate(cache_bytes=given["cache_bytes"], transfer_s=slow) < 0.04 * 50e9


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 100))
def test_what_is_exposed_layer_by_layer(transfer, prompt, layers):
    """The pipeline gone through layer by layer."""
    free = 0.0
    for layer in range(1, layers + 1):
        free = max(free, prompt * layer / layers) + transfer / layers
    exposed = d.exposed_seconds(transfer_s=transfer, prompt_s=prompt, layers=layers)
    assert exposed == pytest.approx(free - prompt, abs=1e-9)
    assert transfer / layers - 1e-12 <= exposed <= transfer + 1e-12


def test_parts_of_a_first_token_by_hand():
    parts = {"queued_s": 1, "prompt_s": 2, "exposed_s": 4, "decode_wait_s": 8, "step_s": 16, "out_s": 32}
    assert d.handed_first_token(**parts) == 63
    with pytest.raises(CalcError, match="exposed_s is -1"):
        d.handed_first_token(**parts | {"exposed_s": -1})


def test_overlap_lies_between_the_sum_and_the_longer_one():
    assert d.overlap_share(prompt_s=0.05, step_s=0.02, mixed_s=0.07) == pytest.approx(0)
    assert d.overlap_share(prompt_s=0.05, step_s=0.02, mixed_s=0.05) == pytest.approx(1)
    for wrong in (0.04, 0.08):
        with pytest.raises(CalcError, match="at least as long as the longer"):
            d.overlap_share(prompt_s=0.05, step_s=0.02, mixed_s=wrong)


@given(st.floats(0, 1), st.integers(1, 4000), st.integers(1, 256), st.integers(0, 500_000))
def test_the_simulators_three_steps_give_the_overlap_that_was_put_in(share, tokens, sequences, positions):
    """The page's formula, asked of a prompt's chunk, a decode step and both as the scheduler times them."""
    times = replace(ONE, overlap=share).step_time()

    def took(tokens: int, sequences: int, positions: int) -> float:
        lines = times.lines(tokens, sequences)
        return max(fixed + slope * positions for fixed, slope in lines) / 1e15

    prompt, step = took(tokens, 0, 0), took(0, sequences, positions)
    both = took(tokens, sequences, positions)
    assert d.overlap_share(prompt_s=prompt, step_s=step, mixed_s=both) == pytest.approx(share, abs=1e-6)
    assert both == pytest.approx(d.both_seconds(prompt_s=prompt, step_s=step, overlap_share=share))
    assert (prompt, step) == pytest.approx((ONE.prompt_s(tokens), ONE.decode_s(sequences, positions)))


def test_the_overlap_changes_no_step_with_one_job_alone():
    """A prompt, a decode step and all of a split take as long whatever a step with both hides."""
    requests = drawn(60)
    splits = [
        d.simulate_split(requests, prefill=2, decode=2, worker=replace(ONE, overlap=share), handoff=WAY)
        for share in (0.0, 1.0)
    ]
    assert splits[0] == splits[1]
    assert ONE.prompt_s(1000) == 1000 * ONE.token_s and ONE.prompt_s(10) == ONE.read_s  # the longer one alone
    pools = [
        d.simulate_pool(d.at_rate(requests, 8), workers=1, worker=replace(ONE, overlap=share), budget=512)
        for share in (0.0, 1.0)
    ]
    assert sum(pools[0].ttft_s) > sum(pools[1].ttft_s)


def test_two_jobs_hide_no_more_than_the_shorter_one():
    with pytest.raises(CalcError, match="overlap is 1.2"):
        d.both_seconds(prompt_s=1, step_s=1, overlap_share=1.2)


def test_the_published_step_hides_most_of_the_shorter_job():
    facts = {name: parse(text).value for name, text in load_json("disaggregation.json")["mixed_step"].items()
             if name in {"prompt", "decode", "both"}}  # fmt: skip
    hidden = d.overlap_share(prompt_s=facts["prompt"], step_s=facts["decode"], mixed_s=facts["both"])
    assert hidden == pytest.approx(1 - (238.4 - 234.8) / 49.96, abs=1e-9)


def test_a_cache_is_worth_moving_where_it_arrives_before_it_could_be_computed():
    rate = d.break_even_rate(cache_bytes=4e8, compute_rate=2e15, prompt_flop=1.6e14)
    assert 4e8 / rate == pytest.approx(1.6e14 / 2e15)


def test_shares_above_one_are_refused():
    with pytest.raises(CalcError, match="qualified share is 1.2"):
        d.qualified_per_gpu_hour(arrival_rate=1, qualified_share=1.2, gpus=8, hour_s=3600)
    with pytest.raises(CalcError, match="busy share must be below 1"):
        d.apart_over_pooled(utilization=1)


# --- two servers ----------------------------------------------------------------------------------


@given(st.floats(0.02, 0.97))
def test_two_lines_over_one_is_that_of_the_textbook(load):
    apart = q.mm1_wait(arrival_rate=load, service_s=1)
    pooled = q.mmc(arrival_rate=2 * load, service_s=1, servers=2).wait_s
    assert d.apart_over_pooled(utilization=load) == pytest.approx(apart / pooled)


@given(st.floats(0.01, 0.98), st.floats(0.05, 0.95))
def test_jobs_alike_are_mm2(load, share):
    kinds = d.TwoKinds(short_s=2.0, long_s=2.0, short_share=share)
    exact = q.mmc(arrival_rate=kinds.rate(load), service_s=2.0, servers=2).wait_s
    assert d.two_server_wait(arrival_rate=kinds.rate(load), kinds=kinds) == pytest.approx(exact, rel=1e-9)


@settings(max_examples=20)
@given(st.floats(0.05, 0.95), st.floats(1.5, 30), st.floats(0.1, 0.9))
def test_the_chain_keeps_its_scale_and_its_symmetry(load, times, share):
    """Other units of time, kinds swapped; and a mix of kinds waits longer than jobs alike with the same mean."""
    kinds = d.TwoKinds(short_s=1.0, long_s=times, short_share=share)
    come = kinds.rate(load)
    wait = d.two_server_wait(arrival_rate=come, kinds=kinds)
    scaled = d.TwoKinds(short_s=3.0, long_s=3 * times, short_share=share)
    assert d.two_server_wait(arrival_rate=come / 3, kinds=scaled) == pytest.approx(3 * wait, rel=1e-8)
    swapped = d.TwoKinds(short_s=times, long_s=1.0, short_share=1 - share)
    assert d.two_server_wait(arrival_rate=come, kinds=swapped) == pytest.approx(wait, rel=1e-8)
    alike = q.mmc(arrival_rate=come, service_s=kinds.mean_s, servers=2).wait_s
    assert wait > alike * (1 - 1e-9)  # spread never helps one line


@pytest.mark.parametrize(("load", "times", "share"), [(0.5, 4, 0.8), (0.7, 8, 0.9), (0.8, 3, 0.4)])
def test_the_chain_is_the_queue_itself(load, times, share):
    kinds = d.TwoKinds(short_s=1.0, long_s=times, short_share=share)
    mix = q.mixture([(share, q.exponential(1.0)), (1 - share, q.exponential(times))])
    line = q.simulate_fifo(arrival_rate=kinds.rate(load), service=mix, servers=2, requests=60_000, seed=4)
    assert d.two_server_wait(arrival_rate=kinds.rate(load), kinds=kinds) in line.mean_wait(confidence=0.999)


@pytest.mark.parametrize(("load", "times"), [(0.3, 1), (0.5, 7.8), (0.3, 30)])
def test_the_wait_before_two_servers_with_every_state_written_out(load, times):
    """The chain cut off at many jobs, relaxed state by state: no matrix of rates."""
    kinds = d.equally_loaded(times_longer=times)
    come, ends = kinds.rate(load), (1 / kinds.long_s, 1 / kinds.short_s)
    chance, most = (1 - kinds.short_share, kinds.short_share), 150
    into: dict[tuple[int, int], list] = {(n, s): [] for n in range(most + 1) for s in range(min(n, 2) + 1)}
    out = dict.fromkeys(into, 0.0)

    def move(source, target, rate):
        if rate:
            into[target].append((source, rate))
            out[source] += rate

    for n, s in into:
        if n < most:
            for kind in (0, 1) if n < 2 else ():
                move((n, s), (n + 1, s + kind), come * chance[kind])
            if n >= 2:
                move((n, s), (n + 1, s), come)
        for kind, number in ((1, s), (0, min(n, 2) - s)):
            for follows in (0, 1) if n > 2 and number else ():
                move((n, s), (n - 1, s - kind + follows), number * ends[kind] * chance[follows])
            if n <= 2 and number:
                move((n, s), (n - 1, s - kind), number * ends[kind])
    share = {state: load ** state[0] for state in into}
    states = list(into)
    for turn in range(800):
        for state in states if turn % 2 else reversed(states):
            share[state] = sum(share[other] * rate for other, rate in into[state]) / out[state]
        total = sum(share.values())
        share = {state: value / total for state, value in share.items()}
    wait = sum(max(n - 2, 0) * value for (n, _), value in share.items()) / come
    assert d.two_server_wait(arrival_rate=come, kinds=kinds) == pytest.approx(wait, rel=1e-4)


def test_where_it_turns():
    """Jobs alike never; the longer the long ones, the sooner; and a crossing is one."""
    assert d.equally_loaded(times_longer=1).crossing() is None
    turns = [d.equally_loaded(times_longer=times).crossing() for times in (5, 8, 16, 40)]
    assert turns == sorted(turns, reverse=True)
    kinds = d.equally_loaded(times_longer=8)
    for busy, wins in ((turns[1] - 0.01, False), (turns[1] + 0.01, True)):
        assert (kinds.apart(kinds.rate(busy)) < kinds.pooled(kinds.rate(busy))) is wins


def test_cut_into_pieces_as_short_as_the_others_all_jobs_are_alike():
    kinds = d.equally_loaded(times_longer=8, pieces=8)
    assert kinds == d.TwoKinds(short_s=1.0, long_s=1.0, short_share=0.5)
    assert d.equally_loaded(times_longer=8, pieces=100) == kinds


def test_apart_the_busier_server_is_full_first():
    kinds = d.TwoKinds(short_s=1, long_s=10, short_share=0.5)
    with pytest.raises(Unstable):
        kinds.apart(kinds.rate(0.6))
    assert kinds.pooled(kinds.rate(0.6)) < inf
    with pytest.raises(CalcError, match="faster than two servers"):
        kinds.pooled(kinds.rate(1.01))
    with pytest.raises(CalcError, match="share of short jobs is 1"):
        d.TwoKinds(short_s=1, long_s=2, short_share=1)


# --- the fleet ------------------------------------------------------------------------------------


def test_a_worker_is_its_floors_over_its_efficiencies():
    made = {"prompts": [1000], "memory_fraction": 0.9, "other_bytes": 3 * 1024**3, "ranks": 4}
    model, chip = load("llama-3.1-70b"), accelerator("h100-sxm")
    full, half = (
        d.worker(model, chip, prefill_efficiency=share, read_efficiency=share, overlap=0.5, **made)
        for share in (1.0, 0.5)
    )
    assert half.read_s == pytest.approx(2 * full.read_s) and half.token_s == pytest.approx(2 * full.token_s)
    assert full.token_s == pytest.approx(2 * 70e9 / (4 * 989e12), rel=0.3)  # two FLOP for each weight
    assert (full.layers, full.tensors, full.rank_bytes) == (80, 2, 81_920)
    prompts = [500, 3000]
    mixed = d.worker(model, chip, prefill_efficiency=0.5, read_efficiency=1, overlap=1, **made | {"prompts": prompts})
    link = next(iter(chip.links))
    floors = [prefill_floor(model, chip, ranks=4, prompt=prompt, link=link).apart_s for prompt in prompts]
    assert 2 * sum(floors) == pytest.approx(mixed.token_s * sum(prompts))  # on average over the prompts, half the rate
    latent = d.worker(load("deepseek-v2-lite"), chip, prefill_efficiency=1, read_efficiency=1, overlap=1, **made)
    assert latent.tensors == 1
    with pytest.raises(CalcError, match="read efficiency is 0"):
        d.worker(model, chip, prefill_efficiency=1, read_efficiency=0, overlap=0.5, **made)


def test_a_pool_is_its_workers_one_by_one():
    requests = drawn(40)
    got = d.simulate_pool(requests, workers=3, worker=ONE, budget=512)
    for turn in range(3):
        config = SchedulerConfig(blocks=ONE.blocks, token_budget=512)
        times = run(requests[turn::3], config, ONE.step_time()).times()
        assert got.ttft_s[turn::3] == times.ttft_s() and got.tpot_s[turn::3] == times.tpot_s()


def test_a_split_of_one_and_one_by_hand():
    """A lone request: its prompt, its transfer, control, one step, and the others."""
    split = d.simulate_split([Request(0, 1000, 5)], prefill=1, decode=1, worker=ONE, handoff=WAY)
    prompt = ONE.prompt_s(1000)
    pieces = -(-1000 // 16) * 160
    moved = 1000 * 81_920 / 40e9 + pieces * 2.4e-6 + 0.05
    assert split.moved_s == [pytest.approx(moved)]
    assert split.ttft_s == [pytest.approx(prompt + moved + ONE.read_s, abs=1e-6)]
    steps = [ONE.read_s + held * ONE.position_s for held in range(1000, 1004)]
    assert split.tpot_s == [pytest.approx(sum(steps) / 4, rel=1e-5)]


def test_a_link_takes_one_cache_at_a_time():
    slow = replace(WAY, wire_rate=1e8)  # 0.8 s for each
    split = d.simulate_split([Request(i, 1000, 2) for i in range(3)], prefill=1, decode=1, worker=ONE, handoff=slow)
    alone = slow.transfer_s(ONE, 1000)
    done = [ONE.prompt_s(1000) * (i + 1) for i in range(3)]
    ready = [done[0] + alone * (i + 1) + 0.05 for i in range(3)]
    assert [a + b for a, b in zip(done, split.moved_s, strict=True)] == pytest.approx(ready)


@pytest.mark.parametrize("layer_by_layer", [False, True])
def test_parts_of_every_request_add_up(layer_by_layer):
    requests = d.at_rate(drawn(200), 12)
    way = replace(WAY, layer_by_layer=layer_by_layer)
    split = d.simulate_split(requests, prefill=3, decode=1, worker=ONE, handoff=way)
    for request, ttft, queued, moved in zip(requests, split.ttft_s, split.queued_s, split.moved_s, strict=True):
        rest = ttft - queued - ONE.prompt_s(request.prompt_tokens) - moved
        assert rest >= ONE.read_s - 1e-6 and moved >= way.control_s and queued >= 0
    assert 0 < split.prefill_busy < 1


def test_a_link_sends_layers_early_no_faster_than_it_can():
    """Four prompts of four layers, their layers sent one by one in the order in which they are computed."""
    one, slow = replace(ONE, layers=4), replace(WAY, wire_rate=4e8, layer_by_layer=True, control_s=0)
    split = d.simulate_split([Request(i, 1000, 2) for i in range(4)], prefill=1, decode=1, worker=one, handoff=slow)
    prompt, wire = one.prompt_s(1000), slow.transfer_s(one, 1000)
    assert wire > prompt
    free = 0.0
    for i, moved in enumerate(split.moved_s):
        for layer in range(1, 5):
            free = max(free, prompt * (i + layer / 4)) + wire / 4
        assert prompt * (i + 1) + moved == pytest.approx(free)


def test_sent_early_nobody_is_later():
    requests = d.at_rate(drawn(300), 10)
    after, early = (
        d.simulate_split(requests, prefill=3, decode=1, worker=ONE, handoff=replace(WAY, layer_by_layer=way))
        for way in (False, True)
    )
    assert all(a >= b - 1e-9 for a, b in zip(after.moved_s, early.moved_s, strict=True))


def test_the_search_takes_the_best_and_the_reversal_is_there():
    """Where a step with both hides little, a split pays under load and not below; where it hides all, never."""
    requests, little = drawn(400), replace(ONE, overlap=0.25)
    given = {"workers": 4, "worker": little, "handoff": WAY, "budgets": [256, 512, 5000], "limits": LIMITS}
    light, heavy = (d.compare(requests, arrival_rate=rate, **given) for rate in (9, 14))
    for found in (light, heavy):
        assert found.pool.share(LIMITS) == max(one.share(LIMITS) for one in found.pools.values())
        assert found.split.share(LIMITS) == max(one.share(LIMITS) for one in found.splits.values())
        assert set(found.splits) == {1, 2, 3}
    assert (light.winner, heavy.winner) == ("pool", "split")
    loose = replace(heavy, limits=Objectives(ttft_s=0.5, tpot_s=0.2))
    assert loose.winner != "split"
    whole = d.compare(requests, arrival_rate=14, **given | {"worker": replace(ONE, overlap=1.0)})
    assert whole.winner != "split"


def test_the_crossing_of_intervals():
    def spans(*means):
        return [Interval(mean, mean - 0.05, mean + 0.05, 0.95) for mean in means]

    assert d.level_at([1, 2, 3], spans(-0.2, -0.1, 0.02)) is None
    assert d.level_at([1, 2, 3], spans(0.2, 0.3, 0.4)) == 1
    assert d.level_at([1, 2, 3], spans(-0.1, 0.01, 0.2)) == pytest.approx(1 + 10 / 11)
    assert [d.verdict(one) for one in spans(-0.1, 0.0, 0.1)] == ["pool", "neither", "split"]


def test_the_range_in_which_the_two_are_not_told_apart():
    def spans(*means):
        return [Interval(mean, mean - 0.1, mean + 0.1, 0.95) for mean in means]

    assert d.level_between([1, 2, 3], spans(-0.3, 0, 0.3)) == pytest.approx((1 + 2 / 3, 2 + 1 / 3))
    assert d.level_between([1, 2, 3], spans(-0.3, -0.2, -0.05)) == pytest.approx((2 + 2 / 3, 3))
    assert d.level_between([1, 2, 3], spans(0.05, 0.2, 0.3)) == pytest.approx((1, 1 + 1 / 3))
    loads, found = [1, 2, 3, 4], spans(-0.4, -0.15, 0.2, 0.3)
    least, most = d.level_between(loads, found)
    assert least < d.level_at(loads, found) < most


def test_what_cannot_be_split_is_refused():
    requests = drawn(40)
    given = {"worker": ONE, "handoff": WAY, "budgets": [512], "limits": LIMITS}
    with pytest.raises(CalcError, match="1 worker can't be split"):
        d.compare(requests, arrival_rate=1, workers=1, **given)
    with pytest.raises(CalcError, match="no token budget"):
        d.compare(requests, arrival_rate=1, workers=2, **given | {"budgets": []})
    with pytest.raises(CalcError, match="0 decode workers"):
        d.simulate_split(requests, prefill=2, decode=0, worker=ONE, handoff=WAY)
    with pytest.raises(CalcError, match="the pool can't serve"):
        d.compare(requests, arrival_rate=1, workers=2, **given | {"worker": replace(ONE, blocks=20)})
    with pytest.raises(CalcError, match="wire_rate is 0"):
        replace(WAY, wire_rate=0)


# --- the panel ------------------------------------------------------------------------------------

PANEL = {
    "model": "llama-3.1-70b",
    "accelerator_slug": "h100-sxm",
    "workers": 4,
    "arrival_rate": 20,
    "overlap_percent": 93,
    "nic_gbit": 400,
    "descriptor_us": 2.4,
    "first_ms": 500,
    "pace_ms": 30,
}


def test_panel_says_who_is_ahead_and_why():
    split = d.disaggregation_panel(**PANEL | {"overlap_percent": 30})
    assert split.rows[-1].text == "split" and split.rows[-1].keep
    assert "The split keeps more requests" in split.meaning
    pool = d.disaggregation_panel(**PANEL)
    assert pool.rows[-1].text == "pool" and "The pool keeps more" in pool.meaning
    assert split.rows[-2].label == pool.rows[-2].label == "Split less pool, 95% interval"
    assert "-" not in split.rows[-2].text and pool.rows[-2].text.count("-") == 3  # an interval on one side of 0
    for panel in (split, pool):
        assert any(line.startswith("Q = ") for line in panel.working)


def test_panel_at_its_extremes():
    slow = d.disaggregation_panel(**PANEL | {"pace_ms": 10})
    assert "Reading the weights alone takes longer" in slow.meaning
    idle = d.disaggregation_panel(**PANEL | {"arrival_rate": 1, "first_ms": 8000, "pace_ms": 100})
    assert idle.rows[-1].text == "not told apart" and "0% of the first tokens are late" in idle.meaning
    with pytest.raises(CalcError, match="overlap_percent is 120"):
        d.disaggregation_panel(**PANEL | {"overlap_percent": 120})
