"""Runs trials: whole evaluations by the real judge of kernels with a known gain.

Nothing of the judge is replaced or left out. The gain is planted as extra rows of work,
and what such a row costs is measured first.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from akg_tui.core.measurement import Interval, Measurement, Outcome
from akg_tui.core.phases import Verdict
from akg_tui.core.task import Correctness, Task, Timing
from akg_tui.core.verdict import decide_verdict
from akg_tui.evaluate.judge_client import Judge
from akg_tui.evaluate.targets.lease import claim
from benchmarks.judge import records
from benchmarks.judge.kernels import KERNELS, Planted
from benchmarks.judge.neighbour import neighbours
from benchmarks.judge.records import Trial

PRECISE = 0.02
CALIBRATED_TO = 0.1
"""How surely the cost of extra rows must be known: half of its 99 % interval, as a share of it."""

CALIBRATIONS_LEAST = 3
CALIBRATIONS = 6
"""At least and at most so many measurements; a busy machine may leave the cost less certain."""


ONE_SLOWER = "power-one-slower"
"""Trials in which the last case is slower by the gain of the others."""


REPEAT = "repeat"
"""Trials in which a kernel is kept, up to four times as fast, and then measured afresh."""


class CannotPlant(Exception):
    """The judge could not measure the kernel that must be slower by a known share."""


def task_of(planted: Planted) -> Task:
    """Return the task that the judge is given: its own defaults, two trials of correctness.

    The kernels are compiled for one shape, so they can be shown no other.
    """
    rules = Correctness(trials=2, fixed_shape=True)
    return Task(op=planted.name, correctness=rules, timing=Timing(), cases=planted.cases)


async def run_cell(
    *,
    bench: str,
    kernel: str,
    load: int,
    gain: float,
    trials: int,
    path: Path | None,
    tell: Callable[[Trial], None],
) -> list[Trial]:
    """Bring one cell up to `trials` trials; return all of them, those of the file included."""
    cell = (bench, kernel, load, gain)
    by = records.judge_digest()
    before = records.of_judge(path, by) if path else []
    done = [t for t in before if (t.bench, t.kernel, t.load, t.gain) == cell]
    planted = KERNELS[kernel]
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="akg-bench-"))
        if len(done) >= trials:
            return done[:trials]
        task = task_of(planted)
        # In turns with the runs of this machine, whose figures it would disturb.
        lease = claim(task, f"bench {bench}")
        judge = Judge(task, planted.reference, Path(scratch), lease=lease)
        async with judge:
            fast = planted.kernel(0)
            extra = 3 * planted.rows if bench == REPEAT else 0
            extra = await plant(judge, planted, gain) if gain else extra
            slow = planted.kernel(extra)
            if bench == ONE_SLOWER:
                last = planted.heights[-1]
                slow = planted.kernel(extra, unless=[last])
                fast = planted.kernel(extra, unless=planted.heights[:-1])
            if load:
                stack.enter_context(neighbours(load))
            while len(done) < trials:
                found = await judge.evaluate(fast, slow)
                kept, reason = _decided(found)
                again = None
                if kept and bench == REPEAT:
                    again = (await judge.evaluate(fast, slow, precise=PRECISE)).ratio
                trial = Trial(
                    bench=bench,
                    kernel=kernel,
                    load=load,
                    gain=gain,
                    kept=kept,
                    reason=reason,
                    measurement=found,
                    judge=by,
                    extra=extra,
                    again=again,
                )
                if path:
                    records.append(path, trial)
                tell(trial)
                done.append(trial)
    return done


async def plant(judge: Judge, planted: Planted, gain: float) -> int:
    """Return how many extra rows make a call longer by `gain`, as the judge measures it.

    Measures the kernel with every row done twice, where the cost is largest, until it is certain;
    extra rows cost in proportion. They cost less than their share of all rows, because every time
    includes the call itself, and a second visit may find its data in a cache.

    Raises
    ------
    CannotPlant
        The judge would not measure it, or the extra rows cost nothing.
    """
    doubled = planted.kernel(planted.rows)
    ratios: list[Interval] = []
    while len(ratios) < CALIBRATIONS and not is_certain(ratios):
        found = await judge.evaluate(planted.kernel(0), doubled, precise=PRECISE)
        if found.outcome is not Outcome.CORRECT or found.ratio is None:
            raise CannotPlant(f"{planted.name}: {found.message}")
        ratios.append(found.ratio)
    cost = cost_of_doubling(ratios)
    if cost <= 0:
        raise CannotPlant(f"{planted.name}: twice the work takes {1 + cost:.3f} times as long")
    return max(1, round(planted.rows * gain / cost))


def cost_of_doubling(ratios: Sequence[Interval]) -> float:
    """Return the cost of all rows done twice, as a share of a call; robust to one outlier."""
    return statistics.median(ratio.ratio for ratio in ratios) - 1


def is_certain(ratios: Sequence[Interval]) -> bool:
    """Return whether these measurements determine the cost of doubling well enough."""
    if len(ratios) < CALIBRATIONS_LEAST:
        return False
    weight = math.fsum(4 / max(ratio.high - ratio.low, 1e-9) ** 2 for ratio in ratios)
    return 1 / math.sqrt(weight) <= CALIBRATED_TO * cost_of_doubling(ratios)


def _decided(found: Measurement) -> tuple[bool, str]:
    """Return whether it would be kept, and why."""
    if found.outcome is Outcome.ERROR:
        return False, f"error: {found.message}"
    decision = decide_verdict(found, Timing().min_gain)
    return decision.verdict is Verdict.KEEP, decision.reason
