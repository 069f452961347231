"""The pane of the evaluation under way: its stages, its pairs, and its interval as it narrows."""

from __future__ import annotations

from collections.abc import Sequence

from akg_tui.tui.panes.pane import Pane
from akg_tui.tui.widgets.painted import Painted
from akg_tui.view.evaluation_rows import EstimateHistory, eval_rows
from akg_tui.view.language import tr
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import Line


class EvalPane(Painted[RunSnapshot | None], Pane, can_focus=True):
    def __init__(self) -> None:
        super().__init__("eval", None)
        self.narrowing = EstimateHistory()
        self.reword()

    def reword(self) -> None:
        super().reword()
        self.entitle(tr("evaluation"))

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
        if not self.moved((*seen, snapshot.progress, seconds, past)):
            return
        self.show(snapshot)

    def paint(self, view: RunSnapshot | None, width: int, height: int) -> Sequence[Line]:
        if view is None:
            return ()
        # The history holds the current estimates, not those of that moment of the past.
        unknown = view.past is not None and view.state.running is not None
        seen = EstimateHistory() if unknown else self.narrowing
        return eval_rows(view.state, seen, view.now, width, height)
