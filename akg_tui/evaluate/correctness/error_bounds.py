"""Derives the bounds of candidates from the results of the reference.

The bound of a result in single or double precision is the largest of: 32 times the reference's own
error, the floor of its dtype, and the error of adding the terms one by one; at most the ceiling of
its dtype.

A result in half precision, or in 8 bits, is the rounded result of a computation in single
precision. So its bound is the sum of two: `ROUNDINGS` to the dtype (two to 8 bits), or twice the
reference's own error if that is more, and the error of adding in single precision.

If a result has few elements, their size and their error can be small by chance. So the results of
several draws of such a result are judged together.

An unusual input may be ill-conditioned, such as the variance of a constant row. There the effect of
one rounding of the inputs counts like an error of the reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from akg_tui.evaluate.correctness.error_metric import (
    CEILINGS,
    FLOORS,
    HALF,
    NEGLIGIBLE,
    PLAIN,
    Bound,
    all_finite,
    dtype_name,
    errors_of,
    mask_of,
    rms,
    scale_of,
    strange_values,
    worst_error,
)
from akg_tui.evaluate.protocol.child_protocol import FEW
from akg_tui.evaluate.protocol.tensor_layout import FLOAT8, computable

HEADROOM = 32.0
"""The error of an honest algorithm in units of the reference's: up to 20 for Winograd F(4x4)."""
ROUNDINGS = 4
"""To half precision: of the result, and of the operands of products before it.

Matrix units take operands in half precision, so kernels round scores, states and normed rows."""
RANDOM_SUM = 4.0
"""The deviations that a sum of errors of random sign may reach."""
LONG_SUM = 1e-2
"""The largest error that a long sum of unusual values may have, and the largest bound there.

0.1 added a million times one by one in float32 is wrong by 0.16 of the largest possible error, and
sums of equal rows that cancel by more. Ordinary inputs tell whether a kernel leaves out terms."""
OVERFLOWING = 100.0
"""The ceilings that a result of large values may err by: they show overflow, not rounding.

`exp(x - logsumexp(x))` is an honest softmax, wrong by a rounding of `x` where one term is all."""
REACHED = 1 / 5
"""The share of the largest possible error that an honest sum reaches: a sixth, as above."""
UNDECIDED = 1 / 8
"""The largest share of a result that rounding may decide; more of it would tell little."""

GIVEN = "the task's tolerance"

Tensors = Sequence[torch.Tensor]


def bounds(
    reference: Tensors,
    exact: Tensors | None,
    tolerance: float | None,
    terms: int = 1,
    *,
    pooled: Sequence[Bound | None] = (),
    decided: Sequence[Tensors] = (),
) -> list[Bound]:
    """Return the bounds of candidates; `tolerance` overrides them for inexact dtypes.

    The reference adds `terms` for an element of a result. Without exact results its own error is
    unknown, and the floor is assumed. `pooled` are the bounds of results with few elements.
    `decided` are results for nudged inputs that show what rounding decides (`Bound.decided`).
    """
    found: list[Bound] = []
    for index, native in enumerate(reference):
        known = pooled[index] if index < len(pooled) else None
        target = exact[index] if exact is not None else None
        settled, share, where = _settled(native, target, [each[index] for each in decided])
        bound = known or _bound(settled, target, tolerance, terms, Bound(0.0, mask=mask_of(native)))
        if native.dtype in FLOORS:
            bound = replace(bound, size=scale_of(native, native, bound))
        if bound.exact and share > UNDECIDED:
            bound = replace(bound, decided=UNDECIDED)
        elif bound.exact:
            bound = replace(bound, decided=share, where=where)
        found.append(bound)
    return found


def pooled_bounds(
    draws: Sequence[tuple[Tensors, Tensors | None]], tolerance: float | None, terms: int = 1
) -> list[Bound | None]:
    """Return the bounds of outputs with few elements, None for others.

    The native and exact results of several `draws` are judged as if they were one result.
    """
    found: list[Bound | None] = []
    every = [exact for _, exact in draws if exact is not None]
    for index, first in enumerate(draws[0][0]):
        if not has_few(first):
            found.append(None)
            continue
        native = torch.cat([results[index].reshape(-1) for results, _ in draws])
        exact = None
        if len(every) == len(draws):
            exact = torch.cat([each[index].reshape(-1) for each in every])
        bound = _bound(native, exact, tolerance, terms)
        target = exact if exact is not None and bound.exact else native
        found.append(replace(bound, scale=scale_of(native, target)))
    return found


def has_few(result: torch.Tensor) -> bool:
    """Return whether a result has too few elements to say how large its error may be."""
    return result.dtype in FLOORS and 0 < result.numel() < FEW


def conditioned(
    reference: Tensors,
    exact: Tensors | None,
    nudged: Sequence[Tensors] | None,
    tolerance: float | None,
    terms: int = 1,
    *,
    ties: Sequence[Tensors] = (),
    decided: Sequence[Tensors] = (),
    usual: Sequence[Bound] = (),
    random: bool = False,
    large: bool = False,
) -> list[Bound] | None:
    """Return the bounds of candidates on unusual inputs; None where that would be unfair.

    `nudged` are exact results for inputs that differ by one rounding: several where a result has
    few elements. Where they differ by so much that an honest sum may exceed the bound, or the
    reference's own results exceed their ceiling, the result is ill-conditioned. Without exact
    results the bound is the ceiling.
    `ties` are results whose integers show near ties; `decided` as for `bounds`.
    `usual` are the bounds of ordinary results: where values are not drawn ones (`random`) an error
    is compared with the size of these, because all results of a function that saturates may be as
    small as its roundings; so it is where all are zero, such as a loss over one class. The errors
    of a sum of drawn values have random sign. Of `large` values the bound in single or double
    precision is at least `OVERFLOWING` ceilings.
    """
    held: list[Bound] = []
    for index, native in enumerate(reference):
        if exact is None or nudged is None:
            ceiling = tolerance or CEILINGS.get(native.dtype, 0.0)
            held.append(Bound(ceiling, origin=GIVEN if tolerance else _ceiling(native.dtype)))
            continue
        target, others = exact[index], [each[index] for each in nudged]
        if native.dtype not in FLOORS:
            if has_ties(torch.stack([target, native, *others, *(each[index] for each in ties)])):
                return None
            held.append(Bound(0.0, origin="equal"))
            continue
        if not all_finite((native, target, *others)) and any(
            bool(strange_values(each, native).any()) for each in (target, *others)
        ):
            return None
        settled, share, where = _settled(native, target, [each[index] for each in decided])
        if share > UNDECIDED:
            return None
        if where is not None:
            others = [torch.where(where, target, each) for each in others]
        like = Bound(0.0)
        if usual:
            size = 0.0 if random and computable(native).any() else usual[index].size
            like = Bound(0.0, scale=size, mask=usual[index].mask)
        nudge = max(_effect(each, native, target, like) for each in others)
        bound = _bound(settled, target, tolerance, terms, like, nudge=nudge, random=random)
        least = OVERFLOWING * CEILINGS[native.dtype]
        if large and native.dtype not in HALF and not tolerance and bound.tolerance < least:
            bound = replace(bound, tolerance=least, origin="the largest error of large values")
        reached = max(1.0 if tolerance else HEADROOM, REACHED * _growth(terms, random=random))
        if not bound.exact or not reached * nudge <= (
            tolerance or max(CEILINGS[native.dtype], LONG_SUM)
        ):
            return None
        held.append(replace(bound, decided=share, where=where))
    return held


def _effect(
    nudged: torch.Tensor, native: torch.Tensor, target: torch.Tensor, bound: Bound
) -> float:
    """Return the effect of one rounding of the inputs on a result.

    A reference in half precision may round in double precision too (`.to(torch.bfloat16)`), so the
    effect shows as whole steps: one of a thousandth of a step moves one of a thousand elements. The
    mean shows it, unless a row has so many moved elements that the effect there is near a step.
    """
    error = worst_error(nudged, native, target, bound)
    step = torch.finfo(native.dtype).eps
    if native.dtype in HALF and 0 < error <= step:
        rounded = computable(target.to(native.dtype)).to(target.dtype)
        errors = errors_of(nudged, native, target, bound)
        moved = (errors > 0).reshape(-1, target.shape[-1] if target.dim() else 1)
        scattered = int(moved.sum(-1).max()) <= 3 + moved.shape[-1] // 50
        if scattered and torch.equal(rounded, target):
            return RANDOM_SUM * float(errors.mean())
    return error


def _bound(
    native: torch.Tensor,
    exact: torch.Tensor | None,
    tolerance: float | None,
    terms: int,
    like: Bound = PLAIN,
    *,
    nudge: float | None = None,
    random: bool = True,
) -> Bound:
    """Return the bound of one output; `nudge` is the effect of one rounding of unusual inputs.

    `like` has the scale and the mask. Of values that are not drawn ones (`random`) the bound in
    single or double precision is at least the ceiling: algorithms differ most there.

    Rounding n sums has at most the effect of n roundings of the inputs.
    """
    dtype = native.dtype
    if dtype not in FLOORS:
        return Bound(0.0, origin="equal")
    own = worst_error(native, native, exact, like) if exact is not None else math.inf
    # Where double precision takes another path (a cast, a threshold), it is no standard.
    usable, known = own <= (tolerance or CEILINGS[dtype]), "the reference's own error"
    if not usable:
        why = "is unknown" if exact is None else f"is {own:.2g}, too large to count"
        own, known = FLOORS[dtype], f"{FLOORS[dtype]:.2g}, as {known} {why}"
    half = dtype in HALF
    unit = torch.finfo(torch.float32 if half else dtype).eps / 2
    growth = _growth(terms, random=random)
    added = f" adding {terms} terms" if terms > 1 else ""
    sums, origin_of_sums = growth * max(unit, nudge or 0.0), f"the error of{added} one by one"
    if nudge is not None:
        sums = max(HEADROOM * nudge, min(sums, LONG_SUM))
        if nudge > unit or not added:
            origin_of_sums = "the effect of one rounding of the inputs"
    if half:
        bound, origin = _rounded(native, own)
        bound, origin = bound + sums, f"{origin}, and{added} in float32" if added else origin
    else:
        floor = f"the floor of {dtype_name(dtype)}"
        bound, origin = max(
            (HEADROOM * own, f"32 times {known}"),
            (FLOORS[dtype], floor),
            (sums, origin_of_sums),
        )
        if not random:
            bound, origin = max((bound, origin), (CEILINGS[dtype], _ceiling(dtype)))
    if nudge is None and bound > CEILINGS[dtype]:
        bound, origin = CEILINGS[dtype], _ceiling(dtype)
    return replace(
        like,
        tolerance=tolerance or bound,
        own_error=own,
        exact=usable,
        origin=GIVEN if tolerance else origin,
        sums=terms * unit,
    )


def _growth(terms: int, *, random: bool) -> float:
    """Return the largest error of adding `terms`, in roundings.

    Of n additions with unit roundoff u the error is at most n u times the sum of the magnitudes,
    and for errors of random sign about sqrt(n) u (Higham, Accuracy and Stability of Numerical
    Algorithms, 2nd ed., section 4.2 and 2.8). Equal numbers give errors of equal sign.
    """
    return RANDOM_SUM * math.sqrt(terms) if random else max(RANDOM_SUM, terms)


def _rounded(native: torch.Tensor, own: float) -> tuple[float, str]:
    """Return how far roundings to half precision, or 8 bits, may change a result, and a phrase.

    Where a result is denormal, a rounding is not relative to it. In 8 bits a reference that rounds
    in double precision too is off by a step where a value lies between two, and so may a kernel be,
    but by no more.
    """
    kind, scale = torch.finfo(native.dtype), rms(native)
    # Only these are not flushed (`errors_of`), and zero is never rounded.
    matters = native.dtype not in NEGLIGIBLE and 0 < scale < math.inf
    roundings = 2 if native.dtype in FLOAT8 else ROUNDINGS
    rounded = roundings * kind.eps / 2 * (1 + (kind.smallest_normal / scale if matters else 0.0))
    times = 1 if native.dtype in FLOAT8 else 2
    if times * own > rounded:
        return times * own, f"{'twice ' if times > 1 else ''}the reference's own error"
    return rounded, f"{roundings} roundings to {dtype_name(native.dtype)}"


def _ceiling(dtype: torch.dtype) -> str:
    return f"the largest error that {dtype_name(dtype)} may have"


def has_ties(results: torch.Tensor) -> bool:
    """Return whether rounding decides too many of the integers to compare others with them.

    `results` are several, one on another. A tie of more than two (argmax of equal values) has no
    correct answer among them.
    """
    undecided = (results != results[0]).any(0)
    ordered = results.sort(0).values
    changes = (ordered[1:] != ordered[:-1]).sum(0)
    return int(undecided.sum()) > undecided.numel() * UNDECIDED or bool((changes > 1).any())


def _settled(
    native: torch.Tensor, target: torch.Tensor | None, others: Tensors
) -> tuple[torch.Tensor, float, torch.Tensor | None]:
    """Return a result that equals the target where rounding decides, `decided` and `where`.

    Rounding decides an element that differs from the target by more than the ceiling in one of the
    `others`, for example all those of a token that a mixture gives to another expert. In another
    draw it may decide four times as many, and at least a 64th: a draw may have none.
    """
    if target is None or not others or native.dtype not in FLOORS or not native.numel():
        return native, 0.0, None
    ceiling = CEILINGS[native.dtype]
    where = torch.stack([errors_of(each, native, target) > ceiling for each in (native, *others)])
    found = where.any(0)
    share = max(4 * float(found.double().mean()), 1 / 64)
    return torch.where(found, target.to(native.dtype), native), share, found


def widest(several: Sequence[Sequence[Bound]]) -> list[Bound]:
    """Return the largest of several bounds for each output."""
    return [
        replace(
            max(each, key=lambda b: b.tolerance),
            own_error=max(b.own_error for b in each),
            exact=all(b.exact for b in each),
            scale=max(b.scale for b in each),
            decided=max(b.decided for b in each),
            where=None,
        )
        for each in zip(*several, strict=True)
    ]


def loosened(held: Sequence[Bound]) -> list[Bound]:
    """Return bounds for a comparison with the reference's own results, not exact ones."""
    return [
        replace(b, tolerance=b.tolerance + 2 * b.own_error, exact=False, where=None)
        if b.tolerance
        else b
        for b in held
    ]


def widened(held: Sequence[Bound], factor: float) -> list[Bound]:
    """Return bounds with `factor` times the tolerance."""
    return [replace(b, tolerance=factor * b.tolerance) for b in held]
