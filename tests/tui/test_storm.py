"""Whatever happens and however slow a terminal is, in the end it shows what the app would paint."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from rich.cells import cell_len
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.screen import Screen
from textual.strip import Strip

from akg_tui.tui import textual_internals
from akg_tui.tui.textual_internals import PatientScreen

from .moments import long_kernel
from .stage import Stage, on_stage

KEYS = ["1", "2", "3", "4", "5", "z", "z", "w", "g", "G", "c", "escape", "colon", "x", "ctrl+p"]
KEYS += ["question_mark", "q", "n", "/", "v", "b", "down", "backspace"]
SIZES = [(120, 40), (200, 60), (80, 24), (100, 30), (61, 17), (40, 10), (90, 50)]

Cell = tuple[str, Style | None]


class Sight:
    """What a terminal would show: the cells of all updates, one painted over the other."""

    def __init__(self, stage: Stage) -> None:
        self._app = stage.app
        self._size = stage.app.size
        self._rows: list[list[Cell]] = []
        self.updates = 0
        self.columns = 0, 0  # of the last update, from … to
        show = stage.app._display

        def display(screen: Screen[Any], update: Any) -> None:
            if isinstance(update, CompositorUpdate) and not stage.app._batch_count:
                update.render_segments(stage.app.console)  # fails where a real one would
                self.updates += 1
                self._fit()
                self._take(update)
            show(screen, update)

        stage.app._display = display  # type: ignore[method-assign]

    def _fit(self) -> None:
        """A terminal of another size shows nothing until it is painted."""
        size = self._app.screen._compositor.size
        if size != self._size or not self._rows:
            self._size = size
            self._rows = [[("?", None)] * size.width for _ in range(size.height)]

    def _take(self, update: CompositorUpdate) -> None:
        if isinstance(update, LayoutUpdate):
            for y, strips in enumerate(update.strips, update.region.y):
                self._write(update.region.x, y, Strip.join(strips))
            return
        assert isinstance(update, ChopsUpdate)
        self.columns = update.spans[0][1:]
        for y, left, right in update.spans:
            for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=True):
                if strip is not None and x <= right and end > left:
                    self._write(x, y, strip.crop(0, min(end, right) - x))

    def _write(self, x: int, y: int, strip: Strip) -> None:
        for letter, style in cells(strip):
            self._rows[y][x] = letter, style
            x += 1

    def cells(self) -> list[list[Cell]]:
        self._fit()
        return self._rows


def cells(strip: Strip) -> list[Cell]:
    """Of a wide letter the second cell is empty."""
    return [
        (part, style)
        for text, style, _ in strip
        for letter in text
        for part in (letter, *[""] * (cell_len(letter) - 1))
    ]


def different(sight: Sight, stage: Stage) -> list[tuple[int, int, Cell, Cell]]:
    """Where the terminal does not show what the app would paint, and both."""
    wanted = [cells(strip) for strip in stage.app.screen._compositor.render_strips()]
    return [
        (x, y, seen, each)
        for y, (row, line) in enumerate(zip(sight.cells(), wanted, strict=True))
        for x, (seen, each) in enumerate(zip(row, line, strict=True))
        if seen != each
    ]


async def settle(stage: Stage) -> None:
    """Until nothing is left to be painted."""
    async with asyncio.timeout(20):
        quiet = 0
        while quiet < 3:
            await stage.pull()
            screen = stage.app.screen
            waits = isinstance(screen, PatientScreen) and screen._put_off
            dirty = screen._compositor._dirty_regions or screen._dirty_widgets
            quiet = 0 if waits or dirty else quiet + 1


@pytest.mark.parametrize("seed", range(4))
async def test_a_terminal_shows_in_the_end_what_the_app_would_paint(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(seed)
    waiting = 0
    monkeypatch.setattr(textual_internals, "backlog", lambda driver: waiting)
    async with on_stage(long_kernel()) as stage:
        sight = Sight(stage)
        stage.deck.refresh()
        for _ in range(5):
            for _ in range(8):
                waiting = dice.choice((0, 0, textual_internals.MOST_WRITES + 1))
                if dice.random() < 0.3:
                    await stage.pilot.resize_terminal(*dice.choice(SIZES))
                else:
                    await stage.pilot.press(dice.choice(KEYS))
                if dice.random() < 0.2:
                    stage.app.appearance.apply_theme(
                        dice.choice(sorted(stage.app.appearance.themes))
                    )
                if dice.random() < 0.3:
                    stage.app.pull_now()
            waiting = 0
            await settle(stage)
            assert different(sight, stage) == [], type(stage.app.screen).__name__
        assert sight.updates > 20


async def test_a_window_that_shrinks_while_a_slow_terminal_catches_up_is_painted_at_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = 0
    monkeypatch.setattr(textual_internals, "backlog", lambda driver: waiting)
    async with on_stage(long_kernel()) as stage:
        sight = Sight(stage)
        waiting = textual_internals.MOST_WRITES + 1
        stage.deck._compositor._dirty_regions.add(stage.deck._compositor.size.region)
        stage.deck._compositor_refresh()
        await stage.pilot.resize_terminal(80, 24)
        waiting = 0
        await settle(stage)
        assert different(sight, stage) == []
