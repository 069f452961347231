"""Moves values between Python and the layouts in which they lie in shared memory.

Judge and child use these functions, so shapes and dtypes come from the layout, never from a child;
the bytes are never unpickled.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from akg_tui.evaluate.protocol.child_protocol import (
    ALIGNMENT,
    ITEM_BYTES,
    ConstantSlot,
    Layout,
    ScalarSlot,
    Slot,
    TensorSlot,
)
from akg_tui.evaluate.protocol.value_tree import Unsupported

__all__ = ("Unsupported",)

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in ITEM_BYTES}

FLOAT8 = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2)

Value: TypeAlias = object
Buffer: TypeAlias = mmap.mmap | NDArray[np.uint8]


def computable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with equal elements that PyTorch can compute with on the CPU.

    It has nearly no operations on 8-bit floats, and float16 holds each of them exactly.
    """
    return tensor.half() if tensor.dtype in FLOAT8 else tensor


def lay_out(values: Sequence[Value], names: Sequence[str] = ()) -> Layout:
    """Return a layout for tensors, numbers and constants (strings, None, lists of these).

    `names` are those of the values, if they have names; "" is none.

    Raises
    ------
    Unsupported
        A value of another type, or a tensor that is not dense and on the CPU.
    """
    slots: list[Slot] = []
    for index, value in enumerate(values):
        name = (names[index] if names else "") or f"value {index}"
        if isinstance(value, torch.Tensor):
            slots.append(_tensor_slot(value, name))
        elif isinstance(value, bool | int | float):
            kind: Literal["int", "float", "bool"] = "float"
            if isinstance(value, bool):
                kind = "bool"
            elif isinstance(value, int):
                kind = "int"
            slots.append(ScalarSlot(kind, 0))
        else:
            slots.append(ConstantSlot(json.dumps(_to_plain(value, name))))
    return _in_a_row(slots, names)


def result_layout(layout: Layout, *, exact: bool = False) -> Layout:
    """Return the layout of results like these tensors: contiguous; in 64 bits if `exact`."""
    slots: list[Slot] = []
    for tensor in layout.tensors:
        dtype = tensor.dtype
        if exact and DTYPES[dtype].is_floating_point:
            dtype = "float64"
        elif exact and DTYPES[dtype].is_complex:
            dtype = "complex128"
        slots.append(TensorSlot(dtype, tensor.shape, _dense(tensor.shape), 0))
    return _in_a_row(slots, layout.names)


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
    """Return a tensor's stride class if it is worse than `worst`, else ""."""
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
"""The stride classes, from best to worst."""


def strided(layout: Layout) -> Layout:
    """Return a layout whose tensors are not contiguous: permuted, or with gaps where 1-d.

    Every second tensor also has a gap after each element.
    """
    slots = list(layout.slots)
    for index, slot in enumerate(slots):
        if isinstance(slot, TensorSlot):
            gap = 2 if index % 2 or len(slot.shape) < 2 else 1
            backwards = _dense(tuple(reversed(slot.shape)))
            strides = tuple(gap * step for step in reversed(backwards))
            slots[index] = msgspec.structs.replace(slot, stride=strides)
    return _in_a_row(slots, layout.names)


def without(layout: Layout, excluded: Collection[int]) -> list[slice]:
    """Return the parts of an item, in whole words, without the slots at some positions."""
    parts, start = [], 0
    for at, slot in enumerate(layout.slots):
        if at in excluded and not isinstance(slot, ConstantSlot):
            parts.append(slice(start, slot.offset))
            start = slot.offset + _whole(slot.bytes)
    return [*parts, slice(start, layout.size)]


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


def numbers(layout: Layout, buffer: Buffer, base: int) -> list[tuple[int, torch.Tensor]]:
    """Return the position and a view of each number, which must be read afresh for every call."""
    slots = enumerate(layout.slots)
    return [(i, _scalar(slot, buffer, base)) for i, slot in slots if isinstance(slot, ScalarSlot)]


def store(layout: Layout, values: Sequence[Value], buffer: Buffer, base: int) -> None:
    """Write `values`, which must fit `layout`, as the item at `base`."""
    for slot, value in zip(layout.slots, values, strict=True):
        if isinstance(slot, TensorSlot) and isinstance(value, torch.Tensor):
            view(slot, buffer, base).copy_(value.detach())
        elif isinstance(slot, ScalarSlot) and isinstance(value, bool | int | float):
            _scalar(slot, buffer, base).fill_(value)


def _in_a_row(slots: Iterable[Slot], names: Sequence[str] = ()) -> Layout:
    """Return a layout with each slot at the next aligned offset."""
    placed: list[Slot] = []
    offset = 0
    for slot in slots:
        if isinstance(slot, ConstantSlot):
            placed.append(slot)
        else:
            placed.append(msgspec.structs.replace(slot, offset=offset))
            offset += _whole(slot.bytes)
    return Layout(tuple(placed), offset, tuple(names))


def _whole(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def _tensor_slot(tensor: torch.Tensor, what: str) -> TensorSlot:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise Unsupported(f"{what} is a tensor of dtype {name}, which is not supported")
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise Unsupported(f"{what} is a tensor that is not dense and on the CPU")
    shape, stride = tuple(tensor.shape), tuple(tensor.stride())
    slot = TensorSlot(name, shape, stride, 0)
    # An order of dimensions is kept; gaps and overlaps (slices, expand) are not.
    if slot.bytes != tensor.numel() * tensor.element_size():
        return TensorSlot(name, shape, _dense(shape), 0)
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


def _to_plain(value: Value, name: str) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_to_plain(inner, name) for inner in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _to_plain(inner, name) for key, inner in value.items()}}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    raise Unsupported(
        f"{name} is a {type(value).__name__}; only tensors, numbers, strings, None, dtypes, and "
        "lists, dictionaries, dataclasses and named tuples of such can be passed"
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
