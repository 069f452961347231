"""A real pseudo-terminal around a real workbench, its screen read back with pyte.

Nothing sleeps: whoever waits, waits for bytes, and looks at the screen after each of them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte

PATIENCE_S = 120.0  # for what hangs: a whole evaluation on a loaded machine takes 20 s
_NOT_INHERITED = ("COLUMNS", "LINES", "TMUX", "NO_COLOR")
COMMAND = [sys.executable, "-m", "akg_tui"]


class PtyTerminal:
    """A program in a terminal of its own, which it is the session leader of."""

    def __init__(
        self,
        command: list[str],
        folder: Path,
        size: tuple[int, int] = (100, 30),
        **environment: str,
    ) -> None:
        width, height = size
        self._screen = pyte.Screen(width, height)
        self._stream = pyte.ByteStream(self._screen)
        self._shown: str | None = None  # the screen as text, until it changes
        self.written = bytearray()
        self.status: int | None = None
        self.pid, self._master = pty.fork()
        if self.pid == 0:  # pragma: no cover - another program from here on
            os.chdir(folder)
            # Not the process's own: readline writes a size into that behind Python's back.
            inherited = {k: v for k, v in os.environ.items() if k not in _NOT_INHERITED}
            inherited |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", **environment}
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
            os.execve(command[0], command, inherited)

    def screen(self) -> str:
        if self._shown is None:
            self._shown = "\n".join(self._screen.display)
        return self._shown

    def ground(self, row: int, column: int) -> str:
        """The ground of a cell, as pyte names it; a row below 0 counts from the bottom."""
        return str(self._screen.buffer[row % self._screen.lines][column].bg)

    @property
    def title(self) -> str:
        return str(self._screen.title)

    def forget(self) -> None:
        """Blank the screen that is read here; the program knows nothing of it."""
        self._screen.reset()
        self._shown = None

    def write(self, text: str | bytes) -> None:
        """Type. What the program says meanwhile is read, or both would wait for the other."""
        left = text.encode() if isinstance(text, str) else text
        os.set_blocking(self._master, False)
        try:
            while left:
                _, writable, _ = select.select([], [self._master], [], 0.05)
                if writable:
                    with contextlib.suppress(BlockingIOError):
                        left = left[os.write(self._master, left) :]
                self._read(0)
        finally:
            os.set_blocking(self._master, True)

    def resize(self, width: int, height: int) -> None:
        self._screen.resize(height, width)
        self._shown = None
        size = struct.pack("HHHH", height, width, 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def grown(self, width: int, height: int) -> None:
        """What is read from here on is for this size, which the program knows by itself."""
        self._screen.resize(height, width)
        self._shown = None

    def wait(self, *texts: str, gone: tuple[str, ...] = ()) -> str:
        """Until all `texts` are on the screen, and none of those that should be `gone`."""
        return self.until(
            lambda: (
                all(text in self.screen() for text in texts)
                and not any(text in self.screen() for text in gone)
            ),
            f"{texts} {gone or ''}",
        )

    def insist(self, key: str, question: str, text: str) -> str:
        """Press a key that counts only after a while in sight, as long as the question is on the
        screen, until `text` is: what comes later would be typed into what follows.
        """

        def seen() -> bool:
            screen = self.screen()
            if text in screen:
                return True
            if question in screen:
                with contextlib.suppress(OSError):  # the program has left meanwhile
                    self.write(key)
            return False

        return self.until(seen, text)

    def until(self, done: Callable[[], bool], what: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            if time.monotonic() > deadline or not self._read(0.25):
                if done():
                    break
                raise AssertionError(f"never saw {what} in:\n{self.screen()}")
        return self.screen()

    def _read(self, seconds: float) -> bool:
        """Take all that there is; False when the program is gone."""
        while select.select([self._master], [], [], seconds)[0]:
            try:
                data = os.read(self._master, 65536)
            except BlockingIOError:
                break
            except OSError:
                return False
            self.written += data
            self._stream.feed(data)
            self._shown = None
            if not data:
                return False
            seconds = 0
        return True

    def attributes(self) -> int:
        """The local modes of the terminal."""
        return int(termios.tcgetattr(self._master)[3])

    def wait_stopped(self) -> None:
        """Until the program was stopped by job control."""
        self.until(
            lambda: os.WIFSTOPPED(os.waitpid(self.pid, os.WUNTRACED | os.WNOHANG)[1] or 0),
            "the program stopped",
        )

    def wait_ended(self) -> int:
        """Its exit status; minus the signal's number when one killed it."""
        deadline = time.monotonic() + PATIENCE_S
        while self.status is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                raise AssertionError(f"it did not end:\n{self.screen()}")
            elif self._master >= 0:
                self._read(0.05)
            else:
                select.select([], [], [], 0.02)
        while self._master >= 0 and select.select([self._master], [], [], 0)[0]:
            if not self._read(0):
                break
        return self.status

    def hang_up(self) -> None:
        """Close the terminal, as closing its window does."""
        os.close(self._master)
        self._master = -1

    def descendants(self) -> dict[int, str]:
        """Every process below it, with the time that each began at: a pid may be used again."""
        found: dict[int, str] = {}
        parents = {pid: (parent, began) for pid, parent, began in _processes()}
        for pid in parents:
            above = pid
            while above in parents and above != self.pid:
                above = parents[above][0]
            if above == self.pid and pid != self.pid:
                found[pid] = parents[pid][1]
        return found

    def close(self) -> None:
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
        if self._master >= 0:
            self.hang_up()


def _processes() -> list[tuple[int, int, str]]:
    """Pid, parent and beginning of every process there is; the dead are none."""
    listed: list[tuple[int, int, str]] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if fields[0] not in "ZX":
                listed.append((int(entry.name), int(fields[1]), fields[19]))
    return listed


def alive(processes: dict[int, str]) -> list[int]:
    """Those of `processes` that are still there."""
    now = {pid: began for pid, _, began in _processes()}
    return [pid for pid, began in processes.items() if now.get(pid) == began]
