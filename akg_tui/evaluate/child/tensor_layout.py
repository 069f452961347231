"""Layouts: how arguments and results lie in shared memory.

A layout is plain data that the judge checks and forwards; the bytes are never unpickled. Judge and
child use the same functions, so shapes and dtypes are the layout's, whatever a child claims.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import torch
from msgspec import Struct
from numpy.typing import NDArray

ALIGNMENT = 64
SIZE_LIMIT = 16 << 30

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.complex64,
        torch.complex128,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}


class TensorSlot(Struct, frozen=True, tag="tensor"):
    """A tensor at `offset` bytes into its item; `stride` in elements."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"

    @property
    def bytes(self) -> int:
        """Bytes from the first to the last element."""
        if 0 in self.shape:
            return 0
        last = sum((n - 1) * step for n, step in zip(self.shape, self.stride, strict=True))
        return (last + 1) * DTYPES[self.dtype].itemsize


class ScalarSlot(Struct, frozen=True, tag="scalar"):
    """A Python number that may differ between items, eight bytes wide."""

    kind: Literal["int", "float", "bool"]
    offset: int


class ConstantSlot(Struct, frozen=True, tag="constant"):
    """A value that is the same in every item, as JSON text."""

    text: str


Slot: TypeAlias = TensorSlot | ScalarSlot | ConstantSlot
Value: TypeAlias = object
Buffer: TypeAlias = mmap.mmap | NDArray[np.uint8]


class Layout(Struct, frozen=True):
    """The slots of one item and its size in bytes, a multiple of `ALIGNMENT`."""

    slots: tuple[Slot, ...]
    size: int
    names: tuple[str, ...] = ()

    @property
    def tensors(self) -> tuple[TensorSlot, ...]:
        """The tensor slots, in order."""
        return tuple(slot for slot in self.slots if isinstance(slot, TensorSlot))

    def check(self) -> None:
        """Raise ValueError unless every slot lies inside the item."""
        if not 0 <= self.size <= SIZE_LIMIT or self.size % ALIGNMENT:
            raise ValueError(f"an item of {self.size} bytes is not allowed")
        for slot in self.slots:
            if isinstance(slot, ConstantSlot):
                continue
            if isinstance(slot, TensorSlot) and (
                slot.dtype not in DTYPES
                or len(slot.shape) != len(slot.stride)
                or min((*slot.shape, *slot.stride), default=0) < 0
            ):
                raise ValueError(f"not a tensor's description: {slot}")
            width = slot.bytes if isinstance(slot, TensorSlot) else 8
            if slot.offset < 0 or slot.offset % 8 or slot.offset + width > self.size:
                raise ValueError("a value lies outside of its item")


class Unsupported(TypeError):
    """A value that can't be passed between processes. The message says which and why."""


def lay_out(values: Sequence[Value], names: Sequence[str] = ()) -> Layout:
    """Return a layout for tensors, numbers and constants (strings, None, lists of these).

    Raises
    ------
    Unsupported
        A value of another type, or a tensor that is not dense and on the CPU.
    """
    slots: list[Slot] = []
    offset = 0
    for index, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            slot = _tensor_slot(value, offset, index)
            slots.append(slot)
            offset += _aligned(slot.bytes)
        elif isinstance(value, bool | int | float):
            kind: Literal["int", "float", "bool"] = "float"
            if isinstance(value, bool):
                kind = "bool"
            elif isinstance(value, int):
                kind = "int"
            slots.append(ScalarSlot(kind, offset))
            offset += ALIGNMENT
        else:
            slots.append(ConstantSlot(json.dumps(_to_plain(value, index))))
    return Layout(tuple(slots), offset, tuple(names))


def result_layout(layout: Layout, *, exact: bool = False) -> Layout:
    """Return the layout of results like these tensors: contiguous, with `exact` in 64 bits."""
    slots: list[Slot] = []
    offset = 0
    for tensor in layout.tensors:
        dtype = tensor.dtype
        if exact and DTYPES[dtype].is_floating_point:
            dtype = "float64"
        elif exact and DTYPES[dtype].is_complex:
            dtype = "complex128"
        slot = TensorSlot(dtype, tensor.shape, _dense(tensor.shape), offset)
        slots.append(slot)
        offset += _aligned(slot.bytes)
    return Layout(tuple(slots), offset)


def address_format(outputs: Layout) -> struct.Struct:
    """Return the format in which a child writes the address and strides of each result."""
    return struct.Struct("<" + "".join(f"Q{len(slot.shape)}q" for slot in outputs.tensors))


def stride_class(shape: Sequence[int], strides: Sequence[int]) -> str:
    """Return a tensor's stride class: contiguous, dense (permuted), or strided (gaps, overlaps).

    Computed from numbers only, so that no code of a kernel can influence it.
    """
    steps = zip(shape, strides, _dense(shape), strict=True)
    if 0 in shape or all(stride == step for extent, stride, step in steps if extent > 1):
        return "contiguous"
    return "dense" if is_dense(shape, strides) else "strided"


def worse_stride_class(shape: Sequence[int], strides: Sequence[int], worst: str) -> str:
    """Return a tensor's stride class if it is worse than `worst`, or else nothing."""
    lies = stride_class(shape, strides)
    return lies if STRIDE_CLASSES.index(lies) > STRIDE_CLASSES.index(worst) else ""


def stride_complaint(index: int, lies: str, worst: str) -> str:
    """Return the message for a result whose stride class is not allowed."""
    what = f"wrong strides: output {index} is {lies}, the reference's is {worst}"
    return f'{what} (the task may say strides = "any")'


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether the elements fill memory without gaps or overlaps, in any order."""
    step = 1
    for stride, extent in sorted(zip(strides, shape, strict=True)):
        if extent > 1:
            if stride != step:
                return False
            step *= extent
    return True


STRIDE_CLASSES = ("contiguous", "dense", "strided")
"""From best to worst."""


def strided(layout: Layout) -> Layout:
    """Return a layout whose tensors are not contiguous: permuted, or with gaps where 1-d.

    Every second tensor also has a gap after each element.
    """
    slots: list[Slot] = []
    offset = 0
    for index, slot in enumerate(layout.slots):
        if isinstance(slot, TensorSlot):
            gap = 2 if index % 2 or len(slot.shape) < 2 else 1
            backwards = _dense(tuple(reversed(slot.shape)))
            strides = tuple(gap * step for step in reversed(backwards))
            tensor = TensorSlot(slot.dtype, slot.shape, strides, offset)
            slots.append(tensor)
            offset += _aligned(tensor.bytes)
        elif isinstance(slot, ScalarSlot):
            slots.append(ScalarSlot(slot.kind, offset))
            offset += ALIGNMENT
        else:
            slots.append(slot)
    return Layout(tuple(slots), offset, layout.names)


def views(layout: Layout, buffer: Buffer, base: int) -> list[torch.Tensor]:
    """Return the tensors of the item at `base`, sharing the buffer's memory."""
    return [view(slot, buffer, base) for slot in layout.tensors]


def load(layout: Layout, buffer: Buffer, base: int) -> list[Value]:
    """Return the values of the item at `base`; tensors share the buffer's memory."""
    values: list[Value] = []
    for slot in layout.slots:
        if isinstance(slot, TensorSlot):
            values.append(view(slot, buffer, base))
        elif isinstance(slot, ScalarSlot):
            values.append(_scalar(slot, buffer, base).item())
        else:
            values.append(_from_plain(json.loads(slot.text)))
    return values


def scalars(layout: Layout) -> list[tuple[int, ScalarSlot]]:
    """Return the positions of the numbers that must be read afresh for every call."""
    return [(i, slot) for i, slot in enumerate(layout.slots) if isinstance(slot, ScalarSlot)]


def read_scalar(slot: ScalarSlot, buffer: Buffer, base: int) -> Value:
    """Return the number in `slot` of the item at `base`."""
    return _scalar(slot, buffer, base).item()


def store(layout: Layout, values: Sequence[Value], buffer: Buffer, base: int) -> None:
    """Write `values`, which must fit `layout`, as the item at `base`."""
    for slot, value in zip(layout.slots, values, strict=True):
        if isinstance(slot, TensorSlot) and isinstance(value, torch.Tensor):
            view(slot, buffer, base).copy_(value.detach())
        elif isinstance(slot, ScalarSlot) and isinstance(value, bool | int | float):
            _scalar(slot, buffer, base).fill_(value)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def _tensor_slot(tensor: torch.Tensor, offset: int, index: int) -> TensorSlot:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise Unsupported(f"value {index} is a tensor of dtype {name}, which is not supported")
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise Unsupported(f"value {index} is a tensor that is not dense and on the CPU")
    shape, stride = tuple(tensor.shape), tuple(tensor.stride())
    slot = TensorSlot(name, shape, stride, offset)
    # An order of dimensions is kept; gaps and overlaps (slices, expand) are not.
    if slot.bytes != tensor.numel() * tensor.element_size():
        slot = TensorSlot(name, shape, _dense(shape), offset)
    return slot


def view(slot: TensorSlot, buffer: Buffer, base: int) -> torch.Tensor:
    """Return the tensor in `slot` of the item at `base`, sharing the buffer's memory."""
    dtype = DTYPES[slot.dtype]
    size = slot.bytes
    if size == 0:
        return torch.empty_strided(slot.shape, slot.stride, dtype=dtype)
    flat = torch.frombuffer(
        buffer, dtype=dtype, count=size // dtype.itemsize, offset=base + slot.offset
    )
    return flat.as_strided(slot.shape, slot.stride)


def _scalar(slot: ScalarSlot, buffer: Buffer, base: int) -> torch.Tensor:
    dtype = {"int": torch.int64, "float": torch.float64, "bool": torch.bool}[slot.kind]
    return torch.frombuffer(buffer, dtype=dtype, count=1, offset=base + slot.offset)


def _to_plain(value: Value, index: int) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_to_plain(inner, index) for inner in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _to_plain(inner, index) for key, inner in value.items()}}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    raise Unsupported(
        f"value {index} is a {type(value).__name__}; only tensors, numbers, strings, None, "
        "dtypes and lists of such (tensors not inside) can be passed"
    )


def _from_plain(value: object) -> Value:
    match value:
        case {"list": list(items)}:
            return [_from_plain(item) for item in items]
        case {"tuple": list(items)}:
            return tuple(_from_plain(item) for item in items)
        case {"dict": dict(items)}:
            return {key: _from_plain(item) for key, item in items.items()}
        case {"dtype": str(name)}:
            return DTYPES[name]
        case _:
            return value
