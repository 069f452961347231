"""One sizing process for all tests of this folder: starting it means loading torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from akg_tui.core.task import Target, Task
from akg_tui.evaluate.sizing.size_probe import SizeProbe

SETS = Path(__file__).parent / "sets"
KERNELBENCH = sorted((SETS / "kernelbench").glob("*.py"))


@pytest.fixture(scope="session")
def probe() -> Iterator[SizeProbe]:
    with SizeProbe(Task(op="x", target=Target(dsl="torch"))) as running:
        yield running
