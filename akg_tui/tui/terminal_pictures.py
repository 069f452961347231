"""Asks the terminal whether it shows pictures, before the workbench begins to read its keys.

An answer that comes later would be read as keys, so only terminals that say by their name that
they may show pictures are asked, and only their answer counts.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import sys
import termios
import time
import tty
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from akg_tui.view.controls.preferences import Preferences

ANSWER_S = 2.0
CELL = (10, 20)
"""The pixels of a cell where the terminal does not tell them."""

_MAY = ("xterm-kitty", "xterm-ghostty")
_WITHIN = ("TMUX", "STY", "ZELLIJ")
"""Variables of programs that stand between the workbench and the terminal."""


def may_show(wanted: Preferences | None, environment: Mapping[str, str]) -> bool:
    """Return whether pictures are wanted, and this may be a terminal that has them."""
    if any(environment.get(name) for name in _WITHIN) or environment.get("TERM") not in _MAY:
        return False
    return wanted is None or wanted.pictures != "off"


def asked(wanted: Preferences | None) -> bool:
    """Ask the terminal whether it shows pictures. Call before anything else reads its input."""
    if not may_show(wanted, os.environ) or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    from akg_tui.view.pictures import kitty

    keys = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(keys)
        tty.setraw(keys, termios.TCSANOW)
        try:
            os.write(sys.stdout.fileno(), kitty.QUERY.encode())
            return kitty.shows_pictures(_answer(keys))
        finally:
            termios.tcsetattr(keys, termios.TCSANOW, before)
    except (OSError, termios.error):
        return False


def _answer(keys: int) -> str:
    from akg_tui.view.pictures.kitty import answered

    text, deadline = "", time.monotonic() + ANSWER_S
    while not answered(text):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([keys], [], [], left)[0]:
            break
        read = os.read(keys, 4096)
        if not read:
            break
        text += read.decode("latin-1")
    return text


def cell_pixels() -> tuple[int, int]:
    """Return the width and the height of a cell in pixels."""
    out = sys.__stdout__
    try:
        size = fcntl.ioctl(out.fileno(), termios.TIOCGWINSZ, bytes(8)) if out is not None else b""
        rows, columns, width, height = struct.unpack("HHHH", size)
    except (OSError, ValueError, struct.error):
        return CELL
    if not (rows and columns and width >= 2 * columns and height >= 2 * rows):
        return CELL
    return width // columns, height // rows
