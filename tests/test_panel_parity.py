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

SIZE = 25  # of each panel


@pytest.fixture(scope="module")
def here(site):
    """Path and inputs of each call → what CPython says."""
    calls = [(path, json.dumps(chosen)) for _, path, inputs in declared(site) for chosen in grid(inputs, SIZE)]
    assert len(calls) >= 10 * SIZE
    return {call: render(*call) for call in calls}


def test_panels_agree_with_cpython(here, site):
    answers = subprocess.run(
        ["node", Path(__file__).parent / "site" / "render.mjs", site / "_static" / "live"],
        input=json.dumps(list(here)),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for call, answer in zip(here, json.loads(answers), strict=True):
        assert answer == here[call], call


def test_the_grid_reaches_both_answers_and_refusals(here):
    said = [json.loads(answer)["ok"] for answer in here.values()]
    assert any(said) and not all(said)
