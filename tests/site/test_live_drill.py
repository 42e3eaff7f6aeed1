"""The mixed interview in a real browser: drawn as in CPython, counted honestly, kept here alone."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from bs4 import BeautifulSoup
from built import parsed
from panels import line_as_read
from playwright.sync_api import expect

from calc import practice
from calc.practice import check_json, interview

sys.path.insert(0, str(Path(__file__).parents[2] / "book" / "_ext"))
from textbook import drill  # noqa: E402

PATH = "book/drill.html"
MARKUP = "<img src=x onerror=alert(1)>"
SEED = 7  # its six problems have a classic mistake each, the design question aside
WAYS = ("right", "retry", "hint", "shown", "skip")  # what is done with the numbered ones
BLOCKED = "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('', 'SecurityError'); }})"
FOCUS = "document.activeElement.textContent"


def right(question) -> str:
    return f"{question.problem.answer(question.numbers)} {question.problem.unit}"


def classic(question) -> tuple[str, str]:
    """A classic wrong answer, and the mistake that the check names."""
    for value in question.problem.wrong_values(question.numbers).values():
        text = f"{value} {question.problem.unit}"
        if mistake := question.check(text).mistake:
            return text, mistake
    raise AssertionError(f"seed {SEED} asks {question.problem.id}, which names no mistake: choose another seed")


def stage(page):
    return page.locator("[data-stage]")


def status(page):
    return page.locator("[data-drill] form [role=status]")


def told(page):
    return stage(page).locator("> [role=status]")


def start(page):
    page.get_by_role("button", name="Start").click()
    expect(stage(page).locator(".practice-ask")).to_be_visible()


def at(page, number, question):
    """Wait for a problem, and see that its heading has the focus."""
    expect(stage(page).locator("h2")).to_have_text(f"Problem {number} of 6")
    expect(stage(page).locator(".practice-ask")).to_have_text(question.text)
    assert page.evaluate(FOCUS).startswith(question.problem.title)


def answer(page, text, right_):
    box = stage(page).get_by_label("Your answer")
    box.fill(text)
    box.press("Enter")
    expect(stage(page).locator("output")).to_have_attribute("data-right", str(right_).lower())


def fold(page, name):
    return stage(page).locator(f".practice-{name} summary")


def go_through(page, asked):
    """The five ways of dealing with a problem, then the design question."""
    for number, (question, way) in enumerate(zip(asked, WAYS, strict=False), 1):
        at(page, number, question)
        expect(fold(page, "solution")).to_be_hidden()
        if way == "retry":
            wrong, _ = classic(question)
            answer(page, "no number", False)
            answer(page, wrong, False)
        if way in ("hint", "shown"):
            fold(page, "hint").press("Enter")
            expect(told(page)).to_have_text("The worked solution can be opened now.")
        if way == "shown":
            expect(fold(page, "solution")).to_be_visible()
            fold(page, "solution").press("Enter")
            expect(stage(page).locator(".practice-solution li").first).to_be_visible()
        if way not in ("shown", "skip"):
            answer(page, right(question), True)
            expect(fold(page, "solution")).to_be_visible()
        if way == "shown":  # too late
            answer(page, right(question), True)
        stage(page).get_by_role("button", name="Skip this" if way == "skip" else "Next").press("Enter")
    at(page, 6, asked[5])
    stage(page).get_by_label("Your answer").fill(MARKUP)
    fold(page, "checklist").press("Enter")
    stage(page).get_by_role("checkbox").first.press("Space")
    expect(stage(page).locator("output")).to_contain_text("You had 1 of ")


def rows(page):
    return [
        [cell.text_content() for cell in row.locator("th, td").all()] for row in stage(page).locator("tbody tr").all()
    ]


# --- the page as it is built -----------------------------------------------------------------------------------------


def built(site) -> BeautifulSoup:
    return parsed(site / PATH)


def test_every_problem_returns_to_a_step_of_its_built_chapter(site):
    steps = json.loads(built(site).select_one("[data-steps]").string)
    assert set(steps) == {p.step for name in practice.chapters() for p in practice.problems(name).values()}
    pages = {
        path: (site / "book" / path).read_text("utf-8") for path in {f["href"].split("#")[0] for f in steps.values()}
    }
    for step, found in steps.items():
        path, _, anchor = found["href"].partition("#")
        heading = re.search(rf'id="{anchor}"[^>]*>\s*<h3>(.*?)<a class="headerlink"', pages[path])[1]
        title = re.search(r'<h1>(.*?)<a class="headerlink"', pages[path])[1]
        for html, text in ((heading, found["heading"]), (title, found["chapter"])):
            assert BeautifulSoup(html, "html.parser").get_text().replace("\u00a0", " ") == text, step


def test_a_problem_without_its_step_stops_the_build(monkeypatch):
    monkeypatch.setattr(drill, "headings", lambda root, page: ["Title", "Step 99 · Nowhere"])
    with pytest.raises(drill.DrillError, match="kv_cache#step-"):
        drill.steps(Path("book"))


def test_without_javascript_one_interview_is_there_in_full(browser, address):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/{PATH}")
    asked = interview(seed=drill.PRINTED)
    assert page.locator(".practice-ask").all_text_contents() == [q.text for q in asked]
    assert page.locator(".practice-solution li").all_text_contents() == [
        line_as_read(line) for q in asked for line in q.solution().text
    ]
    page.locator(".practice-solution summary").first.click()
    expect(page.locator(".practice-solution li").first).to_be_visible()
    assert page.get_by_role("button", name="Start").is_disabled()
    expect(status(page)).to_contain_text("need JavaScript", use_inner_text=True)
    context.close()


def test_every_choice_has_a_label_and_the_library_s_parts(site):
    page = built(site)
    assert [box["value"] for box in page.select("[name=parts]")] == list(practice.PARTS)
    for field in page.select("[data-drill] form :is(select, input)"):
        assert field.find_parent("label") or page.select_one(f'label[for="{field["id"]}"]')


# --- a whole interview -----------------------------------------------------------------------------------------------


def test_the_whole_path_by_keyboard_and_what_is_counted(watched, violations):
    page = watched.open(f"{PATH}#seed={SEED}&n=6")
    asked = interview(seed=SEED)
    expect(status(page)).to_contain_text(f"seed {SEED}")
    page.get_by_role("button", name="Start").press("Enter")
    go_through(page, asked)
    stage(page).get_by_role("button", name="Summary").press("Enter")

    expect(stage(page).locator("h2")).to_have_text("Summary")
    assert page.evaluate(FOCUS) == "Summary"
    points = f"1 of {len(asked[5].checklist())} points"
    said = stage(page).locator("p").first.text_content()
    assert said.startswith(
        "Of 5 problems with a number: 1 right the first time, 1 right after a wrong answer, 1 right after a hint, "
        f"1 working shown, 1 skipped. In “{asked[5].problem.title}” you had {points}. Time: "
    )
    steps = json.loads(page.locator("[data-steps]").text_content())
    outcomes = ["right the first time", "right after a wrong answer", "right after a hint", "working shown", "skipped"]
    for row, question, outcome in zip(rows(page), asked, [*outcomes, points], strict=True):
        title, found, mistake, time, step = row
        assert (title, found) == (question.problem.title, outcome)
        assert mistake == (classic(question)[1] if outcome == "right after a wrong answer" else "–")
        assert time.partition(":")[2].isdigit()
        assert step == f"{steps[question.problem.step]['chapter']}, {question.problem.step_label}"
    again = stage(page).locator("ul a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert again == list(dict.fromkeys(steps[q.problem.step]["href"] for q in asked[1:]))
    assert violations(page) == {}

    stage(page).get_by_role("button", name="Another interview").press("Enter")
    expect(stage(page).locator("h2")).to_have_text("Problem 1 of 6")
    expect(page).not_to_have_url(re.compile(f"seed={SEED}&"))


@pytest.fixture(scope="module")
def page(shared):
    return shared.open(PATH)


@pytest.fixture
def fresh(page):
    """The choices, with nothing kept and the seed of these tests."""
    page.evaluate("localStorage.clear()")
    page.locator("main details").evaluate_all("all => all.forEach(e => { e.open = false; })")
    page.evaluate("history.replaceState(null, '', location.pathname); dispatchEvent(new HashChangeEvent('hashchange'))")
    page.evaluate(f"location.hash = 'seed={SEED}&n=6'")
    expect(status(page)).to_contain_text("From the link")
    return page


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_state_is_readable_and_fits(fresh, violations, mode, width):
    fresh.emulate_media(color_scheme=mode)
    fresh.set_viewport_size({"width": width, "height": 900})

    def look():
        assert violations(fresh) == {}
        assert fresh.evaluate("document.documentElement.scrollWidth <= innerWidth")

    fresh.locator("main details").evaluate_all("all => all.forEach(e => { e.open = true; })")
    look()
    start(fresh)
    answer(fresh, classic(interview(seed=SEED)[0])[0], False)
    fold(fresh, "hint").click()
    fold(fresh, "solution").click()
    look()
    for number in range(2, 7):
        stage(fresh).locator(".buttons button").first.click()
        expect(stage(fresh).locator("h2")).to_have_text(f"Problem {number} of 6")
    fold(fresh, "checklist").click()
    look()
    stage(fresh).locator(".buttons button").first.click()
    expect(stage(fresh).locator("h2")).to_have_text("Summary")
    look()
    fresh.set_viewport_size({"width": 1280, "height": 900})


def test_the_verdict_is_the_library_s_and_leads_to_the_chapter(fresh):
    start(fresh)
    question = interview(seed=SEED)[0]
    wrong, _ = classic(question)
    answer(fresh, wrong, False)
    verdict = stage(fresh).locator("output")
    said = json.loads(check_json(question.problem.id, question.seed, wrong))["message"]
    chapter = json.loads(fresh.locator("[data-steps]").text_content())[question.problem.step]
    label = question.problem.step_label
    expect(verdict).to_have_text(said.replace(label, f"{label} of “{chapter['chapter']}”"))
    assert verdict.locator("a").get_attribute("href") == chapter["href"]
    assert verdict.get_attribute("aria-live") == "polite"
    answer(fresh, MARKUP, False)
    assert fresh.locator("main img").count() == 0


def test_the_clock_is_not_read_out_and_can_be_left_away(fresh):
    start(fresh)
    clock = stage(fresh).locator("[role=timer]")
    expect(clock).to_have_text("0:01")
    assert clock.evaluate("e => !e.closest('[aria-live], [role=status]') && !e.ariaLive")
    stage(fresh).get_by_role("button", name="Stop here").click()
    stage(fresh).get_by_role("button", name="Back to the choices").click()
    fresh.get_by_label("Show the time").uncheck()
    start(fresh)
    expect(fresh).to_have_url(re.compile("timer=off$"))
    assert clock.count() == 0
    stage(fresh).get_by_role("button", name="Stop here").click()
    assert stage(fresh).locator("thead th").all_text_contents() == ["Problem", "Outcome", "Classic mistake", "Step"]
    assert "Time" not in stage(fresh).locator("p").first.text_content()
    assert [row[1] for row in rows(fresh)] == ["skipped"] + ["not reached"] * 5


def test_pressing_twice_skips_nothing(fresh):
    start(fresh)
    stage(fresh).locator(".buttons button").first.evaluate("button => { button.click(); button.click(); }")
    expect(stage(fresh).locator("h2")).to_have_text("Problem 2 of 6")
    stage(fresh).get_by_role("button", name="Stop here").click()
    assert [row[1] for row in rows(fresh)] == ["skipped"] * 2 + ["not reached"] * 4


# --- the link --------------------------------------------------------------------------------------------------------


def test_a_colleague_gets_the_same_interview(fresh, browser, address):
    fresh.get_by_label("Problems").select_option("3")
    fresh.get_by_label("Seed").fill("2026")
    fresh.get_by_label("Time", exact=True).uncheck()
    fresh.get_by_label("Show the time").uncheck()
    fresh.get_by_role("button", name="Copy a link").click()
    expect(status(fresh)).to_have_text(re.compile("link (is copied|stands in the address bar)"))
    assert fresh.evaluate("location.hash") == "#seed=2026&n=3&parts=memory-service&timer=off"
    context = browser.new_context()
    other = context.new_page()
    other.goto(fresh.evaluate("location.href"))
    start(other)
    question, *_ = interview(seed=2026, count=3, parts=["memory", "service"])
    expect(stage(other).locator(".practice-ask")).to_have_text(question.text)
    expect(stage(other).locator("h2")).to_have_text("Problem 1 of 3")
    context.close()


@pytest.mark.parametrize(
    ("fragment", "remedy"),
    [
        (f"seed={quote(MARKUP)}", "wanted a whole number"),
        (f"{quote(MARKUP)}=1", "wanted seed, n, parts, timer"),
        ("seed=9007199254740993", "wanted a whole number"),
        ("seed=-1", "wanted a whole number"),
        ("seed=1&n=5", "wanted one of 3, 6, 12"),
        ("seed=1&parts=space", "wanted some of memory, time, service"),
        ("seed=1&timer=maybe", "wanted on or off"),
        ("n=6", "no seed"),
        ("__proto__=1", "wanted seed, n, parts, timer"),
        (quote(MARKUP), "wanted seed, n, parts, timer"),
        ("%E0%A4%A", "wanted seed, n, parts, timer"),
    ],
)
def test_a_hostile_link_is_refused_as_text(fresh, fragment, remedy):
    seed = fresh.get_by_label("Seed").input_value()
    fresh.evaluate("fragment => { location.hash = fragment; }", fragment)
    expect(status(fresh)).to_contain_text("This link can't be read")
    expect(status(fresh)).to_contain_text(remedy)
    assert fresh.locator("main img").count() == 0
    assert fresh.get_by_label("Seed").input_value() == seed
    start(fresh)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("Seed", "-1", "wanted a whole number from 0"),
        ("Seed", "", "wanted a whole number"),
        ("parts", "", "at least one"),
    ],
)
def test_an_impossible_choice_is_told_in_the_library_s_words(fresh, field, value, says):
    if field == "Seed":
        fresh.get_by_label("Seed").fill(value)
    else:
        for box in fresh.locator("[name=parts]").all():
            box.uncheck()
    fresh.get_by_role("button", name="Start").click()
    expect(status(fresh)).to_contain_text(says)
    assert stage(fresh).locator("*").count() == 0


def test_an_anchor_is_no_link_to_an_interview(fresh):
    fresh.evaluate("location.hash = 'an-interview-in-print'")
    fresh.evaluate("location.hash = 'main'")
    expect(status(fresh)).to_contain_text("From the link")


# --- what the browser keeps ------------------------------------------------------------------------------------------


def test_an_unfinished_interview_is_taken_up_where_it_was_left(watched):
    page = watched.open(f"{PATH}#seed={SEED}&n=3")
    start(page)
    asked = interview(seed=SEED, count=3)
    answer(page, classic(asked[0])[0], False)
    answer(page, right(asked[0]), True)
    for number in (2, 3):
        stage(page).locator(".buttons button").first.click()
        expect(stage(page).locator("h2")).to_have_text(f"Problem {number} of 3")
    stage(page).get_by_label("Your answer").fill("Half an answer")
    page.reload()
    expect(status(page)).to_contain_text("waits at problem 3")
    page.get_by_role("button", name="Go on").press("Enter")
    expect(stage(page).get_by_label("Your answer")).to_have_value("Half an answer")
    stage(page).locator(".buttons button").click()
    assert [row[1] for row in rows(page)] == ["right after a wrong answer", "skipped", "skipped"]


def test_past_interviews_are_listed_asked_again_and_forgotten(fresh):
    start(fresh)
    answer(fresh, right(interview(seed=SEED)[0]), True)
    stage(fresh).get_by_role("button", name="Stop here").click()
    stage(fresh).get_by_role("button", name="Back to the choices").click()
    past = fresh.locator("[data-drill] details")
    past.locator("summary").click()
    expect(past.locator("li")).to_contain_text("1 of 5 right the first time")
    assert past.locator("li").get_by_text("Read again").count() == 0  # what was not reached need not be
    past.get_by_role("link", name=f"seed {SEED}").press("Enter")
    expect(fresh.get_by_label("Seed")).to_have_value(str(SEED))
    expect(fresh.get_by_role("button", name="Start")).to_be_focused()
    assert "seed=7" in fresh.evaluate("localStorage.drill")
    past.get_by_role("button", name="Forget").press("Enter")
    expect(past.locator("li")).to_have_count(0)
    assert json.loads(fresh.evaluate("localStorage.drill")) == {"past": [], "running": None}


def test_where_storage_is_blocked_all_of_it_works(watched):
    watched.page.add_init_script(BLOCKED)
    page = watched.open(f"{PATH}#seed={SEED}&n=6")
    page.get_by_role("button", name="Start").press("Enter")
    go_through(page, interview(seed=SEED))
    stage(page).get_by_role("button", name="Summary").click()
    stage(page).get_by_role("button", name="Back to the choices").click()
    past = page.locator("[data-drill] details")
    past.locator("summary").click()
    expect(past.locator("li")).to_have_count(1)
    expect(past.locator("li")).to_contain_text("Read again: ")
    assert past.locator("li a[href*='#step-']").count() > 1
    expect(past).to_contain_text("keeps nothing")


@pytest.mark.parametrize(
    "kept",
    [
        "{",
        "null",
        '{"past": 3}',
        '{"past": [null]}',
        json.dumps({"past": [{"link": f"#seed={MARKUP}"}]}),
        '{"running": {"link": "#seed=1", "at": 0, "records": [null]}}',
        '{"running": {"link": "#seed=1", "at": 99, "records": []}}',
        '{"running": {"link": "javascript:alert(1)", "at": 0, "records": []}}',
    ],
)
def test_what_this_page_did_not_write_is_taken_for_nothing(watched, kept):
    page = watched.open(PATH)
    page.evaluate("kept => { localStorage.drill = kept; }", kept)
    page.reload()
    expect(status(page)).to_have_text("Choose, and press Start.")
    expect(page.get_by_role("button", name="Go on")).to_be_disabled()
    assert page.locator("[data-past] li").count() == 0


@pytest.mark.parametrize("button", ["Start", "Copy a link"])
@pytest.mark.parametrize(
    ("keys", "says"),
    [("", "Seed is empty: wanted a whole number."), ("1e", "Seed is no number: wanted a whole number.")],
)
def test_a_seed_that_is_none_leads_back_to_its_field(fresh, button, keys, says):
    before = fresh.evaluate("location.href")
    seed = fresh.get_by_label("Seed")
    seed.fill("")
    seed.press_sequentially(keys)
    fresh.get_by_role("button", name=button).press("Enter")
    expect(status(fresh)).to_have_text(says)
    expect(seed).to_be_focused()
    assert fresh.evaluate("location.href") == before


def test_no_link_is_given_that_can_not_be_read(fresh):
    before = fresh.evaluate("location.href")
    fresh.get_by_label("Seed").fill("-1")
    fresh.get_by_role("button", name="Copy a link").click()
    expect(status(fresh)).to_contain_text("no link to this interview: its seed is “-1”, wanted a whole number")
    for box in fresh.locator("[name=parts]").all():
        box.uncheck()
    fresh.get_by_label("Seed").fill("1")
    fresh.get_by_role("button", name="Copy a link").click()
    expect(status(fresh)).to_contain_text("No part is chosen: choose at least one of memory, time, service.")
    expect(fresh.locator("[name=parts]").first).to_be_focused()
    assert fresh.evaluate("location.href") == before


def test_of_two_interviews_asked_for_the_last_is_given(fresh):
    button = fresh.get_by_role("button", name="Start")
    fresh.get_by_label("Seed").fill("1")
    fresh.evaluate(
        """() => {
            const { form } = document.querySelector('[data-drill] [type=submit]');
            form.requestSubmit();
            form.elements.seed.value = 2026;
            form.requestSubmit();
        }"""
    )
    expect(button).to_be_hidden()
    expect(stage(fresh).locator(".practice-ask")).to_have_text(interview(seed=2026)[0].text)
    expect(fresh).to_have_url(re.compile("seed=2026&"))


def test_what_an_interview_covers_is_not_in_the_contents_meanwhile(fresh):
    listed = fresh.locator("nav.contents a[href='#an-interview-in-print']")
    expect(listed).to_be_visible()
    start(fresh)
    expect(listed).to_be_hidden()
    stage(fresh).get_by_role("button", name="Stop here").click()
    stage(fresh).get_by_role("button", name="Back to the choices").click()
    expect(listed).to_be_visible()
