"""The judge of an estimate run: verifies in Triton's interpreter, compiles, and ranks. Never times.

The verification is that of `Judge` in all its stages. The compiler's answer comes from a process
that ran the kernel, so an estimate can be forged: only a measurement decides what is faster.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from akg_tui.core.measurement import Estimate, FailureKind, Measurement, Outcome, Progress
from akg_tui.core.sanitize import strip_to_line
from akg_tui.core.task import Case, CompileBaseline, Task
from akg_tui.evaluate.estimate.estimator import Refused, estimator_for, over_cases
from akg_tui.evaluate.evidence.asking import NO_ANSWER
from akg_tui.evaluate.judge_client import Judge


class EstimatingJudge:
    """Evaluates kernels of a task for the arch `task.estimate`; implements `engine.Evaluator`."""

    def __init__(
        self,
        task: Task,
        reference: str,
        scratch: Path,
        *,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._task = task
        self._reference = reference
        self._on_progress = on_progress
        self._estimator = estimator_for(task.estimate)
        here = replace(task, target=replace(task.target, backend="cpu"))
        self._judge = Judge(here, reference, scratch, on_progress=on_progress)

    async def prepare(self) -> None:
        """Start the judge's process."""
        await self._judge.prepare()

    async def evaluate(
        self,
        kernel: str,
        incumbent: str | None = None,
        *,
        precise: float | None = None,
        prior: tuple[float, ...] = (),
    ) -> Measurement:
        """Verify a kernel and estimate it. Each estimate stands alone: `incumbent` is not used."""
        return await self._estimated(kernel)

    async def probe(
        self,
        kernel: str,
        incumbent: str | None = None,
        *,
        timed: bool,
        samples: int,
        warmups: int,
    ) -> Measurement:
        """Verify a kernel for information and, where times are wanted, estimate it."""
        if timed:
            return await self._estimated(kernel)
        return await self._judge.probe(kernel, timed=False)

    async def measure_compiled(self, baseline: CompileBaseline) -> Measurement:
        """Return an error: in an estimate run nothing is timed, torch.compile least of all."""
        why = "nothing is timed in an estimate run"
        return Measurement(outcome=Outcome.ERROR, failure=FailureKind.TOOLCHAIN, message=why)

    async def close(self) -> None:
        """End the judge's process and its children."""
        await self._judge.close()

    async def _estimated(self, kernel: str) -> Measurement:
        start = time.monotonic()
        found = await self._judge.probe(kernel, timed=False)
        if found.outcome is not Outcome.CORRECT:
            return found
        arch = self._estimator.arch
        self._on_progress(Progress(stage="build", message=f"compiling for {arch}"))
        task = self._task
        cases: list[tuple[Case, Estimate]] = []
        try:
            for case in task.cases:
                with _named(case):
                    cases.append((case, await self._of_case(kernel, case)))
            estimate = over_cases(cases) if cases else await self._of_case(kernel, None)
        except Refused as refused:
            found = replace(
                found,
                outcome=Outcome.FAILED,
                failure=FailureKind.BUILD,
                message=strip_to_line(str(refused)),
            )
        except NO_ANSWER as lost:
            why = strip_to_line(f"no compile report for {arch}: {lost}")
            found = replace(found, outcome=Outcome.ERROR, failure=FailureKind.JUDGE, message=why)
        else:
            found = replace(found, estimate=estimate, message="")
        took = time.monotonic() - start
        return replace(found, elapsed_s=took, timed=False)

    async def _of_case(self, kernel: str, case: Case | None) -> Estimate:
        compiled = await self._estimator.compiled(self._task, self._reference, kernel, case)
        return self._estimator.estimate(compiled, self._task.files.kernel)


@contextlib.contextmanager
def _named(case: Case) -> Iterator[None]:
    """Put the name of a case before the reason why it has no estimate."""
    try:
        yield
    except Refused as refused:
        raise Refused(f"case {case.name}: {refused}") from refused
