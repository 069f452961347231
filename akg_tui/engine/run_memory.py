"""The memory of a run at work: what earlier runs found is recalled, what it finds is learned.

A memory that cannot be read or written is told in a sentence and harms nothing: a run can be
learned at any later time (`akg-tui learn`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from akg_tui.agent.react_loop import Recall
from akg_tui.agent.recollection import recollect
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.sanitize import Said
from akg_tui.core.state import RunState
from akg_tui.memory.memory_config import memory_settings
from akg_tui.memory.shelf import Shelf
from akg_tui.store.errors import StoreError

Learner = Callable[[RunState, Callable[[str], KernelFiles]], Awaitable[str]]
"""Keeps what a finished run found, with its best kernel by its id; returns why it is not, or ""."""


def memory_of_runs() -> tuple[Recall | None, Learner | None]:
    """Return what recalls and learns, as the user's settings say."""
    settings = memory_settings()
    if not settings.on:
        return None, None
    shelf = Shelf(settings.folder)
    return partial(recollect, shelf=shelf), partial(_learned, shelf) if settings.learn else None


async def _learned(shelf: Shelf, state: RunState, kernel: Callable[[str], KernelFiles]) -> str:
    try:
        await asyncio.to_thread(shelf.learn, state, kernel)
    except StoreError as error:
        return Said("the run was not learned: {why}", why=error)
    return ""
