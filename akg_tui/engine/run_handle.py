"""The interface of a run for screens, streams and servers: read it, send commands, wait.

Implemented by the engine (a run at work in this process) and by the follower (any other run).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from akg_tui.core.commands import Command
from akg_tui.core.decide import Rejected
from akg_tui.core.events import PlanChange, Record
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.state import RunState
from akg_tui.engine.live import Live

AT_ONCE = 256
KEPT_KERNELS = 64  # kernel texts that a handle caches


def unread(records: Sequence[Record], start: int) -> Iterator[Record]:
    """Yield the records from index `start` to the present end, read `AT_ONCE` at a time."""
    count = len(records)
    for at in range(start, count, AT_ONCE):
        yield from records[at : min(count, at + AT_ONCE)]


class RunHandle(Protocol):
    """A run: at work, followed or replayed.

    `records` only grows, and its elements can be read from disk on access; `state` is their fold.
    `send` applies a command at once and returns the reason if it was refused, or None.
    """

    @property
    def state(self) -> RunState: ...

    @property
    def records(self) -> Sequence[Record]: ...

    @property
    def live(self) -> Live: ...

    @property
    def path(self) -> str:
        """The run folder."""
        ...

    def send(self, command: Command) -> Rejected | None: ...

    def kernel(self, blob: str) -> KernelFiles:
        """Return the kernel of an object id in the journal."""
        ...

    def plan_change(self, kept: str) -> PlanChange:
        """Return a hand edit of PLAN.md, kept under this name, as a change of items.

        A screen shows the change and either sends it back in `AdoptPlanEdit` or drops it. Raises
        `akg_tui.store.errors.RunFolderError` when the edit cannot be read.
        """
        ...

    async def run(self) -> None:
        """Work until the run is over, or until cancelled. Called again if it is to go on."""
        ...

    async def close(self) -> None:
        """Stop all tasks and release the lock. The run can be resumed."""
        ...
