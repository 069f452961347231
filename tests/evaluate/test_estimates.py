"""Estimates: what is counted, how a GPU's model ranks it, what the judge of estimates answers."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from akg_tui.core.measurement import (
    CaseEstimate,
    Estimate,
    FailureKind,
    Measurement,
    Outcome,
    Progress,
)
from akg_tui.core.task import Case, Target, Task
from akg_tui.evaluate.estimate import gpu_model
from akg_tui.evaluate.estimate.estimating_judge import EstimatingJudge
from akg_tui.evaluate.estimate.estimator import (
    ESTIMATORS,
    AscendEstimator,
    Refused,
    UnknownArch,
    estimator_for,
)
from akg_tui.evaluate.evidence import asking
from akg_tui.evaluate.evidence.asking import Lost
from akg_tui.evaluate.evidence.compile_report import (
    Compiled,
    CompileFor,
    CompileReport,
    HostWork,
    Launch,
    Work,
)
from akg_tui.evaluate.evidence.gpu_assembly import Instructions, Resources
from akg_tui.evaluate.evidence.gpu_limits import ARCHES

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is for Linux"
)
WORK = Work(
    programs=4096,
    loads=4096,
    sectors=4096 * 256,
    different_read=4096 * 128,
    different_written=4096 * 128,
    tiles={"1024": 4096 * 4},
)
"""A copy of 16 MiB by blocks of 4 KiB, with some arithmetic."""
CODE = Instructions({}, {128: 1}, {128: 1}, {}, 0)
FOR_H100 = Compiled(arch="sm_90", warps=4, stages=3, instructions=CODE, resources=Resources(32, 0))


def report(
    work: Work = WORK, *, launches: int = 1, host: HostWork | None = None, **compiled: object
) -> CompileReport:
    launch = Launch(
        kernel="copy",
        line=3,
        arguments=(),
        constants=(),
        grid=(4096,),
        launches=launches,
        work=work,
        compiled=(replace(FOR_H100, **compiled),),
    )
    return CompileReport(launches=(launch,), host=host or HostWork())


def us(told: CompileReport) -> float:
    return gpu_model.estimate(told, "sm_90").us


# The model of a GPU


def test_a_copy_takes_the_time_that_its_bytes_take_in_memory() -> None:
    found = gpu_model.estimate(report(), "sm_90")
    moved_us = 32 * 2**20 / (gpu_model.RATES["sm_90"].memory * 1e3)
    assert found.binds == "memory"
    assert moved_us < found.us < 1.5 * moved_us + gpu_model.LAUNCH_US
    assert gpu_model.estimate(report(arch="sm_80"), "sm_80").us > 1.5 * found.us


@pytest.mark.parametrize(
    ("worse", "why"),
    [
        (report(replace(WORK, sectors=8 * WORK.sectors)), "scattered accesses"),
        (report(replace(WORK, different_read=2 * WORK.different_read)), "more bytes"),
        (report(replace(WORK, tiles={"1024": 4096 * 400})), "more operations"),
        (report(replace(WORK, reductions=4096 * 400)), "reductions"),
        (report(replace(WORK, products={"fp16": 10**13})), "products"),
        (report(replace(WORK, programs=4, loads=4096)), "idle multiprocessors"),
        (report(resources=Resources(32, 4000)), "spilled registers"),
        (report(launches=8), "more launches"),
        (report(host=HostWork(1, 2**26)), "work that left Triton"),
    ],
)
def test_what_costs_time_on_a_gpu_costs_time_in_the_model(worse: CompileReport, why: str) -> None:
    assert us(worse) > 1.1 * us(report()), why


def test_tiles_that_are_smaller_than_a_block_waste_its_threads() -> None:
    small = replace(WORK, tiles={"32": 4096 * 4000})
    assert us(report(small, warps=1)) < us(report(small, warps=8))


def test_every_arch_of_the_model_has_limits() -> None:
    assert set(gpu_model.RATES) <= set(ARCHES)
    assert set(ESTIMATORS) == set(gpu_model.RATES)


# What has no estimate


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (CompileReport(), "launches no Triton kernel"),
        (report(launches=0), "launches no Triton kernel"),
        (CompileReport(stopped="RuntimeError: no"), "stopped when it was compiled: RuntimeError"),
        (replace(report(), left_out=3), "27 different launches: at most 24"),
        (report(failed="out of resource", line=9), "copy: kernel.py:9: out of resource"),
        (report(shared=1 << 20), "sm_90: copy: out of shared memory: a block needs 1048576 bytes"),
        (report(arch="sm_80"), "not compiled for sm_90"),
    ],
)
def test_what_is_left_out_or_cannot_run_is_refused_with_its_reason(
    told: CompileReport, why: str
) -> None:
    with pytest.raises(Refused, match=why):
        estimator_for("sm_90").estimate(told, "kernel.py")


def test_an_unknown_arch_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UnknownArch, match=r"no estimator for 'sm_1'; there are: sm_80"):
        estimator_for("sm_1")
    assert isinstance(estimator_for("Ascend910B1"), AscendEstimator)


# The judge of estimates


class FakeEstimator:
    """Compiles nothing; answers with what it is made for."""

    arch = "sm_90"

    def __init__(self, answer: Estimate | Exception) -> None:
        self.answer = answer
        self.compilations = 0

    async def compiled(self, *_: object) -> None:
        self.compilations += 1

    def estimate(self, *_: object) -> Estimate:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class FakeVerifier:
    """Takes every kernel for what it is made for, and times none."""

    def __init__(self, found: Measurement) -> None:
        self.found = found

    async def probe(self, kernel: str, *, timed: bool) -> Measurement:
        assert not timed
        return self.found


class ByCase(FakeEstimator):
    """Answers with what a case is to have."""

    def __init__(self, answers: dict[str, Estimate | Exception]) -> None:
        self.answers = answers

    async def compiled(self, task: object, reference: object, kernel: object, case: Case) -> None:  # type: ignore[override]
        self.answer = self.answers[case.name]


def answered(
    tmp_path: Path,
    verified: Measurement,
    estimator: FakeEstimator,
    cases: tuple[Case, ...] = (),
) -> tuple[Measurement, list[Progress]]:
    told: list[Progress] = []
    task = Task("op", target=Target("cuda", "triton"), estimate="sm_90", cases=cases)
    judge = EstimatingJudge(task, "", tmp_path, on_progress=told.append)
    assert judge._judge._task.target.backend == "cpu"  # there is no device here
    judge._judge, judge._estimator = FakeVerifier(verified), estimator  # type: ignore[assignment]
    return asyncio.run(judge.evaluate("kernel")), told


CORRECT = Measurement(outcome=Outcome.CORRECT, max_error=0.1, message="verified only")


def test_a_correct_kernel_gets_an_estimate_and_no_time(tmp_path: Path) -> None:
    estimate = Estimate("sm_90", 3.0, "memory")
    found, told = answered(tmp_path, CORRECT, FakeEstimator(estimate))
    assert (found.outcome, found.estimate, found.timed) == (Outcome.CORRECT, estimate, False)
    assert found.ratio is found.candidate_ms is None
    assert found.max_error == 0.1
    assert [each.message for each in told] == ["compiling for sm_90"]


def test_the_estimate_of_several_cases_is_their_weighted_mean(tmp_path: Path) -> None:
    cases = Case("short", {"n": 1}, weight=3.0), Case("long", {"n": 2})
    short, long = Estimate("sm_90", 2.0, "launching"), Estimate("sm_90", 32.0, "memory")
    estimator = ByCase({"short": short, "long": long})
    found, told = answered(tmp_path, CORRECT, estimator, cases)
    assert found.estimate is not None
    assert found.estimate.us == pytest.approx(2.0 ** (3 / 4) * 32.0 ** (1 / 4))
    assert found.estimate.binds == "memory"
    each = CaseEstimate("short", 2.0, "launching"), CaseEstimate("long", 32.0, "memory")
    assert found.estimate.cases == each
    assert len(told) == 1
    refused = ByCase({"short": short, "long": Refused("ub overflow")})
    found, _ = answered(tmp_path, CORRECT, refused, cases)
    assert (found.failure, found.message) == (FailureKind.BUILD, "case long: ub overflow")
    nothing = ByCase({"short": Estimate("sm_90", 0.0, "launching"), "long": long})
    found, _ = answered(tmp_path, CORRECT, nothing, cases)
    assert found.estimate is not None
    assert 0 < found.estimate.us < 1


async def test_a_compile_report_has_the_sizes_of_its_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[CompileFor] = []

    async def confined(
        _module: str, _task: Task, request: CompileFor, _: object, **__: object
    ) -> bytes:
        asked.append(request)
        return msgspec.json.encode(CompileReport())

    monkeypatch.setattr(asking, "_confined", confined)
    cases = Case("short", {"N": 7}), Case("long", {"N": 9})
    task = Task("op", target=Target("cuda", "triton"), cases=cases)
    for case in (None, *cases):
        await asking.compile_report(task, "N = 1\n", "", ["sm_90"], case=case)
    assert [request.reference for request in asked] == ["N = 7\n", "N = 7\n", "N = 9\n"]


def test_a_wrong_kernel_is_not_compiled(tmp_path: Path) -> None:
    wrong = Measurement(outcome=Outcome.FAILED, failure=FailureKind.WRONG, message="wrong")
    estimator = FakeEstimator(Estimate("sm_90", 3.0, "memory"))
    found, _ = answered(tmp_path, wrong, estimator)
    assert found == wrong
    assert estimator.compilations == 0


def test_what_the_compiler_refuses_fails_with_its_reason(tmp_path: Path) -> None:
    found, _ = answered(tmp_path, CORRECT, FakeEstimator(Refused("ub overflow")))
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.BUILD)
    assert (found.message, found.estimate) == ("ub overflow", None)


def test_a_lost_compiler_is_not_the_kernels_failure(tmp_path: Path) -> None:
    found, _ = answered(tmp_path, CORRECT, FakeEstimator(Lost("it was killed")))
    assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.JUDGE)
    assert found.message == "no compile report for sm_90: it was killed"


# What is counted


@needs_triton
def test_the_interpreter_counts_programs_accesses_operations_and_products() -> None:
    import torch

    from akg_tui.evaluate.evidence.launch_work import LaunchCounter
    from tests.evaluate.counted_kernels import scale_rows, square

    x, y = torch.randn(3, 100), torch.empty(3, 100)
    counter = LaunchCounter()
    with counter.counting():
        scale_rows[(3,)](x, y, 100, 100, 1, size=64)
    found = counter.work()
    assert (found.programs, found.loads) == (3, 6)
    # 300 numbers of 4 bytes; a row begins in the middle of a sector and ends there.
    assert found.different_read == found.different_written == 38
    assert 2 * 38 < found.sectors <= 2 * 38 + 12
    assert found.tiles["64"] > 6
    assert found.reductions == 3

    scattered = LaunchCounter()
    with scattered.counting():
        scale_rows[(3,)](x.t().contiguous(), y, 100, 1, 3, size=64)
    assert scattered.work().different_read == found.different_read
    assert scattered.work().sectors > 1.5 * found.sectors  # a sector has 2 or 3 numbers of a row

    a, c = torch.randn(16, 16), torch.empty(16, 16)
    products = LaunchCounter()
    with products.counting():
        square[(1,)](a, c)
    assert products.work().products == {"fp32": 2 * 16**3}
    # Nothing is counted afterwards.
    scale_rows[(3,)](x, y, 100, 100, 1, size=64)
    assert counter.work() == found


def test_operators_of_pytorch_count_but_for_views_and_allocations() -> None:
    import torch

    from akg_tui.evaluate.evidence.launch_work import HostCounter

    a = torch.randn(8, 8)
    counter = HostCounter()
    with counter:
        torch.empty_like(a.t()[1:])
        a + 1
        a @ a
        counter.paused = True
        a * 2
    assert counter.work() == HostWork(2, (2 + 3) * 64 * 4, 2 * 8**3)
