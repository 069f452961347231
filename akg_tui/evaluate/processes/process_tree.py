"""Who descends from whom, read from `/proc`, and the end of those whom nobody owns.

The zygote uses it to find what its children left behind, the judge to see whether a
compiler is at work. Must never touch a process that is not the caller's own child.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from pathlib import Path

STOPPED_STATES = frozenset({b"T", b"t", b"Z", b"X"})


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


def stopped(pid: int) -> list[int]:
    """Return `pid` and what descends from it, if all their threads are stopped or gone.

    Returns nothing if one of them is not. Who stands still forks nobody, and keeps the
    children that it has: so each list of children is read after its process has stopped.
    """
    found = [pid]
    for process in found:  # grows as we go
        tasks = [f"/proc/{process}/task/{thread}" for thread in threads(process)]
        # The first thread is the last to run, if any is: so most looks end with it.
        if not all(_is_stopped(f"{task}/stat") for task in tasks):
            return []
        for task in tasks:
            found += map(int, _read(f"{task}/children").split())
    return found


def threads(pid: int) -> list[str]:
    """Return the ids of a process's threads; none where it is gone."""
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return []


def cpu_wait_s(thread: str) -> float:
    """Return how long a thread (`/proc/THREAD`) was ready to run and had no CPU, in its life.

    The second figure of `schedstat`, which is in nanoseconds (Linux, `sched-stats.rst`); 0 where
    the kernel does not tell.
    """
    return _counted(thread, 1) / 1e9


def timeslices(thread: str) -> int:
    """Return how often a thread was given a CPU, in its life: the third figure."""
    return _counted(thread, 2)


def _counted(thread: str, figure: int) -> int:
    try:
        return int(_read(f"/proc/{thread}/schedstat").split()[figure])
    except IndexError:
        return 0


def _is_stopped(path: str) -> bool:
    """Say whether a thread is stopped or gone, from its `stat`."""
    text = _read(path)
    return not text or text.rpartition(b")")[2].split(None, 1)[0] in STOPPED_STATES


def _read(path: str) -> bytes:
    """Return a file's text, and none where the process is gone; without pathlib, as it polls."""
    text = b""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            while more := file.read(4096):  # a page at a time, however much is asked for
                text += more
    except OSError:
        return b""
    return text
