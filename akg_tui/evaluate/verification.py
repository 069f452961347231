"""Builds a candidate and compares what it computes with the reference.

Runs in the judge. Cheap failures come first: one call on a known sample right after the
build, then ordinary trials, then unusual values and shapes, all in one process; the same
input in two processes and twice in one tells of races.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import torch

from akg_tui.core.measurement import FailureKind, InputError
from akg_tui.evaluate import correctness, timing_samples
from akg_tui.evaluate.child.protocol import Op, Plan
from akg_tui.evaluate.correctness import Bound, Comparison
from akg_tui.evaluate.processes.child_pool import ChildPool
from akg_tui.evaluate.processes.worker import ChildFailed, Worker
from akg_tui.evaluate.reference import Reference
from akg_tui.evaluate.targets.cpu import processors
from akg_tui.evaluate.timing_samples import Side
from akg_tui.evaluate.verification_inputs import Group, VerificationInput, VerificationInputs

DRAWN = "as drawn"
AGAIN = "the same input again"


@dataclass
class Errors:
    """How far the candidate was off, by kind of input; the worst of all beside it."""

    worst: float | None = None
    tolerance: float | None = None
    _tried: dict[str, InputError] = field(default_factory=dict)
    _skipped: dict[str, InputError] = field(default_factory=dict)

    @property
    def by_name(self) -> tuple[InputError, ...]:
        """Of each kind of input: first those that were tried, then the others with the reason."""
        return tuple((self._tried | self._skipped | self._tried).values())

    def add(self, name: str, found: Comparison) -> None:
        """Keep the worst of each kind."""
        if self.worst is None or found.error >= self.worst:
            self.worst, self.tolerance = found.error, found.tolerance
        known = self._tried.get(name)
        finite = found.error if found.error != float("inf") else None
        if known is None or finite is None or (known.error or 0.0) <= finite:
            note = "" if finite is not None else "NaN, infinite or unequal where it may not be"
            self._tried[name] = InputError(name, finite, found.tolerance, note)

    def skip(self, name: str, why: str) -> None:
        """Say that a kind of input was not tried."""
        self._skipped[name] = InputError(name, note=f"not tried: {why}")


@dataclass(frozen=True)
class Returned:
    """What a call on a trial gave back."""

    given: VerificationInput
    results: list[torch.Tensor]
    kept_arguments: bool


class Verification:
    """Verifies one candidate. `held` is then what its timed results are held to.

    `beside` is done while the candidate is at work on other inputs than the first.
    `warmups` is the least number of repeated calls, besides those that a comparison needs.
    """

    def __init__(
        self,
        pool: ChildPool,
        reference: Reference,
        plan: Plan,
        errors: Errors,
        stage: Callable[[str, int, int], None],
        *,
        meanwhile: Callable[[], None],
        warmups: int,
    ) -> None:
        self._pool = pool
        self._reference = reference
        self._plan = plan
        self._errors = errors
        self._stage = stage
        self._rules = pool.task.correctness
        self._meanwhile = meanwhile
        self._warmups = warmups
        self._first: list[torch.Tensor] = []
        self.held: list[Bound] = []
        self.sandbox: tuple[str, ...] = ()

    def build(self, *, meanwhile: Callable[[], None]) -> None:
        """Load the candidate and call it once on the sample, giving a compiler its time.

        `beside` is done while it is called.
        """
        # In memory full of rubbish, which would take time where calls are timed.
        with self._loaded(builds=True) as (worker, side):
            self._begin(worker, side, self._sample)
            meanwhile()
            returned = self._finish(worker, side, self._sample, compiles=True)
            self._compare(returned)
            self._first = [result.clone() for result in returned.results]

    def verify(self, drawn: VerificationInputs) -> float:
        """Compare the candidate on every trial; return about how long one call takes."""
        ordinary = drawn.ordinary.inputs
        self.held = correctness.widest([given.held for given in ordinary])
        for name, why in drawn.skipped.items():
            self._errors.skip(name, why)
        with self._loaded() as (worker, side):
            self._meanwhile()
            self._try_each(worker, side, ordinary)
            self._stage("verify", len(ordinary), drawn.count)
            taken = self._repeat(worker, side, ordinary[0])
            done = len(ordinary)
            for group in drawn.unusual:
                self._try_group(worker, group)
                done += len(group.inputs)
                self._stage("verify", done, drawn.count)
        return min(taken)

    @property
    def _sample(self) -> VerificationInput:
        return VerificationInput(DRAWN, self._reference.sample, 0, self._reference.sample_held)

    def _repeat(self, worker: Worker, side: Side, given: VerificationInput) -> list[float]:
        """Call again on the sample, tried in another process, and on a trial of this one."""
        taken = []
        sample = self._sample
        for where in ("in another process", "at the next call"):
            taken.append(self._call(worker, side, sample))
            self._check_bits(self._check_again(worker, sample, side, where), where)
        taken.append(self._call(worker, side, given))
        self._check_again(worker, given, side, "after other inputs")
        taken += [self._call(worker, side, given) for _ in range(self._warmups - len(taken))]
        return taken

    def _check_again(
        self, worker: Worker, given: VerificationInput, side: Side, where: str
    ) -> list[torch.Tensor]:
        """Hold a repeated result to the reference, and return it.

        A sum may be taken in another order each time, so it need not have the same bits: it
        must be right within the tolerance each time.
        """
        results = timing_samples.results(side, worker, 0)
        exact = given.draw.exact_results(given.item)
        found = correctness.compare(results, given.draw.results(given.item), exact, given.held)
        self._errors.add(AGAIN, found)
        if found.message:
            what = "a moving result, probably a race or memory that was not written"
            message = f"{what}: right at first, {where} {found.message}"
            raise ChildFailed(FailureKind.WRONG, message, found.detail)
        return results

    def _check_bits(self, results: list[torch.Tensor], where: str) -> None:
        """Hold a repeated result to the bits of the first, if the task demands that."""
        if not self._rules.deterministic:
            return
        for result, first in zip(results, self._first, strict=True):
            if not _same_bits(result, first):
                moved = correctness.compare([result], [first], None, [Bound(0.0)])
                what = "not deterministic, which this task demands: the same input gave other bits"
                message = f"{what} {where} ({moved.message})"
                raise ChildFailed(FailureKind.WRONG, message, moved.detail)

    def _try_group(self, worker: Worker, group: Group) -> None:
        """Call the candidate on inputs of other shapes, in the process that it has."""
        if not group.inputs:
            return
        known = group.draw.description
        plan = msgspec.structs.replace(
            self._plan,
            inputs=known.inputs,
            outputs=known.outputs,
            strides=known.strides if self._plan.strides else (),
            poisoned=True,
        )
        side = timing_samples.make_side("candidate", plan, 1)
        with contextlib.closing(side):
            blocks = (side.report, self._reference.state, side.inputs, side.addresses)
            self._pool.send_plan(worker, side.plan, *blocks, op=Op.BIND)
            worker.answer(self._pool.task.timing.call_timeout_s, "taking other shapes")
            self._try_each(worker, side, group.inputs, names=True)

    def _try_each(
        self,
        worker: Worker,
        side: Side,
        inputs: Sequence[VerificationInput],
        *,
        names: bool = False,
    ) -> None:
        """Call the candidate on each; what it returned is compared while it is at the next.

        With `names` they have another shape, for which it may compile, and a failure tells which
        input it was.
        """
        returned: Returned | None = None
        for given in inputs:
            with _named(given.name if names else ""):
                self._begin(worker, side, given)
            if returned is not None:
                self._compare(returned, names=names)
            with _named(given.name if names else ""):
                returned = self._finish(worker, side, given, compiles=names)
        if returned is not None:
            self._compare(returned, names=names)

    def _begin(self, worker: Worker, side: Side, given: VerificationInput) -> None:
        """Have the candidate called, without waiting for it."""
        timing_samples.fill(side, 0, given.draw, given.item)
        worker.send(Op.CALL, count=1)

    def _finish(
        self, worker: Worker, side: Side, given: VerificationInput, *, compiles: bool
    ) -> Returned:
        """Wait for the call, with time for a compiler: at first, and for another shape.

        What it returned is there until another call's is read.
        """
        limits = self._pool.task.timing
        compile_s = limits.build_timeout_s if compiles else 0.0
        worker.answer(limits.call_timeout_s, "being called", compile_s=compile_s)
        worker.await_stop()
        results = timing_samples.results(side, worker, 0)
        return Returned(
            given, results, timing_samples.keeps_arguments(side, 0, given.draw, given.item)
        )

    def _compare(self, returned: Returned, *, names: bool = False) -> None:
        """Raise ChildFailed if results do not match, or arguments were changed."""
        given = returned.given
        expected, exact = given.draw.results(given.item), given.draw.exact_results(given.item)
        found = correctness.compare(returned.results, expected, exact, given.held)
        self._errors.add(given.name, found)
        with _named(given.name if names else ""):
            if found.message:
                raise ChildFailed(FailureKind.WRONG, found.message, found.detail)
            timing_samples.require_unchanged_arguments(kept=returned.kept_arguments)

    def _call(self, worker: Worker, side: Side, given: VerificationInput) -> float:
        timing_samples.fill(side, 0, given.draw, given.item)
        nanoseconds = worker.timed_call(1, self._pool.task.timing.call_timeout_s)
        worker.await_stop()
        return nanoseconds / 1e9

    @contextlib.contextmanager
    def _loaded(self, *, builds: bool = False) -> Iterator[tuple[Worker, Side]]:
        plan = msgspec.structs.replace(self._plan, poisoned=builds)
        side = timing_samples.make_side("candidate", plan, 1)
        child = self._pool.child(self._plan.source, builds=builds)
        with contextlib.closing(side), child as worker:
            self.sandbox = worker.sandbox
            timing_samples.load_side(self._pool, worker, side, self._reference.state)
            self._pool.await_load(worker)
            usable = processors()
            if builds or len(usable) <= self._pool.task.timing.threads:
                yield worker, side
                return
            # The judge compares what a call returned while the candidate is at the next.
            with timing_samples.pinned([worker], usable[1:]):
                yield worker, side


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Let a failure inside the block tell the name of the input, if there is one."""
    try:
        yield
    except ChildFailed as failed:
        if not name:
            raise
        message = f"{failed.message} (inputs: {name})"
        raise ChildFailed(failed.kind, message, failed.detail) from failed


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    plain = (t.contiguous().reshape(-1).view(torch.uint8) for t in (one, other))
    return torch.equal(*plain)
