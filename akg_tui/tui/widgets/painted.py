"""A widget that paints lines, and shows its own fault if painting fails.

The widget redraws only if the new view differs from the old one. A broken pane is tried again after
the next event of the run.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from akg_tui.core.sanitize import one_line
from akg_tui.tui.themes import Inked, Inks
from akg_tui.view.language import tr
from akg_tui.view.spans import BLANK, Line, hang


class FaultShowing(Widget):
    """A widget that shows an exception of its own in place of its content."""

    _fault: BaseException | None = None
    _fault_seq = -1
    _seen: object = None
    _ground: Style | None = None

    @property
    def ground(self) -> Style:
        """The style of the background of rows. Textual walks all ancestors to compute it, so it is
        cached for a frame.
        """
        if self._ground is None:
            self._ground = self.rich_style
        return self._ground

    def render_lines(self, crop: Region) -> list[Strip]:
        self._ground = None
        return super().render_lines(crop)

    @property
    def broken(self) -> bool:
        return self._fault is not None

    def moved(self, seen: object) -> bool:
        """Return whether `seen`, a value for everything drawn, differs from the last one."""
        if seen == self._seen:
            return False
        self._seen = seen
        return True

    def forget(self) -> None:
        """Draw again at the next pull, even if nothing has changed."""
        self._seen = None

    def reword(self) -> None:
        """Rewrite the words of the widget, in another language or with other keys."""
        self.forget()

    def rekey(self) -> None:
        """Bind the keys of the current keymap, if the widget has keys of its own."""

    def take(self, seq: int, pull: Callable[[], None]) -> None:
        """Call `pull` for the run after event `seq`; a broken pane waits for another `seq`."""
        if self.broken:
            if seq == self._fault_seq:
                return
            self._fault = None
            self.refresh()
        self._fault_seq = seq
        self.attempt(pull)

    def attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever a pane's mistake, the run goes on
            self.broke(error)

    def broke(self, error: Exception) -> None:
        """Show `error` in place of the content."""
        self._fault = error
        self.forget()
        self.refresh()

    def fault_lines(self, room: int) -> list[Line]:
        """Return the fault as rows: what failed, where, and that the run goes on."""
        error = self._fault
        assert error is not None
        room = max(1, room)
        text = f"{type(error).__name__}: {one_line(str(error), 300)}".rstrip(": ")
        rows = [*hang(tr("this cannot be shown"), room, (), "log.error"), BLANK]
        rows += hang(text, room, (), "text")
        if frames := traceback.extract_tb(error.__traceback__)[-1:]:
            name = PurePath(frames[0].filename).name
            where = tr("{file}, line {number}", file=name, number=frames[0].lineno)
            rows += hang(where, room, (), "faint")
        return [*rows, BLANK, *hang(tr("The run goes on."), room, (), "muted")]


View = TypeVar("View")


def inks_of(widget: Widget) -> Inks:
    """Return the colours of the widget's app."""
    app = widget.app
    assert isinstance(app, Inked)
    return app.inks


class Painted(FaultShowing, Generic[View]):
    """Paints the lines that `paint` returns for the view, a row at a time.

    A subclass defines `paint`: the lines of a view for a width and a height.
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
        """Show another view; True if it differs from the previous one."""
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
        """Return the lines on screen."""
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
    """Shows the given lines unchanged."""

    def __init__(self, name: str) -> None:
        super().__init__(name, ())

    def paint(self, view: tuple[Line, ...], width: int, height: int) -> Sequence[Line]:
        return view
