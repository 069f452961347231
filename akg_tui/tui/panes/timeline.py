"""The timeline: shown while the past is on screen, and focused to move through the past.

Binds the keys of the past and reads clicks; `TimeTravel` carries them out.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.events import Click

from akg_tui.tui.keyboard import rekey
from akg_tui.tui.widgets.painted import Painted
from akg_tui.view.controls.time_travel import TimelineRows, event_at
from akg_tui.view.run_snapshot import Moment, RunSnapshot
from akg_tui.view.spans import Line


class Timeline(Painted[Moment | None], can_focus=True):
    def __init__(self) -> None:
        super().__init__("timeline", None)
        self._row_maker = TimelineRows()
        self.rekey()

    def rekey(self) -> None:
        rekey(self, "past")

    def pull(self, snapshot: RunSnapshot) -> None:
        self.display = snapshot.past is not None
        self.set_class(self.app.size.height < 16, "-one")
        self.show(snapshot.past)

    def paint(self, view: Moment | None, width: int, height: int) -> Sequence[Line]:
        return self._row_maker.rows(view, width) if view is not None and width > 0 else ()

    async def on_click(self, event: Click) -> None:
        if self.view is not None:
            seq = event_at(event.x - 1, self.view.last, self.content_size.width)
            await self.app.run_action(f"app.past_go({seq})")
