"""The worksheet's page: the fields of its form, and what the browser's worker asks for, JSON in and JSON out."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from calc import capacity, hardware
from calc.models import ConfigError, catalogue, parse
from calc.models.fields import MOST_BYTES, shown
from calc.sources import load_json
from calc.units import UNITS, CalcError
from calc.worksheet._choices import AUTO, arithmetic_types, cache_types, weight_types
from calc.worksheet._lines import STEPS, Line, link_of, place_of
from calc.worksheet._log import explain_log
from calc.worksheet._report import Report
from calc.worksheet._size import size

OWN = "own"  # the model that is pasted
LARGEST = 10**15  # of what a reader may write
GLANCE = {  # what stays in sight while the form is changed, in few words
    "weights.per_rank_bytes": "Weights",
    "capacity.max_sequences": "Sequences that fit",
    "roofline.prefill_floor_s": "Prompt at least",
    "roofline.decode_floor_s": "Step at least",
}
FORMS = {
    "json": lambda report: report.to_json(lines=True),
    "csv": Report.to_csv,
    "markdown": Report.to_markdown,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of the form.

    Attributes
    ----------
    name : str
        As `size` calls it.
    label, unit : str
    group : str
        A key of `GROUPS`.
    default : str, int, float, bool or None
        In the form's own unit; None for an empty field.
    factor : float
        From the form's unit to the base unit.
    choices : Mapping or None
        Value → text.
    most : float or None
        The largest number that makes sense, in the form's unit, where `size` can't say it in that unit.
    positive : bool
        Whether 0 is refused here, for the same reason.
    optional : bool
        Whether an empty field is a choice.
    pasted : bool
        Whether it holds the text of a file.
    help : str
        What an empty field means.
    """

    name: str
    label: str
    group: str
    default: Any = None
    unit: str = ""
    factor: float = 1
    choices: Mapping[str, str] | None = None
    most: float | None = None
    positive: bool = False
    optional: bool = False
    pasted: bool = False
    help: str = ""


# Legend of each group, and whether it is folded away at first
GROUPS = {
    "Model": False,
    "Hardware": False,
    "Load": False,
    "Engine and memory": True,
    "Adapters and speculation": True,
    "Storage": True,
}
GIB, GB_PER_S, PER_CENT, MS = UNITS["GiB"].factor, UNITS["GB/s"].factor, UNITS["%"].factor, UNITS["ms"].factor


@functools.cache
def form() -> tuple[Field, ...]:
    """The fields of the page's form, in its order, at the book's running example.

    Examples
    --------
    >>> [(f.label, f.default) for f in form()[:2]]
    [('Model', 'llama-3.1-70b'), ('Your own config.json', '')]
    """
    defaults = {name: p.default for name, p in inspect.signature(size).parameters.items()}

    def field(name: str, label: str, group: str, **more: Any) -> Field:
        value = more.pop("default", defaults.get(name))
        factor = more.get("factor", 1)
        if factor != 1 and value is not None:
            value = value / factor
            value = int(value) if value == int(value) else value
        return Field(name=name, label=label, group=group, default=value, **more)

    def same(names: tuple[str, ...], auto: str) -> dict[str, str]:
        return {name: auto if name == AUTO else name for name in names}

    names = {slug: load_json("models", f"{slug}.json")["name"] for slug in catalogue(every=True)}
    models = dict(sorted(names.items(), key=_by_name)) | {OWN: "My own config.json"}
    chips = {slug: hardware.accelerator(slug).name for slug in hardware.accelerators()}
    engines = {slug: capacity.memory_setting(slug).engine for slug in capacity.engines()}
    rate = {"unit": "GB/s", "factor": GB_PER_S, "positive": True}
    gib = {"unit": "GiB", "factor": GIB}
    limit = {"unit": "ms", "factor": MS, "positive": True, "optional": True, "help": "no limit"}
    return (
        field("config", "Model", "Model", default="llama-3.1-70b", choices=models),
        field("own", "Your own config.json", "Model", default="", pasted=True),
        field("quantization_file", "Its hf_quant_config.json", "Model", default="", pasted=True),
        field("weights", "Weights", "Model", choices=same(weight_types(), "as in the checkpoint")),
        field("arithmetic", "Arithmetic", "Model", choices=same(arithmetic_types(), "what fits the weights")),
        field("cache", "Cache", "Model", choices=same(cache_types(), "as engines choose")),
        field("accelerator", "Accelerator", "Hardware", choices=chips),
        field("count", "GPUs", "Hardware", optional=True, help="one replica's"),
        field("tensor", "Tensor-parallel ranks", "Hardware", default=8),
        field("pipeline", "Pipeline stages", "Hardware"),
        field("expert_parallel", "Expert parallelism", "Hardware"),
        field("context", "Prompt", "Load", unit="tokens"),
        field("output", "Response", "Load", unit="tokens"),
        field("concurrency", "Sequences at once", "Load"),
        field("ttft_s", "Limit to the first token", "Load", **limit),
        field("tpot_s", "Limit per output token", "Load", **limit),
        field("engine", "Engine", "Engine and memory", choices=engines),
        field("memory_fraction", "Memory fraction", "Engine and memory", optional=True, help="its default"),
        field("workspace_bytes", "Activations, workspace", "Engine and memory", **gib),
        field("graph_bytes", "Captured graphs", "Engine and memory", **gib),
        field("communication_bytes", "Communication, context", "Engine and memory", **gib),
        field("block_tokens", "Block", "Engine and memory", unit="positions"),
        field("batched_tokens", "Most tokens in a step", "Engine and memory", unit="tokens"),
        field("prefix_caching", "Prefix caching", "Engine and memory"),
        field("lora_rank", "Adapter rank", "Adapters and speculation"),
        field("lora_slots", "Adapter slots", "Adapters and speculation"),
        field("draft_tokens", "Draft tokens in a round", "Adapters and speculation"),
        field("acceptance", "Acceptance of each", "Adapters and speculation", unit="%", factor=PER_CENT, most=99.9),
        field("draft_cost", "Draft step over plain step", "Adapters and speculation"),
        field("object_rate", "Object storage", "Storage", **rate),
        field("disk_rate", "Disks of the node", "Storage", **rate),
        field("host_rate", "Host link of one GPU", "Storage", optional=True, help="the chip's", **rate),
        field("reached", "Of these rates, reached", "Storage", unit="%", factor=PER_CENT, most=100, positive=True),
    )


def _by_name(model: tuple[str, str]) -> list[str]:
    """Models of one family together, the smaller before the larger: numbers count by their size."""
    return [part.zfill(6) if part.isdecimal() else part.lower() for part in re.split(r"(\d+)", model[1])]


class Refused(CalcError):
    """What a reader wrote can't be used; the message speaks in the form's labels, `inputs` are the fields meant."""

    def __init__(self, message: str, *inputs: str) -> None:
        super().__init__(message)
        self.inputs = list(inputs)


def worksheet_json(arguments: str) -> str:
    """Work the page's form out.

    Parameters
    ----------
    arguments : str
        A JSON object: field → its value as the form has it; a field that is missing has its default.

    Returns
    -------
    str
        ``{"ok": true, "title", "glance": [{"label", "text"}], "sections": [{"key", "title", "leaves_out", "lines":
        [{"key", "label", "text", "kind", "keep", "working", "note", "source", "url", "link", "where"}]}],
        "warnings": [{"text", "link", "where"}]}``, or
        ``{"ok": false, "error": one sentence, "inputs": [fields]}``. Never raises.
    """
    return _answer(lambda: _page(_sized(_object(arguments, "form"))))


def export_json(arguments: str, kind: str) -> str:
    """The page's form worked out, to keep.

    Parameters
    ----------
    arguments : str
        As for `worksheet_json`.
    kind : str
        "json", "csv" or "markdown".

    Returns
    -------
    str
        ``{"ok": true, "text"}``, or a refusal as of `worksheet_json`. Never raises.
    """

    def text() -> dict[str, Any]:
        if kind not in FORMS:
            raise Refused(f"there is no form {shown(kind)}: wanted one of {', '.join(FORMS)}")
        return {"text": FORMS[kind](_sized(_object(arguments, "form")))}

    return _answer(text)


def log_json(arguments: str) -> str:
    """Explain a pasted start-up log.

    Parameters
    ----------
    arguments : str
        A JSON object: "log", the text; "form", the form as for `worksheet_json`, where the log is to be held against
        its model; else null.

    Returns
    -------
    str
        ``{"ok": true, "lines": [{"label", "text", "meaning", "line", "worker", "link", "where"}], "checks": [{"name",
        "printed", "computed", "verdict", "note"}]}``, or a refusal as of `worksheet_json`. Never raises.
    """
    return _answer(lambda: _log(_object(arguments, "log")))


def _answer(work: Callable[[], dict[str, Any]]) -> str:
    try:
        result = {"ok": True} | work()
    except Refused as error:
        result = {"ok": False, "error": str(error), "inputs": error.inputs}
    except CalcError as error:
        result = {"ok": False, "error": str(error), "inputs": []}
    except Exception as error:  # the worker must answer, whatever happens
        result = {"ok": False, "error": f"This could not be worked out ({type(error).__name__}).", "inputs": []}
    return json.dumps(result)


def _object(arguments: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(arguments)
    except (ValueError, TypeError, RecursionError) as error:
        raise Refused(f"The {what} did not arrive whole ({type(error).__name__}).") from error
    if not isinstance(found, dict):
        raise Refused(f"The {what} arrived as {shown(found)}, wanted a JSON object.")
    return found


def _sized(given: dict[str, Any]) -> Report:
    config, choices = _read(given)
    try:
        return size(config, **choices)
    except CalcError as error:
        raise _worded(error, own=isinstance(config, dict)) from error


def _read(given: dict[str, Any]) -> tuple[str | dict[str, Any], dict[str, Any]]:
    """The form's values in base units, as `size` takes them."""
    if unknown := given.keys() - {f.name for f in form()}:
        raise Refused(f"The form has no field {shown(min(unknown))}.")
    values = {f.name: _value(f, given.get(f.name, f.default)) for f in form()}
    config, own = values.pop("config"), values.pop("own")
    values["quantization_file"] = _parsed("quantization_file", values["quantization_file"])
    if config != OWN:
        return config, values
    found = _parsed("own", own)
    if found is None:
        raise Refused("“Your own config.json” is empty: paste the file, drop it here, or choose a model.", "own")
    if "quantization" in found and "model_type" not in found:
        raise Refused(f"“{_label('own')}” holds a hf_quant_config.json: that has a field of its own below.", "own")
    return found, values


def _value(field: Field, value: Any) -> Any:
    name = f"“{field.label}”"
    if field.pasted:
        if not isinstance(value, str):
            raise Refused(f"{name} is {shown(value)}, wanted the text of a file.", field.name)
        return value
    if field.choices is not None:
        if not isinstance(value, str) or value not in field.choices:
            raise Refused(f"{name} is {shown(value)}, which is not one of the choices.", field.name)
        return value
    if isinstance(field.default, bool):
        if not isinstance(value, bool):
            raise Refused(f"{name} is {shown(value)}, wanted yes or no.", field.name)
        return value
    if value is None:
        if field.optional:
            return None
        raise Refused(f"{name} is empty: write a number.", field.name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refused(f"{name} is {shown(value)}, wanted a number.", field.name)
    if not -LARGEST < value < LARGEST:
        raise Refused(f"{name} is {shown(value)}, which is no number for it.", field.name)
    if field.factor != 1 and (value < 0 or (field.positive and value == 0)):  # else `size` says it, with its range
        wanted = "more than 0" if field.positive else "at least 0"
        raise Refused(f"{name} is {value:.12g}, wanted {wanted}.", field.name)
    if field.most is not None and value > field.most:
        raise Refused(f"{name} is {value:.12g}, wanted at most {field.most:g}.", field.name)
    value = round(value * field.factor, 12) if field.factor < 1 else value * field.factor
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parsed(name: str, text: str) -> dict[str, Any] | None:
    if not text.strip():
        return None
    try:
        return parse(text)
    except CalcError as error:
        raise Refused(f"“{_label(name)}”: {_sentence(error)}", name) from error


def _label(name: str) -> str:
    return next(f.label for f in form() if f.name == name)


def _sentence(error: CalcError) -> str:
    text = str(error)
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _worded(error: CalcError, own: bool) -> Refused:
    """A refusal of `size` ("size: context is …") in the form's labels, with the fields that it is about."""
    text = re.sub(r"^size: ", "", _sentence(error))
    labels = {f.name: f.label for f in form()}
    about = re.match(r"(\w+)(?= is )", text)
    if about and about[1] in labels:
        return Refused(f"“{labels[about[1]]}”{text[about.end() :]}", about[1])
    for name, sign in (("tensor", "run on"), ("pipeline", "stages: use"), ("arithmetic", "has no peak for")):
        if sign in text:
            return Refused(text, name)
    if own and isinstance(error, ConfigError):
        return Refused(f"“{labels['own']}”: {text}", "own")
    return Refused(text)


def _page(report: Report) -> dict[str, Any]:
    sections = [
        {"key": s.key, "title": s.title, "leaves_out": s.leaves_out, "lines": [_line(line) for line in s.lines]}
        for s in report.sections
    ]
    warned = [{"text": w.text, "link": w.link, "where": STEPS[w.step][1]} for w in report.warnings]
    texts = {line.key: line.text for section in report.sections for line in section.lines}
    glance = [{"label": label, "text": texts[key]} for key, label in GLANCE.items()]
    return {"title": report.title, "glance": glance, "sections": sections, "warnings": warned}


def _line(line: Line) -> dict[str, Any]:
    names = ("key", "label", "text", "kind", "keep", "working", "note", "source", "url")
    return {name: getattr(line, name) for name in names} | {"link": link_of(line.step), "where": place_of(line.step)}


def _log(given: dict[str, Any]) -> dict[str, Any]:
    text, chosen = given.get("log"), given.get("form")
    if not isinstance(text, str) or not text.strip():
        raise Refused("The log is empty: paste what vLLM printed while it started.", "log")
    if len(text) > MOST_BYTES:
        raise Refused(f"The log is larger than {MOST_BYTES // 1000**2} MB: give its lines about memory.", "log")
    known: dict[str, Any] = {}
    if chosen is not None:
        if not isinstance(chosen, dict):
            raise Refused("The form did not arrive whole.")
        known = _against(text, chosen)
    try:
        found = explain_log(text, **known)
    except CalcError as error:
        raise Refused(_sentence(error), "log") from error
    lines = ("label", "text", "meaning", "line", "worker", "link")
    checks = ("name", "printed", "computed", "verdict", "note")
    return {
        "lines": [
            {name: getattr(line, name) for name in lines} | {"where": place_of(line.step)} for line in found.lines
        ],
        "checks": [
            {name: getattr(check, name) for name in checks} | {"name": _begun(check.name), "note": _begun(check.note)}
            for check in found.checks
        ],
    }


def _begun(text: str) -> str:
    return text[:1].upper() + text[1:]


def _against(text: str, chosen: dict[str, Any]) -> dict[str, Any]:
    """What `explain_log` needs to hold a log against the model of the form; a cut that the log states goes first."""
    config, values = _read(chosen)
    report = _sized(chosen)
    stated = {fact.name for fact in capacity.read_log(text).facts} & {"tensor", "pipeline"}
    same = ("weights", "cache", "quantization_file", "expert_parallel", "block_tokens")
    return {
        "model": config,
        "tensor": None if stated else values["tensor"],
        "pipeline": None if stated else values["pipeline"],
        **{name: values[name] for name in same},
        "prefix_caching": None if values["prefix_caching"] else False,
        "total_bytes": report["capacity.total_bytes"],
        "memory_fraction": report.assumptions["memory_fraction"],
    }
