"""The roofline of memory bandwidth: the least possible time of a call, and the share reached.

Owns the measured bandwidths of this machine and their cache. Measured in the judge with NumPy.
Must never refuse an honest kernel: the least time counts only bytes that must move, at several
times the measured bandwidth.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from akg_tui.core.measurement import Roofline

MARGIN = 4.0
"""A result must be this many times faster than the measured peak to be called impossible.

NumPy's loops reach a third to all of a core's store bandwidth, and a smaller margin
would gain nothing: a forged time is wrong by orders of magnitude."""

REPEATS_S = 0.02
BANDWIDTH_BOUNDS = (1e8, 1e14)
SMALLEST_BYTES = 1 << 15
DEEP_BYTES = 64 << 20
"""The size of the array for main memory, if the caches are larger: beyond one core's share."""


class Level(Struct, frozen=True):
    """One level of memory: its capacity for one core, and its bytes per second."""

    name: str
    size: int
    bandwidth: float


def level_for(levels: Sequence[Level], size: int) -> Level:
    """Return the nearest level that holds `size` bytes, or the last level."""
    return next((level for level in levels if size <= level.size), levels[-1])


def floor_s(levels: Sequence[Level], *, must_move: int, threads: int) -> float:
    """Return a time below which `must_move` bytes can't have been moved by `threads` threads.

    The fastest level that is at least as large counts, so transfers that overlap or stay in a
    nearer cache than expected are tolerated.
    """
    bandwidth = level_for(levels, must_move).bandwidth
    return must_move / (bandwidth * max(threads, 1) * MARGIN)


def refusal(levels: Sequence[Level], *, must_move: int, seconds: float, threads: int) -> str | None:
    """Return why a call can't have taken only `seconds`, or None if it can."""
    floor = floor_s(levels, must_move=must_move, threads=threads)
    if seconds >= floor:
        return None
    return (
        f"impossible: {must_move} bytes in {seconds * 1e6:.3g} µs a call, which memory can't move "
        f"in less than {floor * 1e6:.3g} µs"
    )


LIKE_A_COPY = 1 / 3
"""The least share of results in the moved bytes at which the rate of a copy bounds a kernel.

Reads alone are faster: a sum reaches half more than the rate of a copy."""


def share(
    levels: Sequence[Level], *, read: int, written: int, seconds: float, threads: int
) -> Roofline:
    """Return the share of the bandwidth that a call of `seconds` reaches.

    It moves `read` bytes of inputs and `written` bytes of results. The rate of the last level is
    one core's, and no bound of several.
    """
    moved = read + written
    level = level_for(levels, moved)
    last = level is levels[-1]
    bandwidth = level.bandwidth * (1 if last else threads)
    bounds = written >= LIKE_A_COPY * moved and not (last and threads > 1)
    return Roofline(moved, level.name, bandwidth, moved / seconds / bandwidth, bounds)


def measured_levels(sizes: Mapping[str, int]) -> list[Level]:
    """Measure the copy rate of one core within each of the caches `sizes`, and in memory.

    The rate counts bytes read plus bytes written. The best of several repeats counts: the
    machine's capability, not its rate beside other work.
    """
    ordered = sorted(sizes.items(), key=lambda item: item[1])
    largest = ordered[-1][1] if ordered else 0
    found: list[Level] = []
    nearer = largest
    for name, size in ordered:
        # Leave room for other data, and exceed the nearer cache well, but not by more: the
        # first megabytes of a large shared cache are the fastest.
        used, nearer = min(int(size * 0.8), 4 * nearer, DEEP_BYTES), size
        if used >= SMALLEST_BYTES:
            found.append(Level(name, size, _copy_bandwidth(used)))
    if largest < DEEP_BYTES:
        found.append(Level("memory", 1 << 62, _copy_bandwidth(max(2 * largest, DEEP_BYTES))))
    else:
        # A shared cache this large is part of a server's: a copy beyond it takes too long.
        found[-1] = msgspec.structs.replace(found[-1], size=1 << 62)
    return found


def _copy_bandwidth(total: int) -> float:
    import numpy as np  # not for those who only read the levels, such as the workbench

    half = max(total // 2, 64)
    source, target = np.ones(half, np.uint8), np.zeros(half, np.uint8)
    best = math.inf
    # Many copies per clock reading make the cost of clock and NumPy calls negligible.
    count = max(1, (4 << 20) // half)
    stop = time.perf_counter() + REPEATS_S
    np.copyto(target, source)
    while True:
        start = time.perf_counter()
        for _ in range(count):
            np.copyto(target, source)
        end = time.perf_counter()
        best = min(best, (end - start) / count)
        if end >= stop:
            return 2 * half / best


def machine_levels(sizes: Mapping[str, int], machine: str, folder: Path) -> list[Level]:
    """Return the levels of this machine, measured once and kept in `folder`.

    `machine` names the machine: a file of another machine is not read. If the file can't be
    read, or has impossible numbers, the levels are measured anew; if it can't be written,
    the next judge measures again for a few hundred milliseconds.
    """
    key = hashlib.sha256(f"{machine} {sorted(sizes.items())}".encode()).hexdigest()[:16]
    path = folder / f"bandwidth-{key}.json"
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=list[Level])
    except (OSError, msgspec.MsgspecError):
        kept = []
    low, high = BANDWIDTH_BOUNDS
    if kept and all(low < level.bandwidth < high for level in kept):
        return kept
    levels = measured_levels(sizes)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(msgspec.json.encode(levels))
        fresh.replace(path)
    except OSError:
        return levels
    return levels
