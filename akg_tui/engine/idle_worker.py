"""Lets the judge work while a reply of the model is waited for; gives way to all other work.

Owns the one measurement under way and, in memory, how often each was interrupted. Core says what to
measure (`akg_tui.core.plan.idle_work`), the engine measures and journals. An interrupted
measurement is not journaled, and so is made again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from akg_tui.core.effects import Measure
from akg_tui.evaluate.judge_client import EvaluationCancelled

Next = Callable[[Mapping[Measure, int]], Measure | None]
"""Returns the measurement to make now, from how often each was interrupted."""

Make = Callable[[Measure], Awaitable[bool]]
"""Makes a measurement and journals it; returns whether the judge can go on."""


class IdleWorker:
    """Makes one measurement after another from `begin` on, until someone needs the machine."""

    def __init__(self, next_work: Next, make: Make) -> None:
        self._next = next_work
        self._make = make
        self._busy = asyncio.Lock()
        self._interrupted: Counter[Measure] = Counter()
        self._work: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Work unless the machine is in use. Raises what an earlier measurement raised."""
        if self._work is not None and self._work.done():
            self._ended(self._work)
        if self._work is None and not self._busy.locked():
            self._work = asyncio.create_task(self._until_all_is_made())

    @contextlib.asynccontextmanager
    async def given_way(self) -> AsyncIterator[None]:
        """Have the machine alone during the block: one caller at a time, and no idle work."""
        async with self._busy:
            await self.end()
            yield

    def interrupt(self) -> None:
        """End the work soon."""
        if self._work is not None:
            self._work.cancel()

    async def end(self) -> None:
        """End the work; return when the judge is free."""
        if (work := self._work) is not None:
            work.cancel()
            await asyncio.wait({work})
            self._ended(work)

    def _ended(self, work: asyncio.Task[None]) -> None:
        self._work = None
        if not work.cancelled():
            work.result()

    async def _until_all_is_made(self) -> None:
        while (wanted := self._next(self._interrupted)) is not None:
            try:
                if not await self._make(wanted) or _is_being_ended():
                    return
            except asyncio.CancelledError:
                self._interrupted[wanted] += 1
                raise
            except EvaluationCancelled:  # another run has the right to time
                return


def _is_being_ended() -> bool:
    """Return whether this task was cancelled, which a time limit that ends then can hide."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
