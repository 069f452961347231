"""Keeps other output off the terminal while the workbench runs, and restores it at the end.

Owns file descriptors 1 and 2 while the workbench runs, and the signals from outside: a terminal
that is closed, a stop, a request to end.
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
    """A descriptor of the terminal. Once that is closed, writes are dropped without an error."""

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
    """A context in which descriptors 1 and 2 lead into a file, and the screen has its own.

    The file has no name until `keep_in` gives it the run folder; what was written before
    moves there. At exit both descriptors are as they were; `hung_up` tells that the terminal
    was found to be gone.
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
        # The screen's driver takes these: it draws on the one and asks the other for its size.
        sys.__stdout__, sys.__stderr__ = out, err  # type: ignore[misc,assignment]
        return self

    @staticmethod
    def _text(terminal: _Terminal) -> TextIO:
        return io.TextIOWrapper(io.BufferedWriter(terminal), encoding="utf-8", errors="replace")

    def take_prints(self) -> None:
        """Lead Python's own streams into the file too; for when the screen has begun."""
        assert self._log is not None
        before = self._prints
        self._prints = os.fdopen(
            os.dup(self._log.fileno()), "w", buffering=1, errors="backslashreplace"
        )
        sys.stdout = sys.stderr = self._prints
        if before is not None:
            before.close()

    def keep_in(self, folder: Path) -> None:
        """From here on the file is `folder`/stray.log. Where it cannot be, it has no name."""
        assert self._log is not None
        try:
            log = (folder / LOG).open("ab+", buffering=0)
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
        """Whether something was written since the last look; keeps the file bounded too."""
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
        """The newest of what was written, as it is: not fit for a screen before it is cleaned."""
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
        if self.hung_up:  # what is said after this would only fail
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            os.close(nowhere)
        if self._prints is not None:
            self._prints.close()
        sys.__stdout__, sys.__stderr__ = self._streams  # type: ignore[misc,assignment]
        # What still writes must not write into a file that comes to have this descriptor.
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
    """An app whose `run` guards the terminal; one run by a test pilot has none to guard."""

    guard: ScreenGuard | None = None
    ended_by: signal.Signals | None = None

    def run(self, **options: Any) -> int | None:
        """Run in the terminal. 128 and the signal's number when a signal ended it."""
        with ScreenGuard() as self.guard:
            # A crash is told on the terminal itself, once the screen is gone.
            self.error_console = Console(file=sys.__stderr__, markup=False, highlight=False)
            code = super().run(**options)
        if self.ended_by is None and self.guard.hung_up:
            self.ended_by = signal.SIGHUP
        return 128 + self.ended_by if self.ended_by else code

    def guard_terminal(self) -> None:
        """To be called when the screen has begun."""
        if self.guard is None:
            return
        self.guard.take_prints()
        loop = asyncio.get_running_loop()
        for each in _ENDINGS:
            loop.add_signal_handler(each, self._end, each)
        loop.add_signal_handler(signal.SIGWINCH, self._measure)

    def _measure(self) -> None:
        """Tell the app its terminal's size.

        Textual measures in the signal's own handler. A second signal interrupts the first
        between its measuring and its telling, and the older size is then told last, and kept.
        """
        if measures_terminal_in_signal(self):
            size = Size(*shutil.get_terminal_size())
            self.post_message(Resize(size, size))

    def _end(self, by: signal.Signals) -> None:
        if self.ended_by is None:
            self.ended_by = by
            self.run_worker(self.end_run(), name=f"ended by {by.name}", exit_on_error=False)

    async def end_run(self) -> None:
        """Close what is open, then exit."""
        raise NotImplementedError
