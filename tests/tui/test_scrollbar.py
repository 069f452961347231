"""The scroll bar of lines: Textual's own in looks and deeds, only sooner there."""

from __future__ import annotations

import pytest
from textual.geometry import Region
from textual.scrollbar import ScrollBar

from akg_tui.tui.panes.source import SourcePane
from akg_tui.tui.widgets.line_view import AlikeScrollBar

from .script import FakeHandle
from .stage import Stage, on_stage


def long_kernel() -> FakeHandle:
    lines = "".join(f"    y{n} = x[{n}]\n" for n in range(700))
    return FakeHandle(kernel=f"class ModelNew:\n{lines}")


def bar_of(stage: Stage) -> tuple[SourcePane, AlikeScrollBar]:
    pane = stage.deck.panes["source"]
    assert isinstance(pane, SourcePane)
    bar = pane.vertical_scrollbar
    assert isinstance(bar, AlikeScrollBar)
    return pane, bar


@pytest.mark.parametrize("glyphs", ["unicode", "ascii"])
@pytest.mark.parametrize("theme", ["ember", "paper", "ansi16"])
async def test_every_row_is_textuals_own_in_letter_and_style(theme: str, glyphs: str) -> None:
    async with on_stage(long_kernel()) as stage:
        stage.app.wear(theme)
        stage.app.action_glyphs_named(glyphs)
        await stage.pull()
        pane, bar = bar_of(stage)
        for row in (0, 1, 7, 350, 699):
            pane.to_row(row)
            whole = Region(0, 0, bar.size.width, bar.size.height)
            for crop in (whole, Region(0, 3, bar.size.width, 5)):
                bar._styles_cache.clear()
                bar._dirty_regions.add(whole)
                theirs = ScrollBar.render_lines(bar, crop)
                for mine, other in zip(bar.render_lines(crop), theirs, strict=True):
                    assert mine.text == other.text
                    assert [s.style for s in mine] == [s.style for s in other]


async def test_a_click_below_the_thumb_scrolls_on_and_one_above_it_back() -> None:
    async with on_stage(long_kernel()) as stage:
        pane, bar = bar_of(stage)
        assert pane.top == 0
        await stage.pilot.click(bar, offset=(0, bar.size.height - 1))
        await stage.pilot.wait_for_animation()
        await stage.pull()
        down = pane.top
        assert down > 0
        pane.to_row(600)
        await stage.pull()
        await stage.pilot.click(bar, offset=(0, 0))
        await stage.pilot.wait_for_animation()
        await stage.pull()
        assert pane.top < 600
