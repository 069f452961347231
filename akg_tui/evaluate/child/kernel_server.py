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

from akg_tui.evaluate.child import tensor_layout as layouts
from akg_tui.evaluate.child.faults import Fault, describe, located, remember_source
from akg_tui.evaluate.child.guarded_memory import GuardedArguments, GuardedResults
from akg_tui.evaluate.child.protocol import Layout, Plan, Status
from akg_tui.evaluate.sandbox.confinement import OPEN_FILES
from akg_tui.kernel_files import split_files

SEED_MASK = (1 << 63) - 1
CHANNEL = 3
"""The descriptor of the judge's requests; a child starts with no higher descriptor."""

POISON = 0x5A
"""A byte that, repeated, is a large number in any dtype: 1.5e16 in float32, 203 in float16,
20 in float8_e4m3fn."""

CHANGED_RESULTS = (
    "the result of an earlier call changed: it lies in memory that the kernel uses again, or in "
    "that of an input (return newly allocated memory)"
)

WARMED = 6
WARMED_FROM = 4 << 20
WARMED_BYTES = 512 << 20
"""For how many results memory is warmed before the first call, the bytes of a result from which it
is, and the most bytes."""

_M_PERTURB = -6

PLAN_FDS = ("plan", "report", "state", "inputs", "addresses")

Memory = dict[str, mmap.mmap]
Outcome = Callable[[], object]
"""Returns what the model returned, or raises what it raised."""

_mapped: list[Memory] = []


class ResultForm(NamedTuple):
    """The required properties of one result."""

    shape: torch.Size
    dtype: torch.dtype


class Server:
    """Calls a model on arguments in shared memory; subclasses load the model."""

    broken = Status.BUILD
    """The status of a failure where the file lacks a name that its plan needs."""

    def __init__(self, plan: Plan, memory: Memory) -> None:
        self.plan = plan
        self.memory = memory
        self.model: Callable[..., object] = _no_model
        self.arguments: list[object] = []
        self._result_forms: tuple[ResultForm, ...] = ()
        self._address_format = struct.Struct("<")
        self.calls = 0
        self.results: dict[int, list[torch.Tensor]] = {}
        """The results that the judge may still read, by number of their call."""
        self.is_plain = False
        """Whether the model returned tensors that can be told as they are; no memory is guarded."""
        self.is_copying = False
        self._guarded: GuardedArguments | None = None
        self._guarded_results = GuardedResults()
        self.numbers: list[tuple[int, torch.Tensor]] = []
        """The position and a view of each number among the arguments."""
        self._module = types.ModuleType("kernel")
        torch.set_grad_enabled(False)

    def start(self) -> int:
        """Load the model; return the number of bytes written to the report."""
        raise NotImplementedError

    def prepare(self, op: int, count: int, draw_args: tuple[int, ...], fds: Sequence[int]) -> int:
        """Serve a request other than a call."""
        raise Fault(Status.CALL, "this process can only be called")

    def call(self, held: int, pinned: int, outcome: Outcome | None = None) -> None:
        """Call the model once, and write the addresses of its results.

        The results of `held` calls before this one, and of call number `pinned`, stay in memory.
        `outcome`: the model was called already.
        """
        self.calls += 1
        # First, so that the new results can use the memory of old ones.
        oldest = self.calls - held
        for number in [n for n in self.results if n < oldest and n != pinned]:
            del self.results[number]
        try:
            result = outcome() if outcome is not None else self._result_of_model()
        except BaseException as error:
            raise self.fault(error, Status.CALL) from error
        tensors = checked_results(result, self._result_forms, self.plan.strides)
        if self._guarded is not None:
            self._guarded.check()
            self._guarded_results.check()
        given = result if isinstance(result, tuple | list) else (result,)
        as_given = all(ours is theirs for ours, theirs in zip(tensors, given, strict=True))
        self.is_plain = as_given and self._guarded is None
        if self.is_copying or self._use_memory_again(tensors):
            self.is_copying = True
            tensors = [tensor.clone() for tensor in tensors]
        self.results[self.calls] = tensors
        self._tell_addresses(tensors)

    def _result_of_model(self) -> object:
        for position, value in self.numbers:
            self.arguments[position] = value.item()
        if self._guarded is None:
            return self.model(*self.arguments)
        self._guarded.fill()
        with self._guarded_results:
            return self.model(*self.arguments)

    def _use_memory_again(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Return whether results lie where those of the call before lie.

        A model with one buffer has each result copied, at its cost. Several buffers in turn are
        refused, because they overwrite results of calls before without that being seen at once.
        """
        addresses = {tensor.data_ptr() for tensor in tensors if tensor.numel()}
        for number, others in self.results.items():
            if any(other.data_ptr() in addresses for other in others):
                if number < self.calls - 1:
                    raise Fault(Status.WRONG, CHANGED_RESULTS)
                return True
        return False

    def wake(self) -> None:
        """Report the last results again, so that the code around a call is in the caches."""
        last = self.results.get(self.calls)
        if last is not None:
            self._tell_addresses(checked_results(last, self._result_forms, self.plan.strides))

    def _tell_addresses(self, tensors: Sequence[torch.Tensor]) -> None:
        values = [n for tensor in tensors for n in (tensor.data_ptr(), *tensor.stride())]
        self._address_format.pack_into(self.memory["addresses"], 0, *values)

    def rebind(self, plan: Plan, memory: Memory) -> None:
        """Bind the loaded model to arguments of other shapes in other memory."""
        self.plan = plan
        self._poison()
        self.memory = memory
        self.results.clear()
        self.is_plain = False
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
        self._result_forms = result_forms(plan.outputs)
        self._address_format = layouts.address_format(plan.outputs)
        if not plan.poisoned and not plan.device:
            warm_heap(plan.outputs.size)

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
        files = self.plan.files or (self.plan.filename,)
        return Fault(*describe(error, files, status, first_line(function)))

    def execute(self) -> None:
        """Run the file's top level."""
        plan = self.plan
        texts = split_files(plan.files or (plan.filename,), plan.source)
        for name, text in texts.items():
            remember_source(name, text)
            Path(name).write_text(text, "utf-8")
        if len(texts) > 1:
            sys.path.insert(0, str(Path.cwd()))  # for imports of the other files
        self._module.__file__ = plan.filename
        # Dataclasses and torch.compile look their module up by name.
        sys.modules[self._module.__name__] = self._module
        try:
            exec(compile(texts[plan.filename], plan.filename, "exec"), self._module.__dict__)
        except BaseException as error:
            raise self.fault(error, self.broken) from error

    def named(self, name: str) -> object:
        """Return the object that the file binds to `name`, or None."""
        return getattr(self._module, name, None)

    def construct(self, name: str, arguments: Sequence[object]) -> Callable[..., object]:
        """Return an instance of the file's class `name`, made under the plan's seed."""
        made = self.named(name)
        if not callable(made):
            raise Fault(self.broken, located(self.plan.filename, 1, f"no class {name} is defined"))
        seed_all(self.plan.seed)
        status = Status.CALL if self.broken is Status.BUILD else self.broken
        try:
            model = made(*arguments)
        except BaseException as error:
            raise self.fault(error, status, getattr(made, "__init__", None)) from error
        if not callable(model):
            what = f"{name} makes a {type(model).__name__}, which can't be called"
            raise Fault(status, located(self.plan.filename, None, what))
        called: Callable[..., object] = model
        return called


class KernelServer(Server):
    """Serves `ModelNew`, with the reference's constructor arguments and weights."""

    def start(self) -> int:
        """Load the kernel; return 1 + the position of a weight that it lacks, or 0."""
        self._poison()
        self.execute()
        state, arguments = self.memory["state"], self.plan.arguments
        if arguments is None or self.plan.weights is None:
            raise Fault(Status.CALL, "the plan of a kernel needs arguments and weights")
        # Copies: a kernel that writes to these must not reach the judge's memory.
        given = [
            value.clone() if isinstance(value, torch.Tensor) else value
            for value in layouts.load(arguments, state, 0)
        ]
        self.model = self.construct("ModelNew", given)
        stored = layouts.views(self.plan.weights, state, arguments.size)
        wanted = dict(zip(self.plan.weights.names, stored, strict=True))
        lacking = _copy_weights(self.model, wanted)
        if lacking and self.plan.trained:
            what = _lacks(self.model, lacking, wanted)
            line = first_line(self.named("ModelNew"))
            raise Fault(Status.BUILD, located(self.plan.filename, line, what))
        self.bind()
        return 1 + list(wanted).index(lacking) if lacking else 0


class IdleServer(Server):
    """Returns results made beforehand, to measure the fixed cost of a call."""

    def start(self) -> int:
        """Make the results."""
        self.bind()
        made = [torch.empty(form.shape, dtype=form.dtype) for form in self._result_forms]
        self.model = lambda *_: made
        return 0


def result_forms(outputs: Layout) -> tuple[ResultForm, ...]:
    """Return the form of each result in a layout."""
    return tuple(
        ResultForm(torch.Size(slot.shape), layouts.DTYPES[slot.dtype]) for slot in outputs.tensors
    )


def checked_results(
    result: object,
    wanted: Sequence[ResultForm],
    strides: Sequence[str] = (),
    *,
    device: str = "cpu",
) -> list[torch.Tensor]:
    """Return a kernel's result as dense tensors; Fault(WRONG) unless it has the `wanted` form.

    `strides` has the worst stride class allowed for each result; empty: any class.
    """
    results = result if isinstance(result, tuple | list) else (result,)
    if len(results) != len(wanted):
        what = f"wrong result: {describe_value(result)}, expected {len(wanted)} tensor(s)"
        raise Fault(Status.WRONG, what)
    tensors: list[torch.Tensor] = []
    for index, (value, target) in enumerate(zip(results, wanted, strict=True)):
        # Not isinstance: a subclass could compute lazily, on reading.
        if type(value) is not torch.Tensor and type(value) is not torch.nn.Parameter:
            what = f"wrong result: output {index} is {describe_value(value)}, not a tensor"
            raise Fault(Status.WRONG, what)
        if value.shape != target.shape:
            got, want = list(value.shape), list(target.shape)
            raise Fault(Status.WRONG, f"wrong shape: output {index} is {got}, expected {want}")
        if value.dtype != target.dtype:
            got_type, want_type = (str(t.dtype).removeprefix("torch.") for t in (value, target))
            what = f"wrong dtype: output {index} is {got_type}, expected {want_type}"
            raise Fault(Status.WRONG, what)
        if value.device.type != device:
            what = f"wrong device: output {index} is on {value.device}, expected {device}"
            raise Fault(Status.WRONG, what)
        if value.layout is not torch.strided:
            what = f"wrong result: output {index} is {value.layout}, expected torch.strided"
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
    for number in range(CHANNEL + 1, OPEN_FILES):
        with contextlib.suppress(OSError):
            known = os.fstat(number)
            if any(os.path.samestat(known, each) for each in files):
                os.close(number)
    _mapped.append(memory)
    return msgspec.json.decode(memory["plan"][:].rstrip(b"\0"), type=Plan), memory


def map_fd(fd: int, *, shared: bool = True) -> mmap.mmap:
    """Map a block, or without `shared` a private copy of it; close its descriptor."""
    access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
    mapped = mmap.mmap(fd, os.fstat(fd).st_size, access=access)
    os.close(fd)
    return mapped


def seed_all(value: int) -> None:
    """Seed every generator that a reference commonly draws from."""
    torch.manual_seed(value & SEED_MASK)
    np.random.seed(value & 0xFFFFFFFF)
    random.seed(value)


def describe_value(value: object) -> str:
    """Return a description of a value's type and shape, for a message."""
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}" if value is not None else "None"


def first_line(function: object) -> int | None:
    """Return the line where a Python function begins, or None."""
    code = getattr(function, "__code__", None)
    return code.co_firstlineno if isinstance(code, types.CodeType) else None


def _copy_weights(model: object, wanted: Mapping[str, torch.Tensor]) -> str:
    """Copy the reference's weights to a model, which may have additional weights.

    Return the name of a weight that the model lacks, and copy none then; "" if it lacks none.
    """
    own = model.state_dict() if isinstance(model, torch.nn.Module) else {}
    for name, value in wanted.items():
        same = own.get(name)
        if same is None or (same.shape, same.dtype) != (value.shape, value.dtype):
            return name
    if isinstance(model, torch.nn.Module):
        model.load_state_dict(wanted, strict=False)
    return ""


def _lacks(model: object, name: str, wanted: Mapping[str, torch.Tensor]) -> str:
    """Return the message for a model without the weight `name`."""
    own = model.state_dict() if isinstance(model, torch.nn.Module) else {}
    shape, dtype = wanted[name].shape, wanted[name].dtype
    known = ", ".join(wanted)
    if name in own:
        has, needs = f"{list(own[name].shape)} {own[name].dtype}", f"{list(shape)} {dtype}"
        return f"{name!r} in ModelNew is {has}, expected {needs}, as in the reference"
    others = (each for each, value in own.items() if (value.shape, value.dtype) == (shape, dtype))
    renamed = next((each for each in others if each not in wanted), "")
    if renamed:
        return (
            f"{name!r} is missing in ModelNew (rename {renamed!r}?); the reference's weights are "
            f"given after __init__, by name: {known}"
        )
    return (
        f"{name!r} is missing in ModelNew; the reference's weights are given after __init__, by "
        f"name: {known}"
    )


def warm_heap(result_bytes: int) -> None:
    """Have the C library hold memory whose pages exist, for results of this size and temporaries.

    A large block that was freed between others is too small for an aligned one of its size (in
    glibc before 2.38), so the first calls would take new memory again and again. Of large tensors
    few calls are timed, and a kernel that makes its results in `__init__` would seem faster. The
    memory holds `POISON`.
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
