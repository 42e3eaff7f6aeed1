"""The recordings in data/measured hold together, and the check that says so catches what it is for."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from measure import recording

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
