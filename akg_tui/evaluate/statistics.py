"""The statistics of a comparison: a ratio, its confidence interval, and when to stop.

Pure. The unit of observation is the *cluster*: one pair of fresh processes, whose median log ratio
over its samples is one value. Samples inside a process are not independent, so their number adds
no confidence.

A KEEP takes two comparisons: the main comparison, and a confirmation on new inputs and in new
processes. Each has a schedule of looks at its values, with one-sided error rates that add up to its
total (a group-sequential design). At a look it is FASTER if the lower bound of the trimmed-t
interval exceeds the goal, FUTILE if a gain is excluded, and else goes on. Values of an earlier,
undecided comparison of the same two kernels come first in the main comparison.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from akg_tui.core.measurement import LEAST_CLUSTERS, STEADY_CLUSTERS, Interval

TRIM = 0.1
FUTILITY_ALPHA = 0.02
"""The error rate of each upper bound that excludes a gain. It can only end a comparison without a
gain, so it takes nothing from the error rate of a KEEP."""

WORTHWHILE = 0.05
"""A comparison in which a gain of this size is not excluded is undecided."""

KNOWN_DEVIATION = 0.17
"""The largest standard deviation of log ratios between clusters that was measured: a memory-bound
kernel beside a noisy neighbour (docs/benchmarks.md)."""

BUSY_SHARE = 0.08
"""The share by which the logarithm of a ratio differs from one measurement to the next on a busy
machine: the standard deviation beyond that of its values (`bench repeat`)."""

DECISIVE = 3.0
DECISIVE_ALPHA = 1e-5
"""A ratio beyond this factor, at this error rate, ends a comparison after two or three values."""

RACE_ALPHA = 0.005
"""The error rate at which a kernel of a race is slower than the fastest."""

POOLED_ALPHA = 2e-5
"""The error rate of each look at the values of both comparisons together. The main comparison has
selected its values, so only a very low rate may use them again."""

CASE_ALPHA = 0.002
"""The error rate of each look at whether a kernel is slower in one case of a task."""


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

    def at(self, clusters: int, *, disturbed: bool = False) -> Look | None:
        """Return the look due after `clusters` values, or None between looks.

        On a `disturbed` machine the margin of the first look holds until `STEADY_CLUSTERS`.
        """
        look = next((look for look in self.looks if look.clusters == clusters), None)
        if look is not None and disturbed and clusters < STEADY_CLUSTERS:
            return dataclasses.replace(look, margin=self.looks[0].margin)
        return look

    def next(self, clusters: int) -> Look:
        """Return the first look that needs more than `clusters` values, or the last look."""
        return next((look for look in self.looks if look.clusters > clusters), self.last)

    def final(self, clusters: int) -> Look:
        """Return the look of a comparison that ends after `clusters` values, decided or not.

        No look follows, so it has the error rate that earlier looks have not used; half of it,
        because few values don't show how far neighbours are correlated.
        """
        spent = math.fsum(look.alpha for look in self.looks if look.clusters < clusters)
        return Look(clusters, max((self.alpha - spent) / 2, self.last.alpha))


MAIN = Schedule(
    (
        Look(LEAST_CLUSTERS, 0.0002, 0.2), Look(6, 0.0004, 0.02), Look(8, 0.0006), Look(12, 0.0008),
        Look(16, 0.001), Look(24, 0.0012), Look(32, 0.0013), Look(48, 0.0014),
        Look(64, 0.0015), Look(96, 0.0016),
    ),
    alpha=0.01,
)  # fmt: skip

CONFIRMING = Schedule(
    (
        Look(3, 0.002, 0.1), Look(4, 0.004, 0.01), Look(8, 0.009), Look(12, 0.01),
        Look(20, 0.0125), Look(40, 0.0125),
    ),
    alpha=0.05,
)  # fmt: skip


def _quantile(dof: int, alpha: float) -> float:
    """Return the quantile of Student's t above which `alpha` lies."""
    # Loading it takes a third of a second, which a kernel that is only verified need not wait for.
    from scipy.special import stdtrit

    return float(stdtrit(dof, 1 - alpha))


@dataclass(frozen=True)
class TrimmedMean:
    """A trimmed mean of `count` values with its standard error and degrees of freedom."""

    count: int
    mean: float
    error: float
    dof: int

    def reach(self, alpha: float) -> float:
        """Return how far a one-sided bound at level `alpha` lies from the mean.

        By Student's t. Two or three values agree by chance too often for that: for them by a normal
        distribution with their deviation, but at least `KNOWN_DEVIATION`.
        """
        if self.count > 3:
            return _quantile(self.dof, alpha) * self.error
        deviation = max(self.deviation, KNOWN_DEVIATION)
        quantile = statistics.NormalDist().inv_cdf(1 - alpha)
        return quantile * deviation / math.sqrt(self.count)

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
    if count < 6:
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
    if found < 1 / math.sqrt(count):
        return 1.0
    found = min(found, 0.8)
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
    mean, low, high = trimmed_bounds(log_ratios, alpha)
    return Interval(
        ratio=_exp(mean), low=_exp(low), high=_exp(high), confidence=round(1 - 2 * alpha, 6)
    )


def on_busy_machine(found: Interval, proved: float = 0.0) -> Interval:
    """Return an interval that covers the ratio under another load too, not only this one.

    A load slows a kernel that moves memory more than one that computes, so it changes a large
    ratio, and leaves that of equal kernels at 1. A lower bound above `proved` stays above it.
    """
    low, high = math.log(found.low), math.log(found.high)
    least = min(found.low, math.nextafter(proved, math.inf))
    return Interval(
        ratio=found.ratio,
        low=max(least, _exp(low - BUSY_SHARE * abs(low))),
        high=_exp(high + BUSY_SHARE * abs(high)),
        confidence=found.confidence,
    )


def standing(
    log_ratios: Sequence[float],
    look: Look,
    min_gain: float,
    schedule: Schedule = MAIN,
) -> Standing:
    """Return whether a comparison is decided at a look of its schedule.

    FASTER: the lower bound of the ratio exceeds ``1 + min_gain`` by the look's margin. FUTILE: the
    upper bound does not reach ``1 + min_gain``; or, in the main schedule, a worthwhile gain is
    excluded, and the last look can't find FASTER even if all later values lie at the upper bound.
    """
    goal = math.log1p(min_gain)
    found = trimmed_mean(log_ratios)
    if found.mean - found.reach(look.alpha) > goal + math.log1p(look.margin):
        return Standing.FASTER
    upper = found.mean + found.reach(FUTILITY_ALPHA)
    if upper < goal:
        return Standing.FUTILE
    # Looks with a margin are too early for a projection.
    if schedule is not MAIN or look.margin or is_open(log_ratios, min_gain):
        return Standing.OPEN
    last = schedule.last
    to_come = max(last.clusters - found.count, 0)
    hoped = (found.count * found.mean + to_come * upper) / (found.count + to_come)
    reach = _quantile(last.clusters - 1, last.alpha) * found.deviation / math.sqrt(last.clusters)
    return Standing.FUTILE if hoped - reach < goal else Standing.OPEN


def is_precise(found: Interval, most: float) -> bool:
    """Return whether half of an interval is at most the fraction `most` of its ratio.

    Of a ratio far from 1 it may be 2 % of its squared logarithm: 2.4 % for three times as fast, and
    14 % for 14 times as slow, where 2 % decide nothing.
    """
    half = (found.high - found.low) / 2 / found.ratio
    return half <= max(most, 0.02 * math.log(found.ratio) ** 2)


def excluded_gain(log_ratios: Sequence[float]) -> float:
    """Return the gain that the values exclude at `FUTILITY_ALPHA`: their upper bound."""
    if len(log_ratios) < 2:
        return math.inf
    found = trimmed_mean(log_ratios)
    return _exp(found.mean + found.reach(FUTILITY_ALPHA)) - 1


def is_hopeless(log_ratios: Sequence[float], min_gain: float) -> bool:
    """Return whether to abandon a comparison before its first look: a gain is out of reach."""
    return len(log_ratios) < MAIN.looks[0].clusters and excluded_gain(log_ratios) < min_gain


def is_decisive(log_ratios: Sequence[float]) -> bool:
    """Return whether two or three values leave no doubt of a ratio above `DECISIVE`.

    For a loss they are the logarithms of the inverse ratio.
    """
    if not 1 < len(log_ratios) < MAIN.looks[0].clusters:
        return False
    found = trimmed_mean(log_ratios)
    return found.mean - found.reach(DECISIVE_ALPHA) > math.log(DECISIVE)


def race_standing(logs: Sequence[Sequence[float]], fastest: int) -> list[TrimmedMean]:
    """Return how far each kernel of a race is behind the `fastest`: means of log ratios.

    `logs` are the logarithms of times, by kernel and round; a kernel that left has fewer rounds.
    """
    best = logs[fastest]
    return [
        trimmed_mean([ours - theirs for ours, theirs in zip(each, best, strict=False)])
        for each in logs
    ]


def race_contenders(logs: Sequence[Sequence[float]]) -> list[bool]:
    """Return for each kernel of a race whether it may be the fastest. `logs` as there."""
    fastest = min(range(len(logs)), key=lambda each: statistics.fmean(logs[each]))
    behind = race_standing(logs, fastest)
    return [each.mean - each.reach(RACE_ALPHA) <= 0 for each in behind]


def race_groups(logs: Sequence[Sequence[float]]) -> list[int]:
    """Return the group of each kernel of a race, from 1, in the order of their mean times.

    A kernel that is slower than the first of a group beyond doubt begins the next group. Each has
    at least two rounds.
    """
    groups, first, number = [0] * len(logs), 0, 0
    for kernel in sorted(range(len(logs)), key=lambda each: statistics.fmean(logs[each])):
        behind = race_standing([logs[kernel], logs[first]], 1)[0] if number else None
        if behind is None or behind.mean - behind.reach(RACE_ALPHA) > 0:
            first, number = kernel, number + 1
        groups[kernel] = number
    return groups


def race_detectable(logs: Sequence[Sequence[float]]) -> float | None:
    """Return the gain that a race would have seen between its fastest kernel and any of those that
    stayed in it longest beside it; None without another. Each has at least two rounds.
    """
    if len(logs) < 2:
        return None
    fastest = min(range(len(logs)), key=lambda each: statistics.fmean(logs[each]))
    best, others = logs[fastest], [each for at, each in enumerate(logs) if at != fastest]
    rounds = max(map(len, others))
    longest = (
        [own - theirs for own, theirs in zip(each, best, strict=False)]
        for each in others
        if len(each) == rounds
    )
    return max(detectable_gain(each, RACE_ALPHA, 0.0) for each in longest)


def is_open(log_ratios: Sequence[float], min_gain: float) -> bool:
    """Return whether the values do not exclude a worthwhile gain."""
    return excluded_gain(log_ratios) >= max(min_gain, WORTHWHILE)


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


def detectable_gain(log_ratios: Sequence[float], alpha: float, min_gain: float) -> float:
    """Return the gain that clusters of this number and spread would find 95 times in 100.

    It lies 2.5 standard errors beyond the bound: 1.645 for a known spread, and more because that of
    one or two dozen values is itself uncertain.
    """
    found = trimmed_mean(log_ratios)
    return _exp(math.log1p(min_gain) + found.reach(alpha) + 2.5 * found.error) - 1


def _exp(value: float) -> float:
    # A bound from two extreme values can exceed the range of a float, and of JSON.
    return math.exp(min(max(value, -700.0), 700.0))
