"""The statistics: bounds that hold, error rates that add up, decisions that stop."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from akg_tui.evaluate import verdict
from akg_tui.evaluate.verdict import LOOKS, TOTAL_ALPHA, Look, Standing

values = st.lists(st.floats(-5, 5), min_size=2, max_size=60)
alphas = st.floats(1e-4, 0.4)


def decide(draw: random.Random, mean: float, spread: float, min_gain: float) -> Standing:
    """Walk through the looks as an evaluation does, on normal values."""
    seen: list[float] = []
    for look in LOOKS:
        seen += [draw.gauss(mean, spread) for _ in range(look.clusters - len(seen))]
        found = verdict.standing(seen, look, min_gain)
        if found is not Standing.OPEN:
            return found
    return Standing.OPEN


@given(values, alphas)
def test_the_estimate_lies_within_its_bounds(logs: list[float], alpha: float) -> None:
    mean, low, high = verdict.trimmed_bounds(logs, alpha)
    assert low <= mean <= high
    assert min(logs) - 1e-9 <= mean <= max(logs) + 1e-9


@given(values, alphas, st.randoms(use_true_random=False))
def test_the_order_of_clusters_does_not_matter(
    logs: list[float], alpha: float, dice: random.Random
) -> None:
    shuffled = dice.sample(logs, len(logs))
    assert verdict.trimmed_bounds(logs, alpha) == verdict.trimmed_bounds(shuffled, alpha)


@given(values, alphas)
def test_swapping_the_sides_inverts_the_ratio(logs: list[float], alpha: float) -> None:
    ours = verdict.ratio_interval(logs, alpha)
    theirs = verdict.ratio_interval([-value for value in logs], alpha)
    assert ours.ratio * theirs.ratio == pytest.approx(1)
    assert ours.low * theirs.high == pytest.approx(1)


@given(values, alphas, alphas)
def test_more_confidence_means_a_wider_interval(
    logs: list[float], one: float, other: float
) -> None:
    strict = verdict.ratio_interval(logs, min(one, other))
    loose = verdict.ratio_interval(logs, max(one, other))
    assert strict.low <= loose.low * (1 + 1e-12)
    assert strict.high >= loose.high * (1 - 1e-12)
    assert strict.confidence >= loose.confidence


@given(values)
def test_bounds_can_always_be_written_as_json_numbers(logs: list[float]) -> None:
    found = verdict.ratio_interval([value * 1000 for value in logs], 0.0005)
    assert all(math.isfinite(x) for x in (found.ratio, found.low, found.high))


def test_up_to_nine_values_it_is_the_plain_t_interval() -> None:
    logs = [0.1, 0.2, 0.15, 0.3, 0.05]
    mean, low, high = verdict.trimmed_bounds(logs, 0.01)
    reach = stdtrit(4, 0.99) * statistics.stdev(logs) / math.sqrt(5)
    assert mean == pytest.approx(statistics.mean(logs))
    assert (low, high) == (pytest.approx(mean - reach), pytest.approx(mean + reach))


def test_one_wild_cluster_among_many_is_cut_off() -> None:
    calm = [0.02 + 0.001 * (i % 5) for i in range(39)]
    mean, low, _ = verdict.trimmed_bounds([*calm, -4.0], 0.0045)
    assert mean == pytest.approx(0.022, abs=0.001)
    assert low > 0.02


def test_the_error_rates_of_all_looks_stay_within_one_percent() -> None:
    assert math.fsum(look.alpha for look in LOOKS) == pytest.approx(TOTAL_ALPHA)
    for clusters in range(2, LOOKS[-1].clusters + 1):
        before = math.fsum(look.alpha for look in LOOKS if look.clusters < clusters)
        assert before + verdict.alpha_at(clusters) <= TOTAL_ALPHA + 1e-12


@pytest.mark.parametrize(("clusters", "look"), [(0, 6), (5, 6), (6, 12), (24, 40), (40, 40)])
def test_the_next_look_needs_more_clusters(clusters: int, look: int) -> None:
    assert verdict.next_look(clusters).clusters == look


@pytest.mark.parametrize("logs", [[], [0.1]])
def test_one_cluster_is_no_interval(logs: list[float]) -> None:
    with pytest.raises(ValueError, match="needs two values"):
        verdict.trimmed_bounds(logs, 0.01)


def test_a_clear_gain_is_decided_at_the_first_look() -> None:
    logs = [math.log(2) + 0.01 * i for i in range(6)]
    assert verdict.standing(logs, LOOKS[0], 0.01) is Standing.FASTER
    assert verdict.standing([-x for x in logs], LOOKS[0], 0.01) is Standing.FUTILE


def test_a_gain_smaller_than_asked_for_is_not_faster() -> None:
    logs = [0.005 + 1e-5 * i for i in range(12)]
    assert verdict.standing(logs, Look(12, 0.002), 0.0) is Standing.FASTER
    assert verdict.standing(logs, Look(12, 0.002), 0.01) is Standing.FUTILE


def test_equal_kernels_are_called_faster_less_than_once_in_a_hundred() -> None:
    dice = random.Random(0)
    trials = 1500
    wrong = sum(decide(dice, 0.0, 0.02, 0.0) is Standing.FASTER for _ in range(trials))
    # Three standard deviations above the promised rate.
    assert wrong / trials <= TOTAL_ALPHA + 3 * math.sqrt(TOTAL_ALPHA / trials)


def test_a_gain_of_five_percent_is_nearly_always_found() -> None:
    dice = random.Random(0)
    found = sum(decide(dice, math.log(1.05), 0.02, 0.01) is Standing.FASTER for _ in range(300))
    assert found >= 297
