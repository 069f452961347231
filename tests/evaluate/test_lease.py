"""Only one judge at a time may time on a device of this machine."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import get_args

import pytest

from akg_tui.core.measurement import Outcome, Progress
from akg_tui.core.task import Backend, Target, Task
from akg_tui.evaluate.targets.lease import TOLD, held, lease_of
from tests.evaluate.kernels import PLAIN, REFERENCE
from tests.judging import Evaluated, quick_task


def test_a_kernel_is_verified_and_then_timed_when_the_other_judge_is_done(
    evaluated: Evaluated, tmp_path: Path
) -> None:
    path = tmp_path / "timing.lock"
    other = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_EX)
    stages: list[str] = []

    def report(progress: Progress) -> None:
        stages.append(progress.stage if progress.message != TOLD else "wait")
        if progress.message == TOLD:
            os.close(other)

    found = evaluated(quick_task(), REFERENCE, PLAIN, lease=str(path), report=report)
    assert found.outcome is Outcome.CORRECT, found
    assert found.ratio is not None
    assert stages.index("verify") < stages.index("wait") < stages.index("time")
    assert stages.count("wait") == 1


def test_a_lease_is_free_again_after_its_block_and_a_wait_can_be_ended(tmp_path: Path) -> None:
    path = str(tmp_path / "timing.lock")

    def cancelled(seconds: float) -> None:
        raise InterruptedError

    with (
        held(path, cancelled, print),
        pytest.raises(InterruptedError),
        held(path, cancelled, lambda told: None),
    ):
        pass
    with held(path, cancelled, print), held("", cancelled, print):
        pass


def test_each_device_has_a_lease_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    cpu, cuda, npu = (lease_of(Task(op="x", target=Target(backend=b))) for b in get_args(Backend))
    assert (cpu.name, cuda.name) == ("timing-cpu.lock", "timing-cuda-0.lock")
    assert npu.name == "timing-ascend-0.lock"
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "5,6")
    task = Task(op="x", target=Target(backend="ascend"))
    assert [lease_of(task, at).name for at in (0, 1)] == [
        "timing-ascend-5.lock", "timing-ascend-6.lock",
    ]  # fmt: skip
    assert cpu.parent.stat().st_mode & 0o777 == 0o700
