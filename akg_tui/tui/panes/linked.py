"""The best kernel and the one under work, scrolled together: what stands beside what.

Knows where each of the two stood; the rows and the scrolling are the panes' own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from akg_tui.tui.panes.source import SourcePane


class Linked:
    """Follows whichever of the two was scrolled since the last time it looked."""

    def __init__(self, best: SourcePane, working: SourcePane) -> None:
        self._best, self._working = best, working
        self._tops: tuple[int, int] | None = None

    def follow(self, active: str) -> None:
        """Bring the other one along; where both have moved, the `active` pane leads.

        Nothing happens while one of them is not on screen.
        """
        best, working = self._best, self._working
        if not (best.display and working.display):
            self._tops = None
            return
        tops = best.top, working.top
        if tops == self._tops:
            return
        before, self._tops = self._tops, tops
        led_by_best = before is not None and tops[1] == before[1]
        if led_by_best or (active == best.id and before is not None and tops[0] != before[0]):
            working.to_row(working.row_of_best(best.top + 1))
        else:
            best.to_row(working.best_line_of(working.top) - 1)
        self._tops = best.top, working.top
