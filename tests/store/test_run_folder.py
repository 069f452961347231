"""A run's folder: made whole, opened again, recovered, refused with a reason."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from akg_tui.core import events as ev
from akg_tui.core.fold import fold
from akg_tui.core.phases import IllegalTransition, Phase
from akg_tui.core.plan.plan_document import render_plan
from akg_tui.store.errors import (
    JournalDamaged,
    RunFolderError,
    StoreError,
)
from akg_tui.store.journal import read
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import list_runs, read_state
from akg_tui.store.task_folder import TaskFolder
from tests.store import scripted


def git(run: Path, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(run / "history.git"), *arguments],
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout


def everything(run: Path) -> dict[str, bytes]:
    return {str(p.relative_to(run)): p.read_bytes() for p in run.rglob("*") if p.is_file()}


def test_a_new_run_is_whole(run: RunFolder, task: TaskFolder) -> None:
    assert run.path == task.path / "runs" / "20260101-000000-add_one"
    assert (run.path / "task" / "reference.py").read_text() == scripted.REFERENCE
    assert (run.path / "task" / "task.toml").read_text() == scripted.TOML
    assert (run.path / "work" / "kernel.py").read_text() == scripted.KERNEL
    assert (run.path / "PLAN.md").read_text() == render_plan(run.state)
    assert run.reference == scripted.REFERENCE
    assert run.state.run_id == run.path.name
    assert [type(record.event) for record in run.records] == [ev.RunCreated]
    assert [path.name for path in run.path.parent.iterdir()] == [run.path.name]


def test_a_played_run_shows_the_same_everywhere(run: RunFolder) -> None:
    scripted.go_on(run)
    state = run.state
    assert state.finished
    assert state.best is not None
    verdicts = " ".join(attempt.verdict for attempt in state.attempts)
    assert verdicts == "KEEP KEEP FAIL DISCARD KEEP FAIL DISCARD"
    best = git(run.path, "show", "best:kernel.py")
    assert best == (run.path / "work" / "kernel.py").read_bytes()
    assert best.decode() == scripted.candidate(state.best.attempt)
    assert git(run.path, "fsck", "--strict", "--no-dangling") == b""
    for attempt in state.attempts:
        ref = f"refs/akg/attempts/{attempt.number}"
        assert git(run.path, "rev-parse", ref).decode().strip() == attempt.commit
    log = git(run.path, "log", "--format=%(trailers:key=Verdict,valueonly,separator=)", "best")
    assert log.decode().split() == ["KEEP", "KEEP"]
    assert fold(run.records) == state == read_state(run.path)
    assert read(run.path / "events.jsonl") == list(run.records)


def test_opening_again_gives_the_same_state_and_changes_no_file(run: RunFolder) -> None:
    scripted.go_on(run)
    state = run.state
    run.close()
    before = everything(run.path)
    again = RunFolder.open(run.path)
    assert again.state == state
    again.close()
    assert everything(run.path) == before


def spoil_refs(run: Path) -> None:
    for ref in (run / "history.git" / "refs").rglob("*"):
        if ref.is_file():
            ref.unlink()
    (run / "history.git" / "refs" / "heads" / "best.lock").touch()


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_refs,
        lambda run: (run / "PLAN.md").write_text("mine"),
        lambda run: (run / "PLAN.md").unlink(),
        lambda run: (run / "work" / "kernel.py").write_text("mine"),
        lambda run: (run / "work" / ".kernel.py.tmp").write_text("left"),
        lambda run: (run / "PLAN.md").unlink() or (run / "PLAN.md").symlink_to("/etc/passwd"),
    ],
)
def test_projections_are_made_anew_from_the_journal(
    run: RunFolder, spoil: Callable[[Path], object]
) -> None:
    scripted.go_on(run)
    run.close()
    refs = git(run.path, "for-each-ref")
    plan = (run.path / "PLAN.md").read_bytes()
    kernel = (run.path / "work" / "kernel.py").read_bytes()
    spoil(run.path)
    RunFolder.open(run.path).close()
    assert git(run.path, "for-each-ref") == refs
    assert (run.path / "PLAN.md").read_bytes() == plan
    assert not (run.path / "PLAN.md").is_symlink()
    assert (run.path / "work" / "kernel.py").read_bytes() == kernel


def test_an_event_against_the_rules_is_not_written(run: RunFolder) -> None:
    before = (run.path / "events.jsonl").read_bytes()
    with pytest.raises(IllegalTransition):
        run.append(ev.PhaseEntered(phase=Phase.DECIDE, previous=Phase.INIT))
    assert (run.path / "events.jsonl").read_bytes() == before
    run.append(ev.HintGiven(text="go on"))
    assert run.state.hints == ("go on",)


def test_runs_of_the_same_second_get_names_of_their_own(task: TaskFolder) -> None:
    made = [scripted.create_run(task, "now") for _ in range(3)]
    assert [run.path.name for run in made] == ["now", "now-2", "now-3"]
    assert [run.state.run_id for run in made] == ["now", "now-2", "now-3"]
    for run in made:
        run.close()


def test_a_run_goes_on_when_its_task_folder_changed(run: RunFolder, task: TaskFolder) -> None:
    run.close()
    for name in ("task.toml", "reference.py", "kernel.py"):
        (task.path / name).unlink()
    again = RunFolder.open(run.path)
    scripted.go_on(again)
    assert again.state.ok
    again.close()


def test_a_run_whose_reference_changed_is_refused(run: RunFolder) -> None:
    run.close()
    (run.path / "task" / "reference.py").write_text(scripted.REFERENCE + "\n")
    with pytest.raises(RunFolderError, match="was changed after the run began"):
        RunFolder.open(run.path)
    # The refusal gave the lock back.
    (run.path / "task" / "reference.py").write_text(scripted.REFERENCE)
    RunFolder.open(run.path).close()


def test_a_journal_that_breaks_the_rules_is_refused(run: RunFolder) -> None:
    # A whole, well-formed line in the wrong place, as a bug or a hand might leave it.
    run._journal.append(ev.PhaseEntered(phase=Phase.EVAL, previous=Phase.INIT), 1.0)
    run.close()
    with pytest.raises(JournalDamaged, match="breaks the rules") as damage:
        RunFolder.open(run.path)
    assert damage.value.line == 2
    assert list_runs(run.path)[0].status == "damaged"


def test_what_is_no_run_is_told(tmp_path: Path, task: TaskFolder) -> None:
    for path in (tmp_path / "none", task.path):
        with pytest.raises(RunFolderError, match="is not a run"):
            RunFolder.open(path)
        with pytest.raises(RunFolderError, match="is not a run"):
            read_state(path)
    (task.path / "events.jsonl").touch()
    with pytest.raises(RunFolderError, match="holds no event"):
        RunFolder.open(task.path)


def test_an_unwritable_place_is_told_and_nothing_is_left(task: TaskFolder) -> None:
    (task.path / "runs").write_text("a file is in the way")
    with pytest.raises(StoreError, match="cannot make a run") as told:
        scripted.create_run(task)
    assert str(told.value).isprintable()


def test_a_creation_that_fails_leaves_nothing(
    task: TaskFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    (task.path / "runs").mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="No space left"):
            scripted.create_run(task)
    assert list((task.path / "runs").iterdir()) == []


def test_runs_are_listed_with_what_became_of_them(task: TaskFolder) -> None:
    names = ("a", "b", "c", "d")
    a, b, c, d = (scripted.create_run(task, name) for name in names)
    scripted.go_on(a)
    for closed in (a, c, d):
        closed.close()
    damaged = c.path / "events.jsonl"
    line = damaged.read_bytes()
    damaged.write_bytes(b"x" + line[1:] + line)
    listed = {Path(run.path).name: run for run in list_runs(task.path.parent)}
    assert {name: run.status for name, run in listed.items()} == {
        "a": "finished",
        "b": "running",
        "c": "damaged",
        "d": "open",
    }
    assert listed["b"].pid == os.getpid()
    assert listed["a"].rounds == scripted.ROUNDS
    assert listed["a"].as_json()["verdicts"] == {
        "KEEP": 2,
        "DISCARD": 2,
        "FAIL": 2,
        "INCONCLUSIVE": 0,
    }
    assert "checksum" in listed["c"].damaged
    assert all(run.line().isprintable() for run in listed.values())
    assert [Path(run.path).name for run in list_runs(a.path)] == ["a"]
    b.close()
    with pytest.raises(RunFolderError, match="is not a folder"):
        list_runs(task.path / "none")
