"""Sizes that fit: halves constants of a reference until a cost is within its limit. Pure.

Where a call at the stated sizes takes too long to tell anything, small sizes are doubled instead.

The task that is left should still be the problem's: the batch and the rows go first, and the
arithmetic intensity stays near the problem's as long as another size can be halved instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from akg_tui.store.reference_constants import Constant

LEAST_SHARE = 0.05
"""Halving a size must save this share of the cost; a kernel's width or a factor saves less."""

RIDGE = 64.0
"""The operations a byte from which on arithmetic, not memory, bounds a call on any machine."""

FAR = 2.0
"""An intensity, at most `RIDGE`, that differs by this factor is no reason to halve another size."""

Shapes = Sequence[tuple[int, ...]]
Sizes = Mapping[str, int]


class Role(IntEnum):
    """What a size is for the inputs, in the order in which sizes are halved."""

    BATCH, ROWS, MIDDLE, TRAINED, INNER, WIDTH = range(6)


LEAST = {Role.ROWS: 16}
"""The least size that is halved to while others can be; 2 unless stated. The results keep as many
elements as that of rows: of one number a row, those of two rows would hardly differ."""


SMALL = (2, 8, 16, 128)
"""The sizes from which others grow: a reference may refuse few heads, or narrow rows."""


class Found(NamedTuple):
    """What a call takes under some sizes, its intensity (operations a byte), and the elements of
    its results. Either of the last two is 0 if not known."""

    cost: float
    intensity: float = 0.0
    elements: int = 0

    def has_few_of(self, other: Found | None) -> bool:
        """Return whether too few elements of those of `other` are left in the results."""
        return other is not None and 0 < self.elements < min(LEAST[Role.ROWS], other.elements)


Look = Callable[[Sizes], Found | None]
"""Returns what is found under some sizes, or None if the reference refuses them."""


def sizes_of(known: Mapping[str, Constant]) -> dict[str, int]:
    """Return the constants that can be sizes: integers above 1 that no other constant gives."""
    return {
        name: each.value
        for name, each in known.items()
        if isinstance(each.value, int) and each.value > 1 and not each.derived
    }


def role(before: Shapes, after: Shapes, *, trained: bool) -> Role:
    """Return the role of a size by the shapes of the inputs before and after it is halved.

    The first input of several axes that changes decides. `trained`: the weights change with it too,
    as they do with a length that has an embedding for each place. A size that changes no shape is a
    width inside the model, or a count of heads, which would change that of a head.
    """
    axes = [
        (len(old), axis)
        for old, new in zip(before, after, strict=False)
        for axis, (was, now) in enumerate(zip(old, new, strict=False))
        if was != now
    ]
    if not axes:
        return Role.WIDTH
    count, axis = next((each for each in axes if each[0] > 1), axes[0])
    if axis == count - 1 and count > 1:
        return Role.INNER
    if trained:
        return Role.TRAINED
    return Role.BATCH if axis == 0 else Role.ROWS if axis == count - 2 else Role.MIDDLE


def shrunk(
    sizes: Sizes,
    look: Look,
    limit: float,
    roles: Mapping[str, Role] | None = None,
    intensity: float = 0.0,
) -> dict[str, int] | None:
    """Return sizes whose cost is at most `limit`, or None if no halving gets there.

    Each step halves the first size in the order of `roles`, and of one role the largest, whose
    halving saves at least `LEAST_SHARE` of the cost, leaves the results enough elements, and leaves
    the intensity near `intensity`; if there is none, the one that leaves it nearest. Where none
    saves anything, those of one value are halved together.
    """
    known = roles or {}
    current = dict(sizes)
    now = look(current)
    refused: set[tuple[str, ...]] = set()
    while now is None or now.cost > limit:
        best: tuple[tuple[bool, float], dict[str, int], Found] | None = None
        for names in _steps(current, known):
            if best is not None and len(names) > 1:
                break
            if names in refused or current[names[0]] < 2:
                continue
            tried = {**current, **{name: current[name] // 2 for name in names}}
            found = look(tried)
            if found is None:
                refused.add(names)
            elif now is None or found.cost == math.inf or found.cost <= now.cost * _LEFT:
                least = LEAST.get(known[names[0]], 2) if names[0] in known else 0
                few = tried[names[0]] < least or found.has_few_of(now)
                away = (few, max(_factor(found.intensity, intensity), FAR))
                if best is None or away < best[0]:
                    best = away, tried, found
                if away == (False, FAR):
                    break
        if best is None:
            return None
        _, current, now = best
    return current


def grown(
    sizes: Sizes, look: Look, limit: float, roles: Mapping[str, Role]
) -> dict[str, int] | None:
    """Return sizes whose cost is at most `limit`, grown from small ones; None if none is usable.

    All start at the first of `SMALL` that the reference accepts, or else each at the smallest that
    it accepts, as one may be tied to a number that stays. Each is doubled as far as the limit
    allows, those that `shrunk` halves last first.
    """
    order = sorted(sizes, key=lambda name: (-roles.get(name, 0), sizes[name]))
    steps = dict.fromkeys(sizes, 0)

    def looked(changed: Mapping[str, int]) -> Found | None:
        return look({name: sizes[name] >> {**steps, **changed}[name] for name in sizes})

    for floor in SMALL:
        least = {name: max(floor, LEAST.get(roles.get(name, Role.BATCH), 2)) for name in sizes}
        small = {name: (size // least[name] or 1).bit_length() - 1 for name, size in sizes.items()}
        if looked(small):
            steps = small
            break
    else:
        for name in reversed(order):
            tried = reversed(range(1, sizes[name].bit_length() - 1))
            steps[name] = next((step for step in tried if looked({name: step})), 0)
    found = looked({})
    if found is None or found.cost > limit:
        return None
    for name in order:
        for step in reversed(range(steps[name])):
            found = looked({name: step})
            if found is not None and found.cost > limit:
                break
            if found is not None:
                steps[name] = step
    return {name: sizes[name] >> steps[name] for name in sizes}


_LEFT = 1 - LEAST_SHARE


def _factor(one: float, other: float) -> float:
    """Return by which factor two intensities differ; 1 if one of them is not known."""
    one, other = min(one, RIDGE), min(other, RIDGE)
    return max(one / other, other / one) if one and other else 1.0


def _steps(sizes: Sizes, roles: Mapping[str, Role]) -> list[tuple[str, ...]]:
    """Return the names that can be halved in one step, in the order in which they are tried.

    Elements of tuples come later: a kernel's extents are written so.
    """
    ordered = sorted(sizes, key=lambda name: (roles.get(name, 0), "[" in name, -sizes[name]))
    values = sorted(set(sizes.values()), reverse=True)
    alike = (tuple(name for name in ordered if sizes[name] == value) for value in values)
    return [*((name,) for name in ordered), *(names for names in alike if len(names) > 1)]
