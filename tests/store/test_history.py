"""The attempt history, seen through git itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from akg_tui.core.measurement import Interval
from akg_tui.store.errors import HistoryError
from akg_tui.store.history import History
from akg_tui.store.lock import RunLock

TEXT = "BLOCK = 64  # é\r\n\ttail without a line end"


def git(path: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(path), *arguments], capture_output=True, check=True, timeout=60
    )
    return done.stdout.decode()


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History.create(tmp_path / "history.git", kernel_file="kernel.py")


def loose(history: History, oid: str) -> Path:
    return history.path / "objects" / oid[:2] / oid[2:]


def attempt(history: History, text: str, parent: str | None = None) -> str:
    return history.commit(history.write_kernel(text), parent, "a kernel\n", 1000.5)


def test_git_reads_the_best_kernel_byte_for_byte(history: History) -> None:
    first = attempt(history, "first\n")
    second = attempt(history, TEXT, first)
    history.set_attempt(0, first)
    history.set_attempt(1, second)
    history.set_best(second)
    assert git(history.path, "show", "best:kernel.py") == TEXT
    assert git(history.path, "log", "--format=%H", "best").split() == [second, first]
    assert git(history.path, "rev-parse", "HEAD").strip() == second
    assert git(history.path, "rev-parse", "refs/akg/attempts/0").strip() == first
    fsck = git(history.path, "fsck", "--strict", "--no-dangling")
    assert fsck == ""
    assert history.refs() == {
        "refs/heads/best": second,
        "refs/akg/attempts/0": first,
        "refs/akg/attempts/1": second,
    }


def test_the_same_commit_has_the_same_id_everywhere(tmp_path: Path) -> None:
    ids = {
        attempt(History.create(tmp_path / name, kernel_file="kernel.py"), TEXT)
        for name in ("a.git", "b.git")
    }
    assert len(ids) == 1


def test_a_commit_makes_no_ref(history: History) -> None:
    attempt(history, TEXT)
    assert history.refs() == {}
    assert git(history.path, "for-each-ref") == ""


def test_a_message_has_trailers_that_git_understands(history: History) -> None:
    message = history.message_for(
        subject="p3: BLOCK = 64\n\x1b[31mred",
        round_number=3,
        item="p3",
        verdict="KEEP",
        ratio=Interval(1.5, 1.4, 1.6, 0.99),
    )
    commit = history.commit(history.write_kernel(TEXT), None, message, 0.0)
    told = git(history.path, "log", "-1", "--format=%(trailers:only)", commit)
    assert told.strip().splitlines() == [
        "Round: 3",
        "Item: p3",
        "Verdict: KEEP",
        "Ratio: 1.500 [1.400, 1.600]",
    ]
    assert git(history.path, "log", "-1", "--format=%s", commit) == "p3: BLOCK = 64 ␛[31mred\n"


@pytest.mark.parametrize("broken", [b"", b"\x00" * 40, b"x\x9c"])
def test_an_object_left_broken_by_a_power_loss_is_written_again(
    history: History, broken: bytes
) -> None:
    commit = attempt(history, TEXT)
    blob = git(history.path, "rev-parse", f"{commit}:kernel.py").strip()
    tree = git(history.path, "rev-parse", f"{commit}^{{tree}}").strip()
    for oid in (blob, tree, commit):
        path = loose(history, oid)
        path.chmod(0o644)
        path.write_bytes(broken)
    again = History.open(history.path, kernel_file="kernel.py")
    with pytest.raises(HistoryError, match=blob):
        again.read_files(blob)
    assert attempt(again, TEXT) == commit
    again.read_commit(commit)
    assert git(history.path, "show", f"{commit}:kernel.py") == TEXT


def test_a_stale_lock_is_removed_by_the_holder_of_the_run_only(
    history: History, tmp_path: Path
) -> None:
    history.set_best(attempt(history, "first\n"))
    stale = history.path / "refs" / "heads" / "best.lock"
    stale.touch()
    reader = History.open(history.path, kernel_file="kernel.py")
    second = attempt(reader, TEXT)
    with pytest.raises(HistoryError, match="cannot point"):
        reader.set_best(second)
    assert stale.exists()
    with RunLock.acquire(tmp_path) as lock:
        writer = History.open(history.path, kernel_file="kernel.py", lock=lock)
    writer.set_best(second)
    assert git(history.path, "show", "best:kernel.py") == TEXT


def test_a_missing_repository_or_object_is_told(history: History, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="cannot open"):
        History.open(tmp_path / "none.git", kernel_file="kernel.py")
    lost = "0" * 39 + "1"
    with pytest.raises(HistoryError, match=lost):
        history.read_files(lost)
    with pytest.raises(HistoryError, match=lost):
        history.set_best(lost)
    commit = attempt(history, TEXT)
    with pytest.raises(HistoryError, match="is a commit, not a kernel"):
        history.read_files(commit)


def test_the_module_does_not_load_pygit2() -> None:
    code = "import sys, akg_tui.store.run_folder; sys.exit('pygit2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
