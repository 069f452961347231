"""Which subagents of a run can be stopped one by one, and the stopping of one.

Holds their work in memory: after a crash nothing is at work. Who may stop one is for core
to say; what is journaled of it is its subagent's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Stopped(Exception):
    """The subagent was stopped, and it alone."""


class Stops:
    """The subagents at work that a call started, by name."""

    def __init__(self) -> None:
        self._at_work: dict[str, asyncio.Task[Any]] = {}

    def stop(self, subagent: str) -> None:
        """End its work at once. One that is not at work is let be."""
        if work := self._at_work.get(subagent):
            work.cancel()

    async def heeded(self, subagent: str, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` as that of `subagent`. Raises `Stopped` when it is stopped meanwhile.

        Cancelling the caller ends the work too, and is no stop.
        """
        task = asyncio.create_task(work)
        self._at_work[subagent] = task
        try:
            await asyncio.wait({task})
        finally:
            del self._at_work[subagent]
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if task.cancelled():
            raise Stopped(subagent)
        return task.result()
