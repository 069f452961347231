"""Finds accesses past the end of a kernel's arguments and results. Runs in the child.

It finds mistakes of honest kernels. A kernel can hide an access on purpose, because this code runs
in the kernel's process. Timed calls are not guarded.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from akg_tui.evaluate.child.faults import Fault
from akg_tui.evaluate.protocol import tensor_layout as layouts
from akg_tui.evaluate.protocol.child_protocol import ALIGNMENT, Layout, Status, TensorSlot

CANARY = 0xA5

FACTORIES = frozenset(
    f"{prefix}{name}{suffix}"
    for prefix, suffix in (("", ""), ("", "_like"), ("new_", ""))
    for name in ("empty", "zeros", "ones", "full")
)
"""The functions of torch that make tensors, by name."""


class GuardedArguments:
    """Copies of the tensors of one item, each of which ends at a page that can't be accessed.

    A tensor keeps the alignment that PyTorch promises, so up to 63 bytes lie between its end and
    that page. They hold a pattern, which shows a write; a read of them is not found.

    Parameters
    ----------
    layout
        The item's layout.
    shared
        The memory that holds the item at offset 0.
    """

    def __init__(self, layout: Layout, shared: mmap.mmap) -> None:
        self._shared = memoryview(shared)
        self._regions: list[tuple[TensorSlot, memoryview]] = []
        self._arguments: list[object] = list(layouts.load(layout, shared, 0))
        for index, slot in enumerate(layout.slots):
            if isinstance(slot, TensorSlot) and slot.bytes:
                region = _region(slot.bytes)
                self._regions.append((slot, region))
                self._arguments[index] = _view(slot, region)

    @property
    def arguments(self) -> list[object]:
        """The values to call a model with."""
        return self._arguments

    def fill(self) -> None:
        """Copy the tensors from the shared memory."""
        for slot, region in self._regions:
            region[: slot.bytes] = self._shared[slot.offset :][: slot.bytes]
            region[slot.bytes :] = bytes([CANARY]) * (len(region) - slot.bytes)

    def check(self) -> None:
        """Copy the tensors back; raise Fault if there was a write past the end of one."""
        for index, (slot, region) in enumerate(self._regions):
            self._shared[slot.offset :][: slot.bytes] = region[: slot.bytes]
            _refuse(region[slot.bytes :], f"tensor argument {index}")


class GuardedResults(TorchFunctionMode):
    """Within a `with` block, a page with a pattern follows each new tensor, then a forbidden page.

    The pattern tells where a write was. Tensors that C++ allocates are not guarded; the C library
    notices most writes past their end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._regions: list[tuple[TensorSlot, memoryview]] = []

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        """Replace the memory of what `func` returns, if it makes a tensor."""
        made = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") not in FACTORIES or type(made) is not torch.Tensor:
            return made
        if made.requires_grad or not made.is_cpu or not made.numel() or not _is_whole(made):
            return made
        name = str(made.dtype).removeprefix("torch.")
        if name not in layouts.DTYPES:
            return made
        slot = TensorSlot(name, tuple(made.shape), tuple(made.stride()), 0)
        region = _region(slot.bytes, mmap.PAGESIZE)
        guarded = _view(slot, region)
        guarded.copy_(made)
        region[slot.bytes :] = bytes([CANARY]) * (len(region) - slot.bytes)
        self._regions.append((slot, region))
        return guarded

    def check(self) -> None:
        """Raise Fault if there was a write past the end of a tensor made since the last check."""
        regions, self._regions = self._regions, []
        for slot, region in regions:
            _refuse(region[slot.bytes :], f"a new tensor ({slot})")


def _is_whole(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has its storage for itself."""
    return tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


def _refuse(rest: memoryview, name: str) -> None:
    if rest == bytes([CANARY]) * len(rest):
        return
    for past, value in enumerate(rest):
        if value != CANARY:
            what = f"the kernel wrote past the end of {name}, {past} bytes behind it"
            raise Fault(Status.WRONG, what)


def _region(size: int, more: int = 0) -> memoryview:
    """Return memory of `size` bytes, rounded up, and `more`, that ends at a forbidden page."""
    rounded = -(-size // ALIGNMENT) * ALIGNMENT + more
    pages = -(-rounded // mmap.PAGESIZE) * mmap.PAGESIZE
    mapped = mmap.mmap(-1, pages + mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
    libc = ctypes.CDLL(None, use_errno=True)
    forbidden = ctypes.c_void_p(address + pages)
    # Without this the pattern still shows a write near the end.
    libc.mprotect(forbidden, ctypes.c_size_t(mmap.PAGESIZE), 0)
    return memoryview(mapped)[pages - rounded : pages]


def _view(slot: TensorSlot, region: memoryview) -> torch.Tensor:
    dtype = layouts.DTYPES[slot.dtype]
    flat = torch.frombuffer(region, dtype=dtype, count=slot.bytes // dtype.itemsize)
    return flat.as_strided(slot.shape, slot.stride)
