"""The kernels of `tests/cheats`, many times: what one evaluation finds, each evaluation must find.

A cheat that is found in 29 of 30 evaluations passes its test on most days.
`python -m benchmarks cheats --times N [--names TEXT] [--part K/N]`. With `--samples`, kernels that
ignore a mask after a look at a sample of it; of those that look at half, 3 in 100 are not found.
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
from tests.cheats.catalogue import MUST_FAIL, MUST_NOT_LOOK_FASTER
from tests.cheats.cheat import Cheat, Slowpoke
from tests.cheats.conftest import TASKS, modules_of
from tests.cheats.honest import HONEST, Honest
from tests.cheats.neglected_inputs import sampled

Kernel = Cheat | Slowpoke | Honest
MIN_GAIN = 0.01

SAMPLES = {
    "the first three": "mask[0, :3]",
    "three in the middle": "mask[8:9, 10:13]",
    "the last three": "mask[-1, -3:]",
    "each twelfth": "mask[:, ::12]",
    "each fourth": "mask[:, ::4]",
    "each second": "mask.flatten()[::2]",
    "each second row": "mask[::2]",
    "a random half, drawn for each call": "mask[torch.rand(mask.shape) < 0.5]",
}
"""Samples of an all-true mask, by name."""


@dataclass
class Tally:
    """Evaluations, and those that ended wrongly, with the judge's words."""

    kernels: int = 0
    evaluations: int = 0
    errors: list[str] = field(default_factory=list)


def error(kernel: Kernel, found: Measurement) -> str:
    """Return what is wrong with a verdict on a kernel, or ""."""
    if isinstance(kernel, Cheat):
        named = kernel.says.lower() in found.message.lower()
        if found.outcome is Outcome.FAILED and found.failure in kernel.fails and named:
            return ""
        return f"not found: {found.outcome}, {found.message}"
    if isinstance(kernel, Honest):
        return "" if found.outcome is Outcome.CORRECT else f"refused: {found.message}"
    if kernel.may_fail and found.failure is FailureKind.WRONG:
        return ""
    if found.ratio is None:
        return f"refused: {found.message}"
    decision = decide_verdict(found, MIN_GAIN)
    return f"kept: {decision.reason}" if decision.verdict is Verdict.KEEP else ""


async def evaluate(kernels: Sequence[Kernel], times: int) -> Tally:
    """Evaluate each kernel some `times`, those of one task by one judge."""
    tally = Tally(kernels=len(kernels))
    for name in dict.fromkeys(kernel.task for kernel in kernels):
        task, reference = TASKS[name]
        with tempfile.TemporaryDirectory() as folder:
            async with Judge(task, reference, Path(folder), modules=modules_of(name)) as judge:
                for kernel in kernels:
                    if kernel.task == name:
                        await _repeat(judge, kernel, times, tally)
    return tally


async def _repeat(judge: Judge, kernel: Kernel, times: int, tally: Tally) -> None:
    incumbent = None if isinstance(kernel, Honest) else kernel.incumbent
    before = len(tally.errors)
    for _ in range(times):
        found = await judge.evaluate(kernel.source, incumbent)
        tally.evaluations += 1
        if what := error(kernel, found):
            tally.errors.append(f"{kernel.name}: {what}")
    figures = {"kernel": kernel.name, "errors": len(tally.errors) - before}
    print(json.dumps(figures), file=sys.stderr, flush=True)


def main(words: list[str]) -> bool:
    """`[--times N] [--names TEXT] [--part K/N]`"""
    options = argparse.ArgumentParser(prog="python -m benchmarks cheats")
    options.add_argument("--times", type=int, default=10, metavar="N")
    options.add_argument("--names", default="", metavar="TEXT", help="those whose name has TEXT")
    options.add_argument("--samples", action="store_true", help="kernels that look at a sample")
    options.add_argument("--part", default="1/1", metavar="K/N", help="every Nth, from the Kth on")
    chosen = options.parse_args(words)
    part, parts = map(int, chosen.part.split("/"))
    everyone: list[Kernel] = [*MUST_FAIL, *MUST_NOT_LOOK_FASTER, *HONEST]
    if chosen.samples:
        everyone = [sampled(f"sample: {name}", sample) for name, sample in SAMPLES.items()]
    kernels = [each for each in everyone if chosen.names in each.name][part - 1 :: parts]
    began = time.monotonic()
    tally = asyncio.run(evaluate(kernels, chosen.times))
    figures = {
        "benchmark": "cheats",
        "kernels": tally.kernels,
        "evaluations": tally.evaluations,
        "errors": tally.errors,
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(figures))
    return not tally.errors
