"""What the workbench has told its person: the footer has one row and a few seconds for it.

Keeps the newest in memory and shows them on a screen of their own; nothing is written.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from textual.screen import ModalScreen

from akg_tui.core.sanitize import one_line
from akg_tui.view.language import retold, tr

if TYPE_CHECKING:
    from akg_tui.tui.appearance import Dressed
    from akg_tui.tui.screens.run_screen import Steering

    class _Base(Dressed, Steering): ...
else:
    _Base = object

MOST = 200
AGAIN_S = 6.0  # as long as the footer shows it: said again within it, it is one notice


class Notices:
    """The newest `MOST` notices with their times, seconds since the epoch; the oldest first."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, str]] = deque(maxlen=MOST)

    def keep(self, text: str, now: float) -> None:
        last, told = self._kept[-1] if self._kept else (0.0, "")
        if text and not (text == told and now - last < AGAIN_S):
            self._kept.append((now, text))

    def text(self) -> str:
        """One line each, with the time of day."""
        return "\n".join(
            f"{time.strftime('%H:%M:%S', time.localtime(at))}  {text}" for at, text in self._kept
        )


class Noticing(_Base):
    """An app that keeps its notices."""

    notices: Notices

    def notice(self, text: str) -> None:
        """Keep what is told; the keys of a chord being typed are no notice."""
        if not self.chords.pending:
            self.notices.keep(retold(one_line(text)), self.wall_clock())

    def action_messages(self) -> None:
        from akg_tui.tui.screens.dialogs import Reading

        if isinstance(self.screen, ModalScreen):
            return
        text = self.notices.text() or tr("Nothing was told yet.")
        self.push_screen(Reading(tr("told so far"), text, follows=True))
