"""Kernels that misbehave, in a real run with the real judge: FAIL, FAIL, FAIL, DISCARD."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

REFERENCE = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(512, 512)]


def get_init_inputs():
    return []
"""

KERNEL = """\
import os

import torch
from torch import nn

WAY = "plain"  # tune: ["plain", "wrong", "hang", "exit", "slow"]

if WAY == "exit":
    os._exit(0)


class ModelNew(nn.Module):
    def forward(self, x):
        if WAY == "wrong":
            return torch.zeros_like(x)
        if WAY == "hang":
            while True:
                pass
        if WAY == "slow":
            for _ in range(20):
                torch.sort(x)
        return torch.relu(x)
"""

TASK = """\
op = "misbehave"

[target]
dsl = "torch"

[timing]
call_timeout_s = 1.5
budget_s = 4.0

[policy]
fail_streak = 10
"""


def write_task(folder: Path) -> Path:
    folder.mkdir()
    (folder / "task.toml").write_text(TASK)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "kernel.py").write_text(KERNEL)
    return folder


def test_each_misbehaviour_gets_its_verdict_and_the_best_kernel_is_back(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "task")
    command = [sys.executable, "-m", "akg_tui", "tune", str(folder), "--headless", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    summary = lines[-1]
    texts = {
        item["id"]: item["text"]
        for line in lines
        if line["type"] == "PlanSubmitted"
        for item in line["items"]
    }
    decided = {
        texts[line["item"]]: (line["verdict"], line["reason"])
        for line in lines
        if line["type"] == "Decided"
    }
    assert {way: verdict for way, (verdict, _) in decided.items()} == {
        'WAY="wrong"': "FAIL",
        'WAY="hang"': "FAIL",
        'WAY="exit"': "FAIL",
        'WAY="slow"': "DISCARD",
    }
    assert "wrong values" in decided['WAY="wrong"'][1]
    assert "1.5 s" in decided['WAY="hang"'][1]
    run = Path(summary["run"])
    assert (run / "work" / "kernel.py").read_bytes() == KERNEL.encode()
    git = ["git", "-C", str(run / "history.git"), "show", "best:kernel.py"]
    assert subprocess.run(git, capture_output=True, check=True).stdout == KERNEL.encode()
    assert summary["best_attempt"] == 0
    assert summary["speedup_vs_seed"] == 1.0
