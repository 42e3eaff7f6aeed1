"""What each engine supports, cell by cell, with where it was read. Unknown is a value of its own."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calc import quantization
from calc.hardware import Accelerator
from calc.sources import load_json
from calc.units import CalcError

YES, NO, UNKNOWN = "yes", "no", "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A report of a bug that was open when it was read: it stands beside a cell and doesn't change it.

    Attributes
    ----------
    thread : str
        Whose, and its number, as "vLLM 27969".
    opened : str
        The day of the report.
    told : str
        What it reports, and of which version where it says.
    url : str
    """

    thread: str
    opened: str
    told: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One answer to one question about one engine.

    Attributes
    ----------
    engine, criterion, option : str
        Whom and what was asked.
    value : str
        "yes", "no" or "unknown". Only "yes" counts as yes.
    note : str
        What a reader must know; empty where nothing.
    version : str
        Of the engine or of its documentation that was read.
    source, url, checked : str
        Where it was read, or looked for in vain, and when.
    bugs : tuple of Bug
        What was open about it, where that was looked for.
    """

    engine: str
    criterion: str
    option: str
    value: str
    note: str
    version: str
    source: str
    url: str
    checked: str
    bugs: tuple[Bug, ...] = ()

    @property
    def question(self) -> str:
        """The criterion and the option, for display."""
        return f"{criterion_label(self.criterion)}: {self.option}"


def engines() -> tuple[str, ...]:
    """Slugs of the engines in the table.

    Examples
    --------
    >>> engines()[:3]
    ('vllm', 'sglang', 'tensorrt-llm')
    """
    return tuple(_table()["engines"])


def engine_name(engine: str) -> str:
    """An engine's name, for display."""
    return _engine(engine)["name"]


def status(engine: str) -> Cell | None:
    """What the engine's makers say about its future, where they say that it has little; otherwise None."""
    entry = _engine(engine).get("status")
    return _cell(engine, "status", entry["text"], NO, "", entry["source"]) if entry else None


def criteria() -> tuple[str, ...]:
    """What is asked about every engine, in the order of the filter."""
    return tuple(_table()["criteria"])


def criterion_label(criterion: str) -> str:
    """A criterion in words."""
    return _table()["criteria"][criterion]["label"]


def options(criterion: str) -> tuple[str, ...]:
    """The options of a criterion that the table has cells for.

    Raises
    ------
    CalcError
        If there is no such criterion.

    Examples
    --------
    >>> options("structured")
    ('json schema', 'regex', 'grammar')
    """
    if criterion not in _table()["criteria"]:
        raise CalcError(f"no criterion {criterion!r:.40}: use {', '.join(criteria())}")
    return tuple(_table()["criteria"][criterion]["options"])


def cell(engine: str, criterion: str, option: str, *, method: str = "") -> Cell:
    """Look one cell up.

    Parameters
    ----------
    engine : str
        One of `engines`.
    criterion : str
        One of `criteria`, except "quantization" and "hardware", which depend on the GPU.
    option : str
        One of the criterion's `options`.
    method : str
        For a pair of features with speculation: which method, where the answer depends on it.

    Returns
    -------
    Cell

    Raises
    ------
    CalcError
        If a name is unknown.

    Examples
    --------
    >>> cell("tgi", "speculative", "eagle-3").value, cell("llama.cpp", "checkpoint", "safetensors").note
    ('no', 'convert it to GGUF first')
    >>> cell("vllm", "pairs", "adapters + speculative").value
    'unknown'
    >>> found = cell("tensorrt-llm", "pairs", "structured + speculative")
    >>> found.value, [bug.thread for bug in found.bugs]
    ('yes', ['TensorRT-LLM 18892'])
    """
    entry = _engine(engine)["cells"].get(criterion)
    if entry is None or criterion in {"quantization", "hardware"}:
        raise CalcError(f"no cells for {criterion!r:.40} alone: use another criterion, or screen with a GPU")
    if option not in options(criterion):
        close = difflib.get_close_matches(str(option)[:40], options(criterion), n=3) or options(criterion)
        raise CalcError(f"{criterion_label(criterion)} has no {option!r:.40}: use {', '.join(close)}")
    value = YES if option in entry.get("yes", ()) else NO if option in entry.get("no", ()) else UNKNOWN
    value = entry.get("by_method", {}).get(option, {}).get(method, value)
    note = entry.get("notes", {}).get(option, entry.get("default_note", "") if value == UNKNOWN else "")
    bugs = tuple(Bug(**bug) for bug in entry.get("bugs", {}).get(option, ()))
    return _cell(engine, criterion, option, value, note, entry.get("sources", {}).get(option, entry["source"]), bugs)


def bugs_checked(pair: str) -> str | None:
    """When open bugs of a pair of features were looked for; None where nobody looked.

    Raises
    ------
    CalcError
        If there is no such pair.

    Examples
    --------
    >>> bugs_checked("structured + speculative"), bugs_checked("adapters + structured")
    ('2026-12-01', None)
    """
    if pair not in options("pairs"):
        raise CalcError(f"no pair {pair!r:.40}: use {', '.join(options('pairs'))}")
    return _table()["criteria"]["pairs"]["bugs"].get(pair)


def speculation_cell(engine: str, method: str, architecture: str) -> Cell:
    """Whether an engine speculates in a way that this architecture allows.

    Raises
    ------
    CalcError
        If a name is unknown.

    Notes
    -----
    Multi-token prediction needs layers for it in the checkpoint. A draft model or a head for EAGLE-3 is another
    checkpoint; whether one exists is not in the table.

    Examples
    --------
    >>> [speculation_cell("vllm", "mtp", a).value for a in ("deepseek_v3", "kimi_k2", "llama")]
    ['yes', 'unknown', 'no']
    """
    found = cell(engine, "speculative", method)
    rule = _table()["criteria"]["speculative"]["models"].get(method)
    if rule is None or found.value == NO or architecture in rule["yes"]:
        return found
    value = UNKNOWN if architecture in rule["unknown"] else NO
    return _cell(engine, "speculative", method, value, rule["note"], rule["source"])


def hardware_cell(engine: str, accelerator: Accelerator) -> Cell:
    """Whether an engine runs on a GPU at all.

    Raises
    ------
    CalcError
        If the engine is unknown, or the chip is no GPU of the table.
    """
    entry, capability = _engine(engine)["cells"]["hardware"], _capability(accelerator)
    vendor = "amd" if capability == "amd" else "nvidia"
    value = YES if vendor in entry.get("yes", ()) else NO if vendor in entry.get("no", ()) else UNKNOWN
    note = entry.get("notes", {}).get(vendor, "")
    if vendor == "nvidia" and value == YES and not _inside(entry["nvidia"], capability):
        value, note = UNKNOWN, f"compute capability {capability} is outside of what is listed"
    source = entry.get("sources", {}).get(vendor, entry["source"])
    return _cell(engine, "hardware", accelerator.name, value, note, source)


def quantization_cell(engine: str, weights: str, accelerator: Accelerator) -> Cell:
    """Whether an engine runs a way to store weights on a GPU.

    Parameters
    ----------
    engine : str
        One of `engines`.
    weights : str
        One of `calc.quantization.schemes`, or of `calc.quantization.gguf_mixes`.
    accelerator : Accelerator

    Returns
    -------
    Cell

    Raises
    ------
    CalcError
        If a name is unknown.

    Notes
    -----
    For vLLM and TensorRT-LLM the answer is that of `calc.quantization.support`.

    Examples
    --------
    >>> from calc.hardware import accelerator
    >>> [quantization_cell("vllm", s, accelerator("a100-80gb-sxm")).value for s in ("fp8-channel", "int8-channel")]
    ['yes', 'yes']
    >>> quantization_cell("sglang", "fp8-tensor", accelerator("a100-80gb-sxm")).value
    'no'
    """
    entry, capability = _engine(engine)["cells"]["quantization"], _capability(accelerator)
    if weights in quantization.gguf_mixes():
        rule: Mapping[str, Any] = entry["gguf"]
    elif weights not in quantization.schemes():
        close = difflib.get_close_matches(str(weights)[:40], quantization.schemes(), n=3) or quantization.schemes()
        raise CalcError(f"no way to store weights named {weights!r:.40}: use {', '.join(close)}, or a GGUF type")
    elif "calc.quantization" in entry:
        return _known_to_quantization(engine, entry["calc.quantization"], weights, accelerator)
    else:
        default = {"value": entry.get("otherwise", UNKNOWN), "note": entry.get("note", "")}
        rule = entry["schemes"].get(weights, default)
    if capability == "amd":
        value = rule.get("amd", rule.get("value") if rule.get("value") == NO or weights == "bf16" else UNKNOWN)
    elif rule.get("value") == YES and not _inside(rule, capability):
        value = rule.get("otherwise", UNKNOWN)
    else:
        value = rule.get("value", UNKNOWN)
    source = rule.get("source", entry.get("source"))
    return _cell(engine, "quantization", weights, value, rule.get("note", ""), source)


def _known_to_quantization(engine: str, name: str, weights: str, accelerator: Accelerator) -> Cell:
    found = quantization.support(weights, accelerator, name)
    table = load_json("quantization.json")
    keys = table["engines"][name]["sources"]
    origin = table["sources"][keys[0]]
    return Cell(
        engine=engine,
        criterion="quantization",
        option=weights,
        value=YES if found.runs else NO,
        note=found.why,
        version=quantization.engine_name(name),
        source="; ".join(table["sources"][key]["source"] for key in keys),
        url=origin["url"],
        checked=table["checked"],
    )


def _capability(accelerator: Accelerator) -> Any:
    known = load_json("quantization.json")["capability"]
    if accelerator.slug not in known:
        raise CalcError(f"{accelerator.name} is no GPU of the table: choose one of {', '.join(known)}")
    return known[accelerator.slug]


def _inside(window: Mapping[str, Any], capability: float) -> bool:
    return window.get("least", 0) <= capability < window.get("below", float("inf"))


def _cell(
    engine: str, criterion: str, option: str, value: str, note: str, source: str, bugs: tuple[Bug, ...] = ()
) -> Cell:
    table = _table()
    about = {"note": note, "bugs": bugs, "checked": table["checked"], **table["sources"][source]}
    return Cell(engine=engine, criterion=criterion, option=option, value=value, **about)


def _engine(engine: str) -> Mapping[str, Any]:
    known = _table()["engines"]
    if engine not in known:
        close = difflib.get_close_matches(str(engine)[:40], known, n=2) or known
        raise CalcError(f"no engine {engine!r:.40} in the table: use {', '.join(close)}")
    return known[engine]


def _table() -> Mapping[str, Any]:
    return load_json("engines.json")
