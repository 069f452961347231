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
from akg_tui.evaluate import correctness, timing, verdict
from akg_tui.evaluate.correctness import Bound, Comparison
from akg_tui.evaluate.nursery import Misjudged, Nursery
from akg_tui.evaluate.plaintext import one_line
from akg_tui.evaluate.reference import Draw, Reference
from akg_tui.evaluate.targets import cpu
from akg_tui.evaluate.timing import Contest, Side
from akg_tui.evaluate.wire import Op, Plan
from akg_tui.evaluate.worker import ChildFailed, Worker

DRAW_S = 1.0
"""How long drawing inputs may take; with fewer of them a cluster has fewer samples."""

LEAST_CLUSTERS = 3
CALIBRATING_CALLS = 3


@dataclass
class Findings:
    """What is known so far; a failure reports what was found before it."""

    started: float
    build_s: float = 0.0
    sandbox: tuple[str, ...] = ()
    sandbox_missing: tuple[str, ...] = ()
    error: float | None = None
    tolerance: float | None = None
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
        *,
        kernel: str,
        incumbent: str | None,
        label: str,
        report: Callable[[Progress], None],
    ) -> None:
        self._nursery = nursery
        self._task = nursery.task
        self._reference = reference
        self._kernel = kernel
        self._incumbent = incumbent
        self._label = label
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
            self._found.sandbox_missing = self._nursery.sandbox_missing
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
        timing.fill(side, 0, draw, item)
        timing.poison(side, 0)
        nanoseconds = worker.timed_call(1, self._task.timing.call_timeout_s)
        worker.await_stop()
        return nanoseconds / 1e9

    def _calibrate(self, side: Side, worker: Worker) -> list[float]:
        """Return the times of a few calls on the sample item: to size samples, no more."""
        return [
            self._call(side, worker, self._reference.sample, 0) for _ in range(CALIBRATING_CALLS)
        ]

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
            seconds=DRAW_S,
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
            if spent:
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
        found = self._found
        correct = outcome is Outcome.CORRECT
        return Measurement(
            outcome=outcome,
            failure=failure,
            message=one_line(message),
            detail=detail,
            max_error=found.error if found.error != float("inf") else None,
            tolerance=found.tolerance,
            candidate_ms=found.candidate_ms if correct else None,
            baseline_ms=found.baseline_ms if correct else None,
            ratio=found.ratio if correct else None,
            clusters=found.clusters,
            samples=found.samples,
            build_s=found.build_s,
            elapsed_s=time.monotonic() - found.started,
            threads=self._task.timing.threads,
            sandbox=found.sandbox,
            sandbox_missing=found.sandbox_missing,
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
