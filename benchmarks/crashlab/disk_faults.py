"""Every change to the files below a folder as a numbered step, and a fault at any of them.

The calls of the C library are watched (`disk_faults.c`, preloaded), so libgit2's writes
count like Python's, and the code under test is the code that users get. A process that
is to be watched is started with `environment()`; `arm` then works in it and its forks.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import subprocess
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("disk_faults.c")


class How(IntEnum):
    """What happens at the step; the numbers are those of `disk_faults.c`."""

    WATCH = 0
    KILL_BEFORE = 1
    KILL_IN_THE_MIDDLE = 2
    KILL_AFTER = 3
    FAIL_ONCE = 4
    FAIL_FROM_HERE = 5


class Step(NamedTuple):
    """One change: `op` is create, write, pwrite, sync, truncate, rename, link, unlink or mkdir.

    `other` is the new name of a rename or link; of a create, "t" when it also empties.
    """

    op: str
    path: str
    other: str
    data: bytes


_OPS = {
    "c": "create",
    "w": "write",
    "p": "pwrite",
    "s": "sync",
    "t": "truncate",
    "r": "rename",
    "l": "link",
    "u": "unlink",
    "m": "mkdir",
}


def environment(folder: Path) -> dict[str, str]:
    """This process's environment with the watch preloaded; its library is made in `folder`.

    Raises `subprocess.CalledProcessError` when there is no C compiler to make it with.
    """
    library = folder / "disk_faults.so"
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return {**os.environ, "LD_PRELOAD": str(library)}


def arm(
    root: Path,
    how: How = How.WATCH,
    at: int = 0,
    *,
    error: int = errno.ENOSPC,
    part: int = -1,
    trace: int = -1,
) -> None:
    """From now on count the steps below `root`, and do `how` at step `at` (from 1).

    Parameters
    ----------
    error
        The errno of a step that fails.
    part
        How many bytes of a write still reach the file; -1 is half of them.
    trace
        A descriptor that each step is told to; `read_trace` reads it.
    """
    ctypes.CDLL(None).disk_faults_arm(
        os.fsencode(root), int(how), ctypes.c_long(at), error, ctypes.c_long(part), trace
    )


def disarm() -> int:
    """Watch no longer; how many steps there were."""
    count = ctypes.CDLL(None).disk_faults_disarm
    count.restype = ctypes.c_long
    return int(count())


def read_trace(data: bytes) -> list[Step]:
    """The steps in what was written to a trace's descriptor."""
    steps, at = [], 0
    while at < len(data):
        op = _OPS[chr(data[at])]
        lengths = struct.unpack_from("=3I", data, at + 1)
        at += 13
        parts = []
        for length in lengths:
            parts.append(data[at : at + length])
            at += length
        steps.append(Step(op, os.fsdecode(parts[0]), os.fsdecode(parts[1]), parts[2]))
    return steps
