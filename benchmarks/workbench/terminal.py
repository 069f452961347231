"""A program in a pseudo-terminal: sends keys, and times the output without reading it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time


class Terminal:
    """Takes `rate` bytes a second of what the program writes, 0 for all at once."""

    def __init__(self, command: list[str], *, rate: int = 0, **environment: str) -> None:
        self.rate = rate
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", **environment)
            os.execv(command[0], command)
        self.resize(120, 40)

    def resize(self, columns: int, rows: int) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    def drain(self, seconds: float) -> None:
        """Let the program write for this long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self._terminal], [], [], left)[0]:
                got = os.read(self._terminal, 4096 if self.rate else 65536)
                if self.rate:
                    time.sleep(min(len(got) / self.rate, max(0.0, until - time.monotonic())))

    def write(self, key: bytes) -> None:
        os.write(self._terminal, key)

    def press(self, key: bytes) -> float:
        """Milliseconds from a key to the next bytes of the screen."""
        while select.select([self._terminal], [], [], 0)[0]:
            os.read(self._terminal, 65536)
        begin = time.perf_counter()
        os.write(self._terminal, key)
        if not select.select([self._terminal], [], [], 30)[0]:
            return 30_000.0
        os.read(self._terminal, 65536)
        return (time.perf_counter() - begin) * 1000

    def wait(self, text: bytes) -> float:
        """Milliseconds until the program has written a text; 30,000 if it does not."""
        begin, seen = time.perf_counter(), b""
        while text not in seen:
            if not select.select([self._terminal], [], [], 30)[0]:
                return 30_000.0
            seen += os.read(self._terminal, 65536)
        return (time.perf_counter() - begin) * 1000

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)
