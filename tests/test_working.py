"""The working shown on a page is the formula that was computed."""

import importlib
import pkgutil
import re
from math import ceil, floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calc
from calc import capacity, kv_cache, selection
from calc import working as module
from calc.units import UNITS, CalcError, dimensions, parse, registry
from calc.working import SYMBOLS, Symbol, exact, symbolic, symbols_of, working


@dimensions("byte", positions="count", block_tokens="count>0", element_bytes="byte")
def two_steps(*, positions, block_tokens, element_bytes):
    """A formula with an intermediate result, for the tests."""
    blocks = ceil(positions / block_tokens)
    two_steps = (blocks - 1) * block_tokens**2 * element_bytes + max(positions, 1)
    return two_steps


@pytest.fixture(autouse=True)
def _a_symbol_for_the_test_formula(monkeypatch):
    monkeypatch.setitem(SYMBOLS, "two_steps", Symbol("B_seq", "a test", "byte"))


def test_every_assignment_becomes_a_step():
    shown = working(two_steps, positions=33, block_tokens=16, element_bytes=2)
    assert shown.value == 2 * 256 * 2 + 33
    first, second = shown.text.splitlines()
    assert first == "N_b = ⌈T / b⌉ = ⌈33 / 16⌉ = 3"
    assert second.startswith("B_seq = (N_b − 1) · b^2 · s + max(T, 1) = (3 − 1) · 16^2 · 2 B + max(33, 1) = 1,057 B")
    assert r"\left\lceil \frac{T}{b} \right\rceil" in shown.latex


def test_the_bundle_has_math_and_plain_text():
    bundle = working(two_steps, positions=1, block_tokens=1, element_bytes=1)._repr_mimebundle_()
    assert set(bundle) == {"text/latex", "text/plain"}
    assert bundle["text/latex"].startswith("$$")


def test_numbers_in_latex_have_commas_that_do_not_space():
    shown = working(selection.cost_per_million, price_hour=1234.5, good_rate=2000, busy_share=0.5)
    assert "3,600" in shown.text and "1,234.5" in shown.text
    for latex in (shown.latex, symbolic(selection.cost_per_million)):
        assert "3{,}600" in latex
        assert not re.search(r"\d,\d", latex)


def test_a_name_without_a_symbol_is_refused():
    @dimensions("", nameless="")
    def formula(*, nameless):
        return nameless

    with pytest.raises(CalcError, match="no symbol for 'formula'|no symbol for 'nameless'"):
        working(formula, nameless=1)


def test_a_plain_function_is_refused():
    with pytest.raises(CalcError, match="is not a formula"):
        working(len, obj="x")


def test_what_cannot_be_shown_is_refused(monkeypatch):
    monkeypatch.setitem(SYMBOLS, "odd", Symbol("o", "a test", ""))

    @dimensions("", positions="")
    def odd(*, positions):
        return positions if positions > 1 else 0

    with pytest.raises(CalcError, match="cannot show"):
        working(odd, positions=2)


def test_symbols_have_meanings_and_known_units():
    assert {s.unit for s in SYMBOLS.values()} <= {unit.dimension for unit in UNITS.values()}
    assert all(s.meaning for s in SYMBOLS.values())
    assert [s.text for s in symbols_of(two_steps)] == ["T", "b", "s", "N_b", "B_seq"]
    assert module.SYMBOLS["kv_heads"].latex == r"n_{\mathrm{kv}}"


NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
UNIT = r"(?: (?:[KMGTP]i)?B(?:/s)?| [kMGTP]?FLOP(?:/s)?| [mµn]?s|/s)?(?!\w)"


def worth(text):
    """The number that a rendered expression stands for, read back and evaluated."""
    text = text.removeprefix("≈ ")
    for symbol, code in {"·": "*", "−": "-", "⌈": "ceil(", "⌉": ")", "⌊": "floor(", "⌋": ")", "^": "**"}.items():
        text = text.replace(symbol, code)
    text = re.sub(NUMBER + UNIT, lambda match: repr(parse(match[0]).value), text)
    return eval(text, {"ceil": ceil, "floor": floor, "min": min, "max": max})


SIZES = st.integers(1, 10**9)


@given(memory=SIZES, size=SIZES.map(lambda n: n / 2), positions=st.integers(1, 10**6), window=st.integers(1, 10**6))
def test_the_numbers_put_in_give_the_result(memory, size, positions, window):
    for shown in (
        working(kv_cache.positions_that_fit, memory_bytes=memory, bytes_per_position=size),
        working(kv_cache.sequences_that_fit, memory_bytes=memory + 0.25, sequence_bytes=size),
        working(kv_cache.sequence_bytes, bytes_per_position=size, positions=positions),
        working(kv_cache.blocks, positions=positions, block_tokens=window),
        working(kv_cache.resident_positions, positions=positions, window=window),
        working(kv_cache.scaled_element_bytes, element_bytes=1, scale_bytes=4, group=window),
    ):
        rounded = shown.steps[-1].substituted.startswith("≈")
        assert worth(shown.steps[-1].substituted) == pytest.approx(shown.value, rel=1e-3 if rounded else 1e-12)


def test_a_rounded_result_says_so():
    shown = working(kv_cache.latent_bytes_per_position, layers=61, latent_dim=512, rope_dim=64, element_bytes=2)
    assert shown.text.endswith("= 70,272 B ≈ 68.62 KiB")
    assert r"\approx" in shown.latex
    shown = working(kv_cache.sequence_bytes, bytes_per_position=1.5, positions=12_345)
    assert shown.text.endswith("= 18,517.5 B ≈ 18.08 KiB")
    assert exact(12.722661, "second") == "12.722661 s" and exact(0.4833576, "") == "≈ 0.483358"
    assert exact(1_234_567.25, "byte") == "≈ 1,234,567 B" and exact(123_456_789, "byte") == "123,456,789 B"


def test_a_number_without_end_is_rounded_where_it_stands():
    assert exact(295.3731343283582, "FLOP/byte") == "≈ 295.373 FLOP/B"
    assert exact(1.514889209967346, "") == "≈ 1.51489" and exact(1.5, "") == "1.5"
    shown = working(kv_cache.scaled_element_bytes, element_bytes=1, scale_bytes=4, group=96)
    assert shown.text.endswith("4 B / 96 ≈ 1.042 B")


def test_a_rounded_operand_has_no_sign_of_its_own_and_the_relation_before_it_says_so():
    third = 1 / 3
    shown = working(kv_cache.sequence_bytes, bytes_per_position=third, positions=7)
    assert shown.text == "B_seq = B_pos · T ≈ 0.3333 B · 7 ≈ 2.333 B"
    assert shown.latex.splitlines()[2] == r" &\approx 0.3333\ \mathrm{B} \cdot 7 \\"
    shown = working(kv_cache.sequence_bytes, bytes_per_position=third, positions=3)
    assert shown.text.endswith("≈ 0.3333 B · 3 ≈ 1 B")  # what the rounded numbers give is not quite it
    shown = working(kv_cache.positions_that_fit, memory_bytes=10, bytes_per_position=third * 10)
    assert shown.text.endswith("⌊M / B_pos⌋ ≈ ⌊10 B / 3.333 B⌋ = 3")  # here it is
    shown = working(kv_cache.sequence_bytes, bytes_per_position=0.1 + 0.2, positions=7)
    assert shown.text.endswith("= 0.3 B · 7 = 2.1 B")  # only binary arithmetic made it long


def test_a_rounded_operand_keeps_the_digits_that_its_place_needs(monkeypatch):
    monkeypatch.setitem(SYMBOLS, "what_is_left", Symbol("x", "a test", ""))

    @dimensions("", window="", group="")
    def what_is_left(*, window, group):
        return window / (1 - group)

    share = 1 - 1 / 70_000
    shown = working(what_is_left, window=1, group=share)
    assert shown.text == "x = W / (1 − g) ≈ 1 / (1 − 0.999985714) ≈ 70,000"


def test_quantities_are_converted_and_arrays_refused():
    quantity = registry().Quantity
    sizes = {"layers": 80, "kv_heads": 8, "head_dim": 128}
    shown = working(kv_cache.bytes_per_position, **sizes, element_bytes=quantity(16, "bit"))
    assert shown.text.endswith("2 · 80 · 8 · 128 · 2 B = 327,680 B = 320 KiB")
    with pytest.raises(CalcError, match="working of an array"):
        working(kv_cache.blocks, positions=np.array([1, 2]), block_tokens=16)


@dimensions("", positions="", window="", group="")
def two_steps_more(*, positions, window, group):
    return (positions / window) ** group + positions ** (window + group) + (positions**window) ** group


def test_powers_keep_their_brackets(monkeypatch):
    monkeypatch.setitem(SYMBOLS, "two_steps_more", Symbol("x", "a test", ""))
    shown = working(two_steps_more, positions=3, window=2, group=2)
    assert worth(shown.steps[0].substituted) == shown.value
    assert r"\left(\frac{3}{2}\right)^{2}" in shown.latex and r"\left(3^{2}\right)^{2}" in shown.latex


def formulas():
    """Every formula of the library, found by its mark."""
    for info in pkgutil.walk_packages(calc.__path__, "calc."):
        if info.name.partition(".figures")[1]:
            continue
        for value in vars(importlib.import_module(info.name)).values():
            if hasattr(value, "formula") and value.__module__ == info.name:
                yield value


@pytest.mark.parametrize("formula", list(formulas()), ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_every_formula_of_the_library_can_be_shown(formula):
    units = formula.units
    tries = (
        {name: 2 for name in units},
        {name: 2 if unit.startswith("count") else 0.5 for name, unit in units.items()},  # a share
        {name: i for i, name in enumerate(units, 1)},  # bounds, each above the one before
        {name: len(units) - i for i, name in enumerate(units)},  # a load below what serves it
        {name: (3, 5, 4, 2, 9)[i % 5] for i, name in enumerate(units)},  # something between its bounds
    )
    for numbers in tries:
        try:
            shown = working(formula, **numbers)
            break
        except CalcError:
            continue
    assert shown.value == pytest.approx(formula(**numbers))
    assert shown.text.startswith(shown.steps[0].symbol + " = ")
    assert not re.search(r"≈(?! )|(?<= [·+−/] )≈|[(⌈⌊]≈", shown.text), shown.text


def test_a_long_sum_goes_on_in_further_rows():
    parts = {
        "weight_bytes": 17_639_424_000,
        "activation_bytes": 2_135_949_312,
        "graph_bytes": 1,
        "communication_bytes": 1,
    }
    shown = working(capacity.pool_bytes, total_bytes=84_943_715_697, fraction=0.92, **parts)
    rows = shown.latex.splitlines()[1:-1]
    assert rows[0].startswith(
        r"M_{\mathrm{pool}} &= \left\lceil M_{\mathrm{total}} \cdot u \right\rceil - M_{\mathrm{w}}"
    )
    assert rows[1] == r" &\quad {} - M_{\mathrm{comm}} \\"
    assert r" &\quad {} - 17{,}639{,}424{,}000\ \mathrm{B} \\" in rows
    assert len(rows) == 6 and rows[-1].startswith(" &= ")
    assert "\n" not in shown.text
