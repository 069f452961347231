"""Atomic replacement of a file's content: the only effect of hashline.

Compares and swaps by the content's sha256 under a lock: of two writers that read equal bytes, one
succeeds and one gets `FileChanged`. A crash leaves either the old content or the new content.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path


class FileChanged(Exception):
    """The file's content differs from the base of the edit; nothing was written."""

    def __init__(self, path: Path, expected: str, found: str) -> None:
        super().__init__(
            f"{path}: nothing was written, the file changed on disk "
            f"(expected sha {expected[:8]}, found {found[:8]}); read it again"
        )


def swap_file(path: Path, data: bytes, *, expected_sha256: str) -> None:
    """Replace the content of an existing file and keep its mode; a link is followed.

    Raises `FileChanged` if the file's sha256 is not `expected_sha256` (hex). Raises `OSError` if
    the file is missing, not a regular file, not writable, or the disk is full.

    The lock is advisory: it orders callers of this function, but no other programs.
    """
    target = path.resolve(strict=True)
    with _locked(target) as descriptor:
        with os.fdopen(os.dup(descriptor), "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != expected_sha256:
            raise FileChanged(path, expected_sha256, found)
        _replace(target, data, stat.S_IMODE(os.fstat(descriptor).st_mode))


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[int]:
    """Hold the lock of the file that has this name now.

    During the wait the locked file may be replaced, so the name is looked up again until it
    leads to the locked file.
    """
    while True:
        descriptor = os.open(target, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(target))
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), target.stat()):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _replace(target: Path, data: bytes, mode: int) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
