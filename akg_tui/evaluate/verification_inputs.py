"""The inputs for verification of a candidate: ordinary and unusual values, and hidden shapes.

Owns their random choice, made anew for every evaluation, and whether an input is fair to a
candidate. Draws them from a child of the reference.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from akg_tui.evaluate import correctness, task_lint
from akg_tui.evaluate.child import tensor_layout as layouts
from akg_tui.evaluate.child import unusual_values
from akg_tui.evaluate.child.protocol import (
    KIND_SHIFT,
    ConstantSlot,
    Description,
    ScalarSlot,
    TensorSlot,
    Variation,
    Want,
)
from akg_tui.evaluate.child.tensor_layout import DTYPES
from akg_tui.evaluate.child.unusual_values import (
    SPECIAL,
    VARIANTS,
    Alteration,
    InputChange,
    ValueKind,
)
from akg_tui.evaluate.correctness import Bound, Comparison
from akg_tui.evaluate.hidden_shapes import hidden_shapes
from akg_tui.evaluate.processes.process_watch import CpuDeadline
from akg_tui.evaluate.processes.worker import ChildFailed
from akg_tui.evaluate.reference import Draw, Loaded, NudgedDraw, Reference

UNUSUAL_CPU_S = 0.5
"""While an evaluation waits, unusual inputs are drawn until each thread of the reference has used
this many seconds of CPU time. Their order is random, so that several evaluations with a slow
reference try all of them."""

UNUSUAL_IDLE_CPU_S = 5.0
"""The CPU time for unusual inputs while the judge is idle, in seconds per thread."""

LATE_TIMES = 16
"""How many times the CPU time for unusual inputs may be used before the least of them are skipped:
`DECLARED_LATE` of the declared shape, and one in which one argument alone is altered. With a slow
reference there would be none, and a kernel that knows the declared shape would be right."""

NEXT_TIME = "; the next evaluation may come to it"

FEW_TIMES = 5
"""How often one tensor alone is altered in very few elements. They are at odd indices and at
even ones in turn, because a kernel may look at each second element."""

FEW_TIMES_OF_FLOATS = 2
"""The same for a tensor of floats, of which most kernels must read every element to be right."""

PLACED_TIMES = 2
"""How many inputs of the declared shape have values ordered by their place. A bfloat16 softmax over
one row of a million values that takes its sum from each fourth block of 512 is right for one of
five such inputs. With several rows such a kernel is wrong in one of them."""

ALTERED_INPUTS = {
    Alteration.CHANGED: 4,
    Alteration.PART: 2,
    Alteration.FEW: 2 * FEW_TIMES,
    Alteration.REPEATED: 2,
}
"""The largest number of inputs of the declared shape in which one argument alone is altered."""

ALTERED_SHARE = 0.3
"""The largest share of the CPU time for unusual inputs that such inputs may use."""

DECLARED_SHARE = 1 / 8
DECLARED_BYTES = 256 << 20, 1 << 30
"""The share of a case's memory that unusual inputs of the declared shape may use, with their
results, and its least and largest value; one such input comes in any case."""

DECLARED_LATE = 3
"""How many unusual inputs of the declared shape are drawn although the CPU time for unusual inputs
is used up, up to `LATE_TIMES` of it: the three that most kernels which know the shape fail on."""


@dataclass(frozen=True)
class VerificationInput:
    """One input: its name, its place in a draw, and the bounds of its results."""

    name: str
    draw: Draw
    item: int
    held: list[Bound]
    strided: bool = False
    """Whether its tensors have gaps or permuted strides, for the task's `noncontiguous`."""
    altered: bool = False
    """Whether it differs from an earlier input in one argument alone, or has one in common."""

    def compare(self, results: Sequence[torch.Tensor]) -> Comparison:
        """Compare a candidate's results with those of the reference."""
        expected, exact = self.draw.results(self.item), self.draw.exact_results(self.item)
        alternatives = self.draw.alternatives(self.item)
        return correctness.compare(results, expected, exact, self.held, alternatives)

    def accepts(self, results: Sequence[torch.Tensor]) -> bool:
        """Return whether `compare` finds no fault."""
        expected, exact = self.draw.results(self.item), self.draw.exact_results(self.item)
        alternatives = self.draw.alternatives(self.item)
        return correctness.accepts(results, expected, exact, self.held, alternatives)


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

        One to a call, or two where an altered input follows the ordinary one.
        """
        known = self.ordinary.draw.description
        found: list[tuple[VerificationInput, ...]] = []
        ordinary = set(map(id, self.ordinary.inputs))
        for group in self.unusual:
            has = group.draw.description
            if (has.inputs, has.outputs) == (known.inputs, known.outputs):
                # Most altered inputs follow the one that they were made from.
                pairs = zip([None, *group.inputs], group.inputs, strict=False)
                found += [
                    (before, each) if before is not None and id(before) in ordinary else (each,)
                    for before, each in pairs
                    if id(each) not in ordinary
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
    small, rest = _plan(reference, rng)
    for variation, wanted in small:
        unusual.add(variation, wanted)
    altered_at = rng.randint(0, len(rest))
    for variation, wanted in rest[:altered_at]:
        unusual.add(variation, wanted)
    unusual.alter(_alterations(reference, rng), rng)
    for variation, wanted in rest[altered_at:]:
        unusual.add(variation, wanted)
    rng.shuffle(inputs.unusual)
    return inputs


def _alterations(reference: Reference, rng: random.Random) -> list[InputChange]:
    """Return some alterations of one input alone, in random order, other values before REPEATED.

    A kernel that caches its result by one input, or ignores one that is the same in every draw, is
    right for all ordinary inputs. So is one that looks at a part of an input. Few elements of a
    tensor that holds one value come first: a look at a part of it would miss them.
    """
    slots = dict(enumerate(reference.description.inputs.slots))
    varying = {at: slot for at, slot in slots.items() if not isinstance(slot, ConstantSlot)}
    possible: dict[Alteration, list[InputChange]] = {each: [] for each in ALTERED_INPUTS}

    def add(change: InputChange) -> None:
        if change._replace(variant=0) not in reference.excluded_changes:
            possible[change.alteration].append(change)

    for at in varying.keys() - reference.free_inputs:
        slot = varying[at]
        tensor = slot if isinstance(slot, TensorSlot) and 0 not in slot.shape else None
        if tensor and len(varying) > 1:
            add(InputChange(at, Alteration.REPEATED))
        number = isinstance(slot, ScalarSlot)
        discrete = tensor and DTYPES[tensor.dtype] not in correctness.FLOORS
        if reference.rules.values != "drawn" and (number or discrete):
            add(InputChange(at, Alteration.CHANGED))
        if reference.rules.values != "drawn" and discrete:
            add(InputChange(at, Alteration.PART))
        if reference.rules.values != "drawn" and tensor:
            for time in range(FEW_TIMES if discrete else FEW_TIMES_OF_FLOATS):
                add(InputChange(at, Alteration.FEW, VARIANTS * (time % 2)))
    chosen = [
        change
        for alteration, most in ALTERED_INPUTS.items()
        for change in rng.sample(possible[alteration], min(len(possible[alteration]), most))
    ]
    rng.shuffle(chosen)
    first = next((each for each in chosen if each.alteration is not Alteration.REPEATED), None)
    if first is not None:
        chosen.remove(first)
        chosen.insert(0, first)
    same = [
        change
        for at in rng.sample(sorted(reference.unvaried_inputs), len(reference.unvaried_inputs))
        if (change := InputChange(at, Alteration.FEW)) in possible[Alteration.FEW]
    ]
    for change in same:
        if change in chosen:
            chosen.remove(change)
    return [*same, *chosen][: max(2, _fitting(reference))]


def _fitting(reference: Reference) -> int:
    """Return how many unusual inputs of the declared shape fit into the memory for them."""
    known = reference.description
    wide = layouts.result_layout(known.outputs, exact=True).size
    item = known.inputs.size + known.outputs.size + NudgedDraw.exact_count(known) * wide
    least, most = DECLARED_BYTES
    usable = min(max(int(DECLARED_SHARE * reference.memory_bytes), least), most)
    return max(1, usable // max(item, 1))


Planned = list[tuple[Variation | None, list[ValueKind]]]


def _plan(reference: Reference, rng: random.Random) -> tuple[Planned, Planned]:
    """Return groups of inputs, those to draw first and the others in random order.

    Shapes (None for the declared ones) and kinds of values.
    """
    dtypes = [DTYPES[slot.dtype] for slot in reference.description.inputs.tensors]
    possible = unusual_values.possible(reference.rules.values, dtypes)
    values = [kind for kind in possible if kind not in reference.excluded_kinds]
    rng.shuffle(values)
    hidden = hidden_shapes(reference.description.shapes, reference.free_dimensions, rng)
    small: Planned = []
    plan: Planned = []
    if reference.rules.noncontiguous:
        at = hidden[0] if hidden else reference.description.shapes
        plan.append((Variation(at, strided=True), [ValueKind.DRAWN]))
    if hidden:
        plan += [(Variation(other), [ValueKind.DRAWN]) for other in hidden[1:]]
        # The first hidden shape is small, so all kinds of values are tried on it, before a large
        # one can use up the time.
        small.append((Variation(hidden[0]), [ValueKind.DRAWN, *values]))
        if declared := _at_declared(reference, values, rng):
            plan.append((Variation(reference.description.shapes), declared))
    elif values:
        first = _at_declared(reference, values, rng)
        others = [kind for kind in values if kind not in first]
        plan.append((None, [*first, *others]))
    rng.shuffle(plan)
    return small, plan


def _at_declared(
    reference: Reference, values: Sequence[ValueKind], rng: random.Random
) -> list[ValueKind]:
    """Return the kinds of values that are tried in the declared shape.

    A kernel may recognise that shape, so it must be correct there too. All kinds would take too
    long. One input has rows of many kinds, and two have values ordered by their place. One has
    another kind throughout, one has infinities, one has NaN, and one has a single large value. The
    `DECLARED_LATE` ones come first.
    """
    special = [kind for kind in values if kind in SPECIAL]
    placed = [ValueKind.PLACED] * (PLACED_TIMES if ValueKind.PLACED in values else 0)
    needle = [kind for kind in values if kind is ValueKind.NEEDLE]
    known = {*special, *placed, *needle}
    others = [kind for kind in values if kind in unusual_values.FLOATING - known]
    second = [*placed[:1], *needle]
    rng.shuffle(second)
    wanted = [ValueKind.PATCHWORK, *second, *placed[1:], *others[:1], *special]
    if not others:
        wanted = list(values[:1])
    known_kinds = [kind for kind in wanted if kind not in reference.excluded_kinds]
    return known_kinds[: _fitting(reference)]


class _Unusual:
    """Draws groups of unusual inputs from a reference child until its time is used up."""

    def __init__(
        self, reference: Reference, loaded: Loaded, inputs: VerificationInputs, cpu_s: float
    ) -> None:
        self._reference = reference
        self._loaded = loaded
        self._inputs = inputs
        self._cpu_s = cpu_s * reference.threads
        self._deadline = CpuDeadline(loaded.worker.pid, self._cpu_s)
        self._late = CpuDeadline(loaded.worker.pid, LATE_TIMES * self._cpu_s)
        self._lost = False

    def alter(self, wanted: Sequence[InputChange], rng: random.Random) -> None:
        """Draw inputs of the declared shape that differ in one argument from an ordinary one."""
        if not wanted:
            return
        deadline = CpuDeadline(self._loaded.worker.pid, ALTERED_SHARE * self._cpu_s)
        drawn = NudgedDraw.allocate(self._loaded.description, len(wanted), exact=True)
        group = Group(drawn)
        self._inputs.unusual.append(group)
        owed = {InputChange(at, Alteration.FEW) for at in self._reference.unvaried_inputs}
        for item, change in enumerate(wanted):
            name = self._altered_name(change)
            late = item == 0 or change._replace(variant=0) in owed
            owed.discard(change._replace(variant=0))
            if why := self._ended(late=late) or (not late and deadline.exceeded()):
                self._inputs.skipped[name] = why + NEXT_TIME
                continue
            try:
                held = self._altered(drawn, item, change, rng)
            except ChildFailed as failed:
                self._reference.excluded_changes.add(change._replace(variant=0))
                self._lost = True
                held = f"the reference fails: {failed.message}"
            if isinstance(held, str):
                self._inputs.skipped[name] = held
            else:
                if change.alteration is not Alteration.FEW:
                    # So that a cache of the last call's result is found too.
                    group.inputs.append(self._before)
                group.inputs.append(VerificationInput(name, drawn, item, held, altered=True))

    @property
    def _before(self) -> VerificationInput:
        """The ordinary input that is altered."""
        return self._inputs.ordinary.inputs[-1]

    def _altered(
        self, drawn: NudgedDraw, item: int, change: InputChange, rng: random.Random
    ) -> list[Bound] | str:
        """Draw one input, in the first variant that the reference accepts; return its bounds.

        Of FEW the variant with the fewest elements that decide the result.
        """
        bits = Want.OUTPUT | (Want.EXACT if drawn.exact is not None else 0)
        changed = change.alteration is not Alteration.REPEATED
        few = change.alteration is Alteration.FEW
        variants = rng.sample(range(VARIANTS), VARIANTS if changed else 1)
        held: list[Bound] | str = "no other value was found"
        for variant in sorted(variants) if few else variants:
            # The descriptors each time: between them another group may have had its own.
            one = change._replace(variant=variant + change.variant)
            made = self._loaded.alter(item, one, bits, drawn.fds)
            if made != Want.UNALTERED:
                held = self._fair(drawn, item, ValueKind.DRAWN, made)
            if isinstance(held, str):
                continue
            was = self._before.draw.results(self._before.item)
            altered = VerificationInput("", drawn, item, held)
            if not few or altered.compare(was).message:
                break
        return held

    def _altered_name(self, change: InputChange) -> str:
        known = self._loaded.description
        name = task_lint.input_name(change.argument, known.parameters)
        if change.alteration is Alteration.REPEATED:
            return f"{name} repeated while the others change"
        slot = known.inputs.slots[change.argument]
        flips = isinstance(slot, TensorSlot) and slot.dtype == "bool"
        if change.alteration is Alteration.PART:
            if flips:
                return f"{name} alone flipped in one short run"
            return f"{name} alone with other values in one short run"
        if change.alteration is Alteration.FEW:
            if flips:
                return f"{name} alone flipped in few elements"
            return f"{name} alone with other values in few elements"
        if flips:
            return f"{name} alone flipped at random"
        return f"{name} alone with other values"

    def add(self, variation: Variation | None, wanted: Sequence[ValueKind]) -> None:
        """Draw one group of inputs; record those that were not drawn, with the reason."""
        reference, skipped = self._reference, self._inputs.skipped
        kind = wanted[0]
        # Of the declared shape the least are drawn although the time is used up.
        declared = variation is None or (
            variation.shapes == reference.description.shapes and not variation.strided
        )
        if self._skip(variation, wanted, late=declared):
            return
        try:
            known: Description | None = self._loaded.description
            if variation is not None:
                known = self._loaded.vary(variation)
            if known is None:
                skipped[self._name(kind, variation)] = "the reference refuses this shape"
                return
            drawn = NudgedDraw.allocate(known, len(wanted), exact=True)
            strided = variation is not None and variation.strided
            group = Group(drawn, strided=strided)
            self._inputs.unusual.append(group)
            fds = drawn.fds
            for item, kind in enumerate(wanted):
                late = declared and len(group.inputs) < DECLARED_LATE
                if self._skip(variation, wanted[item:], late=late):
                    return
                name = self._name(kind, variation)
                bits = Want.OUTPUT | (Want.EXACT if drawn.exact is not None else 0)
                bits |= kind << KIND_SHIFT
                activity = "drawing unusual inputs"
                made = self._loaded.draw(item, 1, bits, fds, activity)
                fds = ()
                held = self._fair(drawn, item, kind, made)
                if isinstance(held, str):
                    skipped[name] = held
                else:
                    group.inputs.append(VerificationInput(name, drawn, item, held, strided))
        except ChildFailed as failed:
            reference.excluded_kinds.add(kind)
            self._lost = True
            self._skip(variation, wanted)
            skipped[self._name(kind, variation)] = f"the reference fails: {failed.message}"

    def _skip(
        self, variation: Variation | None, wanted: Sequence[ValueKind], *, late: bool = False
    ) -> bool:
        """Record `wanted` as skipped, and return True, if the reference's time or process ended."""
        why = self._ended(late=late)
        if why:
            why += NEXT_TIME
            drawn = {given.name for group in self._inputs.unusual for given in group.inputs}
            names = {self._name(kind, variation) for kind in wanted} - drawn
            self._inputs.skipped = dict.fromkeys(names, why) | self._inputs.skipped
        return bool(why)

    def _ended(self, *, late: bool = False) -> str:
        if self._lost:
            return "the reference's process ended"
        return (self._late if late else self._deadline).exceeded()

    def _fair(self, drawn: NudgedDraw, item: int, kind: ValueKind, made: int) -> list[Bound] | str:
        """Return the bounds for a candidate, or why the input would be unfair."""
        if not made:
            return "the reference refuses these values"
        native = drawn.results(item)
        exact = drawn.exact_results(item) if made & Want.EXACT else None
        nudged = drawn.nudged_results(item) if made & Want.EXACT else None
        inexact = [result for result in native if result.dtype in correctness.FLOORS]
        usual = kind not in SPECIAL and self._reference.is_finite
        if usual and not correctness.all_finite(inexact):
            return "the reference has no finite result"
        known = drawn.description
        held = correctness.conditioned(
            native,
            exact,
            nudged,
            self._reference.rules.tolerance,
            known.terms,
            roundings=known.roundings,
            ties=drawn.near_ties(item) if made & Want.EXACT else (),
            decided=drawn.alternatives(item).inexact if made & Want.EXACT else (),
            masks=[bound.mask for bound in self._reference.sample_held],
            random=kind in (ValueKind.DRAWN, ValueKind.PLACED),
        )
        return held if held is not None else "the result depends on how it is rounded"

    def _name(self, kind: ValueKind, variation: Variation | None) -> str:
        if variation is None:
            return kind.label
        words = [] if kind is ValueKind.DRAWN else [kind.label]
        if variation.strided:
            words.append("not contiguous")
        if variation.shapes != self._reference.description.shapes:
            words.append("shape " + ", ".join(str(list(shape)) for shape in variation.shapes))
        return ", ".join(words)
