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
from akg_tui.kernel_files import NotJoinable, split_files
from akg_tui.memory.recall import recall
from akg_tui.memory.shelf import Shelf


async def recollect(run: RunAccess, shelf: Shelf) -> MemoryRecalled | None:
    """Return what the memory has for this run; None if that is nothing."""
    found = await asyncio.to_thread(recall, run.state, shelf)
    if found is None:
        return None
    recalled, texts = found
    files = FileAccess(Path(run.path), run.state.task.files.names)
    kernels, skipped = [], list(recalled.skipped)
    for kernel, text in zip(recalled.kernels, texts, strict=True):
        try:
            if kernel.path.endswith(".py"):
                files.write(kernel.path, text.encode())
            else:
                for name, each in split_files(run.state.task.files.names, text).items():
                    files.write(f"{kernel.path}/{name}", each.encode())
        except (Refused, OSError, NotJoinable) as error:
            skipped.append(f"{kernel.path}: not written: {error}")
        else:
            kernels.append(kernel)
    return replace(recalled, kernels=tuple(kernels), skipped=tuple(skipped))
