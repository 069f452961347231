"""The timing stage: sizes the clusters, runs them until decided, and confirms a gain.

Owns the order of looks, the budgets and the notes on noise. Times come from `timing_samples` and
decisions from `statistics` only.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from statistics import median

import msgspec

from akg_tui.core.measurement import Confirmation, FailureKind, Interval, Roofline
from akg_tui.evaluate import statistics, timing_samples
from akg_tui.evaluate.correctness import Bound
from akg_tui.evaluate.noise import Machine, Watch
from akg_tui.evaluate.prefetch import Need, Prefetched
from akg_tui.evaluate.processes.child_pool import ChildPool
from akg_tui.evaluate.processes.worker import ChildFailed
from akg_tui.evaluate.reference import Reference
from akg_tui.evaluate.statistics import CONFIRMING, MAIN, Schedule, Standing
from akg_tui.evaluate.targets import roofline
from akg_tui.evaluate.targets.roofline import Level
from akg_tui.evaluate.timing_samples import ClusterRunner, Decoy, IdleProcess, Memory, Side

LEAST_CLUSTERS = 4
CALIBRATING_CALLS = 3
CHECKABLE = 0.5
"""The share of the inputs with known results, so that a timed call can be checked."""

CONFIRM_SHARE = 0.5
"""The extra budget of a confirmation, as a share of the budget of the comparison."""

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
    clusters: int = 0
    samples: int = 0
    sampled_s: float = 0.0


@dataclass
class TimingStage:
    """One comparison; `found` is filled step by step, so that a failure keeps partial results.

    Parameters
    ----------
    incumbent
        The baseline; if None, the reference.
    held
        The bounds of the candidate's results.
    call_s
        The approximate seconds of a candidate's call.
    report
        Called with the stage, clusters done, clusters until the next look, and the estimate.
    precise
        Run clusters until half of the interval is this fraction of the ratio, without a verdict.
    decoys
        Inputs for calls between the timed calls, whose results are checked.
    prior
        The log ratios of an earlier comparison of these kernels that was not decided.
    samples
        End after about this many timed samples of each side; 0: when the ratio is decided.
    """

    pool: ChildPool
    reference: Reference
    prefetched: Prefetched
    found: TimingResult
    _: KW_ONLY
    kernel: str
    incumbent: str | None
    held: Sequence[Bound]
    call_s: float
    levels: Sequence[Level]
    report: Callable[[str, int, int, Interval | None], None]
    precise: float | None
    rng: random.Random
    memory: Memory
    decoys: Sequence[Decoy] = ()
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
        known = self.reference.description
        item_bytes = known.inputs.size + known.outputs.size
        size = timing_samples.cluster_size(self._baseline_seconds(), self.call_s, item_bytes)
        with self._idle_process() as idle:
            with self._cluster_runner(idle, *size, strict=self.precise is not None) as runner:
                if self.precise:
                    self._run_until_precise(runner)
                    standing = None
                else:
                    standing = self._run_until_decided(runner)
            self._check_roofline()
            if standing is Standing.FASTER:
                with self._cluster_runner(idle, *size, strict=True) as runner:
                    self._confirm(runner)

    def _run_until_decided(self, runner: ClusterRunner) -> Standing:
        """Run clusters until the ratio is decided or the budget is spent.

        The budget of a comparison that is not decided then leaves it undecided, unless a worthwhile
        gain is excluded.
        """
        goal = self._timing.min_gain
        for values, spent in self._clusters(runner, MAIN, self._timing.budget_s):
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
            least = statistics.STEADY_CLUSTERS if self.found.noise else 0
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
            self.pool.fork_spares(2 * min(MAIN.next(count).clusters - count, FORKED_AHEAD))
        return Standing.FUTILE

    def _confirm(self, runner: ClusterRunner) -> None:
        """Measure a gain again, on new inputs.

        It holds if the lower bound of the new values exceeds 1, or if all values together leave no
        doubt. It is undecided if the budget ends before that, and the new values do not exclude it.
        """
        main, found = self.found.log_ratios, self.found
        least = statistics.STEADY_CLUSTERS if found.noise else 0
        found.confirmation = Confirmation(None, agrees=False)
        budget_s = CONFIRM_SHARE * self._timing.budget_s
        for values, spent in self._clusters(runner, CONFIRMING, budget_s):
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
            self.pool.fork_spares(2 * min(CONFIRMING.next(count).clusters - count, FORKED_AHEAD))

    def _run_until_precise(self, runner: ClusterRunner) -> None:
        """Run clusters until the interval is narrow enough, or the budget is spent."""
        for values, spent in self._clusters(runner, None, self._timing.budget_s):
            count = len(values)
            due = max(statistics.PRECISE_LEAST, -(-count // PRECISE_EVERY) * PRECISE_EVERY)
            self.report("time", count, due, self.found.ratio)
            if count == due or spent:
                self._record_noise(values)
                found, most = self.found.ratio, self.precise or 0.0
                sharp = found is not None and (found.high - found.low) / 2 / found.ratio <= most
                steady = not self.found.noise or count >= statistics.STEADY_CLUSTERS
                if (sharp and steady) or spent or count >= statistics.PRECISE_MOST:
                    break

    def _clusters(
        self, runner: ClusterRunner, schedule: Schedule | None, budget_s: float
    ) -> Iterator[tuple[list[float], bool]]:
        """Run clusters; yield their log ratios so far, and whether the budget is spent.

        The main comparison continues an earlier one.
        """
        stop = time.monotonic() + budget_s
        self._watch = Watch(Machine())
        values = list(self.prior) if schedule is MAIN else []
        found = self.found
        while True:
            before = runner.sampled_s
            cluster = runner.run_cluster()
            values.append(cluster.log_ratio)
            if schedule is not None:
                found.log_ratios = (*(found.log_ratios or self.prior), cluster.log_ratio)
            self._watch.cluster(cluster.cpu_wait_s, runner.sampled_s)
            found.clusters += 1
            found.samples += cluster.pairs
            found.sampled_s += runner.sampled_s - before
            self._candidate_s.append(cluster.candidate_s)
            self._baseline_s.append(cluster.baseline_s)
            found.candidate_ms = median(self._candidate_s) * 1e3
            found.baseline_ms = median(self._baseline_s) * 1e3
            if schedule is not CONFIRMING and len(values) > 1:
                alpha = schedule.final(len(values)).alpha if schedule else statistics.PRECISE_ALPHA
                found.ratio = statistics.ratio_interval(values, alpha)
            enough = time.monotonic() >= stop or 0 < self.samples <= found.samples
            yield values, len(values) >= LEAST_CLUSTERS and enough

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
        """Compare the candidate's time with the memory bandwidth; refuse an impossible time."""
        found, known = self.found, self.reference.description
        if found.candidate_ms is None or not self.levels:
            return
        seconds, threads = found.candidate_ms / 1e3, self._timing.threads
        must_move = known.outputs.size
        if self._timing.reads_all_inputs:
            must_move += known.inputs.size
        why = roofline.refusal(self.levels, must_move=must_move, seconds=seconds, threads=threads)
        if why:
            raise ChildFailed(FailureKind.IMPOSSIBLE, why)
        moved = known.inputs.size + known.outputs.size
        found.roofline = roofline.share(self.levels, moved=moved, seconds=seconds, threads=threads)

    @contextlib.contextmanager
    def _cluster_runner(
        self, idle: IdleProcess, pairs: int, turns: int, *, strict: bool
    ) -> Iterator[ClusterRunner]:
        """Yield a runner with inputs drawn for this runner only."""
        self.pool.fork_spares(SPARES - 1, reserved=True)
        need = Need(
            turns,
            # A kernel can't tell for which inputs the result is known.
            checkable=int(CHECKABLE * turns),
            at_least=timing_samples.PAIRS_LEAST + timing_samples.WARMUPS,
        )
        plan = self.reference.kernel_plan(self.kernel)
        with (
            contextlib.closing(self.prefetched.timed(need)) as draw,
            contextlib.closing(self._baseline_side()) as baseline,
            contextlib.closing(Side("candidate", plan)) as candidate,
        ):
            yield ClusterRunner(
                self.pool,
                draw,
                self.held,
                baseline=baseline,
                candidate=candidate,
                idle=idle,
                state=self.reference.state,
                pairs=pairs,
                strict=strict,
                rng=self.rng,
                memory_pool=self.prefetched.memory_pool,
                decoys=self.decoys,
            )

    @contextlib.contextmanager
    def _idle_process(self) -> Iterator[IdleProcess]:
        """Yield a process that shows the fixed cost of a call."""
        self.pool.fork_spares(SPARES, reserved=True)
        plan = msgspec.structs.replace(self.reference.kernel_plan(""), kind="idle")
        side = Side("idle process", plan, FailureKind.JUDGE)
        with contextlib.closing(side), self.pool.child("") as worker:
            with side.blamed():
                side.send_plan(worker, self.reference.state)
                self.pool.await_load(worker)
                worker.await_stop()
            yield IdleProcess(side, self.reference.sample)

    def _baseline_side(self) -> Side:
        if self.incumbent is None:
            known = self.reference.description
            plan = self.reference.plan(known.inputs, known.outputs)
            return Side("reference", plan, FailureKind.REFERENCE)
        plan = self.reference.kernel_plan(self.incumbent)
        return Side("incumbent", plan, FailureKind.JUDGE)

    def _baseline_seconds(self) -> float:
        """Return the approximate seconds of a baseline call; cached, as it only sizes samples."""
        known = self.memory.call_s
        if self.incumbent not in known:
            with (
                contextlib.closing(self._baseline_side()) as side,
                side.blamed(),
                # The baseline may not have been built since this judge started.
                self.pool.child(side.plan.source, builds=True) as worker,
            ):
                side.send_plan(worker, self.reference.state)
                self.pool.await_load(worker)
                known[self.incumbent] = min(
                    side.timed_call(self.reference.sample, 0, self._timing.call_timeout_s).seconds
                    for _ in range(CALIBRATING_CALLS)
                )
        return known[self.incumbent]
