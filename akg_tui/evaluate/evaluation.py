"""One evaluation from beginning to end (build, verify, time), and one evaluation after another.

Owns the order of the stages, and turns every outcome of a stage into a Measurement. Each stage has
separate processes, and inputs that no candidate can have seen.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from msgspec.structs import replace

from akg_tui.core.kernel.kernel_files import KernelFiles, Place
from akg_tui.core.measurement import (
    NOT_VERIFIED,
    FailureKind,
    Interval,
    Measurement,
    Outcome,
    Progress,
    RaceOutcome,
)
from akg_tui.core.sanitize import strip_to_line
from akg_tui.dsl import kernel_text, torch_headers
from akg_tui.evaluate.cases import JudgedCase, judged_cases
from akg_tui.evaluate.device_side import fault_of_device, side_of
from akg_tui.evaluate.processes.child_pool import ChildPool, EvaluationError
from akg_tui.evaluate.processes.draws import secret_random
from akg_tui.evaluate.processes.worker import ChildFailed, Zygote
from akg_tui.evaluate.protocol.engine_protocol import Begin, Evaluate
from akg_tui.evaluate.protocol.engine_protocol import Race as RaceRequest
from akg_tui.evaluate.race import Race
from akg_tui.evaluate.reference import metrics_in
from akg_tui.evaluate.reference_fault import FaultKind
from akg_tui.evaluate.sandbox.protections import Protection
from akg_tui.evaluate.targets.adapters import adapters
from akg_tui.evaluate.targets.cpu import judge_threads, processors
from akg_tui.evaluate.timing import SPARES, TimedCase, TimingResult, TimingStage
from akg_tui.evaluate.timing_samples import Decoys
from akg_tui.evaluate.verification import CallAllowance, Errors, Verification

NOT_OF_A_CANDIDATE = {FailureKind.REFERENCE, FailureKind.JUDGE}
"""Kinds of failure that a candidate's process can't have, although it may claim them."""

STAGE_WORDS = {
    "reference": "the reference",
    "build": "the build",
    "verify": "verification",
    "time": "timing",
    "confirm": "timing",
}
"""The stages, as a reason names them."""

MAY_HARM_A_DEVICE = {FailureKind.CALL, FailureKind.CRASH, FailureKind.TIMEOUT}
"""Kinds of failure after which it is tried whether a device still works."""


class Evaluations:
    """All evaluations of one judge, with the cases, children and inputs that they share."""

    def __init__(
        self, begin: Begin, scratch: Path, zygote: Zygote, offered: tuple[Protection, ...]
    ) -> None:
        device, threads = adapters(begin.task)[0].device, begin.task.timing.threads
        torch.set_num_threads(judge_threads(device, threads))
        self.pool = ChildPool(begin.task, scratch, zygote, offered, begin.lease)
        self.cases = judged_cases(self.pool, begin.reference)
        self._spares = 0
        self._current: Evaluation | None = None
        self._failed: KernelFiles | None = None
        """The candidate of the last evaluation, if it failed."""
        self._ahead: tuple[KernelFiles, ...] = ()
        """The kernels that follow the last one."""

    def prepare(self) -> None:
        """Prefetch the children and inputs of the next evaluation; can be interrupted anywhere."""
        # A reference that fails here fails again in the evaluation, which reports it.
        with contextlib.suppress(EvaluationError):
            try:
                for case in self.cases:
                    case.prefetched.fill()
            finally:
                for case in self.cases:
                    case.reference.close()
            self.pool.fork_spares(self._spares)

    def run(
        self, request: Evaluate, report: Callable[[Progress], None], started: float
    ) -> Measurement:
        """Run one evaluation; return its measurement, failed or not."""
        self.pool.lease.yields = request.yields
        follows = request.kernel in self._ahead
        self._ahead = request.ahead
        told = self._told(report)
        self._current = evaluation = Evaluation(self, request, told, started, follows)
        # One to build in, one to compare in, and those that are timed.
        self._spares = 2 + (SPARES if evaluation.timed else 0)
        found = evaluation.run()
        self._failed = request.kernel if found.outcome is Outcome.FAILED else None
        return found

    def given_up(self, seconds: float) -> Measurement:
        """Return what this evaluation found in the seconds after which it was given up."""
        if self._current is not None:
            return self._current.given_up(seconds)
        return Measurement(
            outcome=Outcome.FAILED,
            failure=FailureKind.TIMEOUT,
            message=f"given up after {seconds:g} s",
            threads=self.pool.task.timing.threads,
            elapsed_s=seconds,
        )

    def race(self, request: RaceRequest, report: Callable[[Progress], None]) -> RaceOutcome:
        """Time verified kernels in turns."""
        self.pool.lease.yields = False
        tell = self._told(report)
        tell(Progress(stage="reference", message=request.label))
        rng = secret_random()
        race = Race(self.pool, self.cases, request.kernels, request.within_s, rng, tell)
        try:
            for case in self.cases:
                case.reference.examine()
            return race.run()
        except (ChildFailed, EvaluationError) as failed:
            return RaceOutcome(message=strip_to_line(failed.message))

    def _told(self, report: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """Return `report` such that a wait for the lease is told beside the last progress."""
        last, lease = Progress(stage="start"), self.pool.lease
        before_s = lease.waited_s

        def tell(progress: Progress, who: str = "") -> None:
            nonlocal last
            last = progress
            report(replace(progress, waits_for=who, waited_s=lease.waited_s - before_s))

        lease.tell = lambda who: tell(last, who)
        return tell

    def clean_up(self, *, keep: bool) -> None:
        """Wait until no process is left that has seen a kernel; then remove builds nobody needs.

        With `keep`, children without a kernel wait for the next evaluation, and used memory is
        freed later, while the judge is idle.
        """
        self._current = None
        for case in self.cases:
            case.reference.close()
        if keep:
            self.pool.await_gone()
        else:
            for case in self.cases:
                case.prefetched.end_idle()
                case.prefetched.free_used()
            self.pool.clear()
        self.pool.caches.tidy(self._failed.sha256 if self._failed else None)
        self._failed = None
        # What was removed must be built again before it is timed as an incumbent.
        for case in self.cases:
            for kernel in list(case.call_s):
                if kernel is not None and not self.pool.caches.holds(kernel.sha256):
                    del case.call_s[kernel]


@dataclass
class Evaluation:
    """Evaluates one candidate against an incumbent, or against the reference."""

    shared: Evaluations
    request: Evaluate
    report: Callable[[Progress], None]
    started: float
    follows: bool
    """Whether it is one of the kernels `ahead` of the last evaluation."""

    def __post_init__(self) -> None:
        self._pool = self.shared.pool
        self._task = self._pool.task
        self._target, self._dsl = adapters(self._task)
        self._untimed = self._dsl.untimed(self._target.name)
        self.timed = self.request.timed and not self._untimed
        """Whether a verified candidate is timed."""
        self._kernel = self.request.kernel
        self._rng = secret_random()
        self._waited_before_s = self._pool.lease.waited_s
        # The measured values so far; a failure reports them too.
        self._build_s = 0.0
        self._sandbox: tuple[str, ...] = ()
        self._sandbox_missing: tuple[str, ...] = ()
        self._errors = Errors()
        self._allowance = CallAllowance(self._task.timing.verify_timeout_s)
        self._metrics: list[dict[str, float | None]] = []
        """The numbers of the task's metrics, for each ordinary input of each case."""
        self._timing = TimingResult()
        self._verifications: list[Verification] = []
        """Those of the cases that are verified."""
        self._at, self._inputs = "reference", 0
        """The stage under way, and the inputs that were found right, of all cases."""
        self._inputs_before = 0

    def run(self) -> Measurement:
        """Run all stages; return the measurement, failed or not."""
        try:
            self._stage("reference")
            self._pool.fork_spares(1)
            for case in self.shared.cases:
                with case.named():
                    case.reference.examine()
            self._precompile_headers()
            self._build_ahead()
            with contextlib.ExitStack() as kept:
                # They report to this object: in a circle their inputs' memory would not be freed.
                kept.callback(self._verifications.clear)
                verified = [self._verify(case, kept) for case in self.shared.cases]
                if self.timed:
                    self._time(verified)
                    if self._timing.confirmation and self._timing.confirmation.agrees:
                        self._complete()
        except ChildFailed as failed:
            return self._failed(failed)
        except EvaluationError as broken:
            return self._measurement(Outcome.ERROR, broken.kind, broken.message, broken.detail)
        told = ("" if self.request.verified else NOT_VERIFIED, self._untimed)
        return self._measurement(Outcome.CORRECT, message="; ".join(filter(None, told)))

    def given_up(self, seconds: float) -> Measurement:
        """Return what is known after an end in the middle: of a verified kernel, that it is right.

        The message tells the stages that were reached.
        """
        build_s = 0.0 if self._at == "build" else self._build_s
        told = stages_reached(self._at, build_s, self._inputs, self._timing, seconds)
        if self._at in ("time", "confirm") and self.request.verified:
            return self._measurement(Outcome.CORRECT, message=told)
        return self._measurement(Outcome.FAILED, FailureKind.TIMEOUT, told)

    def _precompile_headers(self) -> None:
        """Precompile torch's headers for the builds that follow, at no kernel's cost."""
        headers = self._pool.headers
        told = Progress(stage="build", message=torch_headers.TOLD)
        for kernel in filter(None, (self._kernel, self.request.incumbent)):
            for flags in headers.missing(kernel.page):
                headers.precompile(flags, lambda: self.report(told))

    def _build_ahead(self) -> None:
        """Build the kernel and those that come next, as many at once as there are CPUs.

        Their own evaluations find them built. A failure here comes again there, where it is told.
        """
        caches, ahead = self._pool.caches, self.request.ahead
        if not ahead or caches.holds(self._kernel.sha256):
            return
        kernels = [each for each in (self._kernel, *ahead) if not caches.holds(each.sha256)]
        at_once = len(processors())
        for first in range(0, len(kernels), at_once):
            self._stage("build")
            self._load_at_once(kernels[first : first + at_once])

    def _load_at_once(self, kernels: Sequence[KernelFiles]) -> None:
        """Load kernels, each in a process of its own, which builds them."""
        reference = self.shared.cases[0].reference
        with contextlib.ExitStack() as kept:
            sides = [
                kept.enter_context(
                    contextlib.closing(
                        side_of(self._pool, "candidate", reference.kernel_plan(each))
                    )
                )
                for each in kernels
            ]
            children = kept.enter_context(self._pool.children(kernels, builds=True))
            for side, worker in zip(sides, children, strict=True):
                with contextlib.suppress(ChildFailed):
                    side.send_plan(worker, reference.state)
            for worker in children:
                with contextlib.suppress(ChildFailed):
                    self._pool.await_load(worker)

    def _verify(self, case: JudgedCase, kept: contextlib.ExitStack) -> TimedCase:
        """Verify the candidate in one case; `kept` closes the inputs, which timing needs again."""
        self._errors.begin_case(case.name)
        with case.named():
            # The stage goes on: a bar that went back to the first case would tell of lost work.
            self._stage("verify" if self._verifications else "build")
            verification = self._build(case)
            if self.timed:
                # Forked on another CPU while the candidate computes.
                self._pool.fork_spares(1 + SPARES)
            if not self.request.verified:
                call_s = verification.seconds_of_call()
                self._check_load(verification.load_s)
                self._verifications.append(verification)
                return TimedCase(case, (), call_s)
            self._stage("verify")
            more = bool(self.request.ahead)
            drawn = case.prefetched.verification_inputs(
                again=self.follows, kept=more, whole=self.request.whole
            )
            if not more:
                kept.callback(drawn.close)
            call_s = verification.verify(drawn)
            if verification.outputs is not None:
                with contextlib.closing(verification.outputs) as outputs:
                    of_case = drawn.ordinary.draw
                    self._metrics += case.reference.metrics(of_case, outputs, self._kernel)
            if self.timed:
                self._check_load(verification.load_s)
            self._verifications.append(verification)
            self._inputs_before = self._inputs
            decoys = Decoys(drawn.like_ordinary(), self._rng)
            return TimedCase(case, verification.held, call_s, decoys)

    def _complete(self) -> None:
        """Try the inputs that slow verifications put off, before a kernel is kept."""
        for case, verification in zip(self.shared.cases, self._verifications, strict=True):
            self._errors.begin_case(case.name)
            with case.named():
                verification.complete()

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
            brief=self.timed and not self.request.whole,
            compares=self.request.verified,
        )
        try:
            verification.build()
        finally:
            self._sandbox = verification.sandbox
            self._sandbox_missing = self._pool.sandbox_missing
            self._build_s += time.monotonic() - start
        return verification

    def _check_load(self, load_s: float) -> None:
        """Refuse a kernel that takes too long to load for the processes of a comparison."""
        # A busy machine delays it, however small the budget.
        limit_s = max(self._task.timing.budget_s, 1.0)
        if load_s > limit_s:
            why = (
                f"loading took {load_s:.1f} s, the limit is {limit_s:g} s (the timing budget), "
                "because a comparison loads the kernel many times: do less work at import"
            )
            raise ChildFailed(FailureKind.TIMEOUT, why)

    def _time(self, cases: list[TimedCase]) -> None:
        with self._pool.lease.held():
            levels = self._target.levels() if self.request.verified else []
        TimingStage(
            self._pool,
            cases,
            self._timing,
            request=self.request,
            levels=levels,
            report=self._stage,
            rng=self._rng,
        ).run()

    def _stage(
        self, name: str, done: int = 0, total: int = 0, ratio: Interval | None = None
    ) -> None:
        cases, verified = self.shared.cases, len(self._verifications)
        self._at = name
        if name == "verify":
            self._inputs = self._inputs_before + done
        verifies = name == "verify" and verified < len(cases)
        self.report(
            Progress(
                stage=name,
                done=done,
                total=total,
                message=self.request.label,
                ratio=ratio,
                noise=self._timing.noise,
                detectable=self._timing.detectable,
                case=cases[verified].name if verifies else "",
                cases_done=verified if verifies else 0,
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
        if failed.fault.kind is FaultKind.SEGFAULT:
            message = kernel_text.with_untyped_call(message, self._kernel.text)
        if self._target.device and kind in MAY_HARM_A_DEVICE:
            if why := fault_of_device(self._pool, self.shared.cases[0].reference):
                message = f"the device can't be used any more: {why} (after: {message})"
                return self._measurement(Outcome.ERROR, FailureKind.JUDGE, message, failed.detail)
            if kind is not FailureKind.CALL:
                message = f"{message} (the device serves other processes)"
        return self._measurement(Outcome.FAILED, kind, message, failed.detail, failed.fault.place)

    def _measurement(
        self,
        outcome: Outcome,
        failure: FailureKind | None = None,
        message: str = "",
        detail: str = "",
        place: Place | None = None,
    ) -> Measurement:
        errors, timed = self._errors, vars(self._timing)
        first = self.shared.cases[0].reference
        nearest = errors.nearest
        if outcome is not Outcome.CORRECT:
            timed = {name: timed[name] for name in ("noise", "clusters", "samples", "sampled_s")}
        threads = self._task.timing.threads
        of_cases = [each.reference for each in self.shared.cases]
        told = dict.fromkeys(each.note for each in of_cases if each.examined and each.note)
        environment = self._target.fingerprint(str(torch.__version__), threads)
        return Measurement(
            outcome=outcome,
            failure=failure,
            message=strip_to_line(message),
            place=place,
            detail=detail,
            max_error=nearest.error if nearest and nearest.error != float("inf") else None,
            tolerance=nearest.tolerance if nearest else None,
            tolerance_from=nearest.origin if nearest else "",
            errors=errors.by_name,
            notes=(*told, *errors.notes),
            contract=first.contract if first.examined else (),
            metrics=metrics_in(self._task.metrics, self._metrics)
            if outcome is Outcome.CORRECT and self.request.verified
            else (),
            build_s=self._build_s,
            elapsed_s=time.monotonic() - self.started,
            waited_s=self._pool.lease.waited_s - self._waited_before_s,
            threads=threads,
            sandbox=self._sandbox,
            sandbox_missing=self._sandbox_missing,
            environment=environment | self._dsl.versions(self._target.name),
            timed=not self._untimed,
            **timed,
        )


def stages_reached(
    stage: str, build_s: float, inputs: int, timing: TimingResult, seconds: float
) -> str:
    """Return in words what an evaluation reached that was given up in `stage`."""
    told = [f"built in {build_s:.0f} s"] if build_s else []
    if inputs:
        told.append(f"correct on {inputs} inputs")
    if timing.candidate_ms and timing.baseline_ms:
        ratio = timing.baseline_ms / timing.candidate_ms
        told.append(f"about {ratio:.3g}x by {timing.samples} calls")
    return ", ".join([*told, f"given up in {STAGE_WORDS[stage]} after {seconds:g} s"])
