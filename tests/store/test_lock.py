"""One writer at a time, across processes, and none left behind by a dead one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from akg_tui.store.errors import RunFolderError, RunLocked
from akg_tui.store.lock import RunLock, holder

HOLD = """
import sys
from pathlib import Path
from akg_tui.store.lock import RunLock
lock = RunLock.acquire(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def hold(folder: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def test_a_second_writer_is_refused_by_the_first_ones_pid(tmp_path: Path) -> None:
    with hold(tmp_path) as child:
        with pytest.raises(RunLocked, match=f"process {child.pid} ") as refused:
            RunLock.acquire(tmp_path)
        assert refused.value.pid == child.pid == holder(tmp_path)
        child.kill()


def test_a_killed_writer_leaves_no_lock(tmp_path: Path) -> None:
    with hold(tmp_path) as child:
        child.send_signal(signal.SIGKILL)
    assert holder(tmp_path) is None
    with RunLock.acquire(tmp_path):
        assert holder(tmp_path) == os.getpid()


def test_a_dead_writer_that_nobody_has_waited_for_holds_no_lock(tmp_path: Path) -> None:
    with hold(tmp_path) as child:
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert holder(tmp_path) is None


def test_a_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    lock = RunLock.acquire(tmp_path)
    with pytest.raises(RunLocked):
        RunLock.acquire(tmp_path)
    lock.release()
    lock.release()
    assert not lock.held
    assert holder(tmp_path) is None
    RunLock.acquire(tmp_path).release()


def test_a_number_that_another_process_got_since_is_no_holder(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(f"{os.getpid()} 1 another-boot\n")
    assert holder(tmp_path) is None


@pytest.mark.parametrize("told", ["", "x", "-1", "999999999 1 b\n", "é"])
def test_a_lock_file_with_other_content_names_nobody(tmp_path: Path, told: str) -> None:
    (tmp_path / "lock").write_text(told)
    assert holder(tmp_path) is None
    RunLock.acquire(tmp_path).release()


def test_a_folder_that_cannot_hold_a_lock_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="cannot write"):
        RunLock.acquire(tmp_path / "missing")
