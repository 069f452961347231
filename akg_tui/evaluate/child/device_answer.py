"""The shared memory in which a child on a device answers: a header, strides, and the results.

The child writes this memory and the judge reads it; its content is untrusted.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from akg_tui.evaluate.child.protocol import ALIGNMENT, Layout

_HEADER = struct.Struct("<3Q")
_MASK = (1 << 64) - 1

Block = NDArray[np.uint8]


class Answer(NamedTuple):
    """What a child says of a call.

    `taken_ns` by the device's own clock; `memory_bytes` alive on the device; `left_ns`, for which
    the device was still working when the input was placed.
    """

    taken_ns: int = 0
    memory_bytes: int = 0
    left_ns: int = 0


def results_at(outputs: Layout) -> int:
    """Return the offset of the results."""
    steps = sum(len(slot.shape) for slot in outputs.tensors)
    return -(-(_HEADER.size + 8 * steps) // ALIGNMENT) * ALIGNMENT


def size(outputs: Layout) -> int:
    """Return the bytes of the whole block."""
    return results_at(outputs) + outputs.size


def write(block: Block, answer: Answer, strides: Sequence[int]) -> None:
    """Write an answer and the strides of all results, one after the other."""
    _HEADER.pack_into(block.data, 0, *(value & _MASK for value in answer))
    struct.pack_into(f"<{len(strides)}q", block.data, _HEADER.size, *strides)


def read(block: Block) -> Answer:
    """Return the answer."""
    return Answer(*_HEADER.unpack_from(block.data, 0))


def read_strides(block: Block, outputs: Layout) -> list[list[int]]:
    """Return the strides of each result."""
    found, at = [], _HEADER.size
    for slot in outputs.tensors:
        found.append(list(struct.unpack_from(f"<{len(slot.shape)}q", block.data, at)))
        at += 8 * len(slot.shape)
    return found
