"""The ``errata`` directive: numbers that were said wrong, what holds, and the test that keeps it so."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from calc.published import evaluate, field_cases, rows
from calc.units import significant
from textbook.ledger import exactly, part, stated, titled
from textbook.panel import TEMPLATES

PRINTED = "test_computed_value_is_the_one_printed_or_the_right_one"
SAID = "test_field_case_mistake_is_off_by_the_factor_given"


def times(said: float, holds: float) -> str:
    """What was said over what holds."""
    return f"{significant(said / holds)}×"


def thread(url: str) -> str:
    """A thread by its repository's name and its number."""
    *_, name, _, number = url.split("/")
    return f"{name} {number}"


def printed() -> list[dict[str, str]]:
    """Published values that do not hold."""
    return [
        {
            "id": row.id,
            "what": row.quantity,
            "said": stated(row.printed, row.printed_unit),
            "holds": f"{exactly(evaluate(row), row)} {row.unit}",
            "off": times(row.printed, evaluate(row, row.printed_unit)),
            "why": row.reason,
            "kind": "published",
            "sources": [(row.source, row.url)],
            "test": f"{PRINTED}[{row.id}]",
        }
        for row in rows()
        if row.role in {"erratum", "label"}
    ]


def said() -> dict[str, list[dict[str, str]]]:
    """Mistakes of public threads, by topic: what the thread says, or what this book worked out by its mistake."""
    found: dict[str, list[dict[str, str]]] = {}
    for case in field_cases():
        if case.wrong is not None:
            found.setdefault(case.topic, []).append(
                {
                    "id": case.id,
                    "what": case.quantity,
                    "said": stated(case.wrong, case.unit),
                    "holds": stated(case.value, case.unit),
                    "off": times(case.wrong, case.value),
                    "why": case.mistake,
                    "kind": "published" if case.wrong_from == "thread" else "derived",
                    "sources": [(thread(url), url) for url in case.url.split()],
                    "test": f"{SAID}[{case.id}]",
                }
            )
    return found


class ErrataDirective(SphinxDirective):
    """``printed``: one table of published values; ``said``: a section with a table for each topic."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        template = TEMPLATES.get_template("errata.html")
        if self.arguments[0] == "printed":
            return [nodes.raw("", template.render(entries=printed()), format="html")]
        sections = []
        for topic, entries in said().items():
            section = part(titled(topic), f"errata-{topic}", self)
            section += nodes.raw("", template.render(entries=entries), format="html")
            sections.append(section)
        return sections


def setup(app: Sphinx) -> None:
    app.add_directive("errata", ErrataDirective)
