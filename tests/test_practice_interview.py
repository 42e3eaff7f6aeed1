"""A mixed interview: the same for everybody who has its seed, balanced, and nothing twice."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from calc import practice
from calc.practice import PARTS, PracticeError, interview, interview_json
from calc.practice._interview import FRESH, LONGEST, SHORTEST

ROOT = Path(__file__).parents[1]
PART_OF = {chapter: part for part, chapters in PARTS.items() for chapter in chapters}
SOME = [list(c) for size in (1, 2, 3) for c in itertools.combinations(PARTS, size)]

seeds = st.integers(0, 2**53 - 1)
counts = st.integers(SHORTEST, LONGEST)
choices = st.sampled_from(SOME)


def chapter(question) -> str:
    return question.problem.id.partition("/")[0]


def test_the_parts_are_those_of_the_book_in_its_order():
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text())["parts"]
    book = {
        part["caption"].lower(): tuple(page["file"].rpartition("/")[2] for page in part["chapters"]) for part in parts
    }
    assert {part: book[part] for part in PARTS} == PARTS
    folders = {path.parent.name for path in (ROOT / "calc" / "practice").glob("*/__init__.py")}
    assert set(practice.chapters()) == set(PART_OF) == folders


@given(seed=seeds, count=counts, parts=choices)
@example(seed=0, count=LONGEST, parts=["time"])
def test_an_interview_is_balanced_easy_to_hard_and_has_nothing_twice(seed, count, parts):
    asked = interview(seed=seed, count=count, parts=parts)
    assert len({q.problem.id for q in asked}) == len(asked) == count

    of_parts = Counter(PART_OF[chapter(q)] for q in asked)
    assert set(of_parts) <= set(parts)
    assert max(of_parts.values()) - min(of_parts.get(part, 0) for part in parts) <= 1

    levels = [q.problem.level for q in asked]
    designs = levels.count("design")
    assert designs == (1 if count < 12 else 2)
    assert set(levels[-designs:]) == {"design"}
    numbered = levels[:-designs]
    assert numbered == sorted(numbered)
    assert max(Counter({1: 0, 2: 0, 3: 0} | Counter(numbered)).values()) <= -(-len(numbered) // 3)

    for part in parts:
        drawn = [chapter(q) for q in asked if PART_OF[chapter(q)] == part]
        size = len(PARTS[part])
        for turn in range(0, len(drawn), size):
            assert len(set(drawn[turn : turn + size])) == len(drawn[turn : turn + size])


@given(seed=seeds, count=counts, parts=choices)
def test_an_interview_repeats_and_does_not_depend_on_the_order_of_the_parts(seed, count, parts):
    asked = interview(seed=seed, count=count, parts=parts)
    assert asked == interview(seed=seed, count=count, parts=parts[::-1])
    assert all(1 <= q.seed <= FRESH and q.numbers != q.again(0).numbers for q in asked)


def test_a_link_gives_the_same_interview_for_ever():
    """A link carries a seed: the draw must not depend on the version of Python, nor on what was drawn before."""
    asked = [(q.problem.id, q.seed) for q in interview(seed=7, count=3)]
    assert asked == [
        ("speculative_decoding/counters", 18),
        ("attention_variants/expanded", 4),
        ("first_token_budget/smallest", 13),
    ]


def test_every_problem_is_drawn_by_some_seed():
    left = {id for name in practice.chapters() for id in practice.problems(name)}
    for seed in range(3000):
        left -= {q.problem.id for q in interview(seed=seed, count=12)}
        if not left:
            return
    assert left == set()


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        ({"seed": -1}, "whole number from 0"),
        ({"seed": 1.5}, "whole number from 0"),
        ({"seed": True}, "whole number from 0"),
        ({"seed": 2**53}, "whole number from 0"),
        ({"count": 1}, "from 2 to 16"),
        ({"count": 17}, "from 2 to 16"),
        ({"count": "6"}, "from 2 to 16"),
        ({"count": True}, "from 2 to 16"),
        ({"parts": []}, "choose at least one of memory, time, service"),
        ({"parts": ["memory", "space"]}, "'space': choose from memory, time, service"),
        ({"parts": "memory"}, "choose from memory, time, service"),
    ],
)
def test_an_impossible_interview_is_refused(wrong, remedy):
    with pytest.raises(PracticeError, match=remedy):
        interview(**{"seed": 1} | wrong)


@given(seed=seeds, count=counts, parts=choices)
def test_the_page_is_told_the_same(seed, count, parts):
    told = json.loads(interview_json(seed, count, "-".join(parts)))
    assert told["ok"]
    asked = interview(seed=seed, count=count, parts=parts)
    assert [(q["id"], q["seed"]) for q in told["questions"]] == [(q.problem.id, q.seed) for q in asked]
    for question, posed in zip(told["questions"], asked, strict=True):
        assert (question["title"], question["level"], question["step"]) == (
            posed.problem.title, posed.problem.level, posed.problem.step,
        )  # fmt: skip


ODD = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.lists(st.text()))


@given(seed=ODD, count=ODD, parts=ODD)
def test_the_page_always_gets_an_answer(seed, count, parts):
    told = json.loads(interview_json(seed, count, parts))
    assert told["ok"] or (told["message"].endswith(".") and told["message"][0].isupper())


def test_the_browser_s_python_draws_the_same_interviews(site):
    rng = random.Random(0)
    calls = [
        [
            "calc.practice:interview_json",
            rng.randrange(2**53),
            rng.choice((2, 3, 6, 12, 16)),
            "-".join(rng.choice(SOME)),
        ]
        for _ in range(150)
    ] + [["calc.practice:interview_json", 1, 6, parts] for parts in ("", "space")]
    answers = subprocess.run(
        ["node", ROOT / "tests" / "site" / "render.mjs", site / "_static" / "live"],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert json.loads(answers) == [interview_json(*arguments) for _, *arguments in calls]
