"""Every chapter survives its reader: other assumptions run and read true, an impossible choice is refused."""

from __future__ import annotations

from zlib import crc32

import chapters
import pytest
from assumptions import altered, declared
from hypothesis import Phase, given, settings

NAMES = chapters.chapter_names()
SETS = 56  # assumption sets drawn per chapter
DRAWN = 10  # one in ten has its figures drawn
ENOUGH = 50


def test_every_chapter_declares_its_assumption_sets():
    assert declared() == sorted(name.rpartition("/")[2] for name in NAMES)


def test_a_refusal_is_a_note_without_a_traceback():
    from calc.units import CalcError

    assert CalcError("wanted one of 1, 2")._render_traceback_() == ["CalcError: wanted one of 1, 2"]


@pytest.mark.parametrize("chapter", NAMES)
def test_defaults(chapter):
    result = chapters.stored(chapter)
    assert result.outputs
    assert chapters.slips(result) == []


@pytest.mark.parametrize("chapter", NAMES)
def test_sensible_assumptions(chapter):
    sets = altered(chapter)
    drawn, finished, varied = set(), 0, set()

    @settings(max_examples=SETS, report_multiple_bugs=False, phases=(Phase.generate, Phase.shrink))
    @given(parameters=sets.sensible)
    def survives(parameters):
        nonlocal finished, varied
        text = repr(sorted(parameters.items()))
        drawn.add(text)
        varied |= parameters.keys()
        result = chapters.run(chapter, drawn=crc32(text.encode()) % DRAWN == 0, **parameters)
        assert chapters.slips(result) == []
        if result.refusal is None:
            finished += 1
            for claim in sets.claims:
                claim(result)
        else:
            assert_clear(result.refusal)

    survives()
    assert varied == chapters.parameter_names(chapter), "an assumption that is never varied"
    assert len(drawn) >= ENOUGH
    assert finished >= len(drawn) / 2, "most sensible choices must give an answer, not a refusal"


@pytest.mark.parametrize(
    ("chapter", "parameters"),
    [pytest.param(c, p, id=f"{c}-{p}") for c in NAMES for p in altered(c).impossible],
)
def test_impossible_assumptions(chapter, parameters):
    result = chapters.run(chapter, drawn=False, **parameters)
    assert result.refusal is not None, "an impossible choice went through"
    assert_clear(result.refusal)
    assert chapters.slips(result) == []


def assert_clear(refusal):
    message = str(refusal)
    assert len(message) > 15, message
    assert "\n" not in message
