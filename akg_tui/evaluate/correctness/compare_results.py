"""Compares results with those of the reference, and says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from akg_tui.evaluate.child.tensor_layout import FLOAT8
from akg_tui.evaluate.correctness.error_metric import (
    BLOCK,
    CEILINGS,
    FLOORS,
    HALF,
    Bound,
    all_finite,
    dtype_name,
    errors_of,
    strange_values,
    worst_error,
)
from akg_tui.evaluate.correctness.near_ties import NO_ALTERNATIVES, Alternatives, unexplained

SHOWN = 8
ROUNDING_SHARE = 8.0
ROUNDING_MOST = 1e-3
"""An error of at most this many tolerances, and of at most this size, is probably rounding. In half
precision the size does not matter, but in 8 bits it is at most the ceiling."""


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


def compare(
    results: Sequence[torch.Tensor],
    reference: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor] | None,
    held: Sequence[Bound],
    alternatives: Alternatives = NO_ALTERNATIVES,
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
            others = _alternatives(alternatives, index, bound)
            found = _within(name, result, native, target, bound=bound, others=others)
        else:
            found = _equal(name, result, native, [other[index] for other in alternatives.whole])
        found = replace(found, dtype=dtype_name(native.dtype))
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
    alternatives: Alternatives = NO_ALTERNATIVES,
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
        if not worst_error(result, native, target, bound, bound.tolerance) <= bound.tolerance:
            others = _alternatives(alternatives, index, bound)
            if not others and not bound.decided:
                return False
            errors = errors_of(result, native, target, bound)
            errors = unexplained(errors, result, native, target, bound=bound, others=others)
            if not bool((errors <= bound.tolerance).all()):
                return False
        if not all_finite((native,)) and bool(strange_values(result, native).any()):
            return False
    return True


def _alternatives(alternatives: Alternatives, index: int, bound: Bound) -> list[torch.Tensor]:
    """Return the alternatives of an inexact result; none if its exact results were not computed."""
    return [other[index] for other in alternatives.inexact] if bound.exact else []


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
    error = worst_error(result, native, target, bound)
    # Where exactly one of result and reference is finite, the error is not finite either.
    alike = error <= bound.tolerance or all_finite((result,))
    if not alike or not all_finite((native,)):
        strange = strange_values(result, native)
        if bool(strange.any()):
            return _differs(name, strange, result, native)
    if error <= bound.tolerance:
        return Comparison(error, bound.tolerance, origin=bound.origin)
    errors = errors_of(result, native, target, bound)
    if others or bound.decided:
        errors = unexplained(errors, result, native, target, bound=bound, others=others)
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
