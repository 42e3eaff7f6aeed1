"""What the live panels cost in headless Chromium: first touch to live, slider to number. Prints; asserts nothing."""

from __future__ import annotations

import shutil
import statistics
import sys
import threading
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from serve import SITE, bind  # noqa: E402

STARTS, MOVES = 3, 200

FIRST_TOUCH = """() => new Promise((live) => {
    const panel = document.querySelector("[data-panel]"), began = performance.now();
    new MutationObserver(() => live(performance.now() - began)).observe(panel.querySelector("dl"), { childList: true });
    panel.querySelector("input, select").focus();
})"""

# from the slider's event to the first frame after the new number is in the page
MOVE = """(step) => new Promise((shown) => {
    const panel = document.querySelector("[data-panel]"), slider = panel.querySelector("input[type=range]");
    const seen = new MutationObserver(() => {
        seen.disconnect();
        requestAnimationFrame(() => shown(performance.now() - began));
    });
    seen.observe(panel.querySelector("dl"), { childList: true });
    slider.value = step % (Number(slider.max) + 1);
    const began = performance.now();
    slider.dispatchEvent(new Event("input", { bubbles: true }));
})"""


def first_touch_s(page: Page, address: str) -> float:
    """Seconds from the first focus of an input to the first numbers from the browser's own Python."""
    page.goto(address)
    page.wait_for_load_state("networkidle")
    return page.evaluate(FIRST_TOUCH) / 1000


def main() -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    path = next(p for p in sorted(SITE.rglob("*.html")) if "data-panel=" in p.read_text("utf-8"))
    with bind(0) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/{path.relative_to(SITE).as_posix()}"
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        cold, warm = [], []
        for _ in range(STARTS):
            context = browser.new_context()
            page = context.new_page()
            cold.append(first_touch_s(page, address))
            warm.append(first_touch_s(page, address))
            moves = sorted(page.evaluate(MOVE, step) for step in range(MOVES))
            context.close()
        browser.close()
        server.shutdown()
    print(f"A panel in headless Chromium, median of {STARTS} starts")
    print(f"  first touch to live   cold {statistics.median(cold):5.2f} s   warm {statistics.median(warm):5.2f} s")
    p50, p95 = (moves[round(q * (MOVES - 1))] for q in (0.5, 0.95))
    print(f"  slider to new number  p50 {p50:6.1f} ms  p95 {p95:5.1f} ms   ({MOVES} moves)")


if __name__ == "__main__":
    main()
