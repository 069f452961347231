"""The screens as pictures: few, because a new Textual may move every pixel of them.

Each screen once; the deck at three sizes, and screens shared among themes, signs and Chinese.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from akg_tui.core import commands as cmd
from akg_tui.core.phases import Mode
from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.screens.deck import Deck
from akg_tui.view.controls.preferences import Preferences
from benchmarks.gallery import pictures as gallery

from . import errands
from .listing import recorded_runs
from .moments import at_work, over, under_evaluation
from .script import FakeHandle
from .stage import shown
from .test_evidence_panes import Answers

SMALL, USUAL, LARGE = (80, 24), (120, 40), (200, 60)


def asking() -> FakeHandle:
    handle = FakeHandle(mode=Mode.REVIEW).work()
    while handle.state.gate is not None and handle.state.gate.attempt < 7:
        handle.send(cmd.AnswerGate(handle.state.gate.gate, approve=True))
        handle.work()
    assert handle.state.gate is not None
    return handle


def preferred(look: str) -> Preferences:
    """A theme, `zh`, or `ascii`; without a cursor that blinks, which is two pictures."""
    if look == "zh":
        return Preferences(lang="zh", motion="reduced")
    if look == "ascii":
        return Preferences(glyphs="ascii", theme="okabe", motion="reduced")
    return Preferences(theme=look, motion="reduced")


FOUND = {"9": "hot loop"}  # what a pane shows once its evidence is there
SCENES: dict[str, tuple[Callable[[], FakeHandle], tuple[int, int], tuple[str, ...]]] = {
    "deck-80x24-ember": (under_evaluation, SMALL, ()),
    "deck-120x40-ember": (under_evaluation, USUAL, ()),
    "deck-200x60-ember": (under_evaluation, LARGE, ()),
    "deck-120x40-paper": (under_evaluation, USUAL, ()),
    "deck-120x40-zh": (under_evaluation, USUAL, ()),
    "deck-120x40-ascii": (under_evaluation, USUAL, ()),
    "review-ember": (asking, USUAL, ("r",)),
    "review-zh": (asking, USUAL, ("r",)),
    "card-paper": (asking, SMALL, ()),
    "timeline-ember": (over, USUAL, ("T", *("shift+left",) * 3)),
    "help-chalk": (under_evaluation, USUAL, ("question_mark",)),
    "help-zh": (under_evaluation, USUAL, ("question_mark",)),
    "line-tide": (under_evaluation, SMALL, ("colon", "c", "o", "tab")),
    "line-ansi16": (under_evaluation, SMALL, ("colon", "c", "o", "tab")),
    "subagent-chalk": (errands.at_work, USUAL, ("7", "down", "down", "enter", "up", "up", "enter")),
    "code-ember": (at_work, USUAL, ("9", "z")),
    "roofline-ember": (at_work, USUAL, ("0", "z")),
}


@pytest.mark.parametrize("name", SCENES)
def test_a_screen_looks_as_its_picture(
    snap_compare: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    begin, size, keys = SCENES[name]
    handle = begin()

    async def open_run() -> FakeHandle:
        return handle

    wanted = preferred(name.rpartition("-")[2])
    app = WorkbenchApp(open_run, wanted=wanted, clock=handle.clock)

    async def before(pilot: Pilot[int]) -> None:
        await gallery.settled(app, pilot)
        deck = next(screen for screen in app.screen_stack if isinstance(screen, Deck))
        Answers(deck)
        for key in keys:
            await pilot.press(key)
            await gallery.settled(app, pilot)
        while keys and FOUND.get(keys[0], "") not in shown(app):
            app.pull_now()
            await pilot.pause()
        await gallery.settled(app, pilot)
        handle.now += 1.0
        app.pull_now()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=before)


@pytest.mark.parametrize("look", ["paper", "zh"])
def test_the_list_of_runs_looks_as_its_picture(
    snap_compare: Any, look: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path.resolve()))
    folder, now = recorded_runs(tmp_path)
    app = WorkbenchApp(None, browse=folder, wanted=preferred(look), clock=lambda: now)

    async def before(pilot: Pilot[int]) -> None:
        await gallery.settled(app, pilot)
        await pilot.press("down")
        await gallery.settled(app, pilot)

    assert snap_compare(app, terminal_size=USUAL, run_before=before)
