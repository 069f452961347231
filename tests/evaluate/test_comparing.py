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
from akg_tui.evaluate.statistics import Standing
from akg_tui.evaluate.timing import UNSHOWN, Contender, Timed, TimingStage
from akg_tui.evaluate.timing_samples import Alone, Cluster, Contest, Memory

Report = Callable[[str, int, int, Interval | None], None]


@dataclass
class ToldContest:
    """Stands in for `Contest`: whole samples gain a quarter, single calls what they are told to."""

    dice: random.Random
    alone: float
    deviation: float
    sampled_s: float = 0.0

    def run_cluster(self) -> Cluster:
        together = 0.22 + self.dice.gauss(0, 0.01)
        found = self.alone + self.dice.gauss(0, self.deviation)
        return Cluster(together, 11, 1e-3, 8e-4, 0.0, Alone(found, 0.05, together))


@dataclass
class IdleNursery:
    """Stands in for `Nursery`: nobody needs its children here."""

    task: Task = field(default_factory=lambda: Task(op="told", timing=Timing(budget_s=1e6)))

    def stock(self, count: int) -> None:
        del count


def comparing_of(found: Timed, report: Report = lambda *_: None) -> TimingStage:
    return TimingStage(
        cast("ChildPool", IdleNursery()),
        cast("Reference", None),
        cast("Prefetched", None),
        Contender("", None, (), 1e-3),
        found,
        levels=(),
        report=report,
        precise=None,
        dice=random.Random(1),
        memory=Memory(),
    )


def told_contest(alone: float, deviation: float) -> Contest:
    return cast("Contest", ToldContest(random.Random(2), alone, deviation))


@pytest.mark.parametrize(("alone", "deviation", "agrees"), [(0.2, 0.02, True), (0.05, 0.3, False)])
def test_a_gain_that_single_calls_do_not_show_is_not_confirmed_and_that_is_told(
    alone: float, deviation: float, *, agrees: bool
) -> None:
    found = Timed(ratio=Interval(ratio=1.25, low=1.2, high=1.3, confidence=0.99))
    comparing_of(found)._confirm(told_contest(alone, deviation))
    assert found.confirmation is not None
    assert found.confirmation.agrees is agrees
    assert (UNSHOWN in found.noise) is not agrees


def test_each_cluster_is_told_of_and_the_last_with_what_is_found() -> None:
    steps: list[tuple[str, int, int, Interval | None]] = []
    found = Timed()
    standing = comparing_of(found, lambda *step: steps.append(step))._decide(
        told_contest(0.2, 0.02)
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
