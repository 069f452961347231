"""Many evaluations in a row by one judge, every fifth of them crashing, hanging or cancelled.

Of the others a quarter is timed to the end, and the rest refused for a wrong result.

Looks for leaks of processes, shared memory, descriptors and the judge's memory.
`python -m benchmarks soak --evaluations N`.
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
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from akg_tui.core.measurement import Outcome, Progress
from akg_tui.core.task import Correctness, Task, Timing
from akg_tui.evaluate import EvaluationCancelled, Judge
from akg_tui.evaluate.sandbox import process_watch

EVALUATIONS = 1000
PROGRESS = 100
SLOPE_BYTES = 2048
"""The most that the judge may grow for an evaluation, over the second half."""

TASK = Task(
    op="soak",
    correctness=Correctness(trials=1),
    # A call that hangs beside a process of its own may be compiling: it gets the time of a build.
    timing=Timing(budget_s=0.01, call_timeout_s=1.0, build_timeout_s=8.0),
)
REFERENCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(32)]


def get_init_inputs():
    return []
"""
RIGHT = REFERENCE.replace("Model(", "ModelNew(")
WRONG = RIGHT.replace("torch.relu(x)", "x + 1")
CRASHES = (
    RIGHT.replace("torch.relu(x)", "__import__('ctypes').string_at(0)"),
    RIGHT.replace("import torch\n", "import torch, os\nos._exit(0)\n", 1),
)
HANG = RIGHT.replace("torch.relu(x)", "[0 for _ in iter(int, 1)]")
LEFT_BEHIND = RIGHT.replace(
    "torch.relu(x)", "(__import__('os').fork() and None) or __import__('time').sleep(1000)"
)
BAD = ("crash", "hang", "cancel")


SETTLED_S = 2.0
"""How long what is there for a moment has to go away."""


@dataclass
class Trace:
    """Resources in use after each evaluation."""

    outcomes: Counter[str] = field(default_factory=Counter)
    memory: list[int] = field(default_factory=list)
    zygote_memory: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    regions: list[int] = field(default_factory=list)
    processes: list[int] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)

    def look(self, judge: int) -> None:
        """Record the resources of the idle judge."""
        below = process_watch.descendants(judge)
        # After a cancellation it may still be reading its own sources: a leak does not go away.
        until = time.monotonic() + SETTLED_S
        while self.descriptors and time.monotonic() < until:
            if sum(len(_links(pid)) for pid in (judge, *below)) <= self.descriptors[-1]:
                break
            time.sleep(SETTLED_S / 100)
        self.memory.append(_resident(judge))
        self.zygote_memory.append(max(map(_resident, below)))
        self.descriptors.append(sum(len(_links(pid)) for pid in (judge, *below)))
        self.regions.append(sum("memfd" in link for pid in (judge, *below) for link in _links(pid)))
        self.processes.append(1 + len(below))


def _resident(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) << 10


def _links(pid: int) -> list[str]:
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(str(entry.readlink()))
        except OSError:
            continue
    return found


async def _evaluate(judge: Judge, kind: str, turn: int) -> str:
    """Make one evaluation of a kind; return how it ended."""
    if kind == "cancel":
        doing = asyncio.create_task(judge.evaluate(RIGHT if turn % 2 else HANG))
        if turn % 4 < 2:
            await asyncio.sleep(0.02 * (turn % 7))
            doing.cancel()
        else:
            await asyncio.sleep(0.02 * (turn % 7))
            await judge.cancel()
        try:
            return str((await doing).outcome)
        except (asyncio.CancelledError, EvaluationCancelled):
            return "cancelled"
    source = {
        "right": RIGHT,
        "wrong": WRONG,
        "crash": CRASHES[turn % len(CRASHES)],
        "hang": (HANG, LEFT_BEHIND)[turn % 2],
    }[kind]
    found = await judge.evaluate(source)
    if found.outcome is Outcome.CORRECT:
        return "correct"
    if source == RIGHT:
        return f"{found.outcome} {found.failure}: {found.message}"
    return f"{found.outcome} {found.failure}"


EXPECTED = {
    "right": {"correct"},
    "wrong": {"failed wrong"},
    "crash": {"failed crash"},
    "hang": {"failed timeout"},
    "cancel": {"cancelled", "correct", "failed"},
}


async def soak(evaluations: int, scratch: Path) -> Trace:
    """Evaluate, and record the resources in use after each evaluation."""
    trace = Trace()

    def ignore(_: Progress) -> None:
        return

    # What is made ready for the next evaluation would hide what the last one has left.
    async with Judge(TASK, REFERENCE, scratch, on_progress=ignore, prefetch=False) as judge:
        for turn in range(evaluations):
            bad = turn % 5 == 4
            good = "right" if turn % 4 == 0 else "wrong"
            kind = BAD[turn // 5 % len(BAD)] if bad else good
            ended = await _evaluate(judge, kind, turn // 5)
            trace.outcomes[f"{kind}: {ended}"] += 1
            if ended not in EXPECTED[kind]:
                trace.unexpected.append(f"evaluation {turn + 1}, {kind}: {ended}")
            if judge.pid is not None:
                trace.look(judge.pid)
            if (turn + 1) % PROGRESS == 0:
                print(json.dumps(figures(trace)), file=sys.stderr, flush=True)
    return trace


def figures(trace: Trace) -> dict[str, Any]:
    """Return the figures of the trace, and whether the bounds hold."""
    half = len(trace.memory) // 2
    late = trace.memory[half:]
    slope = statistics.linear_regression(range(len(late)), late).slope
    forks = trace.zygote_memory[half:]
    zygote = statistics.linear_regression(range(len(forks)), forks).slope
    # What the first evaluation opens once stays open; nothing may come on top of it.
    held = (
        not trace.unexpected
        and max(trace.processes[5:]) == min(trace.processes[5:])
        and max(trace.descriptors[5:]) == min(trace.descriptors[5:])
        and max(trace.regions[5:]) == min(trace.regions[5:])
    )
    return {
        "benchmark": "soak",
        "evaluations": len(trace.memory),
        "outcomes": dict(trace.outcomes),
        "processes": sorted(set(trace.processes)),
        "descriptors": sorted(set(trace.descriptors)),
        "shared_regions": sorted(set(trace.regions)),
        "judge_mib": [round(trace.memory[0] / 2**20, 1), round(trace.memory[-1] / 2**20, 1)],
        "judge_bytes_an_evaluation": round(slope),
        "zygote_bytes_an_evaluation": round(zygote),
        "unexpected": trace.unexpected,
        "held": held,
    }


def main(words: list[str]) -> bool:
    """`[--evaluations N]`"""
    options = argparse.ArgumentParser(prog="python -m benchmarks soak")
    options.add_argument("--evaluations", type=int, default=EVALUATIONS, metavar="N")
    evaluations = options.parse_args(words).evaluations
    shared = set(os.listdir("/dev/shm"))  # noqa: PTH208
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = figures(asyncio.run(soak(evaluations, Path(folder))))
    found["seconds"] = round(time.monotonic() - began, 1)
    found["left_in_dev_shm"] = sorted(set(os.listdir("/dev/shm")) - shared)  # noqa: PTH208
    flat = found["judge_bytes_an_evaluation"] <= SLOPE_BYTES or evaluations < EVALUATIONS
    print(json.dumps(found))
    return bool(found["held"]) and flat
