"""Show the working: symbols, numbers put in, result, rendered from the source of a formula.

The body of a library function *is* the formula, so the page can't drift from the code: this module
reads the function's syntax tree and writes each assignment three ways (symbols, numbers, result), as
one line of text for a panel and as LaTeX for a chapter. It needs the standard library alone because the
live panels call it in the reader's browser.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import math
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calc.symbols import SYMBOLS, Symbol
from calc.units import CalcError, format_as, parse, plain, significant

_OPERATORS = {ast.Add: " + ", ast.Sub: " − ", ast.Mult: " · "}
_MARKS = re.compile(r" [+-] |(?<!\\)[{}]|\\left(?![a-z])|\\right(?![a-z])")
_SUBSCRIPT = re.compile(r"_\{\\mathrm\{([^}]*)\}\}")
_COMMAND = re.compile(r"\\[A-Za-z]+|[\\{}]")
WIDEST = 32  # characters in a row of a sum: what a phone shows
MOST, CLOCK = 6, 8  # digits written in full, and of a quantity that is given, such as seconds read to the microsecond
_PRECEDENCE = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2}


@dataclass(frozen=True, slots=True)
class Step:
    """One assignment of a formula, in text and in LaTeX."""

    symbol: str
    symbolic: str
    substituted: str
    result: str
    latex: tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Working:
    """A formula with its numbers put in.

    Attributes
    ----------
    value : number
        The result in base units.
    steps : tuple of Step
        One for each assignment in the body.
    """

    value: Any
    steps: tuple[Step, ...]

    @property
    def text(self) -> str:
        """One line of plain text per step: symbols = numbers = result."""
        lines = (" = ".join(dict.fromkeys((s.symbol, s.symbolic, s.substituted, s.result))) for s in self.steps)
        return "\n".join(lines).replace("= ≈", "≈")

    @property
    def latex(self) -> str:
        """Aligned LaTeX, one row each for symbols, numbers and result, so that it fits a narrow page.

        A long sum goes on in further rows.
        """
        rows = []
        for step in self.steps:
            symbol, *parts = dict.fromkeys(step.latex)
            for i, part in enumerate(parts):
                first, *more = _sum_rows(part)
                relation = "&" if first.startswith(r"\approx") else "&= "
                rows += [f"{symbol if i == 0 else ''} {relation}{first}", *(rf" &\quad {{}} {row}" for row in more)]
        return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/latex": f"$$\n{self.latex}\n$$", "text/plain": self.text}


def working(function: Callable, *, names: dict[str, str] | None = None, **arguments: Any) -> Working:
    """Evaluate a formula and keep every step of it for display.

    Parameters
    ----------
    function : callable
        A library formula made with `calc.units.dimensions`.
    names : dict or None
        Argument or result → the name whose symbol stands for it here, such as ``{"kv_heads": "kv_heads_per_rank"}``.
    **arguments
        Its arguments: plain numbers in base units, or Quantities, which are converted.

    Returns
    -------
    Working

    Raises
    ------
    CalcError
        If an argument is out of range, or the function is not a formula.

    Examples
    --------
    >>> from calc import kv_cache
    >>> print(working(kv_cache.bytes_per_position, layers=80, kv_heads=8, head_dim=128, element_bytes=2).text)
    B_pos = 2 · L · n_kv · d_h · s = 2 · 80 · 8 · 128 · 2 B = 327,680 B = 320 KiB
    """
    if not hasattr(function, "formula"):
        raise CalcError(f"{getattr(function, '__name__', function)} is not a formula: decorate it with @dimensions")
    name = function.__name__
    if any(getattr(value, "ndim", 0) for value in arguments.values()):
        raise CalcError(f"{name}: can't show the working of an array; give one number for each argument")
    arguments = {key: plain(name, key, value, function.units.get(key, "")) for key, value in arguments.items()}
    value = function(**arguments)
    defaults, body = _body(function.formula)
    scope = dict(defaults) | arguments
    units = dict(function.units)
    steps = []
    for statement in body:
        target = statement.targets[0].id if isinstance(statement, ast.Assign) else function.__name__
        if isinstance(statement.value, ast.Name) and statement.value.id in scope and steps:
            continue  # "return x" after "x = …"
        code = compile(ast.Expression(statement.value), function.__name__, "eval")
        evaluate = functools.partial(eval, code, function.formula.__globals__)  # our own source, never a reader's text
        scope[target] = evaluate(scope)
        used = {n.id: scope[n.id] for n in ast.walk(statement.value) if isinstance(n, ast.Name) and n.id in scope}
        numbers, near = _operands(used, arguments, units, evaluate, scope[target])
        last = statement is body[-1] or target == function.__name__
        units[target] = function.result_unit if last or target not in SYMBOLS else SYMBOLS[target].unit
        result = _result(scope[target], units[target])
        about = "" if near is None else "≈ "
        if about and near != scope[target] and not result.startswith(about):
            result = about + result
        rendered = []
        for tex in (False, True):
            symbolic = _Writer(tex, None, units, names or {}).write(statement.value)
            substituted = _Writer(tex, numbers, units, {}).write(statement.value)
            relation, end = map(_tex_units, (about, result)) if tex else (about, result)
            rendered.append((_name((names or {}).get(target, target), tex), symbolic, relation + substituted, end))
        steps.append(Step(*rendered[0], latex=rendered[1]))
    return Working(value, tuple(steps))


def symbolic(function: Callable) -> str:
    """Write a formula in symbols alone, as aligned LaTeX: one row for each assignment.

    Parameters
    ----------
    function : callable
        A library formula made with `calc.units.dimensions`.

    Returns
    -------
    str

    Raises
    ------
    CalcError
        If the function is not a formula, or a name in it has no symbol.

    Examples
    --------
    >>> from calc import kv_cache
    >>> print(symbolic(kv_cache.sequence_bytes))
    \\begin{aligned}
    B_{\\mathrm{seq}} &= B_{\\mathrm{pos}} \\cdot T
    \\end{aligned}
    """
    if not hasattr(function, "formula"):
        raise CalcError(f"{getattr(function, '__name__', function)} is not a formula: decorate it with @dimensions")
    rows, known = [], set()
    for statement in _body(function.formula)[1]:
        target = statement.targets[0].id if isinstance(statement, ast.Assign) else function.__name__
        if isinstance(statement.value, ast.Name) and statement.value.id in known:
            continue  # "return x" after "x = …"
        known.add(target)
        first, *more = _sum_rows(_Writer(True, None, function.units, {}).write(statement.value))
        rows += [rf"{_name(target, True)} &= {first}", *(rf" &\quad {{}} {row}" for row in more)]
    return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"


@functools.cache
def _body(formula: Callable) -> tuple[tuple, tuple]:
    """Defaults and the statements of a formula's body, docstring left out."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(formula))).body[0]
    defaults = inspect.signature(formula).parameters.items()
    names = tuple((k, p.default) for k, p in defaults if p.default is not p.empty)
    body = tuple(s for s in tree.body if isinstance(s, (ast.Assign, ast.Return)))
    return names, body


def _name(name: str, tex: bool) -> str:
    symbol = SYMBOLS.get(name)
    if symbol is None:
        raise CalcError(f"no symbol for {name!r}: add it to calc.symbols")
    return symbol.latex if tex else symbol.text


def exact(value: Any, dimension: str) -> str:
    """Write a value with all its digits, in the unit that needs the fewest.

    Examples
    --------
    >>> exact(327680, "byte"), exact(70272, "byte"), exact(1.03125, "byte"), exact(989.5e12, "FLOP/second")
    ('320 KiB', '70,272 B', '1.03125 B', '989.5 TFLOP/s')
    """
    return _all_digits(value, dimension) or f"≈ {_digits(value, dimension, MOST)}"


@functools.lru_cache(maxsize=4096)
def _all_digits(value: Any, dimension: str, most: int = CLOCK) -> str:
    """All the digits of a value with its unit; "" if it isn't whole and they are too many, as those of a third."""
    short = format_as(value, dimension)
    if math.isclose(parse(short).value, value, rel_tol=1e-12):
        return short
    full = _digits(value, dimension, 15)
    whole = dimension in {"", "count", "byte"} and value % 1 == 0
    most = MOST if dimension in {"", "count"} else most
    return full if whole or len(re.sub(r"\D", "", full).lstrip("0")) <= most else ""


def _digits(value: Any, dimension: str, digits: int) -> str:
    """Write a value with so many digits, in its unit; bytes and counts with all those before the point."""
    unit = " B" if dimension == "byte" else ""
    if dimension not in {"", "count", "byte"}:
        _, _, unit = format_as(value, dimension).partition(" ")
        unit = f" {unit}" if unit else "/s"
        value /= parse(f"1{unit}").value
    elif value:
        digits = max(digits, math.floor(math.log10(abs(value))) + 1)
    return significant(value, digits) + unit


def _operands(
    numbers: dict, given: dict, units: dict[str, str], evaluate: Callable, value: Any
) -> tuple[dict[str, str], Any]:
    """Write the numbers that a statement uses; with the rounded among them, what the statement gives, else None.

    A rounded number has four digits, as results have, or as many more as its place needs for a result that is right
    to within one in its last digit: 1 − 0.99998 is not 1 − 1.
    """
    kinds = {name: units.get(name, "").partition(">")[0] for name in numbers}
    texts = {name: _all_digits(n, kinds[name], CLOCK if name in given else MOST) for name, n in numbers.items()}
    rounded = [name for name, text in texts.items() if not text]
    if not rounded:
        return texts, None
    last = 10.0 ** (math.floor(math.log10(abs(value))) - 3) if value else 0.0
    for digits in range(4, 16):
        texts |= {name: _digits(numbers[name], kinds[name], digits) for name in rounded}
        with contextlib.suppress(ArithmeticError, ValueError):
            near = evaluate(numbers | {name: parse(texts[name]).value for name in rounded})
            if abs(near - value) <= last:
                return texts, near
    return texts, value


def _result(value: Any, unit: str) -> str:
    """A result: bytes with all their digits and in binary units too, other dimensions rounded with a ≈."""
    dimension = unit.partition(">")[0]
    text, short = exact(value, dimension), format_as(value, dimension)
    if dimension == "byte" and value >= 1024:
        return f"{significant(value, 16)} B {'=' if text == short else '≈'} {short}"
    few = len(re.sub(r"\D", "", text)) <= 6 and not text.startswith("≈")
    return text if few or dimension == "count" else f"≈ {short}"


def _tex_units(text: str) -> str:
    """LaTeX of "327,680 B = 320 KiB": thin spaces, upright units, commas that don't space."""
    text = re.sub(r"(?<=\d),(?=\d)", "{,}", text)
    text = re.sub(r"(?<=[\d}]) ?([A-Za-z/µ%][A-Za-z/µ]*)", r"\\ \\mathrm{\1}", text)
    return text.replace("≈", r"\approx")


def _sum_rows(tex: str) -> list[str]:
    """Break a long sum before the signs that stand outside of all brackets."""
    cuts, depth = [0], 0
    for mark in _MARKS.finditer(tex):
        if mark[0] in {" + ", " - "}:
            cuts += [mark.start() + 1] * (depth == 0)
        else:
            depth += 1 if mark[0] in {"{", r"\left"} else -1
    rows = [""]
    for start, end in zip(cuts, [*cuts[1:], None], strict=True):
        wider = _SUBSCRIPT.sub(lambda small: small[1][::2], rows[-1] + tex[start:end])
        if rows[-1] and len(_COMMAND.sub("", wider)) > WIDEST:
            rows.append("")
        rows[-1] += tex[start:end]
    return [row.strip() for row in rows]


class _Writer:
    """Write an expression in symbols (`scope` None) or with its numbers put in, as they are written in `scope`."""

    def __init__(self, tex: bool, scope: dict[str, str] | None, units: dict[str, str], names: dict[str, str]) -> None:
        self.tex, self.scope, self.units, self.names = tex, scope, units, names

    def write(self, node: ast.expr, outer: int = 0) -> str:
        match node:
            case ast.Name(id=name):
                if self.scope is None:
                    return _name(self.names.get(name, name), self.tex)
                return _tex_units(self.scope[name]) if self.tex else self.scope[name]
            case ast.Constant(value=value):
                text = significant(value, 12)
                return _tex_units(text) if self.tex else text
            case ast.Call(func=ast.Name(id="ceil") | ast.Attribute(attr="ceil"), args=[inner]):
                return self._around("⌈", "⌉", r"\lceil", r"\rceil", self.write(inner))
            case ast.Call(func=ast.Name(id="floor") | ast.Attribute(attr="floor"), args=[inner]):
                return self._around("⌊", "⌋", r"\lfloor", r"\rfloor", self.write(inner))
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=arguments):
                inside = ", ".join(self.write(a) for a in arguments)
                return rf"\{name}\left({inside}\right)" if self.tex else f"{name}({inside})"
            case ast.Call(func=ast.Name(id="exp" | "log" as name), args=[inner]):
                inside, word = self.write(inner), {"exp": "exp", "log": "ln"}[name]
                return rf"\{word}\left({inside}\right)" if self.tex else f"{word}({inside})"
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
                inside = self._ratio(left, right)
                return self._around("⌊", "⌋", r"\lfloor", r"\rfloor", inside)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                # a fraction bar groups by itself, except under an exponent
                level = 3 if self.tex else 2
                return self._bracket(self._ratio(left, right), level, outer)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                base = self.write(left, 5)
                above = self.write(right) if self.tex else self.write(right, 5)
                return self._bracket(f"{base}^{{{above}}}" if self.tex else f"{base}^{above}", 4, outer)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                level = _PRECEDENCE[type(op)]
                sign = _OPERATORS[type(op)]
                sign = sign.replace("·", r"\cdot").replace("−", "-") if self.tex else sign
                right_level = level + 1 if isinstance(op, ast.Sub) else level
                return self._bracket(self.write(left, level) + sign + self.write(right, right_level), level, outer)
        raise CalcError(f"cannot show {ast.unparse(node)!r}: a formula uses + − · / // ** ceil floor min max exp log")

    def _ratio(self, left: ast.expr, right: ast.expr) -> str:
        if self.tex:
            return rf"\frac{{{self.write(left)}}}{{{self.write(right)}}}"
        return f"{self.write(left, 2)} / {self.write(right, 3)}"

    def _around(self, opening: str, closing: str, tex_opening: str, tex_closing: str, inside: str) -> str:
        if self.tex:
            return rf"\left{tex_opening} {inside} \right{tex_closing}"
        return f"{opening}{inside}{closing}"

    def _bracket(self, text: str, level: int, outer: int) -> str:
        if level >= outer:
            return text
        return rf"\left({text}\right)" if self.tex else f"({text})"


def symbols_of(function: Callable, *, names: dict[str, str] | None = None) -> list[Symbol]:
    """The symbols a formula uses, arguments first, then what it works out on the way and its result: for a legend.

    `names` as for `working`.
    """
    on_the_way = [s.targets[0].id for s in _body(function.formula)[1] if isinstance(s, ast.Assign)]
    used = ((names or {}).get(name, name) for name in (*function.units, *on_the_way, function.__name__))
    return [SYMBOLS[name] for name in dict.fromkeys(used) if name in SYMBOLS]


def legend(*functions: Callable) -> str:
    """What the symbols of formulas stand for, in plain text: for a page that has not introduced them.

    Examples
    --------
    >>> from calc.queueing import little
    >>> legend(little)
    'Here λ is requests that arrive per second; W is mean time spent in it; L is mean number in what is looked at.'
    """
    symbols = {symbol.text: symbol for function in functions for symbol in symbols_of(function)}
    return "Here " + "; ".join(f"{text} is {symbol.meaning}" for text, symbol in symbols.items()) + "."
