"""A fork is a run of its own with its parent's history, and its parent never knows."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Phase
from akg_tui.store import fork as fork_module
from akg_tui.store.errors import HistoryError, RunFolderError
from akg_tui.store.fork import fork_run
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import list_runs, read_state
from tests.store import scripted
from tests.store.test_run_folder import everything, git


@pytest.fixture
def parent(played: RunFolder) -> Path:
    """A run that is over, after six rounds."""
    return played.path


def forked(parent: Path, number: int) -> fork_module.Fork:
    return fork_run(parent, number, version="1", clock=scripted.Clock())


def test_a_fork_holds_its_parents_history_up_to_the_round_and_says_where_it_is_from(
    parent: Path,
) -> None:
    before = everything(parent)
    made = forked(parent, 4)
    assert made.path == parent.with_name(f"{parent.name}-r4")
    assert everything(parent) == before
    lines = (made.path / "events.jsonl").read_bytes().splitlines(keepends=True)
    theirs = (parent / "events.jsonl").read_bytes().splitlines(keepends=True)
    assert lines[:-1] == theirs[: made.origin.seq]
    state = read_state(made.path)
    assert state == made.state
    assert (state.settled, state.phase, state.run_id) == (4, Phase.DECIDE, made.path.name)
    origin = state.forked
    assert origin is not None
    assert (origin.parent, origin.seq, origin.round) == (parent.name, made.origin.seq, 4)
    # What the parent's own next line calls the last line of the fork's history.
    assert f'"prev":"{origin.hash}"'.encode() in theirs[made.origin.seq]


def test_a_fork_needs_nothing_of_its_parent(parent: Path) -> None:
    state = read_state(parent)
    made = forked(parent, 4)
    shutil.rmtree(parent)
    assert git(made.path, "fsck", "--strict", "--no-dangling") == b""
    for attempt in state.attempts[:5]:
        ref = f"refs/akg/attempts/{attempt.number}"
        assert git(made.path, "rev-parse", ref).decode().strip() == attempt.commit
    assert git(made.path, "show", "best:kernel.py").decode() == scripted.candidate(4)
    again = RunFolder.open(made.path, clock=scripted.Clock(2_000_000_000.0))
    scripted.go_on(again)
    assert again.state.finished
    assert scripted.outcome(again)[:5] == [
        (a.number, a.round, a.item, a.verdict.value, a.blob) for a in state.attempts[:5]
    ]
    assert again.state.settled == 6
    assert again.state.worked_s < 1_000  # the years between parent and fork were not worked
    again.close()


def test_a_fork_from_the_baseline_has_no_round_yet(parent: Path) -> None:
    state = forked(parent, 0).state
    assert (state.settled, len(state.attempts), state.phase) == (0, 1, Phase.BASELINE)
    assert state.best is not None


def test_what_was_about_to_end_the_parent_does_not_end_the_fork(run: RunFolder) -> None:
    scripted.recover(run)
    while run.state.settled < 2:
        effect = scripted.fx.next_effect(run.state, run.state.last_at)
        assert effect is not None
        if isinstance(effect, scripted.fx.Commit) and run.state.settled == 1:
            run.append(ev.StopRequested(reason="enough"))
        scripted.perform(run, effect)
    made = forked(run.path, 2)  # while its parent is under work
    assert (run.state.stop_reason, made.state.stop_reason) == ("enough", "")


def held(run: RunFolder, number: int, *blobs: str) -> list[bool]:
    """Which of these kernels a fork at the end of the round holds."""
    with contextlib.closing(RunFolder.open(forked(run.path, number).path)) as fork:
        return [fork.history.holds(blob) for blob in blobs]


def test_a_fork_holds_the_kernels_of_trials_unless_one_is_lost(run: RunFolder) -> None:
    tried, lost = run.history.write_kernel("# tried\n"), "0" * 40
    while run.state.settled < 1:
        effect = scripted.fx.next_effect(run.state, run.state.last_at)
        assert effect is not None
        if isinstance(effect, scripted.fx.RunAgent) and effect.phase is Phase.EDIT:
            for blob in (tried, lost):
                scripted.send(run, cmd.RecordTrial(blob, "an edit", scripted.measurement(1)))
        scripted.perform(run, effect)
    assert held(run, 1, tried, lost) == [True, False]


def test_forks_of_one_round_have_names_of_their_own(parent: Path) -> None:
    assert [forked(parent, 1).path.name for _ in range(2)] == [
        f"{parent.name}-r1",
        f"{parent.name}-r1-2",
    ]
    assert len(list_runs(parent.parent)) == 3


def test_a_fork_of_a_fork_folds(parent: Path) -> None:
    second = forked(forked(parent, 4).path, 2)
    assert second.state.settled == 2
    third = forked(forked(parent, 4).path, 4)
    assert third.state.settled == 4


@pytest.mark.parametrize(("number", "told"), [(7, "its rounds are 1 to 6"), (99, "no round 99")])
def test_a_round_that_there_is_not_is_told_and_nothing_is_left(
    parent: Path, number: int, told: str
) -> None:
    with pytest.raises(RunFolderError, match=told):
        forked(parent, number)
    assert [path.name for path in parent.parent.iterdir()] == [parent.name]


def test_a_run_without_a_baseline_cannot_be_forked(run: RunFolder) -> None:
    with pytest.raises(RunFolderError, match="no accepted baseline"):
        forked(run.path, 0)
    with pytest.raises(RunFolderError, match="no round is settled yet"):
        forked(run.path, 1)


def test_a_fork_that_fails_half_way_leaves_nothing(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = read_state(parent).attempts[1].commit
    path = parent / "history.git" / "objects" / lost[:2] / lost[2:]
    path.chmod(0o644)
    path.write_bytes(b"")
    with pytest.raises(HistoryError):
        forked(parent, 3)
    assert [each.name for each in parent.parent.iterdir()] == [parent.name]

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(fork_module, "write_synced", full)
        with pytest.raises(RunFolderError, match="No space left on device"):
            forked(parent, 0)
    assert [each.name for each in parent.parent.iterdir()] == [parent.name]


def test_a_fork_killed_before_its_rename_is_no_run(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        os._exit(9)

    child = os.fork()
    if child == 0:
        monkeypatch.setattr(Path, "rename", killed)
        forked(parent, 3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 9
    assert [run.path for run in list_runs(parent.parent)] == [str(parent)]
    assert forked(parent, 3).state.settled == 3
