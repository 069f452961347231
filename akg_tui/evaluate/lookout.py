"""Looks at one process over and over: whether it stands still, and whether it has run.

Its files in `/proc` stay open, since finding them takes several times as long as reading them,
and a judge looks after each sample. What is open stands for this process and no later one of the
same id. A process with threads or children is looked at by `process_tree`.
"""

from __future__ import annotations

import os

from akg_tui.evaluate import process_tree
from akg_tui.evaluate.process_tree import STILL

_STATE = 0
_THREADS = 17
_ARRIVALS = 2
_LONGEST = 4096


class Lookout:
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
        if fields[_STATE] not in STILL:
            return []
        # Read after it stood still: nobody begins a thread or a child then.
        if fields[_THREADS] != b"1" or self._read("children"):
            return process_tree.stopped(self.pid)
        self._is_alone = True
        return [self.pid]

    def arrivals(self) -> int:
        """Return how often threads of the process were given a CPU; 0 where that is not counted.

        Of a process that had one thread when it was seen to stand still, only that one is asked:
        no other has begun without it.
        """
        if not self._is_alone:
            return sum(
                process_tree.arrivals(f"{self.pid}/task/{thread}")
                for thread in process_tree.threads(self.pid)
            )
        figures = self._read("schedstat").split()
        return int(figures[_ARRIVALS]) if len(figures) > _ARRIVALS else 0

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
