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
    that the proportions stay. Where none does, those of one value are halved together.
    """
    current = dict(sizes)
    spent = cost(current)
    refused: set[tuple[str, ...]] = set()
    while spent is None or spent > limit:
        for names in _steps(current):
            if names in refused or current[names[0]] < 2:
                continue
            tried = {**current, **{name: current[name] // 2 for name in names}}
            found = cost(tried)
            if found is None:
                refused.add(names)
            elif spent is None or found == float("inf") or found <= spent * (1 - LEAST_SHARE):
                current, spent = tried, found
                break
        else:
            return None
    return current


def _steps(sizes: Sizes) -> list[tuple[str, ...]]:
    """Return the names that can be halved in one step, in the order in which they are tried.

    Elements of tuples come later: a kernel's extents are written so.
    """
    ordered = sorted(sizes, key=lambda name: ("[" in name, -sizes[name]))
    values = sorted(set(sizes.values()), reverse=True)
    alike = (tuple(name for name in ordered if sizes[name] == value) for value in values)
    return [*((name,) for name in ordered), *(names for names in alike if len(names) > 1)]
