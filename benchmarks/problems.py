"""Tasks of a folder of problem files: `python -m benchmarks problems FOLDER [--seed inductor]`.

Makes a task of each file or folder of a known format with `--fit` and the seed `reference` or
`inductor`, evaluates it without timing, and prints a JSON line each and a table: made and correct,
or the reason why not. With `--seed inductor` a correct kernel is timed against torch.compile,
unless `--untimed` is given.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from akg_tui.core.measurement import Outcome
from akg_tui.core.sanitize import one_line
from akg_tui.core.task import Target, Task
from akg_tui.engine.task_draft import NewTask
from akg_tui.engine.task_making import make_task
from akg_tui.evaluate import Judge
from akg_tui.evidence.compile_gate import refusal
from akg_tui.problems.formats import problems_in
from akg_tui.sizing.size_probe import SizeProbe
from akg_tui.store.errors import BadTask
from akg_tui.store.task_folder import TaskFolder
from benchmarks.against_compile import against_compile


async def _evaluated(made: TaskFolder, scratch: Path) -> tuple[str, str]:
    async with Judge(made.task, made.reference, scratch, prefetch=False, gate=refusal) as judge:
        found = await judge.probe(made.kernel, timed=False)
    state = "correct" if found.outcome is Outcome.CORRECT else "not correct"
    return state, found.message


def tried(
    origin: Path,
    probe: SizeProbe,
    *,
    inductor: bool = False,
    timed: bool = True,
    keep: Path | None = None,
) -> dict[str, Any]:
    """Return what became of a problem: `correct`, `not correct` or `refused`, and why.

    With `inductor` also whether the kernel has code of its own, and if `timed` its speed. The task
    is made as the folder `keep`; without that it is deleted at the end.
    """
    start = time.monotonic()
    speed: dict[str, Any] = {}
    told: list[str] = []
    with tempfile.TemporaryDirectory(prefix="akg-problems-") as scratch:
        folder = keep or Path(scratch) / "task"
        try:
            wanted = NewTask(
                folder=folder, origin=origin, fit=True, own_seed=False, inductor=inductor
            )
            made = make_task(wanted, told.append, probe)
        except BadTask as error:
            state, why = "refused", error.message
        else:
            state, why = asyncio.run(_evaluated(made, Path(scratch) / "judge"))
            if inductor and timed and state == "correct":
                speed = against_compile(made, Path(scratch) / "speed")
                why = speed.pop("why", why)
            speed |= {"dsl": made.task.target.dsl} if inductor else {}
    fitted = next((line for line in told if "a call" in line), "")
    return {
        "benchmark": "problems",
        "problem": str(origin),
        "state": state,
        "why": one_line(why, 200),
        "fitted": one_line(fitted, 200),
        **speed,
        "seconds": round(time.monotonic() - start, 1),
    }


def main(words: list[str]) -> bool:
    """Print what became of each problem; False if none was found or a made task is not correct."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks problems", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, help="at most this many problems")
    parser.add_argument("--seed", choices=("reference", "inductor"), default="reference")
    parser.add_argument("--untimed", action="store_true", help="do not time the kernels")
    parser.add_argument("--keep", type=Path, help="keep the tasks, in this folder")
    arguments = parser.parse_args(words)
    keep: Path | None = arguments.keep
    inductor = arguments.seed == "inductor"
    results = []
    task = Task(op="problems", target=Target(dsl="cpp" if inductor else "torch"))
    with SizeProbe(task, generates=inductor) as probe:
        for origin in problems_in(arguments.folder)[: arguments.limit]:
            kept = keep / origin.relative_to(arguments.folder).with_suffix("") if keep else None
            results.append(
                tried(origin, probe, inductor=inductor, timed=not arguments.untimed, keep=kept)
            )
            print(json.dumps(results[-1]), flush=True)
    width = max((len(Path(each["problem"]).name) for each in results), default=0)
    for each in results:
        name = one_line(Path(each["problem"]).name)
        print(
            f"{name:{width}}  {each['state']:11}  {each['seconds']:6.1f} s  "
            f"{_speed(each)}{each['why']}"
        )
    counted = Counter(each["state"] for each in results)
    print(", ".join(f"{count} {state}" for state, count in counted.items()) or "no problem found")
    if inductor and not arguments.untimed:
        timed = [each for each in results if "ratio" in each]
        level = sum(each["high"] >= 1 for each in timed)
        print(f"{level} of {len(timed)} timed kernels are no slower than torch.compile")
    return bool(results) and not counted["not correct"]


def _speed(result: dict[str, Any]) -> str:
    if "ratio" not in result:
        return ""
    low, high = result["low"], result["high"]
    return f"{result['ratio']:.2f} x of torch.compile ({low:.2f} to {high:.2f})  "
