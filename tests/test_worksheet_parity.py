"""The worksheet says in the browser's Python what it says in CPython, to the letter, over a grid of forms.

Here Pyodide runs in Node, which is quick; tests/site/test_live_worksheet.py drives the page itself.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from pathlib import Path

import pytest

from calc import worksheet
from calc.models import catalogue
from calc.sources import load_json
from calc.worksheet import form

SIZE = 120
NUMBERS = {
    "count": [None, 8, 16],
    "tensor": [1, 2, 4, 8, 3],
    "pipeline": [1, 2],
    "context": [1, 1000, 8192, 131_072],
    "output": [1, 512, 4096],
    "concurrency": [1, 16, 300],
    "ttft_s": [None, 50, 2000],
    "tpot_s": [None, 5.5, 50],
    "memory_fraction": [None, 0.5, 0.92, 1.5],
    "lora_rank": [8, 64],
    "lora_slots": [0, 8],
    "draft_tokens": [1, 3, 7],
    "acceptance": [0, 70, 99],
    "reached": [30, 100],
}


@pytest.fixture(scope="session")
def calls():
    rng = random.Random(0)
    choices = {f.name: list(f.choices) for f in form() if f.choices} | NUMBERS
    choices |= {"expert_parallel": [False, True], "prefix_caching": [False, True]}
    pasted = [json.dumps(load_json("models", f"{slug}.json")["config"]) for slug in catalogue()]
    choices |= {"own": [*pasted, "{", '{"model_type": "mystery"}']}
    drawn = []
    for slug in rng.choices(choices.pop("config"), k=SIZE):
        some = rng.sample(sorted(choices), 6)
        drawn.append({"config": slug} | {name: rng.choice(choices[name]) for name in some})
    found = [("worksheet_json", json.dumps(given)) for given in drawn]
    found += [("export_json", json.dumps(given), kind) for given in drawn[:6] for kind in ("json", "csv", "markdown")]
    log = "Model loading took 16.46 GiB\nAvailable KV cache memory: 50.11 GiB\nGPU KV cache size: 1,313,000 tokens"
    return found + [("log_json", json.dumps({"log": log, "form": given})) for given in drawn[:20]]


def test_the_worksheet_agrees_with_cpython(calls, site):
    answers = subprocess.run(
        ["node", Path(__file__).parent / "site" / "render.mjs", site / "_static" / "live"],
        input=json.dumps([[f"calc.worksheet:{name}", *arguments] for name, *arguments in calls]),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for (name, *arguments), got in zip(calls, json.loads(answers), strict=True):
        want = getattr(worksheet, name)(*arguments)
        if name == "export_json":  # raw numbers: later Pythons add a row of floats with one digit more
            got, want = rounded(got), rounded(want)
        assert got == want, (name, arguments)


def rounded(text: str) -> str:
    return re.sub(r"\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.12g}", text)


def test_the_grid_reaches_both_answers_and_refusals(calls):
    said = [json.loads(getattr(worksheet, name)(*arguments))["ok"] for name, *arguments in calls]
    assert sum(said) > SIZE / 3 and not all(said)
