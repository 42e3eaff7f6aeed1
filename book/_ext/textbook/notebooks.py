"""Notebooks as the pages that are made from all of them read them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from sphinx.environment import BuildEnvironment


@cache
def notebook(root: Path, page: str) -> dict[str, Any] | None:
    """The notebook of a page; None if the page is written otherwise. Callers must not change it."""
    path = root / f"{page}.ipynb"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def depend(env: BuildEnvironment, pages: Iterable[str]) -> None:
    """Let the page that is being read be built anew when the notebook of one of these changes."""
    for page in pages:
        path = Path(env.srcdir, f"{page}.ipynb")
        if path.is_file():
            env.note_dependency(str(path))


def cells(root: Path, page: str) -> list[dict[str, Any]]:
    """Its cells; none if the page is written otherwise."""
    return (notebook(root, page) or {"cells": []})["cells"]


def code(root: Path, page: str) -> list[str]:
    """The sources of its code cells."""
    return ["".join(cell["source"]) for cell in cells(root, page) if cell["cell_type"] == "code"]
