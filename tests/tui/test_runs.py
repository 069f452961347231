"""The list of runs: real runs in real folders, opened, forked, compared and put away."""

from __future__ import annotations

import asyncio
import gc
import shutil
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from akg_tui.core import commands as cmd
from akg_tui.core.measurement import FailureKind, Measurement, Outcome, Progress
from akg_tui.core.phases import Mode
from akg_tui.core.stopping.limits import stop_reasons
from akg_tui.engine import run_service
from akg_tui.engine.detached import register
from akg_tui.engine.run_service import RunRequest
from akg_tui.store.errors import RunLocked
from akg_tui.store.run_at_rest import discard_run
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import read_state
from akg_tui.tui import garbage_collection, run_start
from akg_tui.tui.app import WorkbenchApp
from akg_tui.tui.run_start import Draft
from akg_tui.tui.screens.deck import Deck
from akg_tui.tui.screens.dialogs import Confirm
from akg_tui.tui.screens.new_run import ChooseStart, Wizard
from akg_tui.tui.screens.runs import Runs
from akg_tui.view.controls.preferences import Preferences
from akg_tui.view.glyphs import spark
from akg_tui.view.run_chart import AttemptSeries, Plot
from akg_tui.view.run_rows import age, last_part
from akg_tui.view.spans import plain
from tests.engine.fake_judge import FakeJudge
from tests.engine.runs import KERNEL, REFERENCE, create, engine
from tests.engine.test_attach import at_work

ODD = "\x1b[31m漢字\u202e[red]"


@pytest.fixture(autouse=True)
def _armed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Confirm, "ARM_S", 0.0)  # that it arms is tested with a clock of its own


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is over, one that can go on under an odd name, one damaged, one foreign."""
    home = tmp_path_factory.mktemp("made")

    async def tuned() -> Path:
        run = create(home / "task", rounds=4)
        work = engine(run)
        await work.run()
        await work.close()
        return run.path

    over = asyncio.run(tuned())
    lines = (over / "events.jsonl").read_bytes().split(b"\n")
    for name, kept in ((f"{ODD}/runs/open", lines[:60]), ("damaged", lines)):
        shutil.copytree(over, home / name)
        (home / name / "events.jsonl").write_bytes(b"\n".join(kept) + b"\n")
    damaged = home / "damaged" / "events.jsonl"
    damaged.write_bytes(damaged.read_bytes().replace(b"SPEED", b"XPEED", 1))
    (home / "foreign").mkdir()
    (home / "foreign" / "events.jsonl").write_bytes(b"\x00\xff not a journal\n[]\n")
    return home


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of them, which the test may change."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


class Listed:
    def __init__(self, app: WorkbenchApp, pilot: Pilot[int]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def runs(self) -> Runs:
        return next(s for s in self.app.screen_stack if isinstance(s, Runs))

    def text(self) -> str:
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not true():
                await asyncio.sleep(0.01)
                self.app.pull_now()
        await self.pilot.pause()

    async def shows(self, text: str) -> None:
        try:
            await self.until(lambda: text in self.text())
        except TimeoutError:
            raise AssertionError(f"never saw {text!r} in:\n{self.text()}") from None

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        self.app.pull_now()
        await self.pilot.pause()

    async def at(self, name: str) -> None:
        """Put the cursor on a run."""
        await self.until(lambda: any(name in run.name for run in self.runs.shown))
        await self.until(lambda: self.runs.catalogue.unread == 0)
        self.runs._sort()
        row = next(n for n, run in enumerate(self.runs.shown) if name in run.name)
        self.runs.move_to(row)
        await self.pilot.pause()


@asynccontextmanager
async def listed(folder: Path, size: tuple[int, int] = (120, 30)) -> AsyncIterator[Listed]:
    app = WorkbenchApp(None, browse=folder)
    async with app.run_test(size=size) as pilot:
        stage = Listed(app, pilot)
        await stage.until(lambda: isinstance(app.screen, Runs) and app.screen.catalogue.searched)
        await stage.until(lambda: stage.runs.catalogue.unread == 0)
        await asyncio.sleep(0)
        stage.runs._sort()
        app.pull_now()
        await pilot.pause()
        yield stage


@pytest.mark.parametrize("size", [(120, 30), (80, 24)])
async def test_every_run_is_listed_and_bad_ones_say_what_is_wrong(
    folder: Path, size: tuple[int, int]
) -> None:
    async with listed(folder, size) as stage:
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


async def test_what_has_no_room_below_the_list_is_cut_with_an_ellipsis(folder: Path) -> None:
    async with listed(folder, (50, 20)) as stage:
        over = (run.name for run in stage.runs.shown if run.summary and run.summary.finished)
        await stage.at(next(over))
        stage.app.pull_now()
        await stage.pilot.pause()
        (facts,) = [row for row in stage.text().split("\n") if "│ DONE" in row]
        assert facts.rstrip(" │").endswith("…")


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_the_run_under_the_cursor_has_its_chart_in_the_rows_below_the_list(
    folder: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    plot, threads = AttemptSeries.plot, set()

    def noted(*given: object) -> Plot:
        threads.add(threading.current_thread().name)
        return plot(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(AttemptSeries, "plot", noted)
    async with listed(folder, size) as stage:
        await stage.at("runs/open")
        await stage.until(lambda: stage.runs.chart.view is not None)
        rows = stage.text().split("\n")
        assert any("┤━" in row for row in rows)
        assert "4 runs" in rows[0]
        assert any("r resumes it" in row for row in rows)
        shown = stage.runs.shown
        at = next(n for n, run in enumerate(shown) if run.summary and run.summary.finished)
        stage.runs.move_to(at)
        assert stage.runs.chart.view is None, "it is not the chart of the run that was left"
        await stage.until(lambda: stage.runs.chart.view is not None)
        assert (stage.runs.catalogue.charted or ("",))[0] == shown[at].path
        assert threads == {"catalogue"}, "no journal is read in the thread of the screen"
        await stage.at("foreign")
        assert not stage.runs.chart.display


async def test_a_short_screen_gives_all_its_rows_to_the_list(folder: Path) -> None:
    async with listed(folder, (80, 18)) as stage:
        await stage.at("runs/open")
        assert not stage.runs.chart.display


async def test_a_run_that_grows_has_its_chart_drawn_again(folder: Path) -> None:
    async with listed(folder) as stage:
        await stage.at("runs/open")
        await stage.until(lambda: stage.runs.chart.view is not None)
        before = stage.runs.chart.view
        (here,) = (r.path for r in stage.runs.shown if "runs/open" in r.name)
        (over,) = (r.path for r in stage.runs.shown if r.summary and r.summary.finished)
        shutil.copy(over / "events.jsonl", here / "events.jsonl")
        stage.runs.catalogue.refresh()
        await stage.until(lambda: stage.runs.chart.view is not before)


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
        await stage.until(lambda: isinstance(stage.app.screen, Deck))
        await stage.shows("PAST")
        await stage.press("q")
        await stage.until(lambda: isinstance(stage.app.screen, Runs))
        await stage.at("runs/open")
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.app.screen, Deck))
        await stage.press("L")
        await stage.shows("nobody is at work on it")
        await stage.press("space")
        await stage.shows("this is a replay")
        await stage.press("q")
        await stage.until(lambda: isinstance(stage.app.screen, Runs))
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
        await stage.until(lambda: isinstance(stage.app.screen, Deck))
        monkeypatch.setattr(WorkbenchApp, "_close", slowly)
        await stage.press("q")
        await stage.shows("closing the run …")
        closed.set()
        await stage.until(lambda: isinstance(stage.app.screen, Runs))


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
        await stage.until(lambda: isinstance(stage.app.screen, Deck))
        await stage.shows("WAIT_STEP")
        stage.app.detach()
        await stage.until(lambda: stage.app.handle is None)
        await stage.press("q")
        assert isinstance(stage.app.screen, Deck), "no dialog asks, and nothing was closed"
        await stage.shows("the run leaves this terminal …")
        gone.set()
        await stage.until(lambda: isinstance(stage.app.screen, Runs))
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
            await stage.until(lambda: isinstance(stage.app.screen, Deck))
            await stage.press("L", "2", "v", "escape", "question_mark")
            await stage.pilot.hover(offset=(60, 15))
            await stage.press("escape")
            deck, handle = weakref.ref(stage.app.screen), weakref.ref(stage.app.handle)
            garbage_collection.settle()
            await stage.press("q")
            await stage.until(lambda: isinstance(stage.app.screen, Runs))
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
        assert stage.runs.here is not None
        path = stage.runs.here.path
        assert read_state(path).settled < 4
        await stage.press("r")
        await stage.until(lambda: isinstance(stage.app.screen, Deck))
        await stage.shows("the run is over")
        assert "PAST" not in stage.text()
        await stage.press("q")
        await stage.until(lambda: isinstance(stage.app.screen, Runs))
        RunFolder.open(path).close()  # nobody holds it any more
        await stage.at("runs/open")
        await stage.shows("4 runs")
        await stage.until(lambda: stage.text().count("✓ finished") == 2)
        await stage.press("r")
        await stage.shows("It goes on as the same run.")
        await stage.press(*["backspace"] * 2, "1", "enter")
        await stage.until(lambda: isinstance(stage.app.screen, Deck))
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


async def test_a_fork_is_made_after_a_yes_and_comes_into_the_list(folder: Path) -> None:
    async with listed(folder) as stage:
        await stage.at("task/runs/r")
        await stage.press("F")
        stage.runs.ask.value = "99"
        await stage.press("enter", "y")
        await stage.shows("has no round 99")
        await stage.press("F")
        stage.runs.ask.value = "2"
        await stage.press("enter", "n")
        assert not (folder / "task/runs/r-r2").exists()
        await stage.press("F")
        stage.runs.ask.value = "2"
        await stage.press("enter", "y")
        await stage.shows("5 runs")
        assert read_state(folder / "task/runs/r-r2").settled == 2
        await stage.until(lambda: stage.runs.here is not None and "r-r2" in stage.runs.here.name)


async def test_a_fork_that_would_end_at_once_is_asked_for_its_limit(folder: Path) -> None:
    async with listed(folder) as stage:
        await stage.at("task/runs/r")
        await stage.press("F", "enter", "y")
        await stage.shows("r-r4 would end at once: max rounds reached (4)")
        stage.app.screen.query_one(Input).value = "rounds=none"
        await stage.press("enter")
        assert "rounds needs a number above 0" in stage.text()
        stage.app.screen.query_one(Input).value = "rounds=6"
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.app.screen, Runs))
        await stage.app.workers.wait_for_complete()
    forked = read_state(folder / "task/runs/r-r4")
    assert (forked.settled, forked.task.policy.max_rounds) == (4, 6)
    assert stop_reasons(forked, forked.started_at) == ()
    assert read_state(folder / "task/runs/r").task.policy.max_rounds == 4


async def test_a_fork_of_the_deck_says_that_it_would_end_and_lies_under_the_cursor_of_the_list(
    folder: Path,
) -> None:
    async with listed(folder) as stage:
        await stage.at("task/runs/r")
        await stage.press("enter")
        await stage.until(lambda: stage.app.in_past)
        await stage.press("F")
        await stage.shows("It would end at once (max rounds reached (4))")
        await stage.press("y")
        await stage.shows("r-r4 would end at once")
        await stage.press("escape")
        await stage.until(lambda: isinstance(stage.app.screen, Deck))
        await stage.press("q")
        await stage.until(lambda: isinstance(stage.app.screen, Runs))
        await stage.until(lambda: stage.runs.here is not None and "r-r4" in stage.runs.here.name)


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


async def test_an_empty_folder_says_how_to_begin(tmp_path: Path) -> None:
    async with listed(tmp_path) as stage:
        assert "There is no run here yet." in stage.text()
        await stage.press("enter", "r", "F", "D", "R")
        await stage.press("n")
        assert isinstance(stage.app.screen, ChooseStart)
        await stage.shows("row_softmax")
        await stage.press("m")
        assert "in mode review" in stage.text()


def noted(monkeypatch: pytest.MonkeyPatch) -> list[RunRequest]:
    """Begin no run; return the list that gets what each run was to be."""
    begun: list[RunRequest] = []

    async def note(start: RunRequest) -> object:
        begun.append(start)
        raise ValueError("noted")

    monkeypatch.setattr(run_start, "begun", note)
    return begun


async def test_the_samples_tell_what_each_is_and_those_that_are_not_timed_come_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = noted(monkeypatch)
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
    app = WorkbenchApp(None, browse=folder, wanted=Preferences(theme="ansi16"))
    async with app.run_test(size=(120, 30)) as pilot:
        stage = Listed(app, pilot)
        await stage.until(lambda: isinstance(app.screen, Runs) and app.screen.catalogue.many == 4)
        await stage.shows("✓ finished")
        assert "this cannot be shown" not in stage.text()


async def test_a_task_found_below_is_begun(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[RunRequest] = []

    async def begun(start: RunRequest) -> object:
        asked.append(start)
        raise ValueError("no judge in this test")

    monkeypatch.setattr(run_start, "begun", begun)
    async with listed(folder) as stage:
        await stage.press("n")
        await stage.shows(str(folder / "task"))
        await stage.press("down", "enter")
        await stage.shows("no judge in this test")
    assert asked == [RunRequest(folder / "task")]


async def test_the_wizard_writes_nothing_before_the_check_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reference.py").write_text(REFERENCE)
    results = [
        Measurement(outcome=Outcome.FAILED, failure=FailureKind.WRONG, message="values differ"),
        Measurement(outcome=Outcome.CORRECT, candidate_ms=2.0),
    ]
    drafts: list[Draft] = []
    held = asyncio.Event()

    async def checked(draft: Draft, tell: Callable[[Progress], None]) -> Measurement:
        drafts.append(draft)
        tell(Progress("time", 3, 8))
        if len(drafts) == 1:
            await held.wait()
        return results.pop(0)

    real = run_start.checked
    async with listed(tmp_path) as stage:
        await stage.press("n", "enter")
        assert isinstance(stage.app.screen, Wizard)
        await stage.press("enter")
        await stage.shows("No such file or directory")
        (tmp_path / "kernel.py").write_text(KERNEL)
        monkeypatch.setattr(run_start, "checked", checked)
        stage.app.screen.query_one("#field-rounds", Input).value = "none"
        await stage.press("enter")
        await stage.shows("is not a number from 1 on")
        stage.app.screen.query_one("#field-rounds", Input).value = "7"
        await stage.press("enter")
        await stage.shows("checking: time 3/8")
        await stage.press("escape")
        await stage.shows("the check was cut off")
        await stage.press("enter")
        await stage.shows("values differ")
        await stage.press("enter")
        await stage.shows("enter again writes the task")
        assert not (tmp_path / "mytask").exists()

        async def begun(start: RunRequest) -> object:
            raise ValueError(f"began {start.limits.max_rounds} rounds")

        monkeypatch.setattr(run_start, "begun", begun)
        await stage.press("enter")
        await stage.shows("began 7 rounds")
        assert (tmp_path / "mytask" / "kernel.py").read_text() == KERNEL
        with pytest.raises(Exception, match="has files in it"):
            await real(drafts[-1], lambda _: None)


def test_words_of_a_row() -> None:
    assert [age(s) for s in (3, 75, 7200, 3 * 86400)] == ["now", "1 min", "2 h", "3 d"]
    assert spark((1.0, 1.5, 2.0), 12) == "▁▅█"
    assert spark((), 12) == ""
    assert last_part("a/long/path", 5) == "…path"
    assert last_part("漢字漢字", 5) == "…漢字"


async def test_the_first_screen_offers_a_demo_a_kernel_and_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = noted(monkeypatch)
    async with listed(tmp_path, (80, 24)) as stage:
        await stage.shows("t  try the demo: a bundled sample, without key or GPU")
        assert "n  tune a kernel of mine" in stage.text()
        assert stage.text().split("\n")[-1].strip().startswith("n new"), "nothing for a run"
        await stage.press("t")
        await stage.shows("noted")
    assert [(each.sample, each.limits.max_rounds) for each in begun] == [("gelu_bias", 12)]
