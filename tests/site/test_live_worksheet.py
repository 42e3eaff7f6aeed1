"""The worksheet's page in a real browser: the numbers of CPython, links that hold it all, no text that runs."""

from __future__ import annotations

import json
from random import Random
from urllib.parse import parse_qsl, quote

import pytest
from built import parsed
from panels import line_as_read
from playwright.sync_api import expect

from calc.sources import load_json
from calc.worksheet import STEPS, form, link_of, log_json, worksheet_json

PATH = "book/worksheet.html"
LIVE = "Computed in this page for the values shown."
MARKUP = "<img src=x onerror=alert(1)>"
QWEN = json.dumps(load_json("models", "qwen3-8b.json")["config"])
DROP = """([files, selector]) => {
    const data = new DataTransfer();
    for (const [name, text] of files) data.items.add(new File([text], name));
    const drop = new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true });
    document.querySelector(selector).dispatchEvent(drop);
}"""
QUANTIZED = json.dumps({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}})
LOG = "Model loading took 16.46 GiB\nAvailable KV cache memory: 50.11 GiB\nGPU KV cache size: 1,313,000 tokens"


@pytest.fixture(scope="module")
def page(shared):
    page = shared.open(PATH)
    page.locator("#ws-context").focus()
    expect(status(page)).to_have_text(LIVE)
    return page


@pytest.fixture
def sheet(page):
    """The worksheet at its defaults."""
    page.emulate_media(color_scheme="light")
    page.get_by_role("button", name="Reset").click()
    expect(status(page)).to_have_text(LIVE)
    said(page)
    return page


def status(page):
    return page.locator("[data-worksheet] .panel-status")


def wanted(**given):
    return json.loads(worksheet_json(json.dumps(given)))


def shown(page):
    found = page.evaluate(
        """() => {
            const sheet = document.querySelector('[data-worksheet]');
            const texts = (selector) => [...sheet.querySelectorAll(selector)].map(e => e.textContent);
            return { title: texts('h2')[0], heads: texts('h3'), labels: texts('dt'), values: texts('dd:not(.fold)'),
                     working: texts('.panel-working p'), warned: texts('li'), left: texts('.panel-leaves-out') };
        }"""
    )
    return json.loads(json.dumps(found).replace("\\u00a0", " "))


def expected(answer):
    lines = [line for section in answer["sections"] for line in section["lines"]]
    return {
        "title": answer["title"],
        "heads": ["Know that"] + [section["title"] for section in answer["sections"]],
        "labels": [line["label"] for line in lines],
        "values": [f"{line['kind']} {line['text']}" for line in lines],
        "working": [
            text for line in lines for text in (line_as_read(line["working"]), line["note"], line["source"]) if text
        ],
        "warned": [f"{w['text']} {w['where']}" for w in answer["warnings"]],
        "left": [f"Left out {s['leaves_out']}" for s in answer["sections"] if s["leaves_out"]],
    }


def said(page, **given):
    """Wait until the page shows what CPython says for these values, and that in full."""
    want = expected(wanted(**given))
    expect(page.locator("[data-worksheet] h2")).to_have_text(want["title"])
    page.wait_for_function(
        """want => [...document.querySelectorAll('[data-worksheet] dd:not(.fold)')]
            .map(e => e.textContent.replaceAll('\\u00a0', ' ')).join() === want""",
        arg=",".join(want["values"]),
    )
    found = shown(page)
    found["left"] = [" ".join(text.split()) for text in found["left"]]
    assert found == want


def test_at_rest_the_page_shows_the_defaults(watched):
    page = watched.open(PATH)
    said(page)
    assert page.locator("[data-worksheet] fieldset").first.is_enabled()


def test_without_javascript_the_report_is_complete(browser, address):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/{PATH}")
    labels = page.locator("[data-worksheet] dt")
    assert labels.count() == sum(len(section["lines"]) for section in wanted()["sections"])
    assert page.locator("#ws-config").is_disabled()
    context.close()


def test_every_step_that_a_line_may_name_is_there(site):
    for step in STEPS:
        path, _, anchor = link_of(step).partition("#")
        assert not anchor or f' id="{anchor}"' in (site / "book" / path).read_text("utf-8"), step


def test_every_field_has_a_label_and_the_library_s_default(site):
    page = parsed(site / PATH)
    for field in form():
        (tag,) = page.select(f'[data-worksheet] [name="{field.name}"]')
        assert field.label in page.select_one(f'label[for="{tag["id"]}"]').text
    assert page.select_one("#ws-config option[selected]")["value"] == "llama-3.1-70b"
    assert all(fieldset.legend.text.strip() for fieldset in page.select(".worksheet fieldset"))


def test_a_choice_changes_the_numbers(sheet):
    sheet.locator("#ws-config").select_option("deepseek-v3")
    said(sheet, config="deepseek-v3")
    sheet.locator("#ws-cache").select_option("fp8")
    sheet.locator("#ws-context").fill("100000")
    said(sheet, config="deepseek-v3", cache="fp8", context=100_000)


def test_the_keyboard_is_enough(sheet):
    sheet.locator("#ws-accelerator").focus()
    sheet.keyboard.press("ArrowDown")
    chosen = sheet.locator("#ws-accelerator").input_value()
    assert chosen != "h100-sxm"
    said(sheet, accelerator=chosen)
    sheet.locator("[data-worksheet] .fold summary").first.press("Enter")
    expect(sheet.locator("[data-worksheet] .fold .panel-working").first).to_be_visible()


def test_an_open_fold_stays_open_when_a_number_changes(sheet):
    fold = sheet.locator('[data-worksheet] [data-line="kv.bytes_per_token"] details')
    fold.locator("summary").click()
    sheet.locator("#ws-context").fill("4096")
    said(sheet, context=4096)
    expect(fold.locator(".panel-working")).to_be_visible()


def test_a_pasted_file_is_sized(sheet):
    sheet.locator("#ws-own").fill(QWEN)
    assert sheet.locator("#ws-config").input_value() == "own"
    said(sheet, config="own", own=QWEN)


def test_a_file_can_be_chosen_or_dropped(sheet):
    sheet.locator("#ws-own-file").set_input_files(
        {"name": "config.json", "mimeType": "application/json", "buffer": QWEN.encode()}
    )
    said(sheet, config="own", own=QWEN)
    sheet.get_by_role("button", name="Reset").click()
    said(sheet)
    sheet.evaluate(DROP, [[["config.json", QWEN]], "[data-worksheet] form"])
    said(sheet, config="own", own=QWEN)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_hostile_text_is_shown_as_text(sheet, violations, mode):
    sheet.emulate_media(color_scheme=mode)
    for text in (
        MARKUP,
        json.dumps({"model_type": MARKUP}),
        json.dumps({"architectures": [MARKUP], "model_type": "llama"}),
    ):
        sheet.locator("#ws-own").fill(text)
        expect(status(sheet)).to_contain_text("“Your own config.json”")
        expect(sheet.locator("#ws-own")).to_have_attribute("aria-invalid", "true")
        expect(sheet.locator("[data-worksheet] .report")).to_be_hidden()
    assert sheet.locator("main img").count() == 0
    assert violations(sheet) == {}


def test_a_wrong_number_is_told_at_its_field(sheet):
    sheet.locator("#ws-tensor").fill("3")
    expect(status(sheet)).to_have_text(wanted(tensor=3)["error"])
    expect(sheet.locator("#ws-tensor")).to_have_attribute("aria-invalid", "true")
    expect(sheet.get_by_role("button", name="Download JSON")).to_be_disabled()
    sheet.locator("#ws-tensor").fill("")
    expect(status(sheet)).to_contain_text("is empty")
    sheet.locator("#ws-tensor").fill("4")
    said(sheet, tensor=4)
    assert sheet.locator("[aria-invalid]").count() == 0


def test_five_megabytes_do_not_hold_the_page_up(sheet):
    sheet.evaluate(
        """() => {
            window.longest = 0;
            let last = performance.now();
            const tick = () => {
                longest = Math.max(longest, performance.now() - last);
                last = performance.now();
                window.ticking = setTimeout(tick);
            };
            tick();
            const area = document.querySelector('#ws-own');
            const data = new DataTransfer();
            data.setData('text', `{"a": "${'x'.repeat(5_000_000)}"}`);
            area.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
        }"""
    )
    expect(status(sheet)).to_contain_text("larger than 5 MB")
    assert sheet.locator("#ws-own").input_value() == ""
    assert "xxxx" not in sheet.evaluate("location.hash")
    print("longest pause", sheet.evaluate("clearTimeout(ticking), longest"), "ms")


def test_a_link_holds_the_whole_state(sheet, browser, address):
    sheet.locator("#ws-own").fill(QWEN)
    sheet.locator("#ws-tensor").fill("2")
    sheet.locator("#ws-ttft_s").fill("200")
    sheet.locator("#ws-expert_parallel").check()
    chosen = {"config": "own", "own": QWEN, "tensor": 2, "ttft_s": 200, "expert_parallel": True}
    said(sheet, **chosen)
    sheet.get_by_role("button", name="Copy a link").click()
    expect(status(sheet)).to_contain_text("link")
    link = sheet.evaluate("location.href")
    held = dict(parse_qsl(link.partition("#")[2], keep_blank_values=True))
    written = {field.name for field in form() if not field.pasted} | {"own"}
    assert held.keys() == written, "a default may be another one tomorrow"
    sheet.locator("#ws-tensor").fill("4")
    said(sheet, **chosen | {"tensor": 4})
    sheet.wait_for_function("() => location.hash.includes('tensor=4')")
    assert sheet.evaluate("location.href").count("=") == 5, "the address bar has what is no default"
    context = browser.new_context()
    other = context.new_page()
    other.goto(link)
    said(other, **chosen)
    assert other.locator("#ws-expert_parallel").is_checked()
    context.close()


def test_a_long_file_travels_packed(sheet, browser, address):
    own = json.dumps(json.loads(QWEN) | {"id2label": {i: f"LABEL_{i}" for i in range(800)}})
    sheet.locator("#ws-own").fill(own)
    said(sheet, config="own", own=own)
    sheet.get_by_role("button", name="Copy a link").click()
    expect(status(sheet)).to_contain_text("link")
    link = sheet.evaluate("location.href")
    assert len(link) < len(own) / 2
    context = browser.new_context()
    other = context.new_page()
    other.goto(link)
    said(other, config="own", own=own)
    context.close()


def test_a_file_too_long_for_an_address_is_left_out_and_that_is_said(sheet):
    noise = "".join(Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=20_000))
    own = json.dumps(json.loads(QWEN) | {"noise": noise})
    sheet.locator("#ws-own").fill(own)
    said(sheet, config="own", own=own)
    sheet.get_by_role("button", name="Copy a link").click()
    expect(status(sheet)).to_contain_text("leaves out the file")
    link = sheet.evaluate("location.href")
    assert "config=own" in link and "own.z" not in link


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("name", ["hf_quant_config.json", "other.json"])
def test_both_files_of_a_checkpoint_can_be_dropped_together(sheet, order, name):
    files = [["config.json", QWEN], [name, QUANTIZED]][::order]
    sheet.evaluate(DROP, [files, "[data-worksheet] form"])
    said(sheet, config="own", own=QWEN, quantization_file=QUANTIZED)


def test_a_quantization_file_goes_with_its_model(sheet):
    sheet.evaluate(DROP, [[["hf_quant_config.json", QUANTIZED]], "[data-worksheet] form"])
    said(sheet, quantization_file=QUANTIZED)
    sheet.locator("#ws-config").select_option("llama-3.1-8b")
    said(sheet, config="llama-3.1-8b")
    sheet.locator("#ws-own").fill(QUANTIZED)
    expect(status(sheet)).to_contain_text("has a field of its own")


def test_a_drop_of_nothing_changes_nothing(sheet):
    sheet.locator("#ws-own").fill(QWEN)
    said(sheet, config="own", own=QWEN)
    sheet.evaluate(DROP, [[], "[data-worksheet] form"])
    assert sheet.locator("#ws-own").input_value() == QWEN


def test_what_is_wrong_stands_beside_its_field(sheet):
    for width in (390, 1280):
        sheet.set_viewport_size({"width": width, "height": 800})
        sheet.locator("#ws-own").fill("{")
        field = sheet.locator("#ws-own")
        expect(field).to_have_attribute("aria-describedby", "ws-own-error")
        expect(sheet.locator("#ws-own-error")).to_be_in_viewport()
        expect(sheet.locator("#ws-own-error")).to_have_text(wanted(config="own", own="{")["error"])
        sheet.locator("#ws-own").fill(QWEN)
        said(sheet, config="own", own=QWEN)
        expect(sheet.locator(".field-error")).to_have_count(0)


def test_the_main_numbers_stay_in_sight_and_the_focus_where_it_is(sheet):
    sheet.set_viewport_size({"width": 1280, "height": 800})
    sheet.locator("#ws-context").fill("1000")
    glance = sheet.locator(".glance")
    expect(glance.locator("span")).to_have_text([f"{g['label']} {g['text']}" for g in wanted(context=1000)["glance"]])
    expect(glance).to_be_in_viewport()
    line = sheet.locator('[data-line="kv.sequence_bytes.resident"] a').first
    line.focus()
    sheet.evaluate(
        """() => {
            const field = document.querySelector('#ws-context');
            field.value = '2000';
            field.dispatchEvent(new Event('input', { bubbles: true }));
        }"""
    )
    said(sheet, context=2000)
    expect(line).to_be_focused()


@pytest.mark.parametrize(
    "fragment",
    [
        f"config={quote(MARKUP)}",
        f"{quote(MARKUP)}=1",
        f"tensor={quote(MARKUP)}",
        "expert_parallel=perhaps",
        "tensor=Infinity",
        "tensor=0x8",
        "tensor=%20",
        "own.z=%00",
        "tensor.z=8",
        quote(MARKUP),
        "__proto__=1",
        "%E0%A4%A",
    ],
)
def test_a_hostile_link_is_refused_as_text(watched, fragment):
    page = watched.open(f"{PATH}#{fragment}")
    expect(status(page)).to_contain_text("This link can't be read")
    assert page.locator("main img").count() == 0
    said(page)


@pytest.mark.parametrize(("label", "name"), [("JSON", "json"), ("CSV", "csv"), ("Markdown", "md")])
def test_the_report_can_be_kept(sheet, label, name):
    sheet.locator("#ws-tensor").fill("4")
    said(sheet, tensor=4)
    with sheet.expect_download() as download:
        sheet.get_by_role("button", name=f"Download {label}").click()
    assert download.value.suggested_filename == f"worksheet.{name}"
    text = download.value.path().read_text("utf-8")
    assert "327680" in text or "320 KiB" in text
    if name == "json":
        assert json.loads(text)["assumptions"]["tensor"] == 4


def test_the_results_are_read_out_once_the_hand_is_still(sheet):
    spoken = sheet.locator("[data-worksheet] output")
    assert spoken.get_attribute("aria-live") == "polite"
    sheet.locator("#ws-output").fill("2")
    expect(spoken).to_have_text("; ".join(f"{g['label']}: {g['text']}" for g in wanted(output=2)["glance"]))


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_is_readable_with_everything_open(sheet, violations, mode, width):
    sheet.emulate_media(color_scheme=mode)
    sheet.set_viewport_size({"width": width, "height": 900})
    sheet.locator("main details").evaluate_all("all => all.forEach(e => { e.open = true; })")
    assert sheet.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(sheet) == {}
    sheet.locator("main details").evaluate_all("all => all.forEach(e => { e.open = false; })")


def test_a_log_is_explained_and_held_against_the_model(sheet):
    log = sheet.locator("[data-log]")
    log.get_by_label("What vLLM printed").fill(LOG)
    answer = json.loads(log_json(json.dumps({"log": LOG})))
    expect(log.locator("dt")).to_have_text([line["label"] for line in answer["lines"]])
    log.get_by_role("checkbox").check()
    answer = json.loads(log_json(json.dumps({"log": LOG, "form": {}})))
    expect(log.locator("dt")).to_have_text(
        [line["label"] for line in answer["lines"]] + [check["name"] for check in answer["checks"]]
    )
    log.get_by_label("What vLLM printed").fill(MARKUP * 3)
    expect(log.locator(".panel-status")).to_contain_text("log")
    expect(log.locator(".report")).to_be_hidden()
    assert log.locator("img").count() == 0
