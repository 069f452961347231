"""SIGKILL at random moments of a suite: `python -m benchmarks suite_kills [--tasks N] [--seed S]`.

Twenty tasks with the tests' fake judge; engine, journals and files are what users get. After each
kill the same command goes on. In the end the decisions of every run must be those of a suite that
was not killed, each run begun once, and the results equal but for times. The seed is printed.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from akg_tui.core import events as ev
from akg_tui.store.run_at_rest import RunAtRest
from akg_tui.store.run_list import find_runs
from akg_tui.suite.suite_record import Suite
from akg_tui.suite.suite_results import results_of
from tests.suite.fake_suite import tasks_in

TASKS, ROUNDS, LEAST_KILLS = 20, 3, 10
LINES = 2
"""The most lines after which a suite is killed."""

MOMENT_S = 0.2
"""The most seconds after such a line."""

ROOT = Path(__file__).parents[1]


def command(tasks: Path, out: Path) -> list[str]:
    words = ["suite", str(tasks), "--out", str(out), "--max-rounds", str(ROUNDS), "--json"]
    return [sys.executable, "-m", "tests.suite.fake_suite", *words]


def decisions(out: Path) -> dict[str, list[Any]]:
    """Return what was decided in each run of a suite."""
    suite = Suite(out)
    return {
        entry.name: [
            (event.round, event.attempt, event.verdict, event.blob)
            for event in (record.event for record in RunAtRest(suite.run_folder(entry)).records)
            if isinstance(event, ev.Decided)
        ]
        for entry in suite.entries
    }


def figures_of(out: Path) -> list[Any]:
    """Return the results by task that do not depend on the time."""
    return [
        (task.task, task.state, task.over_eager, task.over_seed, task.rounds, task.verdicts)
        for task in results_of(Suite(out)).tasks
    ]


def killed(words: list[str], dice: random.Random) -> bool:
    """Run a suite until it has printed some lines, and kill it; return whether it was killed."""
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    with process.stdout:
        for _ in range(dice.randint(1, LINES)):
            process.stdout.readline()
        time.sleep(dice.uniform(0, MOMENT_S))
        process.kill()
    return process.wait() != 0


def main(words: list[str]) -> bool:
    """`[--tasks N] [--seed S]`"""
    options = argparse.ArgumentParser(prog="python -m benchmarks suite_kills")
    options.add_argument("--tasks", type=int, default=TASKS)
    options.add_argument("--seed", type=int, default=random.randrange(2**32))
    given = options.parse_args(words)
    dice = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tasks = tasks_in(folder / "tasks", given.tasks)
        began = time.monotonic()
        subprocess.run(command(tasks, folder / "whole"), cwd=ROOT, check=True, capture_output=True)
        unkilled_s = time.monotonic() - began
        kills = 0
        while killed(command(tasks, folder / "killed"), dice):
            kills += 1
        done = subprocess.run(
            command(tasks, folder / "killed"), cwd=ROOT, check=False, capture_output=True
        )
        runs = len(list(find_runs(folder / "killed")))
        held = {
            "decisions": decisions(folder / "killed") == decisions(folder / "whole"),
            "results": figures_of(folder / "killed") == figures_of(folder / "whole"),
            "exit": done.returncode == 0,
            "runs": runs == given.tasks,
            "kills": kills >= min(LEAST_KILLS, given.tasks),
        }
    figures = {
        "benchmark": "suite_kills",
        "seed": given.seed,
        "tasks": given.tasks,
        "kills": kills,
        "runs": runs,
        "unkilled_s": round(unkilled_s, 1),
        "faults": [name for name, whole in held.items() if not whole],
    }
    print(json.dumps(figures))
    return all(held.values())
