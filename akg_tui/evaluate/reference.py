"""The judge's side of the reference: how its data lies, and inputs drawn from it.

A reference child never runs beside a candidate's, except as the baseline that is timed. The judge
chooses the seeds and never stores them; drawn data stays in the judge's memory.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Self, TypeVar

import msgspec
import torch

from akg_tui.core.measurement import FailureKind
from akg_tui.evaluate import correctness, hidden_shapes, task_lint
from akg_tui.evaluate.child import tensor_layout as layouts
from akg_tui.evaluate.child.protocol import REPORT_BYTES, Description, Op, Plan, Variation, Want
from akg_tui.evaluate.child.tensor_layout import Layout
from akg_tui.evaluate.child.unusual_values import ValueKind
from akg_tui.evaluate.correctness import Bound
from akg_tui.evaluate.hidden_shapes import Dimension, Shapes
from akg_tui.evaluate.processes.child_pool import ChildPool, EvaluationError, blamed_on
from akg_tui.evaluate.processes.shared_memory import SharedMemory, shared_memory_of
from akg_tui.evaluate.processes.worker import ChildFailed, Worker

RESULTS_SHARE = 0.5
PARTS = 8
"""At most this many axes of one extent are probed one by one."""

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
    """There are fewer than were requested, because drawing them took too long."""

    @classmethod
    def allocate(cls, description: Description, count: int, *, exact: int) -> Self:
        """Return a draw with memory for `count` items, and `exact` times as many exact results."""
        wide = layouts.result_layout(description.outputs, exact=True).size
        return cls(
            description,
            count,
            count,
            SharedMemory(count * description.inputs.size),
            SharedMemory(count * description.outputs.size),
            SharedMemory(exact * count * wide) if exact and description.has_floats else None,
        )

    def results(self, item: int) -> list[torch.Tensor]:
        """Return the reference's results for an item."""
        layout = self.description.outputs
        return layouts.views(layout, self.outputs.map, item * layout.size)

    def exact_results(self, item: int) -> list[torch.Tensor] | None:
        """Return the results in double precision, where the reference has such a form."""
        if self.exact is None:
            return None
        layout = layouts.result_layout(self.description.outputs, exact=True)
        return layouts.views(layout, self.exact.map, item * layout.size)

    @property
    def fds(self) -> tuple[int, ...]:
        """The descriptors that a DRAW request needs."""
        return tuple(block.fd for block in (self.inputs, self.outputs, self.exact) if block)

    def close(self) -> None:
        """Close the descriptors; see `SharedMemory.close`."""
        for block in (self.inputs, self.outputs, self.exact):
            if block is not None:
                block.close()


@dataclass(frozen=True)
class Loaded:
    """A loaded reference child with its description."""

    worker: Worker
    description: Description
    _report: SharedMemory

    def vary(self, variation: Variation, seed: int, deadline_s: float) -> Description | None:
        """Draw other shapes from now on; return their description, or None if refused."""
        blob = shared_memory_of(msgspec.json.encode(variation))
        try:
            self.worker.send(Op.VARY, seed=seed, fds=(blob.fd,))
        finally:
            blob.close()
        size = self.worker.answer(deadline_s, "drawing other shapes", stop=False)
        if not size:
            return None
        try:
            described = described_in(self._report, size)
            for layout in (described.inputs, described.outputs):
                layout.check()
        except (msgspec.MsgspecError, ValueError) as error:
            raise ChildFailed(
                FailureKind.REFERENCE, f"it describes other shapes wrongly: {error}"
            ) from error
        return described


def described_in(report: SharedMemory, size: int) -> Description:
    """Return the description that a child left in its report."""
    text = bytes(report.map[: min(size, REPORT_BYTES)])
    return msgspec.json.decode(text, type=Description)


def declared_in(description: Description) -> Shapes:
    """Return the shapes of the tensors that a kernel is called with."""
    return tuple(slot.shape for slot in description.inputs.tensors)


T = TypeVar("T")


def _examined(value: T | None) -> T:
    if value is None:
        raise EvaluationError(FailureKind.JUDGE, "the reference was not examined")
    return value


class Reference:
    """Starts reference children, and keeps the description that the first one gave."""

    def __init__(self, pool: ChildPool, source: str, filename: str) -> None:
        self._pool = pool
        self.source = source
        self._filename = filename
        self._seed = secrets.randbits(63)
        self._description: Description | None = None
        self._state: SharedMemory | None = None
        self._sample: Draw | None = None
        self._refused: EvaluationError | None = None
        self.rules = pool.task.correctness
        self.sample_held: list[Bound] = []
        """The bounds of a candidate's results for the sample."""
        self.is_finite = True
        """Whether ordinary inputs give finite results."""
        self.excluded_kinds: set[ValueKind] = set()
        """Kinds of values on which the reference's process ended; they are not tried again."""
        self.free_dimensions: list[Dimension] = []
        """The dimensions that can differ; none if the task fixes its shape."""

    @property
    def examined(self) -> bool:
        """Whether `examine` found nothing wrong."""
        return self._sample is not None

    @property
    def threads(self) -> int:
        """How many threads its processes may use."""
        return self._pool.task.timing.threads

    @property
    def shapes(self) -> Shapes:
        """The declared shapes of the tensors that a kernel is called with."""
        return declared_in(self.description)

    @property
    def description(self) -> Description:
        """How inputs, results, weights and constructor arguments lie in memory."""
        return _examined(self._description)

    @property
    def state(self) -> SharedMemory:
        """The constructor's arguments, then the weights."""
        return _examined(self._state)

    @property
    def sample(self) -> Draw:
        """One item that is never timed nor compared: for building and warming up."""
        return _examined(self._sample)

    def plan(self, **bound: Layout | int) -> Plan:
        """Return the plan of a reference child."""
        base = Plan(kind="reference", source=self.source, filename=self._filename, seed=self._seed)
        return msgspec.structs.replace(base, **bound)

    def kernel_plan(self, source: str, filename: str, slots: int) -> Plan:
        """Return the plan of a kernel with the reference's arguments and weights."""
        known = self.description
        return Plan(
            kind="kernel",
            source=source,
            filename=filename,
            seed=self._seed,
            slots=slots,
            arguments=known.arguments,
            weights=known.weights,
            inputs=known.inputs,
            outputs=known.outputs,
            strides=known.strides if self.rules.strides != "any" else (),
            trained=known.trained,
        )

    def examine(self) -> None:
        """Load the reference once and check that the task tells right results from wrong ones.

        Raises
        ------
        Misjudged
            It does not load, lacks a part, raises, gives two results for one input, or would
            let a kernel pass that computes nothing (`lint`).
        """
        if self._refused is not None:
            raise self._refused
        if self._description is not None:
            return
        with self.loaded(builds=True) as loaded:
            worker, description = loaded.worker, loaded.description
            for layout in (description.arguments, description.weights, description.inputs):
                layout.check()
            state = SharedMemory(description.arguments.size + description.weights.size)
            worker.send(Op.STATE, fds=(state.fd,))
            worker.answer(self.call_s, "writing its weights")
            # Every kernel's process maps these, so none may change them.
            state.finish()
            # The sample, its second result, and two more items for the task's lint.
            sample = Draw.allocate(description, 4, exact=1)
            wanted = Want.EXACT if sample.exact is not None else 0
            made = self._draw_batch(worker, 0, 1, Want.OUTPUT | Want.TWICE | wanted, sample.fds)
            made &= self._draw_batch(worker, 2, 2, Want.OUTPUT | wanted, ())
            if not made & Want.EXACT:
                sample = dataclasses.replace(sample, exact=None)
            self._lint(sample)
            held = correctness.bounds(
                sample.results(0), sample.exact_results(0), self.rules.tolerance
            )
            inexact = [r for r in sample.results(0) if r.dtype in correctness.FLOORS]
            free_dimensions = [] if self.rules.fixed_shape else self._free_dimensions(loaded)
        # Set together at the end: an interrupt anywhere above leaves nothing half examined.
        self.sample_held, self.free_dimensions = held, free_dimensions
        self.is_finite = correctness.all_finite(inexact)
        self._description, self._state, self._sample = description, state, sample

    def _lint(self, sample: Draw) -> None:
        drawn = [
            task_lint.Item(
                layouts.load(sample.description.inputs, sample.inputs.map, at * size),
                sample.results(at),
                sample.exact_results(at),
            )
            for size in [sample.description.inputs.size]
            for at in (0, 2, 3)
        ]
        fault = task_lint.fault(drawn, sample.results(1), self.rules.tolerance)
        if fault is not None:
            message = f"{self._filename}: {fault.reason}"
            self._refused = EvaluationError(FailureKind.REFERENCE, message, fault.detail)
            raise self._refused

    def _free_dimensions(self, loaded: Loaded) -> list[Dimension]:
        """Return the dimensions for which the reference accepts other extents."""
        declared = declared_in(loaded.description)

        def accepts(dimension: Dimension) -> bool:
            other = hidden_shapes.with_extents(
                declared, [(dimension, hidden_shapes.probe(dimension))]
            )
            seed = secrets.randbits(63)
            return loaded.vary(Variation(other), seed, self.call_s) is not None

        free_dimensions: list[Dimension] = []
        try:
            for dimension in hidden_shapes.dimensions(declared):
                if accepts(dimension):
                    free_dimensions.append(dimension)
                else:
                    free_dimensions += [
                        part for part in hidden_shapes.parts(dimension)[:PARTS] if accepts(part)
                    ]
        except ChildFailed:
            # A reference whose process dies of another shape accepts only those found so far.
            return free_dimensions
        return free_dimensions

    def draw_from(
        self,
        loaded: Loaded,
        count: int,
        *,
        exact: bool,
        checkable: int,
        seconds: float,
        at_least: int,
    ) -> Draw:
        """Draw up to `count` items from fresh secret seeds, the first `checkable` with results.

        Stops after `seconds`, but not before `at_least` items. At most half of the time is spent
        on results, so that a slow reference leaves time for inputs. `vary` must not have been
        called on the child before.
        """
        worker, description = loaded.worker, loaded.description
        if description != self.description:
            raise EvaluationError(
                FailureKind.REFERENCE,
                f"{self._filename}: get_inputs() must return the same shapes, dtypes and "
                "constants every time",
            )
        memory = Draw.allocate(description, count, exact=int(exact))
        start = time.monotonic()
        done = with_results = 0
        every, batch, fds = True, 1, memory.fds
        while done < count:
            spent = time.monotonic() - start
            if spent > seconds and done >= at_least:
                break
            wanted = 0
            batch = min(batch, count - done)
            if done < checkable and (done < at_least or spent < seconds * RESULTS_SHARE):
                batch = min(batch, checkable - done)
                wanted = Want.OUTPUT | (Want.EXACT if memory.exact is not None else 0)
                with_results = done + batch
            made = self._draw_batch(worker, done, batch, wanted, fds)
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

    @contextmanager
    def loaded(self, *, builds: bool = False) -> Iterator[Loaded]:
        """Yield a reference child; a failure of it in the block is the reference's."""
        with (
            closing(SharedMemory(REPORT_BYTES)) as report,
            blamed_on(FailureKind.REFERENCE, self._filename),
            self._pool.child(self.source, builds=builds) as worker,
        ):
            self._pool.send_plan(worker, self.plan(), report)
            size = self._pool.await_load(worker)
            try:
                description = described_in(report, size)
            except msgspec.MsgspecError as error:
                raise EvaluationError(
                    FailureKind.REFERENCE, f"{self._filename}: it describes itself wrongly: {error}"
                ) from error
            yield Loaded(worker, description, report)

    @property
    def call_s(self) -> float:
        """The seconds that drawing one item may take."""
        # Drawing makes inputs and calls the model up to three times, once in double precision.
        return 4 * self._pool.task.timing.call_timeout_s + 10.0

    def _draw_batch(
        self, worker: Worker, item: int, count: int, wanted: int, fds: tuple[int, ...]
    ) -> int:
        seed = secrets.randbits(63)
        worker.send(Op.DRAW, count=count, seed=seed, item=item, wanted=wanted, fds=fds)
        # No candidate runs now, so the child need not be stopped.
        return worker.answer(count * self.call_s, "drawing inputs", stop=False)
