"""Recollection: what earlier runs found is read once, before the first plan of a run.

Copies the remembered kernels into the run's `notes/`, from where the agent may try or submit them
as it may any draft. Decides nothing; the caller journals what was recalled.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec.structs import replace

from akg_tui.agent.tools.file_access import FileAccess, Refused
from akg_tui.agent.tools.run_access import RunAccess
from akg_tui.core.events import MemoryRecalled
from akg_tui.memory.recall import recall
from akg_tui.memory.shelf import Shelf


async def recollect(run: RunAccess, shelf: Shelf) -> MemoryRecalled | None:
    """Return what the memory has for this run; None if that is nothing."""
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
