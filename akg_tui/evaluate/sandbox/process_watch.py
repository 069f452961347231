"""Processes as `/proc` shows them: descendants, stopped or running, CPU time, memory, disk.

The zygote finds processes that its children left; the judge polls a child while waiting, and keeps
its files in `/proc` open, because opening them costs more than reading them. Must never kill a
process that is not the caller's own child.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path

STOPPED_STATES = frozenset({b"T", b"t", b"Z", b"X"})


def parents() -> dict[int, int]:
    """Return the parent of every visible process, by process id."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit() and (text := _read(f"/proc/{name}/stat")):
            # The name in brackets may contain spaces and brackets.
            found[int(name)] = int(text.rpartition(b")")[2].split()[1])
    return found


def children_of(pid: int) -> list[int]:
    """Return the direct children of `pid`, zombies among them."""
    return [child for child, parent in parents().items() if parent == pid]


def pid_of(pidfd: int) -> int:
    """Return the id, in this process's namespace, of the process behind a pidfd."""
    text = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
    return int(text.partition("\nPid:")[2].split()[0])


def descendants(pid: int) -> list[int]:
    """Return all descendants of `pid`, without reading any other process."""
    found = [pid]
    for parent in found:  # grows as we go
        for thread in threads(parent):
            found += map(int, _read(f"/proc/{parent}/task/{thread}/children").split())
    return found[1:]


def end_orphans(spared: Collection[int] = ()) -> None:
    """Kill and reap all children of this process except `spared`.

    A process that adopts orphans gets the children of each process it kills, so the loop
    continues until none are left.
    """
    while orphans := [pid for pid in children_of(os.getpid()) if pid not in spared]:
        for pid in orphans:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                continue


def stopped(pid: int) -> list[int]:
    """Return `pid` and its descendants if all their threads are stopped or gone, else [].

    A stopped process forks no child and keeps its children, so each list of children is read
    after its process has stopped.
    """
    found = [pid]
    for process in found:  # grows as we go
        tasks = [f"/proc/{process}/task/{thread}" for thread in threads(process)]
        # The main thread is the most likely to run still, and is checked first.
        if not all(_is_stopped(f"{task}/stat") for task in tasks):
            return []
        for task in tasks:
            found += map(int, _read(f"{task}/children").split())
    return found


def threads(pid: int) -> list[str]:
    """Return the ids of a process's threads; none if the process is gone."""
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return []


def own_cpu_wait_ns() -> int:
    """Return the nanoseconds that the calling thread has waited on a run queue so far.

    The second figure of `schedstat` (Linux, `sched-stats.rst`); 0 where the kernel does not count.
    """
    file = _own_schedstat(threading.get_native_id())
    return _waited_ns(os.pread(file, _READ_BYTES, 0)) if file >= 0 else 0


@functools.cache
def _own_schedstat(_thread: int) -> int:
    """Return the open `schedstat` of the calling thread, or -1. Few threads ask, so none closes."""
    try:
        return os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return -1


def _waited_ns(schedstat: bytes) -> int:
    try:
        return int(schedstat.split()[1])
    except IndexError:
        return 0


def _is_stopped(path: str) -> bool:
    """Return whether a thread is stopped or gone, according to its `stat`."""
    text = _read(path)
    return not text or text.rpartition(b")")[2].split(None, 1)[0] in STOPPED_STATES


def _read(path: str) -> bytes:
    """Return a file's text, empty if the process is gone; without pathlib, for speed."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            # Each read returns at most a page, even if more is requested.
            return b"".join(iter(lambda: file.read(4096), b""))
    except OSError:
        return b""


_STATE, _THREAD_COUNT = 0, 17  # fields of `stat` after the name in brackets (proc(5))
_READ_BYTES = 4096


class ProcessWatch:
    """Polls one process through files that stay open until `close`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._files: dict[str, int] = {}

    def stopped(self) -> list[int]:
        """Return the result of the function `stopped`, faster for a process with one thread."""
        fields = self._read("stat").rpartition(b")")[2].split()
        if len(fields) <= _THREAD_COUNT:
            return stopped(self.pid)
        if fields[_STATE] not in STOPPED_STATES:
            return []
        # Read after the stop: a stopped process can begin no thread or child.
        if fields[_THREAD_COUNT] != b"1" or self._read("children"):
            return stopped(self.pid)
        return [self.pid]

    def cpu_wait_ns(self) -> int:
        """Return the nanoseconds that the main thread has waited for a CPU so far."""
        return _waited_ns(self._read("schedstat"))

    def all_cpu_wait_ns(self) -> int:
        """Return the same of all its threads, added."""
        paths = (f"/proc/{self.pid}/task/{each}/schedstat" for each in threads(self.pid))
        return sum(_waited_ns(_read(path)) for path in paths)

    def close(self) -> None:
        """Close the open files of `/proc`."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def _read(self, name: str) -> bytes:
        """Return a file's text; empty if the process is gone."""
        try:
            if name not in self._files:
                path = f"/proc/{self.pid}/task/{self.pid}/{name}"
                self._files[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._files[name], _READ_BYTES, 0)
        except OSError:
            return b""


WALL_CLOCK_FACTOR = 20.0
"""A CPU deadline ends after this many times its length by the wall clock: a process may sleep."""

_CPUCLOCK_SCHED = 2
_PROCESS_BITS = 3


def cpu_time_ns(pid: int) -> int | None:
    """Return the CPU time of a process, threads that have ended included; None if it is gone.

    The clock's number is composed as clock_getcpuclockid(3) does, which Python does not offer.
    """
    try:
        return time.clock_gettime_ns((~pid << _PROCESS_BITS) | _CPUCLOCK_SCHED)
    except OSError:
        return None


class CpuDeadline:
    """Ends when a process has used `cpu_s` seconds of CPU time since now."""

    def __init__(self, pid: int, cpu_s: float) -> None:
        self._pid = pid
        self._cpu_s = cpu_s
        self._before = cpu_time_ns(pid)
        self._limit = time.monotonic() + WALL_CLOCK_FACTOR * cpu_s

    def exceeded(self) -> str:
        """Return a message if the process has used up its time, else ""."""
        if time.monotonic() >= self._limit:
            return f"no time left after {WALL_CLOCK_FACTOR * self._cpu_s:.3g} s"
        now = cpu_time_ns(self._pid)
        if now is None or self._before is None or now - self._before < self._cpu_s * 1e9:
            return ""
        return f"no time left after {self._cpu_s:.3g} s of the reference's work"


DISK_BYTES = 4 << 30
DISK_FILES = 100_000
"""More files than any build cache may have. Removing them takes as long as making them."""
LEFT_BYTES = 2 << 30
_GIB = 1 << 30
_COUNTED = (b"RssAnon:", b"RssShmem:", b"VmSwap:", b"VmPTE:", b"HugetlbPages:")
"""Fields of `/proc/PID/status` (proc(5)). The tables of pages that were only read, and so share the
page of zeros, would else be memory that nobody counts."""


MEMORY_SHARE = 0.5
"""The share of the machine's memory that one child may use: two are alive during timing."""


def usable_memory(stated_gb: float | None) -> int:
    """Return the bytes that the processes of a kernel may use. `stated_gb`: the task's limit."""
    if stated_gb is not None:
        return int(stated_gb * _GIB)
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * MEMORY_SHARE)


MOST_PROCESSES = max(160, 4 * (os.cpu_count() or 1))
"""Processes below one child: no compiler has as many.

It is the only limit of their number for root before Linux 6.14."""


class ResourceLimits:
    """Bounds memory, disk use and processes of one child and all its descendants together.

    `memory_bytes` is the growth since `begin`; `folders` are the child's writable folders.
    """

    def __init__(self, memory_bytes: int, folders: Sequence[Path]) -> None:
        self._memory_bytes = memory_bytes
        self._folders = folders
        self._pid = 0
        self._base_bytes = 0
        self._free_bytes = 0
        self._free_files = 0
        self.is_memory_exceeded = False
        """Whether the last exceeded limit is that of memory."""

    @property
    def memory_bytes(self) -> int:
        """The limit of memory."""
        return self._memory_bytes

    def begin(self, pid: int) -> None:
        """Measure the child's present use; only later additions count."""
        self._pid = pid
        self._base_bytes = _memory(pid)
        self._free_bytes, self._free_files = _free_on_disk(self._folders[0])

    def excess(self) -> str:
        """Return a message that names the exceeded limit, or ""."""
        others = descendants(self._pid)
        if len(others) >= MOST_PROCESSES:
            return f"the process was ended: it has {len(others)} processes below it, too many"
        # A forked process shares its initial pages with its parent.
        used = sum(max(0, _memory(pid) - self._base_bytes) for pid in [self._pid, *others])
        self.is_memory_exceeded = used > self._memory_bytes
        if self.is_memory_exceeded:
            return (
                f"the process was ended: its {len(others) + 1} processes use "
                f"{used / _GIB:.1f} GiB, more than {self._memory_bytes / _GIB:.1f}"
            )
        return self._disk_excess()

    def _disk_excess(self) -> str:
        free, free_files = _free_on_disk(self._folders[0])
        lost = self._free_bytes - free
        # Adding up files is slow, so it is done only when the disk has lost as much as the limit.
        if lost <= DISK_BYTES and self._free_files - free_files <= DISK_FILES:
            return ""
        found = [_size_below(folder) for folder in self._folders]
        if (files := sum(count for count, _ in found)) > DISK_FILES:
            return f"the process was ended: it made {files} files, more than {DISK_FILES}"
        if lost <= DISK_BYTES:
            return ""
        written = sum(size for _, size in found)
        if written > DISK_BYTES:
            return f"the process was ended: it wrote {written / _GIB:.1f} GiB to the disk"
        # Files that are open and have no name any more.
        if free < LEFT_BYTES:
            return f"the process was ended: the disk lost {lost / _GIB:.1f} GiB and is nearly full"
        return ""


def _memory(pid: int) -> int:
    """Return the bytes of a process's memory, its page tables, and shared memory that it maps."""
    fields = (line.split() for line in _read(f"/proc/{pid}/status").splitlines())
    return sum(int(words[1]) << 10 for words in fields if words and words[0] in _COUNTED)


def _free_on_disk(folder: Path) -> tuple[int, int]:
    """Return the bytes and the files that the disk of a folder has left."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize, disk.f_favail


def _size_below(folder: Path) -> tuple[int, int]:
    """Return the number of files and folders below a folder, and their bytes on the disk."""
    count = total = 0
    for root, folders, names in os.walk(folder):
        count += len(folders) + len(names)
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_blocks * 512  # noqa: PTH118
            except OSError:
                continue
    return count, total
