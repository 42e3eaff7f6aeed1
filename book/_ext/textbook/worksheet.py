"""The ``worksheet`` directive: the sizing form of `calc.worksheet`, and its whole report for the defaults.

The report is made here by the function that the browser's worker calls (book/live/worksheet.js), so the page is right
without JavaScript, and defaults that are refused fail the build.
"""

from __future__ import annotations

import json

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.docutils import SphinxDirective

from calc.worksheet import GROUPS, form, worksheet_json
from textbook.panel import TEMPLATES


class WorksheetError(SphinxError):
    """The worksheet's defaults are refused: the build stops."""

    category = "Worksheet error"


def build(part: str, arguments: str = "{}") -> str:
    """HTML of the "sheet", form and report for some arguments (the defaults unless given), or of the "log" form.

    Raises
    ------
    WorksheetError
        If the arguments are refused.
    """
    shown = json.loads(worksheet_json(arguments))
    if not shown["ok"]:
        raise WorksheetError(shown["error"])
    groups = [(name, folded, [f for f in form() if f.group == name]) for name, folded in GROUPS.items()]
    return TEMPLATES.get_template("worksheet.html").render(part=part, groups=groups, **shown)


class WorksheetDirective(SphinxDirective):
    """``{worksheet} sheet``, and below it ``{worksheet} log``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        part = directives.choice(self.arguments[0], ("sheet", "log"))
        return [nodes.raw("", build(part), format="html")]


def setup(app: Sphinx) -> None:
    app.add_directive("worksheet", WorksheetDirective)
