"""One evaluation from beginning to end (build, verify, time), and one evaluation after another.

Owns the order of the stages and turns every way they can end into a Measurement. Each stage has
processes of its own, and inputs that no candidate can have seen.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import torch

from akg_tui.core.measurement import FailureKind, Interval, Measurement, Outcome, Progress
from akg_tui.core.sanitize import strip_to_line
from akg_tui.evaluate.adapters import adapters
from akg_tui.evaluate.child.protocol import Plan
from akg_tui.evaluate.correctness import Bound
from akg_tui.evaluate.engine_protocol import Begin, Evaluate
from akg_tui.evaluate.prefetch import Prefetched
from akg_tui.evaluate.processes.child_pool import ChildPool, EvaluationError
from akg_tui.evaluate.processes.worker import ChildFailed, Zygote
from akg_tui.evaluate.reference import Reference
from akg_tui.evaluate.sandbox.protections import Protection
from akg_tui.evaluate.timing import SPARES, KernelPair, TimingResult, TimingStage
from akg_tui.evaluate.timing_samples import Memory
from akg_tui.evaluate.verification import Errors, Verification

VERIFICATION_SPARES = 2
"""Children that verification needs: one to build in, one to compare in."""

RESERVED = 2
"""Clusters whose children are confined while the candidate is verified. Fewer decide nothing, and
more are often not needed: a much slower candidate is given up after two."""

READY_SPARES = VERIFICATION_SPARES + SPARES
"""The fewest children that an evaluation needs if all inputs were prefetched."""


class Evaluations:
    """All evaluations of one judge, with the reference, children and inputs that they share."""

    def __init__(
        self, begin: Begin, scratch: Path, zygote: Zygote, offered: tuple[Protection, ...]
    ) -> None:
        # A second thread of the judge would keep spinning beside the kernel being timed.
        torch.set_num_threads(1)
        self._pool = ChildPool(begin.task, scratch, zygote, offered)
        self._reference = Reference(self._pool, begin.reference, begin.task.files.reference)
        self._prefetched = Prefetched(self._pool, self._reference)
        self._memory = Memory()
        self._spares = 0

    def prepare(self) -> None:
        """Prefetch what the next evaluation needs; can be interrupted at any point."""
        # A reference that fails here fails again in the evaluation, which reports it.
        self._pool.release_reserved()
        with contextlib.suppress(EvaluationError):
            self._prefetched.fill(self._spares)

    def run(
        self, request: Evaluate, report: Callable[[Progress], None], started: float
    ) -> Measurement:
        """Return what one evaluation found, however it ended."""
        evaluation = Evaluation(
            self._pool,
            self._reference,
            self._prefetched,
            request,
            memory=self._memory,
            report=report,
            started=started,
        )
        self._pool.release_reserved()
        self._spares = READY_SPARES if evaluation.timed else VERIFICATION_SPARES
        return evaluation.run()

    def fork_next(self) -> None:
        """Fork a child for the next kernel, while the children that have seen one end."""
        self._pool.fork_spares(1)

    def clean_up(self, *, keep: bool) -> None:
        """Return when no process is left that has seen a kernel.

        With `keep`, children that have seen none wait for the next evaluation, and used memory is
        freed later, while the judge is idle.
        """
        if keep:
            self._pool.await_gone()
        else:
            self._pool.clear()
            self._prefetched.free_used()


@dataclass
class PartialResult:
    """What an evaluation has found so far; a failure reports it too."""

    started: float
    build_s: float = 0.0
    sandbox: tuple[str, ...] = ()
    sandbox_missing: tuple[str, ...] = ()
    errors: Errors = field(default_factory=Errors)
    timed: TimingResult = field(default_factory=TimingResult)
    held: list[Bound] = field(default_factory=list)


@dataclass
class Evaluation:
    """Evaluates one candidate against an incumbent, or against the reference."""

    pool: ChildPool
    reference: Reference
    prefetched: Prefetched
    request: Evaluate
    _: KW_ONLY
    memory: Memory
    report: Callable[[Progress], None]
    started: float

    def __post_init__(self) -> None:
        self._task = self.pool.task
        self._target, self._dsl = adapters(self._task)
        self._untimed = self._dsl.untimed(self._target.name)
        self.timed = self.request.timed and not self._untimed
        """Whether it has a timing stage, if the candidate gets so far."""
        self._kernel = self.request.kernel
        self._rng = random.Random(secrets.randbits(64))
        self._found = PartialResult(self.started)

    def run(self) -> Measurement:
        """Return what was found, however it ended."""
        try:
            self._stage("reference")
            self.pool.fork_spares(1)
            self.reference.examine()
            self.pool.reserve([self._kernel], builds=True)
            verification = self._build()
            if self.timed:
                # Forked on another CPU while the candidate computes.
                self.pool.fork_spares(SPARES)
            call_s = self._verify(verification)
            if self.timed:
                self._time(call_s)
        except ChildFailed as failed:
            return self._failed(failed)
        except EvaluationError as broken:
            return self._measurement(Outcome.ERROR, broken.kind, broken.message, broken.detail)
        return self._measurement(Outcome.CORRECT, message=self._untimed)

    def _build(self) -> Verification:
        """Load the candidate and call it once, giving a compiler the time it needs."""
        self._stage("build")
        start = time.monotonic()
        verification = Verification(
            self.pool,
            self.reference,
            self._plan(),
            self._found.errors,
            self._stage,
            meanwhile=self._reserve,
            warmups=self.request.warmups,
        )
        try:
            verification.build(meanwhile=self._reserve_verifier)
        finally:
            self._found.sandbox = verification.sandbox
            self._found.sandbox_missing = self.pool.sandbox_missing
            self._found.build_s = time.monotonic() - start
        return verification

    def _reserve_verifier(self) -> None:
        """Confine a child to verify in: not earlier, because many kernels can't be loaded."""
        self.pool.fork_spares(1)
        self.pool.reserve([self._kernel])

    def _reserve(self) -> None:
        """Confine waiting spares for the timing."""
        if not self.timed:
            return
        wanted = []
        incumbent = self.request.incumbent
        pair = [self._kernel, self.reference.source if incumbent is None else incumbent]
        for _ in range(RESERVED):
            self._rng.shuffle(pair)
            wanted += pair
        self.pool.reserve(wanted)

    def _verify(self, verification: Verification) -> float:
        """Compare the candidate on fresh inputs; return about how long one call takes."""
        self._stage("verify", 0, self._task.correctness.trials)
        with contextlib.closing(self.prefetched.verification_inputs()) as drawn:
            call_s = verification.verify(drawn)
        self._found.held = verification.held
        return call_s

    def _time(self, candidate_s: float) -> None:
        def report(stage: str, done: int, total: int, ratio: Interval | None) -> None:
            self._stage(stage, done, total, ratio)

        kernels = KernelPair(self._kernel, self.request.incumbent, self._found.held, candidate_s)
        TimingStage(
            self.pool,
            self.reference,
            self.prefetched,
            kernels,
            self._found.timed,
            levels=self._target.levels(),
            report=report,
            precise=self.request.precise,
            samples=self.request.samples,
            rng=self._rng,
            memory=self.memory,
        ).run()

    def _plan(self) -> Plan:
        return self.reference.kernel_plan(self._kernel, self._task.files.editable, 1)

    def _stage(
        self, name: str, done: int = 0, total: int = 0, ratio: Interval | None = None
    ) -> None:
        self.report(
            Progress(stage=name, done=done, total=total, message=self.request.label, ratio=ratio)
        )

    def _failed(self, failed: ChildFailed) -> Measurement:
        # A kernel could claim that a compiler is missing, so this is checked here.
        if failed.kind is FailureKind.TOOLCHAIN and self._dsl.toolchain_lacking():
            return self._measurement(
                Outcome.ERROR, FailureKind.TOOLCHAIN, failed.message, failed.detail
            )
        kind = FailureKind.BUILD if failed.kind is FailureKind.TOOLCHAIN else failed.kind
        if kind not in CANDIDATE_FAILURES:
            kind = FailureKind.CALL
        return self._measurement(Outcome.FAILED, kind, failed.message, failed.detail)

    def _measurement(
        self,
        outcome: Outcome,
        failure: FailureKind | None = None,
        message: str = "",
        detail: str = "",
    ) -> Measurement:
        found, timed, errors = self._found, self._found.timed, self._found.errors
        correct = outcome is Outcome.CORRECT
        return Measurement(
            outcome=outcome,
            failure=failure,
            message=strip_to_line(message),
            detail=detail,
            max_error=errors.worst if errors.worst != float("inf") else None,
            tolerance=errors.tolerance,
            errors=errors.by_name,
            candidate_ms=timed.candidate_ms if correct else None,
            baseline_ms=timed.baseline_ms if correct else None,
            ratio=timed.ratio if correct else None,
            confirmation=timed.confirmation if correct else None,
            deviation=timed.deviation if correct else None,
            detectable=timed.detectable if correct else None,
            roofline=timed.roofline if correct else None,
            noise=timed.noise,
            clusters=timed.clusters,
            samples=timed.samples,
            sampled_s=timed.sampled_s,
            build_s=found.build_s,
            elapsed_s=time.monotonic() - found.started,
            threads=self._task.timing.threads,
            sandbox=found.sandbox,
            sandbox_missing=found.sandbox_missing,
            environment=self._environment(),
            timed=not self._untimed,
        )

    def _environment(self) -> dict[str, str]:
        threads = self._task.timing.threads
        described = self._target.fingerprint(str(torch.__version__), threads)
        return described | self._dsl.versions(self._target.name)


CANDIDATE_FAILURES = frozenset(
    {
        FailureKind.SYNTAX,
        FailureKind.BUILD,
        FailureKind.CALL,
        FailureKind.CRASH,
        FailureKind.TIMEOUT,
        FailureKind.WRONG,
        FailureKind.IMPOSSIBLE,
    }
)
