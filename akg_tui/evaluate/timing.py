"""The timing stage: sizes the samples, runs clusters until decided, and confirms a gain.

Owns the order of looks, the budgets, and the notes on noise. It runs what `timing` offers
and believes what `verdict` computes; it takes neither times nor ratios from anywhere else.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from akg_tui.core.measurement import Confirmation, FailureKind, Interval, Roofline, digits
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
from akg_tui.evaluate.timing_samples import ClusterRunner, Memory, Side, SingleCalls

LEAST_CLUSTERS = 4
SINGLE_CALL_CLUSTERS = 12
CALIBRATING_CALLS = 3
CHECKABLE = 0.3
"""Of the inputs: those that have results beside them, so that a timed call can be checked."""

CONFIRM_SHARE = 0.5
"""Of the budget of the comparison, on top of it."""

UNEQUAL_GAIN = 0.25
"""What a gain must be at least where the sides have different numbers of calls in a sample: getting
going takes some percent of a sample, and of the calls of one side more."""

UNSHOWN = "one input at a time the gain was not shown beyond doubt, so it does not count"

PRECISE_EVERY = 4
FORKED_AHEAD = 8
"""Clusters that children are made for at once, when a look has left the ratio open."""

SPARES = 2 * MAIN.looks[0].clusters
"""Children that the clusters of a comparison need at least."""


@dataclass
class TimingResult:
    """What the stage has found so far."""

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


@dataclass(frozen=True)
class KernelPair:
    """The two kernels of a comparison; without an incumbent the reference is the baseline."""

    kernel: str
    incumbent: str | None
    held: Sequence[Bound]
    call_s: float
    """About how long a call of the candidate takes."""


class TimingStage:
    """One comparison; `found` is filled as it goes, so that a failure can tell of it.

    Parameters
    ----------
    report
        Told the stage, clusters done, clusters until the next look, and the estimate.
    precise
        Go on until half of the interval is this share of the ratio, and seek no verdict.
    samples
        End after about so many timed samples of each side; 0: when it is decided.
    """

    def __init__(
        self,
        pool: ChildPool,
        reference: Reference,
        prefetched: Prefetched,
        kernels: KernelPair,
        found: TimingResult,
        *,
        levels: Sequence[Level],
        report: Callable[[str, int, int, Interval | None], None],
        precise: float | None,
        samples: int = 0,
        rng: random.Random,
        memory: Memory,
    ) -> None:
        self._pool = pool
        self._timing = pool.task.timing
        self._reference = reference
        self._prefetched = prefetched
        self._kernels = kernels
        self._levels = levels
        self._found = found
        self._report = report
        self._precise = precise
        self._samples = samples
        self._goal = self._timing.min_gain
        self._rng = rng
        self._memory = memory
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
        self._report("time", 0, MAIN.looks[0].clusters, None)
        calls, pairs = self._sizes((self._baseline_seconds(), self._kernels.call_s))
        if calls[0] != calls[1]:
            calls, pairs = self._sized_again(calls, pairs)
        if calls[0] != calls[1]:
            self._goal = max(self._goal, UNEQUAL_GAIN)
        with self._cluster_runner(calls, pairs, strict=self._precise is not None) as runner:
            found = (
                self._run_until_precise(runner)
                if self._precise
                else self._run_until_decided(runner)
            )
        self._check_roofline()
        low = self._found.ratio.low if self._found.ratio is not None else 0.0
        if found is Standing.FASTER:
            with self._cluster_runner(calls, pairs, strict=True) as runner:
                self._confirm(runner)
        elif self._precise is None and low > 1 + self._timing.min_gain:
            # Nobody takes a bound for a gain that no second measurement has agreed to.
            self._found.confirmation = Confirmation(None, agrees=False)
        self._require_single_call_gain()

    def _sized_again(self, calls: tuple[int, int], pairs: int) -> tuple[tuple[int, int], int]:
        """Return sizes by what a cluster shows, of which nothing else is kept.

        What calls took while a kernel was verified is not yet what they take when they are timed:
        an input that comes again can be looked up. Who is thought to be fast has more calls in a
        sample, and what a sample takes to get going is then shared by more of them.
        """
        with self._cluster_runner(calls, pairs, strict=False) as runner:
            cluster = runner.run_cluster()
            self._found.sampled_s += runner.sampled_s
        return self._sizes((cluster.baseline_s, cluster.candidate_s))

    def _run_until_decided(self, runner: ClusterRunner) -> Standing:
        """Run clusters until the ratio is decided or the budget is spent."""
        stop = time.monotonic() + self._timing.budget_s
        watch = Watch(Machine())
        values: list[float] = []
        while True:
            spent = self._run_cluster(runner, watch, values, MAIN, stop)
            count = len(values)
            self._report("time", count, MAIN.next(count).clusters, self._found.ratio)
            if statistics.is_hopeless(values, self._goal):
                self._found.ratio = statistics.early_interval(values)
                self._record_noise(watch, values)
                return Standing.FUTILE
            look = MAIN.final(count) if spent else MAIN.at(count)
            if look is None:
                continue
            self._record_noise(watch, values)
            least = statistics.STEADY_CLUSTERS if self._found.noise else 0
            standing = statistics.standing(values, look, self._goal, least=least)
            if standing is Standing.FASTER:
                self._found.ratio = statistics.ratio_interval(values, look.alpha)
                return standing
            if spent and statistics.is_faster_so_far(values, self._goal):
                return Standing.FASTER
            if standing is Standing.FUTILE or spent or look is MAIN.last:
                return standing
            self._fork_ahead(MAIN.next(count).clusters - count)

    def _confirm(self, runner: ClusterRunner) -> None:
        """Measure a gain again; it holds if the lower bound is above 1 in time."""
        stop = time.monotonic() + CONFIRM_SHARE * self._timing.budget_s
        watch = Watch(Machine())
        values: list[float] = []
        least = statistics.STEADY_CLUSTERS if self._found.noise else 0
        self._found.confirmation = Confirmation(None, agrees=False)
        while True:
            spent = self._run_cluster(runner, watch, values, CONFIRMING, stop)
            count = len(values)
            self._report("confirm", count, CONFIRMING.next(count).clusters, self._found.ratio)
            look = CONFIRMING.final(count) if spent else CONFIRMING.at(count)
            if look is None:
                continue
            standing = statistics.confirms(values, look, least=0 if spent else least)
            agreed = standing is Standing.FASTER
            if agreed:
                standing = self._single_call_standing(look.alpha)
            interval = statistics.ratio_interval(values, look.alpha)
            self._found.confirmation = Confirmation(interval, standing is Standing.FASTER)
            # Single calls are few and noisy: a gain that lacks nothing else is given some more.
            waits = agreed and count < SINGLE_CALL_CLUSTERS
            if standing is not Standing.OPEN or (spent and not waits) or look is CONFIRMING.last:
                if agreed and standing is Standing.OPEN:
                    self._found.noise += (UNSHOWN,)
                return
            self._fork_ahead(CONFIRMING.next(count).clusters - count)

    def _run_until_precise(self, runner: ClusterRunner) -> Standing:
        """Run clusters until the interval is narrow enough, or the budget is spent."""
        stop = time.monotonic() + self._timing.budget_s
        watch = Watch(Machine())
        values: list[float] = []
        while True:
            spent = self._run_cluster(runner, watch, values, None, stop)
            count = len(values)
            due = max(statistics.PRECISE_LEAST, -(-count // PRECISE_EVERY) * PRECISE_EVERY)
            self._report("time", count, due, self._found.ratio)
            if count == due or spent:
                self._record_noise(watch, values)
                ratio = self._found.ratio
                sharp = ratio is not None and statistics.half_width(ratio) <= (self._precise or 0)
                steady = not self._found.noise or count >= statistics.STEADY_CLUSTERS
                if (sharp and steady) or spent or count >= statistics.PRECISE_MOST:
                    return Standing.OPEN

    def _fork_ahead(self, clusters: int) -> None:
        """Have children made for clusters to come, many at once: it takes them less time."""
        self._pool.fork_spares(2 * min(clusters, FORKED_AHEAD))

    def _single_call_standing(self, alpha: float = statistics.CONFIRM_ALPHA) -> Standing:
        return statistics.single_call_standing(
            [each.log_ratio for each in self._single_calls],
            [each.expected for each in self._single_calls],
            [each.together for each in self._single_calls],
            alpha,
        )

    def _require_single_call_gain(self) -> None:
        """Let the ratio of single calls count, if a gain of whole samples is not theirs."""
        found = self._found
        gains = found.ratio is not None and found.ratio.ratio > 1
        if (
            not gains
            or not self._single_calls
            or self._single_call_standing() is not Standing.FUTILE
        ):
            return
        single = [each.log_ratio for each in self._single_calls]
        ratio = statistics.ratio_interval(single, statistics.SINGLE_CALL_ALPHA)
        if found.ratio is not None:
            found.noise = (
                *found.noise,
                f"with several inputs at hand the ratio was {digits(found.ratio.ratio)}, one at a "
                f"time it is {digits(ratio.ratio)}, and that counts",
            )
        found.ratio = ratio
        again = found.confirmation.ratio if found.confirmation is not None else None
        if again is not None:
            found.confirmation = Confirmation(ratio, again.low > 1 and ratio.low > 1)

    def _run_cluster(
        self,
        runner: ClusterRunner,
        watch: Watch,
        values: list[float],
        schedule: Schedule | None,
        stop: float,
    ) -> bool:
        """Run one cluster; return whether the budget is spent."""
        before = runner.sampled_s
        cluster = runner.run_cluster()
        values.append(cluster.log_ratio)
        if cluster.single_calls is not None:
            self._single_calls.append(cluster.single_calls)
        watch.cluster(cluster.cpu_wait_s, runner.sampled_s)
        found = self._found
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
        enough = time.monotonic() >= stop or 0 < self._samples <= found.samples
        return len(values) >= LEAST_CLUSTERS and enough

    def _record_noise(self, watch: Watch, values: Sequence[float]) -> None:
        """Write down what disturbed the machine, and how large a gain could be seen."""
        found = self._found
        found.deviation = statistics.trimmed_mean(values).deviation
        alpha = MAIN.final(len(values)).alpha
        found.detectable = statistics.detectable_gain(values, alpha, self._timing.min_gain)
        found.noise = watch.disturbances(self._baseline_s)

    def _check_roofline(self) -> None:
        """Compare the candidate's time with what memory allows; refuse the impossible."""
        found, known = self._found, self._reference.description
        if found.candidate_ms is None or not self._levels:
            return
        seconds, threads = found.candidate_ms / 1e3, self._timing.threads
        must_move = known.outputs.size
        if self._timing.reads_all_inputs:
            must_move += known.inputs.size
        why = roofline.refusal(self._levels, must_move=must_move, seconds=seconds, threads=threads)
        if why:
            raise ChildFailed(FailureKind.IMPOSSIBLE, why)
        moved = known.inputs.size + known.outputs.size
        found.roofline = roofline.share(self._levels, moved=moved, seconds=seconds, threads=threads)

    @contextlib.contextmanager
    def _cluster_runner(
        self, calls: tuple[int, int], pairs: int, *, strict: bool
    ) -> Iterator[ClusterRunner]:
        """Yield a contest on inputs that were drawn for it alone."""
        self._pool.fork_spares(SPARES, reserved=True)
        turns = pairs + timing_samples.WARMUPS_MOST
        count = turns * max(calls) + (timing_samples.SINGLE_CALLS if max(calls) > 1 else 0)
        need = Need(
            count,
            # Each sample has one known result, and it can't tell which that is.
            checkable=max(turns, int(CHECKABLE * count)),
            at_least=(timing_samples.PAIRS_LEAST + timing_samples.WARMUPS) * max(calls),
        )
        draw = self._prefetched.timed(need)
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.closing(draw))
            baseline = stack.enter_context(contextlib.closing(self._baseline_side(calls[0])))
            plan = self._reference.kernel_plan(self._kernels.kernel, self._filename, calls[1])
            candidate = timing_samples.make_side("candidate", plan, calls[1])
            stack.enter_context(contextlib.closing(candidate))
            runner = ClusterRunner(
                self._pool,
                draw,
                self._kernels.held,
                baseline=baseline,
                candidate=candidate,
                state=self._reference.state,
                pairs=pairs,
                strict=strict,
                rng=self._rng,
                memory=self._memory,
                memory_pool=self._prefetched.memory_pool,
            )
            runner.measure_fixed_cost()
            yield runner

    def _sizes(self, seconds: tuple[float, float]) -> tuple[tuple[int, int], int]:
        """Return the calls in a sample of either side, and the sample pairs in a cluster.

        `seconds` are those of a call of the baseline and of the candidate.
        """
        baseline_s, candidate_s = seconds
        known = self._reference.description
        item_bytes = known.inputs.size + known.outputs.size
        calls = timing_samples.calls_of_both(seconds, item_bytes)
        pair_s = baseline_s * calls[0] + candidate_s * calls[1]
        return calls, timing_samples.pairs_per_cluster(pair_s, max(calls), item_bytes)

    def _baseline_side(self, calls: int) -> Side:
        if self._kernels.incumbent is None:
            known = self._reference.description
            plan = self._reference.plan(inputs=known.inputs, outputs=known.outputs)
            return timing_samples.make_side("reference", plan, calls, FailureKind.REFERENCE)
        # The same name as the candidate's: nothing but their text may tell the sides apart.
        plan = self._reference.kernel_plan(self._kernels.incumbent, self._filename, calls)
        return timing_samples.make_side("incumbent", plan, calls, FailureKind.JUDGE)

    def _baseline_seconds(self) -> float:
        """Return about how long the baseline takes: only to size samples, so any day's will do."""
        text = self._kernels.incumbent
        if text not in self._memory.call_s:
            self._memory.call_s[text] = self._call_baseline()
        return self._memory.call_s[text]

    def _call_baseline(self) -> float:
        side = self._baseline_side(1)
        with (
            contextlib.closing(side),
            side.blamed(),
            # Nobody may have built it since this judge began.
            self._pool.child(side.plan.source, builds=True) as worker,
        ):
            timing_samples.load_side(self._pool, worker, side, self._reference.state)
            self._pool.await_load(worker)
            sample = self._reference.sample
            limit_s = self._timing.call_timeout_s
            return min(
                timing_samples.call_once(side, worker, sample, 0, limit_s)
                for _ in range(CALIBRATING_CALLS)
            )

    @property
    def _filename(self) -> str:
        return self._pool.task.files.editable
