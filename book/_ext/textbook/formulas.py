"""The ``formulas`` directive: every formula that a chapter shows, in symbols, with the step that derives it."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

import calc
from calc.symbols import SYMBOLS
from calc.units import CalcError
from calc.working import symbolic, symbols_of
from calc.worksheet import chapter_name
from textbook.ledger import part, titled
from textbook.notebooks import cells, depend

HEADING = re.compile(r"^#{2,3} +(.+?) *$", re.MULTILINE)
SYMBOL = re.compile("|".join(sorted((re.escape(s.latex) for s in SYMBOLS.values()), key=len, reverse=True)))


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


def places(root: Path, pages: list[str]) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """For each formula that a chapter shows: the page and the heading under which it does, in reading order.

    What counts is what stands on the page. A cell may take its formula from a function that chooses one, so its source
    doesn't say which it shows.
    """
    known = {}
    for module, own in formulas().items():
        for name, formula in own.items():
            with suppress(CalcError):  # without a symbol for each name it can't be shown
                known[module, name] = rows(symbolic(formula))
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for page in pages:
        heading = ""
        for cell in cells(root, page):
            if cell["cell_type"] == "markdown":
                heading = [heading, *HEADING.findall("".join(cell["source"]))][-1]
                continue
            for output in cell["outputs"]:
                latex = "".join(output.get("data", {}).get("text/latex", ""))
                if r"\begin{aligned}" not in latex:
                    continue
                where = found.setdefault(shown(latex, known, f"{page}, {heading}"), [])
                if (page, heading) not in where:
                    where.append((page, heading))
    return found


def rows(latex: str) -> list[str]:
    """The rows of an aligned formula."""
    return [row.strip().removesuffix(r"\\").strip() for row in latex.splitlines() if "&" in row]


def shape(row: str) -> str:
    """A row with its result, but one sign for every symbol on the right: a chapter may put another symbol there."""
    left, right = row.split("&=", 1) if "&=" in row else ("", row)
    return f"{left.strip()} = {SYMBOL.sub('□', right)}"


def nameless(row: str) -> str:
    """The same, where the chapter gives the result another symbol too."""
    return SYMBOL.sub("□", shape(row))


def shown(latex: str, known: dict[tuple[str, str], list[str]], where: str) -> tuple[str, str]:
    """Which of the known formulas a working shows: all rows of the formula stand in it, in order."""
    for form in (str, shape, nameless):
        working = [form(row) for row in rows(latex)]
        found = []
        for name, own in known.items():
            following = iter(working)
            if form(own[0]) == working[0] and all(form(row) in following for row in own):
                found.append(name)
        if len(found) == 1:
            return found[0]
    raise ExtensionError(f"{where}: a working is of no formula, or of one of {found}:\n{latex}")


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
        depend(self.env, pages)
        found = places(Path(self.env.srcdir), pages)
        order = {page: i for i, page in enumerate(pages)}
        derived = {
            module: [(name, f, found[module, name]) for name, f in own.items() if (module, name) in found]
            for module, own in formulas().items()
        }
        first = {module: min(order[where[0][0]] for _, _, where in own) for module, own in derived.items() if own}
        return [self.section(module, derived[module]) for module in sorted(first, key=first.get)]

    def section(self, module: str, own: list[tuple[str, Callable, list[tuple[str, str]]]]) -> nodes.section:
        section = part(titled(module), f"formulas-{module}", self)
        for name, formula, where in own:
            section += self.one(module, name, formula, where)
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
        step = heading.partition(" · ")[0]
        return f"{chapter_name(page.rpartition('/')[2])}, {step[0].lower()}{step[1:]}"


def setup(app: Sphinx) -> None:
    app.add_directive("formulas", FormulasDirective)
