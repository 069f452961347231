"""The kernels of `benchmarks/judge/ordinary`: each ordinary one must be refused, or gain nothing.

`python -m benchmarks cheats [--times N] [--names TEXT] [--principle N] [--part K/N]`. `--expert`
evaluates the record of kernels that need knowledge of this judge: those that pass are told, and
break no bound.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from akg_tui.core.measurement import FailureKind, Measurement, Outcome
from akg_tui.core.phases import Verdict
from akg_tui.core.verdict import decide_verdict
from akg_tui.evaluate import Judge
from benchmarks.judge.expert import EXPERT
from benchmarks.judge.ordinary.catalogue import ORDINARY, TASKS
from benchmarks.judge.ordinary.cheat import Cheat, Slowpoke
from benchmarks.judge.ordinary.honest_styles import HONEST, Honest

Kernel = Cheat | Slowpoke | Honest
MIN_GAIN = 0.01


@dataclass
class Tally:
    """Evaluations; those that passed, and those refused in another way than the cheat says."""

    kernels: int = 0
    evaluations: int = 0
    passed: list[str] = field(default_factory=list)
    otherwise: list[str] = field(default_factory=list)


def passes(kernel: Kernel, found: Measurement) -> str:
    """Return what a cheat gains or an honest kernel is refused for, or ""."""
    if isinstance(kernel, Honest):
        return "" if found.outcome is Outcome.CORRECT else f"refused: {found.message}"
    if isinstance(kernel, Cheat):
        return "" if found.outcome is Outcome.FAILED else f"{found.outcome}: {found.message}"
    if kernel.may_fail and found.failure is FailureKind.WRONG:
        return ""
    if found.ratio is None:
        return f"refused: {found.message}"
    decision = decide_verdict(found, MIN_GAIN)
    return f"kept: {decision.reason}" if decision.verdict is Verdict.KEEP else ""


def ends_otherwise(kernel: Kernel, found: Measurement) -> bool:
    """Return whether a cheat is refused in another way than it says."""
    if not isinstance(kernel, Cheat) or found.outcome is not Outcome.FAILED:
        return False
    named = kernel.says.lower() in found.message.lower()
    return found.failure not in kernel.fails or not named


async def evaluate(kernels: Sequence[Kernel], times: int) -> Tally:
    """Evaluate each kernel some `times`, those of one task by one judge."""
    tally = Tally(kernels=len(kernels))
    for name in dict.fromkeys(kernel.task for kernel in kernels):
        task, reference = TASKS[name]
        with tempfile.TemporaryDirectory() as folder:
            async with Judge(task, reference, Path(folder)) as judge:
                for kernel in kernels:
                    if kernel.task == name:
                        await _repeat(judge, kernel, times, tally)
    return tally


async def _repeat(judge: Judge, kernel: Kernel, times: int, tally: Tally) -> None:
    incumbent = None if isinstance(kernel, Honest) else kernel.incumbent
    before, began, told = len(tally.passed), time.monotonic(), ""
    for _ in range(times):
        found = await judge.evaluate(kernel.source, incumbent)
        tally.evaluations += 1
        told = found.message or str(found.ratio)
        if what := passes(kernel, found):
            tally.passed.append(f"{kernel.name}: {what}")
        elif ends_otherwise(kernel, found):
            tally.otherwise.append(f"{kernel.name}: {found.failure}: {found.message}")
    seconds = round(time.monotonic() - began, 1)
    figures = {"kernel": kernel.name, "passed": len(tally.passed) - before, "seconds": seconds}
    print(json.dumps(figures | {"last": told}), file=sys.stderr, flush=True)


def main(words: list[str]) -> bool:
    """`[--times N] [--names TEXT] [--principle N] [--expert] [--part K/N]`"""
    options = argparse.ArgumentParser(prog="python -m benchmarks cheats")
    options.add_argument("--times", type=int, default=1, metavar="N")
    options.add_argument("--names", default="", metavar="TEXT", help="those whose name has TEXT")
    options.add_argument("--principle", type=int, choices=ORDINARY, help="those that it stops")
    options.add_argument("--expert", action="store_true", help="the record instead")
    options.add_argument("--part", default="1/1", metavar="K/N", help="every Nth, from the Kth on")
    chosen = options.parse_args(words)
    part, parts = map(int, chosen.part.split("/"))
    everyone: list[Kernel] = [
        each
        for number, group in ORDINARY.items()
        for each in group
        if chosen.principle in (None, number)
    ]
    everyone += HONEST if chosen.principle is None else []
    if chosen.expert:
        everyone = list(EXPERT)
    kernels = [each for each in everyone if chosen.names in each.name][part - 1 :: parts]
    began = time.monotonic()
    tally = asyncio.run(evaluate(kernels, chosen.times))
    figures = {
        "benchmark": "cheats",
        "kernels": tally.kernels,
        "evaluations": tally.evaluations,
        "passed": tally.passed,
        "refused_otherwise": tally.otherwise,
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(figures, indent=1, ensure_ascii=False))
    return chosen.expert or not tally.passed
