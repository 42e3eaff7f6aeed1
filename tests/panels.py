"""The live panels that the built book declares, and grids of inputs for them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from built import parsed


def declared(site: Path) -> Iterator[tuple[str, str, dict[str, list[Any]]]]:
    """Page, function and, for each input, the values to try it at: all choices, all or some slider stops."""
    for page, panel in panels(site):
        yield page, panel["data-panel"], {field["name"]: values(panel, field) for field in panel.select("[name]")}


def at_rest(site: Path) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
    """Function, the value at which each of its inputs stands, and the inputs that a number can be typed into."""
    for _, panel in panels(site):
        typed = [field["name"] for field in panel.select("input[type=number][name]")]
        yield panel["data-panel"], {field["name"]: default(field) for field in panel.select("[name]")}, typed


def panels(site: Path) -> Iterator[tuple[str, BeautifulSoup]]:
    for path in sorted(site.rglob("*.html")):
        if "data-panel=" in path.read_text("utf-8"):
            for panel in parsed(path, class_="panel").select("[data-panel]"):
                yield path.relative_to(site).as_posix(), panel


def default(field: Any) -> Any:
    if field.name == "select":
        chosen = (field.select_one("[selected]") or field.select_one("option"))["value"]
        return number(chosen) if "data-number" in field.attrs else chosen
    return "checked" in field.attrs if field["type"] == "checkbox" else number(field["value"])


def values(panel: BeautifulSoup, field: Any) -> list[Any]:
    if field.name == "select":
        given = [option["value"] for option in field.select("option")]
        return [number(value) for value in given] if "data-number" in field.attrs else given
    if field["type"] == "checkbox":
        return [False, True]
    slider = panel.select_one(f'[data-for="{field["name"]}"]')
    if "data-least" in slider.attrs:
        least, most = number(slider["data-least"]), number(slider["data-most"])
        return [min(most, least * 2**stop) for stop in range(int(slider["max"]) + 1)]
    least, most, default = (number(slider[name]) for name in ("min", "max", "value"))
    return sorted({least, default, most, (least + most) // 2})


def number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else float(text)


def line_as_read(line: str) -> str:
    """The text of a line of working once "B_pos" is B with a subscript."""
    return re.sub(r"(?<!\w)([^\W\d_])_([A-Za-z0-9]+)(?!\w)", r"\1\2", line)


def grid(inputs: dict[str, list[Any]], size: int, seed: int = 0) -> list[dict[str, Any]]:
    """`size` different combinations, the same ones every time."""
    rng = random.Random(seed)
    return [{name: rng.choice(possible) for name, possible in inputs.items()} for _ in range(size)]
