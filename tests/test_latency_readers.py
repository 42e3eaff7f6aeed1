"""Result files of the tools: read back to the tools' own summaries, and refused by line where they are broken."""

import csv
import gzip
import json
from itertools import pairwise
from pathlib import Path

import pytest

from calc.latency import (
    Objectives,
    dialects,
    measure,
    read_aiperf,
    read_guidellm,
    read_llmservingsim,
    read_result,
    read_shelf,
    read_ticks,
    read_vllm_bench,
    request_latency,
)
from calc.units import CalcError
from calc.workload import ReadError

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "tests" / "fixtures" / "latency"
NUMBERS = json.loads((FIXTURES / "tool_numbers.json").read_text(encoding="utf-8"))["tools"]
LIMITS = Objectives(ttft_s=0.3, tpot_s=0.025, e2e_s=0.6)  # those of tool_numbers.json

# Recordings of real GPU runs lie beside a checkout, where somebody has them; they are not part of the project.
RECORDINGS = ROOT.parent / "shared" / "profiles"
SUMMARIES = list(csv.DictReader((FIXTURES / "llmservingsim_summaries.csv").open(encoding="utf-8", newline="")))
RUNS = sorted({row["run"] for row in SUMMARIES})

READERS = {
    "vllm_bench.json": read_vllm_bench,
    "aiperf_profile_export.jsonl": read_aiperf,
    "guidellm.json": read_guidellm,
    "llmservingsim_requests.jsonl": read_llmservingsim,
    "shelf.jsonl": read_shelf,
    "llmservingsim_timeseries.csv": lambda path: list(read_ticks(path)),
}


def recording(run: str, part: str) -> Path:
    path = RECORDINGS / f"vllm_run_{run}_{part}"
    if not path.is_file():
        pytest.skip("the recordings of real runs are not beside this checkout")
    return path


def same_as_the_tool(run, tool, but=()):
    seen, own = measure(run, tool, objectives=LIMITS), NUMBERS[tool]
    for key, statistic in own["statistics"].items():
        assert seen.statistics[key].mean_s * 1000 == pytest.approx(statistic["mean_ms"], rel=1e-6)
        for p, value in statistic["percentiles_ms"].items():
            assert seen.statistics[key].percentiles[int(p)] * 1000 == pytest.approx(value, rel=1e-6), (key, p)
    for name in ("completed", "failed", "requests_per_s", "output_tokens_per_s", "goodput_per_s", "attainment"):
        if own.get(name) is not None and name not in but:
            assert getattr(seen, name) == pytest.approx(own[name], rel=1e-6), name


# --- vLLM bench -------------------------------------------------------------------------------------------------------


def test_vllm_bench_file_gives_the_tools_numbers():
    same_as_the_tool(read_vllm_bench(FIXTURES / "vllm_bench.json"), "vllm-bench")


def test_vllm_bench_file_reproduces_its_own_summary():
    run = read_vllm_bench(FIXTURES / "vllm_bench.json")
    seen = measure(run, "vllm-bench", objectives=LIMITS)
    for key, name in (("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2e", "e2el")):
        statistic = seen.statistics[key]
        assert statistic.mean_s * 1000 == pytest.approx(run.reported[f"mean_{name}_ms"])
        assert statistic.percentiles[99] * 1000 == pytest.approx(run.reported[f"p99_{name}_ms"])
    assert seen.requests_per_s == pytest.approx(run.reported["request_throughput"])
    assert seen.goodput_per_s == pytest.approx(run.reported["request_goodput"])
    assert seen.duration_s == run.reported["duration"]


def test_vllm_bench_knows_tokens_of_messages_only_where_there_is_one_each():
    plain, bundled, *_ = read_vllm_bench(FIXTURES / "vllm_bench.json").timelines
    assert [chunk.tokens for chunk in plain.chunks] == [1] * 5
    assert [chunk.tokens for chunk in bundled.chunks] == [None] * 3 and bundled.output_tokens == 9


def test_wait_in_the_clients_own_queue_is_kept(tmp_path):
    result = json.loads((FIXTURES / "vllm_bench.json").read_text())
    result["queue_times"] = [0.5] * len(result["queue_times"])
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result))
    run = read_vllm_bench(path)
    assert all(t.sent_s - t.due_s == pytest.approx(0.5) for t in run.timelines)
    assert min(t.due_s for t in run.timelines) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ttfts": None}, "a summary without its requests; run again with --save-detailed"),
        ({"start_times": None}, "an older vLLM wrote it"),
        ({"itls": [[0.1]]}, "itls has 1 entries, ttfts has 40"),
        ({"completed": 39}, "completed is 39, but 37 requests have no error"),
        ({"duration": "long"}, "duration is 'long', wanted a number"),
        ({"output_lens": ["x"] * 40}, "request 0: output_lens is 'x', wanted a number"),
        ({"ttfts": [-1.0] * 40}, "ttfts is .*wanted a list of numbers of at least 0"),
        ({"itls": [[0.1, None]] * 40}, "request 0: itls is"),
        ({"duration": 0.01}, "duration is 0.01 s, but the last token came 2.29 s after the first request"),
        ({"duration": 0}, "duration is 0 s, but the last token came"),
        ({"duration": 10**310}, "duration is 10+.*wanted a number"),
        ({"start_times": [10**310] * 40}, "start_times is .*wanted a list of numbers"),
        ({"output_lens": [10**310] * 40}, "output_lens is 10+.*wanted a number"),
        ({"total_output_tokens": 999}, "total_output_tokens is 999, but the requests without error hold 418"),
        ({"total_input_tokens": 1}, "total_input_tokens is 1, but the requests without error hold 1028"),
    ],
)
def test_vllm_bench_file_that_contradicts_itself_is_refused(tmp_path, change, message):
    result = json.loads((FIXTURES / "vllm_bench.json").read_text()) | change
    path = tmp_path / "result.json"
    path.write_text(json.dumps({key: value for key, value in result.items() if value is not None}))
    with pytest.raises(ReadError, match=message):
        read_vllm_bench(path)


@pytest.mark.parametrize("change", [{"duration": 3.1}, {"total_output_tokens": None, "total_input_tokens": None}])
def test_vllm_bench_file_may_round_its_duration_and_leave_out_totals(tmp_path, change):
    result = json.loads((FIXTURES / "vllm_bench.json").read_text()) | change
    path = tmp_path / "result.json"
    path.write_text(json.dumps({key: value for key, value in result.items() if value is not None}))
    assert len(read_vllm_bench(path).timelines) == 40


@pytest.mark.parametrize("lines", [1, 2])
def test_a_result_of_sglang_is_called_so(tmp_path, lines):
    result = json.loads((FIXTURES / "vllm_bench.json").read_text())
    del result["start_times"], result["queue_times"]
    path = tmp_path / "sglang.jsonl"
    path.write_text(lines * (json.dumps(result | {"total_output_tokens_retokenized": 418}) + "\n"))
    with pytest.raises(ReadError, match="SGLang's bench_serving wrote it.*run `vllm bench serve"):
        read_result(path)
    if lines == 1:
        with pytest.raises(ReadError, match="SGLang's bench_serving"):
            read_vllm_bench(path)


# --- AIPerf -----------------------------------------------------------------------------------------------------------


def test_aiperf_file_gives_the_tools_numbers():
    run = read_aiperf(FIXTURES / "aiperf_profile_export.jsonl")
    same_as_the_tool(run, "aiperf")
    assert next(t for t in run.timelines if t.id == "reasoning").chunks[0].kind == "reasoning"


def test_aiperf_phases_and_errors_become_status(tmp_path):
    records = [json.loads(line) for line in (FIXTURES / "aiperf_profile_export.jsonl").read_text().splitlines()]
    records[0]["metadata"]["benchmark_phase"] = "warmup"
    records[3]["error"]["type"] = "RequestTimeout"
    records[4]["metadata"]["was_cancelled"] = True
    records[1]["metadata"]["credit_issued_ns"] = records[1]["metadata"]["request_start_ns"] - 5_000_000
    records[2]["metadata"]["request_ack_ns"] = records[2]["metadata"]["request_start_ns"] + 2_000_000
    path = tmp_path / "profile_export.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    run = read_aiperf(path)
    assert request_latency(run.timelines[2]).first_byte_s == pytest.approx(0.002)
    assert run.timelines[0].warm_up and not run.timelines[1].warm_up
    assert [run.timelines[i].status for i in (1, 3, 4, 8)] == ["ok", "timeout", "cancelled", "failed"]
    assert run.timelines[1].sent_s - run.timelines[1].due_s == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("request_latency", {"value": 999.0, "unit": "ms"}, "line 1: .*request_latency is 0.999000 s"),
        ("time_to_first_token", {"value": 0.2, "unit": "GB"}, "line 1, metrics, time_to_first_token: unit is 'GB'"),
        ("inter_chunk_latency", {"value": [-1.0], "unit": "ms"}, "line 1, .*value is \\[-1.0\\]"),
        ("output_sequence_length", {"value": 1.5, "unit": "tokens"}, "line 1, .*wanted a whole number"),
        ("request_latency", None, "line 1, metrics: no field 'request_latency'"),
    ],
)
def test_aiperf_record_that_contradicts_itself_is_refused(tmp_path, field, value, message):
    record = json.loads((FIXTURES / "aiperf_profile_export.jsonl").read_text().splitlines()[0])
    record["metrics"][field] = value
    path = tmp_path / "profile_export.jsonl"
    path.write_text(json.dumps(record))
    with pytest.raises(CalcError, match=message):
        read_aiperf(path)


# --- GuideLLM ---------------------------------------------------------------------------------------------------------


def test_guidellm_report_gives_the_tools_numbers_and_reproduces_its_summary():
    (run,) = read_guidellm(FIXTURES / "guidellm.json")
    same_as_the_tool(run, "guidellm")
    seen = measure(run, "guidellm").statistics
    assert seen["ttft"].mean_s * 1000 == pytest.approx(run.reported["time_to_first_token_ms"])
    assert seen["tpot"].mean_s * 1000 == pytest.approx(run.reported["inter_token_latency_ms"])
    assert seen["normalized"].mean_s * 1000 == pytest.approx(run.reported["time_per_output_token_ms"])
    assert seen["e2e"].mean_s == pytest.approx(run.reported["request_latency"])


def test_guidellm_report_of_another_schema_is_refused_with_its_writer(tmp_path):
    report = json.loads((FIXTURES / "guidellm.json").read_text())
    path = tmp_path / "benchmarks.json"
    for change, message in (
        ({"metadata": {"version": 1, "guidellm_version": "0.3.0"}}, "schema 1, written by GuideLLM 0.3.0"),
        ({"metadata": {}}, "schema None"),
        ({"benchmarks": []}, "no benchmark in it"),
        ({"benchmarks": [7]}, r"benchmarks\[0\]: 7 where an object"),
    ):
        path.write_text(json.dumps(report | change))
        with pytest.raises(ReadError, match=message):
            read_guidellm(path)
    request = report["benchmarks"][0]["requests"]["successful"][2]
    request["info"]["timings"]["first_token_iteration"] += 100
    path.write_text(json.dumps(report))
    with pytest.raises(ReadError, match=r"successful\[2\]: .*must ascend.*damaged"):
        read_guidellm(path)


# --- LLMServingSim ----------------------------------------------------------------------------------------------------


def test_llmservingsim_run_by_hand():
    run = read_llmservingsim(FIXTURES / "llmservingsim_requests.jsonl", FIXTURES / "llmservingsim_meta.json")
    assert run.source == "vLLM 0.19.0, meta-llama/Llama-3.1-8B, A made-up GPU, recorded by LLMServingSim"
    first, second, third = run.timelines
    assert (first.sent_s, first.started_s, first.chunks[0].time_s, first.end_s) == (0, 0.25, 0.5, 1.5)
    assert first.chunks[1].tokens == 4 and not first.every_chunk
    assert second.every_chunk and third.every_chunk
    # the clocks are lined up where the way between them was shortest: at the first and the third request
    assert [t.sent_s - t.due_s for t in run.timelines] == pytest.approx([0, 0.25, 0])
    seen = measure(run).statistics
    assert seen["ttft"].mean_s == pytest.approx((0.5 + 0.5 + 0.75) / 3)
    assert seen["tpot"].mean_s == pytest.approx((0.25 + 0.25) / 2)
    assert seen["e2e"].mean_s == pytest.approx((1.5 + 0.5 + 1.0) / 3)


def test_llmservingsim_time_series_by_hand():
    ticks = list(read_ticks(FIXTURES / "llmservingsim_timeseries.csv"))
    assert [(tick.until_s, tick.running, tick.cache_share) for tick in ticks] == [(1, 2, 0.125), (2, 1, 0.25)]


def test_llmservingsim_run_that_is_not_whole_is_refused(tmp_path):
    lines = (FIXTURES / "llmservingsim_requests.jsonl").read_text().splitlines()
    path = tmp_path / "requests.jsonl"
    path.write_text("\n".join(lines[:2]))
    with pytest.raises(ReadError, match="num_requests is 3, wanted 2.*cut off"):
        read_llmservingsim(path, FIXTURES / "llmservingsim_meta.json")
    path.write_text("\n".join([lines[0], lines[1].replace("5001.5", "4001.5")]))
    with pytest.raises(ReadError, match="line 2: .*must ascend.*damaged"):
        read_llmservingsim(path)
    meta = tmp_path / "meta.json"
    meta.write_text('{"schema_version": 2}')
    with pytest.raises(ReadError, match="schema_version is 2, wanted 1"):
        read_llmservingsim(FIXTURES / "llmservingsim_requests.jsonl", meta)


@pytest.mark.parametrize("row", SUMMARIES, ids=lambda row: f"{row['run']}-{row['latency']}-{row['statistic']}")
def test_real_run_reproduces_its_published_summary(row):
    seen = measure(read_llmservingsim(recording(row["run"], "requests.jsonl"))).statistics[row["latency"]]
    value = seen.mean_s if row["statistic"] == "mean" else seen.percentiles[int(row["statistic"])]
    assert value * 1000 == pytest.approx(float(row["ms"]), abs=0.0501)  # printed to a tenth


@pytest.mark.parametrize("run", RUNS)
def test_real_run_conserves_tokens_and_keeps_its_clocks(run):
    recorded = read_llmservingsim(recording(run, "requests.jsonl"), recording(run, "meta.json"))
    ticks = list(read_ticks(recording(run, "timeseries.csv")))
    output, prompts = (sum(getattr(t, name) for t in recorded.timelines) for name in ("output_tokens", "prompt_tokens"))
    # ticks are a second long, so their rates are counts; a preempted prompt is prefilled again
    assert sum(tick.output_tokens_per_s for tick in ticks) == output
    assert sum(tick.prompt_tokens_per_s for tick in ticks) >= prompts
    assert all(later.until_s > earlier.until_s for earlier, later in pairwise(ticks))
    assert all(t.due_s <= t.sent_s + 1e-6 for t in recorded.timelines)  # a wall clock of 2026 has digits for 0.2 µs
    assert all(t.sent_s <= t.started_s <= t.chunks[0].time_s for t in recorded.timelines)


# --- the book's own recordings ----------------------------------------------------------------------------------------


def test_recording_by_hand():
    (repeat,) = read_shelf(FIXTURES / "shelf.jsonl")  # the second repeat was not accepted
    assert (repeat.setup, repeat.number, repeat.parameters["budget"]) == ("budget 512", 1, 512)
    assert repeat.run.source == "A chunk budget: budget 512, one long prompt, repeat 1"
    assert measure(repeat.run).duration_s == pytest.approx(4.199) and measure(repeat.run, "vllm-bench").duration_s == 5
    neighbor = measure(repeat.playing("neighbor")).statistics
    assert neighbor["ttft"].mean_s == pytest.approx(0.5)
    assert neighbor["itl"].max_s == pytest.approx(2.0)
    assert neighbor["tpot"].mean_s == pytest.approx(0.7)
    with pytest.raises(CalcError, match="no request plays 'short'.*use long, neighbor"):
        repeat.playing("short")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"schema": 1', '"schema": 2', "line 1: no header of schema 1"),
        ('"run": 0, "id": "b"', '"run": 1, "id": "b"', "line 4: run 1 is not among the accepted ones"),
        ('"chunk_tokens": [1, 1, 2]', '"chunk_tokens": [1, 1]', "line 3: chunk_tokens is .*wanted 3 counts"),
        ('"end_us": 2700000', '"end_us": 2', "line 3: .*must ascend.*damaged"),
        ('"kind": "request"', '"kind": "gauge"', "line 1: no request in this recording"),
    ],
)
def test_recording_that_contradicts_itself_is_refused(old, new, message, tmp_path):
    text = (FIXTURES / "shelf.jsonl").read_text()
    assert old in text
    path = tmp_path / "shelf.jsonl"
    path.write_text(text.replace(old, new))
    with pytest.raises(ReadError, match=message):
        read_shelf(path)


@pytest.mark.parametrize("path", sorted((ROOT / "data" / "measured").glob("*.jsonl.gz")), ids=lambda path: path.name)
def test_every_recording_of_traffic_can_be_measured_in_every_dialect(path):
    try:
        repeats = read_shelf(path)
    except ReadError as error:
        assert "no request in this recording" in str(error)  # starts, not traffic
        return
    for repeat in repeats:
        for tool in dialects():
            assert measure(repeat.run, tool).completed == len(repeat.run.timelines)


# --- any reader, any damage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", READERS)
def test_file_cut_off_anywhere_is_refused_or_is_a_whole_number_of_records(name, tmp_path):
    text = (FIXTURES / name).read_text(encoding="utf-8").strip()
    path = tmp_path / name
    refused = 0
    for end in range(0, len(text), max(1, len(text) // 60)):
        path.write_text(text[:end], encoding="utf-8")
        try:
            READERS[name](path)
        except ReadError as error:
            refused += 1
            assert name in str(error) and ("line" in str(error) or "empty" in str(error))
        else:
            assert not name.endswith(".json")  # a list of records may end after any of them
    assert refused > 40 or name.endswith(".csv")


@pytest.mark.parametrize("name", [name for name in READERS if not name.endswith(".csv")])
@pytest.mark.parametrize("junk", [None, -1, "x", [], {}, [None], 1e400, True])
def test_field_of_any_wrong_kind_is_refused_by_name_or_makes_no_difference(name, junk, tmp_path):
    text = (FIXTURES / name).read_text(encoding="utf-8")
    whole = json.loads(text) if name.endswith(".json") else json.loads(text.splitlines()[0])
    path = tmp_path / name

    def spoil(node, depth=0):
        for key in list(node) if isinstance(node, dict) else range(min(len(node), 1)):
            kept, node[key] = node[key], junk
            path.write_text(json.dumps(whole), encoding="utf-8")
            try:
                READERS[name](path)
            except ReadError as error:
                assert name in str(error)
            node[key] = kept
            if isinstance(kept, (dict, list)) and depth < 6:
                spoil(kept, depth + 1)

    spoil(whole)


@pytest.mark.parametrize("name", READERS)
def test_another_tools_file_is_refused_with_what_was_wanted(name):
    for other in READERS:
        if other != name:
            with pytest.raises(ReadError, match="wanted a|run again|cut off|no JSON"):
                READERS[name](FIXTURES / other)


@pytest.mark.parametrize("name", READERS)
def test_packed_file_reads_the_same_and_a_broken_one_is_refused(name, tmp_path):
    path = tmp_path / f"{name}.gz"
    packed = gzip.compress((FIXTURES / name).read_bytes())
    path.write_bytes(packed)
    assert READERS[name](path) == READERS[name](FIXTURES / name)
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(ReadError, match="cut off"):
        READERS[name](path)
    plain = tmp_path / name
    plain.write_bytes(packed)
    with pytest.raises(ReadError, match="not UTF-8 text; unpack it first"):
        READERS[name](plain)
    with pytest.raises(ReadError, match="give the path of an existing file"):
        READERS[name](tmp_path / "missing")
