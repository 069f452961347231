"""Bounds that the kernel does not set for all processes of a child together.

The judge asks from time to time while it waits. What one process may use is bounded by its
own limits (`sandbox`); this is about many of them, and about the disk.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from akg_tui.evaluate import process_tree

DISK_BYTES = 4 << 30
_GIB = 1 << 30
_COUNTED = ("RssAnon:", "RssShmem:")


class Ceiling:
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
