"""One real judge for each module: starting one means loading torch twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from akg_tui.core.task import Correctness, Guard, Task, Timing
from akg_tui.evaluate import Judge
from tests.evaluate.kernels import REFERENCE


def quick_task(**timing: float) -> Task:
    """Return a task that is judged in as little time as can be."""
    limits = {"budget_s": 2.0, "call_timeout_s": 2.0, "build_timeout_s": 60.0} | timing
    # What these tests are about happens after the static guard.
    guard = Guard(level="warn")
    rules = Correctness(trials=2)
    return Task(op="softmax", correctness=rules, guard=guard, timing=Timing(**limits))


def is_running(pid: int) -> bool:
    """Say whether there is such a process, and it has not ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Judge]:
    folder: Path = tmp_path_factory.mktemp("judge")
    async with Judge(quick_task(), REFERENCE, folder) as running:
        yield running
