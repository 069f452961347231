"""The memory of a run at work: what earlier runs found is recalled, what it finds is learned.

A memory that cannot be read or written is told in a sentence and harms nothing: a run can be
learned at any later time (`akg-tui learn`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from akg_tui.agent.react_loop import Recall
from akg_tui.agent.tools.file_access import FileAccess, Refused
from akg_tui.agent.tools.run_access import RunAccess
from akg_tui.core.events import MemoryRecalled
from akg_tui.core.kernel.kernel_files import KernelFiles
from akg_tui.core.sanitize import Said
from akg_tui.core.state import RunState
from akg_tui.memory.memory_config import memory_settings
from akg_tui.memory.recall import recall
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


async def recollect(run: RunAccess, shelf: Shelf) -> MemoryRecalled | None:
    """Return what the memory has for this run; None if that is nothing.

    Copies the remembered kernels into the run's `notes/`, from where the agent may try or submit
    them as it may any draft. Nothing is journaled.
    """
    found = await asyncio.to_thread(recall, run.state, shelf)
    if found is None:
        return None
    recalled, remembered = found
    files = FileAccess(Path(run.path), run.state.task.files.names)
    kernels, skipped = [], list(recalled.skipped)
    for kernel, one in zip(recalled.kernels, remembered, strict=True):
        try:
            for name, text in one.texts.items():
                whole = kernel.path.endswith(".py")
                files.write(kernel.path if whole else f"{kernel.path}/{name}", text.encode())
        except (Refused, OSError) as error:
            skipped.append(f"{kernel.path}: not written: {error}")
        else:
            kernels.append(kernel)
    return replace(recalled, kernels=tuple(kernels), skipped=tuple(skipped))


async def _learned(shelf: Shelf, state: RunState, kernel: Callable[[str], KernelFiles]) -> str:
    try:
        await asyncio.to_thread(shelf.learn, state, kernel)
    except StoreError as error:
        return Said("the run was not learned: {why}", why=error)
    return ""
