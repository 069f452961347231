"""Shared memory that the judge makes, fills, and reads.

The judge owns every byte of it; a child maps what it is given. Copies go through NumPy,
because slicing an mmap would build a bytes object on the way.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os

import numpy as np
from numpy.typing import NDArray

F_SEAL_FUTURE_WRITE = 0x10  # Python has no name for it before 3.13
MADV_POPULATE_WRITE = 23  # nor for this, which is Linux 5.14


class Region:
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


def region_of(data: bytes) -> Region:
    """Return a region that holds `data`, padded with zero bytes."""
    region = Region(len(data))
    region.map[: len(data)] = data
    region.finish()
    return region
