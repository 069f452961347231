"""What is painted in parts is, in the end, what Textual paints at once; and it is less work."""

from __future__ import annotations

import asyncio
import gc
import weakref
from functools import partial
from itertools import count, pairwise
from typing import Any

import pytest
from rich.segment import Segment
from rich.style import Style
from textual import _time
from textual._compositor import ChopsUpdate, Compositor
from textual._context import visible_screen_stack
from textual.color import Color
from textual.geometry import Region
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from akg_tui.tui.screens import banded
from akg_tui.tui.screens.banded import COLUMNS, Sparing, dimmed
from akg_tui.tui.screens.command_line import Palette
from akg_tui.tui.widgets.line_view import CACHED_ROWS, LineView

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
        while stage.deck._bands:
            await stage.pilot.pause()
        columns, rows = size
        assert painted.cells >= {(x, y) for x in range(columns) for y in range(rows)}
        assert painted.updates >= -(-columns // COLUMNS)


async def test_a_terminal_that_is_behind_is_sent_nothing_more_until_it_has_caught_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = 0
    monkeypatch.setattr(banded, "backlog", lambda driver: waiting)
    handle = long_kernel()
    async with on_stage(handle) as stage:
        waiting = banded.MOST_WRITES + 1
        painted = Painted(stage)
        await stage.resize(100, 30)
        await stage.press("1", "2", "z", "z")
        assert painted.updates == 0
        waiting = banded.MOST_WRITES
        while len(painted.cells) < 100 * 30:
            await stage.pilot.pause()
        await stage.press("1")
        updates, waiting = painted.updates, banded.MOST_WRITES + 1
        await stage.press("colon", "x")
        stage.app.screen.query_one(Input).value = "pause"
        await stage.pilot.pause()
        assert painted.updates == updates
        waiting = 0
        while painted.updates == updates:
            await stage.pilot.pause()
        assert ":pause" in stage.text()


async def test_a_stall_between_two_looks_at_the_clock_leaves_no_band_unpainted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = _time.get_time
    stalls = count(0, 2 * banded.PAUSE_S)
    async with on_stage(long_kernel()) as stage:
        monkeypatch.setattr(_time, "get_time", lambda: clock() + next(stalls))
        stage.deck._compositor._dirty_regions.add(stage.deck._compositor.size.region)
        stage.deck._compositor_refresh()
        painted = Painted(stage)
        assert stage.deck._bands
        async with asyncio.timeout(20):
            while stage.deck._bands:
                await stage.pilot.pause()
        assert len(painted.cells) == 120 * 40


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


class Rendered:
    """Which widgets are rendered, and how much of them."""

    def __init__(self, screen: Screen[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts: dict[Widget, Region] = {}
        for widget in screen._compositor.visible_widgets:
            monkeypatch.setattr(widget, "render_lines", partial(self._render, widget))

    def _render(self, widget: Widget, crop: Region) -> list[Strip]:
        self.parts[widget] = crop
        return type(widget).render_lines(widget, crop)


@pytest.mark.parametrize(
    "crop", [Region(0, 0, 200, 60), Region(0, 0, 40, 60), Region(120, 10, 3, 2), Region(5, 0, 1, 1)]
)
async def test_what_is_painted_is_what_textual_paints_and_what_is_hidden_is_not_rendered(
    crop: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_stage(long_kernel(), size=(200, 60)) as stage:
        compositor = stage.deck._compositor
        assert isinstance(compositor, Sparing)
        visible_screen_stack.set([])
        rendered = Rendered(stage.deck, monkeypatch)
        mine = compositor._render_chops(crop, crop.line_range.__contains__)
        parts, rendered.parts = rendered.parts, {}
        theirs = Compositor._render_chops(compositor, crop, crop.line_range.__contains__)
        for cuts, ours, others in zip(compositor.cuts, mine, theirs, strict=True):
            assert list(ours) == list(others)
            for cut, end in pairwise(cuts):
                if cut < crop.right and end > crop.x:
                    assert cells(list(ours[cut] or ())) == cells(list(others[cut] or ()))
        assert set(parts) < set(rendered.parts)
        assert stage.deck.body not in parts  # panes lie on all of it
        regions = {widget: region for widget, (region, _) in compositor.visible_widgets.items()}
        assert all(crop.overlaps(regions[each]) for each in parts)


async def test_a_widget_that_is_gone_is_not_rendered_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with on_stage(long_kernel()) as stage:
        bar = stage.deck.panes["source"].vertical_scrollbar
        rendered = Rendered(stage.deck, monkeypatch)
        compositor = stage.deck._compositor
        whole = compositor.size.region
        compositor._render_chops(whole, whole.line_range.__contains__)
        assert bar in rendered.parts
        rendered.parts.clear()
        parent, bar._parent = bar._parent, None
        try:
            compositor._render_chops(whole, whole.line_range.__contains__)
        finally:
            bar._parent = parent
        assert rendered.parts
        assert bar not in rendered.parts


@pytest.mark.parametrize("alpha", [0.0, 0.4])
@pytest.mark.parametrize(
    "crop", [Region(0, 0, 120, 40), Region(40, 0, 40, 40), Region(33, 7, 20, 5), Region(3, 2, 1, 1)]
)
async def test_a_dimmed_screen_has_textuals_letters_and_styles(crop: Region, alpha: float) -> None:
    async with on_stage(long_kernel()) as stage:
        colour = Color(20, 40, 60, alpha)
        visible_screen_stack.set([])
        compositor = stage.deck._compositor
        for _ in range(2):  # the second time from what the strips keep
            strips = dimmed(compositor, colour, crop)
            lines = [strip.crop(*crop.column_span) for strip in compositor.render_strips()]
            wanted = [lines[y] for y in crop.line_range]
            assert len(strips) == crop.height
            for strip, line in zip(strips, wanted, strict=True):
                theirs = list(BackgroundScreen.process_segments(line, colour))
                assert cells(list(strip)) == cells(theirs)


async def test_a_dimmed_screen_that_is_not_as_large_yet_ends_in_blanks() -> None:
    async with on_stage(long_kernel()) as stage:
        strips = dimmed(stage.deck._compositor, Color(20, 40, 60, 0.4), Region(118, 38, 4, 4))
        assert [strip.cell_length for strip in strips] == [4] * 4
        assert [strip.text for strip in strips[2:]] == ["    "] * 2


def keeps_itself(strip: Strip) -> bool:
    return any(strip is piece for pieces in strip._divide_cache._cache.values() for piece in pieces)


async def test_a_row_that_needs_no_cut_does_not_keep_itself() -> None:
    async with on_stage(long_kernel()) as stage:
        await stage.resize(200, 60)
        compositor = stage.deck._compositor
        whole = compositor.size.region
        visible_screen_stack.set([])
        for render, wanted in ((compositor._render_chops, False), (textuals(compositor), True)):
            rows = render(whole, whole.line_range.__contains__)
            strips = [strip for row in rows for strip in row.values()]
            assert len(strips) > 60
            assert any(map(keeps_itself, strips)) == wanted


def textuals(compositor: Compositor) -> Any:
    return partial(Compositor._render_chops, compositor)


class Watched(Strip):
    __slots__ = ("__weakref__",)


async def test_a_painted_row_that_is_gone_needs_no_look_for_garbage() -> None:
    async with on_stage(long_kernel()) as stage:
        pane = stage.deck.panes["source"]
        assert isinstance(pane, LineView)
        rows = []
        for number in range(2 * CACHED_ROWS):
            strip = Watched([])
            rows.append(weakref.ref(strip))
            pane._keep(10_000 + number, (strip, Style()))
            del strip
        gc.disable()
        try:
            assert sum(row() is not None for row in rows) == CACHED_ROWS
            pane.repaint()
            assert all(row() is None for row in rows)
        finally:
            gc.enable()


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
