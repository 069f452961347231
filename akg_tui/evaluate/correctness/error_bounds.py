"""Derives the bounds of candidates from the results of the reference.

A candidate may be eight times as far from the exact result as the reference in its own precision,
and always as far as the floor of its dtype. A floor is the error of eager PyTorch on common
operators, with a margin, or that of adding one by one, whichever is larger.

A result in half precision, or in 8 bits, is the rounded result of a computation in single
precision. So its bound has two parts: some roundings to the dtype (as many as the reference makes,
or twice its own error), and the error of adding in single precision.

The size and the error of a few elements are sometimes small by luck, which says nothing of other
kernels' errors. So the results of several draws are judged as one where a result has few elements.
Where there is one draw of a kind, the effect of rounding a partial sum is measured too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from akg_tui.evaluate.child.protocol import FEW
from akg_tui.evaluate.child.tensor_layout import FLOAT8, computable
from akg_tui.evaluate.correctness.error_metric import (
    CEILINGS,
    FLOORS,
    HALF,
    NEGLIGIBLE,
    Bound,
    SmallSlices,
    all_finite,
    dtype_name,
    errors_of,
    mask_of,
    rms,
    slice_scales,
    strange_values,
    worst_error,
)
from akg_tui.evaluate.correctness.near_ties import decided_share, has_ties, range_of, settled

HEADROOM = 8.0
HALF_HEADROOM = 2.0
"""Of 16 bits. Of 8 bits it is 1: a reference that rounds in double precision too is off by a step
where a value lies between two, and so may a kernel be, but by no more."""
ROUNDINGS = (2, 4)
"""The least and largest number of roundings that a kernel in half precision may make.

One is the rounding of the result; a reference of several operators rounds after each. No operators
compute in 8 bits, so there it is the least number: a step from one value to the next."""
RANDOM_SUM = 4.0
"""The deviations that a sum of errors of random sign may reach."""
NUDGED_SUM = 2.0
"""`RANDOM_SUM`, in units of the largest of many elements' errors instead of a deviation."""
EQUAL_SUM = 0.25
"""The share of the largest possible error that a sum may reach in half precision, where the
roundings of the result come on top, and the whole of it would hide terms that are left out."""
MEAN_EFFECTS = 4.0
"""The largest effect of a change on an element, in units of the mean of many."""
MOVED_FEW, MOVED_SHARE = 3, 0.02
"""The elements of a row, and the further share of them, that a small effect may move by a step."""
LONG_SUM = 1e-2
"""The largest error that a long sum of unusual values may have.

0.1 added a million times one by one in float32 is wrong by 0.16 of the largest possible error, and
sums of equal rows that cancel by more. Ordinary inputs tell whether a kernel leaves out terms."""

SMALL_SLICE = 1e-3
SMALL_TIMES, SMALL_MOST = 4.0, 0.05
"""A slice is small if its rms is below the share `SMALL_SLICE` of the whole result's, or below
`SMALL_TIMES` times the bound (at most `SMALL_MOST`): zeros, or a few digits, would be right."""
SLICE_OWN = 4.0
"""Its own rms counts if the reference's error there, relative to that, is at most this multiple of
its error in the whole result, or of one rounding. Else the slice is the difference of larger
numbers, and its values are roundings."""
SLICE_VALUES = FEW // 2
"""The number of elements, each at least half of the slice's rms, that a slice with its own rms has.

Fewer may be exact by luck: where ReLU leaves one element of a channel, its rounding is that of the
larger numbers that it is the difference of."""


def bounds(
    reference: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor] | None,
    tolerance: float | None,
    terms: int = 1,
    *,
    roundings: int = 1,
    pooled: Sequence[Bound | None] = (),
    decided: Sequence[Sequence[torch.Tensor]] = (),
) -> list[Bound]:
    """Return the bounds of candidates; `tolerance` overrides them for inexact dtypes.

    The reference adds `terms` for an element of a result, and its operators make `roundings` in
    half precision. Without exact results its own error is unknown, and the floor is assumed.
    `pooled` are the bounds of results with few elements. `decided` are `Alternatives.inexact`.
    """
    found: list[Bound] = []
    for index, result in enumerate(reference):
        native, target, share = result, exact[index] if exact is not None else None, 0.0
        if target is not None and decided and native.dtype in FLOORS:
            within = range_of(native, target, [each[index] for each in decided])
            native, share = settled(native, target, within), decided_share(within)
        known = _known(pooled, index) or _bound(native, target, tolerance, (terms, roundings))
        found.append(replace(known, decided=share if known.exact else 0.0))
    return found


def _known(pooled: Sequence[Bound | None], index: int) -> Bound | None:
    return pooled[index] if index < len(pooled) else None


def pooled_bounds(
    draws: Sequence[tuple[Sequence[torch.Tensor], Sequence[torch.Tensor] | None]],
    tolerance: float | None,
    terms: int = 1,
    *,
    roundings: int = 1,
) -> list[Bound | None]:
    """Return the bounds of outputs with few elements, None for others.

    The native and exact results of several `draws` are judged as if they were one result.
    """
    found: list[Bound | None] = []
    exact_known = all(exact is not None for _, exact in draws)
    for index, first in enumerate(draws[0][0]):
        if not has_few(first):
            found.append(None)
            continue
        native = torch.cat([results[index].reshape(-1) for results, _ in draws])
        exact = None
        if exact_known:
            exact = torch.cat([each[index].reshape(-1) for _, each in draws if each is not None])
        bound = _bound(native, exact, tolerance, (terms, roundings))
        target = exact if exact is not None and bound.exact else native
        target = computable(target)
        sized = target[torch.isfinite(target)]
        found.append(replace(bound, scale=rms(sized, sized.numel())))
    return found


def with_slices(
    reference: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor] | None,
    held: Sequence[Bound],
) -> list[Bound]:
    """Return the bounds with the slices whose small values count by their own rms."""
    return [
        replace(bound, slices=_small_slices(native, exact[index], bound))
        if exact is not None and bound.exact
        else bound
        for index, (native, bound) in enumerate(zip(reference, held, strict=True))
    ]


def _small_slices(
    native: torch.Tensor, exact: torch.Tensor, bound: Bound
) -> tuple[SmallSlices, ...]:
    if native.dtype not in FLOORS or native.dtype in FLOAT8 or not all_finite((native,)):
        return ()
    found: list[SmallSlices] = []
    for axis, extent in enumerate(native.shape):
        if extent > 1 and native.numel() >= FEW * extent:
            small = _small(native, exact, bound, axis)
            if bool(small.any()):
                found.append(SmallSlices(axis, small))
    return tuple(found)


def _small(native: torch.Tensor, exact: torch.Tensor, bound: Bound, axis: int) -> torch.Tensor:
    """Return which slices along an axis are small and as exact as the whole (`SmallSlices`).

    Zeros and values much smaller than the others of a slice do not tell how exact it is.
    """
    scales, whole = slice_scales(exact, axis), rms(exact, exact.numel())
    share = max(SMALL_SLICE, min(SMALL_TIMES * bound.tolerance, SMALL_MOST))
    # Rounding is relative to the value only above the denormal numbers.
    least = torch.finfo(native.dtype).smallest_normal if native.dtype in HALF else 0.0
    small = (scales < share * whole) & (scales > least)
    if not bool(small.any()):
        return small
    others = [each for each in range(exact.dim()) if each != axis]
    size = exact.abs()
    small &= (size >= scales / 2).sum(others, keepdim=True) >= SLICE_VALUES
    error = (native.to(exact.dtype) - exact).abs() / (size + scales)
    headroom = HALF_HEADROOM if native.dtype in HALF else HEADROOM
    own = max(bound.own_error, torch.finfo(native.dtype).eps)
    return small & (
        error.amax(others, keepdim=True) <= min(bound.tolerance / headroom, SLICE_OWN * own)
    )


def has_few(result: torch.Tensor) -> bool:
    """Return whether a result has too few elements to say how large its error may be."""
    return result.dtype in FLOORS and 0 < result.numel() < FEW


def conditioned(
    reference: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor] | None,
    nudged: Sequence[Sequence[torch.Tensor]] | None,
    tolerance: float | None,
    terms: int = 1,
    *,
    roundings: int = 1,
    ties: Sequence[Sequence[torch.Tensor]] = (),
    decided: Sequence[Sequence[torch.Tensor]] = (),
    masks: Sequence[float | None] = (),
    random: bool = False,
) -> list[Bound] | None:
    """Return the bounds of candidates on unusual inputs; None where that would be unfair.

    `nudged` are exact results for inputs that differ by a rounding: first of each element, then,
    for results of few elements, as if each partial sum were rounded. Where these, or the
    reference's own results, are further from `exact` than any candidate's ceiling (the variance of
    a constant row), the result is ill-conditioned. Without exact results the bound is the ceiling.
    `ties` are results whose integers show near ties, `decided` are `Alternatives.inexact`.
    `masks` are `Bound.mask` of each result. `random`: whether the values are drawn ones, so that
    the errors of a sum have random sign.
    """
    held: list[Bound] = []
    for index, result in enumerate(reference):
        native = result
        inexact = native.dtype in FLOORS
        ceiling = tolerance or CEILINGS.get(native.dtype, 0.0)
        if exact is None or nudged is None:
            held.append(Bound(ceiling, origin=_given(tolerance) or _ceiling(native.dtype)))
            continue
        target, others = exact[index], [each[index] for each in nudged]
        if not inexact:
            near = [each[index] for each in ties]
            if has_ties(torch.stack([target, native, *others, *near])):
                return None
            held.append(Bound(0.0, origin="equal"))
            continue
        if not all_finite((native, target, *others)) and any(
            bool(strange_values(each, native).any()) for each in (target, *others)
        ):
            return None
        if decided:
            within = range_of(native, target, [each[index] for each in decided])
            native = settled(native, target, within)
            others = [settled(each, target, within) for each in others]
        masked = Bound(0.0, mask=masks[index] if masks else None)
        own = worst_error(native, native, target, masked)
        nudge, *sums = (worst_error(each, native, target, masked) for each in others)
        rounded_sums = max(sums) if sums and has_few(native) else 0.0
        if native.dtype in HALF:
            nudge = min(nudge, _mean_effect(others[0], native, target))
            bound, origin = _half(native, target, own, nudge, (terms, roundings), random=random)
            bound += HEADROOM * rounded_sums
            shaken = own
        else:
            shaken = max(own, nudge, rounded_sums)
            effect = "one rounding of the inputs" if shaken > rounded_sums else "rounding sums"
            bound, origin = HEADROOM * shaken, f"8 times the effect of {effect}"
        if not bound <= ceiling:
            return None
        # The inputs are changed once, and a sum of n terms is rounded n times.
        growth = (RANDOM_SUM if has_few(native) else NUDGED_SUM) * math.sqrt(terms)
        summed = min(growth * max(own, nudge), LONG_SUM)
        if native.dtype not in HALF and bound < summed:
            bound, origin = summed, f"{growth:.0f} times the effect of one rounding of the inputs"
        least = floor(native.dtype, terms, random=random)
        if native.dtype not in HALF and bound < least:
            bound, origin = least, _sums(native.dtype, terms)
        origin = _given(tolerance) or origin
        held.append(Bound(tolerance or bound, shaken, True, origin=origin, mask=masked.mask))
    return held


def _mean_effect(nudged: torch.Tensor, native: torch.Tensor, target: torch.Tensor) -> float:
    """Return the effect of changed inputs on a result that the reference rounds by itself.

    It rounds in double precision too (`.to(torch.bfloat16)`), so a change shows as whole steps: an
    effect of a thousandth of a step moves one of a thousand elements by a step. The mean shows it.
    Infinite if the result is not rounded, or if a row has so many moved elements, or an element
    moves by so much, that the effect there may be as large as a step.
    """
    dtype = native.dtype
    rounded = torch.equal(computable(target.to(dtype)).to(target.dtype), target)
    if not rounded or not target.numel():
        return math.inf
    width = target.shape[-1] if target.dim() else 1
    moved = (nudged != target).reshape(-1, width).sum(-1)
    errors = errors_of(nudged, native, target)
    scattered = int(moved.max()) <= MOVED_FEW + MOVED_SHARE * width
    if not scattered or float(errors.max()) > torch.finfo(dtype).eps:
        return math.inf
    return MEAN_EFFECTS * float(errors.mean())


def floor(dtype: torch.dtype, terms: int, *, random: bool) -> float:
    """Return the error that a kernel may always have which adds `terms` numbers one by one.

    Of n additions with unit roundoff u the error is at most n u times the sum of the magnitudes,
    and for errors of random sign about sqrt(n) u (Higham, Accuracy and Stability of Numerical
    Algorithms, 2nd ed., section 4.2 and 2.8). Equal numbers give errors of equal sign, and small
    ones added to a large one may all be lost.
    """
    unit = torch.finfo(dtype).eps / 2
    growth = RANDOM_SUM * math.sqrt(terms)
    if random:
        return min(max(FLOORS[dtype], growth * unit), CEILINGS[dtype])
    return max(FLOORS[dtype], min(max(growth, terms) * unit, LONG_SUM))


def _half(
    native: torch.Tensor,
    target: torch.Tensor,
    own: float,
    nudge: float | None,
    work: tuple[int, int],
    *,
    random: bool,
) -> tuple[float, str]:
    """Return the bound of a result in half precision, and its origin.

    `nudge` is the effect of one rounding of the inputs to single precision, for unusual values;
    `work` are the terms and roundings of the reference; `random`: see `conditioned`. Where a result
    is denormal, a rounding is not relative to it.
    """
    terms, kind = work[0], torch.finfo(native.dtype)
    least, most = ROUNDINGS
    roundings, headroom = min(max(work[1] + 1, least), most), HALF_HEADROOM
    if native.dtype in FLOAT8:
        roundings, headroom = least, 1.0
    scale = rms(target, target.numel())
    # Only these are not flushed (`errors_of`), and zero is never rounded.
    matters = native.dtype not in NEGLIGIBLE and 0 < scale < math.inf
    denormal = kind.smallest_normal / scale if matters else 0.0
    unit = kind.eps / 2 * (1 + denormal)
    single = torch.finfo(torch.float32).eps / 2
    growth = max(RANDOM_SUM * math.sqrt(terms), 0.0 if random else EQUAL_SUM * terms)
    added = growth * max(single, nudge or 0.0)
    rounded, origin = roundings * unit, f"{roundings} roundings to {dtype_name(native.dtype)}"
    if headroom * own > rounded:
        times = "twice " if headroom > 1 else ""
        rounded, origin = headroom * own, f"{times}the reference's own error"
    sums = f", and adding {terms} terms in float32" if terms > 1 else ""
    return rounded + added, origin + sums


def _bound(
    native: torch.Tensor,
    exact: torch.Tensor | None,
    tolerance: float | None,
    work: tuple[int, int],
) -> Bound:
    if native.dtype not in FLOORS:
        return Bound(0.0, origin="equal")
    ceiling, own = CEILINGS[native.dtype], FLOORS[native.dtype]
    masked = Bound(0.0, mask=mask_of(native))
    if exact is not None:
        own = worst_error(native, native, exact, masked)
    # Where double precision takes another path (a cast, a threshold), it is no standard.
    usable = exact is not None and own <= (tolerance or ceiling)
    if not usable:
        own = FLOORS[native.dtype]
    if native.dtype in HALF:
        bound, origin = _half(native, native, own, None, work, random=True)
    else:
        bound, origin = HEADROOM * own, "8 times the reference's own error"
        least = floor(native.dtype, work[0], random=True)
        if bound < least:
            bound, origin = least, _sums(native.dtype, work[0])
    if bound > ceiling:
        bound, origin = ceiling, _ceiling(native.dtype)
    return replace(
        masked,
        tolerance=tolerance or bound,
        own_error=own,
        exact=usable,
        origin=_given(tolerance) or origin,
    )


def _given(tolerance: float | None) -> str:
    return "the task's tolerance" if tolerance else ""


def _ceiling(dtype: torch.dtype) -> str:
    return f"the largest error that {dtype_name(dtype)} may have"


def _sums(dtype: torch.dtype, terms: int) -> str:
    sums = f" for adding {terms} terms one by one" if terms > 1 else ""
    return f"the floor of {dtype_name(dtype)}{sums}"


def widest(several: Sequence[Sequence[Bound]]) -> list[Bound]:
    """Return the largest of several bounds for each output."""
    return [
        Bound(
            max(b.tolerance for b in each),
            max(b.own_error for b in each),
            all(b.exact for b in each),
            max(b.scale for b in each),
            max(each, key=lambda b: b.tolerance).origin,
            _common_slices(each),
            each[0].mask,
            max(b.decided for b in each),
        )
        for each in zip(*several, strict=True)
    ]


def _common_slices(several: Sequence[Bound]) -> tuple[SmallSlices, ...]:
    """Return the slices that are small in all of several draws."""
    first, *others = ({found.axis: found.which for found in each.slices} for each in several)
    axes = [axis for axis in first if all(axis in other for other in others)]
    found = [
        SmallSlices(axis, torch.stack([first[axis], *(other[axis] for other in others)]).all(0))
        for axis in axes
    ]
    return tuple(each for each in found if bool(each.which.any()))


def loosened(held: Sequence[Bound]) -> list[Bound]:
    """Return bounds for a comparison with the reference's own results, not exact ones."""
    return [
        replace(b, tolerance=b.tolerance + 2 * b.own_error, exact=False) if b.tolerance else b
        for b in held
    ]


def widened(held: Sequence[Bound], factor: float) -> list[Bound]:
    """Return bounds with `factor` times the tolerance."""
    return [replace(b, tolerance=factor * b.tolerance) for b in held]
