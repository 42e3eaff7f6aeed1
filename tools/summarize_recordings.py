"""Write data/latency_recordings.json from the recordings: what the latency chapter's panel needs, and no more.

``python tools/summarize_recordings.py``
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from calc.latency import Repeat, measure, observations, request_latency, shelf

DATA = Path(__file__).parent.parent / "data"
TARGET = DATA / "latency_recordings.json"
ARRIVALS, TAIL = "arrivals", "tail"


def us(seconds: float) -> int:
    return round(seconds * 1e6)


def load(repeat: Repeat) -> dict[str, Any]:
    """One repeat of the arrivals: four columns, a number for each request, in microseconds."""
    seen = observations(repeat.run)
    gaps = [request_latency(timeline).worst_gap_s for timeline in repeat.run.timelines]
    return {
        "per_s": repeat.parameters["per_s"],
        "repeat": repeat.number,
        "window_us": us(measure(repeat.run).duration_s),
        **{f"{name}_us": [us(value) for value in seen[name]] for name in ("ttft", "tpot", "e2e")},
        "gap_us": [us(gap) for gap in gaps],
    }


def hops(repeats: list[Repeat]) -> list[dict[str, Any]]:
    """The way to the first token behind a gateway, as three clocks saw it: the median request of each repeat."""

    def waits(repeat: Repeat) -> dict[str, list[float]]:
        rows = list(zip(repeat.run.timelines, repeat.gateway, repeat.engine, strict=True))
        return {
            "client": [t.chunks[0].time_s - t.sent_s for t, _, _ in rows],
            "gateway": [g["first_byte"] - g["forwarded"] for _, g, _ in rows],
            "gateway itself": [g["forwarded"] - g["received"] for _, g, _ in rows],
            "engine": [e["queue"] + e["prefill"] for _, _, e in rows],
            "queue": [e["queue"] for _, _, e in rows],
            "outside the engine": [t.chunks[0].time_s - t.sent_s - e["queue"] - e["prefill"] for t, _, e in rows],
        }

    seen = [waits(repeat) for repeat in repeats]
    return [{"name": name, "median_us": [us(median(one[name])) for one in seen]} for name in seen[0]]


def summary() -> dict[str, Any]:
    """The whole file."""
    arrivals = shelf(ARRIVALS)
    calm = [repeat for repeat in shelf(TAIL) if repeat.name == "nothing injected"]
    return {
        "source": f"data/measured/{ARRIVALS}.jsonl.gz and {TAIL}.jsonl.gz, summarized by tools/summarize_recordings.py",
        "loads": [load(repeat) for _, group in groupby(arrivals, lambda r: r.name) for repeat in group],
        "hops": hops(calm),
    }


def text(content: dict[str, Any]) -> str:
    """JSON with one load a line."""
    lines = [json.dumps(entry, separators=(",", ":")) for entry in content["loads"]]
    lists = {"loads": lines, "hops": [json.dumps(entry, separators=(",", ":")) for entry in content["hops"]]}
    parts = [f'"source": {json.dumps(content["source"])}']
    parts += [f'"{name}": [\n  ' + ",\n  ".join(rows) + "\n ]" for name, rows in lists.items()]
    return "{\n " + ",\n ".join(parts) + "\n}\n"


if __name__ == "__main__":
    TARGET.write_text(text(summary()), encoding="utf-8")
    print(f"{TARGET.relative_to(DATA.parent)}: {TARGET.stat().st_size:,} B")
