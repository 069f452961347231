"""The judge's side of the reference: the layout of its data, and inputs drawn from it.

A reference child never runs beside a candidate's, except as the baseline that is timed. The judge
chooses the seeds and never stores them; drawn data stays in the judge's memory.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, Self

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.measurement import FailureKind, Metric
from akg_tui.core.sanitize import listed, strip_to_line
from akg_tui.evaluate import correctness, hidden_shapes, task_lint
from akg_tui.evaluate.child.input_structure import words_of
from akg_tui.evaluate.child.unusual_values import Alteration, InputChange, ValueKind, possible
from akg_tui.evaluate.correctness import Bound, Comparison
from akg_tui.evaluate.hidden_shapes import Dimension
from akg_tui.evaluate.processes.child_pool import ChildPool, EvaluationError, Reporter, blamed_on
from akg_tui.evaluate.processes.draws import secret_bits, secret_random
from akg_tui.evaluate.processes.problem_check import ProblemCheck
from akg_tui.evaluate.processes.shared_memory import SharedMemory, shared_memory_of
from akg_tui.evaluate.processes.worker import ChildFailed, Worker
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.protocol.child_protocol import (
    FEW,
    KIND_SHIFT,
    VARIANT_SHIFT,
    ConstantSlot,
    Contract,
    Description,
    Layout,
    Op,
    Plan,
    Variation,
    Want,
)
from akg_tui.evaluate.reference_fault import Fault
from akg_tui.evaluate.sandbox.process_watch import CpuDeadline
from akg_tui.evaluate.targets.adapters import adapters
from akg_tui.evaluate.targets.cpu import reference_threads
from akg_tui.evaluate.task_lint import Effect
from akg_tui.store.reference_constants import with_constants, with_gradients

RESULTS_SHARE = 0.5
ALTERED_CPU_S = 1.0
"""The CPU time, in seconds for each thread, to find inputs that decide nothing."""

POOLED_CPU_S = 0.5
"""The CPU time to find how large results of few elements are, in seconds for each thread of a call.

Not for each thread that draws: drawing more than a few long inputs says little more.
"""

CHANGES = 12
"""Draws with other values of an input that must all leave the result as it is: a flag may concern
indices that come twice, the larger of two numbers often stays that, and the mean of many squares,
in 16 bits, is near that of others by chance."""

STEPS = (1, 2, 2, 1, 2, 2)
"""The draws between the first of these: they meet each phase of inputs that alternate in twos and
threes, whether or not an alteration draws too."""

PARTS = 8
"""The largest number of axes of one extent that are probed one by one."""

DRAW_S = 1.0
"""The time limit of drawing inputs, in seconds; fewer inputs give fewer samples per cluster."""

LINTED_AGAIN = 6
"""The further draws of a task that seems to have a fault."""

COPIES_DRAWN = 3
"""The draws of each kind of values that decide whether a reference copies an input."""

BATCH_S = 0.05
"""Items are drawn in batches of about this many seconds, so that a time limit can be kept."""


@dataclass(frozen=True)
class Draw:
    """Items drawn from the reference. The first `checkable` have results beside them."""

    description: Description
    count: int
    checkable: int
    inputs: SharedMemory
    outputs: SharedMemory
    exact: SharedMemory | None
    cut_short: bool = False
    """Fewer items were drawn than requested, because drawing took too long."""
    check: ProblemCheck | None = None
    """The task's own check, which judges results in place of a comparison."""

    @classmethod
    def allocate(
        cls,
        description: Description,
        count: int,
        *,
        exact: bool,
        check: ProblemCheck | None = None,
    ) -> Self:
        """Return a draw with memory for `count` items, and for their exact results if wanted."""
        wide = layouts.result_layout(description.outputs, exact=True).size
        each = cls.exact_count(description)
        useful = description.has_floats or description.ties > 0
        return cls(
            description,
            count,
            count,
            SharedMemory(count * description.inputs.size),
            SharedMemory(count * description.outputs.size),
            SharedMemory(each * count * wide) if exact and useful else None,
            check=check,
        )

    @classmethod
    def exact_count(cls, description: Description) -> int:
        """Return the number of exact results of an item, with those that show near ties."""
        return 1 + description.decisions + description.ties

    def input_bytes(self, item: int) -> NDArray[np.uint8]:
        """Return the bytes of an item's arguments."""
        size = self.description.inputs.size
        return self.inputs.bytes[item * size : (item + 1) * size]

    def results(self, item: int) -> list[torch.Tensor]:
        """Return the reference's results for an item."""
        layout = self.description.outputs
        return layouts.views(layout, self.outputs.map, item * layout.size)

    def exact_results(self, item: int) -> list[torch.Tensor] | None:
        """Return the results in double precision, or None if the reference can't compute them."""
        return self._exact(item, [0])[0] if self.exact is not None else None

    def alternatives(self, item: int) -> list[list[torch.Tensor]]:
        """Return results whose integers a candidate may return instead, because rounding decides.

        Those in double precision, and in a kernel's precision for inputs that differ by a few
        roundings.
        """
        known = self.description
        return self._exact(item, range(self.exact_count(known))) if known.ties else []

    def decided(self, item: int) -> list[list[torch.Tensor]]:
        """Return results for nudged inputs that show which inexact numbers rounding decides."""
        known, count = self.description, self.exact_count(self.description)
        return self._exact(item, range(count - known.ties - known.decisions, count - known.ties))

    def _exact(self, item: int, numbers: Sequence[int]) -> list[list[torch.Tensor]]:
        if self.exact is None:
            return []
        layout = layouts.result_layout(self.description.outputs, exact=True)
        first = item * self.exact_count(self.description)
        return [
            layouts.views(layout, self.exact.map, (first + number) * layout.size)
            for number in numbers
        ]

    def bounds(
        self, item: int, tolerance: float | None, pooled: Sequence[Bound | None]
    ) -> list[Bound]:
        """Return the bounds of a candidate's results; `tolerance` is the task's own."""
        if self.check is not None:
            return [Bound(0.0)] * len(self.description.outputs.tensors)
        known, results, exact = self.description, self.results(item), self.exact_results(item)
        decided = self.decided(item)
        return correctness.bounds(
            results, exact, tolerance, known.terms, pooled=pooled, decided=decided
        )

    def compare(
        self, item: int, results: Sequence[torch.Tensor], held: Sequence[Bound]
    ) -> Comparison:
        """Compare a candidate's results for an item with the reference's.

        The task's own check, if it has one, decides in place of that: it must accept the
        reference's results where it refuses others, or `EvaluationError` is raised.
        """
        if self.check is not None:
            found = self.checked(item, results)
            if found.message and (own := self.checked(item, self.results(item)).message):
                what = f"the reference's own result is not accepted: {own}"
                fault = Fault(reason=what, file=self.check.file)
                raise EvaluationError(FailureKind.REFERENCE, fault.located(), fault=fault)
            return found
        exact, alternatives = self.exact_results(item), self.alternatives(item)
        names = self.description.outputs.names
        return correctness.compare(
            results, self.results(item), exact, held, alternatives, names=names
        )

    def checked(self, item: int, results: Sequence[torch.Tensor]) -> Comparison:
        """Return what the task's own check says of results for an item."""
        if self.check is None:
            raise ValueError("the task has no check of its own")
        known = self.description
        return self.check.compare(known, self.inputs, self.outputs, item, results)

    def accepts(self, item: int, results: Sequence[torch.Tensor], held: Sequence[Bound]) -> bool:
        """Return whether `compare` finds no fault; sooner, because it need not tell which."""
        if self.check is not None:
            return not self.compare(item, results, held).message
        exact, alternatives = self.exact_results(item), self.alternatives(item)
        return correctness.accepts(results, self.results(item), exact, held, alternatives)

    @property
    def fds(self) -> tuple[int, ...]:
        """The descriptors that a DRAW request passes."""
        return tuple(block.fd for block in (self.inputs, self.outputs, self.exact) if block)

    def close(self) -> None:
        """Close the descriptors; see `SharedMemory.close`."""
        for block in (self.inputs, self.outputs, self.exact):
            if block is not None:
                block.close()


class NudgedDraw(Draw):
    """A draw with several exact results for each item: of its inputs, and of nudged inputs."""

    @classmethod
    def exact_count(cls, description: Description) -> int:
        """Return the number of exact results of an item."""
        return super().exact_count(description) + description.nudges

    def nudged_results(self, item: int) -> list[list[torch.Tensor]] | None:
        """Return the results in double precision for inputs that differ by a rounding."""
        return self._exact(item, range(1, 1 + self.description.nudges)) or None

    def near_ties(self, item: int) -> list[list[torch.Tensor]]:
        """Return results whose integers show which of them rounding decides."""
        known, count = self.description, self.exact_count(self.description)
        return self._exact(item, range(count - known.ties, count))


@dataclass(frozen=True)
class Loaded:
    """A loaded reference child with its description."""

    worker: Worker
    description: Description
    _reporter: Reporter
    _item_s: float
    """The seconds that drawing one item may take."""

    def draw(self, item: int, count: int, wanted: int, fds: tuple[int, ...] = ()) -> int:
        """Draw items from a fresh secret seed; return the `Want` bits of the results written."""
        seed = secret_bits(63)
        self.worker.send(Op.DRAW, count=count, seed=seed, item=item, wanted=wanted, fds=fds)
        # No candidate runs now, so the child need not be stopped.
        return self.worker.answer(count * self._item_s, "drawing inputs", stop=False)

    def draw_kind(
        self,
        item: int,
        kind: ValueKind,
        argument: int | None,
        wanted: int,
        fds: tuple[int, ...] = (),
    ) -> int:
        """Draw an item with values of a kind; only those of the input `argument`, if there is one.

        Return as `alter` does.
        """
        place = 0 if argument is None else argument + 1
        return self.draw(item, 1, wanted | kind << KIND_SHIFT | place << VARIANT_SHIFT, fds)

    def alter(self, item: int, change: InputChange, wanted: int, fds: tuple[int, ...] = ()) -> int:
        """Write the last item of the declared shapes with one input altered into `item`.

        Return the `Want` bits of the results written, 0 if the reference refuses the inputs, or
        `Want.UNALTERED` if no input can change so.
        """
        bits = wanted | change.alteration << KIND_SHIFT | change.axis << VARIANT_SHIFT
        seed = secret_bits(63)
        self.worker.send(
            Op.ALTER, count=change.argument, seed=seed, item=item, wanted=bits, fds=fds
        )
        return self.worker.answer(self._item_s, "altering one input", stop=False)

    def vary(self, variation: Variation) -> Description | None:
        """Set other shapes for all later draws; return their description, or None if refused."""
        self.worker.send_content(Op.VARY, variation, seed=secret_bits(63))
        size = self.worker.answer(self._item_s, "drawing other shapes", stop=False)
        if not size:
            return None
        try:
            described = msgspec.json.decode(self._reporter.text(size), type=Description)
            for layout in (described.inputs, described.outputs):
                layout.check()
        except (msgspec.MsgspecError, ValueError) as error:
            raise ChildFailed(
                FailureKind.REFERENCE, f"it describes other shapes wrongly: {error}"
            ) from error
        return described


def metrics_in(
    names: Sequence[str], found: Sequence[Mapping[str, float | None]]
) -> tuple[Metric, ...]:
    """Return the metrics `names`, each over all the items whose numbers are `found`."""
    told: list[Metric] = []
    for name in names:
        values = [each[name] for each in found]
        finite = [value for value in values if value is not None]
        if len(finite) < len(values):
            told.append(Metric(name, note="not a finite number"))
        else:
            told.append(Metric(name, min(finite), max(finite)))
    return tuple(told)


class Reference:
    """Starts reference children, and keeps the description from the first child.

    `constants` replace numbers that the file binds at its top level, by name.

    The attributes that are only declared here are set by `examine`.
    """

    description: Description
    """The memory layout of inputs, results, weights and constructor arguments."""
    state: SharedMemory
    """The constructor's arguments, then the weights."""
    sample: Draw
    """One item that is never timed nor compared: for building and warm-up."""
    sample_held: list[Bound]
    """The bounds of a candidate's results for the sample."""
    pooled: Sequence[Bound | None]
    """The bounds of ordinary results with few elements, from several draws; None for others."""
    is_finite: bool
    """Whether ordinary inputs give finite results."""
    free_dimensions: Sequence[Dimension]
    """The dimensions that can differ; none if the task fixes its shape."""
    free_inputs: Set[int]
    """The positions of the inputs that need not influence the result."""
    structures: tuple[tuple[str, ...], ...]
    """The structure of each input, which every changed input keeps."""

    def __init__(
        self,
        pool: ChildPool,
        source: str,
        filename: str,
        constants: Mapping[str, int | float] | None = None,
    ) -> None:
        self._pool = pool
        self._target, _ = adapters(pool.task)
        changed = with_constants(source, constants or {})
        changed = with_gradients(changed, pool.task.reference.gradients)
        self.files = KernelFiles({filename: changed})
        self._filename = filename
        self._seed = secret_bits(63)
        self._refused: EvaluationError | None = None
        self.examined = False
        """Whether `examine` found nothing wrong."""
        self.rules = pool.task.correctness
        self.threads = reference_threads(self._target.device, pool.task.timing.threads)
        """The threads of a process that draws inputs."""
        self.memory_bytes = pool.memory_bytes // max(1, len(pool.task.cases))
        """A case's share of the memory that a process may use."""
        self.excluded: set[ValueKind | InputChange] = set()
        """Kinds of values, and changes of an input, on which the reference's process ended."""
        named = self.rules.check
        self.check = ProblemCheck(pool, self.files.text, self._item_s) if named else None
        """The task's own check of results."""
        judged = f"results are judged by {named} of the task, not element by element"
        self.note = judged if named else ""
        """A sentence on what judges results where that is not the judge's own bound, or ""."""

    def close(self) -> None:
        """End the process of the task's check."""
        if self.check is not None:
            self.check.close()

    @property
    def named_structures(self) -> dict[str, tuple[str, ...]]:
        """The structures of the inputs that have one, by name, or by position as text."""
        names = self.description.parameters
        return {
            task_lint.name_of(at, names) or str(at): words
            for at, words in enumerate(self.structures)
            if words
        }

    @property
    def contract(self) -> tuple[str, ...]:
        """Sentences on how the model is called, where that is not with tensors one by one."""
        known, found = self.description, list[str]()
        contract, given = known.contract, known.parameters
        results = known.outputs.names
        returned = results[: len(results) - len(contract.changed)]
        if contract.inputs is not None:
            found.append(f"the arguments are nested or passed by name: {listed(given)}")
        if len(returned) > 1 and any(" " not in name for name in returned):
            found.append(f"the results are nested: {listed(returned)}")
        if contract.changed:
            changed = [task_lint.name_of(at, given) or f"input {at}" for at in contract.changed]
            found.append(
                f"forward() changes its arguments {listed(changed)}: what they are after the call "
                "is compared as a result"
            )
        if contract.after is not None:
            found.append(
                "forward() adds values to containers of its arguments, or takes some out: what "
                "they hold after the call is compared too"
            )
        if contract.gradients:
            found.append("forward() calls autograd, so it is called with gradients")
        if known.stateful:
            found.append(
                f"forward() changes the module's own {listed(known.stateful)}: that is not "
                "compared, and results must not depend on earlier calls"
            )
        return tuple(strip_to_line(each) for each in found)

    def plan(self, inputs: Layout | None = None, outputs: Layout | None = None) -> Plan:
        """Return the plan of a reference child; with layouts it can be called like a kernel."""
        return Plan(
            kind="reference",
            files=self.files,
            seed=self._seed,
            inputs=inputs,
            outputs=outputs,
            device=self._target.device if inputs is not None else "",
            sealing=self._target.sealing,
            results_on=self._target.device if inputs is None else "",
            threads=self.threads if inputs is None else 0,
            contract=self.description.contract if self.examined else Contract(),
            queues=self._target.queues,
        )

    def kernel_plan(self, kernel: KernelFiles) -> Plan:
        """Return the plan of a kernel with the reference's arguments and weights."""
        known = self.description
        return Plan(
            kind="kernel",
            files=kernel,
            seed=self._seed,
            arguments=known.arguments,
            constructor=known.constructor,
            weights=known.weights,
            inputs=known.inputs,
            outputs=known.outputs,
            contract=known.contract,
            strides=known.strides if self.rules.strides != "any" else (),
            trained=known.trained,
            device=self._target.device,
            sealing=self._target.sealing,
            queues=self._target.queues,
        )

    def idle_plan(self) -> Plan:
        """Return the plan of a child without a kernel, which shows the fixed cost of a call."""
        name = self._pool.task.files.kernel
        return msgspec.structs.replace(self.kernel_plan(KernelFiles({name: ""})), kind="idle")

    def examine(self, altered_cpu_s: float = ALTERED_CPU_S) -> None:
        """Load the reference once and check that the task tells right results from wrong ones.

        `altered_cpu_s` is the CPU time to find inputs that decide nothing.

        Raises
        ------
        EvaluationError
            The reference does not load, lacks a part, raises, gives two results for one input, or
            would accept a kernel that computes nothing or ignores an input (`task_lint`).
        """
        if self._refused is not None:
            raise self._refused
        if self.examined:
            return
        with self.loaded(builds=True) as loaded:
            worker, description = loaded.worker, loaded.description
            for layout in (description.arguments, description.weights, description.inputs):
                layout.check()
            state = SharedMemory(description.arguments.size + description.weights.size)
            worker.send(Op.STATE, fds=(state.fd,))
            worker.answer(self._item_s, "writing its weights")
            # Every kernel's process maps this memory, so no process may change it.
            state.finish()
            # The sample, its second result, and two more items for the task's lint.
            sample = Draw.allocate(description, 4, exact=True, check=self.check)
            wanted = Want.EXACT if sample.exact is not None else 0
            twice = Want.OUTPUT | Want.TWICE | wanted
            made = loaded.draw(0, 1, twice, sample.fds)
            pooled = self._pooled_bounds(loaded, sample, exact=bool(made & Want.EXACT))
            made &= loaded.draw(2, 2, Want.OUTPUT | wanted, sample.fds)
            if not made & Want.EXACT:
                sample = dataclasses.replace(sample, exact=None)
            last = self._lint(loaded, sample, pooled)
            structures = self._structures(sample)
            loaded.vary(Variation((), structures=structures))
            held = sample.bounds(0, self.rules.tolerance, pooled)
            if self.check is None:
                self.note = _wider(self.rules.tolerance, sample.bounds(0, None, ()))
            inexact = [r for r in sample.results(0) if r.dtype in correctness.FLOORS]
            free_inputs = self._free_inputs(description)
            self._refuse_undecided(loaded, last, free_inputs, altered_cpu_s)
            free_dimensions = []
            if not self.rules.fixed_shape:
                free_dimensions = self._free_dimensions(loaded, structures)
        self.sample_held, self.pooled, self.free_dimensions = held, pooled, free_dimensions
        self.free_inputs = free_inputs
        self.structures = structures
        self.is_finite = correctness.all_finite(inexact)
        self.description, self.state, self.sample = description, state, sample
        # Last, so that an interrupt anywhere above repeats the whole examination.
        self.examined = True

    def _pooled_bounds(self, loaded: Loaded, sample: Draw, *, exact: bool) -> list[Bound | None]:
        """Return the bounds of results with few elements, from draws of FEW elements together.

        The sample's first item is one of them. Those that take longer than `POOLED_CPU_S` are
        omitted.
        """
        known, rules = sample.description, self.rules
        draws = [(sample.results(0), sample.exact_results(0) if exact else None)]
        counts = [result.numel() for result in draws[0][0] if correctness.has_few(result)]
        needed = math.ceil(FEW / min(counts)) if counts else 0
        deadline = CpuDeadline(loaded.worker.pid, POOLED_CPU_S * self._pool.task.timing.threads)
        bits = Want.OUTPUT | (Want.EXACT if exact else 0)
        with closing(Draw.allocate(known, 1, exact=exact)) as one:
            fds = one.fds
            while len(draws) < needed and not deadline.exceeded():
                made, fds = loaded.draw(0, 1, bits, fds), ()
                wide = one.exact_results(0) if made & Want.EXACT else None
                copied = [each.clone() for each in wide] if wide is not None else None
                draws.append(([each.clone() for each in one.results(0)], copied))
        return correctness.pooled_bounds(draws, rules.tolerance, known.terms)

    def _lint(self, loaded: Loaded, sample: Draw, pooled: Sequence[Bound | None]) -> task_lint.Item:
        """Refuse a task that tells nothing apart; return the item that the child drew last."""
        drawn = [_item(sample, at, pooled) for at in (0, 2, 3)]
        again, copied = sample.results(1), set[int]()
        while fault := task_lint.fault(drawn, again, self.rules.tolerance, copied):
            if fault.copied is None or not self._copies(loaded, sample, fault.copied):
                break
            copied.add(fault.copied)
        if fault is None:
            return drawn[-1]
        # Results of one number each, such as losses, can be near each other by chance.
        exact = sample.exact is not None
        known, check = sample.description, self.check
        with closing(Draw.allocate(known, LINTED_AGAIN, exact=exact, check=check)) as more:
            loaded.draw(0, LINTED_AGAIN, Want.OUTPUT | (Want.EXACT if exact else 0), more.fds)
            drawn += [_item(more, at, pooled) for at in range(LINTED_AGAIN)]
            if fault := task_lint.fault(drawn, again, self.rules.tolerance, copied):
                self._refuse(fault)
            # A check reads an item's memory, so the last one is drawn again in the sample's.
            loaded.draw(3, 1, Want.OUTPUT | (Want.EXACT if exact else 0), sample.fds)
        return _item(sample, 3, pooled)

    def _copies(self, loaded: Loaded, sample: Draw, position: int) -> bool:
        """Return whether the result is the input at a position for values of either sign and size.

        Then a right kernel copies. One that returns the input gains nothing: its results lie in one
        place, so each of them is copied, and the copying counts as the kernel's time.
        """
        kinds = (ValueKind.NEGATIVE, ValueKind.LARGE, ValueKind.MIXED, ValueKind.SMALL)
        dtypes = [layouts.DTYPES[slot.dtype] for slot in sample.description.inputs.tensors]
        allowed = possible(self.rules.values, dtypes)
        negative = False
        with closing(Draw.allocate(sample.description, 1, exact=False)) as unusual:
            # Several draws of each: the values of the smaller inputs are changed by chance.
            for kind in kinds * COPIES_DRAWN:
                if kind not in allowed:
                    return False
                if loaded.draw_kind(0, kind, None, Want.OUTPUT, unusual.fds) != Want.OUTPUT:
                    return False
                item = _item(unusual, 0, ())
                value = item.inputs[position]
                negative |= isinstance(value, torch.Tensor) and bool((value < 0).any())
                if not task_lint.is_copy(item, position):
                    return False
        return negative

    def _refuse(self, fault: Fault) -> NoReturn:
        self._refused = self._error(fault)
        raise self._refused

    def _error(self, fault: Fault) -> EvaluationError:
        message = fault.located(self._filename)
        return EvaluationError(FailureKind.REFERENCE, message, fault.detail, fault)

    def _free_inputs(self, description: Description) -> Set[int]:
        count, free = len(description.inputs.slots), self.rules.free_inputs
        found = task_lint.positions(free, "free_inputs", description.parameters, count)
        if isinstance(found, Fault):
            self._refuse(found)
        return found

    def _structures(self, sample: Draw) -> tuple[tuple[str, ...], ...]:
        """Return the words for each input: those of the task, or those that three draws show."""
        known = sample.description
        stated: dict[int, tuple[str, ...]] = {}
        for name, words in self.rules.inputs.items():
            key = int(name) if name.isdecimal() else name
            at = task_lint.positions([key], "inputs", known.parameters, len(known.inputs.slots))
            if isinstance(at, Fault):
                self._refuse(at)
            stated |= dict.fromkeys(at, (words,) if isinstance(words, str) else words)
        # The second item was not drawn: it has the first one's result again.
        draws = zip(*(_inputs(sample, at) for at in (0, 2, 3)), strict=True)
        return tuple(stated.get(at) or words_of(each) for at, each in enumerate(draws))

    def _refuse_undecided(
        self, loaded: Loaded, item: task_lint.Item, free: Set[int], cpu_s: float
    ) -> None:
        """Refuse the task if an input can have other values without an effect on the result.

        `item` is the last that the child drew. Inputs come in random order, until each thread of
        the reference has worked for `cpu_s`; what was not tried is not refused.
        """
        description = loaded.description
        slots = enumerate(description.inputs.slots)
        wanted = [at for at, slot in slots if at not in free and not isinstance(slot, ConstantSlot)]
        rng = secret_random()
        rng.shuffle(wanted)
        deadline = CpuDeadline(loaded.worker.pid, cpu_s * self.threads)
        bits = Want.OUTPUT | (Want.EXACT if item.exact is not None else 0)
        with (
            closing(NudgedDraw.allocate(description, 1, exact=True)) as drawn,
            closing(
                Draw.allocate(description, 1, exact=item.exact is not None, check=self.check)
            ) as more,
            # A reference whose process dies of altered inputs depends on them.
            suppress(ChildFailed),
        ):
            for at in wanted:
                change, found = InputChange(at, Alteration.CHANGED), None
                for attempt in range(CHANGES):
                    if deadline.exceeded():
                        return
                    made = loaded.alter(0, change, Want.OUTPUT, drawn.fds)
                    if made != Want.UNALTERED:
                        effect = Effect.DECIDES
                        if made:
                            effect = task_lint.effect(item, drawn.results(0), self.rules.tolerance)
                        found = effect if found is None else max(found, effect)
                        if found is Effect.DECIDES:
                            break
                    # Draws may alternate, in steps of two or three.
                    for _ in range(STEPS[attempt] if attempt < len(STEPS) else rng.randint(1, 2)):
                        loaded.draw(0, 1, bits, more.fds)
                    item = _item(more, 0, item.pooled)
                if found is None or found is Effect.DECIDES:
                    continue
                made = loaded.alter(0, change, bits, drawn.fds)
                exact = drawn.exact_results(0) if made & Want.EXACT else None
                if found is Effect.LITTLE and exact and task_lint.only_rounds(item, exact):
                    found = Effect.ROUNDING
                self._refuse(task_lint.undecided(at, found, description.parameters))

    def _free_dimensions(
        self, loaded: Loaded, structures: tuple[tuple[str, ...], ...]
    ) -> list[Dimension]:
        """Return the dimensions for which the reference accepts other extents."""
        declared = loaded.description.shapes

        def accepts(dimension: Dimension) -> bool:
            extents = [(dimension, hidden_shapes.probe(dimension))]
            other = hidden_shapes.with_extents(declared, extents)
            return loaded.vary(Variation(other, structures=structures)) is not None

        free_dimensions: list[Dimension] = []
        # A reference whose process dies of another shape accepts only the dimensions found so far.
        with suppress(ChildFailed):
            for dimension in hidden_shapes.dimensions(declared):
                if accepts(dimension):
                    free_dimensions.append(dimension)
                else:
                    parts = hidden_shapes.parts(dimension)[:PARTS]
                    free_dimensions += [part for part in parts if accepts(part)]
        return free_dimensions

    def draw_from(
        self, loaded: Loaded, count: int, *, exact: bool, checkable: int, at_least: int
    ) -> Draw:
        """Draw up to `count` items from fresh secret seeds, the first `checkable` with results.

        Stops after `DRAW_S`, but not before `at_least` items. At most half of the time is spent
        on results, so that a slow reference leaves time for inputs. `vary` must not have been
        called on the child before.
        """
        description = loaded.description
        if description != self.description:
            what = "get_inputs() must return the same shapes, dtypes and constants every time"
            raise self._error(Fault(reason=what))
        wide = exact or description.ties > 0
        memory = Draw.allocate(description, count, exact=wide, check=self.check)
        start = time.monotonic()
        done = with_results = 0
        every, batch, fds = True, 1, memory.fds
        while done < count:
            spent = time.monotonic() - start
            if spent > DRAW_S and done >= at_least:
                break
            wanted = 0
            batch = min(batch, count - done)
            if done < checkable and (done < at_least or spent < DRAW_S * RESULTS_SHARE):
                batch = min(batch, checkable - done)
                wanted = Want.OUTPUT | (Want.EXACT if memory.exact is not None else 0)
                with_results = done + batch
            made = loaded.draw(done, batch, wanted, fds)
            every, fds = every and made == wanted, ()
            done += batch
            if time.monotonic() - start - spent < BATCH_S:
                batch *= 2
        return dataclasses.replace(
            memory,
            count=done,
            checkable=with_results,
            cut_short=done < count,
            exact=memory.exact if every else None,
        )

    def metrics(
        self, draw: Draw, outputs: SharedMemory, kernel: KernelFiles
    ) -> list[dict[str, float | None]]:
        """Return the numbers that the reference's `metrics` tells of a kernel, for each item.

        `outputs` are the kernel's results for all items of `draw`, found right. A number that is
        not finite is None.

        Raises
        ------
        EvaluationError
            The function raises, takes too long, or does not return all that the task declares.
        """
        known = draw.description
        plan = msgspec.structs.replace(
            self.plan(known.inputs, known.outputs),
            kind="metrics",
            function="metrics",
            device="",
            sealing="",
        )
        with (
            closing(shared_memory_of(kernel.page.encode())) as text,
            blamed_on(FailureKind.REFERENCE, self._filename),
            self._pool.reporting(plan, builds=True) as reporter,
        ):
            worker = reporter.worker
            fds = (draw.inputs.fd, outputs.fd, draw.outputs.fd, text.fd)
            worker.send(Op.MEASURE, count=draw.count, fds=fds)
            size = worker.answer(draw.count * self._item_s, "computing metrics", stop=False)
            told = reporter.text(size)
        try:
            found = msgspec.json.decode(told, type=list[dict[str, float | None]])
        except msgspec.MsgspecError as error:
            raise self._error(Fault(reason=f"it reports its metrics wrongly: {error}")) from error
        for each in found:
            for name in self._pool.task.metrics:
                if name not in each:
                    has = ", ".join(map(repr, each)) or "nothing"
                    what = f"metrics() returned no {name!r} (it has: {has})"
                    raise self._error(Fault(reason=what))
        return found

    @contextmanager
    def loaded(self, *, builds: bool = False) -> Iterator[Loaded]:
        """Yield a reference child; blame its failures inside the block on the reference."""
        with (
            blamed_on(FailureKind.REFERENCE, self._filename),
            self._pool.reporting(self.plan(), builds=builds) as reporter,
        ):
            try:
                description = msgspec.json.decode(reporter.text(reporter.size), type=Description)
            except msgspec.MsgspecError as error:
                raise self._error(Fault(reason=f"it describes itself wrongly: {error}")) from error
            yield Loaded(reporter.worker, description, reporter, self._item_s)

    @property
    def _item_s(self) -> float:
        # Drawing makes inputs and calls the model up to three times, once in double precision.
        return 4 * self._pool.task.timing.call_timeout_s + 10.0


def _wider(given: float | None, own: Sequence[Bound]) -> str:
    """Return a sentence on a task's tolerance that is wider than the judge's own bounds, or ""."""
    widest = max((each.tolerance for each in own), default=0.0)
    if given is None or given <= widest:
        return ""
    return f"the task's tolerance of {given:.2g} is wider than the judge's own bound, {widest:.2g}"


def _inputs(sample: Draw, at: int) -> list[object]:
    layout = sample.description.inputs
    return layouts.load(layout, sample.inputs.map, at * layout.size)


def _item(sample: Draw, at: int, pooled: Sequence[Bound | None]) -> task_lint.Item:
    """Return a drawn item for the task's lint."""
    return task_lint.Item(
        _inputs(sample, at),
        sample.results(at),
        sample.exact_results(at),
        sample.description.terms,
        pooled,
        changed=sample.description.contract.changed,
        check=partial(sample.checked, at) if sample.check is not None else None,
    )
