"""The screens on which no run is open: what needs one says so, and the rest works."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.screens.rounds import Rounds
from akg_tui.tui.screens.runs import Runs
from benchmarks.gallery import pictures as gallery
from benchmarks.gallery import recorded_run

RECORDED = Path(__file__).parents[1] / "recorded"
NEED_A_RUN = ("stop", "tell use q4", "mode-to auto", "revoke 1", "copy-kernel", "copy 3-4")


class Listed:
    def __init__(self, app: WorkbenchApp, pilot: Pilot[int]) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await gallery.settled(self.app, self.pilot)

    def text(self) -> str:
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    async def type_each(self) -> None:
        """Type every command that needs a run; each is told that there is none."""
        here = self.app.screen
        for line in NEED_A_RUN:
            await self.pilot.press("colon")
            self.app.screen.query_one(Input).value = line
            await self.press("enter")
            assert "no run is open here" in self.text(), line
            assert self.app.screen is here
            await self.press("down")
        await self.press("X")
        assert "no run is open here" in self.text()


@asynccontextmanager
async def listed(tmp_path: Path) -> AsyncIterator[Listed]:
    recordings = [recorded_run.read(path) for path in sorted(RECORDED.glob("*.zip"))]
    app = WorkbenchApp(None, browse=gallery.run_folders(recordings, tmp_path.resolve()))
    async with app.run_test(size=(120, 30)) as pilot:
        await gallery.settled(app, pilot)
        yield Listed(app, pilot)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []
    monkeypatch.setattr(WorkbenchApp, "copy_to_clipboard", lambda _, text: texts.append(text))
    return texts


async def test_the_list_of_runs_is_copied_and_what_needs_a_run_says_that_none_is_open(
    tmp_path: Path, copied: list[str]
) -> None:
    async with listed(tmp_path) as stage:
        await stage.press("y", "Y")
        view, whole = copied
        assert view == whole
        assert "row_softmax" in view
        await stage.type_each()
        assert isinstance(stage.app.screen, Runs)


async def test_the_comparison_of_two_runs_is_copied_and_what_needs_a_run_says_that_none_is_open(
    tmp_path: Path, copied: list[str]
) -> None:
    async with listed(tmp_path) as stage:
        await stage.press("space", "space", "c")
        assert isinstance(stage.app.screen, Rounds)
        await stage.press("y", "Y")
        assert len(copied) == 2
        assert all("this kernel" in text for text in copied), "recordings hold no kernels"
        await stage.type_each()
