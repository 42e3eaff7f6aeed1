"""Write data/tail_cases.json from the recording of slow tails: what the chapter's panel needs, and no more.

``python tools/summarize_tail.py``
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from calc.tail import cases
from calc.tail._summary import digest

DATA = Path(__file__).parent.parent / "data"
TARGET = DATA / "tail_cases.json"
SLOW_S = 0.07  # more than twice the median of the runs in which nothing was injected


def text(content: dict[str, Any]) -> str:
    """JSON with one slow request a line."""

    def short(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"))

    parts = []
    for case in content["cases"]:
        head = ", ".join(f'"{name}": {short(case[name])}' for name in ("name", "requests", "median_us", "slowest_us"))
        rows = ",\n    ".join(map(short, case["slow"]))
        parts.append(f'{{{head}, "slow": [\n    {rows}\n  ]}}')
    head = ",\n ".join(f'"{name}": {short(content[name])}' for name in ("source", "slow_us", "segments", "times"))
    return f'{{\n {head},\n "cases": [\n  ' + ",\n  ".join(parts) + "\n ]\n}\n"


if __name__ == "__main__":
    TARGET.write_text(text(digest(cases(), SLOW_S)), encoding="utf-8")
    print(f"{TARGET.relative_to(DATA.parent)}: {TARGET.stat().st_size:,} B")
