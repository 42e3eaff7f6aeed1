"""A panel's declaration is checked when the book is built."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from built import parsed
from panels import declared

from calc.panel import render

sys.path.insert(0, str(Path(__file__).parents[2] / "book" / "_ext"))
from textbook.panel import PanelError, build  # noqa: E402

PATH = "calc.kv_cache:cache_panel"
INPUTS = [
    {"name": "model", "label": "Model", "choices": "models", "default": "qwen2.5-72b"},
    {"name": "prompt", "label": "Prompt", "unit": "tokens", "min": 1, "max": 100_000, "scale": "log2", "default": 4096},
    {"name": "generated", "label": "Generated", "unit": "tokens", "min": 1, "max": 4096, "default": 1},
    {"name": "output", "label": "Whole response", "unit": "tokens", "min": 1, "max": 4096, "default": 1024},
    {"name": "element", "label": "Element type", "choices": ["bf16", "fp8"], "default": "bf16"},
    {"name": "ranks", "label": "Ranks", "choices": [1, 2, 4, 8], "default": 8},
    {"name": "pool_gib", "label": "Pool", "unit": "GiB", "min": 0.5, "max": 200, "default": 40},
]


def built(inputs=INPUTS, path=PATH):
    return BeautifulSoup(build(path, "A <title>", inputs, "panel-1"), "html.parser")


def changed(name, **changes):
    return [spec | changes if spec["name"] == name else spec for spec in INPUTS]


def test_the_defaults_are_in_the_page():
    answer = json.loads(render(PATH, json.dumps({spec["name"]: spec["default"] for spec in INPUTS})))
    page = built()
    assert [dd.text for dd in page.select("dd")] == [f"{row['kind']}: {row['text']}" for row in answer["rows"]]
    assert [p.text for p in page.select(".panel-working p")] == answer["working"]
    assert page.select_one(".panel-title").text == "A <title>"


def test_every_input_has_a_label_and_every_number_a_slider_at_its_value():
    page = built()
    for field in page.select("[name]"):
        assert page.select_one(f'label[for="{field["id"]}"]').text.strip()
    prompt = page.select_one('[data-for="prompt"]')
    assert 2 ** int(prompt["value"]) == 4096
    assert int(prompt["max"]) == 17  # 2^17 is the first stop at or over 100,000
    assert page.select_one('[name="pool_gib"]')["step"] == "any"
    assert page.select_one('[name="generated"]')["step"] == "1"


@pytest.mark.parametrize(
    ("inputs", "path", "says"),
    [
        (INPUTS, "calc.kv_cache:no_such_panel", "no_such_panel"),
        (INPUTS, "os:system", "not a library function"),
        (INPUTS[1:], PATH, "missing a required argument: 'model'"),
        ([*INPUTS, {"name": "colour", "label": "Color", "choices": ["red"], "default": "red"}], PATH, "colour"),
        ([*INPUTS, INPUTS[0]], PATH, "same name"),
        (changed("model", default="gpt-9"), PATH, "'gpt-9' is not one of the choices"),
        (changed("prompt", default=200_000), PATH, "200000 is outside 1 to 100000"),
        (changed("prompt", min=0), PATH, "wanted more than 0"),
        (changed("prompt", scale="log3"), PATH, "wanted linear or log2"),
        (changed("prompt", max=None), PATH, "needs default, min and max"),
        (changed("prompt", maximum=3), PATH, "maximum is not a key"),
        ([{"name": "model", "default": "x"}], PATH, "label is missing"),
        (changed("generated", default=4096), PATH, "the defaults are refused"),
    ],
)
def test_a_broken_declaration_fails_the_build(inputs, path, says):
    with pytest.raises(PanelError, match=says):
        build(path, "title", inputs, "panel-1")


def test_every_end_and_every_choice_gets_an_answer_or_a_reason(site):
    """The others stay at the defaults; test_panel_parity.py mixes them."""
    for page, path, inputs in declared(site):
        shown = parsed(site / page, class_="panel").select_one(f'[data-panel="{path}"]')
        defaults = {}
        for name, tried in inputs.items():
            field = shown.select_one(f'[name="{name}"]')
            chosen = field.select_one("option[selected]")
            text = chosen["value"] if chosen else field.get("value")
            defaults[name] = next((value for value in tried if str(value) == text), None)
            if defaults[name] is None:
                defaults[name] = "checked" in field.attrs if field.get("type") == "checkbox" else json.loads(text)
        for name, tried in inputs.items():
            for value in tried if shown.select_one(f'select[name="{name}"]') else (tried[0], tried[-1]):
                answer = json.loads(render(path, json.dumps(defaults | {name: value})))
                assert answer["ok"] or answer["error"], (page, name, value)
