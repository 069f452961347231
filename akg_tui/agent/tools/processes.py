"""Runs one process to its end, and captures the log records of a tool's own code.

Output and time are bounded, and no process of the group is left running. Log records are
separated by context variable, so tools that run at the same time each get their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

MAX_OUTPUT = 1 << 20
END_S = 3.0
WATCH_S = 0.25


class Finished(Struct, frozen=True):
    """The result of a process. `code` is negative for a signal; the texts are cut to a bound.

    `excess` names the limit for which it was ended, or is "".
    """

    code: int
    stdout: str
    stderr: str
    timed_out: bool = False
    excess: str = ""


class CutOff(asyncio.CancelledError):
    """The wait for a process was cancelled; what it had printed by then is not lost."""

    def __init__(self, stdout: str, stderr: str) -> None:
        super().__init__()
        self.stdout = stdout
        self.stderr = stderr


class Limits(Protocol):
    """Bounds on a process and its descendants (`akg_tui.evaluate.sandbox.process_watch`)."""

    def begin(self, pid: int) -> None: ...

    def excess(self) -> str: ...


async def run_process(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    timeout_s: float,
    limit: int = MAX_OUTPUT,
    limits: Limits | None = None,
) -> Finished:
    """Run `command`, and keep at most `limit` bytes of each of its output streams.

    It is ended after `timeout_s` seconds, or when it exceeds `limits`.

    Raises
    ------
    OSError
        If the process cannot be started.
    CutOff
        The caller was cancelled.
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
    timed_out, excess, cut = False, "", False
    try:
        async with asyncio.timeout(timeout_s):
            excess = await _watched(process, limits)
    except TimeoutError:
        timed_out = True
    except asyncio.CancelledError:
        cut = True
    finally:
        await asyncio.shield(_end(process))
        # A process that left the group may keep a pipe open: the wait for its output is bounded.
        _, late = await asyncio.wait(streams, timeout=END_S)
        for task in late:
            task.cancel()
    stdout, stderr = (bytes(part).decode("utf-8", "replace") for part in kept)
    if cut:
        raise CutOff(stdout, stderr)
    code = process.returncode
    return Finished(-signal.SIGKILL if code is None else code, stdout, stderr, timed_out, excess)


async def _watched(process: asyncio.subprocess.Process, limits: Limits | None) -> str:
    """Wait for the process to end, or to exceed a limit; return the limit, or ""."""
    if limits is None:
        await process.wait()
        return ""
    limits.begin(process.pid)
    while process.returncode is None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WATCH_S):
                await process.wait()
                break
        if excess := await asyncio.to_thread(limits.excess):
            return excess
    return ""


async def _end(process: asyncio.subprocess.Process) -> None:
    """Terminate the process, with `END_S` seconds to exit, then kill the rest of its group."""
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
    """Keep the first and the last `limit` / 2 bytes of a stream, and discard the rest."""
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


MAX_LOG = 256 << 10
MAX_SUMMARY = 800


class Captured:
    """The texts captured so far, at most `MAX_LOG` characters."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        """Append a text, cut to the room that is left."""
        room = MAX_LOG - self._size
        if text and room > 0:
            self._lines.append(text[:room])
            self._size += len(self._lines[-1])

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    @property
    def summary(self) -> str:
        """The text, or if it is longer than `MAX_SUMMARY` its beginning and its end."""
        text = self.text.strip()
        if len(text) <= MAX_SUMMARY:
            return text
        half = (MAX_SUMMARY - 5) // 2
        return f"{text[:half]}\n[…]\n{text[-half:]}"


_current: contextvars.ContextVar[Captured | None] = contextvars.ContextVar("capture", default=None)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record))


_handler = _Handler(logging.WARNING)
_handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))


@contextlib.contextmanager
def capture() -> Iterator[Captured]:
    """Collect warnings logged inside the block by this task and by the tasks it starts."""
    captured = Captured()
    root = logging.getLogger()
    if _handler not in root.handlers:
        root.addHandler(_handler)
    token = _current.set(captured)
    try:
        yield captured
    finally:
        _current.reset(token)


def note(text: str) -> None:
    """Add a text to the capture of the current context; without a capture, discard the text."""
    captured = _current.get()
    if captured is not None:
        captured.add(text)
