"""Reads what msprof, the profiler of CANN, writes of a kernel's launches: `op_summary_*.csv`.

The columns are those of "op_summary" in CANN's Performance Tuning Tool User Guide, with the metrics
of PipeUtilization. Atlas A2 and later have them apart for cube cores (aic) and vector cores (aiv);
the first Atlas has one kind of core, and names without these prefixes.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from akg_tui.evidence.profilers import (
    Metric,
    NoProfile,
    Profile,
    ProfiledKernel,
    Profiler,
    number_of,
)

NAME, KIND, DURATION = "Op Name", "Task Type", "Task Duration(us)"
UNITS = {
    "aic_mac_ratio": "cube",
    "aic_scalar_ratio": "scalar of the cube core",
    "aic_mte1_ratio": "L1 to L0 (MTE1)",
    "aic_mte2_ratio": "memory to L1 (MTE2)",
    "aic_fixpipe_ratio": "L0C out (fixpipe)",
    "aiv_vec_ratio": "vector",
    "aiv_scalar_ratio": "scalar",
    "aiv_mte2_ratio": "memory to UB (MTE2)",
    "aiv_mte3_ratio": "UB to memory (MTE3)",
    "mac_ratio": "cube",
    "vec_ratio": "vector",
    "scalar_ratio": "scalar",
    "mte1_ratio": "L1 to L0 (MTE1)",
    "mte2_ratio": "memory to core (MTE2)",
    "mte3_ratio": "core to memory (MTE3)",
}
"""The share of all cycles in which a pipe executes, by its column."""

FACTS = {
    "Block Dim": ("blocks", ""),
    "aic_icache_miss_rate": ("instruction cache misses of the cube core", "share"),
    "aiv_icache_miss_rate": ("instruction cache misses", "share"),
    "icache_miss_rate": ("instruction cache misses", "share"),
}
ON_AI_CPU = "it runs on the AI CPU: no cube or vector core has an operator for these arguments"
MOST_ROWS = 100_000
Row = Mapping[str, str]


class Msprof(Profiler):
    """CANN's msprof, which its set_env.sh puts on PATH."""

    program = "msprof"

    def command(self, program: str, folder: Path, application: Sequence[str]) -> list[str]:
        """Return the command for the pipes' shares of each launch."""
        return [
            program,
            f"--output={folder}",
            "--task-time=on",
            "--ai-core=on",
            "--aic-mode=task-based",
            "--aic-metrics=PipeUtilization",
            *application,
        ]

    def read(self, folder: Path, printed: str, calls: int) -> Profile:
        """Return the profile in the files that msprof exported."""
        files = sorted(folder.glob("PROF_*/mindstudio_profiler_output/op_summary_*.csv"))
        if not files:
            raise NoProfile("msprof exported no op_summary_*.csv")
        lines = [line for file in files for line in _lines(file)]
        return read_summary(lines, calls)


def _lines(file: Path) -> list[Row]:
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as opened:
        return [row for row, _ in zip(csv.DictReader(opened), range(MOST_ROWS), strict=False)]


def read_summary(rows: Sequence[Row], calls: int) -> Profile:
    """Return the profile of one of `calls` calls.

    What was launched less often than the kernel was called belongs to no call: it copied or
    made arguments. A kernel's time is the median of its launches, because the first ones compile.
    """
    launches: dict[str, list[Row]] = {}
    for row in rows:
        name = (row.get(NAME) or "").strip()
        if name and number_of(row.get(DURATION)) is not None:
            launches.setdefault(name, []).append(row)
    return Profile.of("msprof", [
        _kernel(name, of, len(of) // calls)
        for name, of in launches.items()
        if len(of) >= calls
    ])  # fmt: skip


def _kernel(name: str, rows: Sequence[Row], a_call: int) -> ProfiledKernel:
    took = _median(rows, DURATION) or 0.0
    units = [
        Metric(column, label, share)
        for column, label in UNITS.items()
        if (share := _median(rows, column))
    ]
    facts = [
        Metric(column, label, value, unit)
        for column, (label, unit) in FACTS.items()
        if (value := _median(rows, column))
    ]
    on_ai_cpu = any("AI_CPU" in (row.get(KIND) or "") for row in rows)
    notes = (ON_AI_CPU,) if on_ai_cpu else ()
    return ProfiledKernel(name, a_call, took * a_call, tuple(units), tuple(facts), notes)


def _median(rows: Sequence[Row], column: str) -> float | None:
    found = [value for row in rows if (value := number_of(row.get(column))) is not None]
    return statistics.median(found) if found else None
