"""Finding in a pane: words as they are typed, or a line of a kernel by its number.

Knows where a search began; how a pane looks through its rows is the pane's business.
"""

from __future__ import annotations

from akg_tui.tui.language import tr
from akg_tui.tui.panes.source import SourcePane
from akg_tui.tui.widgets.lineview import LineView


class Finding:
    """A search in one pane, from where it stood when the search began."""

    def __init__(self, pane: LineView) -> None:
        self._pane = pane
        self._start = pane.top
        self._at: int | None = None
        self._text = ""

    def typed(self, text: str) -> str:
        """Look for `text` from the beginning of the search; what to tell about it."""
        if text.startswith(":"):
            return ""
        self._text = text
        self._at = self._pane.search(text, self._start)
        return self._told()

    def step(self, step: int) -> str:
        """The next place that holds the text, or with -1 the one before."""
        if self._at is not None:
            self._at = self._pane.search(self._text, self._at + step, step)
        return self._told()

    def to_line(self, text: str) -> str:
        """Go to the line that ``:120`` or ``120`` names."""
        digits = text.lstrip(":").strip()
        if not digits.isdecimal():
            return tr("{text} is not the number of a line", text=repr(text))
        if not isinstance(self._pane, SourcePane):
            self._pane.to_row(int(digits) - 1)
            return tr("row {number}", number=int(digits))
        return self._pane.to_line(int(digits))

    def _told(self) -> str:
        if not self._text:
            return ""
        if self._at is None:
            return tr("not found: {text}", text=self._text)
        return tr("row {number} of {many}: enter next, up before, esc leaves",
                  number=self._at + 1, many=self._pane.searchable)  # fmt: skip

    def end(self) -> None:
        self._pane.search("", 0)
