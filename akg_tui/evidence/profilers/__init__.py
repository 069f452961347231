"""What a vendor's profiler counts of a kernel's launches, in at most ten lines that say what binds.

A profiler has one module here: it reads the profiler's file into a `Profile`, with the metrics by
the names of its manual. Values come from a process that ran a kernel: they inform and decide
nothing, and a profiler never runs beside a timed call.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from akg_tui.evidence.findings import Request, Text

MOST_LINES = 10
MOST_KERNELS = 64
TOLD_KERNELS = 3
BINDS = 0.6
"""The share of its time, or of its peak, from which on a unit is said to bind: that of Nsight
Compute's rules, which take a kernel with no such unit for one that waits."""


class Metric(Struct, frozen=True):
    """One figure of a profiler.

    `name` is the manual's, `label` the word that is shown. A `share` is a part of 1 (of the time or
    of a peak); any other figure is in `unit`.
    """

    name: Text
    label: Text
    value: float
    unit: Text = "share"

    @property
    def words(self) -> str:
        """The figure with its label."""
        if self.unit == "share":
            return f"{self.label} {self.value:.0%}"
        return f"{self.label} {self.value:.4g} {self.unit}".rstrip()


class ProfiledKernel(Struct, frozen=True):
    """All launches of one kernel on the device.

    `duration_us` is their time together. `units` are the parts of the processor that can bind, each
    with its share; `facts` are other figures. `notes` are whole sentences, such as a limit of the
    occupancy.
    """

    name: Text
    launches: int
    duration_us: float
    units: Annotated[tuple[Metric, ...], Meta(max_length=16)] = ()
    facts: Annotated[tuple[Metric, ...], Meta(max_length=16)] = ()
    notes: Annotated[tuple[Text, ...], Meta(max_length=8)] = ()

    @property
    def binds(self) -> str:
        """What the kernel's time is spent on, in a few words."""
        busiest = max(self.units, key=lambda unit: unit.value, default=None)
        if busiest is None:
            return "the profiler told no unit"
        share = f"{busiest.label}, busy {busiest.value:.0%}"
        if busiest.value >= BINDS:
            return f"bound by {share}"
        return f"bound by no unit, it waits: the busiest is {share}"


class Profile(Struct, frozen=True):
    """What a profiler told of one call, the longest kernel first."""

    tool: Text
    kernels: Annotated[tuple[ProfiledKernel, ...], Meta(max_length=MOST_KERNELS)] = ()

    @classmethod
    def of(cls, tool: str, kernels: list[ProfiledKernel]) -> Profile:
        """Return the profile of these kernels in their order."""
        longest = sorted(kernels, key=lambda kernel: -kernel.duration_us)
        return cls(tool, tuple(longest[:MOST_KERNELS]))

    @property
    def device_us(self) -> float:
        """The time of all launches of a call together."""
        return math.fsum(kernel.duration_us for kernel in self.kernels)

    @property
    def lines(self) -> list[str]:
        """The whole profile in at most `MOST_LINES` lines."""
        if not self.kernels:
            return [f"{self.tool}: nothing ran on the device"]
        total = self.device_us
        launches = sum(kernel.launches for kernel in self.kernels)
        told = [
            f"{self.tool}: {counted(len(self.kernels), 'kernel')}, "
            f"{counted(launches, 'launch', 'launches')}, {total:.4g} us on the device"
        ]
        shown = self.kernels[:TOLD_KERNELS]
        for kernel in shown:
            share = kernel.duration_us / total if total else 0.0
            told.append(
                f"{kernel.name[:60]}: {kernel.duration_us:.4g} us ({share:.0%}), {kernel.binds}"
            )
            if figures := ", ".join(each.words for each in (*kernel.units, *kernel.facts)):
                told.append(f"  {figures}")
        told += [f"{kernel.name[:40]}: {note}" for kernel in shown for note in kernel.notes]
        if len(self.kernels) > len(shown) and len(told) < MOST_LINES:
            rest = math.fsum(kernel.duration_us for kernel in self.kernels[TOLD_KERNELS:])
            told.append(
                f"{counted(len(self.kernels) - TOLD_KERNELS, 'more kernel')}: {rest:.4g} us"
            )
        return told[:MOST_LINES]


class ProfileFor(Request, frozen=True, kw_only=True):
    """A request for `Profiled`: the target, PyTorch's device, and the modules that register it."""

    target: str
    device: str
    preloaded: tuple[str, ...] = ()


class Profiled(Struct, frozen=True):
    """A profile, or why there is none."""

    profile: Profile | None = None
    why: Text = ""


class Profiler(ABC):
    """One vendor's profiler, which runs a program that calls the kernel."""

    program: str
    """Its name on PATH."""

    def folders(self) -> tuple[str, ...]:
        """Return the folders of its programs, besides the usual ones."""
        return ()

    @abstractmethod
    def command(self, program: str, folder: Path, application: Sequence[str]) -> list[str]:
        """Return the command that profiles an application; `folder` is for its files."""

    @abstractmethod
    def read(self, folder: Path, printed: str, calls: int) -> Profile:
        """Return what was found: of its files, or of what it printed on standard output.

        The application called the kernel so many times. Raises `NoProfile`.
        """


class NoProfile(Exception):
    """A profiler left nothing to read; the message is one line."""


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def number_of(text: str | None) -> float | None:
    """Return a finite number of a profiler's table; None for `N/A`, an empty cell or any other."""
    try:
        value = float((text or "").strip().rstrip("%").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
