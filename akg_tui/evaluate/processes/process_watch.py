"""Watches a child's processes: running or stopped, CPU time used, memory and disk used.

The judge asks while it waits. Files in `/proc` stay open, because opening them costs more than
reading.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from akg_tui.evaluate.processes import process_tree
from akg_tui.evaluate.processes.process_tree import STOPPED_STATES

_STATE = 0
_THREADS = 17
_TIMESLICES = 2
_LONGEST = 4096


class ProcessWatch:
    """One process, as long as it is not closed."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._files: dict[str, int] = {}
        self._is_alone = False

    def stopped(self) -> list[int]:
        """Return the same as `process_tree.stopped`."""
        self._is_alone = False
        fields = self._read("stat").rpartition(b")")[2].split()
        if len(fields) <= _THREADS:
            return process_tree.stopped(self.pid)
        if fields[_STATE] not in STOPPED_STATES:
            return []
        # Read after it stood still: nobody begins a thread or a child then.
        if fields[_THREADS] != b"1" or self._read("children"):
            return process_tree.stopped(self.pid)
        self._is_alone = True
        return [self.pid]

    def timeslices(self) -> int:
        """Return how often threads of the process were given a CPU; 0 where that is not counted.

        Of a process that had one thread when it was seen to stand still, only that one is asked:
        no other has begun without it.
        """
        if not self._is_alone:
            return sum(
                process_tree.timeslices(f"{self.pid}/task/{thread}")
                for thread in process_tree.threads(self.pid)
            )
        figures = self._read("schedstat").split()
        return int(figures[_TIMESLICES]) if len(figures) > _TIMESLICES else 0

    def close(self) -> None:
        """Close its files."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def _read(self, name: str) -> bytes:
        """Return a file's text; nothing where the process is gone."""
        try:
            if name not in self._files:
                path = f"/proc/{self.pid}/task/{self.pid}/{name}"
                self._files[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._files[name], _LONGEST, 0)
        except OSError:
            return b""


ALLOWED_RUN_NS = 20_000
BROKEN_STOPS_LIMIT = 3
"""So many of its stops a child must have broken. A thread counts as stopped a moment before it
leaves its CPU, and may lose it just then, to another or to a hypervisor: then a stop that was
none is seen, about once in ten thousand where CPUs are short. Who runs in two stops of a cluster
gains nothing by it, as the median of its samples counts."""


class StopCheck:
    """What the scheduler counts for one child and what descends from it, while they are stopped.

    `lookout` watches the child itself, which commonly is all there is.
    """

    def __init__(self, watch: ProcessWatch) -> None:
        self._watch = watch
        self._clocks: dict[int, int] = {}
        self._timeslices: dict[int, int] = {}
        self._broken_stops = 0

    def begin(self, processes: Iterable[int]) -> None:
        """Note where processes are that were seen to stand still, all their threads."""
        self._clocks = {pid: now for pid in processes if (now := cpu_time_ns(pid)) is not None}
        self._timeslices = {pid: self._timeslices_of(pid) for pid in self._clocks}

    def broken(self) -> bool:
        """Say whether they ran in too many of their stops; they may be woken then.

        Time alone is not enough: what a thread has worked is counted as it leaves its CPU.
        Whoever was woken has been given one again since.
        """
        for pid, before in self._clocks.items():
            now = cpu_time_ns(pid)
            if now is not None and now - before > ALLOWED_RUN_NS and self._has_run(pid):
                self._broken_stops += 1
                break
        self._clocks = {}
        return self._broken_stops >= BROKEN_STOPS_LIMIT

    def _has_run(self, pid: int) -> bool:
        now = self._timeslices_of(pid)
        return now != self._timeslices[pid] or now == 0

    def _timeslices_of(self, pid: int) -> int:
        watched = self._watch if pid == self._watch.pid else ProcessWatch(pid)
        return watched.timeslices()


WALL_CLOCK_FACTOR = 20.0
"""By the wall's clock it may take this many times as long: it might sleep, and work not at all."""

_CPUCLOCK_SCHED = 2
_PROCESS_BITS = 3


def cpu_time_s(pid: int) -> float | None:
    """Return the seconds that all threads of a process have worked; None if it is gone."""
    worked = cpu_time_ns(pid)
    return None if worked is None else worked / 1e9


def cpu_time_ns(pid: int) -> int | None:
    """Return the same in nanoseconds: the scheduler's own sum, also of threads that have ended.

    The clock's number is made as clock_getcpuclockid(3) makes it, for which Python has no name.
    """
    try:
        return time.clock_gettime_ns((~pid << _PROCESS_BITS) | _CPUCLOCK_SCHED)
    except OSError:
        return None


class CpuDeadline:
    """Begins with the process as it is now, and ends when it has worked for `work_s`."""

    def __init__(self, pid: int, cpu_s: float) -> None:
        self._pid = pid
        self._cpu_s = cpu_s
        self._before = cpu_time_s(pid)
        self._limit = time.monotonic() + WALL_CLOCK_FACTOR * cpu_s

    def exceeded(self) -> str:
        """Return why the process has had its time, in words, or nothing."""
        if time.monotonic() >= self._limit:
            return f"no time left after {WALL_CLOCK_FACTOR * self._cpu_s:.3g} s"
        now = cpu_time_s(self._pid)
        if now is None or self._before is None or now - self._before < self._cpu_s:
            return ""
        return f"no time left after {self._cpu_s:.3g} s of the reference's work"


DISK_BYTES = 4 << 30
_GIB = 1 << 30
_COUNTED = ("RssAnon:", "RssShmem:")


class ResourceLimits:
    """Watches one child and all that descends from it."""

    def __init__(self, memory_bytes: int, folders: Sequence[Path]) -> None:
        self._memory_bytes = memory_bytes
        self._folders = folders
        self._pid = 0
        self._own = 0
        self._free = 0

    def begin(self, pid: int) -> None:
        """Take the child as it is now for what it starts from."""
        self._pid = pid
        self._own = _memory(pid)
        self._free = _free_bytes(self._folders[0])

    def excess(self) -> str:
        """Return what the child has too much of, in words, or nothing."""
        others = process_tree.descendants(self._pid)
        # Forks share the pages that they began with.
        used = sum(max(0, _memory(pid) - self._own) for pid in [self._pid, *others])
        if used > self._memory_bytes:
            return (
                f"the process was ended: its {len(others) + 1} processes use "
                f"{used / _GIB:.1f} GiB, more than {self._memory_bytes / _GIB:.1f}"
            )
        # Adding up files takes long, so only when something takes much of the disk.
        if self._free - _free_bytes(self._folders[0]) > DISK_BYTES:
            written = sum(map(_bytes_below, self._folders))
            if written > DISK_BYTES:
                return f"the process was ended: it wrote {written / _GIB:.1f} GiB to the disk"
        return ""


def _memory(pid: int) -> int:
    """Return the bytes of memory that are a process's own, or shared memory it has touched."""
    try:
        text = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return 0
    fields = (line.split() for line in text.splitlines())
    return sum(int(words[1]) << 10 for words in fields if words and words[0] in _COUNTED)


def _free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _bytes_below(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_blocks * 512  # noqa: PTH118
            except OSError:
                continue
    return total
