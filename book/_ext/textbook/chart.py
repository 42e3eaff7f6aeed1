"""The ``map`` directive: all problems in reading order, and which of them leans on which.

A chapter leans on another if it imports a module of the library whose formulas that other one derives. Both are read
from the notebooks, so the map is never out of date.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from textbook.formulas import places
from textbook.notebooks import code, notebook
from textbook.panel import TEMPLATES


@dataclass(frozen=True)
class Chapter:
    """One problem: its page, number and title, and the modules of the library that it imports."""

    page: str
    problem: int
    title: str
    modules: frozenset[str]


def chapter(root: Path, page: str) -> Chapter | None:
    """What the notebook of a page says of itself; None if it is not one of the problems."""
    read = notebook(root, page)
    if read is None or (problem := read["metadata"].get("problem")) is None:
        return None
    heading = "".join(read["cells"][0]["source"]).partition("\n")[0].removeprefix("# ")
    trees = [ast.parse(source) for source in code(root, page) if not source.startswith("%")]
    imported = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    modules = {name.name for node in imported if node.module == "calc" for name in node.names}
    return Chapter(page, problem, heading, frozenset(modules))


def homes(derived: dict[tuple[str, str], list[tuple[str, str]]]) -> dict[str, str]:
    """For each module with formulas, the chapter that derives most of them; of equals the first."""
    first: dict[str, Counter[str]] = {}
    for (module, _), where in derived.items():
        first.setdefault(module, Counter())[where[0][0]] += 1
    return {module: pages.most_common(1)[0][0] for module, pages in first.items()}


def leaning(chapters: list[Chapter], home: dict[str, str]) -> dict[str, list[str]]:
    """For each page, the pages that it leans on, in reading order."""
    order = [one.page for one in chapters]
    used = {one.page: {home[module] for module in one.modules if module in home} - {one.page} for one in chapters}
    return {page: sorted(on & set(order), key=order.index) for page, on in used.items()}


class MapDirective(SphinxDirective):
    """``{map}`` with YAML as its content: each part of the contents that holds problems, and what it is about."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        about = yaml.safe_load("\n".join(self.content))
        root, site = Path(self.env.srcdir), self.env.external_site_map
        parts = [(tree.caption, [chapter(root, page) for page in tree.files()]) for tree in site.root.subtrees]
        parts = [(name, [one for one in found if one]) for name, found in parts if name in about]
        chapters = [one for _, found in parts for one in found]
        for one in chapters:
            self.env.note_dependency(str(root / f"{one.page}.ipynb"))
        leans = leaning(chapters, homes(places(root, [one.page for one in chapters])))
        rows: dict[str, int] = {}  # a heading takes a row as well
        for number, (_, found) in enumerate(parts, 1):
            rows |= {one.page: len(rows) + number + i for i, one in enumerate(found)}
        html = TEMPLATES.get_template("map.html").render(
            parts=parts,
            about=about,
            leans=leans,
            rows=rows,
            problem={one.page: one.problem for one in chapters},
            address=lambda page: self.env.app.builder.get_relative_uri(self.env.docname, page),
        )
        return [nodes.raw("", html, format="html")]


def setup(app: Sphinx) -> None:
    app.add_directive("map", MapDirective)
