"""The phase rail, and under it one row that says what is done or what waits."""

from __future__ import annotations

from akg_tui.core.plain import one_line
from akg_tui.tui.look import Look
from akg_tui.tui.snapshot import rail, status
from akg_tui.tui.spans import Line, fit, line
from akg_tui.tui.widgets.painted import Rows


class Rail(Rows):
    """Two rows; where there is room for one only, the second is the one that is shown."""

    def pull(self, look: Look) -> None:
        room = max(1, self.size.width - 2)
        told = self._told(look, room)
        rows: tuple[Line, ...] = (told,)
        if self.size.height > 1:
            rows = (rail(look.state, look.now, room), told)
        self.show(tuple(((" ", "text"), *row) for row in rows))

    def _told(self, look: Look, room: int) -> Line:
        if look.trouble:
            return fit(line((one_line(look.trouble), "log.error")), room)
        past = look.past is not None
        return status(look.state, look.activity, look.progress, look.now, room, past=past)
