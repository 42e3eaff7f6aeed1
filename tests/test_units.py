"""Units: the table, the parser, the formatters and the guard on every formula."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.units import (
    UNITS,
    CalcError,
    UnitError,
    dimensions,
    format_as,
    format_bytes,
    format_decimal,
    format_percent,
    format_seconds,
    parse,
    plain,
    registry,
    significant,
)


@dimensions("byte", count="count", size="byte")
def total(*, count, size):
    return count * size


@pytest.mark.parametrize(
    ("text", "value", "dimension"),
    [
        ("320 KiB", 320 * 1024, "byte"),
        ("327,680 bytes", 327680, "byte"),
        ("5.4GB", 5.4e9, "byte"),
        ("1\u202f234 B", 1234, "byte"),
        ("8 Gbit", 1e9, "byte"),
        ("≈ 5 gib", 5 * 1024**3, "byte"),
        ("12 tokens", 12, ""),
        ("40%", 0.4, ""),
        ("8x", 8, ""),
        ("1e5", 1e5, ""),
        (".5 s", 0.5, "second"),
        ("3.35 TB/s", 3.35e12, "byte/second"),
        ("989.4 TFLOP/s", 989.4e12, "FLOP/second"),
    ],
)
def test_parse_reads(text, value, dimension):
    amount = parse(text)
    assert amount.value == pytest.approx(value)
    assert amount.dimension == dimension


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "write a number and a unit"),
        ("plenty", "no number found"),
        ("5,4 GB", "point for decimals"),
        ("3-4 GB", "one number"),
        ("5 Gb", "bits or bytes"),
        ("320 Kib", "write Kbit or KiB"),
        ("5 b", "write bit or B"),
        ("100 Gbps", "write Gbit/s or GB/s"),
        ("989 TFLOPS", "write TFLOP or TFLOP/s"),
        ("5 furlongs", "unknown unit"),
        ("nan", "no number"),
        ("1e999 B", "too large"),
        ("9" * 200, "no number"),
        (None, "write a number"),
    ],
)
def test_parse_refuses_with_a_remedy(text, says):
    with pytest.raises(UnitError, match=says):
        parse(text)


@given(st.text(max_size=60))
def test_parse_never_fails_otherwise(text):
    try:
        assert math.isfinite(parse(text).value)
    except UnitError as error:
        assert len(str(error)) < 300


@given(st.floats(1, 1e17))
def test_bytes_survive_writing_and_reading(value):
    assert parse(format_bytes(value)).value == pytest.approx(value, rel=6e-4)


def test_binary_and_decimal_differ_by_seven_percent_at_giga():
    assert UNITS["GiB"].factor / UNITS["GB"].factor == pytest.approx(1.0737, abs=1e-4)


def test_formatters():
    assert format_bytes(0) == "0 B"
    assert format_bytes(1023) == "1,023 B"
    assert format_bytes(-2048) == "-2 KiB"
    assert format_decimal(450e9, "B/s") == "450 GB/s"
    assert format_seconds(3.2e-5) == "32 µs"
    assert format_seconds(5e-9) == "5 ns"
    assert [format_percent(share) for share in (0.99999, -0.0123, 1e-6)] == ["100%", "-1.23%", "0.0001%"]
    assert format_percent(Fraction(1, 3), 2) == "33%"
    assert [format_percent(share, 2) for share in (1.0749, -1.0749, 0.996, 12.3456)] == [
        "107%",
        "-107%",
        "100%",
        "1,235%",
    ]
    with pytest.raises(CalcError):
        format_percent(math.inf)
    assert format_as(12, "FLOP/byte") == "12 FLOP/B"
    assert significant(99999) == "100,000"
    with pytest.raises(CalcError):
        significant(math.nan)


def test_formula_takes_plain_numbers_arrays_and_quantities():
    import numpy as np

    quantity = registry().Quantity
    assert total(count=3, size=2) == 6
    assert total(count=np.arange(3), size=2).tolist() == [0, 2, 4]
    result = total(count=quantity(3, "token"), size=quantity(2, "KiB"))
    assert str(result.units) == "byte"
    assert result.magnitude == 6144


def test_formula_takes_quantities_of_a_foreign_registry():
    import pint

    other = pint.UnitRegistry()
    assert total(count=3, size=other.Quantity(16, "bit")).magnitude == 6


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, "2", True, None, 2j, [1]])
def test_formula_refuses_what_is_not_a_quantity(bad):
    with pytest.raises(CalcError, match="total: size is .*wanted a number in byte of at least 0"):
        total(count=1, size=bad)


@pytest.mark.parametrize(
    ("bad", "declared", "says"),
    [
        (1e300, "", "x is 1e+300, wanted a number of at least 0 and below 1.33e+36"),
        (2**53, "count", "x is 9007199254740992, wanted a whole number of at least 0 and below 9.01e+15"),
        (10**400, "count>0", "a number of more than 40 digits, wanted a whole number above 0 and below 9.01e+15"),
        (1.5, "count", "x is 1.5, wanted a whole number of at least 0"),
    ],
)
def test_a_number_too_large_is_told_the_limit(bad, declared, says):
    with pytest.raises(CalcError) as refused:
        plain("f", "x", bad, declared)
    assert str(refused.value).endswith(says)


def test_formula_names_the_wrong_unit():
    quantity = registry().Quantity
    with pytest.raises(UnitError, match="total: size is s, wanted byte"):
        total(count=1, size=quantity(2, "s"))
    with pytest.raises(UnitError, match="total: size is a plain number, wanted byte"):
        total(count=1, size=quantity(2, ""))
    with pytest.raises(UnitError, match="total: count is B, wanted a count"):
        total(count=quantity(3, "byte"), size=2)
    with pytest.raises(CalcError, match="count is 2.5, wanted a whole number"):
        total(count=2.5, size=2)


def test_formula_names_wrong_arguments():
    with pytest.raises(TypeError, match="no argument 'sise'"):
        total(count=1, sise=2)
    with pytest.raises(TypeError, match="needs 'size'"):
        total(count=1)


def test_declaration_must_match_the_formula():
    with pytest.raises(TypeError, match="declared"):

        @dimensions("byte", other="byte")
        def wrong(*, size):
            return size


def test_an_error_shows_no_traceback_in_a_notebook():
    assert UnitError("too big")._render_traceback_() == ["UnitError: too big"]
