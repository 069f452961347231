"""Durable file writes, files below a folder from elsewhere, and path checks that handle refusals of
the system.

A write leaves the old content or the new, never a part. A file that is opened `below` a folder lies
in that folder, whatever its name and the links there say. Independent of the files' meaning.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

from akg_tui.core.sanitize import name_fault

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
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.pwrite(descriptor, data, offset) != len(data):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_LINKS = {
    errno.ELOOP: "it is a link, and links are not followed",
    errno.ENOTDIR: "a step of it is a link or no folder; links are not followed",
}
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_below(root: Path, name: str, flags: int, *, make: bool = False) -> int:
    """Return a descriptor of the file or folder `name`, a path below the folder `root`.

    No link below `root` is followed; those in the path to `root` are the user's own. With `make`
    the missing folders on the way are made, and so is the last one if `flags` ask for a folder.
    Nothing but a regular file is opened to be read or written.

    Raises `OSError` if a part of `name` is a link, leads upwards, or cannot be opened.
    """
    if name and (why := name_fault(name, folders=True)):
        raise OSError(errno.EINVAL, why, str(root))
    parts = name.split("/") if name else []
    is_folder = bool(flags & (os.O_DIRECTORY | os.O_PATH))
    found = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, part in enumerate(parts or ["."], 1):
            last = number >= len(parts)
            wanted = flags | os.O_NOFOLLOW | os.O_CLOEXEC if last else _STEP
            if make and (not last or flags & os.O_DIRECTORY):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=found)
            if last and not is_folder:
                wanted |= os.O_NONBLOCK  # a pipe without a writer must not hold us up
            further = os.open(part, wanted, 0o666, dir_fd=found)
            os.close(found)
            found = further
        if not is_folder and not stat.S_ISREG(os.fstat(found).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
    except OSError as error:
        os.close(found)
        why = _LINKS.get(error.errno or 0, error.strerror or "")
        raise OSError(error.errno, why, str(root / name)) from None
    return found


def make_folder(root: Path, name: str) -> None:
    """Make a folder below `root`, if it is missing, without following links. Raises `OSError`."""
    os.close(open_below(root, name, os.O_PATH | os.O_DIRECTORY, make=True))


ODD = "is a link, a pipe or a device, expected files and folders only; nothing was changed"


def odd_entry(folder: Path, ignored: Callable[[str], bool]) -> str:
    """Return the path below `folder` of a link, a pipe or a device; "" if there is none.

    What is `ignored`, by its path, is not looked at, nor what is below it. Raises `OSError`.
    """
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        with os.scandir(folder / inside) as entries:
            for entry in entries:
                path = f"{inside}/{entry.name}" if inside else entry.name
                if ignored(path) or entry.is_file(follow_symlinks=False):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif not stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                    return path
    return ""


def replace_file(path: Path, data: bytes, *, alone: bool = True, root: Path | None = None) -> bool:
    """Make `path` hold `data`, atomically; return False, without a write, if it already does.

    A link is replaced by a file, never followed. No link between `root`, by default the file's
    folder, and the file is followed either. With `alone`, only one process may replace files in
    this folder (the store holds the run's lock); without, concurrent writers are safe and the last
    whole file wins. Raises `OSError`, also if `path` is neither a file nor a link: root could
    replace `/dev/null`, for every program of the machine.
    """
    top = path.parent if root is None else root
    inside = path.parent.relative_to(top).as_posix()
    folder = open_below(top, "" if inside == "." else inside, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return _replace(folder, path, data, alone=alone)
    finally:
        os.close(folder)


def _replace(folder: int, path: Path, data: bytes, *, alone: bool) -> bool:
    name = path.name
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if stat.S_ISREG(mode):
            with _opened(name, os.O_RDONLY, folder) as file:
                if file.read(len(data) + 1) == data:
                    return False
    if not alone:
        _remove_stale(folder, name)
    temporary = f".{name}.tmp" if alone else f".{name}.{secrets.token_hex(6)}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=folder)  # left by a process that was killed here
    try:
        with _opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, folder) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)
    return True


def _opened(name: str, flags: int, folder: int) -> BinaryIO:
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    mode = "rb" if flags & os.O_ACCMODE == os.O_RDONLY else "wb"
    return cast(BinaryIO, os.fdopen(os.open(name, flags, 0o666, dir_fd=folder), mode))


def _remove_stale(folder: int, name: str) -> None:
    """Remove the temporary files of dead processes that replaced this file."""
    for left in os.listdir(folder):
        if left.startswith(f".{name}.") and left.endswith(".tmp"):
            with contextlib.suppress(OSError):  # another process can delete it concurrently
                age = time.time() - os.stat(left, dir_fd=folder, follow_symlinks=False).st_mtime
                if age > LONG_DEAD_S:
                    os.unlink(left, dir_fd=folder)


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


def is_file_below(folder: Path, path: Path) -> bool:
    """Return whether a file at `path` lies in `folder`, also after its links are followed."""
    return is_file(path) and path.resolve().is_relative_to(folder.resolve())
