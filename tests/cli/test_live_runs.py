"""Whole runs with the real judge: killed and resumed to the end, and interrupted."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from pathlib import Path

from benchmarks.kills import COMMAND, killed_run
from tests.engine.runs import copy_sample


def test_a_killed_run_resumes_to_the_same_end_with_a_faster_kernel(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    print(f"seed {seed}")
    task = copy_sample(tmp_path / "task", "row_softmax")
    summary = killed_run(tmp_path, [dice.uniform(0.2, 9.0)], rounds=2, task=task)
    assert any(keep["ratio"]["low"] > 1 for keep in summary["keeps"])
    assert summary["speedup_vs_seed"] > 1.2


def test_an_interrupted_demo_ends_with_130_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "demo", "row_softmax", "--headless", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for seq, line in enumerate(process.stdout, 1):
        told = json.loads(line)
        assert told["seq"] == seq
        if told["type"] == "EvalStarted":
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    run = errors.split("akg-tui resume ")[1].strip()
    command = [*COMMAND, "show", run, "--json"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(shown.stdout)["rounds"] == 0
