"""What disks, clocks and other people do to a run that is open, or was left."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from akg_tui.core import events as ev
from akg_tui.store.errors import JournalDamaged, JournalTooNew, JournalWriteError, StoreError
from akg_tui.store.history import broken_refs
from akg_tui.store.run_folder import RunFolder
from akg_tui.store.run_list import read_state
from akg_tui.store.task_folder import TaskFolder
from tests.store import scripted


def resumes(path: Path, like: RunFolder) -> None:
    again = RunFolder.open(path)
    assert scripted.outcome(again) == scripted.outcome(like)
    assert again.history.refs()["refs/heads/best"] == again.state.best.commit  # type: ignore[union-attr]
    again.close()


@pytest.mark.parametrize("tail", [bytes(1), bytes(4096), b'01234567 {"seq"' + bytes(900)])
def test_zero_bytes_at_the_end_are_cut_off(played: RunFolder, tail: bytes) -> None:
    journal = played.path / "events.jsonl"
    before = journal.read_bytes()
    journal.write_bytes(before + tail)
    assert read_state(played.path) == played.state
    resumes(played.path, played)
    assert journal.read_bytes() == before


def test_zero_bytes_in_the_middle_are_refused_with_their_place(played: RunFolder) -> None:
    journal = played.path / "events.jsonl"
    data = journal.read_bytes()
    third = sum(len(line) + 1 for line in data.split(b"\n")[:2])
    journal.write_bytes(data[: third + 20] + bytes(30) + data[third + 50 :])
    with pytest.raises(JournalDamaged, match=f"event 3, byte {third}: it has zero bytes") as told:
        RunFolder.open(played.path)
    assert told.value.offset == third
    assert f"akg-tui fork {played.path}" in str(told.value)


def empty(file: Path) -> None:
    file.chmod(0o644)
    file.write_bytes(b"")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda git: empty(git / "refs/heads/best"),
        lambda git: (git / "refs/heads/best").write_bytes(bytes(41)),
        lambda git: empty(git / "refs/akg/attempts/2"),
        lambda git: (git / "refs/akg/attempts/2").write_text("not an id\n"),
        lambda git: empty(git / "HEAD"),
        lambda git: (git / "HEAD").unlink(),
        lambda git: (git / "config").write_bytes(bytes(66)),
        lambda git: (git / "config").unlink(),
        lambda git: (git / "index.lock").touch(),
        lambda git: (git / "HEAD.lock").touch(),
        lambda git: (git / "refs/akg/attempts/2.lock").touch(),
        lambda git: shutil.rmtree(git / "refs/akg"),
    ],
)
def test_what_a_power_loss_leaves_in_the_repository_is_mended(
    played: RunFolder, spoil: Callable[[Path], object]
) -> None:
    git = played.path / "history.git"
    spoil(git)
    resumes(played.path, played)
    assert broken_refs(git) == []
    assert not list(git.rglob("*.lock"))
    shown = subprocess.run(
        ["git", "-C", str(git), "show", "best:kernel.py"], capture_output=True, check=True
    )
    assert shown.stdout == (played.path / "work" / "kernel.py").read_bytes()


def test_attempts_in_a_pack_are_found_and_written_no_second_time(played: RunFolder) -> None:
    git = played.path / "history.git"
    subprocess.run(["git", "-C", str(git), "gc", "-q"], check=True, timeout=60)
    assert not list((git / "objects").glob("[0-9a-f][0-9a-f]/*"))
    again = RunFolder.open(played.path)
    blob = again.history.write_kernel(scripted.candidate(1))
    assert again.history.read_kernel(blob).text == scripted.candidate(1)
    again.close()


def test_an_object_cut_short_is_refused_by_its_id(played: RunFolder) -> None:
    oid = played.state.attempts[2].blob
    loose = played.path / "history.git" / "objects" / oid[:2] / oid[2:]
    loose.chmod(0o644)
    for data in (b"", loose.read_bytes()[:9], bytes(30)):
        loose.write_bytes(data)
        with pytest.raises(StoreError, match=oid):
            RunFolder.open(played.path)


@pytest.mark.parametrize("gone", ["moved", "deleted", "replaced"])
def test_a_run_folder_that_goes_away_stops_the_run_and_takes_no_event(
    run: RunFolder, gone: str, tmp_path: Path
) -> None:
    run.append(ev.HintGiven(text="here"))
    kept = tmp_path / "kept"
    if gone == "deleted":
        shutil.rmtree(run.path)
    else:
        run.path.rename(kept)
    if gone == "replaced":
        shutil.copytree(kept, run.path)
    for _ in range(2):
        with pytest.raises(JournalWriteError, match="moved or deleted while it was open"):
            run.append(ev.HintGiven(text="gone"))
    run.close()
    if gone != "deleted":
        again = RunFolder.open(kept)
        assert again.state.hints == ("here",)
        again.close()


def test_a_journal_that_somebody_else_wrote_in_takes_no_event(run: RunFolder) -> None:
    with (run.path / "events.jsonl").open("ab") as stranger:
        stranger.write(b"x")
    with pytest.raises(JournalWriteError, match="somebody else wrote"):
        run.append(ev.Paused())
    run.close()
    again = RunFolder.open(run.path)  # the stranger's byte is a torn tail
    again.append(ev.Paused())
    again.close()


def test_a_clock_that_goes_back_neither_stops_a_run_nor_takes_time_off(task: TaskFolder) -> None:
    run = scripted.create_run(task)
    scripted.recover(run)
    worked = run.state.worked_s
    run._clock = scripted.Clock(1_000_000_000.0)  # twenty years before
    scripted.play(run)
    assert run.state.ok
    assert run.state.worked_s >= worked
    run.close()
    resumes(run.path, run)


@pytest.mark.parametrize("told", ["a dead one", "the number of a living one"])
def test_a_lock_left_by_another_process_is_taken(run: RunFolder, told: str) -> None:
    run.close()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        text = f"{other.pid} 1 some-boot\n" if told != "a dead one" else "999999 5 boot\n"
        (run.path / "lock").write_text(text)
        RunFolder.open(run.path).close()
        other.communicate(b"\n")


def test_a_newer_journal_is_told_from_a_damaged_one(run: RunFolder) -> None:
    run._journal.append(ev.Paused(), 1.0)
    run.close()
    journal = run.path / "events.jsonl"
    data = journal.read_bytes()
    first, second = data.splitlines(keepends=True)
    for old, new, what in (
        (b'"schema":1', b'"schema":2', "schema 2, this version reads up to 1"),
        (b'"type":"Paused"', b'"type":"Cloned"', "an event 'Cloned', which this version does not"),
        (
            b'"type":"Paused"',
            b'"type":"Paused","by":1',
            "Paused: Object contains unknown field `by`",
        ),
    ):
        journal.write_bytes(first + signed(second[9:-1].replace(old, new)))
        with pytest.raises(JournalTooNew, match=what) as told:
            RunFolder.open(run.path)
        assert "update akg-tui" in str(told.value)
        assert "event 2" in str(told.value)
    # A newer line may have parts that this version has never heard of.
    journal.write_bytes(first + signed(b'{"schema":9,"parts":[1]}'))
    with pytest.raises(JournalTooNew, match="schema 9"):
        RunFolder.open(run.path)


def signed(payload: bytes) -> bytes:
    return b"%08x %b\n" % (zlib.crc32(payload), payload)
