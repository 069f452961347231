"""Durable file writes, and path checks that handle refusals of the system.

A write leaves the old content or the new, never a part. Independent of the files' meaning.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import secrets
import stat
import time
from pathlib import Path

LONG_DEAD_S = 3_600.0  # a temporary file this old belongs to a dead process


def sync_folder(folder: Path) -> None:
    """Make the folder's entries (new, renamed, removed names) durable."""
    _sync(folder, os.O_DIRECTORY)


def _sync(path: Path, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Make a folder and everything below it durable, except for its own name. Raises `OSError`."""
    for at, _, files in os.walk(folder, topdown=False):
        for name in files:
            _sync(Path(at, name))
        sync_folder(Path(at))


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and make its content durable; `sync_folder` makes the name durable.

    Raises `OSError` after removing the partial file.
    """
    with path.open("xb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def seal(path: Path, offset: int, data: bytes) -> None:
    """Write the existing bytes at `offset` again, and make them durable.

    After a failed fsync the kernel marks the pages clean though the disk lacks them, and a second
    fsync reports no error: only a page that is written again reaches the disk. The bytes do not
    change, so a crash in the middle is harmless. Raises `OSError`.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        if os.pwrite(descriptor, data, offset) != len(data):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes, *, alone: bool = True) -> bool:
    """Make `path` hold `data`, atomically; return False, without a write, if it already does.

    A link is replaced by a file, never followed. With `alone`, only one process may replace files
    in this folder (the store holds the run's lock); without, concurrent writers are safe and the
    last whole file wins. Raises `OSError`, also if `path` is neither a file nor a link: root could
    replace `/dev/null`, for every program of the machine.
    """
    with contextlib.suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
    if not path.is_symlink() and path.is_file() and path.read_bytes() == data:
        return False
    temporary = path.with_name(f".{path.name}.tmp") if alone else _unlike_others(path)
    temporary.unlink(missing_ok=True)  # left by a process that was killed here
    try:
        write_synced(temporary, data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return True


def _unlike_others(path: Path) -> Path:
    """Return a temporary name beside `path` that no other process uses; remove stale ones."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(OSError):  # another process can delete it concurrently
            if time.time() - left.lstat().st_mtime > LONG_DEAD_S:
                left.unlink()
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")


def unseen(path: Path) -> str:
    """Return why the system hides whether `path` exists, in words; "" if it does not."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return ""
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


# Whether a visible file or folder exists; the methods of `Path` raise if access is refused.
is_file, is_folder = os.path.isfile, os.path.isdir
