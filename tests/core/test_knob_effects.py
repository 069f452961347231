"""What a search over knobs has found: the effect of each value, its importance, what is untried."""

from __future__ import annotations

import pytest

from akg_tui.core.plan.knob_effects import search_of
from tests.core.simulated import SimulatedRun, failed, faster, planned

SEED = 'FLAGS = "-O1"  # tune: ["-O1", "-O3"]\nWIDTH = 1  # tune: [1, 2, 4]\n'


def searched() -> SimulatedRun:
    run = planned('FLAGS="-O3" (with WIDTH=1)', "WIDTH=2", 'WIDTH=4 FLAGS="-O1"')
    run.tries(faster(2.0))  # kept: the next items are made from it
    run.tries(faster(0.9))
    run.tries(failed())
    return run


def test_each_value_has_its_tries_its_mean_and_its_best_and_the_untried_is_seen() -> None:
    found = search_of(searched().state, SEED)
    assert found is not None
    assert (found.settings, found.tried, found.measured, found.best_at) == (6, 4, 4, 2)
    flags, width = sorted(found.knobs, key=lambda knob: knob.name)
    assert flags.importance is not None
    assert flags.importance > 0.9, "the flags make nearly all of the difference"
    assert width.importance is not None
    assert width.importance < flags.importance
    assert found.knobs[0] is flags
    o1, o3 = flags.values
    assert (o1.value, o1.tried, o1.failed, o1.best) == ("-O1", 2, 1, 1.0)
    assert (o3.tried, o3.failed, o3.best) == (2, 0, pytest.approx(2.0))
    assert o3.mean == pytest.approx((2.0 * 1.8) ** 0.5)
    assert [(each.value, each.tried) for each in width.values] == [(1, 2), (2, 1), (4, 1)]
    assert width.values[2].mean is None


def test_an_untried_value_is_told_and_few_attempts_tell_no_importance() -> None:
    run = planned("WIDTH=2")
    found = search_of(run.state, SEED)
    assert found is not None
    assert all(knob.importance is None for knob in found.knobs)
    values = {(k.name, v.value): v.tried for k in found.knobs for v in k.values}
    assert values["WIDTH", 4] == 0


@pytest.mark.parametrize("seed", ["x = 1\n", "A = 3  # tune: [1, 2]\n"])
def test_a_kernel_without_readable_knobs_has_no_search(seed: str) -> None:
    assert search_of(searched().state, seed) is None
