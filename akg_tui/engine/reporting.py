"""The report that a run makes of itself at its end, in a process of its own.

The loop never waits for a drawing, and a report that cannot be made is told and harms
nothing: the journal has everything, so it can be made at any later time.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from akg_tui.core.export_guard import Channel
from akg_tui.core.plain import one_line
from akg_tui.evaluate.targets.cpu import base_environment

TIMEOUT_S = 300.0
WIDTH = 200
_HOMES = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR")  # of the font cache

Reporter = Callable[[Path], Awaitable[str]]
"""Makes the report of the run in this folder; the answer is why there is none, or ""."""


def reporter(channel: Channel) -> Reporter:
    """Reports made in a workbench are drafts until a person asks; see the export guard."""

    async def report(run: Path) -> str:
        try:
            return await _report(run, channel)
        except OSError as error:
            return _why(run, f"{error.strerror}")

    return report


async def _report(run: Path, channel: Channel) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "akg_tui.report", str(run), "--channel", channel),
        env=base_environment() | {n: os.environ[n] for n in _HOMES if n in os.environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, told = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
    except TimeoutError:
        return _why(run, f"it took longer than {TIMEOUT_S:.0f} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == 0:
        return ""
    last = told.decode(errors="replace").strip().rpartition("\n")[2]
    return _why(run, last or f"exit code {process.returncode}")


def _why(run: Path, what: str) -> str:
    return f"no report was made ({one_line(what, WIDTH)}); try: akg-tui report {one_line(str(run))}"
