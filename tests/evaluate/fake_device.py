"""A GPU that isn't there: work waits in a queue, tensors are copies, the clock is its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch


class FakeCudaDevice:
    """Behaves as a CUDA device does towards its host, with memory of the host.

    `launch` hands work over, as the launch of a kernel does: it is done no earlier than
    something waits for it. `running` is the time that the work handed over so far takes.
    """

    name = "cuda"
    LAUNCH_MS = 0.01

    def __init__(self) -> None:
        self._queue: deque[Callable[[], object]] = deque()
        self._clock_ms = 0.0
        self._cached: list[torch.Tensor] = []

    def launch(self, work: Callable[[], object]) -> None:
        """Hand work over and return at once."""
        self._queue.append(work)

    def place(self, value: object) -> object:
        """Return a copy of a tensor, which is then in the caches."""
        if not isinstance(value, torch.Tensor):
            return value
        self._cached.append(value.clone())
        return self._cached[-1]

    def synchronise(self) -> None:
        """Do what waits, in order."""
        while self._queue:
            self._queue.popleft()()
            self._clock_ms += self.LAUNCH_MS

    def flush_caches(self) -> None:
        """Forget what was placed: written work goes on, its results stay."""
        self._cached.clear()

    def elapsed_ms(self, work: Callable[[], object]) -> float:
        """Return by how much the device's clock went on."""
        self.synchronise()
        start = self._clock_ms
        work()
        self.synchronise()
        return self._clock_ms - start
