"""Detects disturbances of a measurement: other work, a hypervisor, a changing clock, drift.

Owns the machine's counters and the sentences about them. May read `/proc` and `/sys`; must never
decide anything: the caller runs more clusters on a disturbed machine. Counters that a machine does
not offer are omitted.
"""

from __future__ import annotations

import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from akg_tui.evaluate.targets.target import Monitor

STOLEN = 0.02
WAITED = 0.05
CLOCK_RANGE = 0.1
DRIFT = 0.05
"""The shares above which a disturbance is told: of CPU time that a hypervisor kept, of time that
kernels waited for a CPU, and of a change of the clock or of the baseline."""

WARM_UP_S = 6.0


@dataclass(frozen=True)
class Counters:
    """The machine's counters at one moment; None for a counter that the machine lacks."""

    ticks: int | None
    stolen: int | None
    throttled: int | None


class Machine:
    """Reads the counters of this machine; `root` is the parent of `/proc` and `/sys`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def counters(self) -> Counters:
        """Read all counters."""
        ticks = stolen = None
        fields = self._text("proc/stat").partition("\n")[0].split()
        if len(fields) > 8 and fields[0] == "cpu":
            counted = [int(field) for field in fields[1:9]]
            ticks, stolen = sum(counted), counted[7]
        throttled = self._numbers("thermal_throttle/core_throttle_count")
        return Counters(ticks, stolen, sum(throttled) if throttled else None)

    def clock_khz(self) -> int | None:
        """Return the mean frequency of the CPUs, or None."""
        found = self._numbers("cpufreq/scaling_cur_freq")
        return sum(found) // len(found) if found else None

    def _numbers(self, name: str) -> list[int]:
        folder = self._root / "sys/devices/system/cpu"
        texts = [
            self._text(f"sys/devices/system/cpu/cpu{cpu}/{name}")
            for cpu in range(os.cpu_count() or 1)
            if (folder / f"cpu{cpu}" / name).exists()
        ]
        return [int(text) for text in texts if text.strip().isdigit()]

    def _text(self, path: str) -> str:
        try:
            return (self._root / path).read_text("utf-8", "replace")
        except OSError:
            return ""


class Watch:
    """Collects the disturbances of one comparison, cluster by cluster.

    `device` watches the accelerator on which the kernels run, if there is one.
    """

    def __init__(self, machine: Machine, device: Monitor | None = None) -> None:
        self._machine = machine
        self._device = device
        self._first = machine.counters()
        self._clocks: list[int] = []
        self._cpu_wait_s = 0.0
        self._sampled_s = 0.0

    def cluster(self, cpu_wait_s: float, sampled_s: float) -> None:
        """Add a cluster: seconds it waited for a CPU, and seconds of all samples so far."""
        self._cpu_wait_s += cpu_wait_s
        self._sampled_s = sampled_s
        if self._device is not None:
            self._device.sample()
        clock = self._machine.clock_khz()
        if clock is not None:
            self._clocks.append(clock)

    def disturbances(self, baseline_s: Sequence[float]) -> tuple[str, ...]:
        """Return a sentence on each disturbance that the spread of the values does not show."""
        now = self._machine.counters()
        first, notes = self._first, []
        if now.ticks and first.ticks and now.stolen is not None and first.stolen is not None:
            share = (now.stolen - first.stolen) / max(now.ticks - first.ticks, 1)
            if share > STOLEN:
                notes.append(f"the hypervisor kept {share:.0%} of the CPU time for others")
        if now.throttled is not None and first.throttled is not None:
            times = now.throttled - first.throttled
            if times > 0:
                notes.append(f"heat throttled the CPU {times} times")
        if self._clocks and max(self._clocks) > (1 + CLOCK_RANGE) * min(self._clocks):
            low, high = (value / 1e6 for value in (min(self._clocks), max(self._clocks)))
            notes.append(f"the CPU's clock moved between {low:.2f} and {high:.2f} GHz")
        share = self._cpu_wait_s / self._sampled_s if self._sampled_s else 0.0
        if share > WAITED:
            notes.append(f"the kernels waited for a CPU {min(share, 1):.0%} of the time")
        if self._device is not None:
            notes += self._device.disturbances()
        moved = drift(baseline_s)
        if abs(moved) > DRIFT:
            notes.append(f"the baseline drifted by {moved:+.0%} while it was timed")
        return tuple(notes)


def warm_up(
    device: Monitor | None, run: Callable[[], None], clock: Callable[[], float] = time.monotonic
) -> None:
    """Call `run`, whose times count for nothing, until the clock of a device has come to rest.

    Without a device nothing is run; the longest warm-up is `WARM_UP_S`.
    """
    stop = clock() + WARM_UP_S
    while device is not None and clock() < stop:
        run()
        device.sample()
        if device.settled():
            return


def drift(seconds: Sequence[float]) -> float:
    """Return the relative change of times from first to last third; 0 within noise."""
    count = len(seconds)
    if count < 6:
        return 0.0
    logs = [math.log(value) for value in seconds]
    third = count // 3
    first, last = logs[:third], logs[-third:]
    steps = [abs(b - a) for a, b in itertools.pairwise(logs)]
    # Neighbours differ by noise at any trend; a median ignores a jump.
    deviation = 1.4826 * statistics.median(steps) / math.sqrt(2)
    moved = statistics.median(last) - statistics.median(first)
    if abs(moved) < 4 * deviation * math.sqrt(2 / third):
        return 0.0
    return math.expm1(moved)
