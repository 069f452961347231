"""Runs `akg_tui.report` in a separate process: at the end of a run.

The event loop never waits for a drawing. A failed report is described in a sentence and harms
nothing: the journal has everything, so a report can be made at any later time.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from shlex import quote

from akg_tui.core.sanitize import Said, one_line
from akg_tui.core.stopping.export_guard import Channel
from akg_tui.evaluate.targets.cpu import base_environment

TIMEOUT_S = 300.0
WIDTH = 200
_HOMES = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR")  # locate the font cache

Reporter = Callable[[Path], Awaitable[str]]
"""Makes the report of the run in this folder; returns why there is none, or ""."""


def reporter(channel: Channel) -> Reporter:
    """Return a `Reporter`; reports of a workbench are drafts until a person asks (export guard)."""

    async def report(run: Path) -> str:
        fault = await _report(run, channel)
        if not fault:
            return ""
        what = one_line(fault, WIDTH)
        return Said(
            "no report was made ({why}); try: akg-tui report {run}",
            why=what,
            run=quote(one_line(str(run))),
        )

    return report


async def _report(run: Path, channel: Channel) -> str:
    """Return why there is no report, or ""."""
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "akg_tui.report", str(run), "--channel", channel),
            env=base_environment() | {n: os.environ[n] for n in _HOMES if n in os.environ},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return f"{error.strerror}"
    try:
        async with asyncio.timeout(TIMEOUT_S):
            _, complaint = await process.communicate()
    except TimeoutError:
        return f"it took longer than {TIMEOUT_S:.0f} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == 0:
        return ""
    last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
    return last or f"exit code {process.returncode}"
