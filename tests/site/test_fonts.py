"""The cut fonts: no sign that the book can show is missing, and the names that are reserved are gone."""

from __future__ import annotations

import re
import sys
from html import unescape
from pathlib import Path

import pytest
from built import parsed
from fontTools.ttLib import TTFont

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
from textbook.fonts import CUT, ITALIC, MAIN, TEXT  # noqa: E402


def signs(font: TTFont) -> set[str]:
    return set(map(chr, font.getBestCmap()))


@pytest.fixture(scope="module")
def shown(site):
    """What is kept of a font → what is shown in it, on a page or by the library and the scripts that fill it in."""
    pages = {path: path.read_text("utf-8") for path in site.rglob("*.html")}
    plain = {sign for html in pages.values() for sign in unescape(re.sub(r"<[^>]*>", "", html))}
    live = [*ROOT.glob("calc/**/*.py"), *ROOT.glob("book/live/*.js"), *ROOT.glob("book/_static/*.js")]
    plain |= {sign for path in live for sign in path.read_text("utf-8")}
    formulas = {
        sign
        for path, html in pages.items()
        if 'class="katex' in html
        for formula in parsed(path, class_="katex-html").select(".katex-html")
        for sign in formula.text
    }
    return {TEXT: plain, MAIN: formulas, ITALIC: formulas}


@pytest.mark.parametrize("target", CUT)
def test_a_cut_font_has_every_sign_that_is_shown_in_it(site, shown, target):
    source, kept = CUT[target]
    cut, whole = signs(TTFont(site / "_static" / target)), signs(TTFont(ROOT / source))
    assert cut < whole
    missing = (shown[kept] & whole) - cut
    assert not missing, f"add {''.join(sorted(missing))} to what textbook.fonts keeps"


@pytest.mark.parametrize("target", CUT)
def test_a_cut_font_keeps_its_license_and_leaves_the_reserved_name(site, target):
    names = {record.nameID: str(record) for record in TTFont(site / "_static" / target)["name"].names}
    assert "opyright" in names[0] or "©" in names[0]
    assert names[14].startswith("http")
    assert not names.keys() & {1, 3, 4, 6, 16}
