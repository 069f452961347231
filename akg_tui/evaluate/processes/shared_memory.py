"""Shared memory that the judge makes, fills, and reads.

The judge owns every byte of it; a child maps what it is given. Copies go through NumPy,
because slicing an mmap would build a bytes object on the way.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections import Counter, deque

import numpy as np
from numpy.typing import NDArray

F_SEAL_FUTURE_WRITE = 0x10  # Python has no name for it before 3.13
MADV_POPULATE_READ = 22  # nor for these two, which are Linux 5.14
MADV_POPULATE_WRITE = 23

ROOM = 1.5
"""A region that is so much larger than what is wanted will do."""


class SharedMemory:
    """`size` bytes of anonymous memory with a descriptor to hand to children."""

    def __init__(self, size: int) -> None:
        self.size = max(size, mmap.PAGESIZE)
        self.fd = os.memfd_create("akg", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.size)
        # Reading memory that somebody has cut off would kill the judge.
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self.map = mmap.mmap(self.fd, self.size)
        self.bytes: NDArray[np.uint8] = np.frombuffer(self.map, dtype=np.uint8)

    def populate(self) -> None:
        """Have all pages there: in one go, which takes less than one by one as they are touched."""
        with contextlib.suppress(OSError):  # an older kernel makes them as they are touched
            self.map.madvise(MADV_POPULATE_WRITE)

    def map_in(self) -> None:
        """Have all pages that there are at hand for reading, which others have written."""
        with contextlib.suppress(OSError):
            self.map.madvise(MADV_POPULATE_READ)

    def finish(self) -> None:
        """Let nobody write from now on; a process may still map a copy for itself."""
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, F_SEAL_FUTURE_WRITE | fcntl.F_SEAL_SEAL)

    def close(self) -> None:
        """Give the descriptor back; the memory goes with the last view of it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        # An evaluation can be cancelled at any moment, between making this and keeping it.
        if hasattr(self, "fd"):
            self.close()


class SharedMemoryPool:
    """Fresh regions whose pages are there before they are wanted.

    A region is handed out once, and never comes back: where its pages lie is part of the noise
    that the clusters of a comparison must not share.

    Parameters
    ----------
    most
        The regions worth having, of those that were wanted last.
    most_bytes
        And how large they may be together.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._ready: dict[int, list[SharedMemory]] = {}
        self._wanted: deque[int] = deque(maxlen=most)

    def take(self, size: int) -> SharedMemory:
        """Return a region of `size` bytes or somewhat more, with all its pages there."""
        self._wanted.append(size)
        fitting = [s for s, ready in self._ready.items() if ready and size <= s <= ROOM * size]
        return self._ready[min(fitting)].pop() if fitting else _populated(size)

    def fill(self) -> None:
        """Make what is missing of the sizes that were wanted last, and drop all others.

        Can be broken off at any point.
        """
        sizes: Counter[int] = Counter()
        room = self._most_bytes
        for size in reversed(self._wanted):
            room -= size
            if room >= 0:
                sizes[size] += 1
        for size in self._ready.keys() - sizes.keys():
            del self._ready[size]
        for size, count in sizes.items():
            ready = self._ready.setdefault(size, [])
            del ready[count:]
            while len(ready) < count:
                ready.append(_populated(size))

    @property
    def ready_bytes(self) -> int:
        """How much memory waits."""
        return sum(block.size for ready in self._ready.values() for block in ready)


def _populated(size: int) -> SharedMemory:
    block = SharedMemory(size)
    block.populate()
    return block


def shared_memory_of(data: bytes) -> SharedMemory:
    """Return a region that holds `data`, padded with zero bytes."""
    block = SharedMemory(len(data))
    block.map[: len(data)] = data
    block.finish()
    return block
