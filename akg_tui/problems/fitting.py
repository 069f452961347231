"""Sizes that fit: halves constants of a reference until a cost is within its limit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from akg_tui.store.reference_constants import Constant

LEAST_SHARE = 0.05
"""Halving a size must save this share of the cost; a kernel's width or a factor saves less."""

Sizes = Mapping[str, int]
Cost = Callable[[Sizes], float | None]
"""Returns the cost under some sizes, or None if the reference refuses them."""


def sizes_of(known: Mapping[str, Constant]) -> dict[str, int]:
    """Return the constants that can be sizes: integers above 1 that no other constant gives."""
    return {
        name: each.value
        for name, each in known.items()
        if isinstance(each.value, int) and each.value > 1 and not each.derived
    }


def shrunk(sizes: Sizes, cost: Cost, limit: float) -> dict[str, int] | None:
    """Return sizes whose cost is at most `limit`, or None if no halving gets there.

    Each step halves the largest size whose halving saves at least `LEAST_SHARE` of the cost, so
    that the proportions stay.
    """
    current = dict(sizes)
    spent = cost(current)
    refused: set[str] = set()
    while spent is None or spent > limit:
        for name in sorted(current, key=lambda each: current[each], reverse=True):
            if name in refused or current[name] < 2:
                continue
            tried = {**current, name: current[name] // 2}
            found = cost(tried)
            if found is None:
                refused.add(name)
            elif spent is None or found == float("inf") or found <= spent * (1 - LEAST_SHARE):
                current, spent = tried, found
                break
        else:
            return None
    return current
