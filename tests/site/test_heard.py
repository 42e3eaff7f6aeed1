"""What a reader by keyboard and ear meets: a focus that stays, an outcome that is said, names that are words."""

from __future__ import annotations

import json
import re

import pytest
from built import parsed
from playwright.sync_api import expect

FOCUSED = "document.activeElement"
HOUR = 3_600_000  # ms, after a start at 0
LIVE = "Computed in this page for the values shown."


def answered(page):
    """Wait until Python has answered all that it was asked."""
    page.evaluate(
        "() => import('/_static/live/python.js').then(({ call }) => call('render', 'calc:none', '{}')).catch(() => {})"
    )


def test_a_copy_button_keeps_the_focus_and_says_that_it_copied(watched, panel_path):
    page = watched.open(panel_path)
    fold = page.locator("details:has(button.copybtn)").first
    fold.locator("summary").press("Enter")
    button, said = fold.locator("button.copybtn").first, page.locator("main > .unseen[role=status]")
    for _ in range(2):
        button.press("Enter")
        expect(said).to_have_text("Copied!")
        assert page.evaluate(f"{FOCUSED}.matches('.copybtn')")
        expect(said).to_have_text("")
    expect(button).to_have_accessible_name(re.compile("^Copy code: ."))


@pytest.mark.parametrize("allowed", [True, False])
def test_the_report_keeps_the_focus_unless_it_must_be_copied_by_hand(watched, panel_path, allowed):
    page = watched.page
    page.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', { value: { writeText: () => Promise.%s() } })"
        % ("resolve" if allowed else "reject")
    )
    watched.open(panel_path)
    page.locator("#report summary").press("Enter")
    page.locator("#report button").press("Enter")
    expect(page.locator("#report output")).to_have_text(re.compile("^Copied" if allowed else "^Selected"))
    assert page.evaluate(f"{FOCUSED}.localName") == ("button" if allowed else "textarea")


def test_a_refused_value_is_heard_with_its_field_and_no_number_after_it(watched, panel_path):
    page = watched.page
    page.clock.install(time=0)
    watched.open(panel_path)
    panel = page.locator(".panel").first
    box, status, spoken = (
        panel.locator("input[type=number]").first,
        panel.locator(".panel-status"),
        panel.locator("output"),
    )
    slider = panel.locator("input[type=range]").first
    box.focus()
    expect(status).to_have_text(LIVE)
    page.clock.pause_at(HOUR)
    expect(spoken).to_have_text("")  # nothing has changed
    # the refusal comes before the numbers of the last value are read out
    box.fill(str(int(box.input_value()) + 1))
    answered(page)
    box.fill("-1")
    answered(page)
    assert box.get_attribute("aria-invalid") is None, "there may be more to come"
    page.clock.run_for(2000)
    expect(box).to_have_attribute("aria-invalid", "true")
    expect(box).to_have_accessible_description(status.text_content())
    assert slider.get_attribute("aria-valuetext").startswith("-1 ")
    assert slider.get_attribute("aria-valuetext").endswith(", refused")
    assert spoken.text_content() == ""
    panel.get_by_role("button", name="Reset").click()
    page.clock.run_for(10)
    expect(status).to_have_text(LIVE)
    assert box.get_attribute("aria-describedby") is None
    assert "refused" not in slider.get_attribute("aria-valuetext")
    page.clock.run_for(2000)
    expect(spoken).not_to_have_text("")
    # what has been left is complete, and no number leaves the slider where it was
    place = slider.input_value()
    box.fill("")
    answered(page)
    assert box.get_attribute("aria-invalid") is None
    box.blur()
    expect(box).to_have_attribute("aria-invalid", "true")
    assert (slider.get_attribute("aria-valuetext"), slider.input_value()) == ("no number, refused", place)
    labels = json.loads(panel.get_attribute("data-labels"))
    assert slider.get_attribute("aria-label") == labels[box.get_attribute("name")]


def test_half_a_number_of_the_worksheet_is_not_refused_and_its_rows_say_where_they_lead(watched):
    page = watched.page
    page.clock.install(time=0)
    watched.open("book/worksheet.html")
    sheet, box = page.locator("[data-worksheet]"), page.locator("#ws-context")
    row = sheet.locator('[data-line="kv.bytes_per_token"] a').first
    place = "KV cache, step 2: One position, all layers"
    expect(row).to_have_accessible_description(place)
    box.focus()
    expect(sheet.locator(".panel-status")).to_have_text(LIVE)
    page.clock.pause_at(HOUR)
    expect(sheet.locator("output")).to_have_text("")
    box.fill("")
    answered(page)
    assert box.get_attribute("aria-invalid") is None
    page.clock.run_for(2000)
    expect(box).to_have_attribute("aria-invalid", "true")
    page.locator("#ws-cache").select_option("fp8")
    box.fill("100")
    page.clock.run_for(2000)
    expect(row).to_have_accessible_description(place)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_main_numbers_of_the_worksheet_hide_no_focus(watched, width):
    watched.page.set_viewport_size({"width": width, "height": 844})
    page = watched.open("book/worksheet.html")
    page.locator("#ws-context").focus()
    expect(page.locator("[data-worksheet] .panel-status")).to_have_text(LIVE)
    page.add_style_tag(content="html { scroll-behavior: auto !important }")
    hidden = """() => {
        const bar = document.querySelector('.glance').getBoundingClientRect();
        const box = document.activeElement.getBoundingClientRect();
        return bar.bottom > innerHeight - 1 && box.bottom > bar.top && box.top < bar.bottom;
    }"""
    page.locator("#ws-config").focus()
    for _ in range(60):
        page.keyboard.press("Tab")
        assert not page.evaluate(hidden), page.evaluate(f"{FOCUSED}.outerHTML.slice(0, 200)")
    assert page.evaluate(f"document.querySelector('.report').contains({FOCUSED})")


def test_a_second_link_of_the_worksheet_is_said_again(watched):
    page = watched.page
    page.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', { value: { writeText: () => Promise.resolve() } })"
    )
    watched.open("book/worksheet.html")
    status, button = page.locator("[data-worksheet] .panel-status"), page.locator("[data-copy]")
    button.focus()
    expect(status).to_have_text(LIVE)
    button.press("Enter")
    expect(status).to_have_text("The link is copied.")
    page.evaluate(
        """() => {
            window.said = [];
            const status = document.querySelector('[data-worksheet] .panel-status');
            new MutationObserver(() => said.push(status.textContent)).observe(status, { childList: true });
        }"""
    )
    button.press("Enter")
    page.wait_for_function("said.at(-1) === 'The link is copied.'")
    expect(status).to_have_text("The link is copied.")


def test_units_and_names_in_formulas_are_words(site):
    page = parsed(site / "book/memory/kv_cache.html")
    heard = {name.text for name in page.select("math mi")}
    assert {"KiB", "MiB", "pos", "kv"} <= heard
    alone = r'<mi mathvariant="normal">[A-Za-z]</mi>'
    for path in site.rglob("*.html"):
        assert not re.search(alone * 2, path.read_text("utf-8")), path


def test_the_kind_of_a_number_is_heard_in_its_sentence_and_seen_in_forced_colors(watched, panel_path):
    watched.page.emulate_media(forced_colors="active")
    page = watched.open(panel_path)
    number = page.locator("p .kind").first
    assert re.fullmatch(r'- text: "?(derived|published|measured|assumed) [^:]+', number.aria_snapshot())
    # a block would be heard apart from its sentence
    assert number.locator(".unseen").evaluate("word => getComputedStyle(word).display") == "inline-block"
    mark, ground = page.evaluate(
        """() => [getComputedStyle(document.querySelector('article .kind'), '::before').backgroundColor,
                  getComputedStyle(document.body).backgroundColor]"""
    )
    assert mark != ground and mark != "rgba(0, 0, 0, 0)"
    assert (
        page.evaluate("getComputedStyle(document.querySelector('article .kind'), '::before').forcedColorAdjust")
        == "none"
    )


def test_the_contents_of_a_phone_close_when_they_led_on_or_are_left(watched, panel_path):
    watched.page.set_viewport_size({"width": 390, "height": 844})
    page = watched.open(panel_path)
    contents, button = page.locator("nav.contents"), page.get_by_role("button", name="Contents")
    button.press("Enter")
    contents.locator("a[href^='#']").last.press("Enter")
    expect(contents).to_be_hidden()
    expect(page).to_have_url(re.compile("#"))
    button.press("Enter")
    contents.locator("a").last.focus()
    page.keyboard.press("Tab")
    expect(contents).to_be_hidden()


def test_a_heading_is_named_by_its_words_and_reached_from_the_contents(watched, panel_path):
    page = watched.open(panel_path)
    names = page.locator("article").aria_snapshot()
    assert re.search(r'heading "[^"]+" \[level=2\]', names) and not re.search(r'heading "[^"]*[#¶]"', names)
    unlisted = page.evaluate(
        """() => [...document.querySelectorAll('article section[id] > :is(h2, h3)')].map(h => h.parentElement.id)
            .filter(id => !document.querySelector(`nav.contents a[href="#${CSS.escape(id)}"]`))"""
    )
    assert unlisted == []
    assert page.evaluate(
        "[...document.querySelectorAll(':is(h1, h2, h3, h4) > .headerlink')].every(a => a.tabIndex < 0)"
    )


def test_the_outcome_of_a_search_is_said(watched):
    page = watched.open("search.html?q=zyzzyva")
    said = page.locator("#search-results [role=status]")
    expect(said).to_have_text("No page has all of these words. Check their spelling, or search for fewer.")
    watched.open("search.html?q=cache")
    expect(said).to_have_text(re.compile(r"Places found: \d+\."))


def test_fresh_numbers_are_heard_with_the_box_they_are_for(watched, practice_path):
    page = watched.open(practice_path)
    problem = page.locator(".practice:not([data-level=design])").first
    box, question = problem.get_by_label("Your answer"), problem.locator(".practice-ask")
    before = question.text_content()
    expect(box).to_have_accessible_description(before)
    problem.get_by_role("button", name="Fresh numbers").click()
    expect(box).to_be_focused()
    assert question.text_content() != before
    expect(box).to_have_accessible_description(question.text_content())


def test_a_problem_and_its_level_are_told_apart(watched, practice_path):
    title = watched.open(practice_path).locator(".practice-title").first
    level = title.locator(".practice-level").text_content()
    assert re.search(rf'heading ".*\({level}\)"', title.aria_snapshot())


def test_every_table_has_a_name_and_every_row_a_head(site):
    for path in site.rglob("*.html"):
        for table in parsed(path, name="table").select("table"):
            assert table.get("aria-label") or table.caption, (path.name, str(table)[:200])
            for row in table.select("tbody tr"):
                first = row.find(["th", "td"])
                assert first.name == "th" or not first.text.strip(), (path.name, str(row)[:200])


def test_a_missing_page_has_a_way_past_its_frame(watched, site):
    target = parsed(site / "404.html").select_one("a.skip")["href"]
    watched.open(target.removeprefix("/"))
    expect(watched.page.locator("main:target h1")).to_have_text("Page not found")
