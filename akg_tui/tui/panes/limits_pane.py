"""The pane of the limits: the roofline of each case, and how near the kernels come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from akg_tui.tui.panes.pane import Pane
from akg_tui.tui.widgets.painted import Painted
from akg_tui.view.evidence.roofline_chart import LimitsView, kernels_of, limits_rows, title_of
from akg_tui.view.language import tr
from akg_tui.view.run_snapshot import RunSnapshot
from akg_tui.view.spans import Line

if TYPE_CHECKING:
    from akg_tui.tui.evidence_reader import EvidenceReader


class LimitsPane(Painted[LimitsView | None], Pane, can_focus=True):
    def __init__(self) -> None:
        super().__init__("limits", None)
        self.reader: EvidenceReader | None = None
        self.reword()

    def reword(self) -> None:
        super().reword()
        self.entitle(tr("roofline"))

    def pull(self, snapshot: RunSnapshot) -> None:
        assert self.reader is not None
        state = snapshot.state
        roofs = self.reader.roofs(snapshot)
        findings = self.reader.findings(snapshot, state.standing_blob) if roofs else None
        waits = "" if roofs else self.reader.waits(snapshot)
        measured = state.measured, state.baseline, len(state.attempts), state.undone, state.best
        if not self.moved((roofs, findings, waits, measured)):
            return
        view = LimitsView(roofs or (), kernels_of(state), findings, waits)
        self.show(view)
        self.entitle(title_of(view, 60))

    def paint(self, view: LimitsView | None, width: int, height: int) -> Sequence[Line]:
        return limits_rows(view, width, height) if view is not None else ()
