"""Runs one process to its end, and captures what a tool's own code logs.

Output and time are bounded and nothing is left behind. Log records go by context, so tools that
run at the same time keep theirs apart.
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
        # A process that left the group may still hold a pipe open: its output is not awaited.
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


MAX_LOG = 256 << 10
MAX_SUMMARY = 800


class Captured:
    """The lines captured so far; bounded."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        """Keep a text, as long as there is room."""
        room = MAX_LOG - self._size
        if text and room > 0:
            self._lines.append(text[:room])
            self._size += len(self._lines[-1])

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    @property
    def summary(self) -> str:
        """The text, or when it is long its beginning and its end."""
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
    """Collect what is logged inside the block, by this task and what it awaits."""
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
    """Add the stderr of a process to the call that runs now, if one does."""
    captured = _current.get()
    if captured is not None:
        captured.add(text)
