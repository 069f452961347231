"""Shapes for verification of a candidate, in addition to the declared shape.

Pure: arithmetic on shapes with a random generator. Equal extents count as one dimension (rows of
x, and of the weights for them) and vary together. The judge runs the reference to find out whether
a shape makes sense.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

Shapes = tuple[tuple[int, ...], ...]

SMALL = 1 << 15
"""The approximate limit of a tensor's elements in a hidden shape, so that drawing is fast."""

GROWTH = 7


@dataclass(frozen=True)
class Dimension:
    """An extent that can vary, and its places: pairs of tensor and axis."""

    extent: int
    places: tuple[tuple[int, int], ...]


def dimensions(shapes: Shapes) -> list[Dimension]:
    """Return each extent with all of its places; extents of 0 are omitted and never vary."""
    found: dict[int, list[tuple[int, int]]] = {}
    for tensor, shape in enumerate(shapes):
        for axis, extent in enumerate(shape):
            found.setdefault(extent, []).append((tensor, axis))
    return [Dimension(extent, tuple(places)) for extent, places in found.items() if extent]


def parts(dimension: Dimension) -> list[Dimension]:
    """Return each place as a separate dimension, because extents may be equal by chance.

    Not for extent 1, which broadcasting stretches.
    """
    if dimension.extent == 1 or len(dimension.places) == 1:
        return []
    return [Dimension(dimension.extent, (place,)) for place in dimension.places]


def probe(dimension: Dimension) -> int:
    """Return an extent to try on the reference."""
    return dimension.extent - 1 if dimension.extent > 1 else 2


def with_extents(shapes: Shapes, extents: Sequence[tuple[Dimension, int]]) -> Shapes:
    """Return the shapes with the extents of the given dimensions replaced."""
    changed = [list(shape) for shape in shapes]
    for dimension, extent in extents:
        for tensor, axis in dimension.places:
            changed[tensor][axis] = extent
    return tuple(tuple(shape) for shape in changed)


def hidden_shapes(shapes: Shapes, free: Sequence[Dimension], rng: random.Random) -> list[Shapes]:
    """Return shapes to try: odd ones, one with an extent of 1, and each dimension once larger than
    declared, because a kernel may have the extent of any one in its text.

    All dimensions but the longest are shortened to save time; the longest stays long enough for
    errors of vectors and blocks to show.
    """
    if not free:
        return []
    found = [small(shapes, [(d, _odd(d.extent, rng)) for d in free])]
    several = [d for d in free if d.extent > 1]
    if several:
        one = rng.choice(several)
        rest = [(d, _odd(d.extent, rng)) for d in free if d is not one]
        found.append(small(shapes, [*rest, (one, 1)]))
    for grown in rng.sample(free, len(free)):
        rest = [(d, _odd(d.extent, rng)) for d in free if d is not grown]
        larger = grown.extent + (rng.randint(1, GROWTH) if grown.extent > 1 else 1)
        found.append(small(shapes, [*rest, (grown, larger)], keep=grown))
    return [other for index, other in enumerate(found) if other not in found[:index]]


def small(
    shapes: Shapes, extents: Sequence[tuple[Dimension, int]], keep: Dimension | None = None
) -> Shapes:
    """Return shapes cut down to about SMALL elements, the longest dimension last."""
    wanted = dict(extents)
    order = sorted((d for d in wanted if d is not keep), key=lambda d: d.extent)
    for dimension in order:
        for _ in range(64):
            size = max(math.prod(shape) for shape in with_extents(shapes, list(wanted.items())))
            if size <= SMALL or wanted[dimension] <= 3:
                break
            wanted[dimension] = (wanted[dimension] // 2) | 1
    return with_extents(shapes, list(wanted.items()))


def _odd(extent: int, rng: random.Random) -> int:
    """Return an odd extent of at least half of `extent`: no multiple of any vector's width."""
    return rng.randint((extent + 1) // 2, max(extent - 1, 1)) | 1 if extent > 2 else extent
