"""The command line with a fake judge and without reports, for suites of `tests.engine.runs` tasks.

As a program: `DIE_AT=N python -m tests.suite.fake_suite suite …` kills itself with SIGKILL at its
N-th durable write.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from akg_tui import cli
from akg_tui.store import filesystem
from akg_tui.store.journal import Journal
from akg_tui.suite import suite_record
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import make_task


def fake_judge(run: object, on_progress: Any) -> FakeJudge:
    """Stand in for `run_service._judge`."""
    return FakeJudge(on_progress)


def patched() -> list[Any]:
    """The patches for a suite without a real judge."""
    return [
        mock.patch("akg_tui.engine.run_service._judge", fake_judge),
        mock.patch("akg_tui.engine.run_report.reporter", return_value=None),
    ]


def tasks_in(folder: Path, count: int) -> Path:
    """Make a folder of small tasks."""
    for number in range(count):
        make_task(folder / f"task{number}")
    return folder


def _dying(real: Callable[..., Any], writes: Any, last: int) -> Callable[..., Any]:
    def write(*args: Any, **named: Any) -> Any:
        if next(writes) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **named)

    return write


def main() -> int:
    for patch in patched():
        patch.start()
    if last := int(os.environ.get("DIE_AT", "0")):
        writes = itertools.count(1)
        journal = _dying(Journal.commit, writes, last)
        mock.patch.object(Journal, "commit", journal).start()
        replaced = _dying(filesystem.replace_file, writes, last)
        mock.patch.object(suite_record, "replace_file", replaced).start()
    return cli.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
