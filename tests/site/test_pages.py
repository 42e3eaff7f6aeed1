"""Every page of the built book: nothing foreign, nothing broken, readable by everyone, on any screen."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from bs4 import BeautifulSoup
from built import parsed, weight
from playwright.sync_api import expect

from calc.practice import PARTS
from calc.sources import KINDS

BUDGET = 250_000  # bytes a chapter may weigh before the reader touches anything


@pytest.fixture(scope="session")
def pages(site):
    """Paths of all pages; the root only leads on to the start page."""
    return sorted(p.relative_to(site).as_posix() for p in site.rglob("*.html") if p != site / "index.html")


def test_no_page_has_a_violation_in_either_mode_or_asks_another_site(watched, pages, violations):
    kinds = (Path(__file__).parent / "kinds.js").read_text("utf-8")
    found, known = {}, {"light": set(), "dark": set()}
    for path in pages:
        watched.page.emulate_media(color_scheme="light")
        page = watched.open(path)
        found[path, "either"] = violations(page, "the others")
        page.evaluate(kinds)
        here = {"light": set(page.evaluate("kinds.keep()"))}
        page.emulate_media(color_scheme="dark")
        here["dark"] = set(page.evaluate("kinds.keep()"))
        if all(here[mode] <= known[mode] for mode in known):
            continue
        assert page.evaluate("kinds.prune()") == [], path
        for mode in known:
            page.emulate_media(color_scheme=mode)
            found[path, mode] = violations(page, "colors")
            known[mode] |= here[mode]
    assert {which: rules for which, rules in found.items() if rules} == {}


def test_a_part_s_guessed_height_is_its_true_one_or_a_little_more(watched, pages):
    """Less, and a part that is not laid out yet would lie over the next one's buttons."""
    watched.page.set_viewport_size({"width": 390, "height": 844})
    for path in pages:
        if Path(path).parent.name not in PARTS:
            continue
        parts = watched.open(path).evaluate(
            """() => {
                const parts = [...document.querySelectorAll('article section section[id]')].filter(
                    part => getComputedStyle(part).contentVisibility === 'auto');
                const guesses = parts.map(part => getComputedStyle(part).containIntrinsicHeight.match(/[0-9.]+/)[0]);
                document.documentElement.dataset.whole = '';
                return parts.map((part, i) => [part.id, guesses[i] / part.getBoundingClientRect().height]);
            }"""
        )
        assert len(parts) > 8
        assert {name: ratio for name, ratio in parts if not 1 <= ratio < 2.2} == {}, path


def test_on_a_phone_every_page_fits_and_what_scrolls_is_reached_by_keyboard(watched, pages):
    watched.page.set_viewport_size({"width": 390, "height": 844})
    for path in pages:
        page = watched.open(path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        # the page measures its boxes in the first frame after it has loaded
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        page.keyboard.press("Tab")
        unreachable = page.evaluate(
            """() => [...document.querySelectorAll('main *')].filter(e => {
                const scrolls = e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(e).overflowX);
                return scrolls && e.tabIndex < 0 && e.checkVisibility();
            }).map(e => e.outerHTML.slice(0, 120))"""
        )
        assert unreachable == [], path
        names = page.evaluate("[...document.querySelectorAll('.scrolls, .copybtn')].map(e => e.ariaLabel)")
        assert len(names) == len(set(names)), path
        named = "Copy (code|output): .+|(?!(Formula|Code|Output),|undefined).+, scrolls sideways"
        assert [name for name in names if not re.fullmatch(named, name)] == [], path


def test_formulas_that_fit_are_no_tab_stops(watched, panel_path):
    stops = watched.open(panel_path).evaluate(
        "[...document.querySelectorAll('div.math[tabindex]')].filter(e => e.scrollWidth <= e.clientWidth + 1).length"
    )
    assert stops == 0


def test_the_switch_between_light_and_dark_is_kept(watched, pages):
    watched.page.emulate_media(color_scheme="light")
    page = watched.open(pages[0])
    background = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(background)
    switch = page.get_by_role("button", name="Dark mode")
    expect(switch).to_have_attribute("aria-pressed", "false")
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "true")
    dark = page.evaluate(background)
    assert light != dark
    assert watched.open(pages[1]).evaluate(background) == dark
    expect(switch).to_have_attribute("aria-pressed", "true")
    switch.click()
    assert page.evaluate(background) == light


def test_the_mode_is_the_same_in_every_open_page(watched, pages):
    page = watched.open(pages[0])
    other = page.context.new_page()
    other.goto(page.url)
    other.get_by_role("button", name="Dark mode").click()
    expect(page.locator("html")).to_have_attribute("data-mode", "dark")
    expect(page.get_by_role("button", name="Dark mode")).to_have_attribute("aria-pressed", "true")


def test_without_javascript_the_pages_are_complete(browser, address, pages, panel_path, practice_path):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/{panel_path}")
    panel = page.locator(".panel").first
    panel.scroll_into_view_if_needed()  # what is far from the window is not laid out
    assert panel.locator("select, input").first.is_disabled()
    assert panel.locator("dd").count() == panel.locator("dt").count() > 0
    expect(panel.locator(".panel-working p").first).to_be_visible()
    expect(panel.locator(".panel-status")).to_contain_text("for the values shown")
    page.goto(f"{address}/{practice_path}")
    problem = page.locator(".practice").first
    problem.locator("summary").last.click()
    expect(problem.locator(".practice-solution li").first).to_be_visible()
    expect(page.locator("nav.contents a").first).to_be_visible()
    context.close()


def test_search_finds_a_word_and_leads_to_its_page(watched):
    page = watched.open("search.html?q=cache")
    page.locator("#search-results li a").first.wait_for()
    page.locator("#search-results li a").first.click()
    expect(page.locator("main")).to_contain_text("cache", ignore_case=True)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("machine balance", "Glossary"),
        ("KV bytes per position", "KV bytes for a 70B model"),
        ("goodput", "TTFT, TPOT, ITL and goodput"),
        ("n_kv", "Formula sheet"),  # a symbol of a formula, by its plain name
        ("n_kv", "KV bytes for a 70B model"),
        ("bytes_per_position", "calc.kv_cache.bytes_per_position"),
        ("quantisation", "Quantization"),
    ],
)
def test_search_finds_terms_and_formulas(watched, words, found):
    page = watched.open(f"search.html?q={quote(words)}")
    expect(page.locator("#search-results li > a").get_by_text(found, exact=True).first).to_be_visible()


@pytest.mark.parametrize("words", ["constructor", "__proto__", "hasOwnProperty", "toString valueOf"])
def test_a_word_that_every_object_has_is_searched_for_like_any_other(watched, words):
    page = watched.open(f"search.html?q={quote(words)}")
    expect(page.locator("#search-results [role=status]")).to_have_text(re.compile("Places found|No page has"))
    assert page.locator("#search-results li").get_by_text("undefined").count() == 0


def test_a_chapter_is_light_before_it_is_touched(browser, address, site, pages):
    heavy = {}
    for path in pages:
        if "data-panel=" not in (site / path).read_text("utf-8"):
            continue
        context = browser.new_context()
        page = context.new_page()
        answers = []
        page.on("response", lambda answer, answers=answers: answers.append(answer))
        page.goto(f"{address}/{path}", wait_until="networkidle")
        weights = {answer.url: weight(answer.url, answer.body()) for answer in answers}
        context.close()
        if sum(weights.values()) >= BUDGET:
            heavy[path] = weights
    assert heavy == {}


def test_every_page_forbids_foreign_origins_and_names_itself(site, pages):
    for path in pages:
        html = (site / path).read_text("utf-8")
        page = BeautifulSoup(html.partition("</head>")[0], "html.parser")
        policy = page.find("meta", {"http-equiv": "Content-Security-Policy"})["content"]
        assert policy.startswith("default-src 'self'") and "http" not in policy and "*" not in policy, path
        assert page.title.text.strip() and page.find("html")["lang"] == "en", path
        assert len(re.findall(r"<h1\b", html)) == 1, path


def test_nothing_on_a_page_is_loaded_from_elsewhere(site, pages):
    loads = re.compile(r"""<(?:script|img|iframe|source|video|audio|object|embed)\b[^>]*?(?:src|data)="(?:\w+:)?//""")
    links = re.compile(r"""<link\b[^>]*?rel="(?!canonical)[^"]*"[^>]*?href="(?:\w+:)?//""")
    for path in pages:
        html = (site / path).read_text("utf-8")
        assert not loads.search(html) and not links.search(html), path


def test_the_keyboard_can_skip_to_the_text(watched, panel_path):
    page = watched.open(panel_path)
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the text")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#"))
    page.keyboard.press("Tab")
    expect(page.locator("main :focus")).to_have_count(1)


@pytest.mark.parametrize("part", ["change-the-assumptions", "if-the-interviewer-pushes"])
def test_a_link_into_a_page_leads_to_its_heading(watched, panel_path, part):
    """Nothing between here and there has been laid out yet: its height was a guess."""
    page = watched.open(panel_path)
    page.emulate_media(reduced_motion="reduce")
    heading = page.locator(f"#{part}").locator("h2, h3").first
    page.locator(f'nav.contents a[href="#{part}"]').press("Enter")
    expect(heading).to_be_in_viewport()
    assert 0 <= heading.bounding_box()["y"] < 200
    watched.open("404.html")
    watched.open(f"{panel_path}#{part}")
    expect(heading).to_be_in_viewport()
    assert 0 <= heading.bounding_box()["y"] < 200


FIRST = "() => [...document.querySelectorAll('article p')].find(p => p.getBoundingClientRect().top >= 0).textContent"


def test_a_reader_who_comes_back_finds_the_place_and_can_go_to_the_end(watched, panel_path):
    page = watched.open(panel_path)
    for _ in range(12):
        page.mouse.wheel(0, 900)
        page.wait_for_timeout(30)
    page.wait_for_selector("html[data-whole]")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    seen = page.evaluate(FIRST)
    page.reload()
    page.wait_for_function(f"(seen) => ({FIRST})() === seen", arg=seen)
    watched.open(panel_path)
    page.keyboard.press("End")
    page.wait_for_function("() => scrollY + innerHeight > document.documentElement.scrollHeight - 2")


def test_nothing_moves_when_the_scripts_come(watched, practice_path):
    watched.page.add_init_script(
        """window.moved = 0;
        const add = (seen) => { for (const { value } of seen.getEntries()) moved += value; };
        new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });"""
    )
    for width in (390, 1280):
        watched.page.set_viewport_size({"width": width, "height": 844})
        watched.open("404.html")
        page = watched.open(f"{practice_path}#practice")
        expect(page.locator(".practice-form").first).to_be_in_viewport()
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate("moved") < 0.01, width


def test_on_a_phone_the_contents_open_and_close_by_keyboard(watched, panel_path):
    watched.page.set_viewport_size({"width": 390, "height": 844})
    page = watched.open(panel_path)
    contents = page.locator("nav.contents")
    expect(contents).to_be_hidden()
    page.get_by_role("button", name="Contents").press("Enter")
    expect(contents).to_be_visible()
    page.keyboard.press("Escape")
    expect(contents).to_be_hidden()


def test_every_kind_of_number_is_named_for_those_who_listen(site):
    page = parsed(site / "book" / "conventions.html")
    for kind in KINDS:
        assert page.select_one(f".kind-{kind}").text.lower() == kind, "the word itself is said once"
    mark = re.compile(r'<span class="kind kind-(\w+)"[^>]*><span class="unseen">(.*?)</span>')
    heard = {found for path in site.rglob("*.html") for found in mark.findall(path.read_text("utf-8"))}
    assert heard == {(kind, f"{kind} ") for kind in KINDS}


def test_a_chapter_can_be_downloaded_as_a_notebook(watched, panel_path):
    page = watched.open(panel_path)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download this chapter").click()
    assert json.loads(download.value.path().read_text("utf-8"))["nbformat"] == 4


def test_a_missing_page_is_answered_from_the_root_of_the_site(site):
    page = parsed(site / "404.html")
    assert page.base["href"] == "/"
    assert not [a["href"] for a in page.select("a[href]") if a["href"].startswith((".", "#"))]
