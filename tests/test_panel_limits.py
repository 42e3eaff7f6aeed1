"""Every number that can be typed into a panel, at values that nobody means: an answer, or a refusal in words."""

from __future__ import annotations

import json

import pytest
from panels import at_rest

from calc.panel import NO_NUMBER, render

FAR = (0, 1e-300, 10**15, 1e21, 1.7e308)


@pytest.fixture(scope="module")
def numbers(site):
    """Panel, its defaults, and one of them that a number can be typed into."""
    found = [(path, at, name) for path, at, typed in at_rest(site) for name in typed]
    assert len(found) > 50 and all(answer(path, at)["ok"] for path, at, _ in found)
    return found


def answer(path, inputs):
    return json.loads(render(path, json.dumps(inputs)))


def test_what_is_no_number_is_refused_by_every_panel(numbers):
    """A field for a number may hold "1e"."""
    for path, at, name in numbers:
        assert answer(path, at | {name: NO_NUMBER})["error"] == f"{name} is no number, wanted a number"


def test_a_negative_number_is_refused_by_the_limit_of_its_field(numbers):
    for path, at, name in numbers:
        refused = answer(path, at | {name: -1})
        assert not refused["ok"] and refused["inputs"][0] == name, (path, name, refused)
        if "at least 0" in refused["error"]:
            at_zero = answer(path, at | {name: 0})
            assert at_zero["ok"] or name not in at_zero["inputs"], (path, name, at_zero)


def test_a_number_far_from_any_meant_is_answered_or_refused(numbers):
    for path, at, name in numbers:
        for value in FAR:
            said = answer(path, at | {name: value})
            if not said["ok"]:
                assert said["error"], (path, name, value)
                continue
            assert all(len(row["text"]) < 120 for row in said["rows"]), (path, name, value, said["rows"])
            assert not {"nan", "inf"} & set(json.dumps(said).replace('"', " ").split()), (path, name, value)
