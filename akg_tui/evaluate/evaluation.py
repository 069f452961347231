"""One evaluation from beginning to end (build, verify, time, conclude), and one after another.

Owns the order of the stages and turns every way they can end into a Measurement. Each stage
has processes of its own, and inputs drawn only after the candidate's text was fixed.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
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
"""Clusters whose children settle while the candidate is verified. Fewer decide nothing, and more
are often not needed: who is far slower is given up then."""

READY_SPARES = VERIFICATION_SPARES + SPARES
"""Children that an evaluation needs at least, if all that is drawn is there already."""


class Evaluations:
    """All evaluations of one judge, and what they have in common."""

    def __init__(
        self, begin: Begin, scratch: Path, zygote: Zygote, offered: tuple[Protection, ...]
    ) -> None:
        # A second thread of ours would keep spinning beside the kernel being timed.
        torch.set_num_threads(1)
        self._pool = ChildPool(begin.task, scratch, zygote, offered)
        self._reference = Reference(self._pool, begin.reference, begin.task.files.reference)
        self._prefetched = Prefetched(self._pool, self._reference)
        self._memory = Memory()
        self._spares = 0

    def prepare(self) -> None:
        """Make ready what the next evaluation will need; may be broken off at any point."""
        # A reference that fails now will fail then, and be told of it.
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
        """Have a child made for the next kernel, while those that have seen one are taken down."""
        self._pool.fork_spares(1)

    def clean_up(self, *, keep: bool) -> None:
        """Return when no process is left that has seen a kernel.

        With `keep`, those that have not seen one go on waiting for the next evaluation, and
        what takes its time to be put away waits for the idle time after this one.
        """
        if keep:
            self._pool.await_gone()
        else:
            self._pool.clear()
            self._prefetched.free_used()


@dataclass
class PartialResult:
    """What is known so far; a failure reports what was found before it."""

    started: float
    build_s: float = 0.0
    sandbox: tuple[str, ...] = ()
    sandbox_missing: tuple[str, ...] = ()
    errors: Errors = field(default_factory=Errors)
    timed: TimingResult = field(default_factory=TimingResult)
    held: list[Bound] = field(default_factory=list)


class Evaluation:
    """Evaluates one candidate against an incumbent, or against the reference."""

    def __init__(
        self,
        pool: ChildPool,
        reference: Reference,
        prefetched: Prefetched,
        request: Evaluate,
        *,
        memory: Memory,
        report: Callable[[Progress], None],
        started: float,
    ) -> None:
        self._pool = pool
        self._task = pool.task
        self._target, self._dsl = adapters(pool.task)
        self._untimed = self._dsl.untimed(self._target.name)
        self.timed = request.timed and not self._untimed
        """Whether it has a timing stage, if the candidate gets so far."""
        self._reference = reference
        self._prefetched = prefetched
        self._kernel = request.kernel
        self._request = request
        self._memory = memory
        self._report = report
        self._rng = random.Random(secrets.randbits(64))
        self._found = PartialResult(started)

    def run(self) -> Measurement:
        """Return what was found, however it ended."""
        try:
            self._stage("reference")
            self._pool.fork_spares(1)
            self._reference.examine()
            self._pool.reserve([self._kernel], builds=True)
            verification = self._build()
            if self.timed:
                # Made on another CPU while the candidate is at work.
                self._pool.fork_spares(SPARES)
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
            self._pool,
            self._reference,
            self._plan(),
            self._found.errors,
            self._stage,
            meanwhile=self._reserve,
            warmups=self._request.warmups,
        )
        try:
            verification.build(meanwhile=self._reserve_verifier)
        finally:
            self._found.sandbox = verification.sandbox
            self._found.sandbox_missing = self._pool.sandbox_missing
            self._found.build_s = time.monotonic() - start
        return verification

    def _reserve_verifier(self) -> None:
        """Have a child ready to verify in: only now, for many a kernel can't even be loaded."""
        self._pool.fork_spares(1)
        self._pool.reserve([self._kernel])

    def _reserve(self) -> None:
        """Give spares that wait already their places for the timing."""
        if not self.timed:
            return
        wanted = []
        incumbent = self._request.incumbent
        pair = [self._kernel, self._reference.source if incumbent is None else incumbent]
        for _ in range(RESERVED):
            self._rng.shuffle(pair)
            wanted += pair
        self._pool.reserve(wanted)

    def _verify(self, verification: Verification) -> float:
        """Compare the candidate on fresh inputs; return about how long one call takes."""
        self._stage("verify", 0, self._task.correctness.trials)
        with contextlib.closing(self._prefetched.verification_inputs()) as drawn:
            call_s = verification.verify(drawn)
        self._found.held = verification.held
        return call_s

    def _time(self, candidate_s: float) -> None:
        def report(stage: str, done: int, total: int, ratio: Interval | None) -> None:
            self._stage(stage, done, total, ratio)

        kernels = KernelPair(self._kernel, self._request.incumbent, self._found.held, candidate_s)
        TimingStage(
            self._pool,
            self._reference,
            self._prefetched,
            kernels,
            self._found.timed,
            levels=self._target.levels(),
            report=report,
            precise=self._request.precise,
            samples=self._request.samples,
            rng=self._rng,
            memory=self._memory,
        ).run()

    def _plan(self) -> Plan:
        return self._reference.kernel_plan(self._kernel, self._task.files.editable, 1)

    def _stage(
        self, name: str, done: int = 0, total: int = 0, ratio: Interval | None = None
    ) -> None:
        self._report(
            Progress(stage=name, done=done, total=total, message=self._request.label, ratio=ratio)
        )

    def _failed(self, failed: ChildFailed) -> Measurement:
        # A kernel could claim that a compiler is missing: look for ourselves.
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
