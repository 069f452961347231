"""The shared memory in which a child on a device answers: a header, words, strides, the results.

The child writes this memory and the judge reads it; its content is untrusted. The key of a call
that is queued on the device is the judge's; the device reads it there, and writes its digests
beside it.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from akg_tui.evaluate.protocol.child_protocol import Layout

_HEADER = struct.Struct("<Q")

WORD = 8
"""The bytes of a word of a seal or a digest."""

KEY_AT = 64
DIGESTS_AT = 128
"""The offsets of the key and of the digests, in bytes: each in a cache line of its own, because a
device waits for one and the judge for the others."""

Block = NDArray[np.uint8]


def digest_count(outputs: Layout) -> int:
    """Return the number of digests: of each result, and of the arguments."""
    return len(outputs.tensors) + 1


def strides_at(outputs: Layout) -> int:
    """Return the offset of the strides, before which lies all that a device reads or writes."""
    return DIGESTS_AT + WORD * digest_count(outputs)


def results_at(outputs: Layout) -> int:
    """Return the offset of the results."""
    steps = sum(len(slot.shape) for slot in outputs.tensors)
    end = strides_at(outputs) + WORD * steps
    # On other pages: a copy may not begin in memory that a device uses, and end outside.
    return -(-end // mmap.PAGESIZE) * mmap.PAGESIZE


def size(outputs: Layout) -> int:
    """Return the bytes of the whole block."""
    return results_at(outputs) + outputs.size


def words(block: Block, at: int, count: int = 1) -> memoryview[int]:
    """Return `count` words of the block, each of which is read and written as one."""
    return block[at : at + WORD * count].data.cast("Q")


def write(block: Block, outputs: Layout, left_ns: int, strides: Sequence[int]) -> None:
    """Write what a child says of a call: the strides of all results, one after the other, and for
    how many nanoseconds the device was still working.

    For a queued call after its digests were there, else when the next input was placed.
    """
    _HEADER.pack_into(block.data, 0, left_ns)
    struct.pack_into(f"<{len(strides)}q", block.data, strides_at(outputs), *strides)


def read_left_ns(block: Block) -> int:
    """Return for how many nanoseconds the device was still working."""
    return int(_HEADER.unpack_from(block.data, 0)[0])


def read_strides(block: Block, outputs: Layout) -> list[list[int]]:
    """Return the strides of each result."""
    found, at = [], strides_at(outputs)
    for slot in outputs.tensors:
        found.append(list(struct.unpack_from(f"<{len(slot.shape)}q", block.data, at)))
        at += WORD * len(slot.shape)
    return found
