"""Serves a kernel, the reference or results made beforehand on an accelerator. Runs in the child.

A call has three requests. PLACE copies a sealed input to the device and displaces what its cache
holds, beside the clock. RUN carries the key: the input is unsealed on the device, the model is
called, every stream is waited for, and the answer commits to a digest of the results and arguments.
FETCH copies both to the host, beside the clock again. Nothing that this module says is trusted: the
judge compares what it fetched with the digest, and with the reference (`seal.py` tells why that is
enough).
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from akg_tui.evaluate.child import device_answer, seal
from akg_tui.evaluate.child import tensor_layout as layouts
from akg_tui.evaluate.child.device_answer import Answer
from akg_tui.evaluate.child.faults import Fault
from akg_tui.evaluate.child.input_generator import ReferenceServer
from akg_tui.evaluate.child.kernel_server import (
    POISON,
    IdleServer,
    KernelServer,
    Memory,
    Outcome,
    Server,
    checked_results,
    result_forms,
)
from akg_tui.evaluate.child.protocol import Op, Plan, Status, TensorSlot

WORD = 8
"""The bytes of a word of a seal or a digest."""


class Device:
    """An accelerator of PyTorch by the name of its type, with what a server needs of it."""

    def __init__(self, name: str, sealing: str) -> None:
        self.device = torch.device(name)
        self._module = torch.get_device_module(name)
        self.sealing = importlib.import_module(sealing)
        """A module with `unseal(out, sealed, key)` and `digest(out, words, key, lanes)`."""
        self._begin, self._end = (torch.Event(self.device, enable_timing=True) for _ in range(2))
        cache = getattr(self._properties(), "L2_cache_size", 0)
        self._scratch = self.bytes(2 * cache)

    def _properties(self) -> object:
        known = getattr(self._module, "get_device_properties", None)
        return known(0) if known is not None else None

    def bytes(self, count: int) -> torch.Tensor:
        """Return memory of the device."""
        return torch.empty(count, dtype=torch.uint8, device=self.device)

    def synchronize(self) -> None:
        """Wait for the work of all streams."""
        self._module.synchronize()

    def flush(self) -> None:
        """Displace what the device's cache holds, if its size is known."""
        if self._scratch.numel():
            self._scratch.zero_()

    def timed(self, call: Callable[[], object]) -> tuple[object, int]:
        """Call a model; return its result, and nanoseconds by the device's own clock."""
        self._begin.record()
        result = call()
        self._end.record()
        self.synchronize()
        # Where a kernel has replaced that, a time is told still.
        self._end.synchronize()
        return result, max(0, round(self._begin.elapsed_time(self._end) * 1e6))

    def allocated(self) -> int:
        """Return the bytes of tensors that are alive on the device."""
        return int(self._module.memory_allocated())

    def poison(self, sizes: Sequence[int]) -> None:
        """Fill memory that the next results will probably get."""
        # All alive at once, or each would get the same memory.
        made = [self.bytes(size).fill_(POISON) for size in sizes if size]
        self.synchronize()
        del made


class OnDevice(Server):
    """Calls a model on arguments in the memory of a device; put before a `Server` that loads it."""

    def __init__(self, plan: Plan, memory: Memory) -> None:
        super().__init__(plan, memory)
        self._device: Device | None = None
        self._moved = False
        self._returned: list[torch.Tensor] = []
        """The results of the last call."""

    @property
    def on(self) -> Device:
        """The device, which is first touched after the process was forked."""
        if self._device is None:
            self._device = Device(self.plan.device, self.plan.sealing)
        return self._device

    def bind(self) -> None:
        """Create the arguments in the memory of the device, and move the model there."""
        plan, on = self.plan, self.on
        if plan.inputs is None or plan.outputs is None:
            return
        self._returned = []
        self._sealed, self._plain = on.bytes(plan.inputs.size), on.bytes(plan.inputs.size)
        self._host = np.frombuffer(self.memory["inputs"], np.uint8)[: plan.inputs.size]
        # Numbers and constants; the tensors are replaced.
        self.arguments = list(layouts.load(plan.inputs, self.memory["inputs"], 0))
        for index, slot in enumerate(plan.inputs.slots):
            if isinstance(slot, TensorSlot):
                self.arguments[index] = _view(slot, self._plain)
        # Unsealed on the host, because a model gets them as numbers of Python.
        self._unsealed = np.zeros(plan.inputs.size, np.uint8)
        self.numbers = layouts.numbers(plan.inputs, self._unsealed, 0)
        self._result_forms = result_forms(plan.outputs)
        self._digests = torch.empty(
            len(plan.outputs.tensors) + 1, dtype=torch.int64, device=on.device
        )
        self._block = np.frombuffer(self.memory["addresses"], np.uint8)
        if not self._moved and isinstance(self.model, torch.nn.Module):
            self.model.to(on.device)
        self._moved = True

    def prepare(self, op: int, count: int, draw_args: tuple[int, ...], fds: Sequence[int]) -> int:
        """Serve PLACE, RUN and FETCH."""
        try:
            match op:
                case Op.PLACE:
                    self._place()
                case Op.RUN:
                    return self._call_model(draw_args[0])
                case Op.FETCH:
                    self._fetch()
                case _:
                    return super().prepare(op, count, draw_args, fds)
        except BaseException as error:
            raise self.fault(error, Status.CALL) from error
        return 0

    def call(self, held: int, pinned: int, outcome: Outcome | None = None) -> None:
        """Refuse a call that does not go through the device."""
        raise Fault(Status.CALL, "a kernel on a device can't be called on the host")

    def wake(self) -> None:
        """Touch the code around a call, and nothing on the device."""
        self._answer(Answer(), ())

    def _place(self) -> None:
        on = self.on
        before = time.perf_counter_ns()
        on.synchronize()
        self._left_ns = time.perf_counter_ns() - before
        self._sealed.copy_(torch.from_numpy(self._host))
        if self.plan.poisoned and self.plan.outputs is not None:
            self._returned = []
            on.poison([slot.bytes for slot in self.plan.outputs.tensors])
        on.flush()
        on.synchronize()

    def _call_model(self, key: int) -> int:
        """Call the model once; return the digest of its results and arguments."""
        on, arguments = self.on, self.arguments
        # First, so that the new results can use the memory of old ones.
        self._returned = []
        on.sealing.unseal(self._plain, self._sealed, key)
        self._unseal_numbers(key)
        for position, value in self.numbers:
            arguments[position] = value.item()
        # A kernel may use streams of its own, which do not wait for this one.
        on.synchronize()
        result, taken_ns = on.timed(lambda: self.model(*arguments))
        tensors = checked_results(
            result, self._result_forms, self.plan.strides, device=on.device.type
        )
        digested = [*tensors, self._plain]
        for index, tensor in enumerate(digested):
            if tensor.numel():
                words = _words_of(tensor)
                lanes = seal.lanes_for(words.numel())
                on.sealing.digest(self._digests[index : index + 1], words, key, lanes)
        digests = self._digests.cpu().numpy().view(np.uint64)
        sizes = [tensor.numel() for tensor in digested]
        whole = seal.joined([int(d) for d, size in zip(digests, sizes, strict=True) if size])
        self._returned = tensors
        self._answer(Answer(taken_ns, on.allocated(), self._left_ns), tensors)
        return whole

    def _unseal_numbers(self, key: int) -> None:
        if self.plan.inputs is None or not self.numbers:
            return
        for slot in self.plan.inputs.slots:
            if not isinstance(slot, TensorSlot) and hasattr(slot, "offset"):
                place = slice(slot.offset, slot.offset + WORD)
                seal.apply(self._host[place], self._unsealed[place], key, first=slot.offset // WORD)

    def _answer(self, answer: Answer, tensors: Sequence[torch.Tensor]) -> None:
        strides = [step for tensor in tensors for step in tensor.stride()]
        device_answer.write(self._block, answer, strides)

    def _fetch(self) -> None:
        """Copy the results to the host, and the arguments as the kernel left them."""
        outputs = self.plan.outputs
        if outputs is None:
            return
        self.on.synchronize()
        start = device_answer.results_at(outputs)
        for slot, tensor in zip(outputs.tensors, self._returned, strict=True):
            if slot.bytes:
                place = self._block[start + slot.offset :][: slot.bytes]
                torch.from_numpy(place).copy_(_bytes_of(tensor))
        torch.from_numpy(self._host).copy_(self._plain)
        self.on.synchronize()


class DeviceKernelServer(OnDevice, KernelServer):
    """Serves `ModelNew` on a device."""


class DeviceReferenceServer(OnDevice, ReferenceServer):
    """Calls the reference on a device, as the baseline that is timed; it draws on the host."""


class DeviceIdleServer(OnDevice, IdleServer):
    """Returns results made beforehand on a device: what is left is the fixed cost of a call."""

    def start(self) -> int:
        """Make the results."""
        self.bind()
        made = [
            torch.empty(form.shape, dtype=form.dtype, device=self.on.device)
            for form in self._result_forms
        ]
        self.model = lambda *_: made
        return 0


def _view(slot: TensorSlot, flat: torch.Tensor) -> torch.Tensor:
    """Return the tensor in `slot` of an item in the memory of a device."""
    dtype = layouts.DTYPES[slot.dtype]
    if not slot.bytes:
        return torch.empty_strided(slot.shape, slot.stride, dtype=dtype, device=flat.device)
    part = flat[slot.offset : slot.offset + slot.bytes].view(dtype)
    return part.as_strided(slot.shape, slot.stride, part.storage_offset())


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a dense tensor, in the order of memory."""
    flat = tensor.detach().as_strided((tensor.numel(),), (1,), tensor.storage_offset())
    return flat.view(torch.uint8)


def _words_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a dense tensor as words, filled up with zeros."""
    flat = _bytes_of(tensor)
    if flat.numel() % WORD or flat.storage_offset() % WORD:
        whole = flat.new_zeros(-(-flat.numel() // WORD) * WORD)
        whole[: flat.numel()] = flat
        flat = whole
    return flat.view(torch.int64)
