"""Run a chapter in this process, without a kernel, with other values in its `parameters` cell.

A kernel costs about a second to start; running the cells here costs what the chapter computes. The cells run in one
namespace, in order, as Jupyter runs them: what `display` is given and the value of a cell's last expression are kept
as outputs. A `CalcError` ends the run and is kept as the chapter's refusal: Jupyter shows it as a note, for that error
renders itself without a traceback.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import io
import json
import linecache
import pkgutil
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any
from unittest import mock

import IPython.display

from calc import figures, published
from calc.units import CalcError

BOOK = Path(__file__).parent.parent / "book"
METHODS = {
    "text/markdown": "_repr_markdown_",
    "text/html": "_repr_html_",
    "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_",
}


@dataclass(frozen=True)
class Cell:
    """One code cell, compiled: all statements but a last expression, and that expression."""

    id: str
    parameters: bool
    names: frozenset[str]  # that the cell assigns at its top level
    body: CodeType
    last: CodeType | None


@dataclass
class Run:
    """What a chapter said: outputs by MIME type, its names, and its refusal if it stopped."""

    chapter: str
    drawn: bool = True  # or its figures are blank
    outputs: list[dict[str, str]] = field(default_factory=list)
    namespace: dict[str, Any] = field(default_factory=dict)
    refusal: CalcError | None = None

    @property
    def read(self) -> list[tuple[str, str]]:
        """What the reader reads: of each output its richest text, with its MIME type."""
        best = ("text/markdown", "text/html", "text/latex", "text/plain")
        return [next((kind, output[kind]) for kind in best if kind in output) for output in self.outputs]

    @property
    def prose(self) -> str:
        return "\n\n".join(text for _, text in self.read)


def chapter_names() -> list[str]:
    """Every chapter, as "memory/kv_cache"."""
    found = (path.relative_to(BOOK).with_suffix("").as_posix() for path in BOOK.rglob("*.ipynb"))
    return sorted(name for name in found if not re.search(r"(^|/)[._]", name))


def problem_names() -> list[str]:
    """The chapters that work an interview problem; the others are templates."""
    return [name for name in chapter_names() if "problem" in load(name)["metadata"]]


@functools.cache
def load(chapter: str) -> dict[str, Any]:
    """The notebook as JSON; callers must not change it."""
    return json.loads((BOOK / f"{chapter}.ipynb").read_text(encoding="utf-8"))


def stored(chapter: str) -> Run:
    """What the notebook says as it stands: its outputs, which nbval holds against a run."""
    code = (cell for cell in load(chapter)["cells"] if cell["cell_type"] == "code")
    outputs = [output for cell in code for output in cell["outputs"]]
    said = [output.get("data") or {"text/plain": output["text"]} for output in outputs]
    return Run(chapter, outputs=[{kind: "".join(text) for kind, text in one.items()} for one in said])


@functools.cache
def cells(chapter: str) -> tuple[Cell, ...]:
    """Compile a chapter's code cells once."""
    code = [cell for cell in load(chapter)["cells"] if cell["cell_type"] == "code"]
    return tuple(_compile(chapter, cell) for cell in code)


def _compile(chapter: str, cell: dict[str, Any]) -> Cell:
    source = "".join(cell["source"])
    filename = f"<{chapter} {cell['id']}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    try:
        tree = ast.parse(source, filename)
    except SyntaxError as error:
        raise AssertionError(f"{filename}: not plain Python, line {error.lineno}: {error.text}") from error
    names = frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = compile(ast.Expression(tree.body.pop().value), filename, "eval")
    tags = cell["metadata"].get("tags", ())
    return Cell(cell["id"], "parameters" in tags, names, compile(tree, filename, "exec"), last)


def parameter_names(chapter: str) -> frozenset[str]:
    """Names that a chapter's `parameters` cell sets."""
    return frozenset().union(*(cell.names for cell in cells(chapter) if cell.parameters))


def run(chapter: str, /, drawn: bool = True, **parameters: Any) -> Run:
    """Run a chapter with some of its assumptions replaced (papermill's convention: after its `parameters` cell).

    Unless it is to be `drawn`, its figures are blank, which takes half the time.
    """
    unknown = parameters.keys() - parameter_names(chapter)
    assert not unknown, f"{chapter} has no parameter {', '.join(sorted(unknown))}"
    result = Run(chapter, drawn)

    def display(*objects: Any, **_: Any) -> None:
        result.outputs.extend(bundle(item) for item in objects)

    result.namespace |= {"__name__": "__main__", "display": display}
    with (
        mock.patch.object(IPython.display, "display", display),
        mock.patch.object(published, "evaluate", _evaluated),
        contextlib.nullcontext() if drawn else _blank_figures(),
        contextlib.chdir((BOOK / chapter).parent),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")  # a warning would be printed into the page
        try:
            for cell in cells(chapter):
                _run_cell(cell, result, display)
                if cell.parameters:
                    result.namespace |= parameters
        except CalcError as error:
            result.refusal = error
    return result


_EVALUATED: dict[tuple[type, str, str | None], float] = {}


def _evaluated(
    entry: published.Row | published.FieldCase, unit: str | None = None, evaluate: Any = published.evaluate
) -> float:
    """A published value's own arguments give the same whatever a reader assumes: it is computed once."""
    key = (type(entry), entry.id, unit)
    if key not in _EVALUATED:
        _EVALUATED[key] = evaluate(entry, unit)
    return _EVALUATED[key]


BLANK = figures.Picture('<svg viewBox="0 0 1 1"></svg>', alt="", caption="")


@contextlib.contextmanager
def _blank_figures() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for module, name in _drawings():
            stack.enter_context(mock.patch.object(module, name, lambda *_, **__: BLANK))
        yield


@functools.cache
def _drawings() -> list[tuple[ModuleType, str]]:
    """Every function that draws a figure of the book, by its module and name."""
    names = (module.name for module in pkgutil.iter_modules(figures.__path__, f"{figures.__name__}."))
    return [
        (module, name)
        for module in map(importlib.import_module, names)
        for name, made in vars(module).items()
        if getattr(made, "__annotations__", {}).get("return") == "Picture" and made.__module__ == module.__name__
    ]


def _run_cell(cell: Cell, result: Run, display: Any) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(cell.body, result.namespace)
        value = eval(cell.last, result.namespace) if cell.last else None
    if printed.getvalue():
        result.outputs.append({"text/plain": printed.getvalue()})
    if value is not None:
        display(value)


def bundle(item: Any) -> dict[str, str]:
    """An object's representations, as Jupyter would ask for them."""
    shown: dict[str, str] = {}
    if hasattr(item, "_repr_mimebundle_"):
        answer = item._repr_mimebundle_(include=None, exclude=None) or {}
        shown |= answer[0] if isinstance(answer, tuple) else answer
    for kind, method in METHODS.items():
        if kind not in shown and hasattr(item, method):
            answer = getattr(item, method)()
            if answer is not None:
                shown[kind] = answer[0] if isinstance(answer, tuple) else answer
    shown.setdefault("text/plain", repr(item))
    return shown


MARKUP = re.compile(r"<style.*?</style>|<[A-Za-z/!][^<>]*>", re.DOTALL)
NO_NUMBER = re.compile(r"(?<![\w-])(nan|inf|None)(?![\w-])")
ONE_OF_MANY = re.compile(r"(?<![\d,.·-])\b1 (tokens|positions|layers|heads|requests|ranks|GPUs|blocks|pages)\b")
NO_TEXT = re.compile(r"<[\w.]+ object at|\b[A-Z]\w*Error\b|\bTraceback\b")
SYNTAX = re.compile(
    r"^\s*(`{3,}|:{3,})[^\n]*"  # the first or last line of a fence or directive
    r"|\{[\w:.+-]+\}(?=`)|`[^`\n]*`"  # a role's name, code
    r"|\$\$.*?\$\$|\$[^$\n]*\$"  # math
    r"|(?<=[\])`]){[.#][^}\n]*\}",  # attributes
    re.DOTALL | re.MULTILINE,
)


def slips(result: Run) -> list[str]:
    """What no reader should meet: a number that is none, an unfilled template, an object's name, "1 tokens"."""
    found = []
    for kind, raw in result.read:
        words = MARKUP.sub(" ", raw)
        found += _around(NO_TEXT, raw) + _around(NO_NUMBER, words) + _around(ONE_OF_MANY, words)
        if kind != "text/latex":
            found += _around(re.compile("[{}]"), SYNTAX.sub(" ", words))
    return found


def _around(pattern: re.Pattern[str], text: str) -> list[str]:
    return [text[max(0, match.start() - 40) : match.end() + 40] for match in pattern.finditer(text)]
