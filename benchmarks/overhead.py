"""What an evaluation costs beside compiling and the timed samples, and how soon it can fail.

Whole evaluations by the real judge, warm: the second of each kernel and later. The kernel
takes about a millisecond and is clearly faster, or as fast, or slower than its incumbent.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from akg_tui.core.measurement import Measurement, Outcome
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


async def _run() -> bool:
    task = Task(op="overhead")
    with tempfile.TemporaryDirectory() as scratch:
        async with Judge(task, REFERENCE, Path(scratch)) as judge:
            times = await _calibrated(judge)
            same = KERNEL.replace("TIMES", str(times))
            slow = KERNEL.replace("TIMES", str(3 * times))
            held = True
            for name, kernel, incumbent, bound in (
                ("slower", slow, same, OVERHEAD_MS),
                ("as fast", same, same, None),
                ("faster, with confirmation", same, slow, None),
            ):
                found = [await judge.evaluate(kernel, incumbent) for _ in range(TRIALS)]
                cost = statistics.median(map(_overhead_ms, found))
                clusters = statistics.median(m.clusters for m in found)
                held = (
                    _say(
                        name,
                        bound,
                        cost,
                        clusters=clusters,
                        sampled_ms=round(statistics.median(m.sampled_s for m in found) * 1e3),
                        build_ms=round(statistics.median(m.build_s for m in found) * 1e3),
                        call_ms=round(statistics.median(m.candidate_ms or 0 for m in found), 3),
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
    figures = {"benchmark": "overhead", "kernel": name, "median_ms": round(cost, 1)}
    print(json.dumps({**figures, **more, "bound_ms": bound, "held": held}), flush=True)
    return held


def run() -> bool:
    """Measure, print, and say whether the bounds held."""
    return asyncio.run(_run())
