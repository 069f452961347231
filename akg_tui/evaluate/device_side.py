"""One of two kernels that are compared on an accelerator: sealed inputs, committed results.

Runs in the judge. A kernel's own process places inputs and fetches results, so both are made
useless to it: an input is sealed until the clock starts, and the answer at which the clock stops
commits to a digest of the results and arguments (`child/seal.py`). A device is called by one side
at a time.
"""

from __future__ import annotations

import contextlib
import secrets

import torch

from akg_tui.core.measurement import FailureKind
from akg_tui.evaluate import timing_samples
from akg_tui.evaluate.child import device_answer, seal
from akg_tui.evaluate.child.kernel_server import POISON
from akg_tui.evaluate.processes.child_pool import ChildPool
from akg_tui.evaluate.processes.shared_memory import SharedMemory
from akg_tui.evaluate.processes.worker import ChildFailed, EvaluationFailure, TimedCall
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.protocol.child_protocol import Op, Plan, ScalarSlot
from akg_tui.evaluate.reference import Draw, Reference
from akg_tui.evaluate.timing_samples import Side

KEY_BITS = 62
"""A key has 63 bits and the highest is set: one type of number in every compiler."""

LATE_RESULTS = (
    "the results or arguments are not those of the answer: work was still running on the device "
    "when the kernel returned, on a stream that the current one does not wait for, or they were "
    "written after the clock had stopped"
)
LEFT_S = 2e-3
LEFT_CALLS = 2
"""Work of the call before that lasts so long when the next input comes, and in how many calls."""

QUEUE_S = 0.25
"""The seconds for queueing a call; a kernel that waits for the device takes longer."""

STUCK_CALLS = 2
"""After so many calls in a row that could not be queued no more of a kernel are tried."""

AROUND_S, AROUND_BYTES_S = 2e-3, 1e9
"""The seconds beside a call for its requests, and the bytes a second that are sealed, copied and
digested (measured on an H200 and its host)."""


class DeviceSide(Side):
    """A kernel, or the reference, whose arguments are in the memory of a device."""

    fixed_share = 0.95
    """Unsealing and digesting move more bytes than many a kernel."""

    cold_calls = 2
    """They are not queued: a driver that loads a kernel waits for the device."""

    def __init__(
        self, name: str, plan: Plan, fault: FailureKind | None = None, *, place_s: float
    ) -> None:
        super().__init__(name, plan, fault)
        self._place_s = place_s
        self._item: tuple[Draw, int]
        self._key = 0
        self._placed_bytes = 0
        self._committed = 0
        self._placing_waited_s = 0.0
        self._left_s: list[float] = []
        """The seconds of work that each call had left on the device, by the child's word."""
        self._calls = 0
        """The calls of this process."""
        self._may_queue = plan.queues and not _has_numbers(plan)
        self._stuck = 0
        """How many calls in a row waited for the device while they were queued."""
        self._addresses.close()
        self._addresses = SharedMemory(device_answer.size(self._outputs))

    def fill(self, draw: Draw, item: int) -> None:
        """Note the item: its arguments are placed on the device by the child, as a call begins."""
        self._item = draw, item

    def _place(self) -> None:
        """Seal the item's arguments, and have the child place them on the device."""
        draw, item = self._item
        self._key = 1 << KEY_BITS | secrets.randbits(KEY_BITS)
        self._placed_bytes = size = draw.description.inputs.size
        seal.apply(draw.input_bytes(item), self._inputs.bytes[:size], self._key)
        waited_s = self.worker.cpu_wait_s()
        self._serve(Op.PLACE, "placing an input on the device")
        self._placing_waited_s = self.worker.cpu_wait_s() - waited_s

    def begin(self, draw: Draw, item: int, configuration: int = 0) -> None:
        """Start a call, without waiting for it. On a device tuners choose for themselves."""
        self.fill(draw, item)
        self._place()
        self._calls += 1
        self.worker.send(Op.RUN, seed=self._key)

    def finish(self, timeout_s: float, *, compile_s: float = 0.0) -> int:
        """Wait for a call that was begun; tuners have no configuration left to take."""
        self._committed = self.worker.answer(timeout_s, "being called", compile_s=compile_s)
        self.worker.await_stop()
        return 1

    def timed_call(self, timeout_s: float) -> TimedCall:
        """Call the kernel on the item of the last `fill`, from key to digest of its results.

        A call that the child can't queue on the device is repeated, with the host's part in it.
        """
        self._calls += 1
        stuck = False
        if self._may_queue and not self._is_held_up and self._calls > self.cold_calls:
            self._place()
            call = self._queued_call(timeout_s)
            stuck = call is None
            self._stuck = self._stuck + 1 if stuck else 0
            if call is not None:
                return call
        self._place()
        call = self.worker.timed_call(timeout_s, op=Op.RUN, seed=self._key)
        if stuck and not self._is_held_up:
            # It may be the machine that was busy: the call is taken again.
            call = call._replace(waited_s=call.seconds)
        self._committed = call.value
        self._note_left(self._placing_waited_s)
        return call

    def _note_left(self, waited_s: float) -> None:
        """Note the work that was left; a child that waited for a CPU seems to wait for it."""
        left_ns = device_answer.read_left_ns(self._addresses.bytes)
        self._left_s.append(left_ns / 1e9 - waited_s)

    @property
    def _is_held_up(self) -> bool:
        """Whether the kernel waits for the device within its calls, so that none can be queued."""
        return self._stuck >= STUCK_CALLS

    def _queued_call(self, timeout_s: float) -> TimedCall | None:
        block, count = self._addresses.bytes, device_answer.digest_count(self._outputs)
        key = device_answer.words(block, device_answer.KEY_AT)
        digests = device_answer.words(block, device_answer.DIGESTS_AT, count)
        key[0] = 0
        for index in range(count):
            digests[index] = 0

        seen: list[int] = []

        def release() -> None:
            key[0] = self._key

        def done() -> bool:
            # The child is committed to the digests that are there when the clock stops.
            seen[:] = digests.tolist()
            return all(seen)

        waited_s = self.worker.cpu_wait_s()
        call = self.worker.queued_call(QUEUE_S, timeout_s, release=release, done=done)
        if call is None:
            return None
        given = [slot.bytes for slot in self._outputs.tensors] + [self._placed_bytes]
        self._committed = seal.joined([d for d, size in zip(seen, given, strict=True) if size])
        if not call.value:  # else the child waited for the call itself
            self._note_left(self.worker.cpu_wait_s() - waited_s)
        return call

    def results(self) -> list[torch.Tensor]:
        """Return the results of the last call, fetched by the child and valid until the next.

        Raises
        ------
        ChildFailed
            They or the arguments are not those that the answer committed to, or they have a stride
            class that is worse than allowed.
        """
        outputs, start = self._outputs, device_answer.results_at(self._outputs)
        block = self._addresses.bytes
        block[start:] = POISON
        self._serve(Op.FETCH, "its results were fetched")
        strides = device_answer.read_strides(block, outputs)
        fetched = block[start : start + outputs.size].copy()
        parts = [fetched[slot.offset :][: slot.bytes] for slot in outputs.tensors]
        parts.append(self._inputs.bytes[: self._placed_bytes])
        whole = seal.joined([seal.digest(part, self._key) for part in parts if len(part)])
        if whole != self._committed:
            raise ChildFailed(FailureKind.WRONG, LATE_RESULTS)
        return [
            layouts.view(self._results.lying(index, steps), fetched, 0)
            for index, steps in enumerate(strides)
        ]

    def check_calls(self) -> None:
        """Raise ChildFailed if work was left on the device after calls of a cluster."""
        late = [seconds for seconds in self._left_s[1:] if seconds > LEFT_S]
        self._left_s.clear()
        if len(late) >= LEFT_CALLS:
            what = (
                f"work was left on the device: {max(late) * 1e3:.3g} ms after a call had returned"
            )
            raise ChildFailed(FailureKind.WRONG, what)

    def move(self) -> None:
        """Replace the memory between host and child; a new process has new memory on the device."""
        super().move()
        self._left_s.clear()
        self._calls = 0

    def _serve(self, op: Op, activity: str) -> None:
        self.worker.send(op)
        self.worker.answer(self._place_s, activity)
        self.worker.await_stop()


def _has_numbers(plan: Plan) -> bool:
    """Return whether a kernel is called with numbers of Python, which the host must unseal."""
    return plan.inputs is not None and any(
        isinstance(slot, ScalarSlot) for slot in plan.inputs.slots
    )


def fault_of_device(pool: ChildPool, reference: Reference) -> str:
    """Return why a device does not serve a new process of ours, or ""."""
    plan = reference.idle_plan()
    side = side_of(pool, "device", plan)
    timeout_s = pool.task.timing.call_timeout_s
    try:
        with contextlib.closing(side), pool.child(plan.files) as worker:
            side.send_plan(worker, reference.state)
            pool.await_load(worker)
            worker.await_stop()
            side.fill(reference.sample, 0)
            side.timed_call(timeout_s)
    except EvaluationFailure as failed:
        return failed.message
    return ""


def around_a_call_s(plan: Plan) -> float:
    """Return the approximate seconds beside a call, for its input, results and stops."""
    if not plan.device or plan.inputs is None or plan.outputs is None:
        return timing_samples.AROUND_A_CALL_S
    return AROUND_S + (plan.inputs.size + plan.outputs.size) / AROUND_BYTES_S


def side_of(pool: ChildPool, name: str, plan: Plan, fault: FailureKind | None = None) -> Side:
    """Return a side for a plan, on the host or on a device."""
    if not plan.device:
        return Side(name, plan, fault)
    return DeviceSide(name, plan, fault, place_s=pool.task.timing.call_timeout_s)
