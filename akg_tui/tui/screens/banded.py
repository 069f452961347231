"""A screen that renders what is to be painted, and is painted whole in bands of columns, so that
keys are heard between two of them.

Textual renders every widget for every update, however small; a pane that has been rendered
before is cheap, but not free. And after another size of the terminal, or another theme,
everything is rendered anew: at 200×60 that is a whole frame's work and more. What is painted for
any other reason is painted at once. Bands are of columns as panes stand side by side.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar, cast

from textual._compositor import Compositor
from textual.geometry import Region
from textual.screen import Screen

from akg_tui.tui.clock import backlog

if TYPE_CHECKING:
    from textual.strip import Strip

T = TypeVar("T")

COLUMNS = 40
"""Of a band: at 80×24 there are two."""

PAUSE_S = 0.001

MOST_WRITES = 5
"""That wait for the terminal: two frames. Textual holds 30; one more would hold the loop."""

SLOW_PAUSE_S = 0.03


class Sparing(Compositor):
    """Renders only what is seen in the part of the screen that is painted.

    Textual's own renders every widget there, those that others hide too, and has all their rows cut
    wherever the edge of any widget is. A row that needs no cut then keeps itself among what was
    made of it: a cycle for each row of each pane ever painted, that garbage collection has to find.
    """

    def _render_chops(
        self, crop: Region, is_rendered_line: Callable[[int], bool]
    ) -> Sequence[Mapping[int, Strip]]:
        chops: list[dict[int, Strip | None]] = [dict.fromkeys(cuts[:-1]) for cuts in self.cuts]
        for widget, (region, clip) in self.visible_widgets.items():  # the first is in front
            seen = region.intersection(clip)
            # One that is gone may still be where the last layout put it.
            if not seen or not crop.overlaps(seen) or not widget.is_attached:
                continue
            left, right = seen.column_span
            rows = []
            for y in seen.line_range:
                if is_rendered_line(y):
                    cuts = [cut for cut in self.cuts[y] if left <= cut <= right]
                    row = chops[y]
                    for cut, end in pairwise(cuts):
                        if row[cut] is None and end > crop.x and cut < crop.right:
                            rows.append((y, row, cuts))
                            break
            if not rows:
                continue
            top, last = rows[0][0], rows[-1][0]
            part = Region(left - region.x, top - region.y, seen.width, last - top + 1)
            strips = widget.render_lines(part)
            for y, row, cuts in rows:
                strip = strips[y - top]
                whole = len(cuts) == 2 and strip.cell_length == seen.width
                pieces = (strip,) if whole else strip.divide([cut - left for cut in cuts[1:]])
                for cut, piece in zip(cuts, pieces, strict=False):
                    if row[cut] is None:
                        row[cut] = piece
        return cast("Sequence[Mapping[int, Strip]]", chops)


class Banded(Screen[T]):
    """Paints the whole of itself in several steps, and nothing that would have to wait for a slow
    terminal: once that has taken what it was sent, it is painted as it is by then.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._compositor = Sparing()
        self._bands: deque[Region] = deque()
        self._put_off = False

    def _compositor_refresh(self) -> None:
        if not self.is_current or self.app.is_inline:
            super()._compositor_refresh()
            return
        if backlog(self.app._driver) > MOST_WRITES:
            self._dirty_widgets.clear()  # where they are is known to the compositor
            if not self._put_off:
                self._put_off = True
                self.set_timer(SLOW_PAUSE_S, self._try_again)
            return
        dirty = self._compositor._dirty_regions
        whole = self._compositor.size.region
        if whole not in dirty:
            super()._compositor_refresh()
            return
        dirty.clear()
        if not self._bands:  # the first not in one go with the layout that came before it
            self.set_timer(PAUSE_S, self._paint_band)
        self._bands = deque(
            Region(left, 0, min(COLUMNS, whole.width - left), whole.height)
            for left in range(0, whole.width, COLUMNS)
        )

    def _try_again(self) -> None:
        self._put_off = False
        self._compositor_refresh()

    def _paint_band(self) -> None:
        """Paint the next columns; a screen that is covered now is painted whole when it is back."""
        if not self._bands or not self.is_current:
            self._bands.clear()
            return
        slow = backlog(self.app._driver) > MOST_WRITES
        if not slow:
            self._compositor._dirty_regions.add(self._bands.popleft())
            super()._compositor_refresh()
        if self._bands:
            self.set_timer(SLOW_PAUSE_S if slow else PAUSE_S, self._paint_band)
