"""Practice problems that check an answer with its unit and recognize the classic mistakes.

A problem is a family: fresh numbers for every seed, the answer computed by `calc`, and each classic
wrong answer computed beside it. The same code runs in a notebook and in the page. Problems live in one
module per chapter, named after the chapter.

Examples
--------
>>> question = problem("kv_cache/one-token")
>>> print(question.check("327,680 B"))
Right: 320 KiB.
>>> print(question.check("2.5 MiB"))
8× high: that counts query heads, or sizes a key by the hidden size. Back to Step 2.
>>> question.again().seed
1
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from typing import Any

from calc.practice._chapters import PARTS, chapters, problems
from calc.practice._check import Verdict, check
from calc.practice._interview import interview
from calc.practice._problem import PracticeError, Problem, Question, Solution
from calc.units import CalcError

__all__ = [
    "PARTS",
    "PracticeError",
    "Problem",
    "Question",
    "Solution",
    "Verdict",
    "ask_json",
    "chapters",
    "check",
    "check_json",
    "interview",
    "interview_json",
    "problem",
    "problems",
]


def problem(id: str, seed: int = 0) -> Question:
    """Pose a problem: seed 0 has the printed numbers, any other seed fresh ones.

    Parameters
    ----------
    id : str
        Chapter and name, for example "kv_cache/one-token".
    seed : int
        A whole number of at least 0.

    Returns
    -------
    Question
        It displays itself in a notebook; ``.check("320 KiB")`` checks an answer.

    Raises
    ------
    PracticeError
        If there is no such problem (the message names the closest) or the seed is impossible.
    """
    if not isinstance(id, str):
        raise PracticeError(f'a problem is named by text such as "kv_cache/one-token", not {repr(id)[:40]}')
    chapter = id.partition("/")[0]
    if chapter in chapters() and id in problems(chapter):
        return Question(problems(chapter)[id], seed)
    known = problems(chapter) if chapter in chapters() else [k for c in chapters() for k in problems(c)]
    close = difflib.get_close_matches(id[:80], known, n=3, cutoff=0.4) or list(known)
    raise PracticeError(f"no problem {id[:80]!r}: did you mean {' or '.join(close)}?")


def ask_json(problem_id: str, seed: int = 0) -> str:
    """Pose a problem for the page: the question and everything around it, as JSON.

    Returns
    -------
    str
        ``{"ok": true, "id", "seed", "title", "level", "unit", "step", "ask", "hint", "solution", "checklist",
        "html"}``, or ``{"ok": false, "message"}``. Never raises.
    """

    def answer() -> dict[str, Any]:
        posed = problem(problem_id, seed)
        family = posed.problem
        return {
            "id": family.id,
            "seed": posed.seed,
            "title": family.title,
            "level": family.level,
            "unit": family.unit,
            "step": family.step,
            "ask": posed.text,
            "hint": family.hint,
            "solution": posed.solution().text,
            "checklist": posed.checklist(),
            "html": posed._repr_html_(),
        }

    return _json(answer)


def check_json(problem_id: str, seed: int, answer: str) -> str:
    """Check an answer for the page, as JSON.

    Returns
    -------
    str
        ``{"ok": true, "right", "kind", "message", "mistake", "step"}``, or ``{"ok": false, "message"}``. Never raises.
    """

    def verdict() -> dict[str, Any]:
        posed = problem(problem_id, seed)
        found = posed.check(answer)
        return {
            "right": found.right,
            "kind": found.kind,
            "message": found.message,
            "mistake": found.mistake,
            "step": posed.problem.step,
        }

    return _json(verdict)


def interview_json(seed: int, count: int, parts: str) -> str:
    """Draw an interview for the page, as JSON; the parts come as in a link, "memory-time".

    Returns
    -------
    str
        ``{"ok": true, "questions": [{"id", "seed", "title", "level", "step"}, ...]}``, to be posed by `ask_json` one
        by one, or ``{"ok": false, "message"}``. Never raises.
    """

    def questions() -> dict[str, Any]:
        asked = interview(seed=seed, count=count, parts=[part for part in parts.split("-") if part])
        names = ("id", "title", "level", "step")
        return {"questions": [{n: getattr(q.problem, n) for n in names} | {"seed": q.seed} for q in asked]}

    return _json(questions)


def _json(work: Callable[[], dict[str, Any]]) -> str:
    try:
        result = {"ok": True} | work()
    except CalcError as error:
        said = str(error)
        result = {"ok": False, "message": f"{said[0].upper()}{said[1:].rstrip('.')}."}
    except Exception as error:  # the worker must answer, whatever happens
        result = {"ok": False, "message": f"This could not be worked out ({type(error).__name__})."}
    return json.dumps(result, ensure_ascii=False)
