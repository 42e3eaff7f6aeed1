"""A prompt in chunks: by hand, against the scheduler, against vLLM's own steps, and from recorded ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc import hardware, kv_cache, models, scheduling
from calc.panel import render
from calc.roofline import positions_read
from calc.scheduling import (
    Affine,
    Quadratic,
    Request,
    Sample,
    SchedulerConfig,
    SchedulingError,
    Setting,
    choose,
    fit_affine,
    fit_quadratic,
    prompt_floors,
    read_iterations,
    run,
    step_samples,
    undominated,
)
from calc.sources import data_path, load_json
from calc.units import CalcError
from calc.workload import ReadError

FIXTURES = Path(__file__).parent / "fixtures"


def prefill_rows(prompt, budget, decoding):
    """The rows of a prompt that arrives one step after others began to decode, from the scheduler."""
    scheduler = scheduling.Scheduler(SchedulerConfig(blocks=2000, token_budget=budget, sequences=decoding + 1))
    for i in range(decoding):
        scheduler.add(Request(i, 1, prompt + 2))
    scheduler.step()
    scheduler.add(Request("long", prompt, 1))
    rows = []
    while not rows or rows[-1].sampled == 0:
        rows += [row for row in scheduler.step().rows if row.name == "long"]
    return rows


# --- formulas ---


def test_twenty_thousand_tokens_by_hand():
    """2,048 less 3 is 2,045; nine of them are 18,405; 1,595 are left; 0 + 1 + … + 9 is 45."""
    room = scheduling.chunk(token_budget=2048, decode_tokens=3)
    steps = scheduling.chunks(prompt=20_000, chunk=room)
    again = scheduling.reread_positions(chunk=room, chunks=steps)
    assert (room, steps, again) == (2045, 10, 45 * 2045)
    assert scheduling.last_chunk(prompt=20_000, chunk=room, chunks=steps) == 1595
    assert scheduling.reread_bytes(bytes_per_position=327_680, reread_positions=again) == 45 * 2045 * 320 * 1024
    assert scheduling.reloaded_bytes(model_bytes=5, chunks=steps) == 45


@given(prompt=st.integers(1, 3000), budget=st.integers(2, 400), decoding=st.integers(0, 12))
def test_the_scheduler_cuts_as_the_formulas_say(prompt, budget, decoding):
    room = scheduling.chunk(token_budget=budget, decode_tokens=decoding)
    if room == 0:
        return
    rows = prefill_rows(prompt, budget, decoding)
    steps = scheduling.chunks(prompt=prompt, chunk=room)
    assert [row.tokens for row in rows[:-1]] == [room] * (steps - 1)
    assert rows[-1].tokens == scheduling.last_chunk(prompt=prompt, chunk=room, chunks=steps)
    assert sum(row.computed for row in rows) == scheduling.reread_positions(chunk=room, chunks=steps)


@given(prompt=st.integers(1, 5000), chunk=st.integers(1, 700))
def test_no_arithmetic_is_repeated(prompt, chunk):
    cuts = [(min(chunk, prompt - start), start) for start in range(0, prompt, chunk)]
    assert sum(positions_read(new=new, cached=start) for new, start in cuts) == positions_read(new=prompt, cached=0)


def test_decoding_requests_that_fill_the_step_leave_nothing():
    assert scheduling.chunk(token_budget=100, decode_tokens=100) == 0
    assert scheduling.chunk(token_budget=100, decode_tokens=120) == 0
    with pytest.raises(CalcError, match="chunk is 0"):
        scheduling.chunks(prompt=10, chunk=0)


@given(
    stalls=st.integers(1, 60),
    stall_s=st.floats(0.001, 2),
    gap=st.floats(0.001, 0.2),
    share=st.floats(0.0005, 0.9),
)
def test_a_share_and_the_rate_that_makes_it(stalls, stall_s, gap, share):
    rate = scheduling.stall_rate(stalls=stalls, stall_s=stall_s, other_gap_s=gap, stalled_share=share)
    back = scheduling.stalled_share(stalls=stalls, interval_s=1 / rate, stall_s=stall_s, other_gap_s=gap)
    assert back == pytest.approx(share, rel=1e-6)


def test_a_stalled_share_counted_gap_by_gap():
    """Ten seconds: 4 gaps of half a second, and 8 seconds of gaps of 20 ms."""
    gaps = [0.5] * 4 + [0.02] * 400
    assert sum(gaps) == pytest.approx(10)
    share = scheduling.stalled_share(stalls=4, interval_s=10, stall_s=0.5, other_gap_s=0.02)
    assert share == pytest.approx(4 / len(gaps))
    assert scheduling.stalled_share(stalls=4, interval_s=1, stall_s=0.5, other_gap_s=0.02) == 1


def test_impossible_steps_are_refused_in_words():
    with pytest.raises(CalcError, match="must have more tokens"):
        scheduling.token_slope(small_s=1, large_s=2, small_tokens=5, large_tokens=5)
    with pytest.raises(CalcError, match="may not be faster"):
        scheduling.token_slope(small_s=2, large_s=1, small_tokens=5, large_tokens=6)
    with pytest.raises(CalcError, match="at least 2"):
        scheduling.prompt_per_output(chunk=256, members=1)


# --- vLLM's own steps ---


def test_the_shipped_schedules_are_the_recorded_ones():
    shipped = load_json("chunked_schedules.json")
    for setting, name in zip(shipped["settings"], ("512", "2048", "off"), strict=True):
        record = json.loads((FIXTURES / f"vllm_0.32.0_chunked_{name}.json").read_text())
        assert setting["token_budget"] == record["config"]["max_num_batched_tokens"]
        assert setting["chunked_prefill"] == record["config"]["chunked_prefill"]
        assert [tuple(step) for step in setting["steps"]] == [
            (s["step"], s["total"] - s["scheduled"]["long"], s["scheduled"]["long"], s["computed_before"]["long"])
            for s in record["steps"]
            if "long" in s["scheduled"]
        ]


def test_chunks_of_the_formulas_are_those_of_vllm():
    shipped = load_json("chunked_schedules.json")
    for setting in shipped["settings"]:
        steps = [step for step in setting["steps"] if step[3] < shipped["prompt"]]
        room = scheduling.chunk(token_budget=setting["token_budget"], decode_tokens=shipped["decoding"]["requests"])
        count = scheduling.chunks(prompt=shipped["prompt"], chunk=room)
        assert len(steps) == count
        assert steps[-1][2] == scheduling.last_chunk(prompt=shipped["prompt"], chunk=room, chunks=count)
        assert sum(step[3] for step in steps) == scheduling.reread_positions(chunk=room, chunks=count)


# --- floors ---


def test_floors_of_chunks_add_up_to_the_work_of_the_whole():
    model, chip = models.load("llama-3.1-8b"), hardware.accelerator("h100-sxm")
    given_ = {"ranks": 2, "element": "bf16", "decoding": 0, "context": 0}
    cut = prompt_floors(model, chip, prompt=5000, chunk=1500, **given_)
    (whole,) = prompt_floors(model, chip, prompt=5000, chunk=5000, **given_)
    head = whole.work.group("head").flop  # the output layer sees the last token of every chunk
    assert sum(f.work.flop for f in cut) == pytest.approx(whole.work.flop + 3 * head)
    again = scheduling.reread_positions(chunk=1500, chunks=4)
    each = kv_cache.layout(model, element="bf16", ranks=2).bytes_per_position
    assert sum(f.work.cache_bytes for f in cut) == again * each
    assert whole.work.cache_bytes == 0
    assert sum(f.seconds for f in cut) >= whole.seconds


def test_requests_that_decode_at_the_same_place_as_a_chunk_are_not_lost():
    model, chip = models.load("llama-3.1-8b"), hardware.accelerator("h100-sxm")
    floors = prompt_floors(
        model, chip, prompt=3, chunk=1, ranks=1, element="bf16", decoding=2, context=0
    )  # a chunk of one token looks like a decoding request
    assert [floor.work.sequences for floor in floors] == [3, 3, 3]


# --- step times ---


def synthetic(base, prefill, decode, cached, pair):
    loads = [(n, 0, 0, 0) for n in (16, 64, 256, 1024, 2048)]
    loads += [(0, 0, b, b * c) for b in (1, 4, 16) for c in (128, 2048)]
    loads += [(256, p, 2, 900) for p in (0, 4000)]
    return [
        Sample(
            time_s=base + prefill * n + decode * b + cached * c + pair * positions_read(new=n, cached=p),
            prefill_tokens=n,
            prefix_positions=p,
            decode_sequences=b,
            decode_positions=c,
        )
        for n, p, b, c in loads
    ]


def test_a_fit_finds_what_made_the_samples():
    found = fit_quadratic(synthetic(5e-3, 2e-4, 3e-4, 1e-7, 2e-8))
    wanted = Quadratic(base_s=5e-3, prefill_token_s=2e-4, decode_sequence_s=3e-4, cached_token_s=1e-7, pair_s=2e-8)
    for name in wanted.__dataclass_fields__:
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-6), name
    plain = [s for s in synthetic(5e-3, 2e-4, 3e-4, 1e-7, 0) if not s.prefix_positions]
    straight = fit_affine(plain)
    assert straight.base_s == pytest.approx(5e-3) and straight.prefill_token_s == pytest.approx(2e-4)


def test_a_fit_never_goes_below_zero_and_says_what_it_needs():
    falling = [Sample(time_s=1.0 - n / 1000, prefill_tokens=n) for n in (1, 100, 200)]
    fitted = fit_affine(falling)
    assert fitted.prefill_token_s == 0 < fitted.base_s
    assert fitted.decode_sequence_s == fitted.cached_token_s == 0
    for samples in ([], [Sample(time_s=0.0)]):
        with pytest.raises(SchedulingError, match="time above 0"):
            fit_affine(samples)


def test_a_quadratic_step_time_runs_and_agrees_with_the_line_where_there_are_no_pairs():
    requests = [Request("a", 700, 5), Request("b", 40, 9)]
    config = SchedulerConfig(blocks=1000, token_budget=256)
    line = Affine(base_s=0.01, prefill_token_s=1e-4, decode_sequence_s=1e-3)
    curve = Quadratic(base_s=0.01, prefill_token_s=1e-4, decode_sequence_s=1e-3)
    first, second = (run(requests, config, model).times().latency_s() for model in (line, curve))
    assert first == pytest.approx(second)
    slower = Quadratic(base_s=0.01, prefill_token_s=1e-4, decode_sequence_s=1e-3, pair_s=1e-7)
    ledger = run(requests, config, slower)
    pairs = positions_read(new=700, cached=0) + positions_read(new=40, cached=0)
    without = run(requests, config, curve).times().makespan_s()
    assert ledger.times().makespan_s() == pytest.approx(without + pairs * 1e-7)


def recorded(tmp_path, rows, name="steps.jsonl.gz"):
    header = {"kind": "header", "schema": 1, "title": "t"}
    path = tmp_path / name
    path.write_bytes(gzip.compress("\n".join(json.dumps(row) for row in (header, *rows)).encode()))
    return path


def log_of(number, parameters, prefill, decode, elapsed, at):
    run_ = {"kind": "run", "run": number, "setup": "grid", "name": f"r{number}", "repeat": 0, "accepted": True}
    steps = {"kind": "steps", "run": number, "at_us": at, "elapsed_us": elapsed}
    steps |= {"prefill_requests": [int(n > 0) for n in prefill], "prefill_tokens": prefill}
    return [run_ | {"parameters": parameters}, steps | {"decode_requests": decode, "decode_tokens": decode}]


def test_steps_are_read_and_become_samples(tmp_path):
    rows = log_of(0, {"prompt_tokens": [16, 32]}, [16, 32], [0, 0], [10_000, 20_000], [100, 50_000])
    rows += log_of(1, {"context_tokens": 100, "batch": 2}, [2, 0, 0, 0], [0, 2, 2, 2], [9, 7000, 7000, 7000],
                   [0, 9000, 8000, 8000])  # fmt: skip
    logs = read_iterations(recorded(tmp_path, rows))
    assert [(log.name, len(log.iterations)) for log in logs] == [("r0", 2), ("r1", 4)]
    assert [round(i.at_s, 6) for i in logs[1].iterations] == [0, 0.009, 0.017, 0.025]
    *prompts, batch = step_samples(logs)
    assert [(s.prefill_tokens, round(s.time_s, 6)) for s in prompts] == [(16, 0.011), (32, 0.021)]  # and 1 ms beyond
    assert (batch.decode_sequences, batch.decode_positions, round(batch.time_s, 6)) == (2, 205, 0.008)


def test_a_recording_without_steps_is_refused(tmp_path):
    rows = log_of(0, {}, [16], [0], [10], [10])
    with pytest.raises(ReadError, match="no steps"):
        read_iterations(recorded(tmp_path, rows[:1]))
    rows[1]["at_us"] = [1, 2]
    with pytest.raises(ReadError, match="columns of equal length"):
        read_iterations(recorded(tmp_path, rows))
    plain = tmp_path / "other.jsonl"
    plain.write_text('{"kind": "start"}\n')
    with pytest.raises(ReadError, match="no header"):
        read_iterations(plain)
    with pytest.raises(SchedulingError, match="no batch decodes"):
        step_samples(())


def test_the_recorded_grid_is_fitted_better_with_pairs():
    samples = step_samples(read_iterations(data_path() / "measured" / "steps.jsonl.gz"))
    assert {s.prefill_tokens for s in samples if s.prefill_tokens} == {16, 32, 64, 128, 256, 512, 1024, 2048}
    assert {s.decode_sequences for s in samples} == {0, 1, 2, 4, 8, 16}

    def off(model, s):
        row = (
            scheduling.Row("d", 1, s.decode_positions, 0, decodes=True)
            if s.decode_sequences
            else scheduling.Row("p", s.prefill_tokens, 0, 0)
        )
        pair = positions_read(new=s.prefill_tokens, cached=0) * getattr(model, "pair_s", 0)
        time = model.base_s + model.prefill_token_s * s.prefill_tokens + pair
        time += model.decode_sequence_s * s.decode_sequences + model.cached_token_s * row.computed
        return abs(time / s.time_s - 1)

    straight, curved = fit_affine(samples), fit_quadratic(samples)
    assert sum(off(curved, s) ** 2 for s in samples) < sum(off(straight, s) ** 2 for s in samples)
    assert curved.pair_s > 0


# --- choosing ---


def settings_of(*pairs):
    return [Setting(name=str(i), waits_s=waits, gaps_s=gaps) for i, (waits, gaps) in enumerate(pairs)]


def test_the_quickest_within_the_limit_is_chosen():
    settings = settings_of(((3.0, 3.1, 3.2), (0.1, 0.1, 0.1)), ((2.0, 2.1, 2.2), (0.2, 0.2, 0.3)),
                           ((1.0, 1.0, 1.1), (0.9, 1.0, 1.0)))  # fmt: skip
    assert choose(settings, gap_limit_s=0.25).chosen is settings[0]  # one repeat of the second is over the limit
    assert choose(settings, gap_limit_s=0.3).chosen is settings[1]
    assert choose(settings, gap_limit_s=2).chosen is settings[2]
    nothing = choose(settings, gap_limit_s=0.05)
    assert nothing.chosen is nothing.quickest is None and nothing.allowed == nothing.alike == ()


def test_waits_that_overlap_are_not_told_apart():
    settings = settings_of(((2.0, 2.1, 2.2), (0.1, 0.1, 0.1)), ((1.9, 2.0, 2.05), (0.3, 0.3, 0.3)))
    choice = choose(settings, gap_limit_s=1)
    assert choice.quickest is settings[1] and choice.chosen is settings[0]
    assert choice.alike == tuple(settings)


def test_bad_choices_are_refused():
    with pytest.raises(SchedulingError, match="nothing to choose from"):
        choose([], gap_limit_s=1)
    for limit in (0, -1, float("inf"), float("nan")):
        with pytest.raises(SchedulingError, match="seconds above 0"):
            choose(settings_of(((1,), (1,))), gap_limit_s=limit)
    with pytest.raises(SchedulingError, match="of each repeat"):
        Setting(name="x", waits_s=(1, 2), gaps_s=(1,))


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=9))
def test_the_front_holds_exactly_what_nothing_beats(pairs):
    settings = settings_of(*(((w,), (g,)) for w, g in pairs))
    front = undominated(settings)
    for s in settings:
        beaten = any(o.wait_s <= s.wait_s and o.gap_s <= s.gap_s and (o.wait_s, o.gap_s) != (s.wait_s, s.gap_s)
                     for o in settings)  # fmt: skip
        assert (s in front) == (not beaten)
    assert [s.wait_s for s in front] == sorted(s.wait_s for s in front)


# --- the panel ---

INPUTS = {"model": "llama-3.1-70b", "chip": "h100-sxm", "ranks": 8, "element": "bf16", "prompt": 20_000}
INPUTS |= {"budget": 2048, "decoding": 3, "context": 100}


def shown(**changed):
    return json.loads(render("calc.scheduling:chunk_panel", json.dumps(INPUTS | changed), '{"budget": "Token budget"}'))


def test_the_panel_says_what_the_chapter_says():
    panel = shown()
    rows = {row["label"]: row["text"] for row in panel["rows"]}
    assert rows["Prompt tokens in a step"] == "2,045"
    assert rows["Steps until its first output token"] == "10"
    assert rows["Cached positions that its chunks read"] == "92,025"
    assert rows["Bytes of them, all GPUs together"] == "28.08 GiB"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"budget": 32_768}, "fits in one step and reads nothing again. The others wait for all of it"),
        ({"budget": 32_768, "decoding": 0}, "fits in one step and reads nothing again. Nobody decodes"),
        ({"decoding": 0}, "only adds steps"),
        ({"budget": 128}, "above that of one step"),
        ({"prompt": 1}, "fits in one step"),
        ({"prompt": 262_144, "budget": 8192}, "made for 131,072 positions; this is more"),
    ],
)
def test_what_the_panel_means_is_true_at_the_edges(changed, words):
    assert words in shown(**changed)["meaning"]


def test_the_panel_does_not_charge_the_cut_with_the_work_of_the_others():
    """With 128 streams of 64K tokens, steps are all theirs; the prompt's own floor is what 1 or 10 streams leave it."""
    crowded = shown(decoding=128, context=65_536, budget=2048 + 125)
    assert "within 0.1%: on paper the cut is free" in crowded["meaning"]
    assert "within 0.1%: on paper the cut is free" in shown()["meaning"]


def test_the_panel_refuses_in_the_readers_words():
    refused = shown(budget=128, decoding=200)
    assert not refused["ok"]
    assert "“Token budget” is 128" in refused["error"]
    endless = shown(prompt=65_536, budget=257, decoding=256)
    assert not endless["ok"] and "65,536 steps: raise it" in endless["error"]
