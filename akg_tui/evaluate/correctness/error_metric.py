"""The error of a result beside the reference's, and the bounds that a dtype sets to it.

The metric is ``max|y - r| / (|r| + rms(r))`` with ``r`` computed in double precision where
the reference allows it.

A slice of a result along an axis (a channel) may be so small beside the whole that zeros lie within
the bound. The elements of such a slice are compared with the rms of the slice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
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


MASK_SHARE = 1e-2
"""The rms of the elements beside a mask is below this share of the mask's magnitude."""


class SmallSlices(NamedTuple):
    """The slices along an axis of a result that are small.

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
    scale of their own. `mask`: a number whose elements do not count in rms(r). `decided`: the share
    of elements that may be wrong where no alternatives are known, because rounding decides.
    """

    tolerance: float
    own_error: float = 0.0
    exact: bool = False
    scale: float = 0.0
    origin: str = field(default="", compare=False)
    slices: tuple[SmallSlices, ...] = field(default=(), compare=False)
    mask: float | None = None
    decided: float = 0.0


PLAIN = Bound(0.0)


def slice_scales(values: torch.Tensor, axis: int) -> torch.Tensor:
    """Return the rms of each slice along an axis, in as many dimensions as `values` has."""
    others = [each for each in range(values.dim()) if each != axis]
    kind = torch.complex128 if values.is_complex() else torch.float64
    norms = torch.linalg.vector_norm(computable(values), dim=others, keepdim=True, dtype=kind)
    count = max(values.numel() // values.shape[axis], 1)
    return torch.div(norms, math.sqrt(count))


def all_finite(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether no value is NaN or infinite."""
    # A finite sum, one pass, proves all values finite; else each value is checked.
    return all(
        math.isfinite(abs(tensor.sum().item())) or bool(torch.isfinite(tensor).all())
        for tensor in map(computable, tensors)
    )


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a dtype without its module."""
    return str(dtype).removeprefix("torch.")


def differ(
    results: Sequence[torch.Tensor], others: Sequence[torch.Tensor], least: float = 0.0
) -> bool:
    """Return whether an inexact result differs by more than `least` and its dtype's ceiling."""
    return any(
        result.dtype in FLOORS
        and result.shape == other.shape
        and not worst_error(result, result, other) <= max(least, CEILINGS[result.dtype])
        for result, other in zip(results, others, strict=True)
    )


def errors_of(
    result: torch.Tensor, native: torch.Tensor, target: torch.Tensor, bound: Bound = PLAIN
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
    counted = size if bound.mask is None else size[theirs != bound.mask]
    whole = max(rms(counted, count - (size.numel() - counted.numel())), bound.scale)
    scale: float | torch.Tensor = whole or 1e-300
    for axis, which in bound.slices:
        scales = slice_scales(theirs, axis)
        scales = torch.where(which & (scales > 0), scales, math.inf)
        scale = torch.minimum(scales, torch.as_tensor(scale, dtype=torch.float64))
    difference = ours.sub_(theirs).abs()
    difference.masked_fill_(difference <= NEGLIGIBLE.get(native.dtype, 0.0), 0.0)
    return difference.div_(size.add_(scale))


def worst_error(
    result: torch.Tensor,
    native: torch.Tensor,
    target: torch.Tensor,
    bound: Bound = PLAIN,
    enough: float = math.inf,
) -> float:
    """Return the largest of `errors_of`; NaN if any error is NaN. The first above `enough` will do.

    In blocks that stay in a cache, and in place: whole tensors would go through memory eight times.
    """
    count = native.numel()
    if count == 0:
        return 0.0
    scale = max(rms(target, count), bound.scale)
    # The scale is infinite or NaN if any value of the target is.
    own_scales = bool(bound.slices) or bound.mask is not None
    if own_scales or not (PLAIN_SCALE < scale < math.inf and all_finite((native,))):
        return float(errors_of(result, native, target, bound).max())
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


def mask_of(result: torch.Tensor) -> float | None:
    """Return the number that masks a part of a result, such as -1e4 among scores, or None.

    It is in many elements, and others are so much smaller that an error in them would hide.
    """
    if result.dtype not in FLOORS or result.is_complex() or result.numel() < 2 * FEW:
        return None
    known = computable(result)
    if not all_finite((known,)):
        known = known[torch.isfinite(known)]
        if not known.numel():
            return None
    mask = max(map(float, known.aminmax()), key=abs)
    # In most results the largest number is there once, which two passes tell.
    count = int((known == mask).sum())
    if min(count, known.numel() - count) < FEW:
        return None
    others = rms(known[known != mask], known.numel() - count)
    return mask if others < MASK_SHARE * abs(mask) else None


def rms(values: torch.Tensor, count: int) -> float:
    """Return the root of the sum of squares divided by `count`, the elements that count."""
    kind = torch.complex128 if values.is_complex() else torch.float64
    values = computable(values)
    norm = float(torch.linalg.vector_norm(values, dtype=kind))
    if math.isinf(norm):  # its squares overflow: an infinite scale would accept any error
        top = float(values.abs().max())
        norm = top * float(torch.linalg.vector_norm(values / top, dtype=kind))
    return norm / math.sqrt(max(count, 1))


def strange_values(result: torch.Tensor, native: torch.Tensor) -> torch.Tensor:
    """Return a mask of NaN or infinite values that differ between result and reference."""
    if native.is_complex():
        parts = torch.view_as_real(result), torch.view_as_real(native)
        return strange_values(*parts).any(-1)
    result, native = computable(result), computable(native)
    nan = torch.isnan(result) != torch.isnan(native)
    infinite = torch.isinf(result) | torch.isinf(native)
    return nan | (infinite & ~torch.isnan(native) & (result != native))
