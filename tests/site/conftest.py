"""A server over the built book and a browser that can reach nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from built import arrive
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright
from serve import bind

expect.set_options(timeout=60_000)  # Python starts in a few seconds; a busy machine may take longer


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Where the built book is served."""
    with bind(0, site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """Chromium for which no host exists but this machine."""
    only_here = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
    once = "--js-flags=--liftoff-only"  # Python is not compiled again to run faster: its start takes most of the time
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", only_here, once])
        yield browser
        browser.close()


BLOCKED = "Service Worker registration blocked by Playwright"
PRELOADED = "was preloaded using link preload but not used"  # also said of a font that an earlier page of the tab read


class Watched:
    """A page and everything it asked for or complained about."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.trouble: list[str] = []
        self.pages = 0  # that the tab has shown
        page.on("domcontentloaded", self.shown)
        page.on("request", lambda r: r.url.startswith((address, "data:")) or self.trouble.append(f"asked for {r.url}"))
        page.on("requestfailed", self.failed)
        page.on("response", lambda r: r.status < 400 or self.trouble.append(f"{r.status} for {r.url}"))
        page.on("console", lambda m: m.type in ("error", "warning") and self.complained(m.text))
        page.on("pageerror", lambda e: self.trouble.append(str(e)))

    def shown(self, _: Page) -> None:
        self.pages += 1

    def failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # given up because the test went on to the next page
            self.trouble.append(f"could not get {request.url}: {request.failure}")

    def complained(self, text: str) -> None:
        if text != BLOCKED and not (PRELOADED in text and self.pages > 1):
            self.trouble.append(text)

    def open(self, path: str) -> Page:
        arrive(self.page, f"{self.address}/{path}")
        return self.page


@contextmanager
def watching(browser: Browser, address: str) -> Iterator[Watched]:
    """A desktop page of a reader who was never here; an error at its end if anything went wrong on it.

    It keeps nothing for reading offline: all it shows comes from the server, and all it asks for is seen.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 900}, service_workers="block")
    watched = Watched(context.new_page(), address)
    yield watched
    context.close()
    assert watched.trouble == []


@pytest.fixture
def watched(browser: Browser, address: str) -> Iterator[Watched]:
    """A page for one test."""
    with watching(browser, address) as watched:
        yield watched


@pytest.fixture(scope="module")
def shared(browser: Browser, address: str) -> Iterator[Watched]:
    """A page for the tests of one module: Python takes seconds to start in it."""
    with watching(browser, address) as watched:
        yield watched


COLORS = ["color-contrast", "link-in-text-block"]
# asks for the place of every piece of a formula, a third of axe's time, to refuse "!important" in style attributes
SPACING = "avoid-inline-spacing"


@pytest.fixture(scope="session")
def violations() -> Callable[..., dict[str, list[str]]]:
    """What axe finds wrong on a page as it is now, by its own rules or a part of them: rule → elements."""
    axe = (Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
    parts = {
        "all": {},
        "colors": {"runOnly": COLORS},
        "the others": {"rules": {rule: {"enabled": False} for rule in [*COLORS, SPACING]}},
    }

    def find(page: Page, part: str = "all") -> dict[str, list[str]]:
        page.evaluate(  # what is far from the window too
            "document.querySelectorAll('section').forEach(part => { part.style.contentVisibility = 'visible'; })"
        )
        if not page.evaluate("'axe' in window"):
            page.evaluate(axe)  # a script tag would be refused by the page's own policy
        options = parts[part] | {"resultTypes": ["violations"]}
        found = page.evaluate("options => axe.run(options).then(found => found.violations)", options)
        broken = {rule["id"]: [node["html"][:200] for node in rule["nodes"]] for rule in found}
        if part == "the others" and (hard := page.locator("[style*=important]").all()):
            broken[SPACING] = [element.evaluate("e => e.outerHTML")[:200] for element in hard]
        return broken

    return find


@pytest.fixture(scope="session")
def panel_path(site: Path) -> str:
    """Path of the first page with a live panel."""
    return page_with(site, "data-panel=")


@pytest.fixture(scope="session")
def practice_path(site: Path) -> str:
    """Path of the first chapter with practice problems, which have their printed numbers there."""
    return page_with(site, 'data-seed="0"')


def page_with(site: Path, text: str) -> str:
    return next(p.relative_to(site).as_posix() for p in sorted(site.rglob("*.html")) if text in p.read_text("utf-8"))
