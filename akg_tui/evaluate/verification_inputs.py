"""The inputs for verification of a candidate: ordinary values, unusual values, hidden shapes.

Owns their random choice, made anew for every evaluation, and whether an input is fair to a
candidate. Draws them from a child of the reference.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from akg_tui.evaluate import correctness
from akg_tui.evaluate.child import tensor_layout as layouts
from akg_tui.evaluate.child import unusual_values
from akg_tui.evaluate.child.protocol import KIND_SHIFT, Description, Variation, Want
from akg_tui.evaluate.child.tensor_layout import DTYPES
from akg_tui.evaluate.child.unusual_values import SPECIAL, ValueKind
from akg_tui.evaluate.correctness import Bound, Comparison
from akg_tui.evaluate.hidden_shapes import hidden_shapes
from akg_tui.evaluate.processes.process_watch import CpuDeadline
from akg_tui.evaluate.processes.worker import ChildFailed
from akg_tui.evaluate.reference import Draw, Loaded, Reference

UNUSUAL_CPU_S = 0.5
"""While an evaluation waits, unusual inputs are drawn until each thread of the reference has used
this many seconds of CPU time. Their order is random, so that several evaluations with a slow
reference try all of them."""

UNUSUAL_IDLE_CPU_S = 5.0
"""The CPU time for unusual inputs while the judge is idle, in seconds per thread."""

ANOTHER_KIND = 0.25
"""The share of evaluations in which the declared shape is tried with a second kind of values."""

DECLARED_BYTES = 256 << 20
"""The memory that unusual inputs of the declared shape may use, with their results."""


@dataclass(frozen=True)
class VerificationInput:
    """One input: its name, its place in a draw, and the bounds of its results."""

    name: str
    draw: Draw
    item: int
    held: list[Bound]

    def compare(self, results: Sequence[torch.Tensor]) -> Comparison:
        """Compare a candidate's results with those of the reference."""
        expected, exact = self.draw.results(self.item), self.draw.exact_results(self.item)
        return correctness.compare(results, expected, exact, self.held)


@dataclass
class Group:
    """Inputs of equal shapes, from one draw."""

    draw: Draw
    inputs: list[VerificationInput] = field(default_factory=list)


@dataclass
class VerificationInputs:
    """All inputs of one verification. `skipped`: by name of an input, why it is not tried."""

    ordinary: Group
    unusual: list[Group] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of inputs."""
        return len(self.ordinary.inputs) + sum(len(group.inputs) for group in self.unusual)

    def unusual_of(self, reference: Reference) -> list[VerificationInput]:
        """Return the inputs of unusual values that lie in memory as ordinary ones do."""
        known = reference.description
        groups = [
            group
            for group in self.unusual
            if (known.inputs, known.outputs)
            == (group.draw.description.inputs, group.draw.description.outputs)
        ]
        return [given for group in groups for given in group.inputs]

    def close(self) -> None:
        """Close all draws."""
        for group in (self.ordinary, *self.unusual):
            group.draw.close()


class TwiceExact(Draw):
    """A draw with two exact results for each item: of its inputs, and of nudged inputs."""

    def exact_results(self, item: int) -> list[torch.Tensor] | None:
        """Return the results in double precision."""
        return super().exact_results(2 * item)

    def nudged_results(self, item: int) -> list[torch.Tensor] | None:
        """Return the results in double precision for inputs that differ by a rounding."""
        return super().exact_results(2 * item + 1)


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
    terms = ordinary.description.terms
    held = [
        correctness.bounds(
            ordinary.results(item), ordinary.exact_results(item), rules.tolerance, terms
        )
        for item in range(ordinary.count)
    ]
    known = [VerificationInput(ValueKind.DRAWN.label, ordinary, *each) for each in enumerate(held)]
    inputs = VerificationInputs(Group(ordinary, known))
    unusual = _Unusual(reference, loaded, inputs, cpu_s)
    for variation, wanted in _plan(reference, rng):
        unusual.add(variation, wanted)
    return inputs


def _plan(
    reference: Reference, rng: random.Random
) -> list[tuple[Variation | None, list[ValueKind]]]:
    """Return groups of inputs: shapes (None for the declared ones) and kinds of values."""
    dtypes = [DTYPES[slot.dtype] for slot in reference.description.inputs.tensors]
    possible = unusual_values.possible(reference.rules.values, dtypes)
    values = [kind for kind in possible if kind not in reference.excluded_kinds]
    rng.shuffle(values)
    hidden = hidden_shapes(reference.description.shapes, reference.free_dimensions, rng)
    plan: list[tuple[Variation | None, list[ValueKind]]] = []
    if reference.rules.noncontiguous:
        at = hidden[0] if hidden else reference.description.shapes
        plan.append((Variation(at, strided=True), [ValueKind.DRAWN]))
    if hidden:
        plan += [(Variation(other), [ValueKind.DRAWN]) for other in hidden[1:]]
        # The first hidden shape is small, so all kinds of values are tried on it.
        plan.append((Variation(hidden[0]), [ValueKind.DRAWN, *values]))
        if declared := _at_declared(reference, values, rng):
            plan.append((Variation(reference.description.shapes), declared))
    elif values:
        plan.append((None, values))
    return plan


def _at_declared(
    reference: Reference, values: Sequence[ValueKind], rng: random.Random
) -> list[ValueKind]:
    """Return the kinds of values that are tried in the declared shape.

    A kernel may recognise that shape, so it must be correct there too. Trying all kinds takes
    too long: one input has rows of many kinds, and sometimes a second input has a single kind.
    """
    floating = [kind for kind in values if kind in unusual_values.FLOATING]
    wanted = [ValueKind.PATCHWORK] if floating else list(values[:1])
    if floating and rng.random() < ANOTHER_KIND:
        wanted.append(floating[0])
    known = reference.description
    wide = layouts.result_layout(known.outputs, exact=True).size
    item = known.inputs.size + known.outputs.size + 2 * wide
    return [kind for kind in wanted if kind not in reference.excluded_kinds][
        : max(1, DECLARED_BYTES // max(item, 1))
    ]


class _Unusual:
    """Draws groups of unusual inputs from a reference child until its time is used up."""

    def __init__(
        self, reference: Reference, loaded: Loaded, inputs: VerificationInputs, cpu_s: float
    ) -> None:
        self._reference = reference
        self._loaded = loaded
        self._inputs = inputs
        self._deadline = CpuDeadline(loaded.worker.pid, cpu_s * reference.threads)
        self._lost = False

    def add(self, variation: Variation | None, wanted: Sequence[ValueKind]) -> None:
        """Draw one group of inputs; record those that were not drawn, with the reason."""
        reference, skipped = self._reference, self._inputs.skipped
        kind = wanted[0]
        if self._skip(variation, wanted):
            return
        try:
            known: Description | None = self._loaded.description
            if variation is not None:
                known = self._loaded.vary(variation)
            if known is None:
                skipped[self._name(kind, variation)] = "the reference refuses this shape"
                return
            drawn = TwiceExact.allocate(known, len(wanted), exact=2)
            group = Group(drawn)
            self._inputs.unusual.append(group)
            fds = drawn.fds
            for item, kind in enumerate(wanted):
                if self._skip(variation, wanted[item:]):
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
                    group.inputs.append(VerificationInput(name, drawn, item, held))
        except ChildFailed as failed:
            reference.excluded_kinds.add(kind)
            self._lost = True
            self._skip(variation, wanted)
            skipped[self._name(kind, variation)] = f"the reference fails: {failed.message}"

    def _skip(self, variation: Variation | None, wanted: Sequence[ValueKind]) -> bool:
        """Record `wanted` as skipped, and return True, if the reference's time or process ended."""
        why = "the reference's process ended" if self._lost else self._deadline.exceeded()
        if why:
            why += "; the next evaluation may come to it"
            drawn = {given.name for group in self._inputs.unusual for given in group.inputs}
            names = {self._name(kind, variation) for kind in wanted} - drawn
            self._inputs.skipped = dict.fromkeys(names, why) | self._inputs.skipped
        return bool(why)

    def _fair(self, drawn: TwiceExact, item: int, kind: ValueKind, made: int) -> list[Bound] | str:
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
        tolerance, terms = self._reference.rules.tolerance, drawn.description.terms
        held = correctness.conditioned(native, exact, nudged, tolerance, terms)
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
