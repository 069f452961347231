"""Files are replaced whole; what is no file is never replaced."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from akg_tui.store.durable import replace_file


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
