"""A widget that paints lines: it owns a view, and turns it into strips when asked to draw.

It redraws only when the view it is shown differs from the one it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from akg_tui.tui.spans import Line
from akg_tui.tui.themes import Inked, Inks
from akg_tui.tui.widgets.guarded import Guarded

View = TypeVar("View")


def inks_of(widget: Widget) -> Inks:
    """The colours of the app that `widget` is in."""
    app = widget.app
    assert isinstance(app, Inked)
    return app.inks


class Painted(Guarded, Generic[View]):
    """Paints what `paint` makes of the view, a row at a time.

    A subclass says in `paint` which lines stand for a view in a given room.
    """

    ALLOW_SELECT = False

    def __init__(self, name: str, view: View) -> None:
        super().__init__(id=name)
        self._view = view
        self._painted: tuple[tuple[int, int], Sequence[Line]] | None = None

    @property
    def view(self) -> View:
        return self._view

    def paint(self, view: View, width: int, height: int) -> Sequence[Line]:
        raise NotImplementedError

    def show(self, view: View) -> bool:
        """Show another view; True when it differs from the one before."""
        if view == self._view:
            return False
        self._view = view
        self._painted = None
        self.refresh()
        return True

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._painted = None

    def reword(self) -> None:
        super().reword()
        self._painted = None
        self.refresh()

    def lines(self) -> Sequence[Line]:
        """What is on screen now, as lines."""
        room = (self.size.width, self.size.height)
        if not self.broken:
            if self._painted is not None and self._painted[0] == room:
                return self._painted[1]
            try:
                self._painted = room, self.paint(self._view, *room)
            except Exception as error:  # noqa: BLE001 - the pane shows it, the run goes on
                self.broke(error)
            else:
                return self._painted[1]
        return self.fault_lines(room[0])

    def render_line(self, y: int) -> Strip:
        lines = self.lines()
        ground = self.ground
        if y >= len(lines):
            return Strip([Segment(" " * self.size.width, ground)], self.size.width)
        strip = inks_of(self).strip(lines[y], ground)
        return strip.extend_cell_length(self.size.width, ground).crop(0, self.size.width)


class Rows(Painted[tuple[Line, ...]]):
    """Shows the lines it is given, as they are."""

    def __init__(self, name: str) -> None:
        super().__init__(name, ())

    def paint(self, view: tuple[Line, ...], width: int, height: int) -> Sequence[Line]:
        return view
