"""Bell, title and desktop note: only for who looks elsewhere, and once for each question."""

from __future__ import annotations

import pytest
from textual.events import AppBlur, AppFocus

from akg_tui.core import commands as cmd
from akg_tui.core.phases import Mode, Phase
from akg_tui.view.controls.notification import note, title

from .script import FakeHandle, Try, faster
from .stage import Stage, on_stage


def heard(stage: Stage) -> list[str]:
    """What the terminal is told from now on."""
    codes: list[str] = []
    stage.app.attention._write = codes.append
    return codes


async def test_a_focused_terminal_is_left_in_peace() -> None:
    handle = FakeHandle(mode=Mode.REVIEW)
    handle.to_phase(Phase.EVAL)
    async with on_stage(handle) as stage:
        codes = heard(stage)
        handle.work()
        await stage.pull()
        assert "KEEP attempt 1?" in stage.text()
    assert codes == []


async def test_who_looks_elsewhere_is_called_once_and_the_title_is_given_back() -> None:
    handle = FakeHandle(mode=Mode.REVIEW)
    handle.to_phase(Phase.EVAL)
    async with on_stage(handle) as stage:
        codes = heard(stage)
        stage.app.post_message(AppBlur())
        await stage.pilot.pause()
        await stage.pull()
        assert codes == [], "nothing waits yet"
        handle.work()
        await stage.pull()
        await stage.pull()
        assert codes.count("\x07") == 1
        told = "".join(codes)
        assert "\x1b]2;DECIDE asks: KEEP attempt 1?\x07" in told
        assert "akg-tui: DECIDE asks: KEEP attempt 1?" in told
        stage.app.post_message(AppFocus())
        await stage.pilot.pause()
        await stage.pull()
        await stage.pull()
        assert codes[-1] == "\x1b[23;2t"


async def test_the_next_question_calls_again() -> None:
    handle = FakeHandle(mode=Mode.REVIEW)
    handle.work()
    async with on_stage(handle) as stage:
        codes = heard(stage)
        stage.app.post_message(AppBlur())
        await stage.pilot.pause()
        await stage.pull()
        assert codes == [], "it was in sight before the terminal lost the focus"
        handle.send(cmd.AnswerGate(1, approve=False))
        handle.work()
        await stage.pull()
        assert "KEEP attempt 2?" in "".join(codes)


async def test_rubbish_of_the_agent_cannot_speak_to_the_terminal() -> None:
    plans = [[Try("item", '"-O1"  #', '"-O3"  #', faster(1.3))]]
    handle = FakeHandle(mode=Mode.REVIEW, plans=plans)
    handle.to_phase(Phase.PLAN)
    async with on_stage(handle) as stage:
        codes = heard(stage)
        stage.app.post_message(AppBlur())
        await stage.pilot.pause()
        await stage.pull()
        assert handle.send(cmd.AskUser("say \x1b]2;mine\x07 yes \x9c; or")) is None
        await stage.pull()
        told = "".join(codes)
        assert "say ␛]2;mine␇ yes" in told
        assert "\x1b]2;mine" not in told
        assert told.count("\x07") == 3, "the title's, the note's and the bell"


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({"TERM": "xterm-kitty"}, "\x1b]9;akg-tui: a, b\x07"),
        ({"TERM": "foot"}, "\x1b]777;notify;akg-tui;a, b\x07"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7600"}, "\x1b]777;notify;akg-tui;a, b\x07"),
        ({"TERM": "tmux", "TMUX": "/x"}, "\x1bPtmux;\x1b\x1b]9;akg-tui: a, b\x07\x1b\\"),
    ],
)
def test_each_terminal_is_told_in_its_own_code(environment: dict[str, str], code: str) -> None:
    assert note("a; b", environment) == code


def test_a_title_is_bounded() -> None:
    assert len(title("x" * 10_000)) < 200
