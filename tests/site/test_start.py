"""The start page's map of problems, the cards that other sites show, and the report of a number."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from bs4 import BeautifulSoup
from built import arrive, parsed
from PIL import Image
from playwright.sync_api import expect

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
from textbook import cards, pages  # noqa: E402
from textbook.chart import Chapter, chapter, homes, leaning  # noqa: E402

START, CHAPTER = "book/start.html", "book/memory/kv_cache.html"


def test_the_map_has_every_problem_in_the_order_of_the_contents(site):
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))["parts"]
    pages = [(part["caption"], page["file"]) for part in parts for page in part["chapters"]]
    wanted = [(part, chapter(ROOT, page)) for part, page in pages if chapter(ROOT, page)]
    shown = parsed(site / START).select_one(".map")
    assert [h3.next_element.strip() for h3 in shown("h3")] == list(dict.fromkeys(part for part, _ in wanted))
    rows = [(a["href"], a.select_one(".number").text, a.contents[-1].strip()) for a in shown.select("li a")]
    assert rows == [
        (f"{one.page.removeprefix('book/')}.html", f"Problem {one.problem}", one.title) for _, one in wanted
    ]
    assert sorted(one.problem for _, one in wanted) == list(range(1, 17))


def test_a_chapter_leans_on_the_one_that_derives_most_of_what_it_imports():
    places = {("kv", "a"): [("one", "s")], ("kv", "b"): [("two", "s")], ("kv", "c"): [("two", "s"), ("one", "s")]}
    assert homes(places) == {"kv": "two"}
    chapters = [Chapter(page, 1, page, frozenset(m)) for page, m in (("one", {"kv", "models"}), ("two", {"kv"}))]
    assert leaning(chapters, {"kv": "two"}) == {"one": ["two"], "two": []}


@pytest.mark.parametrize("width", [390, 1280])
def test_every_arc_of_the_map_ends_at_the_chapter_it_names(watched, width):
    watched.page.set_viewport_size({"width": width, "height": 900})
    rows = watched.open(START).evaluate(
        """[...document.querySelectorAll('.map li')].map(li => ({
            number: +li.querySelector('.number').lastChild.textContent,
            middle: (box => (box.top + box.bottom) / 2)(li.querySelector('.number').getBoundingClientRect()),
            left: li.querySelector('.number').getBoundingClientRect().left,
            named: (li.querySelector('a + .unseen')?.textContent.match(/[0-9]+/g) ?? []).map(Number),
            arcs: [...li.querySelectorAll('i')].map(arc => arc.getBoundingClientRect())
                .map(box => [box.top, box.bottom, box.left, box.right]),
        }))"""
    )
    middle = {row["number"]: row["middle"] for row in rows}
    assert sum(len(row["arcs"]) for row in rows) > len(rows)
    for row in rows:
        ends = [sorted((row["middle"], middle[number])) for number in row["named"]]
        assert len(ends) == len(row["arcs"])
        for (top, bottom), arc in zip(ends, row["arcs"], strict=True):
            assert arc[:2] == pytest.approx([top, bottom], abs=1.5), row["number"]
            assert arc[2] >= 0 and arc[3] == pytest.approx(row["left"], abs=1.5)


def test_the_map_is_read_out_as_what_it_shows(watched):
    page = watched.open(START)
    link = page.get_by_role("link", name="Problem 6 ")
    expect(link).to_have_attribute("href", "memory/attention_variants.html")
    expect(page.locator(".map li", has=link)).to_contain_text("leans on 3")


def test_every_page_says_what_it_is_to_other_sites(site):
    descriptions = {}
    for path in sorted((site / "book").rglob("*.html")):
        head = BeautifulSoup(path.read_text("utf-8").partition("</head>")[0], "html.parser")
        meta = {tag.get("property") or tag.get("name"): tag["content"] for tag in head.select("meta[content]")}
        descriptions.setdefault(meta["description"], []).append(path.name)
        assert meta["og:description"] == meta["description"] and len(meta["description"]) <= pages.DESCRIPTION
        assert meta["og:title"] and meta["og:image:alt"] and meta["twitter:card"] == "summary_large_image"
        assert (path.parent / meta["og:image"]).resolve().is_file(), path
        assert "og:url" not in meta  # this build doesn't know its address
    assert [names for names in descriptions.values() if len(names) > 1] == []


def test_each_problem_has_a_card_of_its_own(site):
    found = sorted((site / "_static" / "cards").glob("*.png"))
    assert len(found) == 17
    for path in found:
        assert Image.open(path).size == cards.SIZE
        assert path.stat().st_size < 60_000
    assert len({path.read_bytes() for path in found}) == len(found)


def test_a_card_has_a_whole_address_if_the_site_has_one(tmp_path):
    config = SimpleNamespace(html_baseurl="https://example.org/book/", root_doc="book/start")
    app = SimpleNamespace(config=config, outdir=tmp_path, srcdir=ROOT)
    context = {"problem": None, "docstitle": "A book", "title": "<i>A</i> page", "description": "Words"}
    assert cards.draw(app, "book/page", context) == ("https://example.org/book/_static/cards/book.png", "A book")


def test_no_text_runs_off_a_card():
    """The ground shows all around, however long the title is."""
    words = "A title of a good many words that somebody thought of late at night"
    card = cards.picture(ROOT / cards.FONTS, words, "Part · Problem 1", f"{words} " * 3, "A book").convert("L")
    left, top, right, bottom = card.point(lambda shade: 255 * (shade < 200)).getbbox()
    assert left >= cards.MARGIN - 3 and right <= cards.SIZE[0] - cards.MARGIN // 2
    assert top >= cards.MARGIN // 2 and bottom <= cards.SIZE[1] - cards.MARGIN + 3
    above = card.crop((0, 0, cards.SIZE[0], cards.SIZE[1] - cards.MARGIN - cards.SIGN - 1))
    assert above.point(lambda shade: 255 * (shade < 200)).getbbox()[3] < above.size[1] - 3  # nothing meets the foot


def test_a_report_takes_the_number_and_the_step_from_what_is_selected(browser, address):
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"], service_workers="block")
    page = context.new_page()
    arrive(page, f"{address}/{CHAPTER}")
    formula = page.locator("section[id^=step-2] .katex").last
    formula.evaluate("node => getSelection().selectAllChildren(node)")
    page.get_by_text("Report a number").press("Enter")
    report = page.get_by_label("Your report")
    expect(report).to_have_value(re.compile(r"Page: KV bytes.*\nStep: Step 2.* \(#step-2.*\)\n"))
    shown = formula.locator(".katex-html").text_content()
    assert f"Number shown: {' '.join(shown.split())}\n" in report.input_value()
    page.get_by_role("button", name="Copy", exact=True).last.click()
    expect(page.locator("#report output")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == report.input_value()
    context.close()


def test_a_report_takes_the_step_from_the_address(watched):
    page = watched.open(f"{CHAPTER}#derivation")
    page.get_by_text("Report a number").click()
    expect(page.get_by_label("Your report")).to_have_value(re.compile(r"\nStep: Derivation \(#derivation\)\n"))


def test_without_javascript_the_report_is_there_to_fill_in(site):
    text = parsed(site / CHAPTER).select_one("#report textarea").text
    assert text.splitlines()[0] == "Page: KV bytes for a 70B model (book/memory/kv_cache)"
    assert parsed(site / CHAPTER).select("#report a") == []


def test_a_report_opens_as_an_issue_where_there_is_a_place_for_it(monkeypatch):
    monkeypatch.setenv("REPORT_URL", "https://example.org/issues/new")
    text, form = pages.report("book/page", {"title": "A &amp; B", "docstitle": "A book"})
    asked = parse_qs(urlsplit(form).query)
    assert asked == {"title": ["A & B: a number"], "body": [text]}
    assert json.dumps(text).count("\\n") == 4
