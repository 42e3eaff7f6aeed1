"""The ``ledger`` directive: every published value beside what the library computes.

The values are computed when the book is built; one that disagrees beyond its tolerance stops the build.
"""

from __future__ import annotations

from collections import Counter

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.docutils import SphinxDirective

from calc.published import Row, evaluate, rows
from calc.units import significant
from textbook.panel import TEMPLATES

# how the summary says each of calc.published.ROLES
COUNTED = {
    "pin": "{} hold as printed",
    "label": "{} hold in another unit than the one printed",
    "erratum": "{} do not hold",
    "copy": "{} are where the book took its own figures from",
}

# topics and modules whose name is not yet a title
TITLES = {
    "kv_cache": "KV cache",
    "params_weights": "Parameters and weights",
    "gpu_specs": "Accelerators and links",
    "lora": "LoRA",
    "adapters": "LoRA",
    "published": "Published values",
    "shared": "In several chapters",
}


def titled(name: str) -> str:
    """A topic or a module as a heading."""
    return TITLES.get(name, name.replace("_", " ").capitalize())


def part(title: str, identity: str, directive: SphinxDirective) -> nodes.section:
    """A section for one of a directive's tables."""
    section = nodes.section("", nodes.title(text=title), ids=[nodes.make_id(identity)])
    directive.state.document.note_implicit_target(section)
    return section


class LedgerError(SphinxError):
    """A published value and the library disagree: the build stops."""

    category = "Ledger error"


def entry(row: Row) -> dict[str, object]:
    """One row as the page shows it.

    Raises
    ------
    LedgerError
        If the computed value is further from the expected one than the row allows.
    """
    computed = evaluate(row)
    if not row.holds(computed):
        raise LedgerError(
            f"{row.id}, {row.quantity}: computed {computed:.10g} {row.unit}, expected {row.expected:.10g}"
            f" within {row.tolerance:g} ({row.tolerance_reason})"
        )
    percent = 100 * (computed / row.printed - 1)
    return {
        "row": row,
        "printed": f"{row.printed:,.12g} {row.printed_unit}",
        "computed": f"{exactly(computed, row)} {row.unit}",
        "difference": f"{'−' if percent < 0 else '+'}{significant(abs(percent), 2)}%"
        if abs(percent) > 5e-4
        else "none",
        "allowed": f"{row.tolerance:g} {row.unit}, {row.tolerance_reason}" if row.tolerance else "",
    }


def exactly(computed: float, row: Row) -> str:
    """The computed value: every digit of a whole number, otherwise two digits more than the tolerance cares for."""
    if computed == int(computed) and abs(computed) < 1e15:
        return f"{int(computed):,}"
    return significant(computed, 5 if row.tolerance else 9)


class LedgerDirective(SphinxDirective):
    """All of data/published.csv: a count of the roles, then a section with a table for each topic."""

    def run(self) -> list[nodes.Node]:
        counted = Counter(row.role for row in rows())
        said = ", ".join(COUNTED[role].format(number) for role, number in counted.most_common())
        shown: list[nodes.Node] = [nodes.paragraph(text=f"Of {len(rows())} published values, {said}.")]
        for topic in dict.fromkeys(row.topic for row in rows()):
            section = part(titled(topic), topic, self)
            html = TEMPLATES.get_template("ledger.html").render(entries=[entry(r) for r in rows() if r.topic == topic])
            section += nodes.raw("", html, format="html")
            shown.append(section)
        return shown


def setup(app: Sphinx) -> None:
    app.add_directive("ledger", LedgerDirective)
