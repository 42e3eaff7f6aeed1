"""A worksheet's result: sections of lines, warnings, what was assumed; as JSON, CSV, Markdown and a rich display."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from calc.units import CalcError
from calc.worksheet._lines import Line, Section, Warned

COLUMNS = ("section", "label", "value", "unit", "text", "kind", "key", "step", "source", "note")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report:
    """One deployment on a worksheet. Made by `size`.

    Attributes
    ----------
    title : str
        The deployment in one line.
    about : Mapping
        Name, architecture and source of the model; slug and name of the accelerator; the library's version.
    sections : tuple of Section
        Lines in the order of a reader.
    warnings : tuple of Warned
        Choices that are known to mislead, the gravest first.
    assumptions : Mapping
        Every choice by name, as it was used.
    """

    title: str
    about: Mapping[str, Any]
    sections: tuple[Section, ...]
    warnings: tuple[Warned, ...]
    assumptions: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"<Report: {self.title}, {len(self.lines)} lines>"

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines of all sections."""
        return tuple(line for section in self.sections for line in section.lines)

    def line(self, key: str) -> Line:
        """One line by its key, "kv.bytes_per_token".

        Raises
        ------
        CalcError
            If there is none.
        """
        for line in self.lines:
            if line.key == key:
                return line
        raise CalcError(f"the worksheet has no line {key!r:.60}")

    def __getitem__(self, key: str) -> Any:
        """The value of a line, in base units."""
        return self.line(key).value

    @property
    def values(self) -> dict[str, Any]:
        """All values by key, nested at the points; None where one could not be worked out."""
        found: dict[str, Any] = {"schema": 1, **self.about}
        for line in self.lines:
            *path, last = line.key.split(".")
            place = found
            for name in path:
                place = place.setdefault(name, {})
            place[last] = list(line.value) if isinstance(line.value, tuple) else line.value
        refused = {line.key: line.note for line in self.lines if line.value is None and line.note}
        found["refused"] = refused
        found["warnings"] = [asdict(w) | {"link": w.link} for w in self.warnings]
        found["assumptions"] = dict(self.assumptions)
        return found

    def to_json(self, *, lines: bool = False, indent: int | None = 2) -> str:
        """The worksheet as JSON: `values`, and with `lines` also every line with its text, kind, step and working.

        Parameters
        ----------
        lines : bool
            Whether "sections" holds the lines themselves.
        indent : int or None
            As for `json.dumps`.
        """
        found = self.values
        if lines:
            found["title"] = self.title
            found["sections"] = [
                {"key": s.key, "title": s.title, "leaves_out": s.leaves_out, "lines": [_row(line) for line in s.lines]}
                for s in self.sections
            ]
        return json.dumps(found, indent=indent, ensure_ascii=True, allow_nan=False)

    def to_csv(self) -> str:
        """One row for each line, a header first.

        Cells that a spreadsheet would take for a formula get an apostrophe in front.
        """
        file = io.StringIO()
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        for section, line in self._placed():
            value = " ".join(map(str, line.value)) if isinstance(line.value, tuple) else line.value
            cells = (section.title, line.label, value, line.unit, line.text, line.kind, line.key, line.step)
            out.writerow([_tame(cell) for cell in (*cells, line.source, line.note)])
        return file.getvalue()

    def to_markdown(self) -> str:
        """Headings, tables and warnings, for an issue or a design document."""
        out = [f"# {_plain(self.title)}", ""]
        for warned in self.warnings:
            out.append(f"- **{_plain(warned.code)}**: {_plain(warned.text)}")
        for section in self.sections:
            out += ["", f"## {_plain(section.title)}", "", "| What | Value | Kind |", "| --- | --- | --- |"]
            out += [f"| {_plain(line.label)} | {_plain(line.text)} | {line.kind} |" for line in section.lines]
            if section.leaves_out:
                out += ["", f"Left out: {_plain(section.leaves_out)}"]
        out += ["", "## Assumptions", "", "| What | Value |", "| --- | --- |"]
        out += [f"| {_plain(name)} | {_plain(str(value))} |" for name, value in self.assumptions.items()]
        return "\n".join(out) + "\n"

    def to_text(self) -> str:
        """A table for a terminal."""
        out = [self.title]
        width = max(len(line.label) for line in self.lines)
        for section in self.sections:
            out += ["", section.title]
            for line in section.lines:
                out.append(f"  {line.label:<{width}}  {line.text}{_mark(line)}")
        out += ["", "Know that"]
        out += [f"  {w.text}" for w in self.warnings]
        out += ["", "* assumed   † published   – could not be worked out"]
        return "\n".join(out)

    def _placed(self) -> Iterator[tuple[Section, Line]]:
        for section in self.sections:
            for line in section.lines:
                yield section, line

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        out = [f'<div class="calc-worksheet"><p><strong>{escape(self.title)}</strong></p>']
        if self.warnings:
            out.append(f"<ul>{''.join(f'<li>{escape(w.text)}</li>' for w in self.warnings)}</ul>")
        for section in self.sections:
            rows = "".join(_html_row(line) for line in section.lines)
            note = f"<p>Left out: {escape(section.leaves_out)}</p>" if section.leaves_out else ""
            head = f"<caption>{escape(section.title)}</caption>"
            out.append(f'<table class="calc-table">{head}<tbody>{rows}</tbody></table>{note}')
        return "".join(out) + "</div>"


def _row(line: Line) -> dict[str, Any]:
    row = asdict(line) | {"link": line.link}
    return row | {"value": list(line.value)} if isinstance(line.value, tuple) else row


def _mark(line: Line) -> str:
    return {"assumed": " *", "published": " †"}.get(line.kind, "")


def _html_row(line: Line) -> str:
    text = f"<strong>{escape(line.text)}</strong>" if line.keep else escape(line.text)
    more = "<br>".join(escape(part) for part in (*line.working.splitlines(), line.note) if part)
    if more:
        text = f"<details><summary>{text}</summary>{more}</details>"
    return f"<tr><th>{escape(line.label)}</th><td>{text}</td><td>{escape(line.kind)}</td></tr>"


def _plain(text: str) -> str:
    """Text that Markdown and HTML show as it is."""
    text = " ".join(text.split())
    for mark in "\\`*_[]<>|#~":
        text = text.replace(mark, f"\\{mark}")
    return text


def _tame(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell
