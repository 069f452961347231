"""A screen that is painted in bands of columns, and the dimming behind dialogs.

Keys are heard between two bands. Textual renders every widget for every change, which at 200×60
takes longer than a key may wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rich.segment import Segment
from rich.style import Style
from textual._compositor import Compositor
from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip

from akg_tui.tui.pull_clock import backlog

if TYPE_CHECKING:
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


_NO_STYLE = Style()


class Dimming(Banded[T]):
    """A screen that shows the one below it dimmed, as far as its own background lets it."""

    def render_lines(self, crop: Region) -> list[Strip]:
        below = self._seen_below()
        if below is None:
            return super().render_lines(crop)
        return dimmed(below, self.styles.background, crop)

    def render_line(self, y: int) -> Strip:
        below = self._seen_below()
        if below is None:
            return super().render_line(y)
        return dimmed(below, self.styles.background, Region(0, y, self.size.width, 1))[0]

    def _seen_below(self) -> Compositor | None:
        stack = self.app.screen_stack
        if self.styles.background.a >= 1 or self not in stack[1:]:
            return None
        return stack[stack.index(self) - 1]._compositor


def dimmed(compositor: Compositor, colour: Color, crop: Region) -> list[Strip]:
    """Return the rows of a part of a screen under a colour that lets it shine through."""
    rows = compositor._render_chops(crop, crop.line_range.__contains__)
    strips = []
    for y in crop.line_range:
        if y >= len(rows):  # the one below is not as large yet
            strips.append(Strip.blank(crop.width))
            continue
        cuts = compositor.cuts[y]
        places = [
            place for place, end in enumerate(cuts[1:]) if cuts[place] < crop.right and end > crop.x
        ]
        pieces = [
            (rows[y][cuts[place]] or Strip.blank(cuts[place + 1] - cuts[place])).apply_filter(
                _DIM, colour
            )
            for place in places
        ]
        left = cuts[places[0]] if places else crop.x
        row = Strip.join(pieces).crop(crop.x - left, crop.right - left)
        strips.append(row.adjust_cell_length(crop.width))
    return strips


class _Dim(LineFilter):
    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(text, _under(background, ink or _NO_STYLE)) for text, ink, _ in segments]


_DIM = _Dim()


@lru_cache(maxsize=4096)
def _under(colour: Color, style: Style) -> Style:
    plain = style.clear_meta_and_links()
    if colour.a == 0:
        return plain
    ink, paper = plain.color, plain.bgcolor
    return plain + Style.from_color(
        (Color.from_rich_color(ink) + colour).rich_color if ink is not None else None,
        (Color.from_rich_color(paper) + colour).rich_color if paper is not None else None,
    )
