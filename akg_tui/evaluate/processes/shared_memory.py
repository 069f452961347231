"""Blocks of shared memory that the judge makes, fills and reads, and children map.

Copies go through NumPy, because slicing an mmap builds a bytes object.
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
MADV_POPULATE_READ = 22  # both MADV constants are of Linux 5.14, and unknown to Python
MADV_POPULATE_WRITE = 23

ROOM = 1.5
"""A block may be larger than requested by this factor."""


class SharedMemory:
    """`size` bytes of anonymous memory with a descriptor to pass to children."""

    def __init__(self, size: int) -> None:
        self.size = max(size, mmap.PAGESIZE)
        self.fd = os.memfd_create("akg", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.size)
        # If a child could shrink it, reading it would kill the judge (SIGBUS).
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self.map = mmap.mmap(self.fd, self.size)
        self.bytes: NDArray[np.uint8] = np.frombuffer(self.map, dtype=np.uint8)

    def map_in(self) -> None:
        """Map all pages that other processes have written, for reading."""
        with contextlib.suppress(OSError):
            self.map.madvise(MADV_POPULATE_READ)

    def finish(self) -> None:
        """Seal against writing; a process may still map a private copy."""
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, F_SEAL_FUTURE_WRITE | fcntl.F_SEAL_SEAL)

    def close(self) -> None:
        """Close the descriptor; the memory is freed with its last view."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        # A cancellation can come at any moment, even inside `__init__`.
        if hasattr(self, "fd"):
            self.close()


class SharedMemoryPool:
    """Blocks whose pages are allocated before they are requested.

    A block is handed out once and never reused: the addresses of its pages are part of the
    noise that the clusters of a comparison must not share.

    Parameters
    ----------
    most
        The number of blocks kept, of the sizes that were requested last.
    most_bytes
        The largest total size of these blocks, in bytes.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._ready: dict[int, list[SharedMemory]] = {}
        self._wanted: deque[int] = deque(maxlen=most)

    def take(self, size: int) -> SharedMemory:
        """Return a block of at least `size` and at most `ROOM * size` bytes, all allocated."""
        self._wanted.append(size)
        fitting = [s for s, ready in self._ready.items() if ready and size <= s <= ROOM * size]
        return self._ready[min(fitting)].pop() if fitting else _populated(size)

    def fill(self) -> None:
        """Allocate missing blocks of the sizes requested last, and free all other blocks.

        Can be interrupted at any point.
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


def _populated(size: int) -> SharedMemory:
    block = SharedMemory(size)
    # Allocate all pages at once: faster than page by page on first use, as on older kernels.
    with contextlib.suppress(OSError):
        block.map.madvise(MADV_POPULATE_WRITE)
    return block


def shared_memory_of(data: bytes) -> SharedMemory:
    """Return a sealed block that holds `data`, padded with zero bytes."""
    block = SharedMemory(len(data))
    block.map[: len(data)] = data
    block.finish()
    return block
