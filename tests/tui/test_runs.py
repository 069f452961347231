"""The list of runs: real runs in real folders, opened, forked, compared and put away."""

from __future__ import annotations

import asyncio
import gc
import shutil
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from akg_tui.core import commands as cmd
from akg_tui.core.phases import Mode
from akg_tui.engine import run_service
from akg_tui.engine.detached import register
from akg_tui.engine.run_service import RunRequest
from akg_tui.store.errors import RunLocked
from akg_tui.store.run_at_rest import discard_run
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import read_state
from akg_tui.tui import garbage_collection, run_start
from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.screens.deck import Deck
from akg_tui.tui.screens.dialogs import Confirm
from akg_tui.tui.screens.new_run import ChooseStart
from akg_tui.tui.screens.runs import Runs
from akg_tui.view.controls.preferences import Preferences
from akg_tui.view.glyphs import spark
from akg_tui.view.run_rows import age, last_part
from akg_tui.view.spans import plain
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import create
from tests.engine.test_attach import at_work

from .listing import listed


@pytest.fixture(autouse=True)
def _armed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Confirm, "ARM_S", 0.0)  # that it arms is tested with a clock of its own


async def test_every_run_is_listed_and_bad_ones_say_what_is_wrong(folder: Path) -> None:
    async with listed(folder, (80, 24)) as stage:
        shown = stage.text()
        assert "4 runs" in shown
        assert "✓ finished" in shown
        assert "◦ open" in shown
        assert shown.count("⨯ damaged") == 2
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        await stage.at("foreign")
        assert "the journal holds no event" in stage.text()
        await stage.press("enter")
        assert isinstance(stage.app.screen, Runs)
        await stage.at("runs/open")
        assert "r resumes it" in stage.text()


async def test_words_filter_and_a_key_sorts(folder: Path) -> None:
    async with listed(folder) as stage:
        await stage.press("slash", *"damaged", "enter")
        assert "2 of 4 runs" in stage.text()  # its state, and the one of that name
        await stage.press("escape")
        assert "4 runs" in stage.text()
        await stage.press("s")
        assert "by best" in stage.text()
        best = [run.summary.over_seed or 0 for run in stage.runs.shown if run.summary]
        assert best == sorted(best, reverse=True)
        await stage.press("slash", *"zzz")
        assert "no run has these words" in stage.text()


async def test_a_detached_run_of_elsewhere_is_listed_and_on_top_while_it_waits(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setenv("XDG_STATE_HOME", str(elsewhere / "state"))
    async with at_work(elsewhere / "task") as work:
        left: list[bool] = []
        work.live.detach = lambda: left.append(True)
        register(Path(work.path))
        async with listed(folder) as stage:
            await stage.press("s", "s")
            assert stage.runs.shown[0].path == Path(work.path)
            stage.runs.move_to(0)
            await stage.shows("waits for a person (step)")
            await stage.press("d")
            await stage.shows("it leaves its terminal and goes on")
            assert left == [True]
            work.send(cmd.SetMode(Mode.AUTO))
            await stage.until(lambda: work.state.finished != "")
            stage.runs.catalogue.refresh()
            await stage.until(lambda: stage.runs.shown[0].path != Path(work.path))


async def test_a_run_is_looked_at_and_left_again(folder: Path) -> None:
    async with listed(folder) as stage:
        await stage.at("task/runs/r")
        await stage.press("enter")
        await stage.on(Deck)
        await stage.shows("PAST")
        await stage.press("q")
        await stage.on(Runs)
        await stage.at("runs/open")
        await stage.press("enter")
        await stage.on(Deck)
        await stage.press("L")
        await stage.shows("nobody is at work on it")
        await stage.press("space")
        await stage.shows("this is a replay")
        await stage.press("q")
        await stage.on(Runs)
        await stage.press("q")
    assert stage.app.return_value == 0


async def test_leaving_a_run_says_so_while_it_takes_its_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when what is under way has to end first."""
    closed, close = asyncio.Event(), WorkbenchApp._close

    async def slowly(app: WorkbenchApp) -> None:
        await closed.wait()
        await close(app)

    async with listed(folder) as stage:
        await stage.at("task/runs/r")
        await stage.press("enter")
        await stage.on(Deck)
        monkeypatch.setattr(WorkbenchApp, "_close", slowly)
        await stage.press("q")
        await stage.shows("closing the run …")
        closed.set()
        await stage.on(Runs)


async def test_leaving_waits_until_the_run_has_left_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the app would end the process that starts the detached engine."""
    gone = asyncio.Event()

    async def slowly(path: Path, options: object) -> None:
        await gone.wait()

    monkeypatch.setattr(run_service, "_judge", lambda run, on_progress: FakeJudge(on_progress))
    monkeypatch.setattr(run_start, "detached", slowly)
    create(tmp_path / "task", mode=Mode.STEP).close()
    async with listed(tmp_path) as stage:
        await stage.at("r")
        await stage.press("r")
        await stage.on(Deck)
        await stage.shows("WAIT_STEP")
        stage.app.detach()
        await stage.until(lambda: stage.app.handle is None)
        await stage.press("q")
        assert isinstance(stage.app.screen, Deck), "no dialog asks, and nothing was closed"
        await stage.shows("the run leaves this terminal …")
        gone.set()
        await stage.on(Runs)
        await stage.shows("the run goes on without this terminal")


async def test_a_run_that_was_left_is_not_kept_in_memory(folder: Path) -> None:
    """All objects are frozen while the run is open. The mouse moves over a dialog: then Textual
    renders it in the app's own task.
    """
    async with listed(folder) as stage:
        threads = ThreadPoolExecutor()
        asyncio.get_running_loop().set_default_executor(threads)
        thresholds = gc.get_threshold()
        try:
            await stage.at("task/runs/r")
            await stage.press("enter")
            await stage.on(Deck)
            await stage.press("L", "2", "v", "escape", "question_mark")
            await stage.pilot.hover(offset=(60, 15))
            await stage.press("escape")
            deck, handle = weakref.ref(stage.app.screen), weakref.ref(stage.app.handle)
            garbage_collection.settle()
            await stage.press("q")
            await stage.on(Runs)
            await stage.app.workers.wait_for_complete()
            threads.shutdown()  # a kernel may still be coloured there, for a pane that is gone

            def is_freed() -> bool:
                garbage_collection.settle_again()
                return deck() is None and handle() is None

            await stage.until(is_freed)
            assert gc.get_freeze_count() > 0, "the rest stays out of later collections"
        finally:
            gc.set_threshold(*thresholds)


async def test_a_run_at_rest_is_resumed_and_worked_to_its_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_service, "_judge", lambda run, on_progress: FakeJudge(on_progress))
    async with listed(folder) as stage:
        await stage.at("runs/open")
        path = stage.runs.here.path
        assert read_state(path).settled < 4
        await stage.press("r")
        await stage.on(Deck)
        await stage.shows("the run is over")
        assert "PAST" not in stage.text()
        await stage.press("q")
        await stage.on(Runs)
        RunFolder.open(path).close()  # nobody holds it any more
        await stage.at("runs/open")
        await stage.shows("4 runs")
        await stage.until(lambda: stage.text().count("✓ finished") == 2)
        await stage.press("r")
        await stage.shows("It goes on as the same run.")
        await stage.press(*["backspace"] * 2, "1", "enter")
        await stage.on(Deck)
        await stage.until(lambda: read_state(path).settled == 5)
        await stage.shows("the run is over")
    assert read_state(path).settled == 5


async def test_the_report_of_a_run_is_written_from_the_list(folder: Path) -> None:
    run = folder / "task/runs/r"
    async with listed(folder) as stage:
        await stage.at("task/runs/r")
        await stage.press("R")
        assert "making the report of" in stage.text()
        await stage.app.workers.wait_for_complete()
        await stage.shows("written: ")
        await stage.at("damaged")
        await stage.press("R")
        await stage.app.workers.wait_for_complete()
        await stage.shows("no report: ")
    assert "<svg" in (run / "report.html").read_text()
    assert (run / "report.md").exists()
    assert (run / "report.json").exists()


async def test_a_fork_is_made_after_a_yes_and_lies_under_the_cursor_of_the_list(
    folder: Path,
) -> None:
    async with listed(folder) as stage:
        await stage.at("task/runs/r")
        await stage.press("enter")
        await stage.until(lambda: stage.app.in_past)
        await stage.press(*["shift+left"] * 3, "F", "y")
        await stage.shows("forked: r-r2")
        await stage.press("q")
        await stage.on(Runs)
        await stage.shows("5 runs")
        await stage.until(lambda: stage.runs.here is not None and "r-r2" in stage.runs.here.name)
    assert not (folder / "task/runs/r-r4").exists()
    assert read_state(folder / "task/runs/r-r2").settled == 2


async def test_a_run_is_put_away_only_by_its_name_and_never_while_at_work(folder: Path) -> None:
    run = folder / "task/runs/r"
    async with listed(folder) as stage:
        await stage.at("task/runs/r")
        await stage.press("D", "y", "enter")
        await stage.shows("nothing was discarded")
        assert run.exists()
        held = RunFolder.open(run)
        with pytest.raises(RunLocked):
            discard_run(run)
        held.close()
        await stage.press("D", "r", "enter")
        await stage.shows("3 runs")
    assert not run.exists()
    assert read_state(folder / "task/runs/.trash/r").settled == 4
    shutil.copytree(folder / "task/runs/.trash/r", run)
    assert discard_run(run).name == "r-2"


async def test_the_samples_tell_what_each_is_and_those_that_are_not_timed_come_last(
    tmp_path: Path, begun: list[RunRequest]
) -> None:
    async with listed(tmp_path, (120, 40)) as stage:
        await stage.press("n")
        await stage.shows("softmax_triton")
        rows = [row for row in stage.text().split("\n") if "│" in row]
        assert any(
            "row_softmax" in row and "cpp     Softmax over rows of floats" in row for row in rows
        )
        assert not any("bundled sample " in row for row in rows)
        verified = next(n for n, row in enumerate(rows) if "verified only: Triton's" in row)
        triton = [n for n, row in enumerate(rows) if "_triton " in row]
        assert len(triton) == 6
        assert min(triton) == verified + 1
        chooser = stage.app.screen
        assert isinstance(chooser, ChooseStart)
        texts = [plain(row) for row in chooser.view.rows]
        chooser.choose_row(texts.index("bundled samples"))
        assert texts[chooser.view._picked.start].startswith("  causal_attention")
        await stage.press(*["down"] * 3, "enter")
        await stage.shows("noted")
    assert begun == [RunRequest(tmp_path, sample="gelu_bias")]


async def test_rows_are_picked_in_the_sixteen_colours_of_the_terminal_too(folder: Path) -> None:
    async with listed(folder, wanted=Preferences(theme="ansi16")) as stage:
        assert "✓ finished" in stage.text()
        assert "this cannot be shown" not in stage.text()


async def test_a_task_found_below_is_begun(folder: Path, begun: list[RunRequest]) -> None:
    async with listed(folder) as stage:
        await stage.press("n")
        await stage.shows(str(folder / "task"))
        await stage.press("down", "enter")
        await stage.shows("noted")
    assert begun == [RunRequest(folder / "task")]


def test_words_of_a_row() -> None:
    assert [age(s) for s in (3, 75, 7200, 3 * 86400)] == ["now", "1 min", "2 h", "3 d"]
    assert spark((1.0, 1.5, 2.0), 12) == "▁▅█"
    assert spark((), 12) == ""
    assert last_part("a/long/path", 5) == "…path"
    assert last_part("漢字漢字", 5) == "…漢字"


async def test_the_first_screen_offers_a_demo_a_kernel_and_a_run(
    tmp_path: Path, begun: list[RunRequest]
) -> None:
    async with listed(tmp_path, (80, 24)) as stage:
        assert "There is no run here yet." in stage.text()
        await stage.shows("t  try the demo: a bundled sample, without key or GPU")
        assert "n  tune a kernel of mine" in stage.text()
        assert stage.text().split("\n")[-1].strip().startswith("n new"), "nothing for a run"
        await stage.press("enter", "r", "D", "R")
        await stage.press("n")
        assert isinstance(stage.app.screen, ChooseStart)
        await stage.shows("row_softmax")
        await stage.press("m")
        assert "in mode review" in stage.text()
        await stage.press("escape", "t")
        await stage.shows("noted")
    assert [(each.sample, each.limits.max_rounds) for each in begun] == [("gelu_bias", 12)]
