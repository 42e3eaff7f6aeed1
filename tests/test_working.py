"""The working shown on a page is the formula that was computed."""

from math import ceil

import pytest

from calc import working as module
from calc.units import UNITS, CalcError, dimensions
from calc.working import SYMBOLS, Symbol, symbols_of, working


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
    assert [s.text for s in symbols_of(two_steps)] == ["T", "b", "s", "B_seq"]
    assert module.SYMBOLS["kv_heads"].latex == r"n_{\mathrm{kv}}"
