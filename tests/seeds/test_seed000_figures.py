"""Page 000: each round shows a figure, so two figures of one kernel must not exclude each other.

The intervals are those of the judge; the clusters are simulated. `akg-tui bench repeat --load`
measures the same with real kernels.
"""

from __future__ import annotations

import math
import random

from akg_tui.core.measurement import Interval
from akg_tui.evaluate import statistics

ALPHA = 0.005
CLUSTERS = 12


def overlap(one: Interval, other: Interval) -> bool:
    return one.low <= other.high and other.low <= one.high


def test_two_figures_of_one_kernel_on_a_busy_machine_overlap() -> None:
    kept, afresh = Interval(3.88, 3.52, 4.27, 0.99), Interval(2.53, 1.82, 3.50, 0.99)
    assert not overlap(kept, afresh)
    assert overlap(*map(statistics.on_busy_machine, (kept, afresh)))


def test_of_a_hundred_pairs_measured_beside_another_load_ninety_five_overlap() -> None:
    rng = random.Random(57)

    def measured() -> Interval:
        # Another load changes the ratio itself, from one measurement to the next.
        ratio = math.log(3) * (1 + rng.gauss(0, statistics.BUSY_SHARE))
        found = [ratio + rng.gauss(0, 0.08) for _ in range(CLUSTERS)]
        return statistics.on_busy_machine(statistics.ratio_interval(found, ALPHA))

    assert sum(overlap(measured(), measured()) for _ in range(100)) >= 95


def test_a_busy_machine_leaves_a_proved_gain_proved() -> None:
    close = Interval(1.3, 1.0105, 1.6, 0.99)
    assert statistics.on_busy_machine(close).low < 1.01
    assert statistics.on_busy_machine(close, proved=1.01).low > 1.01
