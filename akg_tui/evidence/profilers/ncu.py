"""Reads what Nsight Compute (`ncu --csv`) tells of a kernel's launches.

A fixed set of metrics, by the names of the "Kernel Profiling Guide" and the "Nvprof Transition
Guide" of Nsight Compute's manual, which lists the reasons of stalls as
`smsp__warp_issue_stalled_*`. Version 2025.3 has all of them on an H100.
"""

from __future__ import annotations

import csv
import shutil
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from akg_tui.evidence.profilers import (
    Metric,
    NoProfile,
    Profile,
    ProfiledKernel,
    Profiler,
    counted,
    number_of,
)

INSTALLED = "/opt/nvidia/nsight-compute"
FILE = "ncu.csv"
MOST_ROWS = 200_000
DURATION = "gpu__time_duration.sum"
UNITS = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "multiprocessors",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": "tensor cores",
    "l1tex__throughput.avg.pct_of_peak_sustained_active": "L1 and shared memory",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": "L2",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory",
}
"""The share of its peak that a unit reaches, in percent."""

SHARES = {
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy",
    "l1tex__t_sector_hit_rate.pct": "hits in L1",
    "lts__t_sector_hit_rate.pct": "hits in L2",
}
FACTS = {
    "launch__registers_per_thread": ("registers", ""),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": ("bank conflicts", ""),
}
LIMITS = {
    "launch__occupancy_limit_registers": "registers",
    "launch__occupancy_limit_shared_mem": "shared memory",
    "launch__occupancy_limit_warps": "threads",
    "launch__occupancy_limit_blocks": "blocks",
}
"""The blocks that fit on a multiprocessor, by what limits them."""

_STALLED = "smsp__warp_issue_stalled_{}_per_warp_active.pct"
STALLS = {
    _STALLED.format(name): words
    for name, words in {
        "long_scoreboard": "waits for global or local memory",
        "short_scoreboard": "waits for shared memory or special functions",
        "barrier": "waits at barriers",
        "membar": "waits at memory fences",
        "wait": "fixed latency between instructions",
        "math_pipe_throttle": "arithmetic pipe is full",
        "lg_throttle": "queue for global memory is full",
        "mio_throttle": "queue for shared memory is full",
        "tex_throttle": "queue for textures is full",
        "no_instruction": "waits for instructions",
        "not_selected": "ready, another warp was chosen",
        "dispatch_stall": "dispatcher is busy",
        "branch_resolving": "waits for a branch",
        "imc_miss": "waits for constants",
        "drain": "waits for stores at the end",
        "sleeping": "sleeps",
    }.items()
}
"""Why a warp issues nothing, as share of the time in which warps are there, in percent."""

METRICS = (DURATION, *UNITS, *SHARES, *FACTS, *LIMITS, *STALLS)
TOLD_STALLS = 2
LEAST_STALL = 0.1

Row = Mapping[str, str]


class Ncu(Profiler):
    """Nsight Compute's command line, which is installed with the CUDA toolkit."""

    program = "ncu"

    def folders(self) -> tuple[str, ...]:
        """Return where the packages of Nsight Compute put it, outside the system's folders."""
        found = shutil.which(self.program)
        own = () if found is None else (str(Path(found).resolve().parent),)
        return (*own, *(folder for folder in (INSTALLED,) if Path(folder).is_dir()))

    def command(self, program: str, folder: Path, application: Sequence[str]) -> list[str]:
        """Return the command for the metrics of each launch, in base units."""
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

    def read(self, folder: Path, printed: str, calls: int) -> Profile:
        """Return the profile in the file that ncu wrote."""
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
    return Profile.of("ncu", [
        _kernel(name, of, len(of) // calls) for name, of in by_name.items() if len(of) >= calls
    ])  # fmt: skip


def _scale(unit: str | None) -> float:
    """Return the factor to microseconds of a unit of time, and to shares of percent; else 1."""
    scales = {"%": 0.01, "ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3,
              "msecond": 1e3, "s": 1e6, "second": 1e6}  # fmt: skip
    return scales.get(unit or "", 1.0)


def _kernel(name: str, launches: Sequence[Mapping[str, float]], a_call: int) -> ProfiledKernel:
    def median(metric: str) -> float | None:
        found = [each[metric] for each in launches if metric in each]
        return statistics.median(found) if found else None

    def metrics(labels: Mapping[str, str]) -> list[Metric]:
        return [
            Metric(metric, label, value)
            for metric, label in labels.items()
            if (value := median(metric)) is not None
        ]

    facts = metrics(SHARES)
    facts += [
        Metric(metric, label, value, unit)
        for metric, (label, unit) in FACTS.items()
        if (value := median(metric)) is not None
    ]
    took = median(DURATION) or 0.0
    return ProfiledKernel(
        name=name,
        launches=a_call,
        duration_us=took * a_call,
        units=tuple(metrics(UNITS)),
        facts=tuple(facts),
        notes=_notes(metrics(LIMITS), metrics(STALLS)),
    )


def _notes(limits: Sequence[Metric], stalls: Sequence[Metric]) -> tuple[str, ...]:
    """Return one sentence on what warps wait for and what limits their number."""
    parts = []
    longest = sorted(stalls, key=lambda stall: -stall.value)[:TOLD_STALLS]
    if told := [each.words for each in longest if each.value >= LEAST_STALL]:
        parts.append(f"warps stall: {', '.join(told)}")
    if limits:
        least = min(each.value for each in limits)
        names = " and ".join(each.label for each in limits if each.value == least)
        blocks = counted(int(least), "block")
        parts.append(f"at most {blocks} a multiprocessor, limited by {names}")
    return ("; ".join(parts),) if parts else ()
