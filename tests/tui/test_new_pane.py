"""The recipe of CONTRIBUTING.md for a pane, followed: rows, a widget, a declaration, no more."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

# In a process of its own: layouts, commands and keys are made of the declarations on import.
RECIPE = """
    import asyncio, sys
    from types import ModuleType

    from akg_tui.view.controls import panes

    panes.PANES += (
        panes.PaneDeclaration(
            "goals", "f9", "goals", "The goals of the run", "goals:GoalsPane", 9, ("plan",),
            (panes.Spot("deck", panes.FIVE, 0, 4),),
        ),
    )

    from akg_tui.tui.panes.pane import Pane
    from akg_tui.tui.widgets.painted import Rows
    from akg_tui.view.spans import line

    class GoalsPane(Rows, Pane, can_focus=True):
        TITLE = "goals"

        def __init__(self, name, shared):
            super().__init__(name)

        def pull(self, snapshot):
            self.show((line((f"of {snapshot.state.task.op}: 2 times the seed", "text")),))

    module = sys.modules["akg_tui.tui.panes.goals"] = ModuleType("goals")
    module.GoalsPane = GoalsPane

    from akg_tui.cli import main
    from tests.tui.stage import on_stage
    from tests.tui.moments import at_work

    async def look():
        async with on_stage(at_work(), (200, 60)) as stage:
            assert "F9 goals" in stage.text()
            for size in ((200, 60), (120, 40), (80, 24)):
                await stage.resize(*size)
                await stage.press("f9")
                assert "2 times the seed" in stage.text(), size

    asyncio.run(look())
    assert main(["keys", "--markdown"]) == 0
"""


def test_a_pane_that_is_declared_has_its_place_its_key_and_its_line_in_the_page_of_keys() -> None:
    run = [sys.executable, "-c", dedent(RECIPE)]
    done = subprocess.run(run, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "The goals of the run" in done.stdout
