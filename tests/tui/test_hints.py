"""Hints and their line, and the gates."""

from __future__ import annotations

import pytest
from textual.events import AppBlur, AppFocus

from akg_tui.core.phases import Gate

from .moments import at_work
from .stage import Stage, on_stage


async def test_gates_are_set_one_by_one_and_stand_beside_the_mode() -> None:
    async with on_stage(at_work(agent="claude")) as stage:
        await stage.press("M")
        assert "e ◦ off  edit" in stage.text()
        await stage.press("e", "p")
        assert "e ✓ on   edit" in stage.text()
        assert set(stage.handle.state.gates) == {Gate.EDIT, Gate.PLAN}
        await stage.press("p", "escape")
        assert stage.handle.state.gates == (Gate.EDIT,)
        assert "mode auto +edit" in stage.text()


async def to_another_window_and_back(stage: Stage, *, at_once: bool) -> None:
    stage.app.post_message(AppBlur())
    if not at_once:
        await stage.pull()
    stage.app.post_message(AppFocus())
    await stage.pull()


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_line_stays_open_while_another_window_has_the_keys(at_once: bool) -> None:
    async with on_stage(at_work(agent="claude")) as stage:
        for keys, line in (
            ("2 i", stage.deck.hint), ("2 slash", stage.deck.prompt), ("1 a", stage.deck.prompt)
        ):  # fmt: skip
            await stage.press(*keys.split(), *"un")
            await to_another_window_and_back(stage, at_once=at_once)
            await stage.press(*"roll")
            assert line.display
            assert (line.has_focus, line.value) == (True, "unroll")
            assert "unroll" in stage.text(), "what is typed is seen"
            await stage.press("escape")


async def test_a_line_is_left_by_going_to_another_pane() -> None:
    async with on_stage(at_work(agent="claude")) as stage:
        await stage.press("i", *"un")
        await to_another_window_and_back(stage, at_once=False)
        await stage.pilot.click("#chart")
        await stage.pull()
        assert not stage.deck.hint.display
        await stage.press("i")
        assert stage.deck.hint.value == "un"
