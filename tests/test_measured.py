"""The recordings in data/measured hold together, and the check that says so catches what it is for."""

from __future__ import annotations

import copy
import random
from pathlib import Path

import pytest
from measure import engines, environment, recording, shelf
from measure.__main__ import Recorder, TooBusy

FOLDER = Path(__file__).parent.parent / "data" / "measured"
FILES = sorted(FOLDER.glob("*.jsonl.gz"))
LIMIT_BYTES = 10_000_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[0])
def test_recording_holds_together(path: Path) -> None:
    header, rows = recording.read(path)
    assert f"{header['name']}.jsonl.gz" == path.name
    assert header["repeats"] >= recording.REPEATS
    assert recording.faults(header, rows, header["repeats"]) == []


def test_folder_is_small_and_its_readme_names_every_file_and_the_rule() -> None:
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < LIMIT_BYTES
    text = " ".join((FOLDER / "README.md").read_text(encoding="utf-8").split())
    assert [path.name for path in files if path.name not in text and path.name != "README.md"] == []
    assert recording.RULE in text


def seen(header: dict, rows: list[dict]) -> str:
    """The line of the README's table on what a recording saw: accepted and rejected repeats, noise, a late client."""
    late = [row["sent_us"] - row["due_us"] for row in rows if row["kind"] == "request"]
    share = header["foreign_share"]
    accepted = sum(row["kind"] == "run" and row["accepted"] for row in rows)
    cells = (
        f"`{header['name']}`",
        header["date"],
        str(accepted),
        str(header["rejected"]),
        f"{100 * share['median']:.1f}%, {100 * share['max']:.1f}%",
        f"{max(late) / 1000:.1f} ms" if late else "no requests",
    )
    return f"| {' | '.join(cells)} |"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[0])
def test_the_readme_says_what_was_seen_and_on_which_machine(path: Path) -> None:
    header, rows = recording.read(path)
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert seen(header, rows) in text.splitlines(), seen(header, rows)
    machine = header["machine"]
    assert f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.1f} GiB" in text
    assert machine["kernel"] in text
    assert all(f"{name} {version}" in text for name, version in header["versions"].items())


def small_recording() -> tuple[dict, list[dict]]:
    """Three accepted repeats of two requests behind a gateway, by hand; the second finds a block cached."""
    kinds = {int: 1, str: "x", float: 0.05, bool: True, dict: {}}
    header = {name: kinds[kind] for name, kind in recording.HEADER.items()}
    header |= {"commands": {"one": ["engine"]}, "repeats": 3}
    rows: list[dict] = []
    for number in range(3):
        run = {name: kinds[kind] for name, kind in recording.RUN.items()}
        run |= {
            "kind": "run",
            "run": number,
            "setup": "one",
            "accepted": True,
            "foreign_share": 0.01,
            "duration_us": 900,
        }
        rows.append(run)
        for i, cached in enumerate((0, 128)):
            request = {
                "kind": "request",
                "run": number,
                "id": f"{number}-{i}",
                "role": "load",
                "due_us": 10,
                "sent_us": 20,
            }
            request |= {"prompt_tokens": 200, "max_tokens": 4, "chunk_us": [300, 100, 100], "chunk_tokens": [1, 2, 1]}
            request |= {"end_us": 510, "output": [7, 8, 9, 7], "cached_tokens": cached}
            request |= {"engine": {"queue_us": 5, "prefill_us": 250, "decode_us": 190}}
            request |= {"gateway": {"received_us": 30, "forwarded_us": 40, "first_byte_us": 290, "last_byte_us": 505}}
            request |= {"accepted": [1, 0], "drafted": [2, 2]}
            rows.append(request)
        steps = {"at_us": [290, 100, 100], "prefill_requests": [2, 0, 0], "prefill_tokens": [272, 0, 0]}
        steps |= {"decode_requests": [0, 2, 2], "decode_tokens": [0, 6, 6], "elapsed_us": [240, 90, 90]}
        rows.append({"kind": "steps", "run": number, **steps})
    return header, rows


def test_a_sound_recording_has_no_faults() -> None:
    assert recording.faults(*small_recording()) == []


def request_of(rows: list[dict]) -> dict:
    return next(row for row in rows if row["kind"] == "request")


def steps_of(rows: list[dict]) -> dict:
    return next(row for row in rows if row["kind"] == "steps")


BREAKAGES = {
    "header: machine is not dict": lambda header, rows: header.pop("machine"),
    "header: seed is not int": lambda header, rows: header.update(seed="1"),
    "due_us is not int": lambda header, rows: request_of(rows).pop("due_us"),
    "unknown kinds of row": lambda header, rows: rows.append({"kind": "remark", "run": 0}),
    "no command for setup": lambda header, rows: header.update(commands={}),
    "2 accepted repeats, 3 wanted": lambda header, rows: rows[0].update(accepted=False, foreign_share=0.4),
    "accepted is True at a foreign share of 0.4": lambda header, rows: rows[0].update(foreign_share=0.4),
    "there is no such accepted run": lambda header, rows: request_of(rows).update(run=9),
    "accepted runs without rows": lambda header, rows: rows.append({**rows[0], "run": 9}),
    "clocks run backwards": lambda header, rows: request_of(rows).update(chunk_us=[300, -100, 100]),
    "3 times for 2 chunks": lambda header, rows: request_of(rows).update(chunk_tokens=[2, 2]),
    "chunks hold 3 tokens, 4 were asked for": lambda header, rows: request_of(rows).update(chunk_tokens=[1, 1, 1]),
    "output has 1 tokens": lambda header, rows: request_of(rows).update(output=[7]),
    "spans do not fit": lambda header, rows: request_of(rows)["engine"].update(queue_us=200),
    "gateway's clocks are out of order": lambda header, rows: request_of(rows)["gateway"].update(received_us=10),
    "rounds make 2 tokens of 4": lambda header, rows: request_of(rows).update(accepted=[0], drafted=[2]),
    "columns of different length": lambda header, rows: steps_of(rows).update(at_us=[290]),
    "steps are not in order": lambda header, rows: steps_of(rows).update(at_us=[290, -100, 100]),
    "prefill_tokens sum to 200": lambda header, rows: steps_of(rows).update(prefill_tokens=[200, 0, 0]),
    "decode_tokens sum to 9": lambda header, rows: steps_of(rows).update(decode_tokens=[0, 6, 3]),
}


@pytest.mark.parametrize("message", BREAKAGES)
def test_a_broken_recording_is_caught(message: str) -> None:
    header, rows = copy.deepcopy(small_recording())
    BREAKAGES[message](header, rows)
    assert any(message in fault for fault in recording.faults(header, rows)), recording.faults(header, rows)


def test_marks_of_a_start_must_be_in_order() -> None:
    header, rows = small_recording()
    marks = {"spawned": 0, "weights loaded": 400, "healthy": 300}
    rows.append({"kind": "start", "run": 0, "state": "all warm", "cached_share": 1.0, "marks_us": marks})
    assert "marks are not in order" in "".join(recording.faults(header, rows))


def test_what_is_written_is_read_and_the_same_bytes_come_again(tmp_path: Path) -> None:
    header, rows = small_recording()
    first, second = tmp_path / "first.jsonl.gz", tmp_path / "second.jsonl.gz"
    recording.write(first, header, rows)
    recording.write(second, header, rows)
    assert recording.read(first) == ({"kind": "header", **header}, rows)
    assert first.read_bytes() == second.read_bytes()
    assert not list(tmp_path.glob("*.partial"))


def test_deltas_give_the_times_back() -> None:
    times = [5, 5, 9, 20]
    assert recording.to_deltas(times) == [5, 0, 4, 11]
    assert recording.undo_deltas(recording.to_deltas(times)) == times


# --- the tool itself, without an engine


def test_a_machine_that_cannot_record_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.platform, "system", lambda: "Darwin")
    assert "Linux on x86_64; this is Darwin" in environment.obstacles()[0]
    monkeypatch.setattr(environment.platform, "system", lambda: "Linux")
    monkeypatch.setattr(environment.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(environment, "available_memory_bytes", lambda: 2**30)
    monkeypatch.setattr(environment.os, "sched_getaffinity", lambda _pid: {0}, raising=False)
    text = "\n".join(environment.obstacles())
    assert "6 GiB of memory; 1.0 GiB are available" in text and "need 2 cores; this process may use 1" in text


@pytest.mark.parametrize("which", [which for which in shelf.RECORDINGS if which.setups], ids=lambda which: which.name)
def test_all_setups_of_a_recording_get_the_same_distinct_requests(which: shelf.Recording) -> None:
    drawn: dict[str, list] = {}
    for setup in which.setups(quick=False):
        for run in setup.runs:
            requests = run.draw(random.Random(1))
            assert drawn.setdefault(run.name, requests) == requests
            assert len({request.id for request in requests}) == len(requests)
            assert all(request.prompt_tokens + request.max_tokens <= engines.MAX_POSITIONS for request in requests)
    assert drawn


def test_an_injected_cause_touches_few_requests_and_changes_no_others() -> None:
    (setup,) = shelf.RECORDINGS[[which.name for which in shelf.RECORDINGS].index("tail")].setups(quick=False)
    drawn = {run.name: run.draw(random.Random(1)) for run in setup.runs}
    plain = drawn.pop("nothing injected")
    for name, requests in drawn.items():
        touched = [request for request in requests if request not in plain]
        assert 1 <= len(touched) <= 0.05 * len(plain) + 1, name
        assert len({request.role for request in touched}) == (2 if name == "two causes" else 1)


def test_the_engines_log_becomes_columns(tmp_path: Path) -> None:
    step = "MainProcess | Engine 000: Iteration(4): 1 context requests, 200 context tokens, 2 generation requests, "
    rest = "2 generation tokens, iteration elapsed time: 12.50 ms, CPU KV cache usage: 0.3%"
    queue = (
        "Engine 000: Avg prompt throughput: 1.0 tokens/s, Running: 3 reqs, Waiting: 5 reqs, GPU KV cache usage: 1.5%"
    )
    lines = [f"10.000001 {step}{rest}", "a line of another kind", f"10.000501 {step}{rest}", f"10.000700 M | {queue}"]
    log = tmp_path / "engine.log"
    log.write_text("\n".join([f"9.999999 {step}{rest}", *lines]) + "\n")
    engine = engines.Process(("-c", ""), 0, log)
    engine.wall_minus_monotonic_ns = 0
    steps, gauge = engine.engine_rows(7, 10_000_000_000, 11_000_000_000)
    assert steps == {"kind": "steps", "run": 7, "at_us": [1, 500], "prefill_requests": [1, 1]} | {
        "prefill_tokens": [200, 200],
        "decode_requests": [2, 2],
        "decode_tokens": [2, 2],
        "elapsed_us": [12500, 12500],
    }
    assert gauge == {"kind": "gauge", "run": 7, "at_us": [700], "running": [3], "waiting": [5], "cache_permille": [15]}


class Silent:
    """A progress bar that shows nothing."""

    def update(self) -> None: ...

    def write(self, text: str) -> None: ...


def test_a_busy_repeat_is_recorded_again_and_leaves_only_its_line() -> None:
    recorder = Recorder(quick=False, progress=Silent())
    shares = iter([0.4, 0.05, 0.0])
    for repeat in range(2):
        recorder.attempt(
            "one", "load", {}, repeat, lambda number: (5, next(shares), [{"kind": "request", "run": number}])
        )
    seen = [(run["run"], run["repeat"], run["attempt"], run["accepted"]) for run in recorder.runs]
    assert seen == [(0, 0, 0, False), (1, 0, 1, True), (2, 1, 0, True)]
    assert [row["run"] for row in recorder.rows] == [1, 2]


def test_a_machine_that_stays_busy_is_given_up() -> None:
    recorder = Recorder(quick=False, progress=Silent())
    with pytest.raises(TooBusy, match="more than 5% of the machine during all 4 attempts"):
        recorder.attempt("one", "load", {}, 0, lambda number: (5, 0.4, []))
    assert recorder.rows == []
