"""Unusual values, made from what `get_inputs()` drew.

Runs in the reference's process. Pure but for the generator that it is given; must never
decide whether a case is fair: that is the reference's business, and the judge's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

import torch


class Case(IntEnum):
    """Which values the inputs have."""

    DRAWN = 0
    LARGE = 1
    TINY = 2
    DENORMAL = 3
    ZEROS = 4
    NEGATIVE = 5
    CONSTANT = 6
    SORTED = 7
    OUTLIERS = 8
    MIXED = 9
    SIGNS = 10
    EDGES = 11
    INFINITE = 12
    NAN = 13
    PATCHWORK = 14


WORDS = {
    Case.DRAWN: "as drawn",
    Case.LARGE: "large values",
    Case.TINY: "tiny values",
    Case.DENORMAL: "denormal values",
    Case.ZEROS: "all zeros",
    Case.NEGATIVE: "negative values",
    Case.CONSTANT: "constant rows",
    Case.SORTED: "sorted rows",
    Case.OUTLIERS: "outliers and one-hot rows",
    Case.MIXED: "rows of mixed scale",
    Case.SIGNS: "only -1, 0 and 1",
    Case.EDGES: "integers at the ends of their range",
    Case.INFINITE: "infinities",
    Case.NAN: "NaN",
    Case.PATCHWORK: "rows of many kinds",
}
SPECIAL = frozenset({Case.INFINITE, Case.NAN})
FLOATING = frozenset(Case) - {Case.DRAWN, Case.EDGES, Case.PATCHWORK}


def possible(values: str, dtypes: Sequence[torch.dtype]) -> list[Case]:
    """Return the cases beside DRAWN that a task allows for inputs of these dtypes.

    `values` is the task's `correctness.values`.
    """
    if values == "drawn":
        return []
    cases: list[Case] = []
    if any(dtype.is_floating_point or dtype.is_complex for dtype in dtypes):
        cases += sorted(FLOATING - (SPECIAL if values == "finite" else frozenset()))
    if any(_is_integer(dtype) for dtype in dtypes):
        cases.append(Case.EDGES)
    return cases


def apply(case: Case, inputs: Sequence[object], dice: torch.Generator) -> list[object]:
    """Return inputs with the values of `case`.

    The largest tensor of the kind that the case is about always changes, others by chance:
    a weight of zeros would hide what zeros do elsewhere.
    """
    if case is Case.DRAWN:
        return list(inputs)
    wanted: Callable[[torch.dtype], bool] = _is_integer if case is Case.EDGES else _is_inexact
    tensors = [i for i, v in enumerate(inputs) if isinstance(v, torch.Tensor) and wanted(v.dtype)]
    changed = list(inputs)
    largest = max(tensors, key=lambda i: _count(inputs[i]), default=None)
    for index in tensors:
        value = inputs[index]
        if not isinstance(value, torch.Tensor) or value.numel() == 0:
            continue
        if index == largest or _chance(dice, 2):
            changed[index] = _changed(case, value, dice)
    return changed


def nudged(value: object, native: object) -> object:
    """Return `value`, which is `native` in double precision, changed by one rounding at most."""
    if not isinstance(value, torch.Tensor) or not isinstance(native, torch.Tensor):
        return value
    if not _is_inexact(native.dtype):
        return value
    noise = torch.rand(value.shape, dtype=torch.float64) * 2 - 1
    kept = torch.finfo(native.dtype)
    # The second term breaks the ties among zeros, and moves nothing else.
    return value * (1 + kept.eps / 2 * noise) + kept.tiny * 1e-3 * noise


def _changed(case: Case, value: torch.Tensor, dice: torch.Generator) -> torch.Tensor:
    if case is Case.EDGES:
        pick = torch.rand(value.shape, generator=dice) < 0.5
        return torch.where(pick, value.amin(), value.amax())
    if value.is_complex():
        parts = [_changed(case, part, dice) for part in (value.real, value.imag)]
        return torch.complex(*parts)
    return _CHANGES[case](value, dice).to(value.dtype)


def _large(value: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return value * (2.0**4 if value.dtype == torch.float16 else 2.0**10)


def _tiny(value: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return value * (2.0**-6 if value.dtype == torch.float16 else 2.0**-40)


def _denormal(value: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    smallest = torch.finfo(value.dtype).tiny
    wide = value.double()
    return wide / wide.abs().amax().clamp(min=1e-300) * smallest


def _constant(value: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    if value.dim() == 0:
        return value
    return value[..., :1].expand_as(value).contiguous()


def _sorted(value: torch.Tensor, dice: torch.Generator) -> torch.Tensor:
    if value.dim() == 0:
        return value
    return value.sort(dim=-1, descending=_chance(dice, 2)).values


def _outliers(value: torch.Tensor, dice: torch.Generator) -> torch.Tensor:
    rows = _rows(value).clone()
    place = torch.randint(rows.shape[1], (rows.shape[0], 1), generator=dice)
    height = rows.gather(1, place) * 100 + 1
    # In every second row there is nothing else.
    rows[::2] = 0
    return rows.scatter_(1, place, height).view_as(value)


def _mixed(value: torch.Tensor, dice: torch.Generator) -> torch.Tensor:
    rows = _rows(value)
    reach = 3 if value.dtype == torch.float16 else 10
    powers = torch.randint(-reach, reach + 1, (rows.shape[0], 1), generator=dice)
    return (rows * torch.exp2(powers.to(torch.float64)).to(rows.dtype)).view_as(value)


def _signs(value: torch.Tensor, dice: torch.Generator) -> torch.Tensor:
    return torch.randint(-1, 2, value.shape, generator=dice)


def _patchwork(value: torch.Tensor, dice: torch.Generator) -> torch.Tensor:
    """Return rows each of which is of a kind of its own: most kinds for the price of one.

    No kind of whose result much is lost to rounding, for one such row would make all of it unfair.
    """
    rows = _rows(value)
    kinds = torch.randint(len(_PATCHES), (rows.shape[0],), generator=dice)
    found = rows.clone()
    for number, change in enumerate(_PATCHES):
        chosen = (kinds == number).nonzero().flatten()
        if len(chosen):
            found[chosen] = _rows(change(rows[chosen], dice)).to(rows.dtype)
    return found.view_as(value)


def _raised(value: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """Return rows whose exponentials overflow, and which are no larger than that takes."""
    highest = value.abs().amax(-1, keepdim=True).double().clamp(min=1e-300)
    goal = 12.0 if value.dtype == torch.float16 else 120.0
    return value * (goal / highest).clamp(min=1.0)


def _infinite(value: torch.Tensor, dice: torch.Generator) -> torch.Tensor:
    rows = _rows(value).clone()
    for sign in (1, -1):
        row = int(torch.randint(rows.shape[0], (), generator=dice))
        place = int(torch.randint(rows.shape[1], (), generator=dice))
        rows[row, place] = sign * torch.inf
    return rows.view_as(value)


def _nan(value: torch.Tensor, dice: torch.Generator) -> torch.Tensor:
    flat = value.flatten().clone()
    flat[int(torch.randint(flat.numel(), (), generator=dice))] = torch.nan
    return flat.view_as(value)


_CHANGES: dict[Case, Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = {
    Case.LARGE: _large,
    Case.TINY: _tiny,
    Case.DENORMAL: _denormal,
    Case.ZEROS: lambda value, _: torch.zeros_like(value),
    Case.NEGATIVE: lambda value, _: -value.abs(),
    Case.CONSTANT: _constant,
    Case.SORTED: _sorted,
    Case.OUTLIERS: _outliers,
    Case.MIXED: _mixed,
    Case.SIGNS: _signs,
    Case.INFINITE: _infinite,
    Case.NAN: _nan,
    Case.PATCHWORK: _patchwork,
}
_PATCHES = (
    _raised,
    *(
        _CHANGES[case]
        for case in (Case.TINY, Case.ZEROS, Case.NEGATIVE, Case.SORTED, Case.OUTLIERS, Case.SIGNS)
    ),
)


def _rows(value: torch.Tensor) -> torch.Tensor:
    contiguous = value.contiguous()
    return contiguous.view(-1, value.shape[-1]) if value.dim() else contiguous.view(1, 1)


def _is_integer(dtype: torch.dtype) -> bool:
    return dtype != torch.bool and not _is_inexact(dtype)


def _is_inexact(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _count(value: object) -> int:
    return value.numel() if isinstance(value, torch.Tensor) else 0


def _chance(dice: torch.Generator, of: int) -> bool:
    return int(torch.randint(of, (), generator=dice)) == 0
