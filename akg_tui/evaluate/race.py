"""A race: verified kernels are timed in turns with each other, and slower ones leave it early.

It ranks the settings of a sweep, and decides nothing: the winner is evaluated like any kernel. Each
round has new processes, as a cluster has (`timing_samples`). After two rounds a kernel leaves that
is slower than the fastest beyond doubt.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import Interval, Progress, RaceOutcome, Racer
from akg_tui.evaluate import statistics, timing_samples
from akg_tui.evaluate.cases import JudgedCase
from akg_tui.evaluate.device_side import around_a_call_s, side_of
from akg_tui.evaluate.noise import Machine, Watch
from akg_tui.evaluate.processes.child_pool import ChildPool
from akg_tui.evaluate.processes.worker import ChildFailed
from akg_tui.evaluate.timing import call_seconds, inputs_needed
from akg_tui.evaluate.timing_samples import ClusterRunner, Side

ROUNDS_LEAST, ROUNDS_MOST = 2, 16
"""Kernels that cannot be told apart after the most rounds stay so."""

ALIKE = 0.01
"""If all that are left differ by less, beyond doubt, the race ends."""


@dataclass
class Track:
    """A case in which the kernels race: a side for each of them, on one draw of inputs."""

    case: JudgedCase
    sides: Sequence[Side]
    runner: ClusterRunner


@dataclass
class Race:
    """One race of `kernels`, which takes about `within_s` seconds."""

    pool: ChildPool
    cases: Sequence[JudgedCase]
    kernels: Sequence[KernelFiles]
    within_s: float
    rng: random.Random
    report: Callable[[Progress], None]
    _logs: list[list[float]] = field(init=False)
    """The logarithm of a call's seconds, by kernel and round."""

    _failed: dict[int, str] = field(init=False, default_factory=dict)
    _waited_s: float = field(init=False, default=0.0)

    def run(self) -> RaceOutcome:
        """Run rounds until the fastest kernels are known, or the time is spent."""
        self._logs = [[] for _ in self.kernels]
        racing, rounds = list(range(len(self.kernels))), 0
        watch, begun, lease = Watch(Machine()), time.monotonic(), self.pool.lease
        waited_s = lease.waited_s
        with contextlib.ExitStack() as kept:
            tracks = [kept.enter_context(self._track(case)) for case in self.cases]
            while racing and rounds < ROUNDS_MOST:
                self.report(Progress("time", rounds, ROUNDS_MOST, f"a race of {len(racing)}"))
                self._run_round(tracks, racing)
                failed = [each for each in racing if each in self._failed]
                if failed:
                    racing = [each for each in racing if each not in failed]
                    continue
                rounds += 1
                watch.cluster(self._waited_s, sum(each.runner.sampled_s for each in tracks))
                if rounds < ROUNDS_LEAST:
                    continue
                racing = self._contenders(racing)
                spent = time.monotonic() - begun > self.within_s + lease.waited_s - waited_s
                if len(racing) == 1 or self._are_alike(racing) or spent:
                    break
        noise, waited_s = watch.disturbances([]), lease.waited_s - waited_s
        detectable = statistics.race_detectable([self._logs[at] for at in self._timed])
        return RaceOutcome(self._racers(), noise, detectable, waited_s=waited_s)

    def _run_round(self, tracks: Sequence[Track], racing: Sequence[int]) -> None:
        """Time the kernels once, in each case; note the one that fails instead."""
        means = [0.0] * len(racing)
        self._waited_s = 0.0
        for track in tracks:
            runner = track.runner
            runner.sides = [track.sides[each] for each in racing]
            try:
                with track.case.named():
                    calls = runner.run_round()
            except ChildFailed as failed:
                if runner.attended not in runner.sides:
                    raise
                self._failed[racing[runner.sides.index(runner.attended)]] = failed.message
                return
            logs = [runner.log_seconds(each) for each in calls]
            for at, each in enumerate(calls):
                means[at] += track.case.weight * logs[at]
                self._waited_s += sum(call.waited_s for call in each.timed)
            runner.size = self._size(track.case, math.exp(math.fsum(logs) / len(logs)))
        for kernel, mean in zip(racing, means, strict=True):
            self._logs[kernel].append(mean)

    def _contenders(self, racing: Sequence[int]) -> list[int]:
        may_win = statistics.race_contenders([self._logs[each] for each in racing])
        return [each for each, may in zip(racing, may_win, strict=True) if may]

    def _are_alike(self, racing: Sequence[int]) -> bool:
        logs = [self._logs[each] for each in racing]
        fastest = min(range(len(logs)), key=lambda at: math.fsum(logs[at]))
        behind = statistics.race_standing(logs, fastest)
        return all(each.mean + each.reach(statistics.RACE_ALPHA) < ALIKE for each in behind)

    @property
    def _timed(self) -> list[int]:
        """The kernels that have figures."""
        return [
            at
            for at, logs in enumerate(self._logs)
            if at not in self._failed and len(logs) >= ROUNDS_LEAST
        ]

    def _racers(self) -> tuple[Racer, ...]:
        timed = self._timed
        numbers = statistics.race_groups([self._logs[at] for at in timed])
        groups = dict(zip(timed, numbers, strict=True))
        return tuple(self._racer(at, groups.get(at, 0)) for at in range(len(self.kernels)))

    def _racer(self, at: int, group: int) -> Racer:
        logs, ratio = self._logs[at], None
        if not group:
            return Racer(failed=self._failed.get(at, "it was not timed"))
        over_first = [first - own for first, own in zip(self._logs[0], logs, strict=False)]
        if at and len(over_first) >= ROUNDS_LEAST:
            ratio = statistics.ratio_interval(over_first, statistics.RACE_ALPHA)
        elif not at:
            ratio = Interval(1.0, 1.0, 1.0, 1 - 2 * statistics.RACE_ALPHA)
        return Racer(1e3 * math.exp(math.fsum(logs) / len(logs)), ratio, len(logs), group)

    @contextlib.contextmanager
    def _track(self, case: JudgedCase) -> Iterator[Track]:
        reference = case.reference
        with contextlib.ExitStack() as kept:
            sides = [
                kept.enter_context(
                    contextlib.closing(
                        side_of(self.pool, f"setting {at + 1}", reference.kernel_plan(text))
                    )
                )
                for at, text in enumerate(self.kernels)
            ]
            # The first kernel may be far slower than the others, so inputs suffice for quick ones.
            most = inputs_needed(self._size(case, 0.0))
            draw = kept.enter_context(contextlib.closing(case.prefetched.timed(most)))
            call_s = call_seconds(self.pool, reference, sides[0])
            runner = ClusterRunner(
                self.pool,
                draw,
                reference.sample_held,
                sides=sides,
                idle=kept.enter_context(case.prefetched.idle_process()),
                state=reference.state,
                size=self._size(case, call_s),
                strict=False,
                rng=self.rng,
            )
            yield Track(case, sides, runner)

    def _size(self, case: JudgedCase, call_s: float) -> timing_samples.ClusterSize:
        reference = case.reference
        known = reference.description
        return timing_samples.cluster_size(
            call_s,
            call_s,
            known.inputs.size + known.outputs.size,
            share=case.prefetched.share,
            around_s=around_a_call_s(reference.plan(known.inputs, known.outputs)),
        )
