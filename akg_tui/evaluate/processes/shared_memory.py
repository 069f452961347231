"""Blocks of shared memory that the judge makes, fills and reads, and children map.

Copies go through NumPy, because slicing an mmap builds a bytes object.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os

import numpy as np
from numpy.typing import NDArray

F_SEAL_FUTURE_WRITE = 0x10  # Python has no name for it before 3.13
MADV_POPULATE_READ = 22  # both MADV constants are of Linux 5.14, and unknown to Python
MADV_POPULATE_WRITE = 23


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

    def allocate(self) -> None:
        """Allocate all pages at once, which is faster than page by page on their first use."""
        with contextlib.suppress(OSError):
            self.map.madvise(MADV_POPULATE_WRITE)

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


def shared_memory_of(data: bytes) -> SharedMemory:
    """Return a sealed block that holds `data`, padded with zero bytes."""
    block = SharedMemory(len(data))
    block.map[: len(data)] = data
    block.finish()
    return block
