"""Unusual input values, made from the inputs that `get_inputs()` drew.

Runs in the reference's process. Pure except for the generator argument; must never decide
whether a kind of values is fair to a candidate: the judge decides, from the reference's results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

import torch

from akg_tui.evaluate.child.tensor_layout import FLOAT8, computable


class ValueKind(IntEnum):
    """A kind of input values; `label` is its name for a reader."""

    label: str

    def __new__(cls, number: int, label: str = "") -> ValueKind:
        """Make a member from its number and label."""
        kind = int.__new__(cls, number)
        kind._value_ = number
        kind.label = label
        return kind

    DRAWN = 0, "as drawn"
    LARGE = 1, "large values"
    TINY = 2, "tiny values"
    DENORMAL = 3, "denormal values"
    ZEROS = 4, "all zeros"
    NEGATIVE = 5, "negative values"
    CONSTANT = 6, "constant rows"
    SORTED = 7, "sorted rows"
    OUTLIERS = 8, "outliers and one-hot rows"
    MIXED = 9, "rows of mixed scale"
    SIGNS = 10, "only -1, 0 and 1"
    EDGES = 11, "integers at the ends of their range"
    INFINITE = 12, "infinities"
    NAN = 13, "NaN"
    PATCHWORK = 14, "rows of many kinds"
    NEEDLE = 15, "one large value"
    WIDE = 16, "values four times as large"
    PLACED = 17, "values ordered by their place"


class Alteration(IntEnum):
    """A change of one input alone, compared with an earlier call."""

    REPEATED = 0  # it keeps its value, all others are drawn again
    CHANGED = 1  # it alone gets other values
    HALVED = 2  # it alone loses a random half of its elements, along one axis
    PART = 3  # it alone gets other values, in one short run of its elements
    FEW = 4  # it alone gets other values, in very few elements


class InputChange(NamedTuple):
    """An alteration of the input at position `argument`.

    For HALVED the `variant` is the axis, for FEW it sets how many elements change and, `VARIANTS`
    added, that their indices are odd, not even.
    """

    argument: int
    alteration: Alteration
    variant: int = 0


VARIANTS = 4
"""The number of variants of CHANGED; some are no change for some values."""

STEPS = (2, 3, 5, 7)
"""PLACED gives every second, third, fifth and seventh run of elements a rank of its own."""

DIFFERENT_ROWS = 8
"""The number of rows that PLACED orders differently."""

PAIRINGS = 4
"""How often PLACED pairs the elements at random. With more pairings the values follow their place
more closely."""

EDGES_SHARE = 8
"""EDGES has integers in this share of their range at either end. If all were at an end, a sort
would order equal ones alone, as each kernel likes."""

RUNS = 16
"""The length of the run of PART: at most a row, and this share of the elements."""

SPECIAL = frozenset({ValueKind.INFINITE, ValueKind.NAN})
FLOATING = frozenset(ValueKind) - {ValueKind.DRAWN, ValueKind.EDGES, ValueKind.PATCHWORK}


def possible(values: str, dtypes: Sequence[torch.dtype]) -> list[ValueKind]:
    """Return the kinds beside DRAWN that a task allows for inputs of these dtypes.

    `values` is the task's `correctness.values`.
    """
    if values == "drawn":
        return []
    kinds = sorted(FLOATING - (SPECIAL if values == "finite" else frozenset()))
    kinds.append(ValueKind.EDGES)
    return [kind for kind in kinds if _changing(kind, dtypes)]


def apply(kind: ValueKind, inputs: Sequence[object], rng: torch.Generator) -> list[object]:
    """Return inputs with values of a kind; shapes and dtypes stay.

    The largest tensor to which the kind applies always changes, every other tensor by chance: a
    weight of zeros would hide the effect of zeros elsewhere.
    """
    if kind is ValueKind.DRAWN:
        return list(inputs)
    known = {at: value for at, value in enumerate(inputs) if isinstance(value, torch.Tensor)}
    dtypes = _changing(kind, [value.dtype for value in known.values()])
    tensors = {
        index: value for index, value in known.items() if value.dtype in dtypes and value.numel()
    }
    changed = list(inputs)
    largest = max(tensors, key=lambda index: tensors[index].numel(), default=None)
    for index, value in tensors.items():
        if index == largest or _chance(rng, 2):
            changed[index] = _changed(kind, value, rng)
    return changed


def altered(
    change: InputChange,
    inputs: Sequence[object],
    drawn: Callable[[], Sequence[object]],
    rng: torch.Generator,
) -> list[object] | None:
    """Return inputs that differ from `inputs` by a change; None if they would be equal.

    `drawn` returns fresh inputs.
    """
    argument, alteration, variant = change
    value, others = inputs[argument], list(inputs)
    if alteration is Alteration.REPEATED:
        others = list(drawn())
        others[argument] = value
        return others
    if not isinstance(value, torch.Tensor):
        others[argument] = _other_number(value, variant)
    elif alteration is Alteration.HALVED:
        others[argument] = _halved(value, variant, rng)
    elif alteration is Alteration.FEW:
        others[argument] = _in_few_elements(value, variant, rng)
    else:
        if value.dtype is torch.bool:
            other: object = value ^ (torch.rand(value.shape, generator=rng) < 0.5)
        else:
            other = drawn()[argument] if variant == 0 else _other_elements(value, variant, rng)
        others[argument] = (
            _in_one_run(value, other, rng) if alteration is Alteration.PART else other
        )
    return None if same_value(others[argument], value) else others


def same_value(first: object, other: object) -> bool:
    """Return whether two inputs are equal."""
    if isinstance(first, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.equal(computable(first), computable(other))
    return type(first) is type(other) and first == other


def _other_number(value: object, variant: int) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return (value + 1, value - 1, 2 * value, 0)[variant % VARIANTS]
    if isinstance(value, float):
        return (2 * value, value + 1, -value, value / 2)[variant % VARIANTS]
    return value


def _other_elements(value: torch.Tensor, variant: int, rng: torch.Generator) -> torch.Tensor:
    """Return other elements of a kind: integers within the range of the drawn ones, if it is one.

    Sorted integers (offsets of segments) stay sorted.
    """
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
        return value + (1 if variant % 2 else -1)
    other = torch.randint(low, high + 1, value.shape, generator=rng).to(value.dtype)
    found = _as_rows(other)
    if _is_sorted(value):
        found = found.sort(dim=-1).values
    return found.view(value.shape)


def _in_one_run(value: torch.Tensor, other: object, rng: torch.Generator) -> torch.Tensor:
    """Return `value` with a run of the elements of `other`, at a random place.

    Sorted integers stay as they are: a part of others is not in their order.
    """
    if not isinstance(other, torch.Tensor) or not value.numel() or _is_sorted(value):
        return value
    length = max(1, min(value.shape[-1], value.numel() // RUNS)) if value.dim() else 1
    start = int(torch.randint(value.numel() - length + 1, (), generator=rng))
    made = value.clone(memory_format=torch.contiguous_format)
    made.view(-1)[start : start + length] = other.reshape(-1)[start : start + length]
    return made


def _in_few_elements(value: torch.Tensor, variant: int, rng: torch.Generator) -> torch.Tensor:
    """Return `value` with `4 ** variant` other elements, at random places of a line along an axis.

    A kernel that looks at a sample of an input misses one element more often than several. So of
    floats variant 1 is one element again, with the largest magnitude: a maximum depends on it.
    A sample of each second, fourth or eighth index has no odd ones, or no even ones. Sorted
    integers (offsets of segments) stay sorted, floats do not: no reference needs their order.
    """
    odd, variant = divmod(variant, VARIANTS)

    def places_along(extent: int) -> torch.Tensor:
        return torch.arange(min(odd, extent - 1), extent, 2)

    made = value.clone(memory_format=torch.contiguous_format)
    axes = [axis for axis, extent in enumerate(value.shape) if extent > 1]
    if not axes or not made.numel():
        return value
    constant = bool((made == made.view(-1)[0]).all())
    discrete = not _is_inexact(value.dtype)
    ordered = discrete and not constant and value.shape[-1] > 1 and _is_sorted(value)
    axis = value.dim() - 1 if ordered else axes[int(torch.randint(len(axes), (), generator=rng))]
    lines = made.movedim(axis, -1)
    others = [places_along(extent) for extent in lines.shape[:-1]]
    line = lines[tuple(int(each[torch.randint(len(each), (), generator=rng)]) for each in others)]
    large = variant == 1 and not discrete
    count = 1 if large else max(1, min(4**variant, len(line) // 2))
    if ordered:
        steps = (line[1:] != line[:-1]).nonzero().flatten() + 1
        places = steps[torch.randperm(len(steps), generator=rng)[:count]]
        line[places] = line[places - 1]
    else:
        possible = places_along(len(line))
        places = possible[torch.randperm(len(possible), generator=rng)[:count]]
        line[places] = _largest(made, rng) if large else _others(line[places], made.view(-1), rng)
    return made


def _largest(known: torch.Tensor, rng: torch.Generator) -> float:
    """Return a number of twice the magnitude of any of `known`; below zero only if one of them is.

    Infinities do not count.
    """
    finite = computable(known)[torch.isfinite(computable(known))]
    if not finite.numel():
        return 1.0
    most = min(2 * float(finite.abs().amax()), torch.finfo(known.dtype).max / 2) or 1.0
    signed = not finite.is_complex() and bool((finite < 0).any())
    return -most if signed and _chance(rng, 2) else most


def _others(few: torch.Tensor, known: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Return a value that differs from each of `few`, if possible in the range of those `known`."""
    if few.dtype is torch.bool:
        return ~few
    if _is_inexact(few.dtype):
        other = known[torch.randint(len(known), few.shape, generator=rng)]
        return torch.where(other != few, other, _other_elements(few, 1, rng))
    low, high = int(known.amin()), int(known.amax())
    if low == high:
        return few + (1 if _chance(rng, 2) else -1)
    steps = torch.randint(1, high - low + 1, few.shape, generator=rng)
    return ((few.long() - low + steps) % (high - low + 1) + low).to(few.dtype)


def _is_sorted(value: torch.Tensor) -> bool:
    """Return whether each row has ascending numbers, which is true of one number too."""
    if value.dtype is torch.bool or value.is_complex():
        return False
    rows = _as_rows(computable(value))
    return bool((rows[:, 1:] >= rows[:, :-1]).all())


def _halved(value: torch.Tensor, axis: int, rng: torch.Generator) -> torch.Tensor:
    """Return a tensor in which a random half of the elements is replaced by the other half.

    In random pairs along an axis one element replaces the other, so a mean over the axis becomes
    the mean of half of its elements.
    """
    if not _is_inexact(value.dtype) or axis >= value.dim() or value.shape[axis] < 2:
        return value
    rows = value.movedim(axis, 0).clone()
    order = torch.randperm(len(rows), generator=rng)
    first, second = order[: len(rows) // 2], order[len(rows) // 2 : len(rows) // 2 * 2]
    pick = torch.rand((len(first), *rows.shape[1:]), generator=rng) < 0.5
    kept = torch.where(pick, rows[first], rows[second])
    rows[first] = kept
    rows[second] = kept
    return rows.movedim(0, axis).contiguous()


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


DECIDED_BY = [16.0, -16.0, 128.0, -128.0]
"""By how many roundings nudged inputs show decisions inside the reference. A change by more would
move results that depend on no decision; with a small change one decision seldom hides another."""


def nudged_by_place(value: object, native: object, roundings: float) -> object:
    """Return `value`, in double precision, changed the more (or less, below 0) the later its place.

    Of equal numbers the first, or the last, becomes the largest. The order of others stays, because
    no element changes by more than half of a rounding.
    """

    def noise(shape: torch.Size) -> torch.Tensor:
        places = torch.arange(math.prod(shape), dtype=torch.float64).view(shape)
        return roundings * (places / max(places.numel(), 1) - 0.5)

    return _nudged(value, native, noise, absolute=True)


def nudged_in_sums(value: object, native: object) -> object:
    """Return `value` changed as if it were added up along each axis, with random roundings.

    Each rounding of a partial sum changes all of its terms by one factor. So a term's factor is the
    sum of the roundings from it on.
    """

    def noise(shape: torch.Size) -> torch.Tensor:
        found = torch.zeros(shape, dtype=torch.float64)
        for axis, extent in enumerate(shape):
            if extent > 1:
                roundings = torch.rand(shape, dtype=torch.float64) * 2 - 1
                found += roundings.cumsum(axis).flip(axis)
        return found

    return _nudged(value, native, noise)


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
    # Denormal numbers are those of the dtype itself.
    given = value if kind is ValueKind.DENORMAL else computable(value)
    return _as_typed(_CHANGES[kind](given, rng), value.dtype)


def _at_the_ends(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    low, high = int(value.amin()), int(value.amax())
    beside = torch.randint((high - low) // EDGES_SHARE + 1, value.shape, generator=rng)
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


def _large(value: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return value * (2.0**4 if value.dtype == torch.float16 else 2.0**10)


def _wide(value: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """Return values whose exponentials differ by more than those of drawn ones.

    Larger values show less of it, because rounding then matters more.
    """
    return value * 4


def _tiny(value: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return value * (2.0**-6 if value.dtype == torch.float16 else 2.0**-40)


def _denormal(value: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    smallest = torch.finfo(value.dtype).tiny
    wide = value.double()
    return wide / wide.abs().amax().clamp(min=1e-300) * smallest


def _constant(value: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    rows = _as_rows(value)
    return rows[:, :1].expand_as(rows).reshape(value.shape)


def _sorted(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return _as_rows(value).sort(dim=-1, descending=_chance(rng, 2)).values.view_as(value)


def _outliers(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    rows = _as_rows(value).clone()
    count, length = rows.shape
    place = torch.randint(length, (count, 1), generator=rng)
    # Two of three rows have it at an end: a kernel may take the first element for a typical one.
    turn = int(torch.randint(3, (), generator=rng))
    place[turn::3] = 0
    place[(turn + 1) % 3 :: 3] = length - 1
    height = rows.gather(1, place) * 100 + 1
    # Every second row is one-hot: zero except for one element.
    rows[int(torch.randint(2, (), generator=rng)) :: 2] = 0
    return rows.scatter_(1, place, height).view_as(value)


def _mixed(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    rows = _as_rows(value)
    reach = 3 if value.dtype == torch.float16 else 10
    powers = torch.randint(-reach, reach + 1, (rows.shape[0], 1), generator=rng)
    return (rows * torch.exp2(powers.to(torch.float64)).to(rows.dtype)).view_as(value)


def _placed(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Return the values in an order in which those at regular steps are larger, or smaller.

    A kernel may take a mean or a sum from a part of a tensor, at regular steps. That is right for
    many random values, and the kernel may compute tensors with unusual values in another way. So
    this order has the drawn values. Elements are paired at random, and of each pair the larger
    value gets the place with the higher rank.
    """
    rows = _as_rows(value)
    ranks = _periodic(rows.shape, rng) + _periodic(rows.shape[::-1], rng).T
    flat, ranks = rows.flatten().clone(), ranks.flatten()
    half = flat.numel() // 2
    for _ in range(PAIRINGS if half else 0):
        turn = int(torch.randint(half, (), generator=rng))
        high, low = flat[:half], flat[-half:].roll(turn)
        swap = (_prominence(high) < _prominence(low)) == (ranks[:half] > ranks[-half:].roll(turn))
        flat[:half], other = torch.where(swap, low, high), torch.where(swap, high, low)
        flat[-half:] = other.roll(-turn)
    return flat.view_as(value)


def _periodic(shape: torch.Size, rng: torch.Generator) -> torch.Tensor:
    """Return rows of random numbers: sums of periodic ones, of many lengths.

    Numbers of shorter steps are larger: most kernels that leave out elements use such a step.
    """
    count, extent = shape
    found = torch.zeros(min(count, DIFFERENT_ROWS), extent)
    run = 1
    while run < extent:
        for step in STEPS:
            phases = (torch.rand(len(found), step, generator=rng) - 0.5) / step
            repeated = phases.repeat_interleave(run, 1)[:, :extent]
            found += repeated.repeat(1, -(-extent // repeated.shape[1]))[:, :extent]
        run *= 2
    return found.repeat(-(-count // len(found)), 1)[:count]


def _prominence(value: torch.Tensor) -> torch.Tensor:
    """Return the values, but half the size of negative ones, by which PLACED orders the values.

    Elements with high numbers differ from all elements in the mean of their values, and in the mean
    of their squares.
    """
    return torch.where(value < 0, value * -0.5, value)


def _signs(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    return torch.randint(-1, 2, value.shape, generator=rng)


def _patchwork(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Return rows of different kinds: most kinds in one input.

    Kinds whose results lose much to rounding are omitted: one such row makes the input unfair.
    """
    rows = _as_rows(value)
    kinds = torch.randint(len(_PATCHES), (rows.shape[0],), generator=rng)
    found = rows.clone()
    for number, change in enumerate(_PATCHES):
        chosen = (kinds == number).nonzero().flatten()
        if len(chosen):
            found[chosen] = _as_rows(change(rows[chosen], rng)).to(rows.dtype)
    return found.view_as(value)


def _raised(value: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """Return rows just large enough for their exponentials to overflow."""
    highest = value.abs().amax(-1, keepdim=True).double().clamp(min=1e-300)
    return value * (_overflowing(value) / highest).clamp(min=1.0)


def _overflowing(value: torch.Tensor) -> float:
    """Return a number whose exponential overflows."""
    return 12.0 if value.dtype == torch.float16 else 120.0


def _needle(value: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Return ordinary values with one exception: a random positive element becomes the largest.

    A kernel may look at a part of its input, and decide by that part what care the rest needs. In a
    sorted row the largest element would be at the end, so another one is raised.
    """
    flat = value.flatten().clone()
    places = (flat > 0).nonzero().flatten()
    at = int(torch.randint(len(places) or flat.numel(), (), generator=rng))
    place = int(places[at]) if len(places) else at
    # Not of all elements: those of a mask may be the smallest numbers of the dtype.
    highest = float(flat[places].nan_to_num(posinf=0.0).amax()) if len(places) else 0.0
    most = torch.finfo(value.dtype).max / 2
    flat[place] = min(max(_overflowing(value), 2 * highest), most)
    return flat.view_as(value)


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
    ValueKind.TINY: _tiny,
    ValueKind.DENORMAL: _denormal,
    ValueKind.ZEROS: lambda value, _: torch.zeros_like(value),
    ValueKind.NEGATIVE: lambda value, _: -value.abs(),
    ValueKind.CONSTANT: _constant,
    ValueKind.SORTED: _sorted,
    ValueKind.OUTLIERS: _outliers,
    ValueKind.MIXED: _mixed,
    ValueKind.SIGNS: _signs,
    ValueKind.INFINITE: _infinite,
    ValueKind.NAN: _nan,
    ValueKind.PATCHWORK: _patchwork,
    ValueKind.NEEDLE: _needle,
    ValueKind.WIDE: _wide,
    ValueKind.PLACED: _placed,
}
_PATCHES = (
    _raised,
    _tiny,
    _CHANGES[ValueKind.ZEROS],
    _CHANGES[ValueKind.NEGATIVE],
    _sorted,
    _outliers,
    _signs,
    _placed,
)


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
