"""Serves a kernel, the reference or results made beforehand on an accelerator. Runs in the child.

PLACE copies a sealed input to the device and displaces what its cache holds, beside the clock. Then
the model is called in one of two ways. RUN carries the key: the input is unsealed on the device,
the model is called, every stream is waited for, and the answer commits to a digest of the results
and arguments. QUEUE has no key: the device is told to wait for it in shared memory, and then to
unseal, to compute, and to write the digests there, so that the clock measures no work of the host;
SETTLE waits for the device, and tells of the call. FETCH copies results and arguments to the host,
beside the clock again. Nothing that this module says is trusted: the judge compares what it fetched
with the digests, and with the reference (`seal.py` tells why that is enough).
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence

import numpy as np
import torch

from akg_tui.evaluate.child import device_answer, seal
from akg_tui.evaluate.child.device_answer import WORD
from akg_tui.evaluate.child.faults import Fault
from akg_tui.evaluate.child.input_generator import ReferenceServer
from akg_tui.evaluate.child.kernel_server import (
    POISON,
    IdleServer,
    KernelServer,
    Memory,
    Server,
    checked_results,
)
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.protocol.child_protocol import Layout, Op, Plan, Status, TensorSlot


class Device:
    """An accelerator of PyTorch by the name of its type, with what a server needs of it."""

    def __init__(self, name: str, sealing: str) -> None:
        self.device = torch.device(name)
        self._module = torch.get_device_module(name)
        self.sealing = importlib.import_module(sealing)
        """A module like `triton_seal`."""
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
        self._mapped = 0
        """The address of the shared memory that the device reads and writes; 0: none."""

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
        self._bind_contract(plan.outputs)
        # Of an empty tensor there is no digest, and a word that is 0 is waited for.
        count = device_answer.digest_count(plan.outputs)
        self._digests = torch.ones(count, dtype=torch.int64, device=on.device)
        self._key = torch.zeros(1, dtype=torch.int64, device=on.device)
        self._block = np.frombuffer(self.memory["addresses"], np.uint8)
        self._map_words(plan.outputs)
        if not self._moved and isinstance(self.model, torch.nn.Module):
            self.model.to(on.device)
        self._moved = True

    def prepare(self, op: int, count: int, draw_args: tuple[int, ...], fds: Sequence[int]) -> int:
        """Serve PLACE, RUN, QUEUE, SETTLE and FETCH."""
        try:
            match op:
                case Op.PLACE:
                    self._place()
                case Op.RUN:
                    return self._call_model(draw_args[0])
                case Op.QUEUE:
                    return self._queue_call()
                case Op.SETTLE:
                    self._settle()
                case Op.FETCH:
                    self._fetch()
                case _:
                    return super().prepare(op, count, draw_args, fds)
        except BaseException as error:
            raise self.fault(error, Status.CALL) from error
        return 0

    def call(self) -> None:
        """Refuse a call that does not go through the device."""
        raise Fault(Status.CALL, "a kernel on a device can't be called on the host")

    def wake(self) -> None:
        """Touch the code around a call, and nothing on the device."""
        self._answer(0, ())

    def _place(self) -> None:
        on = self.on
        self._left_ns = self._wait_ns()
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
        self._key.fill_(key)
        on.sealing.unseal(self._plain, self._sealed, self._key)
        self._unseal_numbers(key)
        for position, value in self.numbers:
            arguments[position] = value.item()
        # A kernel may use streams of its own, which do not wait for this one.
        on.synchronize()
        found = self.model_call.call(self.model, arguments)
        on.synchronize()
        tensors = self._digest(found)
        digests = self._digests.cpu().numpy().view(np.uint64)
        sizes = [tensor.numel() for tensor in (*tensors, self._plain)]
        whole = seal.joined([int(d) for d, size in zip(digests, sizes, strict=True) if size])
        self._returned = tensors
        self._answer(self._left_ns, tensors)
        return whole

    def _queue_call(self) -> int:
        """Queue a call behind a wait for its key; return 0 if the device can't wait."""
        on, plan = self.on, self.plan
        if not self._mapped or plan.outputs is None:
            return 0
        self._returned = []
        on.sealing.await_key(self._key, self._mapped + device_answer.KEY_AT)
        on.sealing.unseal(self._plain, self._sealed, self._key)
        self._returned = self._digest(self.model_call.call(self.model, self.arguments))
        on.sealing.tell(self._digests, self._mapped + device_answer.DIGESTS_AT)
        return 1

    def _settle(self) -> None:
        """Wait for the work of all streams, and tell of the call that was queued."""
        self._answer(self._wait_ns(), self._returned)

    def _wait_ns(self) -> int:
        """Wait for the device; return the nanoseconds for which it was still working."""
        before = time.perf_counter_ns()
        self.on.synchronize()
        return time.perf_counter_ns() - before

    def _digest(self, found: Sequence[object]) -> list[torch.Tensor]:
        """Have the device digest what a model returned, and the arguments; return the results."""
        on = self.on
        tensors = checked_results(
            found, self._result_forms, self.plan.strides, device=on.device.type
        )
        for index, tensor in enumerate((*tensors, self._plain)):
            if tensor.numel():
                words = _words_of(tensor)
                lanes = seal.lanes_for(words.numel())
                on.sealing.digest(self._digests[index : index + 1], words, self._key, lanes)
        return tensors

    def _map_words(self, outputs: Layout) -> None:
        """Let the device read and write the words before the strides, and try whether it does."""
        sealing = self.on.sealing
        if self._mapped:
            sealing.unmap_host(self._mapped)
            self._mapped = 0
        if not self.plan.queues:
            return
        address = int(self._block.ctypes.data)
        if not sealing.map_host(address, device_answer.strides_at(outputs)):
            return
        count = device_answer.digest_count(outputs)
        digests = device_answer.words(self._block, device_answer.DIGESTS_AT, count)
        key = device_answer.words(self._block, device_answer.KEY_AT)
        key[0] = 1
        sealing.await_key(self._key, address + device_answer.KEY_AT)
        sealing.tell(self._digests, address + device_answer.DIGESTS_AT)
        self.on.synchronize()
        if int(self._key.item()) == 1 and all(word == 1 for word in digests):
            self._mapped = address

    def _unseal_numbers(self, key: int) -> None:
        if self.plan.inputs is None or not self.numbers:
            return
        for slot in self.plan.inputs.slots:
            if not isinstance(slot, TensorSlot) and hasattr(slot, "offset"):
                place = slice(slot.offset, slot.offset + WORD)
                seal.apply(self._host[place], self._unsealed[place], key, first=slot.offset // WORD)

    def _answer(self, left_ns: int, tensors: Sequence[torch.Tensor]) -> None:
        strides = [step for tensor in tensors for step in tensor.stride()]
        if self.plan.outputs is not None:
            device_answer.write(self._block, self.plan.outputs, left_ns, strides)

    def _fetch(self) -> None:
        """Copy the results to the host, and the arguments as the kernel left them."""
        outputs = self.plan.outputs
        if outputs is None:
            return
        self.check_places()
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
        self.model = lambda *_, **__: made
        self._made = made
        return 0

    def _place(self) -> None:
        """Write the results too: a kernel's are in the cache when they are digested."""
        super()._place()
        for result in self._made:
            result.zero_()
        self.on.synchronize()


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
