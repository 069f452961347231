"""The pane of the evaluation under way: its stages, its pairs, and its interval as it narrows."""

from __future__ import annotations

from akg_tui.core.sanitize import Said
from akg_tui.tui.panes.pane import Pane, Shared
from akg_tui.tui.widgets.line_view import LineView
from akg_tui.view.evaluation_rows import EstimateHistory, eval_rows
from akg_tui.view.run_snapshot import RunSnapshot


class EvalPane(LineView, Pane):
    TITLE = Said("evaluation")

    def __init__(self, name: str, shared: Shared) -> None:
        super().__init__(name)
        self.narrowing = EstimateHistory()

    def see(self, snapshot: RunSnapshot) -> None:
        """Store the estimates, also while the pane is not on screen. The past has none."""
        if snapshot.past is None:
            self.narrowing.see(snapshot.state, snapshot.progress)

    def pull(self, snapshot: RunSnapshot) -> None:
        state = snapshot.state
        seconds = int(snapshot.now) if state.running else 0
        found = (state.baseline, state.measured, state.final)
        seen = (state.running, found, len(state.attempts), state.phase)
        past = snapshot.past is not None
        room = self.room, self.page
        if not self.moved((*seen, snapshot.progress, seconds, past, room)):
            return
        # The history holds the current estimates, not those of that moment of the past.
        unknown = past and state.running is not None
        narrowing = EstimateHistory() if unknown else self.narrowing
        self.put(eval_rows(state, narrowing, snapshot.now, *room))
