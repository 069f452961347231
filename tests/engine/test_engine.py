"""The engine over a real run folder: it ends, it resumes, and it obeys a person meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Mode, Phase, Verdict
from akg_tui.core.task import Policy
from akg_tui.engine.engine import Engine
from akg_tui.engine.follower import Followed
from akg_tui.engine.run_service import create_run
from akg_tui.store.errors import JournalWriteError, StoreError
from akg_tui.store.fork import fork_run
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import summarize_run
from akg_tui.store.task_folder import load_task, op_named
from tests.engine.runs import KERNEL, Clock, create, decisions, engine, make_task


def best_in_git(run: Path) -> str:
    shown = subprocess.run(
        ["git", "-C", str(run / "history.git"), "show", "best:kernel.py"],
        check=True,
        capture_output=True,
        text=True,
    )
    return shown.stdout


def check_whole(run: RunFolder) -> None:
    best = run.state.best
    assert best is not None
    text = best_in_git(run.path)
    assert text == (run.path / "work" / "kernel.py").read_text()
    assert run.history.read_kernel(best.blob).text == text
    refs = run.history.refs()
    assert refs["refs/heads/best"] == best.commit
    for attempt in run.state.attempts:
        assert refs[f"refs/akg/attempts/{attempt.number}"] == attempt.commit
    assert f"rounds: {run.state.rounds}/" in (run.path / "PLAN.md").read_text()


async def test_a_run_ends_with_its_best_kernel_in_git_work_tree_and_plan(tmp_path: Path) -> None:
    run = create(tmp_path / "task", rounds=7)
    work = engine(run)
    await work.run()
    assert run.state.finished
    assert run.state.ok
    assert 'SPEED = "C"' in best_in_git(run.path)
    check_whole(run)
    log = subprocess.run(
        ["git", "-C", str(run.path / "history.git"), "log", "--format=%B", "best"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "Verdict: KEEP" in log
    assert "Ratio: " in log
    await work.close()


class Killed(BaseException):
    """Stands for SIGKILL: nothing after it runs."""


def kill_at(run: RunFolder, number: int, *, after: bool) -> None:
    """Make the run die at its `number`-th append: before the event is written, or after."""
    append = run.append
    count = 0

    def dying(event: ev.AnyEvent) -> ev.Record:
        nonlocal count
        count += 1
        if count == number and not after:
            raise Killed
        record = append(event)
        if count == number:
            raise Killed
        return record

    run.append = dying  # type: ignore[method-assign]


async def run_until_killed(run: RunFolder, number: int, *, after: bool) -> bool:
    kill_at(run, number, after=after)
    work = engine(run)
    try:
        await work.run()
    except Killed:
        return True
    finally:
        run.close()
    return False


async def unkilled(folder: Path) -> list[tuple[object, ...]]:
    run = create(folder, rounds=4)
    await engine(run).run()
    run.close()
    return decisions(run)


@pytest.mark.parametrize("name", ["softmax_" * 40, "行" * 300, "🙂"], ids=range(3))
async def test_a_task_of_any_name_is_tuned(tmp_path: Path, name: str) -> None:
    folder = make_task(tmp_path / "task")
    op = op_named(name)
    (folder / "task.toml").write_text(f'op = "{op}"\n', encoding="utf-8")
    loaded = load_task(folder)
    run = create_run(loaded, replace(loaded.task, policy=Policy(max_rounds=2)), Mode.AUTO)
    await engine(run).run()
    assert run.state.settled == 2
    assert run.state.task.op == op
    check_whole(run)
    path = run.path
    assert Followed(path).state.task.op == op
    run.close()
    forked = fork_run(path, 1, clock=Clock())
    with contextlib.closing(RunFolder.open(forked.path)) as again:
        assert len(engine(again).tag_key) <= 64


@pytest.mark.parametrize(("after", "step"), [(False, 7), (True, 4)])
async def test_a_run_killed_at_any_event_and_resumed_decides_what_an_unkilled_one_does(
    tmp_path: Path, after: bool, step: int
) -> None:
    expected = await unkilled(tmp_path / "unkilled")
    assert {verdict for _, _, _, verdict, _, _ in expected} >= {Verdict.KEEP, Verdict.DISCARD}
    number = 1 - step
    killed = True
    while killed:
        number += step
        run = create(tmp_path / f"killed-{number}", rounds=4)
        killed = await run_until_killed(run, number, after=after)
        again = RunFolder.open(run.path, clock=Clock(run.state.last_at))
        await engine(again).run()
        assert decisions(again) == expected, f"killed at event {number}"
        assert again.state.ok
        check_whole(again)
        again.close()
    assert number > 40


async def wait_for(work: Engine, task: asyncio.Task[None], phase: Phase) -> None:
    while work.state.phase is not phase and not task.done():
        await asyncio.sleep(0)


@pytest.mark.parametrize("approve", [True, False])
async def test_a_review_waits_and_its_answer_is_in_the_journal(
    tmp_path: Path, approve: bool
) -> None:
    run = create(tmp_path / "task", rounds=8, mode=Mode.REVIEW)
    work = engine(run)
    task = asyncio.create_task(work.run())
    while work.state.gate is None:
        await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    assert work.state.phase is Phase.DECIDE
    best = work.state.best
    assert work.send(cmd.AnswerGate(work.state.gate.gate, approve, "because")) is None
    while work.state.phase is Phase.DECIDE:
        await asyncio.sleep(0)
    answered = [r.event for r in run.records if isinstance(r.event, ev.GateAnswered)]
    assert [(a.answer, a.comment) for a in answered] == [
        ("approve" if approve else "reject", "because")
    ]
    assert (work.state.best == best) is not approve
    if not approve:
        assert (run.path / "work" / "kernel.py").read_text() == KERNEL
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await work.close()


async def test_a_pause_holds_the_run_until_it_goes_on(tmp_path: Path) -> None:
    run = create(tmp_path / "task", rounds=3)
    work = engine(run)
    task = asyncio.create_task(work.run())
    await wait_for(work, task, Phase.EDIT)
    assert work.send(cmd.Pause()) is None
    for _ in range(200):
        await asyncio.sleep(0)
    held = work.state.seq
    for _ in range(200):
        await asyncio.sleep(0)
    assert work.state.seq == held
    assert "paused" in work.live.activity
    assert work.send(cmd.Unpause()) is None
    await task
    assert work.state.settled == 3
    await work.close()


async def test_a_cancelled_run_can_be_resumed(tmp_path: Path) -> None:
    run = create(tmp_path / "task", rounds=3)
    work = engine(run)
    task = asyncio.create_task(work.run())
    await wait_for(work, task, Phase.EVAL)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await work.close()
    again = RunFolder.open(run.path, clock=Clock(run.state.last_at))
    await engine(again).run()
    assert again.state.settled == 3
    check_whole(again)
    again.close()


@pytest.mark.parametrize("call", ["write", "fsync"])
async def test_a_full_disk_stops_the_run_and_it_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    expected = await unkilled(tmp_path / "unkilled")
    run = create(tmp_path / "full", rounds=4)
    work = engine(run)
    left = iter(range(40))
    real = getattr(os, call)

    def full(descriptor: int, *data: bytes) -> object:
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        return real(descriptor, *data)

    with monkeypatch.context() as patched:
        patched.setattr(os, call, full)
        with pytest.raises(StoreError, match="No space left on device"):
            await work.run()
        await work.close()
    again = RunFolder.open(run.path, clock=Clock(run.state.last_at))
    await engine(again).run()
    assert decisions(again) == expected
    check_whole(again)
    again.close()


async def test_a_run_that_broke_says_so_in_its_journal_and_in_the_list(tmp_path: Path) -> None:
    run = create(tmp_path / "task", rounds=3)
    work = engine(run)
    work._commit_seed = lambda blob: 1 / 0  # type: ignore[assignment]
    with pytest.raises(ZeroDivisionError):
        await work.run()
    await work.close()
    told = summarize_run(run.path)
    assert (told.status, told.broke) == ("broken", "division by zero")
    assert "broken" in told.line()
    assert "division by zero" in told.line()
    again = RunFolder.open(run.path, clock=Clock(run.state.last_at))
    await engine(again).run()
    assert again.state.broke == ""
    assert again.state.settled == 3
    again.close()
    assert summarize_run(run.path).status == "finished"


async def test_a_paused_run_wakes_up_though_its_projection_failed(tmp_path: Path) -> None:
    """The event is durable, so it counts; only the files are late."""
    run = create(tmp_path / "task", rounds=2)
    work = engine(run)
    assert work.send(cmd.Pause()) is None
    task = asyncio.create_task(work.run())
    for _ in range(50):
        await asyncio.sleep(0)
    append = run.append

    def failing(event: ev.AnyEvent) -> ev.Record:
        append(event)
        raise JournalWriteError("the disk is full")

    run.append = failing  # type: ignore[method-assign]
    with pytest.raises(JournalWriteError):
        work.send(cmd.Unpause())
    run.append = append  # type: ignore[method-assign]
    await asyncio.wait_for(task, 60)
    assert run.state.settled == 2
    await work.close()
