"""What a worksheet is made of: lines with a kind, a step that derives them and their working; warnings."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from calc.sources import KINDS, Figure
from calc.units import (
    CalcError,
    counted,
    format_bytes,
    format_count,
    format_decimal,
    format_percent,
    format_seconds,
    significant,
)
from calc.working import working

# Steps that lines point to: the chapter's page, and the step's title there
STEPS = {
    "kv_cache#step-2": ("memory/kv_cache", "One position, all layers"),
    "kv_cache#step-4": ("memory/kv_cache", "Room to finish"),
    "kv_cache#step-5": ("memory/kv_cache", "The share of one GPU"),
    "kv_cache#step-7": ("memory/kv_cache", "Two ways engines count a window"),
    "attention_variants#step-2": ("memory/attention_variants", "What a layer stores"),
    "attention_variants#step-6": ("memory/attention_variants", "On each rank"),
    "attention_variants#step-8": ("memory/attention_variants", "What sharing leaves alone"),
    "paged_attention#step-2": ("memory/paged_attention", "From a block to bytes"),
    "paged_attention#step-6": ("memory/paged_attention", "The hit law, drafters and large blocks"),
    "capacity#step-1": ("memory/capacity", "What the engine may use"),
    "capacity#step-2": ("memory/capacity", "The weights of this rank"),
    "capacity#step-3": ("memory/capacity", "What runs beside them"),
    "capacity#step-4": ("memory/capacity", "What is left, in blocks"),
    "capacity#step-5": ("memory/capacity", "One fraction, many meanings"),
    "capacity#step-6": ("memory/capacity", "The rank that limits"),
    "capacity#step-7": ("memory/capacity", "Four ways to cut a model"),
    "capacity#step-8": ("memory/capacity", "Room for the tokens to come"),
    "capacity#step-10": ("memory/capacity", "The log, line by line"),
    "quantization#step-1": ("memory/quantization", "Three precisions, three savings"),
    "quantization#step-3": ("memory/quantization", "The whole model, and what stays"),
    "quantization#step-7": ("memory/quantization", "When fewer bytes stop helping"),
    "quantization#step-8": ("memory/quantization", "The cache is a third choice"),
    "multi_lora#step-2": ("memory/multi_lora", "Bytes of one adapter"),
    "multi_lora#step-4": ("memory/multi_lora", "The share of one GPU"),
    "multi_lora#step-5": ("memory/multi_lora", "The resident set is reserved"),
    "roofline#step-1": ("time/roofline", "What the chip does while it reads one byte"),
    "roofline#step-2": ("time/roofline", "A small decode batch"),
    "roofline#step-4": ("time/roofline", "Two floors"),
    "roofline#step-5": ("time/roofline", "The batch at which weights stop being the bound"),
    "roofline#step-7": ("time/roofline", "What tensor parallelism divides, and what it adds"),
    "roofline#step-8": ("time/roofline", "Experts that a batch reads"),
    "speculative_decoding#step-4": ("time/speculative_decoding", "How far a round gets"),
    "speculative_decoding#step-6": ("time/speculative_decoding", "What a round costs"),
    "speculative_decoding#step-7": ("time/speculative_decoding", "Speed-up, break-even and the best draft"),
    "speculative_decoding#step-8": ("time/speculative_decoding", "Why it fades as the batch grows"),
    "latency_and_goodput#step-2": ("service/latency_and_goodput", "The first token"),
    "latency_and_goodput#step-3": ("service/latency_and_goodput", "Pace and pauses"),
    "cold_start#step-2": ("service/cold_start", "Floors of the hops"),
    "cold_start#step-5": ("service/cold_start", "The critical path"),
    "conventions": ("conventions", "Conventions"),
}


@functools.cache
def link_of(step: str) -> str:
    """The address of a step below the book's root: page and anchor.

    Raises
    ------
    CalcError
        If no line may point there.

    Examples
    --------
    >>> link_of("capacity#step-4")
    'memory/capacity.html#step-4-what-is-left-in-blocks'
    """
    if step not in STEPS:
        raise CalcError(f"no step {step!r:.60} is known to the worksheet")
    page, title = STEPS[step]
    _, _, anchor = step.partition("#")
    slug = re.sub(r"[^a-z0-9]+", "-", f"{anchor} {title}".lower()).strip("-")
    return f"{page}.html#{slug}" if anchor else f"{page}.html"


def chapter_name(chapter: str) -> str:
    """A chapter by the name of its file, as a reader is told of it.

    Parameters
    ----------
    chapter : str
        "multi_lora".

    Returns
    -------
    str

    Examples
    --------
    >>> chapter_name("multi_lora")
    'Multi LoRA'
    """
    return chapter.replace("_", " ").capitalize().replace("Kv", "KV").replace("lora", "LoRA")


def place_of(step: str) -> str:
    """What a step is called, for a reader who is elsewhere.

    Examples
    --------
    >>> place_of("kv_cache#step-2"), place_of("conventions")
    ('KV cache, step 2: One position, all layers', 'Conventions')
    """
    chapter, _, anchor = step.partition("#")
    title = STEPS[step][1]
    return f"{chapter_name(chapter)}, {anchor.replace('-', ' ')}: {title}" if anchor else title


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One number of a worksheet.

    Attributes
    ----------
    key : str
        Its place in the JSON form: "kv.bytes_per_token".
    label : str
        What it is, for a reader.
    value : number, str, bool or None
        In base units (bytes, seconds, FLOP, tokens); None where it could not be worked out.
    text : str
        The same with its unit, as the book writes it.
    unit : str
        The base unit of `value`: "byte", "second", "FLOP/second", "token", "" for counts and names.
    kind : str
        A key of `calc.sources.KINDS`.
    step : str
        The step of a chapter that derives it, "capacity#step-4"; a key of `STEPS`.
    working : str
        Formula, numbers put in and result, as text; empty for what nobody computed.
    source, url, checked : str
        Where a published number was printed.
    note : str
        What a reader must know to use it.
    keep : bool
        Whether it is one of the few results of its section.
    """

    key: str
    label: str
    value: Any
    text: str
    unit: str = ""
    kind: str = "derived"
    step: str = "conventions"
    working: str = ""
    source: str = ""
    url: str = ""
    checked: str = ""
    note: str = ""
    keep: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise CalcError(f"kind is {self.kind!r}, wanted one of {', '.join(KINDS)}")
        link_of(self.step)

    @property
    def link(self) -> str:
        """Page and anchor of its step."""
        return link_of(self.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Lines that belong together.

    Attributes
    ----------
    key, title : str
    lines : tuple of Line
    leaves_out : str
        What the numbers do not say.
    """

    key: str
    title: str
    lines: tuple[Line, ...]
    leaves_out: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """A choice that is known to mislead.

    Attributes
    ----------
    code : str
        A stable name: "sparse-peak".
    text : str
        What to know, with the numbers of this worksheet.
    step : str
        The step of a chapter that explains it.
    """

    code: str
    text: str
    step: str

    @property
    def link(self) -> str:
        """Page and anchor of its step."""
        return link_of(self.step)


def whole(value: Any) -> Any:
    """A float that is whole as an integer: bytes are counted in ones."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value


def _tokens(value: float) -> str:
    return counted(value, "token")


_FORMATS = {"byte": format_bytes, "second": format_seconds, "": format_count, "token": _tokens}


def written(value: Any, unit: str) -> str:
    """A value with its unit, as the book writes it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, (tuple, list)):
        return _several(value, unit)
    if unit in _FORMATS:
        return _FORMATS[unit](value)
    if unit == "×":
        return f"{significant(value, 3)}×"
    if unit == "1":
        return format_percent(value)
    return format_decimal(value, unit.replace("byte", "B").replace("second", "s"))


def _several(values: Any, unit: str) -> str:
    texts = [written(value, unit) for value in values]
    if len(set(texts)) == 1:
        return f"{texts[0]} on each of {len(texts)}" if len(texts) > 1 else texts[0]
    shown = texts if len(texts) <= 8 else [*texts[:4], "…", texts[-1]]
    return ", ".join(shown)


@functools.lru_cache(maxsize=512, typed=True)
def _shown(formula: Callable, /, **arguments: Any) -> str:
    """A formula's working, written once: a change of one choice leaves most lines as they were."""
    return working(formula, **arguments).text


@dataclass(slots=True)
class Builder:
    """Collects the lines of one section."""

    key: str
    title: str
    leaves_out: str = ""
    lines: list[Line] = field(default_factory=list)

    def add(
        self,
        key: str,
        label: str,
        value: Any,
        unit: str = "",
        *,
        step: str,
        by: tuple[Callable, dict] | str | None = None,
        **more: Any,
    ) -> None:
        """One more line; `by` is the formula with its arguments that gives it, or its working as written."""
        more["working"] = _shown(by[0], **by[1]) if isinstance(by, tuple) else by or ""
        value = tuple(map(whole, value)) if isinstance(value, (tuple, list)) else whole(value)
        text = more.pop("text", None) or written(value, unit)
        self.lines.append(
            Line(key=f"{self.key}.{key}", label=label, value=value, text=text, unit=unit, step=step, **more)
        )

    def figure(self, key: str, label: str, figure: Figure, unit: str, *, step: str, **more: Any) -> None:
        """One more line from a published figure."""
        origin = {"source": figure.source, "url": figure.url, "checked": figure.checked, "note": figure.note}
        self.add(key, label, figure.value, unit, step=step, kind=figure.kind, **(origin | more))

    def section(self) -> Section:
        """The section as it is now."""
        return Section(key=self.key, title=self.title, lines=tuple(self.lines), leaves_out=self.leaves_out)
