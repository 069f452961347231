from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from akg_tui.hashline import FileChanged, swap_file


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_new_bytes_replace_the_expected_ones(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_bytes(b"old\r\n")
    path.chmod(0o640)
    swap_file(path, b"new", expected_sha256=_sha(b"old\r\n"))
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["kernel.py"]  # noqa: PTH208


def test_a_file_changed_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_bytes(b"someone else's")
    before = path.stat()
    with pytest.raises(FileChanged, match="nothing was written"):
        swap_file(path, b"new", expected_sha256=_sha(b"old"))
    after = path.stat()
    assert path.read_bytes() == b"someone else's"
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.py", tmp_path / "link.py"
    real.write_bytes(b"old")
    link.symlink_to(real)
    swap_file(link, b"new", expected_sha256=_sha(b"old"))
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def test_a_path_that_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        swap_file(tmp_path / "none.py", b"new", expected_sha256=_sha(b""))
    with pytest.raises(IsADirectoryError):
        swap_file(tmp_path, b"new", expected_sha256=_sha(b""))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        swap_file(tmp_path / "pipe", b"new", expected_sha256=_sha(b""))


def test_a_failed_write_leaves_the_old_file_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kernel.py"
    path.write_bytes(b"old")

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        swap_file(path, b"new", expected_sha256=_sha(b"old"))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def _race(path: Path, data: bytes, start: Barrier) -> None:
    start.wait()
    try:
        swap_file(path, data, expected_sha256=_sha(b"old"))
    except FileChanged:
        sys.exit(3)


def test_of_racing_writers_exactly_one_wins(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    path = tmp_path / "kernel.py"
    for _ in range(5):
        path.write_bytes(b"old")
        start = context.Barrier(4)
        writers = [
            context.Process(target=_race, args=(path, f"writer {n}".encode(), start))
            for n in range(4)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        codes = [writer.exitcode for writer in writers]
        assert sorted(code or 0 for code in codes) == [0, 3, 3, 3]
        assert path.read_bytes() == f"writer {codes.index(0)}".encode()


def test_a_kill_before_the_swap_leaves_the_old_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_bytes(b"old")
    script = (
        "import os, pathlib, signal, sys\n"
        "from akg_tui.hashline import swap_file\n"
        "real = os.fsync\n"
        "def die(descriptor):\n"
        "    real(descriptor)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.fsync = die\n"
        f"swap_file(pathlib.Path(sys.argv[1]), b'new', expected_sha256={_sha(b'old')!r})\n"
    )
    root = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", script, str(path)], check=False, cwd=root)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    # The dead writer's lock died with it.
    swap_file(path, b"next", expected_sha256=_sha(b"old"))
    assert path.read_bytes() == b"next"
