"""Honest kernels through the real judge, untimed: none may be refused.

Every operator in every size, dtype and style is evaluated some times, each time on fresh inputs.
`python -m benchmarks honest --times N --dtypes float32,bfloat16`. With `--samples`, the first
kernel of each sample, and the fastest that a sweep found (docs/benchmarks/samples.json).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Correctness, Task, Timing
from akg_tui.evaluate import Judge
from akg_tui.resources import sample_kernels
from akg_tui.store.task_folder import load_task
from benchmarks.judge.honest_kernels import DTYPES, OPS, STYLES
from benchmarks.samples import timed_samples

SWEPT = Path(__file__).parents[2] / "docs" / "benchmarks" / "samples.json"

TASK = Task(op="honest", correctness=Correctness(), timing=Timing(build_timeout_s=120.0))


@dataclass
class Tally:
    """What the judge said: `refused` are honest kernels, `tasks` those refused as tasks."""

    kernels: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)


async def try_op(op: str, size: int, dtype: str, times: int, tally: Tally) -> None:
    """Evaluate the kernels of one task, each some `times`."""
    with tempfile.TemporaryDirectory() as folder:
        reference = OPS[op].source(size, dtype)
        async with Judge(TASK, reference, Path(folder), prefetch=False) as judge:
            for style, name in enumerate(STYLES):
                tally.kernels += 1
                for _ in range(times):
                    found = await judge.probe(OPS[op].written(style), timed=False)
                    if found.failure is FailureKind.REFERENCE:
                        # In half precision the sums of many terms may all be equal.
                        tally.kernels -= 1
                        tally.tasks.append(f"{op}, {size}, {dtype}: {found.message}")
                        return
                    tally.outcomes[str(found.outcome)] += 1
                    if found.outcome is not Outcome.CORRECT:
                        where = f"{op}, {size}, {dtype}, {name}"
                        tally.refused.append(f"{where}: {found.message} ({found.tolerance_from})")


async def try_all(ops: Sequence[str], dtypes: Sequence[str], times: int) -> Tally:
    """Evaluate all kernels of some operators and dtypes."""
    tally = Tally()
    for op in ops:
        for dtype in dtypes:
            for size in OPS[op].sizes:
                await try_op(op, size, dtype, times, tally)
        print(json.dumps({"op": op, "refused": len(tally.refused)}), file=sys.stderr, flush=True)
    return tally


def fastest_settings() -> dict[str, list[str]]:
    """Return the lines of the fastest knobs that a sweep found, by sample."""
    newest = json.loads(SWEPT.read_text())["entries"][0]
    return {each["sample"]: each["knobs"] for each in newest["figures"]}


def tuned(kernel: str, knobs: Sequence[str]) -> str:
    """Return a kernel with other values of its knobs."""
    for line in knobs:
        name = line.split(" = ")[0]
        value = line.replace("\\", r"\\")
        kernel, count = re.subn(rf"^{name} = .*$", value, kernel, flags=re.M)
        if count != 1:
            raise ValueError(f"{name} is set {count} times")
    return kernel


async def try_samples(names: Sequence[str], times: int) -> Tally:
    """Evaluate the first and the fastest kernel of samples, each some `times`."""
    tally, fastest = Tally(), fastest_settings()
    for name in names:
        made = load_task(sample_kernels() / name)
        kernels = {"first": made.kernel, "fastest": tuned(made.kernel, fastest[name])}
        with tempfile.TemporaryDirectory() as folder:
            async with Judge(made.task, made.reference, Path(folder), prefetch=False) as judge:
                for which, kernel in kernels.items():
                    tally.kernels += 1
                    for _ in range(times):
                        found = await judge.probe(kernel, timed=False)
                        tally.outcomes[str(found.outcome)] += 1
                        if found.outcome is not Outcome.CORRECT:
                            where = f"{name}, {which}"
                            tally.refused.append(
                                f"{where}: {found.message} ({found.tolerance_from})"
                            )
        print(
            json.dumps({"sample": name, "refused": len(tally.refused)}), file=sys.stderr, flush=True
        )
    return tally


def run() -> bool:
    """Evaluate each kernel in float32 once; print the figures."""
    return main([])


def main(words: list[str]) -> bool:
    """`[--times N] [--ops A,B] [--dtypes A,B] [--samples]`"""
    options = argparse.ArgumentParser(prog="python -m benchmarks honest")
    options.add_argument("--times", type=int, default=1, metavar="N")
    options.add_argument("--ops", default=",".join(OPS), metavar="A,B")
    options.add_argument("--dtypes", default=DTYPES[0], metavar="A,B")
    options.add_argument("--samples", action="store_true", help="the samples instead of operators")
    chosen = options.parse_args(words)
    ops, dtypes = chosen.ops.split(","), chosen.dtypes.split(",")
    began = time.monotonic()
    if chosen.samples:
        names = timed_samples()
        tally = asyncio.run(try_samples(names, chosen.times))
        tried: dict[str, Any] = {"samples": len(names)}
    else:
        tally = asyncio.run(try_all(ops, dtypes, chosen.times))
        tried = {"ops": len(ops), "dtypes": dtypes}
    figures: dict[str, Any] = {
        "benchmark": "honest",
        **tried,
        "kernels": tally.kernels,
        "outcomes": dict(tally.outcomes),
        "refused": tally.refused,
        "tasks_refused": tally.tasks,
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(figures))
    return not tally.refused
