"""What an exception in a pane comes to: it is shown in that pane, and the run goes on.

Owns the fault and how it is told. A pane that broke is tried again when the run has moved.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import PurePath

from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from akg_tui.core.plain import one_line
from akg_tui.tui.language import tr
from akg_tui.tui.spans import BLANK, Line, hang


class Guarded(Widget):
    """A widget that survives its own mistakes. `fault` is what is drawn instead of it."""

    _fault: BaseException | None = None
    _fault_seq = -1
    _seen: object = None
    _ground: Style | None = None

    @property
    def ground(self) -> Style:
        """The style that rows are drawn on. Textual walks all ancestors for it, so it is asked
        for once a frame, not once a row.
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
        """Whether `seen`, which stands for all that is drawn, differs from the last time."""
        if seen == self._seen:
            return False
        self._seen = seen
        return True

    def forget(self) -> None:
        """Draw anew at the next pull, whatever was drawn before."""
        self._seen = None

    def reword(self) -> None:
        """Say its own words anew: in another language, or with other keys."""
        self.forget()

    def take(self, seq: int, pull: Callable[[], None]) -> None:
        """Pull what the run is after its event `seq`, and keep what goes wrong in this pane."""
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
        """Show `error` in place of what the pane would show."""
        self._fault = error
        self.forget()
        self.refresh()

    def fault_lines(self, room: int) -> list[Line]:
        """The fault as rows: what, where, and that it costs nothing but this pane."""
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
