"""`akg-tui` with a judge that measures nothing; the engines that it detaches have it too."""

from __future__ import annotations

import os
import sys

from akg_tui.cli import main
from akg_tui.engine import detached

COMMAND = (sys.executable, "-m", "tests.cli.fake_judged")
NO_REPORT = "AKG_TESTS_NO_REPORT"
"""In the environment: a run ends without a report, which takes a drawing and two seconds."""


async def _nothing_known(*known: object) -> None:
    """Describe no machine: that would compile and measure for a second."""


def _measure_nothing() -> None:
    from akg_tui.agent import visit
    from akg_tui.engine import run_report, run_service
    from tests.engine.fake_judge import FakeJudge

    run_service._judge = lambda run, on_progress: FakeJudge(on_progress)
    run_service.check_target = lambda task, path: None
    visit._described = _nothing_known
    if NO_REPORT in os.environ:
        run_report.reporter = lambda channel: None


if __name__ == "__main__":
    detached.COMMAND = COMMAND
    if sys.argv[1] in ("tune", "resume"):  # the other commands work on no run, and load no engine
        _measure_nothing()
    sys.exit(main())
