"""Time to the first frame of the workbench, and to the help of the command line.

Real processes, a real pseudo-terminal of 120×40. The machine's own speed is measured in
the same run (a bare interpreter, an import of Textual), so the figures can be compared
between machines as ratios.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

REPEATS = 9
FIRST_FRAME_MS = 300.0
HELP_MS = 150.0
FIRST = b"opening the run"  # the first frame
DECK = b"gelu_bias"  # the deck's header: the run is open and shown
COMMAND = [sys.executable, "-m", "akg_tui"]


def _spawn_ms(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begin) * 1000


def _frames(folder: Path) -> tuple[float, float, bool]:
    """Milliseconds from exec to the first frame and to the deck; whether torch was loaded."""
    begin = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.execv(COMMAND[0], [*COMMAND, "demo"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    seen = b""
    try:
        first = 0.0
        while DECK not in seen:
            if not select.select([terminal], [], [], 30)[0]:
                raise TimeoutError("no frame within 30 s")
            seen += os.read(terminal, 65536)
            if not first and FIRST in seen:
                first = (time.perf_counter() - begin) * 1000
        deck = (time.perf_counter() - begin) * 1000
        deadline = time.monotonic() + 5  # let the run open and work before looking inside
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.2)[0]:
                os.read(terminal, 65536)
        torch = "libtorch" in Path(f"/proc/{pid}/maps").read_text()
    finally:
        _leave(pid, terminal)
    return first, deck, torch


def _leave(pid: int, terminal: int) -> None:
    """End the run with all its processes, or the next start would be measured beside them."""
    os.kill(pid, signal.SIGTERM)
    with contextlib.suppress(OSError):
        while os.read(terminal, 65536):
            pass
    os.waitpid(pid, 0)
    os.close(terminal)


def main(_words: list[str]) -> bool:
    """Measure, print, and say whether the bounds hold."""
    pythons, textuals, helps, frames = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        _frames(Path(folder))
        for _ in range(REPEATS):  # in turns, as the machine is not always as fast
            pythons.append(_spawn_ms([sys.executable, "-c", "pass"]))
            textuals.append(_spawn_ms([sys.executable, "-c", "import textual.app"]))
            helps.append(_spawn_ms([*COMMAND, "--help"]))
            frames.append(_frames(Path(folder)))
    python, textual = statistics.median(pythons), statistics.median(textuals)
    helped = statistics.median(helps)
    frame = statistics.median(first for first, _, _ in frames)
    deck = statistics.median(shown for _, shown, _ in frames)
    torch = any(loaded for _, _, loaded in frames)
    held = frame <= FIRST_FRAME_MS and helped <= HELP_MS and not torch
    figures = {
        "benchmark": "startup",
        "first_frame_ms": round(frame, 1),
        "deck_ms": round(deck, 1),
        "first_frame_over_import_textual": round(frame / textual, 2),
        "import_textual_ms": round(textual, 1),
        "help_ms": round(helped, 1),
        "help_over_bare_python": round(helped / python, 2),
        "python_ms": round(python, 1),
        "torch_in_workbench": torch,
        "held": held,
    }
    print(json.dumps(figures))
    return held
