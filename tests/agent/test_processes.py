"""What a tool's process does to whoever waits for it."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from akg_tui.agent.tools.processes import run_process


async def test_a_cancel_in_the_moment_the_process_ends_is_not_swallowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`asyncio.wait_for` of Python 3.11 returns the result then, and the cancel is forgotten."""
    ended, told = asyncio.Event(), asyncio.Event()
    wait = Process.wait

    async def wait_until_told(self: Process) -> int:
        code = await wait(self)
        ended.set()
        await told.wait()
        return code

    monkeypatch.setattr(Process, "wait", wait_until_told)
    waiting = asyncio.create_task(
        run_process(
            [sys.executable, "-c", ""],
            folder=tmp_path,
            environment=os.environ,
            timeout_s=60,
        )
    )
    await ended.wait()
    told.set()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
