"""Times a candidate against a baseline, in pairs of fresh processes (clusters).

Owns the order of samples, the choice of results to check, and how results are read out of a
kernel's memory. The clock is the judge's.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from akg_tui.core.measurement import FailureKind
from akg_tui.evaluate import correctness
from akg_tui.evaluate.child import tensor_layout as layouts
from akg_tui.evaluate.child.protocol import REPORT_BYTES, Layout, Op, Plan
from akg_tui.evaluate.correctness import Bound
from akg_tui.evaluate.processes import process_watch
from akg_tui.evaluate.processes.child_pool import ChildPool, blamed_on
from akg_tui.evaluate.processes.shared_memory import SharedMemory, SharedMemoryPool
from akg_tui.evaluate.processes.worker import ChildFailed, Worker
from akg_tui.evaluate.reference import Draw
from akg_tui.evaluate.statistics import SingleCalls
from akg_tui.evaluate.targets.cpu import processors

SAMPLE_S = 0.002
CALLS_LIMIT = 64
PAIRS = 11
PAIRS_LEAST = 3
WARMUPS = 2
WARMUPS_MOST = 6
WARMING = 0.03
"""A process is warm once a sample is faster than the best earlier sample by less than this."""

CLUSTER_S = 0.25
"""The approximate time for the samples of one pair of processes, in seconds."""

POOL_BYTES = 256 << 20
RETURNED_BYTES = 32 << 20
"""The bytes of returned results that are kept for comparison after a cluster."""

SINGLE_CALLS = 7
"""Pairs of samples of a single call, if a sample has several calls: see `SingleCalls`."""

COLD_S = 1e-4
"""The extra seconds of any first call after a pause, because caches are cold; a larger share of a
faster kernel's time."""

FIXED_SAMPLES = 15
FIXED_SHARE = 0.5
FIXED_LASTS_S = 30.0
EQUAL_CALLS_UP_TO = 4.0
CHANGED_INPUTS = "the kernel changed its inputs"


def sample_sizes(
    baseline_s: float, candidate_s: float, item_bytes: int
) -> tuple[tuple[int, int], int]:
    """Return the calls in a sample of either side, and the sample pairs in a cluster.

    A sample is long enough to time, within the pool's bound. Both sides get the same number of
    calls if their times are near enough, because the number of inputs in a sample decides the
    share of them that a cache can hold.
    """
    seconds = (baseline_s, candidate_s)
    slow, fast = max(seconds), max(min(seconds), 1e-9)
    if slow / fast <= EQUAL_CALLS_UP_TO:
        seconds = (fast, fast)
    items = POOL_BYTES // max(item_bytes, 1)
    fitting = min(CALLS_LIMIT, items // (WARMUPS + PAIRS_LEAST))
    baseline, candidate = (
        max(1, min(math.ceil(SAMPLE_S / max(call_s, 1e-9)), fitting)) for call_s in seconds
    )
    pair_s = max(baseline_s * baseline + candidate_s * candidate, 1e-9)
    pairs = min(PAIRS, int(CLUSTER_S / pair_s), items // max(baseline, candidate) - WARMUPS_MOST)
    return (baseline, candidate), max(PAIRS_LEAST, pairs)


class Side:
    """One of the two kernels: its plan, the calls in a sample, and memory for their arguments.

    `fault` is the kind of error for a failure of this side: None for the candidate, whose failure
    is the result of the evaluation.
    """

    def __init__(
        self, name: str, plan: Plan, calls: int = 1, fault: FailureKind | None = None
    ) -> None:
        if plan.inputs is None or plan.outputs is None:
            raise ValueError("a plan without arguments can't be called")
        self.name = name
        self.plan = msgspec.structs.replace(plan, slots=calls)
        self.calls = calls
        self._fault = fault
        self._results = Results(plan.outputs, plan.strides)
        self._report = SharedMemory(REPORT_BYTES if plan.kind == "reference" else 0)
        self._inputs = SharedMemory(calls * plan.inputs.size)
        self._addresses = SharedMemory(calls * layouts.address_format(plan.outputs).size)
        self.worker: Worker
        """The child that got the plan."""

    def blamed(self) -> contextlib.AbstractContextManager[None]:
        """Attribute a failure inside the block to this side."""
        return blamed_on(self._fault, self.name) if self._fault else contextlib.nullcontext()

    def send_plan(self, worker: Worker, state: SharedMemory, op: Op = Op.LOAD) -> None:
        """Send the plan to a child, without waiting for it to be loaded."""
        self.worker = worker
        worker.send_content(op, self.plan, self._report, state, self._inputs, self._addresses)

    def fill(self, slot: int, draw: Draw, item: int) -> None:
        """Copy an item's arguments into a slot, while the child is stopped."""
        self._slot(slot, draw)[:] = draw.input_bytes(item)

    def kept_arguments(self, slot: int, draw: Draw, item: int) -> bool:
        """Return whether a call left its arguments unchanged."""
        return np.array_equal(self._slot(slot, draw), draw.input_bytes(item))

    def results(self, slot: int = 0) -> list[torch.Tensor]:
        """Return the results of a call of the stopped child, valid until the next reading.

        Their shapes and dtypes are the reference's.
        """
        return self._results.read(self.worker, self._addresses, slot)

    def timed_call(self, draw: Draw, items: Sequence[int], timeout_s: float) -> float:
        """Call the kernel on items, at most `timeout_s` each; return seconds with fixed cost.

        The child is stopped afterwards.
        """
        for slot, item in enumerate(items):
            self.fill(slot, draw, item)
        nanoseconds = self.worker.timed_call(len(items), len(items) * timeout_s)
        self.worker.await_stop()
        return nanoseconds / 1e9

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

    def _slot(self, slot: int, draw: Draw) -> NDArray[np.uint8]:
        size = draw.description.inputs.size
        return self._inputs.bytes[slot * size : (slot + 1) * size]


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
            os.sched_setaffinity(0, others)
        yield
    finally:
        os.sched_setaffinity(0, usable)


@dataclass(frozen=True)
class Returned:
    """Results of a timed call, for comparison while no call is timed."""

    side: Side
    results: list[torch.Tensor]
    item: int
    kept_arguments: bool


@dataclass
class RunningSide:
    """A side in one cluster: the items not yet used, and the times of its samples.

    From turn `due`, the next sample with a known result is checked.
    """

    side: Side
    due: int
    items: list[int]
    samples_s: list[float] = field(default_factory=list)
    single_calls_s: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Cluster:
    """The measurement of one pair of processes."""

    log_ratio: float
    pairs: int
    baseline_s: float
    candidate_s: float
    """Median times of a call in seconds, fixed cost subtracted."""

    cpu_wait_s: float
    """Seconds that the two processes and the judge waited for a CPU during the cluster."""

    single_calls: SingleCalls | None = None


@dataclass
class Memory:
    """Sizes that the judge carries from one comparison to the next; results are never carried.

    `fixed_s`: by number of calls, the fixed cost of a sample and when it was measured, in seconds;
    `call_s`: by a baseline's text, the approximate seconds of a call.
    """

    fixed_s: dict[int, tuple[float, float]] = field(default_factory=dict)
    call_s: dict[str | None, float] = field(default_factory=dict)


@dataclass
class ClusterRunner:
    """Runs clusters of a candidate and a baseline on one draw of inputs.

    `state` holds the weights; `pairs` sample pairs make a cluster, fewer if there are not enough
    inputs. `strict`: check a result of every sample, and time single calls too.
    """

    pool: ChildPool
    draw: Draw
    held: Sequence[Bound]
    _: KW_ONLY
    baseline: Side
    candidate: Side
    state: SharedMemory
    pairs: int
    strict: bool
    rng: random.Random
    memory: Memory
    memory_pool: SharedMemoryPool
    sampled_s: float = 0.0

    def __post_init__(self) -> None:
        self.held = correctness.loosened(self.held)
        calls = max(self.baseline.calls, self.candidate.calls)
        self._single_calls = SINGLE_CALLS if self.strict and calls > 1 else 0
        turns = (self.draw.count - self._single_calls) // calls
        self.pairs = max(1, min(self.pairs, turns - WARMUPS))
        self._warmups = min(WARMUPS_MOST, turns - self.pairs)
        self._returned: list[Returned] = []

    def measure_fixed_cost(self) -> None:
        """Time an idle child, for each number of calls in a sample.

        The cost depends on machine and data, not on the kernels, so a recent measurement is reused.
        """
        sizes = {self.baseline.calls, self.candidate.calls, *([1] if self._single_calls else [])}
        oldest, never = time.monotonic() - FIXED_LASTS_S, (0.0, -math.inf)
        wanted = {calls for calls in sizes if self.memory.fixed_s.get(calls, never)[1] < oldest}
        if not wanted:
            return
        wide = max(self.baseline, self.candidate, key=lambda side: side.calls)
        plan = msgspec.structs.replace(wide.plan, kind="idle", source="")
        idle = Side("idle process", plan, wide.calls, FailureKind.JUDGE)
        with contextlib.closing(idle), idle.blamed(), self.pool.child("") as worker:
            idle.send_plan(worker, self.state)
            self.pool.await_load(worker)
            self.pool.await_idle()
            with pinned([worker], self._cpus()):
                for calls in wanted:
                    limit_s = calls * self._timeout_s
                    taken = [worker.timed_call(calls, limit_s) for _ in range(FIXED_SAMPLES)]
                    median = statistics.median(taken[WARMUPS:]) / 1e9
                    self.memory.fixed_s[calls] = (median, time.monotonic())

    def run_cluster(self) -> Cluster:
        """Fork both sides, time them in random order, and return the measurement."""
        sides = [self.baseline, self.candidate]
        self.rng.shuffle(sides)
        for side in sides:
            side.move(self.memory_pool)
        with self.pool.children([side.plan.source for side in sides]) as children:
            # Both load in parallel; afterwards one runs at a time.
            for side, worker in zip(sides, children, strict=True):
                with side.blamed():
                    side.send_plan(worker, self.state)
            span = WARMUPS + self.pairs
            both = [RunningSide(s, self._due(0, span), self._order(s.calls)) for s in sides]
            for side in sides:
                with side.blamed():
                    self.pool.await_load(side.worker)
                    side.worker.await_stop()
            self.pool.await_idle()
            with pinned(children, self._cpus()):
                cpu_wait_s = -_cpu_wait_s(children)
                warm = self._time_pairs(both)
                for _ in range(self._single_calls):
                    self._take_turn(both, 0, single=True)
                for side in sides:
                    with side.blamed():
                        side.worker.check_stopped()
                cpu_wait_s += _cpu_wait_s(children)
        # Compared while the two processes end, which the next pair has to await in any case.
        self._compare()
        candidate, baseline = sorted(both, key=lambda each: each.side is self.baseline)
        return self._summary(baseline, candidate, warm, cpu_wait_s)

    def _time_pairs(self, both: list[RunningSide]) -> int:
        """Time both sides in turns; return how many of their samples warmed up."""
        turn = warm = 0
        while turn < warm + self.pairs:
            self._take_turn(both, turn)
            turn += 1
            if turn == warm + 1 and warm < self._warmups and _is_warming(both, turn):
                warm = turn
                # The checked sample is one that counts, for any length of the warm-up.
                for each in both:
                    each.due = self._due(turn, self.pairs)
        return warm

    def _due(self, turn: int, span: int) -> int:
        """Return the turn from which a sample of a side is checked.

        Without `strict` one sample of each side is checked, and a kernel can't predict which. A
        KEEP also needs a strict run, because a kernel can detect the time that a check takes.
        """
        return 0 if self.strict else turn + self.rng.randrange(span)

    def _take_turn(self, both: list[RunningSide], turn: int, *, single: bool = False) -> None:
        """Time a sample of each side, or a `single` call, on items not used before.

        In one slot results and arguments are compared with the expected values. No mark shows the
        slot in advance, because the child could otherwise compute for that slot only.
        """
        self.rng.shuffle(both)
        for each in both:
            side = each.side
            items = [each.items.pop() for _ in range(1 if single else side.calls)]
            known = [slot for slot, item in enumerate(items) if item < self.draw.checkable]
            with side.blamed():
                seconds = side.timed_call(self.draw, items, self._timeout_s)
                if known and turn >= each.due:
                    slot = self.rng.choice(known)
                    ours = [tensor.clone() for tensor in side.results(slot)]
                    kept = side.kept_arguments(slot, self.draw, items[slot])
                    self._returned.append(Returned(side, ours, items[slot], kept))
                    each.due = 0 if self.strict else self.draw.count
            (each.single_calls_s if single else each.samples_s).append(seconds)
            self.sampled_s += seconds
        self._compare(above=RETURNED_BYTES)

    def _compare(self, *, above: int = 0) -> None:
        """Compare the results kept since the last call, if they exceed `above` bytes."""
        if sum(tensor.nbytes for each in self._returned for tensor in each.results) <= above:
            return
        returned, self._returned = self._returned, []
        for each in returned:
            expected = self.draw.results(each.item)
            with each.side.blamed():
                found = correctness.compare(each.results, expected, None, self.held)
                if found.message:
                    message = f"{found.message} (in a timed call)"
                    raise ChildFailed(FailureKind.WRONG, message, found.detail)
                if not each.kept_arguments:
                    raise ChildFailed(FailureKind.WRONG, CHANGED_INPUTS)

    def _summary(
        self, baseline: RunningSide, candidate: RunningSide, warm: int, cpu_wait_s: float
    ) -> Cluster:
        ours = self._net_call_s(candidate.samples_s[warm:], candidate.side.calls)
        theirs = self._net_call_s(baseline.samples_s[warm:], baseline.side.calls)
        baseline_s, candidate_s = statistics.median(theirs), statistics.median(ours)
        log_ratio, single_calls = _median_log_ratio(theirs, ours), None
        if self._single_calls:
            ours = self._net_call_s(candidate.single_calls_s, 1)
            theirs = self._net_call_s(baseline.single_calls_s, 1)
            single_call_s = statistics.median(theirs)
            cold_s = max(single_call_s - baseline_s, COLD_S)
            honest_s = candidate_s + cold_s
            # At most FIXED_SHARE of a short sample is subtracted as fixed cost.
            (honest_s,) = self._net_call_s([honest_s + self.memory.fixed_s[1][0]], 1)
            expected = math.log(max(single_call_s, baseline_s + cold_s) / honest_s)
            single_calls = SingleCalls(_median_log_ratio(theirs, ours), expected, log_ratio)
        pairs = len(candidate.samples_s) - warm
        return Cluster(log_ratio, pairs, baseline_s, candidate_s, cpu_wait_s, single_calls)

    def _net_call_s(self, samples_s: Sequence[float], calls: int) -> list[float]:
        """Return the seconds of a call in each sample, without the fixed cost."""
        fixed_s = self.memory.fixed_s[calls][0]
        return [(value - min(fixed_s, FIXED_SHARE * value)) / calls for value in samples_s]

    def _order(self, calls: int) -> list[int]:
        """Return the items in reversed order of use, in random order.

        Each sample of `calls` items has one with a known result, until such items run out.
        """
        known = list(range(self.draw.checkable))
        self.rng.shuffle(known)
        samples = self._warmups + self.pairs
        leading, rest = known[:samples], known[samples:]
        rest += range(self.draw.checkable, self.draw.count)
        self.rng.shuffle(rest)
        grouped: list[list[int]] = []
        for number in range(samples):
            lead = leading[number : number + 1]
            grouped.append(lead + [rest.pop() for _ in range(calls - len(lead))])
            self.rng.shuffle(grouped[-1])
        self.rng.shuffle(grouped)
        return rest + [item for sample in grouped for item in sample]

    def _cpus(self) -> list[int]:
        """Return random CPUs, shared by both sides and chosen anew for each cluster."""
        usable = processors()
        return self.rng.sample(usable, min(self.pool.task.timing.threads, len(usable)))

    @property
    def _timeout_s(self) -> float:
        return self.pool.task.timing.call_timeout_s


def _cpu_wait_s(workers: Sequence[Worker]) -> float:
    """Return the seconds that children and the calling thread have waited for a CPU so far."""
    return sum(worker.cpu_wait_s() for worker in workers) + process_watch.cpu_wait_s("thread-self")


def _is_warming(both: Sequence[RunningSide], turn: int) -> bool:
    """Return whether a side still becomes faster from sample to sample, after `turn` samples."""
    return turn <= WARMUPS or any(
        each.samples_s[-1] < (1 - WARMING) * min(each.samples_s[:-1]) for each in both
    )


def _median_log_ratio(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    return statistics.median(math.log(b / c) for b, c in zip(baseline, candidate, strict=True))


class Results:
    """Reads the results of one side, one call at a time, into one buffer.

    `strides` has the worst stride class allowed for each result; empty: any without gaps.
    """

    def __init__(self, outputs: Layout, strides: Sequence[str] = ()) -> None:
        self._outputs = outputs
        self._worst = strides or (layouts.STRIDE_CLASSES[-1],) * len(outputs.tensors)
        self._address_format = layouts.address_format(outputs)
        self._read = np.empty(max(outputs.size, 1), dtype=np.uint8)

    def read(self, worker: Worker, addresses: SharedMemory, slot: int) -> list[torch.Tensor]:
        """Return the results of a call from a stopped process, valid until the next reading.

        Raises
        ------
        ChildFailed
            The address can't be read, the strides have gaps or overlaps, or the stride class is
            worse than allowed (the check in a kernel's own process can't be trusted).
        """
        at = slot * self._address_format.size
        claimed = iter(self._address_format.unpack_from(addresses.map, at))
        found: list[torch.Tensor] = []
        for index, tensor in enumerate(self._outputs.tensors):
            address, *strides = itertools.islice(claimed, 1 + len(tensor.shape))
            if tensor.bytes and not layouts.is_dense(tensor.shape, strides):
                raise ChildFailed(FailureKind.WRONG, "a result has strides that have no meaning")
            worst = self._worst[index]
            if lies := layouts.worse_stride_class(tensor.shape, strides, worst):
                raise ChildFailed(FailureKind.WRONG, layouts.stride_complaint(index, lies, worst))
            worker.copy_out(address, self._read.data[tensor.offset :][: tensor.bytes])
            # An axis of one element may have any stride.
            steps = zip(tensor.shape, strides, strict=True)
            known = tuple(stride if extent > 1 else 1 for extent, stride in steps)
            lying = msgspec.structs.replace(tensor, stride=known) if tensor.bytes else tensor
            found.append(layouts.view(lying, self._read, 0))
        return found
