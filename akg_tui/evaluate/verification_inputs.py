"""The inputs for verification of a candidate: ordinary and unusual values, and hidden shapes.

Owns their random choice, made anew for every evaluation (once for the settings of a sweep), and
whether an input is fair to a candidate. Draws them from a child of the reference. In the declared
shape every part of every input decides: inputs come with values at either end of their range, where
a decay is slow, and blocks along each axis are altered alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from msgspec import structs

from akg_tui.evaluate import correctness, task_lint
from akg_tui.evaluate.child import unusual_values
from akg_tui.evaluate.child.unusual_values import SPECIAL, Alteration, InputChange, ValueKind
from akg_tui.evaluate.correctness import Bound, Comparison
from akg_tui.evaluate.hidden_shapes import hidden_shapes
from akg_tui.evaluate.processes.worker import ChildFailed
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.protocol.child_protocol import (
    ConstantSlot,
    TensorSlot,
    Variation,
    Want,
)
from akg_tui.evaluate.protocol.tensor_layout import DTYPES
from akg_tui.evaluate.reference import Draw, Loaded, NudgedDraw, Reference
from akg_tui.evaluate.sandbox.process_watch import CpuDeadline

UNUSUAL_CPU_S = 0.5
"""While a brief evaluation waits, unusual inputs are drawn until each thread of the reference has
used this many seconds of CPU time. Their order is random, so that several evaluations with a slow
reference try all of them."""

UNUSUAL_WHOLE_CPU_S = 5.0
"""The CPU time for unusual inputs while the judge is idle, or for an evaluation that is to try all,
in seconds per thread."""

LATE_CPU_S = 4.0
"""The CPU time for those that always come, so that a kernel which knows the declared shape is found
out beside a slow reference too."""

DECLARED_BYTES = 256 << 20
"""The memory that unusual inputs of the declared shape may use, with their results; a slow decay
and one block come in any case."""

DECLARED_MOST = 56
"""The largest number of unusual inputs of the declared shape, each of which is a call."""

DECLARED = (
    ValueKind.LEVEL,
    ValueKind.CONSTANT,
    ValueKind.SMALL,
    ValueKind.HIGH,
    ValueKind.LOW,
)
"""The kinds of values that always come in the declared shape, and so in no other."""

ALWAYS = (ValueKind.LARGE, ValueKind.LEVEL, ValueKind.CONSTANT, ValueKind.SMALL)
"""The kinds that always come there for all inputs at once, in this order."""

FURTHER = frozenset(ValueKind) - {ValueKind.DRAWN, ValueKind.LARGE, *DECLARED, *SPECIAL}
"""The kinds of values that come there if time is left."""

TIMES = 3
"""How often an input is altered, at other places, until the reference's result moves."""

NEXT_TIME = "; the next evaluation may come to it"


@dataclass(frozen=True)
class VerificationInput:
    """One input: its name, its place in a draw, and the bounds of its results."""

    name: str
    draw: Draw
    item: int
    held: Sequence[Bound]
    kind: ValueKind = ValueKind.DRAWN
    strided: bool = False
    """Whether its tensors have gaps or permuted strides, for the task's `noncontiguous`."""
    base: VerificationInput | None = None
    """The input from which this one differs in one argument alone, or has one in common."""

    def compare(self, results: Sequence[torch.Tensor]) -> Comparison:
        """Compare a candidate's results with those of the reference."""
        return self.draw.compare(self.item, results, self.held)

    def accepts(self, results: Sequence[torch.Tensor]) -> bool:
        """Return whether `compare` finds no fault."""
        return self.draw.accepts(self.item, results, self.held)

    @property
    def altered(self) -> bool:
        """Whether it has a base."""
        return self.base is not None

    @property
    def special(self) -> bool:
        """Whether it has infinities or NaN that `get_inputs()` did not draw."""
        return self.kind in SPECIAL


@dataclass
class Group:
    """Inputs of equal shapes, from one draw."""

    draw: Draw
    inputs: list[VerificationInput] = field(default_factory=list)
    strided: bool = False


@dataclass
class VerificationInputs:
    """All inputs of one verification. `skipped`: by name of an input, why it is not tried."""

    ordinary: Group
    unusual: list[Group] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def like_ordinary(self) -> list[tuple[VerificationInput, ...]]:
        """Return the unusual inputs that lie in memory as ordinary ones do.

        One to a call, or two where an altered input follows its base.
        """
        known = self.ordinary.draw.description
        found: list[tuple[VerificationInput, ...]] = []
        for group in self.unusual:
            has = group.draw.description
            if (has.inputs, has.outputs) == (known.inputs, known.outputs):
                found += [
                    (each,) if each.base is None else (each.base, each)
                    for each in {id(each): each for each in group.inputs}.values()
                    if not each.special
                ]
        return found

    @property
    def count(self) -> int:
        """The number of inputs."""
        return len(self.ordinary.inputs) + sum(len(group.inputs) for group in self.unusual)

    def close(self) -> None:
        """Close all draws."""
        for group in (self.ordinary, *self.unusual):
            group.draw.close()


@dataclass(frozen=True)
class Station:
    """An unusual input of the declared shape, and the alterations of it.

    The input at position `argument` alone has values of `kind`, if there is one.
    """

    kind: ValueKind
    argument: int | None = None
    changes: tuple[InputChange, ...] = ()


def draw(
    reference: Reference, loaded: Loaded, rng: random.Random, cpu_s: float
) -> VerificationInputs:
    """Return fresh inputs, drawn from secret seeds by a child of the reference.

    The child can't draw ordinary inputs afterwards. `cpu_s` is the CPU time in seconds that each of
    its threads may use for unusual inputs.
    """
    rules = reference.rules
    ordinary = reference.draw_from(
        loaded, rules.trials, exact=True, checkable=rules.trials, at_least=rules.trials
    )
    held = [
        ordinary.bounds(item, rules.tolerance, reference.pooled) for item in range(ordinary.count)
    ]
    known = [VerificationInput(ValueKind.DRAWN.label, ordinary, *each) for each in enumerate(held)]
    inputs = VerificationInputs(Group(ordinary, known))
    unusual = _Unusual(reference, loaded, inputs, cpu_s)
    kinds = _kinds(reference, rng)
    hidden = hidden_shapes(reference.description.shapes, reference.free_dimensions, rng)
    least, others = stations(reference, kinds, rng, whole=not hidden)
    unusual.declare(least, late=True)
    if hidden:
        # The first hidden shape is small. The declared one has all `DECLARED` kinds.
        small = [kind for kind in kinds if kind not in DECLARED]
        unusual.add(Variation(hidden[0]), [ValueKind.DRAWN, *small])
    rest = [Variation(other) for other in hidden[1:]]
    if rules.noncontiguous:
        shapes = hidden[0] if hidden else reference.description.shapes
        rest.append(Variation(shapes, strided=True))
    rng.shuffle(rest)
    for variation in rest:
        unusual.add(variation, [ValueKind.DRAWN])
    unusual.declare(others)
    rng.shuffle(inputs.unusual)
    return inputs


def _kinds(reference: Reference, rng: random.Random) -> list[ValueKind]:
    """Return the kinds of values that the task allows, in random order."""
    dtypes = [DTYPES[slot.dtype] for slot in reference.description.inputs.tensors]
    possible = unusual_values.possible(reference.rules.values, dtypes)
    kinds = [kind for kind in possible if kind not in reference.excluded]
    rng.shuffle(kinds)
    return kinds


def stations(
    reference: Reference, kinds: Sequence[ValueKind], rng: random.Random, *, whole: bool
) -> tuple[list[Station], list[Station]]:
    """Return the unusual inputs of the declared shape: those that always come, and the others.

    Each input that a kernel may not ignore has, alone, values at either end of their range, with
    blocks altered at the start and the end of each axis: where a decay is slow a window shows,
    which the decay of drawn values would hide. Blocks of each input are altered beside drawn values
    too, which shows a sample. Where results have 16 or 8 bits, the bound would hide a sample of a
    large input: there one number of each input outweighs all others. All kinds of values come if
    `whole`.
    """
    ends: list[Station] = []
    drawn: list[Station] = []
    ones: list[InputChange] = []
    results = reference.description.outputs.tensors
    coarse = any(DTYPES[slot.dtype] in correctness.HALF for slot in results)
    slots = reference.description.inputs.slots
    deciding = [at for at, slot in enumerate(slots) if at not in reference.free_inputs]
    deciding = [at for at in deciding if not isinstance(slots[at], ConstantSlot)]
    for at in rng.sample(deciding, len(deciding)):
        slot = slots[at]
        shape = slot.shape if isinstance(slot, TensorSlot) else ()
        inexact = isinstance(slot, TensorSlot) and DTYPES[slot.dtype] in correctness.FLOORS
        axes = [axis for axis, extent in enumerate(shape) if extent > 1]
        changes: list[InputChange] = []
        if 0 not in shape and reference.rules.values != "drawn":
            along = [[InputChange(at, each, axis) for axis in axes] for each in Alteration]
            longest = max(axes, key=lambda axis: shape[axis], default=0)
            peak = Alteration.PEAK if inexact else Alteration.BLOCK
            changes = [*along[Alteration.BLOCK], *along[peak]]
            rng.shuffle(changes)
            if axes:
                changes.insert(0, InputChange(at, peak, longest))
            if axes and coarse and inexact:
                ones.append(InputChange(at, Alteration.ONE))
            if not inexact or not axes:
                changes.append(InputChange(at, Alteration.CHANGED))
            if ValueKind.HIGH in kinds and inexact:
                last = [InputChange(at, Alteration.END, longest)] if axes else []
                for kind in (ValueKind.HIGH, ValueKind.LOW):
                    starts = sorted(along[Alteration.START], key=lambda each: -shape[each.axis])
                    ends.append(Station(kind, at, (*starts, *last)))
        if isinstance(slot, TensorSlot) and 0 not in shape and len(deciding) > 1:
            changes.append(InputChange(at, Alteration.REPEATED))
        changes = [change for change in changes if change not in reference.excluded]
        if changes:
            drawn.append(Station(ValueKind.DRAWN, None, tuple(changes)))
    rng.shuffle(ends)
    ones = [change for change in ones if change not in reference.excluded]
    least, others = _in_order(ends, drawn, ones, kinds)
    special = [Station(kind) for kind in kinds if kind in SPECIAL]
    others += [Station(kind) for kind in kinds if kind in FURTHER][: None if whole else 1]
    rng.shuffle(others)
    if reference.rules.values == "any":
        return least, [*special, *others]
    # A difference is a note, which a small shape gives too.
    return least, [*others, *special] if whole else others


def _in_order(
    ends: Sequence[Station],
    drawn: Sequence[Station],
    ones: Sequence[InputChange],
    kinds: Sequence[ValueKind],
) -> tuple[list[Station], list[Station]]:
    """Return the stations that always come, the most telling ones first, and the others."""
    first = [*ends[:1], *drawn[:1]]
    least = [replace(each, changes=each.changes[:2]) for each in first]
    if ones:
        # First, because few inputs of a large shape are drawn.
        beside = least.pop() if drawn else Station(ValueKind.DRAWN)
        least.insert(0, replace(beside, changes=(*ones, *beside.changes)))
    least += [Station(kind) for kind in ALWAYS if kind in kinds]
    least += [replace(each, changes=()) for each in ends[1:]]
    rest = [replace(each, changes=each.changes[2:]) for each in first]
    return least, [each for each in (*rest, *ends[1:], *drawn[1:]) if each.changes]


class _Unusual:
    """Draws groups of unusual inputs from a reference child until its time is used up."""

    def __init__(
        self, reference: Reference, loaded: Loaded, inputs: VerificationInputs, cpu_s: float
    ) -> None:
        self._reference = reference
        self._loaded = loaded
        self._inputs = inputs
        self._deadline = CpuDeadline(loaded.worker.pid, cpu_s * reference.threads)
        self._late = CpuDeadline(loaded.worker.pid, max(cpu_s, LATE_CPU_S) * reference.threads)
        self._lost = False
        known = reference.description
        wide = layouts.result_layout(known.outputs, exact=True).size
        item = known.inputs.size + known.outputs.size + NudgedDraw.exact_count(known) * wide
        usable = min(DECLARED_BYTES, reference.memory_bytes // 8)
        self._left = max(2, min(DECLARED_MOST, usable // max(item, 1)))
        """How many further inputs of the declared shape may be drawn."""

    def declare(self, wanted: Sequence[Station], *, late: bool = False) -> None:
        """Draw inputs of the declared shape, and each with one input altered alone.

        Until the time is used up, or, if `late`, much later.
        """
        most = min(self._left, sum(1 + len(station.changes) for station in wanted))
        if not most:
            return
        known, check = self._reference.description, self._reference.check
        drawn = NudgedDraw.allocate(known, most, exact=True, check=check)
        group = Group(drawn)
        self._inputs.unusual.append(group)
        if not self._ended(late=late):
            self._loaded.vary(Variation((), structures=self._reference.structures))
        item = 0
        for station in wanted:
            if item == most:
                break
            base = self._base(drawn, item, station, late=late)
            if base is None:
                continue
            group.inputs.append(base)
            item += 1
            for change in station.changes:
                given = self._altered(drawn, item, base, change, late=late) if item < most else None
                if given is None:
                    continue
                if change.alteration in (Alteration.REPEATED, Alteration.CHANGED):
                    group.inputs.append(base)  # so that a cache of the last result is found too
                group.inputs.append(given)
                item += 1
        self._left -= item

    def _base(
        self, drawn: NudgedDraw, item: int, station: Station, *, late: bool
    ) -> VerificationInput | None:
        kind, alone = station.kind, station.argument
        name = kind.label if alone is None else f"{kind.label} of {self._input(alone)}"
        # Along another axis the result may hang less on roundings.
        for _ in range(TIMES if kind is ValueKind.CONSTANT else 1):
            with self._told(name, kind):
                bits = self._bits(late=late)
                made = self._loaded.draw_kind(item, kind, alone, bits, drawn.fds)
                return VerificationInput(
                    name, drawn, item, self._fair(drawn, item, kind, made), kind
                )
        return None

    def _altered(
        self,
        drawn: NudgedDraw,
        item: int,
        base: VerificationInput,
        change: InputChange,
        *,
        late: bool,
    ) -> VerificationInput | None:
        """Draw `base` with one input altered, at a place where it moves the reference's result."""
        name = f"{self._input(change.argument)} {change.alteration.label}"
        large = change.alteration in (Alteration.PEAK, Alteration.ONE)
        kind = ValueKind.LARGE if large else base.kind
        for _ in range(TIMES):
            with self._told(name, change):
                bits = self._bits(late=late)
                made = self._loaded.alter(item, change, bits, drawn.fds)
                held = self._fair(drawn, item, kind, made)
                given = VerificationInput(name, drawn, item, held, base.kind, base=base)
                if given.accepts(base.draw.results(base.item)):
                    raise _NotTried("the reference's result does not move")
                return given
        return None

    def add(self, variation: Variation, wanted: Sequence[ValueKind]) -> None:
        """Draw one group of inputs of other shapes, or with gaps."""
        variation = structs.replace(variation, structures=self._reference.structures)
        words = ["not contiguous"] if variation.strided else []
        if variation.shapes != self._reference.description.shapes:
            words.append("shape " + ", ".join(str(list(shape)) for shape in variation.shapes))
        drawn: NudgedDraw | None = None
        for item, kind in enumerate(wanted):
            name = ", ".join([*([kind.label] if kind is not ValueKind.DRAWN else []), *words])
            with self._told(name, kind):
                bits = self._bits()
                if drawn is None:
                    known = self._loaded.vary(variation)
                    if known is None:
                        raise _NotTried("the reference refuses this shape")
                    if any(0 in slot.shape for slot in known.outputs.tensors):
                        raise _NotTried("a result of this shape has no elements")
                    check = self._reference.check
                    drawn = NudgedDraw.allocate(known, len(wanted), exact=True, check=check)
                    group = Group(drawn, strided=variation.strided)
                    self._inputs.unusual.append(group)
                made = self._loaded.draw_kind(item, kind, None, bits, drawn.fds)
                held = self._fair(drawn, item, kind, made)
                group.inputs.append(
                    VerificationInput(name, drawn, item, held, kind, variation.strided)
                )

    @contextmanager
    def _told(self, name: str, tried: ValueKind | InputChange) -> Iterator[None]:
        """Tell why an input is not tried if that is found inside."""
        try:
            yield
        except ChildFailed as failed:
            self._reference.excluded.add(tried)
            self._lost = True
            self._inputs.skipped.setdefault(name, f"the reference fails: {failed.message}")
        except _NotTried as why:
            self._inputs.skipped.setdefault(name, str(why))

    def _bits(self, *, late: bool = False) -> int:
        """Return the results that are wanted of an input; raise if no time is left."""
        if why := self._ended(late=late):
            raise _NotTried(why + NEXT_TIME)
        return Want.OUTPUT | Want.EXACT | Want.UNUSUAL

    def _input(self, position: int) -> str:
        return task_lint.input_name(position, self._loaded.description.parameters)

    def _ended(self, *, late: bool = False) -> str:
        if self._lost:
            return "the reference's process ended"
        return (self._late if late else self._deadline).exceeded()

    def _fair(self, drawn: NudgedDraw, item: int, kind: ValueKind, made: int) -> list[Bound]:
        """Return the bounds for a candidate; raise if the input would be unfair."""
        if made == Want.UNALTERED:
            raise _NotTried("the structure of the inputs allows no other values")
        if not made:
            raise _NotTried("the reference refuses these values")
        native = drawn.results(item)
        exact = drawn.exact_results(item) if made & Want.EXACT else None
        nudged = drawn.nudged_results(item) if made & Want.EXACT else None
        inexact = [result for result in native if result.dtype in correctness.FLOORS]
        usual = kind not in SPECIAL and self._reference.is_finite
        if usual and not correctness.all_finite(inexact):
            raise _NotTried("the reference has no finite result")
        if drawn.check is not None:
            if refused := drawn.checked(item, native).message:
                raise _NotTried(f"the reference's own result is not accepted: {refused}")
            return drawn.bounds(item, None, ())
        known = drawn.description
        held = correctness.conditioned(
            native,
            exact,
            nudged,
            self._reference.rules.tolerance,
            known.terms,
            ties=drawn.near_ties(item) if made & Want.EXACT else (),
            decided=drawn.decided(item) if made & Want.EXACT else (),
            usual=() if kind is ValueKind.SMALL else self._reference.sample_held,
            random=kind is ValueKind.DRAWN,
            large=kind is ValueKind.LARGE,
        )
        if held is None:
            raise _NotTried("the result depends on how it is rounded")
        return held


class _NotTried(Exception):
    """Why an input is not tried."""
