"""Who descends from whom, read from `/proc`, and the end of those whom nobody owns.

The zygote uses it to find what its children left behind, the judge to see whether a
compiler is at work. Must never touch a process that is not the caller's own child.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from pathlib import Path

STILL = frozenset({b"T", b"t", b"Z", b"X"})


def parents() -> dict[int, int]:
    """Return the parent of every process that can be seen, by process id."""
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text("utf-8", "replace")
        except OSError:  # it ended while we looked
            continue
        # The name in brackets may hold spaces and brackets of its own.
        fields = text.rpartition(")")[2].split()
        found[int(entry.name)] = int(fields[1])
    return found


def children_of(pid: int) -> list[int]:
    """Return the direct children of `pid`, zombies among them."""
    return [child for child, parent in parents().items() if parent == pid]


def pid_of(pidfd: int) -> int:
    """Return the id, as seen from here, of the process behind a pidfd."""
    text = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
    return int(text.partition("\nPid:")[2].split()[0])


def is_running(pid: int) -> bool:
    """Say whether there is such a process, and it has not ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def descendants(pid: int) -> list[int]:
    """Return all that descend from `pid`, without looking at any other process."""
    found = [pid]
    for parent in found:  # grows as we go
        try:
            threads = list(Path(f"/proc/{parent}/task").iterdir())
        except OSError:
            continue
        for thread in threads:
            try:
                found += [int(word) for word in (thread / "children").read_text().split()]
            except OSError:
                continue
    return found[1:]


def end_orphans(spared: Collection[int] = ()) -> None:
    """Kill and reap all children of this process but `spared`.

    A process that adopts orphans is given the children of each one it kills, so this goes
    on until none are left.
    """
    while orphans := [pid for pid in children_of(os.getpid()) if pid not in spared]:
        for pid in orphans:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                continue


def is_stopped(pid: int) -> bool:
    """Say whether every thread of `pid`, and of what descends from it, is stopped or gone."""
    # The first thread is the last to run, if any is: so most looks end here.
    return _is_still(f"/proc/{pid}/stat") and all(
        _stands_still(each) for each in (pid, *descendants(pid))
    )


def _stands_still(pid: int) -> bool:
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return True
    return all(_is_still(f"/proc/{pid}/task/{thread}/stat") for thread in threads)


def _is_still(path: str) -> bool:
    """Say whether a thread is stopped or gone, from its `stat`; without pathlib, as it polls."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            text = file.read(4096)
    except OSError:
        return True
    return text.rpartition(b")")[2].split(None, 1)[0] in STILL
