"""A confirmation, of clusters that are told and not measured."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import cast

import pytest

from akg_tui.core.measurement import Interval
from akg_tui.core.task import Task, Timing
from akg_tui.evaluate.comparing import UNSHOWN, Comparing, Contender, Timed
from akg_tui.evaluate.nursery import Nursery
from akg_tui.evaluate.reference import Reference
from akg_tui.evaluate.stock import Stock
from akg_tui.evaluate.timing import Alone, Cluster, Contest, Memory


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


@pytest.mark.parametrize(("alone", "deviation", "agrees"), [(0.2, 0.02, True), (0.05, 0.3, False)])
def test_a_gain_that_single_calls_do_not_show_is_not_confirmed_and_that_is_told(
    alone: float, deviation: float, *, agrees: bool
) -> None:
    found = Timed(ratio=Interval(ratio=1.25, low=1.2, high=1.3, confidence=0.99))
    comparing = Comparing(
        cast("Nursery", IdleNursery()),
        cast("Reference", None),
        cast("Stock", None),
        Contender("", None, (), 1e-3),
        found,
        levels=(),
        report=lambda *_: None,
        precise=None,
        dice=random.Random(1),
        memory=Memory(),
    )
    comparing._confirm(cast("Contest", ToldContest(random.Random(2), alone, deviation)))
    assert found.confirmation is not None
    assert found.confirmation.agrees is agrees
    assert (UNSHOWN in found.noise) is not agrees
