"""Suites on a local Ray cluster: `python -m benchmarks suite_cluster [lost|overhead]`.

`lost`: eight tasks on two nodes, one of which is killed with its processes once its run is
measured. All must end with the verdicts that they have on this machine without Ray, each run
counted once. `overhead`: what a task costs besides its run, through Ray and without it.

Needs `akg-tui[ray]`. The judge is the real one; a better knob is eight times as fast, so that the
verdicts do not hang on the noise.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from akg_tui.core import events as ev
from akg_tui.store.run_at_rest import RunAtRest
from akg_tui.store.run_list import find_runs
from akg_tui.suite import ray_fleet
from akg_tui.suite.suite_record import Suite
from akg_tui.suite.suite_results import results_of

TASKS, PAIRS = 8, 3
FUNCTIONS = ("sin", "cos", "tanh", "exp", "sigmoid", "erf", "atan", "sinh")

TASK = """op = "{name}"
[target]
dsl = "torch"
[timing]
budget_s = 1.0
[policy]
max_rounds = 1
"""
REFERENCE = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.{name}(x)


def get_inputs():
    return [torch.randn(256, 1024)]


def get_init_inputs():
    return []
"""
KERNEL = """import torch

TIMES = 8  # tune: [8, 1]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        for _ in range(TIMES):
            y = torch.{name}(x)
        return y
"""


def tasks_in(folder: Path, count: int) -> Path:
    """Make tasks whose seed does its work eight times."""
    for name in FUNCTIONS[:count]:
        task = folder / name
        task.mkdir(parents=True)
        (task / "task.toml").write_text(TASK.format(name=name))
        (task / "reference.py").write_text(REFERENCE.format(name=name))
        (task / "kernel.py").write_text(KERNEL.format(name=name))
    return folder


def lines_of(
    tasks: Path, out: Path, state: Path, *more: str
) -> Iterator[tuple[float, dict[str, Any]]]:
    """Run a suite; yield its lines, each with the time at which it came."""
    words = ["suite", str(tasks), "--out", str(out), "--json", *more]
    process = subprocess.Popen(
        [sys.executable, "-m", "akg_tui", *words],
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            yield time.time(), json.loads(line)
    process.wait()


def events_of(run: Path) -> list[ev.Record]:
    return RunAtRest(run).records


def verdicts_of(out: Path) -> dict[str, list[str]]:
    """Return the verdicts of each run of a suite."""
    suite = Suite(out)
    return {
        entry.name: [
            record.event.verdict.value
            for record in events_of(suite.run_folder(entry))
            if isinstance(record.event, ev.Decided)
        ]
        for entry in suite.entries
    }


def kill_node(fleet: ray_fleet.Fleet, number: int) -> None:
    """Kill a node with all its processes, as a machine that loses power."""
    os.killpg(int(fleet.nodes[number].split(maxsplit=1)[0]), signal.SIGKILL)


def _measures(run: Path) -> bool:
    return any(isinstance(r.event, ev.EvalStarted) for r in events_of(run))


def lost() -> bool:
    """Kill one of two nodes in the middle of eight tasks; print what became of them."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tasks = tasks_in(folder / "tasks", TASKS)
        began = time.monotonic()
        for _ in lines_of(tasks, folder / "here", folder):
            pass
        here_s = time.monotonic() - began
        state = folder / "akg-tui" / "fleet"
        fleet = ray_fleet.up(state, nodes=2, cpus=1)
        try:
            began = time.monotonic()
            nodes: dict[str, str] = {}
            killed_at, told = 0.0, []
            head = ""
            for _, line in lines_of(tasks, folder / "there", folder, "--ray-address", "fleet"):
                told.append(line)
                if line.get("state") == "running":
                    nodes[line["task"]] = line["what"].rpartition(" ")[2]
                head = head or _head(state)
                ended = sum(each.get("state") == "done" for each in told)
                if not killed_at and ended >= TASKS // 4 and line.get("state") == "running":
                    on_it = [name for name, node in nodes.items() if node != head]
                    if on_it and line["task"] == on_it[-1]:
                        run = Suite(folder / "there")
                        entry = next(e for e in run.entries if e.source.name == on_it[-1])
                        while not _measures(run.run_folder(entry)):
                            time.sleep(0.1)
                        kill_node(fleet, 1)
                        killed_at = time.monotonic() - began
            there_s = time.monotonic() - began
        finally:
            ray_fleet.down(state)
        here, there = verdicts_of(folder / "here"), verdicts_of(folder / "there")
        sessions = {
            run.name: sum(isinstance(r.event, ev.SessionOpened) for r in events_of(run))
            for run in find_runs(folder / "there")
        }
        correct = sum(t.state == "correct" for t in results_of(Suite(folder / "there")).tasks)
    figures = {
        "benchmark": "suite_cluster lost",
        "tasks": TASKS,
        "killed_after_s": round(killed_at, 1),
        "ended_correct": correct,
        "same_verdicts": here == there,
        "runs": len(sessions),
        "resumed_elsewhere": [name for name, count in sessions.items() if count > 1],
        "on_one_machine_s": round(here_s, 1),
        "on_the_cluster_s": round(there_s, 1),
    }
    print(json.dumps(figures))
    resumed = bool(killed_at) and bool(figures["resumed_elsewhere"])
    return correct == TASKS == len(sessions) and here == there and resumed


def _head(state: Path) -> str:
    """Return the first digits of the head's id, which has a resource of its own."""
    _, nodes = ray_fleet.status(state)
    return next(str(n["node"])[:8] for n in nodes if "node:__internal_head__" in n["resources"])


def overhead() -> bool:
    """Print the seconds of single tasks besides their runs, in turns with Ray and without."""
    found: dict[str, list[float]] = {"ray": [], "here": []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tasks = tasks_in(folder / "tasks", 1)
        state = folder / "akg-tui" / "fleet"
        ray_fleet.up(state, nodes=1, cpus=1)
        try:
            for number in range(PAIRS):
                for where, more in (("here", []), ("ray", ["--ray-address", "fleet"])):
                    out = folder / f"{where}{number}"
                    lines = list(lines_of(tasks, out, folder, *more))
                    first = lines[0][0]
                    last = next(at for at, line in lines if line.get("state") == "done")
                    (run,) = find_runs(out)
                    events = events_of(run)
                    work = _at(events, ev.RunFinished) - _at(events, ev.SessionOpened)
                    found[where].append(last - first - work)
        finally:
            ray_fleet.down(state)
    figures = {
        "benchmark": "suite_cluster overhead",
        **{f"{where}_s": [round(each, 2) for each in values] for where, values in found.items()},
        "overhead_s": round(median(found["ray"]) - median(found["here"]), 2),
    }
    print(json.dumps(figures))
    return True


def _at(events: list[ev.Record], kind: type) -> float:
    return next(record.at for record in events if isinstance(record.event, kind))


def main(words: list[str]) -> bool:
    """`[lost|overhead]`"""
    options = argparse.ArgumentParser(prog="python -m benchmarks suite_cluster")
    options.add_argument("part", nargs="?", choices=("lost", "overhead"))
    given = options.parse_args(words)
    parts = {"lost": lost, "overhead": overhead}
    held = [parts[name]() for name in ([given.part] if given.part else parts)]
    return all(held)
