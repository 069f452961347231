"""Finds the elements of a result that rounding decides, and what a candidate may return there.

Such are integers near a tie, and numbers that depend on a step inside a reference, such as `round`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from akg_tui.evaluate.child.tensor_layout import computable
from akg_tui.evaluate.correctness.error_metric import CEILINGS, Bound, all_finite, errors_of

TIED_MOST = 1 / 8
"""The largest share of integers that rounding may decide in an unusual input."""

DECIDED_FROM = 0.5
"""Rounding decides an element whose possible values differ by this share of the ceiling."""
DECIDED_MOST = 1 / 16
"""The largest mean of these differences, relative to the result, at which they count."""
DECIDED_OTHERS = 1 / 16
"""Of the elements that rounding decides this share, and two, may have values that no alternative
has: one decision may hide another (two numbers that change places between the same two bins), and
one number that changes its bin changes two."""
DECIDED_TIMES, DECIDED_LEAST = 4, 1 / 64
"""Where alternatives are not known (in timed calls) rounding may decide this multiple of what it
decides in an ordinary draw, and at least this share of a result: a draw may have none."""


class Alternatives(NamedTuple):
    """Results that a candidate may return instead of the reference's, where rounding decides.

    `whole` are alternatives for integers and booleans. Of `inexact` ones a result may have any
    values between them.
    """

    whole: Sequence[Sequence[torch.Tensor]] = ()
    inexact: Sequence[Sequence[torch.Tensor]] = ()


NO_ALTERNATIVES = Alternatives()


def has_ties(results: torch.Tensor) -> bool:
    """Return whether rounding decides too many of the integers to compare others with them.

    `results` are several, one on another. A tie of more than two (argmax of equal values) has no
    correct answer among them.
    """
    undecided = (results != results[0]).any(0)
    ordered = results.sort(0).values
    changes = (ordered[1:] != ordered[:-1]).sum(0)
    return int(undecided.sum()) > undecided.numel() * TIED_MOST or bool((changes > 1).any())


class Range(NamedTuple):
    """The least and the largest values that an inexact result may have.

    `decided` is true where rounding decides; nowhere if it decides too much of a result.
    """

    least: torch.Tensor
    largest: torch.Tensor
    decided: torch.Tensor


def range_of(
    native: torch.Tensor, target: torch.Tensor, others: Sequence[torch.Tensor]
) -> Range | None:
    """Return the range of a result, its target and their alternatives; None for complex numbers."""
    if native.is_complex():
        return None
    least = computable(target).double()
    largest = least.clone()
    for each in (native, *others):
        wide = computable(each).double()
        least, largest = torch.minimum(least, wide), torch.maximum(largest, wide)
    differences = errors_of(largest, native, least)
    decided = differences > DECIDED_FROM * CEILINGS[native.dtype]
    if not float(differences.mean()) <= DECIDED_MOST:
        decided.zero_()
    return Range(least, largest, decided)


def decided_share(within: Range | None) -> float:
    """Return the share of elements that rounding may decide in another draw."""
    if within is None:
        return 0.0
    count = int(within.decided.sum())
    return max(DECIDED_TIMES * count / max(within.decided.numel(), 1), DECIDED_LEAST)


def settled(result: torch.Tensor, target: torch.Tensor, within: Range | None) -> torch.Tensor:
    """Return a result that equals the target where rounding decides."""
    if within is None or not bool(within.decided.any()):
        return result
    return torch.where(within.decided, target.to(result.dtype), result)


def unexplained(
    errors: torch.Tensor,
    result: torch.Tensor,
    native: torch.Tensor,
    target: torch.Tensor,
    *,
    bound: Bound,
    others: Sequence[torch.Tensor],
) -> torch.Tensor:
    """Return the errors, but zero for those that decisions by rounding may cause.

    A decided element may be anywhere between its alternatives. A few others may be wrong too, by no
    more than the decided ones differ (`DECIDED_OTHERS`). Without alternatives a share of the
    elements may be wrong (`Bound.decided`).
    """
    if not others:
        count = int((~(errors <= bound.tolerance)).sum())
        few = count <= 1 + bound.decided * errors.numel()
        spared = bound.decided > 0 and few and all_finite((errors,))
        return errors.clamp(max=bound.tolerance) if spared else errors
    within = range_of(native, target, others)
    if within is None or not bool(within.decided.any()):
        return errors
    nearest = result.double().clamp(within.least, within.largest)
    between = within.decided & (errors_of(result, native, nearest, bound) <= bound.tolerance)
    left = errors.masked_fill(between, 0.0)
    wrong = left[~(left <= bound.tolerance)]
    ranges = errors_of(within.largest, native, within.least, bound)[within.decided]
    few = len(wrong) <= 2 + DECIDED_OTHERS * len(ranges)
    if few and len(wrong) and bool((wrong <= ranges.max()).all()):
        return left.clamp(max=bound.tolerance)
    return left
