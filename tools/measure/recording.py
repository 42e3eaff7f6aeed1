"""One file per recording: gzip-compressed JSON lines, a header first. Writing, reading, and what must hold.

The columns are explained in data/measured/README.md.
"""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path

SCHEMA = 1
REPEATS = 3
FOREIGN_SHARE_LIMIT = 0.05
ATTEMPTS = 4
RULE = (
    f"A repeat during which processes other than the run's own used more than {FOREIGN_SHARE_LIMIT:.0%} of the "
    f"machine's CPU time is rejected and recorded again, at most {ATTEMPTS} attempts in all. Nothing else is rejected."
)
HEADER = {
    "schema": int,
    "name": str,
    "title": str,
    "date": str,
    "machine": dict,
    "versions": dict,
    "commands": dict,
    "environment": dict,
    "model": dict,
    "seed": int,
    "repeats": int,
    "foreign_share_limit": float,
    "attempts": int,
    "rule": str,
    "foreign_share": dict,
    "rejected": int,
}
RUN = {
    "run": int,
    "setup": str,
    "name": str,
    "parameters": dict,
    "repeat": int,
    "attempt": int,
    "accepted": bool,
    "foreign_share": float,
    "started": str,
    "duration_us": int,
}
REQUEST = {
    "run": int,
    "id": str,
    "role": str,
    "due_us": int,
    "sent_us": int,
    "prompt_tokens": int,
    "max_tokens": int,
    "chunk_us": list,
    "chunk_tokens": list,
    "end_us": int,
}
STEPS = ("at_us", "prefill_requests", "prefill_tokens", "decode_requests", "decode_tokens", "elapsed_us")
GATEWAY = ("received_us", "forwarded_us", "first_byte_us", "last_byte_us")


def write(path: Path, header: dict, rows: Iterable[dict]) -> None:
    """Write a recording whole or not at all; the same content gives the same bytes."""
    lines = [json.dumps(row, separators=(",", ":")) for row in ({"kind": "header", **header}, *rows)]
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as file:
        file.write(("\n".join(lines) + "\n").encode())
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(buffer.getvalue())
    os.replace(partial, path)


def read(path: Path) -> tuple[dict, list[dict]]:
    """Header and rows of a recording."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        header, *rows = map(json.loads, file)
    return header, rows


def undo_deltas(values: list[int]) -> list[int]:
    """Times from a first time and the differences after it."""
    total, times = 0, []
    for value in values:
        total += value
        times.append(total)
    return times


def to_deltas(times: list[int]) -> list[int]:
    return [time - before for before, time in zip([0, *times], times, strict=False)]


def faults(header: dict, rows: list[dict], repeats: int = REPEATS) -> list[str]:
    """What is wrong with a recording, in words; empty if all holds."""
    found = _missing("header", header, HEADER)
    runs = {row["run"]: row for row in rows if row["kind"] == "run"}
    kinds = {row["kind"] for row in rows}
    if strange := kinds - {"run", "request", "steps", "gauge", "start"}:
        found.append(f"unknown kinds of row: {sorted(strange)}")
    accepted: dict[tuple[str, str], int] = {}
    for number, run in runs.items():
        found += _missing(f"run {number}", run, RUN)
        key = run["setup"], run["name"]
        accepted[key] = accepted.get(key, 0) + run["accepted"]
        if run["accepted"] != (run["foreign_share"] <= header["foreign_share_limit"]):
            found.append(f"run {number}: accepted is {run['accepted']} at a foreign share of {run['foreign_share']}")
        if run["setup"] not in header["commands"]:
            found.append(f"run {number}: no command for setup {run['setup']}")
    for (setup, name), count in accepted.items():
        if count < repeats:
            found.append(f"{setup}, {name}: {count} accepted repeats, {repeats} wanted")
    with_rows = set()
    requests: dict[int, list[dict]] = {}
    for row in rows:
        if row["kind"] == "request":
            requests.setdefault(row["run"], []).append(row)
    for row in rows:
        run = runs.get(row["run"])
        where = f"{row['kind']} of run {row['run']}"
        if run is None or (row["kind"] != "run" and not run["accepted"]):
            found.append(f"{where}: there is no such accepted run")
        elif row["kind"] == "request":
            with_rows.add(row["run"])
            found += _request_faults(row, run)
        elif row["kind"] == "steps":
            found += _steps_faults(where, row, requests.get(row["run"], []))
        elif row["kind"] == "start":
            with_rows.add(row["run"])
            times = list(row["marks_us"].values())
            if times != sorted(times) or times[0] != 0:
                found.append(f"{where}: marks are not in order from 0")
    if empty := [number for number, run in runs.items() if run["accepted"] and number not in with_rows]:
        found.append(f"accepted runs without rows: {empty}")
    return found


def _missing(where: str, row: dict, wanted: dict[str, type]) -> list[str]:
    wrong = [(name, kind.__name__) for name, kind in wanted.items() if type(row.get(name)) is not kind]
    return [f"{where}: {name} is not {kind}" for name, kind in wrong]


def _request_faults(row: dict, run: dict) -> list[str]:
    where = f"run {row['run']}, request {row['id']}"
    found = _missing(where, row, REQUEST)
    if found:
        return found
    chunks = undo_deltas(row["chunk_us"])
    clocks = [0, row["due_us"], row["sent_us"], *chunks, row["end_us"], run["duration_us"]]
    if clocks != sorted(clocks):
        found.append(f"{where}: clocks run backwards")
    if len(row["chunk_us"]) != len(row["chunk_tokens"]):
        found.append(f"{where}: {len(row['chunk_us'])} times for {len(row['chunk_tokens'])} chunks")
    if sum(row["chunk_tokens"]) != row["max_tokens"]:
        found.append(f"{where}: chunks hold {sum(row['chunk_tokens'])} tokens, {row['max_tokens']} were asked for")
    if "output" in row and len(row["output"]) != row["max_tokens"]:
        found.append(f"{where}: output has {len(row['output'])} tokens, {row['max_tokens']} were asked for")
    if "engine" in row:
        spans = row["engine"]
        inside = spans["queue_us"] + spans["prefill_us"] + spans["decode_us"]
        if min(spans.values()) < 0 or inside > row["end_us"] - row["sent_us"]:
            found.append(f"{where}: the engine's spans do not fit into the client's")
    if "gateway" in row:
        stamps = [row["sent_us"], *(row["gateway"][name] for name in GATEWAY)]
        if stamps != sorted(stamps) or stamps[3] > chunks[0] or stamps[4] > row["end_us"]:
            found.append(f"{where}: the gateway's clocks are out of order")
    if "accepted" in row:
        # the prefill gives the first token; each round its accepted drafts and one more; the last may be cut short
        made = 1 + sum(row["accepted"]) + len(row["accepted"])
        if made < row["max_tokens"] or any(a > d for a, d in zip(row["accepted"], row["drafted"], strict=True)):
            found.append(f"{where}: rounds make {made} tokens of {row['max_tokens']}")
    return found


def _steps_faults(where: str, row: dict, requests: list[dict]) -> list[str]:
    """The engine's log of a run against the client's: every token is worked on once, drafts included."""
    if any(len(row[name]) != len(row["at_us"]) for name in STEPS):
        return [f"{where}: columns of different length"]
    found = []
    if any(delta < 0 for delta in row["at_us"]):
        found.append(f"{where}: steps are not in order of time")
    prefill = sum(r["prompt_tokens"] - r["cached_tokens"] for r in requests)
    decode = sum(sum(r["drafted"]) + len(r["drafted"]) if "drafted" in r else r["max_tokens"] - 1 for r in requests)
    for name, wanted in (("prefill_tokens", prefill), ("decode_tokens", decode)):
        if sum(row[name]) != wanted:
            found.append(f"{where}: {name} sum to {sum(row[name])}, the requests to {wanted}")
    return found
