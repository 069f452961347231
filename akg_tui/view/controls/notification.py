"""Notifications that the run waits: terminal bell, terminal title, desktop notification.

Sent while the terminal reports that it is not focused; a terminal that reports nothing counts as
focused. Text sent to the terminal is sanitized and of bounded length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from akg_tui.core.sanitize import one_line
from akg_tui.view.language import tr

if TYPE_CHECKING:
    from akg_tui.view.controls.approvals import Request


BELL = "\x07"
_PUSH_TITLE, _POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
_WIDTH = 120


def title(text: str) -> str:
    """Return the escape codes that set the title of the terminal to `text`."""
    return f"\x1b]2;{one_line(text, _WIDTH)}\x07"


def note(text: str, environment: Mapping[str, str]) -> str:
    """Return the codes of a desktop notification: OSC 777 if supported, else OSC 9."""
    body = one_line(text, _WIDTH).replace(";", ",")
    kin = environment.get("TERM", "").startswith(("rxvt", "foot"))
    speaks_777 = kin or environment.get("VTE_VERSION")
    code = f"\x1b]777;notify;akg-tui;{body}\x07" if speaks_777 else f"\x1b]9;akg-tui: {body}\x07"
    if environment.get("TMUX"):
        doubled = code.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{doubled}\x1b\\"
    return code


class WaitNotifier:
    """A notifier that reports each new request once, and restores the title on focus."""

    def __init__(self, write: Callable[[str], None], environment: Mapping[str, str]) -> None:
        self._write = write
        self._environment = environment
        self._told: set[str] = set()
        self._titled = False

    def look(self, asks: Sequence[Request], *, focused: bool) -> None:
        """Compare the requests that wait now with those notified; call at every refresh."""
        if focused or not asks:
            self._told = {ask.ident for ask in asks}
            self.rest()
            return
        new = [ask for ask in asks if ask.ident not in self._told]
        if not new:
            return
        self._told |= {ask.ident for ask in new}
        text = f"{new[0].who}: {new[0].title}"
        if not self._titled:
            self._write(_PUSH_TITLE)
            self._titled = True
        many = tr("{number} waiting: {text}", number=len(asks), text=text)
        self._write(title(many if len(asks) > 1 else text))
        self._write(note(text, self._environment))
        self._write(BELL)

    def rest(self) -> None:
        """Restore the title of the terminal, if it was changed."""
        if self._titled:
            self._write(_POP_TITLE)
            self._titled = False
