"""What all tests share: where things are, and how property tests draw."""

from __future__ import annotations

import os
from pathlib import Path

import browser
import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parent.parent

# The same examples everywhere, so that a failure can be repeated; no deadline, for no test asserts a time.
settings.register_profile("book", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("book")


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the machine's Chromium or Chrome; without one the test is skipped, except under CI, where it fails."""
    found = browser.find()
    if found is None:
        message = f"no browser on this machine (looked for {', '.join(browser.NAMES)}): install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="session")
def site() -> Path:
    """Folder of the built book; `make book` makes it, and `make test` does so before it starts."""
    folder = ROOT / "_build" / "html"
    if not (folder / "index.html").is_file():
        pytest.fail("the book is not built: run make book first")
    return folder
