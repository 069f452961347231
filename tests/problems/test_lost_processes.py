"""A reference's process ends by itself, or the sizing process is killed: what goes on."""

from __future__ import annotations

import os
import signal

import pytest

from akg_tui.core.task import Target, Task
from akg_tui.sizing.size_probe import ProbeLost, ReferenceRefused, SizeProbe
from tests.problems.conftest import module_of

TASK = Task(op="problems", target=Target(dsl="torch"))
CALLS = 8
"""With so many calls the ordinary inputs are drawn; what is altered comes later."""

ENDS = module_of(
    "x",
    "global calls\ncalls += 1\nif calls > MOST:\n    os._exit(9)\nreturn x * 2",
    "[torch.randn(8, 8)]",
    "import os\n\ncalls = 0\n",
)


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
