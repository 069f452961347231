"""Many evaluations in a row by one judge on the test device: a third honest, the rest must fail.

The kernels are those of `benchmarks/hardware`: cheats that only a device allows, and kernels that
crash or hang their process or the device. Looks for wrong verdicts, and for what `soak` finds.
`python -m benchmarks device_soak --evaluations N`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from akg_tui.core.measurement import Outcome
from akg_tui.evaluate import Judge
from benchmarks.hardware.cheats import CHEATS
from benchmarks.hardware.hostile import HOSTILE
from benchmarks.hardware.kernels import HONEST, SOFTMAX, TASK, Honest, Refused
from benchmarks.judge.soak import PROGRESS, SLOPE_BYTES, Trace, figures
from benchmarks.lab.device import target

EVALUATIONS = 300
HONEST_EVERY = 3
TIMED_EVERY = 4
SAMPLES = 8
"""Timed samples of each side, in every so many of the honest kernels and where a cheat needs it."""


async def _evaluate(judge: Judge, kernel: Honest | Refused, *, timed: bool) -> tuple[str, bool]:
    """Evaluate a kernel; return how it ended, and whether that was right."""
    found = await judge.probe(kernel.text, timed=timed, samples=SAMPLES)
    if isinstance(kernel, Honest):
        right = found.outcome is Outcome.CORRECT
        return ("correct" if right else f"{found.outcome}: {found.message}"), right
    right = (
        found.outcome is Outcome.FAILED
        and found.failure in kernel.fails
        and kernel.says in found.message
    )
    ended = f"{found.outcome} {found.failure}"
    return (ended if right else f"{ended}: {found.message}"), right


async def soak(evaluations: int, scratch: Path) -> Trace:
    """Evaluate, and record the resources in use after each evaluation."""
    trace = Trace()
    honest = itertools.cycle([each for each in HONEST if each.task == SOFTMAX])
    bad = itertools.cycle([each for each in (*CHEATS, *HOSTILE) if each.task == SOFTMAX])
    async with Judge(TASK, SOFTMAX, scratch, modules=(target.MODULE,), prefetch=False) as judge:
        for turn in range(evaluations):
            if turn % HONEST_EVERY == 0:
                kernel: Honest | Refused = next(honest)
                timed, kind = turn // HONEST_EVERY % TIMED_EVERY == 0, "honest"
            else:
                kernel = next(bad)
                timed, kind = kernel.timed, "hostile" if kernel in HOSTILE else "cheat"
            ended, right = await _evaluate(judge, kernel, timed=timed)
            trace.outcomes[f"{kind}: {ended}"] += 1
            if not right:
                trace.unexpected.append(f"evaluation {turn + 1}, {kernel.name}: {ended}")
            if judge.pid is not None:
                trace.look(judge.pid)
            if (turn + 1) % PROGRESS == 0:
                print(json.dumps(figures(trace)), file=sys.stderr, flush=True)
    return trace


def main(words: list[str]) -> bool:
    """`[--evaluations N]`"""
    options = argparse.ArgumentParser(prog="python -m benchmarks device_soak")
    options.add_argument("--evaluations", type=int, default=EVALUATIONS, metavar="N")
    evaluations = options.parse_args(words).evaluations
    shared = set(os.listdir("/dev/shm"))  # noqa: PTH208
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, target.installed():
        found = figures(asyncio.run(soak(evaluations, Path(folder))))
    found["benchmark"] = "device_soak"
    found["seconds"] = round(time.monotonic() - began, 1)
    found["left_in_dev_shm"] = sorted(set(os.listdir("/dev/shm")) - shared)  # noqa: PTH208
    print(json.dumps(found))
    flat = found["judge_bytes_an_evaluation"] <= SLOPE_BYTES or evaluations < EVALUATIONS
    return bool(found["held"]) and flat
