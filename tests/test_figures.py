"""Pictures are text: the same on every machine, and at home in a page beside others."""

from __future__ import annotations

import re

from calc.figures import BLUE, canvas, dots, picture


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
