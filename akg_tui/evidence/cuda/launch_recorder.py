"""A stand-in for the CUDA runtime that notes launches instead of making them.

The C++ beside this module is linked into a kernel's library in the place of the CUDA runtime, on
machines without a GPU.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import NamedTuple

FILE = "launch_recorder.cpp"
SOURCE = Path(__file__).with_suffix(".cpp").read_text("utf-8")


class Noted(NamedTuple):
    """One launch: the symbol of its kernel, its name in C++, its sizes, its dynamic shared memory.

    `allowed` is the dynamic shared memory that `cudaFuncSetAttribute` has allowed, 0 without it.
    """

    symbol: str
    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    allowed: int

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]


def launches(library: ctypes.CDLL) -> list[Noted]:
    """Return the launches that a library with this runtime has noted, in order."""
    told = library.akg_launches
    told.restype = ctypes.c_char_p
    found = []
    for row in told().decode("utf-8", "replace").splitlines():
        symbol, name, *numbers = row.split("\t")
        x = [int(number) for number in numbers]
        found.append(Noted(symbol, name, tuple(x[:3]), tuple(x[3:6]), x[6], x[7]))
    return found
