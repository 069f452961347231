"""The pane of the roofline: that of each case, and how near the kernels come."""

from __future__ import annotations

from akg_tui.core.sanitize import Said
from akg_tui.tui.panes.pane import Pane, Shared
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.view.evidence.roofline_chart import LimitsView, kernels_of, limits_rows, title_of
from akg_tui.view.run_snapshot import RunSnapshot


class RooflinePane(LineView, Pane):
    TITLE = Said("roofline")

    def __init__(self, name: str, shared: Shared) -> None:
        super().__init__(name)
        self._reader = shared.evidence

    def pull(self, snapshot: RunSnapshot) -> None:
        state = snapshot.state
        roofs = self._reader.roofs(snapshot)
        waits = "" if roofs else self._reader.waits(snapshot)
        measured = state.measured, state.baseline, len(state.attempts), state.undone, state.best
        room = self.room, self.page
        if not self.moved((roofs, waits, measured, room)):
            return
        view = LimitsView(roofs or (), kernels_of(state), waits)
        self.put(limits_rows(view, *room))
        self.entitle(title_of(view, 60))
