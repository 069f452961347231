"""A comparison, of clusters that are told and not measured."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

from akg_tui.core.measurement import Interval
from akg_tui.core.task import Task, Timing
from akg_tui.evaluate.prefetch import Prefetched
from akg_tui.evaluate.processes.child_pool import ChildPool
from akg_tui.evaluate.reference import Reference
from akg_tui.evaluate.statistics import SingleCalls, Standing
from akg_tui.evaluate.timing import UNSHOWN, TimingResult, TimingStage
from akg_tui.evaluate.timing_samples import Cluster, ClusterRunner, Memory

Report = Callable[[str, int, int, Interval | None], None]


@dataclass
class FakeClusterRunner:
    """A `ClusterRunner`: whole samples gain a quarter, single calls as much as they are given."""

    rng: random.Random
    single_calls: float
    deviation: float
    sampled_s: float = 0.0

    def run_cluster(self) -> Cluster:
        together = 0.22 + self.rng.gauss(0, 0.01)
        found = self.single_calls + self.rng.gauss(0, self.deviation)
        return Cluster(together, 11, 1e-3, 8e-4, 0.0, SingleCalls(found, 0.05, together))


@dataclass
class IdlePool:
    """Stands in for `ChildPool`: nobody needs its children here."""

    task: Task = field(default_factory=lambda: Task(op="told", timing=Timing(budget_s=1e6)))

    def fork_spares(self, count: int) -> None:
        del count


def stage_of(found: TimingResult, report: Report = lambda *_: None) -> TimingStage:
    return TimingStage(
        cast("ChildPool", IdlePool()),
        cast("Reference", None),
        cast("Prefetched", None),
        found,
        kernel="",
        incumbent=None,
        held=(),
        call_s=1e-3,
        levels=(),
        report=report,
        precise=None,
        rng=random.Random(1),
        memory=Memory(),
    )


def fake_runner(single_calls: float, deviation: float) -> ClusterRunner:
    return cast("ClusterRunner", FakeClusterRunner(random.Random(2), single_calls, deviation))


@pytest.mark.parametrize(
    ("single_calls", "deviation", "agrees"), [(0.2, 0.02, True), (0.05, 0.3, False)]
)
def test_a_gain_that_single_calls_do_not_show_is_not_confirmed_and_that_is_told(
    single_calls: float, deviation: float, *, agrees: bool
) -> None:
    found = TimingResult(ratio=Interval(ratio=1.25, low=1.2, high=1.3, confidence=0.99))
    stage_of(found)._confirm(fake_runner(single_calls, deviation))
    assert found.confirmation is not None
    assert found.confirmation.agrees is agrees
    assert (UNSHOWN in found.noise) is not agrees


def test_each_cluster_is_told_of_and_the_last_with_what_is_found() -> None:
    steps: list[tuple[str, int, int, Interval | None]] = []
    found = TimingResult()
    standing = stage_of(found, lambda *step: steps.append(step))._run_until_decided(
        fake_runner(0.2, 0.02)
    )
    assert standing is Standing.FASTER
    assert [step[:2] for step in steps] == [("time", done) for done in range(1, found.clusters + 1)]
    assert [step[3] is not None for step in steps] == [step[1] > 1 for step in steps]
    last = steps[-1][3]
    assert last is not None
    assert found.ratio is not None
    assert last.ratio == found.ratio.ratio
    # A look that decides has a part of the error rate alone, so it says less.
    assert found.ratio.low < last.low < last.high < found.ratio.high
