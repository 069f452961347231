"""Whole runs of the demo, with the real judge: to the end, killed, and interrupted."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from pathlib import Path

from benchmarks.kills import COMMAND, check, killed_run
from tests.engine.runs import copy_sample


def test_the_demo_keeps_a_faster_kernel_and_sums_up(tmp_path: Path) -> None:
    command = [*COMMAND, "demo", "row_softmax", "--headless", "--json", "--rounds", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    summary = lines[-1]
    assert summary["type"] == "summary"
    assert [line["seq"] for line in lines[:-1]] == list(range(1, len(lines)))
    assert any(keep["ratio"]["low"] > 1 for keep in summary["keeps"])
    assert summary["speedup_vs_seed"] > 1.2
    check(tmp_path / summary["run"], summary, 1)


def test_a_killed_demo_resumes_to_the_same_end(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    print(f"seed {seed}")
    task = copy_sample(tmp_path / "task", "row_softmax")
    killed_run(tmp_path, [dice.uniform(0.2, 9.0) for _ in range(2)], rounds=2, task=task)


def test_an_interrupt_ends_with_130_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "demo", "row_softmax", "--headless", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["type"] == "EvalStarted":
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    run = errors.split("akg-tui resume ")[1].strip()
    command = [*COMMAND, "show", run, "--json"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(shown.stdout)["rounds"] == 0
