"""What a kernel's results are: read by the judge out of the memory of the kernel's process.

Results stay where a kernel put them, and live as long as the sample they belong to: nothing is
copied while the clock runs, so there is no copy that a kernel could save itself. Afterwards, while
the process stands still, the judge reads what it wants to check. Where that lies is what the
process says: from a false claim comes a wrong result.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import torch

from akg_tui.core.measurement import FailureKind
from akg_tui.evaluate import layout as layouts
from akg_tui.evaluate.layout import Layout, TensorSlot
from akg_tui.evaluate.region import Region
from akg_tui.evaluate.worker import ChildFailed, Worker


class Results:
    """The results of one side, one call at a time: what is read lasts until the next reading.

    `strides` says how each may lie at worst; empty: in any way without gaps.
    """

    def __init__(self, outputs: Layout, strides: Sequence[str] = ()) -> None:
        self._outputs = outputs
        self._worst = strides or (layouts.STRIDE_CLASSES[-1],) * len(outputs.tensors)
        self._places = layouts.places(outputs)
        self._read = np.empty(max(outputs.size, 1), dtype=np.uint8)

    def read(self, worker: Worker, told: Region, slot: int) -> list[torch.Tensor]:
        """Return the results of a call from a process that stands still.

        Raises
        ------
        ChildFailed
            There is nothing to be read where they are said to lie, or not in one piece; or one lies
            worse than it may, which a kernel's own process may have been kept from seeing.
        """
        claimed = self._places.unpack_from(told.map, slot * self._places.size)
        found: list[torch.Tensor] = []
        position = 0
        for index, tensor in enumerate(self._outputs.tensors):
            address, *strides = claimed[position : position + 1 + len(tensor.shape)]
            position += 1 + len(tensor.shape)
            self._check(index, strides)
            found.append(self._one(worker, tensor, address, strides))
        return found

    def _check(self, index: int, strides: Sequence[int]) -> None:
        tensor, worst = self._outputs.tensors[index], self._worst[index]
        if tensor.bytes and not layouts.is_dense(tensor.shape, strides):
            raise ChildFailed(FailureKind.WRONG, "a result has strides that have no meaning")
        if lies := layouts.lies_worse(tensor.shape, strides, worst):
            raise ChildFailed(FailureKind.WRONG, layouts.complaint(index, lies, worst))

    def _one(
        self, worker: Worker, tensor: TensorSlot, address: int, strides: Sequence[int]
    ) -> torch.Tensor:
        if not tensor.bytes:
            return layouts.view(tensor, self._read, 0)
        worker.copy_out(address, self._read.data[tensor.offset :][: tensor.bytes])
        # Where there is one element, the step to the next may be any number.
        steps = zip(tensor.shape, strides, strict=True)
        lies = tuple(stride if extent > 1 else 1 for extent, stride in steps)
        return layouts.view(msgspec.structs.replace(tensor, stride=lies), self._read, 0)
