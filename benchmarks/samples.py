"""What a sweep reaches on samples: `python -m benchmarks samples [--rounds N] [NAME …]`.

Tunes a copy of each sample with the sweep agent, headless, and then compares its best kernel with
the reference in PyTorch by the judge, until the interval is narrow. Prints a JSON line a sample.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from akg_tui.core.measurement import PRECISE, Measurement, Outcome
from akg_tui.evaluate import Judge
from akg_tui.evaluate.targets.adapters import adapters
from akg_tui.evidence.compile_gate import refusal
from akg_tui.resources import sample_kernels, sample_names
from akg_tui.store.task_folder import TaskFolder, load_task

ROUNDS = 30
CLEARLY = 1.2
"""A ratio over eager that is a clear gain."""


def timed_samples() -> list[str]:
    """Return the samples that can be timed on this machine."""
    tasks = {name: load_task(sample_kernels() / name).task for name in sample_names()}
    found = []
    for name, task in tasks.items():
        target, dsl = adapters(task)
        if not dsl.untimed(target.name):
            found.append(name)
    return found


def swept(name: str, rounds: int, folder: Path) -> dict[str, Any]:
    """Tune a copy of a sample in a folder; return the report of the run."""
    task = folder / name
    shutil.copytree(sample_kernels() / name, task)
    words = ["tune", str(task), "--agent", "sweep", "--headless", "--max-rounds", str(rounds)]
    done = subprocess.run(
        [sys.executable, "-m", "akg_tui", *words], capture_output=True, text=True, check=False
    )
    (run,) = (task / "runs").iterdir()
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{name}: the run ended with {done.returncode}: {done.stderr[-500:]}")
    report: dict[str, Any] = json.loads((run / "report.json").read_text())
    return report


async def against_eager(made: TaskFolder, kernel: str, scratch: Path) -> Measurement:
    """Compare a kernel with the reference."""
    async with Judge(made.task, made.reference, scratch, prefetch=False, gate=refusal) as judge:
        return await judge.evaluate(kernel, precise=PRECISE)


def figures(name: str, rounds: int) -> dict[str, Any]:
    """Return what a sweep reached on a sample."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = swept(name, rounds, Path(folder))
        made = load_task(sample_kernels() / name)
        kernel, seed = report["best"]["text"], made.kernel.text
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        found = asyncio.run(against_eager(made, kernel, scratch))
        first = asyncio.run(against_eager(made, seed, scratch))
    if found.outcome is not Outcome.CORRECT or found.ratio is None or first.ratio is None:
        raise RuntimeError(f"{name}: the best kernel was not timed: {found.message}")
    return {
        "benchmark": "samples",
        "sample": name,
        "rounds": report["about"]["rounds"],
        "verdicts": report["about"]["verdicts"],
        "over_eager": round(found.ratio.ratio, 3),
        "low": round(found.ratio.low, 3),
        "high": round(found.ratio.high, 3),
        "cases": {c.name: round(c.ratio.ratio, 3) for c in found.cases if c.ratio},
        "best_ms": found.candidate_ms,
        "eager_ms": found.baseline_ms,
        "seed_over_eager": round(first.ratio.ratio, 3),
        "noise": found.noise,
        "seconds": round(time.monotonic() - began),
        "knobs": _knobs(kernel),
    }


def _knobs(kernel: str) -> list[str]:
    return [line.split("  # tune")[0] for line in kernel.splitlines() if "  # tune" in line]


def main(words: list[str]) -> bool:
    """`[--rounds N] [NAME …]`"""
    options = argparse.ArgumentParser(prog="python -m benchmarks samples")
    options.add_argument("--rounds", type=int, default=ROUNDS, metavar="N")
    options.add_argument("names", nargs="*", metavar="NAME")
    given = options.parse_args(words)
    ratios = []
    for name in given.names or timed_samples():
        found = figures(name, given.rounds)
        print(json.dumps(found), flush=True)
        ratios.append(found["over_eager"])
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    clear = sum(ratio > CLEARLY for ratio in ratios)
    print(f"{len(ratios)} samples: geometric mean {mean:.2f} over eager, {clear} above {CLEARLY}")
    return clear >= 2 * len(ratios) / 3 and mean >= 2
