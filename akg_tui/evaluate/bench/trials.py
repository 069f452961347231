"""Runs trials: whole evaluations by the real judge of kernels with a known gain.

Nothing of the judge is replaced or left out. The gain is planted as a share of extra work,
and how much of it arrives in the time of a call is measured first.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from akg_tui.core.decision import decide_verdict
from akg_tui.core.machine import Verdict
from akg_tui.core.measurement import Measurement, Outcome
from akg_tui.core.task import Correctness, Task, Timing
from akg_tui.evaluate import integrity
from akg_tui.evaluate.bench import records
from akg_tui.evaluate.bench.kernels import KERNELS, Planted
from akg_tui.evaluate.bench.neighbour import noisy
from akg_tui.evaluate.bench.records import Trial
from akg_tui.evaluate.client import Judge

CALIBRATING = 0.2
CALIBRATED_TO = 0.004


class CannotPlant(Exception):
    """The judge would not measure the kernel that is to be slower by a known share."""


def task_of(planted: Planted) -> Task:
    """Return the task that the judge is given: its own defaults, two trials of correctness.

    The kernels are compiled for one shape, so they can be shown no other.
    """
    rules = Correctness(trials=2, fixed_shape=True)
    return Task(op=planted.name, correctness=rules, timing=Timing())


async def run_cell(
    *,
    bench: str,
    kernel: str,
    load: bool,
    gain: float,
    trials: int,
    path: Path | None,
    tell: Callable[[Trial], None],
) -> list[Trial]:
    """Bring one cell up to `trials` trials; return all of them, those of the file included."""
    cell = (bench, kernel, load, gain)
    by = integrity.judge_digest()
    before = records.of_judge(path, by) if path else []
    done = [t for t in before if (t.bench, t.kernel, t.load, t.gain) == cell]
    planted = KERNELS[kernel]
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="akg-bench-"))
        if len(done) >= trials:
            return done[:trials]
        judge = Judge(task_of(planted), planted.reference, Path(scratch))
        async with judge:
            fast, slow = planted.kernel(0), planted.kernel(0)
            if gain:
                slow = planted.kernel(await plant(judge, planted, gain))
            if load:
                stack.enter_context(noisy(max(1, len(os.sched_getaffinity(0)) // 2)))
            while len(done) < trials:
                found = await judge.evaluate(fast, slow)
                kept, reason = _decided(found)
                trial = Trial(
                    bench=bench,
                    kernel=kernel,
                    load=load,
                    gain=gain,
                    kept=kept,
                    reason=reason,
                    measurement=found,
                    judge=by,
                )
                if path:
                    records.append(path, trial)
                tell(trial)
                done.append(trial)
    return done


async def plant(judge: Judge, planted: Planted, gain: float) -> int:
    """Return how many extra rows make a call longer by `gain`, as the judge measures it.

    A copy of the result and the call itself are in every time, so a row costs a little less
    than its share. That is measured at a large share, where it is easy to see.
    """
    rows = round(CALIBRATING * planted.rows)
    found = await judge.evaluate(planted.kernel(0), planted.kernel(rows), precise=CALIBRATED_TO)
    if found.outcome is not Outcome.CORRECT or found.ratio is None or found.ratio.ratio <= 1:
        raise CannotPlant(f"{planted.name}: {found.message or found.ratio}")
    return max(1, round(rows * gain / (found.ratio.ratio - 1)))


def _decided(found: Measurement) -> tuple[bool, str]:
    """Return whether it would be kept, and why."""
    if found.outcome is Outcome.ERROR:
        return False, f"error: {found.message}"
    decision = decide_verdict(found, Timing().min_gain)
    return decision.verdict is Verdict.KEEP, decision.reason


def names(chosen: Sequence[str]) -> list[str]:
    """Return the kernels to run: the chosen ones, or all."""
    return list(chosen) or list(KERNELS)
