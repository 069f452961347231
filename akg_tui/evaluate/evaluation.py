"""One evaluation from beginning to end: build, verify, time, conclude.

Owns the order of the stages and turns every way they can end into a Measurement. Each stage
has processes of its own, and inputs drawn only after the candidate's text was fixed.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from akg_tui.core.measurement import FailureKind, Interval, Measurement, Outcome, Progress
from akg_tui.evaluate import timing, trials, verdict
from akg_tui.evaluate.correctness import Bound
from akg_tui.evaluate.nursery import Misjudged, Nursery
from akg_tui.evaluate.plaintext import one_line
from akg_tui.evaluate.protocol import Evaluate
from akg_tui.evaluate.reference import Draw, Reference
from akg_tui.evaluate.targets import cpu
from akg_tui.evaluate.timing import Contest, Side
from akg_tui.evaluate.verifying import Errors, Verification
from akg_tui.evaluate.wire import Plan
from akg_tui.evaluate.worker import ChildFailed, Worker

LEAST_CLUSTERS = 3
CALIBRATING_CALLS = 3


@dataclass
class Findings:
    """What is known so far; a failure reports what was found before it."""

    started: float
    build_s: float = 0.0
    sandbox: tuple[str, ...] = ()
    errors: Errors = field(default_factory=Errors)
    candidate_ms: float | None = None
    baseline_ms: float | None = None
    ratio: Interval | None = None
    clusters: int = 0
    samples: int = 0
    held: list[Bound] = field(default_factory=list)


class Evaluation:
    """Evaluates one candidate against an incumbent, or against the reference."""

    def __init__(
        self,
        nursery: Nursery,
        reference: Reference,
        request: Evaluate,
        *,
        report: Callable[[Progress], None],
    ) -> None:
        self._nursery = nursery
        self._task = nursery.task
        self._reference = reference
        self._kernel = request.kernel
        self._incumbent = request.incumbent
        self._label = request.label
        self._timed = request.timed
        self._samples = request.samples
        self._warmups = max(request.warmups, CALIBRATING_CALLS)
        self._report = report
        self._dice = random.Random(secrets.randbits(64))
        self._found = Findings(time.monotonic())

    def run(self) -> Measurement:
        """Return what was found, however it ended."""
        try:
            self._stage("reference")
            self._reference.examine()
            call_s = self._verify(self._build())
            if self._timed:
                self._time(call_s)
        except ChildFailed as failed:
            return self._failed(failed)
        except Misjudged as broken:
            return self._measurement(Outcome.ERROR, broken.kind, broken.message, broken.detail)
        return self._measurement(Outcome.CORRECT)

    def _build(self) -> Verification:
        """Load the candidate and call it once, giving a compiler the time it needs."""
        self._stage("build")
        start = time.monotonic()
        verification = Verification(
            self._nursery, self._reference, self._plan(), self._found.errors, self._stage
        )
        try:
            verification.build()
        finally:
            self._found.sandbox = verification.sandbox
            self._found.build_s = time.monotonic() - start
        return verification

    def _verify(self, verification: Verification) -> float:
        """Compare the candidate on fresh inputs; return about how long one call takes."""
        self._stage("verify", 0, self._task.correctness.trials)
        with contextlib.closing(trials.draw(self._reference, self._dice)) as drawn:
            call_s = verification.verify(drawn)
        self._found.held = verification.held
        return call_s

    def _call(self, side: Side, worker: Worker, draw: Draw, item: int) -> float:
        timing.fill(side, 0, draw, item)
        timing.poison(side, 0)
        nanoseconds = worker.timed_call(1, self._task.timing.call_timeout_s)
        worker.await_stop()
        return nanoseconds / 1e9

    def _calibrate(self, side: Side, worker: Worker) -> list[float]:
        """Return the times of a few calls on the sample item: to size samples, no more."""
        return [self._call(side, worker, self._reference.sample, 0) for _ in range(self._warmups)]

    def _time(self, candidate_s: float) -> None:
        self._stage("time", 0, verdict.LOOKS[0].clusters)
        baseline_s = self._baseline_seconds()
        known = self._reference.description
        item_bytes = known.inputs.size + known.outputs.size
        calls = timing.calls_of_both((baseline_s, candidate_s), item_bytes)
        pair_s = baseline_s * calls[0] + candidate_s * calls[1]
        pairs = timing.pairs_per_cluster(pair_s, max(calls), item_bytes)
        draw = self._reference.draw(
            (pairs + timing.WARMUPS) * max(calls),
            exact=False,
            checkable=(pairs + timing.WARMUPS) * max(calls),
            seconds=trials.DRAW_S,
            at_least=(timing.PAIRS_LEAST + timing.WARMUPS) * max(calls),
        )
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.closing(draw))
            baseline = stack.enter_context(contextlib.closing(self._baseline_side(calls[0])))
            candidate = timing.make_side("candidate", self._plan(), calls[1])
            stack.enter_context(contextlib.closing(candidate))
            contest = Contest(
                self._nursery,
                draw,
                self._found.held,
                baseline=baseline,
                candidate=candidate,
                state=self._reference.state,
                pairs=pairs,
                dice=self._dice,
            )
            contest.measure_fixed_cost()
            self._compare(contest, baseline, candidate)

    def _compare(self, contest: Contest, baseline: Side, candidate: Side) -> None:
        """Run clusters until the ratio is decided or the budget is spent."""
        limits = self._task.timing
        stop = time.monotonic() + limits.budget_s
        values: list[float] = []
        found = self._found
        while True:
            cluster = contest.run_cluster()
            values.append(cluster.log_ratio)
            found.clusters += 1
            found.samples += cluster.pairs
            found.candidate_ms = statistics.median(candidate.seconds) * 1e3
            found.baseline_ms = statistics.median(baseline.seconds) * 1e3
            spent = len(values) >= LEAST_CLUSTERS and time.monotonic() >= stop
            if len(values) >= 2:
                found.ratio = verdict.ratio_interval(values, verdict.alpha_at(len(values)))
            self._stage("time", len(values), verdict.next_look(len(values) - 1).clusters)
            look = next((look for look in verdict.LOOKS if look.clusters == len(values)), None)
            if look is not None:
                decided = verdict.standing(values, look, limits.min_gain)
                if decided is not verdict.Standing.OPEN or look is verdict.LOOKS[-1]:
                    return
            enough = 0 < self._samples <= found.samples and len(values) >= LEAST_CLUSTERS
            if spent or enough:
                return

    def _baseline_side(self, calls: int) -> Side:
        if self._incumbent is None:
            known = self._reference.description
            plan = self._reference.plan(inputs=known.inputs, outputs=known.outputs)
            return timing.make_side("reference", plan, calls, FailureKind.REFERENCE)
        # The same name as the candidate's: nothing but their text may tell the sides apart.
        filename = self._task.files.editable
        plan = self._reference.kernel_plan(self._incumbent, filename, calls)
        return timing.make_side("incumbent", plan, calls, FailureKind.JUDGE)

    def _baseline_seconds(self) -> float:
        """Return about how long the baseline takes, from a process of its own."""
        side = self._baseline_side(1)
        with (
            contextlib.closing(side),
            side.blamed(),
            self._nursery.child(side.plan.source) as worker,
        ):
            timing.load_side(self._nursery, worker, side, self._reference.state)
            self._nursery.await_load(worker)
            return min(self._calibrate(side, worker))

    def _plan(self) -> Plan:
        return self._reference.kernel_plan(self._kernel, self._task.files.editable, 1)

    def _stage(self, name: str, done: int = 0, total: int = 0) -> None:
        self._report(
            Progress(
                stage=name, done=done, total=total, message=self._label, ratio=self._found.ratio
            )
        )

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
        found, errors = self._found, self._found.errors
        correct = outcome is Outcome.CORRECT
        return Measurement(
            outcome=outcome,
            failure=failure,
            message=one_line(message),
            detail=detail,
            max_error=errors.worst if errors.worst != float("inf") else None,
            tolerance=errors.tolerance,
            errors=tuple(errors.by_name.values()),
            candidate_ms=found.candidate_ms if correct else None,
            baseline_ms=found.baseline_ms if correct else None,
            ratio=found.ratio if correct else None,
            clusters=found.clusters,
            samples=found.samples,
            build_s=found.build_s,
            elapsed_s=time.monotonic() - found.started,
            threads=self._task.timing.threads,
            sandbox=found.sandbox,
            environment=cpu.describe(str(torch.__version__)),
        )


CANDIDATES_OWN = frozenset(
    {
        FailureKind.SYNTAX,
        FailureKind.BUILD,
        FailureKind.CALL,
        FailureKind.CRASH,
        FailureKind.TIMEOUT,
        FailureKind.WRONG,
    }
)
