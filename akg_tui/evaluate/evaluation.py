"""One evaluation from beginning to end: build, verify, time, conclude.

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

import torch

from akg_tui.core.measurement import FailureKind, Interval, Measurement, Outcome, Progress
from akg_tui.evaluate import correctness, roofline, timing
from akg_tui.evaluate.comparing import CALIBRATING_CALLS, DRAW_S, Comparing, Contender, Timed
from akg_tui.evaluate.correctness import Bound, Comparison
from akg_tui.evaluate.nursery import Misjudged, Nursery
from akg_tui.evaluate.plaintext import one_line
from akg_tui.evaluate.reference import Draw, Reference
from akg_tui.evaluate.roofline import Level
from akg_tui.evaluate.targets import cpu, fingerprint
from akg_tui.evaluate.timing import Memory, Side
from akg_tui.evaluate.wire import Op, Plan
from akg_tui.evaluate.worker import ChildFailed, Worker


@dataclass
class Findings:
    """What is known so far; a failure reports what was found before it."""

    started: float
    build_s: float = 0.0
    sandbox: tuple[str, ...] = ()
    error: float | None = None
    tolerance: float | None = None
    timed: Timed = field(default_factory=Timed)
    held: list[Bound] = field(default_factory=list)


class Evaluation:
    """Evaluates one candidate against an incumbent, or against the reference."""

    def __init__(
        self,
        nursery: Nursery,
        reference: Reference,
        *,
        kernel: str,
        incumbent: str | None,
        label: str,
        precise: float | None,
        memory: Memory,
        report: Callable[[Progress], None],
    ) -> None:
        self._nursery = nursery
        self._task = nursery.task
        self._reference = reference
        self._kernel = kernel
        self._incumbent = incumbent
        self._label = label
        self._precise = precise
        self._memory = memory
        self._report = report
        self._dice = random.Random(secrets.randbits(64))
        self._found = Findings(time.monotonic())

    def run(self) -> Measurement:
        """Return what was found, however it ended."""
        try:
            self._stage("reference")
            self._reference.examine()
            self._build()
            call_s = self._verify()
            self._time(call_s)
        except ChildFailed as failed:
            return self._failed(failed)
        except Misjudged as broken:
            return self._measurement(Outcome.ERROR, broken.kind, broken.message, broken.detail)
        return self._measurement(Outcome.CORRECT)

    def _build(self) -> None:
        """Load the candidate and call it once, giving a compiler the time it needs."""
        self._stage("build")
        limits = self._task.timing
        sample = self._reference.sample
        side = timing.make_side("candidate", self._plan(), 1)
        start = time.monotonic()
        with contextlib.closing(side), self._nursery.child(self._kernel) as worker:
            self._found.sandbox = worker.sandbox
            timing.load_side(self._nursery, worker, side, self._reference.state)
            self._nursery.await_load(worker)
            timing.fill(side, 0, sample, 0)
            worker.send(Op.CALL, count=1)
            worker.answer(limits.call_timeout_s, "being called", compiling_s=limits.build_timeout_s)
        self._found.build_s = time.monotonic() - start

    def _verify(self) -> float:
        """Compare the candidate on fresh inputs; return about how long one call takes."""
        trials = self._task.correctness.trials
        self._stage("verify", 0, trials)
        draw = self._reference.draw(
            trials,
            exact=True,
            checkable=trials,
            seconds=DRAW_S,
            at_least=trials,
        )
        with contextlib.closing(draw):
            return self._verify_on(draw)

    def _verify_on(self, draw: Draw) -> float:
        trials = range(draw.count)
        wanted = self._task.correctness.tolerance
        held = [correctness.bounds(draw.results(i), draw.exact_results(i), wanted) for i in trials]
        self._found.held = correctness.widest(held)
        side = timing.make_side("candidate", self._plan(), 1)
        taken: list[float] = []
        with contextlib.closing(side), self._nursery.child(self._kernel) as worker:
            timing.load_side(self._nursery, worker, side, self._reference.state)
            self._nursery.await_load(worker)
            for item in trials:
                taken.append(self._call(side, worker, draw, item))
                self._judge(
                    correctness.compare(
                        timing.results(side, 0),
                        draw.results(item),
                        draw.exact_results(item),
                        held[item],
                    )
                )
                timing.check_arguments(side, 0, draw, item)
                self._stage("verify", item + 1, draw.count)
            return min([*taken, *self._calibrate(side, worker)])

    def _judge(self, comparison: Comparison) -> None:
        """Keep the worst error so far; raise if the results do not match."""
        found = self._found
        if found.error is None or comparison.error >= found.error:
            found.error, found.tolerance = comparison.error, comparison.tolerance
        if comparison.message:
            raise ChildFailed(FailureKind.WRONG, comparison.message, comparison.detail)

    def _call(self, side: Side, worker: Worker, draw: Draw, item: int) -> float:
        limit_s = self._task.timing.call_timeout_s
        return timing.call_once(side, worker, draw, item, limit_s)

    def _calibrate(self, side: Side, worker: Worker) -> list[float]:
        """Return the times of a few calls on the sample item: to size samples, no more."""
        return [
            self._call(side, worker, self._reference.sample, 0) for _ in range(CALIBRATING_CALLS)
        ]

    def _time(self, candidate_s: float) -> None:
        def report(stage: str, done: int, total: int, ratio: Interval | None) -> None:
            self._stage(stage, done, total, ratio)

        contender = Contender(self._kernel, self._incumbent, self._found.held, candidate_s)
        Comparing(
            self._nursery,
            self._reference,
            contender,
            self._found.timed,
            levels=self._levels(),
            report=report,
            precise=self._precise,
            dice=self._dice,
            memory=self._memory,
        ).run()

    def _levels(self) -> list[Level]:
        sizes, machine = fingerprint.caches(), fingerprint.machine_key()
        return roofline.machine_levels(sizes, machine, cpu.cache_folder())

    def _plan(self) -> Plan:
        return self._reference.kernel_plan(self._kernel, self._task.files.editable, 1)

    def _stage(
        self, name: str, done: int = 0, total: int = 0, ratio: Interval | None = None
    ) -> None:
        self._report(Progress(stage=name, done=done, total=total, message=self._label, ratio=ratio))

    def _failed(self, failed: ChildFailed) -> Measurement:
        # A kernel could claim that a compiler is missing: look for ourselves.
        if failed.kind is FailureKind.TOOLCHAIN and cpu.find_compiler() is None:
            return self._measurement(
                Outcome.ERROR, FailureKind.TOOLCHAIN, failed.message, failed.detail
            )
        kind = FailureKind.BUILD if failed.kind is FailureKind.TOOLCHAIN else failed.kind
        if kind not in CANDIDATES_OWN:
            kind = FailureKind.CALL
        return self._measurement(Outcome.FAILED, kind, failed.message, failed.detail)

    def _measurement(
        self,
        outcome: Outcome,
        failure: FailureKind | None = None,
        message: str = "",
        detail: str = "",
    ) -> Measurement:
        found, timed = self._found, self._found.timed
        correct = outcome is Outcome.CORRECT
        return Measurement(
            outcome=outcome,
            failure=failure,
            message=one_line(message),
            detail=detail,
            max_error=found.error if found.error != float("inf") else None,
            tolerance=found.tolerance,
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
            environment=fingerprint.describe(str(torch.__version__), self._task.timing.threads),
        )


CANDIDATES_OWN = frozenset(
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
