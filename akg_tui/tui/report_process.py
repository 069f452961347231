"""The report of a run, made from the workbench by the command that scripts use too.

A process of its own: drawing a report takes seconds, which no screen may wait for.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from akg_tui.view.language import retold, tr


async def reported(run: Path) -> str:
    """Make the report of a run; where it is, or why there is none."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "akg_tui", "report", str(run)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    last = (errors if process.returncode else out).decode(errors="replace").strip()
    told = last.replace("\n", ", ")
    return (
        tr("no report: {why}", why=retold(told))
        if process.returncode
        else tr("written: {path}", path=told)
    )
