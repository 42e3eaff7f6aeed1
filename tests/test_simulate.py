"""Schedules in time: the quick way gives the times of the slow one, and nothing is lost on either."""

from collections import Counter, defaultdict

import bench_scheduling
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from calc import workload
from calc.scheduling import (
    Affine,
    Largest,
    Request,
    SchedulerConfig,
    SchedulingError,
    Table,
    from_trace,
    run,
    run_static,
    simulate,
)
from calc.scheduling._clock import advance
from calc.scheduling._leap import NeedsBlocks, leap
from calc.sources import load_json

# --- what workloads are drawn from ---

SECONDS = st.sampled_from([0.0, 0.001, 0.0123, 0.1, 1.0])
AFFINE = st.builds(Affine, base_s=SECONDS, prefill_token_s=SECONDS, decode_sequence_s=SECONDS, cached_token_s=SECONDS)
STEP_TIMES = st.one_of(
    AFFINE,
    st.lists(AFFINE, min_size=2, max_size=3).map(lambda parts: Largest(tuple(parts))),
    SECONDS.map(lambda slope: Table(((1, 0.5), (10, 1.0), (5000, 3.0)), cached_token_s=slope)),
)


@st.composite
def workloads(draw, policies=("fcfs",)):
    """Requests and limits: few places, blocks for little more than one request, arrivals that coincide."""
    size = draw(st.sampled_from([1, 2, 4, 16]))
    budget = draw(st.sampled_from([4, 16, 33, 64, 512]))
    chunked = draw(st.booleans())
    longest = draw(st.sampled_from([30, 120, 1 << 40]))
    most = min(100, longest - 1, 100 if chunked else budget)
    prompt = st.one_of(
        st.integers(1, most), st.sampled_from([min(n, most) for n in (budget, budget + 1, size, 2 * size)])
    )
    grid = draw(st.sampled_from([0.0, 0.37, 1.0, 5.0]))
    rows = draw(
        st.lists(st.tuples(prompt, st.integers(1, 50), st.integers(0, 20), st.integers(0, 2)), min_size=1, max_size=14)
    )
    requests = [Request(i, p, n, at * grid, priority=urgency) for i, (p, n, at, urgency) in enumerate(rows)]
    ends = [-(-(min(p + n, longest) - 1) // size) for p, n, _, _ in rows]
    config = SchedulerConfig(
        blocks=1 + max(max(ends), sum(ends) * draw(st.sampled_from([0, 10, 30, 100])) // 100),
        block_tokens=size,
        token_budget=budget,
        sequences=draw(st.sampled_from([1, 2, 5, 64])),
        chunked_prefill=chunked,
        long_prefill_threshold=draw(st.sampled_from([0, 0, 3, 16])),
        adaptive_threshold=draw(st.booleans()),
        policy=draw(st.sampled_from(policies)),
        reserve_prompt=draw(st.booleans()),
        watermark=draw(st.sampled_from([0.0, 0.05, 0.2])),
        max_positions=longest,
    )
    return requests, config


def answer(function, *arguments):
    """The result, or the error's message: both ways must agree on either."""
    try:
        return function(*arguments)
    except SchedulingError as error:
        return str(error)


# --- the quick way equals the slow one ---


@settings(max_examples=800)
@given(workloads(), STEP_TIMES)
def test_leaping_equals_stepping_to_the_last_tick(workload, step_time):
    requests, config = workload
    slow = answer(lambda: run(requests, config, step_time).times())
    event(f"preempts: {not isinstance(slow, str) and any(slow.preemptions)}")
    assert answer(leap, requests, config, step_time) == slow


@settings(max_examples=300)
@given(workloads(policies=("fcfs", "priority")), STEP_TIMES, st.booleans())
def test_simulate_equals_run_where_leaping_may_have_to_give_up(workload, step_time, caching):
    requests, config = workload
    config = SchedulerConfig(**{name: getattr(config, name) for name in config.__slots__} | {"prefix_caching": caching})
    slow = answer(lambda: run(requests, config, step_time).times())
    assert answer(simulate, requests, config, step_time) == slow


def test_an_arrival_behind_the_head_can_let_the_head_in():
    """Four are present then, so a fair share of the budget is 16 tokens, and 16 tokens need one block, not two."""
    behind = [Request(name, 1, 1, arrival_s=3.5) for name in "cd"]
    requests = [Request("a", 40, 8), Request("b", 60, 1, arrival_s=0.5), *behind]
    config = SchedulerConfig(
        blocks=5, token_budget=64, long_prefill_threshold=3, adaptive_threshold=True, reserve_prompt=False
    )
    times = simulate(requests, config, Affine(base_s=1.0))
    assert times.wait_s()[:2] == [0, 3.5]
    assert times == run(requests, config, Affine(base_s=1.0)).times()


def test_leaping_gives_up_rather_than_guess():
    requests = [Request(i, 60, 60, priority=i) for i in range(3)]
    for change in ({"policy": "priority"}, {"prefix_caching": True}):
        config = SchedulerConfig(blocks=14, **change)
        with pytest.raises(NeedsBlocks):
            leap(requests, config, Affine(base_s=1))
        times = simulate(requests, config, Affine(base_s=1))
        assert any(times.preemptions)
        assert times == run(requests, config, Affine(base_s=1)).times()


@pytest.mark.parametrize(
    ("change", "shared"),
    [({"draft_tokens": 2}, False), ({"adapters": 1}, False), ({"prefix_caching": True}, True)],
    ids=["drafts", "adapters", "prefixes"],
)
def test_what_leaping_does_not_know_is_stepped(change, shared):
    prompt = list(range(100)) if shared else 100
    requests = [Request(i, prompt, 20, arrival_s=0.1 * i, adapter="ab"[i % 2]) for i in range(6)]
    config, model = SchedulerConfig(blocks=100, **change), Affine(base_s=0.02, prefill_token_s=0.001)
    times = simulate(requests, config, model)
    assert times == run(requests, config, model).times()
    assert times != leap(requests, SchedulerConfig(blocks=100), model) or "draft_tokens" in change


def test_any_callable_is_a_step_time():
    requests = [Request(i, 50, 10, arrival_s=i / 10) for i in range(5)]
    model = Affine(base_s=0.02, decode_sequence_s=0.001)
    config = SchedulerConfig(blocks=100)
    slow = simulate(requests, config, lambda step: 0.02 + 0.001 * step.decode_sequences)
    assert slow == simulate(requests, config, model)
    with pytest.raises(SchedulingError, match="step time of step 0 is -1"):
        simulate(requests, config, lambda step: -1)


LINES = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), min_size=1, max_size=4)


@settings(max_examples=500)
@given(LINES, st.integers(0, 30), st.integers(0, 6), st.integers(1, 40), st.none() | st.integers(1, 2000))
def test_a_closed_sum_equals_the_loop(lines, cached, growth, most, gap):
    steps = elapsed = 0
    while steps < most and (gap is None or elapsed < gap):
        elapsed += max(fixed + slope * (cached + steps * growth) for fixed, slope in lines)
        steps += 1
    assert advance(lines, cached, growth, most, gap) == (steps, elapsed)


@given(st.integers(1, 10**16), st.integers(0, 10**13), st.integers(1, 10**6), st.floats(0, 1))
def test_a_closed_sum_is_exact_at_the_size_of_real_clocks(first, rise, most, share):
    total = most * first + rise * (most * (most - 1) // 2)
    gap = max(1, int(total * share))
    steps, elapsed = advance([(first, 1)], cached=0, growth=rise, most=most, gap=gap)
    before = (steps - 1) * first + rise * ((steps - 1) * (steps - 2) // 2)
    assert before < gap <= elapsed == before + first + rise * (steps - 1) or steps == most


# --- nothing is lost ---


@settings(max_examples=200)
@given(workloads(policies=("fcfs", "priority")), st.sampled_from([0, 0, 2]), st.booleans(), st.data())
def test_tokens_blocks_and_clocks_are_conserved(workload, drafts, caching, data):
    requests, config = workload
    assume(not 0 < config.long_prefill_threshold <= drafts)
    change = {"draft_tokens": drafts, "prefix_caching": caching, "blocks": config.blocks + drafts + 1}
    config = SchedulerConfig(**{name: getattr(config, name) for name in config.__slots__} | change)
    accepted = data.draw(st.integers(0, drafts))

    def sampler(step, request, offered):
        return [-1 - request.name] * (min(offered, accepted) + 1)

    ledger = answer(run, requests, config, Affine(base_s=1.0, cached_token_s=0.01), sampler)
    assume(not isinstance(ledger, str))
    position, sampled = dict.fromkeys(range(len(requests)), 0), Counter()
    held: dict[int, int] = defaultdict(int)
    clock = 0
    for step, start, end in zip(ledger.steps, ledger.starts, ledger.ends, strict=True):
        assert clock <= start <= end
        clock = end
        assert step.tokens <= config.token_budget
        assert len(step.rows) <= len(step.running) <= config.sequences
        for name in step.preempted:
            held.pop(name, None)
        for row in step.rows:
            if row.hit is not None:  # admitted: what it had is gone, or was found
                position[row.name] = row.hit
            assert row.computed == position[row.name]  # no position twice, none left out
            rejected = row.drafts - (row.sampled - 1) if row.sampled else 0
            position[row.name] += row.tokens - rejected
            sampled[row.name] += row.appended
            known = requests[row.name].prompt + sampled[row.name] - row.appended
            assert position[row.name] <= known + row.sampled - (row.sampled > 0)
            assert (row.sampled > 0) == (position[row.name] >= known)
            held[row.name] = row.blocks
        if not caching:
            assert sum(held.values()) + step.free_blocks == config.blocks - 1
        for name in step.finished:
            held.pop(name)
    assert ledger.steps[-1].free_after == config.blocks - 1
    for request in requests:
        assert sampled[request.name] == min(request.output, config.max_positions - request.prompt)
        assert ledger.token_times_s()[request.name] == sorted(ledger.token_times_s()[request.name])
    times = ledger.times()
    for arrival, admitted, first, finished in zip(
        times.arrival, times.admitted, times.first_token, times.finished, strict=True
    ):
        assert arrival <= admitted < first <= finished


@given(workloads(), st.integers(1, 8))
def test_static_batches_conserve_tokens_and_never_mix(workload, places):
    requests, _ = workload
    ledger = run_static(requests, places, Affine(base_s=1.0, prefill_token_s=0.1))
    tokens = Counter()
    for step in ledger.steps:
        assert len(step.rows) <= places
        for row in step.rows:
            tokens[row.name] += row.appended
    assert tokens == {request.name: request.output for request in requests}
    busy = sum(len(step.rows) for step in ledger.steps)
    assert ledger.idle_slots(places) == places * len(ledger.steps) - busy
    assert busy == sum(request.output for request in requests)


# --- by hand ---


def test_static_and_continuous_by_hand():
    """Two places, step time 1: A answers with 3 tokens, B with 6, C with 4."""
    requests = [Request("A", 10, 3), Request("B", 20, 6), Request("C", 30, 4)]
    static = run_static(requests, 2, Affine(base_s=1.0)).times()
    assert static.latency_s() == [3, 6, 10]  # C waits for B
    ledger = run(requests, SchedulerConfig(blocks=100, sequences=2), Affine(base_s=1.0))
    assert ledger.times().latency_s() == [3, 6, 7]  # C takes A's place
    assert ledger.times().wait_s() == [0, 0, 3]
    assert ledger.idle_slots(2) == 1  # only the last step has a place to spare
    assert ledger.times().ttft_s() == [1, 1, 4]
    assert ledger.times().tpot_s() == [1, 1, 1]
    assert ledger.times().makespan_s() == 7


def test_equal_lengths_leave_static_batches_nothing_to_lose():
    requests = [Request(i, 10, 5) for i in range(8)]
    model = Affine(base_s=1.0)
    static = run_static(requests, 4, model).times()
    assert static == run(requests, SchedulerConfig(blocks=100, sequences=4), model).times()


def test_a_ledger_shows_itself():
    requests = [Request("a", 3000, 60)]
    ledger = run(requests, SchedulerConfig(blocks=1000), Affine(base_s=0.5))
    html = ledger._repr_html_()
    assert "<td>a: 2,048</td><td>0</td><td>871</td>" in html  # 3,000 tokens: 999 blocks less 128
    assert "<td>500 ms</td>" in html
    assert "61 steps; 21 more follow" in html


def test_step_times_by_hand():
    """A prompt of 100 beside a sequence that decodes at position 50."""
    requests = [Request("d", 50, 9), Request("p", 100, 1, arrival_s=0.5)]
    ledger = run(requests, SchedulerConfig(blocks=100), lambda step: 1.0)
    step = ledger.steps[1]
    assert (step.prefill_tokens, step.decode_sequences, step.cached_tokens) == (100, 1, 50)
    model = Affine(base_s=0.01, prefill_token_s=0.001, decode_sequence_s=0.002, cached_token_s=0.0001)
    second = run(requests, SchedulerConfig(blocks=100), model)
    assert second.ends[0] - second.starts[0] == 60 * 10**12  # 10 ms + 50 · 1 ms
    compute = Affine(base_s=0.0, prefill_token_s=0.001)
    third = run(requests, SchedulerConfig(blocks=100), Largest((Affine(base_s=0.02), compute)))
    assert [end - start for start, end in zip(third.starts, third.ends, strict=True)][:2] == [50 * 10**12, 20 * 10**12]


def test_a_table_is_interpolated_and_not_extrapolated():
    table = Table(((10, 0.010), (20, 0.030)))
    assert [table.lines(n, 0)[0][0] for n in (1, 10, 15, 20)] == [10**13, 10**13, 2 * 10**13, 3 * 10**13]
    with pytest.raises(SchedulingError, match="only up to 20"):
        table.lines(20, 1)
    for points in ((), ((2, 1.0), (1, 1.0)), ((0, 1.0),), ((1, -1.0),)):
        with pytest.raises(SchedulingError, match="Table"):
            Table(points)


def test_a_step_time_is_not_negative():
    with pytest.raises(SchedulingError, match="prefill_token_s is -1"):
        Affine(base_s=0.1, prefill_token_s=-1)


# --- workloads from traces ---


def test_hashed_prompts_share_what_their_hashes_share():
    trace = [
        workload.Request(arrival_s=0.0, prompt_tokens=1100, output_tokens=2, blocks=(1, 2, 3)),
        workload.Request(arrival_s=9.0, prompt_tokens=1030, output_tokens=2, blocks=(1, 2, 9)),
    ]
    requests = from_trace(trace)
    for request in requests:
        assert list(request.prompt) == request.prompt[:] == [request.prompt[i] for i in range(len(request.prompt))]
        with pytest.raises(IndexError):
            request.prompt[request.prompt_tokens]
    config = SchedulerConfig(blocks=200, prefix_caching=True)
    admitted = [
        row for step in run(requests, config, Affine(base_s=1)).steps for row in step.rows if row.hit is not None
    ]
    assert [(row.name, row.hit, row.tokens) for row in admitted] == [(0, 0, 1100), (1, 1024, 6)]
    plain = from_trace(trace, share_prefixes=False)
    assert [request.prompt for request in plain] == [1100, 1030]
    assert [request.arrival_s for request in plain] == [0.0, 9.0]


def test_the_bench_draws_workloads_like_the_table():
    requests = bench_scheduling.from_table()
    assert len(requests) == load_json("length_tables.json")["azure_2023_conversation"]["requests"]
    assert requests[0].arrival_s <= requests[-1].arrival_s
    many = bench_scheduling.drawn(requests, 500)
    assert {request.prompt for request in many} <= {request.prompt for request in requests}
    times = simulate(many, bench_scheduling.CONFIG, bench_scheduling.MODEL)
    assert times.tokens == [request.output for request in many]


# --- where engines come to a stand ---


def test_a_preempted_sequence_longer_than_the_budget_waits_forever_without_chunks():
    """It was admitted with its prompt; started over, its response so far comes on top."""
    requests = [Request(i, 60, 60) for i in range(2)]
    config = SchedulerConfig(blocks=10, token_budget=64, chunked_prefill=False)
    for way in (run, simulate):
        with pytest.raises(SchedulingError, match="chunked_prefill is off"):
            way(requests, config, Affine(base_s=1))


def test_requests_of_equal_urgency_may_take_turns_forever():
    """Both are equally urgent, so the first in line makes way for the second, and next time it is the other."""
    requests = [Request(i, 80, 2) for i in range(2)]
    limits = {"blocks": 45, "block_tokens": 2, "token_budget": 4, "long_prefill_threshold": 3, "policy": "priority"}
    with pytest.raises(SchedulingError, match="set reserve_prompt"):
        run(requests, SchedulerConfig(**limits, reserve_prompt=False), Affine(base_s=1))
    assert run(requests, SchedulerConfig(**limits), Affine(base_s=1)).times().preemptions == [1, 0]
