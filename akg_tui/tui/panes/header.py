"""The top row: what is tuned, how far it got, how good it is, what it cost."""

from __future__ import annotations

from akg_tui.tui.look import Look
from akg_tui.tui.snapshot import header
from akg_tui.tui.widgets.painted import Rows


class Header(Rows):
    def pull(self, look: Look) -> None:
        self.show((header(look.state, look.now, max(1, self.size.width - 1)),))
