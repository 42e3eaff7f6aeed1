"""The book without a connection: one visit keeps all of it, and a new edition takes over whole."""

from __future__ import annotations

import json
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from built import arrive, parsed, weight
from playwright.sync_api import Browser, BrowserContext, Page, expect
from serve import bind

sys.path.insert(0, str(Path(__file__).parents[2] / "book" / "_ext"))
from textbook.offline import edition, script  # noqa: E402

FOLDER = "some/book"  # below the root of its host, as a project's pages are
START, NEXT = "book/memory/kv_cache.html", "book/memory/capacity.html"
SERVICE = "book/service/latency_and_goodput.html"
KEPT = "caches.keys().then(([name]) => caches.open(name)).then(c => c.keys()).then(all => all.map(r => r.url))"


class Host:
    """A host of one site that can be switched off and remembers what it was asked for."""

    def __init__(self, root: Path) -> None:
        self.site = root / FOLDER
        self.server = bind(0, root)
        self.asked: list[str] = []
        handler = self.server.RequestHandlerClass.func
        asked = self.asked

        class Listening(handler):
            def do_GET(self) -> None:
                asked.append(self.path.removeprefix(f"/{FOLDER}/"))
                super().do_GET()

        self.server.RequestHandlerClass = lambda *given: Listening(*given, directory=str(root))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}/{FOLDER}"

    def switch_off(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def publish(self, *changes: str) -> None:
        """A new edition: the headings of some pages, or a remark at the end of a script."""
        for name in changes:
            path = self.site / name
            text = path.read_text("utf-8")
            path.write_text(text.replace("<h1>", "<h1>New: ") if name.endswith(".html") else f"{text}// new\n", "utf-8")
        (self.site / "sw.js").write_text(script(self.site), "utf-8")


@contextmanager
def hosting(site: Path, folder: Path, *left_out: str) -> Iterator[Host]:
    shutil.copytree(site, folder / FOLDER, ignore=shutil.ignore_patterns(*left_out))
    host = Host(folder)
    host.publish()
    yield host
    host.switch_off()


@pytest.fixture
def host(site: Path, tmp_path: Path) -> Iterator[Host]:
    """A small edition: two chapters, without Python."""
    with hosting(site, tmp_path, "pyodide", "_sources", "time", "service", "reference", "_images") as host:
        yield host


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context
    context.close()


def visit(context: BrowserContext, host: Host, path: str = START) -> Page:
    """A page on which the reader stays until the book is kept."""
    page = context.new_page()
    page.clock.install()
    arrive(page, f"{host.address}/{path}")
    page.clock.fast_forward(20_000)
    page.evaluate("navigator.serviceWorker.ready")
    page.wait_for_function("() => navigator.serviceWorker.controller")
    return page


@pytest.fixture(scope="module")
def kept(browser: Browser, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, str]]:
    """A page of a reader who has seen one chapter, and whose connection has since gone."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    with hosting(site, tmp_path_factory.mktemp("host")) as host:
        page = visit(context, host)
        host.switch_off()
        yield page, host.address
        host.switch_off = lambda: None
    context.close()


def test_a_chapter_never_opened_is_whole_offline(kept):
    page, address = kept
    arrive(page, f"{address}/{SERVICE}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("goodput")
    assert page.evaluate("[...document.styleSheets].every(sheet => sheet.cssRules.length)")
    assert page.evaluate("document.fonts.check('1rem \"Book Serif\"')")
    for picture in page.locator("article img").all():
        picture.scroll_into_view_if_needed()
        expect(picture).to_have_js_property("complete", True)
        assert picture.evaluate("image => image.naturalWidth") > 0


def test_every_file_of_the_edition_answers_offline(kept, site):
    page, address = kept
    paths = list(edition(site))
    assert {"index.html", "404.html", "searchindex.js", "_static/live/pyodide/pyodide.asm.wasm", START} <= set(paths)
    asked = "paths => Promise.all(paths.map(path => fetch(path).then(a => a.ok, () => false)))"
    answered = page.evaluate(asked, [f"{address}/{path}" for path in paths])
    assert [path for path, ok in zip(paths, answered, strict=True) if not ok] == []


def test_the_start_page_says_what_a_visit_fetches_in_all(site):
    said = re.search(r"about (\d+)\sMB, fetched while you read", parsed(site / "book" / "start.html").text)
    fetched = sum(weight(path, (site / path).read_bytes()) for path in edition(site))
    assert int(said[1]) == round(fetched / 1e6)


def test_a_panel_computes_offline(kept):
    page, address = kept
    arrive(page, f"{address}/{NEXT}")
    panel = page.locator(".panel").first
    panel.locator("input[type=number], select").first.focus()
    expect(panel.locator(".panel-status")).to_have_text("Computed in this page for the values shown.")


def test_search_works_offline(kept):
    page, address = kept
    page.goto(f"{address}/search.html?q=goodput")
    page.locator("#search-results li a").first.click()
    expect(page.locator("main")).to_contain_text(re.compile("goodput", re.IGNORECASE))


def test_a_notebook_can_be_saved_offline(kept):
    page, address = kept
    arrive(page, f"{address}/{NEXT}")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download this chapter").click()
    assert json.loads(download.value.path().read_text("utf-8"))["nbformat"] == 4


def test_the_ways_to_a_page_without_its_full_name_work_offline(kept):
    page, address = kept
    page.goto(f"{address}/", wait_until="load")
    page.wait_for_url("**/book/start.html")
    page.goto(f"{address}/{NEXT.removesuffix('.html')}")
    expect(page.locator("nav.contents [aria-current]").first).to_be_visible()
    answer = page.goto(f"{address}/no/such/page.html")
    assert answer.status == 404
    expect(page.get_by_role("heading", level=1)).to_have_text("Page not found")


def test_a_new_edition_replaces_the_old_one_whole(context, host):
    page = visit(context, host)
    host.publish(START, NEXT, "_static/book.js")
    host.asked.clear()
    page.reload()  # still the old edition, whole; the new one comes meanwhile
    expect(page.get_by_role("heading", level=1)).not_to_contain_text("New")
    expect(page.get_by_role("button", name="New edition")).to_be_visible()
    assert sorted(set(host.asked)) == ["_static/book.js", NEXT, START, "sw.js"]
    page.goto(f"{host.address}/{NEXT}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("New")
    assert page.evaluate("fetch('../../_static/book.js').then(a => a.text())").endswith("// new\n")
    assert len(page.evaluate(KEPT)) == len(edition(host.site))


def test_while_another_page_is_open_the_reader_decides(context, host):
    pages = [visit(context, host), visit(context, host, NEXT)]
    host.publish(START, NEXT)
    pages[0].reload()
    button = pages[0].get_by_role("button", name="New edition")
    expect(button).to_be_visible()
    pages[0].reload()
    for page in pages:
        expect(page.get_by_role("heading", level=1)).not_to_contain_text("New")
    button.click()
    for page in pages:
        expect(page.get_by_role("heading", level=1)).to_contain_text("New")
    expect(button).to_be_hidden()


def test_an_edition_that_is_not_whole_replaces_nothing(context, host):
    page = visit(context, host)
    host.publish(START, NEXT)
    (host.site / NEXT).write_text("half", "utf-8")
    page.evaluate("navigator.serviceWorker.getRegistration().then(r => r.update()).catch(() => 0)")
    page.wait_for_function("() => navigator.serviceWorker.getRegistration().then(r => !r.installing && !r.waiting)")
    for path in (START, NEXT):
        page.goto(f"{host.address}/{path}")
        expect(page.get_by_role("heading", level=1)).not_to_contain_text("New")


@pytest.mark.parametrize("saves", [True, False])
def test_a_device_that_saves_data_fetches_nothing_ahead(context, host, saves):
    context.add_init_script(
        f"Object.defineProperty(NetworkInformation.prototype, 'saveData', {{ get: () => {str(saves).lower()} }})"
    )
    page = context.new_page()
    page.clock.install()
    arrive(page, f"{host.address}/{START}")
    page.clock.fast_forward(20_000)
    if not saves:
        page.evaluate("navigator.serviceWorker.ready")
    assert ("sw.js" in host.asked) is not saves


def test_the_book_can_be_installed(site):
    manifest = json.loads((site / "_static" / "book.webmanifest").read_text("utf-8"))
    folder = site / "_static"
    assert (folder / manifest["start_url"]).resolve() == (site / "book" / "start.html").resolve()
    assert (folder / manifest["scope"]).resolve() == site.resolve()
    assert {icon["sizes"] for icon in manifest["icons"]} >= {"192x192", "512x512"}
    for icon in manifest["icons"]:
        assert (folder / icon["src"]).is_file()
