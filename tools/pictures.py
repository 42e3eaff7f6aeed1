"""Renew the pictures that are committed: the icons, and the README's page (``make pictures``).

The icons come from book/_static/icon.svg, the page from _build/html, both through the machine's own Chromium.
"""

from __future__ import annotations

import base64
import io
import sys
import threading
from pathlib import Path

import browser
from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from serve import SITE, bind

STATIC = Path(__file__).parent.parent / "book" / "_static"
# file → its size in pixels, and whether the ground reaches the corners, which a system then cuts to its own shape
ICONS = {"icon-192.png": (192, False), "icon-512.png": (512, False), "icon-full.png": (512, True)}
PAGE = "book/start.html"
WIDTH, HEIGHT, COLORS = 1280, 1290, 128


def icon(drawn: Browser, name: str, size: int, full: bool) -> None:
    """Draw one icon; a full one has no round corners."""
    svg = (STATIC / "icon.svg").read_text("utf-8")
    if full:
        svg = svg.replace(' rx="5"', "")
    source = base64.b64encode(svg.encode()).decode()
    page = drawn.new_page(viewport={"width": size, "height": size})
    page.set_content(f'<body style="margin:0"><img width={size} src="data:image/svg+xml;base64,{source}">')
    picture, target = page.screenshot(omit_background=True), STATIC / name
    page.close()
    if not target.is_file() or target.read_bytes() != picture:  # a newer file would have the book built afresh
        target.write_bytes(picture)


def readme(drawn: Browser) -> None:
    """Take the picture of a page for the README."""
    with bind(0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = drawn.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(f"http://127.0.0.1:{server.server_port}/{PAGE}", wait_until="networkidle")
        shown = Image.open(io.BytesIO(page.screenshot()))
        shown.quantize(COLORS).save(STATIC / "readme-page.png", optimize=True)
        page.close()
        server.shutdown()


def main() -> int:
    chromium = browser.find()
    if chromium is None or not (SITE / PAGE).is_file():
        print("Wanted: Chromium or Chrome on this machine, and the built book (make book).", file=sys.stderr)
        return 1
    with sync_playwright() as playwright:
        drawn = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (size, full) in ICONS.items():
            icon(drawn, name, size, full)
        readme(drawn)
        drawn.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
