"""The list of runs on a stage: over real runs in real folders, or over the recorded ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.screens.runs import Runs
from akg_tui.view.controls.preferences import Preferences
from benchmarks.gallery import pictures as gallery
from benchmarks.gallery import recorded_run

from .stage import pressed, shown

RECORDED = Path(__file__).parents[1] / "recorded"


class Listed:
    """A workbench without a run of its own, and what may be awaited of it."""

    def __init__(self, app: WorkbenchApp, pilot: Pilot[int]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def runs(self) -> Runs:
        return next(s for s in self.app.screen_stack if isinstance(s, Runs))

    def text(self) -> str:
        return shown(self.app)

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not true():
                await asyncio.sleep(0.01)
                self.app.pull_now()
        await self.pilot.pause()

    async def on(self, screen: type) -> None:
        """Wait until a screen of this kind is in front."""
        await self.until(lambda: isinstance(self.app.screen, screen))

    async def shows(self, text: str) -> None:
        try:
            await self.until(lambda: text in self.text())
        except TimeoutError:
            raise AssertionError(f"never saw {text!r} in:\n{self.text()}") from None

    async def press(self, *keys: str) -> None:
        await pressed(self.app, self.pilot, *keys)
        self.app.pull_now()
        await self.pilot.pause()

    async def at(self, name: str) -> None:
        """Put the cursor on a run."""
        await self.until(lambda: any(name in run.name for run in self.runs.shown))
        await self.until(lambda: self.runs.catalogue.unread == 0)
        self.runs._sort()
        row = next(n for n, run in enumerate(self.runs.shown) if name in run.name)
        self.runs.move_to(row)
        await self.pilot.pause()


@asynccontextmanager
async def listed(
    folder: Path, size: tuple[int, int] = (120, 30), wanted: Preferences | None = None
) -> AsyncIterator[Listed]:
    """The runs below a folder, all of them read."""
    app = WorkbenchApp(None, browse=folder, wanted=wanted)
    async with app.run_test(size=size) as pilot:
        stage = Listed(app, pilot)
        await stage.until(lambda: isinstance(app.screen, Runs) and app.screen.catalogue.searched)
        await stage.until(lambda: stage.runs.catalogue.unread == 0)
        await asyncio.sleep(0)
        stage.runs._sort()
        app.pull_now()
        await pilot.pause()
        yield stage


def recorded_runs(home: Path) -> tuple[Path, float]:
    """Write the recorded runs to folders; return the folder above them, and a time after them."""
    recordings = [recorded_run.read(path) for path in sorted(RECORDED.glob("*.zip"))]
    folder = gallery.run_folders(recordings, home.resolve())
    return folder, max(recording.records[-1].at for recording in recordings) + 720


@asynccontextmanager
async def recorded(home: Path) -> AsyncIterator[Listed]:
    """The recorded runs in a list."""
    app = WorkbenchApp(None, browse=recorded_runs(home)[0])
    async with app.run_test(size=(120, 40)) as pilot:
        await gallery.settled(app, pilot)
        yield Listed(app, pilot)
