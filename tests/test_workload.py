"""Trace readers on small files of each schema and, where they lie beside the checkout, on the public traces."""

import gzip
import json
import math
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.units import CalcError
from calc.workload import ReadError, Request, arrivals, at_rate, read_azure, read_burstgpt, read_mooncake

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "tests" / "fixtures" / "latency"
TRACES = ROOT.parent / "shared" / "traces"  # public traces, not part of the project
READERS = {
    "azure_2023.csv": read_azure,
    "mooncake.jsonl": read_mooncake,
    "burstgpt.csv": read_burstgpt,
    "burstgpt_sessions.csv": read_burstgpt,
}


def public(name: str) -> Path:
    path = TRACES / name
    if not path.is_file():
        pytest.skip("the public traces are not beside this checkout")
    return path


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_azure_counts_from_its_first_request():
    requests = list(read_azure(FIXTURES / "azure_2023.csv"))
    assert [r.arrival_s for r in requests] == [0, 3.5, 60]
    assert [(r.prompt_tokens, r.output_tokens) for r in requests] == [(374, 44), (396, 109), (879, 55)]


def test_windows_line_ends_and_a_byte_order_mark_make_no_difference(tmp_path):
    path = tmp_path / "azure_2023.csv"
    text = (FIXTURES / "azure_2023.csv").read_text()
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert list(read_azure(path)) == list(read_azure(FIXTURES / "azure_2023.csv"))


def test_mooncake_counts_in_milliseconds_and_keeps_blocks():
    first, second = read_mooncake(FIXTURES / "mooncake.jsonl")
    assert (second.arrival_s, second.prompt_tokens, second.output_tokens) == (1.5, 1025, 26)
    assert first.blocks == (1, 2) and second.blocks == (1, 2, 3)


def test_burstgpt_leaves_failures_out_unless_asked():
    path = FIXTURES / "burstgpt.csv"
    assert [r.arrival_s for r in read_burstgpt(path)] == [5, 118]
    assert [r.output_tokens for r in read_burstgpt(path, failures=True)] == [18, 0, 276]


def test_burstgpt_with_sessions_keeps_them():
    first, second = read_burstgpt(FIXTURES / "burstgpt_sessions.csv")
    assert (first.session, second.session, second.arrival_s) == ("one", "", 19440161.5)


# --- broken files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (
            "azure_2023.csv",
            "2023-11-16 18:15:50.1805900",
            "yesterday",
            "line 3: TIMESTAMP is 'yesterday', wanted a time",
        ),
        ("azure_2023.csv", "18:15:50.1805900", "18:15:40.1805900", "line 3: TIMESTAMP is before .*sort the file"),
        ("azure_2023.csv", "396,109", "396", "line 3: 2 cells under 3 columns; .*fetch the file again"),
        ("azure_2023.csv", "396,109", "396,many", "line 3: GeneratedTokens is 'many', wanted a number"),
        ("azure_2023.csv", "396,109", "396,-1", "line 3: GeneratedTokens is '-1', wanted at least 0"),
        ("azure_2023.csv", "ContextTokens", "Tokens", "line 1: no column 'ContextTokens'.*wanted a CSV of the Azure"),
        ("mooncake.jsonl", "[1, 2, 3]", "[1, 2]", "line 2: hash_ids is .*wanted 3 hashes"),
        ("mooncake.jsonl", ', "hash_ids": [1, 2, 3]}', "", "line 2: the JSON is cut off here"),
        ("mooncake.jsonl", '"timestamp": 1500', '"timestamp": "noon"', "line 2: timestamp is 'noon'"),
        ("mooncake.jsonl", "input_length", "prompt", "line 1: no field 'input_length'; wanted a Mooncake trace"),
        ("burstgpt.csv", "417,276,693", "417,276,700", "line 4: Total tokens is '700', wanted 693"),
        ("burstgpt.csv", "417,276,693", "417,276.5,693.5", "line 4: Response tokens is '276.5', wanted a whole number"),
        ("burstgpt.csv", "Log Type", "Type", "line 1: no column 'Log Type'"),
    ],
)
def test_broken_trace_is_refused_by_line_with_the_remedy(name, old, new, message, tmp_path):
    text = (FIXTURES / name).read_text()
    assert old in text
    path = tmp_path / name
    path.write_text(text.replace(old, new))
    with pytest.raises(ReadError, match=f"{name}, {message}"):
        list(READERS[name](path))


@pytest.mark.parametrize("name", READERS)
def test_another_trace_an_empty_file_or_none_is_refused(name, tmp_path):
    for other in READERS:
        if READERS[other] is not READERS[name]:
            with pytest.raises(ReadError, match="wanted a"):
                list(READERS[name](FIXTURES / other))
    empty = tmp_path / name
    empty.write_text("")
    with pytest.raises(ReadError, match="the file is empty; wanted a"):
        list(READERS[name](empty))
    with pytest.raises(ReadError, match="give the path of an existing file"):
        list(READERS[name](tmp_path / "missing"))


@pytest.mark.parametrize("name", READERS)
def test_packed_trace_reads_the_same(name, tmp_path):
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress((FIXTURES / name).read_bytes()))
    assert list(READERS[name](path)) == list(READERS[name](FIXTURES / name))


# --- the public traces ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "requests", "prompt", "output"),
    [("azure_2023_code.csv", 8819, 1469, 13), ("azure_2023_conversation.csv", 19366, 1020, 129)],
)
def test_azure_trace_has_the_medians_that_its_paper_prints(name, requests, prompt, output):
    """Splitwise (ISCA 2024), section III-B prints medians of 13 and 129 output tokens."""
    trace = list(read_azure(public(name)))
    assert len(trace) == requests
    assert median(r.prompt_tokens for r in trace) == prompt
    assert median(r.output_tokens for r in trace) == output
    assert all(later.arrival_s >= earlier.arrival_s for earlier, later in pairwise(trace))


def test_mooncake_trace_is_whole_and_its_prompts_share_blocks():
    trace = list(read_mooncake(public("mooncake_conversation.jsonl")))
    assert len(trace) == 12031
    assert fmean(r.prompt_tokens for r in trace) == pytest.approx(12035, abs=0.5)
    assert fmean(r.output_tokens for r in trace) == pytest.approx(343, abs=0.5)
    seen: set[int] = set()
    for request in trace:
        known = [block in seen for block in request.blocks]
        assert known == sorted(known, reverse=True)  # a hash stands for the whole prefix: after a new one all are new
        seen.update(request.blocks)


# --- arrivals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_arrivals_have_the_rate_and_the_variation_asked(burstiness):
    times = arrivals(per_second=5, requests=40_000, burstiness=burstiness, seed=3)
    gaps = [later - earlier for earlier, later in pairwise((0.0, *times))]
    assert fmean(gaps) == pytest.approx(0.2, rel=0.03)
    assert stdev(gaps) / fmean(gaps) == pytest.approx(burstiness**-0.5, rel=0.03)


def test_arrivals_repeat_with_the_seed_and_only_with_it():
    assert arrivals(per_second=1, requests=9, seed=1) == arrivals(per_second=1, requests=9, seed=1)
    assert arrivals(per_second=1, requests=9, seed=1) != arrivals(per_second=1, requests=9, seed=2)


@given(st.lists(st.integers(0, 10_000), min_size=2, max_size=40, unique=True).map(sorted), st.floats(0.01, 100))
def test_trace_at_a_rate_keeps_its_shape(times, rate):
    trace = tuple(Request(arrival_s=t, prompt_tokens=1, output_tokens=i) for i, t in enumerate(times))
    played = at_rate(trace, per_second=rate)
    span = played[-1].arrival_s - played[0].arrival_s
    assert (len(played) - 1) / span == pytest.approx(rate)
    assert [r.output_tokens for r in played] == [r.output_tokens for r in trace]
    for before, after in zip(trace, played, strict=True):
        assert after.arrival_s / span == pytest.approx((before.arrival_s - times[0]) / (times[-1] - times[0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: arrivals(per_second=0, requests=1), "per_second is 0, wanted a number in 1/second above 0"),
        (lambda: arrivals(per_second="1", requests=1), "per_second is '1'"),
        (lambda: arrivals(per_second=1e-320, requests=2), "the last request never comes"),
        (lambda: arrivals(per_second=1, requests=1, burstiness=0), "burstiness is 0, wanted a number above 0"),
        (lambda: arrivals(per_second=1, requests=1, burstiness=1e308), "burstiness is 1e\\+308"),
        (lambda: arrivals(per_second=1, requests=0), "requests is 0, wanted a whole number above 0"),
        (lambda: arrivals(per_second=1, requests=math.nan), "requests is nan"),
        (lambda: arrivals(per_second=1, requests=10**400), "a number of more than 40 digits"),
        (lambda: arrivals(per_second=1, requests=10**8), "wanted 10,000,000 at most"),
        (lambda: Request(arrival_s=math.nan, prompt_tokens=1, output_tokens=1), "arrival_s is nan"),
        (lambda: Request(arrival_s=0, prompt_tokens=-1, output_tokens=1), "prompt_tokens is -1"),
        (lambda: Request(arrival_s=0, prompt_tokens=1, output_tokens=1.5), "output_tokens is 1.5"),
        (lambda: at_rate((), per_second=1), "at least two requests"),
        (
            lambda: at_rate((Request(arrival_s=1, prompt_tokens=1, output_tokens=1),) * 2, per_second=1),
            "different times",
        ),
    ],
)
def test_impossible_load_is_refused(call, message):
    with pytest.raises(CalcError, match=message):
        call()


MOONCAKE = {"timestamp": 5, "input_length": 600, "output_length": 9, "hash_ids": [1, 2]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (json.dumps(MOONCAKE | {"timestamp": 4}), "line 2: timestamp is before that of the line above"),
        (json.dumps(MOONCAKE | {"hash_ids": [0.5, 1]}), "line 2: hash_ids is .*wanted whole numbers"),
        (json.dumps(MOONCAKE | {"input_length": 0, "hash_ids": []}), "line 2: input_length is 0, wanted at least 1"),
        (json.dumps(MOONCAKE | {"timestamp": 10**310}), "line 2: timestamp is 10+.*wanted a number"),
        ('{"timestamp": 5, "timestamp": 6}', "line 2: 'timestamp' is stated twice, differently"),
    ],
)
def test_mooncake_record_that_cannot_be_is_refused(tmp_path, line, message):
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(MOONCAKE) + "\n" + line)
    with pytest.raises(ReadError, match=message):
        list(read_mooncake(path))


def test_a_key_stated_twice_alike_contradicts_nothing(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(MOONCAKE).replace("{", '{"timestamp": 5, '))
    assert [request.arrival_s for request in read_mooncake(path)] == [0.005]


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (read_azure, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,{},9\n"),
        (
            read_burstgpt,
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n{},ChatGPT,1,1,2,API log\n",
        ),
    ],
)
def test_numbers_of_hundreds_of_digits_are_refused(tmp_path, reader, text):
    path = tmp_path / "trace.csv"
    for digits in (310, 5000):
        path.write_text(text.format("1" + "0" * digits))
        with pytest.raises(ReadError, match="line 2: .*wanted a number"):
            list(reader(path))


def test_what_is_not_packed_is_not_unpacked(tmp_path):
    path = tmp_path / "trace.csv.gz"
    path.write_text("TIMESTAMP")
    with pytest.raises(ReadError, match="no gzip file"):
        list(read_azure(path))
