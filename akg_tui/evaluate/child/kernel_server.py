"""Loads a kernel, binds its arguments to shared memory, and calls it. Runs in the child.

Results stay in the kernel's memory until the next call; the child writes their addresses to shared
memory, and the judge reads them there. The judge must never trust reports of this module.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import random
import struct
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from akg_tui.core.kernel.kernel_files import Place
from akg_tui.evaluate.child import kernel_weights, model_call, work_watch
from akg_tui.evaluate.child.faults import Fault, describe, remember_source
from akg_tui.evaluate.child.guarded_memory import GuardedArguments, GuardedResults
from akg_tui.evaluate.child.model_call import ModelCall
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.protocol import value_tree
from akg_tui.evaluate.protocol.child_protocol import Contract, Group, Layout, Plan, Status
from akg_tui.evaluate.protocol.value_tree import Arguments, Mismatch, described

SEED_MASK = (1 << 63) - 1
CHANNEL = 3
"""The descriptor of the judge's requests; a child starts with no higher descriptor."""

POISON = 0x5A
"""A byte that, repeated, is a large number in any dtype: 1.5e16 in float32, 203 in float16,
20 in float8_e4m3fn."""

WARMED = 6
WARMED_FROM = 4 << 20
WARMED_BYTES = 512 << 20
"""For how many results memory is warmed before the first call, the bytes of a result from which it
is, and the most bytes. Smaller ones are called often enough, and warm memory lies in other pages in
each process, which moves their times."""

_M_PERTURB = -6

PLAN_FDS = ("plan", "report", "state", "inputs", "addresses")

Memory = dict[str, mmap.mmap]
_mapped: list[Memory] = []


class ResultForm(NamedTuple):
    """The required properties of one result."""

    shape: torch.Size
    dtype: torch.dtype
    name: str = ""


class Server:
    """Calls a model on arguments in shared memory; subclasses load the model."""

    broken = Status.BUILD
    """The status of a failure where the file lacks a name that its plan needs."""

    copies_kept = True
    """Whether a result that the model keeps is copied."""

    def __init__(self, plan: Plan, memory: Memory) -> None:
        self.plan = plan
        self.memory = memory
        self.model: Callable[..., object] = _no_model
        self.arguments: list[object] = []
        """The values of the flat list of inputs."""
        self.model_call = ModelCall(Contract(), self.named)
        self._changed_memory: frozenset[int] = frozenset()
        """The memory of the arguments that are results too: it is theirs, and stays."""
        self._result_forms: tuple[ResultForm, ...] = ()
        self._address_format = struct.Struct("<")
        self.results: list[torch.Tensor] = []
        """The results of the last call, which the judge may still read."""
        self._places: list[model_call.Place] = []
        """Where the arguments lie."""
        self._guarded: GuardedArguments | None = None
        self._guarded_results = GuardedResults()
        self._keeps = False
        """Whether the memory of a result outlived it."""
        self.numbers: list[tuple[int, torch.Tensor]] = []
        """The position and a view of each number among the arguments."""
        self._module = types.ModuleType("kernel")
        torch.set_grad_enabled(False)
        if plan.threads:
            torch.set_num_threads(plan.threads)
            # For a kernel with an OpenMP library of its own.
            os.environ["OMP_NUM_THREADS"] = str(plan.threads)

    def start(self) -> int:
        """Load the model; return the number of bytes written to the report."""
        raise NotImplementedError

    def prepare(self, op: int, count: int, draw_args: tuple[int, ...], fds: Sequence[int]) -> int:
        """Serve a request other than a call."""
        raise Fault(Status.CALL, "this process can only be called")

    def call(self) -> None:
        """Call the model once, and write the addresses of its results."""
        self._drop_results()
        try:
            found = self._called()
        except BaseException as error:
            raise self.fault(error, Status.CALL) from error
        results = checked_results(found, self._result_forms, self.plan.strides)
        self.results = [
            each.clone() if self._is_copied(at, each) else each for at, each in enumerate(results)
        ]
        if self._guarded is not None:
            self.check_places()
            self._guarded.check()
            self._guarded_results.check()
        self._tell_addresses()

    def check_places(self) -> None:
        """Refuse a model that gave an argument other memory; not while it is timed."""
        names = self.plan.inputs.names if self.plan.inputs is not None else ()
        if why := model_call.moved(self._places, self.arguments, names):
            raise Fault(Status.WRONG, why)

    def _drop_results(self) -> None:
        """Drop the results of the last call, so that new results can use their memory.

        A caller owns a result. Where its memory outlives it, the kernel keeps a buffer: from then
        on each result is copied, at the kernel's cost.
        """
        memory = [
            StorageWeakRef(each.untyped_storage())  # type: ignore[no-untyped-call]
            for each in self.results
            if each.untyped_storage()._cdata not in self._changed_memory
        ]
        self.results = []
        self._keeps = self._keeps or not all(
            each.expired()  # type: ignore[no-untyped-call]
            for each in memory
        )

    def _is_copied(self, at: int, result: torch.Tensor) -> bool:
        """Return whether a result is in memory that is not its own: an input's, or NumPy's.

        Where the reference's is a changed argument, that argument's memory is its own.
        """
        if not self.copies_kept:
            return False
        storage, contract = result.untyped_storage(), self.plan.contract
        returned = len(self._result_forms) - len(contract.changed)
        if storage._cdata in self._changed_memory and (at in contract.aliased or at >= returned):
            return False
        return self._keeps or not storage.resizable()

    def _called(self) -> Sequence[object]:
        """Call the model; return the results, changed arguments included."""
        for position, value in self.numbers:
            self.arguments[position] = value.item()
        if self._guarded is None:
            return self.model_call.call(self.model, self.arguments)
        self._guarded.fill()
        with self._guarded_results:
            return self.model_call.call(self.model, self.arguments)

    def wake(self) -> None:
        """Report the last results again, so that the code around a call is in the caches."""
        if self.results:
            self.results = checked_results(self.results, self._result_forms, self.plan.strides)
            self._tell_addresses()

    def _tell_addresses(self) -> None:
        values = [n for tensor in self.results for n in (tensor.data_ptr(), *tensor.stride())]
        self._address_format.pack_into(self.memory["addresses"], 0, *values)

    def rebind(self, plan: Plan, memory: Memory) -> None:
        """Bind the loaded model to arguments of other shapes in other memory."""
        self.plan = plan
        self._poison()
        self.memory = memory
        self.results = []
        self.bind()

    def bind(self) -> None:
        """Create the tensors of the arguments, so that a call creates none."""
        plan = self.plan
        if plan.inputs is None or plan.outputs is None:
            return
        inputs = self.memory["inputs"]
        self._guarded = GuardedArguments(plan.inputs, inputs) if plan.poisoned else None
        if self._guarded is not None:
            self.arguments = self._guarded.arguments
        else:
            self.arguments = list(layouts.load(plan.inputs, inputs, 0))
        self.numbers = layouts.numbers(plan.inputs, inputs, 0)
        self._bind_contract(plan.outputs)
        self._address_format = layouts.address_format(plan.outputs)
        if not plan.poisoned and not plan.device:
            warm_heap(plan.outputs.size)

    def _bind_contract(self, outputs: Layout) -> None:
        self._result_forms = result_forms(outputs)
        self.model_call = ModelCall(self.plan.contract, self.named)
        self._places = model_call.places_of(self.arguments)
        changed = (self.arguments[at] for at in self.plan.contract.changed)
        self._changed_memory = frozenset(
            each.untyped_storage()._cdata for each in changed if isinstance(each, torch.Tensor)
        )

    def _poison(self) -> None:
        # On a device results lie in its own memory, and memory of the host is the driver's.
        if self.plan.poisoned and not self.plan.device:
            poison()

    def fault(self, error: BaseException, status: Status, function: object = None) -> Fault:
        """Return the fault for an exception that the file's code raised.

        When no line of the file ran, it is located at `function`.
        """
        if isinstance(error, Fault):
            return error
        if isinstance(error, Mismatch):
            status = Status.WRONG if self.broken is Status.BUILD else status
            return Fault(status, f"wrong result: {error}")
        return describe(error, self.plan.files.names, status, first_line(function))

    def broken_at(self, line: int, what: str, status: Status | None = None) -> Fault:
        """Return the fault for a line of the file that does not keep its contract."""
        return Fault(status or self.broken, what, place=Place(self.plan.filename, line))

    def execute(self) -> None:
        """Run the file's top level."""
        plan = self.plan
        texts = plan.files.texts
        for name, text in texts.items():
            remember_source(name, text)
            Path(name).write_text(text, "utf-8")
        if len(texts) > 1:
            sys.path.insert(0, str(Path.cwd()))  # for imports of the other files
        self._module.__file__ = plan.filename
        # Dataclasses and torch.compile look their module up by name.
        sys.modules[self._module.__name__] = self._module
        try:
            exec(compile(plan.files.text, plan.filename, "exec"), self._module.__dict__)
        except BaseException as error:
            raise self.fault(error, self.broken) from error

    def seed(self, value: int) -> None:
        """Seed the generators of the host, and of devices if one is used."""
        seed_all(value, devices=bool(self.plan.device or self.plan.results_on))

    def named(self, name: str) -> object:
        """Return the object that the file binds to `name`, or None."""
        return getattr(self._module, name, None)

    def construct(
        self,
        name: str,
        arguments: Arguments,
        weights: Mapping[str, torch.Tensor] | None = None,
    ) -> Callable[..., object]:
        """Return an instance of the file's class `name`, made under the plan's seed.

        It has the `weights`, in `__init__` already, unless it lacks one of them.
        """
        made = self.named(name)
        if not callable(made):
            raise self.broken_at(1, f"no class {name} is defined")
        self.seed(self.plan.seed)
        status = Status.CALL if self.broken is Status.BUILD else self.broken
        try:
            with kernel_weights.given_during_init(made, weights or {}):
                model = arguments.call(made)
        except BaseException as error:
            raise self.fault(error, status, getattr(made, "__init__", None)) from error
        if not callable(model):
            what = f"{name} makes a {type(model).__name__}, which can't be called"
            raise self.broken_at(0, what, status)
        kernel_weights.give(model, weights or {})
        called: Callable[..., object] = model
        return called


class KernelServer(Server):
    """Serves `ModelNew`, with the reference's constructor arguments and weights."""

    def start(self) -> int:
        """Load the kernel; return the bytes of a remark on its weights in the report, or 0."""
        self._poison()
        foreign = work_watch.asked_of_ctypes() if self.plan.watched else None
        self.execute()
        state, known = self.memory["state"], self.plan.arguments
        if known is None or self.plan.weights is None:
            raise Fault(Status.CALL, "the plan of a kernel needs arguments and weights")
        # Copies: a kernel that writes to these must not reach the judge's memory.
        given = [
            value.clone() if isinstance(value, torch.Tensor) else value
            for value in layouts.load(known, state, 0)
        ]
        stored = layouts.views(self.plan.weights, state, known.size)
        wanted = dict(zip(self.plan.weights.names, stored, strict=True))
        arguments = value_tree.nested_arguments(self.plan.constructor, given, self.named)
        self.model = self.construct("ModelNew", arguments, wanted)
        lacking = kernel_weights.lacking(self.model, wanted)
        if lacking and self.plan.trained:
            raise self.broken_at(first_line(self.named("ModelNew")), lacking)
        remark = lacking or kernel_weights.packed(self.model, wanted)
        self.bind()
        if foreign is not None:
            self.model = work_watch.WatchedModel(self.model, foreign)
        text = remark.encode("utf-8", "replace")[: len(self.memory["report"])]
        self.memory["report"][: len(text)] = text
        return len(text)


class IdleServer(Server):
    """Returns results made beforehand, to measure the fixed cost of a call."""

    copies_kept = False

    def start(self) -> int:
        """Make the results."""
        self.bind()
        made = [torch.empty(form.shape, dtype=form.dtype) for form in self._result_forms]
        self.model = lambda *_, **__: made
        return 0

    def _bind_contract(self, outputs: Layout) -> None:
        returned = Group("list", (None,) * len(outputs.tensors))
        contract = Contract(self.plan.contract.inputs, returned)
        self.plan = msgspec.structs.replace(self.plan, contract=contract)
        super()._bind_contract(outputs)


def result_forms(outputs: Layout) -> tuple[ResultForm, ...]:
    """Return the form of each result in a layout."""
    slots = outputs.tensors
    names = outputs.names or ("",) * len(slots)
    return tuple(
        ResultForm(torch.Size(slot.shape), layouts.DTYPES[slot.dtype], name)
        for slot, name in zip(slots, names, strict=True)
    )


def checked_results(
    results: Sequence[object],
    wanted: Sequence[ResultForm],
    strides: Sequence[str] = (),
    *,
    device: str = "cpu",
) -> list[torch.Tensor]:
    """Return a kernel's results as dense tensors; Fault(WRONG) unless they have the `wanted` form.

    `strides` has the worst stride class allowed for each result; empty: any class.
    """
    if len(results) != len(wanted):
        what = f"wrong result: {described(results)}, expected {len(wanted)} tensor(s)"
        raise Fault(Status.WRONG, what)
    tensors: list[torch.Tensor] = []
    for index, (value, target) in enumerate(zip(results, wanted, strict=True)):
        name = target.name if " " in target.name or "." in target.name else f"output {index}"
        # Not isinstance: a subclass could compute lazily, on reading.
        if type(value) is not torch.Tensor and type(value) is not torch.nn.Parameter:
            what = f"wrong result: {name} is {described(value)}, not a tensor"
            raise Fault(Status.WRONG, what)
        if value.shape != target.shape:
            got, want = list(value.shape), list(target.shape)
            raise Fault(Status.WRONG, f"wrong shape: {name} is {got}, expected {want}")
        if value.dtype != target.dtype:
            got_type, want_type = (str(t.dtype).removeprefix("torch.") for t in (value, target))
            what = f"wrong dtype: {name} is {got_type}, expected {want_type}"
            raise Fault(Status.WRONG, what)
        if value.device.type != device:
            what = f"wrong device: {name} is on {value.device}, expected {device}"
            raise Fault(Status.WRONG, what)
        if value.layout is not torch.strided:
            what = f"wrong result: {name} is {value.layout}, expected torch.strided"
            raise Fault(Status.WRONG, what)
        worst = strides[index] if strides else layouts.STRIDE_CLASSES[-1]
        dense = value
        if not value.is_contiguous():
            if lies := layouts.worse_stride_class(value.shape, value.stride(), worst):
                raise Fault(Status.WRONG, layouts.stride_complaint(index, lies, worst))
            if not layouts.is_dense(value.shape, value.stride()):
                dense = value.contiguous()
        # A lazily conjugated or negated tensor does not have its values in memory yet.
        tensors.append(dense.resolve_conj().resolve_neg())
    return tensors


def open_plan(fds: Sequence[int]) -> tuple[Plan, Memory]:
    """Map the memory that came with a LOAD or BIND request and read the plan in it."""
    files = [os.fstat(fd) for fd in fds]
    memory = {
        name: map_fd(fd, shared=name not in ("plan", "state"))
        for name, fd in zip(PLAN_FDS, fds, strict=False)
    }
    # Before Python 3.13 a mapping keeps a duplicate of its descriptor, which a kernel must not
    # find. Others belong to the kernel, or to the driver of its device. Mappings are kept, or they
    # would close these numbers.
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        with contextlib.suppress(OSError):  # that of the list itself
            known = os.fstat(number)
            if number > CHANNEL and any(os.path.samestat(known, each) for each in files):
                os.close(number)
    _mapped.append(memory)
    return msgspec.json.decode(memory["plan"][:].rstrip(b"\0"), type=Plan), memory


def map_fd(fd: int, *, shared: bool = True) -> mmap.mmap:
    """Map a block, or without `shared` a private copy of it; close its descriptor."""
    access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
    mapped = mmap.mmap(fd, os.fstat(fd).st_size, access=access)
    os.close(fd)
    return mapped


def seed_all(value: int, *, devices: bool = True) -> None:
    """Seed every generator that a reference commonly draws from.

    `devices`: those of accelerators too, for which PyTorch keeps the stack of the call: it takes a
    hundred times as long.
    """
    seed = torch.manual_seed if devices else torch.default_generator.manual_seed
    seed(value & SEED_MASK)
    np.random.seed(value & 0xFFFFFFFF)
    random.seed(value)


def first_line(function: object) -> int:
    """Return the line where a Python function begins, or 0."""
    code = getattr(function, "__code__", None)
    return code.co_firstlineno if isinstance(code, types.CodeType) else 0


def warm_heap(result_bytes: int) -> None:
    """Have the heap hold memory whose pages exist, for large results and temporaries.

    Otherwise the first calls would wait for pages, of which large tensors have many, and few calls
    of them are timed: a kernel that makes its results in `__init__` would seem faster. It takes
    several results: an aligned block may not fit where a block of its size was freed (in glibc
    before 2.38). The memory holds `POISON`.
    """
    if result_bytes >= WARMED_FROM:
        torch.empty(min(WARMED * result_bytes, WARMED_BYTES), dtype=torch.uint8).fill_(POISON)


def poison() -> None:
    """Make the C library fill all memory allocated later with `POISON`, if it can.

    New memory is zero and reused memory has an old result, so a kernel that leaves a part of its
    result unwritten may seem correct. Only glibc can do it (mallopt(3), M_PERTURB), with the
    complement of the given byte, except small blocks of its caches.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_PERTURB, POISON ^ 0xFF)


def _no_model(*_: object) -> object:
    raise Fault(Status.CALL, "nothing was loaded")
