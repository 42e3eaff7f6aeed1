"""Queues: limits and identities, other derivations, published values, and the simulation against the formulas."""

from __future__ import annotations

import random
import re
from fractions import Fraction
from math import comb, exp, factorial, fsum, inf, isclose, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc import queueing as q
from calc.units import CalcError, registry
from calc.working import working

LOADS = st.floats(0.01, 0.98)


def close(a, b, rel=1e-9):
    return isclose(a, b, rel_tol=rel, abs_tol=1e-15)


# Little, load and refusals


@given(st.floats(0.001, 1e6), st.floats(0.001, 1e6))
def test_littles_law_turned_all_three_ways(rate, time):
    number = q.little(arrival_rate=rate, time_s=time)
    assert close(q.little_time(number=number, arrival_rate=rate), time)
    assert close(q.little_rate(number=number, time_s=time), rate)


def test_formulas_take_quantities():
    quantity = registry().Quantity
    wait = q.mm1_wait(arrival_rate=quantity(30, "1/hour"), service_s=quantity(1.5, "minute"))
    assert str(wait.to("minute").units) == "minute" and close(wait.to("minute").magnitude, 4.5)


@pytest.mark.parametrize(
    "call",
    [
        lambda r, s: q.mm1_wait(arrival_rate=r, service_s=s),
        lambda r, s: q.mm1_sojourn(arrival_rate=r, service_s=s),
        lambda r, s: q.md1_wait(arrival_rate=r, service_s=s),
        lambda r, s: q.mg1_wait(arrival_rate=r, service_s=s, service_scv=2),
        lambda r, s: q.idle_probability(arrival_rate=r, service_s=s),
        lambda r, s: q.md1_wait_within(arrival_rate=r, service_s=s, limit_s=1),
        lambda r, s: q.md1_wait_quantile(arrival_rate=r, service_s=s, quantile=0.9),
        lambda r, s: q.mg1_wait_from_moments(arrival_rate=r, mean_s=s, second_moment_s2=s * s),
        lambda r, s: q.mg1_waits(arrival_rate=r, service=q.of_values([s], step_s=s / 10), horizon_s=10 * s),
        lambda r, s: q.mmc(arrival_rate=r, service_s=s, servers=1),
        lambda r, s: q.simulate_fifo(arrival_rate=r, service=q.exponential(s), requests=100, seed=1),
    ],
)
@pytest.mark.parametrize(("rate", "service", "enough", "limit"), [(30, 0.1, 4, "33.33 ms"), (2, 0.5, 2, "500 ms")])
def test_an_unstable_queue_is_refused_and_the_message_says_what_is_stable(call, rate, service, enough, limit):
    with pytest.raises(q.Unstable) as refused:
        call(rate, service)
    message = str(refused.value)
    assert f"at least {enough} servers" in message and f"below {limit}" in message
    assert q.utilization(arrival_rate=rate, service_s=service, servers=enough) < 1
    assert q.utilization(arrival_rate=rate, service_s=service, servers=enough - 1) >= 1


@pytest.mark.parametrize("offered", [3, 3.0, 5.7])
def test_too_few_servers_are_refused(offered):
    for refused in (
        lambda: q.erlang_c(offered=offered, servers=3),
        lambda: q.mmc_wait(waiting=1, service_s=1, offered=offered, servers=3),
        lambda: q.mmc_wait_within(waiting=1, service_s=1, offered=offered, servers=3, limit_s=1),
        lambda: q.wait_probability(blocking=1, offered=offered, servers=3),
    ):
        with pytest.raises(q.Unstable, match=f"at least {int(offered) + 1} servers"):
            refused()


def test_other_refusals():
    for message, call in {
        "share of at least 0 and below 1": lambda: q.mm1_sojourn_quantile(sojourn_s=1, quantile=1),
        "slow_share is 1.5": lambda: q.fan_out_slow(slow_share=1.5, parts=3),
        "slow_requests is 2": lambda: q.fan_out_allowed(slow_requests=2, parts=3),
        "nothing piles up": lambda: q.backlog_wait(requests=10, arrival_rate=1, served_rate=2),
        "sum to 1": lambda: q.mixture([(0.5, q.exponential(1))]),
        "nothing was given": lambda: q.recorded([]),
        "all service times are 0": lambda: q.recorded([0, 0]),
        "not in order": lambda: q.fifo_waits([1, 0], [1, 1]),
        "one for each": lambda: q.fifo_waits([1, 2], [1]),
        "at least 4, none of them empty": lambda: q.batch_means([1.0] * 10),
        "one step for all": lambda: q.in_sum([q.of_values([1], step_s=1), q.of_values([1], step_s=2)]),
        "rounding is 'nearest'": lambda: q.of_values([1], step_s=1, rounding="nearest"),
        "lengthen the grid": lambda: q.exponential_times(mean_s=1, step_s=0.1, horizon_s=1).percentile(99),
        "no mean": lambda: q.exponential_times(mean_s=1, step_s=0.1, horizon_s=1).mean_s,
        "choose a longer step|lengthen": lambda: q.of_values([1], step_s=1e-6),
        "lower the load": lambda: q.md1_wait_quantile(arrival_rate=0.9999, service_s=1, quantile=0.999999),
        "more than 4,000": lambda: q.md1_wait_within(arrival_rate=0.5, service_s=1, limit_s=1e6),
        "wanted a number in second above 0": lambda: q.exponential(0),
        "confidence is 1": lambda: q.batch_means([1.0] * 100, confidence=1),
    }.items():
        with pytest.raises(CalcError, match=message):
            call()


# M/M/1 and M/M/c by another derivation: the balance equations


@given(LOADS, st.floats(0.001, 100))
def test_mm1_from_the_probabilities_of_its_states(load, service):
    rate = load / service
    present = fsum(n * (1 - load) * load**n for n in range(1, 4000))
    sojourn = q.mm1_sojourn(arrival_rate=rate, service_s=service)
    assert close(q.little_time(number=present, arrival_rate=rate), sojourn, 1e-6)
    assert close(q.mm1_wait(arrival_rate=rate, service_s=service) + service, sojourn)
    assert close(q.idle_probability(arrival_rate=rate, service_s=service), 1 - load)


@given(st.floats(0.05, 0.97), st.integers(1, 40), st.floats(0.01, 10))
def test_mmc_from_its_balance_equations(load, servers, service):
    offered, rate = load * servers, load * servers / service
    weights = [1.0]
    for n in range(1, servers + 3000):
        weights.append(weights[-1] * offered / min(n, servers))
        if n > servers and weights[-1] < 1e-18 * max(weights):
            break
    total = fsum(weights)
    queue = q.mmc(arrival_rate=rate, service_s=service, servers=servers)
    assert close(queue.waiting, fsum(weights[servers:]) / total, 1e-7)
    assert close(queue.queued, fsum((n - servers) * w for n, w in enumerate(weights) if n > servers) / total, 1e-6)
    assert close(queue.present, fsum(n * w for n, w in enumerate(weights)) / total, 1e-6)
    assert close(queue.sojourn_s, queue.wait_s + service)


@given(LOADS, st.floats(0.01, 10))
def test_one_server_of_many_is_mm1(load, service):
    rate = load / service
    queue = q.mmc(arrival_rate=rate, service_s=service, servers=1)
    assert close(queue.waiting, load)
    assert close(queue.wait_s, q.mm1_wait(arrival_rate=rate, service_s=service), 1e-8)


@pytest.mark.parametrize(("offered", "servers"), [(2, 2), (6, 10), (0.5, 1), (20, 30)])
def test_erlang_b_from_its_definition(offered, servers):
    terms = [Fraction(offered) ** n / factorial(n) for n in range(servers + 1)]
    assert close(q.erlang_b(offered=offered, servers=servers), float(terms[-1] / sum(terms)))


def test_erlang_formulas_at_scale():
    assert 0 < q.erlang_b(offered=900, servers=1000) < q.erlang_c(offered=900, servers=1000) < 0.01
    assert q.erlang_b(offered=0, servers=3) == 0 == q.erlang_c(offered=0, servers=3)


@given(st.floats(0.05, 0.95), st.integers(1, 20), st.floats(0.5, 0.999))
def test_a_quantile_of_mmc_is_where_its_distribution_is(load, servers, quantile):
    queue = q.mmc(arrival_rate=load * servers, service_s=1, servers=servers)
    at = queue.wait_quantile(quantile)
    assert close(queue.wait_within(at), max(quantile, 1 - queue.waiting), 1e-9)


@given(st.floats(0.05, 0.97))
def test_mm1_sojourn_quantile_is_exponential(load):
    mean = q.mm1_sojourn(arrival_rate=load, service_s=1)
    assert close(1 - exp(-q.mm1_sojourn_quantile(sojourn_s=mean, quantile=0.9) / mean), 0.9)


def test_more_servers_never_wait_longer_and_pooling_helps():
    waits = [q.mmc(arrival_rate=3.5, service_s=1, servers=c).wait_s for c in range(4, 12)]
    assert waits == sorted(waits, reverse=True)
    apart = q.mmc(arrival_rate=0.8, service_s=1, servers=1)
    pooled = q.mmc(arrival_rate=1.6, service_s=1, servers=2)
    assert pooled.wait_s < apart.wait_s / 2


def test_a_queue_displays_itself():
    assert "M/M/3 at" in q.mmc(arrival_rate=2, service_s=1, servers=3)._repr_html_()


# M/G/1


@given(LOADS, st.floats(0.01, 10), st.floats(0, 20))
def test_pollaczek_khinchine_meets_its_special_cases_and_its_other_form(load, service, scv):
    rate = load / service
    mg1 = q.mg1_wait(arrival_rate=rate, service_s=service, service_scv=scv)
    moments = q.mg1_wait_from_moments(arrival_rate=rate, mean_s=service, second_moment_s2=service**2 * (1 + scv))
    assert close(mg1, moments, 1e-7)
    exponential = q.mg1_wait(arrival_rate=rate, service_s=service, service_scv=1)
    assert close(exponential, q.mm1_wait(arrival_rate=rate, service_s=service))
    alike = q.mg1_wait(arrival_rate=rate, service_s=service, service_scv=0)
    assert close(alike, q.md1_wait(arrival_rate=rate, service_s=service))
    assert close(2 * alike, exponential)


@given(LOADS, st.floats(0, 20))
def test_allen_cunneen_is_exact_where_it_must_be(load, scv):
    mm1 = q.mm1_wait(arrival_rate=load, service_s=1)
    approximate = q.allen_cunneen_wait(mmc_wait_s=mm1, arrival_scv=1, service_scv=scv)
    assert close(approximate, q.mg1_wait(arrival_rate=load, service_s=1, service_scv=scv))


def erlangs_own_sum(rate, service, limit):
    """M/D/1 as Erlang gave it, in exact arithmetic, for it cancels."""
    r, s, t = (Fraction(x).limit_denominator(10**6) for x in (rate, service, limit))
    total = 0.0
    with_e = [(Fraction(-r * (t - k * s)) ** k / factorial(k), float(r * (t - k * s))) for k in range(int(t / s) + 1)]
    total = fsum(float(c) * exp(x) for c, x in with_e)
    return (1 - float(r * s)) * total


@pytest.mark.parametrize("rate", [1, 4, 6, 8])
@pytest.mark.parametrize("limit", [0, 0.03, 0.1, 0.17, 0.5, 0.99])
def test_md1_within_equals_erlangs_sum(rate, limit):
    ours = q.md1_wait_within(arrival_rate=rate, service_s=0.1, limit_s=limit)
    assert isclose(ours, erlangs_own_sum(rate, 0.1, limit), rel_tol=1e-8)


@settings(max_examples=30)
@given(st.floats(0.05, 0.98), st.floats(0.5, 0.9999))
def test_md1_quantile_is_where_its_distribution_is(load, quantile):
    at = q.md1_wait_quantile(arrival_rate=load, service_s=1, quantile=quantile)
    within = q.md1_wait_within(arrival_rate=load, service_s=1, limit_s=at)
    assert within >= quantile - 1e-9
    if at > 1e-6:
        assert q.md1_wait_within(arrival_rate=load, service_s=1, limit_s=at * (1 - 1e-6)) <= quantile + 1e-6


def test_md1_distribution_has_the_mean_of_its_formula():
    step = 0.01
    beyond = [1 - q.md1_wait_within(arrival_rate=0.8, service_s=1, limit_s=(k + 0.5) * step) for k in range(4000)]
    assert isclose(step * fsum(beyond), q.md1_wait(arrival_rate=0.8, service_s=1), rel_tol=1e-4)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_mg1_waits_enclose_md1(load):
    service = q.of_values([0.1], step_s=0.002)
    grid = {"arrival_rate": load / 0.1, "service": service, "horizon_s": 3}
    low, mean, high = (q.mg1_waits(**grid, rounding=r).percentile(99) for r in ("down", "mean", "up"))
    exact = q.md1_wait_quantile(arrival_rate=load / 0.1, service_s=0.1, quantile=0.99)
    assert low <= exact <= high and low <= mean <= high
    assert high - low < 0.06 * exact


def test_mg1_waits_of_exponential_services_are_those_of_mm1():
    service = q.exponential_times(mean_s=0.1, step_s=0.004, horizon_s=3)
    waits = q.mg1_waits(arrival_rate=6, service=service, horizon_s=3)
    mm1 = q.mmc(arrival_rate=6, service_s=0.1, servers=1)
    for p in (90, 95, 99):
        assert waits.percentile(p) == pytest.approx(mm1.wait_quantile(p / 100), abs=0.005)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.floats(0.1, 0.8))
def test_mg1_waits_keep_the_mean_of_pollaczek_and_khinchine(values, load):
    service = q.of_values([v / 100 for v in values], step_s=0.01)
    kind = q.recorded([v / 100 for v in values])
    rate = load / kind.mean_s
    waits = q.mg1_waits(arrival_rate=rate, service=service, horizon_s=20)
    formula = q.mg1_wait(arrival_rate=rate, service_s=kind.mean_s, service_scv=kind.scv)
    partial = waits.step_s * fsum(k * m for k, m in enumerate(waits.masses))
    assert partial <= formula + 1e-9
    if waits.beyond < 1e-10:
        assert isclose(partial, formula, rel_tol=1e-6)


# services


def test_services_have_the_moments_of_their_draws():
    rng = random.Random(7)
    for service in (
        q.deterministic(0.3),
        q.exponential(0.2),
        q.erlang(1.0, phases=5),
        q.mixture([(0.9, q.exponential(0.1)), (0.1, q.deterministic(2.0))]),
        q.in_series([q.deterministic(0.1), q.erlang(0.2, phases=2)]),
        q.recorded([0.1, 0.5, 0.5, 4.0]),
    ):
        drawn = [service.draw(rng) for _ in range(20_000)]
        mean = fsum(drawn) / len(drawn)
        assert mean == pytest.approx(service.mean_s, rel=0.05)
        assert fsum(x * x for x in drawn) / len(drawn) == pytest.approx(service.second_moment_s2, rel=0.1)


@given(st.integers(1, 50))
def test_phases_make_it_steadier(phases):
    assert isclose(q.erlang(2.0, phases=phases).scv, 1 / phases, rel_tol=1e-9)


@given(st.floats(0.01, 0.99), st.floats(1, 50))
def test_mixing_adds_the_spread_between_kinds(share, apart):
    both = q.mixture([(share, q.deterministic(1.0)), (1 - share, q.deterministic(apart))])
    mean = share + (1 - share) * apart
    between = share * (1 - mean) ** 2 + (1 - share) * (apart - mean) ** 2
    assert isclose(both.variance_s2, between, rel_tol=1e-6, abs_tol=1e-9)


# whole distributions


SAMPLES = st.lists(st.integers(0, 30), min_size=1, max_size=8)


@given(SAMPLES, SAMPLES)
def test_a_sum_is_the_sum_of_all_pairs(a, b):
    total = q.of_values(a, step_s=1) + q.of_values(b, step_s=1)
    pairs = sorted(x + y for x in a for y in b)
    for p in (1, 50, 75, 99):
        rank = -(-len(pairs) * p // 100) - 1
        assert total.percentile(p) == pairs[rank]
    assert isclose(total.mean_s, fsum(pairs) / len(pairs), abs_tol=1e-9)
    assert isclose(fsum(total.masses), 1)


@given(SAMPLES, SAMPLES, st.sampled_from([0.25, 0.5, 0.75]))
def test_a_mixture_is_drawn_from_both(a, b, share):
    both = q.mixed([(share, q.of_values(a, step_s=1)), (1 - share, q.of_values(b, step_s=1))])
    for limit in (0, 3, 10, 30):
        wanted = share * sum(x <= limit for x in a) / len(a) + (1 - share) * sum(x <= limit for x in b) / len(b)
        assert isclose(both.within(limit), wanted, abs_tol=1e-9)


@given(SAMPLES, st.integers(1, 4))
def test_the_slowest_of_many_is_late_unless_all_are_early(a, parts):
    one = q.of_values(a, step_s=1)
    worst = q.slowest([one] * parts)
    for limit in (0, 5, 20, 30):
        assert isclose(worst.within(limit), one.within(limit) ** parts, abs_tol=1e-9)
        slow = q.fan_out_slow(slow_share=max(0.0, 1 - one.within(limit)), parts=parts)
        assert isclose(1 - worst.within(limit), slow, abs_tol=1e-9)


@given(st.lists(st.floats(0, 3), min_size=1, max_size=6), st.lists(st.floats(0, 3), min_size=1, max_size=6))
def test_rounding_up_and_down_enclose_the_truth(a, b):
    pairs = sorted(x + y for x in a for y in b)
    for p in (20, 50, 90):
        true = pairs[-(-len(pairs) * p // 100) - 1]
        low, high = (
            (q.of_values(a, step_s=0.25, rounding=r) + q.of_values(b, step_s=0.25, rounding=r)).percentile(p)
            for r in ("down", "up")
        )
        assert low - 1e-9 <= true <= high + 1e-9 and high - low <= 0.5 + 1e-9


@given(st.lists(st.floats(0, 3), min_size=1, max_size=9))
def test_rounding_can_keep_the_mean(values):
    assert isclose(q.of_values(values, step_s=0.1).mean_s, fsum(values) / len(values), abs_tol=1e-9)


def test_exponential_times_keep_their_mean_and_their_order():
    low, mean, high = (
        q.exponential_times(mean_s=1, step_s=0.05, horizon_s=30, rounding=r) for r in ("down", "mean", "up")
    )
    assert mean.mean_s == pytest.approx(1, rel=1e-9)
    assert low.mean_s < 1 < high.mean_s
    assert low.percentile(99) <= log(100) <= high.percentile(99)


def test_what_lies_beyond_a_grid_stays_beyond():
    cut = q.exponential_times(mean_s=1, step_s=0.1, horizon_s=3)
    total = cut + q.of_values([1.0, 9.0], step_s=0.1)
    assert len(total.masses) == len(cut.masses)
    full = q.exponential_times(mean_s=1, step_s=0.1, horizon_s=30) + q.of_values([1.0, 9.0], step_s=0.1)
    assert total.within(2) == pytest.approx(full.within(2))
    assert q.mixed([(0.5, cut), (0.5, q.of_values([1.0], step_s=0.1))]).within(2) == pytest.approx(
        0.5 * cut.within(2) + 0.5
    )


def test_percentiles_of_parts_do_not_add():
    part = q.weighted([(0.98, 10), (0.02, 100)], step_s=1)
    both = part + part
    assert part.percentile(99) + part.percentile(99) == 200 and both.percentile(99) == 110
    assert q.weighted([(0.995, 10), (0.005, 100)], step_s=1).percentile(99) * 2 == 20
    narrow = q.weighted([(0.994, 10), (0.006, 100)], step_s=1)
    assert narrow.percentile(99) == 10 and (narrow + narrow).percentile(99) == 110  # above the sum of both


# fan-out and bursts


@given(st.floats(0, 1), st.integers(1, 60))
def test_fan_out_is_a_binomial_and_its_inverse_holds(share, parts):
    slow = q.fan_out_slow(slow_share=share, parts=parts)
    binomial = fsum(comb(parts, k) * share**k * (1 - share) ** (parts - k) for k in range(1, parts + 1))
    assert isclose(slow, binomial, rel_tol=1e-6, abs_tol=1e-9)
    assert isclose(q.fan_out_slow(slow_share=q.fan_out_allowed(slow_requests=slow, parts=parts), parts=parts), slow)


def test_a_burst_waits_as_its_queue_does():
    arrivals = [k / 60 for k in range(1000)]
    waits = q.fifo_waits(arrivals, [1 / 8.41] * 1000)
    formula = q.backlog_wait(requests=1000, arrival_rate=60, served_rate=8.41)
    assert fsum(waits) / 1000 == pytest.approx(formula, rel=2e-3)
    assert waits[-1] == pytest.approx(2 * formula, rel=2e-3)


# the queue itself


def test_waits_by_hand_and_by_lindley():
    rng = random.Random(3)
    gaps = [rng.expovariate(1) for _ in range(300)]
    services = [rng.uniform(0, 1.6) for _ in range(300)]
    arrivals = [fsum(gaps[: i + 1]) for i in range(300)]
    lindley = [0.0]
    for gap, service in zip(gaps[1:], services, strict=False):
        lindley.append(max(0.0, lindley[-1] + service - gap))
    assert q.fifo_waits(arrivals, services) == pytest.approx(lindley, abs=1e-9)
    assert q.fifo_waits([0, 0, 0, 1], [2, 5, 1, 1], servers=2) == [0, 0, 2, 2]
    assert q.fifo_waits(arrivals, services, servers=300) == [0.0] * 300


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 5)), min_size=1, max_size=30), st.integers(1, 4))
def test_a_further_server_makes_nobody_wait_longer(pairs, servers):
    arrivals = [fsum(gap for gap, _ in pairs[: i + 1]) for i in range(len(pairs))]
    services = [service for _, service in pairs]
    fewer = q.fifo_waits(arrivals, services, servers=servers)
    more = q.fifo_waits(arrivals, services, servers=servers + 1)
    assert all(b <= a + 1e-9 for a, b in zip(fewer, more, strict=True))


SIMULATED = [
    ("M/M/1", q.exponential(0.1), 1, 6.0, lambda: q.mm1_wait(arrival_rate=6, service_s=0.1)),
    ("M/D/1", q.deterministic(0.1), 1, 6.0, lambda: q.md1_wait(arrival_rate=6, service_s=0.1)),
    (
        "M/G/1",
        q.mixture([(0.8, q.erlang(0.05, phases=3)), (0.2, q.exponential(0.3))]),
        1,
        6.0,
        lambda: q.mg1_wait(arrival_rate=6, service_s=0.1, service_scv=SIMULATED[2][1].scv),
    ),
    ("M/M/3", q.exponential(0.1), 3, 21.0, lambda: q.mmc(arrival_rate=21, service_s=0.1, servers=3).wait_s),
]


@pytest.mark.parametrize(("name", "service", "servers", "rate", "formula"), SIMULATED, ids=[s[0] for s in SIMULATED])
def test_simulation_agrees_within_its_stated_interval(name, service, servers, rate, formula):
    """A 95% interval must hold the formula about as often as it says: in at least 16 of 20 seeds (p ≈ 0.3%)."""
    runs = [
        q.simulate_fifo(arrival_rate=rate, service=service, servers=servers, requests=12_000, seed=seed)
        for seed in range(20)
    ]
    assert sum(formula() in run.mean_wait() for run in runs) >= 16
    pooled = fsum(run.mean_wait().mean for run in runs) / len(runs)
    assert pooled == pytest.approx(formula(), rel=0.05)


def test_simulated_shares_agree_with_exact_distributions():
    run = q.simulate_fifo(arrival_rate=6, service=q.deterministic(0.1), requests=40_000, seed=5)
    exact = q.md1_wait_within(arrival_rate=6, service_s=0.1, limit_s=0.3)
    assert exact in run.share_within(0.3, confidence=0.999)
    run = q.simulate_fifo(arrival_rate=21, service=q.exponential(0.1), servers=3, requests=40_000, seed=5)
    assert q.mmc(arrival_rate=21, service_s=0.1, servers=3).wait_within(0.2) in run.share_within(0.2, confidence=0.999)


def test_allen_cunneen_is_near_a_simulation_with_bursts():
    """It is an approximation: within a quarter here, and never claimed to be exact."""
    service = q.erlang(0.1, phases=2)
    run = q.simulate_fifo(arrival_rate=24, service=service, servers=3, requests=60_000, seed=2, arrival_scv=2)
    mmc = q.mmc(arrival_rate=24, service_s=0.1, servers=3).wait_s
    approximate = q.allen_cunneen_wait(mmc_wait_s=mmc, arrival_scv=2, service_scv=service.scv)
    assert approximate == pytest.approx(run.mean_wait().mean, rel=0.25)


def test_steady_arrivals_of_short_services_never_wait():
    run = q.simulate_fifo(arrival_rate=5, service=q.deterministic(0.1), requests=1000, seed=0, arrival_scv=0)
    assert max(run.waits_s) == 0


def test_the_same_seed_gives_the_same_run_and_another_does_not():
    kinds = {"arrival_rate": 6, "service": q.exponential(0.1), "requests": 500}
    assert q.simulate_fifo(**kinds, seed=1) == q.simulate_fifo(**kinds, seed=1)
    assert q.simulate_fifo(**kinds, seed=1) != q.simulate_fifo(**kinds, seed=2)


def test_batch_means_cover_about_as_often_as_they_say():
    """Independent values, so that the interval is Student's own."""
    rng = random.Random(11)
    hits = sum(0 in q.batch_means([rng.gauss(0, 1) for _ in range(200)]) for _ in range(400))
    assert 0.92 * 400 <= hits <= 0.98 * 400


@pytest.mark.parametrize(
    ("freedom", "share", "printed"),
    [
        (5, 0.975, 2.571),
        (9, 0.975, 2.262),
        (19, 0.975, 2.093),
        (19, 0.95, 1.729),
        (30, 0.995, 2.750),
        (9, 0.995, 3.250),
    ],
)
def test_student_quantiles_of_the_tables(freedom, share, printed):
    assert q.student_quantile(share, freedom=freedom) == pytest.approx(printed, abs=0.004)


# the working


def worth(text):
    for symbol, code in {"·": "*", "−": "-", "^": "**"}.items():
        text = text.replace(symbol, code)
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"([\d.]+)(?: ms)", lambda m: str(float(m[1]) / 1000), text)
    text = re.sub(r"([\d.]+)(?: s|/s)", r"\1", text)
    return eval(text, {"exp": exp, "ln": log, "max": max, "inf": inf})


def test_the_numbers_put_in_give_the_result():
    for shown in (
        working(q.mm1_sojourn_quantile, sojourn_s=2.5, quantile=0.99),
        working(q.mmc_wait_within, waiting=0.5, service_s=2, offered=9, servers=10, limit_s=3),
        working(q.mmc_wait_quantile, waiting=0.5, service_s=2, offered=9, servers=10, quantile=0.99),
        working(q.mg1_wait, arrival_rate=6, service_s=0.125, service_scv=1.5),
        working(q.wait_probability, blocking=0.5, offered=3, servers=4),
        working(q.fan_out_slow, slow_share=0.01, parts=100),
        working(q.backlog_wait, requests=1000, arrival_rate=60, served_rate=8),
    ):
        assert worth(shown.steps[-1].substituted) == pytest.approx(shown.value, rel=1e-9)


def test_exponential_and_logarithm_are_written_as_such():
    shown = working(q.mm1_sojourn_quantile, sojourn_s=2.5, quantile=0.99)
    assert "ln(1 / (1 − q))" in shown.text and r"\ln\left(" in shown.latex
    shown = working(q.mmc_wait_within, waiting=0.5, service_s=2, offered=9, servers=10, limit_s=3)
    assert "exp((a − c) · t / S)" in shown.text and r"\exp\left(" in shown.latex


@settings(max_examples=50)
@given(st.integers(1, 5), st.randoms(use_true_random=False))
def test_elimination_inverts_and_solves(size, rng):
    matrix = [[rng.uniform(-1, 1) * 10 ** rng.uniform(-3, 3) for _ in range(size)] for _ in range(size)]
    for i in range(size):  # a row's own number outweighs its others, so an inverse is there
        matrix[i][i] = 2 * sum(map(abs, matrix[i])) or 1.0
    inverse = q.eliminated([[*row, *(float(i == j) for j in range(size))] for i, row in enumerate(matrix)])
    for i in range(size):
        for j in range(size):
            assert sum(matrix[i][k] * inverse[k][j] for k in range(size)) == pytest.approx(float(i == j), abs=1e-9)


@pytest.mark.parametrize("rows", [[[0.0, 1.0]], [[1.0, 2.0, 0.0], [0.1, 0.2, 1.0]], [[1.0, 0.0, 3.0], [2.0, 0.0, 1.0]]])
def test_elimination_refuses_equations_that_follow_from_each_other(rows):
    with pytest.raises(q.SingularMatrix, match="follows from the others"):
        q.eliminated(rows)


def test_elimination_takes_rows_in_any_order_and_units():
    assert q.eliminated([[0.0, 1.0, 2.0], [2.0**-60, 0.0, 3 * 2.0**-60]]) == [[3.0], [2.0]]


PARTS = {"cold_s": [0.1], "warm_s": [0.02], "warm_share": 0.5, "fixed_s": 0.04, "jitter_s": 0, "limit_s": 0.5}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: q.fifo_waits([0, float("nan")], [1, 1]), "arrivals_s holds what is no number"),
        (lambda: q.fifo_waits([0, 1], [1, float("nan")]), "services_s holds what is no number of at least 0"),
        (lambda: q.fifo_waits([0, 1], [1, -1]), "services_s holds what is no number of at least 0"),
        (lambda: q.fifo_waits([0, 1], [1, "a"]), "services_s holds what is no number"),
        (lambda: q.batch_means([1.0] * 99 + [float("nan")]), "values holds what is no number"),
        (lambda: q.simulate_fifo(arrival_rate=1, service=q.exponential(0.1), requests=10**12, seed=1), "at most"),
        (lambda: q.erlang(1, phases=10**12), "wanted 100,000 at most"),
        (lambda: q.typical_lengths([1, 2], groups=0), "groups is 0"),
        (lambda: q.typical_lengths([1, float("nan"), 3], groups=1), "quantiles holds what is no number"),
        (lambda: q.student_quantile(0.5, freedom=0), "freedom is 0"),
        (lambda: q.student_quantile(1, freedom=5), "share is 1"),
        *(
            (lambda changed=changed: q.compose(arrival_rate=1, **PARTS | changed), message)
            for changed, message in (
                ({"warm_share": "x"}, "warm_share is 'x'"),
                ({"fixed_s": None}, "fixed_s is None"),
                ({"cold_s": 1}, "cold_s holds what is no number"),
                ({"cold_s": ["a"]}, "cold_s holds what is no number"),
                ({"warm_s": [-1]}, "warm_s holds what is no number of at least 0"),
                ({"horizons": "x"}, "horizons is 'x'"),
            )
        ),
    ],
)
def test_what_is_no_number_is_refused(call, message):
    with pytest.raises(CalcError, match=message):
        call()


def test_more_servers_than_requests_leave_nobody_waiting():
    assert q.fifo_waits([0, 0, 1], [3, 3, 3], servers=10**12) == [0, 0, 0]
    assert q.fifo_waits([], [], servers=2) == []


@pytest.mark.parametrize("name", ["fixed_s", "jitter_s", "limit_s"])
def test_an_array_is_refused_where_one_replica_is_meant(name):
    numpy = pytest.importorskip("numpy")
    with pytest.raises(CalcError, match=f"{name} is an array, wanted one number"):
        q.compose(arrival_rate=1, **PARTS | {name: numpy.array([0.1, 0.2])})
