"""Unusual input values, made from the inputs that `get_inputs()` drew.

Runs in the reference's process. Pure except for the generator argument; must never decide
whether a kind of values is fair to a candidate: the judge decides, from the reference's results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple, Self

import torch

from akg_tui.evaluate.child.input_structure import kept
from akg_tui.evaluate.protocol.tensor_layout import FLOAT8, computable


class Labelled(IntEnum):
    """Numbers that each have a name for a reader, their `label`."""

    label: str

    def __new__(cls, number: int, label: str = "") -> Self:
        """Make a member from its number and label."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.label = label
        return member


class ValueKind(Labelled):
    """A kind of input values."""

    DRAWN = 0, "as drawn"
    LARGE = 1, "large values"
    SMALL = 2, "small values"
    ZEROS = 3, "all zeros"
    CONSTANT = 4, "values that are constant along an axis"
    MIXED = 5, "rows of mixed scale"
    HIGH = 6, "values at the upper end"
    LOW = 7, "values at the lower end"
    EDGES = 8, "integers at the ends of their range"
    INFINITE = 9, "infinities"
    NAN = 10, "NaN"
    NEGATIVE = 11, "negative values"
    LEVEL = 12, "values that are constant along the longest axis"


class Alteration(Labelled):
    """A change of one input alone, compared with an earlier call; `label` says how it changes."""

    REPEATED = 0, "repeated while the others change"
    CHANGED = 1, "alone with other values"
    BLOCK = 2, "alone with other values in a block"
    PEAK = 3, "alone with large values in a block"
    START = 4, "alone with other values at its start"
    END = 5, "alone with other values at its end"
    ONE = 6, "alone with one number that outweighs all others"


class InputChange(NamedTuple):
    """An alteration of the input at position `argument`; of a block along `axis`."""

    argument: int
    alteration: Alteration
    axis: int = 0


Structures = Sequence[Sequence[str]]
"""The structure of each input, in the words of `input_structure`; empty: none of any."""

SPECIAL = frozenset({ValueKind.INFINITE, ValueKind.NAN})
FLOATING = frozenset(ValueKind) - {ValueKind.DRAWN, ValueKind.EDGES}


def possible(values: str, dtypes: Sequence[torch.dtype]) -> list[ValueKind]:
    """Return the kinds beside DRAWN that a task allows for inputs of these dtypes.

    `values` is the task's `correctness.values`.
    """
    if values == "drawn":
        return []
    return [kind for kind in (*sorted(FLOATING), ValueKind.EDGES) if _changing(kind, dtypes)]


def apply(
    kind: ValueKind,
    inputs: Sequence[object],
    rng: torch.Generator,
    structures: Structures = (),
    argument: int | None = None,
) -> list[object] | None:
    """Return inputs with values of a kind; shapes, dtypes and structures stay.

    The input at position `argument` changes; without one, the largest tensor to which the kind
    applies, and every other tensor by chance: a weight of zeros would hide the effect of zeros
    elsewhere. None if no input can change so.
    """
    changed = list(inputs)
    if kind is ValueKind.DRAWN:
        return changed
    known = {at: value for at, value in enumerate(inputs) if isinstance(value, torch.Tensor)}
    dtypes = _changing(kind, [value.dtype for value in known.values()])
    masks = ("zeros and ones", "one-hot rows")
    places = [
        at
        for at, value in known.items()
        if value.dtype in dtypes
        and value.numel()
        and not any(word in masks for word in _words(structures, at))
    ]
    if argument is not None:
        places = [at for at in places if at == argument]
    moved = False
    for at in sorted(places, key=lambda at: -known[at].numel()):
        if moved and not _chance(rng, 2):
            continue
        found = kept(_words(structures, at), _changed(kind, known[at], rng), known[at], rng)
        if not same_value(found, known[at]):
            changed[at], moved = found, True
    return changed if moved else None


def altered(
    change: InputChange,
    inputs: Sequence[object],
    drawn: Callable[[], Sequence[object]],
    rng: torch.Generator,
    structures: Structures = (),
) -> list[object] | None:
    """Return inputs that differ from `inputs` by a change; None if none of its values can.

    `drawn` returns fresh inputs.
    """
    argument, alteration, axis = change
    value, others = inputs[argument], list(inputs)
    if alteration is Alteration.REPEATED:
        others = list(drawn())
        others[argument] = value
        return others
    if isinstance(value, torch.Tensor):
        other = _other_elements(value, drawn()[argument], rng)
        if alteration is Alteration.ONE:
            if not _is_inexact(value.dtype):
                return None
            other = _outweighed(value, rng)
        elif alteration is not Alteration.CHANGED:
            if alteration is Alteration.PEAK:
                other = _changed(ValueKind.LARGE, other, rng)
            other = _in_block(value, other, alteration, axis, rng)
        others[argument] = kept(_words(structures, argument), other, value, rng)
    else:
        others[argument] = _other_number(value, rng)
    return None if same_value(others[argument], value) else others


def same_value(first: object, other: object) -> bool:
    """Return whether two inputs are equal."""
    if isinstance(first, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.equal(computable(first), computable(other))
    return type(first) is type(other) and first == other


def _words(structures: Structures, argument: int) -> Sequence[str]:
    return structures[argument] if argument < len(structures) else ()


def _other_number(value: object, rng: torch.Generator) -> object:
    """Return another number, of equal sign."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        step = 1 if value >= 0 else -1
        return value + step if abs(value) < 2 or _chance(rng, 2) else value - step
    if isinstance(value, float):
        more = value + math.copysign(1.0, value)
        return (more, 2 * value or more, value / 2 or more)[
            int(torch.randint(3, (), generator=rng))
        ]
    return value


def _other_elements(value: torch.Tensor, fresh: object, rng: torch.Generator) -> torch.Tensor:
    """Return other elements for an input: those of a fresh one, if it differs.

    Integers are within the range of the drawn ones, if it is one. At least one flag changes.
    """
    if value.dtype is torch.bool:
        changed = torch.rand(value.shape, generator=rng) < 0.5
        if value.numel() and not changed.any():
            changed.view(-1)[int(torch.randint(value.numel(), (), generator=rng))] = True
        return value ^ changed
    if isinstance(fresh, torch.Tensor) and not same_value(fresh, value):
        return fresh
    if not value.numel():
        return value
    if _is_inexact(value.dtype):
        noise = torch.rand(value.shape, generator=rng, dtype=torch.float64)
        # A product would change neither zeros nor infinities.
        wide = computable(value)
        fixed = (wide == 0) | ~torch.isfinite(wide)
        return _as_typed(torch.where(fixed, noise, wide * (0.5 + noise)), value.dtype)
    low, high = int(value.amin()), int(value.amax())
    if low == high:
        return value + (1 if _chance(rng, 2) else -1)
    return torch.randint(low, high + 1, value.shape, generator=rng).to(value.dtype)


def _in_block(
    value: torch.Tensor,
    other: torch.Tensor,
    alteration: Alteration,
    axis: int,
    rng: torch.Generator,
) -> torch.Tensor:
    """Return `value` with a block of `other`: a run along `axis`, at a random place or at an end.

    Runs of all lengths up to half of an axis are equally likely on a logarithmic scale: a kernel
    may look at each second element, or at the first half. Large values come in shorter runs: of a
    long one a sample has its share. At a random place the block has all of each other axis, or as
    likely a run.
    """
    share = 16 if alteration is Alteration.PEAK else 2

    def run(extent: int, at: Alteration) -> slice:
        length = int(max(extent / share, 1.0) ** float(torch.rand((), generator=rng)))
        start = int(torch.randint(extent - length + 1, (), generator=rng))
        start = {Alteration.START: 0, Alteration.END: extent - length}.get(at, start)
        return slice(start, start + length)

    if not value.numel():
        return value
    random = alteration in (Alteration.BLOCK, Alteration.PEAK)
    block = [slice(None)] * value.dim()
    for each, extent in enumerate(value.shape):
        if each == axis or (random and _chance(rng, 2)):
            block[each] = run(extent, alteration)
    made = value.clone(memory_format=torch.contiguous_format)
    made[tuple(block)] = other[tuple(block)]
    return made


def _outweighed(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Return floats of which one, at a random place, is as large as the sum of all.

    Whichever elements a kernel reads as a sample, their mean is not that of all.
    """
    wide = computable(value).flatten().clone()
    known = wide[wide.isfinite()]
    if known.numel():
        most = torch.finfo(value.dtype).max / 4
        weight = min(float(known.abs().sum(dtype=torch.float64)), most)
        positive = wide.is_complex() or bool((known > 0).any())
        place = int(torch.randint(wide.numel(), (), generator=rng))
        wide[place] = weight if positive else -weight
    return _as_typed(wide.view(value.shape), value.dtype)


def nudged(value: object, native: object, roundings: float = 1.0) -> object:
    """Return `value`, which is `native` in double precision, changed by some roundings at most.

    Each element changes by at least half of that: the effect of a change that is small by luck
    would say nothing of a kernel's roundings.
    """

    def noise(shape: torch.Size) -> torch.Tensor:
        signed = torch.rand(shape, dtype=torch.float64) - 0.5
        return roundings * (signed + torch.copysign(torch.tensor(0.5), signed))

    return _nudged(value, native, noise)


def near_ties(terms: int) -> list[float]:
    """Return by how many roundings nudged inputs show near ties of sums of some `terms`.

    It is four times the largest error of a sum, and never more than a float32 kernel may err.
    """
    most = min(4.0 * terms, 1600.0)
    return [most, -most] * 2


def nudged_by_place(value: object, native: object, roundings: float) -> object:
    """Return `value`, in double precision, changed the more (or less, below 0) the later its place.

    Of equal numbers the first, or the last, becomes the largest. The order of others stays, because
    no element changes by more than half of a rounding.
    """

    def noise(shape: torch.Size) -> torch.Tensor:
        places = torch.arange(math.prod(shape), dtype=torch.float64).view(shape)
        return roundings * (places / max(places.numel(), 1) - 0.5)

    return _nudged(value, native, noise, absolute=True)


def _nudged(
    value: object,
    native: object,
    noise_of: Callable[[torch.Size], torch.Tensor],
    *,
    absolute: bool = False,
) -> object:
    if not isinstance(value, torch.Tensor) or not isinstance(native, torch.Tensor):
        return value
    if not _is_inexact(native.dtype):
        return value
    noise = noise_of(value.shape)
    # A kernel gets inputs in half precision as they are, and rounds in single precision.
    kept = torch.finfo(torch.float32 if native.dtype.itemsize <= 2 else native.dtype)
    # A product, because an infinity plus a negative share of it is NaN.
    factors = 1 + kept.eps / 2 * (noise * value.sgn() if absolute else noise)
    # The second term breaks ties among zeros, and changes no other value.
    return value * factors + kept.tiny * 1e-3 * noise


def _changed(kind: ValueKind, value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    if kind is ValueKind.EDGES:
        return _at_the_ends(value, rng)
    if value.is_complex():
        parts = [_changed(kind, part, rng) for part in (value.real, value.imag)]
        return torch.complex(*parts)
    return _as_typed(_CHANGES[kind](computable(value), rng), value.dtype)


def _at_the_ends(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Return integers in an eighth of their range at either end; all at an end would be equal."""
    low, high = int(value.amin()), int(value.amax())
    beside = torch.randint((high - low) // 8 + 1, value.shape, generator=rng)
    is_low = torch.rand(value.shape, generator=rng) < 0.5
    found = torch.where(is_low, low + beside, high - beside)
    first, second = torch.randint(value.numel(), (2,), generator=rng).tolist()
    found.view(-1)[first] = low
    found.view(-1)[second] = high
    return found.to(value.dtype)


def _as_typed(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor in a dtype of inexact numbers.

    What 8 bits can't hold gets to the ends of their range; versions of PyTorch differ in that.
    """
    if dtype in FLOAT8:
        most = torch.finfo(dtype).max
        value = torch.where(value.isinf(), value, value.clamp(-most, most))
    return value.to(dtype)


def _large(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Return values whose products stay below the 1e6 with which published attentions mask."""
    return value * _near(2.0**4 if value.dtype == torch.float16 else 2.0**7, rng)


def _small(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return value * _near(2.0**-6 if value.dtype == torch.float16 else 2.0**-40, rng)


def _near(most: float, rng: torch.Generator) -> float:
    """Return a scale of half of `most` to all of it.

    A power of two would change no rounding: a sum in few bits that happens to be right for drawn
    values would be right again.
    """
    return most * float(torch.rand((), generator=rng) / 2 + 0.5)


def _at_upper_end(value: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """Return values near the largest possible ones, at which a decay is slow and a gate saturates.

    Values of both signs are taken for numbers without limits, and become positive, of at least 8:
    sigmoid(8) is 0.9997. Others stay within their range, such as a decay from 0 to 1, and some far
    from the end: the variance of numbers that are nearly equal is lost in rounding.
    """
    known = value[value.isfinite()].double()
    if not known.numel():
        return value
    low, high = float(known.amin()), float(known.amax())
    if low >= 0 or high <= 0:
        share = ((high - value.double()) / ((high - low) or 1.0)).clamp(0, 1)
        return (high - (high - low) * share**32).to(value.dtype)
    scale = float(known.square().mean().sqrt())
    return torch.where(value.isfinite(), 8 + 4 * value.abs() / scale, value)


def _level(value: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """Return values of which a long sum in few bits is wrong: each addition errs in one direction.

    A sum of drawn values may be right, because its errors cancel, or because each part happens to
    be as large as a rounding of the sum.
    """
    return _repeated(value, _longest_axis(value))


def _constant(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Return values that are constant along another axis than the longest, if there is one."""
    longest = _longest_axis(value)
    axes = [axis for axis, extent in enumerate(value.shape) if extent > 1 and axis != longest]
    axis = axes[int(torch.randint(len(axes), (), generator=rng))] if axes else longest
    return _repeated(value, axis)


def _longest_axis(value: torch.Tensor) -> int:
    return max(range(value.dim()), key=lambda axis: value.shape[axis], default=0)


def _repeated(value: torch.Tensor, axis: int) -> torch.Tensor:
    """Return the first values along an axis, repeated."""
    return value.narrow(axis, 0, 1).expand_as(value).contiguous() if value.dim() else value


def _mixed(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    rows = _as_rows(value)
    reach = 3 if value.dtype == torch.float16 else 10
    powers = reach * (2 * torch.rand((rows.shape[0], 1), generator=rng, dtype=torch.float64) - 1)
    return (rows * torch.exp2(powers).to(rows.dtype)).view_as(value)


def _infinite(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    rows = _as_rows(value).clone()
    for sign in (1, -1):
        row = int(torch.randint(rows.shape[0], (), generator=rng))
        place = int(torch.randint(rows.shape[1], (), generator=rng))
        rows[row, place] = sign * torch.inf
    return rows.view_as(value)


def _nan(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    flat = value.flatten().clone()
    flat[int(torch.randint(flat.numel(), (), generator=rng))] = torch.nan
    return flat.view_as(value)


_CHANGES: dict[ValueKind, Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = {
    ValueKind.LARGE: _large,
    ValueKind.SMALL: _small,
    ValueKind.ZEROS: lambda value, _: torch.zeros_like(value),
    ValueKind.NEGATIVE: lambda value, _: -value.abs(),
    ValueKind.CONSTANT: _constant,
    ValueKind.LEVEL: _level,
    ValueKind.MIXED: _mixed,
    ValueKind.HIGH: _at_upper_end,
    ValueKind.LOW: lambda value, rng: -_at_upper_end(-value, rng),
    ValueKind.INFINITE: _infinite,
    ValueKind.NAN: _nan,
}


def _as_rows(value: torch.Tensor) -> torch.Tensor:
    contiguous = value.contiguous()
    return contiguous.view(-1, value.shape[-1]) if value.dim() else contiguous.view(1, 1)


def _changing(kind: ValueKind, dtypes: Sequence[torch.dtype]) -> set[torch.dtype]:
    """Return those dtypes of a task's inputs whose values a kind changes."""
    wanted: Callable[[torch.dtype], bool] = _is_integer if kind is ValueKind.EDGES else _is_inexact
    found = set(filter(wanted, dtypes))
    if kind is ValueKind.INFINITE and found & set(FLOAT8):
        # The other inputs are scales: an infinite one makes NaN of zeros before a sum, not after.
        # Of those of 8 bits float8_e5m2 alone has infinities.
        return found & {torch.float8_e5m2}
    return found


def _is_integer(dtype: torch.dtype) -> bool:
    return dtype != torch.bool and not _is_inexact(dtype)


def _is_inexact(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _chance(rng: torch.Generator, of: int) -> bool:
    return int(torch.randint(of, (), generator=rng)) == 0
