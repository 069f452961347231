"""Durable file writes, and look-ups of paths that the system may refuse.

A write leaves the old content or the new, never a part. Knows nothing of what the files mean.
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
    """Make the folder's own entries (new, renamed, removed names) durable."""
    _sync(folder, os.O_DIRECTORY)


def _sync(path: Path, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Make a folder and all below it durable, but for its own name. Raises `OSError`."""
    for at, _, files in os.walk(folder, topdown=False):
        for name in files:
            _sync(Path(at, name))
        sync_folder(Path(at))


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and make its content durable. The name is not, until its folder is.

    Raises `OSError`; then what was begun is gone again.
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
    """Write what stands at `offset` there once more, and make it durable.

    After a failed fsync the kernel takes the pages for clean though the disk lacks them,
    and a second fsync says nothing: only a page that was written again is written out.
    The bytes are the same, so a crash in the middle changes nothing. Raises `OSError`.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        if os.pwrite(descriptor, data, offset) != len(data):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes, *, alone: bool = True) -> bool:
    """Make `path` hold `data`, atomically; False when it did already and nothing was written.

    A link is replaced by a file, never followed. Only one process may replace files in
    this folder (the store holds the run's lock), unless it is not `alone`: then the last to
    write wins, whole. Raises `OSError`, for what is neither a file nor a link too: root could
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
    """Return a temporary name beside `path` that no other process uses; stale ones are removed."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(OSError):  # another one may be at it too
            if time.time() - left.lstat().st_mtime > LONG_DEAD_S:
                left.unlink()
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")


def unseen(path: Path) -> str:
    """Return why the system does not say whether `path` exists, in words; "" where it does."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return ""
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


# Whether a file or a folder can be seen there; the methods of `Path` raise where it cannot.
is_file, is_folder = os.path.isfile, os.path.isdir
