"""The ``drill`` directive: the form of a mixed interview, and one interview printed in full.

Both come from `calc.practice`, as in the browser (book/live/drill.js): the page is right without JavaScript. The steps
that problems return to are looked up in the chapters, and one that is missing fails the build.
"""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.docutils import SphinxDirective

from calc.practice import PARTS, interview, problems
from textbook.notebooks import cells, depend
from textbook.panel import TEMPLATES

LENGTHS = (3, 6, 12)  # that the form offers
PRINTED = 6  # the seed of the printed interview
HEADING = re.compile(r"^#{1,3} +(.+?) *$", re.MULTILINE)


class DrillError(SphinxError):
    """A problem returns to a step that its chapter does not have: the build stops."""

    category = "Drill error"


def headings(root: Path, page: str) -> list[str]:
    """The headings of a chapter, its title first."""
    texts = ("".join(cell["source"]) for cell in cells(root, page) if cell["cell_type"] == "markdown")
    return [heading for text in texts for heading in HEADING.findall(text)]


def steps(book: Path) -> dict[str, dict[str, str]]:
    """Where each step that a problem returns to is, from the page of the interview, and what it is called.

    Raises
    ------
    DrillError
        If a chapter has no such step.
    """
    found = {}
    for part, chapters in PARTS.items():
        for chapter in chapters:
            title, *rest = headings(book, f"{part}/{chapter}")
            for problem in problems(chapter).values():
                heading = next((h for h in rest if h.startswith(f"{problem.step_label} · ")), None)
                if heading is None:
                    raise DrillError(f"{problem.id} returns to {problem.step!r}, which {part}/{chapter} does not have")
                href = f"{part}/{chapter}.html#{nodes.make_id(heading)}"
                found[problem.step] = {"href": href, "chapter": title, "heading": heading}
    return found


class DrillDirective(SphinxDirective):
    """``{drill} form``, and below it ``{drill} printed``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        part = directives.choice(self.arguments[0], ("form", "printed"))
        book = Path(self.env.srcdir, "book")
        depend(self.env, (f"book/{name}/{chapter}" for name in PARTS for chapter in PARTS[name]))
        known = {"lengths": LENGTHS, "parts": PARTS, "steps": steps(book), "seed": PRINTED}
        html = TEMPLATES.get_template("drill.html").render(part=part, questions=interview(seed=PRINTED), **known)
        return [nodes.raw("", html, format="html")]


def setup(app: Sphinx) -> None:
    app.add_directive("drill", DrillDirective)
