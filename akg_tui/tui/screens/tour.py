"""A tour: steps in a box at the bottom, over the screen that they are about. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Click
from textual.screen import ModalScreen

from akg_tui.tui.widgets.painted import Rows
from akg_tui.view.controls.tour_stops import Stop, stop_rows
from akg_tui.view.language import tr

MOST_COLUMNS = 100


class Tour(ModalScreen[None]):
    """`show` is called with the pane of each step, for a deck to show it."""

    CSS_PATH = "../styles/tour.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,right,space", "turn(1)", show=False),
        Binding("left,backspace", "turn(-1)", show=False),
        Binding("escape,q", "dismiss(None)", show=False),
    ]

    def __init__(self, stops: Sequence[Stop], show: Callable[[str], None]) -> None:
        super().__init__()
        self._stops = stops
        self._show_pane = show
        self._at = 0
        self.rows = Rows("tour")

    def compose(self) -> ComposeResult:
        yield self.rows

    def on_mount(self) -> None:
        self.rows.border_title = Content(tr("a tour of {number} steps", number=len(self._stops)))
        self._show()

    def on_resize(self) -> None:
        self._show()

    def _show(self) -> None:
        self._show_pane(self._stops[self._at].pane)
        rows = stop_rows(self._stops, self._at, max(20, min(MOST_COLUMNS, self.app.size.width) - 4))
        self.rows.styles.height = len(rows) + 2
        self.rows.show(tuple(rows))

    def action_turn(self, step: int) -> None:
        """Go to the next step or back; after the last one the tour is over."""
        if self._at + step >= len(self._stops):
            self.dismiss(None)
            return
        self._at = max(0, self._at + step)
        self._show()

    def on_click(self, event: Click) -> None:
        self.action_turn(1)
