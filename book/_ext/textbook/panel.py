"""The ``panel`` directive: a library function with inputs to change.

The function is called here with the defaults, so the page is right without JavaScript and a broken
declaration fails the build; the browser calls the same function (book/live/panel.js).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from docutils.parsers.rst import directives
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.docutils import SphinxDirective

from calc.models import catalogue, load
from calc.panel import render
from textbook.kinds import mark

KEYS = {"name", "label", "unit", "min", "max", "step", "scale", "choices", "default"}
TEMPLATES = Environment(loader=FileSystemLoader(Path(__file__).parents[2] / "_templates"), autoescape=True)
TEMPLATES.globals["mark"] = lambda kind, text: Markup(mark(kind, text))


class PanelError(SphinxError):
    """A panel's declaration is wrong: the build stops."""

    category = "Panel error"


def complete(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check one input's declaration and fill in what follows from it. ``choices: models`` offers the catalogue.

    Raises
    ------
    PanelError
        Naming the input, what was declared and what is wanted.
    """
    spec = dict(given)
    name = spec.get("name", "an input")
    if unknown := set(spec) - KEYS:
        raise PanelError(f"{name}: {', '.join(sorted(unknown))} is not a key, wanted some of {', '.join(sorted(KEYS))}")
    if missing := {"name", "label", "default"} - set(spec):
        raise PanelError(f"{name}: {', '.join(sorted(missing))} is missing")
    default = spec["default"]
    if choices := spec.get("choices"):
        if choices == "models":
            choices = {slug: load(slug).name for slug in catalogue()}
        spec["choices"] = choices if isinstance(choices, Mapping) else {choice: choice for choice in choices}
        if default not in spec["choices"]:
            raise PanelError(f"{name}: default {default!r} is not one of the choices {list(spec['choices'])}")
        return spec
    if isinstance(default, bool):
        return spec
    least, most = spec.get("min"), spec.get("max")
    if not all(isinstance(x, (int, float)) and math.isfinite(x) for x in (default, least, most)):
        raise PanelError(f"{name}: a number needs default, min and max, or the input needs choices")
    if not least <= default <= most:
        raise PanelError(f"{name}: default {default} is outside {least} to {most}")
    whole = all(isinstance(x, int) for x in (default, least, most))
    spec.setdefault("step", 1 if whole else "any")
    if spec.setdefault("scale", "linear") == "log2":
        if least <= 0:
            raise PanelError(f"{name}: min {least} cannot be on a log2 scale, wanted more than 0")
        spec["stops"] = math.ceil(math.log2(most / least))
        spec["stop"] = round(math.log2(default / least))
    elif spec["scale"] != "linear":
        raise PanelError(f"{name}: scale {spec['scale']!r} is unknown, wanted linear or log2")
    return spec


def build(path: str, title: str, inputs: list[Mapping[str, Any]], identity: str) -> str:
    """HTML of a panel with its defaults.

    Raises
    ------
    PanelError
        If the declaration is wrong or the function refuses its defaults.
    """
    try:
        specs = [complete(spec) for spec in inputs]
        defaults = {spec["name"]: spec["default"] for spec in specs}
        if len(defaults) < len(specs):
            raise PanelError("two inputs have the same name")
        shown = json.loads(render(path, json.dumps(defaults)))
        if not shown["ok"]:
            raise PanelError(f"the defaults are refused: {shown['error']}")
    except PanelError as error:
        raise PanelError(f"{path}: {error}") from error
    except Exception as error:
        raise PanelError(f"{path}: {type(error).__name__}: {error}") from error
    labels = json.dumps({spec["name"]: spec["label"] for spec in specs}, ensure_ascii=False)
    known = {"path": path, "title": title, "inputs": specs, "id": identity, "labels": labels}
    return TEMPLATES.get_template("panel.html").render(**known, **shown)


class PanelDirective(SphinxDirective):
    """``{panel} calc.module:function`` with YAML ``inputs`` as its content."""

    required_arguments = 1
    has_content = True
    option_spec = {"title": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        try:
            declared = yaml.safe_load("\n".join(self.content)) or {}
            inputs = declared["inputs"]
        except (yaml.YAMLError, KeyError, TypeError) as error:
            raise PanelError(
                f"{self.get_location()}: the content must be YAML with a list of inputs: {error}"
            ) from error
        identity = f"panel-{self.env.new_serialno('panel') + 1}"
        try:
            html = build(self.arguments[0], self.options.get("title", "Change the assumptions"), inputs, identity)
        except PanelError as error:
            raise PanelError(f"{self.get_location()}: {error}") from error
        return [nodes.raw("", html, format="html")]


def setup(app: Sphinx) -> None:
    app.add_directive("panel", PanelDirective)
