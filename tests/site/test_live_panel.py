"""The live panels in a real browser: the same numbers as CPython, by mouse, by keyboard and by ear."""

from __future__ import annotations

import json

import pytest
from built import arrive, parsed
from panels import declared, grid, line_as_read
from playwright.sync_api import expect

from calc.panel import render

LIVE = "Computed in this page for the values shown."
SIZE = 8  # of each panel; test_panel_parity.py takes all of them, and many more, to the browser's Python


@pytest.fixture(scope="module")
def woken(shared, panel_path):
    """The first panel, woken by a touch."""
    panel = shared.open(panel_path).locator(".panel").first
    panel.locator("input, select").first.focus()
    expect(panel.locator(".panel-status")).to_have_text(LIVE)
    return panel


@pytest.fixture(scope="module")
def defaults(woken):
    """What the first panel shows before anybody changes it."""
    return woken.locator("dd").all_text_contents()


@pytest.fixture
def panel(woken, defaults):
    """The first panel, live and at its defaults: its status alone could still be that of the test before."""
    woken.get_by_role("button", name="Reset").click()
    expect(woken.locator("dd")).to_have_text(defaults)
    expect(woken.locator(".panel-status")).to_have_text(LIVE)
    return woken


def shown(panel) -> dict:
    """What a panel shows now."""
    return panel.evaluate(
        """panel => {
            const texts = (selector) => [...panel.querySelectorAll(selector)].map(e => e.textContent);
            return { labels: texts('dt'), values: texts('dd'), working: texts('.panel-working p'),
                     meaning: texts('.panel-meaning')[0], leaves_out: texts('.panel-leaves-out span')[1],
                     status: texts('.panel-status')[0] };
        }"""
    )


def wanted(panel, chosen: dict) -> dict:
    """What CPython says it should show."""
    path, labels = (panel.get_attribute(f"data-{name}") for name in ("panel", "labels"))
    answer = json.loads(render(path, json.dumps(chosen), labels))
    if not answer["ok"]:
        return {"status": answer["error"]}
    return {
        "labels": [row["label"] for row in answer["rows"]],
        "values": [f"{row['kind']} {row['text']}" for row in answer["rows"]],
        "working": [line_as_read(line) for line in answer["working"]],
        **{key: answer[key] for key in ("meaning", "leaves_out")},
        "status": LIVE,
    }


def choose(panel, chosen: dict) -> None:
    """Set the inputs as a reader does, in one go: only the last state has to be answered."""
    panel.evaluate(
        """(panel, chosen) => {
            const form = panel.querySelector('form');
            for (const [name, value] of Object.entries(chosen)) {
                const field = form.elements[name];
                if (field.type === 'checkbox') field.checked = value; else field.value = value;
                field.dispatchEvent(new Event('input', { bubbles: true }));
            }
        }""",
        chosen,
    )


def test_a_slider_moves_by_keyboard_and_its_number_follows(panel):
    slider = panel.locator("input[type=range]").first
    number = panel.locator(f"[name={slider.get_attribute('data-for')}]")
    before, old = number.input_value(), shown(panel)["values"]
    slider.focus()
    slider.press("ArrowLeft")
    assert number.input_value() != before
    expect(panel.locator("dd")).not_to_have_text(old)
    assert number.input_value() == slider.get_attribute("aria-valuetext").split()[0].replace(",", "")


def test_reset_brings_the_defaults_back(panel):
    rest = shown(panel)
    slider = panel.locator("input[type=range]").first
    said = slider.get_attribute("aria-valuetext")
    slider.focus()
    slider.press("ArrowLeft")
    expect(panel.locator("dd")).not_to_have_text(rest["values"])
    panel.get_by_role("button", name="Reset").press("Enter")
    expect(panel.locator("dd")).to_have_text(rest["values"])
    assert shown(panel) == rest
    assert slider.get_attribute("aria-valuetext") == said


def test_a_slider_says_its_value_before_it_is_touched(watched, panel_path):
    panel = watched.open(panel_path).locator(".panel").first
    for slider in panel.locator("input[type=range]").all():
        number = panel.locator(f"[name={slider.get_attribute('data-for')}]").input_value()
        assert slider.get_attribute("aria-valuetext").split()[0].replace(",", "") == number


@pytest.mark.parametrize("nonsense", ["-7", "", "1e400", "0.5", "1e"])
def test_nonsense_gets_a_polite_message_and_no_number(panel, nonsense):
    rest = shown(panel)
    number = panel.locator("input[type=number]").first
    label = json.loads(panel.get_attribute("data-labels"))[number.get_attribute("name")]
    number.clear()
    number.press_sequentially(nonsense)
    status = panel.locator(".panel-status")
    expect(status).to_contain_text(f"“{label}” is ")
    assert status.get_attribute("role") == "status"
    expect(panel.locator("dl")).to_be_hidden()
    wrong = panel.locator("[aria-invalid=true]")
    assert wrong.get_attribute("name") == number.get_attribute("name")
    width = "field => getComputedStyle(field).outlineWidth"
    focused = wrong.evaluate(width)
    wrong.blur()
    assert wrong.evaluate(width) != focused, "the focus is seen on a refused field too"
    panel.get_by_role("button", name="Reset").click()
    expect(panel.locator("dl")).to_be_visible()
    expect(panel.locator("dd")).to_have_text(rest["values"])
    assert panel.locator("[aria-invalid]").count() == 0


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_a_refusal_is_readable_too(panel, violations, mode):
    panel.page.emulate_media(color_scheme=mode)
    panel.locator("input[type=number]").first.fill("-7")
    expect(panel.locator("dl")).to_be_hidden()
    assert violations(panel.page) == {}


def test_markup_in_an_input_stays_text(panel):
    choice = panel.locator("select").first
    choice.evaluate("e => { e.options[0].value = '<img src=x onerror=alert(1)>'; e.selectedIndex = 0; }")
    choice.dispatch_event("input")
    expect(panel.locator(".panel-status")).to_contain_text("img src=x")
    assert panel.locator("img").count() == 0


def test_the_result_is_read_out_once_the_hand_is_still(panel):
    spoken = panel.locator("output")
    assert spoken.get_attribute("aria-live") == "polite"
    slider = panel.locator("input[type=range]").first
    slider.focus()
    before = shown(panel)["values"]
    slider.press("ArrowLeft")
    expect(panel.locator("dd")).not_to_have_text(before)
    now = shown(panel)
    said = "; ".join(
        f"{label}: {value.partition(' ')[2]}" for label, value in zip(now["labels"], now["values"], strict=True)
    )
    expect(spoken).to_have_text(said)


def test_at_rest_the_page_already_shows_the_defaults(watched, panel_path):
    page = watched.open(panel_path)
    before = shown(page.locator(".panel").first)
    page.locator(".panel input, .panel select").first.focus()
    expect(page.locator(".panel-status").first).to_have_text(LIVE)
    after = shown(page.locator(".panel").first)
    assert before | {"status": LIVE} == after


def test_a_start_that_failed_is_told_and_tried_again(browser, address, panel_path):
    context = browser.new_context()
    page = context.new_page()
    page.route("**/*.wasm", lambda route: route.abort())
    arrive(page, f"{address}/{panel_path}")
    panel = page.locator(".panel").first
    panel.locator("select").first.focus()
    expect(panel.locator(".panel-status")).to_contain_text("Python could not start")
    page.unroute("**/*.wasm")
    panel.get_by_role("button", name="Reset").click()
    expect(panel.locator(".panel-status")).to_have_text(LIVE)
    context.close()


def every_kind(site):
    """Panels that have, together, a field of every kind and an answer of every form that any has."""
    seen, kept = set(), []
    for page_path, path, inputs in declared(site):
        panel = parsed(site / page_path, class_="panel").select_one(f'[data-panel="{path}"]')
        answers = [json.loads(render(path, json.dumps(chosen))) for chosen in grid(inputs, SIZE, seed=1)]
        fields = panel.select("[name], [data-for]")
        kinds = {(field.name, *sorted(field.attrs.keys() - {"checked", "selected"})) for field in fields}
        kinds |= {row["kind"] for answer in answers for row in answer.get("rows", ())}
        kinds |= {answer["ok"] for answer in answers}
        if kinds - seen:
            seen |= kinds
            kept.append((page_path, path, inputs))
    return kept


def test_panels_of_every_kind_show_what_cpython_computes(watched, site):
    for page_path, path, inputs in every_kind(site):
        page = watched.open(page_path)
        panel = page.locator(f'[data-panel="{path}"]')
        panel.locator("input, select").first.focus()
        expect(panel.locator(".panel-status")).to_have_text(LIVE)
        for chosen in grid(inputs, SIZE, seed=1):
            choose(panel, chosen)
            want = wanted(panel, chosen)
            expect(panel.locator(".panel-status")).to_have_text(want["status"])
            page.wait_for_function(
                "([panel, want]) => !want || [...panel.querySelectorAll('dd')].map(e => e.textContent).join() === want",
                arg=[panel.element_handle(), ",".join(want.get("values", []))],
            )
            assert shown(panel).items() >= want.items(), chosen
            assert "waiting" not in panel.get_attribute("class")
