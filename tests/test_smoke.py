"""One look at the judge, the command line and the workbench, for `make quick`."""

from __future__ import annotations

import subprocess
import sys

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.phases import Mode
from tests.evaluate.kernels import CPP, REFERENCE, SLOW, kernel
from tests.judging import Evaluated, quick_task
from tests.tui.script import FakeHandle
from tests.tui.stage import on_stage


def test_the_judge_finds_a_right_kernel_faster_and_refuses_a_wrong_one(
    evaluated: Evaluated,
) -> None:
    found = evaluated(quick_task(budget_s=20.0), REFERENCE, CPP, incumbent=SLOW)
    assert found.outcome is Outcome.CORRECT, found
    assert found.ratio is not None
    assert found.ratio.low > 1
    found = evaluated(quick_task(budget_s=20.0), REFERENCE, kernel("return x"))
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.WRONG), found


def test_the_command_line_lists_its_keys() -> None:
    command = [sys.executable, "-m", "akg_tui", "keys", "--markdown"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# Keys and commands")


async def test_the_workbench_shows_a_run_to_its_end() -> None:
    async with on_stage(FakeHandle(mode=Mode.AUTO).work()) as stage:
        assert "1 plan" in stage.text()
        await stage.press("question_mark")
        await stage.press("escape")
        assert "2 kernel" in stage.text()
