"""How pytest reads the chapters, and how xdist deals out the tests."""

from __future__ import annotations

import os

import pytest
from nbval.plugin import IPyNbCell
from xdist.scheduler import LoadFileScheduling

SITE, ALTERED = "tests/site/", "tests/test_altered_assumptions.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have nbval compare every cell, and put what takes longest first, so that no core is left waiting for it.

    nbval takes a cell without an execution count, which normal form drops, as never run.
    """
    for item in items:
        if isinstance(item, IPyNbCell):
            item.cell.execution_count = item.cell_num
    items.sort(key=lambda item: not item.nodeid.startswith((SITE, ALTERED)))


def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores: those that drive a browser wait for it a third of their time."""
    return (os.cpu_count() or 1) + 1


class ByFile(LoadFileScheduling):
    """A file to a core, for a chapter's cells run in order and a browser is started once; the longest, test by test."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(ALTERED) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile:
    return ByFile(config, log)
