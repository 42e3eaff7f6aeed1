"""A problem with fresh numbers, and how it looks in a notebook and on a page."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from types import SimpleNamespace
from typing import Any

from calc.units import CalcError, format_bytes, parse
from calc.working import Working

LEVELS = {1: "easy", 2: "medium", 3: "hard", "design": "design"}
LARGEST_SEED = 2**53 - 1  # the largest whole number that a browser keeps exactly
WITHIN = 0.01  # of the answer: room for honest rounding on the way
EXACTLY = 1e-12  # of the answer: room for floats alone
NEARER = 0.499  # of one of what is counted: nearer to the answer than to one more or less

# Units whose digits differ: kB, MB and GB show the same ones as B.
_WRITTEN_IN = (1, 1024, 1024**2, 1024**3)
_TWINS = [pair for p in (1, 2, 3) for pair in ((1024**p, 1000**p), (1000**p, 1024**p))]


class PracticeError(CalcError):
    """An unknown problem, or an impossible seed or interview."""


def refuse_seed(seed: object) -> None:
    """Raise unless it is a whole number from 0 to 2^53 − 1."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
        raise PracticeError(f"seed is {repr(seed)[:40]}, wanted a whole number from 0 to {LARGEST_SEED:,}")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A family of questions: one text, one answer, many sets of numbers.

    Attributes
    ----------
    id : str
        Chapter and name, for example "kv_cache/one-token".
    title : str
    level : 1, 2, 3 or "design"
        A design question has a checklist instead of a number.
    step : str
        The chapter step that the question returns to, for example "kv_cache#step-2".
    printed : mapping
        The numbers of seed 0, those on the page.
    choices : mapping of str to sequence
        The values that fresh numbers are drawn from, each name on its own.
    possible : callable
        Numbers to whether they make sense together. Those that don't are drawn again, and so are those for which
        a mistake would pass for the answer.
    ask : callable
        Numbers to the text of the question.
    hint : str
    solution : callable
        Numbers to lines of text and `Working`; the last `Working` gives the answer.
    answer : callable or None
        Numbers to the right answer in base units.
    unit : str
        What the answer is: "B" for a size, "s" for a time, "x" for a ratio, otherwise a plural such as "tokens", or a
        rate such as "FLOP/B".
    exact : bool
        True where one more or less is wrong; otherwise 1% is allowed.
    grain : callable or None
        Numbers to the size of one of what a size counts, such as the bytes of a position, where one more or less is
        wrong. The answer must then be the right one rounded, and nearer to it than to one more or less.
    per : sequence of str
        Words a reader may put after the unit: "token" allows "KiB/token" and "KiB per token".
    mistakes : mapping of str to callable
        What the classic wrong answer does ("counts query heads"), and its value, or None where it does not apply.
    checklist : callable or None
        Numbers to what a strong answer to a design question contains.
    """

    id: str
    title: str
    level: int | str
    step: str
    printed: Mapping[str, Any]
    choices: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    possible: Callable[[SimpleNamespace], bool] = lambda numbers: True
    ask: Callable[[SimpleNamespace], str]
    hint: str
    solution: Callable[[SimpleNamespace], Sequence[str | Working]]
    answer: Callable[[SimpleNamespace], float] | None = None
    unit: str = "B"
    exact: bool = False
    grain: Callable[[SimpleNamespace], float] | None = None
    per: Sequence[str] = ()
    mistakes: Mapping[str, Callable[[SimpleNamespace], float | None]] = field(default_factory=dict)
    checklist: Callable[[SimpleNamespace], Sequence[str]] | None = None

    def draw(self, seed: int = 0) -> SimpleNamespace:
        """Numbers for a seed: the printed ones for 0, the same fresh ones every time for any other.

        Seeds in a row repeat no numbers until all that are possible have been drawn.

        Raises
        ------
        PracticeError
            If the seed is not a whole number from 0 to 2^53 − 1.
        """
        refuse_seed(seed)
        if not seed or not self.choices:
            return SimpleNamespace(**self.printed)
        drawn, more = self._fresh
        while len(drawn) < seed and (numbers := next(more, None)):
            drawn.append(numbers)
        return SimpleNamespace(**drawn[(seed - 1) % len(drawn)])

    @functools.cached_property
    def _fresh(self) -> tuple[list[dict[str, Any]], Iterator[dict[str, Any]]]:
        """The numbers drawn so far, and those still to come, in an order that looks like chance."""
        rng = random.Random(self.id)  # only random() is promised to give the same sequence in every version of Python
        order = sorted(itertools.product(*self.choices.values()), key=lambda _: rng.random())
        all_numbers = (dict(self.printed) | dict(zip(self.choices, values, strict=True)) for values in order)
        return [], (n for n in all_numbers if n != self.printed and self._fair(SimpleNamespace(**n)))

    def slack(self, numbers: SimpleNamespace) -> float:
        """How far an answer may be from the right one: 1%, or next to nothing where one more or less is wrong."""
        if self.grain:
            return NEARER * self.grain(numbers)
        return (EXACTLY if self.exact else WITHIN) * self.answer(numbers)

    def wrong_values(self, numbers: SimpleNamespace) -> dict[str, float]:
        """The values of the classic mistakes, without those that come to nothing or to the answer itself."""
        target = self.answer(numbers)
        values = {name: mistake(numbers) for name, mistake in self.mistakes.items()}
        return {name: v for name, v in values.items() if v and v > 0 and abs(v - target) > EXACTLY * target}

    def _fair(self, numbers: SimpleNamespace) -> bool:
        """Whether the numbers make sense, and no classic mistake would pass for the answer once it is rounded.

        Nor may the right number with GB written for GiB, unless the answer rounds to the same: 288 KiB is
        294.9 kB, and "290 KiB" is right. Where a size is a count of grains, a mistake of one grain may round to the
        answer itself; but the four digits that the book shows must be enough.
        """
        if not self.possible(numbers) or self.answer is None:
            return self.possible(numbers)
        target, slack = self.answer(numbers), self.slack(numbers)
        if self.grain and abs(parse(format_bytes(target)).value - target) > slack:
            return False
        units = _WRITTEN_IN if self.unit == "B" else (1,)
        pairs = [(value, unit, unit) for value in self.wrong_values(numbers).values() for unit in units]
        pairs += [(target, meant, said) for meant, said in _TWINS if self.unit == "B"]
        for value, meant, said in pairs:
            alike = self.grain or meant != said
            for written, rounded in zip(_roundings(value / meant), _roundings(target / said), strict=True):
                if abs(written * said - target) <= slack and not (alike and written == rounded):
                    return False
        return True

    @property
    def step_label(self) -> str:
        """The step as the text calls it: "kv_cache#step-2" gives "Step 2"."""
        return self.step.partition("#")[2].replace("-", " ").capitalize()


def _roundings(value: float) -> Iterator[float]:
    """A value as a reader may write it, with two to four digits."""
    return (float(f"{value:.{digits - 1}e}") for digits in (2, 3, 4))


@dataclass(frozen=True)
class Solution:
    """A worked solution: lines of text, and formulas with their numbers put in."""

    lines: tuple[str | Working, ...]

    @property
    def text(self) -> tuple[str, ...]:
        """Plain lines, one formula each; a line that ends in a colon leads into the next."""
        parts = "\n".join(line.text if isinstance(line, Working) else line for line in self.lines)
        return tuple(parts.replace(":\n", ": ").splitlines())

    def __str__(self) -> str:
        return "\n".join(self.text)

    def _repr_markdown_(self) -> str:
        return "\n\n".join(f"$$\n{x.latex}\n$$" if isinstance(x, Working) else x for x in self.lines)


@dataclass(frozen=True)
class Question:
    """A problem posed with the numbers of one seed. It displays itself in a notebook."""

    problem: Problem
    seed: int = 0

    def __post_init__(self) -> None:
        _ = self.numbers  # refuses an impossible seed at once

    @functools.cached_property
    def numbers(self) -> SimpleNamespace:
        """The numbers of this seed."""
        return self.problem.draw(self.seed)

    @functools.cached_property
    def answer(self) -> float:
        """The right number, in the unit of the problem."""
        return self.problem.answer(self.numbers)

    @functools.cached_property
    def slack(self) -> float:
        """How far an answer may be from it."""
        return self.problem.slack(self.numbers)

    @functools.cached_property
    def wrong_values(self) -> dict[str, float]:
        """What the classic mistakes give."""
        return self.problem.wrong_values(self.numbers)

    @property
    def text(self) -> str:
        """The question."""
        return self.problem.ask(self.numbers)

    def again(self, seed: int | None = None) -> Question:
        """The same question with fresh numbers: the next seed, or the one given."""
        return Question(self.problem, self.seed + 1 if seed is None else seed)

    @property
    def hint(self) -> str:
        """One sentence that helps without giving the answer."""
        return self.problem.hint

    def solution(self) -> Solution:
        """The worked solution, computed now."""
        return Solution(tuple(self.problem.solution(self.numbers)))

    def checklist(self) -> tuple[str, ...]:
        """What a strong answer to a design question contains; empty for a question with a number."""
        return tuple(self.problem.checklist(self.numbers)) if self.problem.checklist else ()

    def check(self, answer: str) -> Any:
        """Check an answer such as "320 KiB" and name the classic mistake, if it is one."""
        from calc.practice._check import check

        return check(self, answer)

    def __repr__(self) -> str:
        return f"{self.problem.title} ({LEVELS[self.problem.level]})\n{self.text}"

    def _repr_html_(self) -> str:
        problem = self.problem
        title_id = f"practice-{problem.id.replace('/', '-')}"
        solution = "".join(f"<li>{escape(line)}</li>" for line in self.solution().text)
        checklist = "".join(f"<li>{escape(line)}</li>" for line in self.checklist())
        return "\n".join(
            [
                f'<div class="practice" role="group" aria-labelledby="{escape(title_id)}"'
                f' data-problem="{escape(problem.id)}" data-seed="{self.seed}" data-level="{problem.level}"'
                f' data-unit="{escape(problem.unit)}" data-step="{escape(problem.step)}">',
                f'<h3 class="practice-title" id="{escape(title_id)}">{escape(problem.title)}'
                f' <span class="practice-level">{LEVELS[problem.level]}</span></h3>',
                f'<p class="practice-ask">{escape(self.text)}</p>',
                self._details("hint", "Hint", f"<p>{escape(self.hint)}</p>"),
                self._details("checklist", "What a strong answer contains", checklist and f"<ul>{checklist}</ul>"),
                self._details("solution", "Worked solution", f"<ol>{solution}</ol>"),
                "</div>",
            ]
        ).replace("\n\n", "\n")  # a blank line would end the HTML block in Markdown

    def _details(self, name: str, summary: str, content: str) -> str:
        """A closed part, named apart from those of the other problems for those who listen."""
        label = escape(f"{summary}: {self.problem.title}")
        opened = f'<details class="practice-{name}"><summary aria-label="{label}">{summary}</summary>'
        return f"{opened}{content}</details>" if content else ""
