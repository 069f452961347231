"""Files are replaced whole; what is no file is never replaced."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from unittest import mock

import pytest

from akg_tui.store.filesystem import replace_file


def test_a_file_or_a_link_is_replaced_whole_and_nothing_else_changes(tmp_path: Path) -> None:
    path, aim = tmp_path / "a", tmp_path / "aim"
    aim.write_bytes(b"kept")
    assert replace_file(path, b"1")
    assert not replace_file(path, b"1")
    path.unlink()
    path.symlink_to(aim)
    assert replace_file(path, b"2")
    assert not path.is_symlink()
    assert (path.read_bytes(), aim.read_bytes()) == (b"2", b"kept")


def test_a_pipe_a_device_or_a_folder_is_never_replaced(tmp_path: Path) -> None:
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    for path in (pipe, folder):
        before = path.lstat().st_mode
        with pytest.raises(OSError, match="not a regular file"):
            replace_file(path, b"x")
        assert path.lstat().st_mode == before
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert sorted(tmp_path.iterdir()) == [folder, pipe]


def test_two_that_replace_a_file_at_once_leave_one_of_them_whole(tmp_path: Path) -> None:
    """The second writes while the first is between its file and its name."""
    path, data = tmp_path / "report.json", [b"1" * 1000, b"2" * 1000]
    rename = os.rename
    begun: list[str] = []

    def slowly(old: str, new: str, **folders: int) -> None:
        begun.append(old)
        if len(begun) == 1:
            assert replace_file(path, data[1], alone=False)
            assert path.read_bytes() == data[1]
        rename(old, new, **folders)

    with mock.patch.object(os, "rename", slowly):
        assert replace_file(path, data[0], alone=False)
    assert path.read_bytes() == data[0]
    assert begun[0] != begun[1]
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_left_is_taken_away_once_it_is_old(tmp_path: Path) -> None:
    path, old, new = (tmp_path / name for name in ("[r].md", ".[r].md.aa.tmp", ".[r].md.bb.tmp"))
    for left in (old, new):
        left.write_bytes(b"half")
    os.utime(old, (0, 0))
    assert replace_file(path, b"x", alone=False)
    assert sorted(tmp_path.iterdir()) == sorted([path, new])
