"""Pages of the built book, parsed, and what their files weigh."""

from __future__ import annotations

import functools
import gzip
from pathlib import Path

from bench_pages import PACKED
from bs4 import BeautifulSoup, SoupStrainer
from playwright.sync_api import Page


@functools.lru_cache(maxsize=4)  # a chapter takes half a second, and tens of megabytes
def parsed(path: Path, **only: str) -> BeautifulSoup:
    """A page, or the elements of it that `SoupStrainer` is asked for by `name` or by `class_`, which takes a tenth."""
    return BeautifulSoup(path.read_text("utf-8"), "html.parser", parse_only=SoupStrainer(**only) if only else None)


def weight(name: str, body: bytes) -> int:
    """Bytes of a file as a host that compresses text would send it."""
    return len(body) if Path(name).suffix in PACKED else len(gzip.compress(body, 6))


def arrive(page: Page, address: str) -> None:
    """Go to a page of the book and wait for its scripts, which come after the first paint."""
    page.goto(address, wait_until="load")
    page.wait_for_selector("html[data-served]")
