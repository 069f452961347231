"""`akg-tui mcp` with a judge that measures nothing, for tests that kill its process."""

from __future__ import annotations

import sys

from akg_tui.agent import visit
from akg_tui.cli import main
from akg_tui.engine import run_service
from tests.engine.fake_judge import FakeJudge


async def _nothing_known(*known: object) -> None:
    """Describe no machine: that would compile and measure for a second."""


if __name__ == "__main__":
    run_service._judge = lambda run, on_progress: FakeJudge(on_progress)
    visit._described = _nothing_known
    sys.exit(main())
