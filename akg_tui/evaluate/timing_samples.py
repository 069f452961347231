"""Times a candidate against a baseline, call by call, in pairs of fresh processes (clusters).

Owns the order of calls, the choice of results to check, and how results are read out of a
kernel's memory. The clock is the judge's. A kernel is stopped between its calls, and gets an input
only when its clock starts, so it can do nothing for a later call.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
import random
import statistics
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field

import msgspec
import numpy as np
import torch

from akg_tui.core.measurement import FailureKind
from akg_tui.evaluate import correctness
from akg_tui.evaluate.child import tensor_layout as layouts
from akg_tui.evaluate.child.kernel_server import CHANGED_RESULTS
from akg_tui.evaluate.child.protocol import REPORT_BYTES, Layout, Op, Plan, TensorSlot
from akg_tui.evaluate.correctness import Bound
from akg_tui.evaluate.processes import process_watch
from akg_tui.evaluate.processes.child_pool import ChildPool, blamed_on
from akg_tui.evaluate.processes.shared_memory import SharedMemory, SharedMemoryPool
from akg_tui.evaluate.processes.worker import ChildFailed, TimedCall, Worker
from akg_tui.evaluate.reference import Draw
from akg_tui.evaluate.statistics import HOPELESS_CLUSTERS
from akg_tui.evaluate.targets.cpu import processors
from akg_tui.evaluate.verification_inputs import VerificationInput

PAIRS = 11
PAIRS_LEAST = 3
PAIRS_MOST = 40
SAMPLED_S = 0.044
"""The approximate time for the calls of a cluster, in seconds, if `PAIRS` pairs take less."""

CLUSTER_S = 0.25
"""The most time for the calls of a cluster, in seconds, if more than `PAIRS_LEAST` pairs fit."""

AROUND_A_CALL_S = 1e-4
"""The approximate time between two calls: filling in an input, stopping, checking."""

WARMUPS = 2
WARMUPS_MOST = 8
WARMING = 0.03
"""A process is warm once a call is faster than the best earlier call by less than this."""

SPARE_TURNS = 8
"""Turns that are drawn beyond a cluster's warm-ups and pairs, to take disturbed calls again."""

DISTURBED_S = 3e-5
DISTURBED = 0.03
"""A call that waited longer for a CPU, in seconds and as a share of the call, is taken again."""

WAITING_FACTOR = 2
WAITING_MORE = 2
"""Disturbed calls do not count, unless the candidate has more than this multiple of those of the
baseline, and this many besides."""

POOL_BYTES = 256 << 20
RETURNED_BYTES = 32 << 20
"""The bytes of returned results that are kept for comparison after a cluster."""

CHECKED = 0.125
"""The share of calls whose results are checked, beside one that always is."""

HELD_MOST = 6
HELD_BYTES = 32 << 20
HELD_SHARE = 1 / 8
HELD_FROM = 3
"""Results of earlier calls that a process must keep, at most; their bytes, if there are several;
the largest, as a share of the memory that a kernel may use; and the first call of which it is
checked that it did (a kernel with one buffer for its results is found by then)."""

HELD_PARTS = 64
HELD_PART_BYTES = 4096
"""Of a result that is larger than `HELD_BYTES` these parts are compared later."""

OVERWRITTEN = 64
OVERWRITTEN_BYTES = 64
"""The runs of a result that the judge overwrites before its process may release it. A kernel that
uses the memory again, and counts on a part that it wrote for an earlier result, is wrong then."""

GLIMPSES = 8
GLIMPSE_BYTES = 64

IDLE_EVERY = 3
IDLE_KEPT = 45
"""The turns between calls of the idle process, and how many of its last times count."""

LATE_S = 2e-5
"""A call after which a process used more CPU time than this, in seconds, beyond that of the idle
process, ends when it was stopped."""

FIXED_SHARE = 0.5
"""The largest share of a call that is subtracted as fixed cost."""

DECOYS = 3
PAIRS_A_DECOY = 4
FIRST_CLUSTERS = HOPELESS_CLUSTERS[0]
Decoy = tuple[VerificationInput, ...]
"""Verification inputs of one or two calls in a row, at random turns of a cluster; their results are
checked, and their time does not count. There are at least `DECOYS`, and one for each
`PAIRS_A_DECOY` pairs; in each of the `FIRST_CLUSTERS` before a verdict there is one, because a
kernel that is slower is dismissed after them, and gains nothing by a wrong result."""

CHANGED_INPUTS = "the kernel changed its inputs"
LATE_RESULTS = "the kernel went on writing its result after it had returned"


def cluster_size(
    baseline_s: float,
    candidate_s: float,
    item_bytes: int,
    *,
    share: float = 1.0,
    around_s: float = AROUND_A_CALL_S,
) -> tuple[int, int]:
    """Return the pairs of calls that count in a cluster, and the turns to draw inputs for.

    Both lie within bounds of time, and of memory, of which the inputs may take a `share`. The
    further turns are for warming up, and for taking disturbed calls again. Beside a call pass
    `around_s` seconds.
    """
    pair_s = baseline_s + candidate_s + 2 * around_s
    items = int(share * POOL_BYTES) // max(item_bytes, 1)
    wanted = min(max(PAIRS, int(SAMPLED_S / pair_s)), PAIRS_MOST)
    pairs = max(PAIRS_LEAST, min(wanted, int(CLUSTER_S / pair_s), items - WARMUPS))
    return pairs, pairs + max(WARMUPS, min(WARMUPS_MOST + SPARE_TURNS, items - pairs))


class Side:
    """One of the kernels that are called: its plan, and memory for its arguments.

    `fault` is the kind of error for a failure of this side: None for the candidate, whose failure
    is the result of the evaluation.
    """

    fixed_share = FIXED_SHARE
    cold_calls = 0
    """The first calls of a process whose fixed cost is another one."""

    keeps_results = True
    """Whether results of earlier calls must stay as they were, in memory that the judge reads."""

    def __init__(self, name: str, plan: Plan, fault: FailureKind | None = None) -> None:
        if plan.inputs is None or plan.outputs is None:
            raise ValueError("a plan without arguments can't be called")
        self.name = name
        self.plan = plan
        self._fault = fault
        self._outputs = plan.outputs
        self._results = Results(plan.outputs, plan.strides)
        self._report = SharedMemory(REPORT_BYTES if plan.kind == "reference" else 0)
        self._inputs = SharedMemory(plan.inputs.size)
        self._addresses = SharedMemory(layouts.address_format(plan.outputs).size)
        self.worker: Worker
        """The child that got the plan."""

    def blamed(self) -> contextlib.AbstractContextManager[None]:
        """Attribute a failure inside the block to this side."""
        return blamed_on(self._fault, self.name) if self._fault else contextlib.nullcontext()

    def send_plan(self, worker: Worker, state: SharedMemory, op: Op = Op.LOAD) -> None:
        """Send the plan to a child, without waiting for it to be loaded."""
        self.worker = worker
        worker.send_content(op, self.plan, self._report, state, self._inputs, self._addresses)

    def fill(self, draw: Draw, item: int) -> None:
        """Copy an item's arguments to where the child reads them.

        A kernel's process must not run between getting an input and the start of its clock.
        """
        self._inputs.bytes[: draw.description.inputs.size] = draw.input_bytes(item)

    def begin(self, draw: Draw, item: int) -> None:
        """Start a call on an item, without waiting for it."""
        self.fill(draw, item)
        self.worker.send(Op.CALL)

    def finish(self, timeout_s: float, *, compile_s: float = 0.0) -> None:
        """Wait for a call that was begun; see `Worker.answer`."""
        self.worker.answer(timeout_s, "being called", compile_s=compile_s)
        self.worker.await_stop()

    def check_calls(self, fixed_s: float) -> None:
        """Check what the child said of the calls since the last check: nothing, on the host."""

    def kept_arguments(self, draw: Draw, item: int) -> bool:
        """Return whether the last call, whose results were read, left its arguments unchanged."""
        size = draw.description.inputs.size
        # As words: every item is whole words.
        ours, theirs = self._inputs.bytes[:size], draw.input_bytes(item)
        return np.array_equal(ours.view(np.uint64), theirs.view(np.uint64))

    def results(self) -> list[torch.Tensor]:
        """Return the results of the stopped child's last call, valid until the next reading.

        Their shapes and dtypes are the reference's.
        """
        return self._results.read(self.worker, self._addresses)

    def places(self) -> list[tuple[int, int]]:
        """Return the address and the size of each result of the last call."""
        return self._results.places(self._addresses)

    def parts(self, rng: random.Random) -> list[tuple[int, bytes]]:
        """Return what must stay of the results that `results` read last, each with its address."""
        return self._results.parts(self._addresses, rng)

    def timed_call(self, timeout_s: float, *, held: int = 0, pinned: int = 0) -> TimedCall:
        """Call the kernel on the item of the last `fill`; the child is stopped afterwards.

        See `Worker.timed_call`.
        """
        return self.worker.timed_call(timeout_s, held=held, pinned=pinned)

    def watched_call(
        self, timeout_s: float, *, rng: random.Random, held: int, pinned: int
    ) -> TimedCall:
        """Like `timed_call`, for a call whose results are checked.

        Parts of the results are read at random places as soon as the child answers. A kernel that
        answers early, and goes on inside a system call until it stops, can't know these places.

        Raises
        ------
        ChildFailed
            A part, or the place of a result, changed between the answer and the stop.
        """
        places: list[tuple[int, int]] = []
        seen: list[tuple[int, bytearray]] = []

        def glimpse() -> None:
            places.extend(self.places())
            for address, size in places:
                for _ in range(GLIMPSES if size else 0):
                    part = bytearray(min(GLIMPSE_BYTES, size))
                    at = address + rng.randrange(size - len(part) + 1)
                    # An address that can't be read fails when the whole result is read.
                    with contextlib.suppress(ChildFailed):
                        self.worker.copy_out(at, memoryview(part))
                        seen.append((at, part))

        call = self.worker.timed_call(timeout_s, held=held, pinned=pinned, at_answer=glimpse)
        if places != self.places():
            raise ChildFailed(FailureKind.WRONG, LATE_RESULTS)
        for at, part in seen:
            now = bytearray(len(part))
            self.worker.copy_out(at, memoryview(now))
            if now != part:
                raise ChildFailed(FailureKind.WRONG, LATE_RESULTS)
        return call

    def move(self, memory_pool: SharedMemoryPool) -> None:
        """Replace the memory, because its addresses can favour one side."""
        self.close()
        # A new process must not read data that the last process left in these blocks.
        self._report = SharedMemory(self._report.size)
        self._addresses = SharedMemory(self._addresses.size)
        self._inputs = memory_pool.take(self._inputs.size)

    def close(self) -> None:
        """Free the memory."""
        for block in (self._report, self._inputs, self._addresses):
            block.close()


@contextlib.contextmanager
def pinned(workers: Sequence[Worker], cpus: Sequence[int]) -> Iterator[None]:
    """Pin children to `cpus`, and move the judge to other CPUs if there are any.

    A judge that wakes on the CPU of the kernel that answered would wait for it or delay it.
    """
    usable = processors()
    for worker in workers:
        worker.pin(cpus)
    try:
        if others := set(usable) - set(cpus):
            _move_judge(others)
        yield
    finally:
        _move_judge(usable)


def _move_judge(cpus: Collection[int]) -> None:
    """Move the judge with the threads that compare and seal, some of which may still spin."""
    for thread in process_watch.threads(os.getpid()):
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread), cpus)


@dataclass(frozen=True)
class Returned:
    """Results of a timed call, for comparison while no call is timed."""

    side: Side
    results: list[torch.Tensor]
    item: int
    kept_arguments: bool
    decoy: VerificationInput | None = None


@dataclass(frozen=True)
class Kept:
    """Results that a process must keep: the number of their call, and parts by address."""

    number: int
    parts: list[tuple[int, bytes]]


@dataclass
class RunningSide:
    """A side in one cluster: the items not yet used, and its calls so far.

    From turn `due`, the next call with a known result is checked. Of the results that the process
    must keep, those of call `pinned` stay until the cluster ends. `spoils`: whether the others are
    overwritten with random bytes before the process may release them.
    """

    side: Side
    due: int
    items: list[int]
    held: int
    pinned: int
    spoils: bool
    calls: int = 0
    timed: list[TimedCall] = field(default_factory=list)
    kept: deque[Kept] = field(default_factory=deque)

    def kept_results(self, rng: random.Random, *, ended: bool = False) -> bool:
        """Return whether results that the process may release now are what they were.

        Then they are overwritten at random places, as their owner might do. Without `spoils` the
        bytes stay the same, so that both sides take as long.
        """
        released: list[Kept] = []
        staying = deque[Kept]()
        for each in self.kept:
            if not ended and (each.number == self.pinned or each.number > self.calls - self.held):
                staying.append(each)
                continue
            for address, content in each.parts:
                now = bytearray(len(content))
                self.side.worker.copy_out(address, memoryview(now))
                if now != content:
                    return False
            released.append(each)
        self.kept = staying
        # After all comparisons: a kernel may return two views of one memory.
        for each in released if self.held and not ended else ():
            self._overwrite(each, rng)
        return True

    def _overwrite(self, kept: Kept, rng: random.Random) -> None:
        parts = [(address, content) for address, content in kept.parts if content]
        sizes = [len(content) for _, content in parts]
        for address, content in rng.choices(parts, sizes, k=OVERWRITTEN) if parts else ():
            length = min(OVERWRITTEN_BYTES, len(content))
            at = rng.randrange(len(content) - length + 1)
            spoiled = rng.randbytes(length)
            part = spoiled if self.spoils else content[at : at + length]
            self.side.worker.overwrite(address + at, part)


@dataclass(frozen=True)
class Cluster:
    """The measurement of one pair of processes."""

    log_ratio: float
    pairs: int
    baseline_s: float
    candidate_s: float
    """Median times of a call in seconds, fixed cost subtracted."""

    cpu_wait_s: float
    """Seconds that the two processes and the judge waited for a CPU in the timed calls."""


@dataclass
class Memory:
    """Sizes that the judge carries from one comparison to the next; results are never carried.

    `call_s`: by a case's name and a baseline's text, the approximate seconds of a call.
    """

    call_s: dict[tuple[str, str | None], float] = field(default_factory=dict)


class IdleProcess:
    """A process of ours that returns results made beforehand: it shows a call's fixed cost.

    It is called between the two kernels, on the same CPUs, so its caches are as cold as theirs.
    """

    def __init__(self, side: Side, draw: Draw) -> None:
        self.side = side
        self._draw = draw
        self._cold = side.cold_calls
        self._calls: deque[TimedCall] = deque(maxlen=IDLE_KEPT)
        self._disturbed: deque[TimedCall] = deque(maxlen=IDLE_KEPT)

    def wake(self, timeout_s: float, side: Side, draw: Draw, item: int) -> None:
        """Run while the judge fills in an item's arguments for the next call of `side`.

        Otherwise the CPUs may sleep, and the code around a call may be in no cache. Not the
        kernel's own process runs: it could prepare its next call beside the clock.
        """
        with self.side.blamed():
            self.side.worker.wake(timeout_s, lambda: side.fill(draw, item))

    def call(self, timeout_s: float) -> None:
        """Add a time."""
        self.wake(timeout_s, self.side, self._draw, 0)
        with self.side.blamed():
            for _ in range(self._cold):
                self.side.timed_call(timeout_s)
            self._cold = 0
            call = self.side.timed_call(timeout_s)
        (self._disturbed if is_disturbed(call) else self._calls).append(call)

    @property
    def fixed_s(self) -> float:
        """The fixed cost of a call in seconds; without its waits, if every call was disturbed."""
        if not self._calls:
            quiet = [max(0.0, call.seconds - call.waited_s) for call in self._disturbed]
            return statistics.median(quiet) if quiet else 0.0
        return self._median(lambda call: call.seconds)

    @property
    def fixed_late_s(self) -> float:
        """The CPU time after the answer of a call that does nothing, in seconds."""
        return self._median(lambda call: call.late_s)

    def _median(self, figure: Callable[[TimedCall], float]) -> float:
        return statistics.median(map(figure, self._calls)) if self._calls else 0.0


def is_disturbed(call: TimedCall) -> bool:
    """Return whether a call waited too long for a CPU to say anything of a kernel."""
    return call.waited_s > max(DISTURBED_S, DISTURBED * call.seconds)


def counted(pairs: Sequence[tuple[TimedCall, TimedCall]]) -> Sequence[tuple[TimedCall, TimedCall]]:
    """Return the pairs of calls, of the baseline and of the candidate, that no waiting disturbed.

    All pairs count if few are left, or if the candidate's calls waited far more often: a kernel
    could have its slow calls wait, so that they are left out.
    """
    theirs, ours = (sum(map(is_disturbed, side)) for side in zip(*pairs, strict=True))
    steady = [pair for pair in pairs if not any(map(is_disturbed, pair))]
    few = len(steady) < PAIRS_LEAST or ours > WAITING_FACTOR * theirs + WAITING_MORE
    return pairs if few else steady


@dataclass
class ClusterRunner:
    """Runs clusters of a candidate and a baseline on one draw of inputs.

    `state` holds the weights; `pairs` pairs of calls make a cluster, fewer if there are not enough
    inputs. `strict`: check every call whose result is known. `decoys`: inputs for calls whose
    results are checked and whose time does not count.
    """

    pool: ChildPool
    draw: Draw
    held: Sequence[Bound]
    _: KW_ONLY
    baseline: Side
    candidate: Side
    idle: IdleProcess
    state: SharedMemory
    pairs: int
    strict: bool
    rng: random.Random
    memory_pool: SharedMemoryPool
    decoys: Sequence[Decoy] = ()
    sampled_s: float = 0.0

    def __post_init__(self) -> None:
        self.held = correctness.loosened(self.held)
        self.pairs = max(1, min(self.pairs, self.draw.count - WARMUPS))
        self._warmups = min(WARMUPS_MOST, self.draw.count - self.pairs)
        self._returned: list[Returned] = []
        self._clusters = 0
        """The clusters that have ended."""

    def run_cluster(self) -> Cluster:
        """Fork both sides, time them in random order, and return the measurement."""
        sides = [self.baseline, self.candidate]
        self.rng.shuffle(sides)
        for side in sides:
            side.move(self.memory_pool)
        held = self._held_results()
        with self.pool.children([side.plan.source for side in sides]) as children:
            # Both load in parallel; afterwards one runs at a time.
            for side, worker in zip(sides, children, strict=True):
                with side.blamed():
                    side.send_plan(worker, self.state)
            both = [self._running(side, held) for side in sides]
            for side in sides:
                with side.blamed():
                    self.pool.await_load(side.worker)
                    side.worker.await_stop()
            self.pool.await_idle()
            with pinned([*children, self.idle.side.worker], self._cpus()):
                warm = self._time_pairs(both)
                for each in both:
                    with each.side.blamed():
                        each.side.worker.check_stopped()
                        self._check_kept(each, ended=True)
                        each.side.check_calls(self.idle.fixed_s)
        # Compared while the two processes end, which the next pair has to await in any case.
        self._compare()
        candidate, baseline = sorted(both, key=lambda each: each.side is self.baseline)
        self._clusters += 1
        return self._summary(baseline, candidate, warm)

    def _running(self, side: Side, held: int) -> RunningSide:
        # A kernel can't tell which of its results stays to the end.
        pinned = self.rng.randrange(HELD_FROM, HELD_FROM + max(1, self.pairs // 2)) if held else 0
        due = 0 if self.strict else self.rng.randrange(WARMUPS + self.pairs)
        # A reference may return a part of a weight.
        spoils = side is self.candidate
        return RunningSide(side, due, self._order(), held, pinned, spoils)

    def _held_results(self) -> int:
        """Return how many results each process keeps; equal for both, because it takes time."""
        size = self.draw.description.outputs.size
        if not self.candidate.keeps_results or size > HELD_SHARE * self.pool.memory_bytes:
            return 0
        return self.rng.randint(1, max(1, min(HELD_MOST, HELD_BYTES // max(size, 1))))

    def _time_pairs(self, both: list[RunningSide]) -> int:
        """Time both sides in turns; return how many of their calls warmed up.

        A pair with a disturbed call is followed by another one, as long as there are inputs.
        """
        turn = warm = pairs = 0
        turns = self.draw.count
        decoys = self._drawn_decoys()
        while turn < turns and pairs < self.pairs:
            if turn % IDLE_EVERY == 0:
                self.idle.call(self._timeout_s)
            if decoys and self.rng.random() < len(decoys) / max(self.pairs - pairs, 1):
                self._call_decoy(both, decoys.pop())
            self._take_turn(both, turn)
            turn += 1
            if turn == warm + 1 and warm < self._warmups and _is_warming(both, turn):
                warm = turn
                # The checked call is one that counts, for any length of the warm-up.
                for each in both:
                    each.due = 0 if self.strict else turn + self.rng.randrange(self.pairs)
                continue
            pairs += not any(is_disturbed(each.timed[-1]) for each in both)
        return warm

    def _take_turn(self, both: list[RunningSide], turn: int) -> None:
        """Time a call of each side, on an item not used before.

        Of checked calls the results are compared with the expected values, and the arguments with
        what they were. Nothing shows in advance that a call is checked.
        """
        self.rng.shuffle(both)
        for each in both:
            side, item = each.side, each.items.pop()
            known = item < self.draw.checkable
            checked = known and (turn >= each.due or self.rng.random() < CHECKED)
            if checked and turn >= each.due and not self.strict:
                each.due = self.draw.count
            with side.blamed():
                each.timed.append(self._call(each, self.draw, item, checked=checked))
                if checked:
                    self._returned.append(self._read_results(each, self.draw, item))
                elif each.calls == each.pinned:
                    side.results()
                if each.calls >= HELD_FROM and (checked or each.calls == each.pinned):
                    # Read a moment ago.
                    each.kept.append(Kept(each.calls, side.parts(self.rng)))
            self.sampled_s += each.timed[-1].seconds
        self._compare(above=RETURNED_BYTES)

    def _call(self, each: RunningSide, draw: Draw, item: int, *, checked: bool) -> TimedCall:
        side, held = each.side, each.held
        self._check_kept(each)
        each.calls += 1
        self.idle.wake(self._timeout_s, side, draw, item)
        pinned, timeout_s = each.pinned, self._timeout_s
        if checked:
            return side.watched_call(timeout_s, rng=self.rng, held=held, pinned=pinned)
        return side.timed_call(timeout_s, held=held, pinned=pinned)

    def _call_decoy(self, both: Sequence[RunningSide], decoy: Decoy) -> None:
        """Call both sides on verification inputs; compare the candidate's results."""
        for each, given in itertools.product(both, decoy):
            with each.side.blamed():
                self._call(each, given.draw, given.item, checked=True)
                if each.side is self.candidate:
                    returned = self._read_results(each, given.draw, given.item)
                    self._returned.append(dataclasses.replace(returned, decoy=given))

    def _drawn_decoys(self) -> list[Decoy]:
        """Return random decoys, some of them several times; at least half have unusual values."""
        first = self._clusters < FIRST_CLUSTERS and not self.strict
        count = 1 if first else max(DECOYS, self.pairs // PAIRS_A_DECOY)
        altered = [decoy for decoy in self.decoys if decoy[-1].altered]
        unusual = [decoy for decoy in self.decoys if not decoy[-1].altered]
        drawn = self.rng.choices(altered, k=count // 2 if unusual else count) if altered else []
        if unusual:
            drawn += self.rng.choices(unusual, k=count - len(drawn))
        self.rng.shuffle(drawn)
        return drawn

    def _read_results(self, each: RunningSide, draw: Draw, item: int) -> Returned:
        """Read the results of the last call, for a comparison while no call is timed."""
        side = each.side
        ours = [tensor.clone() for tensor in side.results()]
        return Returned(side, ours, item, side.kept_arguments(draw, item))

    def _check_kept(self, each: RunningSide, *, ended: bool = False) -> None:
        if not each.kept_results(self.rng, ended=ended):
            # A result that was wrong from the beginning is called wrong.
            self._compare()
            raise ChildFailed(FailureKind.WRONG, CHANGED_RESULTS)

    def _compare(self, *, above: int = 0) -> None:
        """Compare the results kept since the last call, if they exceed `above` bytes."""
        if sum(tensor.nbytes for each in self._returned for tensor in each.results) <= above:
            return
        returned, self._returned = self._returned, []
        for each in returned:
            with each.side.blamed():
                if each.decoy is None:
                    expected = self.draw.results(each.item)
                    alternatives = self.draw.alternatives(each.item)
                    found = correctness.compare(
                        each.results, expected, None, self.held, alternatives
                    )
                else:
                    found = each.decoy.compare(each.results)
                if found.message:
                    message = f"{found.message} (in a timed call)"
                    if each.decoy is not None:
                        message = f"{message} (inputs: {each.decoy.name})"
                    raise ChildFailed(FailureKind.WRONG, message, found.detail)
                if not each.kept_arguments:
                    raise ChildFailed(FailureKind.WRONG, CHANGED_INPUTS)

    def _summary(self, baseline: RunningSide, candidate: RunningSide, warm: int) -> Cluster:
        pairs = list(zip(baseline.timed[warm:], candidate.timed[warm:], strict=True))
        net = [(self._net_s(theirs), self._net_s(ours)) for theirs, ours in counted(pairs)]
        return Cluster(
            statistics.median(math.log(theirs / ours) for theirs, ours in net),
            len(net),
            statistics.median(theirs for theirs, _ in net),
            statistics.median(ours for _, ours in net),
            sum(call.waited_s for call in itertools.chain(baseline.timed, candidate.timed)),
        )

    def _net_s(self, call: TimedCall) -> float:
        """Return the seconds of a call without the fixed cost.

        CPU time after the answer is added for a kernel with one thread. A call with more of it ends
        with the stop: on a busy machine work takes longer than its CPU time. (Several threads wait
        for each other in loops, which takes CPU time after an answer too.)
        """
        late_s = max(0.0, call.late_s - self.idle.fixed_late_s)
        if self.pool.task.timing.threads > 1:
            late_s = 0.0
        until_s = call.stopped_s if late_s > LATE_S else call.seconds + late_s
        return until_s - min(self.idle.fixed_s, self.candidate.fixed_share * until_s)

    def _order(self) -> list[int]:
        """Return the items in reversed order of use, in random order."""
        items = list(range(self.draw.count))
        self.rng.shuffle(items)
        return items

    def _cpus(self) -> list[int]:
        """Return random CPUs, shared by both sides and chosen anew for each cluster."""
        usable = processors()
        return self.rng.sample(usable, min(self.pool.task.timing.threads, len(usable)))

    @property
    def _timeout_s(self) -> float:
        return self.pool.task.timing.call_timeout_s


def _is_warming(both: Sequence[RunningSide], turn: int) -> bool:
    """Return whether a side still becomes faster from call to call, after `turn` calls."""
    return turn <= WARMUPS or any(
        each.timed[-1].seconds < (1 - WARMING) * min(call.seconds for call in each.timed[:-1])
        for each in both
    )


class Results:
    """Reads the results of one side, one call at a time, into one buffer.

    `strides` has the worst stride class allowed for each result; empty: any without gaps.
    """

    def __init__(self, outputs: Layout, strides: Sequence[str] = ()) -> None:
        self._outputs = outputs
        self._worst = strides or (layouts.STRIDE_CLASSES[-1],) * len(outputs.tensors)
        self._address_format = layouts.address_format(outputs)
        self._read = np.empty(max(outputs.size, 1), dtype=np.uint8)

    def read(self, worker: Worker, addresses: SharedMemory) -> list[torch.Tensor]:
        """Return the last call's results from a stopped process, valid until the next reading.

        Raises
        ------
        ChildFailed
            The address can't be read, the strides have gaps or overlaps, or the stride class is
            worse than allowed (the check in a kernel's own process can't be trusted).
        """
        claimed = iter(self._claimed(addresses))
        found: list[torch.Tensor] = []
        for index, tensor in enumerate(self._outputs.tensors):
            address, *strides = itertools.islice(claimed, 1 + len(tensor.shape))
            lying = self.lying(index, strides)
            worker.copy_out(address, self._read.data[tensor.offset :][: tensor.bytes])
            found.append(layouts.view(lying, self._read, 0))
        return found

    def lying(self, index: int, strides: Sequence[int]) -> TensorSlot:
        """Return where a result lies that has these strides, after their check."""
        tensor, worst = self._outputs.tensors[index], self._worst[index]
        if tensor.bytes and not layouts.is_dense(tensor.shape, strides):
            raise ChildFailed(FailureKind.WRONG, "a result has strides that have no meaning")
        if lies := layouts.worse_stride_class(tensor.shape, strides, worst):
            raise ChildFailed(FailureKind.WRONG, layouts.stride_complaint(index, lies, worst))
        # An axis of one element may have any stride.
        steps = zip(tensor.shape, strides, strict=True)
        known = tuple(stride if extent > 1 else 1 for extent, stride in steps)
        return msgspec.structs.replace(tensor, stride=known) if tensor.bytes else tensor

    def places(self, addresses: SharedMemory) -> list[tuple[int, int]]:
        """Return where the child says that the last call's results lie: address and bytes."""
        claimed = iter(self._claimed(addresses))
        found: list[tuple[int, int]] = []
        for tensor in self._outputs.tensors:
            address, *_ = itertools.islice(claimed, 1 + len(tensor.shape))
            found.append((address, tensor.bytes))
        return found

    def parts(self, addresses: SharedMemory, rng: random.Random) -> list[tuple[int, bytes]]:
        """Return the results that were read last, by address: of large ones random parts."""
        found: list[tuple[int, bytes]] = []
        places = self.places(addresses)
        for (address, size), tensor in zip(places, self._outputs.tensors, strict=True):
            if self._outputs.size <= HELD_BYTES:
                spans = [(0, size)]
            else:
                length = min(size, HELD_PART_BYTES)
                spans = [(rng.randrange(size - length + 1), length) for _ in range(HELD_PARTS)]
            for at, length in spans:
                part = self._read[tensor.offset + at :][:length]
                found.append((address + at, part.tobytes()))
        return found

    def _claimed(self, addresses: SharedMemory) -> tuple[int, ...]:
        return self._address_format.unpack_from(addresses.map, 0)
