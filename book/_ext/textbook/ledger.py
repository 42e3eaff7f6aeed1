"""The ``ledger`` directive: every published value beside what the library computes, and every recorded run.

The values are computed when the book is built; one that disagrees beyond its tolerance stops the build. The runs are
read from their files.
"""

from __future__ import annotations

import inspect
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.docutils import SphinxDirective

from calc.published import FieldCase, Row, evaluate, field_cases, rows
from calc.sources import data_path
from calc.units import format_bytes, format_seconds, significant
from calc.workload import Fields, read_recording
from textbook.notebooks import code, depend
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
    "kv_bytes_per_position": "KV bytes per position",
    "params_weights": "Parameters and weights",
    "gpu_specs": "Accelerators and links",
    "lora": "LoRA",
    "adapters": "LoRA",
    "multi_lora": "Multi-LoRA",
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


def checked(one: Row | FieldCase, expected: float) -> float:
    """What the library computes for a row.

    Raises
    ------
    LedgerError
        If it is further from the expected value than the row allows.
    """
    computed = evaluate(one)
    if not one.holds(computed):
        raise LedgerError(
            f"{one.id}, {one.quantity}: computed {computed:.10g} {one.unit}, expected {expected:.10g}"
            f" within {one.tolerance:g} ({one.tolerance_reason})"
        )
    return computed


def difference(computed: float, said: float) -> str:
    """The computed value over the other, less one."""
    percent = 100 * (computed / said - 1) if computed != said else 0.0
    return f"{'−' if percent < 0 else '+'}{significant(abs(percent), 2)}%" if abs(percent) > 5e-4 else "none"


def stated(value: float, unit: str) -> str:
    """A value as somebody stated it, with its unit."""
    return f"{value:,.12g} {unit}".strip()


def allowed(one: Row | FieldCase) -> str:
    """What a row allows and why; empty if nothing."""
    return f"{one.tolerance:g} {one.unit}, {one.tolerance_reason}".replace(" ,", ",") if one.tolerance else ""


def entry(row: Row) -> dict[str, object]:
    """A published value as the page shows it."""
    computed = checked(row, row.expected)
    return {
        "row": row,
        "printed": stated(row.printed, row.printed_unit),
        "computed": f"{exactly(computed, row)} {row.unit}",
        "difference": difference(computed, row.printed),
        "allowed": allowed(row),
    }


def answer(case: FieldCase) -> dict[str, object]:
    """A question of a public thread that nobody there got wrong, as the page shows it."""
    computed = checked(case, case.value)
    return {
        "case": case,
        "given": stated(case.value, case.unit),
        "computed": f"{exactly(computed, case)} {case.unit}".strip(),
        "difference": difference(computed, case.value),
        "allowed": allowed(case),
    }


def exactly(computed: float, row: Row | FieldCase) -> str:
    """The computed value: every digit of a whole number, otherwise two digits more than the tolerance cares for."""
    if computed == int(computed) and abs(computed) < 1e15:
        return f"{int(computed):,}"
    return significant(computed, 5 if row.tolerance else 9)


# --- the recorded runs

NAMED = re.compile(r'(\w+)\.jsonl\.gz|\bshelf\("(\w+)"\)|"measured", "([\w.]+)\.json"')
CALLED = re.compile(r"\b(\w+)\.(\w+)\(")
FILE = re.compile(r"(\w+)\.jsonl\.gz")


def read_by(source: str) -> set[str]:
    """The recordings that a chapter's code reads: it names the file, or calls a function of `calc` that names it."""
    found = {name for names in NAMED.findall(source) for name in names if name}
    for module, name in set(CALLED.findall(source)):
        function = find_spec(f"calc.{module}") and getattr(import_module(f"calc.{module}"), name, None)
        if function:
            found.update(FILE.findall(inspect.getsource(inspect.unwrap(function))))
    return found


def readers(root: Path, pages: list[str]) -> dict[str, list[str]]:
    """The chapters that read each recording, in reading order."""
    found: dict[str, list[str]] = {}
    for page in pages:
        for name in read_by("\n".join(code(root, page))):
            found.setdefault(name, []).append(page)
    return found


@dataclass(frozen=True)
class Runs:
    """One recording as the page shows it: how it was made, and its runs under what they ran with."""

    name: str
    title: str
    counted: str
    columns: tuple[str, str, str]
    facts: list[tuple[str, str]]
    commands: list[tuple[str, str]]
    groups: list[tuple[str, list[dict[str, str]]]]


def recordings() -> Iterator[Runs]:
    """Every recording of data/measured."""
    for path in sorted(data_path().joinpath("measured").glob("*.jsonl.gz")):
        yield shown(path)
    for path in sorted(data_path().joinpath("measured").glob("*.json")):
        yield started(path)


def shown(path: Path) -> Runs:
    """A recording of repeats, accepted and rejected."""
    recording = read_recording(path, "recording")
    header = recording.header.data
    limit = header["foreign_share_limit"]
    every = sorted((recording.runs | recording.rejected).items())
    groups: dict[str, list[dict[str, str]]] = {}
    for number, run in every:
        groups.setdefault(ran_with(run), []).append(
            {
                "id": f"{header['name']}-{number}",
                "label": f"repeat {run.count('repeat') + 1}"
                + (f", attempt {run.count('attempt') + 1}" if run.count("attempt") else ""),
                "when": f"{run.text('started')[11:19]}, {format_seconds(run.count('duration_us') / 1e6)}",
                "verdict": verdict(run.number("foreign_share"), limit, number in recording.runs),
            }
        )
    machine = header["machine"]
    return Runs(
        name=header["name"],
        title=header["title"],
        counted=f"{len(recording.runs)} runs kept, {len(recording.rejected) or 'none'} rejected",
        columns=("Run", "Started, lasted", "Others’ share of the CPU"),
        facts=[
            ("Recorded", f"{header['date']}, the times of day below are UTC; seed of the workloads {header['seed']}"),
            (
                "Machine",
                f"{machine['cpu']}{', virtual' if machine['virtual'] else ''}, {machine['cores']} cores,"
                f" {format_bytes(machine['memory_bytes'])}, {machine['kernel']}",
            ),
            ("Versions", ", ".join(f"{name} {version}" for name, version in header["versions"].items())),
            ("Rule", header["rule"]),
        ],
        commands=[(setup, shlex.join(command)) for setup, command in header["commands"].items()],
        groups=list(groups.items()),
    )


def ran_with(run: Fields) -> str:
    """What a run ran with: its setup, its name and its parameters, once each."""
    said = ", ".join(f"{name} {json.dumps(value)}" for name, value in run.fields("parameters").data.items())
    return f"{run.text('setup')} · {run.text('name')}" + (f" ({said})" if said else "")


def verdict(share: float, limit: float, kept: bool) -> str:
    """Whether a run was kept, and why: what others had of the machine."""
    return f"kept: {100 * share:.2f}%" if kept else f"rejected: {100 * share:.2f}% is over {100 * limit:g}%"


def started(path: Path) -> Runs:
    """The starts of an engine, one for each small model; they hold no times, so the rule does not touch them."""
    recording = json.loads(path.read_text(encoding="utf-8"))
    starts = [
        {
            "id": start["id"],
            "label": start["shape"],
            "when": f"{format_bytes(start['memory_bytes'])}, blocks of {start['block_size']}, up to"
            f" {start['max_model_len']:,} positions",
            "verdict": f"{start['num_blocks']:,}",
        }
        for start in recording["starts"]
    ]
    return Runs(
        name=path.stem,
        title="Start-up lines of one engine for many models",
        counted=f"{len(starts)} starts",
        columns=("Start", "Cache", "Blocks"),
        facts=[(key.capitalize(), recording[key]) for key in ("recorded", "machine", "versions")],
        commands=[("each", recording["command"])],
        groups=[("each start", starts)],
    )


class LedgerDirective(SphinxDirective):
    """``printed``, ``threads`` or ``recorded``: data/published.csv, data/field_cases.csv, data/measured."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return {"printed": self.printed, "threads": self.threads, "recorded": self.recorded}[self.arguments[0]]()

    def printed(self) -> list[nodes.Node]:
        """A count of the roles, then a section with a table for each topic."""
        counted = Counter(row.role for row in rows())
        said = ", ".join(COUNTED[role].format(number) for role, number in counted.most_common())
        shown: list[nodes.Node] = [nodes.paragraph(text=f"Of {len(rows())} published values, {said}.")]
        for topic in dict.fromkeys(row.topic for row in rows()):
            section = part(titled(topic), topic, self)
            section += html("ledger.html", entries=[entry(r) for r in rows() if r.topic == topic])
            shown.append(section)
        return shown

    def threads(self) -> list[nodes.Node]:
        """A fold for each topic; what somebody got wrong stands on the page of errata."""
        topics: dict[str, list[dict[str, object]]] = {}
        for case in field_cases():
            if case.wrong is None:
                topics.setdefault(titled(case.topic), []).append(answer(case))
        return [html("threads.html", topics=topics)]

    def recorded(self) -> list[nodes.Node]:
        """A fold for each recording."""
        env = self.env
        site = env.external_site_map
        pages = [page for tree in site.root.subtrees for page in tree.files()]
        depend(env, pages)
        found = readers(Path(env.srcdir), pages)

        def link(page: str) -> tuple[str, str]:
            return env.app.builder.get_relative_uri(env.docname, page), titled(page.rpartition("/")[2])

        shown = [(one, [link(page) for page in found.get(one.name, [])]) for one in recordings()]
        return [html("recorded.html", recordings=shown)]


def html(template: str, **content: object) -> nodes.raw:
    """A piece of the page from one of book/_templates."""
    return nodes.raw("", TEMPLATES.get_template(template).render(**content), format="html")


def setup(app: Sphinx) -> None:
    app.add_directive("ledger", LedgerDirective)
