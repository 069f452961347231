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
from akg_tui.core.state import RunState
from akg_tui.memory.memory_config import memory_settings
from akg_tui.memory.shelf import Shelf
from akg_tui.store.errors import StoreError

Learner = Callable[[RunState, str], Awaitable[str]]
"""Keeps what a finished run found, with its best kernel's text; returns why it is not, or ""."""


def memory_of_runs() -> tuple[Recall | None, Learner | None]:
    """Return what recalls and learns, as the user's settings say."""
    settings = memory_settings()
    if not settings.on:
        return None, None
    shelf = Shelf(settings.folder)
    return partial(recollect, shelf=shelf), partial(_learned, shelf) if settings.learn else None


async def _learned(shelf: Shelf, state: RunState, kernel: str) -> str:
    try:
        await asyncio.to_thread(shelf.learn, state, lambda blob: kernel)
    except StoreError as error:
        return f"the run was not learned: {error}"
    return ""
