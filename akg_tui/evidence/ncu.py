"""What Nsight Compute (`ncu --csv`) counts of a kernel's launches, in ten lines on what binds it.

A fixed set of metrics, `ncu.toml`, by the names of the "Kernel Profiling Guide" and the "Nvprof
Transition Guide" of its manual. Version 2025.3 has all of them on an H100. Values come from a
process that ran a kernel: they decide nothing.
"""

from __future__ import annotations

import csv
import math
import shutil
import statistics
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from akg_tui.evidence.findings import Request, Text

MOST_LINES = 10
MOST_KERNELS = 64
TOLD_KERNELS = 3
BINDS = 0.6
"""The share of its peak from which on a unit is said to bind: that of Nsight Compute's rules, which
take a kernel with no such unit for one that waits."""

PROGRAM = "ncu"
INSTALLED = "/opt/nvidia/nsight-compute"
FILE = "ncu.csv"
MOST_ROWS = 200_000
DURATION = "gpu__time_duration.sum"
_TOLD: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
UNITS, SHARES, FACTS, LIMITS = (_TOLD[name] for name in ("units", "shares", "facts", "limits"))
STALLS = {
    f"smsp__warp_issue_stalled_{name}_per_warp_active.pct": words
    for name, words in _TOLD["stalls"].items()
}
METRICS = (DURATION, *UNITS, *SHARES, *FACTS, *LIMITS, *STALLS)
TOLD_STALLS = 2
LEAST_STALL = 0.1


class NoProfile(Exception):
    """The profiler left nothing to read; the message is one line."""


class ProfiledKernel(Struct, frozen=True):
    """All launches of one kernel on the device.

    `duration_us` is their time together. `units` are the parts of the processor that can bind, each
    with the share of its peak; `facts` are other figures, in words. `note` is a sentence on what
    warps wait for and what limits their number.
    """

    name: Text
    launches: int
    duration_us: float
    units: Annotated[dict[Text, float], Meta(max_length=16)] = {}
    facts: Annotated[tuple[Text, ...], Meta(max_length=16)] = ()
    note: Text = ""

    @property
    def binds(self) -> str:
        """What the kernel's time is spent on, in a few words."""
        if not self.units:
            return "the profiler told no unit"
        busiest = max(self.units, key=self.units.__getitem__)
        share = f"{busiest}, busy {self.units[busiest]:.0%}"
        if self.units[busiest] >= BINDS:
            return f"bound by {share}"
        return f"bound by no unit, it waits: the busiest is {share}"


class Profile(Struct, frozen=True):
    """What the profiler told of one call, the longest kernel first."""

    kernels: Annotated[tuple[ProfiledKernel, ...], Meta(max_length=MOST_KERNELS)] = ()

    @property
    def device_us(self) -> float:
        """The time of all launches of a call together."""
        return math.fsum(kernel.duration_us for kernel in self.kernels)

    @property
    def lines(self) -> list[str]:
        """The whole profile in at most `MOST_LINES` lines."""
        if not self.kernels:
            return ["ncu: nothing ran on the device"]
        total = self.device_us
        launches = sum(kernel.launches for kernel in self.kernels)
        told = [
            f"ncu: {_counted(len(self.kernels), 'kernel')}, "
            f"{_counted(launches, 'launch', 'launches')}, {total:.4g} us on the device"
        ]
        shown, rest = self.kernels[:TOLD_KERNELS], self.kernels[TOLD_KERNELS:]
        for kernel in shown:
            share = kernel.duration_us / total if total else 0.0
            told.append(
                f"{kernel.name[:60]}: {kernel.duration_us:.4g} us ({share:.0%}), {kernel.binds}"
            )
            if figures := ", ".join((*_shares(kernel.units), *kernel.facts)):
                told.append(f"  {figures}")
        told += [f"{kernel.name[:40]}: {kernel.note}" for kernel in shown if kernel.note]
        if rest and len(told) < MOST_LINES:
            time = math.fsum(kernel.duration_us for kernel in rest)
            told.append(f"{_counted(len(rest), 'more kernel')}: {time:.4g} us")
        return told[:MOST_LINES]


class ProfileFor(Request, frozen=True, kw_only=True):
    """A request for `Profiled`: PyTorch's device, and the modules that register it."""

    device: str
    preloaded: tuple[str, ...] = ()


class Profiled(Struct, frozen=True):
    """A profile, or why there is none."""

    profile: Profile | None = None
    why: Text = ""


def folders() -> tuple[str, ...]:
    """Return where the packages of Nsight Compute put it, outside the system's folders."""
    found = shutil.which(PROGRAM)
    own = () if found is None else (str(Path(found).resolve().parent),)
    return (*own, *(folder for folder in (INSTALLED,) if Path(folder).is_dir()))


def command(program: str, folder: Path, application: Sequence[str]) -> list[str]:
    """Return the command for the metrics of each launch of an application, in base units."""
    return [
        program,
        "--csv",
        "--page=details",
        "--print-units=base",
        "--target-processes=all",
        f"--log-file={folder / FILE}",
        f"--metrics={','.join(METRICS)}",
        *application,
    ]


def read(folder: Path, calls: int) -> Profile:
    """Return the profile of one of `calls` calls in the file that ncu wrote. Raises `NoProfile`."""
    try:
        with (folder / FILE).open(encoding="utf-8", errors="replace", newline="") as opened:
            return read_csv(opened, calls)
    except FileNotFoundError:
        raise NoProfile("ncu wrote no file") from None


def read_csv(lines: Iterable[str], calls: int) -> Profile:
    """Return the profile of one of `calls` calls, from a file with one row for each metric.

    Lines of ncu itself begin with `==`. What was launched less often than the kernel was called
    belongs to no call. Raises `NoProfile` with ncu's own error.
    """
    rows, errors = list[str](), list[str]()
    for line in lines:
        if line.startswith("=="):
            if "ERROR" in line:
                errors.append(line.strip("= \n").removeprefix("ERROR").strip("= "))
        elif len(rows) < MOST_ROWS:
            rows.append(line)
    launches: dict[tuple[str, str], dict[str, float]] = {}
    for row in csv.DictReader(rows):
        value = number_of(row.get("Metric Value"))
        if value is not None:
            key = (row.get("Kernel Name") or "", row.get("ID") or "")
            name = row.get("Metric Name") or ""
            launches.setdefault(key, {})[name] = value * _scale(row.get("Metric Unit"))
    if not launches:
        raise NoProfile(errors[0] if errors else "ncu told no launch")
    by_name: dict[str, list[dict[str, float]]] = {}
    for (name, _), metrics in launches.items():
        by_name.setdefault(name, []).append(metrics)
    found = [_kernel(name, of, len(of) // calls) for name, of in by_name.items()]
    longest = sorted(
        (each for each in found if each.launches), key=lambda kernel: -kernel.duration_us
    )
    return Profile(tuple(longest[:MOST_KERNELS]))


def number_of(text: str | None) -> float | None:
    """Return a finite number of a profiler's table; None for `N/A`, an empty cell or any other."""
    try:
        value = float((text or "").strip().rstrip("%").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _scale(unit: str | None) -> float:
    """Return the factor to microseconds of the base unit of time, to shares of percent; else 1."""
    return {"%": 0.01, "ns": 1e-3, "nsecond": 1e-3}.get(unit or "", 1.0)


def _kernel(name: str, launches: Sequence[Mapping[str, float]], a_call: int) -> ProfiledKernel:
    def medians(labels: Mapping[str, str]) -> dict[str, float]:
        """Return the medians over the launches by label, of the metrics that are told."""
        return {
            label: statistics.median(found)
            for metric, label in labels.items()
            if (found := [each[metric] for each in launches if metric in each])
        }

    figures = [f"{label} {value:.4g}" for label, value in medians(FACTS).items()]
    return ProfiledKernel(
        name=name,
        launches=a_call,
        duration_us=medians({DURATION: ""}).get("", 0.0) * a_call,
        units=medians(UNITS),
        facts=(*_shares(medians(SHARES)), *figures),
        note=_note(medians(LIMITS), medians(STALLS)),
    )


def _shares(shares: Mapping[str, float]) -> list[str]:
    return [f"{label} {value:.0%}" for label, value in shares.items()]


def _note(limits: Mapping[str, float], stalls: Mapping[str, float]) -> str:
    """Return one sentence on what warps wait for and what limits their number."""
    parts = []
    longest = sorted(stalls.items(), key=lambda stall: -stall[1])[:TOLD_STALLS]
    if told := _shares({words: share for words, share in longest if share >= LEAST_STALL}):
        parts.append(f"warps stall: {', '.join(told)}")
    if limits:
        least = min(limits.values())
        names = " and ".join(label for label, value in limits.items() if value == least)
        blocks = _counted(int(least), "block")
        parts.append(f"at most {blocks} a multiprocessor, limited by {names}")
    return "; ".join(parts)


def _counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"
