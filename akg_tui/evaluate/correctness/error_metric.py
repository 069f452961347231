"""The error of a result beside the reference's, and what a dtype says of errors.

The metric is ``max|y - r| / (|r| + rms(r))`` with ``r`` computed in double precision where
the reference allows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from akg_tui.evaluate.protocol.child_protocol import FEW
from akg_tui.evaluate.protocol.tensor_layout import FLOAT8, computable

LIMITS = {
    (torch.float64, torch.complex128): (1e-12, 1e-9),
    (torch.float32, torch.complex64): (2e-6, 1e-4),
    (torch.float16,): (2e-3, 1e-2),
    (torch.bfloat16,): (1.6e-2, 5e-2),
    (torch.float8_e4m3fn, torch.float8_e4m3fnuz): (2**-4, 3 * 2**-4),
    (torch.float8_e5m2,): (2**-3, 3 * 2**-3),
}
FLOORS = {dtype: least for dtypes, (least, _) in LIMITS.items() for dtype in dtypes}
"""The errors of eager PyTorch on common operators, with a margin: the least bounds, and the
reference's own error where no exact results are known."""
CEILINGS = {dtype: most for dtypes, (_, most) in LIMITS.items() for dtype in dtypes}
"""The largest bounds, for any condition of the reference."""

HALF = (torch.float16, torch.bfloat16, *FLOAT8)

BLOCK = 1 << 17
"""The elements that a thread compares at a time."""

NEGLIGIBLE = {
    **dict.fromkeys((torch.float64, torch.complex128), torch.finfo(torch.float64).tiny),
    **dict.fromkeys((torch.float32, torch.complex64, torch.bfloat16), 1e-31),
}
"""Differences that do not count.

Flushed denormal numbers are smaller. In single precision a kernel that bounds the argument of an
exponential leaves more: for z = -350, z / (1 + exp(80)) is -6e-33 instead of 0. (CPUs do not flush
float16, whose denormal numbers are not small; nor are those of 8 bits.)"""

MASK_SHARE = 1e-2
"""The rms of the elements beside a mask is below this share of the mask's magnitude."""


@dataclass(frozen=True)
class Bound:
    """The `tolerance` of one output, with the reference's own error.

    `exact`: whether double-precision results are the standard (computed by the same path).
    `scale`: what rms(r) is at least in the metric, because a result of few elements may be small by
    luck. `origin`: what the tolerance is derived from, in a short phrase. `mask`: a number whose
    elements do not count in rms(r). `decided`: the share of elements that may be wrong, because
    rounding decides steps inside the reference; `where`: true for these, if they are known. `sums`:
    the largest error of adding one by one. `size`: rms(r) of ordinary results.
    """

    tolerance: float
    own_error: float = 0.0
    exact: bool = False
    scale: float = 0.0
    origin: str = field(default="", compare=False)
    mask: float | None = None
    decided: float = 0.0
    where: torch.Tensor | None = field(default=None, compare=False)
    sums: float = field(default=0.0, compare=False)
    size: float = field(default=0.0, compare=False)


PLAIN = Bound(0.0)


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


def scale_of(native: torch.Tensor, target: torch.Tensor, bound: Bound = PLAIN) -> float:
    """Return rms(r) of the metric, over the elements that count."""
    counted = computable(target)
    size = rms(counted)
    if bound.mask is not None or not (math.isfinite(size) and all_finite((native,))):
        counts = torch.isfinite(counted) & torch.isfinite(computable(native))
        size = rms(counted[counts & (counted != bound.mask)] if bound.mask else counted[counts])
    return max(size, bound.scale) or 1e-300


def errors_of(
    result: torch.Tensor,
    native: torch.Tensor,
    target: torch.Tensor,
    bound: Bound = PLAIN,
    scale: float | None = None,
) -> torch.Tensor:
    """Return the metric for every element; zero where the reference is not finite.

    `scale` is rms(r) where it is known.
    """
    kind = torch.complex128 if native.is_complex() else torch.float64
    scale = scale_of(native, target, bound) if scale is None else scale
    ours, theirs = result.to(kind, copy=True), target.to(kind)
    if not all_finite((native, theirs)):
        finite = torch.isfinite(computable(native))
        # Where the native result overflows only its place counts; an exact overflow has no error.
        theirs = torch.where(torch.isfinite(theirs), theirs, native.to(kind))
        theirs = torch.where(finite, theirs, torch.zeros((), dtype=kind))
        ours = torch.where(finite, ours, torch.zeros((), dtype=kind))
    difference = ours.sub_(theirs)
    difference = difference.abs() if difference.is_complex() else difference.abs_()
    negligible = NEGLIGIBLE.get(native.dtype, 0.0)
    if negligible > 1e-12 * scale:  # a pass less where it makes no difference
        difference.masked_fill_(difference <= negligible, 0.0)
    return difference.div_(theirs.abs().add_(scale))


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
    worst, scale = 0.0, scale_of(native, target, bound)
    ours, known, theirs = (each.reshape(-1) for each in (result, native, target))
    block = BLOCK * torch.get_num_threads()
    for start in range(0, native.numel(), block):
        at = slice(start, start + block)
        error = float(errors_of(ours[at], known[at], theirs[at], scale=scale).amax())
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
    known = known if all_finite((known,)) else known[torch.isfinite(known)]
    mask = max(map(float, known.aminmax()), key=abs) if known.numel() else 0.0
    # In most results the largest number is there once, which one pass tells.
    others = known[known != mask] if int((known == mask).sum()) >= FEW else known[:0]
    return mask if others.numel() >= FEW and rms(others) < MASK_SHARE * abs(mask) else None


def rms(values: torch.Tensor) -> float:
    """Return the root mean square of all values."""
    kind = torch.complex128 if values.is_complex() else torch.float64
    values = computable(values)
    norm = float(torch.linalg.vector_norm(values, dtype=kind))
    if math.isinf(norm):  # its squares overflow: an infinite scale would accept any error
        top = float(values.abs().max())
        norm = top * float(torch.linalg.vector_norm(values / top, dtype=kind))
    return norm / math.sqrt(max(values.numel(), 1))


def strange_values(result: torch.Tensor, native: torch.Tensor) -> torch.Tensor:
    """Return a mask of NaN or infinite values that differ between result and reference."""
    if native.is_complex():
        parts = torch.view_as_real(result), torch.view_as_real(native)
        return strange_values(*parts).any(-1)
    result, native = computable(result), computable(native)
    nan = torch.isnan(result) != torch.isnan(native)
    infinite = torch.isinf(result) | torch.isinf(native)
    return nan | (infinite & ~torch.isnan(native) & (result != native))
