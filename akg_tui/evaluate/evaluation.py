"""One evaluation from beginning to end (build, verify, time), and one evaluation after another.

Owns the order of the stages, and turns every outcome of a stage into a Measurement. Each stage has
separate processes, and inputs that no candidate can have seen.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from akg_tui.core.measurement import FailureKind, Interval, Measurement, Outcome, Progress
from akg_tui.core.sanitize import strip_to_line
from akg_tui.evaluate import kernel_text
from akg_tui.evaluate.cases import JudgedCase, judged_cases
from akg_tui.evaluate.device.device_side import fault_of_device
from akg_tui.evaluate.dsls import torch_headers
from akg_tui.evaluate.engine_protocol import Begin, Evaluate
from akg_tui.evaluate.processes.child_pool import ChildPool, EvaluationError
from akg_tui.evaluate.processes.worker import ChildFailed, Zygote
from akg_tui.evaluate.reference import metrics_in
from akg_tui.evaluate.sandbox.protections import Protection
from akg_tui.evaluate.targets import lease
from akg_tui.evaluate.targets.adapters import adapters
from akg_tui.evaluate.targets.cpu import judge_threads
from akg_tui.evaluate.timing import SPARES, TimedCase, TimingResult, TimingStage
from akg_tui.evaluate.timing_samples import Memory
from akg_tui.evaluate.verification import CallAllowance, Errors, Verification
from akg_tui.kernel_files import split_files

VERIFICATION_SPARES = 2
"""Children that verification needs: one to build in, one to compare in."""

RESERVED = 2
"""Clusters whose children are confined while the candidate is verified. Fewer decide nothing, and
more are often not needed: a much slower candidate is abandoned after two."""

LEAST_LOAD_LIMIT_S = 1.0
"""A kernel may take this long to load however small the timing budget: a busy machine delays it."""

NOT_OF_A_CANDIDATE = {FailureKind.GUARD, FailureKind.REFERENCE, FailureKind.JUDGE}
"""Kinds of failure that a candidate's process can't have, although it may claim them."""

MAY_HARM_A_DEVICE = {FailureKind.CALL, FailureKind.CRASH, FailureKind.TIMEOUT}
"""Kinds of failure after which it is tried whether a device still works."""

READY_SPARES = VERIFICATION_SPARES + SPARES
"""The fewest children that an evaluation needs if all inputs were prefetched."""


class Evaluations:
    """All evaluations of one judge, with the cases, children and inputs that they share."""

    def __init__(
        self, begin: Begin, scratch: Path, zygote: Zygote, offered: tuple[Protection, ...]
    ) -> None:
        device, threads = adapters(begin.task)[0].device, begin.task.timing.threads
        torch.set_num_threads(judge_threads(device, threads))
        self.pool = ChildPool(begin.task, scratch, zygote, offered)
        self.cases = judged_cases(self.pool, begin.reference)
        self.memory = Memory()
        self.lease = begin.lease
        self._spares = 0
        self._failed: str | None = None
        """The candidate of the last evaluation, if it failed."""

    def prepare(self) -> None:
        """Prefetch the children and inputs of the next evaluation; can be interrupted anywhere."""
        # A reference that fails here fails again in the evaluation, which reports it.
        self.pool.release_reserved()
        with contextlib.suppress(EvaluationError):
            for case in self.cases:
                case.prefetched.fill()
            self.pool.fork_spares_singly(self._spares)

    def run(
        self, request: Evaluate, report: Callable[[Progress], None], started: float
    ) -> Measurement:
        """Run one evaluation; return its measurement, failed or not."""
        evaluation = Evaluation(self, request, report, started)
        self.pool.release_reserved()
        self._spares = READY_SPARES if evaluation.timed else VERIFICATION_SPARES
        found = evaluation.run()
        self._failed = request.kernel if found.outcome is Outcome.FAILED else None
        return found

    def clean_up(self, *, keep: bool) -> None:
        """Wait until no process is left that has seen a kernel; then remove builds nobody needs.

        With `keep`, children without a kernel wait for the next evaluation, and used memory is
        freed later, while the judge is idle.
        """
        if self._failed is not None:
            self.pool.release_reserved()
        if keep:
            self.pool.await_gone()
        else:
            self.pool.clear()
            for case in self.cases:
                case.prefetched.free_used()
        self.pool.tidy_caches(self._failed)
        self._failed = None
        # What was removed must be built again before it is timed as an incumbent.
        for known in list(self.memory.call_s):
            _, source = known
            if source is not None and not self.pool.holds_build(source):
                del self.memory.call_s[known]


@dataclass
class Evaluation:
    """Evaluates one candidate against an incumbent, or against the reference."""

    shared: Evaluations
    request: Evaluate
    report: Callable[[Progress], None]
    started: float

    def __post_init__(self) -> None:
        self._pool = self.shared.pool
        self._task = self._pool.task
        self._target, self._dsl = adapters(self._task)
        self._untimed = self._dsl.untimed(self._target.name)
        self.timed = self.request.timed and not self._untimed
        """Whether a verified candidate is timed."""
        self._kernel = self.request.kernel
        self._rng = random.Random(secrets.randbits(64))
        # The measured values so far; a failure reports them too.
        self._build_s = 0.0
        self._sandbox: tuple[str, ...] = ()
        self._sandbox_missing: tuple[str, ...] = ()
        self._errors = Errors()
        self._allowance = CallAllowance(self._task.timing.verify_timeout_s)
        self._metrics: list[dict[str, float | None]] = []
        """The numbers of the task's metrics, for each ordinary input of each case."""
        self._timing = TimingResult()
        self._verified = 0
        """The cases that are verified."""

    def run(self) -> Measurement:
        """Run all stages; return the measurement, failed or not."""
        try:
            self._stage("reference")
            self._pool.fork_spares(1)
            for case in self.shared.cases:
                with case.named():
                    case.reference.examine()
            self._precompile_headers()
            self._pool.reserve([self._kernel], builds=True)
            with contextlib.ExitStack() as kept:
                verified = [self._verify(case, kept) for case in self.shared.cases]
                if self.timed:
                    with lease.held(self.shared.lease, self._pool.wait, self._tell):
                        self._time(verified)
        except ChildFailed as failed:
            return self._failed(failed)
        except EvaluationError as broken:
            return self._measurement(Outcome.ERROR, broken.kind, broken.message, broken.detail)
        return self._measurement(Outcome.CORRECT, message=self._untimed)

    def _precompile_headers(self) -> None:
        """Precompile torch's headers for the builds that follow, at no kernel's cost."""
        headers = self._pool.headers
        told = Progress(stage="build", message=torch_headers.TOLD)
        for source in filter(None, (self._kernel, self.request.incumbent)):
            for flags in headers.missing(source):
                headers.precompile(flags, lambda: self.report(told))

    def _verify(self, case: JudgedCase, kept: contextlib.ExitStack) -> TimedCase:
        """Verify the candidate in one case; `kept` closes the inputs, which timing needs again."""
        self._errors.begin_case(case.name)
        with case.named():
            # The stage goes on: a bar that went back to the first case would tell of lost work.
            self._stage("verify" if self._verified else "build")
            verification = self._build(case)
            last = case is self.shared.cases[-1]
            if self.timed and last:
                # Forked on another CPU while the candidate computes.
                self._pool.fork_spares(SPARES)
            self._stage("verify")
            drawn = case.prefetched.verification_inputs()
            kept.callback(drawn.close)
            call_s = verification.verify(drawn, meanwhile=self._reserve if last else _nothing)
            if verification.outputs is not None:
                with contextlib.closing(verification.outputs) as outputs:
                    of_case = drawn.ordinary.draw
                    self._metrics += case.reference.metrics(of_case, outputs, self._kernel)
            if self.timed:
                self._check_load(verification.load_s)
            self._verified += 1
            return TimedCase(case, verification.held, call_s, drawn.like_ordinary())

    def _build(self, case: JudgedCase) -> Verification:
        """Load the candidate and call it once, with extra time for a compiler."""
        start = time.monotonic()
        verification = Verification(
            self._pool,
            case.reference,
            case.reference.kernel_plan(self._kernel),
            self._errors,
            self._stage,
            warmups=self.request.warmups,
            allowance=self._allowance,
        )
        try:
            verification.build(meanwhile=self._reserve_verifier)
        finally:
            self._sandbox = verification.sandbox
            self._sandbox_missing = self._pool.sandbox_missing
            self._build_s += time.monotonic() - start
        return verification

    def _check_load(self, load_s: float) -> None:
        """Refuse a kernel that takes too long to load for the processes of a comparison."""
        limit_s = max(self._task.timing.budget_s, LEAST_LOAD_LIMIT_S)
        if load_s > limit_s:
            why = (
                f"loading took {load_s:.1f} s, the limit is {limit_s:g} s (the timing budget), "
                "because a comparison loads the kernel many times: do less work at import"
            )
            raise ChildFailed(FailureKind.TIMEOUT, why)

    def _reserve_verifier(self) -> None:
        """Confine a child for verification: after the build, because many kernels fail to load."""
        self._pool.fork_spares(1)
        self._pool.reserve([self._kernel])

    def _reserve(self) -> None:
        """Confine waiting spares for the timing stage."""
        if not self.timed:
            return
        wanted = []
        incumbent, first = self.request.incumbent, self.shared.cases[0]
        pair = [self._kernel, first.reference.source if incumbent is None else incumbent]
        for _ in range(RESERVED):
            self._rng.shuffle(pair)
            wanted += pair
        # An idle process on a device has access to its caches, as a child that builds.
        self._pool.reserve([""] * len(self.shared.cases), builds=bool(self._target.device))
        self._pool.reserve(wanted)

    def _time(self, cases: list[TimedCase]) -> None:
        TimingStage(
            self._pool,
            cases,
            self._timing,
            kernel=self._kernel,
            incumbent=self.request.incumbent,
            levels=self._target.levels(),
            report=self._stage,
            precise=self.request.precise,
            within_s=self.request.within_s,
            samples=self.request.samples,
            rng=self._rng,
            memory=self.shared.memory,
            prior=self.request.prior,
        ).run()

    def _tell(self, what: str) -> None:
        self.report(Progress(stage="time", message=what))

    def _stage(
        self, name: str, done: int = 0, total: int = 0, ratio: Interval | None = None
    ) -> None:
        cases = self.shared.cases
        verifies = name == "verify" and self._verified < len(cases)
        self.report(
            Progress(
                stage=name,
                done=done,
                total=total,
                message=self.request.label,
                ratio=ratio,
                noise=self._timing.noise,
                detectable=self._timing.detectable,
                case=cases[self._verified].name if verifies else "",
                cases_done=self._verified if verifies else 0,
                cases=len(cases) if verifies else 1,
            )
        )

    def _failed(self, failed: ChildFailed) -> Measurement:
        # A kernel could claim that a compiler is missing, so this is checked here.
        if failed.kind is FailureKind.TOOLCHAIN and self._dsl.toolchain_lacking():
            return self._measurement(
                Outcome.ERROR, FailureKind.TOOLCHAIN, failed.message, failed.detail
            )
        kind = FailureKind.BUILD if failed.kind is FailureKind.TOOLCHAIN else failed.kind
        if kind in NOT_OF_A_CANDIDATE:
            kind = FailureKind.CALL
        message = failed.message
        if kind is FailureKind.CRASH and "SIGSEGV" in message:
            names = self._task.files.names
            first = split_files(names, self._kernel)[names[0]]
            message = kernel_text.with_untyped_call(message, first)
        if self._target.device and kind in MAY_HARM_A_DEVICE:
            if why := fault_of_device(self._pool, self.shared.cases[0].reference):
                message = f"the device can't be used any more: {why} (after: {message})"
                return self._measurement(Outcome.ERROR, FailureKind.JUDGE, message, failed.detail)
            if kind is not FailureKind.CALL:
                message = f"{message} (the device serves other processes)"
        return self._measurement(Outcome.FAILED, kind, message, failed.detail)

    def _measurement(
        self,
        outcome: Outcome,
        failure: FailureKind | None = None,
        message: str = "",
        detail: str = "",
    ) -> Measurement:
        errors, timed = self._errors, vars(self._timing)
        if outcome is not Outcome.CORRECT:
            timed = {name: timed[name] for name in ("noise", "clusters", "samples", "sampled_s")}
        threads = self._task.timing.threads
        environment = self._target.fingerprint(str(torch.__version__), threads)
        return Measurement(
            outcome=outcome,
            failure=failure,
            message=strip_to_line(message),
            detail=detail,
            max_error=errors.worst if errors.worst != float("inf") else None,
            tolerance=errors.tolerance,
            tolerance_from=errors.origin,
            errors=errors.by_name,
            metrics=metrics_in(self._task.metrics, self._metrics)
            if outcome is Outcome.CORRECT
            else (),
            build_s=self._build_s,
            elapsed_s=time.monotonic() - self.started,
            threads=threads,
            sandbox=self._sandbox,
            sandbox_missing=self._sandbox_missing,
            environment=environment | self._dsl.versions(self._target.name),
            timed=not self._untimed,
            **timed,
        )


def _nothing() -> None:
    return
