"""The workbench on a stage: run by a pilot over a `FakeHandle`, read back as text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import groupby

from textual.app import App
from textual.events import Key
from textual.keys import _character_to_key
from textual.pilot import Pilot
from textual.widgets import Input

from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.panes.log import LogPane
from akg_tui.tui.panes.plan import PlanPane
from akg_tui.tui.panes.source import SourcePane
from akg_tui.tui.screens.deck import Deck
from benchmarks.gallery import pictures as gallery

from .script import FakeHandle


def burst(app: App[int], *keys: str) -> None:
    """Send keys as a terminal does that has all of them in its buffer."""
    for key in keys:
        name = _character_to_key(key) if len(key) == 1 else key
        app.post_message(Key(name, key if len(key) == 1 else None))


async def pressed(app: App[int], pilot: Pilot[int], *keys: str) -> None:
    """Press keys one after the other; the letters of a text that a line takes come at once."""
    for text, some in groupby(keys, lambda key: len(key) == 1):
        for key in some:
            if text and isinstance(app.focused, Input):
                burst(app, key)
            else:
                await pilot.press(key)
        await pilot.pause()


def shown(app: WorkbenchApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


@dataclass
class Stage:
    app: WorkbenchApp
    pilot: Pilot[int]
    handle: FakeHandle

    @property
    def deck(self) -> Deck:
        return next(screen for screen in self.app.screen_stack if isinstance(screen, Deck))

    @property
    def plan(self) -> PlanPane:
        return self.deck.pane("plan", PlanPane)

    @property
    def log(self) -> LogPane:
        return self.deck.pane("log", LogPane)

    @property
    def source(self) -> SourcePane:
        return self.deck.pane("source", SourcePane)

    @property
    def work_is_done(self) -> bool:
        """Whether the task in which the run works has ended."""
        assert self.app._work is not None
        return self.app._work.done()

    async def pull(self) -> None:
        """Let the screen catch up with the run, and everything it started with itself."""
        await gallery.pulled(self.app, self.pilot)

    async def press(self, *keys: str) -> None:
        await pressed(self.app, self.pilot, *keys)
        await self.pull()

    async def command(self, line: str) -> None:
        """Type a whole command on the line of commands."""
        await self.press("colon", *line, "enter")

    async def resize(self, width: int, height: int) -> None:
        await self.pilot.resize_terminal(width, height)
        await self.pull()

    async def arm(self) -> None:
        """Let the card be painted, and time go by until its keys count."""
        await self.pull()
        self.handle.now += 1.0
        await self.pull()

    def text(self) -> str:
        """What stands on the screen, row by row."""
        return shown(self.app)


def workbench(handle: FakeHandle, theme: str | None = None) -> WorkbenchApp:
    async def open_run() -> FakeHandle:
        return handle

    return WorkbenchApp(open_run, theme=theme, clock=handle.clock)


@asynccontextmanager
async def on_stage(
    handle: FakeHandle, size: tuple[int, int] = (120, 40), *, armed: bool = False
) -> AsyncIterator[Stage]:
    """The run on screen; `armed` once the keys of its card count."""
    app = workbench(handle)
    async with app.run_test(size=size) as pilot:
        stage = Stage(app, pilot, handle)
        await gallery.opened(app, pilot)
        await (stage.arm() if armed else stage.pull())
        yield stage
