"""The statistics of a comparison: a ratio, its confidence interval, and when to stop.

Pure. The unit of observation is the *cluster*: one pair of fresh processes, whose median log ratio
over its samples is one value. Samples inside a process are not independent, so their number adds
no confidence.

A group-sequential design: a comparison has several interim looks, each with a one-sided error rate;
the rates add up to at most `TOTAL_ALPHA`. A KEEP takes two comparisons: the main comparison, and a
confirmation on new inputs and new processes, with a separate schedule. Values of an earlier,
undecided comparison of the same two kernels come first in the main comparison.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from scipy.special import ndtri, stdtrit

from akg_tui.core.measurement import Interval

TOTAL_ALPHA = 0.01
CONFIRM_ALPHA = 0.05
POOLED_ALPHA = 2e-5
"""The error rate of each look at the values of both comparisons together. The main comparison has
selected its values, so only a very low rate may use them again."""

TRIM = 0.1
FUTILITY_ALPHA = 0.02
HOPELESS_CLUSTERS = (2, 3)
HOPELESS_ALPHA = 0.01
"""The error rate of abandoning a kernel before the first look. This test can only end a comparison
without a gain, so it takes nothing from the error rate of a KEEP."""

KNOWN_DEVIATION = 0.17
"""The largest standard deviation of log ratios between clusters that was measured: a memory-bound
kernel beside a noisy neighbour (docs/benchmarks.md). Two values hardly estimate a spread; with this
known deviation they suffice to recognise a kernel that is far slower."""

WORTHWHILE = 0.05
"""A comparison in which a gain of this size is not excluded (at `FUTILITY_ALPHA`) is undecided."""

CASE_ALPHA = 0.002
"""The error rate of each look at whether a kernel is slower in one case of a task."""

HOPELESS_LEAST = 8
"""The least clusters for a projected FUTILE: stopping early costs power, never a false KEEP."""

SPENT_ALPHA = 0.005
"""The error rate of reporting a gain if the time ended before a look."""

PRECISE_ALPHA = 0.005
PRECISE_LEAST = 6
PRECISE_MOST = 160
FAR_SHARE = 0.02
"""Half of a precise interval may be this share of the squared logarithm of the ratio.

That is 2.4 % for three times as fast, and 14 % for 14 times as slow, where 2 % decide nothing."""

DISTURBED_MARGIN = 0.2
"""With fewer than `STEADY_CLUSTERS` on a disturbed machine, a gain must exceed the goal by this."""

AUTOCORRELATION_LEAST = 6
AUTOCORRELATION_DEVIATIONS = 1.0
AUTOCORRELATION_MOST = 0.8

POWER_DEVIATIONS = 2.5
"""A gain this many standard errors beyond the bound is found 95 times in 100.

The factor is 1.645 for a known spread; a spread of one or two dozen values is itself uncertain."""


@dataclass(frozen=True)
class Look:
    """An interim look after `clusters` values, with a one-sided error rate of `alpha`.

    The bound must exceed the goal by the factor ``1 + margin``, because a few processes can all
    have favourable memory addresses by chance.
    """

    clusters: int
    alpha: float
    margin: float = 0.0


class Standing(Enum):
    """The conclusion from the values at a look."""

    OPEN = "open"
    FASTER = "faster"
    FUTILE = "futile"


@dataclass(frozen=True)
class Schedule:
    """The looks of a comparison and their total error rate."""

    looks: tuple[Look, ...]
    alpha: float

    @property
    def last(self) -> Look:
        """The final look, at which every comparison ends."""
        return self.looks[-1]

    def at(self, clusters: int) -> Look | None:
        """Return the look due after `clusters` values, or None between looks."""
        return next((look for look in self.looks if look.clusters == clusters), None)

    def next(self, clusters: int) -> Look:
        """Return the first look that needs more than `clusters` values, or the last look."""
        return next((look for look in self.looks if look.clusters > clusters), self.last)

    def final(self, clusters: int) -> Look:
        """Return the look of a comparison that ends after `clusters` values, decided or not.

        No look follows, so this look has all of the error rate that earlier looks have not used.
        """
        spent = math.fsum(look.alpha for look in self.looks if look.clusters < clusters)
        alpha = max(self.alpha - spent, self.last.alpha)
        return Look(clusters, alpha, self.next(clusters - 1).margin)


MAIN = Schedule(
    (
        Look(4, 0.0002, 0.2), Look(6, 0.0004, 0.02), Look(8, 0.0006), Look(12, 0.0008),
        Look(16, 0.001), Look(24, 0.0012), Look(32, 0.0013), Look(48, 0.0014),
        Look(64, 0.0015), Look(96, 0.0016),
    ),
    TOTAL_ALPHA,
)  # fmt: skip

CONFIRMING = Schedule(
    (
        Look(3, 0.002, 0.1), Look(4, 0.004, 0.01), Look(8, 0.009), Look(12, 0.01),
        Look(20, 0.0125), Look(40, 0.0125),
    ),
    CONFIRM_ALPHA,
)  # fmt: skip


@dataclass(frozen=True)
class TrimmedMean:
    """A trimmed mean of `count` values with its standard error and degrees of freedom."""

    count: int
    mean: float
    error: float
    dof: int

    def reach(self, alpha: float) -> float:
        """Return how far a one-sided bound at level `alpha` lies from the mean."""
        return float(stdtrit(self.dof, 1 - alpha)) * self.error

    @property
    def deviation(self) -> float:
        """The standard deviation of one value."""
        return self.error * math.sqrt(self.count)


def trimmed_mean(values: Sequence[float]) -> TrimmedMean:
    """Return the trimmed mean of `values` with its standard error.

    Tukey and McLaughlin's trimmed t: ``g`` values are cut from each end, the standard error
    comes from the winsorized values, with ``n - 2g - 1`` degrees of freedom.

    Raises
    ------
    ValueError
        Fewer than two values.
    """
    count = len(values)
    if count < 2:
        raise ValueError(f"an interval needs two values, got {count}")
    ordered = sorted(values)
    cut = int(TRIM * count)
    kept = ordered[cut : count - cut]
    mean = math.fsum(kept) / len(kept)
    winsorized = [ordered[cut]] * cut + kept + [ordered[count - cut - 1]] * cut
    centre = math.fsum(winsorized) / count
    variance = math.fsum((value - centre) ** 2 for value in winsorized) / (count - 1)
    error = math.sqrt(variance) / ((1 - 2 * cut / count) * math.sqrt(count))
    return TrimmedMean(count, mean, error * autocorrelation_factor(values), len(kept) - 1)


def autocorrelation_factor(values: Sequence[float]) -> float:
    """Return the factor by which correlated neighbours widen an interval.

    Noise that lasts longer than a cluster makes values depend on earlier values, and the mean
    less certain than the spread shows. For a first-order process with correlation
    ``r`` of neighbours the factor is ``sqrt((1 + r) / (1 - r))``. Values are clipped at three
    median deviations, and a correlation that chance alone could produce counts as 0.
    """
    count = len(values)
    if count < AUTOCORRELATION_LEAST:
        return 1.0
    middle = statistics.median(values)
    reach = 3 * 1.4826 * statistics.median(abs(value - middle) for value in values)
    clipped = [min(max(value - middle, -reach), reach) for value in values]
    centre = math.fsum(clipped) / count
    steps = [value - centre for value in clipped]
    square = math.fsum(step * step for step in steps)
    if square == 0:
        return 1.0
    found = math.fsum(a * b for a, b in itertools.pairwise(steps)) / square + 1 / count
    if found < AUTOCORRELATION_DEVIATIONS / math.sqrt(count):
        return 1.0
    found = min(found, AUTOCORRELATION_MOST)
    return math.sqrt((1 + found) / (1 - found))


def trimmed_bounds(values: Sequence[float], alpha: float) -> tuple[float, float, float]:
    """Return the trimmed mean with a lower and an upper one-sided bound at level `alpha`.

    Raises
    ------
    ValueError
        Fewer than two values, or `alpha` outside (0, 0.5).
    """
    found = trimmed_mean(values)
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, got {alpha}")
    reach = found.reach(alpha)
    return found.mean, found.mean - reach, found.mean + reach


def ratio_interval(log_ratios: Sequence[float], alpha: float) -> Interval:
    """Return the ratio of times with its interval, from log ratios; `alpha` is one-sided."""
    return _interval(*trimmed_bounds(log_ratios, alpha), alpha)


def _interval(mean: float, low: float, high: float, alpha: float) -> Interval:
    return Interval(
        ratio=_exp(mean), low=_exp(low), high=_exp(high), confidence=round(1 - 2 * alpha, 6)
    )


def standing(
    log_ratios: Sequence[float],
    look: Look,
    min_gain: float,
    schedule: Schedule = MAIN,
    *,
    least: int = 0,
) -> Standing:
    """Return whether a comparison is decided at a look of its schedule.

    FASTER: the lower bound of the ratio exceeds ``1 + min_gain``, and with fewer than `least`
    values by far. FUTILE: the upper bound does not reach ``1 + min_gain``; or, in the main
    schedule, a worthwhile gain is excluded, and the last look can't find FASTER even if all later
    values lie at the upper bound.
    """
    goal = math.log1p(min_gain)
    found = trimmed_mean(log_ratios)
    margin = look.margin if look.clusters >= least else max(look.margin, DISTURBED_MARGIN)
    if found.mean - found.reach(look.alpha) > goal + math.log1p(margin):
        return Standing.FASTER
    upper = found.mean + found.reach(FUTILITY_ALPHA)
    if upper < goal:
        return Standing.FUTILE
    last = schedule.last
    if schedule is not MAIN or look.clusters < HOPELESS_LEAST or is_open(log_ratios, min_gain):
        return Standing.OPEN
    to_come = max(last.clusters - found.count, 0)
    hoped = (found.count * found.mean + to_come * upper) / (found.count + to_come)
    reach = float(stdtrit(last.clusters - 1, 1 - last.alpha))
    reach *= found.deviation / math.sqrt(last.clusters)
    return Standing.FUTILE if hoped - reach < goal else Standing.OPEN


def is_precise(found: Interval, most: float) -> bool:
    """Return whether half of an interval is at most the fraction `most` of its ratio.

    Of a ratio far from 1 it may be `FAR_SHARE` of its squared logarithm.
    """
    half = (found.high - found.low) / 2 / found.ratio
    return half <= max(most, FAR_SHARE * math.log(found.ratio) ** 2)


def is_open(log_ratios: Sequence[float], min_gain: float) -> bool:
    """Return whether the values do not exclude a worthwhile gain."""
    if len(log_ratios) < 2:
        return True
    found = trimmed_mean(log_ratios)
    upper = found.mean + found.reach(FUTILITY_ALPHA)
    return upper >= math.log1p(max(min_gain, WORTHWHILE))


def case_interval(log_ratios: Sequence[float]) -> Interval:
    """Return the ratio in one case with its interval; `CASE_ALPHA` is one-sided."""
    return ratio_interval(log_ratios, CASE_ALPHA)


def is_slower(log_ratios: Sequence[float], most: float) -> bool:
    """Return whether a kernel is slower by more than the fraction `most` beyond doubt."""
    if len(log_ratios) < 2:
        return False
    found = trimmed_mean(log_ratios)
    return found.mean + found.reach(CASE_ALPHA) < -math.log1p(most)


def seems_slower(log_ratios: Sequence[float], most: float) -> bool:
    """Return whether the mean alone says that a kernel is slower by more than `most`."""
    return trimmed_mean(log_ratios).mean < -math.log1p(most) if len(log_ratios) > 1 else True


def may_be_slower(log_ratios: Sequence[float], most: float) -> bool:
    """Return whether the values do not exclude that a kernel is slower by more than `most`."""
    if len(log_ratios) < 2:
        return True
    found = trimmed_mean(log_ratios)
    return found.mean - found.reach(FUTILITY_ALPHA) <= -math.log1p(most)


def is_confirmed_together(
    main: Sequence[float], confirming: Sequence[float], min_gain: float
) -> bool:
    """Return whether the values of both comparisons together leave no doubt of a gain."""
    found = trimmed_mean([*main, *confirming])
    agrees = statistics.median(confirming) > math.log1p(min_gain)
    return agrees and found.mean - found.reach(POOLED_ALPHA) > math.log1p(min_gain)


def is_faster_so_far(log_ratios: Sequence[float], min_gain: float) -> bool:
    """Return whether a comparison that ran out of time justifies a confirmation.

    No margin is needed here, unlike at a look, because the confirming looks have margins.
    """
    found = trimmed_mean(log_ratios)
    return found.mean - found.reach(SPENT_ALPHA) > math.log1p(min_gain)


def is_hopeless(log_ratios: Sequence[float], min_gain: float) -> bool:
    """Return whether to abandon a comparison before its first look: the gain is out of reach."""
    if len(log_ratios) not in HOPELESS_CLUSTERS:
        return False
    found = trimmed_mean(log_ratios)
    return found.mean + _early_reach(found) < math.log1p(min_gain)


def early_interval(log_ratios: Sequence[float]) -> Interval:
    """Return the ratio of a comparison that `is_hopeless`; `HOPELESS_ALPHA` is one-sided."""
    found = trimmed_mean(log_ratios)
    reach = _early_reach(found)
    return _interval(found.mean, found.mean - reach, found.mean + reach, HOPELESS_ALPHA)


def _early_reach(found: TrimmedMean) -> float:
    """Return how far a bound at level `HOPELESS_ALPHA` lies from the mean of two or three values.

    From a normal distribution with the values' deviation, but at least `KNOWN_DEVIATION`; for three
    values from Student's t if that is nearer. Two values agree by chance too often for t.
    """
    deviation = max(found.deviation, KNOWN_DEVIATION)
    known = float(ndtri(1 - HOPELESS_ALPHA)) * deviation / math.sqrt(found.count)
    return min(found.reach(HOPELESS_ALPHA), known) if found.count > 2 else known


def detectable_gain(log_ratios: Sequence[float], alpha: float, min_gain: float) -> float:
    """Return the gain that clusters of this number and spread would find 95 times in 100."""
    found = trimmed_mean(log_ratios)
    far = math.log1p(min_gain) + found.reach(alpha) + POWER_DEVIATIONS * found.error
    return _exp(far) - 1


def _exp(value: float) -> float:
    # A bound from two extreme values can exceed the range of a float, and of JSON.
    return math.exp(min(max(value, -700.0), 700.0))
