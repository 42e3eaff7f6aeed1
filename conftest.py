"""How pytest reads the chapters."""

from __future__ import annotations

import pytest
from nbval.plugin import IPyNbCell


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have nbval compare every cell, and say which tests stay on one core.

    nbval takes a cell without an execution count, which normal form drops, as never run. A file stays on one core: a
    chapter's cells run in order, and a browser and its Python are started once. The longest file is dealt out by
    chapter.
    """
    for item in items:
        if isinstance(item, IPyNbCell):
            item.cell.execution_count = item.cell_num
        chapter = getattr(item, "callspec", None) and item.callspec.params.get("chapter")
        apart = chapter if item.path.name == "test_altered_assumptions.py" else None
        item.add_marker(pytest.mark.xdist_group(apart or str(item.path)))
