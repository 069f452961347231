"""Pictures of what frames the run, and of popouts, in two themes and in Chinese."""

from __future__ import annotations

from typing import Any

import pytest

from akg_tui.tui.app import WorkbenchApp
from akg_tui.view.controls.preferences import Preferences

from . import errands
from .script import FakeHandle
from .test_pictures import settled, under_evaluation


def dressed(handle: FakeHandle, **wanted: str) -> WorkbenchApp:
    async def open_run() -> FakeHandle:
        return handle

    return WorkbenchApp(open_run, wanted=Preferences(**wanted), clock=handle.clock)


@pytest.mark.parametrize("look", ["ember", "chalk", "zh"])
def test_help(snap_compare: Any, look: str) -> None:
    handle = under_evaluation()
    wanted = {"lang": "zh"} if look == "zh" else {"theme": look}
    app = dressed(handle, **wanted)
    before = settled(handle, "question_mark")
    assert snap_compare(app, terminal_size=(120, 40), run_before=before)


@pytest.mark.parametrize("look", ["tide", "ansi16"])
def test_command_line(snap_compare: Any, look: str) -> None:
    handle = under_evaluation()
    before = settled(handle, "colon", "c", "o", "tab")
    app = dressed(handle, theme=look, motion="reduced")  # a cursor that blinks is two pictures
    assert snap_compare(app, terminal_size=(80, 24), run_before=before)


@pytest.mark.parametrize("glyphs", ["ascii"])
def test_deck_in_ascii(snap_compare: Any, glyphs: str) -> None:
    handle = under_evaluation()
    app = dressed(handle, glyphs=glyphs, theme="okabe")
    assert snap_compare(app, terminal_size=(120, 40), run_before=settled(handle))


@pytest.mark.parametrize("look", ["ember", "chalk", "zh"])
def test_popout_drawer(snap_compare: Any, look: str) -> None:
    handle = errands.at_work()
    app = dressed(handle, **({"lang": "zh"} if look == "zh" else {"theme": look}))
    before = settled(handle, "7", "down", "down", "enter", "up", "up", "enter")
    assert snap_compare(app, terminal_size=(120, 40), run_before=before)


@pytest.mark.parametrize("look", ["ember", "chalk"])
def test_popout_full(snap_compare: Any, look: str) -> None:
    handle = errands.at_work()
    before = settled(handle, "7", "down", "down", "O")
    app = dressed(handle, theme=look)
    assert snap_compare(app, terminal_size=(120, 40), run_before=before)
