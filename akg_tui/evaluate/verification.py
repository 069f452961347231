"""Builds a candidate and compares its results with those of the reference.

Runs in the judge. Cheap failures come first: one call on a known sample right after the build,
then ordinary inputs, then unusual values and shapes, all in one process. An equal
input in two processes, and twice in one process, reveals races.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import msgspec
import torch

from akg_tui.core.measurement import FailureKind, InputError
from akg_tui.evaluate import correctness, timing_samples
from akg_tui.evaluate.correctness import Bound, Comparison
from akg_tui.evaluate.device_side import side_of
from akg_tui.evaluate.processes.child_pool import ChildPool
from akg_tui.evaluate.processes.shared_memory import SharedMemory
from akg_tui.evaluate.processes.worker import ChildFailed, Worker
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.protocol.child_protocol import Op, Plan
from akg_tui.evaluate.reference import Draw, Reference
from akg_tui.evaluate.targets.cpu import processors
from akg_tui.evaluate.timing_samples import CHANGED_INPUTS, Returned, Side
from akg_tui.evaluate.verification_inputs import Group, VerificationInput, VerificationInputs

DRAWN = "as drawn"
AGAIN = "the same input again"

RACING_CALLS, RACING_S = 30, 0.01
"""Further calls of the process that builds, with two threads or more: at least one, and at most so
many within so many seconds."""
SPREAD_CALLS, SPREAD_S = 8, 0.25
"""So many of them may take longer. On a busy machine two threads seldom run at once: of a race that
each call shows on two CPUs, eight calls show it."""

OTHER_SHAPE = (
    "a task whose kernel serves the declared shape alone says fixed_shape = true under "
    "[correctness] in task.toml"
)

BRIEF_S = 5.0
"""The seconds that calls of a `brief` verification take. A call on each ordinary input comes in any
case."""


@dataclass
class Errors:
    """The candidate's errors by kind of input, and that nearest to its tolerance."""

    nearest: Comparison | None = None
    _tried: dict[tuple[str, str], dict[str, InputError]] = field(default_factory=dict)
    """By case and kind of input, then by dtype of the results."""
    _skipped: dict[tuple[str, str], InputError] = field(default_factory=dict)
    _noted: list[str] = field(default_factory=list)
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
        if found.judged_by:
            note = f"{'refused' if found.message else 'accepted'} by {found.judged_by}"
            self._tried[self._case, name] = {"": InputError(name, note=note, case=self._case)}
            return
        if self.nearest is None or found.share >= self.nearest.share:
            self.nearest = found
        by_dtype = self._tried.setdefault((self._case, name), {})
        for each in found.outputs:
            finite = each.error if each.error != float("inf") else None
            note = "" if finite is not None else "NaN, infinite or unequal where it may not be"
            error = InputError(name, finite, each.tolerance, note, self._case, each.dtype)
            known, share = by_dtype.get(each.dtype), error.share
            if known is None or share is None or (known.share or 0.0) <= share:
                by_dtype[each.dtype] = error

    def note(self, given: VerificationInput, why: str) -> None:
        """Record that the candidate is wrong on an input that does not count."""
        self._noted.append(f"{self._case}: {why}" if self._case else why)
        error = InputError(given.name, note="wrong; it does not count", case=self._case)
        self._tried[self._case, given.name] = {"": error}

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence on wrong results for inputs that do not count; empty if there are none."""
        if not self._noted:
            return ()
        first, *others = self._noted
        if others:
            first = f"{first}; {len(others)} more such inputs"
        return (f'{first}; it counts only with values = "any" under [correctness] in task.toml',)

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
    spent_s: float = 0.0
    _calls: int = 0

    @property
    def is_half_left(self) -> bool:
        """Whether at most half of the time is spent."""
        return self.spent_s <= self.limit_s / 2

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Count the time of the block as that of a call; raise ChildFailed if none is left."""
        start = time.monotonic()
        yield
        self.spent_s += time.monotonic() - start
        self._calls += 1
        if self.spent_s > self.limit_s:
            why = (
                f"the calls of the verification took {self.spent_s:.1f} s, the first "
                f"{self._calls} of them: the limit of all is {self.limit_s:g} s, which is "
                "verify_timeout_s under [timing] in task.toml"
            )
            raise ChildFailed(FailureKind.TIMEOUT, why)


@dataclass
class Verification:
    """Verifies one candidate; afterwards `held` has the bounds of its timed results.

    `warmups` is the least number of repeated calls. If it is `brief`, inputs that are left after
    `BRIEF_S` are put off: `complete` tries them, before a kernel is kept. Where it does not compare
    (not `compares`), the candidate only has to run.
    """

    pool: ChildPool
    reference: Reference
    plan: Plan
    errors: Errors
    stage: Callable[[str, int, int], None]
    _: KW_ONLY
    warmups: int
    allowance: CallAllowance
    brief: bool = False
    compares: bool = True
    held: list[Bound] = field(default_factory=list)
    sandbox: tuple[str, ...] = ()
    outputs: SharedMemory | None = None
    """The candidate's results for all ordinary inputs, kept for the metrics of the task."""
    load_s: float = 0.0
    """The seconds that loading the candidate took in the last process, waits for a CPU aside."""

    def __post_init__(self) -> None:
        self._rules = self.pool.task.correctness
        self._first: list[torch.Tensor] = []
        self._names_inputs = False
        """Whether a failure names the input."""
        self._called: list[VerificationInput] = []
        """The inputs that the candidate was called on."""
        self._ordinary: Draw | None = None
        self._done = self._count = 0
        """The inputs that the candidate was called on, and all that it is to be called on."""
        self._uncounted: VerificationInput | None = None
        """The input that the candidate is called on, if it is one that does not count."""
        self._put_off: list[Group] = []
        """The inputs that are left to `complete`."""
        self._configurations = 1
        """The most configurations that a tuner of the candidate can take."""
        self._remark = ""
        """The candidate's word on weights that it lacks or packed; told with wrong results."""

    def build(self) -> None:
        """Load the candidate and call it on the sample, with time for a compiler.

        It may use two threads here, and is called again and again: a race shows.
        """
        # Memory is poisoned here only, because that takes time where calls are timed.
        sample = self._sample
        with self._loaded(builds=True) as side:
            self._begin(side, sample)
            returned = self._finish(side, sample, compiles=True)
            if not self.compares:
                return
            self._compare(returned)
            self._first = [result.clone() for result in returned.results]
            side.worker.spread(processors())
            began = time.monotonic()
            for calls in range(RACING_CALLS):
                limit_s = RACING_S if calls >= SPREAD_CALLS else SPREAD_S
                if calls and time.monotonic() - began > limit_s:
                    break
                self._call(side, sample)
                if not all(map(torch.equal, side.results(), self._first)):
                    self._check_again(side, sample, "at the next call")

    def verify(self, drawn: VerificationInputs) -> float:
        """Compare the candidate on every input; return the approximate seconds of one call."""
        ordinary = drawn.ordinary.inputs
        if self.pool.task.metrics:
            known = drawn.ordinary.draw
            self.outputs = SharedMemory(known.count * known.description.outputs.size)
        self._ordinary = drawn.ordinary.draw
        self.held = correctness.widest([given.held for given in ordinary])
        for name, why in drawn.skipped.items():
            self.errors.skip(name, why)
        taken: list[float] = []
        with self._notes_uncounted(), self._loaded() as side:
            self._count = drawn.count
            self._try_each(side, ordinary)
            taken = self._repeat(side, ordinary[0])
            self._names_inputs = True
            self._try_groups(side, drawn.unusual)
        for name in {given.name for group in self._put_off for given in group.inputs}:
            self.errors.skip(
                name, f"the calls took {BRIEF_S:g} s; it is tried before a kernel is kept"
            )
        return min(taken)

    def complete(self) -> None:
        """Compare the candidate on the inputs that were put off, in a new process."""
        if not self._put_off:
            return
        self.brief = False
        groups, self._put_off = self._put_off, []
        with self._notes_uncounted(), self._loaded() as side:
            self._try_groups(side, groups)

    def _try_groups(self, side: Side, groups: Sequence[Group]) -> None:
        # Last, so that a failure there says that strides are the cause.
        for group in sorted(groups, key=lambda group: group.strided):
            self._try_group(side.worker, group, counted=True)
        # After all others, because the candidate's process may end there.
        for group in groups:
            self._try_group(side.worker, group, counted=False)

    @contextlib.contextmanager
    def _notes_uncounted(self) -> Iterator[None]:
        """Note a failure of a call on an input that does not count."""
        try:
            yield
        except ChildFailed as failed:
            if self._uncounted is None:
                raise
            self.errors.note(self._uncounted, failed.message)

    def seconds_of_call(self) -> float:
        """Call the candidate on the sample, look at no result, and return the least seconds."""
        with self._loaded() as side:
            return min(self._call(side, self._sample) for _ in range(max(2, self.warmups)))

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

    def _try_group(self, worker: Worker, group: Group, *, counted: bool) -> None:
        """Call the candidate on inputs of other shapes, in its running process.

        On those that count, or on the others.
        """
        inputs = [given for given in group.inputs if self._counts(given) is counted]
        if not inputs:
            return
        if self._is_due:
            self._put_off.append(replace(group, inputs=inputs))
            return
        self._uncounted = None if counted else inputs[0]
        known = group.draw.description
        plan = msgspec.structs.replace(
            self.plan,
            inputs=known.inputs,
            outputs=known.outputs,
            contract=known.contract,
            strides=known.strides if self.plan.strides else (),
            poisoned=True,
        )
        with contextlib.closing(side_of(self.pool, "candidate", plan)) as side:
            side.send_plan(worker, self.reference.state, Op.BIND)
            worker.answer(self.pool.task.timing.call_timeout_s, "taking other shapes")
            tried = self._try_each(side, inputs, compiles=True)
        if tried < len(inputs):
            # The one before comes again: a cache of the last result shows with the next input.
            self._put_off.append(replace(group, inputs=inputs[max(0, tried - 1) :]))

    @property
    def _is_due(self) -> bool:
        """Whether the time of a brief verification is spent."""
        return self.brief and self.allowance.spent_s > BRIEF_S

    def _try_each(
        self, side: Side, inputs: Sequence[VerificationInput], *, compiles: bool = False
    ) -> int:
        """Call the candidate on each input; compare each result during the next call.

        With every configuration that a tuner may take, until half of the time for all calls is
        spent, and then with one after the other. Return the number of inputs that were tried.
        """
        returned: Returned | None = None
        tried = turn = 0
        for given in inputs:
            if self._names_inputs and self._is_due:
                break
            tried += 1
            made = 0
            while not made or (made < self._configurations and self.allowance.is_half_left):
                with self._named(given):
                    self._begin(side, given, turn)
                if returned is not None:
                    self._compare(returned)
                with self._named(given), self.allowance.call():
                    returned = self._finish(side, given, compiles=compiles)
                made, turn = made + 1, (turn + 1) % self._configurations
            self._done += 1
            self.stage("verify", self._done, self._count)
        if returned is not None:
            self._compare(returned)
        return tried

    def _counts(self, given: VerificationInput) -> bool:
        """Return whether the candidate must be right on an input."""
        return not given.special or self._rules.values == "any"

    def _begin(self, side: Side, given: VerificationInput, configuration: int = 0) -> None:
        """Start a call of the candidate, without waiting for it."""
        self._uncounted = None if self._counts(given) else given
        side.begin(given.draw, given.item, configuration)

    def _finish(self, side: Side, given: VerificationInput, *, compiles: bool) -> Returned:
        """Wait for the call, with time for a compiler if it `compiles`.

        The results are valid until the results of another call are read.
        """
        limits = self.pool.task.timing
        compile_s = limits.build_timeout_s if compiles else 0.0
        count = side.finish(limits.call_timeout_s, compile_s=compile_s)
        self._configurations = max(self._configurations, count)
        return side.returned(given)

    def _compare(self, returned: Returned) -> None:
        """Raise ChildFailed if results do not match, or arguments were changed."""
        given = returned.given
        self._called.append(given)
        found = given.compare(returned.results)
        if not self._counts(given) and (found.message or not returned.kept_arguments):
            self.errors.note(given, f"{found.message or CHANGED_INPUTS} (inputs: {given.name})")
            return
        self.errors.add(given.name, found)
        with self._named(given):
            if found.message:
                message = self._explained(given, returned.results, found) + returned.told
                raise ChildFailed(FailureKind.WRONG, message, found.detail)
            if not returned.kept_arguments:
                raise ChildFailed(FailureKind.WRONG, CHANGED_INPUTS)
        if self.outputs is not None and given.draw is self._ordinary:
            layout = given.draw.description.outputs
            layouts.store(layout, returned.results, self.outputs.map, given.item * layout.size)

    def _explained(
        self, given: VerificationInput, results: Sequence[torch.Tensor], found: Comparison
    ) -> str:
        """Return the message for wrong results, with their cause where it can be told."""
        message = found.message
        if given.special and found.strange:
            return f'{message}; with values = "finite" under [correctness] it would not count'
        if stale := self._stale(given, results, message):
            return stale
        if given.strided:
            return f"the kernel is right for contiguous inputs only, it ignores strides: {message}"
        if self._remark:
            return f"{message}; {self._remark}"
        return message

    def _stale(
        self, given: VerificationInput, results: Sequence[torch.Tensor], message: str
    ) -> str:
        """Return the message for results that are right for another input, or "".

        A task's own check is not asked again for each input.
        """
        if given.draw.check is not None:
            return ""
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
        # The order of a sum may depend on the number of threads.
        threads = self.pool.task.timing.threads
        threads = max(2, threads) if builds and not self._rules.deterministic else threads
        guard = self.pool.task.guard
        plan = msgspec.structs.replace(
            self.plan,
            poisoned=builds,
            threads=threads,
            watched=guard.kernel_must_do_the_work and guard.level != "warn" and not builds,
        )
        side = side_of(self.pool, "candidate", plan)
        child = self.pool.child(self.plan.files, builds=builds)
        with contextlib.closing(side), child as worker:
            self.sandbox = worker.sandbox
            start, waited_s = time.monotonic(), worker.cpu_wait_s()
            side.send_plan(worker, self.reference.state)
            self._remark = side.remark(self.pool.await_load(worker))
            self.load_s = time.monotonic() - start - (worker.cpu_wait_s() - waited_s)
            usable = processors()
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
            known = self.reference.description.shapes
            if failed.kind is FailureKind.CALL and given.draw.description.shapes != known:
                message = f"{message}; {OTHER_SHAPE}"
            raise failed.saying(message) from failed
