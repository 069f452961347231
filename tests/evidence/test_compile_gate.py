"""What cannot run on a GPU is refused by its compiler's word, before the GPU is used."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from akg_tui.core.kernel.kernel_files import Place
from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Target, Task
from akg_tui.evaluate import Judge
from akg_tui.evaluate.judge_client import EvaluationCancelled
from akg_tui.evaluate.targets.cuda import Cuda
from akg_tui.evidence import asking, compile_gate
from akg_tui.evidence.compile_report import Compiled, CompileFor, CompileReport, Launch, cannot_run
from akg_tui.evidence.gpu.assembly import Resources
from tests.evaluate import triton_kernels as kernels

TASK = Task(op="softmax", target=Target(backend="cuda", dsl="triton"))
TOO_MUCH = Compiled(arch="sm_90", warps=4, shared=300_000)
REFUSED = Compiled(arch="sm_90", failed="no such op", line=7)
FINE = Compiled(arch="sm_90", warps=4, shared=1000)
GREEDY = Compiled(arch="sm_90", warps=32, resources=Resources(65, 0))
ROOMY = Compiled(arch="sm_90", warps=32, resources=Resources(64, 0))
BY_RUNTIME = Compiled(arch="sm_90", warps=4, refused="a size is 0")
NO_BLOCK = "no block of 1024 threads fits on a multiprocessor: registers"
NO_ROOM = "out of shared memory: a block needs 300000 bytes, and sm_90 has 232448"


class UsedDevice(BaseException):
    """The judge was started."""


def launch(compiled: Compiled, *, line: int = 3, launches: int = 1) -> Launch:
    return Launch(
        kernel="rows", line=line, arguments=(), constants=(), grid=(1,),
        launches=launches, compiled=(compiled,),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("launches", "why"),
    [
        ([launch(FINE)], ""),
        ([launch(TOO_MUCH)], f"rows cannot run on sm_90: {NO_ROOM}"),
        ([launch(REFUSED)], "rows cannot run on sm_90: kernel.py:7: no such op"),
        ([launch(FINE), launch(TOO_MUCH)], f"rows cannot run on sm_90: {NO_ROOM}"),
        # An autotuner takes a configuration that runs.
        ([launch(TOO_MUCH), launch(FINE, launches=0)], ""),
        ([launch(TOO_MUCH), launch(REFUSED, launches=0)], f"rows cannot run on sm_90: {NO_ROOM}"),
        ([launch(FINE, line=9), launch(TOO_MUCH)], f"rows cannot run on sm_90: {NO_ROOM}"),
        ([launch(ROOMY)], ""),
        ([launch(GREEDY)], f"rows cannot run on sm_90: {NO_BLOCK}"),
        ([launch(FINE), launch(BY_RUNTIME)], "rows cannot run on sm_90: a size is 0"),
        ([], ""),
    ],
)
def test_a_kernel_cannot_run_if_none_of_its_configurations_can(
    launches: list[Launch], why: str
) -> None:
    report = CompileReport(launches=tuple(launches))
    found = cannot_run(report, "sm_90", "kernel.py")
    assert (found.reason if found else "") == why
    assert (found and found.place) == (Place("kernel.py", 7) if "kernel.py:7" in why else None)
    assert cannot_run(report, "sm_80", "kernel.py") is None


@pytest.mark.parametrize("more", [{"left_out": 1}, {"stopped": "kernel.py:9: no"}])
def test_an_autotuner_whose_configurations_are_not_all_known_is_not_refused(more: object) -> None:
    report = CompileReport(launches=(launch(TOO_MUCH), launch(TOO_MUCH, launches=0)))
    assert cannot_run(report, "sm_90", "kernel.py")
    assert isinstance(more, dict)
    assert cannot_run(msgspec.structs.replace(report, **more), "sm_90", "kernel.py") is None


@pytest.mark.parametrize(
    ("kernel", "may"),
    [
        (kernels.GOOD, False),
        ("try:\n    launch()\nexcept RuntimeError:\n    other()\n", True),
        ("with contextlib.suppress(RuntimeError):\n    launch()\n", True),
        ("BLOCK = 64 if torch.cuda.get_device_capability()[0] < 9 else 128\n", True),
        ("from triton.runtime import driver\nname = driver.active\n", True),
        ("x = torch.empty(3, device='cuda')\n", False),
    ],
)
def test_a_kernel_that_may_choose_by_the_gpu_is_left_to_it(kernel: str, may: bool) -> None:
    assert compile_gate.may_choose(kernel) is may


@pytest.fixture
def on_sm_90(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(self: Judge) -> None:
        raise UsedDevice

    monkeypatch.setattr(Cuda, "lacking", lambda self: "")
    monkeypatch.setattr(compile_gate, "arch_here", lambda: "sm_90")
    monkeypatch.setattr(Judge, "_ensure", never)


@pytest.mark.usefixtures("on_sm_90")
async def test_what_cannot_run_fails_before_a_device_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [CompileReport(launches=(launch(TOO_MUCH),)), CompileReport(launches=(launch(FINE),))]

    async def answer(
        module: str, task: Task, request: CompileFor, *_: object, **__: object
    ) -> CompileReport:
        assert request.arches == ("sm_90",)
        return answers.pop(0)

    monkeypatch.setattr(asking, "_confined", answer)
    judge = Judge(TASK, kernels.REFERENCE, tmp_path, gate=compile_gate.refusal)
    found = await judge.evaluate(kernels.GOOD)
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.BUILD)
    assert found.message == f"rows cannot run on sm_90: {NO_ROOM}"
    # Now that it may run, the judge is started; a kernel that has passed is not compiled again.
    for _ in range(2):
        with pytest.raises(UsedDevice):
            await judge.evaluate(kernels.GOOD)
    assert answers == []


@pytest.mark.usefixtures("on_sm_90")
async def test_a_lost_compiler_or_an_unknown_arch_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: object, **__: object) -> CompileReport:
        raise asking.Lost("it took longer than 90 s")

    monkeypatch.setattr(asking, "_confined", lost)
    assert await compile_gate.refusal(TASK, kernels.REFERENCE, kernels.GOOD) is None
    monkeypatch.setattr(compile_gate, "arch_here", lambda: "sm_75")
    monkeypatch.setattr(asking, "_confined", None)
    assert await compile_gate.refusal(TASK, kernels.REFERENCE, kernels.GOOD) is None


@pytest.mark.usefixtures("on_sm_90")
async def test_an_evaluation_is_cancelled_while_its_kernel_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def compiling(*_: object, **__: object) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(asking, "_confined", compiling)
    judge = Judge(TASK, kernels.REFERENCE, tmp_path, gate=compile_gate.refusal)
    for by in ("cancel", "task"):
        began.clear()
        ended.clear()
        running = asyncio.ensure_future(judge.evaluate(kernels.GOOD))
        await began.wait()
        if by == "cancel":
            await judge.cancel()
        else:
            running.cancel()
        with pytest.raises(EvaluationCancelled if by == "cancel" else asyncio.CancelledError):
            await running
        assert ended.is_set()
