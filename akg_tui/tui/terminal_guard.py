"""Keeps other output off the terminal while the workbench runs, and restores it at the end.

Owns file descriptors 1 and 2 while the workbench runs, and the handlers of SIGHUP, SIGTERM and
SIGWINCH.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TextIO, cast

from rich.console import Console
from textual.events import Resize
from textual.geometry import Size

from akg_tui.tui.textual_internals import AppInternals, measures_terminal_in_signal

LOG = "stray.log"
MOST_BYTES = 4 << 20
TOLD_BYTES = 256 << 10

_GONE = frozenset({errno.EIO, errno.EPIPE, errno.EBADF, errno.ENXIO})


class _Terminal(io.RawIOBase):
    """A descriptor of the terminal. After the terminal is closed, writes are dropped silently."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.gone = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: object) -> int:
        block = memoryview(cast(bytes, data)).cast("B")
        if self.gone:
            return len(block)
        try:
            return os.write(self._descriptor, block)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            self.gone = True
            return len(block)


class ScreenGuard:
    """A context in which descriptors 1 and 2 lead into a file; the screen writes to copies.

    The file has no name until `keep_in` moves its text into a file of the run folder. At exit both
    descriptors are restored; `hung_up` is then True if a write found the terminal closed.
    """

    def __init__(self) -> None:
        self._log: BinaryIO | None = None
        self._saved: tuple[int, int] | None = None
        self._streams: tuple[TextIO | None, ...] = ()
        self._terminals: list[_Terminal] = []
        self._prints: TextIO | None = None
        self._told = 0
        self.path: Path | None = None
        self.hung_up = False

    def __enter__(self) -> ScreenGuard:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        self._streams = (sys.__stdout__, sys.__stderr__)
        self._saved = (os.dup(1), os.dup(2))
        self._log = cast(BinaryIO, tempfile.TemporaryFile("ab+", buffering=0))
        self._lead_to(self._log)
        self._terminals = [_Terminal(descriptor) for descriptor in self._saved]
        out, err = (self._text(terminal) for terminal in self._terminals)
        # Textual's driver draws on the first and asks the second for the terminal's size.
        sys.__stdout__, sys.__stderr__ = out, err  # type: ignore[misc,assignment]
        return self

    @staticmethod
    def _text(terminal: _Terminal) -> TextIO:
        return io.TextIOWrapper(io.BufferedWriter(terminal), encoding="utf-8", errors="replace")

    def take_prints(self) -> None:
        """Redirect Python's own streams into the file too; call after the screen has begun."""
        assert self._log is not None
        before = self._prints
        self._prints = os.fdopen(
            os.dup(self._log.fileno()), "w", buffering=1, errors="backslashreplace"
        )
        sys.stdout = sys.stderr = self._prints
        if before is not None:
            before.close()

    def keep_in(self, folder: Path) -> None:
        """Continue in `folder`/stray.log. If that cannot be opened, the file stays unnamed."""
        from akg_tui.store.filesystem import open_below

        assert self._log is not None
        try:
            found = open_below(folder, LOG, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            log = os.fdopen(found, "ab+", buffering=0)
        except OSError:
            return
        before = self._read(self._log, TOLD_BYTES)
        if before:
            log.write(before)
        old, self._log = self._log, cast(BinaryIO, log)
        self._lead_to(self._log)
        self.path = folder / LOG
        if self._prints is not None:
            self.take_prints()
        old.close()
        self._told = 0 if before else self._size()

    def _lead_to(self, log: BinaryIO) -> None:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)

    def _size(self) -> int:
        return os.fstat(self._log.fileno()).st_size if self._log is not None else 0

    @staticmethod
    def _read(log: BinaryIO, most: int) -> bytes:
        size = os.fstat(log.fileno()).st_size
        return os.pread(log.fileno(), most, max(0, size - most))

    def news(self) -> bool:
        """Return whether text was written since the last call; truncate the file if too long."""
        if self._log is None:
            return False
        size = self._size()
        if size > MOST_BYTES:
            newest = self._read(self._log, TOLD_BYTES)
            os.ftruncate(self._log.fileno(), 0)
            self._log.write(b"(more than was kept)\n" + newest)
            size = self._size()
        new, self._told = size != self._told, size
        return new

    def text(self) -> str:
        """Return the newest text of the file, uncleaned: control characters may be in it."""
        if self._log is None:
            return ""
        return self._read(self._log, TOLD_BYTES).decode("utf-8", "replace")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._saved is not None
        for stream in (self._prints, sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            with contextlib.suppress(OSError, ValueError):
                if stream is not None:
                    stream.flush()
        for descriptor, saved in zip((1, 2), self._saved, strict=True):
            os.dup2(saved, descriptor)
        self.hung_up = any(terminal.gone for terminal in self._terminals)
        if self.hung_up:  # later output would only fail
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            os.close(nowhere)
        if self._prints is not None:
            self._prints.close()
        sys.__stdout__, sys.__stderr__ = self._streams  # type: ignore[misc,assignment]
        # A late write must not reach another file that receives this descriptor number.
        for terminal in self._terminals:
            terminal.gone = True
        for saved in self._saved:
            os.close(saved)
        if self._log is not None:
            self._log.close()
            if self.path is not None and self.path.stat().st_size == 0:
                self.path.unlink(missing_ok=True)
            self._log = None


_ENDINGS = (signal.SIGHUP, signal.SIGTERM)


class GuardedApp(AppInternals[int]):
    """An app whose `run` guards the terminal. Under a test pilot `guard` is None."""

    guard: ScreenGuard | None = None
    ended_by: signal.Signals | None = None

    def run(self, **options: Any) -> int | None:
        """Run in the terminal. Return 128 plus the signal's number if a signal ended the app."""
        with ScreenGuard() as self.guard:
            # Textual prints a crash on the terminal itself, after the screen is closed.
            self.error_console = Console(file=sys.__stderr__, markup=False, highlight=False)
            code = super().run(**options)
        if self.ended_by is None and self.guard.hung_up:
            self.ended_by = signal.SIGHUP
        return 128 + self.ended_by if self.ended_by else code

    def guard_terminal(self) -> None:
        """Redirect prints and install the signal handlers; call when the screen has begun."""
        if self.guard is None:
            return
        self.guard.take_prints()
        loop = asyncio.get_running_loop()
        for each in _ENDINGS:
            loop.add_signal_handler(each, self._end, each)
        loop.add_signal_handler(signal.SIGWINCH, self._measure)

    def _measure(self) -> None:
        """Post a resize event with the size of the terminal.

        Textual measures inside its signal handler. If a second signal interrupts the first between
        its measurement and its event, the older size is posted last and stays.
        """
        if measures_terminal_in_signal(self):
            size = Size(*shutil.get_terminal_size())
            self.post_message(Resize(size, size))

    def _end(self, by: signal.Signals) -> None:
        if self.ended_by is None:
            self.ended_by = by
            self.run_worker(self.end_run(), name=f"ended by {by.name}", exit_on_error=False)

    async def end_run(self) -> None:
        """Close the open run, if any, then exit."""
        raise NotImplementedError
