"""The plan: a row for each item, the active one kept in sight."""

from __future__ import annotations

from textual.content import Content

from akg_tui.tui.look import Look
from akg_tui.tui.snapshot import plan_rows, plan_subtitle
from akg_tui.tui.widgets.lineview import LineView


class PlanPane(LineView):
    def __init__(self) -> None:
        super().__init__("plan")
        self._shown: tuple[object, ...] = ()
        self.border_title = Content("1 plan")

    def pull(self, look: Look) -> None:
        state = look.state
        room, page = self.room, self.page
        shown = (state.items, state.phase, room, page)
        if shown == self._shown:
            return
        self._shown = shown
        rows, at = plan_rows(state, room, page)
        self.put(rows)
        self.border_subtitle = Content(plan_subtitle(state))
        if not self.has_focus:
            self.reveal(at)
