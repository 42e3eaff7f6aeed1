"""What the worksheet's page asks of the library: its form, its report, its refusals, whatever is thrown at it."""

from __future__ import annotations

import csv
import inspect
import io
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc.models import catalogue, load
from calc.parameters import count
from calc.sources import KINDS, load_json
from calc.worksheet import GROUPS, export_json, form, link_of, log_json, size, worksheet_json

LLAMA = load_json("models", "llama-3.1-70b.json")["config"]
MARKUP = "<img src=x onerror=alert(1)>"
LOG = (
    "INFO Model loading took 16.46 GiB\nINFO Available KV cache memory: 50.11 GiB\n"
    "INFO GPU KV cache size: 1,313,000 tokens\nINFO Maximum concurrency for 8,192 tokens per request: 160.3x"
)


def answer(**given):
    return json.loads(worksheet_json(json.dumps(given)))


def refused(**given):
    found = answer(**given)
    assert found.keys() == {"ok", "error", "inputs"} and found["ok"] is False
    assert found["error"].endswith(".") and "\n" not in found["error"]
    return found


def texts(found):
    return {line["key"]: line["text"] for section in found["sections"] for line in section["lines"]}


def test_every_argument_of_size_is_a_field_with_its_default():
    fields = {f.name: f for f in form()}
    parameters = inspect.signature(size).parameters
    assert fields.keys() - {"own"} == parameters.keys() - {"name"}
    assert {f.group for f in form()} == set(GROUPS)
    assert len({f.label for f in form()}) == len(fields)
    for name in fields.keys() - {"own", "config", "tensor", "quantization_file"}:
        default = fields[name].default
        if default is not None and not fields[name].choices:
            assert default * fields[name].factor == pytest.approx(float(parameters[name].default))


def test_the_page_says_what_size_says():
    report, found = size("llama-3.1-70b", tensor=8), answer()
    assert found["ok"] and found["title"] == report.title
    assert texts(found) == {line.key: line.text for line in report.lines}
    for section in found["sections"]:
        for line in section["lines"]:
            assert line["kind"] in KINDS and line["link"] == link_of(report.line(line["key"]).step)
            assert line["working"] == report.line(line["key"]).working
    assert [w["text"] for w in found["warnings"]] == [w.text for w in report.warnings]


def test_the_form_s_units_are_put_into_base_units():
    found = answer(ttft_s=200, tpot_s=10.5, workspace_bytes=2, object_rate=3, reached=50, acceptance=80, host_rate=None)
    report = size(
        "llama-3.1-70b", tensor=8, ttft_s=0.2, tpot_s=0.0105, workspace_bytes=2 * 1024**3, object_rate=3e9, reached=0.5,
        acceptance=0.8,
    )  # fmt: skip
    assert texts(found) == {line.key: line.text for line in report.lines}


@pytest.mark.parametrize("slug", catalogue(every=True))
def test_every_model_of_the_catalogue_can_be_chosen(slug):
    found = answer(config=slug, tensor=1, accelerator="mi300x", count=1)
    assert found["ok"] and load(slug).name in found["title"]


@pytest.mark.parametrize("slug", sorted({*catalogue(every=True)} - {*catalogue()}))
def test_a_model_that_no_chapter_draws_is_worked_out_on_eight_gpus(slug):
    report, found = size(slug, accelerator="h100-sxm", tensor=8), answer(config=slug)
    assert found["ok"] and texts(found) == {line.key: line.text for line in report.lines}
    assert report["parameters.total"] == count(load(slug)).total
    stored = {
        "deepseek-v3.2": "FP8 W8A8, 128x128 blocks",
        "deepseek-v4-flash": "FP8 W8A8, 128x128 blocks; experts MXFP4",
        "kimi-k2.5": "int4 W4A16, group scales",
        "minimax-m2.5": "FP8 W8A8, 128x128 blocks",
    }
    assert texts(found)["weights.scheme"] == stored.get(slug, "bf16")


def test_models_stand_in_the_list_by_family_and_size():
    names = list(form()[0].choices.values())
    assert sorted(form()[0].choices) == sorted([*catalogue(every=True), "own"]) and names[-1] == "My own config.json"
    assert [n for n in names if n.startswith("Llama-3.1")] == ["Llama-3.1-8B", "Llama-3.1-70B", "Llama-3.1-405B"]
    families = [name.partition("-")[0].lower() for name in names]
    assert len(set(families)) == 1 + sum(a != b for a, b in pairwise(families))


def test_a_pasted_file_is_the_model_it_describes():
    chosen, pasted = answer(), answer(config="own", own=json.dumps(LLAMA))
    assert texts(pasted) == texts(chosen)
    ignored = answer(own="{", config="llama-3.1-8b", tensor=1)
    assert ignored["ok"], "a text beside another choice is not read"


def test_a_pasted_quantization_file_is_read():
    quantized = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    found = answer(config="own", own=json.dumps(LLAMA), quantization_file=json.dumps(quantized))
    assert texts(found)["kv.element"] == "fp8"


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        ({"tensor": 0}, "tensor", "“Tensor-parallel ranks” is 0"),
        ({"tensor": 3}, "tensor", "can't run on 3 ranks"),
        ({"tensor": None}, "tensor", "is empty"),
        ({"tensor": "8"}, "tensor", "wanted a number"),
        ({"tensor": True}, "tensor", "wanted a number"),
        ({"pipeline": 200}, "pipeline", "use at most 80"),
        ({"count": 2}, "count", "“GPUs” is 2, but TP 8 needs 8"),
        ({"context": 8.5}, "context", "“Prompt” is 8.5, wanted a whole number"),
        ({"context": 10**400}, "context", "no number for it"),
        ({"output": -1}, "output", "“Response” is -1, wanted a whole number from 1"),
        ({"lora_slots": -1}, "lora_slots", "“Adapter slots” is -1, wanted a whole number from 0"),
        ({"draft_cost": -0.5}, "draft_cost", "“Draft step over plain step” is -0.5, wanted"),
        ({"workspace_bytes": -1}, "workspace_bytes", "“Activations, workspace” is -1, wanted at least 0"),
        ({"arithmetic": "fp4"}, "arithmetic", "no peak for 'fp4'"),
        ({"arithmetic": "fp5"}, "arithmetic", "not one of the choices"),
        ({"memory_fraction": 92}, "memory_fraction", "“Memory fraction” is 92"),
        ({"ttft_s": 0}, "ttft_s", "“Limit to the first token” is 0, wanted more than 0"),
        ({"reached": 101}, "reached", "at most 100"),
        ({"acceptance": 100}, "acceptance", "at most 99.9"),
        ({"expert_parallel": 1}, "expert_parallel", "yes or no"),
        ({"config": "own"}, "own", "paste the file"),
        ({"config": "own", "own": '{"hidden_size": 40'}, "own", "not valid JSON"),
        ({"config": "own", "own": "[" * 100_000}, "own", "“Your own config.json”"),
        ({"config": "own", "own": '{"model_type": "mystery"}'}, "own", "'mystery' is not supported"),
        ({"config": "own", "own": "/etc/hostname"}, "own", "not valid JSON"),
        ({"config": "/etc/hostname"}, "config", "not one of the choices"),
        ({"config": "own", "own": json.dumps(LLAMA | {"hidden_size": float("nan")})}, "own", "“Your own config.json”"),
        ({"config": "own", "own": " " * 5_000_000 + "{}"}, "own", "larger than 5 MB"),
        ({"quantization_file": "{}"}, None, "says nothing of quantization"),
        ({"quantization_file": "x"}, "quantization_file", "not valid JSON"),
        ({"own": None}, "own", "the text of a file"),
        ({MARKUP: 1}, None, "no field"),
    ],
)
def test_a_refusal_speaks_of_the_form_and_marks_the_field(given, field, says):
    found = refused(**given)
    assert says in found["error"]
    assert found["inputs"] == ([field] if field else [])
    assert "<" not in found["error"]


@pytest.mark.parametrize("name", [f.name for f in form()])
def test_markup_in_any_field_is_refused_and_not_repeated(name):
    given = {name: MARKUP} | ({"config": "own"} if name == "own" else {})
    assert "<" not in refused(**given)["error"]


@pytest.mark.parametrize("field", ["model_type", "architectures", "torch_dtype", "hidden_act", "_name_or_path"])
def test_markup_in_a_pasted_file_is_not_repeated(field):
    value = [MARKUP] if field == "architectures" else MARKUP
    assert "<" not in worksheet_json(json.dumps({"config": "own", "own": json.dumps(LLAMA | {field: value})}))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", "null", '{"tensor": NaN}', '{"a": 1e999}', "[" * 100_000, None, 3]
)
def test_what_is_no_form_is_refused(text):
    for function in (worksheet_json, log_json, lambda t: export_json(t, "json")):
        assert json.loads(function(text))["ok"] is False


anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just(MARKUP)


@settings(max_examples=150)
@given(given=st.dictionaries(st.sampled_from([f.name for f in form()]), anything, max_size=3))
def test_it_never_raises(given):
    found = json.loads(worksheet_json(json.dumps(given)))
    if not found["ok"]:
        assert "could not be worked out" not in found["error"], found


@settings(max_examples=150)
@given(field=st.sampled_from(sorted(LLAMA)), value=anything | st.lists(anything, max_size=2))
def test_no_value_in_a_file_breaks_it(field, value):
    found = json.loads(worksheet_json(json.dumps({"config": "own", "own": json.dumps(LLAMA | {field: value})})))
    if not found["ok"]:
        assert "could not be worked out" not in found["error"] and "<" not in found["error"], found


def test_the_three_forms_to_keep_hold_the_same_numbers():
    report = size("llama-3.1-70b", tensor=8)
    got = {kind: json.loads(export_json("{}", kind))["text"] for kind in ("json", "csv", "markdown")}
    assert json.loads(got["json"]) == json.loads(report.to_json(lines=True))
    assert len(list(csv.DictReader(io.StringIO(got["csv"])))) == len(report.lines)
    assert got["markdown"].replace(".0 |", " |") == report.to_markdown().replace(".0 |", " |")
    assert "no form" in json.loads(export_json("{}", MARKUP))["error"]
    assert json.loads(export_json('{"tensor": 3}', "csv"))["inputs"] == ["tensor"]


def test_a_log_is_explained_and_held_against_the_chosen_model():
    alone = json.loads(log_json(json.dumps({"log": LOG})))
    assert [line["line"] for line in alone["lines"]] == [1, 2, 3, 4, 4] and alone["checks"] == []
    against = json.loads(log_json(json.dumps({"log": LOG, "form": {}})))
    assert against["lines"] == alone["lines"]
    assert {c["name"]: c["verdict"] for c in against["checks"]}["Weights"] == "agrees"
    cut = json.loads(log_json(json.dumps({"log": LOG + "\ntensor_parallel_size=4", "form": {}})))
    assert cut["checks"] != against["checks"], "what the log says of the cut goes first"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "log"),
        ({"log": ""}, "log"),
        ({"log": 3}, "log"),
        ({"log": "nothing of interest"}, "log"),
        ({"log": MARKUP * 20}, "log"),
        ({"log": "x" * 6_000_000}, "log"),
        ({"log": LOG, "form": {"tensor": 0}}, "tensor"),
    ],
)
def test_a_log_that_says_nothing_is_refused(given, field):
    found = json.loads(log_json(json.dumps(given)))
    assert (found["ok"], found["inputs"]) == (False, [field]) and "<" not in found["error"]
