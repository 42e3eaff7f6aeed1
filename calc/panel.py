"""What a live panel shows, and the one call that makes it: at build time and in the reader's browser.

A panel function is an ordinary library function that returns a `Panel`. The page's directive calls
`render` with the default inputs, so the page is right without JavaScript; the browser's worker calls
the same `render` with the reader's inputs.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass

from calc.sources import KINDS
from calc.units import CalcError, plain

NO_NUMBER = "no number"  # what the page says a field holds while it holds "1e"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a panel: a label, the number as text, its kind, and whether it is the one to keep."""

    label: str
    text: str
    kind: str = "derived"
    keep: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise CalcError(f"kind is {self.kind!r}, wanted one of {', '.join(KINDS)}")


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel's content: rows of numbers, the working, what it means and what the model leaves out."""

    rows: tuple[Row, ...]
    working: tuple[str, ...]
    meaning: str
    leaves_out: str


def resolve(path: str) -> Callable:
    """Find a library function from "calc.module:function".

    Raises
    ------
    CalcError
        If the path leaves the library or names no function in it.
    """
    module, _, name = path.partition(":")
    if not (module.startswith("calc.") and name.isidentifier() and not name.startswith("_")):
        raise CalcError(f"{path!r} is not a library function: write calc.module:function")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise CalcError(f"no function {path!r} in the library") from error


def between(name: str, value: float, least: float, most: float) -> float:
    """Check that a panel computes this value of an input, and return it.

    Parameters
    ----------
    name : str
        The input.
    value, least, most : float
        What was given, and from where to where it may be.

    Returns
    -------
    float

    Raises
    ------
    CalcError
        If the value is outside.

    Examples
    --------
    >>> between("warm_percent", 40, 0, 100)
    40
    """
    if not least <= value <= most:
        raise CalcError(f"{name} is {value:,}, wanted {least:,} to {most:,}")
    return value


def render(path: str, arguments: str, labels: str = "{}") -> str:
    """Call a panel function with JSON arguments and return JSON text.

    Parameters
    ----------
    path : str
        "calc.module:function", a function that takes keywords and returns a `Panel`.
    arguments : str
        A JSON object of its arguments.
    labels : str
        A JSON object: argument → what the page calls it. A refusal then speaks of the page's names.

    Returns
    -------
    str
        ``{"ok": true, "rows": [...], "working": [...], "meaning": ..., "leaves_out": ...}``, or
        ``{"ok": false, "error": message, "inputs": [...]}`` when the inputs are impossible; "inputs" are those that
        the message speaks of.

    Raises
    ------
    CalcError
        If the path is wrong, the arguments are no JSON object, or the function does not take them: a broken
        declaration, not a reader's slip.
    """
    function = resolve(path)
    try:
        inputs = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise CalcError(f"{path}: the arguments are not JSON: {error}") from error
    if not isinstance(inputs, dict):
        raise CalcError(f"{path}: the arguments are {type(inputs).__name__}, wanted a JSON object")
    try:
        declared = inspect.signature(function)
        declared.bind(**inputs)
    except TypeError as error:
        raise CalcError(f"{path}: {error}") from error
    try:
        for name, value in inputs.items():
            if not isinstance(value, (str, int, float, bool)):
                raise CalcError(f"{name} is empty: choose or write a value")
            if isinstance(value, str) and declared.parameters[name].annotation in ("int", "float"):
                shown = value if value == NO_NUMBER else repr(value)
                raise CalcError(f"{name} is {shown}, wanted a number")
            if not isinstance(value, (str, bool)):
                plain(function.__name__, name, abs(value), "")  # how far down it may go is the function's to say
        return json.dumps({"ok": True} | asdict(function(**inputs)))
    except CalcError as error:
        return json.dumps({"ok": False} | _refusal(str(error), inputs, json.loads(labels)))


def _refusal(message: str, inputs: dict, labels: dict[str, str]) -> dict:
    """A message about an argument ("function: name is …") in the page's words, and the inputs it speaks of."""
    about = re.match(r"(?:\w+: )?(\w+)(?= is )", message)
    message = message[about.start(1) :] if about else message
    if not about or about[1] not in inputs:
        return {"error": message, "inputs": []}
    named = re.compile(rf"\b({'|'.join(inputs)})\b")
    worded = named.sub(lambda name: f"“{labels[name[0]]}”" if name[0] in labels else name[0], message)
    return {"error": worded, "inputs": list(dict.fromkeys(named.findall(message)))}
