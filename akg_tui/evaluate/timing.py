"""The timing stage: sizes the samples, runs clusters until decided, and confirms a gain.

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

from akg_tui.core.measurement import Confirmation, FailureKind, Interval, Roofline, digits
from akg_tui.evaluate import statistics, timing_samples
from akg_tui.evaluate.correctness import Bound
from akg_tui.evaluate.noise import Machine, Watch
from akg_tui.evaluate.prefetch import Need, Prefetched
from akg_tui.evaluate.processes.child_pool import ChildPool
from akg_tui.evaluate.processes.worker import ChildFailed
from akg_tui.evaluate.reference import Reference
from akg_tui.evaluate.statistics import CONFIRMING, MAIN, Schedule, SingleCalls, Standing
from akg_tui.evaluate.targets import roofline
from akg_tui.evaluate.targets.roofline import Level
from akg_tui.evaluate.timing_samples import ClusterRunner, Memory, Side

LEAST_CLUSTERS = 4
SINGLE_CALL_CLUSTERS = 12
CALIBRATING_CALLS = 3
CHECKABLE = 0.3
"""The share of the inputs with known results, so that a timed call can be checked."""

CONFIRM_SHARE = 0.5
"""The extra budget of a confirmation, as a share of the budget of the comparison."""

UNEQUAL_GAIN = 0.25
"""The least gain where the sides have different numbers of calls in a sample: the start of a
sample costs some percent of it, and a larger share of a sample with fewer calls."""

UNSHOWN = "one input at a time the gain was not shown beyond doubt, so it does not count"

PRECISE_EVERY = 4
FORKED_AHEAD = 8
"""The number of clusters whose children are forked at once, which is faster, after a look that left
the ratio undecided."""

SPARES = 2 * MAIN.looks[0].clusters
"""The least number of children for a comparison."""


@dataclass
class TimingResult:
    """The results of the stage so far; times of one call, in milliseconds."""

    candidate_ms: float | None = None
    baseline_ms: float | None = None
    ratio: Interval | None = None
    confirmation: Confirmation | None = None
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
    samples: int = 0

    def __post_init__(self) -> None:
        self._timing = self.pool.task.timing
        self._goal = self._timing.min_gain
        self._single_calls: list[SingleCalls] = []
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
        calls, pairs = self._sizes(self._baseline_seconds(), self.call_s)
        if calls[0] != calls[1]:
            calls, pairs = self._sized_again(calls, pairs)
        if calls[0] != calls[1]:
            self._goal = max(self._goal, UNEQUAL_GAIN)
        with self._cluster_runner(calls, pairs, strict=self.precise is not None) as runner:
            found = (
                self._run_until_precise(runner) if self.precise else self._run_until_decided(runner)
            )
        self._check_roofline()
        low = self.found.ratio.low if self.found.ratio is not None else 0.0
        if found is Standing.FASTER:
            with self._cluster_runner(calls, pairs, strict=True) as runner:
                self._confirm(runner)
        elif self.precise is None and low > 1 + self._timing.min_gain:
            # A bound alone is no gain: no second measurement has confirmed it.
            self.found.confirmation = Confirmation(None, agrees=False)
        self._require_single_call_gain()

    def _sized_again(self, calls: tuple[int, int], pairs: int) -> tuple[tuple[int, int], int]:
        """Return sizes from the times of one cluster, whose ratio is not used.

        A call during verification is no good estimate of a timed call: a repeated input can be
        looked up. A kernel that seems fast gets more calls in a sample, and the fixed cost of
        a sample is divided by their number.
        """
        with self._cluster_runner(calls, pairs, strict=False) as runner:
            cluster = runner.run_cluster()
            self.found.sampled_s += runner.sampled_s
        return self._sizes(cluster.baseline_s, cluster.candidate_s)

    def _run_until_decided(self, runner: ClusterRunner) -> Standing:
        """Run clusters until the ratio is decided or the budget is spent."""
        for values, spent in self._clusters(runner, MAIN, self._timing.budget_s):
            count = len(values)
            self.report("time", count, MAIN.next(count).clusters, self.found.ratio)
            if statistics.is_hopeless(values, self._goal):
                self.found.ratio = statistics.early_interval(values)
                self._record_noise(values)
                break
            look = MAIN.final(count) if spent else MAIN.at(count)
            if look is None:
                continue
            self._record_noise(values)
            least = statistics.STEADY_CLUSTERS if self.found.noise else 0
            standing = statistics.standing(values, look, self._goal, least=least)
            if standing is Standing.FASTER:
                self.found.ratio = statistics.ratio_interval(values, look.alpha)
                return standing
            if spent and statistics.is_faster_so_far(values, self._goal):
                return Standing.FASTER
            if standing is Standing.FUTILE or spent or look is MAIN.last:
                return standing
            self.pool.fork_spares(2 * min(MAIN.next(count).clusters - count, FORKED_AHEAD))
        return Standing.FUTILE

    def _confirm(self, runner: ClusterRunner) -> None:
        """Measure a gain again; it holds if the lower bound exceeds 1 within the budget."""
        least = statistics.STEADY_CLUSTERS if self.found.noise else 0
        self.found.confirmation = Confirmation(None, agrees=False)
        budget_s = CONFIRM_SHARE * self._timing.budget_s
        for values, spent in self._clusters(runner, CONFIRMING, budget_s):
            count = len(values)
            self.report("confirm", count, CONFIRMING.next(count).clusters, self.found.ratio)
            look = CONFIRMING.final(count) if spent else CONFIRMING.at(count)
            if look is None:
                continue
            least = 0 if spent else least
            standing = statistics.standing(values, look, 0.0, CONFIRMING, least=least)
            agreed = standing is Standing.FASTER
            if agreed:
                standing = statistics.single_call_standing(self._single_calls, look.alpha)
            interval = statistics.ratio_interval(values, look.alpha)
            self.found.confirmation = Confirmation(interval, standing is Standing.FASTER)
            # Single calls are few and noisy: a gain undecided only by them gets more clusters.
            waits = agreed and count < SINGLE_CALL_CLUSTERS
            if standing is not Standing.OPEN or (spent and not waits) or look is CONFIRMING.last:
                if agreed and standing is Standing.OPEN:
                    self.found.noise += (UNSHOWN,)
                return
            self.pool.fork_spares(2 * min(CONFIRMING.next(count).clusters - count, FORKED_AHEAD))

    def _run_until_precise(self, runner: ClusterRunner) -> Standing:
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
        return Standing.OPEN

    def _require_single_call_gain(self) -> None:
        """Report the ratio of single calls if they disprove the gain of whole samples."""
        found = self.found
        if found.ratio is None or found.ratio.ratio <= 1 or not self._single_calls:
            return
        if statistics.single_call_standing(self._single_calls) is not Standing.FUTILE:
            return
        single = [each.log_ratio for each in self._single_calls]
        ratio = statistics.ratio_interval(single, statistics.SINGLE_CALL_ALPHA)
        found.noise += (
            f"with several inputs at hand the ratio was {digits(found.ratio.ratio)}, one at a "
            f"time it is {digits(ratio.ratio)}, and that counts",
        )
        found.ratio = ratio
        if found.confirmation is not None and (again := found.confirmation.ratio) is not None:
            found.confirmation = Confirmation(ratio, again.low > 1 and ratio.low > 1)

    def _clusters(
        self, runner: ClusterRunner, schedule: Schedule | None, budget_s: float
    ) -> Iterator[tuple[list[float], bool]]:
        """Run clusters; yield their log ratios so far, and whether the budget is spent."""
        stop = time.monotonic() + budget_s
        self._watch = Watch(Machine())
        values: list[float] = []
        found = self.found
        while True:
            before = runner.sampled_s
            cluster = runner.run_cluster()
            values.append(cluster.log_ratio)
            if cluster.single_calls is not None:
                self._single_calls.append(cluster.single_calls)
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
        found.noise = self._watch.disturbances(self._baseline_s)

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
        self, calls: tuple[int, int], pairs: int, *, strict: bool
    ) -> Iterator[ClusterRunner]:
        """Yield a runner with inputs drawn for this runner only."""
        self.pool.fork_spares(SPARES, reserved=True)
        turns = pairs + timing_samples.WARMUPS_MOST
        count = turns * max(calls) + (timing_samples.SINGLE_CALLS if max(calls) > 1 else 0)
        need = Need(
            count,
            # Each sample has one input with a known result, and a kernel can't tell which.
            checkable=max(turns, int(CHECKABLE * count)),
            at_least=(timing_samples.PAIRS_LEAST + timing_samples.WARMUPS) * max(calls),
        )
        plan = self.reference.kernel_plan(self.kernel)
        with (
            contextlib.closing(self.prefetched.timed(need)) as draw,
            contextlib.closing(self._baseline_side(calls[0])) as baseline,
            contextlib.closing(Side("candidate", plan, calls[1])) as candidate,
        ):
            runner = ClusterRunner(
                self.pool,
                draw,
                self.held,
                baseline=baseline,
                candidate=candidate,
                state=self.reference.state,
                pairs=pairs,
                strict=strict,
                rng=self.rng,
                memory=self.memory,
                memory_pool=self.prefetched.memory_pool,
            )
            runner.measure_fixed_cost()
            yield runner

    def _sizes(self, baseline_s: float, candidate_s: float) -> tuple[tuple[int, int], int]:
        known = self.reference.description
        item_bytes = known.inputs.size + known.outputs.size
        return timing_samples.sample_sizes(baseline_s, candidate_s, item_bytes)

    def _baseline_side(self, calls: int) -> Side:
        if self.incumbent is None:
            known = self.reference.description
            plan = self.reference.plan(known.inputs, known.outputs)
            return Side("reference", plan, calls, FailureKind.REFERENCE)
        plan = self.reference.kernel_plan(self.incumbent)
        return Side("incumbent", plan, calls, FailureKind.JUDGE)

    def _baseline_seconds(self) -> float:
        """Return the approximate seconds of a baseline call; cached, as it only sizes samples."""
        known = self.memory.call_s
        if self.incumbent not in known:
            with (
                contextlib.closing(self._baseline_side(1)) as side,
                side.blamed(),
                # The baseline may not have been built since this judge started.
                self.pool.child(side.plan.source, builds=True) as worker,
            ):
                side.send_plan(worker, self.reference.state)
                self.pool.await_load(worker)
                known[self.incumbent] = min(
                    side.timed_call(self.reference.sample, [0], self._timing.call_timeout_s)
                    for _ in range(CALIBRATING_CALLS)
                )
        return known[self.incumbent]
