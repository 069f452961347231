"""The lines of the deck to write on: what becomes of them when the keys go elsewhere."""

from __future__ import annotations

import pytest
from textual.events import AppBlur, AppFocus

from akg_tui.core.phases import Phase

from .script import FakeHandle
from .stage import Stage, on_stage


def at_work() -> FakeHandle:
    handle = FakeHandle()
    handle.to_phase(Phase.EVAL, settled=2)
    return handle


async def to_another_window_and_back(stage: Stage, *, at_once: bool) -> None:
    stage.app.post_message(AppBlur())
    if not at_once:
        await stage.pull()
    stage.app.post_message(AppFocus())
    await stage.pull()


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("key", ["i", "slash", "a"])
async def test_a_line_stays_open_while_another_window_has_the_keys(key: str, at_once: bool) -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("1" if key == "a" else "2", key, *"un")
        await to_another_window_and_back(stage, at_once=at_once)
        await stage.press(*"roll")
        line = stage.deck.hint if key == "i" else stage.deck.prompt
        assert line.display
        assert (line.has_focus, line.value) == (True, "unroll")
        assert "unroll" in stage.text(), "what is typed is seen"


async def test_a_line_is_left_by_going_to_another_pane() -> None:
    async with on_stage(at_work()) as stage:
        await stage.press("i", *"un")
        await to_another_window_and_back(stage, at_once=False)
        await stage.pilot.click("#chart")
        await stage.pull()
        assert not stage.deck.hint.display
        await stage.press("i")
        assert stage.deck.hint.value == "un"
