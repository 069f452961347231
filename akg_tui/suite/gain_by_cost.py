"""The verified gain of two agents, A and B, per million tokens, per dollar and per hour.

A side's rate is the gain of all of its tasks over their cost, so one that found nothing counts
with what it cost, and an agent with several runs of a task in parallel with the cost of all. Pure;
every draw has a fixed seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from akg_tui.suite.suite_results import CONFIDENCE, RESAMPLES, SEED

if TYPE_CHECKING:
    from numpy import ndarray

SIGNIFICANT = (1 - CONFIDENCE) / 3
"""A difference is shown below this p: three kinds of cost are looked at, and chance must not show
one of them more often than it would show one alone. It takes at least seven pairs (2 / 2^7)."""

SEPARATELY = "hour, runs on separate machines"
"""The kind of cost that only agents with several runs in parallel have: their longest run."""


def significant_of(kinds: int) -> float:
    """Return the p below which a difference is shown, where so many kinds of cost are looked at."""
    return SIGNIFICANT * 3 / max(3, kinds)


ALL_EXCHANGES = 11
"""Up to so many pairs every exchange of A and B is counted; above it, a sample of them."""


class Spent(Struct, frozen=True, kw_only=True):
    """The gain of one task (`TaskResult.gain`), and what it cost; None without a price.

    `worked_s` is the work of all `runs` one after the other, `longest_s` of the longest.
    """

    gain: float
    tokens: int
    cost_usd: float | None
    worked_s: float
    runs: int = 1
    longest_s: float = 0.0


class Rates(Struct, frozen=True, kw_only=True):
    """The gain of A and of B by one kind of cost, and the difference B - A.

    `low` and `high` bound the difference: a percentile bootstrap over the pairs. `p` is the share
    of the exchanges of A and B within the pairs with at least this difference. `shown`: the
    interval excludes 0 and p is below `significant_of`, so the two differ beyond chance.
    """

    per: str
    a: float
    b: float
    difference: float
    low: float
    high: float
    p: float
    shown: bool


def rates(pairs: Sequence[tuple[Spent, Spent]]) -> tuple[Rates, ...]:
    """Return the gain of A and of B by each kind of cost that both sides know and had.

    A search without a model has no tokens, so it has no gain by tokens.
    """
    kinds: dict[str, list[tuple[float | None, float | None]]] = {
        "million tokens": [(a.tokens / 1e6, b.tokens / 1e6) for a, b in pairs],
        "dollar": [(a.cost_usd, b.cost_usd) for a, b in pairs],
        "hour": [(a.worked_s / 3600, b.worked_s / 3600) for a, b in pairs],
    }
    if any(each.runs > 1 for pair in pairs for each in pair):
        longest = [(a.longest_s / 3600, b.longest_s / 3600) for a, b in pairs]
        kinds[SEPARATELY] = list(longest)
    gains = [(a.gain, b.gain) for a, b in pairs]
    significant = significant_of(len(kinds))
    found = (_rates(per, gains, costs, significant) for per, costs in kinds.items())
    return tuple(each for each in found if each is not None)


def _rates(
    per: str,
    gains: Sequence[tuple[float, float]],
    known: Sequence[tuple[float | None, float | None]],
    significant: float,
) -> Rates | None:
    import numpy as np

    costs = [(a, b) for a, b in known if a is not None and b is not None]
    gain, cost = np.array(gains), np.array(costs)
    count = len(gains)
    if len(costs) < count or not count or not cost.sum(axis=0).all():
        return None
    dice = np.random.default_rng(SEED)
    a, b = (float(rate) for rate in gain.sum(axis=0) / cost.sum(axis=0))
    drawn = dice.integers(count, size=(RESAMPLES, count))
    differences = np.sort(_difference(gain[drawn], cost[drawn]))
    cut = int(RESAMPLES * (1 - CONFIDENCE) / 2)
    low, high = float(differences[cut]), float(differences[-1 - cut])

    if count <= ALL_EXCHANGES:
        exchanged = (np.arange(2**count)[:, None] >> np.arange(count)) & 1 == 1
    else:
        exchanged = dice.integers(2, size=(RESAMPLES, count)) == 1
        exchanged[0] = False  # the pairs as they are belong to the sample
    turned = exchanged[:, :, None]
    swapped = _difference(
        np.where(turned, gain[:, ::-1], gain), np.where(turned, cost[:, ::-1], cost)
    )
    least = abs(b - a) * (1 - 1e-9)  # equal but for rounding is equal
    p = float((np.abs(swapped) >= least).mean())
    return Rates(
        per=per,
        a=a,
        b=b,
        difference=b - a,
        low=low,
        high=high,
        p=p,
        shown=p < significant and not low <= 0 <= high,
    )


def _difference(gain: ndarray, cost: ndarray) -> ndarray:
    """Return the rate of B minus that of A in each sample; the axes are sample, pair, side."""
    import numpy as np

    spent = cost.sum(axis=1)
    # A sample of runs that all ended before a call has neither a cost nor a gain.
    found = np.divide(gain.sum(axis=1), spent, out=np.zeros_like(spent), where=spent > 0)
    difference: ndarray = found[:, 1] - found[:, 0]
    return difference
