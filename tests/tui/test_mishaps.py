"""What goes wrong outside the panes: it is told where the person looks, and all goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.worker import WorkerFailed

from akg_tui.core.phases import Mode
from akg_tui.store.errors import HistoryError
from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.fault_messages import OPENING
from akg_tui.tui.screens.review import Review
from akg_tui.tui.screens.rounds import Rounds
from akg_tui.view.code_rows import Colours
from akg_tui.view.runs import RunScanner

from .script import FakeHandle
from .stage import on_stage

LOST = "objects/ab/cdef: the kernel cannot be read"


def unreadable(blob: str) -> str:
    raise HistoryError(LOST)


def unparsed(colours: Colours, text: str) -> object:
    raise RuntimeError("the parser is ill")


def worked(mode: Mode = Mode.AUTO) -> FakeHandle:
    """Over, or at the first candidate that waits for a review."""
    handle = FakeHandle(mode=mode)
    handle.work()
    return handle


async def test_a_kernel_that_cannot_be_copied_is_told_and_the_run_goes_on(
    mishaps: list[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = worked()
    async with on_stage(handle) as stage:
        monkeypatch.setattr(handle, "kernel", unreadable)
        await stage.press("colon", *"copy kernel", "enter")
        assert f"not done: {LOST}" in stage.text()
        assert stage.app._exception is None
        assert [type(each) for each in mishaps] == [HistoryError]
        mishaps.clear()


async def test_a_mistake_of_the_workbench_itself_is_told_with_the_key_to_its_traceback(
    mishaps: list[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def broken(app: WorkbenchApp) -> None:
        raise ZeroDivisionError("no share of nothing is")

    monkeypatch.setattr(WorkbenchApp, "action_undo", broken)
    async with on_stage(worked()) as stage:
        await stage.press("u")
        assert "not done: no share of nothing is; E shows where it went wrong" in stage.text()
        await stage.press("3")
        assert stage.deck.active == "chart", "the next key is taken as ever"
    assert "in broken" in capfd.readouterr().err
    mishaps.clear()


async def test_what_breaks_in_the_background_is_told_and_the_run_goes_on(
    mishaps: list[BaseException], capfd: pytest.CaptureFixture[str]
) -> None:
    async def broken() -> None:
        raise ZeroDivisionError("no share of nothing is")

    async with on_stage(worked()) as stage:
        stage.app.run_worker(broken(), name="report")
        await stage.pilot.pause()
        assert "not done: no share of nothing is; E shows where it went wrong" in stage.text()
        await stage.press("3")
        assert stage.deck.active == "chart", "the next key is taken as ever"
        assert stage.app._exception is None
    assert "in broken" in capfd.readouterr().err
    assert [type(each) for each in mishaps] == [ZeroDivisionError]
    mishaps.clear()


async def test_without_what_opens_the_run_there_is_nothing_to_go_on_with() -> None:
    async def broken() -> None:
        raise ZeroDivisionError("no share of nothing is")

    async def opens() -> None:
        async with on_stage(worked()) as stage:
            stage.app.run_worker(broken(), name=OPENING)
            await stage.pilot.pause()

    with pytest.raises(WorkerFailed):
        await opens()


async def test_a_round_that_cannot_be_read_is_told_and_the_others_are_still_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = worked()
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


@pytest.mark.parametrize("key", ["T", "u", "v"])
async def test_a_key_of_the_deck_says_so_where_the_deck_is_not(key: str) -> None:
    async with on_stage(worked()) as stage:
        await stage.press("v", key)
        assert isinstance(stage.app.screen, Rounds)
        assert "that is for the deck: esc leads there" in stage.text()


@pytest.mark.parametrize(("key", "screen"), [("r", Review), ("v", Rounds)])
async def test_kernels_that_cannot_be_coloured_are_compared_without(
    monkeypatch: pytest.MonkeyPatch, key: str, screen: type[Review | Rounds]
) -> None:
    async with on_stage(worked(Mode.REVIEW if key == "r" else Mode.AUTO)) as stage:
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
