"""The panels say in the browser's Python what they say in CPython, to the letter, over a large grid.

Here Pyodide runs in Node, which is quick; tests/site/test_live_panel.py drives the page itself.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from panels import declared, grid

from calc.panel import render

SIZE = 400


@pytest.fixture(scope="session")
def calls(site):
    return [(path, json.dumps(chosen)) for _, path, inputs in declared(site) for chosen in grid(inputs, SIZE)]


def test_panels_agree_with_cpython(calls, site):
    assert len(calls) >= SIZE
    answers = subprocess.run(
        ["node", Path(__file__).parent / "site" / "render.mjs", site / "_static" / "live"],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for call, answer in zip(calls, json.loads(answers), strict=True):
        assert answer == render(*call), call


def test_the_grid_reaches_both_answers_and_refusals(calls):
    said = [json.loads(render(*call))["ok"] for call in calls]
    assert any(said) and not all(said)
