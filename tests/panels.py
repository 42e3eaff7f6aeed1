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
    for path in sorted(site.rglob("*.html")):
        if "data-panel=" not in path.read_text("utf-8"):
            continue
        for panel in parsed(path, class_="panel").select("[data-panel]"):
            inputs = {field["name"]: values(panel, field) for field in panel.select("[name]")}
            yield path.relative_to(site).as_posix(), panel["data-panel"], inputs


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
