"""Runs one process to its end: bounded output, bounded time, and nothing left behind.

The process has a session of its own. On a timeout or a cancellation it is asked to end, so
that a confining parent can take all it started with it, and is killed when it does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

MAX_OUTPUT = 1 << 20
END_S = 3.0


class Finished(Struct, frozen=True):
    """What a process did. `code` is negative for a signal; the texts were cut to a bound."""

    code: int
    stdout: str
    stderr: str
    timed_out: bool = False


async def run_process(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    timeout_s: float,
    limit: int = MAX_OUTPUT,
) -> Finished:
    """Run `command`; of each of its streams at most `limit` bytes are kept.

    Raises
    ------
    OSError
        If it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=dict(environment),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    kept = bytearray(), bytearray()
    streams = [
        asyncio.create_task(_collect(process.stdout, kept[0], limit)),
        asyncio.create_task(_collect(process.stderr, kept[1], limit)),
        asyncio.create_task(_feed(process, stdin)),
    ]
    timed_out = False
    try:
        async with asyncio.timeout(timeout_s):
            await process.wait()
    except TimeoutError:
        timed_out = True
    finally:
        await asyncio.shield(_end(process))
        # Whoever escaped the group may still hold a pipe open: its last words are not awaited.
        _, late = await asyncio.wait(streams, timeout=END_S)
        for task in late:
            task.cancel()
    stdout, stderr = (bytes(part).decode("utf-8", "replace") for part in kept)
    code = process.returncode
    return Finished(-signal.SIGKILL if code is None else code, stdout, stderr, timed_out)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the process if it runs, and whatever is left of its group."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def _collect(stream: asyncio.StreamReader, kept: bytearray, limit: int) -> None:
    """Keep the first half of the bound and the last: a flood is read and forgotten."""
    half = limit // 2
    tail = bytearray()
    while data := await stream.read(1 << 16):
        room = half - len(kept)
        if room > 0:
            kept += data[:room]
            data = data[room:]
        tail += data
        if len(tail) > 2 * half:
            dropped = len(tail) - half
            del tail[:dropped]
            if not kept.endswith(_CUT):
                kept += _CUT
    if len(tail) > half and not kept.endswith(_CUT):
        kept += _CUT
    kept += tail[-half:]


_CUT = b"\n[cut]\n"


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError):
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()
    with contextlib.suppress(ConnectionError):
        await process.stdin.wait_closed()
