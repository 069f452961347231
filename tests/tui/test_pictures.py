"""The screens as pictures: few, because a new Textual may move every pixel of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.measurement import Interval, Progress
from akg_tui.core.phases import Mode, Phase
from akg_tui.tui.app import WorkbenchApp
from akg_tui.view.controls.preferences import Preferences
from benchmarks.gallery import pictures as gallery
from benchmarks.gallery import recorded_run

from .script import FakeHandle
from .stage import workbench

RECORDED = Path(__file__).parents[1] / "recorded"


def under_evaluation() -> FakeHandle:
    handle = FakeHandle().to_phase(Phase.EVAL, settled=7)
    blob = handle.state.work_blob
    assert handle.send(cmd.StartEval(ev.Purpose.CANDIDATE, 8, blob)) is None
    handle.live.show("candidate evaluation")
    handle.live.report(Progress("time", 5, 8, ratio=Interval(0.97, 0.93, 1.02, 0.95)))
    handle.now += 5
    return handle


def asking() -> FakeHandle:
    handle = FakeHandle(mode=Mode.REVIEW).work()
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
            await gallery.settled(app, pilot)
        handle.now += 1.0
        app.pull_now()
        await pilot.pause()

    return before


# Two themes, and Chinese.
LOOKS = {
    "ember": Preferences(theme="ember"),
    "paper": Preferences(theme="paper"),
    "zh": Preferences(lang="zh"),
}
in_each_look = pytest.mark.parametrize("look", LOOKS)


def dressed(handle: FakeHandle, look: str) -> WorkbenchApp:
    async def open_run() -> FakeHandle:
        return handle

    return WorkbenchApp(open_run, wanted=LOOKS[look], clock=handle.clock)


@in_each_look
@pytest.mark.parametrize(
    "size", [(120, 40), (80, 24), (200, 60)], ids=["120x40", "80x24", "200x60"]
)
def test_deck(snap_compare: Any, size: tuple[int, int], look: str) -> None:
    handle = under_evaluation()
    app = dressed(handle, look)
    assert snap_compare(app, terminal_size=size, run_before=settled(handle))


@in_each_look
def test_review(snap_compare: Any, look: str) -> None:
    handle = asking()
    app = dressed(handle, look)
    assert snap_compare(app, terminal_size=(120, 40), run_before=settled(handle, "r"))


@in_each_look
def test_card(snap_compare: Any, look: str) -> None:
    handle = asking()
    app = dressed(handle, look)
    assert snap_compare(app, terminal_size=(80, 24), run_before=settled(handle))


@in_each_look
def test_runs(
    snap_compare: Any, look: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path.resolve()))
    recordings = [recorded_run.read(path) for path in sorted(RECORDED.glob("*.zip"))]
    folder = gallery.run_folders(recordings, tmp_path.resolve())
    now = max(recording.records[-1].at for recording in recordings) + 720
    app = WorkbenchApp(None, browse=folder, wanted=LOOKS[look], clock=lambda: now)

    async def before(pilot: Pilot[int]) -> None:
        await gallery.settled(app, pilot)
        await pilot.press("down")
        await gallery.settled(app, pilot)

    assert snap_compare(app, terminal_size=(120, 40), run_before=before)


def test_timeline(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    handle = FakeHandle().work()
    keys = ("T", "shift+left", "shift+left", "shift+left")
    ready = settled(handle, *keys)
    assert snap_compare(workbench(handle), terminal_size=(120, 40), run_before=ready)
