"""A task whose kernel can be set to misbehave: wrong, hanging, exiting, slow."""

from __future__ import annotations

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
