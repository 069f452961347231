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
    from textual.timer import Timer, TimerCallback
    from textual.widget import Widget

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
            rows, first, end = [], right, left
            for y in seen.line_range:
                if is_rendered_line(y):
                    cuts = [cut for cut in self.cuts[y] if left <= cut <= right]
                    row = chops[y]
                    missing = [
                        (cut, until)
                        for cut, until in pairwise(cuts)
                        if row[cut] is None and until > crop.x and cut < crop.right
                    ]
                    if missing:
                        rows.append((y, row, cuts))
                        first, end = min(first, missing[0][0]), max(end, missing[-1][1])
            if not rows:
                continue
            top, last = rows[0][0], rows[-1][0]
            part = Region(first - region.x, top - region.y, end - first, last - top + 1)
            strips = widget.render_lines(part)
            for y, row, cuts in rows:
                if y - top >= len(strips):  # a widget that has not heard of its new size yet
                    break
                strip = strips[y - top]
                inner = [cut for cut in cuts if first < cut <= end]
                whole = inner == [end] and strip.cell_length == end - first
                pieces = (strip,) if whole else strip.divide([cut - first for cut in inner])
                for cut, piece in zip((first, *inner), pieces, strict=False):
                    if row.get(cut, strip) is None:
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

    def set_timer(
        self,
        delay: float,
        callback: TimerCallback | None = None,
        *,
        name: str | None = None,
        pause: bool = False,
    ) -> Timer:
        """Call once after `delay` seconds, however late.

        Textual skips what is overdue where it looks at the clock for the first time, even if
        nothing comes after it: a stall of a millisecond there, and no band was painted any more.
        """
        timer = super().set_timer(delay, callback, name=name, pause=pause)
        timer._skip = False
        return timer

    def _compositor_refresh(self) -> None:
        top = self.app.screen if self.is_current else None
        if not isinstance(top, Banded) or self.app.is_inline:
            super()._compositor_refresh()
            return
        self._dirty_widgets.clear()  # as Textual's own: their regions have been handed over
        dirty = self._dirty()
        if top is not self:
            # Textual's own would have the whole of what was painted once painted again for ever.
            if dirty:
                top._compositor._dirty_regions |= dirty
                dirty.clear()
                top._refresh_out_of_turn()
        elif self._has_to_wait():
            if not self._put_off:
                self._put_off = True
                self.set_timer(SLOW_PAUSE_S, self._try_again)
        elif self._compositor.size.region in dirty:
            if not self._bands:  # the first not in one go with the layout that came before it
                self.set_timer(PAUSE_S, self._paint_band)
            self._begin_anew()
        else:
            super()._compositor_refresh()

    def _dirty(self) -> set[Region]:
        """What has changed since the last paint. What lies outside the screen, which may have
        shrunk, is left out: Textual fails on it.
        """
        dirty = self._compositor._dirty_regions
        inside = {region.intersection(self._compositor.size.region) for region in dirty}
        dirty.clear()
        dirty.update(filter(None, inside))
        return dirty

    def _hand_over(self) -> set[Widget]:
        """Tell the compositor what widgets have changed, as Textual does before it paints; return
        those of which it does not know yet where they are.
        """
        known = self._dirty_widgets & self._compositor.visible_widgets.keys()
        self._compositor.update_widgets(known)
        return self._dirty_widgets - known

    def _has_to_wait(self) -> bool:
        """Whether what is painted now would wait in a queue, or be thrown away."""
        return bool(self.app._batch_count) or backlog(self.app._driver) > MOST_WRITES

    def _try_again(self) -> None:
        self._put_off = False
        self._refresh_out_of_turn()

    def _refresh_out_of_turn(self) -> None:
        later = self._hand_over()
        self._compositor_refresh()
        self._dirty_widgets |= later

    def _begin_anew(self) -> None:
        whole = self._compositor.size.region
        self._compositor._dirty_regions.clear()
        self._bands = deque(
            Region(left, 0, min(COLUMNS, whole.width - left), whole.height)
            for left in range(0, whole.width, COLUMNS)
        )

    def _paint_band(self) -> None:
        """Paint the next columns; a screen that is covered now is painted whole when it is back,
        one that shines through a dialog by that dialog.
        """
        if not self._bands or not self.is_current:
            self._bands.clear()
            return
        later = self._hand_over()
        dirty = self._dirty()
        whole = self._compositor.size.region
        wait = self._has_to_wait()
        if self.app.screen is not self:
            self._bands.clear()
            dirty.add(whole)
            self._compositor_refresh()
        elif not wait:
            if whole in dirty:
                self._begin_anew()
            if band := self._bands.popleft().intersection(whole):
                dirty.add(band)
                super()._compositor_refresh()
        self._dirty_widgets |= later
        if self._bands:
            self.set_timer(SLOW_PAUSE_S if wait else PAUSE_S, self._paint_band)
