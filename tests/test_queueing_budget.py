"""A first-token budget: its formulas by hand, a replica's distribution against the queue itself, the panel."""

from __future__ import annotations

import random
from math import fsum, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc import queueing as q
from calc.hardware import accelerator
from calc.models import load
from calc.roofline import prefill_floor
from calc.units import CalcError

MODEL, CHIP = load("llama-3.1-70b"), accelerator("h100-sxm")
TIMES = st.lists(st.floats(0.005, 0.4), min_size=1, max_size=6)


def test_parts_by_hand():
    parts = {"reach_s": 0.001, "gateway_s": 0.002, "server_s": 0.004, "queued_s": 0.008}
    assert q.first_token_seconds(**parts, computed_s=0.016, delivered_s=0.032) == pytest.approx(0.063)
    with pytest.raises(CalcError, match="computed_s is -0.1"):
        q.first_token_seconds(**parts, computed_s=-0.1, delivered_s=0)


def test_nothing_goes_below_its_floor():
    assert q.assumed_seconds(floor_s=0.04, efficiency=1) == 0.04
    for wrong in (0, -1, 1.01):
        with pytest.raises(CalcError, match="efficiency is"):
            q.assumed_seconds(floor_s=0.04, efficiency=wrong)


def test_what_a_limit_leaves():
    assert q.remaining_seconds(limit_s=1, spent_s=1) == 0
    with pytest.raises(CalcError, match=r"120 ms are spent before anybody waits, more than the limit of 100 ms"):
        q.remaining_seconds(limit_s=0.1, spent_s=0.12)
    with pytest.raises(CalcError, match="more than the limit"):
        q.prompt_that_fits(limit_s=0.1, fixed_s=0.2, prefill_rate=1000, hit_share=0)
    with pytest.raises(CalcError, match="hit_share is 1"):
        q.prompt_that_fits(limit_s=0.2, fixed_s=0.1, prefill_rate=1000, hit_share=1)


@given(st.floats(0.1, 5), st.floats(0, 0.1), st.floats(100, 1e5), st.floats(0, 0.95))
def test_a_prompt_that_fits_takes_the_time_that_is_left(limit, fixed, rate, hit):
    prompt = q.prompt_that_fits(limit_s=limit, fixed_s=fixed, prefill_rate=rate, hit_share=hit)
    assert prompt * (1 - hit) / rate == pytest.approx(q.remaining_seconds(limit_s=limit, spent_s=fixed))


def test_backwards_from_a_limit_by_the_rule_of_thumb_and_exactly():
    """A p99 of 500 ms for 2,000 tokens of an 8B model (field case TTF-07): 65 ms of prefill leave 385 ms to wait.

    The rule takes the p99 as the mean times ln 100 and allows a load of 0.72. There the exact p99 is 458 ms.
    """
    prefill = 2 * 8.03e9 * 2000 / (989e12 * 0.5)
    left = q.remaining_seconds(limit_s=0.5, spent_s=prefill + 0.03 + 0.01 + 0.01)
    assert prefill == pytest.approx(0.065, abs=5e-4) and left == pytest.approx(0.385, abs=5e-4)
    by_rule = 1 / (1 + prefill * log(100) / 2 / left)  # W · ln 100 = left, solved for the load
    assert by_rule == pytest.approx(0.72, abs=5e-3)
    wait = {"service_s": 0.065, "quantile": 0.99}
    assert q.md1_wait_quantile(arrival_rate=0.72 / 0.065, **wait) == pytest.approx(0.458, abs=5e-4)
    assert (
        q.md1_wait_quantile(arrival_rate=0.67 / 0.065, **wait)
        < left
        < q.md1_wait_quantile(arrival_rate=0.69 / 0.065, **wait)
    )


def test_a_buffer_holds_messages_until_it_is_full():
    given = {"ttft_s": 1, "gap_s": 0.1, "message_size": 100}
    assert q.buffered_seconds(**given, held_bytes=0) == 1
    assert q.buffered_seconds(**given, held_bytes=100) == 1
    assert q.buffered_seconds(**given, held_bytes=101) == pytest.approx(1.1)


@given(st.lists(st.integers(1, 10_000), min_size=11, max_size=11).map(sorted), st.sampled_from([1, 2, 5, 10]))
def test_typical_lengths_keep_the_mean_of_their_table(quantiles, groups):
    lengths = q.typical_lengths(quantiles, groups=groups)
    mean = (sum(quantiles) - (quantiles[0] + quantiles[-1]) / 2) / 10
    assert len(lengths) == groups and list(lengths) == sorted(lengths)
    assert fsum(lengths) / groups == pytest.approx(mean, abs=0.5)


def test_a_table_that_cannot_be_cut_is_refused():
    with pytest.raises(CalcError, match="can't be cut into 3 equal parts"):
        q.typical_lengths([1, 2, 3], groups=3)


def test_prefill_is_its_floor_over_the_efficiency():
    (time,) = q.prefill_times(MODEL, CHIP, ranks=4, prompts=[2000], efficiency=0.5)
    floor = prefill_floor(MODEL, CHIP, prompt=2000, ranks=4, link="nvlink")
    assert time == pytest.approx(2 * floor.apart_s) and time > floor.seconds
    (warm,) = q.prefill_times(MODEL, CHIP, ranks=4, prompts=[2000], hit_share=0.75, efficiency=0.5)
    cached = prefill_floor(MODEL, CHIP, prompt=500, cached=1500, ranks=4, link="nvlink")
    assert warm == pytest.approx(2 * cached.apart_s) and warm < time


def test_a_whole_hit_leaves_one_token_to_compute():
    (warm,) = q.prefill_times(MODEL, CHIP, ranks=4, prompts=[2000], hit_share=1, efficiency=1)
    one = prefill_floor(MODEL, CHIP, prompt=1, cached=1999, ranks=4, link="nvlink")
    assert warm == pytest.approx(one.apart_s)


def test_one_gpu_needs_no_link():
    small = load("llama-3.1-8b")
    (time,) = q.prefill_times(small, accelerator("l4"), ranks=1, prompts=[100], efficiency=1)
    assert time == pytest.approx(prefill_floor(small, accelerator("l4"), prompt=100).apart_s)


@settings(max_examples=20)
@given(TIMES, TIMES, st.sampled_from([0.0, 0.3, 0.8, 1.0]), st.floats(0, 0.7))
def test_a_composed_replica_has_the_means_of_its_parts(cold, warm, share, load):
    service = (1 - share) * fsum(cold) / len(cold) + share * fsum(warm) / len(warm)
    rate = load / service
    parts = {"cold_s": cold, "warm_s": warm, "warm_share": share, "fixed_s": 0.05, "jitter_s": 0.01}
    replica = q.compose(arrival_rate=rate, limit_s=1.0, horizons=12, **parts)
    kinds = q.mixture([(1 - share, q.recorded(cold)), (share, q.recorded(warm))])
    wait = q.mg1_wait(arrival_rate=rate, service_s=kinds.mean_s, service_scv=kinds.scv)
    assert replica.utilization == pytest.approx(load, abs=1e-6)
    if replica.every.beyond < 1e-10:
        assert replica.every.mean_s == pytest.approx(wait + service + 0.06, rel=0.01, abs=1e-3)
        assert replica.cold.mean_s - replica.warm.mean_s == pytest.approx(
            fsum(cold) / len(cold) - fsum(warm) / len(warm), abs=1e-3
        )


def test_a_composed_replica_is_the_queue_itself():
    """First come first served, cold and warm prompts drawn, against the share inside a limit."""
    cold, warm, share, rate, limit = [0.08, 0.12, 0.4], [0.02, 0.04], 0.6, 6.0, 0.5
    replica = q.compose(
        arrival_rate=rate, cold_s=cold, warm_s=warm, warm_share=share, fixed_s=0.02, jitter_s=0.0, limit_s=limit
    )
    rng, now, arrivals, services = random.Random(4), 0.0, [], []
    for _ in range(40_000):
        now += rng.expovariate(rate)
        arrivals.append(now)
        services.append(rng.choice(warm) if rng.random() < share else rng.choice(cold))
    waits = q.fifo_waits(arrivals, services)
    inside = [float(w + s + 0.02 <= limit) for w, s in zip(waits, services, strict=True)][4000:]
    interval = q.batch_means(inside, confidence=0.999)
    assert interval.low - 0.005 <= replica.every.within(limit) <= interval.high + 0.005


@settings(max_examples=25)
@given(TIMES, TIMES, st.floats(0, 1), st.floats(1, 40), st.sampled_from([0.8, 0.95]))
def test_the_fewest_replicas_meet_the_limit_and_one_fewer_does_not(cold, warm, share, rate, target):
    parts = {"cold_s": cold, "warm_s": warm, "warm_share": share, "fixed_s": 0.01, "jitter_s": 0.002, "limit_s": 0.6}

    def inside(replicas):
        try:
            return q.compose(arrival_rate=rate / replicas, **parts).every.within(0.6)
        except q.Unstable:
            return 0.0

    fewest = q.fewest_replicas(arrival_rate=rate, target_share=target, **parts)
    assert fewest is not None
    assert inside(fewest) >= target
    assert fewest == 1 or inside(fewest - 1) < target


def test_no_number_of_replicas_helps_where_an_idle_one_is_late():
    parts = {"cold_s": [0.5], "warm_s": [0.1], "warm_share": 0.5, "fixed_s": 0, "jitter_s": 0, "limit_s": 0.3}
    assert q.fewest_replicas(arrival_rate=1, target_share=0.9, **parts) is None
    cold, warm = [0.5, *[0.1] * 9], [0.1] * 10  # exactly 95% in time: any wait is one too many, rounding or not
    tie = parts | {"cold_s": cold, "warm_s": warm}
    assert q.fewest_replicas(arrival_rate=1, target_share=0.95, **tie) is None


PANEL = {
    "model": "llama-3.1-70b",
    "accelerator_slug": "h100-sxm",
    "ranks": 4,
    "replicas": 4,
    "arrival_rate": 16,
    "warm_percent": 50,
    "hit_percent": 70,
    "efficiency_percent": 50,
    "limit_ms": 1000,
}


def text_of(panel, label):
    return next(row.text for row in panel.rows if row.label.startswith(label))


def test_panel_says_what_its_numbers_show():
    panel = q.first_token_panel(**PANEL)
    needed = int(text_of(panel, "Fewest replicas").partition(",")[0])
    assert needed <= 4 and "meet the limit" in panel.meaning
    fewer = q.first_token_panel(**PANEL | {"replicas": needed - 1})
    assert "misses the limit" in fewer.meaning or "no steady value" in fewer.meaning
    crowded = q.first_token_panel(**PANEL | {"arrival_rate": 128})
    assert text_of(crowded, "Mean wait") == "grows without end" and "no steady value" in crowded.meaning
    hopeless = q.first_token_panel(**PANEL | {"limit_ms": 125})
    assert text_of(hopeless, "Fewest replicas") == "none" and "no number of replicas helps" in hopeless.meaning
    tie = q.first_token_panel(**PANEL | {"limit_ms": 250})  # 95% of the prompts take 250 ms or less, alone
    assert text_of(tie, "Fewest replicas") == "none" and "5% of the prompts or more" in tie.meaning


def test_panel_refuses_what_is_no_percentage():
    for name, value in {"warm_percent": 120, "hit_percent": -5}.items():
        with pytest.raises(CalcError, match=f"{name} is {value}, wanted 0 to 100"):
            q.first_token_panel(**PANEL | {name: value})


@pytest.mark.parametrize("replicas", [0, 0.5])
def test_the_panel_refuses_a_share_of_a_replica(replicas):
    with pytest.raises(CalcError, match="replicas is .*, wanted a whole number above 0"):
        q.first_token_panel(**PANEL | {"replicas": replicas})
