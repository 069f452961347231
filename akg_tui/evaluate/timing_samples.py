"""Times a candidate against a baseline, in pairs of fresh processes (clusters).

Owns the order of samples, the choice of results to check, and how results are read out of a
kernel's memory. The clock is the judge's.
"""

from __future__ import annotations

import contextlib
import dataclasses
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

from akg_tui.core.measurement import FailureKind
from akg_tui.evaluate import correctness
from akg_tui.evaluate.child import tensor_layout as layouts
from akg_tui.evaluate.child.protocol import REPORT_BYTES, Plan
from akg_tui.evaluate.child.tensor_layout import Layout, TensorSlot
from akg_tui.evaluate.correctness import Bound
from akg_tui.evaluate.processes import process_watch
from akg_tui.evaluate.processes.child_pool import ChildPool, blamed_on
from akg_tui.evaluate.processes.shared_memory import SharedMemory, SharedMemoryPool
from akg_tui.evaluate.processes.worker import ChildFailed, Worker
from akg_tui.evaluate.reference import Draw
from akg_tui.evaluate.targets.cpu import processors

SAMPLE_S = 0.002
CALLS_LIMIT = 64
PAIRS = 11
PAIRS_LEAST = 3
WARMUPS = 2
WARMUPS_MOST = 6
WARMING = 0.03
"""A process is warm when a sample beats the best one before it by less than this."""

CLUSTER_S = 0.25
"""About how long the samples of one pair of processes may take."""

POOL_BYTES = 256 << 20
RETURNED_BYTES = 32 << 20
"""How many bytes of returned results are kept to be compared after a cluster."""

SINGLE_CALLS = 7
"""Pairs of samples of a single call, where a sample has several: see `SingleCalls`."""

COLD_S = 1e-4
"""Seconds by which any call may take longer when it is the first after a pause, because caches
are cold; it weighs more for a faster kernel."""

FIXED_SAMPLES = 15
FIXED_SHARE = 0.5
FIXED_LASTS_S = 30.0
EQUAL_CALLS_UP_TO = 4.0


def calls_per_sample(call_s: float, item_bytes: int) -> int:
    """Return how many calls make a sample long enough to time, within the pool's bound."""
    wanted = math.ceil(SAMPLE_S / max(call_s, 1e-9))
    fitting = POOL_BYTES // (max(item_bytes, 1) * (WARMUPS + PAIRS_LEAST))
    return max(1, min(wanted, CALLS_LIMIT, fitting))


def calls_of_both(seconds: tuple[float, float], item_bytes: int) -> tuple[int, int]:
    """Return the calls in a sample of either side.

    Both get the same number if their times are near enough, because the number of inputs in a
    sample decides how much of them a cache can hold.
    """
    slow, fast = max(seconds), max(min(seconds), 1e-9)
    if slow / fast <= EQUAL_CALLS_UP_TO:
        seconds = (fast, fast)
    first, second = (calls_per_sample(value, item_bytes) for value in seconds)
    return first, second


def pairs_per_cluster(sample_s: float, calls: int, item_bytes: int) -> int:
    """Return how many sample pairs a cluster has; `sample_s` is what one pair takes."""
    fitting = POOL_BYTES // (max(item_bytes, 1) * calls) - WARMUPS_MOST
    return max(PAIRS_LEAST, min(PAIRS, int(CLUSTER_S / max(sample_s, 1e-9)), fitting))


@dataclass
class Side:
    """One of the two kernels: its plan, the calls in a sample, and its memory.

    `fault` is the kind of error that a failure of this side is: None for the candidate, whose
    failure is the result of the evaluation.
    """

    name: str
    plan: Plan
    calls: int
    report: SharedMemory
    inputs: SharedMemory
    addresses: SharedMemory
    results: Results
    fault: FailureKind | None = None

    @contextlib.contextmanager
    def blamed(self) -> Iterator[None]:
        """Attribute a failure inside the block to this side."""
        with contextlib.ExitStack() as stack:
            if self.fault is not None:
                stack.enter_context(blamed_on(self.fault, self.name))
            yield

    def move(self, memory_pool: SharedMemoryPool) -> None:
        """Take other memory, because its addresses can favour one side."""
        self.close()
        # A new process must not see what the last one left in these.
        self.report = SharedMemory(self.report.size)
        self.addresses = SharedMemory(self.addresses.size)
        self.inputs = memory_pool.take(self.inputs.size)

    def close(self) -> None:
        """Give the memory back."""
        for block in (self.report, self.inputs, self.addresses):
            block.close()


def make_side(name: str, plan: Plan, calls: int, fault: FailureKind | None = None) -> Side:
    """Return a side whose memory holds the arguments of one sample."""
    outputs = plan.outputs
    if plan.inputs is None or outputs is None:
        raise ValueError("a plan without arguments can't be called")
    report = SharedMemory(REPORT_BYTES if plan.kind == "reference" else 0)
    inputs = SharedMemory(calls * plan.inputs.size)
    addresses = SharedMemory(calls * layouts.address_format(outputs).size)
    plan = msgspec.structs.replace(plan, slots=calls)
    return Side(name, plan, calls, report, inputs, addresses, Results(outputs, plan.strides), fault)


def load_side(pool: ChildPool, worker: Worker, side: Side, state: SharedMemory) -> None:
    """Send a side's plan to its child, without waiting for it to be loaded."""
    pool.send_plan(worker, side.plan, side.report, state, side.inputs, side.addresses)


def fill(side: Side, slot: int, draw: Draw, item: int) -> None:
    """Copy an item's arguments into a slot of a side whose process is stopped."""
    size = draw.description.inputs.size
    side.inputs.bytes[slot * size : (slot + 1) * size] = draw.inputs.bytes[
        item * size : (item + 1) * size
    ]


def results(side: Side, worker: Worker, slot: int) -> list[torch.Tensor]:
    """Return the results of a call of a stopped side, valid until others are read.

    Their shapes and dtypes are the reference's.
    """
    return side.results.read(worker, side.addresses, slot)


def call_once(side: Side, worker: Worker, draw: Draw, item: int, limit_s: float) -> float:
    """Call a side on one item; return seconds, fixed cost included."""
    fill(side, 0, draw, item)
    nanoseconds = worker.timed_call(1, limit_s)
    worker.await_stop()
    return nanoseconds / 1e9


def keeps_arguments(side: Side, slot: int, draw: Draw, item: int) -> bool:
    """Return whether a call left its arguments unchanged."""
    size = draw.description.inputs.size
    given = draw.inputs.bytes[item * size : (item + 1) * size]
    return np.array_equal(side.inputs.bytes[slot * size : (slot + 1) * size], given)


def require_unchanged_arguments(*, kept: bool) -> None:
    """Raise ChildFailed if a call changed its arguments."""
    if not kept:
        raise ChildFailed(FailureKind.WRONG, "the kernel changed its inputs")


@contextlib.contextmanager
def pinned(workers: Sequence[Worker], cpus: Sequence[int]) -> Iterator[None]:
    """Pin children to `cpus`, and keep the judge off these CPUs if there are others.

    A judge that wakes on the CPU of the kernel which has just answered would delay one of them.
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
    """Results of a timed call, to be compared while nothing is timed."""

    side: Side
    results: list[torch.Tensor]
    item: int
    kept_arguments: bool

    @property
    def size(self) -> int:
        """The size of the results in bytes."""
        return sum(tensor.nbytes for tensor in self.results)


@dataclass(frozen=True)
class Cluster:
    """The measurement of one pair of processes."""

    log_ratio: float
    pairs: int
    baseline_s: float
    candidate_s: float
    """Median times of a call, fixed cost taken off."""

    cpu_wait_s: float
    """Seconds that the two processes and the judge waited for a CPU meanwhile."""

    single_calls: SingleCalls | None = None


@dataclass(frozen=True)
class SingleCalls:
    """Times of samples of one call, whose input is the only one in memory.

    The inputs of a longer sample lie in memory together, so a kernel could compute all of them in
    its first call, which gains nothing in single calls. `expected` is the log ratio of an honest
    kernel: that of whole samples, less what the baseline takes longer in a single call.
    """

    log_ratio: float
    expected: float
    together: float
    """The log ratio of the whole samples in the same processes."""


@dataclass
class Memory:
    """What a judge remembers from one comparison to the next: sizes, never results.

    `fixed_s`: by number of calls, the fixed cost of a sample and when it was measured, in seconds;
    `call_s`: by a baseline's text, about how many seconds a call takes.
    """

    fixed_s: dict[int, tuple[float, float]] = field(default_factory=dict)
    call_s: dict[str | None, float] = field(default_factory=dict)

    def fixed(self, calls: int) -> float | None:
        """Return a fixed cost in seconds; None if it was not measured lately."""
        measured = self.fixed_s.get(calls)
        if measured is None or time.monotonic() - measured[1] > FIXED_LASTS_S:
            return None
        return measured[0]


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
        """Time a child that computes nothing, for each number of calls in a sample.

        The cost depends on machine and data, not on the kernels, so a recent one is used again.
        """
        wanted = {self.baseline.calls, self.candidate.calls} | (
            {1} if self._single_calls else set()
        )
        wanted = {calls for calls in wanted if self.memory.fixed(calls) is None}
        if not wanted:
            return
        wide = max(self.baseline, self.candidate, key=lambda side: side.calls)
        plan = msgspec.structs.replace(wide.plan, kind="idle", source="")
        idle = dataclasses.replace(wide, name="idle process", plan=plan, fault=FailureKind.JUDGE)
        with idle.blamed(), self.pool.child("") as worker:
            load_side(self.pool, worker, idle, self.state)
            self.pool.await_load(worker)
            self.pool.await_idle()
            with self._pinned([worker]):
                for calls in wanted:
                    taken = [
                        worker.timed_call(calls, self._limit_s(calls)) for _ in range(FIXED_SAMPLES)
                    ]
                    median = statistics.median(taken[WARMUPS:]) / 1e9
                    self.memory.fixed_s[calls] = (median, time.monotonic())

    def run_cluster(self) -> Cluster:
        """Fork both sides, time them in random order, and return what they showed."""
        sides = [self.baseline, self.candidate]
        self.rng.shuffle(sides)
        for side in sides:
            side.move(self.memory_pool)
        with self.pool.children([side.plan.source for side in sides]) as children:
            workers = {side.name: child for side, child in zip(sides, children, strict=True)}
            # Both load at the same time; afterwards one runs at a time.
            for side in sides:
                with side.blamed():
                    load_side(self.pool, workers[side.name], side, self.state)
            orders = {side.name: self._order(side.calls) for side in sides}
            for side in sides:
                with side.blamed():
                    self.pool.await_load(workers[side.name])
            for side in sides:
                with side.blamed():
                    workers[side.name].await_stop()
            self.pool.await_idle()
            with self._pinned(children):
                cpu_wait_s = -_cpu_wait_s(children)
                taken, warm = self._alternate(sides, workers, orders)
                single = self._time_single_calls(sides, workers, orders)
                for side in sides:
                    with side.blamed():
                        workers[side.name].check_stopped()
                cpu_wait_s += _cpu_wait_s(children)
        # Compared while the two processes end, for which the next pair would wait anyway.
        self._compare()
        ours, theirs = taken[self.candidate.name][warm:], taken[self.baseline.name][warm:]
        return self._summary(theirs, ours, cpu_wait_s, single)

    def _time_single_calls(
        self, sides: list[Side], workers: dict[str, Worker], orders: dict[str, list[int]]
    ) -> dict[str, list[float]]:
        """Time single calls of both sides in turns; return what they took."""
        taken: dict[str, list[float]] = {side.name: [] for side in sides}
        for _ in range(self._single_calls):
            self.rng.shuffle(sides)
            for side in sides:
                items = [orders[side.name].pop()]
                with side.blamed():
                    seconds = self._sample(side, workers[side.name], items, self._checkable(items))
                taken[side.name].append(seconds)
                self.sampled_s += seconds
            self._compare(above=RETURNED_BYTES)
        return taken

    def _alternate(
        self, sides: list[Side], workers: dict[str, Worker], orders: dict[str, list[int]]
    ) -> tuple[dict[str, list[float]], int]:
        """Time both sides in turns; return their samples and how many of them warmed up."""
        taken: dict[str, list[float]] = {side.name: [] for side in sides}
        # Without `strict` one sample of each side is checked, and a kernel can't know which. A
        # KEEP needs a strict run as well, because a kernel can notice the time that a check takes.
        due = {side.name: self._due(0, WARMUPS + self.pairs) for side in sides}
        turn = warm = 0
        while turn < warm + self.pairs:
            self.rng.shuffle(sides)
            for side in sides:
                items = [orders[side.name].pop() for _ in range(side.calls)]
                checked = self._checkable(items) if turn >= due[side.name] else None
                if checked is not None and not self.strict:
                    due[side.name] = self.draw.count
                with side.blamed():
                    seconds = self._sample(side, workers[side.name], items, checked)
                taken[side.name].append(seconds)
                self.sampled_s += seconds
            self._compare(above=RETURNED_BYTES)
            turn += 1
            if turn == warm + 1 and warm < self._warmups and _is_warming(taken, turn):
                warm = turn
                # The check falls on a sample that counts, however long a kernel warms up.
                due = {side.name: self._due(turn, self.pairs) for side in sides}
        return taken, warm

    def _due(self, turn: int, span: int) -> int:
        """Return the turn from which on a sample of a side is checked."""
        return 0 if self.strict else turn + self.rng.randrange(span)

    def _checkable(self, items: Sequence[int]) -> int | None:
        """Return one of the slots whose results are known, or None."""
        known = [slot for slot, item in enumerate(items) if item < self.draw.checkable]
        return self.rng.choice(known) if known else None

    def _sample(
        self, side: Side, worker: Worker, items: Sequence[int], checked: int | None
    ) -> float:
        """Time one sample on items that this process has not seen; return seconds.

        In the slot `checked` results and arguments are compared with what they must be. Nothing
        marks that slot beforehand, or the child could compute for it alone.
        """
        for slot, item in enumerate(items):
            fill(side, slot, self.draw, item)
        nanoseconds = worker.timed_call(len(items), self._limit_s(len(items)))
        worker.await_stop()
        if checked is not None:
            self._check(side, worker, checked, items[checked])
        return nanoseconds / 1e9

    def _check(self, side: Side, worker: Worker, slot: int, item: int) -> None:
        ours = [tensor.clone() for tensor in results(side, worker, slot)]
        kept = keeps_arguments(side, slot, self.draw, item)
        self._returned.append(Returned(side, ours, item, kept))

    def _compare(self, *, above: int = 0) -> None:
        """Compare the results kept since the last call, if they are more than `above` bytes."""
        if sum(each.size for each in self._returned) <= above:
            return
        returned, self._returned = self._returned, []
        for each in returned:
            expected = self.draw.results(each.item)
            with each.side.blamed():
                found = correctness.compare(each.results, expected, None, self.held)
                if found.message:
                    message = f"{found.message} (in a timed call)"
                    raise ChildFailed(FailureKind.WRONG, message, found.detail)
                require_unchanged_arguments(kept=each.kept_arguments)

    def _summary(
        self,
        baseline: list[float],
        candidate: list[float],
        cpu_wait_s: float,
        single: dict[str, list[float]],
    ) -> Cluster:
        ours = [self._net_call_s(value, self.candidate.calls) for value in candidate]
        theirs = [self._net_call_s(value, self.baseline.calls) for value in baseline]
        logs = [math.log(b / c) for b, c in zip(theirs, ours, strict=True)]
        baseline_s, candidate_s = statistics.median(theirs), statistics.median(ours)
        log_ratio, single_calls = statistics.median(logs), None
        if self._single_calls:
            ours, theirs = (
                [self._net_call_s(value, 1) for value in single[side.name]]
                for side in (self.candidate, self.baseline)
            )
            single_call_s = statistics.median(theirs)
            cold_s = max(single_call_s - baseline_s, COLD_S)
            honest_s = candidate_s + cold_s
            # At most FIXED_SHARE of a short sample is taken off as fixed cost.
            honest_s = self._net_call_s(honest_s + self.memory.fixed_s[1][0], 1)
            expected = math.log(max(single_call_s, baseline_s + cold_s) / honest_s)
            ratios = [math.log(b / c) for b, c in zip(theirs, ours, strict=True)]
            single_calls = SingleCalls(statistics.median(ratios), expected, log_ratio)
        return Cluster(log_ratio, len(logs), baseline_s, candidate_s, cpu_wait_s, single_calls)

    def _net_call_s(self, sample_s: float, calls: int) -> float:
        fixed = min(self.memory.fixed_s[calls][0], FIXED_SHARE * sample_s)
        return (sample_s - fixed) / calls

    def _order(self, calls: int) -> list[int]:
        """Return the items in reversed order of use, in random order.

        Each sample of `calls` items has one with a known result, as far as there are such items.
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

    @contextlib.contextmanager
    def _pinned(self, workers: Sequence[Worker]) -> Iterator[None]:
        """Pin children to random CPUs: the same for both sides, others for the next cluster."""
        usable = processors()
        cpus = self.rng.sample(usable, min(self.pool.task.timing.threads, len(usable)))
        with pinned(workers, cpus):
            yield

    def _limit_s(self, calls: int) -> float:
        return calls * self.pool.task.timing.call_timeout_s


def _cpu_wait_s(workers: Sequence[Worker]) -> float:
    """Return the seconds that children and the calling thread have waited for a CPU so far."""
    return sum(worker.cpu_wait_s() for worker in workers) + process_watch.cpu_wait_s("thread-self")


def _is_warming(taken: dict[str, list[float]], turn: int) -> bool:
    """Return whether a side still becomes faster from sample to sample, after `turn` samples."""
    if turn <= WARMUPS:
        return True
    return any(samples[-1] < (1 - WARMING) * min(samples[:-1]) for samples in taken.values())


class Results:
    """Reads the results of one side, one call at a time, into one buffer.

    `strides` has the worst stride class allowed for each; empty: any without gaps.
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
        claimed = self._address_format.unpack_from(addresses.map, slot * self._address_format.size)
        found: list[torch.Tensor] = []
        position = 0
        for index, tensor in enumerate(self._outputs.tensors):
            address, *strides = claimed[position : position + 1 + len(tensor.shape)]
            position += 1 + len(tensor.shape)
            self._check(index, strides)
            found.append(self._one(worker, tensor, address, strides))
        return found

    def _check(self, index: int, strides: Sequence[int]) -> None:
        tensor, worst = self._outputs.tensors[index], self._worst[index]
        if tensor.bytes and not layouts.is_dense(tensor.shape, strides):
            raise ChildFailed(FailureKind.WRONG, "a result has strides that have no meaning")
        if lies := layouts.worse_stride_class(tensor.shape, strides, worst):
            raise ChildFailed(FailureKind.WRONG, layouts.stride_complaint(index, lies, worst))

    def _one(
        self, worker: Worker, tensor: TensorSlot, address: int, strides: Sequence[int]
    ) -> torch.Tensor:
        if not tensor.bytes:
            return layouts.view(tensor, self._read, 0)
        worker.copy_out(address, self._read.data[tensor.offset :][: tensor.bytes])
        # An axis of one element may have any stride.
        steps = zip(tensor.shape, strides, strict=True)
        lies = tuple(stride if extent > 1 else 1 for extent, stride in steps)
        return layouts.view(msgspec.structs.replace(tensor, stride=lies), self._read, 0)
