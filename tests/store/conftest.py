from collections.abc import Iterator
from pathlib import Path

import pytest

from akg_tui.store.run_folder import RunFolder
from akg_tui.store.task_folder import TaskFolder
from tests.in_memory import tmp_path
from tests.store import scripted

__all__ = ["tmp_path"]


@pytest.fixture
def task(tmp_path: Path) -> TaskFolder:
    return scripted.make_task(tmp_path / "task")


@pytest.fixture
def run(task: TaskFolder) -> Iterator[RunFolder]:
    opened = scripted.create_run(task)
    yield opened
    opened.close()


@pytest.fixture
def played(run: RunFolder) -> RunFolder:
    """A run at its end, closed: KEEP (seed), KEEP, FAIL, DISCARD, KEEP, FAIL, DISCARD."""
    scripted.recover(run)
    scripted.play(run)
    run.close()
    return run
