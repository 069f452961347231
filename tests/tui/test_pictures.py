"""The screens as pictures: few, because a new Textual may move every pixel of them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from textual.pilot import Pilot

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.machine import Mode, Phase
from akg_tui.core.measurement import Interval, Progress
from akg_tui.tui.app import WorkbenchApp

from .script import FakeHandle
from .stage import workbench


def under_evaluation() -> FakeHandle:
    handle = FakeHandle()
    handle.to_phase(Phase.EVAL, settled=7)
    blob = handle.state.work_blob
    assert handle.send(cmd.StartEval(ev.Purpose.CANDIDATE, 8, blob)) is None
    handle.live.show("candidate evaluation")
    handle.live.report(Progress("time", 5, 8, ratio=Interval(0.97, 0.93, 1.02, 0.95)))
    handle.now += 5
    return handle


def asking() -> FakeHandle:
    handle = FakeHandle(mode=Mode.REVIEW)
    handle.work()
    while handle.state.gate is not None and handle.state.gate.attempt < 7:
        handle.send(cmd.AnswerGate(handle.state.gate.gate, approve=True))
        handle.work()
    assert handle.state.gate is not None
    return handle


def settled(handle: FakeHandle, *keys: str) -> Any:
    """What a picture waits for: the run opened, colours in, the card armed."""

    async def before(pilot: Pilot[int]) -> None:
        app = pilot.app
        assert isinstance(app, WorkbenchApp)
        for key in ("", *keys):
            if key:
                await pilot.press(key)
            for _ in range(2):
                app.pull_now()
                await app.workers.wait_for_complete()
                await pilot.pause()
        handle.now += 1.0
        app.pull_now()
        await pilot.pause()

    return before


@pytest.mark.parametrize(
    "size", [(120, 40), (80, 24), (200, 60)], ids=["120x40", "80x24", "200x60"]
)
def test_deck(snap_compare: Any, size: tuple[int, int]) -> None:
    handle = under_evaluation()
    assert snap_compare(workbench(handle), terminal_size=size, run_before=settled(handle))


def test_review(snap_compare: Any) -> None:
    handle = asking()
    assert snap_compare(workbench(handle), terminal_size=(120, 40), run_before=settled(handle, "r"))


def test_card(snap_compare: Any) -> None:
    handle = asking()
    assert snap_compare(workbench(handle), terminal_size=(80, 24), run_before=settled(handle))


def test_timeline(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    handle = FakeHandle()
    handle.work()
    keys = ("T", "shift+left", "shift+left", "shift+left")
    ready = settled(handle, *keys)
    assert snap_compare(workbench(handle), terminal_size=(120, 40), run_before=ready)
