"""A start: by hand, against paths counted one by one, against printed starts and loads, and its properties."""

from __future__ import annotations

import gzip
import itertools
import json
from dataclasses import replace
from pathlib import Path
from statistics import mean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc import queueing, startup
from calc.models import load
from calc.parameters import count
from calc.sources import load_json
from calc.startup import Lever, Phase, StartUp
from calc.units import CalcError, UnitError, registry
from calc.workload import ReadError, Spread

SHARED = Path(__file__).parents[2] / "shared"
GB = 1e9


def start(**changed) -> StartUp:
    """A start by hand, in round numbers: 140 GB, 70 + 20 + 0.35 s of hops."""
    given = {
        **{"checkpoint_bytes": 140 * GB, "ranks": 8, "object_rate": 2 * GB, "disk_rate": 7 * GB},
        **{"link_rate": 50 * GB, "image_bytes": 10 * GB, "image_rate": GB, "imports_s": 20, "ranks_s": 6},
        **{"trace_s": 5, "compile_s": 40, "layout_s": 3, "capture_s": 30, "warmup_s": 4, "probe_period_s": 2},
    }
    return StartUp(**given | changed)


# --- the graph -----------------------------------------------------------------------------------


@st.composite
def graphs(draw) -> list[Phase]:
    """Phases that wait for any of those before them, in any order."""
    size = draw(st.integers(1, 9))
    found = []
    for i in range(size):
        after = draw(st.lists(st.integers(0, i - 1), unique=True, max_size=3)) if i else []
        found.append(Phase(f"p{i}", draw(st.integers(0, 50)), tuple(f"p{j}" for j in after)))
    return draw(st.permutations(found))


def all_paths(phases: list[Phase]) -> list[list[Phase]]:
    """Every way from a phase that waits for nothing to one that nobody waits for."""
    named = {phase.name: phase for phase in phases}
    waited_for = {name for phase in phases for name in phase.after}

    def back(phase: Phase) -> list[list[Phase]]:
        if not phase.after:
            return [[phase]]
        return [[*path, phase] for name in phase.after for path in back(named[name])]

    return [path for phase in phases if phase.name not in waited_for for path in back(phase)]


def length(path: list[Phase], **changed: float) -> float:
    return sum(changed.get(phase.name, phase.seconds) for phase in path)


@given(graphs())
def test_total_and_slack_are_those_of_the_paths(phases):
    found, paths = startup.schedule(phases), all_paths(phases)
    assert found.total_s == max(map(length, paths))
    assert startup.longest_path(sorted(phases, key=lambda phase: phase.name)) == found.total_s  # names are in order
    for timed in found.phases:
        through = max(length(path) for path in paths if any(phase.name == timed.name for phase in path))
        assert timed.slack_s == pytest.approx(found.total_s - through)
        assert timed.end_s - timed.start_s == timed.seconds
    named = {phase.name: phase for phase in phases}
    assert length([named[name] for name in found.path]) == found.total_s
    assert not named[found.path[0]].after
    assert all(a in named[b].after for a, b in itertools.pairwise(found.path))
    assert all(found[name].slack_s == 0 for name in found.path)


@given(graphs(), st.integers(0, 120), st.data())
def test_allowance_is_the_longest_that_still_keeps_the_goal(phases, goal, data):
    name = data.draw(st.sampled_from([phase.name for phase in phases]))
    allowed = startup.allowance(phases, name, goal)
    if allowed is None:
        assert startup.schedule(startup.lasting(phases, name, 0)).total_s > goal
    else:
        assert startup.schedule(startup.lasting(phases, name, allowed)).total_s <= goal + 1e-6
        assert startup.schedule(startup.lasting(phases, name, allowed + 1)).total_s > goal


@given(graphs())
def test_a_cut_gains_no_more_than_the_phase_and_nothing_off_the_critical_paths(phases):
    found = startup.cuts(phases)
    paths = all_paths(phases)
    total = max(map(length, paths))
    for cut in found:
        assert 0 <= cut.halved_s <= cut.removed_s <= cut.seconds
        assert cut.removed_s == total - max(length(path, **{cut.name: 0}) for path in paths)
        if cut.slack_s > 0:
            assert cut.removed_s == 0
    assert [cut.removed_s for cut in found] == sorted((cut.removed_s for cut in found), reverse=True)


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ([], "no phase: give at least one"),
        ([Phase("a", 1), Phase("a", 2)], "two phases are called 'a'"),
        ([Phase("a", 1, ("b",))], "'a' waits for 'b', which is no phase: there is a"),
        ([Phase("a", 1, ("a",))], "in a circle: a → a"),
        ([Phase("a", -1)], "'a' takes -1 s, wanted a number of at least 0"),
        ([Phase("a", float("nan"))], "takes nan s"),
        ([Phase("a", float("inf"))], "takes inf s"),
        ([Phase("a", "1")], "takes '1' s"),
    ],
)
def test_an_impossible_graph_is_refused_by_name(phases, message):
    with pytest.raises(CalcError, match=message):
        startup.schedule(phases)


def test_a_circle_is_named_phase_by_phase():
    circle = [Phase("a", 1, ("c",)), Phase("b", 1, ("a",)), Phase("c", 1, ("b",)), Phase("d", 1)]
    with pytest.raises(CalcError) as refused:
        startup.schedule(circle)
    assert all(f"{name} →" in str(refused.value) for name in "abc") and "d →" not in str(refused.value)


def test_an_unknown_phase_is_refused_by_name():
    found = startup.schedule([Phase("a", 1)])
    with pytest.raises(CalcError, match="no phase 'b': there is a"):
        found["b"]
    with pytest.raises(CalcError, match="no phase 'b': there is a"):
        startup.lasting([Phase("a", 1)], "b", 2)
    with pytest.raises(CalcError, match="no phase 'b'"):
        startup.allowance([Phase("a", 1)], "b", 2)


def test_a_schedule_renders_as_a_table():
    html = startup.schedule(
        [Phase("load", 80), Phase("compile", 30), Phase("go", 5, ("load", "compile"))]
    )._repr_html_()
    assert "critical" in html and "50 s" in html and "A start of 85 s" in html


# --- a chain of hops -----------------------------------------------------------------------------


@given(st.lists(st.integers(0, 30), min_size=1, max_size=5), st.integers(1, 60))
def test_the_formula_of_a_chain_is_what_playing_it_through_gives(hops, pieces):
    formula = startup.pipelined_seconds(fill_seconds=sum(hops), pieces=pieces, slowest_seconds=max(hops))
    assert formula == startup.walk_chain(hops, pieces)
    assert max(hops) * pieces <= formula <= sum(hops) * pieces


def test_many_pieces_leave_the_slowest_hop_alone():
    whole = [70.0, 20.0, 0.35]
    times = [startup.walk_chain([seconds / pieces for seconds in whole], pieces) for pieces in (1, 10, 1000)]
    assert times[0] == sum(whole)
    assert times == sorted(times, reverse=True)
    assert times[-1] == pytest.approx(70, abs=0.03)


def test_a_chain_without_hops_or_pieces_is_refused():
    for hops, pieces in (([], 1), ([1.0], 0)):
        with pytest.raises(CalcError, match="at least one hop and one piece"):
            startup.walk_chain(hops, pieces)


# --- a replica -----------------------------------------------------------------------------------


def test_one_after_another_is_the_sum_by_hand():
    by_hand = 10 + 20 + 6 + 70 + 20 + 0.35 + 5 + 40 + 3 + 30 + 4 + 1
    found = startup.schedule(startup.phases(start()))
    assert found.total_s == pytest.approx(by_hand)
    assert all(timed.slack_s == 0 for timed in found.phases)


def test_side_by_side_is_the_longer_of_two_paths_by_hand():
    found = startup.schedule(startup.phases(start(order="side by side")))
    engine, weights = 10 + 20 + 6 + 5 + 40 + 3 + 30, 70 + 20 + 0.35
    assert found.total_s == pytest.approx(max(engine, weights) + 4 + 1)
    assert found["fetch weights"].slack_s == pytest.approx(engine - weights)
    slow = startup.schedule(startup.phases(start(order="side by side", object_rate=GB)))
    assert slow.total_s == pytest.approx(140 + 20 + 0.35 + 5)
    assert "compile" not in slow.path and "fetch weights" in slow.path


def test_a_stream_is_the_slowest_hop_and_waits_for_the_engine():
    streamed = start(streamed=True, piece_bytes=GB)
    assert [hop.way for hop in startup.hops(streamed)] == ["object storage to host", "host to GPU, each over its link"]
    each = [70 / 140, 0.35 / 140]
    assert startup.stream_seconds(streamed) == pytest.approx(startup.walk_chain(each, 140))
    found = startup.schedule(startup.phases(replace(streamed, order="side by side")))
    assert found["stream weights"].start_s == 36
    disk = start(streamed=True, weights_from="disk")
    assert startup.stream_seconds(disk) == pytest.approx(20, abs=0.01)


def test_weights_in_host_memory_pass_the_links_alone():
    (hop,) = startup.hops(start(weights_from="host memory", every_rank_reads_all=True))
    assert hop.seconds == 140 / 8 / 50
    names = [phase.name for phase in startup.phases(start(weights_from="host memory", streamed=True))]
    assert "copy weights" in names and "stream weights" not in names


def test_ranks_that_read_everything_read_it_once_each():
    once, all_of_it = (startup.hops(start(every_rank_reads_all=every)) for every in (False, True))
    assert [hop.seconds for hop in once] == [70, 20, 0.35]
    assert [hop.seconds for hop in all_of_it] == [70, 160, 0.35]  # downloaded once, read by each
    streamed = startup.hops(start(every_rank_reads_all=True, streamed=True))
    assert [hop.seconds for hop in streamed] == [560, 0.35]


def test_a_download_to_the_disk_is_no_faster_than_the_disk_and_a_stream_is():
    staged = startup.hops(start(object_rate=20 * GB))
    assert [hop.seconds for hop in staged] == [20, 20, 0.35]
    assert startup.hops(start(object_rate=20 * GB, streamed=True))[0].seconds == 7


def test_a_share_of_the_rates_makes_every_hop_longer():
    full, half = startup.hops(start()), startup.hops(start(reached=0.5))
    assert [b.seconds / a.seconds for a, b in zip(full, half, strict=True)] == [2, 2, 2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"checkpoint_bytes": 0}, "checkpoint_bytes is 0"),
        ({"ranks": 0}, "ranks is 0"),
        ({"ranks": 2.5}, "ranks is 2.5"),
        ({"object_rate": -1}, "object_rate is -1"),
        ({"reached": 1.2}, "reached is 1.2, wanted at most 1"),
        ({"reached": 0}, "reached is 0"),
        ({"compile_s": float("nan")}, "compile_s is nan"),
        ({"weights_from": "tape"}, "weights_from is 'tape', wanted one of object storage, disk, host memory"),
        ({"order": "at once"}, "order is 'at once', wanted one of one after another, side by side"),
    ],
)
def test_an_impossible_start_is_refused(changed, message):
    with pytest.raises(CalcError, match=message):
        start(**changed)


STARTS = st.builds(
    start,
    weights_from=st.sampled_from(sorted(startup.WEIGHTS_FROM)),
    streamed=st.booleans(),
    every_rank_reads_all=st.booleans(),
    object_rate=st.floats(0.1 * GB, 50 * GB),
    disk_rate=st.floats(0.1 * GB, 50 * GB),
    reached=st.floats(0.05, 1),
    imports_s=st.floats(0, 60),
    compile_s=st.floats(0, 200),
    capture_s=st.floats(0, 100),
)


@given(STARTS)
def test_side_by_side_is_never_longer_and_never_shorter_than_any_one_phase(given_start):
    row = startup.schedule(startup.phases(given_start))
    beside = startup.schedule(startup.phases(replace(given_start, order="side by side")))
    longest = max(phase.seconds for phase in startup.phases(given_start))
    assert longest <= beside.total_s <= row.total_s * (1 + 1e-9)
    assert row.total_s == pytest.approx(sum(phase.seconds for phase in startup.phases(given_start)))


@given(STARTS)
def test_a_lever_gains_no_more_than_it_takes_off_the_phases_unless_it_reorders(given_start):
    for order in startup.ORDERS:
        now = replace(given_start, order=order)
        levers = startup.usual_levers(now, compile_kept_s=3, captures_kept=0.2, ranks_kept_s=2)
        gains = startup.ranked(now, levers)
        assert [gain.start_s for gain in gains] == sorted((gain.start_s for gain in gains), reverse=True)
        for gain in gains:
            if gain.lever.name not in {"phases side by side", "weights streamed"} and gain.phases_s >= 0:
                assert gain.start_s <= gain.phases_s + 1e-6
            assert startup.apply(now, [gain.lever]) != now


def test_levers_by_hand():
    levers = startup.usual_levers(start(), compile_kept_s=3, captures_kept=0.5, ranks_kept_s=2)
    gains = {gain.lever.name: gain for gain in startup.ranked(start(), levers)}
    assert "each rank reads its share" not in gains
    assert gains["compiled code kept"].start_s == pytest.approx(42)  # 5 s of tracing and 40 s become 3
    assert gains["fewer graphs"].start_s == pytest.approx(15)
    assert gains["storage twice as fast"].start_s == pytest.approx(45)
    assert gains["weights kept in host memory"].start_s == pytest.approx(90)
    assert gains["phases side by side"].phases_s == 0
    assert gains["phases side by side"].start_s == pytest.approx(209.35 - 119)
    beside = start(order="side by side")
    gains = {gain.lever.name: gain for gain in startup.ranked(beside, levers)}
    assert gains["storage twice as fast"].start_s == 0  # 45 s off the phases, nothing off the start
    assert gains["storage twice as fast"].phases_s == pytest.approx(45)


def test_what_storage_may_take_by_hand():
    kept = start(image_bytes=0, trace_s=0, compile_s=3, capture_s=5)
    rest = 20 + 6 + 0.35 + 3 + 3 + 5 + 4 + 1
    assert startup.storage_allowance(kept, goal_s=60) == pytest.approx(60 - rest)
    beside = replace(kept, order="side by side")
    assert startup.storage_allowance(beside, goal_s=60) == pytest.approx(60 - 0.35 - 5)
    streamed = replace(beside, streamed=True)
    assert startup.storage_allowance(streamed, goal_s=60) == pytest.approx(60 - 26 - 5)
    assert startup.storage_allowance(start(), goal_s=60) is None
    with pytest.raises(CalcError, match="no storage is read"):
        startup.storage_allowance(start(weights_from="host memory"), goal_s=60)


def test_the_smallest_set_is_the_smallest_and_the_best_of_its_size():
    levers = startup.usual_levers(start(), compile_kept_s=3, captures_kept=0.5, ranks_kept_s=2)
    assert startup.smallest_set(start(), levers, goal_s=1000) == ()
    assert startup.smallest_set(start(), levers, goal_s=1) is None
    chosen = startup.smallest_set(start(), levers, goal_s=60)
    totals = {
        tuple(lever.name for lever in names): startup.schedule(startup.phases(startup.apply(start(), names))).total_s
        for size in range(len(chosen) + 1)
        for names in itertools.combinations(levers, size)
    }
    reached = totals[tuple(lever.name for lever in chosen)]
    assert reached <= 60
    assert all(total > 60 for names, total in totals.items() if len(names) < len(chosen))
    assert reached == min(total for names, total in totals.items() if len(names) == len(chosen))
    with pytest.raises(CalcError, match="13 levers have too many combinations"):
        startup.smallest_set(start(), [Lever(str(i)) for i in range(13)], goal_s=60)


def test_the_shortest_set_leaves_out_a_lever_that_does_harm():
    now = start(order="side by side", imports_s=60, compile_s=5, capture_s=3)
    levers = startup.usual_levers(now, compile_kept_s=3, captures_kept=0.5, ranks_kept_s=2)
    levers = [lever for lever in levers if lever.name != "weights kept in host memory"]
    sets = [some for size in range(len(levers) + 1) for some in itertools.combinations(levers, size)]
    totals = [startup.schedule(startup.phases(startup.apply(now, some))).total_s for some in sets]
    best = sets.index(startup.shortest_set(now, levers))
    assert totals[best] == min(totals) < totals[-1]  # a stream waits for the engine
    assert all(total > totals[best] for total, some in zip(totals, sets, strict=True) if len(some) < len(sets[best]))
    assert startup.shortest_set(now, []) == ()
    with pytest.raises(CalcError, match="13 levers have too many combinations"):
        startup.shortest_set(now, [Lever(str(i)) for i in range(13)])


def test_a_lever_on_what_no_start_has_is_refused():
    with pytest.raises(CalcError, match="lever 'x' changes color, which no start has"):
        startup.apply(start(), [Lever("x", {"color": 1})])
    with pytest.raises(CalcError, match="captures_kept is 2, wanted a share"):
        startup.usual_levers(start(), compile_kept_s=3, captures_kept=2, ranks_kept_s=2)


# --- formulas ------------------------------------------------------------------------------------


def test_a_request_rate_lies_between_waiting_and_flowing():
    fast = {"request_bytes": 4096, "nominal_rate": 5e9}
    assert startup.request_rate(delay=0, **fast) == 5e9
    assert startup.request_rate(delay=1, **fast) == pytest.approx(4096, rel=1e-5)
    sizes = [startup.request_rate(request_bytes=2**p, delay=0.0005, nominal_rate=5e9) for p in range(12, 34)]
    assert sizes == sorted(sizes) and sizes[-1] == pytest.approx(5e9, rel=0.001)


def test_quantities_are_converted_and_checked():
    Q = registry().Quantity
    rate = startup.average_rate(moved_bytes=Q(3.4213, "GiB"), elapsed=Q(690, "ms"))
    assert rate.to("GiB/s").magnitude == pytest.approx(4.958, abs=0.001)
    with pytest.raises(UnitError, match="elapsed is B"):
        startup.average_rate(moved_bytes=1, elapsed=Q(1, "byte"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: startup.average_rate(moved_bytes=1, elapsed=0), "elapsed is 0"),
        (lambda: startup.seconds_left(total_seconds=1, taken_seconds=2), "nothing is left"),
        (lambda: startup.drain_seconds(backlog=5, served_rate=4, arrival_rate=4), "the queue never drains"),
        (lambda: startup.pieces(checkpoint_bytes=1, piece_bytes=0), "piece_bytes is 0"),
        (lambda: startup.payback_steps(extra_seconds=1, saved_per_step=0), "saved_per_step is 0"),
        (lambda: Spread.of([]), "no repeat"),
    ],
)
def test_impossible_arguments_are_refused(call, message):
    with pytest.raises(CalcError, match=message):
        call()


@given(st.integers(2, 9), st.integers(20, 60))
def test_the_flow_is_what_evenly_spaced_requests_do(arrive, start_s):
    """From none to one replica: the first service is the start itself, the others come one after another."""
    each = 2 * arrive
    arrivals = [0.0, *((k + 1) / arrive for k in range(5 * arrive * start_s))]
    services = [float(start_s), *(1 / each for _ in arrivals[1:])]
    waits = queueing.fifo_waits(arrivals, services)[1:]
    queue = startup.backlog(arrival_rate=arrive, served_rate=0, start_seconds=start_s)
    held = sum(at <= start_s for at in arrivals[1:])
    assert queue == held == arrive * start_s
    last = max(at for at, wait in zip(arrivals[1:], waits, strict=True) if wait > 1.5 / each)
    drained = startup.drain_seconds(backlog=queue, served_rate=each, arrival_rate=arrive)
    assert last - start_s == pytest.approx(drained, abs=4 / arrive)
    assert max(waits) == pytest.approx(start_s, abs=2 / arrive)


# --- others' starts and loads --------------------------------------------------------------------


def test_printed_starts_add_up_to_what_was_printed():
    for slug, entry in load_json("startup.json")["starts"].items():
        found = startup.published_starts()[slug]
        parts = sum(phase["seconds"] for phase in entry["phases"])
        assert sum(found.parts.values()) == pytest.approx(parts)
        assert found.total_s == pytest.approx(parts, abs=0.011), slug
        assert found.url.startswith("https://github.com/") and found.note
        assert {phase["group"] for phase in entry["phases"]} <= {"set-up", "weights", "compile", "capture", "rest"}
    shares = [found.weights_share for found in startup.published_starts().values()]
    assert min(shares) < 0.02 and max(shares) < 0.5


def test_what_others_print_for_kept_code_says_when_and_where():
    newer, older = load_json("startup.json")["compiled_code_kept"]
    assert newer["seconds"] < 0.2 * older["seconds"]  # the later engine keeps the trace too
    for entry in (newer, older):
        assert entry["url"].endswith(entry["source"].rpartition("#")[2]) and entry["when"] and entry["note"]


@pytest.mark.parametrize(("file", "loader"), [("safetensors", "safetensors"), ("serverlessllm", "ServerlessLLM")])
def test_load_statistics_are_those_of_the_shared_file(file, loader):
    path = SHARED / "profiles" / f"load_h100_llama31_8b_{file}.json"
    if not path.is_file():
        pytest.skip("the shared profiles are not on this machine")
    times = [row["loading_time"] for row in json.loads(path.read_text())]
    (row,) = [
        row for row in load_json("startup.json")["loads"]["rows"]
        if (row["model"], row["loader"]) == ("llama-3.1-8b", loader)
    ]  # fmt: skip
    assert row["runs"] == len(times)
    assert row["mean_s"] == pytest.approx(mean(times), abs=5e-6)
    assert row["median_s"] == pytest.approx(median(times), abs=5e-6)
    assert (row["least_s"], row["most_s"]) == pytest.approx((min(times), max(times)), abs=5e-6)


def test_no_load_from_the_disks_is_faster_than_the_disks_and_one_from_the_page_cache_is():
    loads = startup.published_loads()
    assert all(load.least_s <= load.mean_s <= load.most_s for load in loads)
    assert all(load.reached < 1 for load in loads if load.test == "random")
    (cached,) = [load for load in loads if (load.loader, load.test) == ("ServerlessLLM", "cached")]
    assert cached.reached > 1.7
    assert cached.checkpoint_bytes == 2 * count(load("qwen3-32b")).total


# --- recordings ----------------------------------------------------------------------------------


HEADER = {"kind": "header", "schema": 1, "title": "by hand"}
MARKS = {"spawned": 0, "server imported": 4_000_000, "weights loaded": 9_000_000, "first token": 12_500_000}


def written(path: Path, *rows: dict) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("\n".join(json.dumps(row) for row in rows))
    return path


def run(number: int, accepted: bool = True) -> dict:
    return {"kind": "run", "run": number, "repeat": number, "accepted": accepted}


def started(number: int, marks: dict = MARKS, state: str = "all warm") -> dict:
    return {"kind": "start", "run": number, "state": state, "cached_share": 0.5, "marks_us": marks}


def test_a_recorded_start_is_read(tmp_path):
    slower = {name: 2 * at for name, at in MARKS.items()}
    rows = (HEADER, run(0), run(1, accepted=False), run(2), started(0), started(2, slower))
    one, two = startup.read_starts(written(tmp_path / "x.jsonl.gz", *rows))
    assert (one.state, one.repeat, one.cached_share, one.total_s) == ("all warm", 0, 0.5, 12.5)
    assert one.phases == {"server imported": 4.0, "weights loaded": 5.0, "first token": 3.5}
    assert one.parts == {"imports": 4.0, "weights": 5.0, "engine, server": 3.5}
    summary = startup.by_state([one, two])["all warm"]
    assert summary["total"] == Spread(18.75, 12.5, 25.0, 2)
    assert summary["weights"] == Spread(7.5, 5.0, 10.0, 2)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((HEADER, run(0)), "no start in this recording"),
        ((HEADER | {"schema": 2}, run(0), started(0)), "no header of schema 1"),
        ((HEADER, run(0, accepted=False), started(0)), "line 3: run 0 is not among the accepted ones"),
        ((HEADER, run(0), started(0, {"spawned": 0, "a": 5, "b": 3})), "wanted times in order from 0"),
        ((HEADER, run(0), started(0, {"spawned": 0})), "wanted times in order from 0, two at least"),
        ((HEADER, run(0), started(0, {"spawned": 0, "a": -3})), "a"),
    ],
)
def test_a_damaged_recording_is_refused(tmp_path, rows, message):
    with pytest.raises(ReadError, match=message):
        startup.read_starts(written(tmp_path / "x.jsonl.gz", *rows))


def test_the_books_own_recording():
    if not startup.recording().is_file():
        pytest.skip("not recorded yet")
    starts = startup.read_starts(startup.recording())
    states = startup.by_state(starts)
    assert len(states) == 3
    for parts in states.values():
        assert parts["total"].repeats >= 3
        assert set(parts) - {"total"} <= set(startup.PARTS.values())
    assert all(sum(s.parts.values()) == pytest.approx(s.total_s) for s in starts)
    warm, cold = states["all warm"]["total"], states["nothing cached"]["total"]
    assert warm.high < cold.low


# --- the panel -----------------------------------------------------------------------------------

INPUTS = {
    **{"model": "llama-3.1-70b", "stored_as": "bf16", "ranks": 8, "place": "staged from object storage"},
    **{"storage_gb": 2.5, "setup_s": 80, "compile_s": 85, "capture_s": 60, "order": "one after another"},
}


def shown(**changed) -> dict[str, str]:
    return {row.label: row.text for row in startup.startup_panel(**INPUTS | changed).rows}


def test_the_panel_by_hand():
    weights = 2 * count(load("llama-3.1-70b")).total
    moving = 2 * weights / 2.5e9 + weights / 8 / 64e9
    assert shown()["The start"] == f"{80 + 85 + 60 + 15 + moving:.4g} s"
    assert shown()["Storage that a minute would take"] == "no rate is enough"
    assert shown()["Halve this first, and gain"] == f"the time of storage, {weights / 2.5e9:.4g} s"
    assert shown(storage_gb=100)["Halve this first, and gain"] == "compilation, 42.5 s"
    quick = shown(setup_s=10, compile_s=5, capture_s=5)
    left = 60 - 10 - 5 - 5 - 15 - weights / 8 / 64e9
    assert quick["Storage that a minute would take"] == f"{2 * weights / left / 1e9:.4g} GB/s"
    beside = shown(order="side by side", storage_gb=5)
    assert beside["What the weights add to it"] == "nothing"


@pytest.mark.parametrize("place", startup.PLACES)
@pytest.mark.parametrize("order", startup.ORDERS)
def test_the_rate_for_a_minute_gives_a_minute(place, order):
    given = {"setup_s": 10, "compile_s": 5, "capture_s": 5, "place": place, "order": order}
    said = shown(**given)["Storage that a minute would take"]
    if place == "host memory":
        assert said == "none is read"
    else:
        rate = float(said.removesuffix(" GB/s"))
        assert float(shown(**given, storage_gb=rate)["The start"].removesuffix(" s")) == pytest.approx(60, rel=0.002)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"storage_gb": 0}, "storage_gb is 0"),
        ({"setup_s": -1}, "setup_s is -1"),
        ({"place": "tape"}, "place is 'tape'"),
        ({"order": "at once"}, "order is 'at once'"),
        ({"stored_as": "bf15"}, "bf15"),
    ],
)
def test_the_panel_refuses_in_its_own_words(changed, message):
    with pytest.raises(CalcError, match=message):
        startup.startup_panel(**INPUTS | changed)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: startup.storage_allowance(start(), goal_s=float("nan")), "goal_s is nan"),
        (lambda: startup.pieces(checkpoint_bytes=1, piece_bytes=1e-320), "wanted a byte at least"),
        (lambda: startup.walk_chain([1.0], pieces=10**400), "pieces is a number of more than 40 digits"),
        (lambda: startup.walk_chain([1.0], pieces=2**21), "wanted 1,048,576 at most"),
        (lambda: startup.walk_chain([float("nan")], pieces=1), "hop_seconds is nan"),
    ],
)
def test_what_no_start_has_is_refused(call, message):
    with pytest.raises(CalcError, match=message):
        call()
