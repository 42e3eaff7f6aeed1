"""Every published value and field case against the library. A row's id names the test."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from calc.hardware import accelerator
from calc.published import ROLES, FieldCase, Row, call, evaluate, field_cases, ratio, rows, written
from calc.units import CalcError

ALL = rows() + field_cases()
GUARD = re.compile(r"`(\w+)(?:\[[\w.-]+\])?`")  # a test, with the entry that it is run on


def near(value: float, wanted: float, tolerance: float) -> bool:
    """Within the tolerance, give or take the rounding of floats."""
    return abs(value - wanted) <= tolerance + 1e-12 * abs(wanted)


def by_id(entries):
    return pytest.mark.parametrize("entry", entries, ids=[entry.id for entry in entries])


@by_id(rows())
def test_computed_value_is_the_one_printed_or_the_right_one(entry: Row):
    assert entry.holds(evaluate(entry))


@by_id([row for row in rows() if row.role == "erratum"])
def test_erratum_is_really_off(entry: Row):
    assert not near(evaluate(entry), entry.printed, entry.tolerance)
    assert entry.reason


@by_id([row for row in rows() if row.role == "label"])
def test_printed_unit_is_really_wrong(entry: Row):
    assert entry.printed_unit != entry.unit
    assert not near(evaluate(entry, entry.printed_unit), entry.printed, entry.tolerance)


FIGURES = dict(zip(("one", "two", "three", "four", "five", "six"), range(1, 7), strict=True))


@by_id([row for row in rows() if row.tolerance])
def test_tolerance_is_half_of_the_last_digit_or_has_another_reason(entry: Row):
    """And none is so wide that a wrong value would pass."""
    said = re.fullmatch(r"(?:printed|right value given) to (\w+) figures?", entry.tolerance_reason)
    if said:
        last = 10.0 ** (math.floor(math.log10(entry.expected)) - FIGURES[said[1]] + 1)
        assert entry.tolerance == pytest.approx(last / 2)
    assert entry.tolerance <= 0.1 * entry.expected


@by_id([row for row in rows() if "accelerator()" in row.function])
def test_a_figure_taken_from_the_source_it_is_compared_with_is_a_copy(entry: Row):
    figure = accelerator(**entry.arguments)
    for name in entry.function.partition("().")[2].split("."):
        figure = figure[name] if isinstance(figure, Mapping) else getattr(figure, name)
    if figure.url:  # a share of another figure has none
        assert (entry.role == "copy") == (figure.url == entry.url)


def test_limits_that_were_looked_up_are_copies():
    assert {row.role for row in rows() if "mlperf_limits" in row.function} == {"copy"}


@by_id(rows())
def test_row_is_complete(entry: Row):
    assert entry.role in ROLES
    assert (entry.right is not None) == (entry.role == "erratum")
    assert entry.topic and entry.quantity and entry.source and entry.tolerance_reason
    assert re.fullmatch(r"https://\S+", entry.url)
    assert entry.tolerance >= 0
    if entry.checked:
        assert date.fromisoformat(entry.checked) <= date.today()


@by_id(field_cases())
def test_field_case_has_the_answer_given(entry: FieldCase):
    assert entry.holds(evaluate(entry))


@by_id([case for case in field_cases() if case.wrong is not None])
def test_field_case_mistake_is_off_by_the_factor_given(entry: FieldCase):
    assert not near(evaluate(entry), entry.wrong, entry.tolerance)
    assert entry.factor == pytest.approx(entry.wrong / entry.value, rel=1e-3)
    assert entry.mistake


@by_id(field_cases())
def test_field_case_is_complete(entry: FieldCase):
    assert entry.topic and entry.situation and entry.quantity and entry.tolerance_reason
    assert (entry.wrong is None) == (entry.factor is None)
    assert entry.wrong_from in (("",) if entry.wrong is None else ("thread", "book"))
    assert all(re.fullmatch(r"https://github\.com/\S+/(issues|pull)/\d+", url) for url in entry.url.split())


def test_ids_are_unique():
    ids = [entry.id for entry in ALL]
    assert len(ids) == len(set(ids))


def test_all_roles_occur():
    assert {row.role for row in rows()} == set(ROLES)


@by_id(ALL)
def test_entry_names_a_formula_and_not_its_result(entry):
    assert entry.arguments, "a row without arguments recomputes nothing"
    assert json.loads(json.dumps(dict(entry.arguments))) == entry.arguments


def test_nested_calls_amounts_and_parts_of_a_result():
    one = {"calc.kv_cache.bytes_per_position": {"layers": 80, "kv_heads": 8, "head_dim": 128, "element_bytes": 2}}
    assert call("calc.kv_cache.positions_that_fit", {"memory_bytes": "10 GiB", "bytes_per_position": one}) == 32768
    assert call("calc.hardware.accelerator().links.nvlink.to_one_peer", {"slug": "h100-sxm"}) == 450e9


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("os.system", {}, "no function of calc"),
        ("calc.kv_cache", {}, "no function of calc"),
        ("calc.nope.x", {}, "calc has no module 'nope'"),
        ("calc..x", {}, "calc has no module ''"),
        ("calc.published.ROLES", {}, "calc.published.ROLES is no function"),
        ("calc.published.ratio", {}, "calc.published.ratio: missing a required argument: 'of'; it takes of, to"),
        ("calc.published.ratio", {"of": 1, "to": 1, "by": 1}, "unexpected keyword argument 'by'; it takes of, to"),
        ("calc.hardware.accelerator", {}, "missing a required argument: 'slug'"),
        ("calc.published.ratio", {"of": 1, "to": {}}, "to names 0 functions"),
        ("calc.kv_cache.nothing", {}, "has no 'nothing'"),
        ("calc.kv_cache.__loader__", {}, "has no '__loader__'"),
        ("calc.hardware.accelerator().peaks.fp4", {"slug": "h100-sxm"}, "has no 'fp4'"),
    ],
)
def test_call_refuses_what_is_no_formula(function, arguments, message):
    with pytest.raises(CalcError, match=re.escape(message)):
        call(function, arguments)


def test_ratio_refuses_zero():
    with pytest.raises(CalcError, match="to is 0"):
        ratio(of=1, to=0)


def test_an_entry_is_written_out_with_its_difference_and_what_is_wrong():
    row = Row(
        *("X-1", "topic", "A count", "calc.published.ratio", {"of": 1.0, "to": 8.0}, 0.13, "%", 0.0, "exact", "pin"),
        *(None, "", "Somebody", "https://example.org", ""),
    )
    assert written(replace(row, unit="x")) == ("A count", "0.13×", "0.125×", "-3.8%")
    assert written(replace(row, unit="", role="erratum"))[1:] == ("0.13", "0.125", "-3.8%; the printed value is wrong")
    third = replace(row, arguments={"of": 1.0, "to": 3.0}, unit="B", printed=0.3333333)
    assert written(third, figures=3)[1:] == ("0.3333333 B", "0.333 B", "none")
    case = next(case for case in field_cases() if case.id == "KV-02")
    assert written(case)[1:] == ("524,288 B", "524,288 B", "none")


def test_every_erratum_of_the_book_names_a_test_that_there_is():
    root = Path(__file__).parent.parent
    page = (root / "book" / "reference" / "errata.md").read_text(encoding="utf-8").split("## In print")[0]
    named = {
        name for row in page.splitlines() if row.startswith("| ") for name in GUARD.findall(row.rpartition(" | ")[2])
    }
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (root / "tests").rglob("*.py"))
    assert len(named) >= 10
    assert [name for name in sorted(named) if f"def {name}(" not in tests] == []
