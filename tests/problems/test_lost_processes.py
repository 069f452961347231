"""A reference's process ends by itself, or the sizing process is killed: what goes on."""

from __future__ import annotations

import os
import signal

import pytest

from akg_tui.core.task import Target, Task
from akg_tui.sizing.size_probe import ProbeLost, ReferenceRefused, SizeProbe

TASK = Task(op="problems", target=Target(dsl="torch"))
CALLS = 8
"""With so many calls the ordinary inputs are drawn; what is altered comes later."""

ENDS = """
import os
import torch

calls = 0

class Model(torch.nn.Module):
    def forward(self, x):
        global calls
        calls += 1
        if calls > MOST:
            os._exit(9)
        return x * 2

def get_inputs():
    return [torch.randn(8, 8)]

def get_init_inputs():
    return []
"""


def test_a_reference_whose_process_ends_takes_no_other_with_it(probe: SizeProbe) -> None:
    before = probe.pid
    # A process that dies of altered inputs depends on them.
    assert probe.ask("examine", TASK, ENDS.replace("MOST", str(CALLS)), "r.py") is None
    with pytest.raises(ReferenceRefused, match="ended with exit code 9 while drawing inputs"):
        probe.ask("examine", TASK, ENDS.replace("MOST", "1"), "r.py")
    assert probe.pid == before


def test_a_lost_sizing_process_is_told_once_and_replaced(probe: SizeProbe) -> None:
    os.kill(probe.pid, signal.SIGKILL)
    whole = ENDS.replace("MOST", "10 ** 9")
    with pytest.raises(ProbeLost, match="the sizing process ended"):
        probe.ask("examine", TASK, whole, "r.py")
    assert probe.ask("examine", TASK, whole, "r.py") is None
