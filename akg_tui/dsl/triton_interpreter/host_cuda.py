"""CUDA means the host, where Triton's interpreter runs the kernels of a GPU.

What the files of a task ask of CUDA is answered as by one GPU, and what they place there is placed
on the host; so is what an installed library of kernels asks. Torch, Triton, Helion and Python's own
library get true answers.
"""

# Triton has no types.
# mypy: disable-error-code="import-untyped,no-untyped-call"
# ruff: noqa: SIM905 (words are easier to read as text)

from __future__ import annotations

import contextlib
import functools
import re
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import triton.testing
from torch._library.custom_ops import CustomOpDef
from torch.overrides import TorchFunctionMode
from triton._C import libtriton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from akg_tui.dsl.interpretation import CannotRunHere

USUAL = GPUTarget("cuda", 80, 32)
"""The oldest GPU whose code kernels have: what newer ones add cannot run here."""

PROCESSORS = 6
"""Few, and no power of two, so that the programs of a persistent kernel take several tiles."""

_NAMES = re.compile(r"cuda(:\d+)?")
_PYTHON = sysconfig.get_path("stdlib")
_INSTALLED = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
_TOLD_TRULY = (
    *(f"{path}/{name}/" for path in _INSTALLED for name in ("torch", "triton", "helion")),
    f"{Path(__file__).parents[2]}/",
)


@functools.lru_cache(maxsize=4096)
def _is_told_truly(path: str) -> bool:
    python = path.startswith(_PYTHON) and not path.startswith(_INSTALLED)
    return python or path.startswith(_TOLD_TRULY)


def _asked_by_the_task() -> bool:
    """Return whether a file of the task asks, or of a library of kernels.

    Of code without a file, the file that runs it counts.
    """
    asker = sys._getframe(2)
    while asker.f_back is not None and (
        asker.f_code.co_name == "__torch_function__"  # of another mode
        or asker.f_code.co_filename.startswith("<")
    ):
        asker = asker.f_back
    return not _is_told_truly(asker.f_code.co_filename)


def on_host(value: Any) -> Any:
    """Return the host in place of a GPU's name or device, any other value as it is."""
    if isinstance(value, str):
        return "cpu" if _NAMES.fullmatch(value) else value
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return value


class HostMode(TorchFunctionMode):
    """Places on the host what is to be placed on a GPU."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a function of torch with the host in place of a GPU."""
        if func in _PROPERTIES and _asked_by_the_task():
            return _PROPERTIES[func]
        if func in _STAYS:
            return args[0]
        if func is torch.Tensor.get_device and _asked_by_the_task():
            return 0
        if func is torch.device:  # a name alone, which a file may compare with another
            return func(*args, **(kwargs or {}))
        kwargs = {name: on_host(value) for name, value in (kwargs or {}).items()}
        if "device" in kwargs and type(kwargs["device"]) is int:
            kwargs["device"] = "cpu"
        if func is torch.Tensor.to and len(args) > 1 and type(args[1]) is int:
            args = (args[0], "cpu", *args[2:])
        kwargs.pop("pin_memory", None)
        return func(*map(on_host, args), **kwargs)


_STAYS = (torch.Tensor.cuda, torch.Tensor.pin_memory)
"""Methods that return the tensor, because it is where it shall be."""


_PROPERTIES: dict[Any, Any] = {
    vars(torch._C.TensorBase)["is_cuda"].__get__: True,
    vars(torch._C.TensorBase)["device"].__get__: torch.device("cuda", 0),
}
"""The properties of a tensor as the files of a task read them."""


class _Done:
    """Work of the host, which is done when it is asked about."""

    def query(self) -> bool:
        """Return that nothing is left to do."""
        return True

    def _nothing(self, *_: Any) -> None:
        pass

    synchronize = wait = wait_stream = wait_event = _nothing


class Stream(_Done):
    """A stream of the host, on which all work is done at once."""

    cuda_stream = device_index = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device = torch.device("cuda", 0)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        """Return the event, recorded."""
        event = event or Event()
        event.record()
        return event


class Event(_Done):
    """An event of the host, which has happened when it is recorded."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.record()

    def record(self, *_: Any) -> None:
        """Note the time."""
        self._at = time.perf_counter()

    def elapsed_time(self, other: Event) -> float:
        """Return the milliseconds to another event."""
        return (other._at - self._at) * 1e3


def _capability(*_: Any) -> tuple[int, int]:
    """Return the compute capability of the first target, if it is a GPU of NVIDIA."""
    arch = driver.active.targets[0].arch
    return divmod(arch if isinstance(arch, int) else USUAL.arch, 10)


def _properties(*_: Any) -> SimpleNamespace:
    major, minor = _capability()
    return SimpleNamespace(
        name="Triton's interpreter",
        major=major,
        minor=minor,
        multi_processor_count=PROCESSORS,
        total_memory=80 << 30,
        warp_size=32,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=163 << 10,
        shared_memory_per_multiprocessor=164 << 10,
        L2_cache_size=40 << 20,
        gcnArchName="",
    )


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _inside(*_: Any, **__: Any) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def _graphs(*_: Any, **__: Any) -> Any:
    raise CannotRunHere("CUDA graphs need a GPU")


def _cublas(*_: Any, **__: Any) -> Any:
    raise CannotRunHere("cuBLAS needs a GPU")


ANSWERS: dict[str, Callable[..., Any]] = {
    "is_available": lambda: True,
    "is_initialized": lambda: True,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "get_device_capability": _capability,
    "get_device_name": lambda *_: _properties().name,
    "get_device_properties": _properties,
    "get_arch_list": lambda: ["sm_80"],
    "is_bf16_supported": lambda *_, **__: True,
    "is_current_stream_capturing": lambda: False,
    "current_stream": Stream,
    "default_stream": Stream,
    "mem_get_info": lambda *_: (80 << 30, 80 << 30),
    **dict.fromkeys(("device", "device_of", "stream", "Device", "_DeviceGuard"), _inside),
    **dict.fromkeys(
        "init synchronize set_device set_stream empty_cache reset_peak_memory_stats ipc_collect "
        "reset_max_memory_allocated".split(),
        _nothing,
    ),
    **dict.fromkeys(
        "memory_allocated memory_reserved max_memory_allocated max_memory_reserved".split(),
        lambda *_: 0,
    ),
    **dict.fromkeys(("CUDAGraph", "graph", "make_graphed_callables"), _graphs),
}
"""By name in `torch.cuda`: the function or class that the files of a task get instead."""


def _either(real: Any, answer: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return answer(*args, **kwargs) if _asked_by_the_task() else real(*args, **kwargs)

    return call


class HostDriver:
    """Stands in for the driver of a GPU; device number n is one of the n-th target."""

    def __init__(self, targets: tuple[GPUTarget, ...] = (USUAL,)) -> None:
        self.targets = targets
        self.device = 0
        self.utils = SimpleNamespace(get_device_properties=self._limits)

    def _limits(self, *_: Any) -> dict[str, int]:
        told = _properties()
        return {
            "multiprocessor_count": told.multi_processor_count,
            "max_shared_mem": told.shared_memory_per_block_optin,
            "max_num_regs": told.regs_per_multiprocessor,
            "warpSize": told.warp_size,
            "sm_clock_rate": 1410000,
            "mem_clock_rate": 1512000,
            "mem_bus_width": 5120,
        }

    def get_current_target(self) -> GPUTarget:
        """Return the target of the current device."""
        return self.targets[self.device]

    def get_current_device(self) -> int:
        """Return the number of the current device."""
        return self.device

    def set_current_device(self, device: int) -> None:
        """Stay at the only device."""

    def get_current_stream(self, device: int | None = None) -> int:
        """Return the number of the only stream."""
        return 0

    def get_active_torch_device(self) -> torch.device:
        """Return the device as the task's files see it."""
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        """Return PyTorch's module for the device."""
        return torch.cuda

    def get_device_capability(self, *_: Any) -> tuple[int, int]:
        """Return the compute capability."""
        return _capability()

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return what times a call."""
        return _benched


_mode: list[HostMode] = []


def install(answering: HostDriver | None = None) -> None:
    """Have CUDA mean the host in this thread, those that start later, and forked processes."""
    if _mode:
        return
    driver.set_active(answering or HostDriver())
    for name, answer in ANSWERS.items():
        if (real := getattr(torch.cuda, name, None)) is not None:
            setattr(torch.cuda, name, _either(real, answer))
    torch.cuda.Stream, torch.cuda.Event = Stream, Event  # type: ignore[misc,assignment]
    # Code that torch.compile generates for a GPU asks for these.
    torch._C._cuda_getCurrentRawStream = lambda *_: 0
    guards: Any = torch._C._dynamo.guards
    guards._empty_strided_cuda = guards._empty_strided_cpu
    libtriton.nvidia.cublas.CublasLt = _cublas
    for name in ("range_push", "range_pop", "mark"):
        setattr(torch.cuda.nvtx, name, _nothing)
    torch.cuda.nvtx.range = _inside  # type: ignore[assignment]
    by_default = torch.set_default_device
    torch.set_default_device = lambda device: by_default(on_host(device))
    torch.autocast = torch.amp.autocast = _Autocast  # type: ignore[misc]
    torch.cuda.amp.autocast = functools.partial(_Autocast, "cuda")  # type: ignore[misc,assignment]
    torch.Generator = _Generator  # type: ignore[misc]
    _serve_operators()
    triton.testing.do_bench = triton.testing.do_bench_cudagraph = _benched
    _mode.append(HostMode())
    _mode[0].__enter__()
    run = threading.Thread.run

    def on_host_too(thread: threading.Thread) -> None:
        with _mode[0] if _mode else contextlib.nullcontext():
            run(thread)

    threading.Thread.run = on_host_too  # type: ignore[method-assign, assignment]


def _serve_operators() -> None:
    """Have an operator that a file defines for CUDA serve the host."""
    implement, register = torch.library.Library.impl, CustomOpDef.register_kernel

    def impl(library: Any, name: Any, function: Any, key: str = "", **named: Any) -> None:
        implement(library, name, function, key.replace("CUDA", "CPU"), **named)

    def register_kernel(operator: Any, types: Any, *rest: Any, **named: Any) -> Any:
        several = isinstance(types, list | tuple)
        hosts = [on_host(each) for each in types] if several else on_host(types)
        return register(operator, hosts, *rest, **named)

    torch.library.Library.impl = impl  # type: ignore[method-assign,assignment]
    CustomOpDef.register_kernel = register_kernel  # type: ignore[method-assign]


def _benched(function: Callable[[], Any], *_: Any, quantiles: Any = None, **__: Any) -> Any:
    """Call a function, and take no time: a clock says nothing of an interpreter."""
    function()
    return [1.0] * len(quantiles) if quantiles else 1.0


def withdraw() -> None:
    """Have new tensors be placed where they are asked for again."""
    while _mode:
        _mode.pop().__exit__(None, None, None)


class _Autocast(torch.amp.autocast_mode.autocast):
    def __init__(self, device_type: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(on_host(device_type), *args, **kwargs)


class _OfGenerators(type(torch.Generator)):  # type: ignore[misc]
    def __instancecheck__(cls, given: object) -> bool:
        return isinstance(given, _Generator.__base__)


class _Generator(torch.Generator, metaclass=_OfGenerators):
    def __new__(cls, device: Any = "cpu") -> _Generator:
        return super().__new__(cls, on_host(device))  # type: ignore[call-arg]
