"""The screens on which no run is open: what needs one says so, and the rest works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from akg_tui import resources
from akg_tui.core import commands as cmd
from akg_tui.core.decide import Rejected
from akg_tui.core.phases import Phase
from akg_tui.core.task import Act
from akg_tui.engine.trust import insist, trust_file
from akg_tui.store.errors import JournalWriteError
from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.screens.deck import Deck
from akg_tui.tui.screens.dialogs import Confirm, Leave
from tests.fresh_interpreter import printed

from .listing import recorded
from .script import FakeHandle, task
from .stage import on_stage, shown, workbench


async def test_the_first_frame_stands_before_the_run_is_opened() -> None:
    handle, gate = FakeHandle(), asyncio.Event()

    async def open_run() -> FakeHandle:
        await gate.wait()
        return handle

    app = WorkbenchApp(open_run, clock=handle.clock)
    async with app.run_test() as pilot:
        await pilot.pause()
        assert "opening the run" in shown(app)
        gate.set()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert isinstance(app.screen, Deck)


async def test_a_run_that_cannot_be_opened_is_told_and_leaves_with_two() -> None:
    async def open_run() -> FakeHandle:
        raise ValueError("reference.py has no class Model: add one (\x1b[31m[red])")

    app = WorkbenchApp(open_run)
    async with app.run_test() as pilot:
        await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "could not be opened: reference.py has no class Model" in " ".join(
            shown(app).split()
        )
        assert "␛[31m[red]" in shown(app)
        await pilot.press("q")
        await pilot.pause()
    assert (app.return_value, app.return_code) == (2, 2)


ACTS = (
    Act("server", "http://127.0.0.1:9"),
    Act("key-file", "/home/u/\x1b[31m.ssh/id", "http://127.0.0.1:9"),
)


def from_elsewhere(folder: Path, clock: Callable[[], float]) -> WorkbenchApp:
    """A workbench that opens a run of a folder which the user has not trusted yet."""

    async def open_run() -> FakeHandle:
        insist(folder, ACTS)
        return FakeHandle()

    return WorkbenchApp(open_run, clock=clock)


async def test_a_folder_from_elsewhere_is_asked_about_and_a_no_runs_nothing(tmp_path: Path) -> None:
    app = from_elsewhere(tmp_path, FakeHandle().clock)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        told = " ".join(shown(app).replace("│", " ").split())
        assert "trust this folder?" in told
        assert "• the task, its kernels and what the agent reads go to http://127.0.0.1:9" in told
        assert "the content of the file /home/u/␛[31m.ssh/id goes to 127.0.0.1:9 as the key" in told
        assert "y trust and run n do not run it" in told
        await pilot.press("n")
        await pilot.pause()
    assert (app.return_value, app.return_code) == (2, 2)
    assert not trust_file().exists()


async def test_a_yes_trusts_the_folder_and_runs_it_and_is_not_asked_again(tmp_path: Path) -> None:
    now = [100.0]
    for asks in (True, False):
        app = from_elsewhere(tmp_path, lambda: now[0])
        async with app.run_test() as pilot:
            await pilot.pause()
            assert ("trust this folder?" in shown(app)) is asks
            now[0] += Confirm.ARM_S
            if asks:
                await pilot.press("y")
            await app.workers.wait_for_complete()
            await pilot.pause()
            assert isinstance(app.screen, Deck)
    insist(tmp_path, ACTS)


async def test_a_run_that_breaks_is_told_and_leaves_with_two() -> None:
    class Breaking(FakeHandle):
        async def run(self) -> None:
            raise OSError(28, "No space left on device")

    async with on_stage(Breaking().to_phase(Phase.PLAN)) as stage:
        await stage.pull()
        assert "the run broke: [Errno 28] No space left on device" in stage.text()
        await stage.press("q")
    assert stage.app.return_value == 2
    assert stage.handle.closed


async def test_a_command_that_the_disk_refused_is_told_and_nothing_else_happens() -> None:
    class Full(FakeHandle):
        def send(self, command: cmd.Command) -> Rejected | None:
            if isinstance(command, cmd.Pause):
                raise JournalWriteError("event 9 was not written: No space left on device")
            return super().send(command)

    async with on_stage(Full(agent="claude").to_phase(Phase.PLAN)) as stage:
        await stage.press("space")
        assert "not done: event 9 was not written: No space left" in " ".join(stage.text().split())
        assert not stage.handle.state.paused
        await stage.press("i", "g", "o", "enter")
        assert stage.handle.state.hints == ("go",)


async def test_a_finished_run_is_left_without_a_question() -> None:
    handle = FakeHandle().work()
    handle.over.set()
    async with on_stage(handle) as stage:
        assert "the run is over" in stage.text()
        await stage.press("q")
    assert stage.app.return_value == 0
    assert handle.closed


async def test_a_run_that_could_not_do_its_job_leaves_with_two() -> None:
    handle = FakeHandle(the_task=task(max_rounds=2)).to_phase(Phase.BASELINE)
    handle.tell_broken_baseline()
    async with on_stage(handle) as stage:
        await stage.press("q")
    assert stage.app.return_value == 2


async def test_a_run_under_way_is_left_only_after_a_question() -> None:
    handle = FakeHandle().to_phase(Phase.EVAL)
    async with on_stage(handle) as stage:
        await stage.press("ctrl+q")
        assert isinstance(stage.app.screen, Leave)
        assert f"akg-tui resume {handle.path}" in stage.text()
        await stage.press("escape")
        assert stage.app.screen is stage.deck
        assert not handle.closed
        await stage.press("q", "y")
        assert isinstance(stage.app.screen, Leave), "nobody has read it yet"
        assert not handle.closed
        await stage.arm()
        await stage.press("e")
        assert stage.app.screen is stage.deck, "somebody is typing"
        await stage.press("q")
        await stage.arm()
        await stage.press("y")
    assert stage.app.return_value == 0
    assert handle.closed


async def test_leaving_cancels_the_work_before_it_closes_the_run() -> None:
    order: list[str] = []

    class Working(FakeHandle):
        async def run(self) -> None:
            try:
                await self.over.wait()
            finally:
                order.append("stopped")

        async def close(self) -> None:
            order.append("closed")

    async with on_stage(Working()) as stage:
        await stage.press("q")
        await stage.arm()
        await stage.press("y")
    assert order == ["stopped", "closed"]


async def test_whatever_ends_the_app_closes_the_run() -> None:
    async with on_stage(FakeHandle()) as stage:
        stage.app.exit(0)
    assert stage.handle.closed


async def test_an_unknown_theme_is_told_and_the_default_worn() -> None:
    handle = FakeHandle()
    app = workbench(handle, theme="neon")
    async with app.run_test(size=(120, 40)) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        app.pull_now()
        await pilot.pause()
        assert "there is no theme neon; there are: ansi16, chalk, ember, mono" in shown(app)
        assert app.theme == "ember"


async def test_the_first_frame_waits_for_the_theme_worn_alone() -> None:
    app = workbench(FakeHandle(), theme="tide")
    assert (set(app.appearance.themes), app.theme) == ({"tide"}, "tide")
    async with app.run_test() as pilot:
        # Read after the first frame: as many turns of the loop as that takes.
        while len(app.appearance.themes) == 1:
            await pilot.pause()
        assert {"tide", "ember", "paper", "mono"} < set(app.appearance.themes)
        assert app.theme == "tide"


async def test_a_theme_that_calls_itself_otherwise_than_its_file_is_worn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "akg_tui" / "themes"
    folder.mkdir(parents=True)
    paper = (resources.themes() / "paper.toml").read_text()
    (folder / "a.toml").write_text(paper.replace('name = "paper"', 'name = "mine"'))
    app = workbench(FakeHandle(), theme="mine")
    assert app.theme == "ember"
    async with app.run_test() as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert (app.theme, app.inks.theme.name) == ("mine", "mine")
        assert "there is no theme" not in shown(app)


def test_importing_the_workbench_loads_nothing_heavy() -> None:
    code = (
        "import sys, akg_tui.tui.app\n"
        "heavy = {'torch', 'numpy', 'pygit2', 'optuna', 'tree_sitter', 'rich.markdown',"
        " 'msgspec'}\n"
        "ours = {m for m in sys.modules if m.startswith(('akg_tui.store', 'akg_tui.agent',"
        " 'akg_tui.evaluate', 'akg_tui.engine', 'akg_tui.core', 'akg_tui.tui.screens'))}\n"
        "ours -= {'akg_tui.store', 'akg_tui.store.user_files'}\n"
        "ours -= {'akg_tui.store.user_files.user_folders'}  # paths alone\n"
        "print(sorted(heavy & set(sys.modules)), sorted(ours))\n"
    )
    assert printed(code) == "[] ['akg_tui.core', 'akg_tui.core.sanitize']\n"


def test_a_start_loads_no_library_of_arrays_and_is_not_interrupted_to_look_for_garbage() -> None:
    code = (
        "import gc, sys; from akg_tui.tui.garbage_collection import hold\n"
        "hold(); before = gc.get_stats()[0]['collections']\n"
        "import akg_tui.tui.app, akg_tui.tui.screens.deck, akg_tui.tui.panes.roofline_pane\n"
        "import akg_tui.tui.panes.instructions, akg_tui.evidence.asking\n"
        "print(sorted({'torch', 'numpy'} & set(sys.modules)))\n"
        "import akg_tui.engine.engine\n"
        "print(gc.isenabled(), gc.get_stats()[0]['collections'] - before)\n"
    )
    assert printed(code) == "[]\nTrue 0\n"


async def test_the_list_of_runs_is_copied_and_what_needs_a_run_says_that_none_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    monkeypatch.setattr(WorkbenchApp, "copy_to_clipboard", lambda _, text: copied.append(text))
    async with recorded(tmp_path) as stage:
        await stage.press("y", "Y")
        view, whole = copied
        assert view == whole
        assert "gelu_bias" in view
        for keys in (("colon", *"stop", "enter"), ("colon", *"copy kernel", "enter"), ("X",)):
            stage.app.say("")
            await stage.press(*keys)
            assert "no run is open here" in stage.text(), keys
            assert stage.app.screen is stage.runs
