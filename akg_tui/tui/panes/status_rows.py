"""The top rows: the task and its progress, and the phase rail with finished and waiting work."""

from __future__ import annotations

from akg_tui.core.sanitize import one_line
from akg_tui.tui.widgets.painted import Rows
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import Line, fit, line
from akg_tui.view.status import header, phase_row, status


class Header(Rows):
    def pull(self, snapshot: RunSnapshot) -> None:
        room = max(1, self.size.width - 1)
        self.show(
            (header(snapshot.state, snapshot.now, room, snapshot.progress, rests=snapshot.at_rest),)
        )


class Rail(Rows):
    """Two rows: the phases and the status; with room for one row only the status."""

    def pull(self, snapshot: RunSnapshot) -> None:
        room = max(1, self.size.width - 2)
        told = self._told(snapshot, room)
        rows: tuple[Line, ...] = (told,)
        if self.size.height > 1:
            state, now = snapshot.state, snapshot.now
            rests, holds = snapshot.at_rest, snapshot.holds
            rows = (phase_row(state, now, room, holds=holds, at_rest=rests), told)
        self.show(tuple(((" ", "text"), *row) for row in rows))

    def _told(self, snapshot: RunSnapshot, room: int) -> Line:
        if snapshot.trouble:
            return fit(line((one_line(snapshot.trouble), "log.error")), room)
        past, holds = snapshot.past is not None, snapshot.holds
        state, doing, progress = snapshot.state, snapshot.activity, snapshot.progress
        return status(
            state,
            doing,
            progress,
            snapshot.now,
            room,
            past=past,
            holds=holds,
            at_rest=snapshot.at_rest,
        )
