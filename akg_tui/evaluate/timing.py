"""The timing stage: sizes the clusters, runs them until decided, and confirms a gain.

Owns the order of looks, the budgets and the notes on noise. Times come from `timing_samples` and
decisions from `statistics` only. A task with cases is timed in rounds of one cluster a case; one
value of the comparison is the weighted mean of a round's log ratios.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from statistics import median

from akg_tui.core.measurement import (
    STEADY_CLUSTERS,
    CaseTiming,
    Confirmation,
    FailureKind,
    Interval,
    Roofline,
)
from akg_tui.evaluate import statistics, timing_samples
from akg_tui.evaluate.cases import JudgedCase
from akg_tui.evaluate.correctness import Bound
from akg_tui.evaluate.device_side import around_a_call_s, side_of
from akg_tui.evaluate.noise import Machine, Watch, warm_up
from akg_tui.evaluate.prefetch import Need
from akg_tui.evaluate.processes.child_pool import ChildPool
from akg_tui.evaluate.processes.worker import ChildFailed
from akg_tui.evaluate.protocol.engine_protocol import Evaluate
from akg_tui.evaluate.reference import Reference
from akg_tui.evaluate.statistics import CONFIRMING, MAIN, Schedule, Standing
from akg_tui.evaluate.targets import TARGETS, roofline
from akg_tui.evaluate.targets.roofline import Level
from akg_tui.evaluate.targets.target import Monitor
from akg_tui.evaluate.timing_samples import Cluster, ClusterRunner, Decoys, IdleProcess, Side

CHECKABLE = 0.5
CHECKABLE_LEAST = 4
"""The share of the inputs with known results, and their least number, so that a timed call can be
checked."""

EXTRA_SHARE = 0.5
"""The extra budget of a confirmation, and of finding out whether a faster kernel is slower in a
case, as a share of the budget of the comparison."""

PRECISE_ALPHA = 0.005
PRECISE_LEAST = 6
"""The one-sided error rate of a ratio that is quoted, and its least number of values."""

SPARES = 2 * MAIN.looks[0].clusters
"""The children that are forked ahead: those of the clusters up to a look."""


@dataclass
class TimingResult:
    """The results of the stage so far; times of one call, in milliseconds."""

    candidate_ms: float | None = None
    baseline_ms: float | None = None
    ratio: Interval | None = None
    confirmation: Confirmation | None = None
    log_ratios: tuple[float, ...] = ()
    undecided: bool = False
    deviation: float | None = None
    detectable: float | None = None
    excluded: float | None = None
    noise: tuple[str, ...] = ()
    roofline: Roofline | None = None
    cases: tuple[CaseTiming, ...] = ()
    clusters: int = 0
    samples: int = 0
    sampled_s: float = 0.0


@dataclass
class TimedCase:
    """One case of a comparison: what verification has found, and the values so far.

    `held` are the bounds of the candidate's results (empty: no result is looked at), `call_s` the
    approximate seconds of its call, and `decoys` deals inputs for calls between and after the timed
    calls, whose results are checked.
    """

    judged: JudgedCase
    held: Sequence[Bound] = ()
    call_s: float = 1.0
    decoys: Decoys | None = None
    log_ratios: list[float] = field(default_factory=list)
    candidate_s: list[float] = field(default_factory=list)
    baseline_s: list[float] = field(default_factory=list)

    def add(self, cluster: Cluster) -> None:
        """Add the values of a cluster."""
        self.log_ratios.append(cluster.log_ratio)
        self.candidate_s.append(cluster.candidate_s)
        self.baseline_s.append(cluster.baseline_s)


Runners = Sequence[tuple[TimedCase, ClusterRunner]]


@dataclass
class TimingStage:
    """One comparison; `found` is filled step by step, so that a failure keeps partial results.

    `report` is called with the stage, clusters done, clusters until the next look, and the
    estimate.
    """

    pool: ChildPool
    cases: Sequence[TimedCase]
    found: TimingResult
    _: KW_ONLY
    request: Evaluate
    levels: Sequence[Level]
    report: Callable[[str, int, int, Interval | None], None]
    rng: random.Random

    def __post_init__(self) -> None:
        self._timing = self.pool.task.timing
        self._candidate_s: list[float] = []
        self._baseline_s: list[float] = []
        self._extremes: list[tuple[float, float]] = []
        """The least and the largest log ratio of each cluster since the last new inputs."""

    def run(self) -> None:
        """Time both kernels, and confirm a gain on new inputs.

        Raises
        ------
        ChildFailed
            The candidate failed in a timed call, or is faster than memory allows.
        """
        self.report("time", 0, MAIN.looks[0].clusters, None)
        with contextlib.ExitStack() as running:
            ready = [case.judged.prefetched for case in self.cases]
            idle = [running.enter_context(each.idle_process()) for each in ready]
            with self._runners(idle, strict=self.request.precise is not None) as runners:
                if self.request.precise:
                    self._run_until_precise(runners)
                    standing = None
                else:
                    standing = self._run_until_decided(runners)
                    if standing is Standing.FASTER:
                        standing = self._settle_cases(runners)
            self._check_roofline()
            if standing is Standing.FASTER:
                with self._runners(idle, strict=True) as runners:
                    self._confirm(runners)
        if self.found.noise and self.found.ratio is not None:
            proved = 1 + self._timing.min_gain if standing is Standing.FASTER else 0.0
            self.found.ratio = statistics.on_busy_machine(self.found.ratio, proved)
        self._record_cases()

    def _clock(self) -> float:
        """Return the time without what passed while others timed on the device."""
        return time.monotonic() - self.pool.lease.waited_s

    def _run_until_decided(self, runners: Runners) -> Standing:
        """Run clusters until the ratio is decided or the budget is spent.

        The budget of a comparison that is not decided then leaves it undecided, unless a worthwhile
        gain is excluded. A kernel that is slower in a case ends it.
        """
        goal = self._timing.min_gain
        for values, spent in self._rounds(runners, MAIN, self._timing.budget_s):
            count = len(values)
            self.report("time", count, MAIN.next(count).clusters, self.found.ratio)
            noise = self._noise()
            if self._is_decisive_loss or (not noise and statistics.is_hopeless(values, goal)):
                self._record_spread(values, noise)
                self.found.ratio = statistics.ratio_interval(values, statistics.FUTILITY_ALPHA)
                return Standing.FUTILE
            if self._is_decisive_gain:
                self._record_spread(values, noise)
                self.found.ratio = statistics.ratio_interval(values, PRECISE_ALPHA)
                return Standing.FASTER
            look = MAIN.final(count) if spent else MAIN.at(count, disturbed=bool(noise))
            if look is None:
                continue
            self._record_spread(values, noise)
            if self._slower_case():
                self.found.ratio = statistics.ratio_interval(values, look.alpha)
                return Standing.FUTILE
            standing = statistics.standing(values, look, goal)
            if standing is Standing.FASTER:
                self.found.ratio = statistics.ratio_interval(values, look.alpha)
                return standing
            if standing is Standing.FUTILE:
                return standing
            if spent or look is MAIN.last:
                self.found.undecided = statistics.is_open(values, goal)
                return Standing.FUTILE
            # All at once, which is faster than one by one.
            self.pool.fork_spares(SPARES)
        return Standing.FUTILE

    @property
    def _is_decisive_gain(self) -> bool:
        """Whether a few clusters prove a large gain, even without the baseline's waits."""
        return statistics.is_decisive([least for least, _ in self._extremes])

    @property
    def _is_decisive_loss(self) -> bool:
        return statistics.is_decisive([-most for _, most in self._extremes])

    @property
    def _is_decisive_either_way(self) -> bool:
        return self._is_decisive_gain or self._is_decisive_loss

    def _slower_case(self) -> bool:
        """Return whether the candidate is slower in a case than the task allows, beyond doubt."""
        most = self._timing.max_regression
        return len(self.cases) > 1 and any(
            statistics.is_slower(case.log_ratios, most) for case in self.cases
        )

    def _settle_cases(self, runners: Runners) -> Standing:
        """Run clusters of the cases in which a faster kernel seems to be slower than allowed.

        FUTILE: a case is slower beyond doubt. A case that is undecided when the budget ends
        prevents no KEEP.
        """
        most = self._timing.max_regression
        stop = self._clock() + EXTRA_SHARE * self._timing.budget_s
        for case, runner in runners if len(runners) > 1 else ():
            while (
                statistics.seems_slower(case.log_ratios, most)
                and len(case.log_ratios) < MAIN.last.clusters
                and self._clock() < stop
            ):
                self._run_cluster(case, runner)
                if MAIN.at(len(case.log_ratios)) and statistics.is_slower(case.log_ratios, most):
                    return Standing.FUTILE
        return Standing.FASTER

    def _confirm(self, runners: Runners) -> None:
        """Measure a gain again, on new inputs.

        It holds if the lower bound of the new values exceeds 1, or if all values together leave no
        doubt. It is undecided if the budget ends before that, and the new values do not exclude it.
        """
        main, found = self.found.log_ratios, self.found
        disturbed = bool(found.noise)
        found.confirmation = Confirmation(None, agrees=False)
        budget_s = EXTRA_SHARE * self._timing.budget_s
        for values, spent in self._rounds(runners, CONFIRMING, budget_s):
            count = len(values)
            self.report("confirm", count, CONFIRMING.next(count).clusters, found.ratio)
            look = CONFIRMING.final(count) if spent else CONFIRMING.at(count, disturbed=disturbed)
            if self._is_decisive_gain:
                interval = statistics.ratio_interval(values, PRECISE_ALPHA)
                found.confirmation = Confirmation(interval, agrees=True)
                return
            if look is None:
                continue
            standing = statistics.standing(values, look, 0.0, CONFIRMING)
            if statistics.is_confirmed_together(main, values, self._timing.min_gain):
                standing = Standing.FASTER
            interval = statistics.ratio_interval(values, look.alpha)
            found.confirmation = Confirmation(interval, standing is Standing.FASTER)
            if standing is not Standing.OPEN:
                return
            if spent or look is CONFIRMING.last:
                found.undecided = True
                return
            self.pool.fork_spares(SPARES)

    def _run_until_precise(self, runners: Runners) -> None:
        """Run clusters until the interval is narrow enough, or the budget is spent."""
        budget_s = min(self._timing.budget_s, self.request.within_s or math.inf)
        for values, spent in self._rounds(runners, None, budget_s):
            count = len(values)
            # Looked at every four clusters, so that the progress has a next aim.
            due = max(PRECISE_LEAST, -(-count // 4) * 4)
            self.report("time", count, due, self.found.ratio)
            # The interval of two or three values is that of the largest spread that was measured.
            if count in {2, 3, due} or spent:
                self._record_spread(values, self._noise())
                found = self.found.ratio
                sharp = found is not None and statistics.is_precise(
                    found, self.request.precise or 0.0
                )
                steady = not self.found.noise or count >= STEADY_CLUSTERS
                steady = steady or self._is_decisive_either_way
                if (sharp and steady) or spent or count >= MAIN.last.clusters:
                    break

    def _rounds(
        self, runners: Runners, schedule: Schedule | None, budget_s: float
    ) -> Iterator[tuple[list[float], bool]]:
        """Run rounds; yield their log ratios so far, and whether the budget is spent.

        The main comparison continues an earlier one.
        """
        device = self._warmed_device(runners)
        stop = self._clock() + budget_s
        self._watch, self._watched_s = Watch(Machine(), device), 0.0
        prior, samples = self.request.prior, self.request.samples
        values = list(prior) if schedule is MAIN else []
        self._extremes.clear()
        found, least = self.found, 2 if schedule is None else MAIN.looks[0].clusters
        while True:
            cluster = self._run_round(runners)
            values.append(cluster.log_ratio)
            self._extremes.append((cluster.least_log_ratio, cluster.most_log_ratio))
            if schedule is not None:
                found.log_ratios = (*(found.log_ratios or prior), cluster.log_ratio)
            self._candidate_s.append(cluster.candidate_s)
            self._baseline_s.append(cluster.baseline_s)
            found.candidate_ms = median(self._candidate_s) * 1e3
            found.baseline_ms = median(self._baseline_s) * 1e3
            if schedule is not CONFIRMING and len(values) > 1:
                alpha = schedule.final(len(values)).alpha if schedule else PRECISE_ALPHA
                found.ratio = statistics.ratio_interval(values, alpha)
            enough = self._clock() >= stop or 0 < samples <= found.samples
            yield values, len(values) >= least and enough

    def _warmed_device(self, runners: Runners) -> Monitor | None:
        """Return what watches the device, whose clock has come to rest; None on the host."""

        def run() -> None:
            for case, runner in runners:
                with case.judged.named():
                    runner.run_cluster()

        device = TARGETS[self.pool.task.target.backend].monitor()
        warm_up(device, run, self._clock)
        return device

    def _run_round(self, runners: Runners) -> Cluster:
        """Run a cluster of each case, in random order; return their weighted geometric means."""
        weights, clusters = [], []
        for case, runner in self.rng.sample(runners, len(runners)):
            clusters.append(self._run_cluster(case, runner))
            weights.append(case.judged.weight)
        if len(clusters) == 1:
            return clusters[0]

        def mean(of: Callable[[Cluster], float]) -> float:
            return math.fsum(w * of(each) for w, each in zip(weights, clusters, strict=True))

        return Cluster(
            mean(lambda each: each.log_ratio),
            mean(lambda each: each.least_log_ratio),
            mean(lambda each: each.most_log_ratio),
            sum(each.pairs for each in clusters),
            math.exp(mean(lambda each: math.log(each.baseline_s))),
            math.exp(mean(lambda each: math.log(each.candidate_s))),
            sum(each.cpu_wait_s for each in clusters),
        )

    def _run_cluster(self, case: TimedCase, runner: ClusterRunner) -> Cluster:
        before, found = runner.sampled_s, self.found
        with case.judged.named():
            cluster = runner.run_cluster()
        case.add(cluster)
        sampled_s = runner.sampled_s - before
        self._watched_s += sampled_s
        self._watch.cluster(cluster.cpu_wait_s, self._watched_s)
        found.clusters += 1
        found.samples += cluster.pairs
        found.sampled_s += sampled_s
        return cluster

    def _record_cases(self) -> None:
        """Record the times by case, if the task has cases."""
        most = self._timing.max_regression
        self.found.cases = tuple(
            CaseTiming(
                name=case.judged.name,
                weight=case.judged.weight,
                candidate_ms=median(case.candidate_s) * 1e3,
                baseline_ms=median(case.baseline_s) * 1e3,
                ratio=statistics.case_interval(case.log_ratios),
                roofline=self._roofline(case),
                slower=statistics.is_slower(case.log_ratios, most),
                open=statistics.may_be_slower(case.log_ratios, most),
            )
            for case in self.cases
            if case.judged.name and len(case.log_ratios) > 1
        )

    def _record_spread(self, values: Sequence[float], noise: tuple[str, ...]) -> None:
        """Record the disturbances of the machine, and which gains the values find and exclude."""
        found, alpha = self.found, MAIN.final(len(values)).alpha
        found.noise = noise
        found.deviation = statistics.trimmed_mean(values).deviation
        found.detectable = statistics.detectable_gain(values, alpha, self._timing.min_gain)
        found.excluded = statistics.excluded_gain(values)

    def _noise(self) -> tuple[str, ...]:
        return self._watch.disturbances(self._baseline_s)

    def _check_roofline(self) -> None:
        """Compare the candidate's times with the memory bandwidth; refuse an impossible time."""
        if not self.levels:
            return
        for case in self.cases:
            known = case.judged.reference.description
            must_move = known.outputs.size
            if self._timing.reads_all_inputs:
                must_move += known.inputs.size
            why = roofline.refusal(
                self.levels,
                must_move=must_move,
                seconds=median(case.candidate_s),
                threads=self._timing.threads,
            )
            if why:
                raise ChildFailed(FailureKind.IMPOSSIBLE, case.judged.told(why))
        if len(self.cases) == 1:
            self.found.roofline = self._roofline(self.cases[0])

    def _roofline(self, case: TimedCase) -> Roofline | None:
        if not self.levels:
            return None
        known = case.judged.reference.description
        return roofline.share(
            self.levels,
            read=known.inputs.size,
            written=known.outputs.size,
            seconds=median(case.candidate_s),
            threads=self._timing.threads,
        )

    @contextlib.contextmanager
    def _runners(self, idle: Sequence[IdleProcess], *, strict: bool) -> Iterator[Runners]:
        """Yield a runner for each case."""
        with contextlib.ExitStack() as running:
            yield [
                (case, running.enter_context(self._cluster_runner(case, each, strict=strict)))
                for case, each in zip(self.cases, idle, strict=True)
            ]

    @contextlib.contextmanager
    def _cluster_runner(
        self, case: TimedCase, idle: IdleProcess, *, strict: bool
    ) -> Iterator[ClusterRunner]:
        """Yield a runner with inputs drawn for this runner only."""
        self.pool.fork_spares(SPARES)
        reference, prefetched = case.judged.reference, case.judged.prefetched
        known = reference.description
        size = timing_samples.cluster_size(
            self._baseline_seconds(case),
            case.call_s,
            known.inputs.size + known.outputs.size,
            share=prefetched.share,
            around_s=around_a_call_s(reference.plan(known.inputs, known.outputs)),
        )
        plan = reference.kernel_plan(self.request.kernel)
        with (
            contextlib.closing(prefetched.timed(inputs_needed(size))) as draw,
            contextlib.closing(self._baseline_side(reference)) as baseline,
            contextlib.closing(side_of(self.pool, "candidate", plan)) as candidate,
        ):
            yield ClusterRunner(
                self.pool,
                draw,
                case.held,
                sides=(baseline, candidate),
                idle=idle,
                state=reference.state,
                size=size,
                strict=strict,
                rng=self.rng,
                decoys=case.decoys,
            )

    def _baseline_side(self, reference: Reference) -> Side:
        if self.request.incumbent is None:
            known = reference.description
            plan = reference.plan(known.inputs, known.outputs)
            return side_of(self.pool, "reference", plan, FailureKind.REFERENCE)
        plan = reference.kernel_plan(self.request.incumbent)
        return side_of(self.pool, "incumbent", plan, FailureKind.JUDGE)

    def _baseline_seconds(self, case: TimedCase) -> float:
        """Return the approximate seconds of a baseline call; cached, as it only sizes samples."""
        known, reference = case.judged.call_s, case.judged.reference
        incumbent = self.request.incumbent
        if incumbent not in known:
            with contextlib.closing(self._baseline_side(reference)) as side:
                known[incumbent] = call_seconds(self.pool, reference, side)
        return known[incumbent]


def call_seconds(pool: ChildPool, reference: Reference, side: Side) -> float:
    """Return the approximate seconds of a call: the least of three short ones."""
    taken: list[float] = []
    # The kernel may not have been built since this judge started.
    with side.blamed(), pool.child(side.plan.files, builds=True) as worker:
        side.send_plan(worker, reference.state)
        pool.await_load(worker)
        while len(taken) < 3 and sum(taken) < timing_samples.CLUSTER_MOST_S:
            side.fill(reference.sample, 0)
            taken.append(side.timed_call(pool.task.timing.call_timeout_s).seconds)
    return min(taken)


def inputs_needed(size: timing_samples.ClusterSize) -> Need:
    """Return the inputs that the turns of a cluster need."""
    return Need(
        size.turns,
        # A kernel can't tell for which inputs the result is known.
        checkable=max(int(CHECKABLE * size.turns), min(size.turns, CHECKABLE_LEAST)),
        at_least=size.warmups + min(size.pairs, timing_samples.PAIRS_LEAST),
    )
