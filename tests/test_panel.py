"""One call renders a panel, at build time and in the browser."""

import json

import pytest

from calc.panel import Row, render, resolve
from calc.sources import Figure, data_path, load_json
from calc.units import CalcError

INPUTS = {
    "model": "llama-3.1-70b",
    "prompt": 2048,
    "generated": 200,
    "output": 1024,
    "element": "bf16",
    "ranks": 8,
    "pool_gib": 40,
}


def rendered(**changes):
    return json.loads(render("calc.kv_cache:cache_panel", json.dumps(INPUTS | changes)))


def test_defaults_give_the_chapter_numbers():
    panel = rendered()
    assert panel["ok"]
    assert panel["rows"][0]["text"] == "40 KiB"
    assert panel["working"][1].startswith(
        "80 full layers: B_rank = 2 · L · n_rank · d_h · s = 2 · 80 · 1 · 128 · 2 B = 40,960 B"
    )
    assert panel["meaning"] and panel["leaves_out"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model": "gpt-2-xxl"}, "gpt-2-xxl"),
        ({"generated": 2000}, "raise output or lower generated"),
        ({"prompt": -1}, "prompt is -1"),
        ({"prompt": "no number"}, "prompt is no number, wanted a number"),
        ({"ranks": 3}, "can't run on 3 ranks"),
        ({"ranks": 2.5}, "whole number"),
        ({"element": "fp7"}, "unknown cache element"),
        ({"pool_gib": 0}, "pool_gib is 0"),
        ({"pool_gib": None}, "pool_gib is empty"),
        ({"pool_gib": "40"}, "pool_gib is '40'"),
        ({"prompt": 10**400}, "more than 40 digits"),
        ({"model": []}, "model is empty"),
        ({"pool_gib": -4}, "pool_gib is -4"),
    ],
)
def test_an_impossible_choice_is_a_message(changes, says):
    panel = rendered(**changes)
    assert not panel["ok"]
    assert says in panel["error"]


@pytest.mark.parametrize(
    ("changes", "error", "inputs"),
    [
        ({"prompt": -1}, "“Prompt” is -1, wanted a whole number above 0", ["prompt"]),
        ({"pool_gib": None}, "“Pool, per GPU” is empty: choose or write a value", ["pool_gib"]),
        (
            {"generated": 2000},
            "“Sampled” is 2000, output only 1024: raise output or lower “Sampled”",
            ["generated", "output"],
        ),
    ],
)
def test_a_refusal_speaks_of_what_the_page_calls_its_inputs(changes, error, inputs):
    labels = json.dumps({"prompt": "Prompt", "generated": "Sampled", "pool_gib": "Pool, per GPU"})
    answer = json.loads(render("calc.kv_cache:cache_panel", json.dumps(INPUTS | changes), labels))
    assert (answer["error"], answer["inputs"]) == (error, inputs)


def test_a_refusal_about_no_input_stays_as_it_is():
    assert rendered(ranks=3)["inputs"] == [] and "can't run on 3 ranks" in rendered(ranks=3)["error"]


def test_a_broken_declaration_is_an_exception():
    for path in ("os:system", "calc.kv_cache:_hidden", "calc.kv_cache:nothing", "calc.nowhere:x", "calc.kv_cache"):
        with pytest.raises(CalcError):
            resolve(path)
    with pytest.raises(CalcError, match="missing a required argument"):
        render("calc.kv_cache:cache_panel", "{}")


def test_arguments_that_are_no_object_are_an_exception():
    for text in ("[]", "{", "[" * 100_000, "null"):
        with pytest.raises(CalcError, match="arguments are"):
            render("calc.kv_cache:cache_panel", text)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "Counting present use admits 466 such requests; 341 are sure to finish."),
        ({"pool_gib": 0.001}, "Not one such request is sure to finish"),
        ({"generated": 1024}, "needs no more room"),
        ({"prompt": 100_000, "pool_gib": 8}, "Both ways of counting admit"),
        ({"model": "llama-2-7b", "ranks": 1, "prompt": 8192}, "made for 4,096 positions; this is more"),
    ],
)
def test_the_meaning_is_true_of_the_numbers(changes, says):
    assert says in rendered(**changes)["meaning"]


def test_kinds_are_the_four():
    with pytest.raises(CalcError, match="wanted one of derived, published, measured, assumed"):
        Row("x", "1", "guessed")
    with pytest.raises(CalcError, match="needs a source"):
        Figure(1, "B", "published")


def test_data_files_are_found_and_read_once():
    assert data_path().is_dir()
    assert load_json("engine_limits.json") is load_json("engine_limits.json")
