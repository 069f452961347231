"""The timeline: shown while a person looks at the past, and focused to move through it.

Owns the keys of the past and the place of the mouse on it. The journey is the app's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from textual.events import Click

from akg_tui.tui.keyboard import rekeyed
from akg_tui.tui.screens.run_screen import bindings
from akg_tui.tui.widgets.painted import Painted
from akg_tui.view.controls.time_travel import TimelineRows, event_at
from akg_tui.view.run_snapshot import Moment, RunSnapshot
from akg_tui.view.spans import Line

if TYPE_CHECKING:
    from akg_tui.tui.time_travel_actions import Travelling


class Timeline(Painted[Moment | None], can_focus=True):
    DEFAULT_CSS = """
    Timeline { display: none; height: 3; padding: 0 1; background: $ink-gold-deep; }
    Timeline.-one { height: 1; }
    """
    BINDINGS = bindings("past")

    def __init__(self) -> None:
        super().__init__("timeline", None)
        self._strip = TimelineRows()
        self.rekey()

    def rekey(self) -> None:
        """Bind the keys that the keymap of now gives to the commands of the past."""
        if self._merged_bindings is not None:
            self._bindings = rekeyed(self._merged_bindings)

    @property
    def _journey(self) -> Travelling:
        return cast("Travelling", self.app)

    def pull(self, look: RunSnapshot) -> None:
        self.display = look.past is not None
        self.set_class(self.app.size.height < 16, "-one")
        self.show(look.past)

    def paint(self, view: Moment | None, width: int, height: int) -> Sequence[Line]:
        return self._strip.rows(view, width) if view is not None and width > 0 else ()

    def on_click(self, event: Click) -> None:
        if self.view is not None:
            room = self.content_size.width
            self._journey.travel_to(event_at(event.x - 1, self.view.last, room))

    def action_event(self, step: int) -> None:
        self._journey.travel_by(step)

    def action_round(self, step: int) -> None:
        self._journey.travel_round(step)

    def action_page(self, step: int) -> None:
        """A twentieth of the run."""
        if self.view is not None:
            self._journey.travel_by(step * max(1, self.view.last // 20))

    def action_edge(self, edge: str) -> None:
        if self.view is not None:
            self._journey.travel_to(1 if edge == "home" else self.view.last)

    def action_play(self) -> None:
        self._journey.travel_play()

    def action_speed(self, step: int) -> None:
        self._journey.travel_speed(step)
