"""The answer boxes in a real browser say what the library's own check says."""

from __future__ import annotations

import json

import pytest
from panels import line_as_read
from playwright.sync_api import expect

from calc.practice import check_json, problem


@pytest.fixture(scope="module")
def page(shared, practice_path):
    return shared.open(practice_path)


@pytest.fixture
def first(page):
    """The first problem with a number on the page."""
    return page.locator(".practice:not([data-level=design])").first


def answers(first) -> tuple[str, str, str]:
    identity = first.get_attribute("data-problem")
    asked = problem(identity)
    return identity, f"{asked.problem.answer(asked.numbers)} {asked.problem.unit}", "1 B"


def said(identity: str, seed: int, answer: str) -> str:
    return json.loads(check_json(identity, seed, answer))["message"]


def test_enter_checks_and_the_verdict_is_the_librarys(first):
    identity, right, wrong = answers(first)
    box, verdict = first.get_by_label("Your answer"), first.locator("output")
    for answer, is_right in ((right, "true"), (wrong, "false"), ("a fair amount", "false")):
        box.fill(answer)
        box.press("Enter")
        expect(verdict).to_have_text(said(identity, 0, answer))
        assert verdict.get_attribute("data-right") == is_right
    assert verdict.get_attribute("aria-live") == "polite"


def test_every_problem_can_be_asked_and_answered_by_keyboard(page):
    for one in page.locator(".practice:not([data-level=design])").all():
        one.locator(".practice-hint summary").press("Enter")
        expect(one.locator(".practice-hint p")).to_be_visible()
        one.get_by_label("Your answer").fill("12 parsecs")
        one.get_by_label("Your answer").press("Enter")
        verdict = said(one.get_attribute("data-problem"), int(one.get_attribute("data-seed")), "12 parsecs")
        expect(one.locator("output")).to_have_text(verdict)


def test_what_can_be_pressed_is_named_by_its_problem_too(page):
    named = page.evaluate(
        """[...document.querySelectorAll('.practice')].flatMap(one => {
            const title = one.querySelector('.practice-title').firstChild.textContent.trim();
            return [...one.querySelectorAll('button, summary')].map(e => [e.ariaLabel, `${e.textContent}: ${title}`]);
        })"""
    )
    assert len(named) > 20 and all(name == wanted for name, wanted in named)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_verdicts_and_opened_hints_are_readable(page, first, violations, mode):
    page.emulate_media(color_scheme=mode)
    first.locator("details").evaluate_all("all => all.forEach(e => { e.open = true; })")
    first.get_by_label("Your answer").fill("1 B")
    first.get_by_role("button", name="Check").click()
    expect(first.locator("output")).to_have_attribute("data-right", "false")
    assert violations(page) == {}


def test_markup_in_an_answer_stays_text(first):
    box, verdict = first.get_by_label("Your answer"), first.locator("output")
    box.fill("<img src=x onerror=alert(1)>")
    box.press("Enter")
    expect(verdict).not_to_be_empty()
    expect(verdict).not_to_contain_text("Starting")
    assert verdict.locator("img").count() == 0


def test_fresh_numbers_change_the_question_its_solution_and_its_check(first):
    identity, right, _ = answers(first)
    asked = first.locator(".practice-ask").text_content()
    first.get_by_role("button", name="Fresh numbers").press("Enter")
    fresh = problem(identity, 1)
    expect(first.locator(".practice-ask")).to_have_text(fresh.text)
    assert fresh.text != asked
    assert first.locator(".practice-solution li").all_text_contents() == [
        line_as_read(line) for line in fresh.solution().text
    ]
    box = first.get_by_label("Your answer")
    expect(box).to_be_focused()
    box.fill(right)
    first.get_by_role("button", name="Check").click()
    expect(first.locator("output")).to_have_text(said(identity, 1, right))


def test_a_mistake_leads_back_to_its_step(page):
    for one in page.locator(".practice[data-unit=B]:not([data-level=design])").all():
        one.get_by_label("Your answer").fill("1 B")
        one.get_by_label("Your answer").press("Enter")
        link = one.locator("output a")
        expect(link).to_have_text(one.get_attribute("data-step").partition("#")[2].replace("-", " ").capitalize())
        assert page.locator(link.get_attribute("href")).count() == 1
