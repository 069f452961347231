"""What is left of every screen without colour, without Unicode, with little motion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.widgets import Input

from akg_tui.core.phases import Mode
from akg_tui.tui.pull_clock import SLOWEST, Pace
from akg_tui.tui.themes import NoColour
from akg_tui.view.glyphs import ascii_twin

from .script import FakeHandle
from .stage import Stage, on_stage
from .test_pictures import under_evaluation


def asking() -> FakeHandle:
    handle = FakeHandle(mode=Mode.REVIEW)
    handle.work()
    return handle


async def every_screen(stage: Stage) -> list[str]:
    shown = []
    for keys in ((), ("question_mark",), ("colon", "t"), ("r",)):
        await stage.press(*keys)
        shown.append(stage.text())
        await stage.press("escape")
    return shown


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_with_ascii_signs_no_screen_holds_anything_else(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AKG_TUI_GLYPHS", "ascii")
    async with on_stage(asking(), size) as stage:
        await stage.arm()
        for shown in await every_screen(stage):
            assert shown.isascii(), next(c for c in shown if not c.isascii())
            assert {len(row) for row in shown.split("\n")} == {size[0]}
            assert "+-" in shown


async def test_ascii_signs_can_be_put_on_and_off_live() -> None:
    async with on_stage(under_evaluation()) as stage:
        await stage.press("colon", *"glyphs ascii", "enter")
        assert stage.text().isascii()
        assert "v p1 FLAGS = -O3" in stage.text()
        await stage.press("colon", *"glyphs unicode", "enter")
        assert "✓ p1 FLAGS = -O3" in stage.text()


@given(st.text(st.characters(exclude_categories=["C", "Zl", "Zp", "M"]), max_size=40))
def test_an_ascii_twin_is_as_wide_as_its_text(text: str) -> None:
    twin = ascii_twin(text)
    assert twin.isascii()
    assert len(twin) == cell_len(text)


def colours_of(stage: Stage) -> set[str]:
    return {
        str(colour)
        for strip in stage.app.screen._compositor.render_strips()
        for segment in strip
        if segment.style
        for colour in (segment.style.color, segment.style.bgcolor)
        if colour is not None and not colour.is_default
    }


@pytest.mark.parametrize("theme", ["ember", "paper", "ansi16"])
async def test_with_no_color_not_one_colour_is_sent(
    theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("AKG_TUI_THEME", theme)
    async with on_stage(asking()) as stage:
        await stage.arm()
        for keys in ((), ("question_mark",), ("colon", "t"), ("r",)):
            await stage.press(*keys)
            assert colours_of(stage) == set()
            await stage.press("escape")
        attributes = {
            (bool(s.style.bold), bool(s.style.reverse))
            for strip in stage.app.screen._compositor.render_strips()
            for s in strip
            if s.style
        }
        assert len(attributes) >= 3, "weight and reverse video still tell things apart"


def test_a_ground_that_stands_out_becomes_reverse_video_once() -> None:
    dark = Color.parse("#101010")

    def reversed_(style: str) -> bool:
        (segment,) = NoColour().apply([Segment("x", Style.parse(style))], dark)
        assert segment.style is not None
        return bool(segment.style.reverse)

    assert reversed_("bold #101010 on #ff9e4f")
    assert reversed_("reverse #ff9e4f")
    assert not reversed_("#ffffff on #1c1815")
    assert not reversed_("reverse #101010 on #ff9e4f")


def test_with_reduced_motion_the_clock_pulls_at_its_slowest_from_the_start() -> None:
    full, reduced = Pace(), Pace()
    reduced.reduced = True
    assert sum(full.tick(0.0, 0) for _ in range(240)) == 240
    assert sum(reduced.tick(0.0, 0) for _ in range(240)) == 240 // SLOWEST


async def test_reduced_motion_reaches_clock_animations_and_cursor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AKG_TUI_MOTION", "reduced")
    async with on_stage(FakeHandle()) as stage:
        assert stage.app.clock.pace.reduced
        assert stage.app.animation_level == "none"
        await stage.press("i")
        assert stage.app.focused is not None
        assert not stage.deck.query_one("#hint", Input).cursor_blink
        await stage.press("escape", "colon", *"motion full", "enter")
        assert not stage.app.clock.pace.reduced
