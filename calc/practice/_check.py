"""Compare an answer with the right one, and say what went wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from calc.practice._problem import EXACTLY, WITHIN, Problem, Question
from calc.practice._reading import read
from calc.units import (
    UNITS,
    Amount,
    Unit,
    UnitError,
    counted,
    format_bytes,
    format_count,
    format_decimal,
    format_percent,
    format_seconds,
    lookup,
    significant,
)

SLIP_WITHIN = 0.002  # of a slip: kB and KiB are only 2% apart
CLOSE = 0.03
COARSE = 0.05  # what rounding to two digits can cost

# One symbol for each size, the first in the table: what a reader may have meant by the number.
_SIZES = {u.factor: symbol for symbol, u in reversed(UNITS.items()) if u.dimension == "byte"}
_SAME_COUNT = {"token": "position", "position": "token", "prompt": "request", "request": "prompt"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of an answer.

    Attributes
    ----------
    right : bool
    kind : str
        "right", "right-unit-note" (right, in another unit than the book's), "mistake" (a classic one, named),
        "factor" (a slip of a prefix, of bits or of the decimal point), "wrong", "unit" (missing, of another
        quantity, or GB for GiB) or "unreadable".
    message : str
        One or two short sentences for the reader.
    mistake : str
        What the classic wrong answer does, where it was one: "counts query heads".
    """

    right: bool
    kind: str
    message: str
    mistake: str = ""

    def __str__(self) -> str:
        return self.message

    def _repr_html_(self) -> str:
        return f'<p class="practice-verdict" data-kind="{self.kind}">{escape(self.message)}</p>'


def check(problem: Problem | Question, answer: str, seed: int = 0) -> Verdict:
    """Check an answer and, when it is wrong, say which mistake was made.

    Parameters
    ----------
    problem : Problem or Question
        A question brings its own seed.
    answer : str
        A number with its unit: "320 KiB", "327,680 B", "5.4 GB", "12 tokens", "40%", "8x".
    seed : int
        Which numbers the problem was posed with.

    Returns
    -------
    Verdict
        Right if the answer is within 1%; a problem that wants an exact count allows nothing, and one that wants a
        size of counted things allows rounding alone.

    Raises
    ------
    PracticeError
        If the seed is impossible. An answer never raises: what can't be read gets a verdict that says so.
    """
    question = problem if isinstance(problem, Question) else Question(problem, seed)
    problem, numbers = question.problem, question.numbers
    if problem.answer is None:
        return Verdict(False, "unreadable", "There is no single number here: compare your answer with the checklist.")
    try:
        written = read(answer, problem.per)
    except UnitError as error:
        return Verdict(False, "unreadable", f"{str(error)[0].upper()}{str(error)[1:].rstrip('.')}.")
    grain = problem.grain(numbers) if problem.grain else 0.0
    unit, known = lookup(written.unit), (question.answer, question.slack, grain, question.wrong_values)
    attempt = _Attempt(problem, written, unit, *known)
    verdicts = (finding(attempt) for finding in (_unit_trouble, _right, _coarse, _twin_unit, _named, _slipped))
    return next(filter(None, verdicts), None) or _far(attempt)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One answer beside the right one (`target`, give or take `slack`) and the classic wrong ones."""

    problem: Problem
    written: Amount
    unit: Unit
    target: float
    slack: float
    grain: float
    classic: dict[str, float]

    def is_(self, value: float, factor: float | None = None, within: float = WITHIN) -> bool:
        """Whether the number written, read in units of `factor`, is a value as far as its digits go."""
        wanted = value / (factor or self.unit.factor)
        if self.problem.exact:
            return math.isclose(self.written.number, wanted, rel_tol=EXACTLY)
        if self.grain and abs(value / self.target - 1) < CLOSE:  # where 1% would hide a grain
            within = self.slack / value
        off = abs(self.written.number - wanted)
        return off <= within * wanted or (self.written.digits >= 2 and self.rounds_to(wanted))

    def rounds_to(self, wanted: float) -> bool:
        """Whether the number written is `wanted`, rounded to as many digits."""
        half_a_digit = 0.5 * 10.0 ** (
            math.floor(math.log10(max(wanted, self.written.number))) - self.written.digits + 1
        )
        return abs(self.written.number - wanted) <= half_a_digit * (1 + 1e-9)

    @property
    def twin(self) -> float | None:
        """The factor of the decimal unit of the same letter for a binary one, and back: GiB for GB."""
        pairs = [(1024**power, 1000**power) for power in range(1, 6)]
        twins = dict(pairs) | {decimal: binary for binary, decimal in pairs}
        return twins.get(self.unit.factor) if self.unit.dimension == "byte" else None

    @property
    def back(self) -> str:
        return f"Back to {self.problem.step_label}."

    @property
    def shown(self) -> str:
        """The right answer as the book writes it."""
        if self.problem.unit == "B":
            return format_bytes(self.target)
        if self.problem.unit == "B/s":
            return format_decimal(self.target, "B/s")
        if self.problem.unit == "x":
            percent = f" ({format_percent(self.target, 4)})"  # a share, as the question calls it
            return f"{significant(self.target)}{percent if self.target < 1 else '×'}"
        if self.problem.unit == "s":
            return format_seconds(self.target)
        if "/" in self.problem.unit:
            return f"{significant(self.target)} {self.problem.unit}"
        return counted(self.target, self.problem.unit.removesuffix("s"))

    def off(self, value: float) -> str:
        """How far off a value is; a count, or a size of counted things, that is nearly right is off by so many."""
        if abs(value / self.target - 1) < CLOSE and self.grain:
            return f"{format_bytes(abs(value - self.target))} too {'much' if value > self.target else 'little'}"
        if not self.problem.exact or abs(value / self.target - 1) >= CLOSE:
            return _off(value / self.target)
        off = counted(abs(value - self.target), self.problem.unit.removesuffix("s"))
        return f"{off} too {'many' if value > self.target else 'few'}"


def _off(ratio: float) -> str:
    """Write a factor: "8× high", "33% low"."""
    side = "high" if ratio > 1 else "low"
    times = max(ratio, 1 / ratio) if ratio else math.inf
    if times > 1.5e6:
        return f"more than a million times too {side}"
    if times >= 1.5:
        return f"{significant(times, 3 if times < 1000 else 5)}× {side}"
    return f"{format_percent(abs(ratio - 1), 2)} {side}"


# --- what can be found about an answer, in the order in which it is looked for -------------------


def _unit_trouble(a: _Attempt) -> Verdict | None:
    """The unit is missing or belongs to another quantity."""
    given, unit = a.written.unit.casefold().removesuffix("s"), a.problem.unit
    if unit == "B":
        if a.unit.dimension == "byte":
            return None
        what = "The question asks for bytes: use" if given else f"{format_count(a.written.number)} of what? Add"
        return Verdict(False, "unit", f"{what} a unit: B, KiB, MiB or GiB.")
    if unit == "s":
        if a.unit.dimension == "second":
            return None
        what = "The question asks for a time" if given else f"{significant(a.written.number, 12)} of what? Add a unit"
        return Verdict(False, "unit", f"{what}: ms or s.")
    if unit == "B/s":
        if a.unit.dimension == "byte/second":
            return None
        what = "The question asks for a rate: use" if given else f"{significant(a.written.number, 12)} of what? Add"
        return Verdict(False, "unit", f"{what} a unit: MB/s, GB/s or Gbit/s.")
    if unit.endswith("s/s") and (a.unit.dimension == "1/second" or given == unit.removesuffix("s/s")):
        return None
    noun = unit.removesuffix("s").casefold()
    if given in ({"", "x", "×", "%"} if unit == "x" else {"", noun, _SAME_COUNT.get(noun)}):
        return None
    wish = 'a ratio: write it like "1.5x"' if unit == "x" else f"a number of {unit}"
    return Verdict(False, "unit", f"The question asks for {wish}.")


def _right(a: _Attempt) -> Verdict | None:
    if abs(a.written.value - a.target) > a.slack or (a.grain and not a.rounds_to(a.target / a.unit.factor)):
        return None
    if a.unit.dimension == "byte" and _SIZES[a.unit.factor].endswith("bit"):
        return Verdict(True, "right-unit-note", f"Right, in bits; the book counts memory in bytes: {a.shown}.")
    if a.twin and a.twin > a.unit.factor:
        note = f"Right, in decimal units; the book uses binary ones here: {a.shown}."
        return Verdict(True, "right-unit-note", note)
    return Verdict(True, "right", f"Right: {a.shown}.")


def _coarse(a: _Attempt) -> Verdict | None:
    """The right value, rounded so far that a mistake could look the same."""
    wanted = a.target / a.unit.factor
    if a.problem.exact or not a.rounds_to(wanted) or abs(a.written.number - wanted) > COARSE * wanted:
        return None
    if a.grain:
        message = f"Too coarse to tell from {format_bytes(a.grain)} more or less: give another digit."
        return Verdict(False, "wrong", message)
    return Verdict(False, "wrong", "Too coarse to tell: give three digits.")


def _twin_unit(a: _Attempt) -> Verdict | None:
    """The number is right in GiB and the unit written GB, or the other way around."""
    if not a.twin or not a.is_(a.target, a.twin, SLIP_WITHIN):
        return None
    mine, meant = _SIZES[a.unit.factor], _SIZES[a.twin]
    off = _off(a.unit.factor / a.twin)
    return Verdict(False, "unit", f"The number is right for {meant}, not {mine}: {off}. Write {a.shown}.")


def _named(a: _Attempt) -> Verdict | None:
    """A classic mistake, or several that come to the same number."""
    for factor in filter(None, (a.unit.factor, a.twin)):
        near = {name: v for name, v in a.classic.items() if a.is_(v, factor)}
        if near:
            value = min(near.values(), key=lambda v: abs(a.written.number * factor - v))
            names = ", or ".join(name for name, v in near.items() if math.isclose(v, value, rel_tol=1e-9))
            aside = "" if factor == a.unit.factor else f" (and {_SIZES[a.unit.factor]} for {_SIZES[factor]})"
            return Verdict(False, "mistake", f"{a.off(value)}: that {names}{aside}. {a.back}", names)
    return None


def _slipped(a: _Attempt) -> Verdict | None:
    sentence = next(_slips(a), None)
    return Verdict(False, "factor", f"{sentence} {a.back}") if sentence else None


def _slips(a: _Attempt) -> Iterator[str]:
    """The right digits with a wrong prefix, bits for bytes, or a misplaced decimal point."""
    if a.unit.dimension == "byte":
        for factor, symbol in _SIZES.items():
            if factor != a.unit.factor and a.is_(a.target, factor, SLIP_WITHIN):
                if a.unit.factor == 8 * factor:
                    yield "8× high: that is the number of bits. A byte has eight."
                yield f"{_off(a.unit.factor / factor)}: the number is right for {symbol}, not {_SIZES[a.unit.factor]}."
        if a.is_(a.target / 8, within=SLIP_WITHIN):
            yield "8× low: check that nothing was divided by eight, for bits or for one of eight GPUs."
    for base, powers, advice in ((10.0, 6, "decimal point"), (1024.0, 2, "steps of 1,024")):
        for power in range(-powers, powers + 1):
            if power and a.is_(a.target * base**power, within=SLIP_WITHIN):
                yield f"{_off(base**power)}: the digits are right. Check the {advice}."


def _far(a: _Attempt) -> Verdict:
    if a.written.value == 0:
        return Verdict(False, "wrong", f"That is zero, and the answer is not. {a.back}")
    off = a.off(a.written.value)
    if not a.problem.exact and abs(a.written.value / a.target - 1) < CLOSE:
        return Verdict(False, "wrong", f"Close: {off}. Check the rounding.")
    return Verdict(False, "wrong", f"{off[0].upper()}{off[1:]}. See the hint, or go back to {a.problem.step_label}.")
