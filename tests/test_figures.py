"""Pictures are text: the same on every machine, and at home in a page beside others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from calc.figures import BLUE, GREEN, GREY, HUE_OF_TEXT, ORANGE, PURPLE, canvas, dots, picture


def drawn(alt: str) -> str:
    figure, (axes,) = canvas(height=3)
    axes.plot([1, 2, 3], [1, 4, 9], color=BLUE, marker="o")
    return picture(figure, alt=alt, caption="A curve.").svg


def test_parts_have_a_name_where_it_is_used_and_are_numbered():
    """What matplotlib calls them depends on the last digit of a float, and so on the machine."""
    svg = drawn("A curve")
    names, used = re.findall(r' id="([^"]+)"', svg), re.findall(r'(?:url\(|href=")#([^)"]+)', svg)
    assert names and sorted(names) == sorted(set(used))
    assert [name.rpartition("-")[2] for name in dict.fromkeys(used)] == [str(n) for n in range(len(names))]


def test_two_pictures_share_no_name():
    one, other = (set(re.findall(r' id="([^"]+)"', drawn(alt))) for alt in ("A curve", "Another curve"))
    assert one and other and not one & other


def test_a_picture_brings_no_rules_for_the_page():
    assert "<style" not in drawn("A curve")


def test_many_dots_are_one_path():
    figure, (axes,) = canvas(height=3)
    dots(axes, range(100), [n % 7 for n in range(100)], size=3, color=BLUE)
    svg = picture(figure, alt="Dots", caption="Dots.").svg
    (path,) = re.findall(rf'd="([^"]+)"[^>]*stroke: {BLUE}[^>]*stroke-linecap: round', svg)
    points = re.findall(r"([ML]) ([\d.]+ [\d.]+)", path)
    assert [kind for kind, _ in points] == ["M", "L"] * 100
    assert [at for _, at in points[::2]] == [at for _, at in points[1::2]]
    assert axes.get_xlim()[1] >= 99 and axes.get_ylim()[1] >= 6


def luminance(color):
    """As WCAG 2 defines it, of parts from 0 to 1."""
    return sum(
        weight * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
        for weight, part in zip((0.2126, 0.7152, 0.0722), color, strict=True)
    )


def parts(color):
    return [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]


@pytest.mark.parametrize("hue", [BLUE, ORANGE, GREEN, PURPLE, GREY])
@pytest.mark.parametrize("mode", [0, 1])
def test_words_in_a_color_can_be_read_on_both_papers(hue, mode):
    css = (Path(__file__).parents[1] / "book" / "_static" / "book.css").read_text("utf-8")
    paper, ink = (
        parts(re.search(rf"--{name}: light-dark\((#\w+), (#\w+)\)", css).groups()[mode]) for name in ("paper", "ink")
    )
    share = HUE_OF_TEXT / 100
    mixed = [share * a + (1 - share) * b for a, b in zip(parts(hue), ink, strict=True)]
    dark, light = sorted((luminance(paper), luminance(mixed)))
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_only_marks_have_a_bare_color():
    figure, (axes,) = canvas(1)
    axes.text(0, 0, "words", color=BLUE)
    axes.plot([0, 1], color=BLUE)
    svg = picture(figure, alt="A line.", caption="").svg
    words = re.search("<text[^>]*fill:[^>]*>", svg)[0]
    assert f"fill: color-mix(in srgb, {BLUE} {HUE_OF_TEXT}%, currentColor)" in words
    assert f"stroke: {BLUE}" in svg
