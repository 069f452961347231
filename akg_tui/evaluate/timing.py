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

import msgspec

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
from akg_tui.evaluate.device.device_side import around_a_call_s, side_of
from akg_tui.evaluate.noise import Machine, Watch, warm_up
from akg_tui.evaluate.prefetch import Need
from akg_tui.evaluate.processes.child_pool import ChildPool
from akg_tui.evaluate.processes.worker import ChildFailed
from akg_tui.evaluate.reference import Reference
from akg_tui.evaluate.statistics import CONFIRMING, MAIN, Schedule, Standing
from akg_tui.evaluate.targets import TARGETS, roofline
from akg_tui.evaluate.targets.roofline import Level
from akg_tui.evaluate.targets.target import Monitor
from akg_tui.evaluate.timing_samples import Cluster, ClusterRunner, Decoy, IdleProcess, Memory, Side

LEAST_CLUSTERS = 4
CALIBRATING_CALLS = 3
CHECKABLE = 0.5
"""The share of the inputs with known results, so that a timed call can be checked."""

CONFIRM_SHARE = 0.5
"""The extra budget of a confirmation, as a share of the budget of the comparison."""

CASE_SHARE = 0.5
"""The extra budget to find out whether a faster kernel is slower in a case, as such a share."""

CASE_CLUSTERS = (8, 12, 16, 24, 32, 48)
"""The clusters after which a case that seems to be slower is looked at."""

PRECISE_EVERY = 4
FORKED_AHEAD = 8
"""The number of clusters whose children are forked at once, which is faster, after a look that left
the ratio undecided."""

SPARES = 1 + 2 * MAIN.looks[0].clusters
"""The least number of children for a comparison: the idle process, and those of its clusters."""


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
    noise: tuple[str, ...] = ()
    roofline: Roofline | None = None
    cases: tuple[CaseTiming, ...] = ()
    clusters: int = 0
    samples: int = 0
    sampled_s: float = 0.0


@dataclass
class TimedCase:
    """One case of a comparison: what verification has found, and the values so far.

    `held` are the bounds of the candidate's results, `call_s` the approximate seconds of its call,
    and `decoys` inputs for calls between the timed calls, whose results are checked.
    """

    judged: JudgedCase
    held: Sequence[Bound] = ()
    call_s: float = 1.0
    decoys: Sequence[Decoy] = ()
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

    Parameters
    ----------
    incumbent
        The baseline; if None, the reference.
    report
        Called with the stage, clusters done, clusters until the next look, and the estimate.
    precise
        Run clusters until the ratio is as precise (`statistics.is_precise`), without a verdict.
    within_s
        With `precise`: seconds of sampling at most, where the task's budget is larger.
    prior
        The log ratios of an earlier comparison of these kernels that was not decided.
    samples
        End after about this many timed samples of each side; 0: when the ratio is decided.
    """

    pool: ChildPool
    cases: Sequence[TimedCase]
    found: TimingResult
    _: KW_ONLY
    kernel: str
    incumbent: str | None
    levels: Sequence[Level]
    report: Callable[[str, int, int, Interval | None], None]
    precise: float | None
    within_s: float | None = None
    rng: random.Random
    memory: Memory
    prior: Sequence[float] = ()
    samples: int = 0

    def __post_init__(self) -> None:
        self._timing = self.pool.task.timing
        self._candidate_s: list[float] = []
        self._baseline_s: list[float] = []

    def run(self) -> None:
        """Time both kernels, and confirm a gain on new inputs.

        Raises
        ------
        ChildFailed
            The candidate failed in a timed call, or is faster than memory allows.
        """
        self.report("time", 0, MAIN.looks[0].clusters, None)
        with contextlib.ExitStack() as running:
            idle = [running.enter_context(self._idle_process(case)) for case in self.cases]
            with self._runners(idle, strict=self.precise is not None) as runners:
                if self.precise:
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
        self._record_cases()

    def _run_until_decided(self, runners: Runners) -> Standing:
        """Run clusters until the ratio is decided or the budget is spent.

        The budget of a comparison that is not decided then leaves it undecided, unless a worthwhile
        gain is excluded. A kernel that is slower in a case ends it.
        """
        goal = self._timing.min_gain
        for values, spent in self._rounds(runners, MAIN, self._timing.budget_s):
            count = len(values)
            self.report("time", count, MAIN.next(count).clusters, self.found.ratio)
            if statistics.is_hopeless(values, goal) and not self._noise():
                self.found.ratio = statistics.early_interval(values)
                self._record_noise(values)
                return Standing.FUTILE
            look = MAIN.final(count) if spent else MAIN.at(count)
            if look is None:
                continue
            self._record_noise(values)
            if self._slower_case():
                self.found.ratio = statistics.ratio_interval(values, look.alpha)
                return Standing.FUTILE
            least = STEADY_CLUSTERS if self.found.noise else 0
            standing = statistics.standing(values, look, goal, least=least)
            if standing is Standing.FASTER:
                self.found.ratio = statistics.ratio_interval(values, look.alpha)
                return standing
            if spent and statistics.is_faster_so_far(values, goal):
                return Standing.FASTER
            if standing is Standing.FUTILE:
                return standing
            if spent or look is MAIN.last:
                self.found.undecided = statistics.is_open(values, goal)
                return Standing.FUTILE
            self._fork_ahead(MAIN.next(count).clusters - count)
        return Standing.FUTILE

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
        stop = time.monotonic() + CASE_SHARE * self._timing.budget_s
        for case, runner in runners if len(runners) > 1 else ():
            while (
                statistics.seems_slower(case.log_ratios, most)
                and len(case.log_ratios) < CASE_CLUSTERS[-1]
                and time.monotonic() < stop
            ):
                self._run_cluster(case, runner)
                looked_at = len(case.log_ratios) in CASE_CLUSTERS
                if looked_at and statistics.is_slower(case.log_ratios, most):
                    return Standing.FUTILE
        return Standing.FASTER

    def _fork_ahead(self, rounds: int) -> None:
        """Fork the children of some clusters to come, which is faster than one by one."""
        self.pool.fork_spares(2 * min(rounds * len(self.cases), FORKED_AHEAD))

    def _confirm(self, runners: Runners) -> None:
        """Measure a gain again, on new inputs.

        It holds if the lower bound of the new values exceeds 1, or if all values together leave no
        doubt. It is undecided if the budget ends before that, and the new values do not exclude it.
        """
        main, found = self.found.log_ratios, self.found
        least = STEADY_CLUSTERS if found.noise else 0
        found.confirmation = Confirmation(None, agrees=False)
        budget_s = CONFIRM_SHARE * self._timing.budget_s
        for values, spent in self._rounds(runners, CONFIRMING, budget_s):
            count = len(values)
            self.report("confirm", count, CONFIRMING.next(count).clusters, found.ratio)
            look = CONFIRMING.final(count) if spent else CONFIRMING.at(count)
            if look is None:
                continue
            standing = statistics.standing(
                values, look, 0.0, CONFIRMING, least=0 if spent else least
            )
            if statistics.is_confirmed_together(main, values, self._timing.min_gain):
                standing = Standing.FASTER
            interval = statistics.ratio_interval(values, look.alpha)
            found.confirmation = Confirmation(interval, standing is Standing.FASTER)
            if standing is not Standing.OPEN:
                return
            if spent or look is CONFIRMING.last:
                found.undecided = True
                return
            self._fork_ahead(CONFIRMING.next(count).clusters - count)

    def _run_until_precise(self, runners: Runners) -> None:
        """Run clusters until the interval is narrow enough, or the budget is spent."""
        budget_s = min(self._timing.budget_s, self.within_s or math.inf)
        for values, spent in self._rounds(runners, None, budget_s):
            count = len(values)
            due = max(statistics.PRECISE_LEAST, -(-count // PRECISE_EVERY) * PRECISE_EVERY)
            self.report("time", count, due, self.found.ratio)
            if count == due or spent:
                self._record_noise(values)
                found = self.found.ratio
                sharp = found is not None and statistics.is_precise(found, self.precise or 0.0)
                steady = not self.found.noise or count >= STEADY_CLUSTERS
                if (sharp and steady) or spent or count >= statistics.PRECISE_MOST:
                    break

    def _rounds(
        self, runners: Runners, schedule: Schedule | None, budget_s: float
    ) -> Iterator[tuple[list[float], bool]]:
        """Run rounds; yield their log ratios so far, and whether the budget is spent.

        The main comparison continues an earlier one.
        """
        device = self._warmed_device(runners)
        stop = time.monotonic() + budget_s
        self._watch, self._watched_s = Watch(Machine(), device), 0.0
        values = list(self.prior) if schedule is MAIN else []
        found = self.found
        while True:
            cluster = self._run_round(runners)
            values.append(cluster.log_ratio)
            if schedule is not None:
                found.log_ratios = (*(found.log_ratios or self.prior), cluster.log_ratio)
            self._candidate_s.append(cluster.candidate_s)
            self._baseline_s.append(cluster.baseline_s)
            found.candidate_ms = median(self._candidate_s) * 1e3
            found.baseline_ms = median(self._baseline_s) * 1e3
            if schedule is not CONFIRMING and len(values) > 1:
                alpha = schedule.final(len(values)).alpha if schedule else statistics.PRECISE_ALPHA
                found.ratio = statistics.ratio_interval(values, alpha)
            enough = time.monotonic() >= stop or 0 < self.samples <= found.samples
            yield values, len(values) >= LEAST_CLUSTERS and enough

    def _warmed_device(self, runners: Runners) -> Monitor | None:
        """Return what watches the device, whose clock has come to rest; None on the host."""

        def run() -> None:
            for case, runner in runners:
                with case.judged.named():
                    runner.run_cluster()

        device = TARGETS[self.pool.task.target.backend].monitor()
        warm_up(device, run)
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

    def _record_noise(self, values: Sequence[float]) -> None:
        """Record the disturbances of the machine, and the detectable gain."""
        found = self.found
        found.deviation = statistics.trimmed_mean(values).deviation
        alpha = MAIN.final(len(values)).alpha
        found.detectable = statistics.detectable_gain(values, alpha, self._timing.min_gain)
        found.noise = self._noise()

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
        moved = known.inputs.size + known.outputs.size
        seconds, threads = median(case.candidate_s), self._timing.threads
        return roofline.share(self.levels, moved=moved, seconds=seconds, threads=threads)

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
        self.pool.fork_spares(SPARES - 1, reserved=True)
        reference, prefetched = case.judged.reference, case.judged.prefetched
        known = reference.description
        pairs, turns = timing_samples.cluster_size(
            self._baseline_seconds(case),
            case.call_s,
            known.inputs.size + known.outputs.size,
            share=prefetched.share,
            around_s=around_a_call_s(reference.plan(known.inputs, known.outputs)),
        )
        need = Need(
            turns,
            # A kernel can't tell for which inputs the result is known.
            checkable=int(CHECKABLE * turns),
            at_least=timing_samples.PAIRS_LEAST + timing_samples.WARMUPS,
        )
        plan = reference.kernel_plan(self.kernel)
        with (
            contextlib.closing(prefetched.timed(need)) as draw,
            contextlib.closing(self._baseline_side(reference)) as baseline,
            contextlib.closing(side_of(self.pool, "candidate", plan)) as candidate,
        ):
            yield ClusterRunner(
                self.pool,
                draw,
                case.held,
                baseline=baseline,
                candidate=candidate,
                idle=idle,
                state=reference.state,
                pairs=pairs,
                strict=strict,
                rng=self.rng,
                memory_pool=prefetched.memory_pool,
                decoys=case.decoys,
            )

    @contextlib.contextmanager
    def _idle_process(self, case: TimedCase) -> Iterator[IdleProcess]:
        """Yield a process that shows the fixed cost of a call."""
        self.pool.fork_spares(SPARES, reserved=True)
        reference = case.judged.reference
        plan = msgspec.structs.replace(reference.kernel_plan(""), kind="idle")
        side = side_of(self.pool, "idle process", plan, FailureKind.JUDGE)
        with contextlib.closing(side), self.pool.child("", builds=bool(plan.device)) as worker:
            with side.blamed():
                side.send_plan(worker, reference.state)
                self.pool.await_load(worker)
                worker.await_stop()
            yield IdleProcess(side, reference.sample)

    def _baseline_side(self, reference: Reference) -> Side:
        if self.incumbent is None:
            known = reference.description
            plan = reference.plan(known.inputs, known.outputs)
            return side_of(self.pool, "reference", plan, FailureKind.REFERENCE)
        plan = reference.kernel_plan(self.incumbent)
        return side_of(self.pool, "incumbent", plan, FailureKind.JUDGE)

    def _baseline_seconds(self, case: TimedCase) -> float:
        """Return the approximate seconds of a baseline call; cached, as it only sizes samples."""
        known, baseline = self.memory.call_s, (case.judged.name, self.incumbent)
        reference = case.judged.reference
        if baseline not in known:
            with (
                contextlib.closing(self._baseline_side(reference)) as side,
                side.blamed(),
                # The baseline may not have been built since this judge started.
                self.pool.child(side.plan.source, builds=True) as worker,
            ):
                side.send_plan(worker, reference.state)
                self.pool.await_load(worker)
                taken = []
                for _ in range(CALIBRATING_CALLS):
                    side.fill(reference.sample, 0)
                    taken.append(side.timed_call(self._timing.call_timeout_s).seconds)
                known[baseline] = min(taken)
        return known[baseline]
