"""Compares results with those of the reference: the metric, its bounds, and the messages.

Reads tensors in the judge's memory; must never run code under evaluation.

The metric is ``max|y - r| / (|r| + rms(r))`` with ``r`` computed in double precision where
the reference allows it. A candidate may be eight times as far from ``r`` as the reference
in its own precision, and always as far as the floor of its dtype. A floor is the error of eager
PyTorch on common operators, with a margin, or that of adding one by one, whichever is larger.

A result in half precision, or in 8 bits, is the rounded result of a computation in single
precision. So its bound has two parts: some roundings to the dtype (as many as the reference makes,
or twice its own error), and the error of adding in single precision.

The size and the error of a few elements are sometimes small by luck, which says nothing of other
kernels' errors. So the results of several draws are judged as one where a result has few elements.
Where there is one draw of a kind, the effect of rounding a partial sum is measured too.

A slice of a result along an axis (a channel) may be so small beside the whole that zeros lie within
the bound. The elements of such a slice are compared with the rms of the slice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch

from akg_tui.evaluate.child.protocol import FEW
from akg_tui.evaluate.child.tensor_layout import FLOAT8, computable

FLOORS = {
    torch.float64: 1e-12,
    torch.complex128: 1e-12,
    torch.float32: 2e-6,
    torch.complex64: 2e-6,
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
    torch.float8_e4m3fn: 2**-4,
    torch.float8_e4m3fnuz: 2**-4,
    torch.float8_e5m2: 2**-3,
}
"""The least bounds; in half precision the bound where no exact results are known."""

CEILINGS = {
    torch.float64: 1e-9,
    torch.complex128: 1e-9,
    torch.float32: 1e-4,
    torch.complex64: 1e-4,
    torch.float16: 1e-2,
    torch.bfloat16: 5e-2,
    torch.float8_e4m3fn: 3 * 2**-4,
    torch.float8_e4m3fnuz: 3 * 2**-4,
    torch.float8_e5m2: 3 * 2**-3,
}
"""The largest allowed error of a candidate, for any condition of the reference."""

HALF = (torch.float16, torch.bfloat16, *FLOAT8)
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

TIED_MOST = 1 / 8
"""The largest share of integers that rounding may decide in an unusual input."""

DECIDED_FROM = 0.5
"""Rounding decides an element whose possible values differ by this share of the ceiling."""
DECIDED_MOST = 1 / 16
"""The largest mean of these differences, relative to the result, at which they count."""
DECIDED_OTHERS = 1 / 32
"""Of the elements that rounding decides this share, and one, may have values that no alternative
has: one decision may hide another (two numbers that change places between the same two bins)."""

BLOCK = 1 << 17
"""The elements that a thread compares at a time."""

NEGLIGIBLE = {
    torch.float64: torch.finfo(torch.float64).tiny,
    torch.complex128: torch.finfo(torch.float64).tiny,
    torch.float32: 1e-31,
    torch.complex64: 1e-31,
    torch.bfloat16: 1e-31,
}
"""Differences that do not count.

Flushed denormal numbers are smaller. In single precision a kernel that bounds the argument of an
exponential leaves more: for z = -350, z / (1 + exp(80)) is -6e-33 instead of 0. (CPUs do not flush
float16, whose denormal numbers are not small; nor are those of 8 bits.)"""

PLAIN_SCALE = 1e-20
"""Below this scale `NEGLIGIBLE` differences are not negligible beside a tolerance."""

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

SHOWN = 8
ROUNDING_SHARE = 8.0
ROUNDING_MOST = 1e-3
"""An error of at most this many tolerances, and of at most this size, is probably rounding. In half
precision the size does not matter, but in 8 bits it is at most the ceiling."""


class SmallSlices(NamedTuple):
    """The slices along an axis of a result that are small in the draw of the task's examination.

    `which` is true for them; it has one element a slice, and the dimensions of the result.
    """

    axis: int
    which: torch.Tensor


@dataclass(frozen=True)
class Bound:
    """The `tolerance` of one output, with the reference's own error.

    `exact`: whether double-precision results are the standard (computed by the same path).
    `scale`: what rms(r) is at least in the metric, because a result of few elements may be small by
    luck. `origin`: what the tolerance is derived from, in a short phrase. `slices`: those with a
    scale of their own.
    """

    tolerance: float
    own_error: float = 0.0
    exact: bool = False
    scale: float = 0.0
    origin: str = field(default="", compare=False)
    slices: tuple[SmallSlices, ...] = field(default=(), compare=False)


_PLAIN = Bound(0.0)


class Alternatives(NamedTuple):
    """Results that a candidate may return instead of the reference's, where rounding decides.

    `whole` are alternatives for integers and booleans. Of `inexact` ones a result may have any
    values between them.
    """

    whole: Sequence[Sequence[torch.Tensor]] = ()
    inexact: Sequence[Sequence[torch.Tensor]] = ()


_NONE = Alternatives()


@dataclass(frozen=True)
class Comparison:
    """`error` and `tolerance` of the worst output; `message` is empty when all match.

    `outputs` are the comparisons of the outputs up to the first that does not match.
    """

    error: float
    tolerance: float
    message: str = ""
    detail: str = ""
    origin: str = field(default="", compare=False)
    dtype: str = field(default="", compare=False)
    outputs: tuple[Comparison, ...] = field(default=(), compare=False)


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
        native, target = result, exact[index] if exact is not None else None
        if target is not None and decided and native.dtype in FLOORS:
            others = [each[index] for each in decided]
            native = _settled(native, target, _range(native, target, others))
        known = _known(pooled, index)
        found.append(known or _bound(native, target, tolerance, (terms, roundings)))
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
        found.append(replace(bound, scale=_rms(sized, sized.numel())))
    return found


def small_slices(
    reference: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor] | None,
    held: Sequence[Bound],
) -> list[tuple[SmallSlices, ...]]:
    """Return for each result its slices with small values that count by their own rms."""
    found: list[tuple[SmallSlices, ...]] = []
    for index, (native, bound) in enumerate(zip(reference, held, strict=True)):
        known: list[SmallSlices] = []
        coarse = native.dtype not in FLOORS or native.dtype in FLOAT8
        if exact is not None and bound.exact and not coarse and all_finite((native,)):
            for axis, extent in enumerate(native.shape):
                if extent < 2 or native.numel() < FEW * extent:
                    continue
                small = _small(native, exact[index], bound, axis)
                if bool(small.any()):
                    known.append(SmallSlices(axis, small))
        found.append(tuple(known))
    return found


def _small(native: torch.Tensor, exact: torch.Tensor, bound: Bound, axis: int) -> torch.Tensor:
    """Return which slices along an axis are small and as exact as the whole (`SmallSlices`).

    Zeros and values much smaller than the others of a slice do not tell how exact it is.
    """
    scales, whole = _slice_scales(exact, axis), _rms(exact, exact.numel())
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


def _slice_scales(values: torch.Tensor, axis: int) -> torch.Tensor:
    """Return the rms of each slice along an axis, in as many dimensions as `values` has."""
    others = [each for each in range(values.dim()) if each != axis]
    kind = torch.complex128 if values.is_complex() else torch.float64
    norms = torch.linalg.vector_norm(computable(values), dim=others, keepdim=True, dtype=kind)
    count = max(values.numel() // values.shape[axis], 1)
    return torch.div(norms, math.sqrt(count))


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
    random: bool = False,
) -> list[Bound] | None:
    """Return the bounds of candidates on unusual inputs; None where that would be unfair.

    `nudged` are exact results for inputs that differ by a rounding: first of each element, then,
    for results of few elements, as if each partial sum were rounded. Where these, or the
    reference's own results, are further from `exact` than any candidate's ceiling (the variance of
    a constant row), the result is ill-conditioned. Without exact results the bound is the ceiling.
    `ties` are results whose integers show near ties, `decided` are `Alternatives.inexact`.
    `random`: whether the values are drawn ones, so that the errors of a sum have random sign.
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
            if _has_ties(torch.stack([target, native, *others, *near])):
                return None
            held.append(Bound(0.0, origin="equal"))
            continue
        if not all_finite((native, target, *others)) and any(
            bool(_strange(each, native).any()) for each in (target, *others)
        ):
            return None
        if decided:
            within = _range(native, target, [each[index] for each in decided])
            native = _settled(native, target, within)
            others = [_settled(each, target, within) for each in others]
        own = _worst(native, native, target)
        nudge, *sums = (_worst(each, native, target) for each in others)
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
        held.append(
            Bound(tolerance or bound, shaken, exact=True, origin=_given(tolerance) or origin)
        )
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
    errors = _errors(nudged, native, target)
    scattered = int(moved.max()) <= MOVED_FEW + MOVED_SHARE * width
    if not scattered or float(errors.max()) > torch.finfo(dtype).eps:
        return math.inf
    return MEAN_EFFECTS * float(errors.mean())


def _has_ties(results: torch.Tensor) -> bool:
    """Return whether rounding decides too many of the integers to compare others with them.

    `results` are several, one on another. A tie of more than two (argmax of equal values) has no
    correct answer among them.
    """
    undecided = (results != results[0]).any(0)
    ordered = results.sort(0).values
    changes = (ordered[1:] != ordered[:-1]).sum(0)
    return int(undecided.sum()) > undecided.numel() * TIED_MOST or bool((changes > 1).any())


def all_finite(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether no value is NaN or infinite."""
    # A finite sum, one pass, proves all values finite; else each value is checked.
    return all(
        math.isfinite(abs(tensor.sum().item())) or bool(torch.isfinite(tensor).all())
        for tensor in map(computable, tensors)
    )


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
    scale = _rms(target, target.numel())
    # Only these are not flushed (`_errors`), and zero is never rounded.
    matters = native.dtype not in NEGLIGIBLE and 0 < scale < math.inf
    denormal = kind.smallest_normal / scale if matters else 0.0
    unit = kind.eps / 2 * (1 + denormal)
    single = torch.finfo(torch.float32).eps / 2
    growth = max(RANDOM_SUM * math.sqrt(terms), 0.0 if random else EQUAL_SUM * terms)
    added = growth * max(single, nudge or 0.0)
    rounded, origin = roundings * unit, f"{roundings} roundings to {_name(native.dtype)}"
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
    ceiling = CEILINGS[native.dtype]
    own = _worst(native, native, exact) if exact is not None else FLOORS[native.dtype]
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
    return Bound(tolerance or bound, own, usable, origin=_given(tolerance) or origin)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _given(tolerance: float | None) -> str:
    return "the task's tolerance" if tolerance else ""


def _ceiling(dtype: torch.dtype) -> str:
    return f"the largest error that {_name(dtype)} may have"


def _sums(dtype: torch.dtype, terms: int) -> str:
    sums = f" for adding {terms} terms one by one" if terms > 1 else ""
    return f"the floor of {_name(dtype)}{sums}"


def widest(several: Sequence[Sequence[Bound]]) -> list[Bound]:
    """Return the largest of several bounds for each output."""
    return [
        Bound(
            max(b.tolerance for b in each),
            max(b.own_error for b in each),
            all(b.exact for b in each),
            max(b.scale for b in each),
            max(each, key=lambda b: b.tolerance).origin,
            each[0].slices,
        )
        for each in zip(*several, strict=True)
    ]


def differ(
    results: Sequence[torch.Tensor], others: Sequence[torch.Tensor], least: float = 0.0
) -> bool:
    """Return whether an inexact result differs by more than `least` and its dtype's ceiling."""
    return any(
        result.dtype in FLOORS
        and result.shape == other.shape
        and not _worst(result, result, other) <= max(least, CEILINGS[result.dtype])
        for result, other in zip(results, others, strict=True)
    )


class _Range(NamedTuple):
    """The least and the largest values that an inexact result may have.

    `decided` is true where rounding decides; nowhere if it decides too much of a result.
    """

    least: torch.Tensor
    largest: torch.Tensor
    decided: torch.Tensor


def _range(
    native: torch.Tensor, target: torch.Tensor, others: Sequence[torch.Tensor]
) -> _Range | None:
    """Return the range of a result, its target and their alternatives; None for complex numbers."""
    if native.is_complex():
        return None
    several = torch.stack([computable(each).double() for each in (target, native, *others)])
    least, largest = several.amin(0), several.amax(0)
    differences = _errors(largest, native, least)
    decided = differences > DECIDED_FROM * CEILINGS[native.dtype]
    if not float(differences.mean()) <= DECIDED_MOST:
        decided.zero_()
    return _Range(least, largest, decided)


def _settled(result: torch.Tensor, target: torch.Tensor, within: _Range | None) -> torch.Tensor:
    """Return a result that equals the target where rounding decides."""
    if within is None or not bool(within.decided.any()):
        return result
    return torch.where(within.decided, target.to(result.dtype), result)


def _unexplained(
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
    more than the decided ones differ (`DECIDED_OTHERS`).
    """
    within = _range(native, target, others)
    if within is None or not bool(within.decided.any()):
        return errors
    nearest = result.double().clamp(within.least, within.largest)
    between = within.decided & (_errors(result, native, nearest, bound) <= bound.tolerance)
    left = errors.masked_fill(between, 0.0)
    wrong = left[~(left <= bound.tolerance)]
    ranges = _errors(within.largest, native, within.least, bound)[within.decided]
    few = len(wrong) <= 1 + DECIDED_OTHERS * len(ranges)
    if few and len(wrong) and bool((wrong <= ranges.max()).all()):
        return left.clamp(max=bound.tolerance)
    return left


def loosened(held: Sequence[Bound]) -> list[Bound]:
    """Return bounds for a comparison with the reference's own results, not exact ones."""
    return [
        replace(b, tolerance=b.tolerance + 2 * b.own_error, exact=False) if b.tolerance else b
        for b in held
    ]


def widened(held: Sequence[Bound], factor: float) -> list[Bound]:
    """Return bounds with `factor` times the tolerance."""
    return [replace(b, tolerance=factor * b.tolerance) for b in held]


def compare(
    results: Sequence[torch.Tensor],
    reference: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor] | None,
    held: Sequence[Bound],
    alternatives: Alternatives = _NONE,
) -> Comparison:
    """Compare a candidate's results, which have the reference's shapes and dtypes.

    Integers and booleans must be equal, to the reference's or to those of `alternatives`, element
    by element. Other numbers may be between theirs where rounding decides. NaN and infinities must
    be at the reference's positions, infinities with equal signs.
    """
    widest_bound = max(held, key=lambda b: b.tolerance, default=Bound(0.0))
    worst = Comparison(0.0, widest_bound.tolerance, origin=widest_bound.origin)
    outputs: list[Comparison] = []
    for index, (result, native) in enumerate(zip(results, reference, strict=True)):
        name = f"output {index}: " if len(results) > 1 else ""
        if native.dtype in FLOORS:
            bound = held[index]
            target = exact[index] if exact is not None and bound.exact else native
            others = [other[index] for other in alternatives.inexact]
            found = _within(name, result, native, target, bound=bound, others=others)
        else:
            found = _equal(name, result, native, [other[index] for other in alternatives.whole])
        found = replace(found, dtype=_name(native.dtype))
        outputs.append(found)
        if found.message:
            return replace(found, outputs=tuple(outputs))
        if native.dtype in FLOORS and found.error >= worst.error:
            worst = found
    return replace(worst, outputs=tuple(outputs))


def accepts(
    results: Sequence[torch.Tensor],
    reference: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor] | None,
    held: Sequence[Bound],
    alternatives: Alternatives = _NONE,
) -> bool:
    """Return whether `compare` finds no fault; sooner, because it need not tell which."""
    for index, (result, native) in enumerate(zip(results, reference, strict=True)):
        if native.dtype not in FLOORS:
            others = [other[index] for other in alternatives.whole]
            if bool(_unequal(result, native, others).any()):
                return False
            continue
        bound = held[index]
        target = exact[index] if exact is not None and bound.exact else native
        if not _worst(result, native, target, bound, bound.tolerance) <= bound.tolerance:
            others = [other[index] for other in alternatives.inexact]
            if not others:
                return False
            errors = _errors(result, native, target, bound)
            errors = _unexplained(errors, result, native, target, bound=bound, others=others)
            if not bool((errors <= bound.tolerance).all()):
                return False
        if not all_finite((native,)) and bool(_strange(result, native).any()):
            return False
    return True


def _unequal(
    result: torch.Tensor, native: torch.Tensor, others: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Return a mask of the elements that equal neither the reference's nor those of `others`."""
    wrong = result != native
    for other in others:
        wrong &= result != other
    return wrong


def _equal(
    name: str, result: torch.Tensor, native: torch.Tensor, others: Sequence[torch.Tensor]
) -> Comparison:
    """Compare integers or booleans; an element may equal that of one of `others` instead."""
    wrong = _unequal(result, native, others)
    return _differs(name, wrong, result, native) if bool(wrong.any()) else Comparison(0.0, 0.0)


def _within(
    name: str,
    result: torch.Tensor,
    native: torch.Tensor,
    target: torch.Tensor,
    *,
    bound: Bound,
    others: Sequence[torch.Tensor] = (),
) -> Comparison:
    """Compare an output of inexact numbers with the reference's, or with the exact `target`.

    `others` are its alternatives.
    """
    error = _worst(result, native, target, bound)
    # Where exactly one of result and reference is finite, the error is not finite either.
    alike = error <= bound.tolerance or all_finite((result,))
    if not alike or not all_finite((native,)):
        strange = _strange(result, native)
        if bool(strange.any()):
            return _differs(name, strange, result, native)
    if error <= bound.tolerance:
        return Comparison(error, bound.tolerance, origin=bound.origin)
    errors = _errors(result, native, target, bound)
    if others:
        errors = _unexplained(errors, result, native, target, bound=bound, others=others)
        error = float(errors.max())
        if error <= bound.tolerance:
            return Comparison(error, bound.tolerance, origin=bound.origin)
    place = int(errors.reshape(-1).argmax())
    where, expected, got = _values_at(place, result, target)
    most = math.inf if native.dtype in HALF else ROUNDING_MOST
    if native.dtype in FLOAT8:
        most = CEILINGS[native.dtype]
    rounded = error <= min(ROUNDING_SHARE * bound.tolerance, most)
    line = (
        f"{name}wrong values: max error {error:.2g} > {bound.tolerance:.2g} at "
        f"{where}: expected {expected}, got {got}"
    )
    if rounded and native.dtype in HALF:
        line = (
            f"{name}off by rounding: max error {error:.2g} > {bound.tolerance:.2g} at "
            f"{where}: expected {expected}, got {got}; compute in float32 and round to the "
            "result's dtype once"
        )
    elif rounded:
        line = (
            f"{name}off by rounding: max error {error:.2g} > {bound.tolerance:.2g} at "
            f"{where}: expected {expected}, got {got}; "
            "add with several accumulators or in double precision"
        )
    listing = _listing(~(errors <= bound.tolerance), result, target)
    return Comparison(error, bound.tolerance, line, listing, bound.origin)


def _errors(
    result: torch.Tensor, native: torch.Tensor, target: torch.Tensor, bound: Bound = _PLAIN
) -> torch.Tensor:
    """Return the metric for every element; zero where the reference is not finite."""
    kind = torch.complex128 if native.is_complex() else torch.float64
    ours, theirs = result.to(kind, copy=True), target.to(kind)
    count = native.numel()
    if not all_finite((native,)):
        finite = torch.isfinite(computable(native))
        count = int(finite.sum())
        # Where the native result overflows only the mask counts; an exact overflow has no error.
        theirs = torch.where(torch.isfinite(theirs), theirs, native.to(kind))
        theirs = torch.where(finite, theirs, torch.zeros((), dtype=kind))
        ours = torch.where(finite, ours, torch.zeros((), dtype=kind))
    size = theirs.abs()
    whole = max(_rms(size, count), bound.scale)
    scale: float | torch.Tensor = whole or 1e-300
    for axis, which in bound.slices:
        scales = _slice_scales(theirs, axis)
        scales = torch.where(which & (scales > 0), scales, math.inf)
        scale = torch.minimum(scales, torch.as_tensor(scale, dtype=torch.float64))
    difference = ours.sub_(theirs).abs()
    difference.masked_fill_(difference <= NEGLIGIBLE.get(native.dtype, 0.0), 0.0)
    return difference.div_(size.add_(scale))


def _worst(
    result: torch.Tensor,
    native: torch.Tensor,
    target: torch.Tensor,
    bound: Bound = _PLAIN,
    enough: float = math.inf,
) -> float:
    """Return the largest of `_errors`; NaN if any error is NaN. The first above `enough` will do.

    In blocks that stay in a cache, and in place: whole tensors would go through memory eight times.
    """
    count = native.numel()
    if count == 0:
        return 0.0
    scale = max(_rms(target, count), bound.scale)
    # The scale is infinite or NaN if any value of the target is.
    if bound.slices or not (PLAIN_SCALE < scale < math.inf and all_finite((native,))):
        return float(_errors(result, native, target, bound).max())
    kind = torch.complex128 if native.is_complex() else torch.float64
    worst = 0.0
    ours, theirs = result.reshape(-1), target.reshape(-1)
    block = BLOCK * torch.get_num_threads()
    for start in range(0, count, block):
        expected = theirs[start : start + block].to(kind)
        difference = ours[start : start + block].to(kind, copy=True).sub_(expected)
        errors = difference.abs() if difference.is_complex() else difference.abs_()
        error = float(errors.div_(expected.abs().add_(scale)).amax())
        if not error <= worst:
            worst = error
            if not worst <= enough:
                break
    return worst


def _rms(values: torch.Tensor, count: int) -> float:
    kind = torch.complex128 if values.is_complex() else torch.float64
    values = computable(values)
    norm = float(torch.linalg.vector_norm(values, dtype=kind))
    if math.isinf(norm):  # its squares overflow: an infinite scale would accept any error
        top = float(values.abs().max())
        norm = top * float(torch.linalg.vector_norm(values / top, dtype=kind))
    return norm / math.sqrt(max(count, 1))


def _strange(result: torch.Tensor, native: torch.Tensor) -> torch.Tensor:
    """Return a mask of NaN or infinite values that differ between result and reference."""
    if native.is_complex():
        parts = torch.view_as_real(result), torch.view_as_real(native)
        return _strange(*parts).any(-1)
    result, native = computable(result), computable(native)
    nan = torch.isnan(result) != torch.isnan(native)
    infinite = torch.isinf(result) | torch.isinf(native)
    return nan | (infinite & ~torch.isnan(native) & (result != native))


def _differs(
    name: str, wrong: torch.Tensor, result: torch.Tensor, native: torch.Tensor
) -> Comparison:
    place = int(wrong.reshape(-1).to(torch.uint8).argmax())
    where, expected, got = _values_at(place, result, native)
    line = (
        f"{name}wrong values: {int(wrong.sum())} of {wrong.numel()} differ, first at "
        f"{where}: expected {expected}, got {got}"
    )
    return Comparison(math.inf, 0.0, line, _listing(wrong, result, native))


def _listing(wrong: torch.Tensor, result: torch.Tensor, target: torch.Tensor) -> str:
    flat, places = wrong.reshape(-1), list[int]()
    for start in range(0, len(flat), BLOCK):
        places += (start + flat[start : start + BLOCK].nonzero().reshape(-1)[:SHOWN]).tolist()
        if len(places) >= SHOWN:
            break
    lines = [f"{int(wrong.sum())} of {wrong.numel()} elements are wrong; the first:"]
    for place in places[:SHOWN]:
        where, expected, got = _values_at(place, result, target)
        lines.append(f"{where}: expected {expected}, got {got}")
    return "\n".join(lines)


def _values_at(place: int, result: torch.Tensor, target: torch.Tensor) -> tuple[str, str, str]:
    """Return the indices of an element, its value in the result and in the target, as text."""
    indices = [int(i) for i in torch.unravel_index(torch.tensor(place), target.shape)]
    values = [tensor.reshape(-1)[place].item() for tensor in (target, result)]
    expected, got = (f"{v:.7g}" if isinstance(v, float) else str(v) for v in values)
    return str(indices), expected, got
