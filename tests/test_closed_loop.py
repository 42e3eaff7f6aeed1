"""Users who wait for their answers: the same scheduler, fed by its own output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.scheduling import Affine, Request, SchedulerConfig, SchedulingError, run, run_closed

CONFIG = SchedulerConfig(blocks=60, token_budget=64, sequences=4)
STEP = Affine(base_s=0.01, prefill_token_s=1e-4, decode_sequence_s=1e-3)

LENGTHS = st.lists(st.tuples(st.integers(1, 120), st.integers(1, 20)), min_size=1, max_size=20)


def requests_of(lengths):
    return [Request(i, prompt, output) for i, (prompt, output) in enumerate(lengths)]


@given(LENGTHS, st.integers(1, 6), st.sampled_from([0.0, 0.005, 0.03]))
def test_it_is_the_open_run_of_the_arrivals_that_it_made(lengths, users, think_s):
    ledger = run_closed(requests_of(lengths), users, CONFIG, STEP, think_s=think_s)
    again = run(ledger.requests, CONFIG, STEP)
    assert (again.steps, again.starts, again.ends) == (ledger.steps, ledger.starts, ledger.ends)
    assert [request.name for request in ledger.requests] == list(range(len(lengths)))


@given(LENGTHS, st.integers(1, 6), st.sampled_from([0.0, 0.03]))
def test_never_more_under_way_than_users_and_each_thinks_as_long(lengths, users, think_s):
    ledger = run_closed(requests_of(lengths), users, CONFIG, STEP, think_s=think_s)
    times = ledger.times()
    sent, done = (sorted(column) for column in (times.arrival, times.finished))
    assert sent[:users] == [0] * min(users, len(lengths))
    for place, moment in enumerate(sent[users:], start=users):
        assert sum(end <= moment for end in done) >= place - users + 1
        assert moment - done[place - users] == pytest.approx(think_s * 1e15, abs=100)


@pytest.mark.parametrize(
    ("users", "think_s", "message"), [(0, 0, "users is 0"), (1.5, 0, "users is 1.5"), (1, -1, "think_s is -1")]
)
def test_impossible_users_are_refused(users, think_s, message):
    with pytest.raises(SchedulingError, match=message):
        run_closed(requests_of([(1, 1)]), users, CONFIG, STEP, think_s=think_s)


def test_a_request_that_could_never_finish_is_refused_when_its_turn_comes():
    with pytest.raises(SchedulingError, match="would never finish"):
        run_closed(requests_of([(1, 1), (5000, 1)]), 1, CONFIG, STEP)


def test_more_users_than_requests_cost_nothing():
    assert len(run_closed(requests_of([(5, 2)] * 3), 10**12, CONFIG, STEP).requests) == 3
