"""The ``formulas`` directive: every formula that a chapter shows, in symbols, with the step that derives it."""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import calc
from calc.symbols import SYMBOLS
from calc.working import symbolic, symbols_of
from textbook.ledger import part, titled

HEADING = re.compile(r"^#{2,3} +(.+?) *$", re.MULTILINE)
SHOWN = re.compile(r"\bshow\(\s*(?:(\w+)\.)?(\w+)\b")


def formulas() -> dict[str, dict[str, Callable]]:
    """The formulas of each module that has any, by name, in the order in which they are written."""
    found: dict[str, dict[str, Callable]] = {}
    for module in pkgutil.iter_modules(calc.__path__):
        if module.name.startswith("_"):
            continue
        here = vars(import_module(f"calc.{module.name}"))
        own = {
            name: f
            for name, f in here.items()
            if hasattr(f, "formula") and f.formula.__module__.split(".")[1] == module.name
        }
        if own:
            found[module.name] = own
    return found


def steps(root: Path, pages: list[str]) -> dict[str, list[tuple[str, str]]]:
    """For each formula that a chapter shows: the page and the heading under which it does, in reading order."""
    found: dict[str, list[tuple[str, str]]] = {}
    for page in pages:
        path = root / f"{page}.ipynb"
        if not path.is_file():
            continue
        heading = ""
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                heading = [heading, *HEADING.findall(source)][-1]
                continue
            for _, name in SHOWN.findall(source):
                places = found.setdefault(name, [])
                if (page, heading) not in places:
                    places.append((page, heading))
    return found


def summary(formula: Callable) -> str:
    """The first sentence of a formula's docstring, in one line."""
    return " ".join((inspect.getdoc(formula) or "").split("\n\n")[0].split()).replace("`", "")


def source(formula: Callable) -> str:
    """What the docstring names under References, in one line; empty if nothing."""
    match = re.search(r"\nReferences\n-+\n(.*?)(?:\n\n|\Z)", inspect.getdoc(formula) or "", re.DOTALL)
    return " ".join(match[1].split()).replace("`", "") if match else ""


class FormulasDirective(SphinxDirective):
    """A section for each module; under it, each formula that a chapter derives."""

    def run(self) -> list[nodes.Node]:
        site = self.env.external_site_map
        pages = [page for tree in site.root.subtrees for page in tree.files()]
        places = steps(Path(self.env.srcdir), pages)
        order = {page: i for i, page in enumerate(pages)}
        derived = {module: {name: f for name, f in own.items() if name in places} for module, own in formulas().items()}
        first = {module: min(order[places[name][0][0]] for name in own) for module, own in derived.items() if own}
        return [self.section(module, derived[module], places) for module in sorted(first, key=first.get)]

    def section(self, module: str, own: dict[str, Callable], places: dict[str, list[tuple[str, str]]]) -> nodes.section:
        section = part(titled(module), f"formulas-{module}", self)
        for name, formula in own.items():
            section += self.one(module, name, formula, places[name])
        return section

    def one(self, module: str, name: str, formula: Callable, places: list[tuple[str, str]]) -> nodes.container:
        box = nodes.container(classes=["formula"], ids=[nodes.make_id(f"formula-{module}-{name}")])
        box += nodes.paragraph("", "", nodes.strong(text=summary(formula)))
        math = symbolic(formula)
        box += nodes.math_block(math, math, nowrap=False, number=None, label=None, docname=self.env.docname)
        unit = formula.result_unit.partition(">")[0].removesuffix("count")
        meaning = nodes.paragraph()
        for i, symbol in enumerate(symbols_of(formula)):
            meaning += nodes.Text("; " if i else "")
            meaning += nodes.math(symbol.latex, symbol.latex)
            meaning += nodes.Text(f" {symbol.meaning}" + (f", in {symbol.unit}" if symbol.unit else ""))
        meaning += nodes.Text("." if SYMBOLS[name].unit or not unit else f"; result in {unit}.")
        box += meaning
        where = nodes.paragraph(classes=["formula-place"])
        where += nodes.literal(text=f"calc.{module}.{name}")
        for i, (page, heading) in enumerate(places):
            where += nodes.Text(" · " if i == 0 else ", ")
            uri = self.env.app.builder.get_relative_uri(self.env.docname, page) + f"#{nodes.make_id(heading)}"
            where += nodes.reference("", "", nodes.Text(self.label(page, heading)), refuri=uri, internal=True)
        if named := source(formula):
            where += nodes.Text(f" · {named}")
        box += where
        return box

    def label(self, page: str, heading: str) -> str:
        chapter = page.rpartition("/")[2].replace("_", " ").capitalize().replace("Kv", "KV")
        step = heading.partition(" · ")[0]
        return f"{chapter}, {step[0].lower()}{step[1:]}"


def setup(app: Sphinx) -> None:
    app.add_directive("formulas", FormulasDirective)
