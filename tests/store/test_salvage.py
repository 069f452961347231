"""A damaged run: looked over by `check_run`, and what is sound of it made a run again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from akg_tui.core import events as ev
from akg_tui.core.phases import Verdict
from akg_tui.store.checkup import Health, check_run
from akg_tui.store.errors import JournalTooNew, RunFolderError, RunLocked, StoreError
from akg_tui.store.fork import fork_run
from akg_tui.store.journal_format import continued
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import read_state
from akg_tui.store.salvage import salvage
from akg_tui.store.task_folder import TaskFolder, load_task
from tests.store import scripted
from tests.store.test_disk_trouble import signed


def loose(run: Path, oid: str) -> Path:
    return run / "history.git" / "objects" / oid[:2] / oid[2:]


BEST = "history.git/refs/heads/best"


def bytes_of(run: Path) -> dict[str, bytes]:
    return {str(p.relative_to(run)): p.read_bytes() for p in run.rglob("*") if p.is_file()}


def health(run: Path) -> dict[str, Health]:
    """By name; the worst where a name stands twice. Nothing may be written meanwhile."""
    before = bytes_of(run)
    found = {check.name: check.health for check in check_run(run)}
    assert bytes_of(run) == before
    return found


def sound(run: Path) -> bool:
    return set(health(run).values()) == {Health.OK}


def finished(run: Path) -> RunFolder:
    """Resume to the end."""
    opened = RunFolder.open(run, clock=scripted.Clock(read_state(run).last_at))
    scripted.go_on(opened)
    opened.close()
    return opened


def test_a_whole_run_is_sound_at_every_moment(run: RunFolder) -> None:
    assert {**health(run.path), "lock": Health.OK} == dict.fromkeys(health(run.path), Health.OK)
    assert health(run.path)["lock"] is Health.WARN, "this process is at work on it"
    scripted.go_on(run)
    run.close()
    assert sound(run.path)


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 0xFF
    file.chmod(0o644)
    file.write_bytes(data)


def drop_work_line(run: Path) -> None:
    (run / "work" / "kernel.py").write_text("mine")


@pytest.mark.parametrize(
    ("spoil", "name", "expected"),
    [
        (lambda run: flip(run / "events.jsonl", 900), "journal", Health.BAD),
        (lambda run: (run / "events.jsonl").open("ab").write(b"torn"), "journal", Health.WARN),
        (lambda run: shutil.rmtree(run / "history.git"), "history", Health.BAD),
        (
            lambda run: (run / "history.git/refs/heads/best").write_bytes(b""),
            "history",
            Health.WARN,
        ),
        (lambda run: (run / "history.git/HEAD").unlink(), "history", Health.WARN),
        (lambda run: (run / "history.git/refs/heads/x.lock").touch(), "history", Health.WARN),
        (drop_work_line, "work tree", Health.WARN),
        (lambda run: shutil.rmtree(run / "work"), "work tree", Health.WARN),
        (lambda run: (run / "task/reference.py").write_text("x"), "reference", Health.BAD),
        (lambda run: (run / "task/reference.py").unlink(), "reference", Health.BAD),
        (lambda run: (run / "lock").write_text("999999 1 b\n"), "lock", Health.OK),
    ],
)
def test_each_kind_of_damage_is_told_by_its_name(
    played: RunFolder, spoil: Callable[[Path], object], name: str, expected: Health
) -> None:
    spoil(played.path)
    found = health(played.path)
    assert found[name] is expected
    if expected is Health.BAD:
        told = next(check for check in check_run(played.path) if check.name == name)
        assert told.mend
        with pytest.raises(StoreError):
            RunFolder.open(played.path)
    else:
        RunFolder.open(played.path).close()
        assert sound(played.path), "what is only a warning is mended by a resume"


@pytest.mark.parametrize("part", ["blob", "commit"])
def test_a_lost_object_is_told_with_its_attempt(played: RunFolder, part: str) -> None:
    loose(played.path, getattr(played.state.attempts[3], part)).unlink()
    told = next(check for check in check_run(played.path) if check.name == "objects")
    assert told.health is Health.BAD
    assert "attempt 3, DISCARD" in told.found
    assert ("its kernel's text too" in told.found) == (part == "blob")


def test_a_journal_damaged_in_the_middle_is_saved_up_to_there_and_goes_on(
    played: RunFolder, tmp_path: Path
) -> None:
    journal = played.path / "events.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    flip(journal, sum(map(len, lines[:60])) + 40)
    before = bytes_of(played.path)
    saved = salvage(played.path, tmp_path / "saved")
    assert bytes_of(played.path) == before, "the damaged run is left as it is"
    assert saved.events == 60
    assert saved.lost == ()
    assert "the journal ends before event 61: its checksum is wrong" in saved.told
    assert sound(tmp_path / "saved")
    kept = (tmp_path / "saved" / "events.jsonl").read_bytes().splitlines(keepends=True)
    assert kept[:60] == lines[:60]
    assert read_state(tmp_path / "saved").run_id == "saved"
    assert scripted.outcome(finished(tmp_path / "saved")) == scripted.outcome(played)


def test_a_sound_prefix_of_any_length_is_saved_and_ends_the_same(
    played: RunFolder, tmp_path: Path
) -> None:
    lines = (played.path / "events.jsonl").read_bytes().splitlines(keepends=True)
    for kept in range(1, len(lines), 5):
        data = b"".join(lines[:kept]) + b"x" + lines[kept] + b"".join(lines[kept + 1 :])
        (played.path / "events.jsonl").write_bytes(data)
        out = tmp_path / f"saved-{kept}"
        assert salvage(played.path, out).events == kept
        assert sound(out)
        assert scripted.outcome(finished(out)) == scripted.outcome(played)
        assert sound(out)


def test_a_lost_kernel_that_is_not_the_best_costs_only_itself(
    played: RunFolder, tmp_path: Path
) -> None:
    loose(played.path, played.state.attempts[3].blob).unlink()
    saved = salvage(played.path, tmp_path / "saved")
    assert (saved.lost, saved.best, saved.dropped) == ((3,), 4, 0)
    assert health(tmp_path / "saved")["objects"] is Health.WARN
    state = finished(tmp_path / "saved").state
    assert state.finished == played.state.finished
    assert [attempt.verdict for attempt in state.attempts] == [
        attempt.verdict for attempt in played.state.attempts
    ]
    (told,) = [r.event for r in RunFolder.open(tmp_path / "saved").records if is_salvage(r.event)]
    assert isinstance(told, ev.RunSalvaged)
    assert told.lost == (3,)
    assert told.source == played.path.name


def is_salvage(event: ev.AnyEvent) -> bool:
    return isinstance(event, ev.RunSalvaged)


def test_a_lost_best_falls_back_to_the_newest_kept_attempt_that_exists(
    played: RunFolder, tmp_path: Path
) -> None:
    assert played.state.best is not None
    assert played.state.best.attempt == 4
    loose(played.path, played.state.best.blob).unlink()
    (played.path / "work" / "kernel.py").unlink()
    saved = salvage(played.path, tmp_path / "saved")
    assert saved.best == 1
    assert 4 in saved.lost
    assert "the best kernel is lost: attempt 1 is the incumbent again" in saved.told
    state = read_state(tmp_path / "saved")
    assert not state.finished, "the last measurement was of the lost one"
    ended = finished(tmp_path / "saved")
    assert ended.state.best is not None
    best = ended.state.best
    assert (best.attempt, best.blob) == (1, played.state.attempts[1].blob)
    assert ended.state.final is not None, "the one that is left was measured afresh"
    assert health(tmp_path / "saved")["objects"] is Health.WARN
    kernel = (tmp_path / "saved" / "work" / "kernel.py").read_text()
    assert kernel == scripted.candidate(1)


def test_all_kept_kernels_lost_falls_back_to_the_seed(played: RunFolder, tmp_path: Path) -> None:
    for attempt in played.state.attempts[1:]:
        if attempt.verdict is Verdict.KEEP:
            loose(played.path, attempt.blob).unlink()
    (played.path / "work" / "kernel.py").unlink()
    assert salvage(played.path, tmp_path / "saved").best == 0
    assert finished(tmp_path / "saved").state.ok


def test_a_lost_kernel_is_found_where_its_bytes_still_are(
    played: RunFolder, tmp_path: Path
) -> None:
    """The best in the work tree, the seed in the task folder: nothing is lost."""
    shutil.rmtree(played.path / "history.git")
    saved = salvage(played.path, tmp_path / "saved")
    assert saved.best == 4
    assert 4 not in saved.lost
    assert 0 not in saved.lost
    assert scripted.outcome(finished(tmp_path / "saved")) == scripted.outcome(played)


def test_lost_commits_are_made_anew(played: RunFolder, tmp_path: Path) -> None:
    loose(played.path, played.state.attempts[1].commit).unlink()
    saved = salvage(played.path, tmp_path / "saved")
    assert saved.lost == ()
    assert sound(tmp_path / "saved")
    assert scripted.outcome(finished(tmp_path / "saved")) == scripted.outcome(played)


def test_a_reference_that_changed_is_taken_from_the_task_folder(
    played: RunFolder, tmp_path: Path, task: TaskFolder
) -> None:
    (played.path / "task" / "reference.py").write_text("changed")
    salvage(played.path, tmp_path / "saved")
    assert sound(tmp_path / "saved")
    (task.path / "reference.py").write_text("changed")
    with pytest.raises(RunFolderError, match="put it back as"):
        salvage(played.path, tmp_path / "again")


def test_a_salvage_that_fails_or_is_killed_leaves_no_half_run(
    played: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = os.fsync, [0]

    def full(descriptor: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        real(descriptor)

    out = tmp_path / "saved"
    flip(played.path / "events.jsonl", 9000)
    before = bytes_of(played.path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        for room in range(0, 60, 7):
            left[0] = room
            with pytest.raises(StoreError, match="No space left"):
                salvage(played.path, out)
            assert sorted(path.name for path in tmp_path.iterdir()) == ["task"]
    (tmp_path / ".saved.new" / "task").mkdir(parents=True)  # as a killed one leaves it
    salvage(played.path, out)
    assert sound(out)
    assert bytes_of(played.path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["saved", "task"]


def test_what_cannot_be_saved_is_told_and_leaves_nothing(
    run: RunFolder, tmp_path: Path, task: TaskFolder
) -> None:
    out = tmp_path / "saved"
    with pytest.raises(RunLocked):
        salvage(run.path, out)
    run.close()
    with pytest.raises(RunFolderError, match="is not a run"):
        salvage(task.path, out)
    (tmp_path / "there").mkdir()
    with pytest.raises(RunFolderError, match="is there already"):
        salvage(run.path, tmp_path / "there")
    journal = run.path / "events.jsonl"
    line = journal.read_bytes()
    journal.write_bytes(line + signed(b'{"schema":9}'))
    with pytest.raises(JournalTooNew, match="update akg-tui"):
        salvage(run.path, out)
    journal.write_bytes(b"x" + line)
    with pytest.raises(RunFolderError, match="no event can be read"):
        salvage(run.path, out)
    journal.write_bytes(line)
    for kernel in (task.path / "kernel.py", run.path / "work" / "kernel.py"):
        kernel.write_text("other")
    loose(run.path, run.state.seed_blob).unlink()
    with pytest.raises(RunFolderError, match="the first kernel's text is lost"):
        salvage(run.path, out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["task", "there"]


LOSSES: dict[str, Callable[[RunFolder], object]] = {
    "a kernel": lambda run: loose(run.path, run.state.attempts[3].blob).unlink(),
    "a commit": lambda run: loose(run.path, run.state.attempts[1].commit).unlink(),
    "the history": lambda run: shutil.rmtree(run.path / "history.git"),
    "the best": lambda run: (
        loose(run.path, run.state.attempts[4].blob).unlink(),
        (run.path / "work" / "kernel.py").unlink(),
    ),
}


@pytest.mark.parametrize("number", [0, 3, 5])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_salvaged_run_is_forked_like_any_other(
    played: RunFolder, tmp_path: Path, loss: str, number: int
) -> None:
    LOSSES[loss](played)
    saved = salvage(played.path, tmp_path / "saved")
    lost = {attempt for attempt in saved.lost if attempt <= number}
    made = fork_run(tmp_path / "saved", number, version="1", clock=scripted.Clock())
    assert {attempt.number for attempt in made.state.attempts if attempt.lost} == lost
    assert made.state.best is not None
    assert made.state.best.attempt not in lost
    assert sound(made.path) or lost
    state = finished(made.path).state
    assert state.ok
    assert state.settled == played.state.settled


def test_the_texts_of_edits_that_came_to_no_attempt_are_saved_too(
    run: RunFolder, tmp_path: Path
) -> None:
    scripted.go_on(run)
    blob = run.history.write_kernel("# tried, and edited again\n")
    edits = [r for r in run.records if isinstance(r.event, ev.KernelEdited)]
    run.close()
    lines = (run.path / "events.jsonl").read_bytes().splitlines(keepends=True)
    # An edit before the one that was measured, as an agent that edits twice leaves it.
    first = edits[0]
    assert isinstance(first.event, ev.KernelEdited)
    kept = lines[: first.seq]
    twice = replace(first.event, blob=blob)
    (run.path / "events.jsonl").write_bytes(continued(kept, twice, first.at) + b"damage\n")
    salvage(run.path, tmp_path / "saved")
    saved = RunFolder.open(tmp_path / "saved")
    assert saved.history.read_kernel(blob).text == "# tried, and edited again\n"
    saved.close()


@pytest.mark.parametrize("named", ["", "mine.yaml"])
def test_a_salvage_keeps_the_tools_of_the_run(tmp_path: Path, named: str) -> None:
    folder = tmp_path / "task"
    scripted.make_task(folder)
    names = [named] if named else ["tools.yaml", "domain_tools.yaml"]
    if named:
        with (folder / "task.toml").open("a") as toml:
            toml.write(f'\n[agent]\ntools = "{named}"\n')
    for name in names:
        (folder / name).write_text(f"# {name}\ntools: {{}}\n")
    run = scripted.create_run(load_task(folder))
    run.close()
    shutil.rmtree(folder / "runs" / run.path.name / "history.git")
    salvage(run.path, tmp_path / "saved")
    for name in names:
        assert (tmp_path / "saved" / "task" / name).read_text() == f"# {name}\ntools: {{}}\n"
