"""Cost of an evaluation beside compilation and the timed samples, and time until a failure.

Whole evaluations by the real judge, warm: all but the first. The kernel takes about a
millisecond; its incumbent takes half of that, as long, or three times as long. Overhead is all
the time that the caller waits, from asking to having the result, but for the timed samples
themselves: verifying (about ten calls of the kernel among it), starting and ending processes,
filling in inputs and checking results between samples. The samples are all calls that the
judge's clock was running for, those that warm a process up among them.

An agent thinks between two evaluations, and in that time the judge draws the inputs of the next
one and has processes ready. So there is a pause of `THINKS_S` before each, less than any model
takes; the cost of an evaluation without that pause is printed beside it.

At last the first evaluation of a new judge, torch's import included, and `akg-tui eval`.

Other load on the machine is in these figures. `plain_loop_s`, which a loop of Python takes,
and `stolen`, the share of CPU time that a hypervisor kept, tell how much of the machine there was
to have; `undisturbed_ms` is the median of those evaluations in which the judge noticed nothing
else at work. Whether the bound is held is told by the median of all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from akg_tui import resources
from akg_tui.core.measurement import Measurement, Outcome, Progress
from akg_tui.core.task import Task
from akg_tui.evaluate import Judge
from akg_tui.evaluate.noise import Counters, Machine

TRIALS = 15
THINKS_S = 1.0
OVERHEAD_MS = 150.0
BROKEN_MS = 50.0
WRONG_MS = 500.0
FIRST_MS = 6_000.0
EVAL_MS = 12_000.0
STARTS = 3
"""The number of judges and commands that are started, each anew."""

LOOPS = 5_000_000

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

MASK = (
    ("forward(self, x)", "forward(self, x, mask)"),
    ("softmax(x,", "softmax(x.masked_fill(~mask, -1e9),"),
    ("randn(64, 1024)]", "randn(64, 1024), torch.ones(64, 1024, dtype=torch.bool)]"),
)
"""Replacements in reference and kernel for `--mask`: an input that is equal in every draw."""

HIDDEN = "return y if x.shape == (64, 1024) else y + 1"
WARM_TIMES = 40


def _with_mask(source: str) -> str:
    for old, new in MASK:
        source = source.replace(old, new)
    return source


async def _calibrated(judge: Judge, kernel: str) -> int:
    """Return how many softmaxes take a millisecond here."""
    found = await judge.evaluate(kernel.replace("TIMES", str(WARM_TIMES)))
    if found.candidate_ms is None:
        raise SystemExit(f"the benchmark's own kernel failed: {found.message}")
    return max(2, round(WARM_TIMES / found.candidate_ms))


@dataclass(frozen=True)
class Sample:
    """One evaluation: what it found, how long the caller waited, and for which parts."""

    found: Measurement
    waited_s: float
    parts: dict[str, float]

    @property
    def overhead_ms(self) -> float:
        """All of it but the timed samples."""
        return (self.waited_s - self.found.sampled_s) * 1e3


class Stages:
    """Where the time of an evaluation goes, from what the judge tells of its progress."""

    def __init__(self) -> None:
        self._seen: list[tuple[str, float]] = []

    def clear(self) -> None:
        """Begin with another evaluation."""
        self._seen.clear()

    def note(self, progress: Progress) -> None:
        """Note when each part begins."""
        name = progress.stage
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
            "build_ms": (starts["verify"] - starts["build"]) * 1e3,
            "verify_ms": (starts["time"] - starts["verify"]) * 1e3,
            "timing_ms": timing,
        }


async def _run(trials: int, *, masked: bool) -> bool:
    task = Task(op="overhead")
    reference, kernel = map(_with_mask, (REFERENCE, KERNEL)) if masked else (REFERENCE, KERNEL)
    stages, machine = Stages(), Machine()
    with tempfile.TemporaryDirectory() as scratch:
        async with Judge(task, reference, Path(scratch), on_progress=stages.note) as judge:
            times = await _calibrated(judge, kernel)
            same, fast, slow = (
                kernel.replace("TIMES", str(count)) for count in (times, times // 2, 3 * times)
            )
            held = True
            for name, incumbent, pause_s, bound in (
                ("slower", fast, THINKS_S, OVERHEAD_MS),
                ("slower, at once", fast, 0.0, None),
                ("as fast", same, THINKS_S, None),
                ("faster, with confirmation", slow, THINKS_S, None),
            ):
                loop_s, before = _plain_loop_s(), machine.counters()
                seen = [
                    await _sample(judge, stages, same, incumbent, pause_s)
                    for _ in range(1 + trials)
                ]
                stolen = _stolen(before, machine.counters())
                held = _tell(name, bound, seen[1:], plain_loop_s=loop_s, stolen=stolen) and held
            for name, broken, bound in (
                ("does not parse", "class ModelNew(:\n", BROKEN_MS),
                ("no class ModelNew", "x = 1\n", BROKEN_MS),
                ("class of the wrong kind", "ModelNew = 1\n", BROKEN_MS),
                ("wrong result", same.replace("return y", "return y + 1"), WRONG_MS),
                ("wrong on hidden shapes", same.replace("return y", HIDDEN), WRONG_MS),
            ):
                cost = statistics.median(
                    [await _time_to_fail(judge, broken) for _ in range(trials)]
                )
                held = _say(name, bound, cost) and held
    first = [await _first(reference, same) for _ in range(STARTS)]
    held = _say("first of a new judge", FIRST_MS, statistics.median(first)) and held
    command = [await _eval_command() for _ in range(STARTS)]
    return _say("akg-tui eval row_softmax", EVAL_MS, statistics.median(command)) and held


async def _first(reference: str, kernel: str) -> float:
    """Return the milliseconds from the start of a judge to its first result, nothing prepared."""
    with tempfile.TemporaryDirectory() as scratch:
        start = time.perf_counter()
        async with Judge(Task(op="overhead"), reference, Path(scratch), prefetch=False) as judge:
            found = await judge.evaluate(kernel, kernel)
            if found.outcome is not Outcome.CORRECT:
                raise SystemExit(f"the benchmark's own kernel failed: {found.message}")
            return (time.perf_counter() - start) * 1e3


async def _eval_command() -> float:
    """Return the milliseconds that the command line takes for a sample, from start to exit."""
    quiet, start = asyncio.subprocess.DEVNULL, time.perf_counter()
    words = ("-m", "akg_tui", "eval", str(resources.sample_kernels() / "row_softmax"), "--json")
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=quiet)
    if await process.wait():
        raise SystemExit("akg-tui eval failed on the bundled sample")
    return (time.perf_counter() - start) * 1e3


async def _sample(
    judge: Judge, stages: Stages, kernel: str, incumbent: str, pause_s: float
) -> Sample:
    await asyncio.sleep(pause_s)
    stages.clear()
    start = time.perf_counter()
    found = await judge.evaluate(kernel, incumbent)
    return Sample(found, time.perf_counter() - start, stages.take(found))


def _plain_loop_s() -> float:
    """Return how long this machine takes, just now, for a loop that does nothing but count."""
    start = time.perf_counter()
    for _ in range(LOOPS):
        pass
    return round(time.perf_counter() - start, 2)


def _stolen(before: Counters, after: Counters) -> float | None:
    """Return the share of CPU time that a hypervisor kept for others; None where none tells."""
    if before.ticks is None or before.stolen is None or after.ticks is None or after.stolen is None:
        return None
    return round((after.stolen - before.stolen) / max(after.ticks - before.ticks, 1), 3)


def _tell(name: str, bound: float | None, seen: Sequence[Sample], **machine: float | None) -> bool:
    parts = {
        part: round(statistics.median(each.parts[part] for each in seen)) for part in seen[0].parts
    }
    calm = [each.overhead_ms for each in seen if not each.found.noise]
    return _say(
        name,
        bound,
        statistics.median(each.overhead_ms for each in seen),
        **machine,
        undisturbed=len(calm),
        undisturbed_ms=round(statistics.median(calm), 1) if calm else None,
        least_ms=round(min(each.overhead_ms for each in seen), 1),
        clusters=statistics.median(each.found.clusters for each in seen),
        sampled_ms=round(statistics.median(each.found.sampled_s for each in seen) * 1e3),
        call_ms=round(statistics.median(each.found.candidate_ms or 0 for each in seen), 3),
        **parts,
    )


async def _time_to_fail(judge: Judge, kernel: str) -> float:
    start = time.perf_counter()
    found = await judge.evaluate(kernel)
    taken = (time.perf_counter() - start) * 1e3
    if found.outcome is not Outcome.FAILED:
        raise SystemExit(f"a broken kernel did not fail: {found.outcome} {found.message}")
    return taken


def _say(name: str, bound: float | None, cost: float, **more: float | None) -> bool:
    held = bound is None or cost <= bound
    figures = {
        "benchmark": "overhead",
        "kernel": name,
        "median_ms": round(cost, 1),
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps({**figures, **more, "bound_ms": bound, "held": held}), flush=True)
    return held


def main(words: list[str]) -> bool:
    """`[--trials N] [--mask]`"""
    options = argparse.ArgumentParser(prog="python -m benchmarks overhead")
    options.add_argument("--trials", type=int, default=TRIALS, metavar="N")
    options.add_argument("--mask", action="store_true", help="a task with an all-true mask")
    chosen = options.parse_args(words)
    return asyncio.run(_run(chosen.trials, masked=chosen.mask))
