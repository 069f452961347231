"""The statistics of a comparison: a ratio, its confidence interval, and when to stop.

Pure. The unit of observation is the *cluster*: one pair of fresh processes, whose median
log ratio over its samples is one value. Samples inside a process are not independent, so
their number buys no confidence here.

An interval may be looked at several times, so each look has its own one-sided error rate;
together they stay within 1 %. A comparison that ends between looks because its budget is
spent gets the rate that is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from scipy.special import stdtrit

from akg_tui.core.measurement import Interval

TOTAL_ALPHA = 0.01
TRIM = 0.1
FUTILITY_ALPHA = 0.02
"""Giving up early costs power, never a false KEEP, so it may be quicker to believe."""


@dataclass(frozen=True)
class Look:
    """After `clusters` values, a bound that errs at most `alpha` of the time on one side."""

    clusters: int
    alpha: float


LOOKS = (Look(6, 0.0005), Look(12, 0.002), Look(24, 0.003), Look(40, 0.0045))


class Standing(Enum):
    """What the values say at a look."""

    OPEN = "open"
    FASTER = "faster"
    FUTILE = "futile"


def trimmed_bounds(values: Sequence[float], alpha: float) -> tuple[float, float, float]:
    """Return the trimmed mean with a lower and an upper one-sided bound at level `alpha`.

    Tukey and McLaughlin's trimmed t: ``g`` values are cut from each end, the standard error
    comes from the winsorized values, with ``n - 2g - 1`` degrees of freedom.

    Raises
    ------
    ValueError
        Fewer than two values, or `alpha` outside (0, 0.5).
    """
    count = len(values)
    if count < 2:
        raise ValueError(f"an interval needs two values, got {count}")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, got {alpha}")
    ordered = sorted(values)
    cut = int(TRIM * count)
    kept = ordered[cut : count - cut]
    mean = math.fsum(kept) / len(kept)
    winsorized = [ordered[cut]] * cut + kept + [ordered[count - cut - 1]] * cut
    centre = math.fsum(winsorized) / count
    variance = math.fsum((value - centre) ** 2 for value in winsorized) / (count - 1)
    error = math.sqrt(variance) / ((1 - 2 * cut / count) * math.sqrt(count))
    reach = float(stdtrit(len(kept) - 1, 1 - alpha)) * error
    return mean, mean - reach, mean + reach


def ratio_interval(log_ratios: Sequence[float], alpha: float) -> Interval:
    """Return the ratio of times whose logarithms these are; `alpha` is one-sided."""
    mean, low, high = trimmed_bounds(log_ratios, alpha)
    return Interval(
        ratio=_exp(mean), low=_exp(low), high=_exp(high), confidence=round(1 - 2 * alpha, 6)
    )


def standing(log_ratios: Sequence[float], look: Look, min_gain: float) -> Standing:
    """Say whether a comparison is decided at this look.

    FASTER: the lower bound of the ratio exceeds ``1 + min_gain``. FUTILE: the upper one
    does not reach it.
    """
    goal = math.log1p(min_gain)
    _, low, _ = trimmed_bounds(log_ratios, look.alpha)
    if low > goal:
        return Standing.FASTER
    _, _, high = trimmed_bounds(log_ratios, FUTILITY_ALPHA)
    return Standing.FUTILE if high < goal else Standing.OPEN


def alpha_at(clusters: int) -> float:
    """Return the error rate of a comparison that ends after `clusters` values.

    At a look it is that look's own. Between looks, where only a spent budget ends a
    comparison, it is all that the looks before have not used.
    """
    spent = 0.0
    for look in LOOKS:
        if look.clusters == clusters:
            return look.alpha
        if look.clusters < clusters:
            spent += look.alpha
    return max(TOTAL_ALPHA - spent, LOOKS[0].alpha)


def next_look(clusters: int) -> Look:
    """Return the first look that needs more than `clusters` values, or the last one."""
    return next((look for look in LOOKS if look.clusters > clusters), LOOKS[-1])


def _exp(value: float) -> float:
    # Two wild values can put a bound beyond what a float, or JSON, can hold.
    return math.exp(min(max(value, -700.0), 700.0))
