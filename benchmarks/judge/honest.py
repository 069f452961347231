"""Honest kernels through the real judge at default settings, untimed: none may be refused.

`python -m benchmarks honest` evaluates each rewrite of `honest_reductions.OPS` on fresh inputs.
`--sums` evaluates the operators of `honest_kernels`, in every size, dtype and style of C++, and
`--samples` the first kernel of each sample and the fastest that a sweep found
(docs/benchmarks/samples.json).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Task
from akg_tui.evaluate import Judge
from akg_tui.resources import sample_kernels
from akg_tui.store.task_folder import load_task
from benchmarks.judge import honest_kernels
from benchmarks.judge.honest_reductions import OPS
from benchmarks.samples import timed_samples

SWEPT = Path(__file__).parents[2] / "docs" / "benchmarks" / "samples.json"


class Job(NamedTuple):
    """A task with honest kernels, by name."""

    name: str
    task: Task
    reference: str
    kernels: dict[str, str]


@dataclass
class Tally:
    """The number of kernels; the `refused` ones, and `tasks` that the judge refused."""

    kernels: int = 0
    refused: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)


def rewrites(ops: Sequence[str]) -> Iterator[Job]:
    """Yield the operators of the table, each with its rewrites."""
    for name in ops or OPS:
        op = OPS[name]
        yield Job(
            name, Task(op="honest"), op.source(), {each: op.written(each) for each in op.kernels}
        )


def sums(ops: Sequence[str], dtypes: Sequence[str]) -> Iterator[Job]:
    """Yield operators with sums, in each dtype and size, in four styles of C++."""
    for name in ops or honest_kernels.OPS:
        op = honest_kernels.OPS[name]
        kernels = {style: op.written(at) for at, style in enumerate(honest_kernels.STYLES)}
        for dtype in dtypes:
            for size in op.sizes:
                yield Job(
                    f"{name}, {size}, {dtype}",
                    Task(op="honest"),
                    op.source(size, dtype),
                    kernels,
                )


def samples() -> Iterator[Job]:
    """Yield the samples, each with its first and its fastest kernel."""
    newest = json.loads(SWEPT.read_text())["entries"][0]
    fastest = {each["sample"]: each["knobs"] for each in newest["figures"]}
    for name in timed_samples():
        made = load_task(sample_kernels() / name)
        kernels = {"first": made.kernel.text, "fastest": tuned(made.kernel.text, fastest[name])}
        yield Job(name, made.task, made.reference, kernels)


def tuned(kernel: str, knobs: Sequence[str]) -> str:
    """Return a kernel with other values of its knobs."""
    for line in knobs:
        name = line.split(" = ")[0]
        value = line.replace("\\", r"\\")
        kernel, count = re.subn(rf"^{name} = .*$", value, kernel, flags=re.M)
        if count != 1:
            raise ValueError(f"{name} is set {count} times")
    return kernel


async def try_all(jobs: Iterator[Job], times: int) -> Tally:
    """Evaluate each kernel some `times`."""
    tally = Tally()
    for job in jobs:
        with tempfile.TemporaryDirectory() as folder:
            async with Judge(job.task, job.reference, Path(folder), prefetch=False) as judge:
                await _try(judge, job, times, tally)
        print(
            json.dumps({"op": job.name, "refused": len(tally.refused)}), file=sys.stderr, flush=True
        )
    return tally


async def _try(judge: Judge, job: Job, times: int, tally: Tally) -> None:
    for name, kernel in job.kernels.items():
        for _ in range(times):
            found = await judge.probe(kernel, timed=False)
            if found.outcome is Outcome.ERROR:
                # In half precision the sums of many terms may all be equal.
                what = tally.tasks if found.failure is FailureKind.REFERENCE else tally.refused
                what.append(f"{job.name}: {found.message}")
                return
            if found.outcome is not Outcome.CORRECT:
                why = f"{found.message} ({found.tolerance_from})"
                tally.refused.append(f"{job.name}, {name}: {why}")
        tally.kernels += 1


def main(words: list[str]) -> bool:
    """`[--times N] [--ops A,B] [--sums [--dtypes A,B]] [--samples]`"""
    options = argparse.ArgumentParser(prog="python -m benchmarks honest")
    options.add_argument("--times", type=int, default=1, metavar="N")
    options.add_argument("--ops", default="", metavar="A;B", help="all by default")
    options.add_argument("--sums", action="store_true", help="operators with sums in C++")
    options.add_argument("--dtypes", default=honest_kernels.DTYPES[0], metavar="A,B")
    options.add_argument("--samples", action="store_true", help="the samples")
    chosen = options.parse_args(words)
    began = time.monotonic()
    ops = [name for name in chosen.ops.split(";") if name]
    if chosen.samples:
        jobs = samples()
    elif chosen.sums:
        jobs = sums(ops, chosen.dtypes.split(","))
    else:
        jobs = rewrites(ops)
    tally = asyncio.run(try_all(jobs, chosen.times))
    figures = {
        "benchmark": "honest",
        "kernels": tally.kernels,
        "refused": tally.refused,
        "tasks_refused": tally.tasks,
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(figures, indent=1, ensure_ascii=False))
    return not tally.refused and (chosen.sums or not tally.tasks)
