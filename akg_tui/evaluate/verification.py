"""Builds a candidate and compares its results with those of the reference.

Runs in the judge. Cheap failures come first: one call on a known sample right after the build,
then ordinary inputs, then unusual values and shapes, all in one process. An equal
input in two processes, and twice in one process, reveals races.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field

import msgspec
import torch

from akg_tui.core.measurement import FailureKind, InputError
from akg_tui.evaluate import correctness, timing_samples
from akg_tui.evaluate.child import tensor_layout as layouts
from akg_tui.evaluate.child.protocol import Op, Plan
from akg_tui.evaluate.correctness import Bound, Comparison
from akg_tui.evaluate.device.device_side import side_of
from akg_tui.evaluate.processes.child_pool import ChildPool
from akg_tui.evaluate.processes.shared_memory import SharedMemory
from akg_tui.evaluate.processes.worker import ChildFailed, Worker
from akg_tui.evaluate.reference import Draw, Reference
from akg_tui.evaluate.targets.cpu import processors
from akg_tui.evaluate.timing_samples import CHANGED_INPUTS, Side
from akg_tui.evaluate.verification_inputs import Group, VerificationInput, VerificationInputs

DRAWN = "as drawn"
AGAIN = "the same input again"


@dataclass
class Errors:
    """The candidate's errors by kind of input, and the worst error with its tolerance."""

    worst: float | None = None
    tolerance: float | None = None
    origin: str = ""
    """What the tolerance is derived from."""
    _tried: dict[tuple[str, str], dict[str, InputError]] = field(default_factory=dict)
    """By case and kind of input, then by dtype of the results."""
    _skipped: dict[tuple[str, str], InputError] = field(default_factory=dict)
    _case: str = ""

    def begin_case(self, name: str) -> None:
        """Record what follows under the name of a case, "" if the task has no cases."""
        self._case = name

    @property
    def by_name(self) -> tuple[InputError, ...]:
        """Each kind of input: first the tried kinds, then the skipped kinds with the reason."""
        tried = [error for by_dtype in self._tried.values() for error in by_dtype.values()]
        skipped = [error for at, error in self._skipped.items() if at not in self._tried]
        return (*tried, *skipped)

    def add(self, name: str, found: Comparison) -> None:
        """Keep the error nearest to its bound of each case, kind and dtype."""
        if self.worst is None or found.error >= self.worst:
            self.worst, self.tolerance, self.origin = found.error, found.tolerance, found.origin
        by_dtype = self._tried.setdefault((self._case, name), {})
        for each in found.outputs:
            finite = each.error if each.error != float("inf") else None
            note = "" if finite is not None else "NaN, infinite or unequal where it may not be"
            error = InputError(name, finite, each.tolerance, note, self._case, each.dtype)
            known, share = by_dtype.get(each.dtype), error.share
            if known is None or share is None or (known.share or 0.0) <= share:
                by_dtype[each.dtype] = error

    def skip(self, name: str, why: str) -> None:
        """Record why a kind of input was not tried."""
        at = self._case, name
        self._skipped[at] = InputError(name, note=f"not tried: {why}", case=self._case)


@dataclass
class CallAllowance:
    """The time that the calls of one verification may take together, in all cases.

    Each call has a limit too, but a kernel a little below that one would hold the judge for ten
    minutes a case.
    """

    limit_s: float
    _spent_s: float = 0.0
    _calls: int = 0

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Count the time of the block as that of a call; raise ChildFailed if none is left."""
        start = time.monotonic()
        yield
        self._spent_s += time.monotonic() - start
        self._calls += 1
        if self._spent_s > self.limit_s:
            why = (
                f"the calls of the verification took {self._spent_s:.1f} s, the first "
                f"{self._calls} of them: the limit of all is {self.limit_s:g} s, which is "
                "verify_timeout_s under [timing] in task.toml"
            )
            raise ChildFailed(FailureKind.TIMEOUT, why)


@dataclass(frozen=True)
class Returned:
    """The results of a call on a verification input."""

    given: VerificationInput
    results: list[torch.Tensor]
    kept_arguments: bool


@dataclass
class Verification:
    """Verifies one candidate; afterwards `held` has the bounds of its timed results.

    `warmups` is the least number of repeated calls.
    """

    pool: ChildPool
    reference: Reference
    plan: Plan
    errors: Errors
    stage: Callable[[str, int, int], None]
    _: KW_ONLY
    warmups: int
    allowance: CallAllowance
    held: list[Bound] = field(default_factory=list)
    sandbox: tuple[str, ...] = ()
    outputs: SharedMemory | None = None
    """The candidate's results for all ordinary inputs, kept for the metrics of the task."""
    load_s: float = 0.0
    """The seconds that loading the candidate took in the last process."""

    def __post_init__(self) -> None:
        self._rules = self.pool.task.correctness
        self._first: list[torch.Tensor] = []
        self._names_inputs = False
        """Whether a failure names the input."""
        self._called: list[VerificationInput] = []
        """The inputs that the candidate was called on."""
        self._ordinary: Draw | None = None
        self._done = self._count = 0
        """The inputs compared so far, and all that are to be compared."""
        self._lacking = ""
        """A weight of the reference that the candidate says it has no parameter for."""

    def build(self, *, meanwhile: Callable[[], None]) -> None:
        """Load the candidate and call it once on the sample, with time for a compiler.

        `meanwhile` is called during that call.
        """
        # Memory is poisoned here only, because that takes time where calls are timed.
        with self._loaded(builds=True) as side:
            self._begin(side, self._sample)
            meanwhile()
            returned = self._finish(side, self._sample, compiles=True)
            self._compare(returned)
            self._first = [result.clone() for result in returned.results]

    def verify(self, drawn: VerificationInputs, *, meanwhile: Callable[[], None]) -> float:
        """Compare the candidate on every input; return the approximate seconds of one call.

        `meanwhile` is called after the candidate has been loaded.
        """
        ordinary = drawn.ordinary.inputs
        if self.pool.task.metrics:
            known = drawn.ordinary.draw
            self.outputs = SharedMemory(known.count * known.description.outputs.size)
        self._ordinary = drawn.ordinary.draw
        self.held = correctness.widest([given.held for given in ordinary])
        for name, why in drawn.skipped.items():
            self.errors.skip(name, why)
        with self._loaded() as side:
            meanwhile()
            self._count = drawn.count
            self._try_each(side, ordinary)
            taken = self._repeat(side, ordinary[0])
            self._names_inputs = True
            # Last, so that a failure there says that strides are the cause.
            for group in sorted(drawn.unusual, key=lambda group: group.strided):
                self._try_group(side.worker, group)
        return min(taken)

    @property
    def _sample(self) -> VerificationInput:
        return VerificationInput(DRAWN, self.reference.sample, 0, self.reference.sample_held)

    def _repeat(self, side: Side, given: VerificationInput) -> list[float]:
        """Repeat the sample of the build process twice, and an input once; return the seconds."""
        taken = []
        sample = self._sample
        for where in ("in another process", "at the next call"):
            taken.append(self._call(side, sample))
            self._check_bits(self._check_again(side, sample, where), where)
        taken.append(self._call(side, given))
        self._check_again(side, given, "after other inputs")
        taken += [self._call(side, given) for _ in range(self.warmups - len(taken))]
        return taken

    def _check_again(self, side: Side, given: VerificationInput, where: str) -> list[torch.Tensor]:
        """Compare a repeated result with the reference, and return it.

        The bits may differ, for example by the order of a sum, but not by more than the tolerance.
        """
        results = side.results()
        found = given.compare(results)
        self.errors.add(AGAIN, found)
        if found.message:
            what = "a moving result, probably a race or memory that was not written"
            message = f"{what}: right at first, {where} {found.message}"
            message = self._stale(given, results, message) or message
            raise ChildFailed(FailureKind.WRONG, message, found.detail)
        return results

    def _check_bits(self, results: list[torch.Tensor], where: str) -> None:
        """Compare a repeated result bit by bit with the first result, if the task demands that."""
        if not self._rules.deterministic:
            return
        for result, first in zip(results, self._first, strict=True):
            bits = (t.contiguous().reshape(-1).view(torch.uint8) for t in (result, first))
            if not torch.equal(*bits):
                moved = correctness.compare([result], [first], None, [Bound(0.0)])
                what = "not deterministic, which this task demands: the same input gave other bits"
                message = f"{what} {where} ({moved.message})"
                raise ChildFailed(FailureKind.WRONG, message, moved.detail)

    def _try_group(self, worker: Worker, group: Group) -> None:
        """Call the candidate on inputs of other shapes, in its running process."""
        if not group.inputs:
            return
        known = group.draw.description
        plan = msgspec.structs.replace(
            self.plan,
            inputs=known.inputs,
            outputs=known.outputs,
            strides=known.strides if self.plan.strides else (),
            poisoned=True,
        )
        with contextlib.closing(side_of(self.pool, "candidate", plan)) as side:
            side.send_plan(worker, self.reference.state, Op.BIND)
            worker.answer(self.pool.task.timing.call_timeout_s, "taking other shapes")
            self._try_each(side, group.inputs, compiles=True)

    def _try_each(
        self, side: Side, inputs: Sequence[VerificationInput], *, compiles: bool = False
    ) -> None:
        """Call the candidate on each input; compare each result during the next call."""
        returned: Returned | None = None
        for given in inputs:
            with self._named(given):
                self._begin(side, given)
            if returned is not None:
                self._compare(returned)
            with self._named(given), self.allowance.call():
                returned = self._finish(side, given, compiles=compiles)
        if returned is not None:
            self._compare(returned)

    def _begin(self, side: Side, given: VerificationInput) -> None:
        """Start a call of the candidate, without waiting for it."""
        side.begin(given.draw, given.item)

    def _finish(self, side: Side, given: VerificationInput, *, compiles: bool) -> Returned:
        """Wait for the call, with time for a compiler if it `compiles`.

        The results are valid until the results of another call are read.
        """
        limits = self.pool.task.timing
        compile_s = limits.build_timeout_s if compiles else 0.0
        side.finish(limits.call_timeout_s, compile_s=compile_s)
        results = side.results()
        return Returned(given, results, side.kept_arguments(given.draw, given.item))

    def _compare(self, returned: Returned) -> None:
        """Raise ChildFailed if results do not match, or arguments were changed."""
        given = returned.given
        self._called.append(given)
        found = given.compare(returned.results)
        self.errors.add(given.name, found)
        with self._named(given):
            if found.message:
                message = self._explained(given, returned.results, found.message)
                raise ChildFailed(FailureKind.WRONG, message, found.detail)
            if not returned.kept_arguments:
                raise ChildFailed(FailureKind.WRONG, CHANGED_INPUTS)
        if self.outputs is not None and given.draw is self._ordinary:
            layout = given.draw.description.outputs
            layouts.store(layout, returned.results, self.outputs.map, given.item * layout.size)
        if self._count:
            self._done += 1
            self.stage("verify", self._done, self._count)

    def _explained(
        self, given: VerificationInput, results: Sequence[torch.Tensor], message: str
    ) -> str:
        """Return the message for wrong results, with their cause where it can be told."""
        if stale := self._stale(given, results, message):
            return stale
        if given.strided:
            return f"the kernel is right for contiguous inputs only, it ignores strides: {message}"
        if self._lacking and self.plan.weights is not None:
            known = ", ".join(self.plan.weights.names)
            return (
                f"{message}; {self._lacking!r} is missing in ModelNew; the reference's weights are "
                f"given after __init__, by name: {known}"
            )
        return message

    def _stale(
        self, given: VerificationInput, results: Sequence[torch.Tensor], message: str
    ) -> str:
        """Return the message for results that are right for another input, or ""."""
        shapes = [result.shape for result in results]
        for other in self._called:
            if [slot.shape for slot in other.draw.description.outputs.tensors] == [
                tuple(shape) for shape in shapes
            ] and other.accepts(results):
                if given.altered:
                    what = (
                        "the result did not change, so an input is ignored or something is cached"
                    )
                    return f"{what}: {message}"
                return f"the result of other inputs came back, so something is cached: {message}"
        return ""

    def _call(self, side: Side, given: VerificationInput) -> float:
        timeout_s = self.pool.task.timing.call_timeout_s
        with self.allowance.call():
            side.fill(given.draw, given.item)
            return side.timed_call(timeout_s).seconds

    @contextlib.contextmanager
    def _loaded(self, *, builds: bool = False) -> Iterator[Side]:
        plan = msgspec.structs.replace(self.plan, poisoned=builds)
        side = side_of(self.pool, "candidate", plan)
        child = self.pool.child(self.plan.source, builds=builds)
        with contextlib.closing(side), child as worker:
            self.sandbox = worker.sandbox
            start = time.monotonic()
            side.send_plan(worker, self.reference.state)
            position = self.pool.await_load(worker)
            names = self.plan.weights.names if self.plan.weights is not None else ()
            # The number is the candidate's word.
            self._lacking = names[position - 1] if 0 < position <= len(names) else ""
            self.load_s = time.monotonic() - start
            usable, threads = processors(), self.pool.task.timing.threads
            if builds or len(usable) <= threads:
                yield side
                return
            # The judge compares results while the candidate computes: on one CPU, or on all but the
            # candidate's where that computes on a device.
            cpus = usable[:threads] if self.plan.device else usable[1:]
            with timing_samples.pinned([worker], cpus):
                yield side

    @contextlib.contextmanager
    def _named(self, given: VerificationInput) -> Iterator[None]:
        """Add the name of the input, if wanted, to a failure inside the block."""
        try:
            yield
        except ChildFailed as failed:
            if not self._names_inputs:
                raise
            message = f"{failed.message} (inputs: {given.name})"
            raise ChildFailed(failed.kind, message, failed.detail) from failed
