"""The estimate of compiled launches as fields of the compile report, and as its lines.

Pure. All of it is an estimate and is named one: nothing ran, and nothing was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from akg_tui.core.sanitize import one_line
from akg_tui.evaluate.evidence.ascend.hivm import HivmError
from akg_tui.evaluate.evidence.ascend.pipe_model import (
    LaunchEstimate,
    NpuLaunch,
    Timeline,
    estimate_launch,
)
from akg_tui.evaluate.evidence.ascend.pipe_picture import by_share, picture

COLUMNS = 96
NOTE = "an estimate of the pipe model: it ranks kernels, and is no measurement"

Fields = dict[str, object]


@lru_cache(maxsize=32)
def estimated(
    name: str, hivm: str, grid: tuple[int, ...], arguments: tuple[int | None, ...]
) -> LaunchEstimate | None:
    """Return the estimate of one launch, None if its program can't be read."""
    try:
        return estimate_launch(NpuLaunch(name=name, hivm=hivm, grid=grid, arguments=arguments))
    except HivmError:
        return None


def fields(estimate: LaunchEstimate) -> Fields:
    """Return an estimate as JSON's values: times in microseconds, busy shares, what binds."""
    if estimate.problem:
        return {"estimate_left_out": one_line(estimate.problem, 200)}
    told: Fields = {
        "estimate_us": round(estimate.us, 3),
        "estimate": {
            "note": NOTE,
            "binds": one_line(estimate.binds, 200),
            "busy": {one_line(name, 20): round(share, 3) for name, share in by_share(estimate)},
            "overlap": None if estimate.overlap is None else round(estimate.overlap, 3),
            "programs": estimate.programs,
            "cores": estimate.cores,
            "waves": estimate.waves,
            "program_us": round(estimate.program_us, 3),
            "loaded_bytes": round(estimate.loaded),
            "stored_bytes": round(estimate.stored),
            "assumed_decisions": estimate.assumed,
        },
    }
    if estimate.timeline is not None:
        told["estimate_timeline"] = _timeline(estimate.timeline)
    return told


def _timeline(timeline: Timeline) -> Fields:
    return {
        "start_us": round(timeline.start, 3),
        "end_us": round(timeline.end, 3),
        "whole_program": timeline.whole,
        "rows": [
            {
                "core": row.core,
                "pipe": row.pipe,
                "intervals_us": [[round(i.start, 3), round(i.end, 3)] for i in row.intervals],
            }
            for row in timeline.rows
        ],
    }


def words(estimate: LaunchEstimate, *, pictures: bool = True) -> list[str]:
    """Return an estimate as lines, with a picture of its timeline or the share of each pipe."""
    if estimate.problem:
        return [f"  no estimate: {one_line(estimate.problem, 200)}"]
    hidden = (
        ""
        if estimate.overlap is None
        else f"; loading and computing overlap by {estimate.overlap:.0%} of the shorter"
    )
    guessed = f"; {estimate.assumed} unknown decisions are assumed" if estimate.assumed else ""
    return [
        f"  estimate {estimate.us:.1f} us, by a model and not measured: "
        f"{_count(estimate.programs, 'program')} of {estimate.program_us:.2f} us on "
        f"{_count(estimate.cores, 'core')} in {_count(estimate.waves, 'wave')}",
        f"    binds: {one_line(estimate.binds, 200)}{hidden}{guessed}",
        *(f"    {line}" for line in _pipes(estimate, pictures=pictures)),
    ]


def _pipes(estimate: LaunchEstimate, *, pictures: bool) -> list[str]:
    if pictures:
        return picture(estimate, COLUMNS - 4)
    busy = ", ".join(f"{name} {min(share, 1.0):.0%}" for name, share in by_share(estimate))
    return [f"busy: {busy}"] if busy else []


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def total_us(estimates: Iterable[tuple[LaunchEstimate | None, int]]) -> float | None:
    """Return the time of estimates, each as often as it is launched; None if one is unknown."""
    total = 0.0
    for estimate, launches in estimates:
        if estimate is None or not math.isfinite(estimate.us):
            return None
        total += estimate.us * launches
    return total
