"""The device in the place of `cuda`, and one judge for each task on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from akg_tui.evaluate import Judge
from benchmarks.hardware.kernels import ROWS, SOFTMAX, TASK
from benchmarks.lab.device import target

Judges = Mapping[str, Judge]


@pytest.fixture(scope="package")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a path: while a file is there, the device is lost."""
    return tmp_path_factory.mktemp("lost") / "lost"


@pytest.fixture(scope="package")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a path: while a file is there, comparisons are watched, and it tells how."""
    return tmp_path_factory.mktemp("watched") / "watched"


@pytest.fixture(scope="package", autouse=True)
def _lab_device(lost: Path, watched: Path) -> Iterator[None]:
    more = {"LABDEV_LOST": str(lost), target.WATCHED: str(watched)}
    with target.installed(target.LabDevice(**more)):
        yield


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def judges(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Judges]:
    """Yield a judge for each task."""
    async with AsyncExitStack() as running:
        judges = {
            reference: Judge(
                TASK,
                reference,
                tmp_path_factory.mktemp("device"),
                modules=(target.MODULE,),
                prefetch=False,
            )
            for reference in (SOFTMAX, ROWS)
        }
        for judge in judges.values():
            await running.enter_async_context(judge)
        yield judges
