"""What NVIDIA's management library (NVML) tells of a GPU, and the disturbances seen in it.

Loaded by the judge on the target `cuda` only, through the optional package `nvidia-ml-py`. Reads;
it must never change a setting of a GPU, and decides nothing. What a GPU or its driver does not
tell is left out. Names and units are those of NVIDIA's "NVML API Reference".
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from enum import IntEnum, IntFlag
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

MISSING = "nvidia-ml-py is not installed: pip install 'akg-tui[cuda]'"
CLOCK_RANGE = 0.05
"""The share by which the clock of a measurement may move before that is told."""
SETTLED_SHARE = 0.02
SETTLED_SAMPLES = 3


class Reason(IntFlag):
    """The bits of nvmlClocksEventReasons (earlier nvmlClocksThrottleReasons) that slow a GPU down.

    A clock that a person has set (0x2, 0x100) and an idle GPU (0x1) are none.
    """

    POWER = 0x04 | 0x80
    SLOWDOWN = 0x08
    SYNC = 0x10
    HEAT = 0x20 | 0x40


class Clock(IntEnum):
    """nvmlClockType_t."""

    SM = 1
    MEMORY = 2


class Reading(NamedTuple):
    """The state of a GPU at one moment; None for what it does not tell.

    Clock in MHz, power in W, temperature in °C; `reasons` are bits of `Reason`.
    """

    clock: int | None
    power: float | None
    heat: int | None
    reasons: int


class Gpu:
    """One GPU. A function that the driver lacks, or that fails, tells nothing."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library = library
        self._handle = handle

    @classmethod
    def first(cls) -> Gpu | str:
        """Return the first GPU in the order of the bus, or why NVML tells nothing."""
        try:
            library = import_module("pynvml")
        except ImportError:
            return MISSING
        try:
            library.nvmlInit()
            return cls(library, library.nvmlDeviceGetHandleByIndex(0))
        except library.NVMLError as error:
            return f"NVML tells nothing: {error}"

    def _told(self, name: str, *arguments: int) -> Any:
        try:
            return getattr(self._library, f"nvmlDeviceGet{name}")(self._handle, *arguments)
        except (AttributeError, self._library.NVMLError):
            return None

    def facts(self) -> dict[str, str]:
        """Return what affects times, by the names of a fingerprint."""
        now, mig = self.reading(), self._told("MigMode")
        persistence = self._told("PersistenceMode")
        told = {
            "gpu": self._told("Name"),
            "gpu uuid": self._told("UUID"),
            "driver": self._driver(),
            "gpu clock": _figure(now.clock, "MHz"),
            "gpu clock limit": _figure(self._told("MaxClockInfo", Clock.SM), "MHz"),
            "gpu memory clock": _figure(self._told("ClockInfo", Clock.MEMORY), "MHz"),
            "gpu power": _figure(now.power, "W"),
            "gpu power limit": _figure(self.power_limit(), "W"),
            "gpu temperature": _figure(now.heat, "°C"),
            "gpu throttled by": ", ".join(causes(now.reasons)),
            "mig": "" if mig is None else ("on" if mig[0] else "off"),
            "persistence": "" if persistence is None else ("on" if persistence else "off"),
        }
        return {name: value for name, value in told.items() if value}

    def arch(self) -> str:
        """Return the arch by its compute capability, such as sm_90, or ""."""
        told = self._told("CudaComputeCapability")
        return f"sm_{told[0]}{told[1]}" if told else ""

    def _driver(self) -> str:
        try:
            return str(self._library.nvmlSystemGetDriverVersion())
        except self._library.NVMLError:
            return ""

    def reading(self) -> Reading:
        """Read clock, power, temperature and the reasons of a lower clock."""
        power = self._told("PowerUsage")
        reasons = self._told("CurrentClocksEventReasons")
        if reasons is None:  # before driver 535
            reasons = self._told("CurrentClocksThrottleReasons")
        return Reading(
            self._told("ClockInfo", Clock.SM),
            None if power is None else power / 1000,
            self._told("Temperature", 0),  # NVML_TEMPERATURE_GPU
            reasons or 0,
        )

    def power_limit(self) -> float | None:
        """Return the limit of power in W."""
        limit = self._told("EnforcedPowerLimit")
        return None if limit is None else limit / 1000

    def processes(self) -> list[int]:
        """Return the ids of the processes that compute on the GPU."""
        return [each.pid for each in self._told("ComputeRunningProcesses") or ()]


def causes(reasons: int) -> list[str]:
    """Return why a GPU runs below its clock, in words."""
    words = {
        Reason.POWER: "power",
        Reason.HEAT: "heat",
        Reason.SLOWDOWN: "hardware slowdown",
        Reason.SYNC: "another GPU of its group",
    }
    return [word for bits, word in words.items() if reasons & bits]


class GpuMonitor:
    """Watches a GPU during one comparison.

    `is_ours` tells whether a process was started by this one.
    """

    def __init__(self, gpu: Gpu, is_ours: Callable[[int], bool] | None = None) -> None:
        self._gpu = gpu
        self._is_ours = is_ours or descends_from_us
        self._readings: list[Reading] = []
        self._others: set[int] = set()
        self._sees_ours = False

    def sample(self) -> None:
        """Read the GPU, which has just worked."""
        self._readings.append(self._gpu.reading())
        for process in self._gpu.processes():
            if self._is_ours(process):
                self._sees_ours = True
            else:
                self._others.add(process)

    def settled(self) -> bool:
        """Return whether the clock has come to rest, as far as the GPU tells it.

        What was sampled before that is no part of the comparison.
        """
        clocks = [each.clock for each in self._readings[-SETTLED_SAMPLES:] if each.clock]
        untold = bool(self._readings) and not any(each.clock for each in self._readings)
        at_rest = len(clocks) == SETTLED_SAMPLES and _range(clocks) <= SETTLED_SHARE
        if at_rest:
            del self._readings[:-1]
        return at_rest or untold

    def disturbances(self) -> list[str]:
        """Return a sentence on each disturbance."""
        notes = []
        many = len(self._readings)
        if times := self._times(Reason.POWER):
            notes.append(f"the power limit throttled the GPU in {times} of {many} clusters")
        watts = [each.power for each in self._readings if each.power is not None]
        limit = self._gpu.power_limit()
        if notes and watts and limit:
            notes.append(f"the GPU's power reached {max(watts):.0f} of {limit:.0f} W")
        degrees = [each.heat for each in self._readings if each.heat is not None]
        if times := self._times(Reason.HEAT):
            notes.append(f"heat throttled the GPU in {times} of {many} clusters")
            if degrees:
                notes.append(f"the GPU's temperature reached {max(degrees)} °C")
        if times := self._times(Reason.SLOWDOWN):
            notes.append(f"the GPU's hardware slowed it down in {times} of {many} clusters")
        if times := self._times(Reason.SYNC):
            notes.append(
                f"another GPU of its group slowed the GPU down in {times} of {many} clusters"
            )
        clocks = [each.clock for each in self._readings if each.clock]
        if clocks and _range(clocks) > CLOCK_RANGE:
            low, high = min(clocks) / 1000, max(clocks) / 1000
            notes.append(f"the GPU's clock moved between {low:.2f} and {high:.2f} GHz")
        # Where none is ours the driver counts processes in another namespace.
        if self._others and self._sees_ours:
            notes.append(f"other processes used the GPU: {len(self._others)}")
        return notes

    def _times(self, bits: int) -> int:
        """Return in how many clusters a cause held the clock down."""
        return sum(bool(each.reasons & bits) for each in self._readings)


def _range(values: list[int]) -> float:
    return max(values) / min(values) - 1


def _figure(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.0f} {unit}"


def descends_from_us(process: int, root: Path = Path("/proc")) -> bool:
    """Return whether a process is this one or was started by it, directly or not."""
    ours = os.getpid()
    while process > 1:
        if process == ours:
            return True
        try:
            # The name, in brackets, may have spaces and brackets.
            fields = (root / str(process) / "stat").read_text("utf-8", "replace")
            process = int(fields.rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return False


@functools.cache
def arch_here() -> str:
    """Return the arch of the first GPU by NVML, such as sm_90; "" if it is not told."""
    gpu = Gpu.first()
    return "" if isinstance(gpu, str) else gpu.arch()
