"""Compares results with those of the reference, and says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

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

SHOWN = 8
ROUNDING_SHARE = 8.0
"""An error of at most this many tolerances, and twice the ceiling, is probably rounding."""

Tensors = Sequence[torch.Tensor]


@dataclass(frozen=True)
class Comparison:
    """`error` and `tolerance` of the worst output; `message` is empty when all match.

    `strange`: whether results differ at NaN and infinities alone. `outputs` are the comparisons of
    the outputs up to the first that does not match. `judged_by` names the task's own check where
    that was asked instead.
    """

    error: float
    tolerance: float
    message: str = ""
    detail: str = ""
    origin: str = field(default="", compare=False)
    dtype: str = field(default="", compare=False)
    strange: bool = field(default=False, compare=False)
    outputs: tuple[Comparison, ...] = field(default=(), compare=False)
    judged_by: str = field(default="", compare=False)

    @property
    def share(self) -> float:
        """The error as a share of the tolerance; infinite for integers that differ."""
        return self.error / (self.tolerance or 1.0)


def compare(
    results: Tensors,
    reference: Tensors,
    exact: Tensors | None,
    held: Sequence[Bound],
    alternatives: Sequence[Tensors] = (),
    *,
    names: Sequence[str] = (),
) -> Comparison:
    """Compare a candidate's results, which have the reference's shapes and dtypes.

    `names` are those of the results, for messages.

    Integers and booleans must be equal, to the reference's or to those of `alternatives`, element
    by element. NaN and infinities must be at the reference's positions, infinities with equal
    signs.
    """
    widest_bound = max(held, key=lambda b: b.tolerance, default=Bound(0.0))
    worst = Comparison(0.0, widest_bound.tolerance, origin=widest_bound.origin)
    outputs: list[Comparison] = []
    for index, (result, native) in enumerate(zip(results, reference, strict=True)):
        name = f"{names[index] if names else f'output {index}'}: " if len(results) > 1 else ""
        if native.dtype in FLOORS:
            target = exact[index] if exact is not None and held[index].exact else native
            found = _within(name, result, native, target, held[index])
        else:
            wrong = _unequal(result, native, [other[index] for other in alternatives])
            found = Comparison(0.0, 0.0)
            if bool(wrong.any()):
                found = _differs(name, wrong, result, native)
        found = replace(found, dtype=dtype_name(native.dtype))
        outputs.append(found)
        if found.message:
            return replace(found, outputs=tuple(outputs))
        if native.dtype in FLOORS and found.error >= worst.error:
            worst = found
    return replace(worst, outputs=tuple(outputs))


def accepts(
    results: Tensors,
    reference: Tensors,
    exact: Tensors | None,
    held: Sequence[Bound],
    alternatives: Sequence[Tensors] = (),
) -> bool:
    """Return whether `compare` finds no fault; sooner, because it need not tell which."""
    for index, (result, native) in enumerate(zip(results, reference, strict=True)):
        if native.dtype not in FLOORS:
            if bool(_unequal(result, native, [other[index] for other in alternatives]).any()):
                return False
            continue
        bound = held[index]
        target = exact[index] if exact is not None and bound.exact else native
        near = worst_error(result, native, target, bound, bound.tolerance) <= bound.tolerance
        if not near and not _few(errors_of(result, native, target, bound), bound):
            return False
        if not all_finite((native,)) and bool(strange_values(result, native).any()):
            return False
    return True


def _unequal(result: torch.Tensor, native: torch.Tensor, others: Tensors) -> torch.Tensor:
    """Return a mask of the elements that equal neither the reference's nor those of `others`."""
    wrong = result != native
    for other in others:
        wrong &= result != other
    return wrong


def _few(errors: torch.Tensor, bound: Bound) -> bool:
    """Return whether so few elements are wrong that rounding may have decided them.

    Where the decided elements are known, few others may be wrong, because one decision may hide
    another, or concern two elements: a number that leaves one bin of a histogram is in the next.
    Results of few elements have none to spare.
    """
    if not bound.decided:
        return False
    wrong, share = ~(errors <= bound.tolerance), bound.decided
    if bound.where is not None:
        wrong, share = wrong & ~bound.where, float(bound.where.double().mean()) / 16
    spared = min(2 + share * errors.numel(), errors.numel() // 8)
    return int(wrong.sum()) <= spared and all_finite((errors,))


def _within(
    name: str, result: torch.Tensor, native: torch.Tensor, target: torch.Tensor, bound: Bound
) -> Comparison:
    """Compare an output of inexact numbers with the reference's, or with the exact `target`."""
    error = worst_error(result, native, target, bound)
    # Where exactly one of result and reference is finite, the error is not finite either.
    alike = error <= bound.tolerance or all_finite((result,))
    if not alike or not all_finite((native,)):
        strange = strange_values(result, native)
        if bool(strange.any()):
            errors = errors_of(result, native, target, bound)
            rest = bool((errors[~strange] <= bound.tolerance).all())
            differs = _differs(name, strange, result, native)
            line = differs.message
            line = f"{line}; all finite values match" if rest else line
            return replace(differs, message=line, strange=rest)
    if error <= bound.tolerance:
        return Comparison(error, bound.tolerance, origin=bound.origin)
    errors = errors_of(result, native, target, bound)
    wrong = ~(errors <= bound.tolerance)
    if _few(errors, bound):
        error = float(errors.masked_fill(wrong, 0.0).max())
        return Comparison(error, bound.tolerance, origin=bound.origin)
    where, expected, got = _values_at(int(errors.reshape(-1).argmax()), result, target)
    line = (
        f"{name}wrong values: max error {error:.2g} > {bound.tolerance:.2g} at "
        f"{where}: expected {expected}, got {got}"
    )
    if error <= min(ROUNDING_SHARE * bound.tolerance, 2 * CEILINGS[native.dtype]):
        line = (
            f"{name}off by rounding: max error {error:.2g} > {bound.tolerance:.2g} at "
            f"{where}: expected {expected}, got {got}; {_advice(error, native.dtype, bound)}"
        )
    return Comparison(error, bound.tolerance, line, _listing(wrong, result, target), bound.origin)


def _advice(error: float, dtype: torch.dtype, bound: Bound) -> str:
    """Return how to lessen an error of rounding.

    Adding one by one may be wrong by more than the bound where the errors have equal signs, but not
    by more than `Bound.sums`.
    """
    if dtype in HALF:
        return "compute in float32 and round to the result's dtype once"
    if error <= bound.sums:
        return "add with several accumulators or in double precision"
    return (
        "an algorithm with larger rounding errors, such as Winograd with large tiles or several "
        "levels of Strassen, needs `tolerance` under [correctness] in task.toml"
    )


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
