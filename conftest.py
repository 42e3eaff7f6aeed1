"""How pytest reads the chapters."""

from __future__ import annotations

import pytest
from nbval.plugin import IPyNbCell


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have nbval compare every cell: it takes one without an execution count, which normal form drops, as never run."""
    for item in items:
        if isinstance(item, IPyNbCell):
            item.cell.execution_count = item.cell_num
