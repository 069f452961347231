"""fork, undo and adopt, as a user calls them: on a real run at rest, made with a fake judge."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from akg_tui.cli import main
from akg_tui.core import events as ev
from akg_tui.engine.run_service import Limits, resume
from akg_tui.store.journal import read
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import read_state
from tests.engine.runs import create, engine
from tests.engine.test_engine import best_in_git


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is over, with two KEEPs or more."""

    async def worked() -> Path:
        work = engine(create(tmp_path_factory.mktemp("made") / "task", rounds=7))
        await work.run()
        await work.close()
        assert len(work.state.former) >= 1
        return Path(work.path)

    return asyncio.run(worked())


@pytest.fixture
def over(made: Path, tmp_path: Path) -> Path:
    """A copy of it, which the test may change."""
    return shutil.copytree(made, tmp_path / "task" / "runs" / made.name)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    told = capsys.readouterr()
    assert told.err == ""
    return told.out.splitlines()


def test_fork_prints_the_new_run_and_how_to_go_on(
    over: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fork", str(over), "--round", "3"]) == 0
    made = over.with_name(f"{over.name}-r3")
    assert lines(capsys) == [
        f"forked {over} at the end of round 3: {made}",
        f"go on with: akg-tui resume {made}",
    ]
    assert read_state(made).settled == 3
    assert main(["fork", str(over), "--round", "7", "--json"]) == 0
    (told,) = map(json.loads, lines(capsys))
    assert told["stops"][0] == "max rounds reached (7)"
    assert read_state(Path(told["run"])).forked is not None
    assert main(["fork", str(over), "--round", "7"]) == 0
    assert lines(capsys)[1].startswith("it would end at once (max rounds reached (7))")


def test_a_run_that_is_over_stays_as_it_is_if_the_limits_do_not_let_it_go_on(
    over: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (over / "events.jsonl").read_bytes()
    ended = "would end again at once: max rounds reached (7)"
    for options, told in (
        (["--max-hours", "1"], ended),
        (["--max-rounds", "7"], ended),
        (["--max-rounds", "40", "--goal", "speedup>=0.01"], "at once: automation goals reached"),
        (["--mode", "review"], f"resume {over} --more-rounds N"),
    ):
        assert main(["resume", str(over), "--headless", *options]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert told in line
        assert (over / "events.jsonl").read_bytes() == before
    assert main(["resume", str(over), "--headless"]) == 0, "without options it is as before"


def test_a_run_that_is_over_goes_on_with_more_rounds(over: Path) -> None:
    before = read_state(over)
    run = resume(over, Limits(more_rounds=1))
    work = engine(run)
    asyncio.run(work.run())
    asyncio.run(work.close())
    after = read_state(over)
    assert (after.run_id, after.settled) == (before.run_id, 8)
    assert after.finished == "max rounds reached (8)"
    assert [record.seq for record in read(over / "events.jsonl")][-1] == after.seq
    reopened = [r.event for r in read(over / "events.jsonl") if isinstance(r.event, ev.RunReopened)]
    assert [(each.policy.max_rounds, each.source) for each in reopened] == [(8, "command line")]


def test_undo_takes_the_last_keep_of_a_finished_run_back(
    over: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read_state(over)
    assert before.best is not None
    worked = before.worked_s
    assert main(["undo", str(over), "--comment", "not exact enough"]) == 0
    out = lines(capsys)
    after = read_state(over)
    assert after.best == before.former[-1]
    best = f"attempt {after.best.attempt}" if after.best.attempt else "the seed"
    assert out[0] == (
        f"the KEEP of attempt {before.best.attempt} is undone; the best kernel is {best} again"
    )
    assert "akg-tui fork" in out[1]
    assert (over / "work" / "kernel.py").read_text() == best_in_git(over)
    assert "UNDONE" in (over / "PLAN.md").read_text()
    assert after.worked_s - worked < 60  # the time since the run ended was not worked
    for _ in before.former[1:]:
        assert main(["undo", str(over), "--json"]) == 0
        assert json.loads(lines(capsys)[0])["type"] == "undo"
    journal = (over / "events.jsonl").read_bytes()
    assert main(["undo", str(over)]) == 2
    assert capsys.readouterr().err == (
        "akg-tui: there is no KEEP to undo: the best kernel is the seed\n"
    )
    assert (over / "events.jsonl").read_bytes() == journal


def test_a_run_under_work_is_refused_and_untouched(
    over: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = (over / "events.jsonl").read_bytes()
    with_lock = RunFolder.open(over)
    assert main(["undo", str(over)]) == 2
    error = capsys.readouterr().err
    assert "is at work on this run" in error
    assert error.count("\n") == 1
    with_lock.close()
    assert (over / "events.jsonl").read_bytes() == journal


def test_adopt_shows_a_hand_edit_and_takes_it_over_only_when_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = create(tmp_path / "task")
    run.append(ev.HintGiven(text="x"))
    run.close()
    assert main(["adopt", str(run.path)]) == 2
    assert "has no hand edit of PLAN.md" in capsys.readouterr().err
    plan = run.path / "PLAN.md"
    plan.write_text(plan.read_text().replace("No open item.", "- WIDTH=2 (it is wider)"))
    assert main(["adopt", str(run.path)]) == 0
    out = lines(capsys)
    assert out[0] == "add   p1: WIDTH=2"
    assert out[-1].endswith("--edit PLAN.md.edited-1 --yes")
    assert read_state(run.path).items == ()
    assert main(["adopt", str(run.path), "--yes", "--json"]) == 0
    assert json.loads(lines(capsys)[0])["change"]["added"][0]["text"] == "WIDTH=2"
    assert [item.pinned for item in read_state(run.path).pending] == [True]
    assert "[!] p1: WIDTH=2" in plan.read_text()
    assert sum(isinstance(r.event, ev.SessionOpened) for r in read(run.path / "events.jsonl")) == 1


def test_bad_input_is_one_line_and_exit_2(over: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(over)
    for words, told in (
        (["fork", run, "--round", "99"], "has no round 99: its rounds are 1 to 7"),
        (["fork", "nowhere", "--round", "1"], "nowhere: is not a run"),
        (["undo", "nowhere"], "nowhere: is not a run"),
        (["adopt", run, "--edit", "../x"], "is not a hand edit of PLAN.md"),
        (["adopt", run, "--edit", "PLAN.md.edited-9"], "cannot read"),
    ):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert told in error
        assert error.count("\n") == 1
