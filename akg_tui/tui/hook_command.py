"""Runs the user's hook command for a notice, in a thread of its own, with a time limit.

The command is the user's own, from `config.toml`, and no shell reads it. A failure is told once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from akg_tui.core.sanitize import one_line
from akg_tui.view.language import tr

LIMIT_S = 10.0
MOST_WAITING = 20
"""Notices that wait while the command runs; of more, the oldest are dropped."""


class HookCommand:
    """Runs one command at a time. `say` is called in the thread, at most once for each command."""

    def __init__(self, say: Callable[[str], None], limit_s: float = LIMIT_S) -> None:
        self._say = say
        self._limit_s = limit_s
        self._waiting: deque[tuple[tuple[str, ...], dict[str, Any]]] = deque(maxlen=MOST_WAITING)
        self._lock = threading.Lock()
        self._works = False
        self._failed: set[tuple[str, ...]] = set()

    def run(self, command: tuple[str, ...], told: dict[str, Any]) -> None:
        """Run `command` with the JSON of `told` on its standard input; return at once."""
        with self._lock:
            self._waiting.append((command, told))
            if self._works:
                return
            self._works = True
        threading.Thread(target=self._work, name="hook command", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._works = False
                    return
                command, told = self._waiting.popleft()
            why = _failure(command, json.dumps(told).encode() + b"\n", self._limit_s)
            if why and command not in self._failed:
                self._failed.add(command)
                self._say(tr("the notice command failed: {why}", why=why))


def _failure(command: Sequence[str], sent: bytes, limit_s: float) -> str:
    """Run the command; return why it failed, or ""."""
    name = one_line(command[0], 60)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        return f"{name}: {error.strerror or error}"
    try:
        process.communicate(sent, timeout=limit_s)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return tr("{name}: it took longer than {limit} s", name=name, limit=f"{limit_s:g}")
    code = process.returncode
    return tr("{name}: exit code {code}", name=name, code=code) if code else ""
