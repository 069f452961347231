"""What is painted in parts is, in the end, what Textual paints at once; and it is less work."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, Compositor
from textual._context import visible_screen_stack
from textual.color import Color
from textual.geometry import Region
from textual.renderables.background_screen import BackgroundScreen
from textual.strip import Strip

from akg_tui.tui.screens.banded import COLUMNS, Sparing
from akg_tui.tui.screens.dimming import Backdrop
from akg_tui.tui.screens.palette import Palette

from .stage import Stage, on_stage
from .test_panes import long_kernel

Cell = tuple[str, Style | None]


def cells(segments: list[Segment]) -> list[Cell]:
    return [(letter, style) for text, style, _ in segments for letter in text]


class Painted:
    """Which cells have been written to the terminal."""

    def __init__(self, stage: Stage) -> None:
        self.cells: set[tuple[int, int]] = set()
        self.updates = 0
        show = stage.app._display

        def display(screen: Any, update: Any) -> None:
            if isinstance(update, ChopsUpdate):
                self.updates += 1
                for y, first, last in update.spans:
                    self.cells |= {(x, y) for x in range(first, last)}
            show(screen, update)

        stage.app._display = display  # type: ignore[method-assign]


@pytest.mark.parametrize("size", [(200, 60), (80, 24), (61, 17)])
async def test_another_size_is_painted_whole_in_several_steps(size: tuple[int, int]) -> None:
    async with on_stage(long_kernel()) as stage:
        painted = Painted(stage)
        await stage.resize(*size)
        await stage.pilot.pause()
        columns, rows = size
        assert painted.cells >= {(x, y) for x in range(columns) for y in range(rows)}
        assert painted.updates >= -(-columns // COLUMNS)
        assert stage.deck._bands == type(stage.deck._bands)()


async def test_a_screen_that_is_covered_while_it_is_painted_comes_back_whole() -> None:
    async with on_stage(long_kernel()) as stage:
        await stage.pilot.resize_terminal(200, 60)
        await stage.press("f1")
        assert stage.app.screen is not stage.deck
        painted = Painted(stage)
        await stage.press("escape")
        assert stage.app.screen is stage.deck
        await stage.pilot.pause()
        assert len(painted.cells) == 200 * 60


@pytest.mark.parametrize(
    "crop", [Region(0, 0, 200, 60), Region(0, 0, 40, 60), Region(120, 10, 3, 2), Region(5, 0, 1, 1)]
)
async def test_only_what_is_seen_there_is_rendered_and_as_textual_does(crop: Region) -> None:
    async with on_stage(long_kernel(), size=(200, 60)) as stage:
        compositor = stage.deck._compositor
        assert isinstance(compositor, Sparing)
        visible_screen_stack.set([])
        theirs = list(Compositor._get_renders(compositor, crop))
        mine = list(compositor._get_renders(crop))
        wanted = [each for each in theirs if crop.overlaps(each[0].intersection(each[1]))]
        assert [(region, clip) for region, clip, _ in mine] == [(r, c) for r, c, _ in wanted]
        for (_, _, ours), (_, _, others) in zip(mine, wanted, strict=True):
            assert [cells(list(s)) for s in ours] == [cells(list(s)) for s in others]
        assert len(mine) <= len(theirs)


async def test_a_widget_that_is_gone_is_not_rendered_where_it_was() -> None:
    async with on_stage(long_kernel()) as stage:
        bar = stage.deck.panes["source"].vertical_scrollbar
        compositor = stage.deck._compositor
        whole = compositor.size.region
        before = len(list(compositor._get_renders(whole)))
        parent, bar._parent = bar._parent, None
        try:
            assert len(list(compositor._get_renders(whole))) == before - 1
        finally:
            bar._parent = parent


@pytest.mark.parametrize("alpha", [0.0, 0.4])
async def test_a_dimmed_screen_has_textuals_letters_and_styles(alpha: float) -> None:
    async with on_stage(long_kernel()) as stage:
        colour = Color(20, 40, 60, alpha)
        visible_screen_stack.set([])
        strips: list[Strip] = Backdrop(stage.deck, colour).render_strips(
            120, 40, None, None  # type: ignore[arg-type]
        )  # fmt: skip
        lines = stage.deck._compositor.render_strips()
        assert len(strips) == len(lines) == 40
        for strip, line in zip(strips, lines, strict=True):
            theirs = list(BackgroundScreen.process_segments(line, colour))
            assert cells(list(strip)) == cells(theirs)


async def test_a_theme_is_put_on_between_turns_of_the_loop_and_the_last_one_wins() -> None:
    async with on_stage(long_kernel()) as stage:
        await stage.press("ctrl+p")
        assert isinstance(stage.app.screen, Palette)
        turns = 0
        dressed = False

        def turn() -> None:
            nonlocal turns
            if not dressed:
                turns += 1
                asyncio.get_running_loop().call_soon(turn)

        stage.app.wear("paper")
        stage.app.wear("tide")
        await stage.pilot.pause()
        stage.app.refresh_css()
        turn()
        task = stage.app._dressing
        assert task is not None
        await task
        dressed = True
        assert turns > len(stage.app.screen_stack)
        await stage.pilot.pause()
        wanted = stage.app.themes["tide"].for_textual().background
        assert stage.deck.styles.background == Color.parse(str(wanted))
        assert not stage.app._batch_count
