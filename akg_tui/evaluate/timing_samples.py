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
from collections.abc import Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
import torch

from akg_tui.core.measurement import FailureKind
from akg_tui.dsl.interpretation import MOST_CONFIGURATIONS
from akg_tui.evaluate import correctness
from akg_tui.evaluate.correctness import Bound
from akg_tui.evaluate.processes.child_pool import ChildPool, blamed_on
from akg_tui.evaluate.processes.shared_memory import SharedMemory
from akg_tui.evaluate.processes.worker import ChildFailed, TimedCall, Worker
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.protocol.child_protocol import (
    REMARK_BYTES,
    REPORT_BYTES,
    Layout,
    Op,
    Plan,
    TensorSlot,
)
from akg_tui.evaluate.reference import Draw
from akg_tui.evaluate.sandbox import process_watch
from akg_tui.evaluate.targets.cpu import processors
from akg_tui.evaluate.verification_inputs import VerificationInput

PAIRS = 11
PAIRS_MOST = 40
CLUSTER_S = 0.05
"""The time for the calls of a cluster, in seconds, within these numbers of pairs."""

SLOWER = 1.5
"""A candidate whose calls take so many times as long as the baseline's gets `PAIRS`. It is
discarded, and more pairs would only say more exactly how slow it is."""

PAIRS_LEAST = 3
CLUSTER_MOST_S = 0.25
"""If `PAIRS` pairs would take more seconds, there are fewer, but not fewer than these."""

SLOW_S = 1.0
"""If `PAIRS_LEAST` pairs, the calls that warm up, or the spare turns would take more seconds, there
are fewer: long calls differ little within a process."""

AROUND_A_CALL_S = 1e-4
"""The approximate time between two calls: filling in an input, stopping, checking."""

WARMUPS = 3
"""The first calls of a process, which do not count."""

SPARE_TURNS = 8
"""Turns that are drawn beyond a cluster's warm-ups and pairs, to take disturbed calls again."""

DISTURBED_S = 3e-5
DISTURBED = 0.03
"""A call that waited longer for a CPU, in seconds and as a share of the call, is taken again."""

POOL_BYTES = 256 << 20
RETURNED_BYTES = 32 << 20
"""The bytes of returned results that are kept for comparison after a cluster."""

LEAST_SHARE = 0.01
"""The least share of a call that is counted without its waits for a CPU."""

CHECKED = 0.125
"""The share of calls whose results are checked, beside one that always is."""

BETWEEN = 1 / 32
"""The share of turns before which a decoy is called."""

TURNS_A_LAST = 10
"""A process ends with a decoy for so many turns, or for fewer where calls are slow."""

IDLE_EVERY = 3
"""The turns between calls of the idle process."""

Decoy = tuple[VerificationInput, ...]
"""Verification inputs of one or two calls in a row, between timed calls or after the last: their
results are checked, and their time does not count."""

CHANGED_INPUTS = "the kernel changed its inputs"


class Decoys:
    """Deals decoys of one comparison: unusual values, and altered inputs.

    Each kind comes once before one comes again, so a few processes see all.
    """

    def __init__(self, decoys: Sequence[Decoy], rng: random.Random) -> None:
        self._rng = rng
        by_kind: dict[object, list[Decoy]] = {}
        for decoy in decoys:
            last = decoy[-1]
            by_kind.setdefault(last.name if last.altered else last.kind, []).append(decoy)
        every = list(by_kind.values())
        # Unusual values are few among all verification inputs.
        families = (
            [kind for kind in every if kind[0][-1].altered],
            [kind for kind in every if not kind[0][-1].altered],
        )
        self._families = [family for family in families if family]
        self._decks: list[list[list[Decoy]]] = [[] for _ in self._families]
        self._next = rng.randrange(2)

    def __bool__(self) -> bool:
        return bool(self._families)

    def deal(self) -> Decoy:
        """Return a decoy, of the two families in turn."""
        self._next = (self._next + 1) % len(self._families)
        family, deck = self._families[self._next], self._decks[self._next]
        if not deck:
            deck += self._rng.sample(family, len(family))
        return self._rng.choice(deck.pop())


class ClusterSize(NamedTuple):
    """The turns of a cluster that warm up, those that count, and all that inputs are drawn for."""

    warmups: int
    pairs: int
    turns: int


def cluster_size(
    baseline_s: float,
    candidate_s: float,
    item_bytes: int,
    *,
    share: float = 1.0,
    around_s: float = AROUND_A_CALL_S,
) -> ClusterSize:
    """Return the turns of a cluster, each of which is a pair of calls.

    They lie within bounds of time, and of memory, of which the inputs may take a `share`. The
    turns beyond `warmups` and `pairs` are for taking disturbed calls again. Beside a call pass
    `around_s` seconds.
    """
    pair_s = baseline_s + candidate_s + 2 * around_s
    items = int(share * POOL_BYTES) // max(item_bytes, 1)
    fitting = max(1, int(SLOW_S / pair_s))
    least, warmups = min(PAIRS_LEAST, fitting), min(WARMUPS, fitting)
    wanted = min(max(PAIRS, int(CLUSTER_S / pair_s)), PAIRS_MOST)
    if candidate_s > SLOWER * baseline_s:
        wanted = PAIRS
    pairs = max(least, min(wanted, int(CLUSTER_MOST_S / pair_s), items - warmups))
    spare = max(0, min(SPARE_TURNS, int(SLOW_S / pair_s), items - pairs - warmups))
    return ClusterSize(warmups, pairs, warmups + pairs + spare)


@dataclass(frozen=True)
class Returned:
    """The result of a call on an input, to be compared while no call is timed."""

    given: VerificationInput
    results: list[torch.Tensor]
    kept_arguments: bool
    told: str
    """The configurations that tuners took, in words."""


class Side:
    """One of the kernels that are called: its plan, and memory for its arguments.

    `fault` is the kind of error for a failure of this side: None for the candidate, whose failure
    is the result of the evaluation.
    """

    fixed_share = 0.5
    """The largest share of a call that is subtracted as fixed cost."""

    cold_calls = 0
    """The first calls of a process whose fixed cost is another one."""

    def __init__(self, name: str, plan: Plan, fault: FailureKind | None = None) -> None:
        if plan.inputs is None or plan.outputs is None:
            raise ValueError("a plan without arguments can't be called")
        self.name = name
        self.plan = plan
        self._fault = fault
        self._outputs = plan.outputs
        self._results = Results(plan.outputs, plan.strides)
        self._report = SharedMemory(REPORT_BYTES if plan.kind == "reference" else REMARK_BYTES)
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

    def remark(self, size: int) -> str:
        """Return the remark of `size` bytes that a kernel's child wrote as it loaded the plan."""
        return bytes(self._report.map[: min(size, REMARK_BYTES)]).decode("utf-8", "replace")

    def fill(self, draw: Draw, item: int) -> None:
        """Copy an item's arguments to where the child reads them.

        A kernel's process must not run between getting an input and the start of its clock.
        """
        self._inputs.bytes[: draw.description.inputs.size] = draw.input_bytes(item)

    def begin(self, draw: Draw, item: int, configuration: int = 0) -> None:
        """Start a call on an item, without waiting for it."""
        self.fill(draw, item)
        self.worker.send(Op.CALL, count=configuration)

    def finish(self, timeout_s: float, *, compile_s: float = 0.0) -> int:
        """Wait for a call that was begun; see `Worker.answer`.

        Return how many configurations the kernel's tuners can take.
        """
        count = self.worker.answer(timeout_s, "being called", compile_s=compile_s)
        self.worker.await_stop()
        return min(count, MOST_CONFIGURATIONS)

    def check_calls(self) -> None:
        """Check what the child said of the calls since the last check: nothing, on the host."""

    def kept_arguments(self, draw: Draw, item: int) -> bool:
        """Return whether the last call, whose results were read, left its arguments unchanged.

        But for those that the reference changes.
        """
        known = draw.description
        theirs = draw.input_bytes(item)
        ours = self._inputs.bytes[: known.inputs.size]
        # As words: every item is whole words.
        return all(
            np.array_equal(ours[part].view(np.uint64), theirs[part].view(np.uint64))
            for part in layouts.without(known.inputs, known.contract.changed)
        )

    def returned(self, given: VerificationInput) -> Returned:
        """Return what the last call, on `given`, returned; valid until the next reading."""
        results = self.results()
        kept = self.kept_arguments(given.draw, given.item)
        return Returned(given, results, kept, self.worker.told)

    def results(self) -> list[torch.Tensor]:
        """Return the results of the stopped child's last call, valid until the next reading.

        Their shapes and dtypes are the reference's.
        """
        return self._results.read(self.worker, self._addresses)

    def timed_call(self, timeout_s: float) -> TimedCall:
        """Call the kernel on the item of the last `fill`; see `Worker.timed_call`."""
        return self.worker.timed_call(timeout_s)

    def move(self) -> None:
        """Replace the memory, because its addresses can favour one side."""
        self.close()
        # A new process must not read data that the last process left in these blocks.
        self._report = SharedMemory(self._report.size)
        self._addresses = SharedMemory(self._addresses.size)
        self._inputs = SharedMemory(self._inputs.size)
        self._inputs.allocate()

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


@dataclass
class RunningSide:
    """A side in one cluster: the items not yet used, and its timed calls so far.

    From turn `due`, the next call with a known result is checked.
    """

    side: Side
    due: int
    items: list[int]
    timed: list[TimedCall] = field(default_factory=list)


@dataclass(frozen=True)
class Cluster:
    """The measurement of one pair of processes."""

    log_ratio: float
    least_log_ratio: float
    most_log_ratio: float
    """The log ratio without the baseline's waits for a CPU, and without the candidate's."""

    pairs: int
    baseline_s: float
    candidate_s: float
    """Median times of a call in seconds, fixed cost subtracted."""

    cpu_wait_s: float
    """Seconds that the two processes and the judge waited for a CPU in the timed calls."""


class IdleProcess:
    """A process of ours that returns results made beforehand: it shows a call's fixed cost.

    It is called between the two kernels, on the same CPUs, so its caches are as cold as theirs.
    """

    def __init__(self, side: Side, draw: Draw) -> None:
        self.side = side
        self._draw = draw
        self._cold = side.cold_calls
        self._calls: list[TimedCall] = []

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
            self.side.worker.stop()  # as a kernel is, when its clock starts
            for _ in range(self._cold):
                self.side.timed_call(timeout_s)
            self._cold = 0
            self._calls.append(self.side.timed_call(timeout_s))

    @property
    def fixed_s(self) -> float:
        """The fixed cost of a call in seconds, without its waits for a CPU."""
        quiet = [max(0.0, call.seconds - call.waited_s) for call in self._calls]
        return statistics.median(quiet) if quiet else 0.0


def is_disturbed(call: TimedCall) -> bool:
    """Return whether a call waited too long for a CPU to say anything of a kernel."""
    return call.waited_s > max(DISTURBED_S, DISTURBED * call.seconds)


def counted(
    pairs: Sequence[tuple[TimedCall, TimedCall]], least: int = PAIRS_LEAST
) -> Sequence[tuple[TimedCall, TimedCall]]:
    """Return the pairs of calls that no waiting disturbed; all if fewer than `least` are left."""
    steady = [pair for pair in pairs if not any(map(is_disturbed, pair))]
    return steady if len(steady) >= least else pairs


@dataclass
class ClusterRunner:
    """Runs clusters of a baseline and a candidate, or rounds of more kernels, on a draw of inputs.

    `held` are the bounds of the candidate's results (empty: no result is looked at). `state` holds
    the weights. A cluster has fewer pairs than `size` says if there are not enough
    inputs. `strict`: check every call whose result is known. `decoys`: deals inputs for calls whose
    results are checked and whose time does not count.
    """

    pool: ChildPool
    draw: Draw
    held: Sequence[Bound]
    _: KW_ONLY
    sides: Sequence[Side]
    """The baseline and the candidate of a cluster; the kernels of a round."""

    idle: IdleProcess
    state: SharedMemory
    size: ClusterSize
    strict: bool
    rng: random.Random
    decoys: Decoys | None = None
    sampled_s: float = 0.0

    def __post_init__(self) -> None:
        self.held = correctness.loosened(self.held)
        self._returned: list[tuple[Side, Returned]] = []
        self.attended: Side | None = None
        """The side that failed, if one did."""

    def run_cluster(self) -> Cluster:
        """Time the baseline and the candidate, and return the measurement."""
        baseline, candidate = self.run_round()
        return self._summary(baseline, candidate)

    def run_round(self) -> list[RunningSide]:
        """Fork all sides, time them in random order, and return their calls."""
        self._warmups = self.size.warmups
        self._pairs = max(1, min(self.size.pairs, self.draw.count - self._warmups))
        sides = list(self.sides)
        self.rng.shuffle(sides)
        self._returned.clear()
        for side in sides:
            side.move()
        with self.pool.children([side.plan.files for side in sides]) as children:
            # Both load in parallel; afterwards one runs at a time.
            for side, worker in zip(sides, children, strict=True):
                with self._attending(side):
                    side.send_plan(worker, self.state)
            running = [self._running(side) for side in sides]
            for side in sides:
                with self._attending(side):
                    self.pool.await_load(side.worker)
                    side.worker.await_stop()
            self.pool.await_idle()
            workers = [*children, self.idle.side.worker]
            with self.pool.lease.held(), pinned(workers, self._cpus()):
                self._time_turns(running)
                for each in running:
                    with self._attending(each.side):
                        each.side.check_calls()
        # Compared while the two processes end, which the next pair has to await in any case.
        self._compare()
        return sorted(running, key=lambda each: self.sides.index(each.side))

    @contextlib.contextmanager
    def _attending(self, side: Side) -> Iterator[None]:
        """Attribute a failure inside the block to this side."""
        self.attended = side
        with side.blamed():
            yield

    def _running(self, side: Side) -> RunningSide:
        # The checked call is one that counts.
        due = 0 if self.strict else self._warmups + self.rng.randrange(self._pairs)
        return RunningSide(side, due, self._order())

    def _time_turns(self, running: list[RunningSide]) -> None:
        """Time the sides in turns.

        A turn with a disturbed call is followed by another one, as long as there are inputs.
        """
        pairs = turns = 0
        while pairs < self._pairs and turns < min(self.draw.count, self.size.turns):
            if turns % IDLE_EVERY == 0:
                self.idle.call(self._timeout_s)
            if self.decoys and self.rng.random() < BETWEEN:
                self._call_decoy(self.decoys.deal(), running)
            self._take_turn(running, turns)
            steady = not any(is_disturbed(each.timed[-1]) for each in running)
            pairs += turns >= self._warmups and steady
            turns += 1
        self._end(running, turns)

    def _end(self, running: Sequence[RunningSide], turns: int) -> None:
        """Call the candidate on decoys, after some timed `turns`.

        A kernel that takes less care after many calls can't know which is the last that is timed.
        """
        if not self.decoys:
            return
        candidate = [each for each in running if each.side is self.sides[-1]]
        for _ in range(max(turns // TURNS_A_LAST, int(turns > PAIRS_LEAST))):
            self._call_decoy(self.decoys.deal(), candidate)
            self._compare(above=RETURNED_BYTES)

    def _take_turn(self, running: list[RunningSide], turn: int) -> None:
        """Time a call of each side, on an item not used before.

        Of checked calls the results are compared with the expected values, and the arguments with
        what they were. Nothing shows in advance that a call is checked.
        """
        self.rng.shuffle(running)
        for each in running:
            side, item = each.side, each.items.pop()
            known = item < self.draw.checkable and bool(self.held)
            checked = known and (turn >= each.due or self.rng.random() < CHECKED)
            if checked and turn >= each.due and not self.strict:
                each.due = self.draw.count
            with self._attending(side):
                each.timed.append(self._call(side, self.draw, item))
                if checked:
                    given = VerificationInput("", self.draw, item, self.held)
                    self._keep_returned(side, given)
            self.sampled_s += each.timed[-1].seconds
        self._compare(above=RETURNED_BYTES)

    def _call(self, side: Side, draw: Draw, item: int) -> TimedCall:
        self.idle.wake(self._timeout_s, side, draw, item)
        return side.timed_call(self._timeout_s)

    def _call_decoy(self, decoy: Decoy, running: Sequence[RunningSide]) -> None:
        """Call sides on verification inputs; keep the candidate's results for comparison."""
        for each, given in itertools.product(running, decoy):
            side = each.side
            with self._attending(side):
                self._call(side, given.draw, given.item)
                if side is self.sides[-1]:
                    self._keep_returned(side, given)

    def _keep_returned(self, side: Side, given: VerificationInput) -> None:
        returned = side.returned(given)
        copied = [tensor.clone() for tensor in returned.results]
        self._returned.append((side, dataclasses.replace(returned, results=copied)))

    def _compare(self, *, above: int = 0) -> None:
        """Compare the results kept since the last call, if they exceed `above` bytes."""
        if sum(tensor.nbytes for _, each in self._returned for tensor in each.results) <= above:
            return
        returned, self._returned = self._returned, []
        for side, each in returned:
            with self._attending(side):
                found = each.given.compare(each.results)
                if found.message:
                    named = f" (inputs: {each.given.name})" if each.given.name else ""
                    message = f"{found.message} (in a timed call){named}"
                    raise ChildFailed(FailureKind.WRONG, message, found.detail)
                if not each.kept_arguments:
                    raise ChildFailed(FailureKind.WRONG, CHANGED_INPUTS)

    def log_seconds(self, running: RunningSide) -> float:
        """Return the logarithm of the median seconds of a call, the fixed cost subtracted."""
        timed, share = running.timed[self._warmups :], running.side.fixed_share
        quiet = [call.seconds for call in timed if not is_disturbed(call)]
        taken_s = statistics.median(quiet) if quiet else min(call.seconds for call in timed)
        return math.log(taken_s - min(self.idle.fixed_s, share * taken_s))

    def _summary(self, baseline: RunningSide, candidate: RunningSide) -> Cluster:
        fixed_s, share = self.idle.fixed_s, candidate.side.fixed_share

        def net_s(call: TimedCall) -> float:
            return call.seconds - min(fixed_s, share * call.seconds)

        def busy_s(call: TimedCall) -> float:
            return max(call.seconds - call.waited_s, LEAST_SHARE * call.seconds)

        timed = slice(self._warmups, None)
        every = list(zip(baseline.timed[timed], candidate.timed[timed], strict=True))
        pairs = counted(every, min(PAIRS_LEAST, self._pairs))
        net = [(net_s(theirs), net_s(ours)) for theirs, ours in pairs]
        return Cluster(
            statistics.median(math.log(theirs / ours) for theirs, ours in net),
            statistics.median(math.log(busy_s(theirs) / ours.seconds) for theirs, ours in pairs),
            statistics.median(math.log(theirs.seconds / busy_s(ours)) for theirs, ours in pairs),
            len(net),
            statistics.median(theirs for theirs, _ in net),
            statistics.median(ours for _, ours in net),
            sum(call.waited_s for call in itertools.chain(baseline.timed, candidate.timed)),
        )

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
        claimed = iter(self._address_format.unpack_from(addresses.map, 0))
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
