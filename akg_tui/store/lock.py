"""One writer to a run: `flock` on RUN/lock, released by the kernel when the process dies.

The file also holds the identity of the locking process, for messages and listings only; the flock
alone decides. Readers never take it. A child made by a bare fork inherits it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

from akg_tui.store.errors import RunFolderError, RunLocked, writing
from akg_tui.store.filesystem import open_below

SIZE = 256  # more characters than an identity has
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class RunLock:
    """The right to write one run, created by `acquire`."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        self.folder = folder
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, folder: Path) -> RunLock:
        """Take the lock of the run `folder`, without waiting.

        Raises `RunLocked` if another process (or another `RunLock` of this one) holds it. Raises
        `RunFolderError` if the lock file cannot be written, or the file system has no locks.
        """
        path = folder / "lock"
        with writing(path):
            descriptor = open_below(folder, path.name, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, identity(os.getpid()).encode())
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise RunLocked(folder, holder(folder)) from None
            raise RunFolderError(f"cannot lock {path}: {error.strerror}") from error
        return cls(folder, descriptor)

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def release(self) -> None:
        """Release the lock; further calls do nothing."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        # A stale name in the file is harmless: `holder` compares it with living processes.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
        os.close(descriptor)

    def __enter__(self) -> RunLock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def holder(folder: Path) -> int | None:
    """Return the live process named in the run's lock file, or None."""
    try:
        with os.fdopen(open_below(folder, "lock", os.O_RDONLY), encoding="ascii") as file:
            told = file.read(SIZE)
        pid = int(told.split(maxsplit=1)[0])
        alive = identity(pid) == told
    except (OSError, ValueError, IndexError):
        return None
    return pid if alive else None


def identity(pid: int) -> str:
    """Return the identity of a process: its number, its start time, and the boot."""
    boot = _BOOT_ID.read_text("ascii").strip()
    stat = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    # The name, in brackets, can itself contain blanks and brackets. Then follow the state, which is
    # Z or X after the end, and as field 22 the start time.
    fields = stat.rpartition(")")[2].split()
    if fields[0] in "ZX":
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return f"{pid} {fields[19]} {boot}\n"
