"""What the workbench tells a person: in one row for a moment, and whole for as long as it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from textual.events import AppBlur
from textual.worker import WorkerFailed

from akg_tui.core import commands as cmd
from akg_tui.core.phases import Mode, Phase
from akg_tui.engine.run_scanner import RunScanner
from akg_tui.store.errors import HistoryError
from akg_tui.tui import messages
from akg_tui.tui.app import OPENING, WorkbenchApp
from akg_tui.tui.messages import Notices
from akg_tui.tui.screens.dialogs import Reading
from akg_tui.tui.screens.review import Review
from akg_tui.tui.screens.rounds import Rounds
from akg_tui.tui.time_travel_actions import TimeTravel
from akg_tui.tui.widgets.footer import MESSAGE_S, told_line
from akg_tui.view.code_rows import Colours
from akg_tui.view.controls.notification import note, title
from akg_tui.view.spans import Line, cells, plain

from .moments import at_work, keeping, over
from .script import FakeHandle, Try, faster
from .stage import Stage, on_stage

WRITTEN = f"written: /tasks/{'a-long-name/' * 12}runs/20260701-1200-row-softmax/exports/source.svg"


def read_again(app: WorkbenchApp) -> Sequence[Line]:
    """The rows of the screen with what was told."""
    assert isinstance(app.screen, Reading)
    return app.screen.view.rows


async def test_what_was_told_is_read_again_whole() -> None:
    async with on_stage(at_work(2)) as stage:
        stage.app.say(WRITTEN)
        stage.app.say("the run goes on")
        stage.handle.now += MESSAGE_S + 1
        await stage.pull()
        assert "the run goes on" not in stage.text()
        for size in ((120, 40), (50, 12)):
            await stage.resize(*size)
            await stage.command("messages")
            rows = read_again(stage.app)
            whole = "".join(plain(row).strip() for row in rows).replace(" ", "")
            assert whole.index(WRITTEN.replace(" ", "")) < whole.index("therungoeson")
            assert "the run goes on" in stage.text()
            await stage.press("escape")
            assert stage.app.screen is stage.deck


async def test_the_letters_of_a_search_and_of_a_chord_are_no_messages() -> None:
    async with on_stage(at_work(2)) as stage:
        await stage.press("2", "slash", *"xyzzy")
        assert "not found: xyzzy" in stage.text()
        await stage.press("escape")
        stage.app.action_chord("ctrl+x")
        stage.app.chords.pending = ""
        assert stage.app.notices.text() == ""
        await stage.command("messages")
        assert "Nothing was told yet." in stage.text()


async def test_a_terminal_without_room_for_a_footer_tells_it_too() -> None:
    async with on_stage(at_work(2), (50, 12)) as stage:
        assert "50×12 is small" in stage.text()
        await stage.press("w")
        row = stage.text().split("\n")[-1]
        assert "seen from 100×30 on" in row
        stage.handle.now += MESSAGE_S + 1
        await stage.pull()
        assert "50×12 is small" in stage.text()


@pytest.mark.parametrize("room", [200, 160, 120, 80, 60, 41, 20, 3])
def test_of_a_path_the_middle_is_left_out_and_a_cut_message_says_how_to_read_it(room: int) -> None:
    row = plain(told_line(WRITTEN, room))
    assert cells(row) <= room
    if cells(WRITTEN) < room:
        assert row == f" {WRITTEN}"
    if 41 <= room < cells(WRITTEN):
        assert row.startswith(" written: /tasks")
        assert row.endswith("source.svg  :messages")


def test_a_cut_message_without_a_path_loses_its_end() -> None:
    row = plain(told_line("nothing of this is a path " * 5, 60))
    assert row.startswith(" nothing of this is a path nothing")
    assert row.endswith("…  :messages")
    assert cells(row) <= 60


def test_the_newest_are_kept_and_what_is_said_again_at_once_is_one() -> None:
    kept = Notices()
    for number in range(3 * messages.MOST):
        kept.keep(f"told {number}", 10.0 * number)
        kept.keep(f"told {number}", 10.0 * number + 1)
    lines = kept.text().split("\n")
    assert len(lines) == messages.MOST
    assert lines[0].endswith(f"told {2 * messages.MOST}")
    assert lines[-1].endswith(f"told {3 * messages.MOST - 1}")
    kept.keep("told again", 10.0)
    kept.keep("told again", 30.0)
    assert kept.text().count("told again") == 2


LOST = "objects/ab/cdef: the kernel cannot be read"


def unreadable(blob: str) -> str:
    raise HistoryError(LOST)


def unparsed(colours: Colours, text: str, *files: object) -> object:
    raise RuntimeError("the parser is ill")


async def test_a_kernel_that_cannot_be_copied_is_told_and_the_run_goes_on(
    faults: list[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_stage(over()) as stage:
        monkeypatch.setattr(stage.handle, "kernel", unreadable)
        await stage.command("copy kernel")
        assert f"not done: {LOST}" in stage.text()
        assert stage.app._exception is None
        assert [type(each) for each in faults] == [HistoryError]
        faults.clear()


@pytest.mark.parametrize("where", ["action", "worker"])
async def test_a_mistake_of_the_workbench_itself_is_told_with_the_key_to_its_traceback(
    where: str,
    faults: list[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError("no share of nothing is")

    monkeypatch.setattr(TimeTravel, "action_undo", broken)
    async with on_stage(over()) as stage:
        if where == "action":
            await stage.press("u")
        else:
            stage.app.run_worker(broken(), name="report")
            await stage.pilot.pause()
        assert "not done: no share of nothing is; E shows where it went wrong" in stage.text()
        await stage.press("3")
        assert stage.deck.active == "chart", "the next key is taken as ever"
        assert stage.app._exception is None
    assert "in broken" in capfd.readouterr().err
    assert [type(each) for each in faults] == [ZeroDivisionError]
    faults.clear()


async def test_without_what_opens_the_run_there_is_nothing_to_go_on_with() -> None:
    async def broken() -> None:
        raise ZeroDivisionError("no share of nothing is")

    async def opens() -> None:
        async with on_stage(over()) as stage:
            stage.app.run_worker(broken(), name=OPENING)
            await stage.pilot.pause()

    with pytest.raises(WorkerFailed):
        await opens()


async def test_a_round_that_cannot_be_read_is_told_and_the_others_are_still_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = over()
    read = handle.kernel
    lost = handle.state.attempts[-1]

    def some(blob: str) -> str:
        return unreadable(blob) if blob == lost.blob else read(blob)

    async with on_stage(handle) as stage:
        monkeypatch.setattr(handle, "kernel", some)
        await stage.press("v")
        rounds = stage.app.screen
        assert isinstance(rounds, Rounds)
        assert LOST in stage.text()
        assert f"round {lost.round}" in stage.text()
        await stage.press("left")
        assert LOST not in stage.text()
        assert not rounds.view.broken
        await stage.press("escape")
        assert stage.app.screen is stage.deck


async def test_a_key_of_the_deck_says_so_where_the_deck_is_not() -> None:
    async with on_stage(over()) as stage:
        await stage.press("v")
        for key in "Tuv":
            stage.app.say("")
            await stage.press(key)
            assert isinstance(stage.app.screen, Rounds)
            assert "that is for the deck: esc leads there" in stage.text()


@pytest.mark.parametrize(("key", "screen"), [("r", Review), ("v", Rounds)])
async def test_kernels_that_cannot_be_coloured_are_compared_without(
    monkeypatch: pytest.MonkeyPatch, key: str, screen: type[Review | Rounds]
) -> None:
    async with on_stage(keeping() if key == "r" else over()) as stage:
        monkeypatch.setattr(Colours, "lex", unparsed)
        monkeypatch.setattr(Colours, "of", lambda colours, blob: None)
        await stage.press(key)
        assert isinstance(stage.app.screen, screen)
        assert "without colours: RuntimeError: the parser is ill" in stage.text()
        assert "FLAGS" in stage.text()
        assert stage.app._exception is None


async def test_a_folder_of_runs_that_goes_and_comes_back_is_followed(tmp_path: Path) -> None:
    folder, away = tmp_path / "runs", tmp_path / "away"
    (folder / "one").mkdir(parents=True)
    (folder / "one" / "events.jsonl").write_text("nothing yet\n")
    catalogue = RunScanner(folder)

    async def until(true: object) -> None:
        assert callable(true)
        async with asyncio.timeout(20):
            while not true():
                catalogue.refresh()
                await asyncio.sleep(0.01)

    catalogue.start()
    try:
        await until(lambda: catalogue.many == 1)
        folder.rename(away)
        await until(lambda: "is not a folder" in catalogue.trouble)
        assert (catalogue.many, catalogue.unread) == (0, 0)
        away.rename(folder)
        await until(lambda: catalogue.many == 1 and not catalogue.trouble)
    finally:
        catalogue.stop()


def heard(stage: Stage) -> list[str]:
    """What the terminal is told from now on."""
    codes: list[str] = []
    stage.app.attention._write = codes.append
    return codes


async def looks_elsewhere(stage: Stage) -> None:
    stage.app.post_message(AppBlur())
    await stage.pilot.pause()
    await stage.pull()


async def test_rubbish_of_the_agent_cannot_speak_to_the_terminal() -> None:
    plans = [[Try("item", '"-O1"  #', '"-O3"  #', faster(1.3))]]
    async with on_stage(FakeHandle(mode=Mode.REVIEW, plans=plans).to_phase(Phase.PLAN)) as stage:
        codes = heard(stage)
        await looks_elsewhere(stage)
        assert stage.handle.send(cmd.AskUser("say \x1b]2;mine\x07 yes \x9c; or")) is None
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
