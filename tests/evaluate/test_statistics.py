"""The statistics: bounds that hold, error rates that add up, decisions that stop."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import fmean, median, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from akg_tui.core.measurement import STEADY_CLUSTERS, Interval
from akg_tui.core.verdict import is_surely_slower
from akg_tui.evaluate import statistics
from akg_tui.evaluate.statistics import (
    CONFIRMING,
    MAIN,
    Look,
    Schedule,
    Standing,
)

values = st.lists(st.floats(-5, 5), min_size=2, max_size=60)
alphas = st.floats(1e-4, 0.4)


Noise = Callable[[], float]


def gaussian(rng: random.Random, deviation: float) -> Noise:
    return lambda: rng.gauss(0, deviation)


def heavy_tailed(rng: random.Random, deviation: float) -> Noise:
    """Student's t with three degrees of freedom: now and then a cluster is far off."""
    return lambda: (
        0.6 * deviation * rng.gauss(0, 1) / math.sqrt(max(rng.gammavariate(1.5, 2 / 3), 1e-3))
    )


def bimodal(rng: random.Random, deviation: float) -> Noise:
    """Memory lies in one of two kinds of places, for either side."""
    return lambda: 1.2 * deviation * rng.choice((-1, 0, 0, 1)) + rng.gauss(0, 0.3 * deviation)


def drifting(rng: random.Random, deviation: float) -> Noise:
    """What disturbs a cluster still disturbs the next one, by 60 %."""
    at = 0.0

    def step() -> float:
        nonlocal at
        at = 0.6 * at + rng.gauss(0, 0.8 * deviation)
        return at

    return step


NOISES = (gaussian, heavy_tailed, bimodal, drifting)


def walk(schedule: Schedule, noise: Noise, mean: float, min_gain: float) -> Standing:
    """Walk through the looks of a schedule as an evaluation does."""
    seen: list[float] = []
    found = Standing.OPEN
    for look in schedule.looks:
        while len(seen) < look.clusters:
            seen.append(mean + noise())
            if schedule is MAIN and statistics.is_hopeless(seen, min_gain):
                return Standing.FUTILE
        found = statistics.standing(seen, look, min_gain, schedule)
        if found is not Standing.OPEN:
            return found
    return found


def clusters_of(noise: Noise, mean: float) -> int:
    """Return after how many clusters the first comparison ends."""
    seen: list[float] = []
    for look in MAIN.looks:
        seen += [mean + noise() for _ in range(look.clusters - len(seen))]
        if statistics.standing(seen, look, 0.01) is not Standing.OPEN:
            return look.clusters
    return MAIN.last.clusters


def keeps(noise: Noise, gain: float, min_gain: float = 0.01) -> bool:
    """Say whether the whole procedure, the confirming stage included, ends in KEEP."""
    mean = math.log1p(gain)
    if walk(MAIN, noise, mean, min_gain) is not Standing.FASTER:
        return False
    return walk(CONFIRMING, noise, mean, 0.0) is Standing.FASTER


def keeps_when_time_ends(noise: Noise, gain: float, clusters: int, confirming: int) -> bool:
    """Say whether a comparison whose time ends after so few clusters ends in KEEP."""
    mean = math.log1p(gain)
    seen = [mean + noise() for _ in range(clusters)]
    if statistics.standing(seen, MAIN.final(clusters), 0.01) is not Standing.FASTER:
        return False
    again = [mean + noise() for _ in range(confirming)]
    look = CONFIRMING.final(confirming)
    return statistics.standing(again, look, 0.0, CONFIRMING) is Standing.FASTER


@given(values, alphas)
def test_the_estimate_lies_within_its_bounds(logs: list[float], alpha: float) -> None:
    mean, low, high = statistics.trimmed_bounds(logs, alpha)
    assert low <= mean <= high
    assert min(logs) - 1e-9 <= mean <= max(logs) + 1e-9


@given(values, alphas, st.randoms(use_true_random=False))
def test_the_order_of_clusters_does_not_move_the_estimate_nor_narrow_its_bounds(
    logs: list[float], alpha: float, rng: random.Random
) -> None:
    mean, low, high = statistics.trimmed_bounds(rng.sample(logs, len(logs)), alpha)
    assert mean == statistics.trimmed_bounds(logs, alpha)[0]
    independent = statistics.trimmed_mean(logs)
    reach = independent.reach(alpha) / statistics.autocorrelation_factor(logs)
    assert high - mean >= reach * (1 - 1e-9) - 1e-12
    assert mean - low >= reach * (1 - 1e-9) - 1e-12


@given(values, alphas)
def test_swapping_the_sides_inverts_the_ratio(logs: list[float], alpha: float) -> None:
    ours = statistics.ratio_interval(logs, alpha)
    theirs = statistics.ratio_interval([-value for value in logs], alpha)
    assert ours.ratio * theirs.ratio == pytest.approx(1)
    assert ours.low * theirs.high == pytest.approx(1)


@given(values, alphas, alphas)
def test_more_confidence_means_a_wider_interval(
    logs: list[float], one: float, other: float
) -> None:
    strict = statistics.ratio_interval(logs, min(one, other))
    loose = statistics.ratio_interval(logs, max(one, other))
    assert strict.low <= loose.low * (1 + 1e-12)
    assert strict.high >= loose.high * (1 - 1e-12)
    assert strict.confidence >= loose.confidence


@given(values)
def test_bounds_can_always_be_written_as_json_numbers(logs: list[float]) -> None:
    found = statistics.ratio_interval([value * 1000 for value in logs], 0.0005)
    assert all(math.isfinite(x) for x in (found.ratio, found.low, found.high))


def test_up_to_nine_values_it_is_the_plain_t_interval() -> None:
    logs = [0.1, 0.2, 0.15, 0.3, 0.05]
    mean, low, high = statistics.trimmed_bounds(logs, 0.01)
    reach = stdtrit(4, 0.99) * stdev(logs) / math.sqrt(5)
    assert mean == pytest.approx(fmean(logs))
    assert (low, high) == (pytest.approx(mean - reach), pytest.approx(mean + reach))


def test_one_wild_cluster_among_many_is_cut_off() -> None:
    calm = [0.02 + 0.001 * (i % 5) for i in range(39)]
    mean, low, _ = statistics.trimmed_bounds([*calm, -4.0], 0.0045)
    assert mean == pytest.approx(0.022, abs=0.001)
    assert low > 0.02


@pytest.mark.parametrize(("schedule", "alpha"), [(MAIN, 0.01), (CONFIRMING, 0.05)])
def test_the_error_rates_of_all_looks_stay_within_the_total(
    schedule: Schedule, alpha: float
) -> None:
    assert math.fsum(look.alpha for look in schedule.looks) <= alpha + 1e-12
    for clusters in range(2, schedule.last.clusters + 1):
        before = math.fsum(look.alpha for look in schedule.looks if look.clusters < clusters)
        assert before + schedule.final(clusters).alpha <= alpha + 1e-12


@pytest.mark.parametrize(("clusters", "look"), [(0, 4), (4, 6), (5, 6), (95, 96), (96, 96)])
def test_the_next_look_needs_more_clusters(clusters: int, look: int) -> None:
    assert MAIN.next(clusters).clusters == look


@pytest.mark.parametrize(
    ("ratio", "half", "precise"),
    [
        (1.0, 0.019, True),
        (1.0, 0.021, False),
        (2.0, 0.021, False),
        (3.0, 0.024, True),
        (3.0, 0.025, False),
        (0.08, 0.12, True),
        (0.08, 0.13, False),
    ],
)
def test_a_ratio_far_from_one_may_be_known_less_precisely(
    ratio: float, half: float, precise: bool
) -> None:
    found = Interval(ratio, ratio * (1 - half), ratio * (1 + half), 0.99)
    assert statistics.is_precise(found, 0.02) is precise
    assert statistics.is_precise(found, half + 0.001)


@pytest.mark.parametrize("logs", [[], [0.1]])
def test_one_cluster_is_no_interval(logs: list[float]) -> None:
    with pytest.raises(ValueError, match="needs two values"):
        statistics.trimmed_bounds(logs, 0.01)


def test_a_clear_gain_is_decided_at_the_first_look() -> None:
    logs = [math.log(2) + 0.01 * i for i in range(4)]
    assert statistics.standing(logs, MAIN.looks[0], 0.01) is Standing.FASTER
    assert statistics.standing([-x for x in logs], MAIN.looks[0], 0.01) is Standing.FUTILE


def test_a_handful_of_processes_prove_only_a_large_gain() -> None:
    logs = [math.log(1.1) + 1e-4 * i for i in range(4)]
    assert statistics.standing(logs, MAIN.looks[0], 0.01) is Standing.OPEN


def test_a_disturbed_machine_must_show_more_before_it_is_believed() -> None:
    logs = [math.log(1.1) + 1e-4 * (i % 3) for i in range(8)]
    for disturbed, found in ((False, Standing.FASTER), (True, Standing.OPEN)):
        look = MAIN.at(8, disturbed=disturbed)
        assert look is not None
        assert statistics.standing(logs, look, 0.01) is found
    assert MAIN.at(STEADY_CLUSTERS, disturbed=True) == MAIN.at(STEADY_CLUSTERS)


def test_a_gain_smaller_than_asked_for_is_not_faster() -> None:
    logs = [0.005 + 1e-5 * (i % 3) for i in range(12)]
    assert statistics.standing(logs, Look(12, 0.002), 0.0) is Standing.FASTER
    assert statistics.standing(logs, Look(12, 0.002), 0.01) is Standing.FUTILE


def test_neighbours_that_resemble_each_other_widen_an_interval() -> None:
    rng = random.Random(3)
    step = drifting(rng, 0.02)
    assert statistics.autocorrelation_factor([step() for _ in range(60)]) > 1.3
    assert statistics.autocorrelation_factor([rng.gauss(0, 0.02) for _ in range(60)]) < 1.3
    assert statistics.autocorrelation_factor([0.1] * 20) == 1.0


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("deviation", [0.01, 0.035, 0.08])
def test_equal_kernels_are_kept_less_than_once_in_a_hundred(
    noise: Callable[[random.Random, float], Noise], deviation: float
) -> None:
    rng = random.Random(0)
    repeats = 1000
    wrong = sum(keeps(noise(rng, deviation), 0.0) for _ in range(repeats))
    assert wrong <= MAIN.alpha * repeats


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("deviation", [0.01, 0.08])
@pytest.mark.parametrize("clusters", [4, 6, 10])
def test_equal_kernels_are_kept_as_rarely_when_time_ends_early(
    noise: Callable[[random.Random, float], Noise], deviation: float, clusters: int
) -> None:
    made = noise(random.Random(11), deviation)
    repeats = 2000
    kept = sum(keeps_when_time_ends(made, 0.0, clusters, 4) for _ in range(repeats))
    assert kept <= 0.01 * repeats


def test_a_slow_kernels_gain_is_kept_though_time_ends_early() -> None:
    noise = gaussian(random.Random(12), 0.02)
    kept = sum(keeps_when_time_ends(noise, 0.15, 4, 4) for _ in range(300))
    assert kept >= 0.95 * 300


@pytest.mark.parametrize("noise", NOISES[:3])
def test_equal_kernels_are_kept_as_rarely_when_no_gain_is_asked_for(
    noise: Callable[[random.Random, float], Noise],
) -> None:
    rng = random.Random(1)
    assert sum(keeps(noise(rng, 0.03), 0.0, min_gain=0.0) for _ in range(300)) <= 3


@pytest.mark.parametrize(
    ("gain", "least", "noise"),
    [*((0.03, 190, each) for each in NOISES[:3]), *((0.1, 198, each) for each in NOISES)],
)
def test_a_gain_is_found(
    gain: float, least: int, noise: Callable[[random.Random, float], Noise]
) -> None:
    rng = random.Random(2)
    assert sum(keeps(noise(rng, 0.035), gain) for _ in range(200)) >= least


def test_a_gain_that_could_be_seen_is_seen_when_it_is_there() -> None:
    rng = random.Random(5)
    seen = 0
    for _ in range(200):
        logs = [rng.gauss(0, 0.03) for _ in range(24)]
        gain = statistics.detectable_gain(logs, 0.0012, 0.01)
        later = [rng.gauss(math.log1p(gain), 0.03) for _ in range(24)]
        seen += statistics.ratio_interval(later, 0.0012).low > 1.01
    assert seen >= 0.94 * 200


@pytest.mark.parametrize("noise", NOISES)
def test_equal_kernels_seldom_take_long(noise: Callable[[random.Random, float], Noise]) -> None:
    rng = random.Random(5)
    taken = [clusters_of(noise(rng, 0.035), 0.0) for _ in range(300)]
    assert median(taken) <= 16
    assert sum(count > 48 for count in taken) <= 6


@given(values, st.floats(0, 0.2))
def test_what_is_given_up_before_the_first_look_is_never_a_gain(
    logs: list[float], min_gain: float
) -> None:
    if statistics.is_hopeless(logs, min_gain):
        assert len(logs) < MAIN.looks[0].clusters
        assert statistics.ratio_interval(logs, statistics.FUTILITY_ALPHA).high <= 1 + min_gain


@pytest.mark.parametrize("deviation", [0.002, 0.01, 0.035, 0.08])
def test_a_kernel_that_is_twice_as_slow_takes_two_clusters(deviation: float) -> None:
    rng = random.Random(6)
    told = missed = 0
    for _ in range(400):
        logs = [math.log(0.5) + rng.gauss(0, deviation) for _ in range(2)]
        assert statistics.is_hopeless(logs, 0.01)
        found = statistics.ratio_interval(logs, statistics.FUTILITY_ALPHA)
        told += is_surely_slower(found)
        missed += not found.low < 0.5 < found.high
    assert told >= 0.95 * 400
    # Two in a hundred, as the interval has two sides.
    assert missed <= 0.04 * 400


@pytest.mark.parametrize(
    ("gain", "deviation"),
    [(0.03, 0.005), (0.03, 0.035), (0.03, 0.1), (0.1, 0.08), (0.3, statistics.KNOWN_DEVIATION)],
)
def test_a_gain_is_hardly_ever_given_up_before_the_first_look(
    gain: float, deviation: float
) -> None:
    rng = random.Random(7)
    lost = 0
    for _ in range(2000):
        logs = [math.log1p(gain) + rng.gauss(0, deviation) for _ in range(3)]
        lost += statistics.is_hopeless(logs[:2], 0.01) or statistics.is_hopeless(logs, 0.01)
    assert lost <= 0.01 * 2000


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6))
def test_few_values_are_decisive_only_if_each_is_beyond_the_factor(logs: list[float]) -> None:
    if statistics.is_decisive(logs):
        assert 1 < len(logs) < MAIN.looks[0].clusters
        assert min(logs) > math.log(statistics.DECISIVE)


def test_a_ratio_of_five_is_decisive_at_once_and_one_of_four_is_not() -> None:
    spread = statistics.KNOWN_DEVIATION / 4
    assert statistics.is_decisive([math.log(5.2) - spread, math.log(5.2) + spread])
    assert not statistics.is_decisive([math.log(4), math.log(4)])


def test_two_clusters_that_agree_by_chance_give_nothing_up() -> None:
    # A gain of 3 % was told to be "not faster: -4.0 % (-6.8 to -1.0)" so.
    assert not statistics.is_hopeless([-0.0405, -0.0395], 0.01)


@given(values, st.floats(0, 0.2))
def test_a_comparison_without_a_gain_tells_which_gain_it_excludes(
    logs: list[float], min_gain: float
) -> None:
    excluded = statistics.excluded_gain(logs)
    assert excluded >= math.exp(statistics.trimmed_mean(logs).mean) - 1
    if statistics.is_hopeless(logs, min_gain):
        assert excluded <= min_gain
    look = MAIN.at(len(logs))
    if look and statistics.standing(logs, look, min_gain) is Standing.FUTILE:
        assert excluded <= max(min_gain, statistics.WORTHWHILE)


@pytest.mark.parametrize("deviation", [0.02, 0.1, 0.4])
def test_a_gain_of_five_percent_is_hardly_ever_excluded(deviation: float) -> None:
    rng = random.Random(3)
    for count in (8, 24, 96):
        excluded = sum(
            not statistics.is_open(
                [rng.gauss(math.log(1.05), deviation) for _ in range(count)], 0.01
            )
            for _ in range(1000)
        )
        assert excluded <= 35


def test_a_kernel_that_is_no_faster_is_decided_where_the_machine_is_quiet() -> None:
    rng = random.Random(4)
    found = [[rng.gauss(0, 0.03) for _ in range(24)] for _ in range(200)]
    assert sum(statistics.is_open(each, 0.01) for each in found) <= 2


def test_a_wide_goal_widens_what_must_be_excluded() -> None:
    rng = random.Random(5)
    found = [rng.gauss(0.08, 0.02) for _ in range(24)]
    assert statistics.is_open(found, 0.01)
    assert not statistics.is_open(found, 0.2)


def test_both_comparisons_together_confirm_a_gain_that_the_second_has_little_time_for() -> None:
    rng = random.Random(6)
    together = alone = 0
    for _ in range(200):
        main = [rng.gauss(0.05, 0.05) for _ in range(64)]
        again = [rng.gauss(0.05, 0.05) for _ in range(4)]
        together += statistics.is_confirmed_together(main, again, 0.01)
        look = CONFIRMING.at(4)
        assert look is not None
        alone += statistics.standing(again, look, 0.0, CONFIRMING) is Standing.FASTER
    assert together >= 120
    assert alone < together


def test_both_comparisons_together_confirm_no_kernel_against_itself() -> None:
    rng = random.Random(7)
    kept = 0
    for _ in range(3000):
        values: list[float] = []
        for look in MAIN.looks:
            values += [rng.gauss(0, 0.04) for _ in range(look.clusters - len(values))]
            standing = statistics.standing(values, look, 0.01)
            if standing is Standing.FASTER:
                again: list[float] = []
                for later in CONFIRMING.looks:
                    again += [rng.gauss(0, 0.04) for _ in range(later.clusters - len(again))]
                    kept += statistics.is_confirmed_together(values, again, 0.01)
            if standing is not Standing.OPEN:
                break
    assert kept == 0


def test_both_comparisons_together_confirm_nothing_that_the_second_contradicts() -> None:
    assert not statistics.is_confirmed_together([0.3] * 20, [-0.01, 0.0, -0.02, 0.05], 0.01)


def test_on_a_busy_machine_two_figures_of_a_large_ratio_agree_and_one_stays_one() -> None:
    wide, narrow = Interval(3.88, 3.52, 4.27, 0.99), Interval(2.53, 1.82, 3.5, 0.99)
    assert wide.low > narrow.high
    told, other = map(statistics.on_busy_machine, (wide, narrow))
    assert told.low < other.high
    assert (told.ratio, told.confidence) == (3.88, 0.99)
    equal = statistics.on_busy_machine(Interval(1.0, 0.98, 1.02, 0.99))
    assert (equal.low, equal.high) == pytest.approx((0.98, 1.02), abs=0.002)
    small = Interval(1.02, 1.0105, 1.03, 0.99)
    assert (
        statistics.on_busy_machine(small).low < 1.01 < statistics.on_busy_machine(small, 1.01).low
    )
    assert statistics.on_busy_machine(Interval(1.02, 1.005, 1.03, 0.99), 1.01).low <= 1.005


@given(st.floats(1e-300, 1e300), st.floats(1e-300, 1e300))
def test_a_busy_machine_widens_and_moves_no_bound_past_one(one: float, other: float) -> None:
    low, high = sorted((one, other))
    told = statistics.on_busy_machine(Interval(low, low, high, 0.99))
    assert told.low <= low * (1 + 1e-9)
    assert told.high >= high * (1 - 1e-9)
    assert (told.low > 1) is (low > 1)
