"""What an evaluation costs beside compiling and the timed samples, and how soon it can fail.

Whole evaluations by the real judge, one after the other without a pause, warm: all but the
first. The kernel takes about a millisecond; its incumbent takes half of that, as long, or
three times as long. Overhead is all the time from the judge taking the request to its
result, but for the timed samples themselves: drawing inputs, verifying, starting and ending
processes, filling in inputs and checking results between samples.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from akg_tui.core.measurement import Measurement, Outcome, Progress
from akg_tui.core.task import Task
from akg_tui.evaluate import Judge

TRIALS = 15
OVERHEAD_MS = 150.0
BROKEN_MS = 50.0
WRONG_MS = 500.0

REFERENCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(64, 1024)]
"""

KERNEL = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        for _ in range(TIMES):
            y = torch.softmax(x, dim=-1)
        return y
"""

WARM_TIMES = 40


async def _calibrated(judge: Judge) -> int:
    """Return how many softmaxes take a millisecond here."""
    found = await judge.evaluate(KERNEL.replace("TIMES", str(WARM_TIMES)))
    if found.candidate_ms is None:
        raise SystemExit(f"the benchmark's own kernel failed: {found.message}")
    return max(2, round(WARM_TIMES / found.candidate_ms))


def _overhead_ms(found: Measurement) -> float:
    return (found.elapsed_s - found.sampled_s) * 1e3


class Stages:
    """Where the time of an evaluation goes, from what the judge tells of its progress."""

    def __init__(self) -> None:
        self._seen: list[tuple[str, float]] = []

    def clear(self) -> None:
        """Begin with another evaluation."""
        self._seen.clear()

    def note(self, progress: Progress) -> None:
        """Note when each part begins; before the first trial is done, all are drawn."""
        name = progress.stage
        if name == "verify" and not progress.done:
            name = "draw"
        if not any(seen == name for seen, _ in self._seen):
            self._seen.append((name, time.perf_counter()))

    def take(self, found: Measurement) -> dict[str, float]:
        """Return the milliseconds of each part; those of timing without the samples."""
        starts = dict(self._seen)
        if found.outcome is not Outcome.CORRECT:
            raise SystemExit(f"the benchmark's own kernel failed: {found.message}\n{found.detail}")
        end = time.perf_counter()
        timing = (end - starts["time"] - found.sampled_s) * 1e3
        return {
            "build_ms": (starts["draw"] - starts["build"]) * 1e3,
            "draw_ms": (starts["verify"] - starts["draw"]) * 1e3,
            "verify_ms": (starts["time"] - starts["verify"]) * 1e3,
            "timing_ms": timing,
        }


async def _run() -> bool:
    task = Task(op="overhead")
    stages = Stages()
    with tempfile.TemporaryDirectory() as scratch:
        async with Judge(task, REFERENCE, Path(scratch), on_progress=stages.note) as judge:
            times = await _calibrated(judge)
            same, fast, slow = (
                KERNEL.replace("TIMES", str(count)) for count in (times, times // 2, 3 * times)
            )
            held = True
            for name, incumbent, bound in (
                ("slower", fast, OVERHEAD_MS),
                ("as fast", same, None),
                ("faster, with confirmation", slow, None),
            ):
                found, parts = [], []
                for _ in range(1 + TRIALS):
                    stages.clear()
                    found.append(await judge.evaluate(same, incumbent))
                    parts.append(stages.take(found[-1]))
                del found[0], parts[0]
                cost = statistics.median(map(_overhead_ms, found))
                clusters = statistics.median(m.clusters for m in found)
                held = (
                    _say(
                        name,
                        bound,
                        cost,
                        clusters=clusters,
                        sampled_ms=round(statistics.median(m.sampled_s for m in found) * 1e3),
                        call_ms=round(statistics.median(m.candidate_ms or 0 for m in found), 3),
                        **{
                            part: round(statistics.median(each[part] for each in parts))
                            for part in parts[0]
                        },
                    )
                    and held
                )
            for name, kernel, bound in (
                ("does not parse", "class ModelNew(:\n", BROKEN_MS),
                ("no class ModelNew", "x = 1\n", BROKEN_MS),
                ("class of the wrong kind", "ModelNew = 1\n", BROKEN_MS),
                ("wrong result", same.replace("return y", "return y + 1"), WRONG_MS),
            ):
                cost = statistics.median(
                    [await _time_to_fail(judge, kernel) for _ in range(TRIALS)]
                )
                held = _say(name, bound, cost) and held
    return held


async def _time_to_fail(judge: Judge, kernel: str) -> float:
    start = time.perf_counter()
    found = await judge.evaluate(kernel)
    taken = (time.perf_counter() - start) * 1e3
    if found.outcome is not Outcome.FAILED:
        raise SystemExit(f"a broken kernel did not fail: {found.outcome} {found.message}")
    return taken


def _say(name: str, bound: float | None, cost: float, **more: float) -> bool:
    held = bound is None or cost <= bound
    figures = {
        "benchmark": "overhead",
        "kernel": name,
        "median_ms": round(cost, 1),
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps({**figures, **more, "bound_ms": bound, "held": held}), flush=True)
    return held


def run() -> bool:
    """Measure, print, and say whether the bounds held."""
    return asyncio.run(_run())
