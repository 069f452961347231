"""Who looks elsewhere is told of requests, KEEPs, failures and the end, in the ways they chose."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Gate, Mode, Phase
from akg_tui.view.controls.approvals import requests
from akg_tui.view.controls.notification import Notifier
from akg_tui.view.controls.preferences import Notify, config_folder, preferences

from .script import FakeHandle
from .terminal import PtyTerminal

BELL, OSC_9 = "\x07", "\x1b]9;akg-tui: "
SOON_S = 3.0  # asserted where one second is promised, because the machine may be busy


class Told:
    """A notifier over a run, with what it sent."""

    def __init__(self, handle: FakeHandle, wanted: Notify | None = None) -> None:
        self.handle = handle
        self.codes: list[str] = []
        self.notifier = Notifier(self.codes.append, {"TERM": "xterm"})
        self.notifier.wanted = wanted or Notify()
        self.look(focused=True)

    def look(self, *, focused: bool = False) -> str:
        state, now = self.handle.state, self.handle.now
        asks = requests(state, now, (1, 1))
        self.codes.clear()
        self.notifier.look(asks, self.handle.records, state, focused=focused)
        return "".join(self.codes)


def titles(codes: str) -> list[str]:
    return re.findall(r"\x1b\]2;([^\x07]*)\x07", codes)


def test_a_keep_a_failure_and_the_end_are_told_once_with_the_figure_in_the_title() -> None:
    told = Told(FakeHandle())
    told.handle.to_phase(Phase.EDIT, settled=1)
    codes = told.look()
    assert titles(codes) == ["✓ KEEP row_softmax 1.31×"]
    assert f"{OSC_9}row_softmax: KEEP p1, faster: +31.0 %" in codes
    assert codes.endswith(BELL)
    assert told.look() == ""
    told.handle.tell(ev.ApiFailed(reason="the key was refused"))
    assert titles(told.look()) == ["✗ row_softmax"]
    told.handle.send(cmd.Unpause())
    told.handle.work()
    codes = told.look()
    assert titles(codes) == ["■ row_softmax 3.64×"]
    assert codes.count("\x07\x07") == 0 or codes.endswith(BELL)
    assert "the run is over: " in codes


@pytest.mark.parametrize(
    ("begin", "head"),
    [
        (lambda: FakeHandle(mode=Mode.REVIEW).to_phase(Phase.EVAL), "● KEEP? row_softmax 1.31×"),
        (lambda: gated(Gate.PLAN), "● PLAN? row_softmax"),
        (lambda: gated(Gate.EDIT), "● EDIT? row_softmax"),
    ],
    ids=["keep", "plan", "edit"],
)
def test_the_title_says_what_is_asked_and_goes_when_it_is_answered_elsewhere(
    begin: Callable[[], FakeHandle], head: str
) -> None:
    told = Told(begin())
    told.handle.work()
    assert titles(told.look()) == [head]
    told.handle.send(cmd.AnswerGate(1, approve=False))
    assert told.look() == "\x1b[23;2t"


def gated(gate: Gate) -> FakeHandle:
    handle = FakeHandle()
    handle.send(cmd.SetGate(gate, on=True))
    return handle


@pytest.mark.parametrize(
    ("wanted", "parts"),
    [
        (Notify(bell=False), {"title", "desktop"}),
        (Notify(desktop=False), {"title", "bell"}),
        (Notify(title=False), {"desktop", "bell"}),
        (Notify(bell=False, desktop=False, title=False), set()),
        (Notify(on=("keep", "fail", "end")), set()),
    ],
)
def test_each_way_and_each_kind_is_switched_off_by_itself(wanted: Notify, parts: set[str]) -> None:
    told = Told(FakeHandle(mode=Mode.REVIEW), wanted)
    told.handle.work()
    codes = told.look()
    sent = {
        "title": bool(titles(codes)),
        "desktop": OSC_9 in codes,
        "bell": codes.endswith(BELL) and told.codes[-1] == BELL,
    }
    assert {name for name, there in sent.items() if there} == parts


def test_with_focus_nothing_is_told_unless_the_user_wants_it_always() -> None:
    told = Told(FakeHandle(mode=Mode.REVIEW))
    told.handle.work()
    assert told.look(focused=True) == ""
    assert told.look() == "", "it was in sight"
    always = Told(FakeHandle(mode=Mode.REVIEW), Notify(always=True))
    always.handle.work()
    assert always.look(focused=True).endswith(BELL)


def test_what_was_there_before_the_run_was_opened_is_no_news() -> None:
    assert Told(FakeHandle().work()).look() == ""


def test_the_settings_are_read_from_the_file_and_faults_name_the_line() -> None:
    path = config_folder() / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('[notify]\nbell = false\non = ["ask", "end"]\ntitle = 3\ncolour = true\n')
    found = preferences(environment=os.environ)
    assert found.notify == Notify(bell=False, on=("ask", "end"))
    assert found.faults == (
        f"{path}:5: notify.colour: is not a known field, expected one of: "
        "bell, desktop, title, always, on",
        f"{path}:4: notify.title: 3 is not allowed, expected true or false",
    )
    path.write_text('[notify]\non = ["never"]\n')
    assert preferences().faults == (
        f"{path}:2: notify.on.0: 'never' is unknown, expected one of: ask, keep, fail, end",
    )


STAGED = """
import signal, sys, time
from pathlib import Path
from akg_tui.core.phases import Mode, Phase
from akg_tui.tui.app import WorkbenchApp
from tests.tui.script import FakeHandle

handle = FakeHandle(mode=Mode.REVIEW, path=str(Path.cwd())).to_phase(Phase.EVAL)
async def open_run():
    return handle
began = time.monotonic()
signal.signal(signal.SIGUSR1, lambda *_: handle.work())
WorkbenchApp.watch_app_focus = lambda app, focus: Path("focus").write_text(str(focus)) and None
WorkbenchApp(open_run, clock=lambda: handle.now + time.monotonic() - began).run()
"""


def test_a_terminal_without_focus_gets_the_notice_at_once(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    terminal = PtyTerminal([sys.executable, "-c", STAGED], tmp_path, PYTHONPATH=root)
    try:
        terminal.wait("mode review")
        terminal.until(lambda: b"\x1b[?1004h" in terminal.written, "focus is reported")
        terminal.write("\x1b[O")
        focus = tmp_path / "focus"
        terminal.until(lambda: focus.exists() and focus.read_text() == "False", "the lost focus")
        mark = len(terminal.written)
        began = time.monotonic()
        os.kill(terminal.pid, signal.SIGUSR1)
        wanted = ("\x1b]2;● KEEP? row_softmax 1.31×\x07", f"{OSC_9}DECIDE asks: KEEP attempt 1?")
        terminal.until(
            lambda: all(each.encode() in terminal.written[mark:] for each in wanted), "the notice"
        )
        assert time.monotonic() - began < SOON_S
        assert terminal.title == "● KEEP? row_softmax 1.31×", "pyte reads it too"
    finally:
        terminal.close()
