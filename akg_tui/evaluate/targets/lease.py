"""The right to time on a device: on one machine one judge of a user's suites holds it at a time.

An flock on a file that all these judges open; the system releases it when its holder dies. Builds
and verification need no lease.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from akg_tui.core.task import Task
from akg_tui.evaluate.targets.adapters import adapters

TOLD = "waiting for the right to time on the device"
LOOK_S = 0.05
"""The time between two looks whether the lease is free."""


def lease_of(task: Task, number: int = 0) -> Path:
    """Return the lock file of the device that the task's kernels are timed on: its first, or other.

    It is on a file system of this machine alone, because two machines time at once. Its folder is
    made. Raises `OSError`.
    """
    target, _ = adapters(task)
    device = target.name
    if target.device_variable:
        device += "-" + target.device_name(number).replace("/", "_")
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    folder = Path(base) / f"akg-tui-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"timing-{device}.lock"


@contextlib.contextmanager
def held(path: str, wait: Callable[[float], None], tell: Callable[[str], None]) -> Iterator[None]:
    """Hold the lease in the file `path` during the block; an empty `path` needs none.

    While another judge holds it, `wait` is called again and again with the seconds to wait, and
    may raise. Raises `OSError` if the file cannot be used.
    """
    if not path:
        yield
        return
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        told = False
        while not _taken(descriptor):
            if not told:
                tell(TOLD)
                told = True
            wait(LOOK_S)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
