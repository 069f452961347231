"""The interface of an estimator: what compiles a kernel for an arch, and what ranks the result.

Used before any process is started, so it must import neither torch nor a DSL.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from akg_tui.core.measurement import CaseEstimate, Estimate
from akg_tui.core.sanitize import one_line
from akg_tui.core.task import Case, Task
from akg_tui.evaluate.dsls import DSLS
from akg_tui.evaluate.estimate import gpu_model
from akg_tui.evaluate.evidence import asking
from akg_tui.evaluate.evidence.compile_report import (
    MOST_LAUNCHES,
    CompileReport,
    estimate_of,
    refusal,
)
from akg_tui.evaluate.evidence.gpu_limits import is_ascend
from akg_tui.evaluate.targets import toolchains
from akg_tui.kernel_files import LineNames


class Refused(Exception):
    """The kernel has no estimate, by a fault of its own; the message is one line."""


class Estimator(ABC):
    """Ranks kernels for one arch. `backend` is the target on which a shortlist is measured."""

    arch: str
    backend: str

    @abstractmethod
    def lacking(self, task: Task) -> str:
        """Return one line on why this machine can't estimate the task's kernels, or ""."""

    @abstractmethod
    async def compiled(self, task: Task, reference: str, kernel: str, case: Case | None) -> Any:
        """Compile what a call of the kernel launches with the sizes of a case.

        Raises one of `asking.NO_ANSWER`.
        """

    @abstractmethod
    def estimate(self, compiled: Any, file: str) -> Estimate:
        """Return the estimate of a call. Raises `Refused`; `file` is the name of the kernel's."""


class TritonEstimator(Estimator):
    """Estimates a Triton kernel from its compile report; base of the estimators of all arches."""

    def __init__(self, arch: str) -> None:
        self.arch = arch

    @abstractmethod
    def model(self, report: CompileReport) -> Estimate:
        """Return the estimate of a report whose launches are all compiled and can run."""

    def lacking(self, task: Task) -> str:
        """Return that the DSL is not Triton, or that Triton is not installed."""
        if task.target.dsl != "triton":
            return f"kernels in {task.target.dsl} are not compiled for {self.arch}: only Triton's"
        return DSLS["triton"].lacking(self.backend)

    async def compiled(
        self, task: Task, reference: str, kernel: str, case: Case | None
    ) -> CompileReport:
        """Compile and count the launches of a call."""
        return await asking.compile_report(task, reference, kernel, [self.arch], case=case)

    def estimate(self, compiled: CompileReport, file: str) -> Estimate:
        """Refuse a report that leaves something out, because what is left out costs nothing."""
        if compiled.stopped:
            raise Refused(f"the call stopped when it was compiled: {compiled.stopped}")
        if compiled.left_out:
            different = MOST_LAUNCHES + compiled.left_out
            raise Refused(
                f"{different} different launches: at most {MOST_LAUNCHES} are compiled, "
                "so there is no estimate"
            )
        made = [launch for launch in compiled.launches if launch.launches]
        if not made:
            raise Refused("forward launches no Triton kernel, so there is nothing to estimate")
        for launch in made:
            if why := refusal(launch, self.arch, LineNames(file, compiled.files)):
                raise Refused(f"{self.arch}: {launch.kernel}: {why}")
        return self.model(compiled)


class GpuEstimator(TritonEstimator):
    """GPUs of NVIDIA and AMD, by `gpu_model`."""

    backend = "cuda"

    def model(self, report: CompileReport) -> Estimate:
        """Return the estimate of a GPU's compile report."""
        return gpu_model.estimate(report, self.arch)


class AscendEstimator(TritonEstimator):
    """Ascend's NPUs, by the pipe model. PyTorch's operators beside the launches cost nothing."""

    backend = "ascend"

    def lacking(self, task: Task) -> str:
        """Return what is missing, also of the toolchain, or that it does not know the arch."""
        if why := super().lacking(task) or toolchains.missing("ascend"):
            return why
        known = toolchains.ascend_arches()
        if self.arch in known:
            return ""
        return f"the toolchain ascend does not compile for {self.arch}, only for {', '.join(known)}"

    def model(self, report: CompileReport) -> Estimate:
        """Return the sum over the launches; the longest of them says what binds."""
        total, longest, binds = 0.0, -1.0, "launching"
        for launch in report.launches:
            for compiled in launch.compiled if launch.launches else ():
                found = estimate_of(launch, compiled)
                if found is None or not math.isfinite(found.us):
                    why = found.problem if found is not None else "its program cannot be read"
                    raise Refused(f"{self.arch}: {launch.kernel} has no estimate: {why}")
                spent = found.us * launch.launches
                total += spent
                if spent > longest:
                    longest, binds = spent, found.binds
        # The figures after the colon stand in the compile report too.
        return Estimate(self.arch, round(total, 4), one_line(binds.partition(":")[0], 60))


def over_cases(found: Sequence[tuple[Case, Estimate]]) -> Estimate:
    """Return the estimate of a task from those of its cases."""
    whole = math.fsum(case.weight for case, _ in found)
    # An estimate of nothing is no time to rank by, and has no logarithm.
    logs = [case.weight / whole * math.log(max(each.us, 1e-4)) for case, each in found]
    longest = max((each for _, each in found), key=lambda each: each.us)
    cases = tuple(CaseEstimate(case.name, each.us, each.binds) for case, each in found)
    return replace(longest, us=round(math.exp(math.fsum(logs)), 4), cases=cases)


ESTIMATORS: Mapping[str, Estimator] = {arch: GpuEstimator(arch) for arch in gpu_model.RATES}


class UnknownArch(ValueError):
    """There is no estimator for the arch; the message has those that exist."""


def estimator_for(arch: str) -> Estimator:
    """Return the estimator for an arch. Raises `UnknownArch`."""
    if (found := ESTIMATORS.get(arch)) is not None:
        return found
    if is_ascend(arch):
        return AscendEstimator(arch)
    names = ", ".join((*ESTIMATORS, "Ascend910B1", "…"))
    raise UnknownArch(f"there is no estimator for {arch!r}; there are: {names}")
