"""A damaged run: each damage is told by its name, and a fork goes on from what is sound."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from akg_tui.store.checkup import Health, check_run
from akg_tui.store.errors import JournalDamaged, RunFolderError, StoreError
from akg_tui.store.fork import fork_run
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import read_state
from tests.store import scripted
from tests.store.test_disk_trouble import signed


def loose(run: Path, oid: str) -> Path:
    return run / "history.git" / "objects" / oid[:2] / oid[2:]


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


def damage(run: Path, event: int) -> None:
    """Spoil an event in the middle of the journal."""
    journal = run / "events.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    flip(journal, sum(map(len, lines[: event - 1])) + 40)


def test_a_journal_damaged_in_the_middle_goes_on_from_its_last_sound_round(
    played: RunFolder,
) -> None:
    damage(played.path, 61)
    before = bytes_of(played.path)
    made = fork_run(played.path, clock=scripted.Clock())
    assert bytes_of(played.path) == before, "the damaged run is left as it is"
    assert made.damage == "its checksum is wrong"
    assert made.origin.seq <= 60
    assert made.state.settled == made.origin.round > 0
    assert sound(made.path)
    assert scripted.outcome(finished(made.path)) == scripted.outcome(played)
    with pytest.raises(JournalDamaged, match="event 61"):
        fork_run(played.path, 6)


def test_a_sound_prefix_of_any_length_goes_on_and_ends_the_same(played: RunFolder) -> None:
    lines = (played.path / "events.jsonl").read_bytes().splitlines(keepends=True)
    rounds = []
    for kept in range(5, len(lines), 10):
        data = b"".join(lines[:kept]) + b"x" + lines[kept] + b"".join(lines[kept + 1 :])
        (played.path / "events.jsonl").write_bytes(data)
        if kept < 15:
            with pytest.raises(RunFolderError, match="no accepted baseline"):
                fork_run(played.path)
            continue
        made = fork_run(played.path, clock=scripted.Clock())
        rounds.append(made.origin.round)
        assert scripted.outcome(finished(made.path)) == scripted.outcome(played)
        assert sound(made.path)
    assert rounds == sorted(rounds)
    assert {0, 5} <= {*rounds}


def test_a_lost_kernel_that_is_not_the_best_costs_only_itself(played: RunFolder) -> None:
    loose(played.path, played.state.attempts[3].blob).unlink()
    made = fork_run(played.path, clock=scripted.Clock())
    assert (made.origin.round, made.origin.lost, made.damage) == (6, (3,), "")
    assert health(made.path)["objects"] is Health.WARN
    state = finished(made.path).state
    assert state.finished == played.state.finished
    assert [each.number for each in state.attempts if each.lost] == [3]
    assert scripted.outcome(finished(made.path)) == scripted.outcome(played)


def test_with_its_best_lost_a_run_goes_on_from_the_round_before(played: RunFolder) -> None:
    best = played.state.best
    assert best is not None
    loose(played.path, best.blob).unlink()
    made = fork_run(played.path, clock=scripted.Clock())
    assert made.origin.round == played.state.attempts[best.attempt].round - 1
    assert sound(made.path)
    ended = finished(made.path).state
    assert (ended.ok, ended.settled) == (True, 6)


def test_what_cannot_be_forked_is_told_and_leaves_nothing(run: RunFolder) -> None:
    scripted.go_on(run)
    run.close()
    runs, journal = run.path.parent, run.path / "events.jsonl"
    data = journal.read_bytes()
    first = data.splitlines(keepends=True)[0]
    reference = run.path / "task" / "reference.py"
    text = reference.read_text()
    spoilt: dict[str, tuple[bytes, str]] = {
        "update akg-tui": (data + signed(b'{"schema":9}'), text),
        "event 1, byte 0": (b"x" + data, text),
        "no accepted baseline": (first, text),
        "was changed after the run began": (data, "changed"),
    }
    for why, (events, source) in spoilt.items():
        journal.write_bytes(events)
        reference.write_text(source)
        with pytest.raises(StoreError, match=why):
            fork_run(run.path)
    journal.write_bytes(data)
    reference.write_text(text)
    shutil.rmtree(run.path / "history.git")
    with pytest.raises(StoreError, match="cannot open the attempt history"):
        fork_run(run.path)
    assert [path.name for path in runs.iterdir()] == [run.path.name]
